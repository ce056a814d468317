"""Progress on long work: bars on a terminal, single lines elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from scripts.cli.console import Out

#: Below this a bar would only flicker.
SMALL = {"bytes": 512 * 1024, "files": 50}


class TerminalProgress:
    """Shows bars on stderr when it is a terminal; says only notes otherwise."""

    def __init__(self, out: Out) -> None:
        """Show on the given console."""
        self.out = out

    @contextmanager
    def task(
        self, label: str, total: int | None = None, *, unit: str = "bytes"
    ) -> Iterator[Callable[[int], None]]:
        """Show one bar while the block runs; small work shows nothing."""
        small = total is not None and total < SMALL.get(unit, 50)
        if small or not self.out.animates:
            yield _nothing
            return
        from scripts.cli.bars import bars_on  # noqa: PLC0415 - only where bars are shown

        with bars_on(self.out.stderr, unit=unit) as bars:
            bar = bars.add_task(label, total=total)
            yield lambda done: bars.update(bar, advance=done)

    def note(self, message: str) -> None:
        """Say one line."""
        self.out.note(message)

    def aside(self, message: str) -> None:
        """Say one line on a terminal; a file that stderr goes to belongs to the program that runs."""
        if self.out.animates:
            self.out.note(message)


def _nothing(_amount: int) -> None:
    """Show nothing for small work."""
