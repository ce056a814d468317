"""The kernels of a file under each release: reports that are kept by content, and what they come to."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from scripts.osal.fs import read_bounded, write_atomic
from scripts.serialize import DATA, data_table

T = TypeVar("T")
TABLES: Final = DATA / "ptx"
#: Raise it when what is kept changes its form or its meaning.
FORMAT: Final = 3
#: Reports that are kept; the oldest go.
MAX_REPORTS: Final = 1024
MAX_BYTES: Final = 1 << 27


class PtxImage(Struct, frozen=True, kw_only=True):
    """One PTX text that was read.

    Attributes:
        target: as ``sm_90a``.
        instructions: how many it has; the types of their operands are not checked.
    """

    target: str
    isa: str
    kernels: tuple[str, ...]
    instructions: int


class DroppedFunction(Struct, frozen=True, kw_only=True, array_like=True):
    """A function that is dropped: the first instruction that is not taken, and its line in the text."""

    name: str
    instruction: str
    why: str
    line: int

    @property
    def text(self) -> str:
        """Instruction and reason in a few words."""
        return f"{self.instruction}: {self.why}" if self.why else self.instruction


class ImageOutcome(Struct, frozen=True, kw_only=True):
    """What one release makes of one container.

    Attributes:
        image: which text it takes.
        lost: ``text`` where none can be read, ``module`` where the module fails, ``ends`` where the process
            does, ``linking`` where it is made for linking while the program runs, empty where kernels are
            judged one by one.
        why: the reason for that.
        gone: the kernels that are dropped.
        differs: by kernel, the ids of the rules by which it may compute something else.
        refused: how many instructions are not taken.
    """

    image: int
    lost: str = ""
    why: str = ""
    gone: tuple[DroppedFunction, ...] = ()
    differs: dict[str, tuple[str, ...]] = {}
    refused: int = 0


class ContainerKernels(Struct, frozen=True, kw_only=True):
    """The kernels of one container (and of ``copies`` that equal it), by release."""

    images: tuple[PtxImage, ...]
    outcomes: dict[str, ImageOutcome]
    copies: int = 1


class KernelReport(Struct, frozen=True, kw_only=True):
    """The kernels of one file.

    Attributes:
        texts: how many PTX texts were read; ``of`` is how many there are. Fewer are read where the newest is
            taken by every release.
        unread: why texts that were wanted could not be read, each reason once.
    """

    containers: tuple[ContainerKernels, ...] = ()
    texts: int = 0
    of: int = 0
    unread: tuple[str, ...] = ()


class _Kept(Struct, frozen=True, kw_only=True):
    """A report as it lies in the cache."""

    format: int
    tables: str
    report: KernelReport


@cache
def tables_digest() -> str:
    """Name the PTX tables and rules by their content: other ones give other answers."""
    digest = hashlib.sha256()
    for path in sorted(TABLES.iterdir(), key=lambda p: p.name):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def keep(path: Path, body: bytes, *, most: int) -> None:
    """Write an answer, and forget the oldest but so many in its folder; failing to is no failure."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, body)
        for old in sorted(path.parent.glob("*.json"), key=lambda p: p.stat().st_mtime_ns)[:-most]:
            old.unlink(missing_ok=True)
    except (OSError, ValueError):
        return


class KernelStore:
    """Reports by the content of a file's PTX, so that a library is checked once, wherever it lies."""

    def __init__(self, folder: Path) -> None:
        """``folder`` may not exist yet."""
        self._folder = folder
        self._seen: dict[str, KernelReport] = {}
        self._tallies: dict[tuple[str, str, str], KernelTally] = {}

    def get(self, device: str) -> KernelReport | None:
        """Return a report that the same tables gave, ``None`` where there is none or it is damaged."""
        if device in self._seen:
            return self._seen[device]
        kept = self._read(device, _Kept)
        if kept is None or (kept.format, kept.tables) != (FORMAT, tables_digest()):
            return None
        self._seen[device] = kept.report
        return kept.report

    def tally(self, file: str, device: str, table: str) -> KernelTally | None:
        """Count a file's kernels under a release; ``None`` without a report. Stacks may share a release."""
        known = self._tallies.get((file, device, table))
        if known is None and (report := self.get(device)) is not None:
            known = self._tallies[file, device, table] = tally(file, report, table)
        return known

    def put(self, device: str, report: KernelReport) -> None:
        """Keep a report; failing to write it is no failure."""
        self._seen[device] = report
        kept = _Kept(format=FORMAT, tables=tables_digest(), report=report)
        keep(self._path(device), msgspec.json.encode(kept), most=MAX_REPORTS)

    def note(self, key: str) -> tuple[str, ...] | None:
        """Return names that were kept under a key; ``None`` where there are none or they are damaged."""
        return self._read(key, tuple[str, ...])

    def put_note(self, key: str, names: tuple[str, ...]) -> None:
        """Keep names; failing to write them is no failure."""
        keep(self._path(key), msgspec.json.encode(names), most=MAX_REPORTS)

    def _read(self, key: str, kind: type[T]) -> T | None:
        try:
            return msgspec.json.decode(read_bounded(self._path(key), MAX_BYTES), type=kind)
        except (OSError, ValueError, RecursionError, msgspec.MsgspecError):
            return None

    def _path(self, device: str) -> Path:
        return self._folder / f"{device[:40]}.json"


class KernelFate(Struct, frozen=True, kw_only=True):
    """What a release makes of one kernel.

    Attributes:
        state: ``fine``, ``dropped``, or a loss of the whole: ``text``, ``module``, ``ends``, ``linking``.
        cause: the instruction, or the reason for the whole.
        why: what is wrong with that instruction.
        line: where it first stands in the PTX text; 0 where that is not known.
        differs: ids of the rules by which it may compute something else.
    """

    name: str
    state: str
    target: str
    cause: str = ""
    why: str = ""
    line: int = 0
    differs: tuple[str, ...] = ()

    @property
    def missing(self) -> bool:
        """Whether the program does not get it."""
        return self.state != "fine"


def fates(report: KernelReport, table: str) -> Iterator[KernelFate]:
    """Yield what a release makes of every kernel of a file; equal containers count once."""
    for container in report.containers:
        outcome = container.outcomes.get(table)
        if outcome is None:
            continue
        image = container.images[outcome.image]
        gone = {kernel.name: kernel for kernel in outcome.gone}
        for name in image.kernels:
            if outcome.lost:
                yield KernelFate(name=name, state=outcome.lost, target=image.target, cause=outcome.why)
            elif name in gone:
                one = gone[name]
                yield KernelFate(
                    name=name,
                    state="dropped",
                    target=image.target,
                    cause=one.instruction,
                    why=one.why,
                    line=one.line,
                )
            else:
                differ = outcome.differs.get(name, ())
                yield KernelFate(name=name, state="fine", target=image.target, differs=differ)


class KernelTally(Struct, frozen=True, kw_only=True):
    """The kernels of one file under one release, put together.

    Attributes:
        total: kernels with PTX that was read.
        missing: those that the program would not get; ``fine`` are the others.
        linking: kernels beside these that are made for linking while the program runs.
        causes: what costs how many of them, the most first.
        differs: by id of a rule, how many may compute something else.
        instructions: of the texts that are taken; ``refused`` of them are not.
        unread: why PTX could not be read.
    """

    file: str
    total: int = 0
    missing: tuple[KernelFate, ...] = ()
    fine: tuple[KernelFate, ...] = ()
    linking: int = 0
    causes: tuple[tuple[str, int], ...] = ()
    differs: dict[str, int] = {}
    instructions: int = 0
    refused: int = 0
    unread: tuple[str, ...] = ()

    @property
    def types_unchecked(self) -> int:
        """How many instructions are taken by their form, whatever the types of their operands."""
        return self.instructions - self.refused


def tally(file: str, report: KernelReport, table: str) -> KernelTally:
    """Count a file's kernels under a release."""
    linking = 0
    missing: list[KernelFate] = []
    fine: list[KernelFate] = []
    causes: Counter[str] = Counter()
    differs: Counter[str] = Counter()
    for fate in fates(report, table):
        if fate.state == "linking":
            linking += 1
            continue
        differs.update(fate.differs)
        (missing if fate.missing else fine).append(fate)
        if fate.missing:
            causes[fate.cause] += 1
    taken = [(c.images[o.image], o) for c in report.containers if (o := c.outcomes.get(table)) is not None]
    return KernelTally(
        file=file,
        total=len(missing) + len(fine),
        missing=tuple(missing),
        fine=tuple(fine),
        linking=linking,
        causes=tuple(sorted(causes.items(), key=lambda pair: (-pair[1], pair[0]))),
        differs=differs,
        instructions=sum(image.instructions for image, _ in taken),
        refused=sum(outcome.refused for _, outcome in taken),
        unread=report.unread,
    )


def ptx_source(table: str) -> str:
    """Return where a table was read from, public."""
    head = (TABLES / f"{table}.json").read_text(encoding="utf-8").split("\n", 1)[0]
    meta = msgspec.json.decode(head.rstrip(",") + "}")["_meta"]
    return f"{meta['repository']}@{meta['commit']} ({meta['tag']})"


def rules_file() -> dict[str, Any]:
    """Return the rules beside the grammars."""
    return data_table("ptx/rules.toml")


def releases() -> tuple[str, ...]:
    """Return the releases that have a table, oldest first."""
    return tuple(rules_file()["releases"])


def having(rule: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the releases that have a rule."""
    order = releases()
    first = order.index(rule["since"]) if "since" in rule else 0
    return order[first : order.index(rule["until"]) if "until" in rule else None]


@cache
def differences(table: str) -> dict[str, tuple[str, bool]]:
    """Return what a release does otherwise without a word: id to sentence, and whether values are wrong."""
    here = table.removeprefix("zluda-")
    return {
        rule["id"]: (rule["why"], rule["wrong"]) for rule in rules_file()["differs"] if here in having(rule)
    }


def demangled(name: str) -> str:
    """Return a kernel's name as its author wrote it; as it is where it is no mangled name."""
    from pycxxfilt import itanium_demangle  # noqa: PLC0415 - few names are shown, and most runs show none

    try:
        return str(itanium_demangle(name)) if name.startswith("_Z") else name
    except ValueError:
        return name
