"""The table of HIP libraries: whole, consistent, and the only place that has their file names."""

from __future__ import annotations

import ast
from fnmatch import fnmatch
from pathlib import Path

import pytest

from scripts.host.hip_libraries import (
    RUNTIME,
    asked_names,
    generation,
    hip_libraries,
    layer_libraries,
    libraries_named,
    library_behind,
    runtime_marks,
)

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"


def test_what_a_layer_asks_for_is_found_in_a_root() -> None:
    for library in layer_libraries():
        for name in library.asked:
            assert any(fnmatch(name.lower(), pattern) for pattern in library.files), name
            assert library.name in libraries_named([name])
            assert any(fnmatch(f"bin/{name.lower()}", mark) for mark in runtime_marks())


def test_one_library_is_essential_and_every_other_says_what_fails_without_it() -> None:
    known = hip_libraries()
    assert [name for name, library in known.items() if library.essential] == [RUNTIME]
    assert all(library.cuda and library.label for name, library in known.items() if name != RUNTIME)


def test_a_library_that_is_not_in_the_table_is_asked_for_by_its_name() -> None:
    assert asked_names("hiprtc") == ("hiprtc.dll",)
    assert asked_names(RUNTIME) == ("amdhip64_7.dll", "amdhip64_6.dll")


@pytest.mark.parametrize(
    ("file", "number"),
    [("amdhip64.dll", ""), ("AMDHIP64_7.DLL", "7"), ("amdhip64_7.so", None), ("rocblas.dll", None)],
)
def test_the_generation_of_a_runtime_is_in_its_name(file: str, number: str | None) -> None:
    assert generation(file) == number


@pytest.mark.parametrize(
    ("call", "status", "name"),
    [
        ("cublasCreate", 6, "rocblas"),
        ("cublasLtCreate", 6, "hipblaslt"),
        ("cusparseCreate", 7, "rocsparse"),
        ("cudnnCreate", 4000, "miopen"),
        ("cublasCreate", 7, None),
    ],
)
def test_a_failing_call_tells_which_library_is_absent(call: str, status: int, name: str | None) -> None:
    found = library_behind(call, status)
    assert (found.name if found else None) == name


def test_no_other_module_lists_file_names_of_hip_libraries() -> None:
    names = {name.lower() for library in layer_libraries() for name in library.asked}
    allowed = {"inside/hip_calls.py"}  # runs in the launched process and imports nothing of ours
    found = []
    for path in sorted(SCRIPTS.rglob("*.py")):
        place = path.relative_to(SCRIPTS).as_posix()
        if not any(name in path.read_text(encoding="utf-8").lower() for name in names):
            continue
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.lower() in names:
                found += [f"{place}:{node.lineno}: {node.value}"] if place not in allowed else []
    assert not found
