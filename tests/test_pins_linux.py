"""Linux gets ZLUDA v7 by one command: the release's own digest, tables of the same release, and no guess."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer

from scripts.app.context import Workspace
from scripts.app.pins_update import pins_update
from scripts.lock.reader import read_lock
from scripts.model import HipSource, Trust
from tests.wrapping import workspace

ROOT = Path(__file__).resolve().parents[1]
DOWNLOAD = "https://github.com/vosen/ZLUDA/releases/download"
V6 = ("zluda-linux-3fe12063.tar.gz", "d9fd9893abaf3206c56d3eb25f0475c6327aa8de8e77f21be8a24f275556c3e1")
V7 = ("zluda-linux-ee2f25a1.tar.gz", "ab" * 32)


@pytest.fixture(scope="module")
def running() -> Iterator[HTTPServer]:
    with HTTPServer(host="127.0.0.1") as server:
        yield server


@pytest.fixture
def ws(running: HTTPServer, tmp_path: Path) -> Workspace:
    """The committed lock, and a server that knows both releases."""
    running.clear()
    for tag, (name, sha256) in (("v6", V6), ("v7-preview.11", V7)):
        asset = {
            "name": name,
            "browser_download_url": f"{DOWNLOAD}/{tag}/{name}",
            "size": 40_000_000,
            "digest": f"sha256:{sha256}",
        }
        body = {"tag_name": tag, "draft": False, "assets": [asset]}
        running.expect_request(f"/repos/vosen/ZLUDA/releases/tags/{tag}").respond_with_json(body)
    listed = [{"tag_name": "v7-preview.11"}, {"tag_name": "v6"}]
    running.expect_request("/repos/vosen/ZLUDA/releases").respond_with_json(listed)
    lock = tmp_path / "pins.lock"
    lock.write_bytes((ROOT / "pins.lock").read_bytes())
    environ = {"CUDA_AMD_GITHUB_API": running.url_for("").rstrip("/")}
    return workspace(ROOT, lock_path=lock, environ=environ)


@pytest.mark.slow
def test_the_command_that_the_lock_names_brings_v7_in(ws: Workspace) -> None:
    before = read_lock(ws.lock_path)
    note = before.artifacts["zluda-linux-v6"].note
    assert "invoke pins.update --artifact=zluda-linux-v6 --write" in note
    result = pins_update(ws, artifact="zluda-linux-v6", write=True)
    assert result.written
    made = read_lock(ws.lock_path)
    new = made.artifacts["zluda-linux-v7-preview.11"]
    assert (new.sha256, new.trust, new.size) == (V7[1], Trust.UPSTREAM_DIGEST, 40_000_000)
    assert "not read from this archive" in new.note, "what was not read is said"
    assert set(made.stacks) - set(before.stacks) == {
        "zluda-v7p11-linux",
        "zluda-v7p11-rocm100-linux-gfx1151",
    }


@pytest.mark.slow
def test_what_the_same_release_for_windows_shows_is_taken_over_and_nothing_else(ws: Workspace) -> None:
    pins_update(ws, artifact="zluda-linux-v6", write=True)
    made = read_lock(ws.lock_path)
    needs = {m.provides: m.needs for m in made.artifacts["zluda-linux-v7-preview.11"].members if m.provides}
    assert needs["cufft11"] == ("hipfft",), "this release's cuFFT works, through hipFFT"
    assert needs["nvcuda"] == ("amdhip64",)
    stack = made.stacks["zluda-v7p11-linux"]
    assert stack.ptx == made.stacks["zluda-v7p11-sdk72"].ptx, "the compiler is the same on both systems"
    assert stack.api is None, "NVML is another one on Linux, and the table was read for Windows"
    assert stack.hip.source is HipSource.SYSTEM


@pytest.mark.slow
def test_members_of_another_release_tell_nothing(ws: Workspace) -> None:
    text = ws.lock_path.read_text(encoding="utf-8").replace("vosen/ZLUDA@ee2f25a", "vosen/ZLUDA@0000000")
    ws.lock_path.write_text(text, encoding="utf-8", newline="\n")
    pins_update(ws, artifact="zluda-linux-v6", write=True)
    made = read_lock(ws.lock_path)
    needs = {m.provides: m.needs for m in made.artifacts["zluda-linux-v7-preview.11"].members if m.provides}
    assert needs["cufft11"] == ()
    assert made.stacks["zluda-v7p11-linux"].ptx is None
