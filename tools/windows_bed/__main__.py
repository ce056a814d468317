"""Command line of the Windows bed: every argument goes to pytest, pytest's exit code comes back."""

from __future__ import annotations

import os
import signal
import sys

from tools.windows_bed.bed import BedError, make_bed
from tools.windows_bed.cudart import fetch_cudart
from tools.windows_bed.programs import build_programs
from tools.windows_bed.session import run_pytest

#: The code for "this host cannot do it", as everywhere in this workspace; pytest's own codes end at 5.
CODE_HOST = 50


def main(arguments: list[str]) -> int:
    """Make the bed and the programs if needed, then run pytest on Windows Python."""
    if sys.platform == "win32":
        sys.stderr.write("windows bed: this is Windows already; run pytest itself\n")
        return CODE_HOST
    try:
        bed = make_bed(os.environ)
        programs = build_programs(bed)
        cudart = fetch_cudart(bed)
    except BedError as error:
        sys.stderr.write(f"windows bed: {error}\n")
        return CODE_HOST
    return run_pytest(bed, programs, cudart, arguments, os.environ)


if __name__ == "__main__":
    # Whoever ends us ends the Windows side too, and its temporary folder goes away.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
