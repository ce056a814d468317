"""One evidence document: machine, stack, hashes, results, levels. It claims what its results show, no more.

The rules, in one place:

* *Exercised* is every result except ``not-reached`` and ``unavailable``.
* A result may not claim more than its outcome allows (``CEILING``): numbers that are wrong never make
  ``functional``, a process that hangs after a good result never makes ``integrated``.
* The document's level is the minimum over what it exercised. An exercised capability that showed
  nothing (level ``None``) makes the whole document ``None``. It is computed, never stored by hand:
  a document whose written level differs from its results is refused.
* The document's outcome is ``pass`` only if everything exercised passed; otherwise the worst one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

from msgspec import Meta, Struct
from msgspec.structs import replace

from scripts.model import CapabilityResult, Host, Level, Lock, Outcome, Runtime, Stack, StackKind
from scripts.osal.text import one_line, utc_now

if TYPE_CHECKING:
    from scripts.osal.redaction import Redactor

FORMAT: Final = 1

#: The highest level a result may claim, by its outcome; ``None``: it may claim none.
CEILING: Final[dict[Outcome, Level | None]] = {
    Outcome.PASS: Level.INTEGRATED,
    Outcome.HANG_AFTER_RESULT: Level.FUNCTIONAL,
    Outcome.CRASH_AFTER_RESULT: Level.FUNCTIONAL,
    Outcome.INCORRECT: Level.LOADABLE,
    Outcome.REFUSED: Level.LOADABLE,
    Outcome.ERROR: Level.LOADABLE,
    Outcome.TIMEOUT: Level.LOADABLE,
    Outcome.DIALOG: Level.DETECTED,
    Outcome.UNAVAILABLE: Level.DETECTED,
    Outcome.NOT_REACHED: None,
}

#: Outcomes that say nothing about a capability because it was not there or not tried.
IDLE: Final = frozenset({Outcome.NOT_REACHED, Outcome.UNAVAILABLE})

#: Worst first: a wrong number is worse than a refusal.
SEVERITY: Final = (
    Outcome.INCORRECT,
    Outcome.CRASH_AFTER_RESULT,
    Outcome.HANG_AFTER_RESULT,
    Outcome.ERROR,
    Outcome.DIALOG,
    Outcome.TIMEOUT,
    Outcome.REFUSED,
    Outcome.PASS,
)


#: What may stand in a document, as ``data/schemas/evidence-1.json`` has it; and what may not in any text.
HIDDEN: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
Text = Annotated[str, Meta(max_length=4000)]
Name = Annotated[str, Meta(min_length=1, max_length=200)]
FileName = Annotated[str, Meta(max_length=120, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*\Z")]
Sha256 = Annotated[str, Meta(max_length=64, pattern=r"^[0-9a-f]{64}$")]
Url = Annotated[str, Meta(max_length=500, pattern=r"^https://[^ ]+$")]
Day = Annotated[str, Meta(max_length=10, pattern=r"^([0-9]{4}-[0-9]{2}-[0-9]{2})?$")]
Gfx = Annotated[str, Meta(max_length=8, pattern=r"^gfx[0-9a-f]{3,5}$")]
StackId = Annotated[str, Meta(max_length=60, pattern=r"^([a-z0-9]+([.-][a-z0-9]+)*)?\Z")]
Commit = Annotated[str, Meta(max_length=64, pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$")]


class Provenance(StrEnum):
    """Who saw it: ``measured`` by this tool, or ``reported`` by a public source we only quote."""

    MEASURED = "measured"
    REPORTED = "reported"


class DocumentSource(Struct, frozen=True, kw_only=True):
    """Where a reported result is published; ``date`` is ``YYYY-MM-DD`` or empty."""

    name: Name
    url: Url
    date: Day = ""


class GpuKey(Struct, frozen=True, kw_only=True):
    """Which GPU a document speaks about. ``None`` means unknown."""

    name: Name
    gfx: Gfx | None = None
    pci_id: Text | None = None
    vendor: Text = ""


class Subject(Struct, frozen=True, kw_only=True):
    """What was looked at. Each capability of the document completes the key.

    ``stack`` is a stack id of ``pins.lock``, or empty where a published report used a combination
    that no stack of ours pins; ``digest`` is the runtime's, ``None`` where unknown.
    """

    stack: StackId
    digest: Sha256 | None = None
    gpu: GpuKey | None = None
    application: Text = ""


class HipFact(Struct, frozen=True, kw_only=True):
    """One HIP runtime that the machine had."""

    path: Text
    version: Text | None
    source: Text = ""


class DocumentMachine(Struct, frozen=True, kw_only=True):
    """The facts of the machine that matter for the result."""

    os: Annotated[str, Meta(pattern=r"^(windows|linux)\Z")]
    machine: Text = ""
    driver: Text | None = None
    hip_roots: Annotated[tuple[HipFact, ...], Meta(max_length=50)] = ()


class LockFact(Struct, frozen=True, kw_only=True):
    """Which lock was in use; ``custom`` documents prove nothing for ours."""

    digest: Sha256
    custom: bool = False


class Revision(Struct, frozen=True, kw_only=True):
    """Which revision of this workspace made the document."""

    commit: Commit | None = None
    dirty: bool | None = None


class FileFact(Struct, frozen=True, kw_only=True):
    """One file that was used; ``how`` is ``staged``, ``placed`` or ``loaded``."""

    name: Name
    sha256: Sha256
    how: Annotated[str, Meta(pattern=r"^(staged|placed|loaded)\Z")] = "staged"


class AttemptFact(Struct, frozen=True, kw_only=True):
    """One process of a probe; the last one of a capability is the one that counts."""

    capability: Name
    number: Annotated[int, Meta(ge=1, le=2)]
    outcome: Outcome
    seconds: Annotated[float, Meta(ge=0, le=1e9)]
    detail: Text = ""


class FigureFact(Struct, frozen=True, kw_only=True):
    """One figure that was measured or reported, for what is drawn over time; it decides nothing."""

    capability: Name
    metric: Name
    value: Annotated[float, Meta(ge=-1e300, le=1e300)]
    unit: Text = ""


class Document(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One evidence document. Build it with ``build_document``; read it with ``read_document``.

    ``combination`` names in words what a report used where no stack of ours pins it.
    """

    created: datetime
    provenance: Provenance
    subject: Subject
    machine: DocumentMachine
    results: Annotated[tuple[CapabilityResult, ...], Meta(max_length=2000)]
    source: DocumentSource | None = None
    simulated: bool = False
    lock: LockFact | None = None
    revision: Revision | None = None
    files: Annotated[tuple[FileFact, ...], Meta(max_length=20_000)] = ()
    not_exercised: Annotated[tuple[Name, ...], Meta(max_length=2000)] = ()
    attachments: Annotated[tuple[FileName, ...], Meta(max_length=200)] = ()
    notes: Annotated[tuple[Text, ...], Meta(max_length=100)] = ()
    attempts: Annotated[tuple[AttemptFact, ...], Meta(max_length=4000)] = ()
    figures: Annotated[tuple[FigureFact, ...], Meta(max_length=200)] = ()
    combination: Annotated[str, Meta(max_length=200)] = ""

    @property
    def observed(self) -> datetime:
        """When it was seen: a report's own date, else ``created``; an undated report is older than all."""
        if self.source is None:
            return self.created
        return datetime.fromisoformat(self.source.date or "0001-01-01").replace(tzinfo=UTC)

    @property
    def day(self) -> str:
        """The day it was seen, ``YYYY-MM-DD``; empty for a report without a date."""
        return "" if self.source is not None and not self.source.date else self.observed.isoformat()[:10]

    @property
    def level(self) -> Level | None:
        """The minimum over what was exercised; ``None`` if nothing was, or if one showed nothing."""
        return lowest(self.results)

    @property
    def outcome(self) -> Outcome:
        """``pass`` only if everything exercised passed; else the worst; ``not-reached`` if nothing was."""
        return worst(self.results)


def exercised(results: Iterable[CapabilityResult]) -> tuple[CapabilityResult, ...]:
    """Keep what was really tried."""
    return tuple(r for r in results if r.outcome not in IDLE)


def lowest(results: Iterable[CapabilityResult]) -> Level | None:
    """Return the level that everything exercised reached."""
    levels = [r.level for r in exercised(results)]
    shown = [level for level in levels if level is not None]
    if not levels or len(shown) < len(levels):
        return None
    return min(shown, key=lambda level: level.rank)


def worst(results: Iterable[CapabilityResult]) -> Outcome:
    """Return the worst outcome of what was exercised."""
    outcomes = {r.outcome for r in exercised(results)}
    return next((o for o in SEVERITY if o in outcomes), Outcome.NOT_REACHED)


def within_ceiling(result: CapabilityResult) -> CapabilityResult:
    """Lower a result to what its outcome allows; never raises a level."""
    ceiling = CEILING[result.outcome]
    if result.level is None or (ceiling is not None and result.level.rank <= ceiling.rank):
        return result
    return replace(result, level=ceiling)


def build_document(
    *,
    host: Host,
    stack: Stack,
    lock: Lock,
    results: Iterable[CapabilityResult],
    redactor: Redactor,
    runtime: Runtime | None = None,
    revision: Revision | None = None,
    created: datetime | None = None,
    application: str = "",
    not_exercised: Iterable[str] = (),
    attachments: Iterable[str] = (),
    files: Iterable[FileFact] | None = None,
    notes: Iterable[str] = (),
    attempts: Iterable[AttemptFact] = (),
    figures: Iterable[FigureFact] = (),
) -> Document:
    """Make the document of one run on this machine.

    Results are lowered to what their outcome allows. A reference stack makes a ``simulated`` document
    without a GPU, whatever is in the machine. ``files`` defaults to all files of the runtime, ``staged``.
    Capabilities that ended ``not-reached`` or ``unavailable`` join ``not_exercised``. Text is redacted.
    """
    simulated = stack.kind is StackKind.REFERENCE
    kept = tuple(within_ceiling(replace(r, detail=redactor.text(one_line(r.detail)))) for r in results)
    idle = (r.capability for r in kept if r.outcome in IDLE)
    if files is None and runtime is not None:
        files = (FileFact(name=f.name, sha256=f.sha256) for f in runtime.files)
    return Document(
        created=(created or utc_now()).astimezone(UTC).replace(microsecond=0),
        provenance=Provenance.MEASURED,
        subject=Subject(
            stack=stack.id,
            digest=runtime.digest if runtime is not None else None,
            gpu=None if simulated else _gpu_key(host),
            application=redactor.text(one_line(application)),
        ),
        machine=_machine(host, redactor),
        results=kept,
        simulated=simulated,
        lock=LockFact(digest=lock.digest, custom=lock.custom),
        revision=revision,
        files=tuple(replace(f, name=redactor.text(f.name)) for f in files or ()),
        not_exercised=tuple(sorted({*not_exercised, *idle})),
        attachments=tuple(attachments),
        notes=tuple(redactor.text(one_line(n)) for n in notes),
        attempts=tuple(replace(a, detail=redactor.text(one_line(a.detail))) for a in attempts),
        figures=tuple(figures),
    )


def speaks_of(document: Document, *, host: Host, runtime: Runtime) -> bool:
    """Whether a document shows this runtime on this GPU, with the driver and HIP runtimes of now.

    What was seen before another card, driver or SDK came in says nothing about it.
    """
    subject, machine = document.subject, document.machine
    if (subject.stack, subject.digest) != (runtime.stack, runtime.digest):
        return False
    if document.simulated:
        return True
    driver = host.selected_gpu.driver if host.selected_gpu else None
    versions = [[root.version for root in roots] for roots in (machine.hip_roots, host.hip_roots)]
    return subject.gpu == _gpu_key(host) and machine.driver == driver and versions[0] == versions[1]


def _gpu_key(host: Host) -> GpuKey | None:
    gpu = host.selected_gpu
    if gpu is None:
        return None
    return GpuKey(name=gpu.name, gfx=gpu.gfx, pci_id=gpu.pci_id, vendor=gpu.vendor)


def _machine(host: Host, redactor: Redactor) -> DocumentMachine:
    """Keep what matters of a host, without the person's paths."""
    gpu = host.selected_gpu
    return DocumentMachine(
        os=host.os,
        machine=host.machine,
        driver=gpu.driver if gpu else None,
        hip_roots=tuple(
            HipFact(path=redactor.text(str(r.path)), version=r.version, source=redactor.text(r.source))
            for r in host.hip_roots
        ),
    )
