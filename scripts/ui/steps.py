"""A table of steps, the same for every task that walks the flow."""

from __future__ import annotations

from collections.abc import Iterable

from scripts.app.setup.flow import FlowStep
from scripts.ui.console import Out
from scripts.ui.words import seconds


def show_steps(steps: Iterable[FlowStep], out: Out) -> None:
    """Show what was done, what was so already, and how long it took."""
    out.table(
        ("step", "status", "time", ""), [(s.name, s.status, seconds(s.seconds), s.detail) for s in steps]
    )
