"""What the tests compiled is handed out again only while it is what the compiler would make."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.checkout import ROOT

pytestmark = pytest.mark.posix_only
COMPILER = """#!/bin/sh
if [ "$1" = --version ]; then echo "my cc 1.0"; exit; fi
echo "$@" >> "{calls}"
while [ "$1" != -o ]; do shift; done
cat a.c b.h > "$2" && ! grep -q error a.c
"""


class World:
    """A compiler that writes down its calls, sources, and a folder of results."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.kept, self.calls = folder, folder / "kept", folder / "calls"
        self.compiler = folder / "cc"
        self.compiler.write_text(COMPILER.format(calls=self.calls), encoding="utf-8")
        self.compiler.chmod(0o755)
        self.sources("sources")

    def sources(self, name: str) -> None:
        (self.folder / name).mkdir()
        (self.folder / name / "a.c").write_text("int a;", encoding="utf-8")
        (self.folder / name / "b.h").write_text("int b;", encoding="utf-8")

    def run(self, *words: str, place: str = "sources") -> subprocess.CompletedProcess[str]:
        start = [sys.executable, "-I", "-S", str(ROOT / "tools" / "kept_cc.py"), str(self.kept)]
        return subprocess.run(
            [*start, str(self.compiler), *words], cwd=self.folder / place, capture_output=True, text=True,
            check=False,
        )  # fmt: skip

    def compile(self, *words: str, place: str = "sources", out: str = "out") -> str:
        (self.folder / out).mkdir(exist_ok=True)
        done = self.run(*words, "a.c", "-o", str(self.folder / out / "liba.so"), place=place)
        assert done.returncode == 0, done.stderr
        return (self.folder / out / "liba.so").read_text(encoding="utf-8")

    def count(self) -> int:
        return len(self.calls.read_text(encoding="utf-8").splitlines())


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    assert made.compile("-O3") == "int a;int b;"
    assert made.count() == 1
    return made


def test_the_same_again_is_not_compiled(world: World) -> None:
    world.sources("a copy of the sources")
    assert world.compile("-O3") == "int a;int b;"
    assert world.compile("-O3", place="a copy of the sources", out="other") == "int a;int b;"
    assert world.compile("-O3", "-Werror") == "int a;int b;", "warnings are errors in any case"
    assert world.count() == 1
    assert "-Werror" in world.calls.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["a.c", "b.h"])
def test_other_sources_are_compiled(world: World, name: str) -> None:
    (world.folder / "sources" / name).write_text("int c;", encoding="utf-8")
    assert "int c;" in world.compile("-O3")
    assert world.count() == 2


def test_other_options_and_another_compiler_compile_again(world: World) -> None:
    world.compile("-O2")
    assert world.count() == 2
    os.utime(world.compiler, (1, 1))
    world.compile("-O3")
    assert world.count() == 3


def test_what_fails_is_not_kept(world: World) -> None:
    (world.folder / "sources" / "a.c").write_text("error", encoding="utf-8")
    for _ in range(2):
        assert world.run("-O3", "a.c", "-o", str(world.folder / "out" / "liba.so")).returncode == 1
    assert world.count() == 3


@pytest.mark.slow
@pytest.mark.parametrize("elsewhere", ["absolute", "above", "headers"])
def test_what_depends_on_other_folders_is_compiled_each_time(world: World, elsewhere: str) -> None:
    (world.folder / "sources" / "inner").mkdir()
    here = world.folder / "sources"
    words = {
        "absolute": [str(here / "a.c")],
        "above": ["inner/../a.c"],
        "headers": ["-I../headers", "a.c"],
    }[elsewhere]
    for _ in range(2):
        assert world.run(*words, "-o", str(world.folder / "out" / "liba.so")).returncode == 0
    assert world.count() == 3


def test_a_question_reaches_the_compiler(world: World) -> None:
    assert world.run("--version").stdout == "my cc 1.0\n"


def test_what_was_not_asked_for_in_a_month_is_removed(world: World) -> None:
    long_ago = time.time() - 40 * 24 * 3600
    old = [path for path in world.kept.iterdir() if not path.suffix]
    for path in old:
        os.utime(path, (long_ago, long_ago))
    world.compile("-O2")
    assert not any(path.exists() for path in old)
    world.compile("-O2")
    assert world.count() == 2
