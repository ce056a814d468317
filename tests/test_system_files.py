"""File operations: atomic, patient with scanners, careful with links."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

import pytest

from scripts.osal import fs


class WindowsError(OSError):
    """What Windows raises, made on any system."""

    def __init__(self, winerror: int) -> None:
        super().__init__(13, "held")
        self.winerror = winerror


def test_a_file_is_hashed_in_pieces(tmp_path: Path) -> None:
    data = os.urandom(3 * fs.CHUNK + 7)
    (tmp_path / "x").write_bytes(data)
    steps: list[int] = []
    assert fs.hash_file(tmp_path / "x", advance=steps.append) == hashlib.sha256(data).hexdigest()
    assert steps == [fs.CHUNK, fs.CHUNK, fs.CHUNK, 7]
    (tmp_path / "empty").write_bytes(b"")
    assert fs.hash_file(tmp_path / "empty") == hashlib.sha256().hexdigest()


@pytest.mark.parametrize("code", sorted(fs.PASSING))
def test_a_held_file_is_waited_for(code: int) -> None:
    slept: list[float] = []
    answers = [WindowsError(code), WindowsError(code)]

    def action() -> str:
        if answers:
            raise answers.pop()
        return "done"

    assert fs.retrying(action, sleep=slept.append) == "done"
    assert slept == [0.01, 0.02]


def test_patience_ends_after_about_five_seconds() -> None:
    slept: list[float] = []

    def action() -> None:
        raise WindowsError(32)

    with pytest.raises(WindowsError):
        fs.retrying(action, sleep=slept.append)
    assert 5 <= sum(slept) < 6


@pytest.mark.parametrize("error", [WindowsError(2), WindowsError(17), PermissionError(13, "no")])
def test_other_errors_are_raised_at_once(error: OSError) -> None:
    slept: list[float] = []

    def action() -> None:
        raise error

    with pytest.raises(OSError, match=r"held|no"):
        fs.retrying(action, sleep=slept.append)
    assert slept == []


def test_an_atomic_write_replaces_and_leaves_no_temporary(tmp_path: Path) -> None:
    target = tmp_path / "ä b.json"
    for data in (b"one", b"two"):
        fs.write_atomic(target, data)
        assert target.read_bytes() == data
    assert [p.name for p in tmp_path.iterdir()] == ["ä b.json"]


def test_a_failed_atomic_write_keeps_the_old_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "x"
    target.write_bytes(b"old")

    def fails(_source: object, _target: object) -> None:
        raise OSError(28, "full")

    monkeypatch.setattr(fs.os, "replace", fails)
    with pytest.raises(OSError, match="full"):
        fs.write_atomic(target, b"new")
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("x", b"old")]


def test_free_space_is_that_of_the_nearest_existing_folder(tmp_path: Path) -> None:
    assert fs.free_space(tmp_path / "not" / "there" / "yet") > 0


def test_a_tree_is_made_read_only_and_removed_all_the_same(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "a" / "b").mkdir(parents=True)
    (tree / "a" / "b" / "x").write_bytes(b"1")
    fs.make_read_only(tree)
    assert not (tree / "a/b/x").stat().st_mode & stat.S_IWUSR
    fs.remove_tree(tree)
    assert not tree.exists()
    fs.remove_tree(tree)


@pytest.mark.posix_only
def test_read_only_folders_are_removed_and_links_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_bytes(b"1")
    tree = tmp_path / "tree"
    (tree / "sub").mkdir(parents=True)
    (tree / "sub" / "y").write_bytes(b"1")
    (tree / "link").symlink_to(outside)
    (tree / "filelink").symlink_to(outside / "x")
    fs.make_read_only(tree)
    (tree / "sub").chmod(0o500)
    fs.remove_tree(tree)
    assert (outside / "x").read_bytes() == b"1"
    assert (outside / "x").stat().st_mode & stat.S_IWUSR
    link = tmp_path / "link"
    link.symlink_to(outside)
    fs.remove_tree(link)
    assert (outside / "x").exists()
    assert not link.is_symlink()


def test_a_read_only_file_is_removed_and_a_missing_one_is_fine(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"1")
    fs.set_read_only(file)
    fs.remove(file)
    fs.remove(file)
    assert not file.exists()


@pytest.mark.windows_only
def test_long_windows_paths_work(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["folder with a long name"] * 12)
    fs.long_path(deep).mkdir(parents=True)
    fs.write_atomic(deep / "x", b"1")
    assert len(str(deep)) > 260
    assert fs.hash_file(deep / "x") == hashlib.sha256(b"1").hexdigest()
    assert str(fs.long_path(Path("\\\\server\\share\\" + "x" * 300))).startswith("\\\\?\\UNC\\server")
    fs.remove_tree(tmp_path / deep.relative_to(tmp_path).parts[0])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "content",
    [fs.CACHEDIR_SIGNATURE + b"\n# This file is a cache directory tag created by cargo.\n", b"Sig", b""],
    ids=["another program's", "cut off", "empty"],
)
def test_only_the_tag_that_we_write_makes_a_cache_ours(tmp_path: Path, content: bytes) -> None:
    assert not fs.has_own_cachedir_tag(tmp_path)
    (tmp_path / "CACHEDIR.TAG").write_bytes(content)
    assert not fs.has_own_cachedir_tag(tmp_path)
    fs.write_cachedir_tag(tmp_path)
    assert fs.has_own_cachedir_tag(tmp_path)
    assert (tmp_path / "CACHEDIR.TAG").read_bytes().startswith(fs.CACHEDIR_SIGNATURE)


@pytest.mark.parametrize("executable", [False, True])
def test_a_new_file_is_read_only_from_its_first_byte(tmp_path: Path, executable: bool) -> None:
    with fs.create_read_only(tmp_path / "x", executable=executable) as file:
        file.write(b"1")
    assert (tmp_path / "x").read_bytes() == b"1"
    assert not (tmp_path / "x").stat().st_mode & 0o222
    if os.name == "posix":
        assert bool((tmp_path / "x").stat().st_mode & 0o100) is executable
    with pytest.raises(FileExistsError):
        fs.create_read_only(tmp_path / "x")
