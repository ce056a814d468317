"""What a stack is worth: derived from documents, each word with the document behind it."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from scripts.app.context import Workspace
from scripts.app.evidence_lookup import known_by_stack
from scripts.app.stacks import StackRow, StacksResult, stacks
from scripts.app.verify import verify
from scripts.cli.console import Out
from scripts.cli.views.stacks import show_stacks as show
from scripts.errors import UsageError
from scripts.evidence.document import Document, Provenance
from scripts.evidence.index import EvidenceIndex, Filed
from scripts.model import Level, Outcome, Stack, StackKind
from tests.test_validate import GOOD, LOADS, WRONG, document

REPORTED = Provenance.REPORTED


def index(*documents: Document) -> EvidenceIndex:
    """File documents under numbers."""
    return EvidenceIndex(filed=tuple(Filed(path=f"{n}.json", document=d) for n, d in enumerate(documents)))


@pytest.mark.parametrize(
    ("documents", "sentence", "shown_by", "against"),
    [
        pytest.param([document(LOADS, day=1)], "loadable (measured)", "0", "", id="one document"),
        pytest.param(
            [document(LOADS, day=1), document(GOOD, day=2)],
            "functional (measured)",
            "1",
            "",
            id="the best that stands",
        ),
        pytest.param(
            [document(GOOD, day=1), document(WRONG, day=2)],
            "incorrect (measured)",
            "1",
            "",
            id="a later failure takes it away",
        ),
        pytest.param(
            [document(GOOD, day=1), document(WRONG, day=2, provenance=REPORTED)],
            "functional (measured, contested)",
            "0",
            "1",
            id="what others report stands beside it",
        ),
    ],
)
def test_each_word_has_its_document(
    documents: list[Document], sentence: str, shown_by: str, against: str
) -> None:
    ((worth,), proofs) = known_by_stack(index(*documents))["a"]
    assert worth.sentence == f"gfx1200: {sentence}"
    assert worth.document == f"evidence/{shown_by}.json"
    assert worth.against == ((f"evidence/{against}.json",) if against else ())
    assert len(proofs) == len(documents)


def test_architectures_are_judged_apart_and_other_locks_prove_nothing() -> None:
    known = known_by_stack(
        index(
            document(GOOD, day=1),
            document(WRONG, day=2, gfx="gfx1100"),
            document(LOADS, day=3, stack="b", custom=True),
        )
    )
    assert [worth.sentence for worth in known["a"][0]] == [
        "gfx1200: functional (measured)",
        "gfx1100: incorrect (measured)",
    ]
    assert "b" not in known


def test_probes_that_failed_are_named_with_their_document() -> None:
    failed = ("cufft-1d", Level.LOADABLE, Outcome.REFUSED)
    absent = ("cufft-2d", None, Outcome.UNAVAILABLE)
    worths, proofs = known_by_stack(index(document(GOOD, failed, absent, day=1)))["a"]
    assert [proof.failed for proof in proofs] == [("cufft-1d (refused)",)]
    row = StackRow(
        stack=Stack(id="a", kind=StackKind.TRANSLATION),
        obstacles=(),
        worth=tuple(worths),
        proofs=tuple(proofs),
        active=False,
        staged=False,
    )
    out = io.StringIO()
    show(StacksResult(rows=(row,), gfx=""), Out(out, out))
    assert "a on gfx1200: cufft-1d (refused)\n    seen in evidence/0.json" in out.getvalue()


def test_the_list_names_the_documents() -> None:
    worths, proofs = known_by_stack(
        index(document(GOOD, day=1), document(WRONG, day=2, provenance=REPORTED))
    )["a"]
    row = StackRow(
        stack=Stack(id="a", kind=StackKind.TRANSLATION),
        obstacles=(),
        worth=tuple(worths),
        proofs=tuple(proofs),
        active=False,
        staged=False,
    )
    out = io.StringIO()
    show(StacksResult(rows=(row,), gfx=""), Out(out, out))
    lines = [
        "a on gfx1200: functional (measured, contested)",
        "    shown by evidence/0.json",
        "    against it evidence/1.json",
    ]
    assert "\n".join(lines) in out.getvalue()
    assert row.to_json()["worth"] == [
        {
            "gfx": "gfx1200",
            "level": Level.FUNCTIONAL.value,
            "outcome": Outcome.PASS.value,
            "provenance": "measured",
            "document": "evidence/0.json",
            "against": ["evidence/1.json"],
        }
    ]


def workspace(folder: Path) -> Workspace:
    """A workspace with the committed lock and nothing in it."""
    root = Path(__file__).resolve().parents[1]
    return Workspace(
        root=root,
        lock_path=root / "pins.lock",
        custom_lock=False,
        cache_root=folder / "cache",
        stage=folder / "stage",
        state_root=folder / "state",
        environ={},
    )


def test_for_an_architecture_only_what_may_run_there_is_listed(tmp_path: Path) -> None:
    result = stacks(workspace(tmp_path), for_gpu="gfx1201")
    kinds = {row.stack.id: row.stack.kind for row in result.rows}
    assert kinds["cpu-reference"] is StackKind.REFERENCE
    assert StackKind.TRANSLATION in kinds.values()
    assert StackKind.CONTROL not in kinds.values()
    out = io.StringIO()
    show(result, Out(out, out))
    assert "needs no GPU" in out.getvalue()
    assert "lists gfx1201" in out.getvalue()


@pytest.mark.parametrize("word", ["nope", "1201", "gfx", "gfx1201 "])
def test_what_is_no_architecture_is_refused(tmp_path: Path, word: str) -> None:
    with pytest.raises(UsageError, match="not the name of an AMD architecture"):
        stacks(workspace(tmp_path), for_gpu=word)


@pytest.mark.parametrize(
    ("stack", "reference"), [("nonsense", "unknown-stack"), ("cpu-reference", "not-staged")]
)
def test_verify_says_when_a_named_stack_is_not_here(tmp_path: Path, stack: str, reference: str) -> None:
    with pytest.raises(UsageError) as caught:
        verify(workspace(tmp_path), stack=stack)
    assert caught.value.reference == reference
    assert verify(workspace(tmp_path)).items == ()
