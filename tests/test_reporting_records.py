from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scripts.model import Level, Outcome
from scripts.reporting.records import MARK, judge_run, parse_record

GOOD = {"workload": "gemm", "ok": True, "max_error": 1.25e-6, "gflops": 812.5, "size": 1024}


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


_NAN = f'{MARK} {{"ok": true, "max_error": NaN}}'
_DEEP_NAN = f'{MARK} {{"ok": true, "cases": [{{"error": Infinity}}]}}'


@pytest.mark.parametrize(
    ("text", "end", "application", "level", "outcome"),
    [
        (line(GOOD), (0, False), False, Level.FUNCTIONAL, Outcome.PASS),
        (line(GOOD), (0, False), True, Level.INTEGRATED, Outcome.PASS),
        (line(GOOD), (None, True), True, Level.FUNCTIONAL, Outcome.HANG_AFTER_RESULT),
        (line(GOOD), (-1073740791, False), True, Level.FUNCTIONAL, Outcome.CRASH_AFTER_RESULT),
        (line({**GOOD, "ok": False}), (1, False), False, Level.LOADABLE, Outcome.INCORRECT),
        (line({**GOOD, "ok": False}), (0, False), True, Level.LOADABLE, Outcome.INCORRECT),
        (_NAN, (0, False), False, Level.LOADABLE, Outcome.INCORRECT),
        (_DEEP_NAN, (0, False), True, Level.LOADABLE, Outcome.INCORRECT),
        (line({"error": "no libcublas"}), (1, False), False, None, Outcome.ERROR),
        (line({"error": "cublasDgemm said 15", "refused": True}), (1, False), False, None, Outcome.REFUSED),
        (line({"ok": 1}), (0, False), False, None, Outcome.ERROR),
        (line({}), (0, False), False, None, Outcome.ERROR),
        ("", (None, True), False, None, Outcome.TIMEOUT),
        ("", (-11, False), False, None, Outcome.ERROR),
        ("", (0, False), True, None, Outcome.ERROR),
        (line(GOOD) * 2, (0, False), False, None, Outcome.ERROR),
    ],
    ids=[
        "numbers-right", "application", "hang", "crash", "wrong", "wrong-application", "nan", "nan-inside",
        "gave-up", "refused", "one-is-not-true", "silent", "timeout", "killed", "exit-0-alone", "twice",
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
    assert made.detail == "workload gemm, max_error 1.25e-06, gflops 812.5, size 1024"
