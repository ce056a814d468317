"""The store: shared, locked, listed, and deleted only where a tag says that it is ours."""

from __future__ import annotations

import io
import threading
from pathlib import Path

import pytest

from scripts.app import cleanup as pruning
from scripts.app.cleanup import CacheListResult
from scripts.app.context import workspace_from_environ
from scripts.cli.console import Out
from scripts.cli.views.status import show_cache_list as show
from scripts.errors import ConflictError, HistoryError, HostError, UsageError
from scripts.model import NoProgress
from scripts.osal import fs
from scripts.staging.runtimes import remember_stage
from scripts.store.cache import Cache, CacheEntry, EntryKind, disk_of, manifest_path

KEY = "ab" * 32
OTHER = "cd" * 32


class Notes(NoProgress):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, message: str) -> None:
        self.lines.append(message)


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    cache = Cache(tmp_path / "my store", Notes())
    cache.ensure()
    return cache


def fill(cache: Cache) -> None:
    blob = cache.blob_path(KEY)
    blob.parent.mkdir()
    blob.write_bytes(b"12345")
    blob.with_name(f"{OTHER}.part").write_bytes(b"1")
    for folder in (cache.tree_path(KEY), cache.runtime_path("rt-1")):
        (folder / "sub").mkdir(parents=True)
        (folder / "sub/x.dll").write_bytes(b"123")
        (folder / "sub/x.dll").chmod(0o444)
        manifest_path(folder).write_text("{}", encoding="utf-8")
    cache.tree_path(OTHER).mkdir()
    manifest_path(cache.tree_path("ef" * 32)).write_text("{}", encoding="utf-8")


def test_a_store_is_made_once_and_tagged(cache: Cache) -> None:
    assert fs.has_own_cachedir_tag(cache.root)
    cache.ensure()
    assert sorted(p.name for p in cache.root.iterdir()) == [
        "CACHEDIR.TAG",
        "blobs-v1",
        "locks",
        "runtimes-v1",
        "trees-v1",
    ]


def test_a_folder_with_other_peoples_files_does_not_become_a_store(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("dear", encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        Cache(tmp_path).ensure()
    assert caught.value.reference == "cache-not-ours"
    assert caught.value.context == ("holds thesis.txt",)
    assert "CUDA_AMD_CACHE" in caught.value.hint
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.txt"]


def test_another_programs_cache_is_neither_used_nor_cleared(tmp_path: Path) -> None:
    (tmp_path / "CACHEDIR.TAG").write_bytes(fs.CACHEDIR_SIGNATURE + b"\n# made by cargo\n")
    (tmp_path / "locks").mkdir()
    (tmp_path / "locks/theirs").write_text("", encoding="utf-8")
    with pytest.raises(UsageError, match="not a store of ours"):
        Cache(tmp_path).ensure()
    with pytest.raises(ConflictError, match="CACHEDIR"):
        Cache(tmp_path).clear()
    assert (tmp_path / "locks/theirs").exists()
    assert (tmp_path / "CACHEDIR.TAG").exists()


@pytest.mark.posix_only
def test_a_store_behind_a_link_is_cleared_and_the_link_stays(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "store").symlink_to(tmp_path / "disk")
    cache = Cache(tmp_path / "store")
    cache.ensure()
    cache.clear()
    assert (tmp_path / "store").is_symlink()
    assert list((tmp_path / "disk").iterdir()) == []


def test_a_place_that_cannot_be_written_names_the_variable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(HostError) as caught:
        Cache(tmp_path / "file" / "store").ensure()
    assert caught.value.reference == "cache-not-writable"
    assert "CUDA_AMD_CACHE" in caught.value.hint


@pytest.mark.parametrize("key", ["", "../x", "AB" * 32, "ab" * 31, f"{KEY}/x", f"{KEY}\n"])
def test_a_key_is_a_hash_and_nothing_else(cache: Cache, key: str) -> None:
    for path in (cache.blob_path, cache.tree_path):
        with pytest.raises(ValueError, match="not a key"):
            path(key)


@pytest.mark.parametrize("name", ["", "..", "a/b", "a\\b", ".x", "a" * 200])
def test_a_lock_or_digest_is_one_component(cache: Cache, name: str) -> None:
    with pytest.raises(ValueError, match="not a key"):
        cache.runtime_path(name)
    with pytest.raises(ValueError, match="not a key"), cache.locked(name):
        pass


def test_entries_are_listed_with_their_size(cache: Cache) -> None:
    fill(cache)
    assert [(e.kind.value, e.key, e.bytes) for e in cache.entries()] == [
        ("blob", KEY, 5),
        ("leftover", OTHER, 0),
        ("leftover", f"{OTHER}.part", 1),
        ("leftover", f"{'ef' * 32}.json", 2),
        ("runtime", "rt-1", 3),
        ("tree", KEY, 3),
    ]


def share(cache: Cache) -> None:
    """Make a tree, and a runtime with a second name of the tree's file and a file of its own."""
    tree, runtime = cache.tree_path(KEY), cache.runtime_path("rt-1")
    for folder in (tree, runtime):
        folder.mkdir(parents=True)
        manifest_path(folder).write_text("{}", encoding="utf-8")
    (tree / "shared ü.dll").write_bytes(b"12345")
    (runtime / "nvcuda.dll").hardlink_to(tree / "shared ü.dll")
    (runtime / "its own").write_bytes(b"123")


@pytest.mark.parametrize(
    ("needed", "freed"),
    [((), 8), (("rt-1",), 0), ((KEY,), 3), (("rt-1", KEY), 0)],
    ids=["nothing kept", "runtime kept", "tree kept", "both kept"],
)
def test_pruning_frees_what_no_kept_entry_shares(
    cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, needed: tuple[str, ...], freed: int
) -> None:
    share(cache)
    monkeypatch.setattr(pruning, "references", lambda _, **_options: dict.fromkeys(needed, "a test"))
    environ = {"CUDA_AMD_CACHE": str(cache.root), "CUDA_AMD_STATE": str(tmp_path / "state")}
    ws = workspace_from_environ(environ, root=tmp_path)
    dry = pruning.cache_prune(ws, dry_run=True)
    done = pruning.cache_prune(ws)
    assert (dry.bytes, done.bytes, done.to_json()["bytes"]) == (freed, freed, freed)
    assert {entry.key for entry in cache.entries()} == set(needed)


def test_another_checkout_s_damaged_list_stops_pruning_and_not_listing(cache: Cache, tmp_path: Path) -> None:
    fill(cache)
    notes, other = Notes(), tmp_path / "other" / "stage"
    other.mkdir(parents=True)
    (other / "generations.json").write_text("{", encoding="utf-8")
    environ = {"CUDA_AMD_CACHE": str(cache.root), "CUDA_AMD_STATE": str(tmp_path / "state")}
    ws = workspace_from_environ(environ, root=tmp_path, progress=notes)
    (tmp_path / "pins.lock").write_text("version = 1\n", encoding="utf-8")
    remember_stage(ws.state_root, other)
    assert len(pruning.cache_list(ws).entries) == 6
    assert notes.lines == [f"the list of generations cannot be read: {other / 'generations.json'}"]
    with pytest.raises(HistoryError, match="generations"):
        pruning.cache_prune(ws)
    assert len(cache.entries()) == 6


def test_a_file_that_two_entries_share_counts_once(cache: Cache) -> None:
    share(cache)
    entries = cache.entries()
    assert {entry.kind.value: entry.bytes for entry in entries} == {"runtime": 8, "tree": 5}
    assert disk_of(entries) == 8
    assert disk_of(entry for entry in entries if entry.kind is EntryKind.TREE) == 5
    listed = CacheListResult(root="R", entries=entries, needed_by={})
    output = io.StringIO()
    show(listed, Out(output, output))
    assert "R: 2 entries, 8 B; what entries share counts once" in output.getvalue()


def test_a_store_that_was_never_made_is_empty(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "nowhere")
    assert cache.entries() == ()
    cache.clear()
    assert not cache.root.exists()


def test_every_entry_can_be_removed(cache: Cache) -> None:
    fill(cache)
    for entry in cache.entries():
        cache.remove(entry)
        assert not entry.path.exists()
        assert entry.kind is EntryKind.LEFTOVER or not manifest_path(entry.path).exists()
    assert cache.entries() == ()


def test_nothing_is_removed_without_a_valid_tag(cache: Cache) -> None:
    fill(cache)
    entries = cache.entries()
    (cache.root / "CACHEDIR.TAG").write_text("Signature: something else", encoding="utf-8")
    with pytest.raises(ConflictError) as caught:
        cache.remove(entries[0])
    assert caught.value.reference == "cache-tag-missing"
    with pytest.raises(ConflictError):
        cache.clear()
    assert cache.entries() == entries


@pytest.mark.posix_only
def test_a_linked_tag_is_no_tag(cache: Cache, tmp_path: Path) -> None:
    tag = cache.root / "CACHEDIR.TAG"
    tag.rename(tmp_path / "tag")
    tag.symlink_to(tmp_path / "tag")
    assert not fs.has_own_cachedir_tag(cache.root)


@pytest.mark.parametrize("path", ["blobs-v1/../../victim", "locks/x", "."])
def test_an_entry_outside_the_buckets_is_refused(cache: Cache, tmp_path: Path, path: str) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    entry = CacheEntry(kind=EntryKind.BLOB, key=KEY, path=cache.root / path, bytes=0)
    with pytest.raises(ConflictError) as caught:
        cache.remove(entry)
    assert caught.value.reference == "not-a-cache-entry"
    assert victim.exists()
    with pytest.raises(ConflictError):
        cache.remove(CacheEntry(kind=EntryKind.TREE, key=KEY, path=victim, bytes=0))
    assert victim.exists()


def test_clearing_keeps_what_is_not_ours(cache: Cache) -> None:
    fill(cache)
    (cache.root / "notes.txt").write_text("mine", encoding="utf-8")
    cache.clear()
    assert [p.name for p in cache.root.iterdir()] == ["notes.txt"]
    (cache.root / "notes.txt").unlink()
    cache.ensure()
    cache.clear()
    assert not cache.root.exists()


def test_a_lock_is_held_against_others_and_waiting_is_said(cache: Cache) -> None:
    holding, done, order = threading.Event(), threading.Event(), []

    def other() -> None:
        with cache.locked("blobs-x"):
            holding.set()
            done.wait(10)
            order.append("other")

    thread = threading.Thread(target=other)
    thread.start()
    assert holding.wait(10)
    with pytest.raises(ConflictError) as caught, cache.locked("blobs-x", timeout=0.05):
        pass
    assert caught.value.reference == "store-locked"
    assert str(cache.root / "locks" / "blobs-x.lock") in caught.value.message
    with cache.locked("blobs-y"):
        done.set()
    with cache.locked("blobs-x"):
        order.append("we")
    thread.join()
    assert order == ["other", "we"]
    assert isinstance(cache.progress, Notes)
    assert cache.progress.lines[0].startswith("waiting for another run that works on blobs-x")
