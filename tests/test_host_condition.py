"""Clocks and power: read where they stand, unknown where they do not."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from scripts.host.facts import read_condition
from scripts.host.gpu import AMD, NVIDIA
from scripts.model import Gpu


def tree(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def gpu(vendor: str, **more: Any) -> Gpu:
    return Gpu(index=1, name="GPU", vendor=vendor, **more)


SUPPLY = "sys/class/power_supply"
CPU = "sys/devices/system/cpu/cpu0/cpufreq"


@pytest.mark.parametrize(
    ("files", "power"),
    [
        ({f"{SUPPLY}/AC/type": "Mains", f"{SUPPLY}/AC/online": "1\n"}, "mains"),
        ({f"{SUPPLY}/AC/type": "Mains", f"{SUPPLY}/AC/online": "0\n"}, "battery"),
        ({f"{SUPPLY}/BAT0/type": "Battery", f"{SUPPLY}/BAT0/status": "Discharging"}, "battery"),
        ({f"{SUPPLY}/BAT0/type": "Battery", f"{SUPPLY}/BAT0/status": "Full"}, "mains"),
        ({}, "unknown"),
    ],
    ids=["plugged-in", "unplugged", "discharging", "full", "nothing-to-read"],
)
def test_the_power_supply(tmp_path: Path, files: Mapping[str, str], power: str) -> None:
    assert read_condition(None, {}, "linux", root=tree(tmp_path, files))["power"] == power


def test_the_processors_own_clock_and_governor(tmp_path: Path) -> None:
    files = {f"{CPU}/scaling_cur_freq": "3400123\n", f"{CPU}/scaling_governor": "powersave\n"}
    found = read_condition(None, {}, "linux", root=tree(tmp_path, files))
    assert found == {"clocks": "3400 MHz CPU", "power": "unknown, governor powersave"}


def test_an_amd_gpu_marks_the_clock_in_use(tmp_path: Path) -> None:
    card = "sys/class/drm/card1/device"
    files = {
        "sys/class/drm/card0/device/vendor": "0x8086",
        f"{card}/vendor": "0x1002\n",
        f"{card}/device": "0x7590\n",
        f"{card}/pp_dpm_sclk": "0: 500Mhz\n1: 2780Mhz *\n2: 3100Mhz\n",
        f"{card}/pp_dpm_mclk": "0: 96Mhz\n1: 1258Mhz *\n",
    }
    root = tree(tmp_path, files)
    assert read_condition(gpu(AMD, pci_id="1002:7590"), {}, "linux", root=root)["clocks"] == (
        "2780 MHz core, 1258 MHz memory"
    )
    for other in (gpu(AMD, pci_id="1002:744c"), gpu(AMD)):
        assert read_condition(other, {}, "linux", root=root)["clocks"] == "unknown"


@pytest.mark.parametrize(
    ("code", "output", "clocks", "state"),
    [
        (0, "1980 MHz, 3201 MHz, P0, 700.00 W\n", "1980 MHz core, 3201 MHz memory", "P0, limit 700.00 W"),
        (0, "[N/A], [N/A], P0, 10 W\n", "unknown", "unknown"),
        (0, "", "unknown", "unknown"),
        (9, "1980 MHz, 3201 MHz, P0, 700.00 W\n", "unknown", "unknown"),
        (None, "", "unknown", "unknown"),
    ],
    ids=["answer", "not-available", "silence", "failure", "no-end"],
)
def test_nvidia_smi_is_asked_about_the_gpu_in_use(
    tmp_path: Path, code: int | None, output: str, clocks: str, state: str
) -> None:
    asked: list[Sequence[str]] = []

    def run(command: Sequence[str], _environ: Mapping[str, str]) -> tuple[int | None, str]:
        asked.append(command)
        return code, output

    name = "nvidia-smi.exe" if os.name == "nt" else "nvidia-smi"
    tool = tree(tmp_path, {name: ""}) / name
    tool.chmod(0o755)
    found = read_condition(gpu(NVIDIA), {"PATH": str(tmp_path)}, "linux", root=tmp_path, runner=run)
    assert found == {"clocks": clocks, "power": f"unknown, {state}"}
    assert "--id=1" in asked[0]


def test_without_nvidia_smi_nothing_is_started(tmp_path: Path) -> None:
    def run(_command: Sequence[str], _environ: Mapping[str, str]) -> tuple[int | None, str]:
        pytest.fail("nothing to start")

    found = read_condition(gpu(NVIDIA), {"PATH": str(tmp_path)}, "linux", root=tmp_path, runner=run)
    assert found["clocks"] == "unknown"


@pytest.mark.windows_only
def test_windows_tells_its_power_supply() -> None:
    assert read_condition(None, {}, "win32")["power"] in {"mains", "battery", "unknown"}
