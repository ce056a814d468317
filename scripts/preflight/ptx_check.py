"""What a release does with PTX texts: which functions it drops, and which kernels of a file it compiles.

* A token or head that it cannot read makes the text ``unusable``: another one of the container is taken.
* An instruction or statement that it does not take drops the function around it, without a word.
* What only a later pass refuses makes the whole module fail.
* Some variables end the process.

All of it by reading the release's source, not seen on a GPU. Types of operands are not checked.

A container holds the same source compiled for several GPUs. From the last PTX text to the first, the first
one without anything dropped is taken, else the one with the fewest; a text that cannot be read counts for
nothing (vosen/ZLUDA, zluda/src/impl/module.rs). Numbers of processors play no part.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import Final

from msgspec import Struct

from scripts.binary.image import FileBytes
from scripts.binary.payload import MAX_TEXT, Opener, PtxGroup, Unopened
from scripts.preflight.kernels import ContainerKernels, DroppedFunction, ImageOutcome, KernelReport, PtxImage
from scripts.preflight.ptx_scan import Form, PtxFunction, PtxScan, scan_ptx
from scripts.preflight.ptx_table import PtxTable, Rule, all_rules, linked, of_system, ptx_tables

#: How often what a function calls is looked up again: once is enough without recursion.
_PASSES: Final = 8


class TextVerdict(Struct, frozen=True, kw_only=True):
    """What a release makes of one PTX text.

    Attributes:
        unusable: why the text cannot be read at all; empty where it can.
        dropped: functions (kernels and others) that are left out.
        directives: how many other directives are left out.
        fails: why the module as a whole does not load, with how often.
        ends: why the process ends.
        linking: a function of another file that it calls: it is made for linking while the program runs.
        differs: by kernel, the ids of the rules by which it may compute something else.
        refused: how many instructions are not taken.
    """

    unusable: str = ""
    dropped: dict[str, DroppedFunction] = {}
    directives: int = 0
    fails: dict[str, int] = {}
    ends: str = ""
    linking: str = ""
    differs: dict[str, tuple[str, ...]] = {}
    refused: int = 0

    @property
    def lost(self) -> int:
        """What a release counts when it chooses among texts: functions and directives left out."""
        return len(self.dropped) + self.directives


class PtxChecker:
    """One text, to be held against several tables: what does not depend on the release is found out once."""

    def __init__(self, scan: PtxScan) -> None:
        """Take a text that was scanned."""
        self.scan = scan

    def verdict(self, table: PtxTable) -> TextVerdict:
        """Hold the text against a release's table."""
        scan = self.scan
        bad = [table.refused(f.forms) for f in scan.functions]
        both = zip(scan.functions, bad, strict=True)
        refused = sum(f.forms[form] for f, forms in both for form in forms if form.opcode)
        unusable = _unusable(scan, table)
        if unusable:
            return TextVerdict(unusable=unusable, refused=refused)
        dropped = _dropped(scan, table, bad)
        kept = [f for f in scan.functions if f.defined and f.name not in dropped]
        if linking := _linking(scan):
            return TextVerdict(dropped=dropped, linking=linking, refused=refused)
        gone = [_declared(one) for one in scan.outside if _rule(table, "outside", one)]
        fails: Counter[str] = Counter()
        for why, number in _later(kept, scan, table):
            fails[why] += number
        fails.update(_undefined(scan, kept, dropped, gone))
        return TextVerdict(
            dropped=dropped,
            directives=len(gone),
            fails=dict(fails),
            ends=next((why for one in scan.outside if (why := _rule(table, "ends", one))), ""),
            differs=self._differs(kept, table),
            refused=refused,
        )

    @cached_property
    def _differences(self) -> dict[str, frozenset[int]]:
        """Name by function the rules for silent differences that its own statements meet, by their number."""
        rules = tuple(enumerate(all_rules("differs")))
        return {f.name: _met(self.scan, f, rules) for f in self.scan.functions if f.defined}

    def _differs(self, kept: list[PtxFunction], table: PtxTable) -> dict[str, tuple[str, ...]]:
        """Return by kernel what may differ in it or in what it calls."""
        rules = all_rules("differs")
        here = frozenset(number for number, rule in enumerate(rules) if table.release in rule.releases)
        met = {function.name: self._differences[function.name] & here for function in kept}
        for _ in range(_PASSES):  # callees come first, but for recursion
            before = dict(met)
            for function in kept:
                met[function.name] = met[function.name].union(*(met.get(n, ()) for n in function.calls))
            if met == before:
                break
        return {
            function.name: tuple(sorted({rules[number].id for number in met[function.name]}))
            for function in kept
            if function.kernel and met[function.name]
        }


def _rule(table: PtxTable, part: str, statement: str) -> str:
    """Return why a statement outside functions is not taken; empty where it is."""
    rules = (rule for rule in table.rules(part) if rule.needs in statement and rule.pattern.search(statement))
    return next((rule.why for rule in rules), "")


def _declared(statement: str) -> str:
    """Return the name that a statement outside functions declares."""
    head = re.split(r"[=\[,]", statement, maxsplit=1)[0]
    return head.split()[-1] if head.split() else ""


def _unusable(scan: PtxScan, table: PtxTable) -> str:
    """Say why no part of a text can be read."""
    if scan.odd:
        return f"a bare {scan.odd}" if scan.odd == "_" else f"the character {scan.odd}"
    if not scan.head:
        return "its head is not .version and .target sm_N"
    if scan.target_more and not (scan.target_more == "debug" and table.reads_more):
        return f".target …, {scan.target_more}"
    if scan.bits == 32 and not table.reads_more:  # noqa: PLR2004 - the size of an address
        return ".address_size 32"
    return ""


def _linking(scan: PtxScan) -> str:
    """Name a function of another file that is called and that no driver brings; empty where there is none."""
    defined = {f.name for f in scan.functions if f.defined}
    declared = {f.name for f in scan.functions} - defined
    called = (name for f in scan.functions for name in f.calls)
    return next((name for name in called if name in declared and not of_system(name)), "")


def _dropped(scan: PtxScan, table: PtxTable, bad: Sequence[dict[Form, str]]) -> dict[str, DroppedFunction]:
    """Return the functions that are left out. A call needs its callee read before, and by name."""
    dropped: dict[str, DroppedFunction] = {}
    read: set[str] = set()
    for function, forms in zip(scan.functions, bad, strict=True):
        header = _header(function, table)
        if header:
            dropped[function.name] = _gone(function, header, "")
            continue
        if function.defined and (gone := _body(scan, function, table, read, forms)) is not None:
            dropped[function.name] = gone
        read.add(function.name)
    return dropped


def _header(function: PtxFunction, table: PtxTable) -> str:
    """Name what a function's head has that is not read."""
    if not function.whole:
        return "no list of parameters"
    header = function.header.decode("ascii", "replace")
    return next((rule.why for rule in table.rules("header") if rule.pattern.search(header)), "")


def _body(
    scan: PtxScan, function: PtxFunction, table: PtxTable, read: AbstractSet[str], bad: Mapping[Form, str]
) -> DroppedFunction | None:
    """Name what a function's body has that is not taken: the first by place."""
    if function.unified:
        loads = [form for form in function.forms if form.opcode == "ld" and table.unified(form)]
        bad = {**dict.fromkeys(loads[:1], ".unified not implemented"), **bad}
    if bad:
        form = next(form for form in function.forms if form in bad)  # in the order of their first places
        return _gone(function, form.text, bad[form], scan.line_of(function, form))
    for rule in table.rules("special"):
        if rule.effect == "function":
            for name in sorted(function.special):
                if rule.pattern.fullmatch(name):
                    return _gone(function, f"%{name}", "special register")
    for name in function.calls:
        if name.startswith("%"):
            return _gone(function, "call", "through a register")
        if name not in read:
            return _gone(function, "call", f"{name} is not known before")
    return None


def _gone(function: PtxFunction, instruction: str, why: str, line: int = 0) -> DroppedFunction:
    return DroppedFunction(name=function.name, instruction=instruction, why=why, line=line or function.line)


def _later(kept: list[PtxFunction], scan: PtxScan, table: PtxTable) -> Iterator[tuple[str, int]]:
    """Yield why later passes refuse the module, and how often."""
    functions = {f.name for f in scan.functions if not f.kernel}
    rules = [rule for rule in table.rules("special") if rule.effect == "module"]
    for function in kept:
        for form, why in table.failing(function.forms).items():
            yield f"{form.text}: {why}", function.forms[form]
        exits = 0 if function.kernel else sum(n for f, n in function.forms.items() if f.opcode == "exit")
        if exits:
            yield "exit in a function that is no kernel", exits
        for name in sorted(function.special):
            if any(rule.pattern.fullmatch(name) for rule in rules):
                yield f"%{name}", 1
        if function.addresses & functions:
            yield "the address of a function", 1


def _undefined(
    scan: PtxScan,
    kept: list[PtxFunction],
    dropped: dict[str, DroppedFunction],
    gone: list[str],
) -> Iterator[str]:
    """Yield the names that functions use and that are left out or lie in another file."""
    bodies = {f.name for f in kept}
    functions = {f.name for f in scan.functions if not f.kernel}
    called = {name for f in kept for name in f.calls}
    for name in sorted(called & functions - bodies - linked()):
        why = f" was dropped ({dropped[name].text})" if name in dropped else " has no body here"
        yield f"a call of {name}, which{why}"
    named = frozenset().union(*(scan.names(function) for function in kept)) if gone else frozenset()
    for name in gone:
        if name in named:
            yield f"the variable {name}, which cannot be read"


def _met(scan: PtxScan, function: PtxFunction, rules: Sequence[tuple[int, Rule]]) -> frozenset[int]:
    """Return the numbers of the rules that a function's statements meet."""
    found: set[int] = set()
    for opcode in {form.opcode for form in function.forms}:
        open_ = {number: rule.pattern for number, rule in rules if opcode in rule.opcodes}
        for statement in scan.statements(function, opcode) if open_ else ():
            hits = [number for number, pattern in open_.items() if pattern.match(statement)]
            found.update(hits)
            for number in hits:
                del open_[number]
            if not open_:
                break
    return frozenset(found)


def read_kernels(source: FileBytes, groups: Sequence[PtxGroup]) -> KernelReport:
    """Unpack and check the PTX of one file for every release with a table. One text is held at a time."""
    opener, tables = Opener(source, budget=MAX_TEXT), ptx_tables()
    containers: list[ContainerKernels] = []
    unread: dict[str, None] = {}
    texts = 0
    for group in groups:
        read = _container(opener, group, tables, unread)
        texts += len(read.images)
        if read.images:
            containers.append(read)
    of = sum(len(group.entries) for group in groups)
    return KernelReport(containers=tuple(containers), texts=texts, of=of, unread=tuple(unread))


def _container(
    opener: Opener, group: PtxGroup, tables: Sequence[PtxTable], unread: dict[str, None]
) -> ContainerKernels:
    """Read texts from the last to the first until every release has one that it takes as a whole."""
    images: list[PtxImage] = []
    best: dict[str, tuple[int, TextVerdict]] = {}
    open_ = list(tables)
    for entry in reversed(group.entries):
        text = opener.text(entry)
        if isinstance(text, Unopened):
            unread[text.reason] = None
            continue
        image, verdicts = _image(text, f"sm_{entry.sm}{entry.letter}", entry.isa, open_)
        for table in open_:
            _, known = best.get(table.name, (0, None))
            if _better(verdicts[table.name], known):
                best[table.name] = (len(images), verdicts[table.name])
        images.append(image)
        open_ = [table for table in open_ if best[table.name][1].unusable or best[table.name][1].lost]
        if not open_:
            break
    outcomes = {name: _outcome(images[number], number, verdict) for name, (number, verdict) in best.items()}
    return ContainerKernels(images=tuple(images), outcomes=outcomes, copies=group.copies)


def _image(
    text: bytes, target: str, isa: str, tables: Sequence[PtxTable]
) -> tuple[PtxImage, dict[str, TextVerdict]]:
    """Scan a text and hold it against tables; the text itself is let go."""
    scan = scan_ptx(text)
    checker = PtxChecker(scan)
    verdicts = {table.name: checker.verdict(table) for table in tables}
    return PtxImage(target=target, isa=isa, kernels=scan.kernels, instructions=scan.instructions), verdicts


def _better(new: TextVerdict, known: TextVerdict | None) -> bool:
    """Whether a text is taken rather than the one before it."""
    if known is None:
        return True
    if new.unusable or known.unusable:
        return bool(known.unusable) and not new.unusable
    return new.lost < known.lost


def _outcome(image: PtxImage, number: int, verdict: TextVerdict) -> ImageOutcome:
    """Say what becomes of the kernels of the text that is taken."""
    lost, why = "", ""
    if verdict.unusable:
        lost, why = "text", verdict.unusable
    elif verdict.linking:
        lost, why = "linking", f"a call of {verdict.linking}, which lies in another file"
    elif verdict.ends:
        lost, why = "ends", verdict.ends
    elif verdict.fails:
        lost, why = "module", next(iter(verdict.fails))
    kernels = set(image.kernels)
    return ImageOutcome(
        image=number,
        lost=lost,
        why=why,
        gone=tuple(one for name, one in verdict.dropped.items() if name in kernels),
        differs=verdict.differs,
        refused=verdict.refused,
    )
