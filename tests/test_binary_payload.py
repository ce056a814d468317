"""Packed device code: what is counted in it is what is in it, and no stream costs more than that."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scripts.binary import payload
from scripts.binary.fatbin import Entry, Packing, read_containers
from scripts.binary.image import FileBytes
from scripts.binary.payload import MAX_WHOLE, Opener, Unopened, read_cubin
from tests.fatbins import SASS, container, cubin, entry, ptx, sass

SAMPLES = Path(__file__).parent / "data" / "fatbin"
READELF = shutil.which("readelf")
WAYS = pytest.mark.parametrize("way", ["", "lz4", "zstd"], ids=["open", "lz4", "zstd"])


def kernels(path: Path, number: int = 0) -> int | Unopened:
    """Count the kernels of one entry of a file's first container."""
    with FileBytes(path) as source:
        return Opener(source).kernels(entries(source)[number])


def entries(source: FileBytes) -> tuple[Entry, ...]:
    return read_containers(source, 0, source.size).found[0].entries


def written(folder: Path, *parts: bytes) -> Path:
    path = folder / "code.fatbin"
    path.write_bytes(container(*parts))
    return path


def bomb(size: int) -> bytes:
    """A stream of zeros that grows more than ten thousand times."""
    packer = zstandard.ZstdCompressor().compressobj()
    pieces = [packer.compress(b"\0" * (1 << 20)) for _ in range(size >> 20)]
    return b"".join((*pieces, packer.flush()))


def packed_as(stored: bytes, flag: int, claims: int) -> bytes:
    """An entry with any bytes in it that says of itself what a test wants."""
    body = stored + b"\0" * (-len(stored) % 8)
    head = struct.pack("<HHIQIIHHI", SASS, 0x0101, 64, len(body), len(stored), 0, 8, 1, 86)
    return head + struct.pack("<IIQQQ", 0, 0, 0x11 | flag, 0, claims) + body


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("sass.fatbin", Packing.NONE),
        ("sass-packed.fatbin", Packing.ZSTD),
        ("sass-lz4.fatbin", Packing.LZ4),
    ],
    ids=str,
)
def test_what_nvcc_packed_has_as_many_kernels_as_what_it_left_open(name: str, way: Packing) -> None:
    with FileBytes(SAMPLES / name) as source:
        assert entries(source)[0].packing is way
    assert kernels(SAMPLES / name) == 2


@pytest.mark.posix_only
@pytest.mark.skipif(READELF is None, reason="no readelf here")
@pytest.mark.parametrize("name", ["sass-lz4.fatbin", "sass-packed.fatbin", "letters.fatbin"], ids=str)
def test_unpacked_code_is_what_readelf_can_read(name: str, tmp_path: Path) -> None:
    with FileBytes(SAMPLES / name) as source:
        for number, one in enumerate(entries(source)):
            if one.kind != "sass":
                continue
            whole = Opener(source).head(one, MAX_WHOLE)
            assert isinstance(whole, bytes)
            (tmp_path / "one.cubin").write_bytes(whole)
            command = [str(READELF), "-SW", "one.cubin"]
            shown = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False).stdout
            assert kernels(SAMPLES / name, number) == shown.count(" .text.") > 0


@WAYS
@pytest.mark.parametrize("first", [True, False], ids=["names-first", "names-last"])
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(number=st.integers(0, 40))
def test_however_code_is_packed_its_kernels_are_counted(
    tmp_path: Path, way: str, first: bool, number: int
) -> None:
    code = cubin(90, [f"_Z3k{n}v" for n in range(number)], names_first=first)
    assert kernels(written(tmp_path, entry(SASS, 90, code, way=way))) == number


@WAYS
def test_a_table_of_names_longer_than_the_first_look_is_read_on(tmp_path: Path, way: str) -> None:
    names = [f"kernel_with_a_long_name_{n:06}_{'x' * 80}" for n in range(1500)]
    assert kernels(written(tmp_path, sass(90, names, way=way))) == 1500


@pytest.mark.parametrize(
    ("part", "reason", "damaged"),
    [
        (packed_as(b"\xff" * 64, 1 << 13, 512), "its LZ4 data is damaged", True),
        (packed_as(b"", 1 << 13, 512), "its LZ4 data is damaged", True),
        (entry(SASS, 86, cubin(86), way="lz4", claims=100), "its LZ4 data is damaged", True),
        (entry(SASS, 86, cubin(86), way="lz4", claims=0), "its LZ4 data is damaged", True),
        (entry(SASS, 86, cubin(86), way="lz4", claims=4096), "its LZ4 data has another size", True),
        (entry(SASS, 86, cubin(86), way="lz4", claims=1 << 27), "it is larger than 64 MiB", False),
        (entry(SASS, 86, cubin(86), way="lz4", claims=1 << 25), "it unpacks to more than 16 MiB", False),
        (entry(SASS, 86, b"no code at all" * 9, way="lz4"), "something else than machine code", True),
        (packed_as(b"\xff" * 64, 1 << 15, 512), "its zstd data is damaged", True),
        (packed_as(zstandard.compress(cubin(86))[:60], 1 << 15, 512), "ends too early", True),
        (packed_as(b"", 1 << 15, 512), "ends too early", True),
        (entry(SASS, 86, cubin(86), way="zstd", claims=0), "ends too early", True),
        (entry(SASS, 86, cubin(86), way="zstd", claims=1 << 20), "ends too early", True),
        (packed_as(bomb(1 << 28), 1 << 15, 1 << 28), "something else than machine code", True),
        (packed_as(b"\x28\xb5\x2f\xfd\x00\xf8" + b"\0" * 32, 1 << 15, 512), "its zstd data is damaged", True),
        (packed_as(b"?" * 64, 0, 512), "packed in a way that is not known", True),
    ],
    ids=[
        "lz4-noise",
        "lz4-nothing",
        "lz4-claims-less",
        "lz4-claims-none",
        "lz4-claims-more",
        "lz4-claims-huge",
        "lz4-claims-too-much",
        "lz4-text",
        "zstd-noise",
        "zstd-cut",
        "zstd-nothing",
        "zstd-claims-none",
        "zstd-claims-more",
        "zstd-bomb",
        "zstd-window-of-terabytes",
        "unknown-way",
    ],
)
def test_what_cannot_be_opened_says_why(tmp_path: Path, part: bytes, reason: str, damaged: bool) -> None:
    found = kernels(written(tmp_path, part))
    assert isinstance(found, Unopened)
    assert reason in found.reason
    assert found.damaged is damaged


def test_a_bomb_that_looks_like_code_is_opened_no_further_than_its_file_allows(tmp_path: Path) -> None:
    packer = zstandard.ZstdCompressor().compressobj()
    stream = packer.compress(cubin(86, names_first=False)) + packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    stream += b"".join(packer.compress(b"\0" * (1 << 20)) for _ in range(64)) + packer.flush()
    path = written(tmp_path, packed_as(stream, 1 << 15, 1 << 26))
    assert path.stat().st_size < 1 << 16
    assert kernels(path) == Unopened(reason="it unpacks to more than 16 MiB", damaged=False)


def test_all_of_a_file_together_costs_no_more_than_it_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"{'k' * 900}{number}" for number in range(300)]
    monkeypatch.setattr(payload, "_LEAST_BUDGET", 1 << 16)
    path = written(tmp_path, *(sass(86, names, way="lz4") for _ in range(50)))
    with FileBytes(path) as source:
        opener = Opener(source)
        found = [opener.kernels(one) for one in entries(source)]
    assert found[0] == 300
    assert found[-1] == Unopened(reason="it unpacks to more than 1 MiB", damaged=False)


def test_only_so_many_entries_are_looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payload, "MAX_LOOKS", 3)
    parts = (sass(86), entry(16, 86, cubin(86), way="zstd"), sass(86, way="lz4"), sass(86), sass(86))
    with FileBytes(written(tmp_path, *parts, entry(16, 86, cubin(86)))) as source:
        opener = Opener(source)
        first, odd, *rest, last = entries(source)
        assert (opener.kernels(first), opener.told(odd).kind) == (1, "sass")
        too_many = Unopened(reason="the file has more than 3 entries", damaged=False)
        assert [opener.kernels(one) for one in rest] == [1, too_many, too_many]
        assert opener.told(last).kind == "unknown"


def test_only_the_beginning_of_a_stream_is_unpacked(tmp_path: Path) -> None:
    """A cubin's names come first: what follows is neither read nor known to be sound."""
    code = cubin(86, ["a", "b"]) + bytes(range(256)) * 8192
    stored = bytearray(zstandard.compress(code, 1))
    stored[-8:] = b"\xff" * 8
    assert kernels(written(tmp_path, packed_as(bytes(stored), 1 << 15, len(code)))) == 2


@pytest.mark.parametrize(
    ("data", "kind", "isa"),
    [(cubin(90), "sass", ""), (b".version 8.3\n.target sm_90a\n", "ptx", "8.3"), (b"?" * 99, "unknown", "")],
    ids=["sass", "ptx", "neither"],
)
@WAYS
def test_a_kind_without_a_name_is_told_by_its_bytes(
    tmp_path: Path, way: str, data: bytes, kind: str, isa: str
) -> None:
    with FileBytes(written(tmp_path, entry(16, 90, data, way=way))) as source:
        told = Opener(source).told(entries(source)[0])
    assert (told.kind, told.isa, told.sm) == (kind, isa, 90)


def test_the_letter_after_a_processors_number_is_read() -> None:
    with FileBytes(SAMPLES / "letters.fatbin") as source:
        found = [(e.kind, f"sm_{e.sm}{e.letter}") for e in entries(source)]
        named = [Opener(source).head(e, 1 << 16) for e in entries(source)]
    assert found == [
        ("ptx", "sm_90a"),
        ("sass", "sm_90a"),
        ("sass", "sm_100a"),
        ("ptx", "sm_100f"),
        ("sass", "sm_100f"),
        ("sass", "sm_103a"),
        ("sass", "sm_120f"),
    ]
    for (_kind, target), code in zip(found, named, strict=True):
        assert isinstance(code, bytes)
        assert target.encode() in code, "the assembler's own words in the code say the same"


def test_a_bare_cubin_says_its_letter_in_the_assemblers_note(tmp_path: Path) -> None:
    with FileBytes(SAMPLES / "letters.cubin") as source:
        new = read_cubin(source, source.size)
    assert new is not None
    assert (new.sm, new.letter) == (100, "f")
    old = tmp_path / "old.cubin"
    old.write_bytes(cubin(0x80000 | 0x800 | 90))
    with FileBytes(old) as source:
        known = read_cubin(source, source.size)
    assert known is not None
    assert (known.sm, known.letter) == (90, "a")


@pytest.mark.slow
@WAYS
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_payload_gets_an_answer(tmp_path: Path, way: str, data: st.DataObject) -> None:
    whole = bytearray(container(ptx(way=way), sass(90, ["a", "b"], way=way)))
    for _ in range(data.draw(st.integers(1, 5))):
        place = data.draw(st.integers(16, len(whole) - 1))
        whole[place] = data.draw(st.integers(0, 255))
    path = tmp_path / "code.fatbin"
    path.write_bytes(bytes(whole))
    with FileBytes(path) as source:
        opener = Opener(source)
        for one in read_containers(source, 0, source.size).found[0].entries:
            opener.told(one)
            found = opener.kernels(one)
            assert isinstance(found, Unopened) or 0 <= found <= source.size
