"""What the committed ``pins.lock`` holds: the published hashes, every stack, and a reason for everything."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from scripts.lock.reader import read_lock, resolve
from scripts.lock.writer import format_lock
from scripts.model import ArtifactFormat, HipSource, StackKind, Trust
from scripts.net.github import asset_of
from scripts.preflight.libraries import CallSupport, api_table
from scripts.preflight.ptx_table import ptx_table
from tests.preflight_programs import counts

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(__file__).parent / "data" / "pins"
LOCK = read_lock(ROOT / "pins.lock")
TEXT = (ROOT / "pins.lock").read_bytes().decode("utf-8")


def published() -> dict[str, tuple[str, int | None]]:
    text = (DATA / "public-hashes.tsv").read_text(encoding="utf-8")
    rows = csv.DictReader([line for line in text.splitlines() if not line.startswith("#")], delimiter="\t")
    return {row["url"]: (row["sha256"], int(row["size"]) if row["size"] else None) for row in rows}


def test_it_is_formatted() -> None:
    assert format_lock(TEXT) == TEXT, "run format_lock over it"


def test_every_hash_and_size_is_the_published_one() -> None:
    pinned = {url: (item.sha256, item.size) for item in LOCK.artifacts.values() for url in item.urls}
    assert pinned == published()


def test_the_overlay_is_the_nine_published_fingerprints() -> None:
    lines = (DATA / "overlay.sha256").read_text(encoding="utf-8").splitlines()
    expected = dict(reversed(line.split()) for line in lines if not line.startswith("#"))
    overlay = LOCK.artifacts["overlay-hip713"]
    assert overlay.format is ArtifactFormat.SUPPLIED
    assert len(expected) == 9
    assert {member.name: member.sha256 for member in overlay.members} == expected


def test_every_stack_is_there() -> None:
    assert set(LOCK.stacks) == {
        *("cpu-reference", "native-cuda", "overlay-hip713", "zluda-v6-linux", "zluda-v6-sdk64"),
        *("zluda-v6-sdk71", "zluda-v6p69-sdk64", "zluda-v7p10-rocm101-gfx120x", "zluda-v7p10-sdk72"),
        *("zluda-v7p11-sdk72", "zluda-v7p11-rocm101-gfx120x", "zluda-v7p11-nightly-gfx1100"),
        "zluda-v6-rocm100-linux-gfx1151",
    }


@pytest.mark.parametrize("name", LOCK.artifacts)
def test_every_artifact_says_where_it_comes_from_and_why_it_is_here(name: str) -> None:
    item = LOCK.artifacts[name]
    assert item.license
    assert item.source
    used = {part for stack in LOCK.stacks.values() for part in stack.parts}
    used |= {part for stack in LOCK.stacks.values() for parts in stack.optional.values() for part in parts}
    assert name in used, "no stack uses it: take it out of the lock, or make a stack of it"
    assert item.trust is not Trust.SINGLE_REPORT or item.note, "one report: say whose"
    assert item.size is not None or item.trust is Trust.SINGLE_REPORT or "zluda" in name


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("zluda-windows-v6-preview.69", 38),
        ("zluda-windows-v6", 38),
        ("zluda-windows-v7-preview.10", 47),
        ("zluda-windows-v7-preview.11", 47),
    ],
)
def test_zluda_members_are_complete_and_never_flattened(name: str, count: int) -> None:
    item = LOCK.artifacts[name]
    assert len(item.members) == count
    for member in item.members:
        assert member.name == member.path, "nothing is renamed, so trace/ never covers the real libraries"
        if "/" in member.path or member.path.endswith(".exe"):
            assert member.provides is None
    needs = {member.provides: member.needs for member in item.members if member.provides}
    seventeen = {"nvapi"} if "v7" in name else set()
    assert set(needs) == seventeen | {
        *("nvcuda", "nvml", "cudnn8", "cudnn9"),
        *(f"cublas{n}" for n in (11, 12, 13)),
        *(f"cublaslt{n}" for n in (11, 12, 13)),
        *(f"cufft{n}" for n in (10, 11, 12)),
        *(f"cusparse{n}" for n in (10, 11, 12)),
    }
    assert needs["nvcuda"] == ("amdhip64",)
    assert needs["cublas11"] == ("rocblas", "hipblaslt"), "cublasCreate_v2 creates a cuBLASLt handle too"
    assert needs["cudnn9"] == ("miopen", "amdhip64")
    assert needs["cufft10"] == (("hipfft",) if name.endswith("v7-preview.11") else ())
    assert "nvcudart_hybrid64.dll" in {member.path for member in item.members}


def test_members_nobody_has_read_are_marked() -> None:
    for name in ("zluda-windows-v7-preview.10", "zluda-windows-v7-preview.11"):
        assert "not read from this archive" in LOCK.artifacts[name].note


def test_published_member_hashes_are_pinned() -> None:
    hashed = {m.path: m.size for m in LOCK.artifacts["zluda-windows-v6"].members if m.sha256}
    assert hashed == {
        "nvcuda.dll": 68483072,
        "nvcudart_hybrid64.dll": 1066704,
        "cublas64_13.dll": 251392,
        "cublasLt64_13.dll": 223232,
        "cufft64_12.dll": 104960,
        "cudnn64_9.dll": 269312,
    }


@pytest.mark.parametrize("name", LOCK.stacks)
def test_every_translation_stack_sets_the_capability_and_clears_what_would_mislead(name: str) -> None:
    stack = LOCK.stacks[name]
    policies = {item.name: item for item in stack.env}
    assert all(item.why for item in stack.env)
    if stack.kind is not StackKind.TRANSLATION:
        assert not policies
        assert not stack.parts
        return
    assert policies["ZLUDA_CC"].value == "8.6"
    for variable in (
        "ROCBLAS_TENSILE_LIBPATH",
        "HIPBLASLT_TENSILE_LIBPATH",
        "ZLUDA_BLAS_LIB",
        "ZLUDA_LOG_DIR",
    ):
        assert policies[variable].value is None
    if stack.requires.os == "windows":
        assert policies["CUDA_PATH"].only == "check", "programs keep CUDA_PATH"
        assert stack.requires.gfx
        assert stack.hip.source in {HipSource.SDK, HipSource.PARTS}
        assert bool(stack.hip.range) == (stack.hip.source is HipSource.SDK)


def test_a_call_table_is_named_only_where_there_is_one() -> None:
    named = {stack.id: stack.api for stack in LOCK.stacks.values() if stack.api}
    assert named == {
        "zluda-v6p69-sdk64": "zluda-v6-preview.69",
        "zluda-v7p10-rocm101-gfx120x": "zluda-v7-preview.10",
        "zluda-v7p10-sdk72": "zluda-v7-preview.10",
        "zluda-v7p11-nightly-gfx1100": "zluda-v7-preview.11",
        "zluda-v7p11-rocm101-gfx120x": "zluda-v7-preview.11",
        "zluda-v7p11-sdk72": "zluda-v7-preview.11",
    }


def test_the_call_table_of_v7_preview_11_differs_from_its_neighbours_in_cufft_alone() -> None:
    older, newer = api_table("zluda-v7-preview.10"), api_table("zluda-v7-preview.11")
    assert older is not None
    assert newer is not None
    assert {name for name in newer.calls if newer.calls[name] != older.calls[name]} == {"cufft"}
    assert (counts(newer, "cufft"), counts(older, "cufft")) == ((32, 60), (0, 60))
    assert newer.lookup("cufft", "cufftExecC2C") is CallSupport.IMPLEMENTED
    assert newer.lookup("cufft", "cufftXtExec") is CallSupport.NOT_SUPPORTED
    assert "cufft" not in newer.assumed, "read at the release's own commit"
    assert set(newer.calls) - {"cufft"} == newer.assumed, "the rest is taken from the release before"


def test_a_ptx_table_is_named_only_where_there_is_one() -> None:
    named = {stack.id: stack.ptx for stack in LOCK.stacks.values() if stack.ptx}
    assert named == {
        "zluda-v6-linux": "zluda-v6",
        "zluda-v6-rocm100-linux-gfx1151": "zluda-v6",
        "zluda-v6-sdk64": "zluda-v6",
        "zluda-v6-sdk71": "zluda-v6",
        "zluda-v6p69-sdk64": "zluda-v6-preview.69",
        "zluda-v7p10-rocm101-gfx120x": "zluda-v7-preview.9",
        "zluda-v7p10-sdk72": "zluda-v7-preview.9",
        "zluda-v7p11-nightly-gfx1100": "zluda-v7-preview.9",
        "zluda-v7p11-rocm101-gfx120x": "zluda-v7-preview.9",
        "zluda-v7p11-sdk72": "zluda-v7-preview.9",
    }
    assert all(ptx_table(name) is not None for name in named.values())


def test_rdna2_is_not_claimed_for_hip_sdk_72_and_gfx1150_only_there() -> None:
    for stack in LOCK.stacks.values():
        if stack.hip.range == ">=7.2,<7.3":
            assert "gfx1150" in stack.requires.gfx
            assert "gfx1030" not in stack.requires.gfx
        else:
            assert "gfx1150" not in stack.requires.gfx


@pytest.mark.parametrize("name", LOCK.stacks)
def test_libtorch_is_never_a_default_download(name: str) -> None:
    plain = resolve(LOCK, name)
    assert not any(item.id.startswith("libtorch") for item in plain.artifacts)
    if "libtorch" in plain.stack.optional:
        more = resolve(LOCK, name, with_=("libtorch",))
        assert more.artifacts[-1].size == 2_660_890_386


def test_zluda_downloads_come_from_releases_with_metadata() -> None:
    for item in LOCK.artifacts.values():
        if item.id.startswith("zluda"):
            ref = asset_of(item.urls[0])
            assert ref is not None
            assert ref.tag in item.id


def test_it_is_plain_text_with_unix_line_ends() -> None:
    assert "\r" not in TEXT
    assert "\t" not in TEXT
    assert TEXT.endswith("\n")


def test_the_notices_list_every_artifact_with_its_licence_and_trust() -> None:
    notices = (ROOT / "docs" / "notices.md").read_text(encoding="utf-8")
    for item in LOCK.artifacts.values():
        assert f"| `{item.id}` | {item.source} | {item.license} | {item.trust.value} |" in notices


def test_the_manual_names_every_refusal() -> None:
    manual = (ROOT / "docs" / "pins.md").read_text(encoding="utf-8")
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "scripts/lock").glob("*.py"))
    references = set(re.findall(r'"(lock-[a-z0-9-]+)"', sources)) - {
        "lock-changed-meanwhile",
        "lock-not-writable",
    }
    references |= {f"lock-{name}" for name in re.findall(r'reference="([a-z]+-(?:in-)?url)"', sources)}
    assert len(references) > 30
    assert sorted(name for name in references if f"`{name}`" not in manual) == []
