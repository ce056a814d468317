"""Says at the end of a test session how well comparisons are calibrated.

A test notes ``record_property("calibration: a-a", {...})``; the numbers travel with the test reports, so this
also works under xdist. ``tests/conftest.py`` imports ``pytest_terminal_summary``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

PREFIX = "calibration: "


def noted(terminalreporter: pytest.TerminalReporter) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what calibration tests have noted: the kind, and the figures."""
    for reports in terminalreporter.stats.values():
        for report in reports:
            for key, value in getattr(report, "user_properties", ()):
                if key.startswith(PREFIX) and getattr(report, "when", "") == "call":
                    yield key.removeprefix(PREFIX), json.loads(value)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the figures if any calibration test ran."""
    found = list(noted(terminalreporter))
    same = [figures for kind, figures in found if kind == "a-a"]
    different = [figures for kind, figures in found if kind == "a-b"]
    if same:
        runs = sum(figures["runs"] for figures in same)
        claims, coverage = max(f["claims"] for f in same), min(f["coverage"] for f in same)
        terminalreporter.write_line(
            f"calibration: {runs:,} simulated A/A runs in {len(same)} worlds: "
            f"at most {claims:.1%} claim a difference, coverage at least {coverage:.1%}"
        )
    if different:
        runs, coverage = sum(f["runs"] for f in different), min(f["coverage"] for f in different)
        power = ", ".join(f"{f['world']} {f['claims']:.0%}" for f in different if f["pairs"] == 8)
        terminalreporter.write_line(
            f"calibration: {runs:,} simulated A/B runs: coverage at least {coverage:.1%}; "
            f"8 pairs find a true 5 % in: {power}"
        )
