"""``doctor`` as a person types it, and what our own tasks say when they fail."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import shutil
import subprocess
import sys
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from scripts.app import check as checking
from scripts.app import doctor as advice
from scripts.app.compile_cache import say_when_compiling
from scripts.app.context import Workspace
from scripts.app.doctor import best_finding, doctor, output_of
from scripts.app.doctor_look import facts_of, libraries_of, on_path
from scripts.cli.console import Out
from scripts.cli.parse import Call
from scripts.cli.present import perform
from scripts.cli.verbs import VERBS
from scripts.cli.views.doctor import note_finding
from scripts.cli.views.doctor import show_doctor as show
from scripts.doctor.program_libraries import Maker, maker_of
from scripts.errors import HostError, LaunchError, UsageError
from scripts.host.gpu import AMD
from scripts.model import Gpu, Host
from scripts.store.cache import Cache
from tests.checkout import Checkout, workspace_in
from tests.pe_version_file import library
from tests.small_stack import SmallStack
from tests.wrapping import runtime_in, staged_over

pytestmark = pytest.mark.proof

TENSILE = (
    "rocBLAS error: Cannot read C:\\Users\\somebody\\ROCm\\bin\\/rocblas/library/TensileLibrary.dat: "
    "No such file or directory for GPU arch : gfx1031"
)
OWN = """
name = "fails"
command = ["{python}", "fails.py"]
primary = "sps"

[metrics.sps]
better = "higher"
regex = 'step: ([0-9]+)'

[answer]
regex = "loss ([0-9.]+)"
value = 0.25
tolerance = 0.01
"""
#: What a test machine may lack.
MACHINES_OWN = {"vc-runtime", "windows"}
RADEON = Host(
    os="windows",
    machine="AMD64",
    gpus=(Gpu(index=0, name="RX 7900 XTX", vendor=AMD, gfx="gfx1100", integrated=False, driver="1"),),
    selected=0,
)


def workspace(root: Path, **environ: str) -> Workspace:
    return workspace_in(root, environ=environ)


def examined(checkout: Checkout, *options: str) -> dict[str, Any]:
    """Ask for an examination; a bare Windows may lack the VC++ runtime, and that is its own."""
    done = checkout.run("doctor", *options, "--json")
    data: dict[str, Any] = json.loads(done.stdout)
    bad = any(line["status"] == "fail" for line in data["lines"])
    assert done.returncode == (3 if bad else 0), done.stderr
    return data


def test_a_fresh_checkout_is_examined_without_complaint(checkout: Checkout) -> None:
    data = examined(checkout)
    failed = {line["topic"] for line in data["lines"] if line["status"] == "fail"}
    assert failed <= MACHINES_OWN
    assert [line["text"] for line in data["lines"] if line["topic"] == "stage"] == [
        "no stack is active: invoke setup"
    ]
    assert data["findings"] == []


def test_a_log_is_explained_and_nothing_else_is_examined(checkout: Checkout, tmp_path: Path) -> None:
    log = tmp_path / "run ü.log"
    log.write_text(f"starting\n{TENSILE}\n", encoding="utf-16")
    data = checkout.json("doctor", f"--log={log}", code=3)
    assert data["lines"] == []
    finding = data["findings"][0]
    assert finding["reference"] == "arch-libraries"
    assert finding["evidence"] == [f"line 2: {TENSILE}"]
    assert finding["docs"] == "docs/diagnoses.md#arch-libraries"
    assert {"confidence", "cause", "fix"} <= set(finding)
    done = checkout.run("doctor", f"--log={log}")
    assert done.returncode == 3
    assert "arch-libraries (certain)" in done.stdout
    assert "1. See which architectures" in done.stdout


def test_a_text_from_standard_input_that_is_no_known_failure(checkout: Checkout) -> None:
    done = subprocess.run(
        [sys.executable, str(checkout.front_door()), "doctor", "--log=-"],
        input=b"everything went well\n",
        cwd=checkout.root,
        env=checkout.environ,
        capture_output=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0
    assert b"this is no diagnosis" in done.stdout


def test_a_log_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        doctor(workspace(tmp_path), log=str(tmp_path / "no such file"))
    assert caught.value.reference == "log-unreadable"


def test_a_damaged_stage_is_a_failure(ready: Checkout, tmp_path: Path) -> None:
    shutil.copytree(ready.cache, tmp_path / "own store", ignore=shutil.ignore_patterns(".*"))
    ready.cache = tmp_path / "own store"
    runtime = ready.cache / "runtimes-v1" / ready.json("status")["active"]["digest"]
    victim = next(path for path in sorted(runtime.rglob("*")) if path.is_file() and path.stem != "manifest")
    victim.parent.chmod(0o755)
    victim.chmod(0o644)
    victim.unlink()
    lines = ready.json("doctor", code=3)["lines"]
    failed = [line["topic"] for line in lines if line["status"] == "fail"]
    assert [topic for topic in failed if topic not in MACHINES_OWN] == ["stage"]


def test_the_programs_folder_is_looked_into(checkout: Checkout, tmp_path: Path) -> None:
    program = tmp_path / "app ü" / "app.exe"
    program.parent.mkdir()
    program.write_bytes(library((1, 0, 0, 0)))
    (program.parent / "nvcuda.dll").write_bytes(b"MZ made by ZLUDA")
    (program.parent / "cublas64_12.dll").write_bytes(library((12, 4, 5, 8)))
    data = examined(checkout, f"--exe={program}")
    told = {(line["status"], line["text"]) for line in data["lines"] if line["topic"] == "program"}
    assert ("warn", "nvcuda.dll: ZLUDA's, of a release that is not pinned here") in told
    assert ("unknown", "cublas64_12.dll: unknown origin 12.4.5.8") in told
    assert data["program"] == str(program)


def test_no_such_program(tmp_path: Path) -> None:
    with pytest.raises(LaunchError) as caught:
        doctor(workspace(tmp_path), exe=str(tmp_path / "no such app"))
    assert caught.value.reference == "program-not-found"


def test_what_pip_installed_is_compared_with_its_record(tmp_path: Path) -> None:
    site = tmp_path / "Lib" / "site-packages"
    (site / "torch" / "lib").mkdir(parents=True)
    (site / "torch-2.3.0.dist-info").mkdir()
    python = tmp_path / "Scripts" / "python.exe"
    python.parent.mkdir()
    python.write_bytes(b"MZ")
    (tmp_path / "pyvenv.cfg").write_text("home = C:\\Python\n", encoding="utf-8")
    original, now = b"made by NVIDIA", b"made by zluda"
    (site / "torch" / "lib" / "cublas64_11.dll").write_bytes(now)
    digest = base64.urlsafe_b64encode(hashlib.sha256(original).digest()).rstrip(b"=").decode()
    (site / "torch-2.3.0.dist-info" / "RECORD").write_text(
        f"torch/lib/cublas64_11.dll,sha256={digest},{len(original)}\n", encoding="utf-8"
    )
    (found,) = libraries_of(python)
    assert found.path == "torch/lib/cublas64_11.dll"
    assert found.recorded == hashlib.sha256(original).hexdigest() != found.sha256
    assert maker_of(found, {}) is Maker.ZLUDA


def test_our_own_store_below_a_program_is_not_the_programs(tmp_path: Path) -> None:
    """A home may be the program's folder."""
    Cache(tmp_path / ".cache" / "cuda-on-amd").ensure()
    for place in (".cache/cuda-on-amd", "cuda"):
        library = tmp_path / place / "runtimes-v1" / "a" / "libcuda.so.1"
        library.parent.mkdir(parents=True)
        library.write_bytes(b"\x7fELF")
    (found,) = libraries_of(tmp_path / "program")
    assert found.path == "cuda/runtimes-v1/a/libcuda.so.1"


def test_a_machine_without_a_radeon_tells_nothing_about_a_text(tmp_path: Path) -> None:
    facts = facts_of(workspace(tmp_path, HIP_VISIBLE_DEVICES="1"), Host(os="linux", machine="x86_64"))
    assert (facts.os, facts.gfx, facts.variables) == ("", (), None)
    here = facts_of(workspace(tmp_path, HIP_VISIBLE_DEVICES="1"), RADEON)
    assert here.gfx == ("gfx1100",)
    assert here.variables == frozenset({"HIP_VISIBLE_DEVICES"})


def test_libraries_on_path_are_seen_in_the_order_of_the_search(tmp_path: Path) -> None:
    files = {"b": "amdhip64_6.dll", "a": "NVCUDA.DLL", "c": "readme.txt", "System32": "nvcuda.dll"}
    for name, file in files.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / file).write_bytes(b"")
    names = ("b", "gone", "a", "c", "System32", "b")
    found = on_path({"Path": ";".join(str(tmp_path / name) for name in names)})
    assert found == {str(tmp_path / "b"): ("amdhip64_6.dll",), str(tmp_path / "a"): ("NVCUDA.DLL",)}


@pytest.fixture
def on_a_radeon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advice, "host_of", lambda _ws: RADEON)


@pytest.mark.usefixtures("on_a_radeon")
def test_the_best_finding_is_said_under_an_error(tmp_path: Path) -> None:
    found = best_finding(workspace(tmp_path), TENSILE)
    assert found is not None
    stdout, stderr = io.StringIO(), io.StringIO()
    note_finding(found, Out(stdout, stderr))
    assert stderr.getvalue().startswith("doctor: arch-libraries (certain): rocBLAS has no kernels")
    assert stdout.getvalue() == ""


@pytest.mark.usefixtures("on_a_radeon")
@pytest.mark.parametrize("text", ["", "all is well", "HIP listed no agent, maybe"], ids=repr)
def test_a_guess_is_not_said_under_an_error(tmp_path: Path, text: str) -> None:
    assert best_finding(workspace(tmp_path), text) is None


@dataclass(frozen=True)
class Dialog:
    title: str
    text: str


@dataclass(frozen=True)
class Ended:
    code: int = 0
    timed_out: bool = False
    dialogs: tuple[Dialog, ...] = ()


@dataclass(frozen=True)
class Finished:
    output: bytes = b""
    ending: tuple[str, ...] = ()
    evidence: str = ""
    exit: Ended | None = None


def test_only_what_a_program_printed_is_read(tmp_path: Path) -> None:
    (tmp_path / "check.log").write_bytes(b"logged")
    (tmp_path / "wrap.txt").write_bytes(b"program said")
    assert output_of(Finished(output=b"printed")) == b"printed"
    own = Finished(
        ending=("the program ended with 1 (STATUS_X: in our words)",), exit=Ended(code=-1073741515)
    )
    assert output_of(own, log=str(tmp_path / "wrap.txt")) == b"program said\nexit code -1073741515"
    assert output_of(Finished(evidence=str(tmp_path / "evidence.json"))) == b"logged"
    assert output_of(Finished(), log=str(tmp_path / "gone")) == b""
    assert output_of(Finished(exit=Ended(code=1, timed_out=True))) == b""
    box = Finished(exit=Ended(dialogs=(Dialog("game.exe", "amdhip64_6.dll was not found"),)))
    assert output_of(box) == b"game.exe: amdhip64_6.dll was not found"


@pytest.mark.parametrize(
    "error",
    [
        UsageError("cwd-missing", "C:\\missing is no folder", context=("--cwd=C:\\missing",)),
        UsageError("exe-missing", "no such program: C:\\Users\\Jürgen\\app.exe", hint="give its path"),
        LaunchError(
            "hip-library-missing", "rocblas.dll was not found", context=("hipblaslt.dll is missing",)
        ),
        HostError("gpu", "no ROCm-capable device is detected"),
    ],
    ids=lambda error: error.reference,
)
def test_our_own_sentences_are_not_diagnosed(error: Any, tmp_path: Path) -> None:
    assert output_of(error) == b""
    assert best_finding(workspace(tmp_path), output_of(error)) is None


class PrintedError(HostError):
    output = b"rocBLAS error: Cannot read TensileLibrary.dat"


def test_the_output_that_an_error_brings_along_is_read() -> None:
    error = PrintedError("x", "a sentence of ours")
    assert output_of(error) == b"rocBLAS error: Cannot read TensileLibrary.dat"


def test_a_wrong_working_folder_is_answered_by_its_own_reference_alone(
    ready: Checkout, tmp_path: Path
) -> None:
    missing = tmp_path / "missing ü"
    done = ready.run("wrap", f"--exe={sys.executable}", f"--cwd={missing}", "--", "-c", "pass")
    assert done.returncode != 0
    assert "doctor:" not in done.stderr


def test_a_log_shows_its_event_in_json(checkout: Checkout, tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text(
        "RuntimeError: HIP error 98 in hipLaunchKernel\nlibamdhip64.so.6 => not found\n", encoding="utf-8"
    )
    event = json.loads(checkout.run("doctor", f"--log={log}", "--json").stdout)["event"]
    assert event["component"] == "hip-runtime"
    assert event["activity"] == "load GPU code"
    assert [(status["name"], status["line"]) for status in event["statuses"]] == [
        ("hipErrorInvalidDeviceFunction", 1)
    ]
    assert [(thing["name"], thing["group"]) for thing in event["objects"]] == [
        ("libamdhip64.so.6", "hip-runtime")
    ]


@pytest.mark.parametrize(
    ("word", "names"),
    [
        ("700", {"CUDA_ERROR_ILLEGAL_ADDRESS", "cudaErrorIllegalAddress", "hipErrorIllegalAddress"}),
        ("0xC0000139", {"STATUS_ENTRYPOINT_NOT_FOUND"}),
        ("CUBLAS_STATUS_NOT_SUPPORTED", {"CUBLAS_STATUS_NOT_SUPPORTED"}),
        ("-1073741515", {"STATUS_DLL_NOT_FOUND"}),
    ],
)
def test_one_status_code_is_explained(checkout: Checkout, word: str, names: set[str]) -> None:
    data = checkout.json("doctor", f"--code={word}")
    assert {code["name"] for code in data["codes"]} == names
    assert all(code["meaning"] and code["causes"] for code in data["codes"])
    shown = checkout.run("doctor", f"--code={word}").stdout
    assert all(name in shown for name in names)


def test_an_unknown_status_code_and_two_questions_at_once_are_usage_errors(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        doctor(workspace(tmp_path), code="bad weather")
    assert caught.value.reference == "code-unknown"
    with pytest.raises(UsageError) as caught:
        doctor(workspace(tmp_path), code="700", log="-")
    assert caught.value.reference == "code-and-log"


def test_where_no_cause_is_known_the_codes_are_explained(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text("(Exit code: 18446744072635812000). Unknown error.\n", encoding="utf-8")
    result = doctor(workspace(tmp_path), log=str(log))
    assert (result.findings, result.exit_code) == ((), 0)
    stdout = io.StringIO()
    show(result, Out(stdout, io.StringIO()))
    assert "this is no diagnosis" in stdout.getvalue()
    assert "lost digits on its way; mostly it is STATUS_STACK_BUFFER_OVERRUN" in stdout.getvalue().replace(
        "\n", " "
    )


def test_a_failing_check_says_nothing_that_is_not_known(ready: Checkout) -> None:
    done = ready.run("check", env={"CUDA_AMD_CPU_FAULT": "missing:nvcuda"})
    assert done.returncode == 3
    assert "Traceback" not in done.stderr


def test_a_wrapped_program_that_fails_is_explained_from_its_log(ready: Checkout, tmp_path: Path) -> None:
    script, log = tmp_path / "fails.py", tmp_path / "out.log"
    script.write_text(f"import sys; print({TENSILE!r}); sys.exit(7)\n", encoding="utf-8")
    done = ready.run("wrap", f"--exe={sys.executable}", f"--log={log}", "--", str(script))
    assert done.returncode == 7
    assert "doctor: arch-libraries" in done.stderr


def test_a_workload_that_fails_is_explained_from_what_it_printed(ready: Checkout, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "fails.py").write_text(f"import sys; print({TENSILE!r}); sys.exit(1)\n", encoding="utf-8")
    (own / "own.toml").write_text(OWN, encoding="utf-8")
    done = ready.run("run", f"--workload={own / 'own.toml'}")
    assert done.returncode == 3
    assert "doctor: arch-libraries" in done.stderr
    assert "doctor:" not in done.stdout
    answered = ready.json("run", f"--workload={own / 'own.toml'}", code=3)
    assert answered["outcome"] == "error", "the advice is on stderr; the one object stays as it is"


#: A ``cuda_check`` that ends as one does whose GPU has no kernels.
FAILING_CHECK = f"#!/bin/sh\necho 'nvcuda    : ERROR: Loading'\necho '{TENSILE}' >&2\nexit 1\n"


@pytest.mark.posix_only
def test_a_set_up_that_fails_is_explained_from_what_its_check_printed(
    checkout: Checkout, tmp_path: Path
) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        member = zipfile.ZipInfo("layer/cuda_check")
        member.external_attr = 0o100755 << 16
        archive.writestr(member, FAILING_CHECK)
    small = SmallStack(folder=tmp_path, archive=packed.getvalue()).pin().serve()
    done = checkout.run("setup", "--stack=small", "--yes", f"--mirror={small.mirror}", env=small.env)
    assert (done.returncode, "doctor: arch-libraries" in done.stderr) == (3, True), done.stderr


@pytest.mark.posix_only
def test_a_check_that_fails_is_explained_from_what_it_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    runtime = runtime_in(tmp_path / "runtime", "cuda_check", "libcuda.so.1")
    (tmp_path / "runtime" / "cuda_check").write_text(FAILING_CHECK, encoding="utf-8")
    (tmp_path / "runtime" / "cuda_check").chmod(0o755)
    monkeypatch.setattr(checking, "staged_runtime", lambda _ws, _stack: staged_over(runtime))
    code = perform(Call(VERBS["check"], {}))
    out, err = capfd.readouterr()
    assert (code, "doctor: arch-libraries" in err, "doctor:" in out) == (3, True, False), err


def test_a_growing_cache_means_compiling() -> None:
    sizes, said = iter([0, 0, 5 * 1024**2, 5 * 1024**2]), list[str]()
    with say_when_compiling(said.append, lambda: next(sizes, 5 * 1024**2), interval=0.01):
        end = time.monotonic() + 20
        while not said and time.monotonic() < end:
            time.sleep(0.01)
    assert said == ["compiling, not hanging: the compile cache has grown to 5.0 MiB"]


def test_the_bundle_holds_the_examination_and_no_names(checkout: Checkout) -> None:
    logs = checkout.root / "stage" / "logs"
    logs.mkdir(parents=True)
    (logs / "wrap.log").write_text(f"{TENSILE}\n", encoding="utf-16")
    bundle = checkout.json("report", "--bundle")["bundle"]
    with zipfile.ZipFile(bundle) as archive:
        content = {name: archive.read(name).decode("utf-8", "replace") for name in archive.namelist()}
    assert "no stack is active" in content["doctor.json"]
    (finding,) = [f for f in json.loads(content["findings.json"]) if f["reference"] == "arch-libraries"]
    assert finding["log"] == "logs/wrap.log"
    assert "C:\\Users\\<user>\\ROCm" in finding["evidence"][0]
    for name, text in content.items():
        assert "somebody" not in text.replace("\0", ""), name


def test_every_status_and_a_guess_are_shown_in_any_encoding(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text("ROCm: no agent was found\n", encoding="utf-8")
    stdout = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="replace")
    show(doctor(workspace(tmp_path), log=str(log)), Out(stdout, io.StringIO()))
    stdout.seek(0)
    text = stdout.read()
    assert "wrong-device (possible)" in text
    assert "What would tell:" in text


def test_an_empty_log_is_called_empty(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    for text, empty in (("", True), (" \n", True), ("all went well\n", False)):
        log.write_text(text, encoding="utf-8")
        stdout = io.StringIO()
        show(doctor(workspace(tmp_path), log=str(log)), Out(stdout, io.StringIO()))
        assert ("the log is empty" in stdout.getvalue()) is empty
        assert ("no cause is known here" in stdout.getvalue()) is not empty


def test_an_unreadable_log_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        doctor(workspace(tmp_path), log=str(tmp_path))
