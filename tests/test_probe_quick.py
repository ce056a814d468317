"""``setup`` and ``validate`` ask the quick probes, say what they showed, and leave a document of it."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from scripts.evidence.document import Document
from scripts.evidence.evidence_io import read_document
from scripts.model import Outcome
from scripts.probing.catalogue import choose
from tests.checkout import Checkout, first_setup, make_ready
from tests.native_cpu import no_compiler

pytestmark = pytest.mark.skipif(bool(no_compiler()), reason=no_compiler())

#: PyTorch's are left out where our own Python has none, and have no device on this stack where it has one.
TORCH = {probe.name for probe in choose("", quick=True) if probe.torch}
RIGHT = {probe.name for probe in choose("", quick=True)} - TORCH
ASKED = len(RIGHT) + (len(TORCH) if find_spec("torch") else 0)


def step_of(result: dict[str, Any]) -> tuple[str, str]:
    """Return how the step with the probes ended, and what it says."""
    (step,) = [step for step in result["steps"] if step["name"] == "probes"]
    return step["status"], step["detail"]


def matrices(mine: Checkout) -> list[Document]:
    """Return the documents of probes, oldest first."""
    paths = sorted(Path(mine.root).glob("stage/reports/*/evidence.json"))
    return [d for d in map(read_document, paths) if d.subject.application == "probes"]


@pytest.mark.slow
def test_setup_asks_the_quick_probes_once(tmp_path: Path, shared_store: Path) -> None:
    mine = make_ready(tmp_path, cache=shared_store)
    assert step_of(first_setup(shared_store)) == ("done", f"{len(RIGHT)} of {ASKED} passed")
    (document,) = matrices(mine)
    assert {r.capability for r in document.results if r.outcome is Outcome.PASS} == RIGHT

    assert not [step for step in mine.json("setup")["steps"] if step["name"] == "probes"], "nothing is new"


@pytest.mark.proof
def test_validate_asks_the_quick_probes_again(tmp_path: Path, shared_store: Path) -> None:
    mine = make_ready(tmp_path, cache=shared_store)
    bad = mine.json("validate", "--stack=cpu-reference", env={"CUDA_AMD_CPU_FAULT": "wrong"}, code=3)
    status, said = step_of(bad)
    assert status == "failed"
    assert said == f"{len(RIGHT) - 1} of {ASKED} passed; cublas-sgemm incorrect"
    assert {r.outcome for r in matrices(mine)[-1].results if r.capability == "cublas-sgemm"} == {
        Outcome.INCORRECT
    }
