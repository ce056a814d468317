"""What the doctor says of our own tasks when they fail, and whether somebody is compiling meanwhile."""

from __future__ import annotations

from scripts.app.machine_look import facts_of
from scripts.app.staged import host_of
from scripts.app.workspace import Workspace
from scripts.doctor.diagnose import SURE, Finding, diagnose
from scripts.errors import WorkspaceError
from scripts.host.gpu import AMD
from scripts.staging.select import selected_gpu

#: The tasks that run something under a stack or fetch it: what they print is worth explaining.
EXPLAINED = frozenset({"setup", "fetch", "stage", "check", "run", "probe", "wrap"})


def best_finding(ws: Workspace, text: str | bytes) -> Finding | None:
    """Explain the output of a task of ours, or say nothing: only what is more likely than not is worth it.

    Never raises for a failure of ours: advice must not hide what it is about.
    """
    if not text:
        return None
    try:
        host = host_of(ws)
    except WorkspaceError:
        return None
    gpu = selected_gpu(host)
    # Whatever ran here ran on AMD's software where the GPU in use is AMD's.
    facts = facts_of(ws, host, amd=gpu is not None and gpu.vendor == AMD)
    found = next(iter(diagnose(text, facts)), None)
    return found if found is not None and found.confidence > SURE else None
