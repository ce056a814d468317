"""Measuring side by side: interleaved rounds, medians and their spread, peers that are absent named."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

#: Does its work; a float that it returns is the time it measured itself, in seconds.
Contender = Callable[[], object]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the table.

    Attributes:
        what: what was done.
        who: who did it.
        values: one value a round; none when it was skipped.
        unit: of the values.
        ratio: our median divided by this one's, on lines of peers.
        bar: the largest ``ratio`` (on lines without one: the largest median) that is good enough.
        note: why it was skipped, or how to read it.
    """

    what: str
    who: str
    values: tuple[float, ...] = ()
    unit: str = "s"
    ratio: float | None = None
    bar: float | None = None
    note: str = ""

    @property
    def median(self) -> float | None:
        return statistics.median(self.values) if self.values else None

    @property
    def met(self) -> bool | None:
        """Whether the bar is met; ``None`` without a bar or a value."""
        measured = self.ratio if self.ratio is not None else self.median
        return None if self.bar is None or measured is None else measured <= self.bar

    def cells(self) -> tuple[str, ...]:
        def number(value: float | None) -> str:
            return "" if value is None else f"{value:.3g}" if value < 100 else f"{value:.0f}"

        spread = f"{number(min(self.values))} – {number(max(self.values))}" if self.values else ""
        bar = "" if self.bar is None else f"≤ {self.bar:g}"
        verdict = {None: "", True: "met", False: "MISSED"}[self.met]
        median = f"{number(self.median)} {self.unit}" if self.values else "skipped"
        return (self.what, self.who, median, spread, number(self.ratio), bar, verdict, self.note)


#: Seconds after which a race begins no further round.
LIMIT = 180.0
HEADER = ("what", "who", "median", "spread", "ours / this", "bar", "", "note")


def race(
    contenders: Mapping[str, Contender], rounds: int, *, limit: float = LIMIT
) -> dict[str, tuple[float, ...]]:
    """Let each run once a round, in turns, so that a busy machine is unkind to all alike.

    No round begins that would end later than ``limit`` seconds, but the first one always does.
    """
    times: dict[str, list[float]] = {name: [] for name in contenders}
    start = time.monotonic()
    for done in range(rounds):
        spent = time.monotonic() - start
        if done and spent + spent / done > limit:
            sys.stderr.write(f"{', '.join(contenders)}: {done} of {rounds} rounds, the time is up\n")
            break
        for name, run in contenders.items():
            with suppress(AttributeError):
                os.sync()  # what the one before left to write is not this one's cost
            began = time.perf_counter()
            own = run()
            times[name].append(own if isinstance(own, float) else time.perf_counter() - began)
    return {name: tuple(values) for name, values in times.items()}


def against(
    what: str, times: Mapping[str, tuple[float, ...]], bars: Mapping[str, float], skipped: Mapping[str, str]
) -> Iterator[Row]:
    """Make the lines of one race; the first contender is ours."""
    ours, *peers = times
    yield Row(what=what, who=ours, values=times[ours])
    mine = statistics.median(times[ours])
    for peer in peers:
        ratio = mine / statistics.median(times[peer])
        yield Row(what=what, who=peer, values=times[peer], ratio=ratio, bar=bars.get(peer))
    for peer, why in skipped.items():
        yield Row(what=what, who=peer, note=why)


def show(rows: Iterable[Row]) -> list[Row]:
    """Print a table line by line, each as soon as it is known, and return the rows."""
    shown = []
    for row in rows:
        if not shown:
            print(table([]), flush=True)
        print(table([row]).splitlines()[-1], flush=True)
        shown.append(row)
    return shown


def table(rows: Sequence[Row]) -> str:
    """Write rows as a Markdown table."""
    lines = [HEADER, tuple("---" for _ in HEADER), *(row.cells() for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
