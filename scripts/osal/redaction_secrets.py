"""The three nets for secrets, and the identifiers of machines: each finding is a span and its replacement."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Final, TypeVar

from scripts.osal import redaction_rules as rules

Text = TypeVar("Text", bytes, str)

#: Where something stands, and what takes its place.
Span = tuple[int, int, str]

_OPTION: Final = re.compile(r"(?<![\w-])--?[\w-]{0,40}$")
_NETRC: Final = re.compile(
    r"machine\s+\S{1,255}\s+login\s+(?P<login>[^\s<]{1,255})\s+password\s+(?P<password>[^\s<]{1,255})",
    re.IGNORECASE,
)
_URL_USER: Final = re.compile(r"://(?P<user>[^\s/@\"'<>]{1,500})@")
_URL_BEFORE: Final = re.compile(r"://[^\s/@\"'<>]{1,500}\Z")
_MAIL_HOST: Final = re.compile(r"@(?:[\w-]{1,63}\.){1,8}[^\W\d_]{2,}")
_BEARER: Final = re.compile(r"bearer\s+(?P<plain>[\w.~+/-]{8,4000}=*)", re.IGNORECASE)
_ENV_KEY: Final = re.compile(r"_KEY(?![\w])" + rules.SIGN + rules.VALUE)
_HARMLESS: Final = re.compile(
    r"gfx\w*|sm_\w*|v?\d+(?:\.\w+)*|[a-z]+\.[a-z]{1,4}|(?:[A-Za-z]:)?[\\/].*", re.IGNORECASE
)
#: What a parser says of a token.
_SYNTAX: Final = re.compile(
    r"(?:expected|invalid|bad|unknown|illegal|stray|eos|bos|pad)[ _]\Z", re.IGNORECASE
)
_PORT: Final = re.compile(r":\d{2,5}(?!\d)")
_HASH_BEFORE: Final = re.compile(r"(?:sha-?\d{1,3}|md5)[:=-]$")
_DIGEST: Final = re.compile(r"(?<![^/])(?:[0-9a-f]{64}|[0-9a-f]{40})(?![^/])")
_HASH_START: Final = re.compile(r"(?:sha-?\d{1,3}|md5)[=-]", re.IGNORECASE)


def _table(*, kept: str = "", **classes: str) -> bytes:
    """Make a table that maps a character to its class's letter or (``kept``) to itself, else to a blank."""
    letters = {ord(c): c for c in kept}
    letters |= {ord(c): letter for letter, members in classes.items() for c in members}
    return bytes(ord(letters.get(code, " ")) for code in range(256))


_LOWER, _UPPER, _DIGITS = "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789"
_CASES: Final = _table(l=_LOWER, u=_UPPER, d=_DIGITS)
_HEX: Final = _table(h=_DIGITS + "abcdefABCDEF", kept=":-.")
_NUMBERS: Final = _table(d=_DIGITS, kept=".-")
_CAPITALS: Final = _table(A=_DIGITS + _UPPER, kept="-")
_RUNS: Final = _table(x=_LOWER + _UPPER + _DIGITS + "+/_-")
_CHANGES: Final = (b"lu", b"ul", b"ld", b"dl", b"ud", b"du")


class View:
    """One text, and copies of it of the same length in which literals and shapes are found quickly."""

    def __init__(self, text: str) -> None:
        """Look at a text."""
        self.text = text
        self.raw = text.encode("latin-1", "replace")

    @cached_property
    def lower(self) -> bytes:
        """ASCII letters in lower case; what is not Latin is a question mark."""
        return self.raw.lower()

    def places(self, literal: str) -> Iterator[int]:
        """Yield where a literal stands, in any case."""
        if literal.isascii():
            yield from _finds(self.lower, literal.lower().encode())
        elif not self.text.isascii():
            for form in {literal, literal.upper(), literal.capitalize()}:
                yield from _finds(self.text, form)


def _finds(text: Text, literal: Text) -> Iterator[int]:
    at = text.find(literal)
    while at >= 0:
        yield at
        at = text.find(literal, at + 1)


def with_spans(text: str, spans: Iterable[Span]) -> str:
    """Return the text with the spans replaced; overlapping ones become one, named after the first of them."""
    pieces, at = [], 0
    order = {span: rank for rank, span in reversed(list(enumerate(spans)))}
    for start, end, put in _merged(sorted(order, key=lambda span: (span[0], order[span])), order):
        if text[start - 1 : start] == "<" and text[end : end + 1] == ">":  # a replacement of an earlier run
            continue
        pieces += [text[at:start], put]
        at = end
    return "".join([*pieces, text[at:]])


def _merged(spans: list[Span], order: dict[Span, int]) -> Iterator[Span]:
    here: Span | None = None
    rank = 0
    for span in spans:
        if here is not None and span[0] < here[1]:
            put = span[2] if order[span] < rank else here[2]
            rank = min(rank, order[span])
            here = (here[0], max(here[1], span[1]), put)
            continue
        if here is not None:
            yield here
        here, rank = span, order[span]
    if here is not None:
        yield here


def secrets_in(view: View) -> Iterator[Span]:
    """Find secrets and identifiers."""
    if "-----BEGIN" in view.text or "PuTTY" in view.text:
        yield from ((m.start(), m.end(), "<token>") for m in rules.BLOCKS.finditer(view.text))
    yield from _labelled(view)
    yield from _tokens(view)
    yield from _mail(view)
    yield from _addresses(view)
    yield from _identifiers(view)
    yield from _mixed_words(view)


# The first net: labels --------------------------------------------------------------------------------


def _compiled(labels: Iterable[tuple[str, str]], tail: str) -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((word, re.compile(f"(?:{label}){tail}", re.IGNORECASE)) for word, label in labels)


_SIGNED: Final = _compiled(rules.SECRETS, rules.SIGN + rules.VALUE)
_SPACED: Final = _compiled(rules.SECRETS, rules.BLANK + rules.VALUE)
_HEADERS: Final = _compiled(rules.HEADERS, rules.SIGN + "\\\\{0,3}[\"']?" + rules.LINE)
_SERIALS: Final = _compiled(rules.SERIALS, rules.SIGN + rules.VALUE)
_SPACED_SERIALS: Final = _compiled(rules.SERIALS, rules.BLANK + rules.VALUE)
_MACS: Final = _compiled(rules.ADDRESSES, "[\"']?[\\s:=]{1,9}[\"']?(?P<plain>[0-9a-f]{12})(?![0-9a-f])")
_NEXT_LABEL: Final = re.compile(r"\w+(?: \w+)?\s?:\s")


def _labelled(view: View) -> Iterator[Span]:
    """Find what a label announces."""
    yield from _values(view, _HEADERS, "<token>", _any_value)
    yield from _values(view, _SIGNED, "<token>", _any_value)
    yield from _values(view, _SPACED, "<token>", _spaced_value)
    yield from _values(view, _SERIALS, "<serial>", _any_value)
    yield from _values(view, _SPACED_SERIALS, "<serial>", _spaced_serial)
    yield from _values(view, _MACS, "<mac>", _any_value)
    yield from _values(view, (("bearer", _BEARER),), "<token>", _any_value)
    for at in _finds(view.text, "_KEY"):
        match = _ENV_KEY.match(view.text, at)
        if match is not None and _looks_secret(_value_of(match)) and len(_value_of(match)) >= 12:  # noqa: PLR2004 - shorter ones are names
            yield *_span_of(match), "<token>"
    for at in view.places("machine"):
        match = _NETRC.match(view.text, at)
        if match is not None:
            yield *match.span("login"), "<user>"
            yield *match.span("password"), "<token>"


def _values(
    view: View,
    labels: Iterable[tuple[str, re.Pattern[str]]],
    put: str,
    judge: Callable[[View, re.Match[str]], bool],
) -> Iterator[Span]:
    """Find the values of labels that a judge takes for what the label says."""
    for word, pattern in labels:
        for at in view.places(word):
            match = pattern.match(view.text, at)
            if match is not None and judge(view, match):
                yield *_span_of(match), put


def _group_of(match: re.Match[str]) -> str:
    return "quoted" if "quoted" in match.re.groupindex and match["quoted"] is not None else "plain"


def _span_of(match: re.Match[str]) -> tuple[int, int]:
    return match.span(_group_of(match))


def _value_of(match: re.Match[str]) -> str:
    return match[_group_of(match)]


def _any_value(view: View, match: re.Match[str]) -> bool:
    """Whether a value behind a sign is one: not an empty word, a count of tokens, a path, another label."""
    value, label = _value_of(match), match[0].lower()
    if rules.EMPTY.fullmatch(value) or _NEXT_LABEL.match(view.text, _span_of(match)[0]):
        return False
    if label.startswith("tokens") and value.replace(".", "").isdigit():
        return False
    if label.startswith("token") and not _looks_secret(value):
        return not _SYNTAX.search(view.text, max(0, match.start() - 12), match.start())
    return not ((label.startswith("pwd") and value[:1] in "/\\") or value[1:3] in {":\\", ":/"})


def _spaced_value(view: View, match: re.Match[str]) -> bool:
    """Whether a value behind a blank is one: prose goes on there, unless the label is an option."""
    value = _value_of(match)
    before = view.text[max(0, match.start() - 44) : match.start()]
    if _OPTION.search(before) and not value.startswith("-"):
        return not rules.EMPTY.fullmatch(value)
    return _looks_secret(value)


def _spaced_serial(view: View, match: re.Match[str]) -> bool:
    del view
    value = _value_of(match)
    return len(value) >= 5 and any(c.isdigit() for c in value) and _looks_secret(value)  # noqa: PLR2004 - a port's number


def _looks_secret(value: str) -> bool:
    """Whether a word mixes characters as words of prose do not."""
    if len(value) < 6 or _HARMLESS.fullmatch(value) or rules.EMPTY.fullmatch(value):  # noqa: PLR2004 - as above
        return False
    core = value.rstrip(".:)")
    digits = sum(c.isdigit() for c in core)
    odd = sum(not c.isalnum() and c not in "-_.()/:" for c in core)
    return (0 < digits < len(core) or odd > 0) or (core[1:] != core[1:].lower() and core != core.upper())


# The second net: known tokens --------------------------------------------------------------------------

_SHAPES: Final = tuple(
    (start, re.compile(r"(?<![A-Za-z0-9])" + re.escape(start) + rest))
    for starts, rest in rules.TOKENS
    for start in starts
)
_INNER: Final = tuple((word, re.compile(pattern)) for word, pattern in rules.INNER_TOKENS)


def _tokens(view: View) -> Iterator[Span]:
    """Find what has the shape of a known token."""
    for start, pattern in _SHAPES:
        for at in _finds(view.text, start):
            match = pattern.match(view.text, at)
            if match is not None:
                yield match.start(), match.end(), "<token>"
    for word, pattern in _INNER:
        for at in _finds(view.text, word):
            match = pattern.search(view.text, max(0, at - 40), at + 120)
            if match is not None:
                yield match.start(), match.end(), "<token>"
    for at in view.places("://"):
        match = _URL_USER.match(view.text, at)
        if match is not None:
            yield *match.span("user"), "<token>"


# Identifiers -------------------------------------------------------------------------------------------


def _mail(view: View) -> Iterator[Span]:
    """Find e-mail addresses; the user in a URL is found elsewhere."""
    for at in view.places("@"):
        start = at
        while start > max(0, at - 64) and (view.text[start - 1].isalnum() or view.text[start - 1] in "._%+-"):
            start -= 1
        match = _MAIL_HOST.match(view.text, at) if start < at else None
        if match is not None and not _URL_BEFORE.search(view.text, max(0, at - 500), at):
            yield start, match.end(), "<email>"


def _addresses(view: View) -> Iterator[Span]:
    numbers = view.raw.translate(_NUMBERS)
    for found in re.finditer(rb"d\.d{1,3}\.d{1,3}\.d{1,3}(?![.d])", numbers):
        start = found.start()
        while start > 0 and found.start() - start < 3 and numbers[start - 1 : start] == b"d":  # noqa: PLR2004 - digits of a byte
            start -= 1
        if _is_address(view, start, found.end()):
            yield start, found.end(), "<ip>"
    shape = view.raw.translate(_HEX)
    for found in re.finditer(rb"h:h{1,4}:h{1,4}:h|h::|::h", shape):
        start, end = found.start(), found.end()
        while start > 0 and shape[start - 1 : start] in {b"h", b":"} and found.start() - start < 40:  # noqa: PLR2004 - the longest
            start -= 1
        while shape[end : end + 1] in {b"h", b":"} and end - found.end() < 40:  # noqa: PLR2004 - the longest
            end += 1
        if _is_address_6(view, start, end):
            yield start, end, "<ip>"


def _is_address(view: View, start: int, end: int) -> bool:
    """Whether four numbers are the address of a machine, and not a version."""
    if view.text[start - 1 : start].isalnum() or view.text[start - 1 : start] in {".", "-", "_"}:
        return False
    if view.text[end : end + 1].isalnum() or view.text[end : end + 1] in {"-", "_"}:
        return False
    try:
        address = ipaddress.IPv4Address(view.text[start:end])
    except ValueError:
        return False
    if address.is_loopback or address.is_unspecified or address.is_multicast:
        return False
    before = view.text[max(0, start - 24) : start]
    if address.packed[0] < 10 and not rules.ADDRESS.search(before):  # noqa: PLR2004 - few addresses, most versions
        return _PORT.match(view.text, end) is not None
    return not rules.VERSION.search(before)


def _is_address_6(view: View, start: int, end: int) -> bool:
    """Whether groups of digits are an address: not a time, a device, or a name in C++."""
    before = view.text[start - 1 : start]
    if before.isalnum() or before in {".", "_", "-"} or view.text[end : end + 1].isalnum():
        return False
    try:
        address = ipaddress.IPv6Address(view.text[start:end].removesuffix(":"))
    except ValueError:
        return False
    return any(address in network for network in _GIVEN_OUT)


def _identifiers(view: View) -> Iterator[Span]:
    """Find numbers that belong to one machine, account or licence."""
    for word, pattern, put in _WORDED:
        for at in view.places(word):
            match = pattern.match(view.text, at)
            if match is not None:
                yield *match.span(len(match.groups())), put
    seen = {letter: view.raw.translate(classes) for letter, classes in _CLASSES.items()}
    for put, literal, edges in _SHAPED:
        shape = seen[literal[:1]]
        for at in _finds(shape, literal):
            end = at + len(literal)
            inside = shape[max(0, at - 1) : at] + shape[end : end + 1]
            letters = b"." not in literal or any(c in b"abcdef" for c in view.lower[at:end])
            if letters and not set(inside) & set(edges):
                yield at, end, put


_GIVEN_OUT: Final = tuple(map(ipaddress.IPv6Network, ("2000::/3", "fc00::/7", "fe80::/10")))
_CLASSES: Final = {b"h": _HEX, b"d": _NUMBERS, b"A": _CAPITALS}
_SHAPED: Final = tuple((put, shape.encode(), edges.encode()) for put, shape, edges in rules.SHAPED)
_WORDED: Final = tuple((word, re.compile(rest, re.IGNORECASE), put) for word, rest, put in rules.WORDED)


# The third net: words of chance -------------------------------------------------------------------------

_LONG: Final = 20
_LONG_ONE_CASE: Final = 28


def _mixed_words(view: View) -> Iterator[Span]:
    """Find long words that mix characters as only chance does."""
    runs, at = view.raw.translate(_RUNS), 0
    cases = view.raw.translate(_CASES)
    while (at := runs.find(b"x" * _LONG, at)) >= 0:
        end = runs.find(b" ", at)
        end = len(runs) if end < 0 else end
        while view.text[end : end + 1] == "=":
            end += 1
        if end - at <= 4_000:  # noqa: PLR2004 - data, no secret
            for first, last in _beside_digests(view.text[at:end], at):
                if _is_chance(cases[first:last]) and not _is_known(view, first, last):
                    yield first, last, "<token>"
        at = end


def _beside_digests(word: str, start: int) -> Iterator[tuple[int, int]]:
    """Find what a word holds besides parts of a path that are hashes, by which folders of ours are named."""
    at = 0
    for digest in _DIGEST.finditer(word):
        yield start + at, start + digest.start()
        at = digest.end()
    yield start + at, start + len(word)


def _is_chance(word: bytes) -> bool:
    """Judge a word by its classes of characters and how often they change."""
    lower, upper, digits = word.count(b"l"), word.count(b"u"), word.count(b"d")
    size = lower + upper + digits
    changes = sum(word.count(pair) for pair in _CHANGES)
    longest = max(map(len, word.split(b" ")))
    if min(lower, upper) >= 0.18 * size:
        enough = size >= _LONG - 2 and longest >= 9 and (digits > 0 or size >= 32)  # noqa: PLR2004 - see the module's tests
        return enough and changes >= 0.4 * (size - 1)
    if size < _LONG_ONE_CASE or min(lower, upper) > 0 or longest < 16:  # noqa: PLR2004 - as above
        return False
    return digits >= 0.08 * size and changes >= (0.25 if size < 40 else 0.18) * (size - 1)  # noqa: PLR2004 - as above


def _is_known(view: View, start: int, end: int) -> bool:
    """Whether a mixed word is a hash or a symbol that is no secret."""
    word = view.text[start:end]
    if all(c in "0123456789abcdefABCDEF-_" for c in word) or word.startswith(("_Z", "__Z", "_R")):
        return True
    before = view.lower[max(0, start - 8) : start].decode("latin-1")
    return _HASH_START.match(word) is not None or _HASH_BEFORE.search(before) is not None
