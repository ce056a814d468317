"""One bad file stops nothing: documents, records, validations and histories with one wrong value each."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from scripts.bench.trials import HIGHER, Metric, Runs, Trial, read_record, to_json
from scripts.errors import WorkspaceError
from scripts.evidence.document import (
    Document,
    DocumentMachine,
    DocumentSource,
    FileFact,
    GpuKey,
    HipFact,
    LockFact,
    Provenance,
    Revision,
    Subject,
)
from scripts.evidence.evidence_io import dump, read_document
from scripts.evidence.validation import Validation, ValidationStep, ValidationVerdict, read_validations
from scripts.model import CapabilityResult, Level, Outcome
from scripts.staging.runtimes import activate, read_history

#: Each stands once in the place of every value of a good file. The text is raw JSON.
WRONG = (
    *("null", "5", "-1", "1e999", "9" * 400, "9" * 5000, "true", "[]", "{}", "[[]]", '"x\\u0000y"'),
    *('"\\ud800"', f'"{"x" * 5000}"', '""', '"../../.."', "NaN", "[" * 100_000),
)
HOLE = "a place for something wrong"


def document() -> Any:
    return json.loads(
        dump(
            Document(
                created=datetime(2026, 10, 1, tzinfo=UTC),
                provenance=Provenance.REPORTED,
                source=DocumentSource(name="a page", url="https://example.org", date="2026-10-01"),
                subject=Subject(stack="s", digest="b" * 64, gpu=GpuKey(name="RX", gfx="gfx1200")),
                machine=DocumentMachine(
                    os="windows", driver="1", hip_roots=(HipFact(path="C:/x", version="6.4"),)
                ),
                results=(CapabilityResult(capability="gemm", level=Level.LOADABLE, outcome=Outcome.PASS),),
                lock=LockFact(digest="a" * 64),
                revision=Revision(commit="c" * 40, dirty=False),
                files=(FileFact(name="nvcuda.dll", sha256="d" * 64),),
                not_exercised=("fft",),
                attachments=("log.txt",),
                notes=("a note",),
            )
        )
    )


def record() -> Any:
    trials = tuple(
        Trial(runtime="a", number=n, right=True, answer="1", state={"clocks": "1"}, iterations=({"t": 1.0},))
        for n in (1, 2)
    )
    metrics = {"t": Metric(name="t", better=HIGHER, unit="s")}
    conditions = {"a": {"gpu": "x"}}
    return to_json(
        Runs(workload="w", size="1", metrics=metrics, conditions=conditions, trials=trials, primary="t")
    )


def validation() -> Any:
    made = Validation(
        stack="s",
        verdict=ValidationVerdict.PASSED,
        reason="done",
        started="2026-10-01T00:00:00Z",
        steps=(ValidationStep(name="check", status="done", seconds=1.0, detail=""),),
        passed=("check",),
        regressions=({"capability": "gemm"},),
    )
    return made.to_json()


def places(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    for key, value in (
        data.items() if isinstance(data, dict) else enumerate(data if isinstance(data, list) else ())
    ):
        yield from places(value, (*path, key))


def damaged(data: Any) -> Iterator[str]:
    """The good file with each wrong value in the place of each value, and without each value."""
    for path in places(data):
        holed = copy.deepcopy(data)
        if not path:
            yield from WRONG
            continue
        inner = holed
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = HOLE
        text = json.dumps(holed)
        yield from (text.replace(f'"{HOLE}"', wrong) for wrong in WRONG)
        del inner[path[-1]]
        yield json.dumps(holed)


def outcome_of(read: Callable[[Path], object], path: Path) -> bool:
    """Whether a file was read; refusing it is the only other thing that may happen."""
    try:
        read(path)
    except WorkspaceError as error:
        named = f"{error.message} {error.context}"
    else:
        return True
    assert path.name in named
    return False


@pytest.mark.slow
def test_a_document_with_one_wrong_value_is_read_or_refused(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    path, read = tmp_path / "it.json", []
    for text in damaged(document()):
        path.write_text(text, encoding="utf-8")
        read.append(outcome_of(lambda p: dump(read_document(p)), path))
    record_property("tried: wrong values in documents", len(read))
    assert len(read) > 700
    assert read.count(True) < len(read) / 3


@pytest.mark.slow
def test_a_record_with_one_wrong_value_is_read_or_refused(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    path, read = tmp_path / "it.json", []
    for text in damaged(record()):
        path.write_text(text, encoding="utf-8")
        read.append(outcome_of(lambda p: json.dumps(to_json(read_record(p)), allow_nan=False), path))
    record_property("tried: wrong values in records", len(read))
    assert len(read) > 500
    assert read.count(True) < len(read) / 2


def test_a_validation_with_one_wrong_value_is_read_or_named(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    for number, text in enumerate(damaged(validation())):
        (tmp_path / f"{number:04}.json").write_text(text, encoding="utf-8")
    (tmp_path / "folder.json").mkdir()
    found, faults = read_validations(tmp_path)
    record_property("tried: wrong values in validations", len(found) + len(faults))
    assert found
    assert len(faults) > 150
    assert len(found) + len(faults) == len(list(tmp_path.iterdir()))
    for one in found:
        json.dumps(one.to_json()).encode()


def test_a_history_with_one_wrong_value_is_read_or_refused(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    activate(tmp_path, stack="one", digest="a" * 64, lock="l", reason="setup", options=("libtorch",))
    path = tmp_path / "generations.json"
    good, read = json.loads(path.read_text(encoding="utf-8")), []
    for text in damaged(good):
        path.write_text(text, encoding="utf-8")
        read.append(outcome_of(lambda p: read_history(p.parent), path))
    record_property("tried: wrong values in histories", len(read))
    assert len(read) > 150
    assert read.count(True) < len(read) / 2
