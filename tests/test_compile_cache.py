"""The layer's compile cache: where it lies, that it is seen growing, filled beforehand, and cleared alone."""

from __future__ import annotations

import io
import os
import shutil
import sqlite3
import struct
import sys
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from scripts.app import compile_cache
from scripts.app import precompile as precompiling
from scripts.app.cleanup import cache_prune
from scripts.app.compile_cache import in_use, say_when_compiling
from scripts.app.context import Workspace, user_caches
from scripts.app.precompile import PrecompileResult, precompile
from scripts.app.status import status
from scripts.app.wrap import wrap
from scripts.cli.console import Out, TerminalProgress
from scripts.cli.views.measuring import show_precompile
from scripts.cli.views.status import show_cache_prune, show_status
from scripts.errors import ConflictError, HostError, LaunchError, UsageError
from scripts.model import NoProgress, StackKind
from tests.checkout import ROOT
from tests.wrapping import runtime_in, staged_over, workspace

TOOL = "zluda_precompile.exe" if sys.platform == "win32" else "zluda_precompile"
TOOL_SCRIPT = """#!/bin/sh
[ "$STANDIN_FAULT" = fail ] && { echo 'Error: "Failed to initialize ZLUDA"' >&2; exit 1; }
echo "[2/2] $# file(s) compiled"; echo "$1"
[ -z "$STANDIN_CACHE" ] || head -c 1024 /dev/zero >> "$STANDIN_CACHE"
"""


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    caches = tmp_path / "caches (ü)"
    return workspace(tmp_path, lock_path=ROOT / "pins.lock", cache_root=tmp_path / "store", caches=caches)


def filled(ws: Workspace) -> Path:
    """Make a cache as the layer leaves it, with files of somebody else beside it; return the database."""
    assert ws.caches is not None
    folder = ws.caches / "zluda" / "ComputeCache"
    (folder / "zluda.db.d").mkdir(parents=True)
    for name in ("notes.txt", "zluda.db.bak", "myzluda.db"):
        (folder / name).write_bytes(b"mine")
    (folder / "zluda.db").write_bytes(b"not a database any more")
    database = folder / "zluda2.db"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE modules (binary BLOB)")
    return database


def names(ws: Workspace) -> set[str]:
    assert ws.caches is not None
    return {path.name for path in (ws.caches / "zluda" / "ComputeCache").iterdir()}


def shown(show: Callable[..., None], result: object) -> str:
    stdout = io.StringIO()
    show(result, Out(stdout, io.StringIO()))
    return stdout.getvalue()


@pytest.mark.posix_only
@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"XDG_CACHE_HOME": "/fast/cache", "HOME": "/home/me"}, "/fast/cache"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/home/me"}, "/home/me/.cache"),
        ({"XDG_CACHE_HOME": "", "HOME": "/home/me"}, "/home/me/.cache"),
        ({}, None),
    ],
    ids=["moved", "relative does not count", "empty does not count", "no home"],
)
def test_caches_lie_where_programs_for_linux_look(environ: dict[str, str], expected: str | None) -> None:
    assert user_caches(environ) == (Path(expected) if expected else None)


@pytest.mark.windows_only
def test_windows_itself_says_where_caches_lie_and_no_variable_moves_them() -> None:
    moved = user_caches({"LOCALAPPDATA": "Z:\\elsewhere", "XDG_CACHE_HOME": "Z:\\elsewhere"})
    assert moved is not None
    assert moved.parts[-2:] == ("AppData", "Local")
    assert moved.is_dir()


def test_status_names_the_cache_and_its_size(ws: Workspace) -> None:
    database = filled(ws)
    result = status(ws)
    size = database.stat().st_size + len(b"not a database any more")
    assert result.to_json()["compile_cache"] == {
        "path": str(database.parent),
        "bytes": size,
        "files": ["zluda.db", "zluda2.db"],
    }
    assert f"compiled {database.parent} (8.2 kB, the layer's)" in shown(show_status, result)


def test_an_empty_cache_has_a_place_and_no_line(ws: Workspace) -> None:
    result = status(ws)
    assert result.compiled is not None
    assert (result.compiled.files, result.compiled.bytes) == ((), 0)
    assert "compiled" not in shown(show_status, result)
    unknown = status(replace(ws, caches=None))
    assert unknown.to_json()["compile_cache"] is None


def test_clearing_takes_the_layers_files_and_nothing_else(ws: Workspace) -> None:
    filled(ws)
    before = names(ws)
    dry = cache_prune(ws, compile_=True, dry_run=True)
    assert names(ws) == before
    assert "2 files would go (8.2 kB)" in shown(show_cache_prune, dry)
    result = cache_prune(ws, compile_=True)
    assert before - names(ws) == {"zluda.db", "zluda2.db"}
    assert result.to_json()["bytes"] == dry.bytes == result.bytes
    assert "2 files gone" in shown(show_cache_prune, result)
    again = cache_prune(ws, compile_=True)
    assert (again.bytes, shown(show_cache_prune, again)) == (0, "The compile cache is empty.\n")


def test_clearing_leaves_the_store_alone(ws: Workspace) -> None:
    filled(ws)
    left = ws.cache_root / "trees-v1" / ("0" * 64)
    left.mkdir(parents=True)
    cache_prune(ws, compile_=True)
    assert left.is_dir()


def test_a_cache_that_a_program_has_open_is_left_whole(ws: Workspace) -> None:
    database = filled(ws)
    with closing(sqlite3.connect(database)) as program:
        program.execute("PRAGMA journal_mode = WAL")  # as the layer opens it; then it is idle
        before = names(ws)
        with pytest.raises(ConflictError) as caught:
            cache_prune(ws, compile_=True)
        assert names(ws) == before
    assert (caught.value.reference, caught.value.context) == ("compile-cache-in-use", (str(database),))
    assert caught.value.hint
    cache_prune(ws, compile_=True)
    assert not database.exists()


@pytest.mark.windows_only
def test_a_file_that_is_open_without_sqlite_is_in_use_as_well(ws: Workspace) -> None:
    database = filled(ws)
    with database.open("rb"), pytest.raises(ConflictError) as caught:
        cache_prune(ws, compile_=True)
    assert caught.value.reference == "compile-cache-in-use"


def test_asking_whether_a_database_is_in_use_changes_nothing_in_it(ws: Workspace) -> None:
    database = filled(ws)
    before = database.read_bytes()
    assert in_use(database) is False
    assert database.read_bytes() == before
    assert in_use(database.with_name("zluda.db")) is False


def test_without_a_known_folder_nothing_is_cleared(ws: Workspace) -> None:
    with pytest.raises(HostError) as caught:
        cache_prune(replace(ws, caches=None), compile_=True)
    assert caught.value.reference == "compile-cache-unknown"


class Waiting(NoProgress):
    """A person at a terminal: what is said to them, and a file that shows the program that it was said."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark
        self.asides: list[str] = []

    def aside(self, message: str) -> None:
        self.asides.append(message)
        self.mark.touch()


@pytest.mark.parametrize("kind", [StackKind.TRANSLATION, StackKind.REFERENCE], ids=str)
def test_a_program_that_compiles_is_said_to_compile(
    ws: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: StackKind
) -> None:
    database, mark = filled(ws), tmp_path / "said"
    monkeypatch.setattr(compile_cache, "say_when_compiling", partial(say_when_compiling, interval=0.05))
    # It compiles until somebody noticed: for ever on a layer, and on others a few steps.
    steps = 400 if kind is StackKind.TRANSLATION else 4
    program = (
        "import os, time\n"
        f"for _ in range({steps}):\n"
        f"    open({str(database)!r}, 'ab').write(bytes(4096))\n"
        "    time.sleep(0.05)\n"
        f"    if os.path.exists({str(mark)!r}): break\n"
    )
    person = Waiting(mark)
    staged = staged_over(runtime_in(tmp_path / "runtime", "nvcuda.dll"), kind=kind)
    result = wrap(
        replace(ws, progress=person),
        exe=sys.executable,
        via="env",
        program_args=["-I", "-c", program],
        staged=lambda _ws, _stack: staged,
    )
    assert result.exit_code == 0
    if kind is StackKind.TRANSLATION:
        assert person.asides[0].startswith("compiling, not hanging: the compile cache has grown to 0.0 MiB")
    else:
        assert person.asides == []


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stream", [Terminal(), io.StringIO()], ids=["terminal", "file"])
def test_an_aside_is_for_a_person_at_a_terminal(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    stdout = io.StringIO()
    progress = TerminalProgress(Out(stdout, stream))
    progress.aside("compiling")
    assert ("compiling" in stream.getvalue()) is stream.isatty()
    assert stdout.getvalue() == ""


def layered(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch, *, tool: bool = True, **environ: str
) -> Workspace:
    """Stage a layer with (or without) its own tool; return the workspace with an environment."""
    folder = ws.root / "layer"
    folder.mkdir()
    if tool and sys.platform == "win32":
        shutil.copyfile(Path(os.environ["CUDA_AMD_TEST_BIN"]) / "layer_precompile.exe", folder / TOOL)
    elif tool:
        (folder / TOOL).write_text(TOOL_SCRIPT, encoding="utf-8")
        (folder / TOOL).chmod(0o755)
    runtime = runtime_in(folder, "nvcuda.dll", *([TOOL] if tool else []))
    staged = staged_over(runtime, kind=StackKind.TRANSLATION)
    monkeypatch.setattr(precompiling, "staged_runtime", lambda _ws, _stack: staged)
    return replace(ws, environ={**ws.environ, **environ})


def test_the_layers_own_tool_fills_the_cache_beforehand(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = filled(ws)
    here = layered(ws, monkeypatch, STANDIN_CACHE=str(database))
    result = precompile(here, path=str(ws.root))
    assert (result.exit_code, result.after - result.before) == (0, 1024)
    assert str(ws.root) in result.output.decode("utf-8", "replace") or not str(ws.root).isascii()
    assert "the compile cache grew by 1.0 kB" in shown(show_precompile, result)
    body = result.to_json()
    assert body["compile_cache"] == {
        "path": str(database.parent),
        "before": result.before,
        "after": result.after,
    }


def test_that_nothing_was_compiled_is_no_success_to_boast_of(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = precompile(layered(ws, monkeypatch), path=str(ws.root))
    assert result.exit_code == 0
    assert "nothing was added to the compile cache" in shown(show_precompile, result)


def test_a_tool_that_fails_is_negative_and_its_words_are_shown(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = precompile(layered(ws, monkeypatch, STANDIN_FAULT="fail"), path=str(ws.root))
    assert (result.exit_code, result.ending) == (3, ("it ended with 1",))
    assert replace(result, code=-11, platform="linux").ending == ("it ended by SIGSEGV",)
    text = shown(show_precompile, result)
    assert "the layer's tool failed" in text
    assert 'Error: "Failed to initialize ZLUDA"' in text


def test_a_tool_whose_time_was_over_ends_with_124() -> None:
    result = PrecompileResult(
        stack="s", path=Path("app"), code=None, before=0, after=5, cache="", output=b"", seconds=7.0,
        platform="linux",
    )  # fmt: skip
    assert result.exit_code == 124
    assert "what it had compiled is kept" in result.ending[0]


def test_a_layer_without_such_a_tool_is_refused(ws: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LaunchError) as caught:
        precompile(layered(ws, monkeypatch, tool=False), path=str(ws.root))
    assert caught.value.reference == "no-precompiler"
    assert caught.value.hint


@pytest.mark.parametrize(("path", "reference"), [("", "path-needed"), ("gone", "path-not-found")], ids=repr)
def test_what_cannot_be_looked_through_is_a_usage_error(ws: Workspace, path: str, reference: str) -> None:
    with pytest.raises(UsageError) as caught:
        precompile(ws, path=str(ws.root / path) if path else "")
    assert caught.value.reference == reference


def test_a_planted_journal_deletes_no_file_elsewhere(tmp_path: Path) -> None:
    """SQLite writes a journal back and then deletes the file that the journal's end names."""
    mine, database = tmp_path / "thesis.txt", tmp_path / "zluda1.db"
    mine.write_text("mine", encoding="utf-8")
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE t (a)")
        connection.commit()
    magic, name = bytes.fromhex("d9d505f920a163d7"), str(mine).encode()
    head = magic + struct.pack(">5L", 0, 1, 2, 512, 4096)
    end = struct.pack(">L", 0x40000000 // 4096 + 1) + name + struct.pack(">2L", len(name), sum(name))
    journal = database.with_name("zluda1.db-journal")
    journal.write_bytes(head.ljust(512, b"\0") + end + magic)
    assert in_use(database)
    assert mine.read_text(encoding="utf-8") == "mine"
    journal.unlink()
    assert not in_use(database)
