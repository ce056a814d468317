"""Run records for tests, from a few numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scripts.bench.trials import HIGHER, Metric, Runs, Trial


def runs_of(sides: Mapping[str, Sequence[Sequence[float]]], *, better: str = HIGHER, **more: Any) -> Runs:
    """Make a record of one metric ``sps``: for each runtime its trials, for each trial its iterations."""
    trials = tuple(
        Trial(
            runtime=label,
            number=number,
            right=True,
            answer="pass: right",
            iterations=tuple({"sps": value} for value in values),
            state={"clocks": "1000 MHz", "power": "mains"},
            started="2026-11-30T12:00:00Z",
            seconds=1.5,
        )
        for label, rows in sides.items()
        for number, values in enumerate(rows, start=1)
    )
    settings: dict[str, Any] = {
        "workload": "train",
        "size": "1024",
        "primary": "sps",
        "metrics": {"sps": Metric(name="sps", better=better, unit="steps/s")},
        "conditions": {label: {"stack": label, "driver": "1.0"} for label in sides},
    }
    return Runs(trials=trials, **(settings | more))


def pairs(changes: Sequence[float], *, base: float = 100.0) -> dict[str, list[list[float]]]:
    """Make two runtimes whose pairs differ by these fractions, exactly."""
    return {"old": [[base]] * len(changes), "new": [[base * (1 + change)] for change in changes]}
