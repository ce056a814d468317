"""How our own checks are started, and which programs run with a stack's files at this moment."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from scripts.app.context import Staged, Workspace
from scripts.errors import LaunchError
from scripts.host.hip import fitting_root
from scripts.launch.environ import EnvPlan, GpuChoice, hip_home, plan_environment
from scripts.launch.injection import Via
from scripts.model import HipRoot, HipSource, Host, Runtime, StackKind
from scripts.osal.paths import home_folder
from scripts.osal.process import run_captured
from scripts.osal.processes import Captured, running, this_process
from scripts.staging.state_folder import PlacementRegistry

if TYPE_CHECKING:
    from scripts.evidence.document import Revision
    from scripts.osal.redaction import Redactor


def hip_root_of(staged: Staged) -> HipRoot | None:
    """Return the installed HIP runtime this stack uses, if it uses one."""
    uses_installed = staged.stack.hip.source in {HipSource.SDK, HipSource.SYSTEM}
    return fitting_root(staged.stack, staged.host) if uses_installed else None


def gpu_choice(host: Host) -> GpuChoice | None:
    """Return the selected GPU by HIP's own number, where HIP would see several."""
    gpu = host.selected_gpu
    if gpu is None or gpu.hip_index is None:
        return None
    count = sum(1 for other in host.gpus if other.hip_index is not None)
    return GpuChoice(index=gpu.hip_index, count=count, name=gpu.name)


def check_environment(ws: Workspace, staged: Staged) -> EnvPlan:
    """Plan the environment of a check or a workload of ours."""
    return plan_environment(
        ws.environ,
        platform=ws.platform,
        stack=staged.stack,
        runtime=staged.runtime,
        hip_root=hip_root_of(staged),
        gpu=gpu_choice(staged.host),
        purpose="check",
    )


def run_ours(ws: Workspace, staged: Staged, argv: Sequence[str], *, timeout: float) -> Captured:
    """Run one of our own programs under a stack and keep what it says; say so when it is compiling."""
    from scripts.app.compile_cache import cache_size, say_when_compiling  # noqa: PLC0415 - as below

    env = check_environment(ws, staged).environ
    watch = say_when_compiling(ws.progress.note, partial(cache_size, ws))
    with watch if staged.stack.kind is StackKind.TRANSLATION else nullcontext():
        return run_captured(list(argv), env=env, timeout=timeout)


def file_called(runtime: Runtime, stem: str) -> Path | None:
    """Return a runtime's file by its name without the ending; the topmost if there are several."""
    names = (PurePosixPath(file.name) for file in runtime.files)
    found = [name for name in names if name.stem.lower() == stem]
    if runtime.path is None or not found:
        return None
    return runtime.path / min(found, key=lambda name: len(name.parts))


def redactor_of(ws: Workspace) -> Redactor:
    """Know what identifies this person and machine, so that documents can leave it out."""
    import platform  # noqa: PLC0415 - most runs write no document

    from scripts.osal.redaction import Redactor  # noqa: PLC0415 - as above

    user = next((ws.environ[name] for name in ("USERNAME", "LOGNAME", "USER") if ws.environ.get(name)), "")
    return Redactor(user=user, home=str(home_folder() or ""), host=platform.node())


def write_logs(ws: Workspace, folder: Path, logs: Mapping[str, bytes]) -> None:
    """Write what programs printed into a folder, without what identifies this person and machine."""
    redactor = redactor_of(ws)
    for name, data in logs.items():
        (folder / name).write_bytes(redactor.text(data.decode("utf-8", "replace")).encode("utf-8"))


def revision_of(ws: Workspace) -> Revision | None:
    """Return the commit of this checkout, or ``None`` where git or its folder is missing."""
    from scripts.evidence.document import Revision  # noqa: PLC0415 - most runs write no document

    commit = _git(ws, "rev-parse", "HEAD")
    if not commit:
        return None
    dirty = _git(ws, "status", "--porcelain", "--untracked-files=no")
    return Revision(commit=commit, dirty=bool(dirty))


def home_of(ws: Workspace) -> str:
    """Return the project's address on GitHub, as git knows it; empty where it is elsewhere or unknown."""
    found = _GITHUB.search(_git(ws, "remote", "get-url", "origin"))
    return f"https://github.com/{found[1]}" if found else ""


#: What git calls a repository on GitHub, over https and ssh.
_GITHUB: Final = re.compile(r"github\.com[:/]([\w.-]+/[\w.-]+?)(?:\.git)?/?\Z")


def _git(ws: Workspace, *words: str) -> str:
    """Ask git one thing about this checkout; no answer is an empty one."""
    git = shutil.which("git", path=ws.environ.get("PATH"))
    if git is None or not (ws.root / ".git").exists():
        return ""
    try:
        done = subprocess.run(
            [git, "-C", str(ws.root), *words], capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


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
    from scripts.host.windows_registry import system32  # noqa: PLC0415 - Windows only, and not small
    from scripts.launch.backends import (  # noqa: PLC0415 - as above
        BackendPlaces,
        missing_backends,
        notes_of,
        outdated_runtime,
        refuse_or_note,
        shadowing,
    )

    hip = hip_home(staged.runtime, hip_root_of(staged), ws.platform)
    entries = environ.get("PATH", "").split(";")
    places = BackendPlaces(
        layer=program.parent if beside else home,
        hip=None if hip is None else Path(hip) / "bin",
        program=program.parent,
        system=system32(environ),
        path=tuple(Path(entry) for entry in entries if entry),
    )
    shadows = tuple(_shadow(folder, program) for folder in beside if shadowing(folder))
    missing = missing_backends(staged.runtime, places)
    notes = refuse_or_note(missing) if refuse else notes_of(missing)
    outdated = outdated_runtime(home / DRIVER, places)
    return (*shadows, *notes, *((outdated,) if outdated else ()))


def _shadow(folder: Path, program: Path) -> str:
    """Say which HIP libraries of a folder the layer's files there would load."""
    from scripts.launch.backends import shadowing  # noqa: PLC0415 - Windows only, and not small

    where = "beside the program" if folder == program.parent else f"in {folder}"
    return f"{', '.join(shadowing(folder))} {where} will be loaded instead of the HIP runtime's"


def refuse_foreign_driver(ws: Workspace, staged: Staged, via: Via) -> None:
    """Refuse a way in that an NVIDIA driver would cut off: Windows looks into System32 before PATH.

    Half of the program's CUDA would be NVIDIA's and half the layer's, and its numbers would show neither.

    Raises:
        LaunchError: ``foreign-driver``.
    """
    if ws.platform != "win32" or staged.stack.kind is not StackKind.TRANSLATION or via is not Via.ENV:
        return
    from scripts.host.windows_registry import system32  # noqa: PLC0415 - as above

    driver = system32(ws.environ) / "nvcuda.dll"
    if driver.is_file():
        msg = f"{driver} belongs to an NVIDIA driver, and --via=env would give that one to the program"
        hint = "use --via=launcher, which puts the stack's own library in its place for this program"
        raise LaunchError("foreign-driver", msg, hint=hint)


RUNS: Final = "runs"


@contextmanager
def noted_run(ws: Workspace, staged: Staged, program: Path) -> Iterator[None]:
    """Note a run while it lasts; a state folder that cannot be written to is no reason not to run."""
    registry = PlacementRegistry(ws.state_root)
    user = this_process()
    entry = ws.state_root / RUNS / user.name
    noted = staged.runtime.path is not None
    if noted:
        with suppress(OSError):
            facts = {"program": str(program), "stack": staged.stack.id, "user": user.name}
            registry.add(RUNS, entry, **facts)
    try:
        yield
    finally:
        if noted:
            with suppress(OSError):
                registry.remove(RUNS, entry)


def running_here(ws: Workspace) -> tuple[str, ...]:
    """Return a line for each wrapped program that runs; what was left by one that was killed is forgotten."""
    registry = PlacementRegistry(ws.state_root)
    lines = []
    for entry in registry.entries(RUNS):
        user = running(entry.facts.get("user", ""))
        if user is None:
            with suppress(OSError):
                registry.remove(RUNS, entry.path)
            continue
        program, stack = entry.facts.get("program", ""), entry.facts.get("stack", "")
        lines.append(f"{program} with {stack} (process {user.pid})")
    return tuple(lines)
