"""The records of workloads that are committed: in the table, right, complete, honest about their device."""

from __future__ import annotations

import re

import pytest

from scripts.bench.trials import SIMULATED, read_record
from scripts.bench.workloads import workloads
from tests.checkout import ROOT

FOLDER = ROOT / "evidence" / "workloads"
ROW = re.compile(r"^\| `(?P<file>[^`]+\.json)` \|.*\| (?P<answer>[a-z]+)", re.MULTILINE)
SHOWN = {m["file"]: m["answer"] for m in ROW.finditer((FOLDER / "README.md").read_text(encoding="utf-8"))}


def test_every_record_is_in_the_table() -> None:
    assert set(SHOWN) == {path.name for path in FOLDER.glob("*.json")}
    assert SHOWN, "there is one at least"


@pytest.mark.parametrize("name", SHOWN)
def test_a_record_says_what_the_table_says(name: str) -> None:
    runs = read_record(FOLDER / name)
    assert runs.workload in workloads()
    assert (SHOWN[name] == "right") is all(trial.right for trial in runs.trials)
    for trial in runs.trials:
        assert trial.first, "the first update stands apart"
        assert set(runs.metrics) <= set(trial.first)
        assert all(set(runs.metrics) <= set(row) for row in trial.iterations)


@pytest.mark.parametrize("name", SHOWN)
def test_a_record_of_the_cpu_reference_names_no_gpu(name: str) -> None:
    runs = read_record(FOLDER / name)
    simulated = {facts["gpu"] == SIMULATED for facts in runs.conditions.values()}
    assert simulated == {"cpu-reference" in name}
    if "cpu-reference" in name:
        assert all("not a GPU" in trial.answer for trial in runs.trials)
