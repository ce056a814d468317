"""What a stack is worth: derived from documents, each word with the document behind it."""

from __future__ import annotations

import io

import pytest

from scripts.app.proof import known_by_stack
from scripts.app.stacks import StackRow, StacksResult
from scripts.model import Level, Outcome, Stack, StackKind
from scripts.reporting.document import Document, Provenance
from scripts.reporting.index import EvidenceIndex, Filed
from scripts.ui.console import Out
from scripts.ui.stacks import show
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
