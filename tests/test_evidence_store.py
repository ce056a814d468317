"""Many documents become cells: each content once, nothing raised, nothing lost, the same in any order."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from scripts.app.evidence_lookup import levels_of
from scripts.errors import UsageError
from scripts.evidence.document import (
    IDLE,
    Document,
    DocumentMachine,
    DocumentSource,
    FigureFact,
    GpuKey,
    LockFact,
    Provenance,
    Subject,
    within_ceiling,
)
from scripts.evidence.evidence_io import content_hash, dump, write_document
from scripts.evidence.matrix import Matrix, matrix
from scripts.evidence.merging import Cell, CellKey, Observation, merge, strongest
from scripts.evidence.store import EvidenceStore, open_store, store_of
from scripts.model import CapabilityResult, Level, Outcome
from tools.figures import evidence_figures
from tools.many_documents import many_documents
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


def reported(day: int, *results: CapabilityResult, **changes: Any) -> Document:
    source = DocumentSource(name="a person", url="https://example.org", date=f"2026-10-{day:02}")
    return doc(31, *results, provenance=Provenance.REPORTED, source=source, lock=None, **changes)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "evidence"


def fill(folder: Path, documents: Sequence[Document]) -> None:
    folder.mkdir(exist_ok=True)
    for number, document in enumerate(documents):
        (folder / f"{number}.json").write_bytes(dump(document))


def stored(folder: Path, *documents: Document) -> EvidenceStore:
    fill(folder, documents)
    store = open_store()
    store.ingest(folder)
    return store


def cell_of(
    folder: Path, *documents: Document, application: str = "", capability: str = "gemm"
) -> Cell | None:
    with stored(folder, *documents) as store:
        cells = store.cells(
            gpu="gfx1200", stack="s", application=application, capability=capability, observations=True
        )
    return cells[0] if cells else None


def path_of(store: EvidenceStore, content: str) -> str:
    kept = store.document(content)
    assert kept is not None
    return kept.paths[0]


OK = result("gemm", Level.FUNCTIONAL)
LOADS = result("gemm", Level.LOADABLE)
WRONG = result("gemm", Level.LOADABLE, Outcome.INCORRECT)


@pytest.mark.parametrize(
    ("documents", "level", "outcome", "shows", "conflict"),
    [
        ((doc(1, LOADS), doc(2, OK)), Level.FUNCTIONAL, Outcome.PASS, 1, False),
        ((doc(1, OK), doc(2, LOADS)), Level.FUNCTIONAL, Outcome.PASS, 0, False),
        ((reported(2, OK), doc(1, OK)), Level.FUNCTIONAL, Outcome.PASS, 1, False),
        ((doc(1, OK), doc(2, OK)), Level.FUNCTIONAL, Outcome.PASS, 1, False),
        ((doc(1, OK), doc(2, WRONG)), Level.LOADABLE, Outcome.INCORRECT, 1, True),
        ((doc(1, OK), doc(1, WRONG)), Level.LOADABLE, Outcome.INCORRECT, 1, True),
        ((doc(1, WRONG), doc(2, OK)), Level.FUNCTIONAL, Outcome.PASS, 1, True),
        ((doc(1, OK), reported(2, WRONG)), Level.FUNCTIONAL, Outcome.PASS, 0, True),
        ((reported(1, OK), reported(2, WRONG)), Level.LOADABLE, Outcome.INCORRECT, 1, True),
        ((reported(1, OK), doc(2, WRONG)), Level.LOADABLE, Outcome.INCORRECT, 1, True),
        ((doc(2, OK), doc(1, WRONG), doc(3, LOADS)), Level.FUNCTIONAL, Outcome.PASS, 0, True),
        ((doc(1, WRONG),), Level.LOADABLE, Outcome.INCORRECT, 0, False),
    ],
    ids=[
        "best-level", "a-lower-pass-takes-nothing-away", "measured-first", "newer-at-equal-level",
        "later-failure-takes-away", "same-moment-failure-takes-away", "later-pass-stands",
        "reported-failure-never-outweighs-measured-pass", "reported-by-reported", "measured-by-measured",
        "old-failure-is-kept", "only-failure",
    ],
)  # fmt: skip
def test_what_stands(
    folder: Path,
    *,
    documents: tuple[Document, ...],
    level: Level,
    outcome: Outcome,
    shows: int,
    conflict: bool,
) -> None:
    cell = cell_of(folder, *documents)
    assert cell is not None
    assert (cell.level, cell.outcome, cell.conflict) == (level, outcome, conflict)
    assert cell.document == content_hash(documents[shows])
    assert {o.document for o in cell.observations} == set(map(content_hash, documents))
    assert [o.observed for o in cell.observations] == sorted(
        (o.observed for o in cell.observations), reverse=True
    )
    assert len(cell.failures) == sum(r.outcome is Outcome.INCORRECT for d in documents for r in d.results)


@pytest.mark.parametrize(
    "document",
    [
        doc(1, OK, simulated=True, subject=replace(SUBJECT, gpu=None)),
        doc(1, OK, lock=LockFact(digest="a" * 64, custom=True)),
        doc(1, OK, subject=replace(SUBJECT, gpu=None)),
        doc(1, OK, subject=replace(SUBJECT, gpu=replace(GPU, gfx=None))),
        doc(1, OK, subject=replace(SUBJECT, gpu=replace(GPU, gfx=None, name="gfx1200"))),
        doc(1, OK, subject=replace(SUBJECT, gpu=replace(GPU, gfx="gfx1201"))),
        doc(1, OK, subject=replace(SUBJECT, stack="other")),
        reported(1, OK, subject=replace(SUBJECT, stack=""), combination="words that say s"),
        doc(1, result("gemm", None, Outcome.NOT_REACHED)),
        doc(1, result("gemm", Level.DETECTED, Outcome.UNAVAILABLE)),
    ],
    ids=[
        "simulated", "custom-lock", "no-gpu", "gfx-unknown", "named-like-a-gfx", "other-gfx", "other-stack",
        "combination", "not-reached", "unavailable",
    ],
)  # fmt: skip
def test_what_proves_nothing_for_a_stack_on_a_gpu(folder: Path, document: Document) -> None:
    with stored(folder, document) as store:
        assert levels_of(store).get(("s", "gfx1200")) is None
        assert len(matrix(store).documents) == 1, "it is kept all the same"


def test_what_does_not_count_is_in_no_cell_and_says_why(folder: Path) -> None:
    with stored(
        folder,
        doc(1, OK, simulated=True, subject=replace(SUBJECT, gpu=None)),
        doc(2, OK, lock=LockFact(digest="a" * 64, custom=True)),
        doc(3, OK, subject=replace(SUBJECT, gpu=None)),
    ) as store:
        shown = matrix(store)
    assert shown.cells == ()
    assert [fact.why_not for fact in shown.documents] == ["no-gpu", "custom-lock", "simulated"]


def test_a_failure_with_another_application_takes_nothing_away(folder: Path) -> None:
    other = doc(2, WRONG, subject=replace(SUBJECT, application="blender"))
    with stored(folder, doc(1, OK), other) as store:
        assert levels_of(store) == {("s", "gfx1200"): Level.FUNCTIONAL}
        best = strongest(store.cells(capability="gemm"))
    assert best is not None
    assert (best.application, best.level) == ("", Level.FUNCTIONAL)


def test_a_stack_is_worth_its_best_document_that_passed_and_still_stands(tmp_path: Path) -> None:
    check = doc(1, result("nvcuda", Level.LOADABLE))
    for number, (documents, level) in enumerate(
        [
            ((check,), Level.LOADABLE),
            ((check, doc(2, OK)), Level.FUNCTIONAL),
            ((doc(2, result("nvcuda", Level.LOADABLE), OK),), Level.LOADABLE),
            ((doc(1, OK), doc(2, WRONG)), None),
            ((doc(1, WRONG),), None),
        ]
    ):
        with stored(tmp_path / str(number), *documents) as store:
            assert levels_of(store).get(("s", "gfx1200")) is level


def test_an_undated_report_is_older_than_everything(folder: Path) -> None:
    undated = replace(reported(1, WRONG), source=DocumentSource(name="x", url="https://example.org"))
    cell = cell_of(folder, reported(1, OK), undated)
    assert cell is not None
    assert (cell.outcome, cell.observations[-1].seen, cell.newest) == (Outcome.PASS, "", "2026-10-01")


# -- merging, whatever the documents ---------------------------------------------------------------

OBSERVED = st.builds(
    lambda number, day, provenance, level, outcome: (number, day, provenance, level, outcome),
    st.integers(0, 99),
    st.integers(1, 9),
    st.sampled_from(Provenance),
    st.sampled_from([None, *Level]),
    st.sampled_from(Outcome),
)


def observations(drawn: list[Any]) -> list[Observation]:
    """Keep to the ceiling, as every document does; a pass shows something."""
    made = []
    for number, (_, day, provenance, level, outcome) in enumerate(drawn):
        kept = within_ceiling(
            result("x", level or (Level.DETECTED if outcome is Outcome.PASS else None), outcome)
        )
        made.append(
            Observation(
                document=f"{number:064x}",
                observed=f"2026-10-{day:02}T00:00:00Z",
                provenance=provenance,
                level=kept.level,
                outcome=outcome,
            )
        )
    return made


@given(st.lists(OBSERVED, min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_merging_raises_nothing_loses_nothing_and_knows_no_order(drawn: list[Any], rng: Any) -> None:
    seen = observations(drawn)
    cell = merge(CellKey("g", "s", "", "x"), seen, pinned=True)
    assert cell.stands in seen, "what stands is one document's word"
    assert sorted(cell.observations, key=lambda o: o.document) == seen
    passes = [o for o in seen if o.outcome is Outcome.PASS]
    if cell.outcome is Outcome.PASS:
        later = [o for o in cell.failures if o.observed >= cell.stands.observed]
        assert all(o.provenance is Provenance.REPORTED and cell.stands.measured for o in later)
    elif passes:
        assert cell.failures, "only a failure takes a pass away"
    assert cell.conflict == (bool(passes) and bool(cell.failures))
    shuffled = seen[:]
    rng.shuffle(shuffled)
    assert merge(cell.key, shuffled, pinned=True) == cell


@given(st.lists(OBSERVED, min_size=1, max_size=12), OBSERVED)
def test_a_failure_more_never_raises_a_cell(drawn: list[Any], more: Any) -> None:
    before = merge(CellKey("g", "s", "", "x"), observations(drawn), pinned=True)
    if more[4] is Outcome.PASS or more[4] in IDLE:
        return
    after = merge(before.key, observations([*drawn, more]), pinned=True)
    if after.outcome is Outcome.PASS:
        assert before.outcome is Outcome.PASS
        assert before.level is not None
        assert after.level is not None
        assert after.level.rank <= before.level.rank


# -- folders and files ----------------------------------------------------------------------------------


def some(count: int = 60) -> Iterator[tuple[str, bytes]]:
    return many_documents(count, seed=7)


def whole(folder: Path, path: Path | None = None) -> Matrix:
    with open_store(path) as store:
        store.ingest(folder)
        return matrix(store)


@pytest.mark.slow
@pytest.mark.parametrize("count", [100, pytest.param(200, marks=pytest.mark.proof)])
def test_the_order_and_the_number_of_rounds_make_no_difference(tmp_path: Path, count: int) -> None:
    files = list(some(count))
    one, two = tmp_path / "a" / "evidence", tmp_path / "b" / "evidence"
    for place, order in ((one, files), (two, files[::-1])):
        place.mkdir(parents=True)
        for name, content in order:
            (place / name).write_bytes(content)
            if place == two and name.endswith("50.json"):
                whole(two, tmp_path / "kept.sqlite")
    first = whole(one)
    assert first == whole(two, tmp_path / "kept.sqlite")
    assert len(first.documents) == count - 2 * (count // 100), (
        "of a hundred, one is none and one holds what another does"
    )
    assert len(first.faults) == count // 100
    assert any(len(fact.paths) == 2 for fact in first.documents)


def test_the_same_content_is_one_document_however_it_is_written(folder: Path) -> None:
    document = doc(1, OK)
    fill(folder, [document])
    data = json.loads(dump(document))
    (folder / "sorted.json").write_text(json.dumps(data, sort_keys=True), encoding="utf-8")
    (folder / "marked.json").write_bytes(b"\xef\xbb\xbf" + dump(document).replace(b"\n", b"\r\n"))
    shown = whole(folder)
    (fact,) = shown.documents
    assert fact.document == content_hash(document)
    assert fact.paths == ("evidence/0.json", "evidence/marked.json", "evidence/sorted.json")
    assert {cell.count for cell in shown.cells} == {1}


def test_what_is_gone_or_changed_goes_from_its_cells(folder: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept.sqlite"
    fill(folder, [doc(1, OK), doc(2, WRONG), doc(3, result("fft", Level.LOADABLE))])
    whole(folder, kept)
    (folder / "1.json").unlink()
    (folder / "2.json").write_bytes(dump(doc(3, result("fft", Level.FUNCTIONAL))))
    with open_store(kept) as store:
        done = store.ingest(folder)
        assert (done.added, done.removed) == (1, 2)
        cells = {cell.capability: cell.level for cell in store.cells() if cell.capability}
        assert cells == {"gemm": Level.FUNCTIONAL, "fft": Level.FUNCTIONAL}
        for path in folder.iterdir():
            path.unlink()
        store.ingest(folder)
        assert matrix(store) == Matrix(cells=(), documents=(), figures=(), faults=())


def test_only_what_has_changed_is_read_again(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(folder, [doc(1, OK), doc(2, WRONG)])
    for path in folder.iterdir():
        os.utime(path, (1_700_000_000, 1_700_000_000))
    first = whole(folder, tmp_path / "kept.sqlite")
    monkeypatch.setattr(
        "scripts.evidence.store.read_document", lambda _path: pytest.fail("it was read again")
    )
    assert whole(folder, tmp_path / "kept.sqlite") == first


def test_a_file_changed_a_moment_ago_is_read_again(folder: Path, tmp_path: Path) -> None:
    fill(folder, [doc(1, OK)])
    state = (folder / "0.json").stat()
    whole(folder, tmp_path / "kept.sqlite")
    other = dump(doc(2, OK))  # as long, and within the same tick of the clock
    (folder / "0.json").write_bytes(other)
    os.utime(folder / "0.json", ns=(state.st_atime_ns, state.st_mtime_ns))
    assert (folder / "0.json").stat().st_size == state.st_size
    assert whole(folder, tmp_path / "kept.sqlite").documents[0].created == "2026-10-02T00:00:00Z"


@pytest.mark.parametrize("content", [b"", b"no database" * 999, b"SQLite format 3\0" + bytes(5000)], ids=len)
def test_a_damaged_store_is_made_anew(folder: Path, tmp_path: Path, content: bytes) -> None:
    fill(folder, [doc(1, OK)])
    kept = tmp_path / "kept.sqlite"
    kept.write_bytes(content)
    assert whole(folder, kept) == whole(folder)
    assert whole(folder, kept) == whole(folder)


def test_a_store_that_is_damaged_inside_or_locked_is_left_alone(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(folder, [doc(1, OK)])
    kept = tmp_path / "kept.sqlite"
    store_of(folder, kept).close()
    monkeypatch.setattr("scripts.evidence.store.PATIENCE", 0.05)
    held = sqlite3.connect(kept, isolation_level=None)
    held.execute("BEGIN EXCLUSIVE")
    with store_of(folder, kept) as store:
        assert matrix(store) == whole(folder)
    held.execute("DROP TABLE observation")
    held.execute("COMMIT")
    held.close()
    fill(folder, [doc(1, OK), doc(2, WRONG)])
    with store_of(folder, kept) as store:
        assert matrix(store) == whole(folder)


@pytest.mark.slow
@pytest.mark.parametrize("at", range(40))
def test_a_damaged_store_answers_as_a_new_one(folder: Path, tmp_path: Path, at: int) -> None:
    """Wherever a byte differs, and when its checksum is gone; a second opening is believed again."""
    fill(folder, [doc(1, OK), doc(2, WRONG)])
    kept = tmp_path / "kept.sqlite"
    for _ in range(2):
        with store_of(folder, kept) as store:
            first = matrix(store)
    content = bytearray(kept.read_bytes())
    content[len(content) * at // 40] ^= 0x55
    kept.write_bytes(content)
    if at == 1:
        kept.with_name("kept.sqlite.sum").unlink()
    for _ in range(2):
        with store_of(folder, kept) as store:
            assert matrix(store) == first
    digest = hashlib.sha256(kept.read_bytes()).hexdigest()
    assert kept.with_name("kept.sqlite.sum").read_text(encoding="ascii") == digest


def test_a_store_of_another_version_is_made_anew(folder: Path, tmp_path: Path) -> None:
    fill(folder, [doc(1, OK)])
    kept = tmp_path / "kept.sqlite"
    first = whole(folder, kept)
    base = sqlite3.connect(kept)
    base.execute("PRAGMA user_version = 1")
    base.execute("DELETE FROM cell")
    base.commit()
    base.close()
    assert whole(folder, kept) == first


def test_where_no_file_can_be_made_the_store_is_in_memory(folder: Path, tmp_path: Path) -> None:
    fill(folder, [doc(1, OK)])
    (tmp_path / "file").write_bytes(b"")
    assert whole(folder, tmp_path / "file" / "kept.sqlite") == whole(folder)


def test_hostile_files_are_named_and_prove_nothing(folder: Path) -> None:
    fill(folder, [doc(1, OK)])
    for number, content in enumerate((b"", b"[" * 100_000, b'{"format": 1}', bytes(range(256)), b"9" * 5000)):
        (folder / f"bad-{number}.json").write_bytes(content)
    (folder / "folder.json").mkdir()
    (folder / "README.md").write_text("no document", encoding="utf-8")
    (folder / "name\u202egpj.json").write_text("{}", encoding="utf-8")
    shown = whole(folder)
    assert [fact.paths for fact in shown.documents] == [("evidence/0.json",)]
    assert len(shown.faults) == 7
    assert all(fault.path.isprintable() and fault.reason.isprintable() for fault in shown.faults)


@pytest.mark.posix_only
def test_what_is_no_file_is_named_and_not_waited_for(folder: Path) -> None:
    fill(folder, [doc(1, OK)])
    os.mkfifo(folder / "pipe.json")
    (folder / "gone.json").symlink_to(folder / "nowhere")
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff.json")).symlink_to(folder / "0.json")
    shown = whole(folder)
    assert len(shown.faults) == 2
    assert len(shown.documents) == 1


def test_no_folder_is_no_evidence(tmp_path: Path) -> None:
    assert whole(tmp_path / "none") == Matrix(cells=(), documents=(), figures=(), faults=())


def test_text_from_strangers_is_bound_and_never_a_statement(folder: Path) -> None:
    name = "'; DROP TABLE cell; --"
    hostile = doc(1, result(name, Level.FUNCTIONAL), subject=replace(SUBJECT, application=name))
    with stored(folder, hostile) as store:
        (cell,) = store.cells(application=name, capability=name)
        assert cell.level is Level.FUNCTIONAL
        assert len(store.cells()) == 2


@pytest.mark.parametrize("combination", ["zluda-v6-sdk64", "oneword"])
def test_words_for_a_combination_cannot_pass_for_a_stack(folder: Path, combination: str) -> None:
    folder.mkdir()
    claims = reported(1, OK, subject=replace(SUBJECT, stack=""), combination=combination)
    (folder / "0.json").write_bytes(dump(claims))
    both = reported(2, OK, combination="two words")
    (folder / "1.json").write_bytes(dump(both))
    shown = whole(folder)
    assert shown.documents == ()
    assert len(shown.faults) == 2


# -- the matrix ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("count", [60, pytest.param(150, marks=pytest.mark.proof)])
def test_a_filter_shows_what_the_whole_shows_of_it(folder: Path, count: int) -> None:
    folder.mkdir()
    for name, content in some(count):
        (folder / name).write_bytes(content)
    with open_store() as store:
        store.ingest(folder)
        everything = matrix(store)
        assert len(everything.gpus) > 3
        for gpu in everything.gpus:
            part = matrix(store, gpu=gpu)
            assert part.cells == tuple(cell for cell in everything.cells if cell.gpu == gpu)
            assert part.documents == tuple(fact for fact in everything.documents if fact.gpu == gpu)
        stack = everything.stacks[0]
        assert matrix(store, stack=stack).cells == tuple(c for c in everything.cells if c.stack == stack)
        light = matrix(store, observations=False)
        assert light.cells == tuple(replace(cell, observations=()) for cell in everything.cells)
        json.dumps(everything.to_json(), allow_nan=False)


@pytest.mark.slow
@pytest.mark.parametrize("count", [60, pytest.param(150, marks=pytest.mark.proof)])
def test_every_cell_rests_on_a_document_that_says_so(folder: Path, count: int) -> None:
    folder.mkdir()
    for name, content in some(count):
        (folder / name).write_bytes(content)
    with open_store() as store:
        store.ingest(folder)
        for cell in store.cells(observations=True):
            kept = store.document(cell.document)
            assert kept is not None
            document = kept.document
            said = {r.capability: (r.level, r.outcome) for r in document.results}
            said[""] = (document.level, document.outcome)
            assert (cell.level, cell.outcome) == said[cell.capability]
            assert cell.count == len(cell.observations)


def test_figures_are_sorted_by_time_and_those_that_do_not_count_are_left_out(folder: Path) -> None:
    def fast(value: float) -> tuple[FigureFact, ...]:
        return (FigureFact(capability="gemm", metric="speed", value=value, unit="1/s"),)

    with stored(
        folder,
        doc(3, OK, figures=fast(3.0)),
        doc(1, OK, figures=fast(1.0)),
        reported(2, OK, figures=fast(2.0)),
        doc(4, OK, figures=fast(9.0), lock=LockFact(digest="a" * 64, custom=True)),
    ) as store:
        points = matrix(store).figures
    assert [(point.value, point.provenance.value) for point in points] == [
        (1.0, "measured"),
        (2.0, "reported"),
        (3.0, "measured"),
    ]


@pytest.mark.slow
def test_the_figures_take_everything_in_and_ask_every_question(folder: Path, tmp_path: Path) -> None:
    folder.mkdir()
    for name, content in some(100):
        (folder / name).write_bytes(content)
    rows = list(evidence_figures.taking_in(folder, tmp_path / "kept.sqlite", 1, "documents"))
    assert [row.unit for row in rows] == ["s", "s", "MB", "s", "s"]
    with open_store(tmp_path / "kept.sqlite") as store:
        assert len(list(store.documents())) == 98, "the measured process took them in"
        asked = list(evidence_figures.asking(store, 1))
    assert len(asked) == 10
    assert all(row.values for row in (*rows, *asked))


# -- the committed documents ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def committed() -> Matrix:
    return whole(EVIDENCE)


def committed_documents() -> list[tuple[str, Document]]:
    with open_store() as store:
        store.ingest(EVIDENCE)
        return [(kept.paths[0], kept.document) for kept in store.documents()]


def test_every_committed_document_is_valid_and_quotes_a_source_or_our_own_lock(committed: Matrix) -> None:
    assert committed.faults == ()
    assert len(committed.documents) == len(list(EVIDENCE.glob("*.json"))), "each says something of its own"
    for path, document in committed_documents():
        assert not document.simulated, f"{path}: a simulated run promotes nothing"
        if document.provenance is Provenance.MEASURED:
            assert document.lock is not None
            assert not document.lock.custom
            assert document.revision is not None
            assert document.revision.dirty is False, f"{path}: made from a changed checkout"


LOADED = (Level.LOADABLE, Outcome.PASS)
RIGHT = (Level.FUNCTIONAL, Outcome.PASS)
REFUSED = (None, Outcome.REFUSED)
PATCHED = "ZLUDA v7-preview.10 with the patches of CUDA-for-AMD-Windows"


@pytest.mark.parametrize(
    ("gpu", "stack", "shown"),
    [
        (
            "gfx1200",
            "zluda-v6p69-sdk64",
            {
                **dict.fromkeys(("nvcuda", "cublas", "cublaslt", "cusparse", "cufft"), LOADED),
                "gemm": RIGHT,
                "sdpa-math": RIGHT,
                "sdpa-memory-efficient": (Level.LOADABLE, Outcome.INCORRECT),
                "ppo-training": (Level.INTEGRATED, Outcome.PASS),
            },
        ),
        (
            "gfx1200",
            f"{PATCHED}, ROCm 7.14.1 (TheRock)",
            {
                "sdpa_math": RIGHT,
                "23 other probes": LOADED,
                "sgemm": LOADED,
                "ppo-training": LOADED,
                "sdpa_flash": REFUSED,
                "sdpa_mem_efficient": REFUSED,
            },
        ),
        (
            "gfx1150",
            f"{PATCHED}, HIP SDK 7.2",
            {
                "conv2d without cuDNN": RIGHT,
                "driver-probes": LOADED,
                "llama.cpp device registration": LOADED,
                "llama.cpp inference": (None, Outcome.ERROR),
                "sdpa-memory-efficient": REFUSED,
            },
        ),
        (
            "gfx1150",
            "",
            {
                "gemm": RIGHT,
                "cudnn-conv2d": (None, Outcome.TIMEOUT),
                "sdpa-memory-efficient": (Level.LOADABLE, Outcome.INCORRECT),
            },
        ),
        (
            "gfx1201",
            "ZLUDA v6-preview.69 with ROCm 7.14.0a20260612 (TheRock)",
            dict.fromkeys(
                ("nvcuda", "cublas", "cublaslt", "cusparse", "cufft", "cudnn8", "cudnn9"), LOADED
            ),
        ),
        ("gfx1201", "", {"training-setup": (Level.DETECTED, Outcome.PASS)}),
        (
            "gfx1100",
            "zluda-v6p69-sdk64",
            {
                "gemm": RIGHT,
                "sdpa-math": RIGHT,
                "sdpa-memory-efficient": (Level.LOADABLE, Outcome.INCORRECT),
            },
        ),
    ],
)  # fmt: skip
def test_the_results_of_the_seed_stand_with_their_true_levels(
    committed: Matrix, gpu: str, stack: str, shown: dict[str, tuple[Level | None, Outcome]]
) -> None:
    known: dict[str, Cell] = {}
    for cell in committed.cells:
        if (cell.gpu, cell.stack) == (gpu, stack) and cell.capability and cell.outcome not in IDLE:
            assert cell.provenance is Provenance.REPORTED
            best = strongest(each for each in (known.get(cell.capability), cell) if each is not None)
            assert best is not None
            known[cell.capability] = best
    assert {name: (cell.level, cell.outcome) for name, cell in known.items()} == shown


def test_the_figures_of_the_seed_are_there(committed: Matrix) -> None:
    figures = {(point.capability, point.metric): point.value for point in committed.figures}
    assert figures["sgemm", "overhead over rocBLAS, 1024"] == 1.77
    assert figures["sgemm", "overhead over rocBLAS, 2048"] == -5.37
    assert figures["sgemm", "overhead over rocBLAS, 4096"] == 9.86
    assert {p.value for p in committed.figures if p.metric == "steps per second"} == {6933.0, 70118.5}


def test_no_reported_document_says_that_it_was_measured() -> None:
    for path, document in committed_documents():
        if document.provenance is Provenance.REPORTED:
            text = (EVIDENCE.parent / path).read_text(encoding="utf-8")
            assert "measured" not in text.casefold()
            assert '"lock": null' in text


# -- the table -----------------------------------------------------------------------------------

TABLE = """\
| GPU | stack | what was shown | what failed or is missing | who saw it |
|---|---|---|---|---|
| AMD Radeon RX 9060 XT (gfx1200) | `s` | **functional**: gemm; **loadable**: nvcuda | **incorrect**: sdpa; \
not exercised: a\\|b | measured 2026-10-01: [document](evidence/0.json) |
| AMD Radeon RX 9060 XT (gfx1200) | no stack of ours: a \\<b\\> c | nothing | **incorrect**: gemm | \
reported 2026-10-02: [document](evidence/1.json), [source](https://example.org/%29%7C) |"""


def test_the_status_table_as_people_read_it(folder: Path) -> None:
    first = doc(
        1,
        result("nvcuda", Level.LOADABLE),
        OK,
        result("sdpa", Level.LOADABLE, Outcome.INCORRECT),
        not_exercised=("a|b",),
    )
    second = replace(
        reported(2, WRONG),
        subject=replace(SUBJECT, stack=""),
        source=DocumentSource(name="x", url="https://example.org/)|", date="2026-10-02"),
        combination="a <b> c",
    )
    fill(folder, [first, second])
    assert status_table(whole(folder)) == TABLE


def test_a_capability_of_several_programs_is_named_with_them(folder: Path) -> None:
    fill(folder, [doc(1, OK, subject=replace(SUBJECT, application=name)) for name in ("one", "two")])
    assert "**functional**: gemm (one), gemm (two)" in status_table(whole(folder))


def test_without_evidence_the_table_says_so(folder: Path) -> None:
    fill(folder, [doc(1, OK, simulated=True, subject=replace(SUBJECT, gpu=None))])
    assert status_table(whole(folder)) == EMPTY


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
