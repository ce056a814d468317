"""``stage`` repairs: what was changed in the store becomes what it was."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from scripts.staging.runtimes import activate
from tests.checkout import Checkout, make_checkout
from tests.small_stack import small_stack

pytestmark = pytest.mark.proof


def test_what_we_built_ourselves_is_built_anew(tmp_path: Path) -> None:
    checkout = make_checkout(tmp_path)
    staged = checkout.json("stage", "--stack=cpu-reference")
    library = min(Path(staged["path"]).iterdir())
    before = library.read_bytes()
    library.chmod(0o755)
    library.write_bytes(b"changed in place: the build behind it is the same file under another name")
    assert checkout.json("stage", "--stack=cpu-reference")["digest"] == staged["digest"]
    assert library.read_bytes() == before


@pytest.mark.parametrize(
    ("task", "how"), [("stage", "changed"), ("stage", "rotten"), ("setup", "rotten"), ("setup", "vanished")]
)
def test_what_was_unpacked_is_unpacked_anew(checkout: Checkout, tmp_path: Path, task: str, how: str) -> None:
    small = small_stack(tmp_path)
    own_store(checkout, tmp_path)
    words = (task, "--stack=small", "--yes", f"--mirror={small.mirror}")
    staged = checkout.json("stage", *words[1:], env=small.env)
    library = min(path for path in Path(staged["path"]).iterdir() if path.is_file())
    before = library.read_bytes()
    spoil(library, how)
    done = checkout.run(*words, env=small.env)
    assert library.name in done.stderr
    assert task == "setup" or "made again" in done.stdout, "what is no CUDA layer is not set up in the end"
    assert library.read_bytes() == before
    again = checkout.run(*words, env=small.env)
    assert "made again" not in again.stderr


@pytest.mark.parametrize("behind", ["blobs-v1/**/*", "trees-v1/*/layer/cuda_check"], ids=["archive", "tree"])
def test_what_lies_behind_a_runtime_is_repaired_by_the_command_that_verify_names(
    checkout: Checkout, tmp_path: Path, behind: str
) -> None:
    small = small_stack(tmp_path)
    own_store(checkout, tmp_path)
    checkout.extra = small.env
    staged = checkout.json("stage", "--stack=small", "--yes", f"--mirror={small.mirror}")
    activate(checkout.root / "stage", stack="small", digest=staged["digest"], lock="", reason="a test")
    [file] = [path for path in checkout.cache.glob(behind) if path.is_file() and not path.suffix]
    data = file.read_bytes()
    file.chmod(0o644)
    file.unlink()  # under this name only: the runtime may share the bytes
    file.write_bytes(data[:-1] + b"?")
    told = checkout.json("verify", "--deep", code=32)
    assert told["repair"] == ["invoke stage --stack=small"]
    checkout.json("stage", "--stack=small", "--yes", f"--mirror={small.mirror}")
    assert checkout.json("verify", "--deep")["intact"] is True


def own_store(checkout: Checkout, folder: Path) -> None:
    """Give a checkout a store that may be damaged, with our own build in it: compiling takes longest."""
    checkout.json("stage", "--stack=cpu-reference")
    shutil.copytree(checkout.cache, folder / "own store", ignore=shutil.ignore_patterns(".*"))
    checkout.cache = folder / "own store"


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
