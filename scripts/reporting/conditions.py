"""Under which conditions two sides were measured: what is the same, what differs, what nobody knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scripts.reporting.trials import UNKNOWN, Runs

#: What a record should say about each runtime; a record that leaves one out does not know it.
EXPECTED: Final = (
    *("stack", "digest", "gpu", "driver", "clocks", "power", "seed", "size", "os", "machine"),
    *("python", "revision", "lock"),
)


def conditions_of(runs: Runs, label: str) -> dict[str, str]:
    """Return the conditions of one runtime: its fixed facts, and what its trials saw."""
    facts = dict(runs.conditions.get(label, {}))
    if runs.size != UNKNOWN:
        facts.setdefault("size", runs.size)
    seen: dict[str, list[str]] = {}
    for trial in runs.of(label):
        for name, value in trial.state.items():
            seen.setdefault(name, []).append(value)
    for name, values in seen.items():
        facts.setdefault(name, values[0] if len(set(values)) == 1 else f"varied: {_range(values)}")
    return {name: facts.get(name) or UNKNOWN for name in dict.fromkeys((*EXPECTED, *facts))}


def compare_conditions(baseline: Mapping[str, str], candidate: Mapping[str, str]) -> dict[str, object]:
    """Sort conditions into ``same``, ``different`` and ``unknown``; unknown equals nothing."""
    same: dict[str, str] = {}
    different: dict[str, object] = {}
    unknown: list[str] = []
    for name in dict.fromkeys((*baseline, *candidate)):
        old, new = baseline.get(name, UNKNOWN), candidate.get(name, UNKNOWN)
        if UNKNOWN in {old, new}:
            unknown.append(name)
        elif old == new:
            same[name] = old
        else:
            different[name] = {"baseline": old, "candidate": new}
    return {"same": same, "different": different, "unknown": unknown}


def _range(values: list[str]) -> str:
    """Name the first and the last of differing values in order; numbers are ordered as numbers."""

    def order(text: str) -> tuple[float, str]:
        number = text.split(maxsplit=1)[0] if text.split() else ""
        return (float(number), text) if number.replace(".", "", 1).isdecimal() else (0.0, text)

    ranked = sorted(set(values), key=order)
    return f"{ranked[0]} … {ranked[-1]}"
