"""Whether a program fails because its stack drops a kernel: a log held against the program's files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from scripts.app.context import Workspace, host_of, lock_of, newest
from scripts.app.preflight import CACHE_FOLDER, kernel_store
from scripts.app.stack_facts import stack_facts
from scripts.doctor.machine import Line, Status
from scripts.lock.resolve import find_stack
from scripts.model import Host
from scripts.preflight.coverage import StackFacts
from scripts.preflight.cuda_providers import missing_cuda_library
from scripts.preflight.examine import examine
from scripts.preflight.kernels import KernelReport
from scripts.preflight.missing_kernels import BASIS, kernel_fate, kernels_of, missing_sentence
from scripts.staging.generations import read_history

#: What a layer answers when a kernel or its module is not there: 500, 999 and 209.
_SIGNS: Final = re.compile(
    rb"named symbol not found|CUDA_ERROR_NOT_FOUND|cudaErrorSymbolNotFound|CUDA_ERROR_UNKNOWN"
    rb"|cudaErrorUnknown|NO_BINARY_FOR_GPU|NoKernelImageForDevice|(?:error|code|result|status)\W{0,12}(?:500|999|209)\b",
    re.IGNORECASE,
)
_NAME: Final = re.compile(rb"[A-Za-z_][A-Za-z0-9_$]{2,4000}")
#: So many kernels are explained, and so many different words of a log are looked up.
SHOWN: Final = 3
MAX_NAMES: Final = 20_000
_STACK_LOOKED_AT: Final = "the files of the active stack"
_LOOKED_AT: Final = "the PTX in the program's files against the table of the stack's release"


def kernel_lines(ws: Workspace, program: Path, text: bytes) -> tuple[Line, ...]:
    """Say of the kernels that a log names whether the active stack drops them.

    Empty where the log has no sign of a missing kernel, or no stack with a PTX table is active.
    """
    text = text.replace(b"\0", b"")  # text in two bytes a character is read as well
    now = read_history(ws.stage).active
    if now is None or not _SIGNS.search(text):
        return ()
    lock = lock_of(ws)
    stack = stack_facts(lock, find_stack(lock, now.stack), host_of(ws), newest(ws, now.stack))
    if not stack.ptx:
        return ()
    store = kernel_store(ws)
    closure = examine(program, cache=ws.state_root / CACHE_FOLDER, kernels=store).closure
    reports = ((v.path.name, store.get(v.facts.device)) for v in closure.visited if v.facts.device)
    files = [(name, report) for name, report in reports if report is not None]
    lines = tuple(_named(text, files, stack))[:SHOWN]
    lost = [file.tally for file in kernels_of(closure, store, stack) if file.tally.missing]
    if lines or not lost:
        return lines
    worst = max(lost, key=lambda tally: len(tally.missing))
    shown = f"the output names no kernel, but {missing_sentence(worst)}, {BASIS}"
    return (Line(status=Status.WARN, topic="kernels", text=shown, looked_at=_LOOKED_AT),)


def _named(text: bytes, files: list[tuple[str, KernelReport]], stack: StackFacts) -> Iterator[Line]:
    """Yield what became of each kernel that a log names by its mangled or plain name, losses first."""
    known = {n for _, report in files for c in report.containers for image in c.images for n in image.kernels}
    words = list(dict.fromkeys(_NAME.findall(text)))[:MAX_NAMES]
    found = [kernel_fate(word, files, stack) for word in map(bytes.decode, words) if word in known]
    for fate in sorted((one for one in found if one is not None), key=lambda one: not one.fate.missing):
        status = Status.FAIL if fate.fate.missing else Status.OK
        yield Line(status=status, topic="kernels", text=fate.sentence, looked_at=_LOOKED_AT)


def library_lines(ws: Workspace, names: Iterable[str], host: Host) -> tuple[Line, ...]:
    """Say of each library of NVIDIA's that was not found what brings it; nothing about others."""
    names = [name for name in dict.fromkeys(names) if missing_cuda_library(name, stack="", provided=())]
    if not names:
        return ()
    now = read_history(ws.stage).active
    stack, provided = "", frozenset[str]()
    if now is not None:
        lock = lock_of(ws)
        facts = stack_facts(lock, find_stack(lock, now.stack), host, newest(ws, now.stack))
        stack, provided = now.stack, frozenset(facts.providers)
    found = (missing_cuda_library(name, stack=stack, provided=provided) for name in names)
    return tuple(
        Line(status=Status.FAIL, topic="program", text=one.outside, looked_at=_STACK_LOOKED_AT)
        for one in found
        if one is not None
    )
