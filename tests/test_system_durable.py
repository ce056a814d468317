"""Flushing many files at once flushes every one of them, and says so when it could not."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from pathlib import Path

import pytest

from scripts.osal import durable, file_operations


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    made = [tmp_path / f"{number}.dll" for number in range(durable.MANY + 3)]
    for path in made:
        path.write_bytes(b"x")
    return made


@pytest.fixture
def flushed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Which files ``fsync`` was called for, by inode."""
    seen: list[int] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        seen.append(os.fstat(descriptor).st_ino)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return seen


@pytest.mark.parametrize("count", [1, 2, durable.FLUSHERS + 1, durable.MANY - 1])
def test_a_few_files_are_flushed_one_by_one(files: list[Path], flushed: list[int], count: int) -> None:
    durable.flush_files(files[:count])
    assert sorted(flushed) == sorted(path.stat().st_ino for path in files[:count])


def test_where_a_whole_file_system_cannot_be_flushed_every_file_is(
    files: list[Path], flushed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows, FUSE, network folders, an old kernel."""
    monkeypatch.setattr(durable, "WHOLE", frozenset())
    durable.flush_files(files)
    assert sorted(flushed) == sorted(path.stat().st_ino for path in files)


@pytest.mark.posix_only
def test_an_old_kernel_keeps_quiet_about_errors_and_is_not_trusted(
    files: list[Path], flushed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable, "_HONEST", (99, 0))
    durable.flush_files(files)
    assert len(flushed) == len(files)


@pytest.mark.posix_only
def test_many_files_take_one_flush_of_their_file_system(
    files: list[Path], flushed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    with files[0].open("rb") as file:
        kind = durable._kind_of(file.fileno())
    monkeypatch.setattr(durable, "WHOLE", frozenset({kind}))

    class Libc:
        fstatfs = durable._libc.fstatfs

        @staticmethod
        def syncfs(descriptor: int) -> int:
            calls.append(os.fstat(descriptor).st_ino)
            return 0

    monkeypatch.setattr(durable, "_libc", Libc)
    durable.flush_files(files)
    assert (calls, flushed) == ([files[0].parent.stat().st_ino], [])


@pytest.mark.posix_only
def test_a_flush_that_failed_is_an_error(files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    class Libc:
        fstatfs = durable._libc.fstatfs
        syncfs = staticmethod(lambda _descriptor: -1)

    with files[0].open("rb") as file:
        kind = durable._kind_of(file.fileno())
    monkeypatch.setattr(durable, "WHOLE", frozenset({kind}))
    monkeypatch.setattr(durable, "_libc", Libc)
    monkeypatch.setattr("ctypes.get_errno", lambda: errno.EIO)
    with pytest.raises(OSError, match="nput/output error"):
        durable.flush_files(files)


@pytest.mark.parametrize(
    "size", [0, 1, file_operations.CHUNK - 1, file_operations.CHUNK, 2 * file_operations.CHUNK + 7]
)
def test_a_copy_has_the_bytes_whose_hash_is_returned(tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    (tmp_path / "old").write_bytes(data)
    assert file_operations.copy_hashed(tmp_path / "old", tmp_path / "new") == hashlib.sha256(data).hexdigest()
    assert (tmp_path / "new").read_bytes() == data == file_operations.read_file(tmp_path / "new")
    assert file_operations.hash_of(tmp_path / "new") == hashlib.sha256(data).hexdigest()
    with pytest.raises(FileExistsError):
        file_operations.copy_hashed(tmp_path / "old", tmp_path / "new")


@pytest.mark.posix_only
def test_a_copy_can_be_written_by_its_owner_and_is_no_second_name_of_the_source(tmp_path: Path) -> None:
    """A program that writes into its own library must not reach into the store."""
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_bytes(b"data")
    old.chmod(0o444)
    file_operations.copy_hashed(old, new)
    assert stat.S_IMODE(new.stat().st_mode) == 0o644
    assert not new.samefile(old)


@pytest.mark.posix_only
def test_a_link_is_hashed_by_its_own_text_and_never_read_through(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"what the link leads to")
    (tmp_path / "link").symlink_to("file")
    assert file_operations.hash_of(tmp_path / "link") == hashlib.sha256(b"file").hexdigest()
    (tmp_path / "other").symlink_to("nowhere")
    assert file_operations.hash_of(tmp_path / "other") == hashlib.sha256(b"nowhere").hexdigest()
    with pytest.raises(OSError, match="symbolic links") as caught:
        file_operations.read_file(tmp_path / "link")
    assert caught.value.errno == errno.ELOOP
