"""The upper rungs of ``validate``: every way in, on a throw-away copy, and the proof of each undo."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from scripts.app.check import check_arguments, judge_check
from scripts.app.context import Staged, Workspace
from scripts.app.preflight import inspect_program
from scripts.app.setup.flow import Flow, StepNotes
from scripts.app.unwrap import unwrap
from scripts.app.validate.scratch_copy import CopiedNode, differences, tree_of
from scripts.app.wrap.placing import BesidePlacer
from scripts.app.wrap.plan import WrapRequest, plan_run
from scripts.app.wrap.wrap_types import Inspected, WrapPlacement
from scripts.errors import WorkspaceError
from scripts.launch.injection import Via, ViaFacts, not_applicable_reason
from scripts.launch.request import launcher_in
from scripts.model import CapabilityResult, Level, Outcome
from scripts.osal.process import capture
from scripts.osal.process_result import Captured
from scripts.placement.layout import STATE

#: So long one start of a program may take: the first use of a GPU may compile for minutes.
SECONDS: Final = 300.0


class ValidationSubject(Struct):
    """The copied program, and what its runs showed.

    Attributes:
        ws: the workspace, with the environment that the program gets.
        staged: the verified stack.
        program: the copy.
        own: it is the stack's own ``cuda_check``, whose answer is known.
        results: one for each way in.
        logs: the output of each run, by file name.
    """

    ws: Workspace
    staged: Staged
    program: Path
    own: bool
    results: list[CapabilityResult] = field(default_factory=list)
    logs: dict[str, bytes] = field(default_factory=dict)

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
        captured = capture(plan.command, timeout=SECONDS)
    placement.left = placed.left
    subject.logs[f"wrap-{via}.log"] = captured.stdout + b"\n" + captured.stderr
    result = _judge(subject, via, captured)
    subject.results.append(result)
    notes.status = "done" if result.outcome is Outcome.PASS else "failed"
    beside = f"; {len(placement.files)} files beside it" if placement.files else ""
    notes.detail = f"{result.outcome.value}: {result.detail}{beside}"


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
