"""Assembling a runtime: the same parts give the same digest, and no changed byte goes unseen."""

from __future__ import annotations

import hashlib
import json
import queue
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from scripts.errors import HostError, IntegrityError, StagedFileError
from scripts.model import Artifact, ArtifactFormat, Member, NoProgress, Runtime, Trust
from scripts.staging.assemble import RuntimePlan, assemble, discard_runtime, plan_runtime
from scripts.staging.runtimes import load_runtime, verify_runtime
from scripts.store.cache import Cache, CacheEntry, EntryKind, manifest_path
from scripts.store.trees import TreeFile, UnpackedTree

QUIET = NoProgress()


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def tree(folder: Path, files: dict[str, bytes], *, root: str = "") -> UnpackedTree:
    entries = []
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        entries.append(TreeFile(path=name, sha256=sha(data), size=len(data)))
    return UnpackedTree(path=folder, root=root, files=tuple(entries))


def artifact(name: str, members: tuple[Member, ...] = ()) -> Artifact:
    return Artifact(
        id=name,
        urls=(),
        sha256="0" * 64,
        size=None,
        format=ArtifactFormat.ZIP,
        root="zluda",
        license="MIT",
        source="test",
        trust=Trust.INDEPENDENT,
        members=members,
    )


LAYER = artifact(
    "layer",
    (
        Member(path="nvcuda.dll", name="nvcuda.dll", provides="nvcuda", needs=("amdhip64",)),
        Member(path="trace/nvcuda.dll", name="trace/nvcuda.dll"),
    ),
)


@pytest.fixture
def layer(tmp_path: Path) -> UnpackedTree:
    files = {
        "zluda/nvcuda.dll": b"driver",
        "zluda/trace/nvcuda.dll": b"trace",
        "zluda/readme": b"not a member",
    }
    return tree(tmp_path / "layer", files, root="zluda")


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "störe with space")


def staged(plan: RuntimePlan, cache: Cache) -> Runtime:
    return assemble(plan, cache, progress=QUIET)[0]


def test_only_members_are_taken_and_keep_their_places(layer: UnpackedTree, cache: Cache) -> None:
    runtime = staged(plan_runtime("s", [(LAYER, layer, "")]), cache)
    assert [f.name for f in runtime.files] == ["nvcuda.dll", "trace/nvcuda.dll"]
    assert runtime.path is not None
    assert (runtime.path / "nvcuda.dll").read_bytes() == b"driver"
    assert (runtime.path / "trace" / "nvcuda.dll").read_bytes() == b"trace"
    assert sorted(p.name for p in runtime.path.rglob("*") if p.is_file()) == ["nvcuda.dll", "nvcuda.dll"]


def test_an_artifact_without_members_gives_every_file_below_its_root(tmp_path: Path, cache: Cache) -> None:
    part = tree(tmp_path / "hip", {"zluda/bin/rocblas.dll": b"r", "other/file": b"o"}, root="zluda")
    runtime = staged(plan_runtime("s", [(artifact("hip"), part, "hip")]), cache)
    assert [f.name for f in runtime.files] == ["hip/bin/rocblas.dll"]


def test_the_digest_depends_on_content_and_place_alone(tmp_path: Path, layer: UnpackedTree) -> None:
    again = tree(
        tmp_path / "elsewhere",
        {"zluda/nvcuda.dll": b"driver", "zluda/trace/nvcuda.dll": b"trace"},
        root="zluda",
    )
    changed = tree(
        tmp_path / "changed",
        {"zluda/nvcuda.dll": b"Driver", "zluda/trace/nvcuda.dll": b"trace"},
        root="zluda",
    )
    digest = plan_runtime("s", [(LAYER, layer, "")]).digest
    assert plan_runtime("other name", [(LAYER, again, "")]).digest == digest
    assert plan_runtime("s", [(LAYER, changed, "")]).digest != digest
    assert plan_runtime("s", [(LAYER, layer, "sub")]).digest != digest


def test_a_stack_without_files_has_a_digest_too(cache: Cache) -> None:
    runtime = staged(plan_runtime("native-cuda", []), cache)
    assert len(runtime.digest) == 64
    assert runtime.files == ()


def test_a_second_assembly_changes_nothing(layer: UnpackedTree, cache: Cache) -> None:
    plan = plan_runtime("s", [(LAYER, layer, "")])
    first = staged(plan, cache)
    assert first.path is not None
    before = {p: p.stat().st_mtime_ns for p in first.path.rglob("*")}
    assert staged(plan, cache) == first
    assert {p: p.stat().st_mtime_ns for p in first.path.rglob("*")} == before


def test_a_later_parts_members_replace_an_earlier_parts(
    tmp_path: Path, layer: UnpackedTree, cache: Cache
) -> None:
    overlay = artifact("overlay", (Member(path="nvcuda.dll", name="nvcuda.dll", provides="nvcuda"),))
    better = tree(tmp_path / "overlay", {"zluda/nvcuda.dll": b"overlay"}, root="zluda")
    runtime = staged(plan_runtime("s", [(LAYER, layer, ""), (overlay, better, "")]), cache)
    assert runtime.path is not None
    assert (runtime.path / "nvcuda.dll").read_bytes() == b"overlay"
    assert {f.name: f.origin for f in runtime.files}["nvcuda.dll"] == "overlay"


def test_parts_that_disagree_are_refused(tmp_path: Path) -> None:
    one = tree(tmp_path / "one", {"zluda/bin/a.dll": b"1"}, root="zluda")
    two = tree(tmp_path / "two", {"zluda/bin/A.dll": b"2"}, root="zluda")
    with pytest.raises(IntegrityError) as caught:
        plan_runtime("s", [(artifact("one"), one, ""), (artifact("two"), two, "")])
    assert caught.value.reference == "parts-clash"
    assert any(sha(b"1") in line for line in caught.value.context)


def test_parts_that_agree_are_merged(tmp_path: Path) -> None:
    one = tree(tmp_path / "one", {"zluda/bin/a.dll": b"1"}, root="zluda")
    two = tree(tmp_path / "two", {"zluda/bin/a.dll": b"1", "zluda/b": b"2"}, root="zluda")
    plan = plan_runtime("s", [(artifact("one"), one, ""), (artifact("two"), two, "")])
    assert [f.name for f in plan.runtime_files] == ["b", "bin/a.dll"]


def test_a_file_that_changed_in_the_store_is_not_taken_over(layer: UnpackedTree, cache: Cache) -> None:
    plan = plan_runtime("s", [(LAYER, layer, "")])
    (layer.path / "zluda" / "nvcuda.dll").write_bytes(b"trojan")
    with pytest.raises(StagedFileError) as caught:
        staged(plan, cache)
    assert caught.value.reference == "staged-file-changed"
    assert load_runtime(cache, plan.digest, stack="s") is None


def test_what_a_crash_left_is_thrown_away(layer: UnpackedTree, cache: Cache) -> None:
    plan = plan_runtime("s", [(LAYER, layer, "")])
    cache.ensure()
    final = cache.runtime_path(plan.digest)
    for folder in (final, final.with_name(final.name + ".new")):
        folder.mkdir(parents=True)
        (folder / "half.dll").write_bytes(b"half")
    assert load_runtime(cache, plan.digest, stack="s") is None
    runtime = staged(plan, cache)
    assert runtime.path is not None
    assert not (runtime.path / "half.dll").exists()


class Overheard(NoProgress):
    """Keeps what is said to the person."""

    def __init__(self) -> None:
        self.said = queue.Queue[str]()

    def note(self, message: str) -> None:
        self.said.put(message)


class Meanwhile(NoProgress):
    """Does something else as soon as the assembly has begun."""

    def __init__(self, deed: Callable[[], None]) -> None:
        self.deed = deed

    def task(
        self, label: str, total: int | None = None, *, unit: str = "bytes"
    ) -> AbstractContextManager[Callable[[int], None]]:
        self.deed()
        return super().task(label, total, unit=unit)


def test_pruning_waits_for_an_assembly_in_progress(layer: UnpackedTree, cache: Cache) -> None:
    plan = plan_runtime("s", [(LAYER, layer, "")])
    overheard = Overheard()
    pruner = Cache(cache.root, overheard)

    def remove(entry: CacheEntry) -> None:
        pruner.remove(entry)
        overheard.said.put("removed")

    def prune() -> None:
        (half,) = (entry for entry in pruner.entries() if entry.kind is EntryKind.LEFTOVER)
        threads.append(threading.Thread(target=remove, args=(half,)))
        threads[0].start()
        assert overheard.said.get(timeout=30).startswith("waiting for another run")

    threads: list[threading.Thread] = []
    runtime, _ = assemble(plan, cache, progress=Meanwhile(prune))
    threads[0].join(30)
    verify_runtime(runtime, progress=QUIET)


def test_a_runtime_that_does_not_fit_is_refused_first(
    layer: UnpackedTree, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scripts.staging.assemble.free_space", lambda _: 3)
    with pytest.raises(HostError) as caught:
        staged(plan_runtime("s", [(LAYER, layer, "")]), cache)
    assert (caught.value.reference, cache.entries()) == ("no-space", ())


def make_writable(path: Path) -> None:
    path.parent.chmod(0o755)
    path.chmod(0o644)


@pytest.mark.parametrize(
    ("spoil", "reference"),
    [
        (lambda p: p.unlink(), "staged-file-missing"),
        (lambda p: p.write_bytes(b"driveR"), "staged-file-changed"),
        (lambda p: p.write_bytes(b"longer than before"), "staged-file-changed"),
        (lambda p: p.with_name("nvcuda.dll.local").write_bytes(b"loaded too"), "staged-file-changed"),
    ],
    ids=["vanished", "one byte", "another size", "one more"],
)
def test_verification_reads_every_byte(
    layer: UnpackedTree, cache: Cache, spoil: object, reference: str
) -> None:
    plan = plan_runtime("s", [(LAYER, layer, "")])
    runtime = staged(plan, cache)
    verify_runtime(runtime, progress=QUIET)
    assert runtime.path is not None
    victim = runtime.path / "nvcuda.dll"
    make_writable(victim)
    spoil(victim)  # type: ignore[operator] # a deed of the table
    with pytest.raises(StagedFileError) as caught:
        verify_runtime(runtime, progress=QUIET)
    assert caught.value.reference == reference
    assert any(line.startswith("nvcuda.dll") for line in caught.value.context)
    assert "turn" not in caught.value.hint
    assert "disable" not in caught.value.hint


def test_a_discarded_runtime_is_assembled_anew(layer: UnpackedTree, cache: Cache) -> None:
    plan = plan_runtime("s", [(LAYER, layer, "")])
    runtime = staged(plan, cache)
    discard_runtime(cache, runtime.digest)
    assert load_runtime(cache, runtime.digest, stack="s") is None
    assert staged(plan, cache) == runtime


def test_a_runtime_is_read_only(layer: UnpackedTree, cache: Cache) -> None:
    runtime = staged(plan_runtime("s", [(LAYER, layer, "")]), cache)
    assert runtime.path is not None
    for path in runtime.path.rglob("*"):
        if path.is_file():
            assert path.stat().st_mode & 0o222 == 0


@pytest.mark.posix_only
def test_a_link_to_the_same_bytes_is_a_change(layer: UnpackedTree, cache: Cache, tmp_path: Path) -> None:
    runtime = staged(plan_runtime("s", [(LAYER, layer, "")]), cache)
    assert runtime.path is not None
    (tmp_path / "elsewhere").write_bytes(b"driver")
    (runtime.path / "nvcuda.dll").unlink()
    (runtime.path / "nvcuda.dll").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StagedFileError) as caught:
        verify_runtime(runtime, progress=QUIET)
    assert caught.value.reference == "staged-file-changed"


@pytest.mark.parametrize("field", ["sha256", "name", "provides", "needs"])
def test_a_manifest_that_tells_of_other_files_is_not_believed(
    layer: UnpackedTree, cache: Cache, field: str
) -> None:
    plan = plan_runtime("s", [(LAYER, layer, "")])
    runtime = staged(plan, cache)
    manifest = manifest_path(cache.runtime_path(plan.digest))
    body = json.loads(manifest.read_bytes())
    lies = {"sha256": sha(b"evil"), "name": "../../evil.dll", "provides": "cublas", "needs": ["rocblas"]}
    body["files"][0][field] = lies[field]
    manifest.write_text(json.dumps(body), encoding="utf-8")
    assert load_runtime(cache, runtime.digest, stack="s") is None
    assert staged(plan, cache) == runtime


def test_files_changed_together_with_their_manifest_are_made_anew(layer: UnpackedTree, cache: Cache) -> None:
    plan = plan_runtime("s", [(LAYER, layer, "")])
    runtime = staged(plan, cache)
    assert runtime.path is not None
    evil, victim = b"loaded instead", runtime.path / "nvcuda.dll"
    victim.chmod(0o644)
    victim.unlink()
    victim.write_bytes(evil)
    manifest = manifest_path(runtime.path)
    body = json.loads(manifest.read_bytes())
    for row in body["files"]:
        if row["name"] == "nvcuda.dll":
            row.update(sha256=sha(evil), size=len(evil))
    manifest.write_text(json.dumps(body), encoding="utf-8")
    again = staged(plan, cache)
    verify_runtime(again, progress=QUIET)
    assert victim.read_bytes() == b"driver"


@pytest.mark.parametrize("digest", ["", "..", "../../x", "a/b", "A" * 64, "a" * 200])
def test_what_is_no_digest_names_no_runtime(cache: Cache, digest: str) -> None:
    assert load_runtime(cache, digest, stack="s") is None


@pytest.mark.parametrize("text", ["", "{}", '{"format": 99}', "null", "[" * 100_000, '{"files": ["x"]}'])
def test_a_damaged_manifest_means_not_there(layer: UnpackedTree, cache: Cache, text: str) -> None:
    plan = plan_runtime("s", [(LAYER, layer, "")])
    runtime = staged(plan, cache)
    manifest = cache.runtime_path(plan.digest).with_name(plan.digest + ".json")
    manifest.write_text(text, encoding="utf-8")
    assert load_runtime(cache, runtime.digest, stack="s") is None
    assert staged(plan, cache).digest == runtime.digest
