"""Which files of tests hold slow proofs and nothing else: a run without proofs does not import them."""

from __future__ import annotations

import re
from pathlib import Path

#: The assignment that marks every test of a file, alone or first in a list.
MARKS_FILE = re.compile(
    r"^pytestmark = \[?\s*(?:pytest\.mark\.(?!proof)\w+,\s*)*pytest\.mark\.proof\b", re.MULTILINE
)


def is_proof_file(path: Path) -> bool:
    """Whether all tests of a file are slow proofs."""
    return bool(MARKS_FILE.search(path.read_text(encoding="utf-8")))
