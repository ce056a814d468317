# noqa: INP001 - a script to copy, no package
"""Validate the newest commit once, in a fresh clone that goes away afterwards; only the reports are kept.

python validate_once.py REPOSITORY REPORTS [WHAT FOLLOWS `nox -s validate --`]

For a scheduler without GitHub. Needs git and Python 3.11; ends with Nox's own exit code. The reports of
earlier times are put into the clone first, so that what got worse since then is named.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path


def main(arguments: list[str]) -> int:
    """Clone, validate, keep the reports."""
    repository, reports, *more = arguments
    kept = Path(reports).absolute()
    kept.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="cuda-amd-", ignore_cleanup_errors=True) as folder:
        clone = Path(folder) / "clone"
        subprocess.run(["git", "clone", "--quiet", "--depth=1", "--", repository, str(clone)], check=True)
        shutil.copytree(kept, clone / "stage" / "reports", dirs_exist_ok=True)
        # The first command makes the environment that Nox runs in.
        subprocess.run([sys.executable, "-m", "scripts", "scan"], cwd=clone, check=True)
        python = clone / ".venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        command = [str(python), "-m", "nox", "-s", "validate", "--", "--yes", *more]
        ended = subprocess.run(command, cwd=clone, check=False)
        shutil.copytree(clone / "stage" / "reports", kept, dirs_exist_ok=True)
        return ended.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
