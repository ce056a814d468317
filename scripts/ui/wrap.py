"""What a person sees of ``wrap``: nothing but the program, unless there is something to say."""

from __future__ import annotations

from scripts.app.wrap import WrapResult
from scripts.ui.console import Out


def show(result: WrapResult, out: Out) -> None:
    """Print notes on stderr; stdout belongs to the program, except with ``--explain``."""
    for note in result.notes:
        out.note(note)
