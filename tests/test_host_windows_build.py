"""Which Windows this is, to the update, and what was reported about it."""

from __future__ import annotations

import pytest

from scripts.doctor.examine import examine
from scripts.doctor.machine import MachineState
from scripts.host.windows import GRAPHICS_KEY, VERSION_KEY, WindowsBuild, build_reports, windows_build
from scripts.model import Host


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
    }
    assert windows_build(Recorded(keys)) == WindowsBuild(build=26200, revision=9445, gpu_scheduling=True)
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
