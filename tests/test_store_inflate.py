"""What a zip holds comes out byte for byte, wherever the packed data and the pieces we take end."""

from __future__ import annotations

import hashlib
import random
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from scripts.errors import ArchiveError
from scripts.store.entries import Limits
from scripts.store.zip_reader import read_contents, unpack_zip

PIECE = 64 * 1024
SIZES = (0, 1, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, 3 * PIECE + 7, 700_001)
RANDOM = random.Random(1)  # noqa: S311 - the same noise each time
KINDS: dict[str, Callable[[int], bytes]] = {
    "zeros": bytes,
    "noise": RANDOM.randbytes,
    "letters": lambda size: bytes(RANDOM.choices(b"abcdefgh", k=size)),
    "rows": lambda size: (b"".join(b"%d,%d\n" % (n, n * n) for n in range(size // 8 + 1)))[:size],
}


def nothing(_amount: int) -> None:
    """Show nothing."""


@pytest.mark.slow
@pytest.mark.parametrize("level", [0, 1, 6, 9])
def test_every_byte_comes_out(tmp_path: Path, level: int) -> None:
    bodies = {f"{kind}-{size}": make(size) for kind, make in KINDS.items() for size in SIZES}
    blob = tmp_path / "a.zip"
    with zipfile.ZipFile(blob, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as archive:
        for name, body in bodies.items():
            archive.writestr(name, body)
    (tmp_path / "out").mkdir()
    done = unpack_zip(read_contents(blob, Limits()), blob, tmp_path / "out", nothing)
    assert {one.path: (one.size, one.sha256) for one in done} == {
        name: (len(body), hashlib.sha256(body).hexdigest()) for name, body in bodies.items()
    }
    assert all((tmp_path / "out" / name).read_bytes() == body for name, body in bodies.items())


@pytest.mark.slow
@pytest.mark.parametrize("cut", [7, 100, PIECE], ids=str)
def test_packed_data_that_ends_early_is_refused(tmp_path: Path, cut: int) -> None:
    """The directory is as it was; only the stream's end is gone, and something else stands there."""
    blob = tmp_path / "a.zip"
    with zipfile.ZipFile(blob, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", KINDS["letters"](4 * PIECE))
        info = archive.getinfo("a")
        end = info.header_offset + 30 + 1 + info.compress_size
    data = bytearray(blob.read_bytes())
    data[end - cut : end] = bytes(cut)
    blob.write_bytes(data)
    (tmp_path / "out").mkdir()
    with pytest.raises(ArchiveError):
        unpack_zip(read_contents(blob, Limits()), blob, tmp_path / "out", nothing)
