"""Run records and CSV files: what is written comes back; what is wrong is refused by name or line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from scripts.bench.trials import direction_of, join, read_record, read_table, to_json, write_record
from scripts.errors import UsageError
from tests.trial_records import pairs, runs_of

RUNS = runs_of(
    pairs((0.05, 0.06)), baseline="old", warmup=1, notes=("a note",), created="2026-11-30T12:00:00Z"
)


def test_a_record_comes_back_as_it_was(tmp_path: Path) -> None:
    assert read_record(write_record(tmp_path / "Läufe.json", RUNS)) == RUNS


def test_a_record_is_ascii_with_line_feeds(tmp_path: Path) -> None:
    data = write_record(tmp_path / "r.json", replace(RUNS, notes=("µs",))).read_bytes()
    assert data.isascii()
    assert b"\r" not in data


def edited(change: Callable[[dict[str, Any]], None]) -> str:
    data = json.loads(json.dumps(to_json(RUNS)))
    change(data)
    return json.dumps(data)


def set_in(*path: Any, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(data: Any) -> None:
        for key in path[:-1]:
            data = data[key]
        data[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("text", "reference", "told"),
    [
        pytest.param("{", "record-invalid", "not JSON", id="torn"),
        pytest.param("[" * 100_000, "record-invalid", "not JSON", id="too-deep"),
        pytest.param("[]", "record-invalid", "$", id="a-list"),
        pytest.param(edited(set_in("format", value=2)), "record-newer", "format 2", id="newer"),
        pytest.param(edited(set_in("format", value=True)), "record-invalid", "$.format", id="format-true"),
        pytest.param(edited(set_in("extra", value=1)), "record-invalid", "extra", id="unknown-key"),
        pytest.param(edited(set_in("warmup", value=-1)), "record-invalid", "$.warmup", id="warm-up"),
        pytest.param(edited(set_in("metrics", value={})), "record-invalid", "$.metrics", id="no-metrics"),
        pytest.param(
            edited(set_in("metrics", "sps", "better", value="up")), "record-invalid", "better", id="direction"
        ),
        pytest.param(
            edited(set_in("trials", 0, "runtime", value="x")),
            "record-invalid",
            "without conditions",
            id="stranger",
        ),
        pytest.param(edited(set_in("trials", 1, "trial", value=1)), "record-invalid", "twice", id="twice"),
        pytest.param(
            edited(set_in("trials", 0, "trial", value=0)), "record-invalid", "trial", id="trial-zero"
        ),
        pytest.param(
            edited(set_in("trials", 0, "right", value="yes")), "record-invalid", "right", id="right"
        ),
        pytest.param(
            edited(set_in("trials", 0, "iterations", 0, "sps", value="1")),
            "record-invalid",
            "sps",
            id="a-text",
        ),
        pytest.param(json.dumps(to_json(RUNS)).replace("100.0", "NaN", 1), "record-invalid", "NaN", id="nan"),
        pytest.param(
            json.dumps(to_json(RUNS)).replace("100.0", "1e999", 1), "record-invalid", "no number", id="inf"
        ),
    ],
)
def test_a_bad_record_is_refused_by_name(tmp_path: Path, text: str, reference: str, told: str) -> None:
    path = tmp_path / "r.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        read_record(path)
    assert caught.value.reference == reference
    assert told in caught.value.message


@pytest.mark.parametrize("name", ["missing.json", "folder"], ids=["missing", "a-folder"])
def test_what_is_no_file_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError) as caught:
        read_record(tmp_path / name)
    assert caught.value.reference == "record-unreadable"


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_bytes(b"runtime,trial\xff\n")
    with pytest.raises(UsageError) as caught:
        read_table(tmp_path / "r.csv")
    assert caught.value.reference == "record-unreadable"


def test_joined_records_count_shared_runtimes_on() -> None:
    both = join(RUNS, RUNS)
    assert [t.number for t in both.of("old")] == [1, 2, 3, 4]
    assert both.notes == ("a note", "a note")


@pytest.mark.parametrize(("what", "value"), [("workload", "other"), ("size", "2048")])
def test_records_of_different_work_are_not_joined(what: str, value: str) -> None:
    with pytest.raises(UsageError) as caught:
        join(RUNS, replace(RUNS, **{what: value}))
    assert caught.value.reference == "workloads-differ"
    assert value in caught.value.message


HEAD = "runtime,trial,iteration,sps\n"


def test_a_table_is_read_with_marks_and_in_any_order(tmp_path: Path) -> None:
    text = HEAD + "a,1,2,20\n a ,1,1,10\nb,1,1,1e3\n"
    (tmp_path / "t.csv").write_text(text, encoding="utf-8-sig", newline="\r\n")
    runs = read_table(tmp_path / "t.csv")
    assert [dict(row) for row in runs.of("a")[0].iterations] == [{"sps": 10.0}, {"sps": 20.0}]
    assert list(runs.conditions) == ["a", "b"]
    assert runs.of("b")[0].right is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("", "line 1", id="empty"),
        pytest.param(HEAD, "no rows", id="head-only"),
        pytest.param("runtime,trial,iteration\na,1,1\n", "line 1", id="no-metric"),
        pytest.param("runtime,trial,sps\na,1,1\n", "line 1", id="no-iteration"),
        pytest.param("runtime,trial,iteration,sps,sps\na,1,1,1,2\n", "line 1", id="twice-a-column"),
        pytest.param(HEAD + "a,1,1,1\na,1,1,2\n", "line 3: iteration 1", id="twice-a-row"),
        pytest.param(HEAD + "a,1,1\n", "line 2", id="too-short"),
        pytest.param(HEAD + "a,1,1,1,1\n", "line 2", id="too-long"),
        pytest.param(HEAD + "a,0,1,1\n", "line 2", id="trial-zero"),
        pytest.param(HEAD + "a,1.5,1,1\n", "line 2", id="trial-half"),
        pytest.param(HEAD + f"a,{'9' * 5000},1,1\n", "line 2", id="trial-of-5000-digits"),
        pytest.param(HEAD + ",1,1,1\n", "line 2", id="no-name"),
        pytest.param(HEAD + "a,1,1,fast\n", "'fast'", id="no-number"),
        pytest.param(HEAD + "a,1,1,nan\n", "'nan'", id="nan"),
        pytest.param(HEAD + "a,1,1,inf\n", "'inf'", id="infinite"),
        pytest.param(HEAD + 'a,1,1,"1\n', "line", id="open-quote"),
    ],
)
def test_a_bad_table_is_refused_by_line(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        read_table(tmp_path / "t.csv")
    assert caught.value.reference == "table-invalid"
    assert told in caught.value.message


@pytest.mark.parametrize(
    ("name", "good"),
    [
        ("overall_sps", "higher"), ("GFLOPS", "higher"), ("h2d_gbps", "higher"), ("learn_s", "lower"),
        ("roundtrip_us", "lower"), ("load_time", "lower"), ("temperature", ""), ("sps_limit", ""),
    ],
)  # fmt: skip
def test_a_name_tells_the_good_direction_or_nothing(name: str, good: str) -> None:
    assert direction_of(name) == good
