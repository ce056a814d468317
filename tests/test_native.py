"""``native``: the commands to run without translation, for this GPU, system and program."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from scripts.app.scan import native
from scripts.cli.views.status import show_native
from scripts.errors import UsageError
from scripts.host.gpu import is_known_gfx
from scripts.host.support import coverage, native_ways, no_stack_possible
from scripts.launch.profiles import document
from tests.test_launch_profiles import ROOT
from tests.test_pins_tasks import shown
from tests.wrapping import workspace


def test_every_way_says_by_whom_and_for_programs_that_exist() -> None:
    programs = {row["id"] for row in document()}
    for os in ("windows", "linux"):
        for way in native_ways(gfx="gfx1100", os=os, programs=programs):
            assert way.source
            assert way.date
            assert way.commands or way.better
            assert all("{" not in command for command in way.commands)
    assert {way.id for way in native_ways(gfx="gfx1100", os="windows", programs=programs)} >= {
        "torch-rocm",
        "comfyui-portable",
        "llama-hip",
        "blender-hip",
        "ctranslate2-hip",
        "wsl",
    }


@pytest.mark.parametrize("gfx", coverage())
def test_the_wheel_names_the_device_of_the_gpu(gfx: str) -> None:
    [torch] = [way for way in native_ways(gfx=gfx, os="linux", programs=("pytorch",)) if way.own]
    assert f"torch[device-{gfx}]==" in torch.commands[0]
    assert not no_stack_possible(gfx)
    assert is_known_gfx(gfx) or gfx in {"gfx1011", "gfx1033"}


@pytest.mark.parametrize("gfx", ["gfx803", "gfx900", "gfx906"])
def test_polaris_and_vega_get_a_plain_no_and_vulkan(gfx: str) -> None:
    assert "Vulkan" in no_stack_possible(gfx)
    ways = {way.id for way in native_ways(gfx=gfx, os="windows", programs=("pytorch", "llama-cpp"))}
    assert {"llama-vulkan", "directml"} <= ways
    assert not ways & {"torch-rocm", "llama-hip", "wsl"}


def test_an_unknown_gpu_is_promised_nothing() -> None:
    assert "torch-rocm" not in {way.id for way in native_ways(gfx="", os="linux", programs=("pytorch",))}
    assert no_stack_possible("") == ""
    assert no_stack_possible("gfx942") == "", "AMD's accelerators are not in the list, and not refused"


def test_that_there_is_no_gpu_is_said() -> None:
    result = native(workspace(ROOT), gpu="gfx1100")
    assert "no GPU" not in shown(show_native, result)
    unknown = replace(result, gfx="")
    assert "a GPU whose architecture is not known" in shown(show_native, unknown)
    assert "no GPU was found" in shown(show_native, replace(unknown, found=False))


def test_a_program_is_recognised_and_its_own_ways_come_first(tmp_path: Path) -> None:
    blender = tmp_path / "blender.exe"
    blender.write_bytes(b"MZ")
    blender.chmod(0o755)
    result = native(workspace(ROOT), exe=str(blender), gpu="gfx1032")
    assert (result.gfx, result.programs, result.ways[0].id) == ("gfx1032", ("blender",), "blender-hip")
    with pytest.raises(UsageError) as caught:
        native(workspace(ROOT), gpu="6700")
    assert caught.value.reference in {"bad-gpu", "gpu-unknown"}


def test_a_program_without_a_way_of_its_own_is_told_that_translation_is_the_way(tmp_path: Path) -> None:
    program = tmp_path / "closed.exe"
    program.write_bytes(b"MZ")
    program.chmod(0o755)
    result = native(workspace(ROOT), exe=str(program), gpu="gfx1100")
    assert "translation is the way" in result.better
    assert result.to_json()["better"] == result.better
    assert result.better in shown(show_native, result).replace("\n", " ")
    assert native(workspace(ROOT), exe=str(program), gpu="gfx803").better == "", "no stack serves it"
    assert native(workspace(ROOT), gpu="gfx1100").better == ""
