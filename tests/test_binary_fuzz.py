"""Whatever lies in a file, the readers answer: no crash, no hang, no huge allocation."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scripts.preflight.look import look
from scripts.preflight.needs import FileFacts
from tests.elf_files import elf
from tests.fatbins import container, entry, ptx, sass
from tests.pe_files import pe

pytestmark = pytest.mark.proof

CORPUS = Path(__file__).parent / "data" / "fuzz"
SEEDS = {
    "x.dll": pe(
        imports={"nvcuda.dll": ["cuInit", "#3"], "kernel32.dll": ["LoadLibraryA"]},
        delayed={"cublas64_12.dll": ["cublasCreate_v2"]},
        exports={"a": "", "b": "cudart64_12.cudaMalloc"},
        sections={".nv_fatb": container(ptx(), sass()) + container(sass(90))},
        manifest="<m/>",
        managed=["nvcuda"],
        load_flags=0x800,
    ),
    "x.so": elf(
        needed=["libcuda.so.1"],
        undefined=["cuInit"],
        defined=["f"],
        rpath="$ORIGIN",
        sections={".nv_fatbin": container(ptx(), sass()), ".rodata": b"libcublas.so.12\0"},
    ),
    "x.fatbin": container(ptx(way="zstd"), sass())
    + container(sass(90, way="zstd"), sass(86))
    + container(sass(89, way="lz4"))
    + container(entry(16, 90, b".version 8.0\n.target sm_90a\n", way="lz4")),
    "x.cubin": (Path(__file__).parent / "data" / "fatbin" / "twice.cubin").read_bytes(),
    "x.ptx": (Path(__file__).parent / "data" / "fatbin" / "twice.ptx").read_bytes(),
}
#: Numbers that sizes, counts and offsets go wrong with.
EVIL = st.sampled_from(
    [
        b"\0" * 8,
        b"\xff" * 8,
        b"\xff" * 4,
        b"\x00\x00\x00\x80",
        b"\xff\xff\xff\x7f",
        b"\x01",
        b"\x50\xed\x55\xba",
    ]
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


def answers(folder: Path, name: str, data: bytes) -> FileFacts:
    path = folder / name
    path.write_bytes(data)
    tracemalloc.start()
    try:
        facts = look(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16 << 20, f"{peak} bytes for a file of {len(data)}"
    return facts


@pytest.mark.parametrize("name", SEEDS, ids=str)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_damaged_file_gets_an_answer(folder: Path, name: str, data: st.DataObject) -> None:
    damaged = bytearray(SEEDS[name])
    for _ in range(data.draw(st.integers(1, 6))):
        place = data.draw(st.integers(0, len(damaged) - 1))
        piece = data.draw(st.one_of(EVIL, st.binary(min_size=1, max_size=8)))
        damaged[place : place + len(piece)] = piece
    cut = data.draw(st.one_of(st.just(len(damaged)), st.integers(0, len(damaged))))
    answers(folder, name, bytes(damaged[:cut]))


@pytest.mark.parametrize("name", SEEDS, ids=str)
def test_a_file_that_ends_anywhere_gets_an_answer(folder: Path, name: str) -> None:
    whole = SEEDS[name]
    for cut in range(0, len(whole), max(1, len(whole) // 60)):
        answers(folder, name, whole[:cut])


@pytest.mark.parametrize(
    "path", sorted(p for p in CORPUS.iterdir() if p.suffix != ".md"), ids=lambda p: p.name
)
def test_what_fuzzing_found_gets_an_answer(folder: Path, path: Path) -> None:
    suffix = path.suffix if path.suffix in {".fatbin", ".cubin", ".ptx"} else ".dll"
    answers(folder, f"found{suffix}", path.read_bytes())


def test_tables_that_point_at_themselves_do_not_multiply_the_work(folder: Path) -> None:
    """A thousand libraries may share one list of sixty thousand functions."""
    thunks = pe(imports={"a.dll": [f"f{n}" for n in range(200)]})
    rows = int.from_bytes(thunks[64 + 24 + 112 + 8 : 64 + 24 + 112 + 12], "little") - 0x1000 + 0x200
    row = thunks[rows : rows + 20]
    crowded = bytearray(
        pe(imports={"a.dll": [f"f{n}" for n in range(200)]}, sections={".more": row * 60_000})
    )
    place = 64 + 24 + 112 + 8
    crowded[place : place + 4] = (0x1000 + (-(-len(thunks) // 0x1000)) * 0x1000).to_bytes(4, "little")
    facts = answers(folder, "crowded.dll", bytes(crowded))
    assert sum(len(a.functions) for a in facts.asks) <= 65_536
