"""Containers of device code: what nvcc wrote is what is read, and damage is said."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from scripts.binary.elf import read_elf
from scripts.binary.fatbin import Containers, Packing, read_containers
from scripts.binary.image import FileBytes, Image
from scripts.binary.payload import read_cubin, read_ptx
from tests.fatbins import container, entry, ptx, sass

SAMPLES = Path(__file__).parent / "data" / "fatbin"
#: As cuobjdump lists them; see the README beside the samples.
LISTED = {
    "ptx-packed.fatbin": {("ptx", 75): 1},
    "ptx-plain.fatbin": {("ptx", 86): 1},
    "sass.fatbin": {("sass", 86): 1},
    "sass-packed.fatbin": {("sass", 86): 1},
    "both.fatbin": {("ptx", 75): 1, ("sass", 86): 1},
}
NVCC = shutil.which("nvcc")
needs_nvcc = pytest.mark.skipif(NVCC is None, reason="no nvcc here")
PROGRAM = (
    "__global__ void twice(float*p){*p*=2;}\n"
    "int main(){float*p;cudaMalloc(&p,4);twice<<<1,1>>>(p);return cudaGetLastError();}\n"
)


def read(path: Path, start: int = 0, size: int | None = None) -> Containers:
    with FileBytes(path) as source:
        return read_containers(source, start, source.size if size is None else size)


def entries(found: Containers) -> Counter[tuple[str, int]]:
    return Counter((e.kind, e.sm) for c in found.found for e in c.entries)


@pytest.mark.parametrize("name", LISTED, ids=str)
def test_samples_hold_what_cuobjdump_lists(name: str) -> None:
    found = read(SAMPLES / name)
    assert found.complete
    assert entries(found) == LISTED[name]


def test_the_ptx_version_is_read_as_in_the_text() -> None:
    text = (SAMPLES / "twice.ptx").read_bytes()
    entry_of_text = read_ptx(text)
    assert entry_of_text is not None
    assert f".version {entry_of_text.isa}".encode() in text
    packed = read(SAMPLES / "ptx-packed.fatbin").found[0].entries[0]
    assert (packed.isa, packed.packing) == (entry_of_text.isa, Packing.ZSTD)


def test_a_cubin_says_its_processor_in_old_and_new_form(tmp_path: Path) -> None:
    with FileBytes(SAMPLES / "twice.cubin") as source:
        new = read_cubin(source, source.size)
    assert new is not None
    assert (new.kind, new.sm) == ("sass", 86)
    old_form = bytearray((SAMPLES / "twice.cubin").read_bytes())
    old_form[8] = 7
    old_form[48:52] = struct.pack("<I", 0x560556)
    path = tmp_path / "old.cubin"
    path.write_bytes(old_form)
    with FileBytes(path) as source:
        old = read_cubin(source, source.size)
    assert old is not None
    assert old.sm == 86


def test_containers_follow_each_other_with_gaps_between(tmp_path: Path) -> None:
    path = tmp_path / "many"
    parts = [container(ptx(80), sass(86)), b"\0" * 24, container(), container(sass(90)), b"x" * 70_000]
    path.write_bytes(b"".join(p + b"\0" * (-len(p) % 8) for p in parts) + container(ptx(75)))
    found = read(path)
    assert [len(c.entries) for c in found.found] == [2, 0, 1, 1]
    assert entries(found) == {("ptx", 80): 1, ("sass", 86): 1, ("sass", 90): 1, ("ptx", 75): 1}


def test_a_magic_that_is_not_aligned_is_no_container(tmp_path: Path) -> None:
    path = tmp_path / "odd"
    path.write_bytes(b"\0" * 4 + container(ptx()))
    assert not read(path).found


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (container(sass())[:-64], "ends after its section"),
        (b"\x50\xed\x55\xba\x02\x00" + container(sass())[6:], "version 2"),
        (
            container(struct.pack("<HHIQIIHHI", 2, 0x101, 0, 0, 0, 0, 0, 0, 86) + b"\0" * 32),
            "size is damaged",
        ),
        (
            container(struct.pack("<HHIQIIHHI", 2, 0x101, 64, 1 << 40, 0, 0, 0, 0, 86) + b"\0" * 32),
            "larger than the container",
        ),
    ],
    ids=["cut", "newer", "no-size", "huge"],
)
def test_damage_is_said_and_ends_the_reading(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "damaged"
    path.write_bytes(data)
    found = read(path)
    assert not found.complete
    assert any(words in c.fault for c in found.found)


def test_an_unknown_kind_of_entry_stays_unknown(tmp_path: Path) -> None:
    path = tmp_path / "new"
    path.write_bytes(container(entry(9, 200, b"?" * 16)))
    found = read(path)
    assert [e.kind for e in found.found[0].entries] == ["unknown"]


@needs_nvcc
@pytest.mark.proof
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["-gencode", "arch=compute_75,code=compute_75"], {("ptx", 75)}),
        (["-gencode", "arch=compute_86,code=sm_86"], {("sass", 86)}),
        (
            ["-gencode", "arch=compute_86,code=[sm_86,compute_86]", "--no-compress"],
            {("ptx", 86), ("sass", 86)},
        ),
    ],
    ids=["ptx", "sass", "both-plain"],
)
def test_programs_made_by_nvcc(tmp_path: Path, options: list[str], expected: set[tuple[str, int]]) -> None:
    (tmp_path / "p.cu").write_text(PROGRAM, encoding="utf-8")
    assert NVCC is not None
    subprocess.run(
        [NVCC, "-cudart", "shared", *options, "-o", "p", "p.cu"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    image = read_elf(tmp_path / "p")
    assert isinstance(image, Image)
    section = next(s for s in image.sections if s.name == ".nv_fatbin")
    found = read(tmp_path / "p", section.offset, section.size)
    assert found.complete
    assert set(entries(found)) == expected


@needs_nvcc
@pytest.mark.proof
def test_code_for_linking_lies_in_a_section_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "p.cu").write_text(PROGRAM, encoding="utf-8")
    assert NVCC is not None
    options = ["-rdc=true", "-gencode", "arch=compute_86,code=[sm_86,compute_86]"]
    subprocess.run(
        [NVCC, "-cudart", "shared", *options, "-o", "p", "p.cu"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    image = read_elf(tmp_path / "p")
    assert isinstance(image, Image)
    by_section = {
        s.name: set(entries(read(tmp_path / "p", s.offset, s.size)))
        for s in image.sections
        if s.name in {".nv_fatbin", "__nv_relfatbin"}
    }
    assert ("ptx", 86) in by_section["__nv_relfatbin"]
    assert ("ptx", 86) not in by_section[".nv_fatbin"], "linking leaves machine code alone to be loaded"
