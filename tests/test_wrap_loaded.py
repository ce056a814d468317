"""What is said about loaded libraries was seen in the processes that ran."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scripts.app.context import Staged
from scripts.app.wrap_observations import LoadedLibraries, LoadedLibrary, is_cuda, loaded_libraries
from scripts.app.wrap_result import WrapPlacement
from scripts.model import StackKind
from scripts.osal.processes import LONGEST, SHARE, MappedFiles, mapped_by
from tests.python_programs import write_python_program
from tests.wrapping import runtime_in, staged_over

ROOT = Path(__file__).resolve().parents[1]


class Tree:
    """A tree that has mapped one thing after the other."""

    def __init__(self, *paths: str, cost: float = 0.0) -> None:
        self.paths = list(paths)
        self.cost = cost

    def mapped(self, wanted: object) -> frozenset[str]:
        time.sleep(self.cost)
        return frozenset([self.paths.pop(0)] if self.paths else [])


def test_what_was_seen_once_is_remembered() -> None:
    mapped, tree = MappedFiles(is_cuda), Tree("/a/libcuda.so.1", "/b/libcublas.so.12")
    for _ in range(4):
        mapped.look(tree)
    assert mapped.looks == 4
    assert mapped.paths == {"/a/libcuda.so.1", "/b/libcublas.so.12"}


def test_looks_come_quickly_at_first_and_never_take_much() -> None:
    mapped, tree = MappedFiles(is_cuda), Tree()
    pauses = []
    for _ in range(12):
        pauses.append(mapped.pause())
        mapped.look(tree)
    assert pauses[0] < 0.05
    assert pauses[-1] == LONGEST
    slow = MappedFiles(is_cuda)
    slow.look(Tree(cost=0.1))
    assert slow.pause() >= 0.1 / SHARE


def staged(tmp_path: Path, kind: StackKind = StackKind.TRANSLATION) -> Staged:
    return staged_over(runtime_in(tmp_path / "runtime", "libcuda.so.1", "libcublas.so.12"), kind=kind)


def seen(
    tmp_path: Path, *paths: Path, looks: int = 9, placement: WrapPlacement | None = None
) -> LoadedLibraries:
    mapped = MappedFiles(is_cuda)
    mapped.paths, mapped.looks = frozenset(map(str, paths)), looks
    return loaded_libraries(mapped, staged(tmp_path), placement or WrapPlacement(), hashes=True)


def test_the_stacks_own_are_told_from_others_by_where_they_lie(tmp_path: Path) -> None:
    other = tmp_path / "site-packages" / "libcublas.so.12"
    other.parent.mkdir()
    other.write_bytes(b"NVIDIA's")
    ready = staged(tmp_path)
    assert ready.runtime.path is not None
    found = seen(tmp_path, ready.runtime.path / "libcuda.so.1", other)
    assert [one.library for one in found.from_stack] == ["nvcuda"]
    assert found.from_stack[0].sha256 == ready.runtime.files[0].sha256
    assert [one.path for one in found.from_elsewhere] == [str(other)]
    assert len(found.from_elsewhere[0].sha256) == 64
    (sentence,) = found.sentences()
    assert "from the stack libcuda.so.1" in sentence
    assert str(other) in sentence


def test_files_beside_the_program_are_the_stacks_while_they_lie_there(tmp_path: Path) -> None:
    placement = WrapPlacement(target=tmp_path / "app", hashes={"lib/libcuda.so.1": "a" * 64})
    found = seen(tmp_path, tmp_path / "app" / "lib" / "libcuda.so.1", placement=placement)
    assert [one.sha256 for one in found.from_stack] == ["a" * 64]
    assert found.from_elsewhere == []


def test_a_stack_whose_driver_was_never_seen_is_said_so(tmp_path: Path) -> None:
    assert "did not load the CUDA driver library" in seen(tmp_path).sentences()[-1]
    assert seen(tmp_path).sentences(stopped=True) == ()
    assert seen(tmp_path, looks=1).sentences() == ()
    control = loaded_libraries(
        MappedFiles(is_cuda), staged(tmp_path, StackKind.CONTROL), WrapPlacement(), hashes=False
    )
    assert control.sentences() == ()


def test_a_program_that_brings_its_runtime_is_not_reported_for_it() -> None:
    assert is_cuda("libcuda.so.1")
    assert is_cuda("cublas64_12.dll")
    assert not is_cuda("libcudart.so.12")
    assert not is_cuda("libc.so.6")
    assert LoadedLibraries(from_elsewhere=[LoadedLibrary(library="x", path="/x")]).sentences()


@pytest.mark.posix_only
def test_a_process_that_is_gone_has_nothing_mapped() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        child.wait()
    assert mapped_by(child.pid, lambda _name: True) == set()
    assert any("python" in path or "libc" in path for path in mapped_by(os.getpid(), lambda _name: True))


@pytest.mark.slow
@pytest.mark.posix_only
def test_wrap_says_which_libraries_a_grandchild_loaded(tmp_path: Path) -> None:
    """Real shared objects: the stack's driver by the search path, and a cuBLAS of the program's own."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    runtime, own = tmp_path / "runtime", tmp_path / "own"
    source = tmp_path / "x.c"
    source.write_text("int x(void) { return 1; }\n", encoding="ascii")
    for path in (runtime / "libcuda.so.1", own / "libcublas.so.12"):
        path.parent.mkdir()
        subprocess.run([compiler, "-shared", "-fPIC", "-o", str(path), str(source)], check=True)
    exe = tmp_path / "app"
    text = f"""
        import subprocess, sys
        code = 'import ctypes, sys, time; ctypes.CDLL("libcuda.so.1"); ctypes.CDLL(sys.argv[1])'
        code += '; time.sleep(1.5)'
        subprocess.run([sys.executable, '-c', code, {str(own / "libcublas.so.12")!r}], check=True)
    """
    write_python_program(exe, text)
    line = [sys.executable, "-m", "tests.wrapping", str(runtime), "reference", "wrap", f"--exe={exe}"]
    report = tmp_path / "report.json"
    done = subprocess.run(
        [*line, "--via=env", f"--report={report}"], cwd=ROOT, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "from the stack libcuda.so.1" in done.stderr
    assert str(own / "libcublas.so.12") in done.stderr
    loaded = json.loads(report.read_text(encoding="utf-8"))["loaded"]
    assert loaded["looks"] >= 3
    assert [Path(one["path"]).parent for one in loaded["from_stack"]] == [runtime]
    assert [len(one["sha256"]) for one in (*loaded["from_stack"], *loaded["from_elsewhere"])] == [64, 64]
