"""After the fact: a log that asks for a kernel, held against the program's files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from scripts.app import doctor_look
from scripts.app.context import ROOT, Workspace, workspace_from_environ
from scripts.app.doctor_look import kernel_lines
from scripts.doctor.machine import Status
from tests.fatbins import PTX, container, entry
from tests.preflight_programs import exe, ship
from tests.ptx_texts import kernel, text

MANGLED = "_Z6vectorIfEvPT_S1_"
LOP3 = "lop3.b32 %r1, %r2, %r3, %r4, 1;"


class _Active:
    stack = "zluda-v6p69-sdk64"


class _History:
    active = _Active()


@pytest.fixture
def ws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setattr(doctor_look, "read_history", lambda _stage: _History())
    ws = workspace_from_environ(dict(os.environ), root=ROOT)
    return replace(ws, stage=tmp_path / "stage", state_root=tmp_path / "state", cache_root=tmp_path / "store")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    image = entry(PTX, 86, text(kernel(MANGLED, LOP3), kernel("fine")), way="zstd")
    code = {".nv_fatb": container(image)}
    return ship(tmp_path / "p", {"app.exe": exe({"nvcuda.dll": ["cuInit"]}, sections=code)})


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"], ids=str)
def test_a_kernel_that_was_dropped_is_named_with_its_instruction(
    ws: Workspace, program: Path, encoding: str
) -> None:
    log = f"cuModuleGetFunction({MANGLED}): CUDA_ERROR_NOT_FOUND: named symbol not found\n".encode(encoding)
    (line,) = kernel_lines(ws, program, log)
    assert line.status is Status.FAIL
    assert "`vector<…>` in app.exe was dropped because of `lop3.b32` (unknown opcode, line " in line.text


def test_a_kernel_that_is_compiled_is_not_blamed(ws: Workspace, program: Path) -> None:
    (line,) = kernel_lines(ws, program, b"launch of fine failed with error 999")
    assert line.status is Status.OK
    assert "`fine` in app.exe is compiled" in line.text


def test_a_log_without_a_name_gets_the_count(ws: Workspace, program: Path) -> None:
    (line,) = kernel_lines(ws, program, b"RuntimeError: CUDA error code=500")
    assert line.status is Status.WARN
    assert "1 of 2 kernels in app.exe would be missing" in line.text


@pytest.mark.parametrize("log", [b"", b"all is well: fine", b"error 2: out of memory"], ids=str)
def test_a_log_without_a_sign_of_it_gets_nothing(ws: Workspace, program: Path, log: bytes) -> None:
    assert kernel_lines(ws, program, log) == ()
