"""Adds up how many crash points and cases the placement tests ran, and says so at the end of the session.

A test notes with ``record_property("placement: crash points", 120)``; the numbers travel with the test
reports, so this also works under xdist. ``tests/conftest.py`` imports ``pytest_terminal_summary``.
"""

from __future__ import annotations

from collections import Counter

import pytest

PREFIX = "placement: "


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print one line if any placement test ran."""
    totals: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            for key, value in getattr(report, "user_properties", ()):
                if key.startswith(PREFIX) and getattr(report, "when", "") == "call":
                    totals[key.removeprefix(PREFIX)] += int(value)
    if totals:
        counted = ", ".join(f"{value:,} {key}" for key, value in sorted(totals.items()))
        terminalreporter.write_line(f"placement proof: {counted}")
