"""``validate``: every step for one stack, its documents, what a round of them means, what got worse."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import xml.etree.ElementTree as ET
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from scripts.app.context import Staged, workspace_from_environ
from scripts.app.validate import alone_on_its_gpu, validate_round
from scripts.app.validation_steps import copy_program, differences, tree_of
from scripts.errors import TargetError
from scripts.evidence.document import (
    Document,
    DocumentMachine,
    DocumentSource,
    GpuKey,
    LockFact,
    Provenance,
    Subject,
)
from scripts.evidence.evidence_io import Filed, read_document
from scripts.evidence.validation import (
    Validation,
    ValidationStep,
    ValidationVerdict,
    find_regressions,
    from_json,
    junit,
    markdown,
    problems_of,
    read_validations,
    unfinished,
    write_validation,
)
from scripts.launch.injection import Via, ViaFacts, not_applicable_reason
from scripts.model import (
    CapabilityResult,
    Gpu,
    Host,
    Level,
    Lock,
    NoProgress,
    Outcome,
    Runtime,
    Stack,
    StackKind,
)
from scripts.osal.fs import hash_file
from tests.checkout import ROOT, Checkout
from tests.python_programs import write_python_program
from tests.small_stack import small_stack

pytestmark = pytest.mark.proof

START = datetime(2026, 9, 1, tzinfo=UTC)


def document(
    *results: tuple[str, Level | None, Outcome],
    day: int,
    stack: str = "a",
    gfx: str | None = "gfx1200",
    provenance: Provenance = Provenance.MEASURED,
    custom: bool = False,
    application: str = "",
) -> Document:
    """Make a document of some day."""
    reported = provenance is Provenance.REPORTED
    date = (START + timedelta(days=day)).date().isoformat()
    return Document(
        created=START + timedelta(days=day),
        provenance=provenance,
        source=DocumentSource(name="a person", url="https://example.org/1", date=date) if reported else None,
        subject=Subject(
            stack=stack, gpu=GpuKey(name="RX", gfx=gfx) if gfx else None, application=application
        ),
        machine=DocumentMachine(os="windows"),
        lock=LockFact(digest="0" * 64, custom=custom),
        results=tuple(CapabilityResult(capability=c, level=lv, outcome=o) for c, lv, o in results),
    )


GOOD = ("gemm", Level.FUNCTIONAL, Outcome.PASS)
LOADS = ("gemm", Level.LOADABLE, Outcome.PASS)
WRONG = ("gemm", Level.LOADABLE, Outcome.INCORRECT)
GONE = ("gemm", None, Outcome.NOT_REACHED)


@pytest.mark.parametrize(
    ("now", "earlier", "named"),
    [
        pytest.param(GOOD, [document(GOOD, day=1)], None, id="the same is no regression"),
        pytest.param(GOOD, [document(LOADS, day=1)], None, id="better is none"),
        pytest.param(WRONG, [document(GOOD, day=1)], "functional", id="wrong numbers"),
        pytest.param(LOADS, [document(GOOD, day=1)], "functional", id="a lower level"),
        pytest.param(GONE, [document(GOOD, day=1)], "functional", id="not reached any more"),
        pytest.param(
            WRONG,
            [document(GOOD, day=1), document(WRONG, day=2)],
            "functional",
            id="it stays named until it recovers",
        ),
        pytest.param(WRONG, [document(WRONG, day=1)], None, id="it never passed"),
        pytest.param(WRONG, [], None, id="nothing is known"),
        pytest.param(WRONG, [document(GOOD, day=9)], None, id="a newer document is no past"),
        pytest.param(WRONG, [document(GOOD, day=1, stack="b")], None, id="another stack"),
        pytest.param(WRONG, [document(GOOD, day=1, gfx="gfx1100")], None, id="another architecture"),
        pytest.param(WRONG, [document(GOOD, day=1, custom=True)], None, id="another lock"),
        pytest.param(WRONG, [document(GOOD, day=1, application="app.exe")], None, id="another application"),
        pytest.param(
            ("fft", None, Outcome.ERROR), [document(GOOD, day=1)], None, id="not asked is not worse"
        ),
        pytest.param(
            LOADS,
            [document(LOADS, day=1), document(GOOD, day=2, provenance=Provenance.REPORTED)],
            None,
            id="what was measured goes before what was reported",
        ),
    ],
)
def test_a_regression_is_a_capability_that_passed_before(
    now: tuple[str, Level | None, Outcome], earlier: list[Document], named: str | None
) -> None:
    known = [Filed(path=f"{n}.json", document=d) for n, d in enumerate(earlier)]
    found = find_regressions(document(now, day=5), known)
    assert [(r.capability, r.before.value) for r in found] == ([("gemm", named)] if named else [])
    if found:
        assert found[0].document == "0.json"
        assert "gemm: functional (measured) became" in found[0].sentence


def validation(
    stack: str, verdict: ValidationVerdict, *, gfx: str = "", simulated: bool = False
) -> Validation:
    """Make one validation."""
    return Validation(
        stack=stack,
        verdict=verdict,
        reason=f"because | <b> {stack}",
        started="2026-09-01T00:00:00Z",
        gfx=gfx,
        simulated=simulated,
        steps=(
            ValidationStep(name="check", status="done", seconds=1.5, detail="all load"),
            ValidationStep(name="run", status="failed", seconds=2, detail="wrong\x07 <numbers>"),
            ValidationStep(name="wrap-launcher", status="skipped", detail="no launcher"),
        ),
        passed=("nvcuda",),
        regressions=(
            {"capability": "gemm", "before": "functional", "outcome": "incorrect", "document": "x"},
        ),
    )


def test_a_validation_survives_its_file(tmp_path: Path) -> None:
    written = validation("a", ValidationVerdict.FAILED, gfx="gfx1200")
    write_validation(tmp_path / "new" / "a.json", written)
    (tmp_path / "new" / "b.json").write_text("{}", encoding="utf-8")
    (tmp_path / "new" / "c.json").write_text('{"format": 1, "verdict": "fine"}', encoding="utf-8")
    found, faults = read_validations(tmp_path / "new")
    assert found == (written,)
    assert [fault.split(":")[0] for fault in faults] == ["b.json", "c.json"]
    with pytest.raises(ValueError, match="missing required field"):
        from_json({"format": 1, "verdict": "passed"})


@pytest.mark.parametrize(
    ("verdicts", "require", "problems"),
    [
        pytest.param({"a": "passed", "b": "skipped"}, "", [], id="a skip beside a pass is fine"),
        pytest.param({"a": "passed", "b": "failed"}, "", ["b (gfx1200): failed"], id="one broken stack"),
        pytest.param({"a": "skipped"}, "", ["nothing could be run"], id="nothing runnable is a failure"),
        pytest.param({}, "", ["nothing could be run"], id="nothing at all is a failure"),
        pytest.param({"a": "passed"}, "gfx1200,a", [], id="required and run"),
        pytest.param(
            {"a": "passed", "b": "skipped"}, "b", ["b was required"], id="a required stack was skipped"
        ),
        pytest.param({"a": "passed"}, "gfx1100", ["gfx1100 was required"], id="a required gfx was not there"),
    ],
)
def test_a_round_is_judged_by_its_documents(
    verdicts: dict[str, str], require: str, problems: list[str]
) -> None:
    found = [validation(name, ValidationVerdict(word), gfx="gfx1200") for name, word in verdicts.items()]
    said = problems_of(found, require=require)
    assert len(said) == len(problems)
    assert all(want in got for want, got in zip(problems, said, strict=True))


def test_what_is_no_validation_fails_the_round_and_an_unfinished_one_too() -> None:
    assert problems_of([validation("a", ValidationVerdict.PASSED)], faults=["b.json: broken"]) == (
        "b.json: broken",
    )
    assert problems_of([unfinished("a", started="")])[0].startswith("a (no GPU): failed; it did not finish")


def test_a_reason_is_given_once_for_all_stacks(tmp_path: Path) -> None:
    for name in ("one", "two"):
        row = Validation(
            stack=name, verdict=ValidationVerdict.SKIPPED, reason=f"{name} is for Windows", started=""
        )
        write_validation(tmp_path / f"{name}.json", row)
    (tmp_path / "three.json").touch()
    result = validate_round(workspace_from_environ({}, root=tmp_path), folder=str(tmp_path))
    assert result.skipped == {"it is for Windows": ["one", "two"]}
    assert result.problems[0].startswith("three (no GPU): failed; it did not finish")
    assert result.exit_code == 3


def test_a_round_is_judged_without_a_readable_lock(tmp_path: Path) -> None:
    (tmp_path / "pins.lock").write_bytes(b"damaged")
    (tmp_path / "round").mkdir()
    ws = workspace_from_environ({}, root=tmp_path)
    result = validate_round(ws, folder=str(tmp_path / "round"), require="any-stack")
    assert result.exit_code == 3
    assert "any-stack was required" in (tmp_path / "round" / "summary.md").read_text(encoding="utf-8")


@pytest.mark.skipif(sys.platform == "win32", reason="links and FIFOs of POSIX")
@pytest.mark.parametrize("what", ["link", "fifo"])
def test_the_page_of_a_round_replaces_what_was_planted(tmp_path: Path, what: str) -> None:
    (tmp_path / "round").mkdir()
    (tmp_path / "precious").write_bytes(b"mine")
    page = tmp_path / "round" / "summary.md"
    page.symlink_to(tmp_path / "precious") if what == "link" else os.mkfifo(page)
    validate_round(workspace_from_environ({}, root=tmp_path), folder=str(tmp_path / "round"))
    assert (tmp_path / "precious").read_bytes() == b"mine"
    assert not page.is_symlink()
    assert page.is_file()


def test_a_folder_in_the_place_of_the_page_is_refused(tmp_path: Path) -> None:
    (tmp_path / "summary.md").mkdir()
    with pytest.raises(TargetError) as caught:
        validate_round(workspace_from_environ({}, root=tmp_path), folder=str(tmp_path))
    assert caught.value.reference == "page-not-written"


def test_a_page_of_the_run_that_is_missing_is_only_noted(tmp_path: Path) -> None:
    environ = {"GITHUB_STEP_SUMMARY": str(tmp_path / "absent" / "page")}
    result = validate_round(workspace_from_environ(environ, root=tmp_path), folder=str(tmp_path))
    assert result.page.is_file()


class Notes(NoProgress):
    """Progress that keeps its lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, message: str) -> None:
        self.lines.append(message)


@pytest.mark.posix_only
@pytest.mark.parametrize("what", ["pipe", "pipe that is read", "device", "folder", "link to a pipe"])
def test_a_page_of_the_run_that_is_no_file_is_noted_and_not_waited_for(tmp_path: Path, what: str) -> None:
    """A pipe that nothing reads would be waited for without end, as would one that is full."""
    named, round_ = tmp_path / "page of the run", tmp_path / "round"
    round_.mkdir()
    reader = -1
    if what == "device":
        named = Path("/dev/full")
    elif what == "folder":
        named.mkdir()
    else:
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        named.symlink_to(pipe) if what.startswith("link") else pipe.rename(named)
        if what.endswith("read"):
            reader = os.open(named, os.O_RDONLY | os.O_NONBLOCK)
    notes = Notes()
    ws = replace(workspace_from_environ({"GITHUB_STEP_SUMMARY": str(named)}, root=tmp_path), progress=notes)
    with_page = validate_round(ws, folder=str(round_))
    without = validate_round(replace(ws, environ={}), folder=str(round_))
    assert with_page.exit_code == without.exit_code
    assert with_page.page.is_file()
    assert notes.lines == ["the page of the run (GITHUB_STEP_SUMMARY) cannot be written: not a regular file"]
    if reader >= 0:
        assert os.read(reader, 1) == b""
        os.close(reader)


def test_the_page_of_the_run_is_added_to_a_file(tmp_path: Path) -> None:
    named = tmp_path / "page of the run"
    named.write_text("before\n", encoding="utf-8")
    (tmp_path / "round").mkdir()
    ws = workspace_from_environ({"GITHUB_STEP_SUMMARY": str(named)}, root=tmp_path)
    made = validate_round(ws, folder=str(tmp_path / "round"))
    assert named.read_text(encoding="utf-8") == "before\n" + made.page.read_text(encoding="utf-8")


def test_the_name_of_a_document_cannot_paint(tmp_path: Path) -> None:
    if sys.platform != "win32":
        (tmp_path / "a\x1b[2J\n.json").write_bytes(b"{")
        (fault,) = read_validations(tmp_path)[1]
        assert fault.isprintable()


def test_the_page_of_a_round_keeps_words_in_their_cells() -> None:
    page = markdown([validation("a", ValidationVerdict.FAILED, gfx="gfx1200")], ["a: <script>"])
    assert page.splitlines()[2] == r"| a | gfx1200 | failed | - | because \| \<b\> a |"
    assert r"- a: \<script\>" in page
    assert "gemm was functional, is incorrect" in page


def test_junit_counts_failures_and_skips_apart() -> None:
    suite = ET.fromstring(junit(validation("a", ValidationVerdict.FAILED))).find("testsuite")  # noqa: S314 - our own
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "1")
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert failure.get("message") == "wrong  <numbers>"


def staged(kind: StackKind, *, files: bool = True) -> Staged:
    """Make a stack of some kind."""
    return Staged(
        lock=Lock(path=Path("pins.lock"), digest="", artifacts={}, stacks={}),
        stack=Stack(id="a", kind=kind),
        runtime=Runtime(stack="a", digest="d", path=Path("x") if files else None),
        host=Host(os="windows", machine="x86_64"),
    )


ZLUDA, REFERENCE, CONTROL = StackKind.TRANSLATION, StackKind.REFERENCE, StackKind.CONTROL


@pytest.mark.parametrize(
    ("via", "kind", "platform", "facts", "applies"),
    [
        pytest.param(Via.ENV, ZLUDA, "linux", {}, True, id="search path on Linux"),
        pytest.param(Via.ENV, ZLUDA, "win32", {}, False, id="search path on Windows"),
        pytest.param(Via.ENV, REFERENCE, "win32", {}, True, id="search path of the reference"),
        pytest.param(Via.ENV, CONTROL, "win32", {}, True, id="the control is always there"),
        pytest.param(Via.LAUNCHER, ZLUDA, "win32", {"launcher": True}, True, id="launcher"),
        pytest.param(Via.LAUNCHER, ZLUDA, "win32", {}, False, id="no launcher"),
        pytest.param(Via.LAUNCHER, ZLUDA, "linux", {}, False, id="no launcher on Linux"),
        pytest.param(Via.BESIDE, ZLUDA, "linux", {}, True, id="beside on Linux"),
        pytest.param(Via.BESIDE, CONTROL, "linux", {}, False, id="the control places nothing"),
        pytest.param(Via.BESIDE, ZLUDA, "win32", {"bare_load": True}, True, id="beside by a bare load"),
        pytest.param(Via.BESIDE, ZLUDA, "win32", {}, False, id="beside where nothing shows it"),
        pytest.param(
            Via.BESIDE,
            ZLUDA,
            "win32",
            {"at_start": True, "system_only": ("cudart.dll",)},
            False,
            id="system only",
        ),
        pytest.param(Via.BESIDE, ZLUDA, "win32", {"at_start": True, "nvrtc": True}, False, id="NVRTC"),
    ],
)
def test_a_way_in_that_does_not_apply_says_why(
    via: Via, kind: StackKind, platform: str, facts: dict[str, object], applies: bool
) -> None:
    why = not_applicable_reason(via, ViaFacts(platform=platform, kind=kind, **facts))  # type: ignore[arg-type] # facts of a table
    assert (not why) == applies


def test_every_difference_of_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("same", "bytes", "times", "gone", "sub/deep"):
        (tmp_path / name).write_bytes(b"before")
    before = tree_of(tmp_path)
    assert differences(before, tree_of(tmp_path)) == ()
    times = (tmp_path / "bytes").stat()
    (tmp_path / "bytes").write_bytes(b"behind")
    os.utime(tmp_path / "bytes", ns=(times.st_atime_ns, times.st_mtime_ns))
    os.utime(tmp_path / "times", ns=(0, 0))
    (tmp_path / "gone").unlink()
    (tmp_path / "new").write_bytes(b"")
    assert differences(before, tree_of(tmp_path)) == (
        "gone: gone",
        "new: new",
        "bytes: other content",
        "times: other mtime_ns",
    )


def test_a_folder_that_is_too_large_is_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scripts.app.validation_steps.MOST_BYTES", 5)
    (tmp_path / "from").mkdir()
    program = tmp_path / "from" / "app.exe"
    program.write_bytes(b"123456")
    with pytest.raises(TargetError, match="too large"):
        copy_program(program, tmp_path, alone=False)
    assert not (tmp_path / "target").exists()


def steps_of(result: dict[str, object]) -> dict[str, str]:
    """Name each step's status."""
    steps = result["steps"]
    assert isinstance(steps, list)
    return {step["name"]: step["status"] for step in steps}


def test_the_whole_ladder_and_then_what_got_worse(checkout: Checkout, tmp_path: Path) -> None:
    report = tmp_path / "new folder" / "round.json"
    good = checkout.json("validate", "--stack=cpu-reference", f"--report={report}")
    assert good["verdict"] == "passed"
    assert good["simulated"] is True
    assert json.loads(report.read_text(encoding="utf-8"))["stack"] == "cpu-reference"
    steps = steps_of(good)
    assert set(steps.values()) <= {"done", "kept", "skipped"}
    for name in (
        "verify",
        "check",
        "run",
        "preflight",
        "wrap-env",
        "undo-env",
        "wrap-beside",
        "undo-beside",
        "unwrap",
    ):
        assert steps[name] == "done", name
    assert steps["wrap-launcher"] == "skipped"
    folder = Path(good["folder"])
    shown = read_document(folder / "evidence.json")
    assert {"wrap env", "wrap beside", "cublas gemm", "nvcuda"} <= {r.capability for r in shown.results}
    (speed,) = shown.figures
    assert (speed.capability, speed.metric, speed.unit) == ("cublas gemm", "gflops_float32", "GFLOP/s")
    assert speed.value > 0
    assert set(shown.attachments) <= {path.name for path in folder.iterdir()}
    assert ET.parse(folder / "junit.xml").getroot()[0].get("failures") == "0"  # noqa: S314 - our own
    assert checkout.json("status")["active"] is None, "validating makes nothing active"

    bad = checkout.json("validate", "--stack=cpu-reference", env={"CUDA_AMD_CPU_FAULT": "wrong"}, code=3)
    assert bad["verdict"] == "failed"
    assert steps_of(bad)["run"] == "failed"
    assert steps_of(bad)["undo-beside"] == "done", "a broken stack is undone as well"
    assert [row["capability"] for row in bad["regressions"]] == ["cublas gemm"]
    assert bad["regressions"][0]["document"].endswith("evidence.json")
    assert "cublas gemm" not in bad["passed"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        pytest.param(["--stack=native-cuda"], 50, "needs an NVIDIA GPU", id="cannot be run here"),
        pytest.param(["--stack=native-cuda", "--require=native-cuda"], 3, "was required", id="required"),
        pytest.param(["--stack=nonsense"], 2, "no stack", id="unknown stack"),
        pytest.param(["--stack=cpu-reference", "--exe=nonsense"], 60, "nonsense", id="no program"),
    ],
)
def test_what_cannot_be_run_here_is_skipped_and_never_a_success(
    checkout: Checkout, words: list[str], code: int, said: str
) -> None:
    done = checkout.run("validate", *words)
    assert done.returncode == code, done.stderr
    assert said in done.stdout + done.stderr


def test_a_stack_without_consent_is_skipped_and_the_missing_consent_is_named(
    checkout: Checkout, tmp_path: Path
) -> None:
    small = small_stack(tmp_path)
    done = checkout.run("validate", "--stack=small", f"--mirror={small.mirror}", "--json", env=small.env)
    assert done.returncode == 50, done.stderr
    told = json.loads(done.stdout)
    assert told["verdict"] == "skipped"
    assert "consent-needed: small needs a download of " in told["reason"]
    assert "MIT" in told["reason"], "the licence that is to be agreed to"


def test_a_program_of_the_user_is_copied_with_its_folder(checkout: Checkout, tmp_path: Path) -> None:
    checkout.json("stage", "--stack=cpu-reference")
    check = next(
        p for p in (checkout.cache / "runtimes-v1").glob("*/cuda_check*") if not p.name.endswith(".json")
    )
    home = tmp_path / "Mein Programm"
    home.mkdir()
    program = Path(shutil.copy2(check, home / check.name.replace("cuda_check", "mine")))
    (home / "data.txt").write_text("needed", encoding="utf-8")
    before = tree_of(home)
    result = checkout.json("validate", "--stack=cpu-reference", f"--exe={program}")
    assert tree_of(home) == before
    assert steps_of(result)["wrap-beside"] == "done"
    shown = read_document(Path(result["evidence"]))
    assert shown.subject.application == program.name
    assert [r.detail for r in shown.results if r.capability == "wrap env"] == [
        "it ended with 0; its answer was not judged"
    ]


@pytest.mark.posix_only
def test_the_document_names_what_the_program_loaded_by_hash(checkout: Checkout, tmp_path: Path) -> None:
    """The stack's own driver, and a cuBLAS that the program brings."""
    checkout.json("stage", "--stack=cpu-reference")
    driver = next((checkout.cache / "runtimes-v1").glob("*/libcuda.so.1"))
    home = tmp_path / "home"
    home.mkdir()
    own = Path(shutil.copy2(driver, home / "libcublas.so.12"))
    body = "import ctypes, os, sys, time\nctypes.CDLL('libcuda.so.1')\n"
    body += "ctypes.CDLL(os.path.join(os.path.dirname(sys.argv[0]), 'libcublas.so.12'))\ntime.sleep(1.5)\n"
    program = write_python_program(home / "app", body)
    result = checkout.json("validate", "--stack=cpu-reference", f"--exe={program}")
    loaded = [one for one in read_document(Path(result["evidence"])).files if one.how == "loaded"]
    names = {Path(one.name).name: one for one in loaded}
    assert {"libcuda.so.1", "libcublas.so.12"} <= names.keys()
    assert names["libcuda.so.1"].name == "libcuda.so.1"
    assert names["libcuda.so.1"].sha256 == hash_file(driver)
    assert any(one.sha256 == hash_file(own) and one.name.endswith("/libcublas.so.12") for one in loaded)
    assert len(loaded) == len(set(loaded))


@pytest.mark.posix_only
def test_what_a_program_writes_itself_is_its_own(checkout: Checkout, tmp_path: Path) -> None:
    program = tmp_path / "home" / "app"
    program.parent.mkdir()
    program.write_text(
        '#!/bin/sh\necho x >> "$(dirname "$0")/own.txt"\nexit "$(wc -l < "$(dirname "$0")/own.txt")"\n'
    )
    program.chmod(0o755)
    result = checkout.json("validate", "--stack=cpu-reference", f"--exe={program}", code=3)
    steps = {step["name"]: step for step in result["steps"]}
    assert steps["wrap-env"]["detail"] == "error: it ended with 1"
    assert steps["undo-env"]["status"] == "done"
    assert "the program itself changed 1" in steps["undo-env"]["detail"]
    assert not (program.parent / "own.txt").exists()


def nox(checkout: Checkout, *words: str) -> subprocess.CompletedProcess[str]:
    """Type a Nox command; the environments are left out, since making them needs the package index."""
    checkout.front_door()
    path = str(Path(sys.executable).parent) + os.pathsep + checkout.environ["PATH"]
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "nox",
            "--no-venv",
            "--no-install",
            "-f",
            str(checkout.root / "noxfile.py"),
            *words,
        ],
        cwd=checkout.root,
        env={**checkout.environ, "PATH": path},
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        stdin=subprocess.DEVNULL,
        timeout=240,
        check=False,
    )


def test_nox_validates_stack_by_stack_and_closes_with_the_documents(checkout: Checkout) -> None:
    stacks = ("validate(cpu-reference)", "validate(native-cuda)")
    done = nox(checkout, "-s", *stacks, "--", "--require=gfx1200")
    assert done.returncode == 1, done.stderr
    assert "validate(cpu-reference): success" in done.stderr
    assert "validate(native-cuda): skipped" in done.stderr
    assert "gfx1200 was required and nothing was shown for it" in done.stdout
    (folder,) = (checkout.root / "stage" / "reports" / "rounds").iterdir()
    assert sorted(path.name for path in folder.iterdir()) == [
        "cpu-reference.json",
        "native-cuda.json",
        "summary.md",
    ]
    assert "| cpu-reference | simulated | passed |" in (folder / "summary.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(
            ["-s", "validate(native-cuda)"], "nothing could be run on this machine", id="nothing runnable"
        ),
        pytest.param(
            ["-t", "control", "--", "--require=native-cuda"], "required, and skipped", id="required stack"
        ),
        pytest.param(["-k", "native and cuda", "--", "--requires=x"], "neither option", id="unknown option"),
        pytest.param(["-s", "validate(native-cuda)", "--", "--require=gfx9999"], "gfx9999", id="unknown gfx"),
    ],
)
def test_nox_fails_where_nothing_was_shown(checkout: Checkout, words: list[str], said: str) -> None:
    done = nox(checkout, *words)
    assert done.returncode == 1
    assert said in done.stdout + done.stderr


def test_every_stack_of_the_lock_has_its_own_session_and_folder(checkout: Checkout) -> None:
    listed = json.loads(nox(checkout, "--list", "--json", "-t", "validate").stdout)
    names = [row["session"] for row in listed]
    stacks = [row["id"] for row in checkout.json("stacks")["stacks"]]
    assert names == [f"validate({stack})" for stack in stacks]
    assert len({name.lower().replace(".", "-") for name in names}) == len(names)


def test_a_lock_that_is_refused_ends_nox_with_the_line(checkout: Checkout, tmp_path: Path) -> None:
    lock = tmp_path / "own.lock"
    lock.write_text("version = 2\n", encoding="utf-8")
    checkout.extra = {"CUDA_AMD_LOCK": str(lock)}
    done = nox(checkout, "--list")
    assert done.returncode == 10, "as the tasks do"
    assert "own.lock" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_noxfile_needs_nothing_but_nox() -> None:
    code = "import sys; sys.path.insert(0, sys.argv[1]); import noxfile; print(*sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code, str(ROOT)], capture_output=True, text=True, check=True, timeout=60
    )
    ours = {
        "requests",
        "rich",
        "tomlkit",
        "invoke",
        "numpy",
        "jsonschema",
        "pefile",
        "elftools",
        "truststore",
    }
    assert not ours & {name.split(".")[0] for name in done.stdout.split()}


def test_in_parallel_the_summary_comes_last_and_knows_the_whole_round(checkout: Checkout) -> None:
    stacks = ("validate(cpu-reference)", "validate(native-cuda)")
    done = nox(checkout, "-j", "2", "-s", *stacks, "validate_summary")
    assert done.returncode == 0, done.stderr
    said = done.stdout + done.stderr
    assert "validate_summary: success" in said
    (folder,) = (checkout.root / "stage" / "reports" / "rounds").iterdir()
    page = (folder / "summary.md").read_text(encoding="utf-8")
    assert "| cpu-reference | simulated | passed |" in page
    assert "| native-cuda | - | skipped |" in page


@pytest.mark.posix_only
def test_an_undo_that_is_incomplete_fails_the_stack(checkout: Checkout, tmp_path: Path) -> None:
    program = tmp_path / "home" / "app"
    program.parent.mkdir()
    change = "[ ! -e libcuda.so.1 ] || { rm -f libcuda.so.1; echo mine > libcuda.so.1; }"
    script = f'#!/bin/sh\ncd "$(dirname "$0")"\n{change}\n'
    program.write_text(script, encoding="utf-8")
    program.chmod(0o755)
    result = checkout.json("validate", "--stack=cpu-reference", f"--exe={program}", code=3)
    steps = {step["name"]: step for step in result["steps"]}
    assert (steps["wrap-beside"]["status"], steps["undo-beside"]["status"]) == ("done", "failed")
    assert "libcuda.so.1" in steps["undo-beside"]["detail"]
    assert result["verdict"] == "failed"
    assert "undo-beside" in result["reason"]


@pytest.mark.parametrize(
    ("kind", "gpus", "waits"),
    [
        pytest.param(CONTROL, (0, 0), True, id="the same GPU"),
        pytest.param(CONTROL, (0, 1), False, id="two GPUs"),
        pytest.param(REFERENCE, (0, 0), False, id="the CPU disturbs nobody"),
    ],
)
def test_stacks_on_one_gpu_wait_for_each_other(
    tmp_path: Path, kind: StackKind, gpus: tuple[int, int], waits: bool
) -> None:
    ws = workspace_from_environ({"CUDA_AMD_CACHE": str(tmp_path / "store")}, root=tmp_path)
    cards = tuple(Gpu(index=n, name=f"card {n}", vendor="nvidia") for n in (0, 1))

    def on(index: int) -> Staged:
        host = Host(os="linux", machine="x86_64", gpus=cards, selected=index)
        return replace(staged(kind), host=host)

    entered = threading.Event()

    def second() -> None:
        with alone_on_its_gpu(ws, on(gpus[1])):
            entered.set()

    other = threading.Thread(target=second)
    with alone_on_its_gpu(ws, on(gpus[0])):
        other.start()
        assert entered.wait(0.5 if waits else 60) is not waits
    other.join(60)
    assert entered.is_set()
