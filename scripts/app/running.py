"""How our own checks and workloads are started: in the stack's environment, a session of their own."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from scripts.app.staged import Staged
from scripts.app.workspace import Workspace
from scripts.launch.environ import EnvPlan, GpuChoice, plan_environment
from scripts.launch.request import parse_timeout
from scripts.model import HipRoot, HipSource, Host, StackKind
from scripts.staging.select import fitting_root, selected_gpu
from scripts.system.child import Captured
from scripts.system.process import run_captured

if TYPE_CHECKING:
    from scripts.reporting.document import Revision
    from scripts.system.redact import Redactor


def hip_root_of(staged: Staged) -> HipRoot | None:
    """Return the installed HIP runtime this stack uses, if it uses one."""
    uses_installed = staged.stack.hip.source in {HipSource.SDK, HipSource.SYSTEM}
    return fitting_root(staged.stack, staged.host) if uses_installed else None


def gpu_choice(host: Host) -> GpuChoice | None:
    """Return the selected GPU by HIP's own number, where HIP would see several."""
    gpu = selected_gpu(host)
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
    from scripts.app.compiling import cache_size, say_when_compiling  # noqa: PLC0415 - as below

    env = check_environment(ws, staged).environ
    watch = say_when_compiling(ws.progress.note, partial(cache_size, ws))
    with watch if staged.stack.kind is StackKind.TRANSLATION else nullcontext():
        return run_captured(list(argv), env=env, timeout=timeout)


def read_seconds(text: str, *, default: float) -> float:
    """Read ``--timeout`` as seconds; empty is the default.

    Raises:
        UsageError: it is no positive duration.
    """
    return parse_timeout(text) or default


def redactor_of(ws: Workspace) -> Redactor:
    """Know what identifies this person and machine, so that documents can leave it out."""
    import platform  # noqa: PLC0415 - most runs write no document

    from scripts.system.redact import Redactor  # noqa: PLC0415 - as above

    user = next((ws.environ[name] for name in ("USERNAME", "LOGNAME", "USER") if ws.environ.get(name)), "")
    return Redactor(user=user, home=str(Path.home()), host=platform.node())


def revision_of(ws: Workspace) -> Revision | None:
    """Return the commit of this checkout, or ``None`` where git or its folder is missing."""
    from scripts.reporting.document import Revision  # noqa: PLC0415 - most runs write no document

    git = shutil.which("git", path=ws.environ.get("PATH"))
    if git is None or not (ws.root / ".git").exists():
        return None
    commit = _git(git, ws.root, "rev-parse", "HEAD")
    if not commit:
        return None
    dirty = _git(git, ws.root, "status", "--porcelain", "--untracked-files=no")
    return Revision(commit=commit, dirty=bool(dirty))


def _git(git: str, root: Path, *words: str) -> str:
    """Ask git one thing; no answer is an empty one."""
    try:
        done = subprocess.run(
            [git, "-C", str(root), *words], capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
