"""PE and ELF files are read as independent readers read them."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pefile
import pytest

from scripts.binary.image import FileBytes, Format, Image, Unreadable, read_image
from scripts.binary.strings import sweep
from tests.elf_files import elf
from tests.pe_files import BASE, pe

MINGW = shutil.which("x86_64-w64-mingw32-gcc")
DLLTOOL = shutil.which("x86_64-w64-mingw32-dlltool")
GCC = shutil.which("gcc") if sys.platform == "linux" else None
needs_mingw = pytest.mark.skipif(MINGW is None or DLLTOOL is None, reason="no mingw here")
needs_gcc = pytest.mark.skipif(GCC is None or not shutil.which("readelf"), reason="no gcc and readelf here")


def image_of(path: Path, data: bytes | None = None, *, exports: bool = False) -> Image:
    if data is not None:
        path.write_bytes(data)
    image = read_image(path, exports=exports)
    assert isinstance(image, Image), image
    return image


def run(*words: str, cwd: Path) -> str:
    return subprocess.run(words, cwd=cwd, check=True, capture_output=True, text=True, encoding="utf-8").stdout


def test_a_pe_file_tells_all_it_asks_for(tmp_path: Path) -> None:
    data = pe(
        imports={"nvcuda.dll": ["cuInit", "#7"], "KERNEL32.dll": ["LoadLibraryA"]},
        delayed={"cublas64_12.dll": ["cublasCreate_v2"]},
        exports={"plain": "", "passed": "cudart64_12.cudaMalloc"},
        manifest='<requestedExecutionLevel level="requireAdministrator"/>',
        managed=["nvcuda", "Main"],
        flags=0x80,
        load_flags=0x800,
        overlay=b"behind the sections",
    )
    image = image_of(tmp_path / "all.dll", data, exports=True)
    assert [(n.library, n.functions, n.delayed) for n in image.needed] == [
        ("nvcuda.dll", ("cuInit", "#7"), False),
        ("KERNEL32.dll", ("LoadLibraryA",), False),
        ("cublas64_12.dll", ("cublasCreate_v2",), True),
    ]
    assert image.format is Format.PE
    assert (image.machine, image.library, image.managed) == ("x86_64", True, True)
    assert (image.exports, image.forwards) == (("plain", "passed"), ("cudart64_12",))
    assert "requireAdministrator" in image.manifest
    assert image.force_integrity
    assert image.system_only
    assert "#Strings" in {s.name for s in image.sections}
    assert not image.faults


@pytest.mark.slow
def test_a_delay_table_as_pefile_reads_it(tmp_path: Path) -> None:
    data = pe(delayed={"cublas64_12.dll": ["cublasCreate_v2", "#12"], "cudnn64_9.dll": ["cudnnCreate"]})
    with pefile.PE(data=data) as other:
        expected = [
            (e.dll.decode(), tuple(i.name.decode() if i.name else f"#{i.ordinal}" for i in e.imports))
            for e in other.DIRECTORY_ENTRY_DELAY_IMPORT
        ]
    image = image_of(tmp_path / "delayed.dll", data)
    assert [(n.library, n.functions) for n in image.needed if n.delayed] == expected


def test_an_old_delay_table_holds_addresses(tmp_path: Path) -> None:
    data = bytearray(pe(delayed={"nvcuda.dll": ["cuInit"]}))
    address = pefile.PE(data=bytes(data), fast_load=True).OPTIONAL_HEADER.DATA_DIRECTORY[13].VirtualAddress
    place = address - 0x1000 + 0x200
    fields = list(struct.unpack_from("<8I", data, place))
    low = BASE & 0xFFFFFFFF
    moved = [0] + [f + low if f else 0 for f in fields[1:]]
    struct.pack_into("<8I", data, place, *moved)
    header = struct.unpack_from("<I", data, 0x3C)[0] + 24 + 24
    struct.pack_into("<Q", data, header, low)  # such files lie in the lower 4 GB
    thunks = fields[4] - 0x1000 + 0x200
    struct.pack_into("<Q", data, thunks, struct.unpack_from("<Q", data, thunks)[0] + low)
    image = image_of(tmp_path / "old.dll", bytes(data))
    assert [(n.library, n.functions) for n in image.needed] == [("nvcuda.dll", ("cuInit",))]


@needs_mingw
def test_a_program_made_by_mingw_as_pefile_and_objdump_read_it(tmp_path: Path) -> None:
    (tmp_path / "nvcuda.def").write_text(
        "LIBRARY nvcuda.dll\nEXPORTS\ncuInit\ncuMemAlloc_v2\n", encoding="utf-8"
    )
    (tmp_path / "p.c").write_text(
        "int cuInit(int);int cuMemAlloc_v2(void);\n"
        'const char *later = "cudnn64_9.dll";\n'
        "int main(){return cuInit(0)+cuMemAlloc_v2()+later[0];}\n",
        encoding="utf-8",
    )
    assert DLLTOOL is not None
    assert MINGW is not None
    run(DLLTOOL, "-d", "nvcuda.def", "-l", "libnvcuda.a", cwd=tmp_path)
    run(MINGW, "-o", "p.exe", "p.c", "libnvcuda.a", cwd=tmp_path)
    image = image_of(tmp_path / "p.exe")
    with pefile.PE(str(tmp_path / "p.exe")) as other:
        imported = {
            (e.dll.decode(), tuple(i.name.decode() for i in e.imports), False)
            for e in other.DIRECTORY_ENTRY_IMPORT
        }
    assert {(n.library, n.functions, n.delayed) for n in image.needed} == imported
    assert {"cuInit", "cuMemAlloc_v2"} in [set(f) for name, f, _ in imported if name == "nvcuda.dll"]
    shown = run("x86_64-w64-mingw32-objdump", "-p", "p.exe", cwd=tmp_path)
    names = re.findall(r"DLL Name: (\S+)", shown)
    assert [n.library for n in image.needed if not n.delayed] == names
    assert (image.machine, image.library, image.gui) == ("x86_64", False, False)


@needs_gcc
def test_a_library_made_by_gcc_as_readelf_and_nm_read_it(tmp_path: Path) -> None:
    (tmp_path / "cuda.c").write_text("int cuInit(int x){return x;}\n", encoding="utf-8")
    (tmp_path / "p.c").write_text("int cuInit(int);int f(void){return cuInit(0);}\n", encoding="utf-8")
    assert GCC is not None
    run(GCC, "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", "libcuda.so.1", "cuda.c", cwd=tmp_path)
    link = ["-Wl,--disable-new-dtags,-rpath,$ORIGIN/lib:/opt/x", "-Wl,-soname,p.so"]
    run(GCC, "-shared", "-fPIC", *link, "-o", "p.so", "p.c", "./libcuda.so.1", cwd=tmp_path)
    image = image_of(tmp_path / "p.so")
    shown = run("readelf", "-dW", "p.so", cwd=tmp_path)
    assert [n.library for n in image.needed] == re.findall(r"\(NEEDED\).*\[(.*)\]", shown)
    assert image.rpath == tuple(re.findall(r"\(RPATH\).*\[(.*)\]", shown)[0].split(":"))
    assert image.runpath == ()
    assert image.soname == "p.so"
    undefined = re.findall(r"[Uw] (\w+)", run("nm", "-D", "--undefined-only", "p.so", cwd=tmp_path))
    assert sorted(image.undefined) == sorted(undefined)
    assert "f" in image.exports
    sections = re.findall(
        r"\] (\S+) +(?!NOBITS|NULL)[A-Z]\S+ +\S+ (\S+) (\S+)", run("readelf", "-SW", "p.so", cwd=tmp_path)
    )
    assert {(s.name, s.offset, s.size) for s in image.sections} == {
        (name, int(at, 16), int(size, 16)) for name, at, size in sections
    }


def test_an_elf_file_without_sections_still_tells_what_it_needs(tmp_path: Path) -> None:
    data = bytearray(elf(needed=["libcuda.so.1"], runpath="$ORIGIN", soname="x.so"))
    struct.pack_into("<Q", data, 40, 0)
    struct.pack_into("<HH", data, 60, 0, 0)
    image = image_of(tmp_path / "x.so", bytes(data))
    assert ([n.library for n in image.needed], image.runpath, image.sections) == (
        ["libcuda.so.1"],
        ("$ORIGIN",),
        (),
    )


def test_a_program_is_told_from_a_library_by_its_interpreter(tmp_path: Path) -> None:
    assert not image_of(tmp_path / "p", elf(program=True)).library
    assert image_of(tmp_path / "l", elf()).library


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "an empty file"),
        (b"MZ", "no PE"),
        (b"#!/bin/sh\n", "a script for sh"),
        (b"MZ" + b"\xff" * 400, "no PE"),
        (b"\x7fELF", "damaged"),
        (b"\x7fELF\x02\x01\x01" + b"\xff" * 60, "damaged"),
    ],
    ids=["empty", "dos", "script", "pe-garbage", "elf-magic", "elf-garbage"],
)
def test_what_is_no_program_is_a_value_that_says_so(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "x"
    path.write_bytes(data)
    read = read_image(path)
    if isinstance(read, Image):
        pytest.fail(f"{data[:8]!r} was taken for a program")
    assert words in read.reason


def test_a_file_that_is_not_there_is_a_value_as_well(tmp_path: Path) -> None:
    assert isinstance(read_image(tmp_path / "none"), Unreadable)
    assert isinstance(read_image(tmp_path), Unreadable)


@pytest.mark.slow
@pytest.mark.parametrize("value", [2**44, 2**55, 2**62, 2**63 - 1, 2**63, 2**64 - 1], ids=hex)
def test_damage_anywhere_in_an_elf_file_is_called_damage(tmp_path: Path, value: int) -> None:
    """Every eight bytes in turn become an enormous number; no answer is the system's own word for it."""
    whole = elf(needed=["libcuda.so.1"], defined=["f"], sections={"x": b"abc"})
    reasons = set()
    for at in range(8, len(whole) - 8, 8):
        (tmp_path / "x.so").write_bytes(whole[:at] + struct.pack("<Q", value) + whole[at + 8 :])
        image = read_image(tmp_path / "x.so")
        reasons |= {image.reason} if isinstance(image, Unreadable) else set()
    assert any("damaged" in reason or "beyond" in reason for reason in reasons)
    assert not {reason for reason in reasons if "cannot be read" in reason}


def test_a_section_that_ends_after_the_file_is_cut_and_said(tmp_path: Path) -> None:
    data = pe(sections={".nv_fatb": b"x" * 0x400})[:-0x200]
    image = image_of(tmp_path / "cut.dll", data)
    section = next(s for s in image.sections if s.name == ".nv_fatb")
    assert section.offset + section.size == len(data)
    assert image.faults == ("section .nv_fatb ends after the file does",)


def test_names_of_libraries_are_found_in_every_spelling_and_across_pieces(tmp_path: Path) -> None:
    lead = b"\0" * ((1 << 20) - 5)
    data = (
        b"NVCUDA.DLL\0C:\\x\\cublas64_12.dll\0\0\0"
        + "cudnn64_9.dll".encode("utf-16-le")
        + b"\0\0libcuda.so.1\0"
    )
    path = tmp_path / "text.dll"
    path.write_bytes(pe(sections={".data": lead + data}))
    image = image_of(path)
    with FileBytes(path) as source:
        swept = sweep(source, image.sections, Format.PE, {"mark": b"cublas64"})
    assert {"nvcuda.dll", "cublas64_12.dll", "cudnn64_9.dll"} <= swept.names
    assert len(swept.hits["mark"]) == 1, "pieces overlap, places must not be told twice"
    assert path.read_bytes()[swept.hits["mark"][0] :].startswith(b"cublas64")


def test_names_of_linux_libraries_keep_case_and_version(tmp_path: Path) -> None:
    path = tmp_path / "text.so"
    path.write_bytes(
        elf(sections={".rodata": b"libcuda.so.1\0/opt/libcublasLt.so.12.3\0libnccl.so\0x.dll\0"})
    )
    with FileBytes(path) as source:
        swept = sweep(source, image_of(path).sections, Format.ELF)
    assert {"libcuda.so.1", "libcublasLt.so.12.3", "libnccl.so"} == swept.names


def test_more_names_than_any_program_has_are_cut_and_said(tmp_path: Path) -> None:
    path = tmp_path / "names.dll"
    path.write_bytes(pe(sections={".data": b"".join(b"lib%d.dll\0" % n for n in range(5000))}))
    with FileBytes(path) as source:
        swept = sweep(source, image_of(path).sections, Format.PE)
    assert len(swept.names) == 4096
    assert not swept.complete
