"""Look for the HIP libraries that a translation layer will ask for, before a program starts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from scripts.app.running import hip_root_of
from scripts.app.staged import Staged
from scripts.app.workspace import Workspace
from scripts.errors import LaunchError
from scripts.launch.environ import hip_home
from scripts.launch.via import Via
from scripts.model import StackKind

#: The layer's driver library, which alone asks the HIP runtime for functions by their names.
DRIVER: Final = "nvcuda.dll"


def backend_notes(
    ws: Workspace,
    staged: Staged,
    program: Path,
    environ: Mapping[str, str],
    *,
    beside: Collection[Path] = (),
    refuse: bool = True,
) -> tuple[str, ...]:
    """Return one sentence for each file that is missing behind the layer (Windows: it asks by a box).

    Args:
        ws: the workspace.
        staged: the stack.
        program: its folder is one that Windows searches.
        environ: what the program will get; its PATH is searched for the HIP runtime.
        beside: folders in which the layer's files will lie; they look for HIP there first.
        refuse: raise where no CUDA program could start; else say that, too.

    Raises:
        HostError: ``hip-library-missing``: no CUDA program could start.
    """
    home = staged.runtime.path
    if ws.platform != "win32" or staged.stack.kind is not StackKind.TRANSLATION or home is None:
        return ()
    from scripts.host.windows import system32  # noqa: PLC0415 - Windows only, and not small
    from scripts.launch.backends import (  # noqa: PLC0415 - as above
        Places,
        missing_backends,
        notes_of,
        outdated_runtime,
        refuse_or_note,
        shadowing,
    )

    hip = hip_home(staged.runtime, hip_root_of(staged), ws.platform)
    entries = environ.get("PATH", "").split(";")
    places = Places(
        layer=program.parent if beside else home,
        hip=None if hip is None else Path(hip) / "bin",
        program=program.parent,
        system=system32(environ),
        path=tuple(Path(entry) for entry in entries if entry),
    )
    shadows = tuple(_shadow(folder, program) for folder in beside if shadowing(folder))
    missing = missing_backends(staged.runtime, places)
    said = refuse_or_note(missing) if refuse else notes_of(missing)
    outdated = outdated_runtime(home / DRIVER, places)
    return (*shadows, *said, *((outdated,) if outdated else ()))


def _shadow(folder: Path, program: Path) -> str:
    """Say which HIP libraries of a folder the layer's files there would load."""
    from scripts.launch.backends import shadowing  # noqa: PLC0415 - Windows only, and not small

    where = "beside the program" if folder == program.parent else f"in {folder}"
    return f"{', '.join(shadowing(folder))} {where} will be loaded instead of the HIP runtime's"


def refuse_foreign_driver(ws: Workspace, staged: Staged, via: Via) -> None:
    """Refuse a way in that an NVIDIA driver would cut off: Windows looks into System32 before PATH.

    Half of the program's CUDA would be NVIDIA's and half the layer's, and its numbers would be nobody's.

    Raises:
        LaunchError: ``foreign-driver``.
    """
    if ws.platform != "win32" or staged.stack.kind is not StackKind.TRANSLATION or via is not Via.ENV:
        return
    from scripts.host.windows import system32  # noqa: PLC0415 - as above

    driver = system32(ws.environ) / "nvcuda.dll"
    if driver.is_file():
        msg = f"{driver} belongs to an NVIDIA driver, and --via=env would give that one to the program"
        hint = "use --via=launcher, which puts the stack's own library in its place for this program"
        raise LaunchError("foreign-driver", msg, hint=hint)
