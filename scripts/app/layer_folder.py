"""A name for a runtime's folder that the Windows launcher can read."""

from __future__ import annotations

import sys
from pathlib import Path, PureWindowsPath

from scripts.app.workspace import Workspace
from scripts.launch.launcher import ascii_folder

if sys.platform == "win32":
    from scripts.system.names_windows import private_junction, short_name

    def layer_folder(ws: Workspace, folder: Path) -> PureWindowsPath:
        """Return an ASCII path of ``folder``: itself, its 8.3 name, or a junction only this user can change.

        Raises:
            LaunchError: ``layer-folder-not-ascii``, ``junction-unsafe``.
        """
        shared = Path(ws.environ.get("PROGRAMDATA") or r"C:\ProgramData")
        return ascii_folder(
            folder, short_name=short_name, junction=lambda target: private_junction(target, shared)
        )

else:

    def layer_folder(ws: Workspace, folder: Path) -> PureWindowsPath:
        """Return the folder unchanged: there is no launcher here."""
        del ws
        return PureWindowsPath(folder)
