"""Adds up how many crash points and cases the tests tried, and says so at the end of the session.

A test notes with ``record_property("placement: crash points", 120)``, or with ``tried: `` what is not about
placing; the numbers travel with the test
reports, so this also works under xdist. ``tests/conftest.py`` imports ``pytest_terminal_summary``.
"""

from __future__ import annotations

from collections import Counter

import pytest

#: How a note begins, and how the line begins that adds them up.
PREFIXES = {"placement: ": "placement proof: ", "tried: ": "tried: "}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print one line for each prefix that any test used."""
    reports = [report for group in terminalreporter.stats.values() for report in group]
    called = [report for report in reports if getattr(report, "when", "") == "call"]
    for prefix, lead in PREFIXES.items():
        totals: Counter[str] = Counter()
        for key, value in (pair for report in called for pair in report.user_properties):
            if key.startswith(prefix):
                totals[key.removeprefix(prefix)] += int(value)
        if totals:
            counted = ", ".join(f"{value:,} {key}" for key, value in sorted(totals.items()))
            terminalreporter.write_line(f"{lead}{counted}")
