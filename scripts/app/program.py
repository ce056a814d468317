"""The program a person names with ``--exe``."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

from scripts.app.workspace import Workspace
from scripts.launch.request import find_program


def named_program(ws: Workspace, exe: str) -> Path:
    """Find a program as a shell in the current folder would; its path is absolute.

    Raises:
        UsageError: nothing was named.
        LaunchError: no such program is there.
    """
    search = partial(shutil.which, path=ws.environ.get("PATH", ""))
    return find_program(exe, cwd=Path.cwd(), search=search, platform=ws.platform)
