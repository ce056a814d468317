from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scripts.bench.workload_record import MARK, judge_run, parse_record
from scripts.model import Level, Outcome

CASE = {"dtype": "float32", "error": 0.039564, "gflops": 812.5, "size": 1024, "outcome": "pass", "detail": ""}
GOOD = {"workload": "gemm", "outcome": "pass", "device": "RX", "libraries": {"cublas": "/rt/libcublas.so.12"},
        "results": [CASE]}  # fmt: skip


def line(data: object) -> str:
    return f"{MARK} {json.dumps(data)}\n"


@pytest.mark.parametrize(
    "data",
    [
        line(GOOD).encode(),
        f"loading…\n{line(GOOD)}bye\n".encode(),
        f"\x1b[32mprogress 10%\r{line(GOOD)}".encode(),
        line(GOOD).replace("\n", "\r\n").encode("utf-16"),
        "Größe\n".encode("cp1252") + line(GOOD).encode(),
    ],
    ids=["alone", "between", "after-progress", "utf-16", "cp1252"],
)
def test_the_record_is_found_whatever_stands_around_it(data: bytes) -> None:
    assert parse_record(data).data == GOOD


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "no result"),
        (line(GOOD) + line(GOOD), "2 results"),
        (f"{MARK} {{broken", "not JSON"),
        (f"{MARK} ", "not JSON"),
        (f"{MARK} [1]", "not a JSON object"),
        (f"{MARK} " + "[" * 100_000, "not JSON"),
        (f'{MARK} {{"x": "' + "a" * 2_000_000 + '"}', "too large"),
    ],
    ids=["none", "two", "broken", "empty", "array", "deep", "huge"],
)
def test_anything_but_one_object_is_a_fault(text: str, fault: str) -> None:
    record = parse_record(text)
    assert fault in record.fault
    assert record.data == {}


@given(st.binary(max_size=200))
@settings(max_examples=100)
def test_no_output_breaks_the_reader_or_passes(data: bytes) -> None:
    made = judge_run(parse_record(data), capability="gemm", exit_code=0, timed_out=False)
    assert made.outcome is Outcome.ERROR
    assert made.level is None


_NAN = line(GOOD).replace("0.039564", "NaN")
_INFINITE = line(GOOD).replace("812.5", "Infinity")


def said(outcome: str, **more: object) -> str:
    return line({**GOOD, "outcome": outcome, "detail": "because", **more})


@pytest.mark.parametrize(
    ("text", "end", "application", "level", "outcome"),
    [
        (line(GOOD), (0, False), False, Level.FUNCTIONAL, Outcome.PASS),
        (line(GOOD), (0, False), True, Level.INTEGRATED, Outcome.PASS),
        (line({"outcome": "pass"}), (0, False), False, Level.FUNCTIONAL, Outcome.PASS),
        (line(GOOD), (None, True), True, Level.FUNCTIONAL, Outcome.HANG_AFTER_RESULT),
        (line(GOOD), (-1073740791, False), True, Level.FUNCTIONAL, Outcome.CRASH_AFTER_RESULT),
        (said("incorrect"), (3, False), False, Level.LOADABLE, Outcome.INCORRECT),
        (said("incorrect"), (0, False), True, Level.LOADABLE, Outcome.INCORRECT),
        (said("incorrect"), (None, True), True, Level.LOADABLE, Outcome.INCORRECT),
        (_NAN, (0, False), False, Level.LOADABLE, Outcome.INCORRECT),
        (_INFINITE, (0, False), True, Level.LOADABLE, Outcome.INCORRECT),
        (line({**GOOD, "results": []}), (0, False), True, Level.LOADABLE, Outcome.INCORRECT),
        (line({**GOOD, "results": {}}), (0, False), True, Level.LOADABLE, Outcome.INCORRECT),
        (line({**GOOD, "results": [CASE, {}]}), (0, False), True, Level.LOADABLE, Outcome.INCORRECT),
        (said("refused"), (4, False), False, Level.LOADABLE, Outcome.REFUSED),
        (said("error"), (5, False), True, Level.LOADABLE, Outcome.ERROR),
        (said("error", libraries={}), (5, False), True, None, Outcome.ERROR),
        (said("unavailable"), (6, False), True, None, Outcome.UNAVAILABLE),
        (said("PASS"), (0, False), True, None, Outcome.ERROR),
        (line({"outcome": True}), (0, False), False, None, Outcome.ERROR),
        (line({"outcome": ["pass"]}), (0, False), False, None, Outcome.ERROR),
        (line({}), (0, False), False, None, Outcome.ERROR),
        ("", (None, True), False, None, Outcome.TIMEOUT),
        ("", (-11, False), False, None, Outcome.ERROR),
        ("", (0, False), True, None, Outcome.ERROR),
        (line(GOOD) * 2, (0, False), False, None, Outcome.ERROR),
    ],
    ids=[
        "numbers-right", "application", "no-cases", "hang", "crash", "wrong", "wrong-application",
        "wrong-then-hang", "nan", "infinity", "empty-cases", "cases-are-no-list", "a-case-without-outcome",
        "refused", "error", "error-before-loading", "unavailable", "unknown-word", "true-is-not-pass",
        "list-is-not-pass", "silent", "timeout", "killed", "exit-0-alone", "twice",
    ],
)  # fmt: skip
def test_what_a_run_is_worth(
    text: str, end: tuple[int | None, bool], application: bool, level: Level | None, outcome: Outcome
) -> None:
    made = judge_run(
        parse_record(text), capability="gemm", exit_code=end[0], timed_out=end[1], application=application
    )
    assert (made.level, made.outcome) == (level, outcome)
    assert made.detail


def test_the_numbers_of_a_good_run_are_readable() -> None:
    made = judge_run(parse_record(line(GOOD)), capability="gemm", exit_code=0, timed_out=False)
    assert made.detail == "dtype float32, error 0.03956, gflops 812.5, size 1024; on RX"


@pytest.mark.parametrize(
    ("folders", "outcome"),
    [
        ((), Outcome.PASS),
        ((Path("/rt"),), Outcome.PASS),
        ((Path("/opt"), Path("/rt")), Outcome.PASS),
        ((Path("/r"),), Outcome.ERROR),
        ((Path("/rt/deeper"),), Outcome.ERROR),
    ],
    ids=["anywhere", "there", "one-of-two", "name-prefix", "deeper"],
)
def test_libraries_of_another_place_show_nothing_about_the_stack(
    folders: tuple[Path, ...], outcome: Outcome
) -> None:
    made = judge_run(
        parse_record(line(GOOD)), capability="gemm", exit_code=0, timed_out=False, folders=folders
    )
    assert made.outcome is outcome
    if outcome is Outcome.ERROR:
        assert made.level is None
        assert "/rt/libcublas.so.12" in made.detail
