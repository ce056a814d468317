"""Programs of tests that are Python scripts, from an interpreter that may lie in any folder.

The kernel splits a ``#!`` line at its first space and cuts it at 127 or 255 bytes, so the script starts as a
shell script that hands over: what the shell runs is a string to Python.
"""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path


def write_python_program(path: Path, body: str, *options: str) -> Path:
    """Write a program that can be started by itself; ``options`` are the interpreter's."""
    words = " ".join(f"'{word}'" for word in (sys.executable, *options))
    start = f"#!/bin/sh\n'''exec' {words} \"$0\" \"$@\"\n' '''\n"
    path.write_text(start + textwrap.dedent(body).lstrip("\n") + "\n", encoding="utf-8")
    path.chmod(0o755)
    return path
