"""A bundle: archives in one file, taken on another machine byte by byte, or refused as a whole."""

from __future__ import annotations

import hashlib
import json
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from scripts.errors import ArchiveError, IntegrityError, WorkspaceError
from scripts.model import Artifact, ArtifactFormat, NoProgress, Trust
from scripts.store.bundle import BundleFacts, read_facts, take_bundle, write_bundle
from scripts.store.cache import Cache
from tests.checkout import Checkout
from tests.small_stack import small_stack

DATA = {"layer": b"PK a layer" * 900, "hip": b"PK a runtime"}
FACTS = BundleFacts(stack="small", options=("libtorch",), lock="ab" * 32)


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def artifact(name: str, data: bytes) -> Artifact:
    return Artifact(
        id=name,
        urls=(f"https://example.org/{name}.zip",),
        sha256=sha(data),
        size=len(data),
        format=ArtifactFormat.ZIP,
        root="",
        license="MIT",
        source="o/r@1",
        trust=Trust.INDEPENDENT,
    )


KNOWN = {name: artifact(name, data) for name, data in DATA.items()}


def bundle(folder: Path) -> Path:
    rows = []
    for name, item in KNOWN.items():
        (folder / name).write_bytes(DATA[name])
        rows.append((item, folder / name))
    size = write_bundle(folder / "a.bundle", FACTS, rows, progress=NoProgress())
    assert size == (folder / "a.bundle").stat().st_size
    return folder / "a.bundle"


def crafted(path: Path, *members: tuple[str, bytes], packed: int = zipfile.ZIP_STORED) -> Path:
    told = {"format": 1, "stack": "small", "options": [], "lock": "", "artifacts": []}
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w", packed) as archive:
        warnings.simplefilter("ignore")  # two members of one name are what a test wants
        archive.writestr("bundle.json", json.dumps(told))
        for name, data in members:
            archive.writestr(name, data)
    return path


def test_what_is_written_is_taken_and_is_the_same_file_each_time(tmp_path: Path) -> None:
    path, store = bundle(tmp_path), Cache(tmp_path / "store")
    first = path.read_bytes()
    assert read_facts(path) == FACTS
    assert bundle(tmp_path).read_bytes() == first
    assert set(take_bundle(path, store, KNOWN, progress=NoProgress())) == set(KNOWN)
    for name, data in DATA.items():
        assert store.blob_path(KNOWN[name].sha256 or "").read_bytes() == data
    assert take_bundle(path, store, KNOWN, progress=NoProgress()) == ()
    assert not list((store.root / "trees-v1").iterdir()), "nothing is left of the work"


def test_an_archive_that_changed_in_the_store_is_not_bundled(tmp_path: Path) -> None:
    (tmp_path / "layer").write_bytes(b"rotten")
    with pytest.raises(IntegrityError):
        write_bundle(tmp_path / "b", FACTS, [(KNOWN["layer"], tmp_path / "layer")], progress=NoProgress())
    assert [path.name for path in tmp_path.iterdir()] == ["layer"]


LAYER = f"blobs/{sha(DATA['layer'])}"
HOSTILE: dict[str, Callable[[Path], Path]] = {
    "other bytes": lambda p: crafted(p, (LAYER, DATA["layer"][:-1] + b"?")),
    "shorter": lambda p: crafted(p, (LAYER, DATA["layer"][:-1])),
    "longer": lambda p: crafted(p, (LAYER, DATA["layer"] + b"!")),
    "not in the lock": lambda p: crafted(p, (f"blobs/{sha(b'evil')}", b"evil")),
    "one right, one wrong": lambda p: crafted(p, (f"blobs/{sha(DATA['hip'])}", DATA["hip"]), (LAYER, b"x")),
    "a way out": lambda p: crafted(p, (f"../{LAYER}", DATA["layer"])),
    "absolute": lambda p: crafted(p, (f"/{LAYER}", DATA["layer"])),
    "a file beside": lambda p: crafted(p, (LAYER, DATA["layer"]), ("setup.exe", b"MZ")),
    "twice": lambda p: crafted(p, (LAYER, DATA["layer"]), (LAYER, DATA["layer"])),
    "packed": lambda p: crafted(p, (LAYER, DATA["layer"]), packed=zipfile.ZIP_DEFLATED),
    "upper case": lambda p: crafted(p, (LAYER.upper(), DATA["layer"])),
    "many": lambda p: crafted(p, *((f"blobs/{number:064x}", b"") for number in range(300))),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_bundle_is_refused_and_nothing_of_it_is_kept(tmp_path: Path, kind: str) -> None:
    path, store = HOSTILE[kind](tmp_path / "hostile"), Cache(tmp_path / "store")
    with pytest.raises(WorkspaceError) as caught:
        take_bundle(path, store, KNOWN, progress=NoProgress())
    assert isinstance(caught.value, (ArchiveError, IntegrityError))
    kept = [f for f in tmp_path.rglob("*") if f.is_file() and f.parent.parent.name == "blobs-v1"]
    assert not kept


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b"{",
        b'{"format": 1}',
        b'{"format": true, "stack": "", "options": [], "lock": ""}',
        b'{"format": 1, "stack": 7, "options": [], "lock": ""}',
        b'{"format": 1, "stack": "a", "options": [{}], "lock": ""}',
        b'{"format": 9, "stack": "a", "options": [], "lock": ""}',
    ],
)
def test_what_a_bundle_says_of_itself_is_read_with_care(tmp_path: Path, body: bytes) -> None:
    path = tmp_path / "b"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("bundle.json", body)
    with pytest.raises(ArchiveError) as caught:
        read_facts(path)
    assert caught.value.reference == ("bundle-newer" if b"9" in body else "bundle-unreadable")


@pytest.mark.parametrize("cut", [0, 10, 400, -30])
def test_half_a_bundle_is_no_bundle(tmp_path: Path, cut: int) -> None:
    path = bundle(tmp_path)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(ArchiveError):
        take_bundle(path, Cache(tmp_path / "store"), KNOWN, progress=NoProgress())
    path.write_text("no zip at all", encoding="ascii")
    with pytest.raises(ArchiveError):
        read_facts(path)


def test_a_size_that_is_not_pinned_is_no_hole(tmp_path: Path) -> None:
    known = {"layer": replace(KNOWN["layer"], size=None)}
    path = crafted(tmp_path / "b", (LAYER, b"other bytes of any size"))
    with pytest.raises(IntegrityError):
        take_bundle(path, Cache(tmp_path / "store"), known, progress=NoProgress())


@pytest.mark.slow
def test_one_machine_fetches_and_another_sets_up_without_network(checkout: Checkout, tmp_path: Path) -> None:
    small, target = small_stack(tmp_path), tmp_path / "for the lab.bundle"
    fetched = checkout.json(
        *("fetch", "--stack=small", "--yes", f"--mirror={small.mirror}", f"--bundle={target}"), env=small.env
    )
    assert fetched["bundle"] == str(target)
    assert fetched["bundle_bytes"] == target.stat().st_size
    there = {**small.env, "CUDA_AMD_CACHE": str(tmp_path / "their store")}
    words = ("stage", "--offline", "--yes")
    assert (
        checkout.json(*words, "--stack=small", env=there, code=20)["error"]["reference"] == "offline-missing"
    )
    staged = checkout.json(*words, f"--supplied={target}", env=there)
    assert staged["stack"] == "small", "the bundle says which stack is meant"
    assert {s["name"]: s["status"] for s in staged["steps"]}["bundle"] == "done"
    assert (Path(staged["path"]) / "cuda_check").is_file()
    third = {**small.env, "CUDA_AMD_CACHE": str(tmp_path / "a third store")}
    checkout.run("setup", "--offline", "--yes", f"--supplied={target}", env=third)
    assert list((tmp_path / "a third store" / "runtimes-v1").iterdir()), "setup takes it as well"


@pytest.mark.slow
def test_a_lab_bundles_a_stack_for_a_machine_of_another_kind(checkout: Checkout, tmp_path: Path) -> None:
    small, target = small_stack(tmp_path), tmp_path / "lab.bundle"
    foreign = """
[[stack]]
id = "layer-windows"
kind = "translation"
parts = ["layer"]
hip = { from = "none" }
requires = { os = "windows", gfx = ["gfx1100"] }
"""
    small.lock.write_text(small.lock.read_text(encoding="utf-8") + foreign, encoding="utf-8", newline="\n")
    meant = ("--for=windows", "--gpu=gfx1100", "--yes")
    fetched = checkout.json("fetch", *meant, f"--mirror={small.mirror}", f"--bundle={target}", env=small.env)
    assert fetched["stack"] == read_facts(target).stack == "layer-windows"
    there = {**small.env, "CUDA_AMD_CACHE": str(tmp_path / "their store")}
    staged = checkout.json("stage", *meant, "--offline", f"--supplied={target}", env=there)
    assert staged["stack"] == "layer-windows"


@pytest.mark.slow
def test_a_folder_that_a_person_brings_may_hold_archives(checkout: Checkout, tmp_path: Path) -> None:
    small = small_stack(tmp_path)
    words = ("stage", "--stack=small", "--offline", "--yes", f"--supplied={small.mirror}")
    assert checkout.json(*words, env=small.env)["stack"] == "small"


@pytest.mark.slow
def test_a_bundle_goes_where_a_person_may_write_and_not_into_our_folders(
    checkout: Checkout, tmp_path: Path
) -> None:
    small = small_stack(tmp_path)
    words = ("fetch", "--stack=small", "--yes", f"--mirror={small.mirror}")
    store = Path(small.env["CUDA_AMD_CACHE"])
    for bad in (store / "b", tmp_path, tmp_path / "none" / "b"):
        error = checkout.json(*words, f"--bundle={bad}", env=small.env, code=2)["error"]
        assert error["reference"] == "bad-output"
    error = checkout.json("stage", f"--supplied={tmp_path / 'gone'}", env=small.env, code=2)["error"]
    assert error["reference"] == "no-such-file"
    assert not [path for path in tmp_path.iterdir() if path.suffix == ".tmp"]
