"""What a person sees of ``status``, ``scan``, ``native``, the store and ``remove``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from scripts.cli.console import RUN_ONE, Out, short
from scripts.host.gpu import without_gpu
from scripts.osal.text import count_of, option, visible
from scripts.osal.text import size_text as size
from scripts.placement.status import TargetState

if TYPE_CHECKING:
    from scripts.app.cleanup import CacheListResult, CachePruneResult, RemoveResult
    from scripts.app.scan import NativeResult, ScanResult
    from scripts.app.status import StatusResult
    from scripts.model import Gpu, HipRoot
    from scripts.placement.status import PlacementStatus


#: What should be cleaned up.
UNWANTED: Final = frozenset(TargetState) - {TargetState.IN_USE, TargetState.KEPT}


def show_status(result: StatusResult, out: Out) -> None:
    """Show the active stack first, then everything around it."""
    _show_active(result, out)
    active, lock = result.active, result.lock
    out.line(f"lock     {short(lock.digest)} {lock.path}{', custom' if lock.custom else ''}")
    if active is not None and active.lock != lock.digest:
        out.mark("warn", f"the lock has changed since generation {active.number}: `invoke setup` takes it up")
    if active is not None and active.document:
        out.line(f"evidence {active.document}")
    out.line(f"store    {result.store} ({size(result.store_bytes)})")
    if result.compiled is not None and result.compiled.files:
        out.line(f"compiled {result.compiled.folder} ({size(result.compiled.bytes)}, the layer's)")
    for other in result.history.generations:
        if active is None or other.number != active.number:
            out.line(
                f"         generation {other.number}: {other.stack} {short(other.digest)} {other.activated}"
            )
    unwanted = [placed for placed in result.placed if placed.standing in UNWANTED]
    for placed in result.placed:
        line = _placed(placed, advise=placed not in unwanted[:1])  # the closing line says what to do first
        out.mark("warn" if placed in unwanted else "ok", line)
    for shim in result.shims:
        what = f"shim for {shim.program.name} with {shim.stack}: {shim.path}"
        out.mark("warn" if shim.advice else "ok", f"{what}. {shim.advice}".rstrip(". "))
    out.marks("warn", result.leftovers, "left over from an interrupted run: ")
    ready = active is not None and result.runtime_present
    if unwanted:
        out.now(unwanted[0].advice)
    else:
        out.now(RUN_ONE if ready else "set one up: invoke setup")


def _placed(placed: PlacementStatus, *, advise: bool) -> str:
    """Say in one sentence what lies beside a program, for whom, and what can be done."""
    count = count_of(len(placed.files), "file")
    files = f"{count} of {placed.stack} beside the program in " if placed.stack else ""
    users = f" (process {', '.join(map(str, placed.users))})" if placed.users else ""
    advice = f"; {placed.advice}" if placed.advice and advise else ""
    return f"{placed.standing.value}{users}: {files}{visible(str(placed.target))}{advice}"


def _show_active(result: StatusResult, out: Out) -> None:
    """Say in one line what is active and whether it can be used."""
    active = result.active
    if active is None:
        out.mark("skip", "no stack is active in this workspace")
    elif not result.runtime_present:
        out.mark("fail", f"{active.stack} is active, but its files are no longer in the store")
    else:
        which = f"generation {active.number}, {short(active.digest)}, {active.activated}"
        out.mark("ok", f"{active.stack} is active ({which})")


def show_cache_list(result: CacheListResult, out: Out) -> None:
    """Show the entries, the largest first."""
    rows = [
        (e.kind.value, short(e.key), size(e.bytes), result.needed_by.get(e.key, "nothing here"))
        for e in sorted(result.entries, key=lambda e: -e.bytes)
    ]
    if rows:
        out.table(("what", "key", "size", "needed by"), rows)
    shared = "; what entries share counts once" if result.bytes < sum(e.bytes for e in result.entries) else ""
    out.line(f"{result.root}: {len(rows)} entries, {size(result.bytes)}{shared}")
    out.now("take away what nothing needs: invoke cache.prune --dry-run")


def show_cache_prune(result: CachePruneResult, out: Out) -> None:
    """Say what went and what stayed."""
    if result.compiled is not None:
        _show_compiled(result, out)
        return
    for entry in result.gone:
        out.line(f"{entry.kind.value:8} {short(entry.key)}  {size(entry.bytes)}")
    verb = "would go" if result.dry_run else "gone"
    out.line(f"{len(result.gone)} entries {verb} ({size(result.bytes)}), {result.kept} kept")
    if result.dry_run and result.gone:
        out.now("take them away: invoke cache.prune")


def _show_compiled(result: CachePruneResult, out: Out) -> None:
    """Say what went of the compile cache."""
    cache = result.compiled
    if cache is None or not cache.files:
        out.line("The compile cache is empty.")
        return
    for path in cache.files:
        out.line(str(path))
    count = count_of(len(cache.files), "file")
    out.line(f"{count} {'would go' if result.dry_run else 'gone'} ({size(cache.bytes)})")
    if result.dry_run:
        out.now("take them away: invoke cache.prune --compile")
    else:
        out.line("The first run of every program compiles again, which can take minutes.")


def show_remove(result: RemoveResult, out: Out) -> None:
    """Name what went and what stays."""
    mark, what = ("ok", "removed") if result.done else ("skip", "would remove")
    compiled = [path for path in result.paths if Path(path).name == "__pycache__"]
    for path in result.paths:
        if path not in compiled:
            out.mark(mark, f"{what} {path}")
    if compiled:
        out.mark(mark, f"{what} {len(compiled)} folders __pycache__ below {os.path.commonpath(compiled)}")
    out.marks("skip", result.kept, "kept ")
    if not result.paths:
        out.mark("skip", "there is nothing to remove")
    elif not result.done:
        out.now("remove it: invoke remove --yes")


_GIB = 1024**3
#: The unknowns that are shown, with their words.
_ASKED = {"gfx": "gfx", "integrated": "kind", "memory_bytes": "memory", "driver": "driver"}
_KINDS = {True: "integrated", False: "discrete", None: "?"}


def show_scan(result: ScanResult, out: Out) -> None:
    """Show the GPUs, the HIP runtimes, what does not agree, and why something is unknown."""
    host = result.host
    _show_gpus(result, out)
    _show_hip(result, out)
    out.marks("warn", host.disagreements)
    for gpu in host.gpus:
        for field, what in _ASKED.items():
            obvious = (field == "gfx" and gpu.vendor != "amd") or (field == "driver" and result.from_hipinfo)
            if field in gpu.why_unknown and not obvious:
                out.mark("unknown", f"GPU {gpu.index}, {what}: {gpu.why_unknown[field]}.")
    out.lines(result.remarks, "")
    for note in host.notes:
        out.note(note)
    out.now(_now(result))


def _show_gpus(result: ScanResult, out: Out) -> None:
    host = result.host
    rows = [_gpu_row(gpu, chosen=gpu.index == host.selected) for gpu in host.gpus]
    if rows:
        out.table(("#", "GPU", "gfx", "kind", "memory", "driver"), rows)
    else:
        out.mark("unknown" if result.from_hipinfo else "warn", "No GPU that a stack could use was found.")
        if not result.from_hipinfo:
            advice = without_gpu(host.os)
            out.line(f"{advice[:1].upper()}{advice[1:]}.")


def _show_hip(result: ScanResult, out: Out) -> None:
    """Show the HIP runtimes, those of the driver apart."""
    host = result.host
    if host.hip_roots:
        out.table(("HIP runtime", "version", "found by", "libraries"), map(_root_row, host.hip_roots))
    elif not result.from_hipinfo and any(gpu.vendor == "amd" for gpu in host.gpus):
        out.mark("warn", "No HIP runtime was found.")
    for name, version in host.driver_files.items():
        out.mark("ok", f"The display driver brought {name}, file version {version or '?'}.")


def _gpu_row(gpu: Gpu, *, chosen: bool) -> tuple[str, ...]:
    """Return the cells of one GPU; ``*`` marks the one that would be used."""
    memory = f"{gpu.memory_bytes / _GIB:.1f} GiB" if gpu.memory_bytes else "?"
    gfx = gpu.gfx or ("?" if gpu.vendor == "amd" else "")
    number = f"{gpu.index}{' *' if chosen else ''}"
    return (number, gpu.name, gfx, _KINDS[gpu.integrated], memory, gpu.driver or "?")


def _root_row(root: HipRoot) -> tuple[str, ...]:
    return (str(root.path), root.version or "?", root.source, ", ".join(root.libraries))


def _now(result: ScanResult) -> str:
    gpu = result.host.selected_gpu
    if not result.from_hipinfo:
        if gpu is None:
            return "try the pipeline on the CPU reference: invoke setup"
        return f"use GPU {gpu.index}, {gpu.name}: invoke setup"
    if gpu is not None and gpu.gfx:
        return f"see which stacks are for it: invoke stacks --for-gpu={gpu.gfx}"
    return "ask for everything that hipInfo printed, and for the PCI id of the GPU"


def show_native(result: NativeResult, out: Out) -> None:
    """Show each way with its commands, as they are typed."""
    unknown = "a GPU whose architecture is not known" if result.found else "no GPU was found"
    gpu = result.gfx or unknown
    known = ", ".join(result.programs) or "a program that is not known here"
    what = f"{result.program.name} ({known})" if result.program is not None else "the usual programs"
    out.line(f"Without translation: {what}, {gpu}, {result.os}")
    if result.refusal:
        out.mark("warn", result.refusal)
    for way in result.ways:
        out.line(f"{way.what} [{way.source}, {way.date}]")
        out.lines(way.commands)
        if way.better:
            out.line(f"    translation is the better way: {way.better}")
    if result.better:
        out.mark("ok", result.better)
    out.line("Nothing of this was run on a Radeon by this project, and nothing is installed by itself.")
    if not result.refusal:
        name = f" {option('exe', result.program)}" if result.program is not None else ""
        out.now(
            f"see what translation would do: invoke preflight{name}"
            if name
            else "explain preflight: invoke --help preflight"
        )
