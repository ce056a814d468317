"""Tables: nothing is cut, no word is broken, and to a file each row is one line."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.cli.console import Out
from scripts.cli.tables import table_lines

STACK = "zluda-v7p10-rocm101-gfx120x"
DIGEST = "ff89777e8e2c" * 5
ROWS = [
    (STACK, "translation", "is for Windows; needs an AMD GPU; no GPU was found", "none"),
    ("cpu-reference (active)", "reference", "fits", f"stage/reports/{DIGEST}/evidence.json"),
]
COLUMNS = ("stack", "kind", "here", "evidence")
CELL = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=30)
TABLES = st.lists(st.tuples(CELL, CELL, st.lists(CELL, max_size=6).map(" ".join)), max_size=5)


@pytest.mark.slow
@given(TABLES, st.one_of(st.none(), st.integers(20, 200)))
def test_no_word_is_broken_or_lost(rows: list[tuple[str, ...]], width: int | None) -> None:
    lines = list(table_lines(("one", "two", "three"), rows, width=width))
    shown = " ".join(lines).split()
    for row in rows:
        for word in " ".join(row).split():
            assert word in shown


@pytest.mark.parametrize("width", [40, 60, 80, 100, 132])
def test_a_line_fits_unless_one_word_does_not(width: int) -> None:
    for line in table_lines(COLUMNS, ROWS, width=width):
        assert len(line) <= width or DIGEST in line


def test_to_a_file_each_row_is_one_line() -> None:
    stdout = io.StringIO()
    Out(stdout, io.StringIO(), environ={}).table(COLUMNS, ROWS)
    assert len(stdout.getvalue().splitlines()) == 2 + len(ROWS)
    assert "no GPU was found  none" in stdout.getvalue()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("columns", ["60", "80"])
def test_an_id_is_whole_on_a_narrow_terminal(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    stdout = Terminal()
    Out(stdout, io.StringIO(), environ={}).table(COLUMNS, ROWS)
    assert STACK in stdout.getvalue()
    assert DIGEST in stdout.getvalue()


#: What a closing line must not hold: it is pasted as it stands.
STAND_IN = re.compile(r"\b(?:PROGRAM|ARGUMENTS|FILE|FOLDER|STACK|ID|NAME)\b")


def test_a_closing_line_holds_real_names() -> None:
    """What follows the arrow is a command to paste, so it names things that exist."""
    views = Path(__file__).resolve().parents[1] / "scripts" / "cli" / "views"
    lines = [line for path in views.glob("*.py") for line in path.read_text(encoding="utf-8").splitlines()]
    closing = [line for line in lines if "out.now(" in line or line.lstrip().startswith("return f")]
    assert len(closing) > 20
    assert [line for line in closing if "invoke" in line and STAND_IN.search(line)] == []
