"""The steps of ``validate``: every way in, on a throw-away copy, and the proof of each undo."""

from __future__ import annotations

import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from scripts.app.check import check_arguments, judge_check
from scripts.app.context import Staged, Workspace
from scripts.app.preflight import inspect_program
from scripts.app.setup_steps import Flow, StepNotes
from scripts.app.unwrap import unwrap
from scripts.app.wrap_observations import is_cuda, loaded_libraries
from scripts.app.wrap_placing import BesidePlacer
from scripts.app.wrap_plan import WrapRequest, plan_run
from scripts.app.wrap_result import Inspected, WrapPlacement
from scripts.errors import TargetError, WorkspaceError
from scripts.evidence.document import FileFact
from scripts.launch.injection import Via, ViaFacts, launcher_in, not_applicable_reason
from scripts.model import CapabilityResult, Level, Outcome
from scripts.osal.fs import hash_file, is_link
from scripts.osal.process import capture
from scripts.osal.processes import Captured, MappedFiles
from scripts.placement.layout import STATE

#: A program's folder larger than this is not copied.
MOST_BYTES: Final = 2 * 1024**3


class CopiedNode(Struct, frozen=True, kw_only=True):
    """What lies at one name. ``content`` is a file's hash or a link's destination."""

    kind: str
    size: int
    mode: int
    mtime_ns: int
    content: str = ""


def tree_of(folder: Path) -> dict[str, CopiedNode]:
    """Look at everything below a folder, by POSIX path; the folder's own time does not count."""
    return {path.relative_to(folder).as_posix(): _node(path) for path in sorted(folder.rglob("*"))}


def differences(before: Mapping[str, CopiedNode], after: Mapping[str, CopiedNode]) -> tuple[str, ...]:
    """Name what is not as it was, one line each: what, and which property."""
    lines = [f"{name}: gone" for name in sorted(before.keys() - after.keys())]
    lines += [f"{name}: new" for name in sorted(after.keys() - before.keys())]
    for name in sorted(before.keys() & after.keys()):
        old, new = before[name], after[name]
        fields = ("kind", "size", "mode", "mtime_ns", "content")
        changed = [field for field in fields if getattr(old, field) != getattr(new, field)]
        if changed:
            lines.append(f"{name}: other {', '.join(changed)}")
    return tuple(lines)


def copy_program(program: Path, folder: Path, *, alone: bool) -> Path:
    """Copy a program into an empty folder, ``alone`` or with everything in its own folder.

    Raises:
        TargetError: ``target-too-large`` or ``target-not-copied``.
    """
    try:
        return _copied(program, folder / "target", alone=alone)
    except (OSError, shutil.Error) as error:
        msg = f"{program.parent} cannot be copied"
        hint = "see that every file there can be read, and that the disk has room"
        raise TargetError("target-not-copied", msg, context=(str(error)[:500],), hint=hint) from error


def _copied(program: Path, target: Path, *, alone: bool) -> Path:
    if alone:
        target.mkdir()
        return Path(shutil.copy2(program, target / program.name))
    size = _size(program.parent.rglob("*"))
    if size > MOST_BYTES:
        msg = f"{program.parent} is too large to make a throw-away copy of it"
        context = (f"{size:,} bytes, at most {MOST_BYTES:,}",)
        hint = "validate a smaller program, or run this one: invoke wrap --exe=…"
        raise TargetError("target-too-large", msg, context=context, hint=hint)
    shutil.copytree(program.parent, target, symlinks=True)
    return target / program.name


def _size(paths: Iterable[Path]) -> int:
    """Add up files; stops soon after it has become too much."""
    total = 0
    for path in paths:
        if path.is_file() and not is_link(path):
            total += path.stat().st_size
        if total > MOST_BYTES:
            break
    return total


def _node(path: Path) -> CopiedNode:
    seen = path.lstat()
    mode = stat.S_IMODE(seen.st_mode)
    if is_link(path):
        return CopiedNode(
            kind="link", size=0, mode=0, mtime_ns=seen.st_mtime_ns, content=str(path.readlink())
        )
    if path.is_dir():
        return CopiedNode(kind="folder", size=0, mode=mode, mtime_ns=seen.st_mtime_ns)
    return CopiedNode(
        kind="file", size=seen.st_size, mode=mode, mtime_ns=seen.st_mtime_ns, content=hash_file(path)
    )


#: So long one start of a program may take: the first use of a GPU may compile for minutes.
SECONDS: Final = 300.0


class ValidationSubject(Struct):
    """The copied program, and what its runs showed.

    Attributes:
        ws: the workspace, with the environment that the program gets.
        program: the copy.
        own: it is the stack's own ``cuda_check``, whose answer is known.
        results: one for each way in.
        logs: the output of each run, by file name.
        loaded: which of the stack's libraries, and which others of their names, its processes loaded.
    """

    ws: Workspace
    staged: Staged
    program: Path
    own: bool
    results: list[CapabilityResult] = field(default_factory=list)
    logs: dict[str, bytes] = field(default_factory=dict)
    loaded: list[FileFact] = field(default_factory=list)

    @property
    def arguments(self) -> tuple[str, ...]:
        """What the program is started with."""
        return tuple(check_arguments(self.staged)) if self.own else ()


def subject_of(ws: Workspace, staged: Staged, program: Path, *, own: bool) -> ValidationSubject:
    """Prepare a program for the steps.

    A ``cuda_check`` gets no ``CUDA_PATH``, which would show it NVIDIA's libraries instead of ours.
    """
    if own:
        environ = {name: value for name, value in ws.environ.items() if name.upper() != "CUDA_PATH"}
        ws = replace(ws, environ=environ)
    return ValidationSubject(ws=ws, staged=staged, program=program, own=own)


def look_inside(flow: Flow, subject: ValidationSubject) -> Inspected:
    """Read the program without running it; its predictions are noted, and the runs show whether they hold."""
    staged = subject.staged
    launcher = subject.ws.platform == "win32" and launcher_in(staged.runtime) is not None
    facts = ViaFacts(platform=subject.ws.platform, kind=staged.stack.kind, launcher=launcher)
    seen = Inspected(facts=facts)
    with run_step(flow, "preflight") as notes:
        seen = inspect_program(subject.ws, staged, subject.program, facts)
        notes.detail = seen.refusal or "; ".join(seen.notes) or "nothing speaks against it"
    return seen


@contextmanager
def run_step(flow: Flow, name: str, why_not: str = "") -> Iterator[StepNotes]:
    """Open a step that fails by itself and lets the next ones go on; ``why_not`` makes it a skipped one."""
    with flow.step(name) as notes:
        if why_not:
            notes.status, notes.detail = "skipped", why_not
        try:
            yield notes
        except WorkspaceError as error:
            notes.status = "skipped" if error.reference == "nothing-to-place" else "failed"
            notes.detail = f"{error.reference}: {error.message}"


def run_all(flow: Flow, subject: ValidationSubject, seen: Inspected, *, why_not: str = "") -> None:
    """Run the program by every way that applies; after each one prove that its folder is as before.

    With ``why_not`` every step is skipped for that reason.
    """
    for via in Via:
        reason = why_not or not_applicable_reason(via, seen.facts)
        before, placement = tree_of(subject.program.parent), WrapPlacement()
        with run_step(flow, f"wrap-{via}", reason) as notes:
            if not reason:
                _run(subject, via, placement, notes)
        with run_step(flow, f"undo-{via}", reason) as notes:
            if not reason:
                _prove(subject, before, placement, notes)
    reason = why_not or not_applicable_reason(Via.BESIDE, seen.facts)
    with run_step(flow, "unwrap", reason) as notes:
        if not reason:
            _keep_and_unwrap(subject, seen, notes)


def _run(subject: ValidationSubject, via: Via, placement: WrapPlacement, notes: StepNotes) -> None:
    """Start the program as ``wrap`` plans it, keep what it prints, and judge it.

    ``placement`` is filled with what was beside it meanwhile.
    """
    staged = subject.staged
    request = WrapRequest(
        exe=str(subject.program), stack=staged.stack.id, via=via, program_args=subject.arguments
    )
    plan = plan_run(
        subject.ws,
        request,
        staged=lambda _ws, _stack: staged,
        placer=BesidePlacer(subject.ws, signals=True),
        inspect=partial(inspect_program, subject.ws),
    )
    around = nullcontext(WrapPlacement()) if plan.placement is None else plan.placement()
    with around as placed:
        placement.files = placed.files
        mapped = MappedFiles(is_cuda)
        captured = capture(plan.command, timeout=SECONDS, mapped=mapped)
        subject.loaded += _loaded(mapped, staged, placed)
    placement.left = placed.left
    subject.logs[f"wrap-{via}.log"] = captured.stdout + b"\n" + captured.stderr
    result = _judge(subject, via, captured)
    subject.results.append(result)
    notes.status = "done" if result.outcome is Outcome.PASS else "failed"
    beside = f"; {len(placement.files)} files beside it" if placement.files else ""
    notes.detail = f"{result.outcome.value}: {result.detail}{beside}"


def _loaded(mapped: MappedFiles, staged: Staged, placed: WrapPlacement) -> Iterator[FileFact]:
    """Yield what was seen loaded: the stack's by their names, others by their paths."""
    found = loaded_libraries(mapped, staged, placed, hashes=True)
    names = [(Path(one.path).name, one.sha256) for one in found.from_stack]
    names += [(one.path, one.sha256) for one in found.from_elsewhere]
    yield from (FileFact(name=name, sha256=sha256, how="loaded") for name, sha256 in names if sha256)


def _judge(subject: ValidationSubject, via: Via, captured: Captured) -> CapabilityResult:
    """Say what one run showed; a program without a known answer shows that it runs, no more."""
    capability = f"wrap {via}"
    if subject.own:
        verdict = judge_check(subject.staged, captured)
        level = Level.LOADABLE if verdict.loads else None
        return CapabilityResult(
            capability=capability, level=level, outcome=verdict.outcome, detail=verdict.reason
        )
    if captured.dialogs:
        box = captured.dialogs[0]
        outcome, detail = Outcome.DIALOG, f"it asked and waited: {box.title}: {box.text}"
    elif captured.timed_out:
        outcome, detail = Outcome.TIMEOUT, f"it had not ended after {SECONDS:.0f} s"
    elif captured.returncode:
        outcome, detail = Outcome.ERROR, f"it ended with {captured.returncode}"
    else:
        outcome, detail = Outcome.PASS, "it ended with 0; its answer was not judged"
    level = Level.LOADABLE if outcome is Outcome.PASS else None
    return CapabilityResult(capability=capability, level=level, outcome=outcome, detail=detail)


def _prove(
    subject: ValidationSubject, before: Mapping[str, CopiedNode], placement: WrapPlacement, notes: StepNotes
) -> None:
    """Compare the folder with how it was; what a program of the user's wrote itself is its own."""
    found = differences(before, tree_of(subject.program.parent))
    wrong = found if subject.own else _ours(found, placement)
    wrong = (*wrong, *placement.left)
    notes.status = "failed" if wrong else "done"
    notes.detail = "; ".join(wrong) or f"{len(before)} names with bytes, modes and times as before"
    if not wrong and found:
        notes.detail += f"; the program itself changed {len(found)}"


def _ours(found: tuple[str, ...], placement: WrapPlacement) -> tuple[str, ...]:
    """Keep the differences at names that were placed, and in the folder of the journal."""
    names = {name.casefold() for name in placement.files}
    named = ((line, line.partition(": ")[0]) for line in found)
    return tuple(line for line, name in named if name.casefold() in names or name.split("/")[0] == STATE)


def _keep_and_unwrap(subject: ValidationSubject, seen: Inspected, notes: StepNotes) -> None:
    """Place and leave it, as ``wrap --keep`` does; then ``unwrap``, and prove that."""
    folder = subject.program.parent
    before = tree_of(folder)
    placer = BesidePlacer(subject.ws, signals=True)
    with placer(subject.staged, subject.program, keep=True, places=seen.places) as placement:
        files = placement.files
    kept = differences(before, tree_of(folder))
    report = unwrap(subject.ws, target=str(folder))
    wrong = differences(before, tree_of(folder))
    if not kept:
        notes.status, notes.detail = "failed", "nothing was placed, so nothing was proven"
        return
    left = tuple(f"{left.path}: {left.why}" for undone in report.reports for left in undone.kept)
    notes.status = "failed" if wrong or left else "done"
    notes.detail = "; ".join((*wrong, *left)) or f"{len(files)} files were kept beside it and taken back"
