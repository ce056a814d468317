"""A stack without a public hash is proposed, and one page of AMD's index completes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.app import pins_update as pins_updating
from scripts.app.pins_update import pins_update
from scripts.errors import ExitCode, FetchError, HostError, UsageError
from scripts.host.support import coverage, sdk_notes
from scripts.lock.package_index import indexed
from scripts.lock.proposals import fits, proposals, proposed_for
from scripts.lock.reader import read_lock
from scripts.model import Gpu, Host, Trust
from scripts.net.session import Transport
from scripts.staging.select import select_stack
from tests.wrapping import workspace

ROOT = Path(__file__).resolve().parents[1]
LOCK = read_lock(ROOT / "pins.lock")
SHA = "ab" * 32
BASE = "https://stable.repo.amd.com/rocm/core/whl-next/rocm-sdk-device-gfx1031/"
FILE = "rocm_sdk_device_gfx1031-10.1.0-py3-none-win_amd64.whl"


def gpu(gfx: str) -> Host:
    one = Gpu(index=0, name=f"Radeon {gfx}", vendor="amd", gfx=gfx)
    return Host(os="windows", machine="AMD64", gpus=(one,), selected=0)


def test_every_gpu_that_amd_covers_has_a_stack_or_a_proposal() -> None:
    pinned = {gfx for stack in LOCK.stacks.values() for gfx in stack.requires.gfx}
    assert set(coverage()) <= pinned | {one.gfx for one in proposals()}
    assert all(fits(one, LOCK) for one in proposals())


@pytest.mark.parametrize(
    ("href", "found"),
    [
        (f"{FILE}#sha256={SHA}", True),
        (f"../rocm-sdk-device-gfx1031/{FILE}#sha256={SHA}", True),
        (FILE, False),
        (f"{FILE}#md5={SHA}", False),
        (f"{FILE}#sha256={SHA[:-1]}", False),
        (f"https://elsewhere.example/{FILE}#sha256={SHA}", False),
        (f"http://stable.repo.amd.com/{FILE}#sha256={SHA}", False),
        (f"rocm_sdk_device_gfx1031-10.2.0-py3-none-win_amd64.whl#sha256={SHA}", False),
    ],
)
def test_only_the_very_file_on_the_same_host_with_a_digest_counts(href: str, found: bool) -> None:
    page = f'<html><a href="other.whl#sha256={"0" * 64}">x</a><a href="{href}">{FILE}</a></html>'
    result = indexed(page, base=BASE, file=FILE)
    assert (result is not None) is found
    if result is not None:
        assert (result.sha256, result.url) == (SHA, BASE + FILE)


@pytest.mark.slow
def test_one_command_makes_a_stack_that_the_gpu_is_then_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def page(_way: Transport, url: str) -> str:
        asked.append(url)
        return f'<a href="{FILE}#sha256={SHA}">{FILE}</a>'

    monkeypatch.setattr(pins_updating, "read_page", page)
    lock = tmp_path / "pins.lock"
    lock.write_bytes((ROOT / "pins.lock").read_bytes())
    ws = workspace(ROOT, lock_path=lock)
    with pytest.raises(HostError) as caught:
        select_stack(gpu("gfx1031"), read_lock(lock), lambda _stack, _gfx: None)
    assert "invoke pins.update --gpu=gfx1031 --write" in caught.value.hint
    assert not pins_update(ws, gpu="gfx1031", for_="windows").written
    assert read_lock(lock).digest == LOCK.digest, "without --write nothing is changed"
    result = pins_update(ws, gpu="gfx1031", for_="windows", write=True)
    assert (result.written, asked) == (True, [BASE, BASE])
    made = read_lock(lock)
    artifact = made.artifacts["rocm-sdk-device-gfx1031-10.1.0-windows"]
    assert (artifact.sha256, artifact.trust, artifact.size) == (SHA, Trust.UPSTREAM_DIGEST, None)
    chosen = select_stack(gpu("gfx1031"), made, lambda _stack, _gfx: None)
    assert chosen.stack_id == "zluda-v7p11-rocm101-gfx1031"
    assert chosen.unproven
    assert not any("gfx120" in part for part in made.stacks[chosen.stack_id].parts)


def test_an_index_that_does_not_answer_or_list_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(_way: Transport, url: str) -> str:
        if "gfx1010" in url:
            raise FetchError("upstream-refused", "the server answers 404")
        return "<html></html>"

    monkeypatch.setattr(pins_updating, "read_page", gone)
    result = pins_update(workspace(ROOT), gpu="all", for_="windows")
    assert not result.diff
    assert result.exit_code == ExitCode.FETCH
    assert {row.status for row in result.asked} == {"unreachable", "not-listed"}
    with pytest.raises(UsageError) as caught:
        pins_update(workspace(ROOT), gpu="gfx803", for_="linux")
    assert caught.value.reference == "no-proposal"
    with pytest.raises(UsageError) as caught:
        pins_update(workspace(ROOT), gpu="gfx1031", for_="mac")
    assert "windows" in caught.value.hint


@pytest.mark.parametrize(("platform", "system"), [("win32", "windows"), ("linux", "linux")])
def test_without_a_system_this_machines_is_meant(
    monkeypatch: pytest.MonkeyPatch, platform: str, system: str
) -> None:
    asked = []

    def page(_way: Transport, url: str) -> str:
        asked.append(url)
        return ""

    monkeypatch.setattr(pins_updating, "read_page", page)
    result = pins_update(workspace(ROOT, platform=platform), gpu="gfx1031")
    assert [row.artifact.endswith(system) for row in result.asked] == [True]


@pytest.mark.parametrize("system", ["windows", "linux"])
def test_polaris_has_no_proposal(system: str) -> None:
    assert proposed_for("gfx803", system) is None


def test_an_rx_9000_is_warned_of_the_sdk_that_crashed() -> None:
    assert "0xc0000005" in sdk_notes("gfx1201", "7.1.1")[0]
    assert sdk_notes("gfx1201", "7.2.0") == sdk_notes("gfx1100", "7.1.1") == ()
