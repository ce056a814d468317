"""``stage`` repairs: what was changed in the store becomes what it was."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.checkout import Checkout, make_checkout
from tests.small_stack import small_stack


def test_what_we_built_ourselves_is_built_anew(tmp_path: Path) -> None:
    checkout = make_checkout(tmp_path)
    staged = checkout.json("stage", "--stack=cpu-reference")
    library = min(Path(staged["path"]).iterdir())
    before = library.read_bytes()
    library.chmod(0o755)
    library.write_bytes(b"changed in place: the build behind it is the same file under another name")
    assert checkout.json("stage", "--stack=cpu-reference")["digest"] == staged["digest"]
    assert library.read_bytes() == before


@pytest.mark.parametrize("task", ["stage", "setup"])
@pytest.mark.parametrize("how", ["changed", "rotten", "vanished"])
def test_what_was_unpacked_is_unpacked_anew(checkout: Checkout, tmp_path: Path, task: str, how: str) -> None:
    small = small_stack(tmp_path)
    checkout.cache = tmp_path / "own store"
    words = (task, "--stack=small", "--yes", f"--mirror={small.mirror}")
    checkout.json("stage", *words[1:], env=small.env)
    [library] = [path for path in checkout.cache.glob("runtimes-v1/*/*") if path.is_file()][:1]
    before = library.read_bytes()
    spoil(library, how)
    done = checkout.run(*words, env=small.env)
    assert library.name in done.stderr
    assert library.read_bytes() == before
    again = checkout.run(*words, env=small.env)
    assert "anew" not in again.stderr


def spoil(library: Path, how: str) -> None:
    """Damage a file where it lies; its other names in the store are damaged with it."""
    library.chmod(0o755)
    if how == "vanished":
        library.unlink()
        return
    seen = library.stat()
    data = library.read_bytes()
    library.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    if how == "rotten":  # neither size nor time tells
        os.utime(library, ns=(seen.st_atime_ns, seen.st_mtime_ns))
