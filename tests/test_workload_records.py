"""The records of workloads that are committed: in the table, right, complete, honest about their device."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from scripts.bench.trials import SIMULATED, read_record, write_record
from scripts.bench.workloads import workloads
from tests.checkout import ROOT
from tests.trial_records import pairs, runs_of
from tools.control_workloads import TRUTH, collect_records, judge

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


def step(verdict: str, low: float, high: float) -> dict[str, Any]:
    compared = {"verdict": verdict, "primary": "x", "metrics": {"x": {"ci95_percent": [low, high]}}}
    return {"said": {"comparison": compared}, "detail": verdict}


@pytest.mark.parametrize(
    ("found", "wanted", "truth", "right"),
    [
        (("same", -0.5, 0.4), "same", 0.0, True),
        (("same", 0.1, 0.4), "same", 0.0, False),
        (("inconclusive", -9, 4), "same", 0.0, False),
        (("worse", -5.2, -4.4), "worse", TRUTH, True),
        (("worse", -4.5, -3.9), "worse", TRUTH, False),
        (("same", -5.2, -4.4), "worse", TRUTH, False),
    ],
)
def test_the_control_says_whether_a_known_truth_was_found(
    found: tuple[str, float, float], wanted: str, truth: float, right: bool
) -> None:
    made = step(*found)
    judge(made, wanted, truth=truth)
    assert made["right"] is right
    assert ("as it must" in made["detail"]) is right
    assert pytest.approx(-4.7619, abs=1e-4) == TRUTH


def test_a_failed_comparison_is_not_judged() -> None:
    made: dict[str, Any] = {"said": {"comparison": None}, "detail": "trial 1 was wrong"}
    judge(made, "same")
    assert "right" not in made


def test_the_control_names_records_for_the_folder_they_belong_to(tmp_path: Path) -> None:
    two = write_record(tmp_path / "two.json", runs_of(pairs([1.0, 1.0]), baseline="old"))
    data = json.loads(two.read_text(encoding="utf-8"))
    label = next(iter(data["runtimes"]))
    data["runtimes"] = {label: data["runtimes"][label]}
    data["trials"] = [trial for trial in data["trials"] if trial["runtime"] == label]
    (tmp_path / "one.json").write_text(json.dumps(data), encoding="utf-8")
    steps = [
        {"name": "a-a", "command": "ab", "detail": "same", "said": {"record": str(two)}},
        {
            "name": "ppo",
            "command": "run",
            "detail": "pass",
            "said": {"record_file": str(tmp_path / "one.json")},
        },
        {"name": "scan", "command": "scan", "detail": "", "said": {}},
        {"name": "run", "command": "run", "detail": "", "said": {"record": {"iterations": ["x" * 5000]}}},
    ]
    copied = collect_records(steps, tmp_path / "out", label="native-cuda", date="2026-12-01")
    assert [path.relative_to(tmp_path / "out").as_posix() for path in copied] == [
        "evidence/records/2026-12-01-native-cuda-a-a.json",
        "evidence/workloads/2026-12-01-native-cuda-ppo.json",
    ]
    assert read_record(copied[0]).conditions
    rows = (tmp_path / "out" / "evidence" / "rows.md").read_text(encoding="utf-8").splitlines()
    assert rows[0].startswith("| `2026-12-01-native-cuda-a-a.json` | ab | inconclusive: 2 pairs, ")
    assert rows[1].startswith("| `2026-12-01-native-cuda-ppo.json` | run | right: ")
    assert len(rows) == 2
