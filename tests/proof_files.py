"""Which files hold nothing but tests that a run leaves out: they need not be imported."""

from __future__ import annotations

import re
from pathlib import Path

#: What the short run leaves out.
LEFT_OUT = ("proof", "slow")


def marks_of_file(path: Path) -> set[str]:
    """Return which of these marks the assignment to ``pytestmark`` gives to all tests of a file."""
    found = re.search(r"^pytestmark = (\[[^\]]*\]|.*)", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {mark for mark in LEFT_OUT if found and re.search(rf"\bmark\.{mark}\b", found[1])}


def is_left_out(path: Path, chosen: str) -> bool:
    """Whether pytest's ``-m`` leaves out all tests of a file."""
    parts = () if " or " in chosen else chosen.split(" and ")
    return any(f"not {mark}" in parts for mark in marks_of_file(path))
