"""Files that a person brings: verified before a download, each wrong one named, surplus ones left out."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from tests.checkout import Checkout
from tests.small_stack import make_zip

pytestmark = pytest.mark.proof

LAYER = make_zip({"layer/one.dll": b"theirs"})
FILES = {"one.dll": b"mine", "two.dll": b"more"}


@pytest.fixture
def lock(tmp_path: Path, checkout: Checkout) -> Path:
    """A stack of one published part and one supplied part over it."""
    members = ", ".join(
        f'{{ path = "{name}", sha256 = "{hashlib.sha256(data).hexdigest()}" }}'
        for name, data in FILES.items()
    )
    lock = tmp_path / "own.lock"
    lock.write_text(
        f"""version = 1

[[artifact]]
id = "layer"
urls = ["https://github.com/example/layer/releases/download/v1/layer.zip"]
sha256 = "{hashlib.sha256(LAYER).hexdigest()}"
size = {len(LAYER)}
format = "zip"
root = "layer"
license = "MIT"
source = "example/layer@0000000"
trust = "single-report"
members = [{{ path = "one.dll", provides = "cublas12" }}]

[[artifact]]
id = "overlay"
format = "supplied"
license = "unknown"
source = "example"
trust = "single-report"
members = [{members}]

[[stack]]
id = "overlaid"
kind = "reference"
parts = ["layer", "overlay"]
""",
        encoding="utf-8",
        newline="\n",
    )
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror" / "layer.zip").write_bytes(LAYER)
    checkout.extra = {"CUDA_AMD_LOCK": str(lock)}
    return lock


def bring(folder: Path, **changes: bytes | None) -> Path:
    """Make the person's folder; ``None`` leaves a file out."""
    folder.mkdir()
    for name, data in {**FILES, **{f"{k}.dll": v for k, v in changes.items()}}.items():
        if data is not None:
            (folder / name).write_bytes(data)
    return folder


def stage(checkout: Checkout, tmp_path: Path, supplied: str, *, code: int = 0) -> dict[str, Any]:
    words = ["stage", "--stack=overlaid", "--yes", f"--mirror={tmp_path / 'mirror'}"]
    return checkout.json(*words, *([f"--supplied={supplied}"] if supplied else []), code=code)


@pytest.mark.usefixtures("lock")
def test_the_right_files_go_over_the_published_ones_which_stay_beside(
    checkout: Checkout, tmp_path: Path
) -> None:
    brought = bring(tmp_path / "brought", three=b"not asked for")
    folder = Path(stage(checkout, tmp_path, str(brought))["path"])
    assert (folder / "one.dll").read_bytes() == b"mine"
    assert (folder / "one_zluda.dll").read_bytes() == b"theirs"
    assert not (folder / "three.dll").exists()
    assert {path.name for path in brought.iterdir()} == {"one.dll", "two.dll", "three.dll"}


@pytest.mark.usefixtures("lock")
def test_missing_changed_and_surplus_files_are_each_named_before_a_download(
    checkout: Checkout, tmp_path: Path
) -> None:
    brought = bring(tmp_path / "brought", one=b"changed", two=None, three=b"surplus")
    (tmp_path / "mirror" / "layer.zip").unlink()  # a download would fail in another way
    error = stage(checkout, tmp_path, str(brought), code=21)["error"]
    assert error["reference"] == "supplied-files-differ"
    lines = "\n".join(error["context"])
    assert "changed: one.dll" in lines
    assert "missing: two.dll" in lines
    assert "surplus: three.dll" in lines


@pytest.mark.usefixtures("lock")
def test_without_a_folder_the_files_are_asked_for(checkout: Checkout, tmp_path: Path) -> None:
    error = stage(checkout, tmp_path, "", code=2)["error"]
    assert error["reference"] == "supply-files"
    assert error["context"] == ["one.dll", "two.dll"]


@pytest.mark.usefixtures("lock")
def test_what_was_brought_once_is_not_asked_for_again(checkout: Checkout, tmp_path: Path) -> None:
    words = ["setup", "--stack=overlaid", "--yes", f"--mirror={tmp_path / 'mirror'}"]
    brought = bring(tmp_path / "brought")
    first = checkout.json(*words, f"--supplied={brought}")
    for path in brought.iterdir():
        path.unlink()
    again = checkout.json(*words)
    assert again["generation"] == first["generation"]
    assert {s["name"]: s["status"] for s in again["steps"]}["supplied"] == "kept"
