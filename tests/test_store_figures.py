"""The figures measure what they say: rounds in turns, medians, bars, and peers that are absent named."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.figures import __main__ as every_figure
from tools.figures import store_figures
from tools.figures.rows import Row, against, race, show, table

pytestmark = pytest.mark.proof


def test_contenders_run_in_turns() -> None:
    order: list[str] = []
    times = race({"a": lambda: order.append("a"), "b": lambda: order.append("b") or 7.0}, 2)
    assert order == ["a", "b", "a", "b"]
    assert times["b"] == (7.0, 7.0)
    assert len(times["a"]) == 2


def test_no_round_begins_that_cannot_end_in_time(capsys: pytest.CaptureFixture[str]) -> None:
    runs: list[str] = []
    times = race({"a": lambda: runs.append("a"), "b": lambda: runs.append("b")}, 5, limit=-1.0)
    assert runs == ["a", "b"], "the first round is always run whole"
    assert len(times["a"]) == 1
    assert "a, b: 1 of 5 rounds" in capsys.readouterr().err


def test_rows_are_printed_as_they_are_known(capsys: pytest.CaptureFixture[str]) -> None:
    printed: list[int] = []

    def rows() -> Iterator[Row]:
        for who in ("a", "b"):
            printed.append(capsys.readouterr().out.count("\n"))
            yield Row(what="work", who=who, values=(1.0,))

    assert len(show(rows())) == 2
    assert printed == [0, 3], "the head and the first line are out before the second is measured"


@pytest.mark.posix_only
def test_figures_that_take_too_long_are_ended_and_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "tools" / "figures").mkdir(parents=True)
    (tmp_path / "tools" / "figures" / "slow_figures.py").write_text(
        "import os, subprocess\nheld = os.open('held', os.O_WRONLY)\n"
        "print('| work |', flush=True)\nsubprocess.run(['sleep', '600'], stdout=held)\n",
        "utf-8",
    )
    os.mkfifo(tmp_path / "held")
    reader = os.open(tmp_path / "held", os.O_RDONLY | os.O_NONBLOCK)
    monkeypatch.setattr(every_figure, "ROOT", tmp_path)
    assert "not finished after 2 s" in every_figure.measure("slow", 2.0)
    os.set_blocking(reader, True)
    assert os.read(reader, 1) == b"", "it ends when nobody holds it open, the tool that was started included"
    os.close(reader)


def test_a_bar_is_judged_by_the_ratio_of_medians() -> None:
    times = {"ours": (1.0, 1.0, 9.0), "near": (2.0, 2.0, 2.0), "far": (1.5,)}
    ours, near, far, absent = against("work", times, {"near": 0.5, "far": 0.5}, {"gone": "not installed"})
    assert (ours.met, near.met, far.met, absent.met) == (None, True, False, None)
    assert Row(what="memory", who="ours", values=(99.0,), bar=100).met is True
    text = table([near, far, absent])
    assert "| work | far | 1.5 s | 1.5 – 1.5 | 0.667 | ≤ 0.5 | MISSED |  |" in text
    assert "skipped" in text.splitlines()[-1]


def test_growth_is_measured_on_real_archives(tmp_path: Path) -> None:
    rows = store_figures.growing(tmp_path, 1, (2, 4))
    assert [(row.what, row.bar is not None) for row in rows] == [
        ("unpack 2 members", False),
        ("unpack again 2 members", False),
        ("unpack 4 members", True),
        ("unpack again 4 members", True),
    ]
    assert all(row.values[0] > 0 for row in rows)


@pytest.mark.skipif(sys.platform == "win32", reason="the figures' peers are Linux tools")
def test_our_contender_fetches_and_reports_its_memory(tmp_path: Path) -> None:
    rows = store_figures.fetching(tmp_path, 1, None, 3_000_000)
    assert rows[0].who == "ours"
    assert 5 < (rows[-1].median or 0) < 100
