"""What validating one stack showed, as a file beside its evidence; and what a whole round of them means.

A *regression* is a capability that a new document shows worse than the newest earlier one in which it
*passed*: it stays named until it has recovered, however often it is measured again meanwhile. Measured
documents go before reported ones. What the new document does not mention was not asked: no regression.
"""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from scripts.evidence.document import Document, Provenance
from scripts.evidence.evidence_io import Filed
from scripts.model import CapabilityResult, Level, Outcome
from scripts.osal.fs import read_bounded
from scripts.osal.text import printable
from scripts.serialize import JsonRecord, parse_json, plain

FORMAT: Final = 1
#: Bytes of a validation; its steps need far fewer.
MOST_BYTES: Final = 16 * 1024 * 1024


class ValidationVerdict(StrEnum):
    """How a validation ended. A skip is never a success: it shows nothing."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class ValidationStep(Struct, frozen=True, kw_only=True):
    """One validation step; ``status`` is ``done``, ``kept``, ``skipped`` or ``failed``."""

    name: str
    status: str
    seconds: float = 0.0
    detail: str = ""


class Validation(Struct, frozen=True, kw_only=True):
    """One stack, validated or skipped.

    Attributes:
        stack: its id.
        gfx: the architecture it ran on; empty where no GPU was used or none is known.
        gpu: the GPU's name.
        simulated: it ran on the CPU reference stack and shows nothing about a GPU.
        verdict: see there; ``reason`` says why in one sentence.
        started: UTC, ISO 8601.
        level: what the evidence document shows, or empty.
        steps: every step, tried or not.
        passed: the capabilities that passed.
        regressions: what was better before, as ``Regression.to_json`` writes it.
        evidence: the evidence document's path, or empty.
    """

    stack: str
    verdict: ValidationVerdict
    reason: str
    started: str
    gfx: str = ""
    gpu: str = ""
    simulated: bool = False
    level: str = ""
    steps: tuple[ValidationStep, ...] = ()
    passed: tuple[str, ...] = ()
    regressions: tuple[dict[str, object], ...] = ()
    evidence: str = ""

    def to_json(self) -> dict[str, object]:
        """Return plain data."""
        return {"format": FORMAT, **plain(self)}

    @property
    def summary(self) -> str:
        """Say how it ended and on what."""
        where = "simulated" if self.simulated else self.gfx or self.gpu or "no GPU"
        return f"{self.stack} ({where}): {self.verdict.value}; {self.reason}"


def from_json(data: object) -> Validation:
    """Read what ``to_json`` wrote.

    Raises:
        ValueError: it is something else.
    """
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        msg = f"no validation of format {FORMAT}"
        raise ValueError(msg)
    return msgspec.convert(data, Validation)


def unfinished(stack: str, *, started: str) -> Validation:
    """Return what counts until a validation has written its own: that it did not finish."""
    reason = "it did not finish; its session says why"
    return Validation(stack=stack, verdict=ValidationVerdict.FAILED, reason=reason, started=started)


def write_validation(path: Path, validation: Validation) -> None:
    """Write one file; its folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(validation.to_json(), indent=2) + "\n", encoding="utf-8", newline="\n")


def read_validation(path: Path) -> Validation:
    """Read one file.

    Raises:
        ValueError: it cannot be read or is something else.
    """
    try:
        return from_json(parse_json(read_bounded(path, MOST_BYTES)))
    except OSError as error:
        msg = f"it cannot be read: {error.strerror}"
        raise ValueError(msg) from error


def read_validations(folder: Path) -> tuple[tuple[Validation, ...], tuple[str, ...]]:
    """Read every ``*.json`` of a folder; return the validations and the names of what is none."""
    found: list[Validation] = []
    faults: list[str] = []
    for path in sorted(folder.glob("*.json")):
        if not path.is_file():
            faults.append(f"{printable(path.name)}: it is no file")
            continue
        try:
            begun = path.stat().st_size == 0  # its validation has not come to an end
            found.append(unfinished(path.stem, started="") if begun else read_validation(path))
        except ValueError as error:
            faults.append(f"{printable(path.name)}: {error}")
    return tuple(found), tuple(faults)


def unsatisfied(validations: Iterable[Validation], require: str) -> tuple[str, ...]:
    """Name the required stacks and architectures (comma separated) that nothing was shown for.

    An architecture is met by any stack that really ran on it; a stack by itself, wherever it ran.
    """
    ran = [v for v in validations if v.verdict is not ValidationVerdict.SKIPPED]
    met = {v.stack for v in ran} | {v.gfx for v in ran if v.gfx}
    words = (word.strip() for word in require.split(","))
    return tuple(word for word in words if word and word not in met)


def problems_of(
    validations: Sequence[Validation], *, require: str = "", faults: Sequence[str] = ()
) -> tuple[str, ...]:
    """Say why a round of validations is no success; empty when it is one."""
    problems = [v.summary for v in validations if v.verdict is ValidationVerdict.FAILED]
    problems += [
        f"{word} was required and nothing was shown for it" for word in unsatisfied(validations, require)
    ]
    if not any(v.verdict is not ValidationVerdict.SKIPPED for v in validations):
        problems.append("nothing could be run on this machine")
    return (*problems, *faults)


def markdown(validations: Sequence[Validation], problems: Sequence[str]) -> str:
    """Write a round as a page: one row a stack, then what is wrong, then what got worse."""
    lines = ["| stack | on | verdict | shown | why |", "|---|---|---|---|---|"]
    for v in validations:
        where = "simulated" if v.simulated else " ".join(w for w in (v.gpu, v.gfx) if w) or "-"
        cells = (v.stack, where, v.verdict.value, v.level or "-", v.reason)
        lines.append(f"| {' | '.join(map(_cell, cells))} |")
    if problems:
        lines += ["", "Not a success:", "", *(f"- {_cell(problem)}" for problem in problems)]
    worse = [(v.stack, row) for v in validations for row in v.regressions]
    if worse:
        lines += ["", "Worse than before:", ""]
        lines += [
            _cell(
                f"- {stack}: {row['capability']} was {row['before']}, is {row['outcome']} ({row['document']})"
            )
            for stack, row in worse
        ]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return "".join("\\" + c if c in "|<>`[]*_" else c for c in " ".join(text.split()))


def junit(validation: Validation) -> bytes:
    """Write a validation as JUnit XML: one test case a step."""
    suite = ET.Element(
        "testsuite",
        name=f"validate {validation.stack}",
        tests=str(len(validation.steps)),
        failures=str(sum(step.status == "failed" for step in validation.steps)),
        skipped=str(sum(step.status == "skipped" for step in validation.steps)),
        errors="0",
        time=f"{sum(step.seconds for step in validation.steps):.3f}",
        timestamp=validation.started.removesuffix("Z"),
    )
    for step in validation.steps:
        case = ET.SubElement(
            suite,
            "testcase",
            classname=f"validate.{validation.stack}",
            name=step.name,
            time=f"{step.seconds:.3f}",
        )
        if step.status in {"failed", "skipped"}:
            tag = "failure" if step.status == "failed" else "skipped"
            ET.SubElement(case, tag, message=printable(step.detail))
        elif step.detail:
            ET.SubElement(case, "system-out").text = printable(step.detail)
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    return (
        b'<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode").encode() + b"\n"
    )


class Regression(JsonRecord, frozen=True, kw_only=True):
    """One capability that was better before; ``document`` shows how much better."""

    capability: str
    before: Level
    now: Level | None
    outcome: Outcome
    detail: str
    document: str
    provenance: Provenance

    @property
    def sentence(self) -> str:
        """Say what changed."""
        then = f"{self.before.value} ({self.provenance.value})"
        now = self.outcome.value if self.outcome is not Outcome.PASS else self.now.value if self.now else "-"
        detail = f"; {self.detail}" if self.detail else ""
        return f"{self.capability}: {then} became {now}{detail}"


def find_regressions(now: Document, earlier: Iterable[Filed]) -> tuple[Regression, ...]:
    """Compare a new document with everything known about the same stack, GPU and application.

    Documents about another stack, architecture or application, newer ones, and those of another kind
    (simulated, another lock) do not count. The result is sorted by capability.
    """
    comparable = sorted(
        (f for f in earlier if f.document.observed < now.observed and _scope(f.document) == _scope(now)),
        key=lambda f: (f.document.provenance is Provenance.MEASURED, f.document.observed, f.path),
    )
    passes: dict[str, tuple[Filed, Level]] = {}  # the last that is put in decides
    for filed in comparable:
        for result in filed.document.results:
            if result.outcome is Outcome.PASS and result.level is not None:
                passes[result.capability] = (filed, result.level)
    return tuple(
        Regression(
            capability=result.capability,
            before=before,
            now=result.level,
            outcome=result.outcome,
            detail=result.detail,
            document=filed.path,
            provenance=filed.document.provenance,
        )
        for result in sorted(now.results, key=lambda r: r.capability)
        if result.capability in passes
        for filed, before in (passes[result.capability],)
        if _rank(result) < before.rank
    )


def _scope(document: Document) -> tuple[object, ...]:
    """Return what a document speaks about; where the architecture is unknown, the product."""
    subject, gpu = document.subject, document.subject.gpu
    custom = document.lock is not None and document.lock.custom
    product = "" if gpu is None else gpu.gfx or gpu.name
    return subject.stack, subject.application, document.simulated, custom, product


def _rank(result: CapabilityResult) -> int:
    """Return what a result is worth; nothing where it did not pass."""
    return result.level.rank if result.outcome is Outcome.PASS and result.level is not None else -1
