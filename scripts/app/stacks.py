"""``stacks``: every pinned stack, whether it fits this machine, and what it is worth by evidence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from msgspec import field

from scripts.app.context import Workspace, cache_of, host_of, lock_of, read_count, staged_runtime
from scripts.app.evidence_lookup import Proof, Worth, evidence_store, known_by_stack, worth_here
from scripts.errors import ExitCode, HostError, StagedFileError, UsageError
from scripts.evidence.store import EvidenceStore
from scripts.lock.reader import find_stack
from scripts.model import Host, Lock, Stack, StackKind
from scripts.serialize import JsonRecord, pick
from scripts.staging.runtimes import Generation, activate, go_back, load_runtime, read_history, verify_runtime
from scripts.staging.select import select_for, unmet

if TYPE_CHECKING:
    from scripts.app.advice import GpuAdvice

#: No history is longer.
MOST_GENERATIONS: Final = 1_000_000
NOTHING: Final[tuple[list[Worth], list[Proof]]] = ([], [])


class StackRow(JsonRecord, frozen=True, kw_only=True):
    """One stack: what stands in its way here (empty: nothing), and what documents show.

    ``worth`` says it once for each architecture; ``proofs`` are the documents one by one.
    """

    stack: Stack
    obstacles: tuple[str, ...]
    worth: tuple[Worth, ...]
    proofs: tuple[Proof, ...]
    active: bool
    staged: bool

    JSON = (
        "id=stack.id kind=stack.kind os=stack.requires.os gfx=stack.requires.gfx hip parts=stack.parts "
        "fits_here obstacles worth evidence=proofs staged active"
    )

    @property
    def fits_here(self) -> bool:
        """Whether nothing stands in its way."""
        return not self.obstacles

    @property
    def hip(self) -> dict[str, str]:
        """Which HIP runtime it works with."""
        return {"from": self.stack.hip.source.value, "range": self.stack.hip.range}


class StacksResult(JsonRecord, frozen=True, kw_only=True):
    """All stacks of the lock, in its order; with ``advice`` for the GPU that was asked about.

    ``to_set_up`` is the pinned stack that fits that GPU on this system; empty where none does.
    ``sbom`` is a CycloneDX document where one was asked for; it is then the whole result.
    """

    rows: tuple[StackRow, ...] = ()
    gfx: str = ""
    advice: tuple[GpuAdvice, ...] = ()
    to_set_up: str = ""
    sbom: Mapping[str, object] = field(default_factory=dict)
    exit_code: int = ExitCode.OK

    JSON = "gfx? advice stacks=rows"

    def to_json(self) -> dict[str, object]:
        """Return the document that was asked for, or the list."""
        return dict(self.sbom) or super().to_json()


def stacks(ws: Workspace, *, for_gpu: str = "", sbom: str = "") -> StacksResult:
    """List the stacks; with ``for_gpu`` those for that GPU, whatever is in this machine, and what to use.

    ``for_gpu`` is a product's name, an architecture, what hipInfo printed, a file with it, or ``-`` for
    standard input. With ``sbom`` that stack's bill of materials is the result instead.

    Raises:
        UsageError: it names no GPU, or too many; or there is no such stack.
    """
    lock, history = lock_of(ws), read_history(ws.stage)
    if sbom:
        return StacksResult(sbom=_sbom(lock, sbom))
    with evidence_store(ws) as store:
        advice = _advice(ws, store, lock, for_gpu) if for_gpu else ()
        wanted = tuple(each.gfx for each in advice)
        known = known_by_stack(store, gpu=wanted[0] if len(wanted) == 1 else "")
    host: Host | None = None if for_gpu else host_of(ws)
    staged = {g.stack for g in history.generations}
    rows = tuple(
        StackRow(
            stack=stack,
            obstacles=unmet(stack, host, host.selected_gpu) if host is not None else (),
            worth=tuple(w for w in known.get(stack.id, NOTHING)[0] if not wanted or w.gfx in wanted),
            proofs=tuple(p for p in known.get(stack.id, NOTHING)[1] if not wanted or p.gfx in wanted),
            active=history.active is not None and history.active.stack == stack.id,
            staged=stack.id in staged,
        )
        for stack in lock.stacks.values()
        if not wanted or any(_is_for(stack, gfx) for gfx in wanted)
    )
    chosen = _to_set_up(ws, lock, advice)
    return StacksResult(rows=rows, gfx=" ".join(wanted), advice=advice, to_set_up=chosen)


def _to_set_up(ws: Workspace, lock: Lock, advice: tuple[GpuAdvice, ...]) -> str:
    """Name the stack that ``setup`` would choose for the one GPU that was asked about."""
    if len(advice) != 1:
        return ""
    try:
        return select_for(lock, worth_here(ws), os=advice[0].os, gfx=advice[0].gfx).stack_id
    except HostError:
        return ""


def _sbom(lock: Lock, name: str) -> Mapping[str, object]:
    from scripts.lock.sbom import sbom_of  # noqa: PLC0415 - the plain list has no use for it

    return sbom_of(lock, find_stack(lock, name))


def _advice(ws: Workspace, store: EvidenceStore, lock: Lock, text: str) -> tuple[GpuAdvice, ...]:
    """Answer for each architecture that is meant."""
    from scripts.app.advice import advise, meant_gpu  # noqa: PLC0415 - the plain list has no use for it

    match = meant_gpu(text)
    system = "windows" if ws.platform == "win32" else "linux"
    return tuple(advise(store, lock, gfx=gfx, os=system, names=match.names) for gfx in match.gfx)


def _is_for(stack: Stack, gfx: str) -> bool:
    """Tell whether a stack may be for an architecture of AMD's: it lists it, or none; NVIDIA's is not."""
    if stack.kind is StackKind.CONTROL:
        return False
    return not stack.requires.gfx or gfx in stack.requires.gfx


def _named(generation: Generation | None) -> dict[str, object] | None:
    return pick(generation, "number stack") if generation is not None else None


ACTIVE: Final = "generation=active.number stack=active.stack digest=active.digest"


class UseResult(JsonRecord, frozen=True, kw_only=True):
    """The generation that is active now, and the one before."""

    active: Generation
    before: Generation | None
    exit_code: int = ExitCode.OK

    def to_json(self) -> dict[str, object]:
        """Return both, the one before by its number and stack."""
        return {**pick(self, ACTIVE), "before": _named(self.before)}


def use(ws: Workspace, *, stack: str = "") -> UseResult:
    """Verify a staged stack in full, then make it active.

    Raises:
        UsageError: none was named, it is unknown, or it was never staged here.
        StagedFileError: its files are missing or changed; the active stack stays what it was.
    """
    if not stack:
        hint = "invoke use --stack=ID; `invoke stacks` lists them"
        raise UsageError("stack-needed", "which stack should be used?", hint=hint)
    staged = staged_runtime(ws, stack)
    history = read_history(ws.stage)
    source = next(g for g in history.of(stack) if g.digest == staged.runtime.digest)
    active = activate(
        ws.stage,
        stack=stack,
        digest=source.digest,
        lock=source.lock,
        options=source.options,
        reason="use",
        document=source.document,
    )
    return UseResult(active=active, before=history.active)


class RollbackResult(JsonRecord, frozen=True, kw_only=True):
    """The generation that was left and the one that is active now."""

    left: Generation
    active: Generation
    exit_code: int = ExitCode.OK

    def to_json(self) -> dict[str, object]:
        """Return both, the one that was left by its number and stack."""
        return {"left": _named(self.left), **pick(self, ACTIVE)}


def rollback(ws: Workspace, *, to: str = "") -> RollbackResult:
    """Verify the earlier generation's files in full, then make it current again.

    Raises:
        UsageError: there is no such generation.
        StagedFileError: its files are gone or changed; nothing was switched.
    """
    history = read_history(ws.stage)
    number = read_count(to, option="to", most=MOST_GENERATIONS) if to else None
    target = (
        history.previous
        if number is None
        else next((g for g in history.generations if g.number == number), None)
    )
    if target is not None:
        runtime = load_runtime(cache_of(ws), target.digest, stack=target.stack)
        if runtime is None:
            msg = f"generation {target.number} ({target.stack}) is no longer in the store"
            hint = f"put it back with `invoke setup --stack={target.stack}`"
            raise StagedFileError("runtime-missing", msg, hint=hint)
        verify_runtime(runtime, progress=ws.progress)
    left, active = go_back(ws.stage, to=number)
    return RollbackResult(left=left, active=active)
