"""Says at the end of the session how often the doctor was right, and what it said of ordinary logs.

A test notes with ``record_property("doctor: right first", "120/123")``; the words travel with the test
reports, so this also works under xdist. ``tests/conftest.py`` calls ``pytest_terminal_summary``.
"""

from __future__ import annotations

import pytest

PREFIX = "doctor: "


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print one line if a test of the doctor's bars ran."""
    said: dict[str, str] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            for key, value in getattr(report, "user_properties", ()):
                if key.startswith(PREFIX) and getattr(report, "when", "") == "call":
                    said[key.removeprefix(PREFIX)] = str(value)
    if said:
        listed = ", ".join(f"{key} {value}" for key, value in sorted(said.items()))
        terminalreporter.write_line(f"doctor: {listed}")
