"""The types that cross rooms; everything else lives where it is used.

All of them are frozen: a value that has been handed over does not change afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct, field


class Trust(StrEnum):
    """How far a pinned hash can be trusted, best first."""

    UPSTREAM_DIGEST = "upstream-digest"
    INDEPENDENT = "independent"
    SINGLE_REPORT = "single-report"


class ArtifactFormat(StrEnum):
    """How an artifact is packed; the user supplies ``supplied`` files."""

    ZIP = "zip"
    TAR_GZ = "tar.gz"
    WHEEL = "wheel"
    RAW = "raw"
    SUPPLIED = "supplied"


class StackKind(StrEnum):
    """What a stack is for."""

    TRANSLATION = "translation"
    CONTROL = "control"
    REFERENCE = "reference"


class HipSource(StrEnum):
    """Where a stack's HIP runtime comes from."""

    SDK = "sdk"
    PARTS = "parts"
    SYSTEM = "system"
    NONE = "none"


class Level(StrEnum):
    """How much is shown for a capability. Compare with ``rank``; never infer upwards."""

    DETECTED = "detected"
    LOADABLE = "loadable"
    FUNCTIONAL = "functional"
    INTEGRATED = "integrated"

    @property
    def rank(self) -> int:
        """Position among the levels, 0 for the lowest."""
        return _RANKS[self]


_RANKS: Final = {level: rank for rank, level in enumerate(Level)}


class Outcome(StrEnum):
    """How one exercised capability ended."""

    PASS = "pass"  # noqa: S105 - a verdict, not a password
    REFUSED = "refused"
    INCORRECT = "incorrect"
    ERROR = "error"
    TIMEOUT = "timeout"
    HANG_AFTER_RESULT = "hang-after-result"
    CRASH_AFTER_RESULT = "crash-after-result"
    UNAVAILABLE = "unavailable"
    NOT_REACHED = "not-reached"
    DIALOG = "dialog"


class Member(Struct, frozen=True, kw_only=True):
    """One file inside an artifact.

    Attributes:
        path: POSIX path below the artifact's ``root``.
        name: POSIX path it is installed as, below the runtime; equals ``path`` unless renamed.
        sha256: lower-case hex, or ``None`` where only the archive's hash is public.
        size: bytes, or ``None`` where unknown.
        provides: the CUDA library it answers for (``nvcuda``, ``cublas11`` …), or ``None``.
        needs: HIP libraries that must exist for it to work (``rocblas``, ``amdhip64`` …).
    """

    path: str
    name: str
    sha256: str | None = None
    size: int | None = None
    provides: str | None = None
    needs: tuple[str, ...] = ()


class Artifact(Struct, frozen=True, kw_only=True):
    """One downloadable file of ``pins.lock``.

    ``sha256`` is ``None`` only for ``supplied`` artifacts, whose members all carry hashes.
    ``size`` is ``None`` where it is not published; a cap applies then.
    """

    id: str
    urls: tuple[str, ...]
    sha256: str | None
    size: int | None
    format: ArtifactFormat
    root: str
    license: str
    source: str
    trust: Trust
    members: tuple[Member, ...] = ()
    note: str = ""


class HipNeed(Struct, frozen=True, kw_only=True):
    """Which HIP runtime a stack works with; ``range`` is a version specifier set or empty."""

    source: HipSource
    range: str = ""


class Requires(Struct, frozen=True, kw_only=True):
    """What a machine must have. ``os`` is ``windows``, ``linux`` or empty for any; ``gfx`` empty for any."""

    os: str = ""
    gfx: tuple[str, ...] = ()


class EnvPolicy(Struct, frozen=True, kw_only=True):
    """One environment variable a stack sets (``value``) or removes (``value is None``), and why.

    ``only`` is ``check`` where it concerns the stack's ``cuda_check`` alone, empty for every run.
    """

    name: str
    value: str | None
    why: str
    only: str = ""


class Stack(Struct, frozen=True, kw_only=True):
    """A named, pinned combination: translation layer, HIP runtime, options, environment policy."""

    id: str
    kind: StackKind
    parts: tuple[str, ...] = ()
    optional: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    hip: HipNeed = field(default_factory=lambda: HipNeed(source=HipSource.NONE))
    requires: Requires = field(default_factory=Requires)
    api: str | None = None
    ptx: str | None = None
    env: tuple[EnvPolicy, ...] = ()
    note: str = ""


class Lock(Struct, frozen=True, kw_only=True):
    """A whole ``pins.lock``.

    ``digest`` is the SHA-256 of the file's bytes; ``custom`` if not ours; ``signer`` is the fingerprint of
    the key that signed it, or empty.
    """

    path: Path
    digest: str
    artifacts: Mapping[str, Artifact]
    stacks: Mapping[str, Stack]
    custom: bool = False
    signer: str = ""


class RuntimeFile(Struct, frozen=True, kw_only=True):
    """One file of an assembled runtime; ``name`` is its POSIX path below the runtime's folder."""

    name: str
    sha256: str
    size: int
    provides: str | None = None
    needs: tuple[str, ...] = ()
    origin: str = ""


class Runtime(Struct, frozen=True, kw_only=True):
    """A stack's files, assembled once into a read-only folder of the store.

    ``digest`` covers parts, members and build; a generation and every document name it.
    A control stack has no files: ``path`` is ``None``.
    """

    stack: str
    digest: str
    path: Path | None
    files: tuple[RuntimeFile, ...] = ()


class Gpu(Struct, frozen=True, kw_only=True):
    """One GPU. ``None`` means unknown, never "no"; ``why_unknown`` says why, field by field.

    ``index`` counts this scan's list; ``hip_index`` is HIP's own number with no device filter set.
    """

    index: int
    name: str
    vendor: str
    gfx: str | None = None
    integrated: bool | None = None
    memory_bytes: int | None = None
    driver: str | None = None
    pci_id: str | None = None
    hip_index: int | None = None
    source: str = ""
    why_unknown: Mapping[str, str] = field(default_factory=dict)


class HipRoot(Struct, frozen=True, kw_only=True):
    """An installed HIP runtime: its folder, version, how it was found, and the libraries in it."""

    path: Path
    version: str | None
    source: str
    libraries: tuple[str, ...] = ()


class Host(Struct, frozen=True, kw_only=True):
    """What one look at this machine showed. ``os`` is ``windows`` or ``linux``.

    ``driver_files``: HIP runtimes the display driver installed for the whole system, with versions.
    """

    os: str
    machine: str
    gpus: tuple[Gpu, ...] = ()
    selected: int | None = None
    hip_roots: tuple[HipRoot, ...] = ()
    disagreements: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    driver_files: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def selected_gpu(self) -> Gpu | None:
        """The GPU this run is about, or ``None`` without one."""
        return next((gpu for gpu in self.gpus if gpu.index == self.selected), None)


class CapabilityResult(Struct, frozen=True, kw_only=True):
    """What one run showed for one capability; ``level`` is ``None`` when nothing was reached."""

    capability: str
    level: Level | None
    outcome: Outcome
    detail: str = ""


class Progress(Protocol):
    """How the core tells that it is alive; the user interface decides what is shown."""

    def task(
        self, label: str, total: int | None = None, *, unit: str = "bytes"
    ) -> AbstractContextManager[Callable[[int], None]]:
        """Open one piece of work; the yielded callable gets how much was done *since last time*."""

    def table(
        self, title: str, columns: Sequence[str]
    ) -> AbstractContextManager[Callable[[Sequence[Sequence[str]]], None]]:
        """Show a table to a person who is waiting; the yielded callable replaces all of its rows."""

    def note(self, message: str) -> None:
        """Say one line that must not be missed."""

    def aside(self, message: str) -> None:
        """Show one line to a person who is waiting; without a terminal it is left out."""


class NoProgress:
    """Progress for callers that show nothing."""

    def task(self, *_words: object, **_options: object) -> AbstractContextManager[Callable[[object], None]]:
        """Ignore the work, or the table."""
        return nullcontext(_ignore)

    def note(self, message: str) -> None:
        """Ignore the line."""
        del message

    table = task
    aside = note


def _ignore(_progress: object) -> None:
    """Swallow an amount, or the rows of a table."""


class Result(Protocol):
    """What every use case returns: data for ``--json`` and the exit code the task ends with."""

    @property
    def exit_code(self) -> int:
        """The task's exit code."""

    def to_json(self) -> dict[str, object]:
        """Return plain JSON data."""
