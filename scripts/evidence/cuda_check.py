"""Read what a ``cuda_check`` printed, and judge it.

ZLUDA's ``cuda_check`` prints its lines in random order, exits 0 whatever happened and may hang at its
end, so the printed lines decide; the exit code only tells a crash. The best it can show is ``loadable``.
Format and quirks: vosen/ZLUDA@8a7931b ``cuda_check/src/win.rs``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from scripts.host.hip_libraries import library_behind
from scripts.model import CapabilityResult, Level, Outcome, StackKind
from scripts.osal.text import decoded, without_ansi
from scripts.statuses import describe_exit

CORE: Final = ("nvcuda", "cublas", "cublaslt", "cusparse", "cufft")
OPTIONAL: Final = ("cudnn", "nvml", "nvapi")

#: Behind which only newer layers have something: earlier ones answer that they do not support it.
NEWER: Final = ("cufft",)

#: Of one group, the outcome that decides: a failing version is not hidden by a good one, but a version
#: that this stack does not have says nothing about the others.
DECIDES: Final = (Outcome.ERROR, Outcome.NOT_REACHED, Outcome.PASS, Outcome.UNAVAILABLE)

#: What a status of the driver library means, where more than one cause has it (vosen/ZLUDA#659).
NO_DEVICE: Final = (
    "HIP finds no device it can use: the display driver is too old for this HIP, "
    "HIP_VISIBLE_DEVICES hides the GPU, or this HIP does not serve it"
)
CAUSES: Final[Mapping[tuple[str, int], str]] = {("cuInit", 100): NO_DEVICE}
NOTHING_BEHIND: Final = "accepted although nothing works behind it"


class CheckVerdict(Struct, frozen=True, kw_only=True):
    """The judgement of one run.

    Attributes:
        results: one result a library (at most ``loadable``), sorted by name; a run that did not end
            cleanly adds one for ``cuda_check`` itself.
        groups: the deciding outcome of each group (``nvcuda``, ``cublas`` …) that was expected or seen.
        loads: every core group passed. This is the answer to "do the libraries load?".
        outcome: ``pass`` also needs a clean end; ``hang-after-result`` and ``crash-after-result``
            say that everything expected had been printed before.
        reason: one sentence.
    """

    results: tuple[CapabilityResult, ...]
    groups: Mapping[str, Outcome]
    loads: bool
    outcome: Outcome
    reason: str


def judge(
    output: CheckOutput,
    *,
    expected: Iterable[str],
    exit_code: int | None,
    timed_out: bool,
    kind: StackKind = StackKind.TRANSLATION,
    backed: Iterable[str] = (),
    dialogs: Iterable[str] = (),
) -> CheckVerdict:
    """Judge one run.

    Args:
        output: what was printed.
        expected: names that the stack provides (``cublas11`` …); what is expected but not printed is
            ``not-reached``. Names of no known group are ignored. A version that is not expected and
            does not load is ``unavailable``, no failure. Empty: every core group must show up, for a
            control stack the driver alone, because the libraries come with each program.
        exit_code: the process's exit code; ``None`` if it was ended by us.
        timed_out: whether we ended it.
        kind: a translation stack's ``OK`` for cuFFT and NVML means little, and the result says so.
        backed: names whose library has one of HIP behind it, of which that is not true.
        dialogs: message boxes that had to be closed; each hides a library that did not start.
    """
    wanted = {n.lower() for n in expected if group_of(n) in CORE + OPTIONAL} - {"nvapi"}
    behind = frozenset(name.lower() for name in backed)
    found: dict[str, CapabilityResult] = {}
    for line in output.lines:
        found[line.name] = _merge(found.get(line.name), _result(line, kind, wanted, behind))
    for name in wanted - set(found):
        found[name] = CapabilityResult(
            capability=name,
            level=None,
            outcome=Outcome.NOT_REACHED,
            detail="the check printed no line for it",
        )
    required = _required(wanted, kind) - _without_backend(found.values())
    clean = not timed_out and exit_code in {0, None}
    groups = _groups(found.values(), required, clean=clean)
    unreached = sorted({n for n, r in found.items() if r.outcome is Outcome.NOT_REACHED})
    unreached += [g for g in groups if g in required and g not in {group_of(n) for n in found}]
    end = _end(unreached, exit_code=exit_code, timed_out=timed_out, boxes=tuple(dialogs))
    outcome, reason = _overall(groups, required, end)
    loads = all(groups[g] is Outcome.PASS for g in required)
    results = sorted(found.values(), key=lambda r: r.capability)
    if end is not None:
        level = Level.LOADABLE if loads else None
        results.append(CapabilityResult(capability="cuda_check", level=level, outcome=end[0], detail=end[1]))
    return CheckVerdict(results=tuple(results), groups=groups, loads=loads, outcome=outcome, reason=reason)


def _without_backend(results: Iterable[CapabilityResult]) -> set[str]:
    """Name the groups that only newer layers put something behind, where HIP does not have it."""
    lost = [r for r in results if group_of(r.capability) in NEWER]
    return {group_of(r.capability) for r in lost if r.outcome is Outcome.UNAVAILABLE}


def _required(wanted: set[str], kind: StackKind) -> set[str]:
    if wanted:
        return {group_of(n) for n in wanted} & set(CORE) | {"nvcuda"}
    return {"nvcuda"} if kind is StackKind.CONTROL else set(CORE)


def _result(line: CheckLine, kind: StackKind, wanted: set[str], behind: frozenset[str]) -> CapabilityResult:
    group = group_of(line.name)
    if line.ok:
        detail = line.path or ""
        if kind is StackKind.TRANSLATION and group in {"cufft", "nvml"} and line.name not in behind:
            detail = NOTHING_BEHIND
        return CapabilityResult(
            capability=line.name, level=Level.LOADABLE, outcome=Outcome.PASS, detail=detail
        )
    backend = _backend(line)
    optional = group in OPTIONAL or (backend and group in NEWER) or (line.loading and line.name not in wanted)
    absent = (backend or line.loading) and line.code != 193 and optional  # noqa: PLR2004 - a bad file
    unchecked = group == "nvapi" and not line.loading and line.code == 0
    return CapabilityResult(
        capability=line.name,
        # It was found and its own start-up failed: detected. It did not load at all: nothing was shown.
        level=Level.DETECTED if line.call and not unchecked else None,
        outcome=Outcome.UNAVAILABLE if absent or unchecked else Outcome.ERROR,
        detail="this cuda_check has no test for it" if unchecked else _explain(line, backend),
    )


def _backend(line: CheckLine) -> str:
    """Name the AMD library whose absence this status means, or nothing."""
    call = (line.call or "").removesuffix("_v2")
    library = library_behind(call, line.code) if line.code is not None else None
    return " or ".join(library.asked) if library is not None else ""


def _explain(line: CheckLine, backend: str) -> str:
    """Say what a failing line means, without the system's localised words where a number tells it."""
    if line.call:
        tail = f": the AMD library behind it could not be used ({backend})" if backend else ""
        cause = CAUSES.get((line.call, line.code if line.code is not None else -1))
        return f"{line.call} failed with status {line.code}{f': {cause}' if cause else tail}"
    if line.code is not None:
        return f"it did not load ({line.code}: {LOAD_CODES[line.code]})"
    if line.loading:
        return f"it did not load: {line.error.removeprefix('Loading(').removesuffix(')')}"
    return line.error or "it failed without a word"


def _merge(known: CapabilityResult | None, new: CapabilityResult) -> CapabilityResult:
    """Join two lines for one name: the worse one stays, and a contradiction is noted."""
    if known is None or known == new:
        return new
    first, second = sorted((known, new), key=lambda r: r.outcome is Outcome.PASS)
    if first.outcome is second.outcome:
        return first
    return replace(first, detail=f"{first.detail}; printed twice with different answers")


def _groups(results: Iterable[CapabilityResult], required: set[str], *, clean: bool) -> dict[str, Outcome]:
    """Find each group's deciding outcome; a required group that never appeared was not reached.

    After a clean end an unprinted version does not spoil its group: an older check does not know it.
    """
    seen: dict[str, set[Outcome]] = {g: set() for g in required}
    for result in results:
        seen.setdefault(group_of(result.capability), set()).add(result.outcome)
    if clean:
        seen = {g: o - {Outcome.NOT_REACHED} for g, o in seen.items()}
    order = {g: n for n, g in enumerate(CORE + OPTIONAL)}
    return {
        g: next((o for o in DECIDES if o in seen[g]), Outcome.NOT_REACHED)
        for g in sorted(seen, key=lambda g: (order.get(g, len(order)), g))
    }


def _end(
    unreached: list[str], *, exit_code: int | None, timed_out: bool, boxes: tuple[str, ...]
) -> tuple[Outcome, str] | None:
    """Say how the process ended, unless it ended cleanly."""
    rest = ", ".join(unreached)
    if boxes and unreached:
        return Outcome.DIALOG, f"it waited for an answer to: {boxes[0]}; {rest} was not reached"
    if timed_out and unreached:
        return Outcome.TIMEOUT, f"time ran out before {rest} was reached"
    if timed_out:
        return Outcome.HANG_AFTER_RESULT, "every expected line was printed, then the check did not end"
    if exit_code in {0, None}:
        return None
    code = describe_exit(exit_code)
    if unreached:
        return Outcome.ERROR, f"the check ended with {code} before {rest} was reached"
    return Outcome.CRASH_AFTER_RESULT, f"every expected line was printed, then the check ended with {code}"


def _overall(
    groups: Mapping[str, Outcome], required: set[str], end: tuple[Outcome, str] | None
) -> tuple[Outcome, str]:
    """Give the verdict on the whole run: a failing library first, then the end, then what is missing."""
    failed = [g for g in groups if g in required and groups[g] in {Outcome.ERROR, Outcome.UNAVAILABLE}]
    missing = [g for g in groups if g in required and groups[g] is Outcome.NOT_REACHED]
    if failed:
        return Outcome.ERROR, f"{', '.join(failed)} did not start"
    if end is not None:
        return end
    if missing:
        return Outcome.NOT_REACHED, f"the check ended without a line for {', '.join(missing)}"
    return Outcome.PASS, f"{', '.join(g for g in groups if g in required)} load"


#: Windows' numbers for a failed load. Its words are localised, the numbers are not.
LOAD_CODES: Final[Mapping[int, str]] = {
    126: "it or a library it needs was not found",
    127: "a function it needs was not found",
    193: "it is not a library for this kind of process",
}

_LINE: Final = re.compile(
    r"\s*(?P<name>[A-Za-z]+[0-9]*)\s*:\s*(?:OK(?:\s+\((?P<path>.+)\))?|ERROR:\s*(?P<error>.*?))\s*"
)
_INITIALIZATION: Final = re.compile(r'Initialization\(\s*"(?P<call>[^"]*)"\s*,\s*(?P<code>-?\d+)\s*\)')
_NUMBER: Final = re.compile(r"(?<![\w.])(\d{3})(?![\w.])")


class CheckLine(Struct, frozen=True, kw_only=True):
    """One library's line. ``call`` and ``code`` are set for a failed initialisation.

    ``loading`` says that the library itself did not load; ``code`` is then the system's number if known.
    """

    name: str
    ok: bool
    path: str | None = None
    error: str = ""
    loading: bool = False
    call: str | None = None
    code: int | None = None


class CheckOutput(Struct, frozen=True, kw_only=True):
    """Everything a run printed: the lines understood, and the others as they were."""

    lines: tuple[CheckLine, ...]
    noise: tuple[str, ...] = ()


def parse_output(data: bytes | str) -> CheckOutput:
    """Read the lines of a run, in any encoding, order and company; never fails.

    A line that was cut off in the middle of ``OK`` or of its path is noise: it shows nothing. A name
    printed twice appears twice.
    """
    lines: list[CheckLine] = []
    noise: list[str] = []
    output = data if isinstance(data, str) else decoded(data)
    for raw in re.split(r"[\r\n]+", without_ansi(output)):
        text = raw.strip("\ufeff\0 \t")
        match = _LINE.fullmatch(text)
        if match:
            lines.append(_line(match))
        elif text:
            noise.append(text)
    return CheckOutput(lines=tuple(lines), noise=tuple(noise))


def _line(match: re.Match[str]) -> CheckLine:
    name, error = match["name"].lower(), match["error"]
    if error is None:
        return CheckLine(name=name, ok=True, path=match["path"])
    start = _INITIALIZATION.search(error)
    if start:
        return CheckLine(name=name, ok=False, error=error, call=start["call"], code=int(start["code"]))
    loading = error.startswith("Loading")
    numbers = [int(n) for n in _NUMBER.findall(error) if int(n) in LOAD_CODES] if loading else []
    return CheckLine(name=name, ok=False, error=error, loading=loading, code=numbers[0] if numbers else None)


def group_of(name: str) -> str:
    """Return a library's group: its name without the version (``cublaslt12`` → ``cublaslt``)."""
    return name.lower().rstrip("0123456789")
