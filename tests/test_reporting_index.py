from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from scripts.errors import UsageError
from scripts.evidence.document import (
    Document,
    DocumentMachine,
    DocumentSource,
    GpuKey,
    LockFact,
    Provenance,
    Subject,
)
from scripts.evidence.evidence_io import write_document
from scripts.evidence.index import EvidenceIndex, Filed, load_evidence
from scripts.model import CapabilityResult, Level, Outcome
from tools.readme_table import EMPTY, between_markers, refresh, status_table

BEGIN, END = "<!-- status:begin -->", "<!-- status:end -->"

EVIDENCE = Path(__file__).resolve().parents[1] / "evidence"
GPU = GpuKey(name="AMD Radeon RX 9060 XT", gfx="gfx1200", vendor="amd")
SUBJECT = Subject(stack="s", digest="b" * 64, gpu=GPU)


def result(capability: str, level: Level | None, outcome: Outcome = Outcome.PASS) -> CapabilityResult:
    return CapabilityResult(capability=capability, level=level, outcome=outcome)


def doc(day: int, *results: CapabilityResult, **changes: Any) -> Document:
    made = Document(
        created=datetime(2026, 10, day, tzinfo=UTC),
        provenance=Provenance.MEASURED,
        subject=SUBJECT,
        machine=DocumentMachine(os="windows"),
        results=results,
        lock=LockFact(digest="a" * 64),
    )
    return replace(made, **changes)


def reported(day: int, *results: CapabilityResult) -> Document:
    source = DocumentSource(name="somebody", url="https://example.org", date=f"2026-10-{day:02}")
    return doc(31, *results, provenance=Provenance.REPORTED, source=source, lock=None)


def index(*documents: Document) -> EvidenceIndex:
    return EvidenceIndex(filed=tuple(Filed(path=f"{n}.json", document=d) for n, d in enumerate(documents)))


OK = result("gemm", Level.FUNCTIONAL)
LOADS = result("gemm", Level.LOADABLE)
WRONG = result("gemm", Level.LOADABLE, Outcome.INCORRECT)


@pytest.mark.parametrize(
    ("documents", "level", "outcome", "path", "contested"),
    [
        ((doc(1, LOADS), doc(2, OK)), Level.FUNCTIONAL, Outcome.PASS, "1.json", False),
        ((doc(1, OK), doc(2, LOADS)), Level.FUNCTIONAL, Outcome.PASS, "0.json", False),
        ((reported(2, OK), doc(1, OK)), Level.FUNCTIONAL, Outcome.PASS, "1.json", False),
        ((doc(1, OK), doc(2, OK)), Level.FUNCTIONAL, Outcome.PASS, "1.json", False),
        ((doc(1, OK), doc(2, WRONG)), Level.LOADABLE, Outcome.INCORRECT, "1.json", True),
        ((doc(1, OK), doc(1, WRONG)), Level.LOADABLE, Outcome.INCORRECT, "1.json", True),
        ((doc(1, WRONG), doc(2, OK)), Level.FUNCTIONAL, Outcome.PASS, "1.json", True),
        ((doc(1, OK), reported(2, WRONG)), Level.FUNCTIONAL, Outcome.PASS, "0.json", True),
        ((reported(1, OK), reported(2, WRONG)), Level.LOADABLE, Outcome.INCORRECT, "1.json", True),
        ((reported(1, OK), doc(2, WRONG)), Level.LOADABLE, Outcome.INCORRECT, "1.json", True),
        ((doc(2, OK), doc(1, WRONG), doc(3, LOADS)), Level.FUNCTIONAL, Outcome.PASS, "0.json", True),
        ((doc(1, WRONG),), Level.LOADABLE, Outcome.INCORRECT, "0.json", False),
    ],
    ids=[
        "best-level", "a-lower-pass-takes-nothing-away", "measured-first", "newer-at-equal-level",
        "later-failure-takes-away", "same-moment-failure-takes-away", "later-pass-stands",
        "reported-failure-never-outweighs-measured-pass", "reported-by-reported", "measured-by-measured",
        "old-failure-is-kept", "only-failure",
    ],
)  # fmt: skip
def test_standing_of_a_capability(
    documents: tuple[Document, ...], level: Level, outcome: Outcome, path: str, contested: bool
) -> None:
    standing = index(*documents).standing("s", "gfx1200", "gemm")
    assert standing is not None
    assert (standing.level, standing.outcome, standing.path, standing.contested) == (
        level, outcome, path, contested,
    )  # fmt: skip
    failures = sum(r.outcome is Outcome.INCORRECT for d in documents for r in d.results)
    assert len(standing.against) == failures


@pytest.mark.parametrize(
    "document",
    [
        doc(1, OK, simulated=True, subject=replace(SUBJECT, gpu=None)),
        doc(1, OK, simulated=True),
        doc(1, OK, lock=LockFact(digest="a" * 64, custom=True)),
        doc(1, OK, subject=replace(SUBJECT, gpu=None)),
        doc(1, OK, subject=replace(SUBJECT, gpu=replace(GPU, gfx=None))),
        doc(1, OK, subject=replace(SUBJECT, gpu=replace(GPU, gfx="gfx1201"))),
        doc(1, OK, subject=replace(SUBJECT, stack="other")),
        doc(1, result("gemm", None, Outcome.NOT_REACHED)),
        doc(1, result("gemm", Level.DETECTED, Outcome.UNAVAILABLE)),
    ],
    ids=[
        "simulated", "simulated-with-gpu", "custom-lock", "no-gpu", "gfx-unknown", "other-gfx", "other-stack",
        "not-reached", "unavailable",
    ],
)  # fmt: skip
def test_what_proves_nothing_for_a_stack_on_a_gpu(document: Document) -> None:
    found = index(document)
    assert found.standing("s", "gfx1200", "gemm") is None
    assert found.level("s", "gfx1200") is None


def test_an_unknown_gfx_never_matches_an_unknown_gfx() -> None:
    unknown = doc(1, OK, subject=replace(SUBJECT, gpu=replace(GPU, gfx=None)))
    assert index(unknown).level("s", "") is None


def test_a_failure_with_another_application_takes_nothing_away() -> None:
    other = doc(2, WRONG, subject=replace(SUBJECT, application="blender"))
    standing = index(doc(1, OK), other).standing("s", "gfx1200", "gemm")
    assert standing is not None
    assert standing.level is Level.FUNCTIONAL


def test_a_stack_is_worth_its_best_document_that_passed_and_still_stands() -> None:
    check = doc(1, result("nvcuda", Level.LOADABLE))
    probe = doc(2, result("nvcuda", Level.LOADABLE), OK)
    assert index(check).level("s", "gfx1200") is Level.LOADABLE
    assert index(check, doc(2, OK)).level("s", "gfx1200") is Level.FUNCTIONAL
    assert index(probe).level("s", "gfx1200") is Level.LOADABLE
    assert index(doc(1, OK), doc(2, WRONG)).level("s", "gfx1200") is None
    assert index(doc(1, WRONG)).level("s", "gfx1200") is None


def test_an_undated_report_is_older_than_everything() -> None:
    undated = replace(reported(1, WRONG), source=DocumentSource(name="x", url="https://example.org"))
    standing = index(reported(1, OK), undated).standing("s", "gfx1200", "gemm")
    assert standing is not None
    assert standing.outcome is Outcome.PASS


def test_files_that_are_no_documents_prove_nothing_and_are_named(tmp_path: Path) -> None:
    write_document(tmp_path, doc(1, OK), name="good.json")
    (tmp_path / "bad.json").write_text('{"format": 1}', encoding="utf-8")
    (tmp_path / "README.md").write_text("no document", encoding="utf-8")
    found = load_evidence(tmp_path)
    assert [f.path for f in found.filed] == ["good.json"]
    assert len(found.faults) == 1
    assert found.faults[0].startswith("bad.json: ")


def test_no_folder_is_no_evidence(tmp_path: Path) -> None:
    assert load_evidence(tmp_path / "none") == EvidenceIndex()


# -- the committed documents ---------------------------------------------------------------------


def test_every_committed_document_is_valid_and_quotes_a_source_or_our_own_lock() -> None:
    found = load_evidence(EVIDENCE)
    assert found.faults == ()
    assert found.filed
    for filed in found.filed:
        document = filed.document
        assert not document.simulated, f"{filed.path}: a simulated run promotes nothing"
        if document.provenance is Provenance.MEASURED:
            assert document.lock is not None
            assert not document.lock.custom
            assert document.revision is not None
            assert document.revision.dirty is False, f"{filed.path}: made from a changed checkout"


def test_the_seed_results_stand_with_their_true_levels() -> None:
    found = load_evidence(EVIDENCE)
    standing = found.for_stack("zluda-v6p69-sdk64", "gfx1200")
    shown = {n: (s.level, s.outcome) for n, s in standing.items() if s.provenance is Provenance.REPORTED}
    loads = (Level.LOADABLE, Outcome.PASS)
    assert shown == {
        "nvcuda": loads,
        "cublas": loads,
        "cublaslt": loads,
        "cusparse": loads,
        "cufft": loads,
        "gemm": (Level.FUNCTIONAL, Outcome.PASS),
        "sdpa-math": (Level.FUNCTIONAL, Outcome.PASS),
        "sdpa-memory-efficient": (Level.LOADABLE, Outcome.INCORRECT),
        "ppo-training": (Level.INTEGRATED, Outcome.PASS),
    }
    missing = {e.capability for e in found.entries if e.outcome is Outcome.UNAVAILABLE}
    assert {"cudnn8", "cudnn9"} <= missing
    (gfx1150,) = (f.document for f in found.filed if f.gfx == "gfx1150")
    assert {r.capability: r.outcome for r in gfx1150.results}["cudnn-conv2d"] is Outcome.TIMEOUT
    assert gfx1150.level is None
    (gfx1201,) = (f.document for f in found.filed if f.gfx == "gfx1201")
    assert gfx1201.level is Level.DETECTED


def test_no_reported_document_says_that_it_was_measured() -> None:
    for filed in load_evidence(EVIDENCE).filed:
        if filed.document.provenance is Provenance.REPORTED:
            text = (EVIDENCE / filed.path).read_text(encoding="utf-8")
            assert "measured" not in text.casefold()
            assert '"lock": null' in text


# -- the table -----------------------------------------------------------------------------------

TABLE = """\
| GPU | stack | what was shown | what failed or is missing | who saw it |
|---|---|---|---|---|
| AMD Radeon RX 9060 XT (gfx1200) | `s` | **functional**: gemm; **loadable**: nvcuda | **incorrect**: sdpa; \
not exercised: a\\|b | measured 2026-10-01, [document](evidence/0.json) |
| AMD Radeon RX 9060 XT (gfx1200) | no stack of ours | nothing | **incorrect**: gemm | reported by \
[some\\_body\\]](https://example.org), [document](evidence/1.json) |"""


def test_the_status_table_as_people_read_it() -> None:
    first = doc(
        1,
        result("nvcuda", Level.LOADABLE),
        OK,
        result("sdpa", Level.LOADABLE, Outcome.INCORRECT),
        not_exercised=("a|b",),
    )
    second = replace(
        reported(2, WRONG),
        subject=replace(SUBJECT, stack="zz"),
        source=DocumentSource(name="some_body]", url="https://example.org"),
    )
    table = status_table(index(first, replace(second, subject=replace(SUBJECT, stack=""))))
    lines = table.splitlines()
    assert sorted(lines) == sorted(TABLE.splitlines())
    assert lines[:2] == TABLE.splitlines()[:2]


def test_without_evidence_the_table_says_so() -> None:
    assert status_table(index(doc(1, OK, simulated=True))) == EMPTY


def test_the_page_is_brought_up_to_date_once_and_check_only_looks(tmp_path: Path) -> None:
    write_document(tmp_path / "evidence", doc(1, OK), name="good.json")
    page = tmp_path / "README.md"
    page.write_bytes(f"# Ü\r\n{BEGIN}\nold\n{END}\r\ntail\n".encode())
    assert refresh(page, tmp_path / "evidence", check=True) is False
    assert b"old" in page.read_bytes()
    assert refresh(page, tmp_path / "evidence") is False
    assert refresh(page, tmp_path / "evidence") is True
    text = page.read_bytes().decode()
    assert text.startswith("# Ü\r\n")
    assert "**functional**: gemm" in text
    assert text.endswith(f"{END}\r\ntail\n")


def test_the_readme_says_what_evidence_says() -> None:
    assert refresh(EVIDENCE.parent / "README.md", EVIDENCE, check=True), "bring it up to date: nox -s docs"


@pytest.mark.parametrize("text", ["", BEGIN, f"{END}{BEGIN}", f"{BEGIN}{END}{BEGIN}{END}"])
def test_a_page_without_its_markers_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        between_markers(text, "x")
    assert caught.value.reference == "no-markers"


def test_a_broken_document_stops_the_table(tmp_path: Path) -> None:
    (tmp_path / "evidence").mkdir()
    (tmp_path / "evidence" / "bad.json").write_text("{}", encoding="utf-8")
    page = tmp_path / "README.md"
    page.write_text(f"{BEGIN}\n{END}\n", encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        refresh(page, tmp_path / "evidence")
    assert any("bad.json" in line for line in caught.value.context)
    assert page.read_text(encoding="utf-8") == f"{BEGIN}\n{END}\n"
