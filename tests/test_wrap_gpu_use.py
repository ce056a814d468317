"""``wrap --expect-gpu`` ends with 42 when no GPU was used, and ``wrap`` tells what was held in PyTorch."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.app.wrap import wrap
from scripts.app.wrap_observations import (
    ENOUGH,
    HeldProcess,
    HeldSettings,
    LoadedLibraries,
    LoadedLibrary,
    TorchDevices,
    gpu_use,
)
from scripts.app.wrap_result import WrapResult
from scripts.errors import ExitCode
from scripts.launch.profiles import cpu_words
from scripts.model import StackKind
from tests.test_launch_profiles import ROOT, TORCH
from tests.wrapping import runtime_in, staged_over, workspace

linux = pytest.mark.skipif(sys.platform == "win32", reason="starts a script by its first line")
DRIVER = LoadedLibrary(library="nvcuda", path="/s/nvcuda.dll")


def loaded(*found: LoadedLibrary, looks: int = ENOUGH, driver: bool = True) -> LoadedLibraries:
    return LoadedLibraries(looks=looks, from_stack=list(found), driver_expected=driver)


def torch_of(devices: TorchDevices, *, ended: bool = True) -> HeldSettings:
    return HeldSettings(
        wanted=(), processes=[HeldProcess(pid=1, torch="2.7.1", devices=devices, ended=ended)]
    )


@pytest.mark.parametrize(
    ("seen", "held", "asked"),
    [
        (loaded(DRIVER), None, None),
        (loaded(), None, False),
        (loaded(looks=1), None, None),
        (loaded(driver=False), None, None),
        (loaded(DRIVER), torch_of(TorchDevices(build="11.8", asked=1, count=1, used=True)), True),
        (loaded(DRIVER), torch_of(TorchDevices(build="11.8", asked=1, count=0)), False),
        (loaded(DRIVER), torch_of(TorchDevices(build=None)), False),
        (loaded(DRIVER), torch_of(TorchDevices(build="11.8")), False),
        (loaded(DRIVER), torch_of(TorchDevices(build="11.8"), ended=False), None),
    ],
)
def test_what_is_not_known_is_not_claimed(
    seen: LoadedLibraries, held: HeldSettings | None, asked: bool | None
) -> None:
    assert gpu_use(loaded=seen, held=held, trace=None, output=None).asked is asked


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("ggml_cuda_init: found 0 CUDA devices:", True),
        ("Available devices:\n  (none)", True),
        ("warning: no usable GPU found, --gpu-layers option will be ignored", True),
        ("RuntimeError: No CUDA GPUs are available", True),
        ("[W:onnxruntime] Failed to create CUDAExecutionProvider. Require cuDNN 9.*", True),
        ("ggml_cuda_init: found 1 CUDA devices:", False),
        ("prompt (none) given", False),
    ],
)
def test_programs_own_words_are_known(tmp_path: Path, line: str, found: bool) -> None:
    output = tmp_path / "out.log"
    output.write_bytes(b"\xff\xfe odd\n" + line.encode() + b"\n")
    use = gpu_use(loaded=loaded(DRIVER), held=None, trace=None, output=output)
    assert (use.asked is False) is found
    assert not found or use.why.endswith(line.rpartition("\n")[2].strip())


@pytest.mark.posix_only
def test_a_log_that_is_a_pipe_is_not_read(tmp_path: Path) -> None:
    """Opening it would wait for a writer that never comes."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert gpu_use(loaded=loaded(DRIVER), held=None, trace=None, output=pipe).asked is None


def test_every_word_names_its_source() -> None:
    assert all(set(row) == {"pattern", "what", "source"} for row in cpu_words())


def run(
    tmp_path: Path, program: Path, *args: str, expect: bool = True, cwd: Path | None = None
) -> WrapResult:
    staged = staged_over(runtime_in(tmp_path / "runtime"), kind=StackKind.TRANSLATION)
    ws = workspace(ROOT, environ={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}, stage=tmp_path / "stage")
    return wrap(
        ws,
        exe=str(program),
        via="env",
        expect_gpu=expect,
        cwd=str(cwd or ""),
        program_args=args,
        staged=lambda _ws, _stack: staged,
    )


@linux
@pytest.mark.parametrize(
    ("words", "expect", "code"),
    [("(none)", True, 42), ("(none)", False, 0), ("fine", True, 0)],
    ids=["cpu", "not-expected", "silent"],
)
def test_a_program_that_uses_the_cpu_fails_only_where_a_gpu_is_expected(
    tmp_path: Path, words: str, expect: bool, code: int
) -> None:
    program = tmp_path / "llama-cli"
    program.write_text(f"#!/bin/sh\necho '{words}'\n", encoding="utf-8")
    program.chmod(0o755)
    result = run(tmp_path, program, expect=expect)
    assert result.exit_code == code
    assert (code == ExitCode.GPU_NOT_USED) is any("the GPU was not used" in line for line in result.ending)
    assert not (tmp_path / "stage" / "held").exists()


@pytest.mark.slow
@linux
@pytest.mark.parametrize("log", ["pipe", "stdout"])
def test_a_log_may_be_a_pipe_whose_reader_leaves(tmp_path: Path, log: str) -> None:
    runtime_in(tmp_path / "runtime", "libcuda.so.1")
    named = "/dev/stdout" if log == "stdout" else str(tmp_path / "pipe")
    if log == "pipe":
        os.mkfifo(named)
    words = [f"--exe={shutil.which('echo')}", f"--log={named}", "--", "hello"]
    line = [sys.executable, "-m", "tests.wrapping", str(tmp_path / "runtime"), "translation", "wrap", *words]
    with subprocess.Popen(line, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as running:
        if log == "pipe":
            assert Path(named).read_bytes() == b"hello\n"
        try:
            out, _ = running.communicate(timeout=60)
        finally:
            running.kill()
    assert (running.returncode, out) == (0, b"hello\n" * (1 if log == "pipe" else 2))


@pytest.mark.slow
@linux
@pytest.mark.parametrize(
    "options",
    [(), ("-I",), ("-E", "-u"), ("-S",), ("-s",), ("-X", "utf8", "-W", "ignore"), ("-m",), ("-Im",)],
    ids=["plain", "I", "E", "S", "s", "X", "m", "I-m"],
)
def test_wrap_tells_what_was_in_force(tmp_path: Path, options: tuple[str, ...]) -> None:
    venv = tmp_path / "venv"
    site = venv / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    (site / "torch-2.3.0.dist-info").mkdir(parents=True)
    (site / "torch").mkdir()
    for place in (site, tmp_path):  # -S leaves out the first, -I the second
        (place / "torch").mkdir(exist_ok=True)
        (place / "torch" / "__init__.py").write_text(TORCH + "\n__version__ = '2.3.0'\n", encoding="utf-8")
    (venv / "bin").mkdir()
    real = Path(sys.executable).resolve()
    (venv / "pyvenv.cfg").write_text(f"home = {real.parent}\n", encoding="utf-8")
    python = venv / "bin" / "python3"
    python.symlink_to(real)
    script = tmp_path / "prog.py"
    script.write_text("import torch, sys\nassert sys.argv[1:] == ['a b']\n", encoding="utf-8")
    if options == ("-Im",):  # which does not look into the current folder
        script = site / "prog.py"
        script.write_text("import torch, sys\nassert sys.argv[1:] == ['a b']\n", encoding="utf-8")
    target = "prog" if options and options[-1].endswith("m") else str(script)
    result = run(tmp_path, python, *options, target, "a b", cwd=tmp_path)
    assert result.held is not None
    [one] = result.held.processes
    assert (one.torch, one.ended) == ("2.3.0", True)
    assert Path(one.program).name == "prog.py"
    assert result.exit_code == ExitCode.GPU_NOT_USED, "PyTorch never began to use a device"
    assert any("in force at the end" in line for line in result.ending)
    script.write_text("import sys\n", encoding="utf-8")
    ending = run(tmp_path, python, *options, target, cwd=tmp_path).ending
    assert any(line.startswith("no process reported math-sdp") for line in ending)
