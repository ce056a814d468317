"""The page of known programs is what the data say."""

from __future__ import annotations

from scripts.launch.profiles import document
from tools.programs_page import PAGE, write


def test_the_page_is_up_to_date() -> None:
    assert write(check=True), "write it: python -m tools.generated_docs"


def test_every_program_has_its_row() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for row in document():
        assert f"| {row['what']} |" in text
