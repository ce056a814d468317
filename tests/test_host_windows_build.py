"""Which Windows this is, to the update, and what was reported about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.doctor.examine import examine
from scripts.doctor.machine import MachineState
from scripts.host.support import driver_too_old
from scripts.host.windows_registry import (
    GRAPHICS_KEY,
    SOFTWARE_KEY,
    VERSION_KEY,
    WindowsBuild,
    build_reports,
    windows_build,
)
from scripts.model import Gpu, HipRoot, Host


class Recorded:
    def __init__(self, keys: dict[str, dict[str, object]]) -> None:
        self._keys = keys

    def keys(self, path: str) -> tuple[str, ...]:
        del path
        return ()

    def values(self, path: str) -> dict[str, object] | None:
        return self._keys.get(path)


def test_the_registry_is_read_and_what_is_odd_is_unknown() -> None:
    keys: dict[str, dict[str, object]] = {
        VERSION_KEY: {"CurrentBuild": "26200", "UBR": 9445},
        GRAPHICS_KEY: {"HwSchMode": 2},
        SOFTWARE_KEY: {"RadeonSoftwareEdition": "Adrenalin", "RadeonSoftwareVersion": "26.8.1"},
    }
    assert windows_build(Recorded(keys)) == WindowsBuild(
        build=26200, revision=9445, gpu_scheduling=True, amd_edition="Adrenalin", amd_release="26.8.1"
    )
    odd: dict[str, dict[str, object]] = {
        SOFTWARE_KEY: {"RadeonSoftwareEdition": 7, "RadeonSoftwareVersion": "x" * 5000}
    }
    assert windows_build(Recorded(odd)) == WindowsBuild()
    assert windows_build(Recorded({})) == WindowsBuild()
    assert windows_build(Recorded({VERSION_KEY: {"CurrentBuild": b"x"}})).name == ""


@pytest.mark.parametrize(
    ("build", "revision", "reported"),
    [
        (26200, 9445, True),
        (26200, 9500, True),
        (26200, 9444, False),
        (26100, 9445, False),
        (26200, None, False),
    ],
)
def test_an_update_with_a_reported_hang_is_warned_of(
    build: int, revision: int | None, reported: bool
) -> None:
    found = WindowsBuild(build=build, revision=revision)
    assert bool(build_reports(found)) is reported
    lines = examine(MachineState(host=Host(os="windows", machine="AMD64"), windows_build=found))
    [line] = [line for line in lines if line.topic == "windows"]
    assert (line.status == "warn") is reported
    assert ("KB5124008" in line.text) is reported


def test_a_build_that_cannot_be_read_is_not_called_good() -> None:
    lines = examine(MachineState(host=Host(os="windows", machine="AMD64")))
    assert [line.status for line in lines if line.topic == "windows"] == ["unknown"]


@pytest.mark.parametrize(
    ("edition", "release", "pro"),
    [
        ("Adrenalin", "26.8.1", False),
        ("AMD Software: Adrenalin Edition", "26.1.1", False),
        ("AMD Software: PRO Edition", "26.Q1", True),
        ("PRO", "", True),
        ("", "25.Q3", True),
        ("Professional Look Edition", "26.8.1", False),
    ],
)
def test_the_pro_edition_that_the_sdk_brings_is_said(edition: str, release: str, pro: bool) -> None:
    found = WindowsBuild(build=26200, revision=1, amd_edition=edition, amd_release=release)
    assert found.is_pro is pro
    lines = examine(MachineState(host=Host(os="windows", machine="AMD64"), windows_build=found))
    [line] = [line for line in lines if "driver package" in line.text]
    assert (line.status == "warn") is pro
    assert release in line.text


def machine(driver: str, hip: str, build: int = 26200) -> MachineState:
    gpu = Gpu(index=0, name="Radeon RX 7900 XT", vendor="amd", gfx="gfx1100", driver=driver)
    root = HipRoot(path=Path("/ROCm"), version=hip, source="a test", libraries=("amdhip64", "rocblas"))
    host = Host(os="windows", machine="AMD64", gpus=(gpu,), selected=0, hip_roots=(root,))
    return MachineState(host=host, windows_build=WindowsBuild(build=build, revision=1))


@pytest.mark.parametrize(
    ("driver", "hip", "warned"),
    [
        ("32.0.21030.2001", "7.2.0", True),
        ("32.0.21030.2001", "10.1.0", True),
        ("32.0.21030.2001", "6.4.2", False),
        ("32.0.23017.1", "7.2.0", False),
        ("32.0.31041.1004", "10.0.0", False),
        ("31.0.24033.1003", "7.2.0", True),
        ("the newest", "7.2.0", False),
        ("32.0.21030.2001", "unknown", False),
    ],
)
def test_a_driver_older_than_was_said_to_be_needed_is_warned_of(driver: str, hip: str, warned: bool) -> None:
    assert bool(driver_too_old(driver, hip)) is warned
    lines = [line for line in examine(machine(driver, hip)) if "is older than" in line.text]
    assert [line.status.value for line in lines] == (["warn"] if warned else [])


@pytest.mark.parametrize(
    ("hip", "build", "warned"),
    [("7.2.0", 19045, True), ("7.1.1", 19045, True), ("6.4.2", 19045, False), ("7.2.0", 22000, False)],
)
def test_a_sdk_for_windows_11_on_windows_10_is_said(hip: str, build: int, warned: bool) -> None:
    lines = examine(machine("32.0.31041.1004", hip, build))
    assert any("is for Windows 11" in line.text for line in lines) is warned


@pytest.mark.parametrize(("on", "word"), [(True, "on"), (False, "off")])
def test_gpu_scheduling_is_said_where_windows_says_it(on: bool, word: str) -> None:
    found = WindowsBuild(build=26200, revision=1, gpu_scheduling=on)
    lines = examine(MachineState(host=Host(os="windows", machine="AMD64"), windows_build=found))
    assert any(line.text == f"hardware-accelerated GPU scheduling is {word}" for line in lines)
