"""``probe``: every question a process of its own, started as ``wrap`` starts programs; a matrix, a score."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from msgspec import field
from msgspec.structs import replace

from scripts.app.compile_cache import cache_size
from scripts.app.context import Staged, Workspace, staged_runtime
from scripts.app.preflight import inspect_program
from scripts.app.stack_process import redactor_of, revision_of, write_logs
from scripts.app.trial import INSIDE, judge_captured, own_folders, transcript
from scripts.app.wrap_plan import WrapRequest, plan_run
from scripts.app.wrap_result import Inspected
from scripts.bench.workload_record import parse_record
from scripts.errors import ExitCode, UsageError
from scripts.evidence.document import AttemptFact, build_document
from scripts.evidence.evidence_io import read_document, report_folder, write_document
from scripts.evidence.merging import PROBES
from scripts.launch.injection import ViaFacts
from scripts.launch.profiles import torch_policies
from scripts.launch.program import parse_timeout
from scripts.model import CapabilityResult, Outcome, StackKind
from scripts.osal.fs import read_bounded, write_atomic
from scripts.osal.parallel import stoppable_map
from scripts.osal.paths import user_path
from scripts.osal.process import capture
from scripts.osal.processes import Captured, Command
from scripts.osal.text import utc_now
from scripts.probing import probe_matrix as matrices
from scripts.probing.catalogue import LASTING, Probe, beginning, choose, probes
from scripts.probing.known_failures import policies_for
from scripts.probing.probe_matrix import (
    MatrixKey,
    ProbeAttempt,
    ProbeChange,
    ProbeDifference,
    ProbeMatrix,
    Score,
    differences,
    score,
)
from scripts.serialize import JsonRecord, parse_json

SCRIPT: Final = (*INSIDE, "probes", "probe.py")
#: Where an interrupted matrix waits, below the stage.
UNFINISHED: Final = "reports/unfinished-probes.json"
#: Bytes of what waits there: a whole matrix has far fewer.
MOST_BYTES: Final = 64 * 1024 * 1024
DEVICES: Final = ("cuda", "cpu")
TWO: Final = 2
#: Probes on the CPU reference share no GPU: so many at once, if the machine has the cores.
MOST_AT_ONCE: Final = 4
#: After so many probes a line tells how many are done.
EVERY: Final = 10
#: After so many seconds of one attempt a line tells what is waited for.
SLOW: Final = 20.0
#: How long one attempt of the quick subset may take, in seconds.
QUICK: Final = 60.0


class ProbeResult(JsonRecord, frozen=True, kw_only=True):
    """A finished matrix with its score, or the comparison of two.

    Attributes:
        stack: the stack's id; empty for a comparison and for a test of the probes themselves.
        simulated: it was the CPU reference.
        program: the Python that ran them.
        results: what each probe showed.
        attempts: every process, in order.
        kept: how many results an interrupted matrix had left.
        evidence: the document; empty where none is written.
        gfx: the GPU's architecture; empty where it has none of AMD's.
        policies: settings that go around what failed, for PyTorch.
        compared: two documents as they were named, ``scores`` what each of them counts.
    """

    stack: str = ""
    simulated: bool = False
    program: str = ""
    score: Score = field(default_factory=lambda: score(()))
    results: tuple[CapabilityResult, ...] = ()
    attempts: tuple[ProbeAttempt, ...] = ()
    kept: int = 0
    evidence: str = ""
    gfx: str = ""
    policies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    compared: tuple[str, ...] = ()
    scores: tuple[Score, ...] = ()
    differences: tuple[ProbeDifference, ...] = ()

    JSON = (
        "stack gfx? simulated program score percent=score.percent results attempts kept evidence policies "
        "compared scores differences"
    )

    @property
    def exit_code(self) -> int:
        """0 when nothing failed (a refusal is no failure), or nothing became worse; else 3."""
        worse = any(d.change is ProbeChange.WORSE for d in self.differences)
        return ExitCode.NEGATIVE if self.score.failed or worse else ExitCode.OK


def probe(
    ws: Workspace,
    *,
    stack: str = "",
    only: str = "",
    exe: str = "",
    timeout: str = "",
    quick: bool = False,
    fresh: bool = False,
    device: str = "cuda",
    compare: Sequence[str] | None = None,
) -> ProbeResult:
    """Run probes under the active stack or a named one, or compare two documents of earlier runs.

    Raises:
        UsageError: names, times or options cannot be read.
        WorkspaceError: the stack or the program cannot be used.
    """
    if compare:
        return compare_documents(compare)
    if device not in DEVICES:
        raise UsageError("no-such-device", f"--device={device} is neither cuda nor cpu")
    chosen = choose(only, quick=quick)
    limit = parse_timeout(timeout) or 0.0
    if device == "cpu":
        return _test_probes(ws, [p for p in chosen if p.torch], exe or sys.executable, limit)
    staged = staged_runtime(ws, stack)
    run = ProbeRun(ws, staged, exe or sys.executable, limit)
    return run.result(chosen, fresh=fresh)


def compare_documents(names: Sequence[str]) -> ProbeResult:
    """Compare the results of two evidence documents.

    Raises:
        UsageError: there are not two, or one is no document.
    """
    if len(names) != TWO:
        msg = f"a comparison needs two documents, not {len(names)}"
        raise UsageError("two-documents", msg, hint="name them: invoke probe --compare FILE FILE")
    paths = [user_path(name, "--compare") for name in names]
    documents = [read_document(path) for path in paths]
    left, right = ([r for r in d.results if r.capability in probes()] for d in documents)
    return ProbeResult(
        compared=tuple(names), scores=(score(left), score(right)), differences=differences(left, right)
    )


class ProbeRun:
    """One matrix on one stack."""

    def __init__(
        self, ws: Workspace, staged: Staged, program: str, limit: float, *, waiting: str = UNFINISHED
    ) -> None:
        """Keep what every attempt needs; the program is looked into once."""
        self._waiting = ws.stage / waiting
        self._tells = waiting == UNFINISHED  # the quick subset is one step of a task that tells its steps
        self.ws, self.staged, self.program, self.limit = ws, staged, program, limit
        self.logs: dict[str, bytes] = {}
        self._seen: Inspected | None = None
        self._lock = threading.Lock()
        self._stop = threading.Event()
        gpu = staged.host.selected_gpu
        self.key = MatrixKey(
            stack=staged.stack.id,
            digest=staged.runtime.digest,
            program=str(program),
            questions=_questions(ws),
            gpu=gpu.name if gpu else "",
        )

    def result(self, chosen: Sequence[Probe], *, fresh: bool) -> ProbeResult:
        """Run what is not done yet, and write the document."""
        begun = ProbeMatrix(key=self.key, simulated=self.staged.stack.kind is StackKind.REFERENCE)
        matrix = begun if fresh else self._unfinished(begun, {p.name for p in chosen})
        kept = len(matrix.finals)
        todo = sorted((p for p in chosen if p.name not in matrix.finals), key=lambda p: p.lasting)
        matrix = self._walk(matrix, todo)
        evidence = self._report(matrix, chosen)
        self._waiting.unlink(missing_ok=True)
        ordered = sorted(matrix.results, key=lambda r: list(probes()).index(r.capability))
        return ProbeResult(
            stack=self.key.stack,
            simulated=matrix.simulated,
            program=self.program,
            score=score(ordered),
            results=tuple(ordered),
            attempts=matrix.attempts,
            kept=kept,
            evidence=str(evidence),
            gfx=(gpu.gfx or "") if (gpu := self.staged.host.selected_gpu) else "",
            policies=policies_for(ordered),
        )

    def _unfinished(self, begun: ProbeMatrix, names: set[str]) -> ProbeMatrix:
        """Take over what an interrupted run of the same things has left."""
        try:
            found = matrices.from_json(parse_json(read_bounded(self._waiting, MOST_BYTES)))
        except (OSError, ValueError):
            return begun
        if found.key != self.key:
            return begun
        return begun.with_attempts(a for a in found.attempts if a.probe in names)

    def _walk(self, matrix: ProbeMatrix, todo: Sequence[Probe]) -> ProbeMatrix:
        """Run probes, several at once where they share no GPU; after each one the matrix is saved."""
        threads = _threads(self.staged.stack.kind)
        together = [p for p in todo if not p.alone] if threads > 1 else []
        apart = [p for p in todo if p not in together]
        box = [matrix]
        if self._tells:
            self.ws.progress.note(beginning(todo, self.key.stack, limit=self.limit, known=len(matrix.finals)))
        whole = [probe for probe in probes().values() if probe in todo or probe.name in matrix.finals]
        with self.ws.progress.table(f"probe {self.key.stack}", matrices.COLUMNS) as show:
            show(matrices.rows_of(whole, matrix.results))

            def one(probe: Probe) -> None:
                made = self._attempts(probe)
                with self._lock:
                    box[0] = box[0].with_attempts(made)
                    self._save(box[0])
                    self._tell(made[-1])
                    done = len(box[0].finals) - len(matrix.finals)
                    if self._tells and done % EVERY == 0 and done < len(todo):
                        self.ws.progress.note(f"{done} of {len(todo)} probes done")
                    show(matrices.rows_of(whole, box[0].results))

            # No probe of another thread outlives a signal.
            stoppable_map(one, together, threads=threads, stop=self._stop)
            stoppable_map(one, apart, threads=1, stop=self._stop)
        return box[0]

    def _save(self, matrix: ProbeMatrix) -> None:
        self._waiting.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(self._waiting, json.dumps(matrices.to_json(matrix)).encode())

    def _tell(self, attempt: ProbeAttempt) -> None:
        """Show one line of the table while it grows."""
        outcome = attempt.result.outcome
        detail = f": {attempt.result.detail[:100]}" if outcome is not Outcome.PASS else ""
        self.ws.progress.aside(f"{attempt.probe} {outcome.value} ({attempt.seconds:.1f} s){detail}")

    def _attempts(self, probe: Probe) -> list[ProbeAttempt]:
        """Try once, and once more with more time where time ran out."""
        limit = self.limit or probe.seconds
        made = [self._attempt(probe, 1, limit)]
        if matrices.again(made[0]):
            made.append(self._attempt(probe, 2, limit * matrices.LONGER))
        return made

    def _attempt(self, probe: Probe, number: int, limit: float) -> ProbeAttempt:
        before = cache_size(self.ws)
        with self._line_when_slow(probe, limit):
            captured = capture(self._command(probe, limit), timeout=limit, stop=self._stop)
        grown = max(0, cache_size(self.ws) - before)
        self.logs[f"{probe.name}-{number}.log"] = transcript(captured)
        folders = () if probe.torch else own_folders(self.ws, self.staged)
        attempt = read_attempt(probe, captured, folders=folders)
        return matrices.compiling(replace(attempt, number=number, limit=limit, compiled=grown))

    @contextmanager
    def _line_when_slow(self, probe: Probe, limit: float) -> Iterator[None]:
        """Say once what is waited for, and how to stop, where an attempt takes long."""
        kept = "; what is done is kept" if self._tells else ""
        text = (
            f"waiting for {probe.name}; this attempt ends after {limit:.0f} s at the latest; to stop, "
            f"press Ctrl-C or end process {os.getpid()}{kept}"
        )
        timer = threading.Timer(SLOW, self.ws.progress.note, (text,))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _command(self, probe: Probe, limit: float) -> Command:
        """Plan the process as ``wrap`` plans any program; a lasting probe ends before its time is over.

        Settings that go around what fails in PyTorch are left out: they would hide it.
        """
        script = self.ws.root.joinpath(*SCRIPT)
        lasting = f"--seconds={min(LASTING, limit * 0.7):g}"
        request = WrapRequest(
            exe=self.program, program_args=(str(script), probe.name, lasting), without=torch_policies()
        )
        plan = plan_run(
            self.ws, request, staged=lambda _ws, _stack: self.staged, placer=None, inspect=self._inspect
        )
        return plan.command

    def _inspect(self, staged: Staged, program: Path, facts: ViaFacts) -> Inspected:
        """Look into the program once; it is the same for every probe."""
        with self._lock:
            if self._seen is None:
                self._seen = inspect_program(self.ws, staged, program, facts)
            return self._seen

    def _report(self, matrix: ProbeMatrix, chosen: Sequence[Probe]) -> Path:
        """Write the document with every attempt, the matrix and the logs of what did not pass."""
        now = utc_now()
        folder = report_folder(self.ws.stage / "reports", stack=self.key.stack, created=now)
        redactor = redactor_of(self.ws)
        wanted = {
            f"{a.probe}-{a.number}.log" for a in matrix.attempts if a.result.outcome is not Outcome.PASS
        }
        logs = {name: text for name, text in sorted(self.logs.items()) if name in wanted}
        write_logs(self.ws, folder, logs)
        whole = json.dumps(redactor.data(matrices.to_json(matrix)), indent=1)
        (folder / "matrix.json").write_bytes((whole + "\n").encode("utf-8"))
        counted = score(matrix.results)
        document = build_document(
            host=self.staged.host,
            stack=self.staged.stack,
            lock=self.staged.lock,
            runtime=self.staged.runtime,
            results=matrix.results,
            redactor=redactor,
            revision=revision_of(self.ws),
            created=now,
            application=PROBES,
            attachments=("matrix.json", *list(logs)[:190]),
            not_exercised=set(probes()) - set(matrix.finals),
            notes=(f"{counted.passed} of {len(chosen)} probes passed", *_facts(matrix)),
            attempts=[fact(attempt) for attempt in matrix.attempts],
        )
        return write_document(folder, document)


def read_attempt(probe: Probe, captured: Captured, *, folders: tuple[Path, ...]) -> ProbeAttempt:
    """Judge a finished process; a message box that waited is a hang with its title as the reason."""
    record = parse_record(captured.stderr)
    result = judge_captured(record, captured, probe.name, folders=folders)
    if captured.dialogs:  # without us it would wait for a person, whatever it answered
        box = captured.dialogs[0]
        detail = f"a message box waited: {box.title}: {box.text}"
        result = CapabilityResult(capability=probe.name, level=None, outcome=Outcome.DIALOG, detail=detail)
    if result.outcome is Outcome.PASS:
        result = replace(result, detail=_passed(record.data))
    error = record.data.get("error_over_tolerance")
    named = record.data.get("libraries")
    return ProbeAttempt(
        probe=probe.name,
        number=1,
        result=replace(result, detail=result.detail[:1000]),
        seconds=round(captured.seconds, 3),
        limit=0.0,
        error=float(error) if isinstance(error, (int, float)) else None,
        libraries={str(k): str(v) for k, v in named.items()} if isinstance(named, Mapping) else {},
        device=str(record.data.get("device") or ""),
    )


def _passed(data: Mapping[str, object]) -> str:
    """Say in a few words what was right."""
    error = data.get("error_over_tolerance")
    words = f", the largest error {error:.2g} of the tolerance" if isinstance(error, float) else ""
    return f"{data.get('cases')} cases right{words}"


def fact(attempt: ProbeAttempt) -> AttemptFact:
    """Return an attempt as documents hold it."""
    return AttemptFact(
        capability=attempt.probe,
        number=attempt.number,
        outcome=attempt.result.outcome,
        seconds=attempt.seconds,
        detail=attempt.result.detail,
    )


def _facts(matrix: ProbeMatrix) -> list[str]:
    devices = {attempt.device for attempt in matrix.attempts if attempt.device}
    return [f"device: {name}" for name in sorted(devices)][:20]


def _questions(ws: Workspace) -> str:
    """Return a digest of the probes themselves, so that answers to other questions are never kept."""
    files = sorted(ws.root.joinpath(*SCRIPT).parent.glob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def _threads(kind: StackKind) -> int:
    """How many probes may run at once: more than one only where there is no GPU to share."""
    if kind is not StackKind.REFERENCE:
        return 1
    return max(1, min(MOST_AT_ONCE, (os.cpu_count() or 1) // 2))


def _test_probes(ws: Workspace, chosen: Sequence[Probe], program: str, limit: float) -> ProbeResult:
    """Run the PyTorch probes on PyTorch's own CPU device; this says nothing about a stack."""
    made: list[ProbeAttempt] = []
    with ws.progress.task("test the probes", len(chosen), unit="probes") as advance:
        for one in chosen:
            captured = capture(_plain_command(ws, program, one), timeout=limit or one.seconds)
            made.append(read_attempt(one, captured, folders=()))
            advance(1)
    results = tuple(attempt.result for attempt in made)
    return ProbeResult(program=program, score=score(results), results=results, attempts=tuple(made))


def _plain_command(ws: Workspace, program: str, probe: Probe) -> Command:
    path = Path(program)
    if not path.is_file():
        msg = f"{program} is no file"
        raise UsageError("no-such-program", msg, hint="name a Python that has PyTorch: --exe=PYTHON")
    script = str(ws.root.joinpath(*SCRIPT))
    return Command(program=path, args=(script, probe.name, "--device=cpu"), env=ws.environ)


def quick_summary(ws: Workspace, staged: Staged) -> tuple[bool, str]:
    """Run the quick subset with our own Python, for ``setup`` and ``validate``; right or not, and what was.

    Its document is one of its own. PyTorch's probes are left out where our Python has none.
    """
    chosen = [p for p in choose("", quick=True) if not p.torch or find_spec("torch") is not None]
    run = ProbeRun(ws, staged, sys.executable, QUICK, waiting="reports/unfinished-quick.json")
    made = run.result(chosen, fresh=True)
    bad = [r for r in made.results if r.outcome not in {Outcome.PASS, *matrices.ABSENT}]
    named = "; ".join(f"{r.capability} {r.outcome.value}" for r in bad)
    return not bad, f"{made.score.passed} of {len(chosen)} passed" + (f"; {named}" if named else "")
