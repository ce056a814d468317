"""Stands in for a C compiler where there is none: hands out files that were built from the same sources.

Usage: ``prebuilt_cc.py FOLDER --version | -dumpmachine | … -o OUTPUT``
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path


def main(folder: str, arguments: list[str]) -> int:
    """Answer like a compiler."""
    if arguments == ["--version"]:
        print("cross-built for the tests by x86_64-w64-mingw32-gcc")
    elif arguments == ["-dumpmachine"]:
        print("x86_64-w64-mingw32")
    else:
        output = Path(arguments[arguments.index("-o") + 1])
        shutil.copyfile(Path(folder) / output.name, output)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
