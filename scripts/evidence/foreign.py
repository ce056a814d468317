"""Reports of Speedstu/CUDA-for-AMD-Windows as documents of ours, so that its users can bring theirs along.

Its PowerShell scripts leave JSON files in one folder (``.runtime`` unless it was named): a configuration
(``runtime-config.json``), a list of devices (``gpu-report.json`` or ``gpu-profile.json``), and what was seen
(``runtime-test.json``, ``functional-test.json``, ``capability-test.json``), as setup.ps1, gpu-scan.ps1 and
test-*.ps1 of that repository wrote them in autumn 2026. Each of the last three becomes a document.

What comes out is ``reported``, and no more than the file shows: a probe of theirs whose numbers lie within
its own tolerance of a reference can show ``functional``, any other ``loadable``, a list of devices
``detected``. Its own
words (``validated``, ``full_support``) are no evidence. A file speaks for a stack of ours only if it names
the very archive that the stack pins, and a HIP version in its range; nothing in it proves that, and the
document says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from math import inf, isfinite
from pathlib import Path, PureWindowsPath
from typing import Any, Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from scripts.errors import UsageError
from scripts.evidence.cuda_check import judge, parse_output
from scripts.evidence.document import (
    IDLE,
    Document,
    DocumentMachine,
    DocumentSource,
    GpuKey,
    HipFact,
    Provenance,
    Subject,
    within_ceiling,
)
from scripts.evidence.evidence_io import read_raw
from scripts.host.gpu import AMD
from scripts.host.hip import in_range
from scripts.model import CapabilityResult, HipSource, Level, Lock, Outcome, StackKind
from scripts.osal.redaction import Redactor
from scripts.osal.text import decoded, one_line
from scripts.serialize import parse_json

URL: Final = "https://github.com/Speedstu/CUDA-for-AMD-Windows"
PROJECT: Final = "CUDA-for-AMD-Windows"
CONFIG: Final = "runtime-config.json"
SCANS: Final = ("gpu-report.json", "gpu-profile.json")
TESTS: Final = ("runtime-test.json", "functional-test.json", "capability-test.json")
FILES: Final = (CONFIG, *SCANS, *TESTS)

#: Their words for how a probe ended. A process that hung or crashed after its result is judged by both.
OUTCOMES: Final = {
    "pass": Outcome.PASS,
    "unsupported": Outcome.REFUSED,
    "incorrect": Outcome.INCORRECT,
    "error": Outcome.ERROR,
    "timeout": Outcome.TIMEOUT,
    "unavailable": Outcome.UNAVAILABLE,
    "hang_after_result": Outcome.HANG_AFTER_RESULT,
    "crash_after_result": Outcome.CRASH_AFTER_RESULT,
}
#: An answer came, right or wrong.
ANSWERED: Final = frozenset({Outcome.PASS, Outcome.HANG_AFTER_RESULT, Outcome.CRASH_AFTER_RESULT})
_GFX: Final = re.compile(r"gfx[0-9a-f]{3,5}")
_VERSION: Final = re.compile(r"\d+(?:\.\d+)+")
MAX_DETAIL: Final = 400

Data = Mapping[str, Any]


class ForeignReports(Struct, frozen=True, kw_only=True):
    """Files of theirs that lie together.

    Attributes:
        tests: what was seen, by file name.
        config: their configuration, or nothing.
        scan: their list of devices, or nothing.
        changed: when the newest of them was written; it dates what has no date of its own.
    """

    tests: Mapping[str, Data]
    config: Data
    scan: Data
    changed: datetime


def read_foreign(path: Path) -> ForeignReports | None:
    """Read a file of theirs with its neighbours, or a folder of them; ``None`` if it is something else.

    A single file is known by its content, so it may have any name.

    Raises:
        UsageError: it cannot be read.
    """
    folder = path if path.is_dir() else path.parent
    near = {name: folder / name for name in FILES if (folder / name).is_file() and folder / name != path}
    found = {name: data for name, file in near.items() if (data := _object(file)) is not None}
    if not path.is_dir():
        own = _object(path) or {}
        found = {name: data for name, data in found.items() if name not in TESTS} | {_kind(own): own}
        if not _kind(own):
            return None
    kinds = dict.fromkeys(SCANS, SCANS[0])
    known = {name: data for name, data in found.items() if _kind(data) == kinds.get(name, name)}
    if not known:
        return None
    scan = next((known[name] for name in SCANS if name in known), {})
    stamps = [file.stat().st_mtime for file in (*near.values(), path) if file.is_file()]
    return ForeignReports(
        tests={name: known[name] for name in TESTS if name in known},
        config=known.get(CONFIG, {}),
        scan=scan,
        changed=datetime.fromtimestamp(max(stamps), UTC).replace(microsecond=0),
    )


def documents_of(reports: ForeignReports, *, lock: Lock, redactor: Redactor) -> tuple[Document, ...]:
    """Turn reports into documents, one a test; without a test one that says which GPU was listed.

    Raises:
        UsageError: they do not say which GPU it was.
    """
    made = [
        _document(reports, name, data, tuple(_results(name, data, redactor)), lock=lock, redactor=redactor)
        for name, data in reports.tests.items()
    ]
    if not made:
        data, name = (reports.scan, SCANS[0]) if reports.scan else (reports.config, CONFIG)
        listed = CapabilityResult(
            capability="device", level=Level.DETECTED, outcome=Outcome.PASS, detail="its scan listed the GPU"
        )
        made.append(_document(reports, name, data, (listed,), lock=lock, redactor=redactor))
    return tuple(made)


def _object(path: Path) -> Data | None:
    """Read a JSON object as PowerShell writes it (a mark, or UTF-16); ``None`` for anything else."""
    raw = read_raw(path)
    try:
        data = None if raw is None else parse_json(decoded(raw).encode("utf-8", "replace"))
    except ValueError:
        return None
    return data if isinstance(data, dict) else None


def _kind(data: Data) -> str:
    """Name the file of theirs that holds such an object; empty for anything else."""
    if data.keys() >= {"zluda_root", "hip_root", "upstream"}:
        return CONFIG
    if data.keys() >= {"devices", "selected_gpu"}:
        return SCANS[0]
    if data.keys() >= {"checks", "core_ok"} and isinstance(data["checks"], dict):
        return TESTS[0]
    if data.keys() >= {"tests", "correctness_ok"}:
        return TESTS[1]
    return TESTS[2] if data.keys() >= {"results", "tested_capabilities"} else ""


def _document(
    reports: ForeignReports,
    name: str,
    data: Data,
    results: tuple[CapabilityResult, ...],
    *,
    lock: Lock,
    redactor: Redactor,
) -> Document:
    gpu, driver, note = _gpu(reports, data)
    gpu = replace(gpu, name=redactor.text(gpu.name))
    driver = redactor.text(driver) if driver else None
    hip = _hip_version(reports, data)
    stack, combination = _stack(reports.config, data, hip, lock)
    created = _moment(data.get("generated_utc"))
    seen = created or reports.changed
    probes = name in TESTS[1:]
    return Document(
        created=seen,
        provenance=Provenance.REPORTED,
        source=DocumentSource(name=f"{PROJECT}, {name}", url=URL, date=f"{seen:%Y-%m-%d}" if created else ""),
        subject=Subject(stack=stack, gpu=gpu, application=f"probes of {PROJECT}" if probes else ""),
        machine=DocumentMachine(
            os="windows",
            driver=driver,
            hip_roots=(HipFact(path="", version=hip, source="as reported"),) if hip else (),
        ),
        results=results,
        not_exercised=tuple(sorted(r.capability for r in results if r.outcome in IDLE)),
        notes=tuple(_clean(note, redactor) for note in (*_notes(reports, data, stack), note) if note),
        combination=_clean(combination, redactor)[:200],
    )


def _gpu(reports: ForeignReports, data: Data) -> tuple[GpuKey, str | None, str]:
    """Say which GPU it was, with its driver, and a note where its architecture was only guessed."""
    chosen = _dict(reports.scan.get("selected_gpu"))
    told = _dict(data.get("gpu")) or _dict(reports.config.get("gpu"))
    name = _line(told.get("name")) or _line(chosen.get("name"))
    gfx = _GFX.match(_text(told.get("arch")) or _text(chosen.get("gfx")))
    same = _line(chosen.get("name")) == name
    if not name and not gfx:
        raise UsageError(
            "foreign-without-gpu",
            "nothing in the reports says which GPU they are about",
            hint=f"put {CONFIG} or {SCANS[0]} of the same machine beside them, then import again",
        )
    guessed = same and _text(chosen.get("detection")) not in {"", "hipInfo"}
    key = GpuKey(
        name=name or f"AMD {gfx[0] if gfx else ''}", gfx=None if guessed or not gfx else gfx[0], vendor=AMD
    )
    note = "the architecture was guessed from the product's name, so it is left out" if guessed else ""
    return key, (_line(chosen.get("driver_version")) or None) if same else None, note


def _stack(config: Data, data: Data, hip: str, lock: Lock) -> tuple[str, str]:
    """Return the stack of ours that was used, or words for what was."""
    upstream = _dict(config.get("upstream"))
    asset, release = _text(upstream.get("zluda_windows_asset")), _text(upstream.get("zluda_release"))
    overlay = bool(config.get("custom_overlay_root"))
    artifact = next(
        (a for a in lock.artifacts.values() if asset and any(u.endswith(f"/{asset}") for u in a.urls)), None
    )
    if artifact is not None and hip and not overlay and _not_contradicted(data, artifact.members):
        for stack in lock.stacks.values():
            sdk = stack.kind is StackKind.TRANSLATION and stack.hip.source is HipSource.SDK
            if sdk and stack.parts == (artifact.id,) and in_range(stack.hip.range, hip):
                return stack.id, ""
    words = f"ZLUDA {release or 'of unknown version'} with HIP {hip or 'of unknown version'}"
    return "", f"{words} and a custom overlay" if overlay else words


def _not_contradicted(data: Data, members: Iterable[Any]) -> bool:
    """Whether no hash in the report differs from one that the lock has."""
    hashes = _dict(data.get("runtime_hashes"))
    told = {"zluda.exe": hashes.get("launcher_sha256"), "nvcuda.dll": hashes.get("nvcuda_sha256")}
    return all(
        m.sha256 is None or not told.get(m.name) or _text(told[m.name]).lower() == m.sha256 for m in members
    )


def _hip_version(reports: ForeignReports, data: Data) -> str:
    """Return the version in the name of HIP's folder, as their scan takes it; empty where there is none."""
    for holder, key in ((reports.scan, "hip_version"), (data, "hip_root"), (reports.config, "hip_root")):
        found = _VERSION.match(PureWindowsPath(_text(holder.get(key))).name)
        if found:
            return found[0]
    return ""


def _results(name: str, data: Data, redactor: Redactor) -> Iterator[CapabilityResult]:
    if name == TESTS[0]:
        yield from (within_ceiling(_redacted(result, redactor)) for result in _check(data))
        return
    entries = data.get("tests" if name == TESTS[1] else "results")
    listed = [entries] if isinstance(entries, dict) else entries if isinstance(entries, list) else []
    seen: dict[str, CapabilityResult] = {}
    for entry in map(_dict, listed):
        if capability := _line(entry.get("test")):
            seen[capability] = _redacted(_probe(capability, entry), redactor)
    yield from seen.values()


def _check(data: Data) -> Iterable[CapabilityResult]:
    """Judge what their ``cuda_check`` printed as ours is judged; without it, their word for each library."""
    output = parse_output(_text(data.get("stdout")))
    ended = data.get("process_exit")
    timed_out = data.get("timed_out") is True
    if output.lines:
        code = ended if isinstance(ended, int) and not isinstance(ended, bool) else None
        return judge(output, expected=(), exit_code=code, timed_out=timed_out).results
    return [
        CapabilityResult(
            capability=_line(library),
            level=Level.LOADABLE if ok is True else None,
            outcome=Outcome.PASS if ok is True else Outcome.NOT_REACHED,
        )
        for library, ok in data["checks"].items()
        if _line(library)
    ]


def _probe(name: str, entry: Data) -> CapabilityResult:
    """Judge one probe of theirs; numbers that were compared are known by their distance to the reference."""
    result = _dict(entry.get("result"))
    word, shown = _text(entry.get("status")), _text(entry.get("capability_status"))
    outcome = OUTCOMES.get(word, Outcome.ERROR)
    if outcome in {Outcome.HANG_AFTER_RESULT, Outcome.CRASH_AFTER_RESULT} and shown != "pass":
        outcome = OUTCOMES.get(shown, Outcome.ERROR)  # the result itself was no good, which weighs more
    compared = list(_comparisons(result))
    if outcome in ANSWERED and not all(isfinite(each.largest) for each in compared):
        outcome = Outcome.INCORRECT
    good = bool(compared) and all(each.within for each in compared)
    level: Level | None = Level.FUNCTIONAL if good else Level.LOADABLE
    measured = _measured(compared)
    if outcome is Outcome.INCORRECT:
        level = Level.LOADABLE
    elif outcome not in ANSWERED:
        level, measured = None, ""
    words = _text(result.get("error")) or _text(result.get("reason")) or measured
    detail = "; ".join(part for part in (f"their word: {word or 'none'}", words) if part)
    return CapabilityResult(capability=name, level=level, outcome=outcome, detail=detail)


class _Comparison(NamedTuple):
    """One set of numbers of theirs against its reference: how far off the worst is, and whether it may be."""

    largest: float
    within: bool


def _comparisons(value: object) -> Iterator[_Comparison]:
    """Yield every comparison with a reference in a result, however deep it lies, in lists too."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        elif isinstance(part, dict):
            waiting += part.values()
            largest = _number(part.get("max_abs"))
            if largest is not None and "atol" in part:
                yield _Comparison(largest, within=0 <= largest <= _allowed(part, largest))


def _allowed(part: Data, largest: float) -> float:
    """Return the tolerance that a comparison states; none where it is no number.

    ``rtol`` counts only where the scale of the reference follows from ``max_abs_over_ref_scale``.
    """
    atol, rtol = _number(part.get("atol")), _number(part.get("rtol")) or 0.0
    share = _number(part.get("max_abs_over_ref_scale")) or 0.0
    scale = largest / share if share > 0 else 0.0
    allowed = -inf if atol is None else atol + max(rtol, 0.0) * scale
    return allowed if isfinite(allowed) else -inf


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _measured(compared: Iterable[_Comparison]) -> str:
    """Say how far off the numbers are, and whether their own tolerance covers that."""
    worst = sorted(compared, key=lambda each: (each.within, -each.largest))
    if not worst:
        return "no numbers were compared"
    more = "" if worst[0].within else ", which its own tolerance does not cover"
    return f"largest difference {worst[0].largest:.3g}{more}"


def _notes(reports: ForeignReports, data: Data, stack: str) -> Iterator[str]:
    """Yield what a reader must know to judge the document."""
    yield f"imported from a file that the scripts of {PROJECT} wrote; the file itself is not published"
    if stack:
        yield "the stack is what its configuration names; no hash shows which files were used"
    if revision := _text(data.get("project_revision")):
        yield f"their revision {revision[:40]}"
    if torch := _text(data.get("pytorch")):
        yield f"PyTorch {torch[:60]}"
    if compute := _text(data.get("zluda_cc")) or _text(reports.config.get("zluda_cc")):
        yield f"ZLUDA_CC={compute[:10]}"


def _moment(value: object) -> datetime | None:
    """Read ``2026-09-16T10:11:12.1234567Z``."""
    try:
        return datetime.fromisoformat(_text(value)[:19]).replace(tzinfo=UTC)
    except ValueError:
        return None


def _redacted(result: CapabilityResult, redactor: Redactor) -> CapabilityResult:
    name, detail = redactor.text(_line(result.capability)), _clean(result.detail, redactor)
    return replace(result, capability=name, detail=detail[:MAX_DETAIL])


def _clean(text: str, redactor: Redactor) -> str:
    return redactor.text(one_line(text))


def _dict(value: object) -> Data:
    return value if isinstance(value, dict) else {}


def _line(value: object) -> str:
    """Keep a name to one short line."""
    return one_line(_text(value))[:100]


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
