"""A file that did not change is not read again; anything else is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.app.context import ROOT
from scripts.preflight import examine as cache_module
from scripts.preflight.examine import FileCache
from scripts.preflight.look import look
from scripts.preflight.needs import FileFacts
from tests.fatbins import container, ptx, sass
from tests.preflight_programs import dll, exe, ship


@pytest.fixture
def program(tmp_path: Path) -> Path:
    code = {".nv_fatb": container(ptx(), sass())}
    return ship(tmp_path / "p ü", {"app.exe": exe({"nvcuda.dll": ["cuInit"]}, sections=code), "b.dll": dll()})


def opened(tmp_path: Path, program: Path) -> FileCache:
    return FileCache(tmp_path / "cache", program)


def filled(tmp_path: Path, program: Path) -> FileFacts:
    cache = opened(tmp_path, program)
    facts = cache(program)
    cache.save()
    return facts


def test_what_comes_back_is_what_was_read(tmp_path: Path, program: Path) -> None:
    before = filled(tmp_path, program)
    cache = opened(tmp_path, program)
    assert cache(program) == before == look(program)
    assert (cache.hits, cache.misses) == (1, 0)


@pytest.mark.parametrize("change", ["bytes", "time", "size", "another"], ids=str)
def test_a_changed_file_is_read_again(tmp_path: Path, program: Path, change: str) -> None:
    filled(tmp_path, program)
    stamp = program.stat()
    data = program.read_bytes()
    if change == "time":
        os.utime(program, ns=(stamp.st_atime_ns, stamp.st_mtime_ns + 10**9))
    elif change == "another":
        other = program.with_name("new")
        other.write_bytes(data.replace(b"cuInit", b"cuExit"))
        os.utime(other, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
        other.replace(program)
    else:
        program.write_bytes(data.replace(b"cuInit", b"cuExit") + (b"x" if change == "size" else b""))
        os.utime(program, ns=(stamp.st_atime_ns, stamp.st_mtime_ns + 10**9))
    cache = opened(tmp_path, program)
    facts = cache(program)
    assert (cache.hits, cache.misses) == (0, 1)
    assert facts.asks == look(program).asks


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"format": 99}', '{"format":2,"tables":"x","files":{}}', "[" * 100_000],
    ids=["empty", "cut", "list", "newer", "other-tables", "deep"],
)
def test_a_damaged_cache_is_as_good_as_none(tmp_path: Path, program: Path, text: str) -> None:
    filled(tmp_path, program)
    opened(tmp_path, program).path.write_text(text, encoding="utf-8")
    cache = opened(tmp_path, program)
    assert cache(program) == look(program)
    assert cache.misses == 1


@pytest.mark.parametrize("key", FileFacts.__struct_fields__, ids=str)
def test_a_cache_with_a_wrong_value_never_crashes(tmp_path: Path, program: Path, key: str) -> None:
    filled(tmp_path, program)
    path = opened(tmp_path, program).path
    body = json.loads(path.read_text(encoding="utf-8"))
    for entry in body["files"].values():
        del entry[1][key]
        entry[1]["not a field"] = 1
    path.write_text(json.dumps(body), encoding="utf-8")
    cache = opened(tmp_path, program)
    assert cache(program) == look(program)


def test_a_file_that_is_asked_about_twice_is_read_once(tmp_path: Path, program: Path) -> None:
    seen: list[Path] = []

    def counted(path: Path) -> FileFacts:
        seen.append(path)
        return look(path)

    cache = FileCache(tmp_path / "cache", program, counted)
    assert cache(program) == cache(program)
    assert seen == [program]


def test_other_tables_make_other_answers(
    tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path, program)
    monkeypatch.setattr(cache_module, "_fingerprint", lambda: "newer tables")
    cache = opened(tmp_path, program)
    cache(program)
    assert cache.misses == 1


def test_a_file_that_is_gone_is_an_answer_and_not_kept(tmp_path: Path, program: Path) -> None:
    cache = opened(tmp_path, program)
    assert cache(program.parent / "gone.dll").faults
    cache.save()
    assert "gone.dll" not in cache.path.read_text(encoding="utf-8")


def test_a_cache_that_cannot_be_written_is_no_failure(tmp_path: Path, program: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be", encoding="utf-8")
    filled(tmp_path, program)


def test_the_oldest_programs_are_forgotten(
    tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_module, "MAX_PROGRAMS", 3)
    for number in range(5):
        one = FileCache(tmp_path / "cache", program.with_name(f"{number}.exe"))
        one(program)
        one.save()
        os.utime(one.path, (number, number))
    assert len(list((tmp_path / "cache").glob("*.json"))) == 3


def test_what_is_known_is_told_without_loading_a_reader(tmp_path: Path, program: Path) -> None:
    """A wrapped program waits for this: readers, their libraries and call tables are for what is new."""
    code = (
        "import sys; from pathlib import Path; from scripts.preflight.examine import examine;"
        "from scripts.preflight.coverage import StackFacts;"
        "from scripts.preflight.libraries import api_table;"
        "from scripts.preflight.kernels import KernelStore; cache = Path(sys.argv[2]);"
        "examine(Path(sys.argv[1]), cache=cache, kernels=KernelStore(cache.with_name('kernels')));"
        "api_table('zluda-v6-preview.69');"
        "print(*sorted(sys.modules))"
    )
    command = [sys.executable, "-c", code, str(program), str(tmp_path / "cache")]

    def loaded() -> set[str]:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL
        )
        return set(done.stdout.split())

    readers = {"pefile", "scripts.binary.pe", "scripts.binary.strings", "scripts.preflight.look"}
    readers |= {"scripts.preflight.ptx_scan", "scripts.preflight.ptx_check", "scripts.preflight.ptx_table"}
    assert readers <= loaded(), "the first time everything is read"
    second = loaded()
    light = {"scripts.binary", "scripts.binary.imports"}
    assert not {name for name in second if name.startswith("scripts.binary")} - light
    assert not second & {"pefile", "elftools", "lz4", "zstandard", *readers}
