"""Which probes failed with a stack on this GPU, by every document here, and what follows for a program."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Final

from scripts.app.context import Staged, Workspace, within
from scripts.app.evidence_lookup import evidence_store
from scripts.errors import WorkspaceError
from scripts.evidence.evidence_io import FILE_NAME, Filed, read_document
from scripts.launch.profiles import Applied, Setting
from scripts.preflight.examine import Examined
from scripts.probing.catalogue import probes
from scripts.probing.known_failures import FailedProbe, ProbeWarning, failures_of, warnings_for

NO_TORCH: Final = "nothing is set, because no PyTorch was found for this program"


def documents_here(ws: Workspace, *, stack: str = "", gfx: str = "") -> Iterator[Filed]:
    """Yield the documents of this workspace: what was committed, then what was made here.

    ``stack`` and ``gfx`` leave committed ones about others out; under another lock there are none.
    """
    with evidence_store(ws) as store:
        for kept in store.documents(stack=stack, gpu=gfx):
            yield Filed(path=kept.paths[0], document=kept.document)
    for path in sorted((ws.stage / "reports").glob(f"*/{FILE_NAME}")):
        try:
            yield Filed(path=within(ws, path), document=read_document(path))
        except WorkspaceError:
            continue  # damaged by hand: it proves nothing, and `report` names it


def failed_here(ws: Workspace, stack: str, gfx: str) -> tuple[FailedProbe, ...]:
    """Return the probes that stand as failed for a stack on an architecture.

    None where the architecture is unknown, and none under another lock, for which no document is proof.
    """
    if not gfx or ws.custom_lock:
        return ()
    return failures_of(documents_here(ws, stack=stack, gfx=gfx), stack=stack, gfx=gfx)


def probe_warnings(ws: Workspace, stack: str, gfx: str, examined: Examined) -> tuple[ProbeWarning, ...]:
    """Return the failed probes that concern a program that was read."""
    torch = any(package.name == "torch" for package in examined.packages)
    return warnings_for(failed_here(ws, stack, gfx), examined.closure.needs, torch=torch)


def measured_profile(ws: Workspace, staged: Staged, *, taken: AbstractSet[str], torch: bool) -> Applied:
    """Return the settings for PyTorch that go around what failed with this stack on this GPU.

    ``taken`` are policies that are in force already, or are left out on purpose; ``torch`` says whether the
    program's environment has PyTorch.
    """
    gpu = staged.host.selected_gpu
    gfx = (gpu.gfx or "") if gpu is not None else ""
    failed = [one for one in failed_here(ws, staged.stack.id, gfx) if probes()[one.probe].torch]
    wanted = dict.fromkeys(one.policy for one in failed if one.policy and one.policy not in taken)
    return Applied(
        id="probes",
        what="PyTorch",
        sign="--policy=auto",
        settings=tuple(_setting(policy, failed) for policy in wanted) if torch else (),
        notes=tuple(_notes(staged.stack.id, gfx, failed)) if torch else (NO_TORCH,),
    )


def _setting(policy: str, failed: list[FailedProbe]) -> Setting:
    """Return one setting, with the probes that ask for it and their documents."""
    mine = [one for one in failed if one.policy == policy]
    names = ", ".join(f"{one.probe} ({one.outcome.value})" for one in mine)
    documents = ", ".join(dict.fromkeys(one.document for one in mine))
    return Setting(torch=policy, why=f"{mine[0].stack} failed {names} on {mine[0].gfx}", source=documents)


def _notes(stack: str, gfx: str, failed: list[FailedProbe]) -> Iterator[str]:
    """Say what failed and no setting goes around, or that nothing is known to fail."""
    for one in failed:
        if not one.policy:
            yield f"{one.sentence}, and no setting goes around it"
    if not failed:
        yield f"no document here shows a failed probe of PyTorch for {stack} on {gfx or 'this machine'}"
