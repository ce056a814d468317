"""Which GPU a person means, and what to use on it: which stack, shown how far and by whom, and what fails."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from msgspec import Struct

from scripts.app.scan import ARCHITECTURE, read_hipinfo
from scripts.errors import UsageError
from scripts.evidence.document import IDLE
from scripts.evidence.matrix import DocumentFact, document_fact
from scripts.evidence.merging import Cell, strongest
from scripts.evidence.store import EvidenceStore
from scripts.host.gpu import named_models
from scripts.host.hipinfo import parse
from scripts.host.support import USUAL, NativeWay, native_ways, no_stack_possible
from scripts.model import Level, Lock, Outcome, StackKind
from scripts.osal.fs import long_path
from scripts.osal.text import decoded, printable
from scripts.serialize import JsonRecord
from scripts.staging.select import NAME_OF_OS

#: Words of a product's name that people leave out.
FILLER: Final = frozenset(
    {"amd", "ati", "radeon", "graphics", "gfx", "gpu", "card", "tm", "r", "series", "ryzen", "igpu"}
)
_WORD: Final = re.compile(r"[a-z]+|\d+")
#: A name may mean so many architectures; more of them are no answer.
MOST_MEANT: Final = 3
LONGEST_PATH: Final = 260
LONGEST_LINE: Final = 60
HOW_TO_NAME: Final = (
    'write the product or the architecture, for example --for-gpu="RX 9060 XT" or --for-gpu=gfx1200; '
    "`invoke scan` names yours"
)


class Shown(JsonRecord, frozen=True, kw_only=True):
    """One thing that a document says.

    Attributes:
        application: the program; empty for checks and workloads.
        capability: the library, call family or probe; empty for a document as a whole.
        who: who saw it, and when.
        document: the file that says it.
        url: its public source, if it is a report.
        conflict: other documents say otherwise.
    """

    application: str
    capability: str
    level: Level | None
    outcome: Outcome
    detail: str
    who: str
    document: str
    url: str
    conflict: bool

    @property
    def word(self) -> str:
        """Its level where it passed, else how it ended."""
        return self.level.value if self.outcome is Outcome.PASS and self.level else self.outcome.value

    @property
    def what(self) -> str:
        """Name what it is about."""
        return " with ".join(part for part in (self.capability, self.application) if part) or "check"

    @property
    def verb(self) -> str:
        """Say ``works`` only where results were right: what was merely loaded is not known to work."""
        only_loads = self.level is not None and self.level.rank <= Level.LOADABLE.rank
        return "loads" if only_loads else "works"


class StackAdvice(JsonRecord, frozen=True, kw_only=True):
    """What documents say of one stack on the GPU.

    Attributes:
        stack: a stack's id, or words for a combination that no stack pins (``pinned`` is false then); empty
            where a report does not say what was used.
        whole: the document that says most for it as a whole, if one passed and stands.
        passed: capabilities that pass, the best shown first.
        os: the only system that the stack is for; empty where it is for any, or where no stack pins it.
    """

    stack: str
    pinned: bool
    whole: Shown | None
    passed: tuple[Shown, ...]
    failed: tuple[Shown, ...]
    os: str = ""

    @property
    def best(self) -> Shown | None:
        """The most that is shown: as a whole where that works, else in part."""
        return self.whole if self.proven else next(iter(self.passed), self.whole)

    @property
    def proven(self) -> bool:
        """Whether it works as a whole."""
        return self.whole is not None and self.whole.verb == "works"

    @property
    def in_part(self) -> str:
        """Say how much of it is shown where not the whole is."""
        return "works in part" if self.best is not None and self.best.verb == "works" else "loads"

    @property
    def only(self) -> str:
        """Say that it works, or loads, on its one system."""
        how = "proven" if self.proven else self.in_part
        return f"{how} on {NAME_OF_OS.get(self.os, self.os)} only: {self.stack}"


class GpuAdvice(JsonRecord, frozen=True, kw_only=True):
    """The answer for one architecture.

    Attributes:
        os: the system that the answer is for, ``windows`` or ``linux``.
        names: the products that were meant, where a name was given.
        stacks: what documents know: pinned stacks for the system first, the best shown first.
        elsewhere: pinned stacks for another system that something passed on, the best shown first.
        untried: pinned stacks for the system that list the architecture, or any, and that no document speaks
            of.
        native: ways without translation for the usual programs; each is the better way unless it says
            why not.
        refusal: why no stack can serve it; empty where one may.
    """

    gfx: str
    os: str
    names: tuple[str, ...]
    stacks: tuple[StackAdvice, ...]
    elsewhere: tuple[StackAdvice, ...]
    untried: tuple[str, ...]
    native: tuple[NativeWay, ...]
    refusal: str

    JSON = "gfx os names verdict stacks elsewhere untried native refusal"

    @property
    def proven(self) -> bool:
        """Whether a pinned stack for the system passed as a whole."""
        return not self.refusal and any(each.pinned and each.proven for each in self.stacks)

    @property
    def verdict(self) -> str:
        """Say in one sentence what to use."""
        if self.refusal:
            return self.refusal
        first = next((each for each in self.stacks if each.pinned and each.best), None)
        if first is not None and first.best is not None:
            shown = f"{first.best.word} ({first.best.what}), {first.best.who}"
            return (
                f"use {first.stack}: {shown}" if first.proven else f"{first.stack} {first.in_part}: {shown}"
            )
        here = NAME_OF_OS.get(self.os, self.os)
        if self.untried:
            none = f"no pinned stack for {here} has a pass on {self.gfx}; untried: {', '.join(self.untried)}"
        elif any(each.pinned for each in self.stacks):
            none = f"no pinned stack for {here} has a pass on {self.gfx}"
        else:
            none = f"no pinned stack for {here} is for {self.gfx}"
        return none if not self.elsewhere else f"{none}; {self.elsewhere[0].only}"


def advise(store: EvidenceStore, lock: Lock, *, gfx: str, os: str, names: Sequence[str] = ()) -> GpuAdvice:
    """Answer for one architecture from the evidence, the lock, and the table of native ways."""
    facts = _Facts(store)
    known = [
        _about(stack, pinned, list(cells), facts, os=lock.stacks[stack].requires.os if pinned else "")
        for (pinned, stack), cells in groupby(sorted(store.cells(gpu=gfx), key=_stack_of), key=_stack_of)
        if not pinned or stack in lock.stacks
    ]
    tried = {each.stack for each in known}
    ranked = sorted(known, key=_rank)
    return GpuAdvice(
        gfx=gfx,
        os=os,
        names=tuple(names),
        stacks=tuple(each for each in ranked if each.os in {"", os}),
        elsewhere=tuple(each for each in ranked if each.os not in {"", os} and each.best),
        untried=tuple(
            stack.id
            for stack in lock.stacks.values()
            if stack.kind is StackKind.TRANSLATION
            and stack.requires.os in {"", os}
            and gfx in (stack.requires.gfx or (gfx,))
            and stack.id not in tried
        ),
        native=tuple(way for way in native_ways(gfx=gfx, os=os, programs=USUAL) if way.own),
        refusal=no_stack_possible(gfx),
    )


class _Facts(dict[str, DocumentFact]):
    """The documents that cells rest on, each read when it is asked for."""

    def __init__(self, store: EvidenceStore) -> None:
        super().__init__()
        self._store = store

    def __missing__(self, content: str) -> DocumentFact:
        kept = self._store.document(content)
        if kept is None:
            raise KeyError(content)
        self[content] = document_fact(kept)
        return self[content]


def _stack_of(cell: Cell) -> tuple[bool, str]:
    return cell.pinned, cell.stack


def _about(stack: str, pinned: bool, cells: Iterable[Cell], facts: _Facts, *, os: str) -> StackAdvice:  # noqa: FBT001 - a key's part
    """Sort what is shown of one stack."""
    best = strongest(cell for cell in cells if not cell.capability)
    tried = [cell for cell in cells if cell.capability and cell.outcome not in IDLE]
    shown = [_shown(cell, facts) for cell in tried]
    return StackAdvice(
        stack=stack,
        pinned=pinned,
        os=os,
        whole=_shown(best, facts) if best is not None and best.stands.passed else None,
        passed=tuple(sorted((s for s in shown if s.outcome is Outcome.PASS), key=_weight)),
        failed=tuple(s for s in shown if s.outcome is not Outcome.PASS),
    )


def _shown(cell: Cell, facts: _Facts) -> Shown:
    """Add to a cell who says so, and where."""
    fact = facts[cell.document]
    when = f" {fact.seen}" if fact.seen else ", undated"
    return Shown(
        application=cell.application,
        capability=cell.capability,
        level=cell.level,
        outcome=cell.outcome,
        detail=cell.stands.detail,
        who=f"reported by {fact.reporter}{when}" if fact.reporter else f"measured{when}",
        document=fact.paths[0],
        url=fact.url,
        conflict=cell.conflict,
    )


def _weight(shown: Shown | None) -> int:
    """Put the highest level first."""
    return -(shown.level.rank + 1) if shown is not None and shown.level is not None else 0


def _rank(advice: StackAdvice) -> tuple[bool, int, int, str]:
    """Put pinned stacks first, of them what passed as a whole, of them what is shown most."""
    return not advice.pinned, _weight(advice.whole), _weight(advice.best), advice.stack


def meant_gpu(text: str) -> GpuMatch:
    """Return which GPU a text means: a name, an architecture, hipInfo's output, or a file with it.

    Raises:
        UsageError: none is known by it, or more than ``MOST_MEANT`` architectures are.
    """
    is_file = text == "-" or (
        "\n" not in text and len(text) < LONGEST_PATH and long_path(Path(text)).is_file()
    )
    match = find_gpu(decoded(read_hipinfo(text)) if is_file else text)
    if not match.gfx:
        msg = f"no GPU is known by --for-gpu={_brief(text)}"
        raise UsageError("gpu-not-found", msg, hint=HOW_TO_NAME)
    if len(match.gfx) > MOST_MEANT:
        msg = f"--for-gpu={_brief(text)} may be any of {len(match.gfx)} architectures"
        raise UsageError("gpu-ambiguous", msg, context=match.names[:8], hint=HOW_TO_NAME)
    return match


def _brief(text: str) -> str:
    """Shorten what was typed or pasted to one line."""
    line = " ".join(printable(text).split())
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]} …"


class GpuMatch(Struct, frozen=True, kw_only=True):
    """What a text names: the architectures that it may be, most likely first.

    ``names`` are the products it was taken for; empty where an architecture was given.
    """

    gfx: tuple[str, ...]
    names: tuple[str, ...] = ()


def find_gpu(text: str) -> GpuMatch:
    """Say which architecture a text names."""
    wanted = " ".join(text.split()).lower()
    if ARCHITECTURE.fullmatch(wanted):
        return GpuMatch(gfx=(wanted,))
    devices = parse(text).devices
    found = tuple(dict.fromkeys(device.gfx for device in devices if device.gfx))
    if found:
        names = tuple(device.name for device in devices if device.name)
        return GpuMatch(gfx=found, names=names)
    return _by_name(wanted)


def _by_name(text: str) -> GpuMatch:
    """Compare words: the whole name first, then names that have all of the words."""
    asked = _words(text)
    if not asked:
        return GpuMatch(gfx=())
    known = [(name, gfx, _words(name)) for name, gfx in sorted(named_models())]
    same = [(name, gfx) for name, gfx, words in known if words == asked]
    some = same or [(name, gfx) for name, gfx, words in known if set(asked) <= set(words)]
    return GpuMatch(
        gfx=tuple(dict.fromkeys(gfx for _, gfx in some)),
        names=tuple(dict.fromkeys(name for name, _ in some)),
    )


def _words(name: str) -> tuple[str, ...]:
    """Split a name into words and numbers, without what people leave out: ``RX7900XTX`` is ``7900 xtx``."""
    return tuple(word for word in _WORD.findall(name.lower()) if word not in FILLER)
