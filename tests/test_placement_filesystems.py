"""The same promises on disks of other kinds: exFAT, FAT, NTFS, ext4 with its journal, and one of the network.

The first are mounted from a file: only root may do that, and each kind needs its tools and a driver. The last
is sshfs over a pipe to OpenSSH's ``sftp-server``. What is missing here is named. What such
disks lack (second names, fine times, case) is also lacking on disks in memory, which need nothing.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from scripts.errors import TargetError
from scripts.osal import durable
from scripts.osal.file_operations import Fs, Seen
from scripts.placement.place import place
from scripts.placement.plan import PlacementItem
from scripts.placement.rollback import undo
from tests.placement_harness import GONE, STACK, Died, DyingFs, LightFs, World, bytes_lost, tree
from tools.memory_fs import Disk, MemoryFs

Record = Callable[[str, object], None]


#: A folder on any other disk, for example a network share, that a person wants to have tried.
GIVEN = "CUDA_AMD_TEST_DISK"


@dataclass(frozen=True, kw_only=True)
class Kind:
    """How a disk of some kind is made and mounted, by the first driver there is."""

    make: tuple[str, ...]
    mounts: tuple[tuple[str, ...], ...]


KINDS = {
    "exfat": Kind(make=("mkfs.exfat",), mounts=(("mount", "-t", "exfat"), ("mount.exfat-fuse",))),
    "fat": Kind(make=("mkfs.vfat",), mounts=(("mount", "-t", "vfat"),)),
    "ntfs": Kind(make=("mkntfs", "-F", "-Q", "-q"), mounts=(("mount", "-t", "ntfs3"), ("ntfs-3g",))),
    "ext4": Kind(make=("mkfs.ext4", "-q", "-F"), mounts=(("mount", "-t", "ext4"),)),
}


#: Where systems keep the far end of sshfs; it needs neither a network nor an ssh server.
SFTP_SERVERS = (
    "/usr/lib/openssh/sftp-server",
    "/usr/libexec/openssh/sftp-server",
    "/usr/lib/ssh/sftp-server",
)


def run(*words: str) -> bool:
    """Run a tool; false where there is none, or it failed."""
    if shutil.which(words[0]) is None:
        return False
    return subprocess.run(words, check=False, capture_output=True, stdin=subprocess.DEVNULL).returncode == 0


def network_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a folder through sshfs, whose server is a program of this machine at the end of a pipe."""
    server = next((path for path in SFTP_SERVERS if os.access(path, os.X_OK)), "")
    far, near, line = tmp_path / "far", tmp_path / "near", tmp_path / "line"
    far.mkdir()
    near.mkdir()
    line.write_text(f"#!/bin/sh\nexec {server}\n", encoding="utf-8")
    line.chmod(0o755)
    if not server or not run("sshfs", "-o", f"ssh_command={line}", f"localhost:{far}", str(near)):
        pytest.skip("a disk of the network needs sshfs, FUSE and OpenSSH's sftp-server")
    yield near
    subprocess.run(["fusermount", "-u", str(near)], check=True)


@pytest.fixture(params=[*KINDS, "sshfs", "given"])
def mounted(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """The folder of a disk, of 64 MB where it is mounted from a file."""
    if request.param == "sshfs":
        yield from network_disk(tmp_path)
        return
    if request.param == "given":
        given = os.environ.get(GIVEN) or pytest.skip(f"{GIVEN} names no folder on another disk")
        yield from fresh(Path(given) / f"cuda-amd-{os.getpid()}")
        return
    kind = KINDS[request.param]
    image, folder = tmp_path / "image", tmp_path / "disk"
    folder.mkdir()
    image.touch()
    os.truncate(image, 64 << 20)
    if sys.platform == "win32" or os.geteuid() != 0 or not run(*kind.make, str(image)):
        pytest.skip(f"making a disk of {request.param} needs root and {kind.make[0]}")
    found = subprocess.run(["losetup", "-f", "--show", str(image)], check=False, capture_output=True)
    if found.returncode:
        pytest.skip("no loop device can be had here")
    device = found.stdout.decode().strip()
    try:
        if not any(run(*words, device, str(folder)) for words in kind.mounts):
            pytest.skip(f"this machine has no driver for {request.param}")
        yield folder
        subprocess.run(["umount", str(folder)], check=True)
    finally:
        subprocess.run(["losetup", "-d", device], check=True)


def fresh(folder: Path) -> Iterator[Path]:
    """Make a folder for one test."""
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def world(mounted: Path, tmp_path: Path) -> World:
    """A program on that disk; one of its names is spelled otherwise than we ask."""
    (mounted / "app").mkdir()
    made = World(mounted)
    made.own("lib/CUBLAS64_11.DLL", b"theirs: cublas")
    made.own("nvcuda.dll", b"theirs: nvcuda")
    made.own("daten ü.bin", b"data")
    store = World(tmp_path)
    for folder, name in (("lib", "cublas64_11.dll"), ("", "nvcuda.dll"), ("lib", "nvml.dll")):
        made.items.append(store.item(folder, name, f"ours: {name}".encode()))
    made.settle()
    made.start = seen(made)
    return made


def renames_safely(folder: Path) -> bool:
    """Whether this driver can rename without replacing, in one way or another."""
    one, two = folder / "one", folder / "two"
    one.touch()
    try:
        durable.rename_new(str(one), str(two))
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            raise
        one.unlink()
        return False
    two.unlink()
    return True


def seen(world: World) -> dict[str, object]:
    """Return the tree, without modes that the driver makes up from attributes (a rename sets "archive")."""
    probe = world.target / "probe"
    probe.touch()
    probe.chmod(0o640)
    keeps = stat.S_IMODE(probe.stat().st_mode) == 0o640
    probe.unlink()
    found = tree(world.target)
    if keeps:
        return found
    return {n: (*e[:-2], e[-1]) if isinstance(e, tuple) else e for n, e in found.items()}


def as_the_kernel_does(path: str, name: str) -> None:
    """Rename as Linux's own driver for exFAT does under the folder's lock; the one for FUSE cannot."""
    if os.path.lexists(name):
        raise FileExistsError(errno.EEXIST, "File exists", name)
    os.rename(path, name)  # noqa: PTH104 - text, as the seam passes it


def put(world: World, fs: Fs) -> tuple[str, ...]:
    return place(world.target, world.items, **STACK, fs=fs, user=GONE).files


@pytest.mark.slow
def test_everything_comes_back(mounted: Path, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    folds = (world.target / "NVCUDA.DLL").exists()
    if not renames_safely(mounted):
        with pytest.raises(TargetError, match="neither rename without replacing") as caught:
            put(world, Fs())
        assert caught.value.reference == "placing-failed"
        assert seen(world) == world.start, "a refusal leaves nothing"
        monkeypatch.setattr(durable, "rename_new", as_the_kernel_does)
    files = put(world, Fs())
    assert files == ("lib/CUBLAS64_11.DLL", "nvcuda.dll", "lib/nvml.dll")
    assert (world.target / "lib" / "CUBLAS64_11.DLL").read_bytes() == b"ours: cublas64_11.dll"
    assert (world.target / "lib" / "cublas64_11.dll").exists() == folds
    assert undo(world.target).complete
    assert seen(world) == world.start


@pytest.mark.proof
@pytest.mark.parametrize("first", ["place", "undo"])
def test_dying_anywhere_loses_nothing(
    mounted: Path,
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    first: str,
    record_property: Record,
) -> None:
    if not renames_safely(mounted):
        monkeypatch.setattr(durable, "rename_new", as_the_kernel_does)
    at, finished = 0, False
    while not finished:
        at += 1
        fs = DyingFs(at)
        if first == "undo":
            put(world, LightFs())
        try:
            if first == "place":
                put(world, fs)
            else:
                undo(world.target, fs=fs)
            finished = True
        except Died:
            pass
        assert bytes_lost(world) == set(), fs.log[-1]
        assert undo(world.target, fs=LightFs()).complete
        assert seen(world) == world.start, fs.log[-1]
    record_property("placement: crash points", at - 1)


def test_second_names_that_look_like_other_files_are_not_relied_on(tmp_path: Path) -> None:
    """FUSE numbers files by their names, so that a hard link there is not seen to be one."""

    class NumberedByName(LightFs):
        def look(self, path: Path) -> Seen | None:
            seen = super().look(path)
            return seen._replace(inode=zlib.crc32(os.fsencode(path))) if seen is not None else None

    world = World(tmp_path)
    world.own("a.dll", b"theirs")
    world.item("", "a.dll", b"ours")
    world.settle()
    fs = NumberedByName()
    assert not fs.link(world.target / "a.dll", tmp_path / "second")
    assert not (tmp_path / "second").exists()
    assert put(world, fs) == ("a.dll",)
    assert (world.target / "a.dll").read_bytes() == b"ours"
    assert undo(world.target, fs=fs).complete
    assert tree(world.target) == world.start


# On a disk in memory --------------------------------------------------------------------------------


def fat(tmp_path: Path, files: dict[str, bytes]) -> tuple[Path, MemoryFs]:
    """A disk without second names and without case, whose times are in steps of two seconds."""
    target = tmp_path / "app"
    (target / "lib").mkdir(parents=True)
    for name, data in files.items():
        (target / name).write_bytes(data)
    disk = Disk.of(target, folds=True, tick=2_000_000_000)
    return target, MemoryFs(disk, links=False, trades=False)


def item(tmp_path: Path, folder: str, name: str, data: bytes) -> PlacementItem:
    return World(tmp_path / "store of ours").item(folder, name, data)


@pytest.fixture(autouse=True)
def store(tmp_path: Path) -> None:
    (tmp_path / "store of ours").mkdir()


def test_a_name_in_another_case_is_the_same_name(tmp_path: Path) -> None:
    target, fs = fat(tmp_path, {"NVCUDA.DLL": b"theirs"})
    start = fs.disk.state()
    ours = [item(tmp_path, "", "nvcuda.dll", b"ours")]
    assert place(target, ours, **STACK, fs=fs, user=GONE).files == ("NVCUDA.DLL",)
    assert fs.read(target / "nvcuda.dll") == b"ours"
    assert undo(target, fs=fs).complete
    assert fs.disk.state() == start


@pytest.mark.parametrize("deed", ["create", "replace"])
def test_a_file_rewritten_within_one_step_of_the_clock_is_not_taken_for_ours(
    tmp_path: Path, deed: str
) -> None:
    """Same file, size and time: only its bytes tell, so they are read again once it is out of reach."""
    target, fs = fat(tmp_path, {"lib/a.dll": b"theirs"} if deed == "replace" else {})
    place(target, [item(tmp_path, "lib", "a.dll", b"ours!!")], **STACK, fs=fs, user=GONE)

    class Late(MemoryFs):
        def rename_new(self, path: Path, name: Path) -> None:
            if name.parent.name == "trash":
                self.at(path).data = b"saved!"  # by the program, at the last moment
            super().rename_new(path, name)

    late = Late(fs.disk, links=False, trades=False)
    report = undo(target, fs=late)
    assert [left.path for left in report.kept] == ["lib/a.dll"]
    assert late.read(target / "lib" / "a.dll") == b"saved!"
    assert undo(target, fs=fs, mode="ours").complete
    assert b"saved!" in fs.disk.contents()
    assert deed == "create" or fs.read(target / "lib" / "a.dll") == b"theirs"
