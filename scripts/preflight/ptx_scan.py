"""PTX text taken apart at the speed of the regular-expression engine: functions and their instructions.

Nothing here knows a stack. Instructions are counted by their form (opcode, modifiers, and the commas, braces,
brackets and bars of their operands): millions of instructions come to a few hundred forms.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

#: Bodies are read in pieces of this size, so that memory does not grow with them.
PIECE: Final = 1 << 20
#: So much of an opcode with its modifiers, and of what structures its operands, is kept: enough to refuse it.
MAX_FORM: Final = 512
#: An opcode is looked for at so many places where its letters stand.
_TRIES: Final = 1000
#: A longer statement is none that could differ without a word.
MAX_STATEMENT: Final = 4096
#: Characters that the lexer of no release takes. A bare ``_`` and a lone ``%`` are looked for apart.
_ODD: Final = (b"'", b"~", b"&", b"*", b"?", b"#", b"^")
_WORD: Final = rb"A-Za-z0-9_$"
_BARE: Final = re.compile(rb"_(?![" + _WORD + rb"])(?<=[^" + _WORD + rb"%.]_)")
_LINE_COMMENT: Final = re.compile(rb"//[^\n]*")
_BLOCK_COMMENT: Final = re.compile(rb"/\*.*?(?:\*/|\Z)", re.DOTALL)
_SECTION: Final = re.compile(rb"\.section\s++[^\s{]++\s*+\{[^}]*+(?:\}|\Z)")
_LINE_INFO: Final = re.compile(rb"\.(?:loc|file)\s[^\n]*")
_STRING: Final = re.compile(rb'"[^"\n]*"')
_HEAD: Final = re.compile(
    rb"\s*\.version\s+\d{1,3}\.\d{1,3}\s+\.target\s+sm_\d+[a-z]?(?![" + _WORD + rb"])"
    rb"(?P<more>[^.]*)(?:\.address_size\s+(?P<bits>\d+))?"
)
_FUNCTION: Final = re.compile(rb"\.(entry|func)(?![\w$])(?:\s*+\([^()]*+\))?\s*+([\w$%]++)\s*+(\(?)")
#: One statement up to its semicolon: labels and braces, a predicate, then an opcode or directive with its
#: modifiers. The group ends with the semicolon where there are no operands. Nothing in it backtracks.
_STATEMENT: Final = re.compile(
    rb"(?:[ \t\n\r\f\v{}]++|[" + _WORD + rb"%]++[ \t\n\r]*+:(?!:))*+"
    rb"(?:@[ \t\n\r]*+!?+[ \t\n\r]*+[" + _WORD + rb"%]++[ \t\n\r]++)?+"
    rb"(?:([a-z.][A-Za-z0-9_]*+(?:\.[A-Za-z0-9_]++(?:::[A-Za-z0-9_]++)*+)*+[ \t\n\r]*+;?+)"
    rb"(?:(?<=;)|[^;]*+;)|[^;]*+;)"
)
_VECTOR: Final = re.compile(rb"\{[^{}]*\}")
_BESIDE_SHAPE: Final = bytes(c for c in range(256) if c not in b",{}[]|;")
#: Special registers by how they begin; those that compilers number (%r1, %f2, %p3 …) do not begin so.
_SPECIAL: Final = re.compile(rb"%((?:[acdegilnstw]|re|pm)[A-Za-z0-9_]*|(?![" + _WORD + rb"]))")
_CALL: Final = re.compile(
    rb"(?<![" + _WORD + rb".%])call(?:\.uni)?\s++(?:\([^()]*+\)\s*+,\s*+)?([" + _WORD + rb"%]+)"
)
_ADDRESS: Final = re.compile(
    rb"(?<![" + _WORD + rb".%])mov\.[bu]\d{1,3}\s[^;,]{0,200}+,\s*([A-Za-z_$][" + _WORD + rb"]*)\s*;"
)
_BEFORE_OPCODE: Final = tuple(bytes([c]) for c in b" \t\n\r;:{}")
_AFTER_MODIFIERS: Final = tuple(bytes([c]) for c in b" \t\n\r;")
_AFTER_OPCODE: Final = tuple(bytes([c]) for c in b" \t\n\r.")
_NAME: Final = re.compile(rb"[A-Za-z_$][" + _WORD + rb"]*+")
_UNIFIED: Final = re.compile(rb"\]\s*\.unified")


class Form:
    """One form of instruction, or of a directive inside a function; ``form_of`` has one object for each.

    Attributes:
        opcode: the part before the first dot; empty for a directive.
        modifiers: what follows it, as written.
        shape: the commas and bars between operands, ``;`` where there are no operands.
    """

    __slots__ = ("modifiers", "opcode", "shape")

    def __init__(self, opcode: str, modifiers: str, shape: str) -> None:
        """Made by ``form_of`` alone."""
        self.opcode, self.modifiers, self.shape = opcode, modifiers, shape

    @property
    def text(self) -> str:
        """Opcode and modifiers as written."""
        return self.opcode + self.modifiers

    @property
    def operands(self) -> int:
        """How many operands there are; a vector in braces is one, ``p|q`` are two."""
        return 0 if self.shape == ";" else 1 + len(self.shape)


@lru_cache(maxsize=1 << 16)
def form_of(opcode: str, modifiers: str, shape: str) -> Form:
    """Return the form of an instruction."""
    return Form(opcode, modifiers, shape)


class PtxFunction(Struct, frozen=True, kw_only=True):
    """One ``.entry`` or ``.func``.

    Attributes:
        header: from its name to its body.
        whole: its name is followed by a list of parameters in brackets.
        body: where its body lies in the cleaned text; (0, 0) for a declaration.
        line: the line on which the body starts.
        forms: how often each form occurs.
        special: special registers, without ``%``.
        calls: what it calls, each once; a register where the call is indirect.
        addresses: names that it takes the address of by ``mov``.
        unified: a load says ``.unified`` behind its address.
    """

    name: str
    kernel: bool
    header: bytes
    whole: bool = True
    body: tuple[int, int] = (0, 0)
    line: int = 0
    forms: dict[Form, int] = {}
    special: frozenset[str] = frozenset()
    calls: tuple[str, ...] = ()
    addresses: frozenset[str] = frozenset()
    unified: bool = False

    @property
    def defined(self) -> bool:
        """Whether it has a body."""
        return self.body != (0, 0)


class PtxScan(Struct, frozen=True, kw_only=True):
    """What one PTX text holds.

    Attributes:
        text: without comments, strings and line information; newlines are where they were.
        odd: the first thing that no lexer takes, empty where there is none.
        head: whether ``.version`` and ``.target`` are as they must be; ``target_more`` is what else the
            target names, ``bits`` what ``.address_size`` says (0 without).
        outside: the statements around the functions.
    """

    text: bytes
    odd: str = ""
    head: bool = True
    target_more: str = ""
    bits: int = 0
    functions: tuple[PtxFunction, ...] = ()
    outside: tuple[str, ...] = ()

    @property
    def kernels(self) -> tuple[str, ...]:
        """The names of the kernels with a body, in order."""
        return tuple(f.name for f in self.functions if f.kernel and f.defined)

    @property
    def instructions(self) -> int:
        """How many instructions there are."""
        return sum(n for f in self.functions for form, n in f.forms.items() if form.opcode)

    def line_of(self, function: PtxFunction, form: Form) -> int:
        """Return the line on which an opcode with its modifiers first stands in a function."""
        (start, end), word = function.body, form.text.encode()
        at = start
        for _ in range(_TRIES):
            at = self.text.find(word, at, end)
            if at < 0:
                break
            if self._is_word(at, len(word)):
                return function.line + self.text.count(b"\n", start, at)
            at += 1
        return function.line

    def _is_word(self, at: int, length: int) -> bool:
        """Whether what lies at a place is an opcode with all its modifiers."""
        before, after = self.text[at - 1 : at], self.text[at + length : at + length + 1]
        return before in _BEFORE_OPCODE and after in _AFTER_MODIFIERS

    def statements(self, function: PtxFunction, opcode: str) -> Iterator[str]:
        """Yield a function's statements of one opcode, from it to before the semicolon, on one line."""
        word, (at, end) = opcode.encode(), function.body
        while (at := self.text.find(word, at, end)) >= 0:
            stop = self.text.find(b";", at, end)
            if stop < 0:
                return
            after = self.text[at + len(word) : at + len(word) + 1]
            if after in _AFTER_OPCODE and self.text[at - 1 : at] in _BEFORE_OPCODE:
                if stop - at < MAX_STATEMENT:
                    yield " ".join(self.text[at:stop].decode("ascii", "replace").split())
                at = stop
            else:
                at += len(word)

    def names(self, function: PtxFunction) -> frozenset[str]:
        """Return every name in a function's body."""
        return frozenset(map(_ascii, _NAME.findall(self.text, *function.body)))


def scan_ptx(text: bytes) -> PtxScan:
    """Take a PTX text apart. Never raises: what is odd is part of the answer. Time is linear in its size."""
    text = cleaned(text)
    head = _HEAD.match(text)
    has = _Has(functions=b".func" in text, unified=b".unified" in text)
    functions: list[PtxFunction] = []
    outside, at, line, counted = [], head.end() if head is not None else 0, 1, 0
    places = _function_places(text)
    for place, following in pairwise((*places, len(text))):
        if place < at:
            continue
        outside.append(text[at:place])
        function, at = _function(text, place, following, has)
        if function is not None and function.defined:
            line, counted = line + text.count(b"\n", counted, function.body[0]), function.body[0]
            function = replace(function, line=line)
        functions += [function] if function is not None else []
    outside.append(text[at:])
    return PtxScan(
        text=text,
        odd=_odd(text, functions),
        head=head is not None,
        target_more=head["more"].decode("ascii", "replace").strip(" ,\t\r\n") if head is not None else "",
        bits=int(head["bits"] or 0) if head is not None else 0,
        functions=tuple(functions),
        outside=tuple(filter(None, map(str.strip, b";".join(outside).decode("ascii", "replace").split(";")))),
    )


def cleaned(text: bytes) -> bytes:
    """Return a text without comments, strings and line information, every line where it was."""
    text = text.rstrip(b"\0")
    if b"//" in text:
        text = _LINE_COMMENT.sub(b"", text)
    if b"/*" in text:
        text = _BLOCK_COMMENT.sub(_blank, text)
    if b".section" in text:
        text = _SECTION.sub(_blank, text)
    if b".loc" in text or b".file" in text:
        text = _LINE_INFO.sub(b"", text)
    return _STRING.sub(b" ", text) if b'"' in text else text


def _blank(match: re.Match[bytes]) -> bytes:
    """Keep the lines of what is taken out."""
    return b" " + b"\n" * match[0].count(b"\n")


def _odd(text: bytes, functions: list[PtxFunction]) -> str:
    """Name the first thing that no lexer takes."""
    found = next((c.decode() for c in _ODD if c in text), "")
    if not found and _BARE.search(text):
        found = "_"
    return found or ("%" if any("" in f.special for f in functions) else "")


def _function_places(text: bytes) -> list[int]:
    """Return where ``.entry`` and ``.func`` stand."""
    places = []
    for word in (b".entry", b".func"):
        at = text.find(word)
        while at >= 0:
            places.append(at)
            at = text.find(word, at + len(word))
    return sorted(places)


class _Has(NamedTuple):
    """What a text holds at all; what it does not need not be looked for in each function."""

    functions: bool
    unified: bool


def _function(text: bytes, place: int, following: int, has: _Has) -> tuple[PtxFunction | None, int]:
    """Read one function; return it and where to go on."""
    head = _FUNCTION.match(text, place)
    if head is None:
        return None, place + 1
    opens, ends = text.find(b"{", head.end()), text.find(b";", head.end())
    name, kernel = head[2].decode("ascii", "replace"), head[1] == b"entry"
    if opens < 0 or 0 <= ends < opens:
        stop = ends if ends >= 0 else len(text)
        header = text[head.end() : stop]
        return PtxFunction(name=name, kernel=kernel, header=header, whole=bool(head[3])), stop
    stop = _body_end(text, opens + 1, following)
    return _with_body(text, (opens + 1, stop), name, kernel=kernel, head=head, has=has), stop


def _body_end(text: bytes, start: int, following: int) -> int:
    """Return where the brace closes that opens before ``start``.

    Compilers put it at the beginning of a line, before the ``following`` function.
    """
    depth, at = 1, start
    while (hit := text.find(b"\n}", at, following)) >= 0:
        depth += text.count(b"{", at, hit) - text.count(b"}", at, hit) - 1
        at = hit + 2
        if depth == 0:
            return hit + 1
        if depth < 0:
            break
    depth = 1
    for brace in re.compile(rb"[{}]").finditer(text, start):
        depth += 1 if brace[0] == b"{" else -1
        if depth == 0:
            return brace.start()
    return len(text)


def _with_body(
    text: bytes, body: tuple[int, int], name: str, *, kernel: bool, head: re.Match[bytes], has: _Has
) -> PtxFunction:
    """Count the forms of a body and note what else matters of it."""
    counts: Counter[tuple[bytes, bytes]] = Counter()
    special: set[bytes] = set()
    for piece in _pieces(text, *body):
        shapes = piece.translate(None, _BESIDE_SHAPE).split(b";")
        counts.update(zip(_STATEMENT.findall(piece), shapes, strict=False))
        special.update(_SPECIAL.findall(piece))
    forms: dict[Form, int] = {}
    for (token, shape), number in counts.items():
        if token:
            form = _form(token[:MAX_FORM], shape[:MAX_FORM])
            forms[form] = forms.get(form, 0) + number
    calls = _CALL.findall(text, *body) if any(form.opcode == "call" for form in forms) else ()
    addresses = _ADDRESS.findall(text, *body) if has.functions else ()
    unified = has.unified and _UNIFIED.search(text, *body) is not None
    return PtxFunction(
        name=name,
        kernel=kernel,
        header=text[head.end() : body[0] - 1],
        whole=bool(head[3]),
        body=body,
        forms=forms,
        special=frozenset(map(_ascii, special)),
        calls=tuple(dict.fromkeys(map(_ascii, calls))),
        addresses=frozenset(map(_ascii, addresses)),
        unified=unified,
    )


@lru_cache(maxsize=1 << 14)
def _form(token: bytes, shape: bytes) -> Form:
    """Give equal instructions one form, whatever blanks, vectors and scopes are around their operands."""
    opcode, dot, rest = token.rstrip(b"; \t\n\r").decode("ascii", "replace").partition(".")
    if token.endswith(b";"):
        return form_of(opcode, dot + rest, ";")
    if opcode == "call":
        return form_of(opcode, dot + rest, "")
    return form_of(opcode, dot + rest, _VECTOR.sub(b"", shape).translate(None, b"{}[]").decode())


def _ascii(name: bytes) -> str:
    return name.decode("ascii", "replace")


def _pieces(text: bytes, start: int, end: int) -> Iterator[bytes]:
    """Yield a body in pieces that end with a semicolon; a statement larger than a piece comes whole."""
    while start < end:
        cut = text.rfind(b";", start, min(start + PIECE, end)) + 1
        if cut <= start:
            cut = text.find(b";", start, end) + 1
        if cut <= start:
            return
        yield text[start:cut]
        start = cut
