"""What a person sees of stacks: listing, setting up, switching."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from scripts.cli.console import RUN_ONE, Out, brief, short
from scripts.errors import ExitCode
from scripts.model import Outcome, StackKind

if TYPE_CHECKING:
    from scripts.app.advice import GpuAdvice, Shown
    from scripts.app.evidence_lookup import Proof, Worth
    from scripts.app.stacks import RollbackResult, StackRow, StacksResult, UseResult
    from scripts.app.verify import VerifyResult

#: Documents may say much of one stack: a person reads the beginning.
MOST_LISTED: Final = 8


def show_stacks(result: StacksResult, out: Out) -> None:
    """Show every stack: whether it fits, and the word its documents allow; or the one document."""
    if result.sbom:
        for line in json.dumps(result.sbom, indent=2).splitlines():
            out.quote(line)
        return
    for advice in result.advice:
        _advice(advice, out)
    rows = [(_name(row), row.stack.kind.value, _fits(row, result.gfx), _worth(row)) for row in result.rows]
    out.table(("stack", "kind", "here", "evidence"), rows)
    for row in result.rows:
        _documents(row, out)
    out.line("Evidence is what committed documents show; nothing is inferred upwards.")
    out.line("`reported` was measured and published by others.")
    fitting = [row for row in result.rows if not row.obstacles and not row.active]
    if result.advice:
        out.now(_for_gpu(result))
    elif any(row.active for row in result.rows):
        out.now(RUN_ONE)
    elif fitting:
        out.now(f"set one up: invoke setup --stack={fitting[0].stack.id}")
    else:
        out.now("set up what fits this machine: invoke setup")


def _for_gpu(result: StacksResult) -> str:
    """Say what a person with the GPU that was asked about would do on this system."""
    if result.to_set_up:
        return f"on the machine with that GPU: invoke setup --stack={result.to_set_up}"
    return f"see what runs without translation: invoke native --gpu={result.advice[0].gfx}"


def _advice(advice: GpuAdvice, out: Out) -> None:
    """Answer for one GPU: what to use, what works and fails, and what needs no translation."""
    names = f" ({', '.join(advice.names[:MOST_LISTED])})" if advice.names else ""
    out.line(f"{advice.gfx}{names}")
    out.mark("ok" if advice.proven else "warn", advice.verdict)
    for each in advice.stacks:
        pinned = "" if each.pinned else ", which no stack here pins"
        out.line(f"{each.stack or 'A combination that the report does not name'}{pinned}")
        for verb in ("works", "loads"):
            _shown(verb, [shown for shown in each.passed if shown.verb == verb], out)
        _shown("fails", each.failed, out)
    for each in advice.elsewhere:
        if each.only not in advice.verdict:
            out.line(each.only)
    if advice.native:
        out.line("Without translation, which is the better way where a program has one:")
    for way in advice.native:
        out.line(f"    {way.what}{f'; but {way.better}' if way.better else ''}")
        out.lines(way.commands, "        ")


def _shown(title: str, found: Sequence[Shown], out: Out) -> None:
    """Show what documents say, and which ones say it."""
    for shown in found[:MOST_LISTED]:
        detail = f"; {brief(shown.detail)}" if shown.detail else ""
        contested = "; other documents say otherwise" if shown.conflict else ""
        out.line(f"    {title}: {shown.what}: {shown.word}{detail}")
        out.line(f"        {shown.who}: {shown.document}{contested}")
    if len(found) > MOST_LISTED:
        out.line(f"    {title}: {len(found) - MOST_LISTED} more, which --json names")


def _name(row: StackRow) -> str:
    """Mark the active stack and the staged ones."""
    return row.stack.id + (" (active)" if row.active else " (staged)" if row.staged else "")


def _fits(row: StackRow, gfx: str) -> str:
    if gfx:
        if row.stack.kind is StackKind.REFERENCE:
            return "needs no GPU"
        listed = f"lists {gfx}" if row.stack.requires.gfx else "any AMD GPU"
        return f"{listed}, {row.stack.requires.os} only" if row.stack.requires.os else listed
    return "; ".join(row.obstacles) or "fits"


def _worth(row: StackRow) -> str:
    """Say what is shown, GPU by GPU."""
    known = row.worth or row.proofs  # documents about a GPU without an architecture of AMD's stand alone
    by_gpu: dict[str, list[Worth | Proof]] = {}
    for item in known:
        by_gpu.setdefault(item.gfx, []).append(item)
    cells = []
    for items in by_gpu.values():
        count = f", {len(items)} documents" if len(items) > 1 else ""
        cells.append(f"{max(items, key=_shown_level).sentence}{count}")
    return "; ".join(cells) or "none"


def _shown_level(item: Worth | Proof) -> int:
    """Rank what a document shows; one that failed shows no level."""
    return item.level.rank if item.level is not None and item.outcome == Outcome.PASS else -1


def _documents(row: StackRow, out: Out) -> None:
    """Name the document behind each word, and those that say otherwise."""
    for worth in row.worth:
        out.line(f"{row.stack.id} on {worth.sentence}")
        out.line(f"    shown by {worth.document}")
        out.lines(worth.against, "    against it ")
    for proof in row.proofs:
        if proof.failed:
            out.line(f"{row.stack.id} on {proof.gfx}: {', '.join(proof.failed)}")
            out.line(f"    seen in {proof.path}")


def show_use(result: UseResult, out: Out) -> None:
    """Say what is active now and how to go back."""
    out.mark(
        "ok",
        f"{result.active.stack} is active (generation {result.active.number}, {short(result.active.digest)})",
    )
    if result.before is not None and result.before.number != result.active.number:
        out.now(f"back to {result.before.stack}: invoke rollback")
    else:
        out.now(RUN_ONE)


def show_rollback(result: RollbackResult, out: Out) -> None:
    """Say what is active now and how to go forward again."""
    left, active = result.left, result.active
    out.mark("ok", f"{active.stack} is active again (generation {active.number})")
    out.line(f"left {left.stack} (generation {left.number})")
    out.now(f"forward again: invoke rollback --to={left.number}")


MARK = {"intact": "ok", "absent": "skip", "missing": "fail", "changed": "fail"}


def show_verify(result: VerifyResult, out: Out) -> None:
    """Name everything that was looked at, and every file that differs."""
    if result.signer:
        out.mark("ok", f"the lock is signed by {result.signer}")
    for item in result.items:
        out.mark(MARK[item.status], f"{item.what} {item.name}: {item.status} ({item.how} read)")
        out.lines(item.details)
    if not result.items:
        out.mark("skip", "nothing is staged in this workspace, so nothing was verified")
        out.now("set a stack up: invoke setup")
    elif result.exit_code != ExitCode.OK:
        out.now(f"put back what was verified: {' and '.join(result.repair)}")
    elif not result.deep:
        out.now("also read the archives behind them: invoke verify --deep")
