"""``precompile``: let a program's device code be compiled before its first run.

By the layer's own tool, which reads the program's files; or, with ``dynamic``, by making one update in a
PyTorch, since what its libraries choose at run time stands in no file.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import field
from msgspec.structs import replace

from scripts.app.compile_cache import cache_size, compile_cache
from scripts.app.context import Staged, Workspace, staged_runtime
from scripts.app.stack_process import backend_notes, check_environment, file_called, run_ours
from scripts.app.trial import INSIDE, attempt_of, planned
from scripts.errors import ExitCode, LaunchError, UsageError
from scripts.launch.program import parse_timeout
from scripts.model import CapabilityResult, Runtime
from scripts.osal.fs import long_path
from scripts.osal.paths import user_path
from scripts.osal.process import capture, name_exit
from scripts.osal.processes import Captured
from scripts.serialize import JsonRecord

#: vosen/ZLUDA@87531d3 ``zluda_precompile``: takes a file or a folder, uses every processor core.
TOOL: Final = "zluda_precompile"
#: Our program that makes the updates.
UPDATES: Final = "warm_torch.py"
#: A large program compiles for a long time.
DEFAULT_SECONDS: Final = 3600.0


class PrecompileResult(JsonRecord, frozen=True, kw_only=True):
    """How the layer's tool ended, and by how much its compile cache grew.

    The tool ends with 0 also where it could compile nothing, so that only growth shows that it did.

    Attributes:
        path: what was looked through.
        code: the tool's exit code; ``None`` if it was killed at its timeout.
        before: bytes in the compile cache when it began; ``after`` when it had ended.
        cache: where the compile cache lies; empty where that is not known.
        output: all that the tool printed.
        notes: what is missing behind the layer.
        platform: ``sys.platform`` of the run.
        updates: with ``dynamic``: seconds of the first update, and of the later ones.
        result: with ``dynamic``: what came of the updates.
    """

    stack: str
    path: Path
    code: int | None
    before: int
    after: int
    cache: str
    output: bytes
    seconds: float
    platform: str
    notes: tuple[str, ...] = ()
    updates: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    result: CapabilityResult | None = None

    JSON = "stack path code compile_cache seconds output=text updates outcome detail notes=all_notes"

    @property
    def exit_code(self) -> int:
        """0 when the tool or the updates succeeded, 124 after a timeout, else 3."""
        if self.code is None:
            return int(ExitCode.TIMEOUT)
        return int(ExitCode.OK if self.code == 0 else ExitCode.NEGATIVE)

    @property
    def outcome(self) -> str:
        """With ``dynamic``: what came of the updates, in one word."""
        return self.result.outcome.value if self.result else ""

    @property
    def detail(self) -> str:
        """With ``dynamic``: the same in a sentence."""
        return self.result.detail if self.result else ""

    @property
    def ending(self) -> tuple[str, ...]:
        """How it ended, in words, where that needs any."""
        if self.code is None:
            return (f"killed after {self.seconds:.0f} s (--timeout); what it had compiled is kept",)
        words = name_exit(self.code, platform=self.platform)
        if words and self.platform != "win32":
            return (f"it ended by {words}",)
        return () if self.code == 0 else (f"it ended with {self.code}{f' ({words})' if words else ''}",)

    @property
    def compile_cache(self) -> dict[str, object]:
        """The layer's cache, with its size before and after."""
        return {"path": self.cache, "before": self.before, "after": self.after}

    @property
    def text(self) -> str:
        """What the tool printed."""
        return self.output.decode("utf-8", "replace")

    @property
    def all_notes(self) -> tuple[str, ...]:
        """What to know before and after."""
        return (*self.notes, *self.ending)


def precompile(
    ws: Workspace,
    *,
    path: str = "",
    stack: str = "",
    timeout: str = "",
    dynamic: bool = False,
    exe: str = "",
) -> PrecompileResult:
    """Compile all device code of a file, or of the files in a folder, into the layer's cache.

    With ``dynamic`` the Python ``exe`` makes one update in its PyTorch instead, and a few more to compare.

    Raises:
        UsageError: no path was named, or nothing is there; or options that exclude each other.
        StagedFileError: the stack's files are missing or changed.
        LaunchError: ``no-precompiler``: the stack's layer has no such tool.
        HostError: there is no HIP runtime.
    """
    seconds = parse_timeout(timeout) or DEFAULT_SECONDS
    if dynamic or exe:
        return _dynamic(ws, exe, stack=stack, seconds=seconds, unclear=bool(path) or not (dynamic and exe))
    target = _target(path)
    staged = staged_runtime(ws, stack)
    tool = _tool(staged.runtime)
    environ = check_environment(ws, staged).environ
    notes, before = backend_notes(ws, staged, tool, environ), cache_size(ws)
    with ws.progress.task(f"compile {target.name}", None):
        captured = run_ours(ws, staged, [str(tool), str(target)], timeout=seconds)
    return replace(_ended(ws, staged, target, captured, before), notes=notes)


def _dynamic(ws: Workspace, exe: str, *, stack: str, seconds: float, unclear: bool) -> PrecompileResult:
    """Make updates in a PyTorch, started as ``wrap`` starts programs."""
    if unclear:
        msg = "--dynamic and --exe belong together, without --path"
        hint = "name the Python that has your PyTorch: invoke precompile --dynamic --exe=PYTHON"
        raise UsageError("dynamic-needs-python", msg, hint=hint)
    staged, before = staged_runtime(ws, stack), cache_size(ws)
    words = [str(ws.root.joinpath(*INSIDE, UPDATES))]
    with ws.progress.task(f"warm up {Path(exe).name}", None):
        captured = capture(planned(ws, staged, exe, words), timeout=seconds)
    attempted = attempt_of(captured, "torch update")
    updates = {"first": attempted.first, "later": medians(attempted.iterations)}
    return replace(_ended(ws, staged, Path(exe), captured, before), updates=updates, result=attempted.result)


def _ended(ws: Workspace, staged: Staged, path: Path, captured: Captured, before: int) -> PrecompileResult:
    """Say how it ended, and what the compile cache holds now."""
    cache = compile_cache(ws)
    return PrecompileResult(
        stack=staged.stack.id,
        path=path,
        code=None if captured.timed_out else captured.returncode,
        before=before,
        after=cache_size(ws),
        cache=str(cache.folder) if cache else "",
        output=captured.stdout + captured.stderr,
        seconds=round(captured.seconds, 3),
        platform=ws.platform,
    )


def medians(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return each figure's median over the updates after the first."""
    names = rows[0] if rows else {}
    return {name: statistics.median(row[name] for row in rows if name in row) for name in names}


def _target(path: str) -> Path:
    """Find what was named, as an absolute path: the tool would take a leading dash for an option."""
    if not path:
        raise UsageError("path-needed", "which program?", hint="name it: invoke precompile --path=PATH")
    target = user_path(path, "--path")
    if not long_path(target).exists():
        hint = "name the program's file, or the folder that its libraries lie in"
        raise UsageError("path-not-found", f"{target} does not exist", hint=hint)
    return target


def _tool(runtime: Runtime) -> Path:
    found = file_called(runtime, TOOL)
    if found is None:
        msg = f"{runtime.stack} has no tool that compiles beforehand"
        hint = "start the program: its device code, if any, is compiled in its first run; it may take minutes"
        raise LaunchError("no-precompiler", msg, hint=hint)
    return found
