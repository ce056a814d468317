"""What makes or measures: documents, figures, the Windows bed, an in-memory disk; no part of the package."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def keep_page(page: Path, lines: Iterable[str], *, check: bool) -> bool:
    """Write a page, or only compare it; true when it was up to date."""
    text = "\n".join(lines) + "\n"
    same = page.is_file() and page.read_text(encoding="utf-8") == text
    if not same and not check:
        page.write_text(text, encoding="utf-8", newline="\n")
    return same
