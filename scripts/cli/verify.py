"""The face of ``verify``."""

from __future__ import annotations

from scripts.app.verify import VerifyResult
from scripts.errors import ExitCode
from scripts.cli.console import Out

MARK = {"intact": "ok", "absent": "skip", "missing": "fail", "changed": "fail"}


def show(result: VerifyResult, out: Out) -> None:
    """Name everything that was looked at, and every file that differs."""
    for item in result.items:
        out.mark(MARK[item.status], f"{item.what} {item.name}: {item.status} ({item.how} read)")
        for detail in item.details:
            out.line(f"    {detail}")
    if not result.items:
        out.line("Nothing is staged in this workspace yet.")
        out.now("set a stack up: invoke setup")
    elif result.exit_code != ExitCode.OK:
        out.now(f"put back what was verified: {' and '.join(result.repair)}")
    elif not result.deep:
        out.now("also read the archives behind them: invoke verify --deep")
