"""What preflight says to do next, and what it calls a file that is no program."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest
from msgspec.structs import replace

from scripts.app.preflight import PreflightResult
from scripts.binary.image import Unreadable, read_image
from scripts.cli.console import Out
from scripts.cli.views.preflight import show_preflight as show
from scripts.model import StackKind
from scripts.preflight.coverage import StackFacts, Verdict, cover
from scripts.preflight.examine import examine
from scripts.preflight.libraries import alternatives
from scripts.preflight.verdict import Better, judge
from tests.elf_files import elf
from tests.fatbins import container, cubin, sass
from tests.preflight_programs import dll, exe, ship, zluda

GEMM = {"nvcuda.dll": ["cuInit"]}


def result(
    program: Path, tmp_path: Path, stack: StackFacts | None = None, system: str = ""
) -> PreflightResult:
    found, stack = examine(program, cache=tmp_path / "cache"), stack or zluda()
    covered = cover(found.closure.needs, stack)
    judged = judge(found.closure, covered, found.kinds, stack)
    return PreflightResult(
        program=program,
        stack=stack,
        examined=found,
        covered=covered,
        judged=judged,
        system=system or "windows",
        staged=True,
        active=True,
    )


def shown(found: PreflightResult) -> list[str]:
    stream = io.StringIO()
    show(found, Out(stdout=stream, stderr=stream))
    lines = stream.getvalue().splitlines()
    return [line.strip() for line in lines if line.strip()]


def advice(found: PreflightResult) -> str:
    return shown(found)[-1].partition(" ")[2]


def zipped() -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("app.exe", exe())
    return data.getvalue()


def tarred() -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("app"))
    return data.getvalue()


@pytest.mark.parametrize(
    ("name", "data", "what", "then"),
    [
        ("notes", b"hello\n", "a text file", "name the program that opens it"),
        ("notes.txt", "Größe\n".encode("cp1252"), "a text file", "name the program that opens it"),
        ("notes.txt", "wide".encode("utf-16"), "a text file", "name the program that opens it"),
        ("nothing.exe", b"", "an empty file", "name a program"),
        ("run.sh", b"#!/bin/sh\nexec app\n", "a script for sh", "--exe=sh, or the program that it starts"),
        ("run", b"#!/usr/bin/env -S python3 -u\n", "a script for python3", "--exe=python3, or"),
        ("run", b"#!\n", "a script", "name the program that it starts"),
        ("run.bat", b"@echo off\r\napp.exe\r\n", "a batch file", "name the program that it starts"),
        ("main.py", b"import torch\n", "a Python script", "--exe=python"),
        ("k.cu", b"__global__ void k();\n", "CUDA source", "compile it"),
        ("app.zip", zipped(), "a ZIP archive", "unpack it and name the program in it"),
        ("app.exe", zipped(), "a ZIP archive", "unpack it and name the program in it"),
        ("app.tar", tarred(), "a tar archive", "unpack it and name the program in it"),
        ("setup.msi", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 99, "Windows Installer", "install it"),
        ("app.lnk", b"L\0\0\0\x01\x14\x02\0" + b"\0" * 99, "a Windows shortcut", "that it points to"),
        ("app", b"\xcf\xfa\xed\xfe\x07\0\0\x01" + b"\0" * 99, "a program for macOS", "name a program"),
        ("app", b"\xca\xfe\xba\xbe\0\0\0\x02" + b"\0" * 99, "a program for macOS", "name a program"),
        ("A.class", b"\xca\xfe\xba\xbe\0\0\0\x41" + b"\0" * 99, "a Java class", "name java itself"),
        ("libx.a", b"!<arch>\n" + b"\0" * 99, "a library for linking", "linked with it"),
        ("weights.bin", bytes(range(256)), "data of a kind that is not known", "that opens it"),
        ("app", b"\x7fELF\x02\x01\x01" + b"\xff" * 60, "its ELF headers are damaged", "install it again"),
        ("cut", b"\x7fEL", "data of a kind that is not known", "that opens it"),
    ],
    ids=[
        "no-ending",
        "code-page",
        "utf-16",
        "empty",
        "shell",
        "env",
        "shebang-alone",
        "batch",
        "python",
        "cuda",
        "zip",
        "zip-named-exe",
        "tar",
        "msi",
        "shortcut",
        "mach-o",
        "mach-o-fat",
        "java",
        "static-library",
        "data",
        "damaged",
        "cut-elf",
    ],
)
def test_what_is_no_program_is_called_by_its_name(
    tmp_path: Path, name: str, data: bytes, what: str, then: str
) -> None:
    path = ship(tmp_path / "p", {name: data, "engine.dll": dll(GEMM)})
    found = read_image(path)
    assert isinstance(found, Unreadable)
    assert found.reason.startswith(f"it is {what}") or what in found.reason
    lines = shown(result(path, tmp_path))
    assert "no program" in lines[0]
    assert f"{name} is no program, and nothing can be read from it: {found.reason}" in lines[1]
    assert then in lines[-1]
    assert not any("try it" in line or "engine.dll" in line for line in lines)


def test_what_is_no_program_is_unknown_to_scripts_too(tmp_path: Path) -> None:
    found = result(ship(tmp_path / "p", {"notes": b"hello"}), tmp_path)
    assert (found.judged.verdict, found.exit_code) == (Verdict.UNKNOWN, 0)
    body = found.judged.reasons[0].to_json()
    assert (body["file"], body["then"]) == ("notes", "name the program that opens it")


def test_bare_device_code_is_read_and_called_so(tmp_path: Path) -> None:
    lines = shown(result(ship(tmp_path / "p", {"k.cubin": cubin(86)}), tmp_path))
    assert "k.cubin is no program: it is device code" in lines
    assert lines[-1].endswith("name the program that loads it")


@pytest.mark.parametrize(
    ("files", "system", "words"),
    [
        ({"app.exe": exe(GEMM)}, "windows", "try it: invoke wrap --exe="),
        ({"app.exe": exe(GEMM)}, "linux", "ask again on the machine with Windows that is to run it"),
        ({"engine.dll": dll(GEMM)}, "windows", "it is a library: name the program that loads it"),
        ({"app": elf(program=True)}, "linux", "name a stack for Linux: `invoke stacks` lists them"),
        ({"app": elf(program=True)}, "windows", "name a stack for Linux: `invoke stacks` lists them"),
        ({"app.exe": exe(GEMM, machine=0x14C)}, "windows", "use its 64-bit version"),
        (
            {"app.exe": exe(sections={".nv_fatb": container(sass())})},
            "windows",
            "a build with PTX or for Radeon",
        ),
        ({"app.exe": exe({"nvoptix.dll": ["x"]})}, "windows", "a build for Radeon"),
        ({"app.exe": exe(GEMM), "EasyAntiCheat/x": b""}, "windows", "run it without this workspace"),
    ],
    ids=[
        "same-system",
        "other-system",
        "library",
        "stack-of-the-other-system",
        "stack-and-machine-of-the-other",
        "32-bit",
        "machine-code-alone",
        "no-provider",
        "guarded",
    ],
)
def test_the_advice_fits_the_program_the_stack_and_this_machine(
    tmp_path: Path, files: dict[str, bytes], system: str, words: str
) -> None:
    assert words in advice(result(ship(tmp_path / "p", files), tmp_path, system=system))


def test_a_missing_runtime_of_hip_is_to_be_installed(tmp_path: Path) -> None:
    stack = zluda(backends={**zluda().backends, "amdhip64": False})
    found = result(ship(tmp_path / "p", {"app.exe": exe(GEMM)}), tmp_path, stack)
    assert found.judged.verdict is Verdict.REFUSES
    assert advice(found) == "install what is missing: `invoke doctor` says how"


@pytest.mark.parametrize(
    ("system", "words"),
    [
        ("windows", "try the other stack: invoke setup --stack=other"),
        ("linux", "on a machine with Windows, try the other stack: invoke setup --stack=other"),
    ],
    ids=["here", "elsewhere"],
)
def test_a_better_stack_is_tried_where_it_can_run(tmp_path: Path, system: str, words: str) -> None:
    found = result(ship(tmp_path / "p", {"app.exe": exe({"nvoptix.dll": ["x"]})}), tmp_path, system=system)
    better = (Better(stack="other", verdict=Verdict.RUNS, why="it has more"),)
    assert advice(replace(found, better=better)) == words


def test_what_needs_no_translation_is_the_last_way(tmp_path: Path) -> None:
    found = result(ship(tmp_path / "p", {"app.exe": exe({"nvoptix.dll": ["x"]})}), tmp_path)
    found = replace(found, alternatives=alternatives()[:1])
    assert advice(found) == "use what serves without translation, above"


def test_the_control_stack_runs_what_is_for_this_system(tmp_path: Path) -> None:
    stack = zluda(kind=StackKind.CONTROL, os="", providers={}, api=None)
    found = result(ship(tmp_path / "p", {"app": elf(program=True)}), tmp_path, stack, "linux")
    assert advice(found).startswith("try it: invoke wrap")
