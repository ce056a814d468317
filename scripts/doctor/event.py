"""Stage one of the doctor: what happened, as a structured event, and what its table may ask of it. Pure.

Codes, names, phrases and surroundings are read from the text; nothing is decided here. ``verdict`` decides
over these fields, and a person can read and disagree with them.

A condition that does not hold answers ``None``; one that holds and that no line shows answers with no lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from scripts.doctor.context import Context, read_context
from scripts.doctor.log_sampling import LogSample, sample_log
from scripts.doctor.object_reader import ObjectSighting, read_objects
from scripts.doctor.phrases import Matches, PhraseBook, match_phrases, phrase_book, without_harmless
from scripts.doctor.status_reader import StatusSighting, read_statuses
from scripts.serialize import pick

#: Enumerations that only say that a process ended, not at what.
ENDINGS: Final = frozenset({"exit", "signal", "ntstatus"})
#: Who answers only where a program speaks CUDA, to NVIDIA's libraries or to what stands in for them.
_CUDA: Final = frozenset(
    (
        *("cuda-driver", "cuda-runtime", "cudart", "torch-cuda", "layer", "nvrtc", "nvml", "optix", "cudnn"),
        *("cublas", "cusparse", "cufft", "cusolver", "curand", "cuda-math"),
    )
)
#: What is shown of a code.
OF_CODE: Final = "name number enumeration title class=kind meaning"
_VAGUE: Final = frozenset({"unknown-error", "crash", "abort", "killed", "interrupted"})
#: What was being done, by the class of the code.
_ACTIVITIES: Final = {
    "allocate memory": ("out-of-memory", "out-of-host-memory"),
    "find a device": ("no-device", "invalid-device", "old-driver", "driver-mismatch", "device-busy"),
    "start": ("not-initialized", "stub-library"),
    "load GPU code": ("no-binary", "invalid-image", "invalid-ptx", "symbol-not-found", "jit-missing"),
    "run a kernel": ("gpu-fault", "gpu-timeout", "launch-resources", "device-assert", "execution"),
    "use the GPU": ("device-lost", "gpu-reset", "gpu-resources"),
    "compile a kernel": ("compile",),
    "load a library": ("dll-not-found", "entry-point", "dll-init", "bitness", "library-load", "blocked"),
    "transfer data": ("network",),
    "open a file": ("file-not-found", "path-not-found", "path", "disk-full", "disk", "file-busy"),
}  # fmt: skip
_BY_OBJECT: Final = {
    "library": "load a library",
    "device": "open the GPU",
    "symbol": "link",
    "file": "open a file",
    "module": "load a library",
}
_SHOWN: Final = 8


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """What happened, as far as a text tells.

    Attributes:
        sample: the lines that were read.
        statuses: the codes, in the order of lines.
        objects: what was missing or refused, in the order of lines.
        matches: which known phrases are there.
        context: system, flavours, versions, GPUs.
    """

    sample: LogSample
    statuses: tuple[StatusSighting, ...]
    objects: tuple[ObjectSighting, ...]
    matches: Matches
    context: Context

    @property
    def native(self) -> bool:
        """Whether AMD's own software runs the program, as far as is known: no layer, nothing of CUDA."""
        speakers = {sighting.code.component for sighting in self.statuses}
        speakers |= {thing.owner.group for thing in self.objects}
        cuda = bool(speakers & _CUDA) or "cu" in self.context.torch
        return not self.context.layer and ("rocm" in self.context.torch or (self.context.amd and not cuda))

    @property
    def main_status(self) -> StatusSighting | None:
        """The code that says most: the first of a call, before how the process ended."""

        def vagueness(sighting: StatusSighting) -> tuple[bool, bool, int]:
            code = sighting.code
            return code.enumeration in ENDINGS, code.kind in _VAGUE, sighting.line

        return min(self.statuses, key=vagueness, default=None)

    @property
    def main_object(self) -> ObjectSighting | None:
        """The thing that is missing or refused: one named itself before one behind which it is."""
        known = [thing for thing in self.objects if thing.owner.group != "unknown"]
        return min(known or self.objects, key=lambda thing: (thing.behind, thing.line), default=None)

    @property
    def component(self) -> str:
        """Who speaks: the component whose code it is, else whose file it is."""
        if self.main_status is not None:
            return self.main_status.code.component
        thing = self.main_object
        return "loader" if thing is not None and thing.kind == "library" else thing.kind if thing else ""

    @property
    def activity(self) -> str:
        """What was being done."""
        if self.main_status is not None:
            kind = self.main_status.code.kind
            found = next((name for name, kinds in _ACTIVITIES.items() if kind in kinds), "")
            if found:
                return found
        return _BY_OBJECT.get(self.main_object.kind, "") if self.main_object else ""

    @property
    def empty(self) -> bool:
        """Whether nothing speaks of a failure."""
        return not self.statuses and not self.objects

    def quote(self, positions: tuple[int, ...], *, width: int = 300) -> tuple[str, ...]:
        """Return lines with their numbers."""
        sample = self.sample
        return tuple(f"line {sample.numbers[i]}: {sample.lines[i].strip()[:width]}" for i in positions)

    def sentences(self) -> Iterator[str]:
        """Say in sentences what the event is: no diagnosis, what the codes and names mean."""
        main = self.main_status
        ordered = sorted(self.statuses, key=lambda sighting: sighting is not main)
        for sighting in ordered[:3]:
            yield status_sentence(sighting)
        thing = self.main_object
        for seen in sorted(self.objects, key=lambda seen: seen is not thing)[:3]:
            if seen.owner.owner:
                state = "could not be loaded" if seen.behind else f"is {seen.state}"
                yield f"{seen.name} {state}: {seen.owner.owner}; {seen.owner.meaning}"
            elif seen.kind in {"library", "device"}:
                yield f"{seen.name} is {seen.state}; whose it is, is not known here: mostly the program's own"

    def to_json(self) -> dict[str, object]:
        """Return plain data."""
        context, numbers = self.context, self.sample.numbers
        statuses = (
            {
                **pick(seen.code, OF_CODE),
                **pick(seen, "call spelling"),
                "line": numbers[seen.line],
                "perhaps": [other.name for other in seen.others],
            }
            for seen in self.statuses[:_SHOWN]
        )
        objects = (
            {
                **pick(seen, "name kind state"),
                **pick(seen.owner, "group owner meaning"),
                "line": numbers[seen.line],
            }
            for seen in self.objects[:_SHOWN]
        )
        return {
            **pick(self, "component activity"),
            "statuses": list(statuses),
            "objects": list(objects),
            **pick(context, "gfx hip"),
            "torch": list(context.torch_builds) or sorted(context.torch),
            **pick(context, "system wsl container layer"),
            "phrases": sorted(self.matches.lines),
            "meaning": list(self.sentences()),
        }


def status_sentence(sighting: StatusSighting) -> str:
    """Say what a code means, and what else the same spelling may mean."""
    code = sighting.code
    where = f" of {sighting.call}" if sighting.call else ""
    text = f"{code.name} ({code.number}, {code.title}){where}: {code.meaning}"
    if sighting.others:
        names = ", ".join(other.name for other in sighting.others[:3])
        return f"{sighting.spelling} lost digits on its way; mostly it is {text}; or {names}"
    return text


def read_event(data: bytes | str, book: PhraseBook | None = None) -> Event:
    """Read what happened from a program's output, in whatever encoding and of whatever size."""
    known = book or phrase_book()
    raw = data.encode("utf-8", errors="replace") if isinstance(data, str) else data
    sample = without_harmless(sample_log(raw, known.strong), known)
    context = read_context(sample)
    windows = None if not context.system else context.system == "windows"
    return Event(
        sample=sample,
        statuses=read_statuses(sample, windows=windows),
        objects=read_objects(sample),
        matches=match_phrases(sample, known),
        context=context,
    )


Lines = tuple[int, ...]


def listed(wanted: object) -> Sequence[str]:
    """Return what a condition asks for as words."""
    return [str(item) for item in wanted] if isinstance(wanted, list) else [str(wanted)]


def _status(wanted: object, event: Event) -> Lines | None:
    """A code of one of these classes; ``enumeration:class`` for one of one enumeration only."""
    forms = set(listed(wanted))
    lines = [
        seen.line
        for seen in event.statuses
        if forms & {seen.code.kind, seen.code.name, f"{seen.code.enumeration}:{seen.code.kind}"}
        or f"{seen.code.enumeration}:*" in forms
    ]
    return tuple(lines) or None


def _call(wanted: object, event: Event) -> Lines | None:
    lines = [seen.line for seen in event.statuses if re.match(str(wanted), seen.call, re.IGNORECASE)]
    return tuple(lines) or None


def _object(wanted: object, event: Event, state: str) -> Lines | None:
    groups = set(listed(wanted))
    lines = [seen.line for seen in event.objects if seen.state == state and seen.owner.group in groups]
    return tuple(lines) or None


def _kind(wanted: object, event: Event) -> Lines | None:
    lines = [seen.line for seen in event.objects if seen.kind in listed(wanted)]
    return tuple(lines) or None


def _flag(wanted: object, *, known: bool) -> Lines | None:
    return () if known is wanted else None


def _system(wanted: object, event: Event) -> Lines | None:
    context = event.context
    there = {context.system} | ({"wsl"} if context.wsl else set())
    there |= {"container"} if context.container else set()
    return () if there & set(listed(wanted)) else None


def _torch(wanted: object, event: Event) -> Lines | None:
    flavours = set(event.context.torch) or {"unknown"}
    return () if flavours & set(listed(wanted)) else None


def _only_ending(wanted: object, event: Event) -> Lines | None:
    """Whether nothing is known but how a process ended."""
    endings = [seen.line for seen in event.statuses if seen.code.enumeration in ENDINGS]
    only = bool(endings) and len(endings) == len(event.statuses) and not event.objects
    return tuple(endings) if only is wanted else None


CONDITIONS_OF_EVENTS: Final[Mapping[str, Callable[[object, Event], Lines | None]]] = {
    "status": _status,
    "call": _call,
    "missing": lambda wanted, event: _object(wanted, event, "missing"),
    "refused": lambda wanted, event: _object(wanted, event, "refused"),
    "kind": _kind,
    "layer": lambda wanted, event: _flag(wanted, known=event.context.layer),
    "native": lambda wanted, event: _flag(wanted, known=event.native),
    "amd": lambda wanted, event: _flag(wanted, known=event.context.amd),
    "nvidia": lambda wanted, event: _flag(wanted, known=event.context.nvidia),
    "versions_differ": lambda wanted, event: _flag(wanted, known=event.context.versions_differ),
    "system": _system,
    "torch": _torch,
    "only_ending": _only_ending,
}
#: Conditions that show lines; a row without phrases needs one of them.
SHOWING: Final = frozenset({"status", "call", "missing", "refused", "kind", "only_ending"})
