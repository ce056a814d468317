"""A Linux machine is read from small text files; recorded ones are read the same way on any system."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from scripts.errors import UsageError
from scripts.host import gpu as nvidia
from scripts.host import linux
from scripts.host.facts import Sources, scan_host
from scripts.host.hip import HipPlaces
from scripts.model import Host

# What an H200 machine shows (driver 580.159.04): nvidia-smi, /proc/driver/nvidia and the PCI bus.
H200_ROW = "0, NVIDIA H200, 143771 MiB, 580.159.04, 00000000:00:06.0\n"
H200 = {
    "proc/driver/nvidia/version": (
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (nixbld@)  \n"
        "GCC version:  gcc version 15.3.0 (GCC) \n"
    ),
    "proc/driver/nvidia/gpus/0000:00:06.0/information": (
        "Model: \t\t NVIDIA H200\nIRQ:   \t\t 41\nGPU UUID: \t GPU-00000000-0000-0000-0000-000000000000\n"
        "Bus Type: \t PCIe\nBus Location: \t 0000:00:06.0\nDevice Minor: \t 0\nGPU Excluded:\t No\n"
    ),
}

NOWHERE = HipPlaces()


class Tree:
    """A recorded machine: paths and their text. Slots hold colons, which Windows file names cannot."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self.files = files

    def text(self, path: str) -> str | None:
        return self.files.get(path)

    def names(self, path: str) -> tuple[str, ...]:
        below = (name.removeprefix(f"{path}/") for name in self.files if name.startswith(f"{path}/"))
        return tuple(sorted({name.partition("/")[0] for name in below}))


def pci(slot: str, ids: str, *, kind: str = "0x030000", driver: str = "", vram: int = 0) -> dict[str, str]:
    vendor, device, revision = ids.split(":")
    base = f"{linux.PCI}/{slot}"
    files = {
        f"{base}/class": f"{kind}\n",
        f"{base}/vendor": f"0x{vendor}\n",
        f"{base}/device": f"0x{device}\n",
        f"{base}/revision": f"0x{revision}\n",
        f"{base}/uevent": (f"DRIVER={driver}\n" if driver else "") + f"PCI_SLOT_NAME={slot}\n",
    }
    return files | ({f"{base}/mem_info_vram_total": f"{vram}\n"} if vram else {})


def kfd(number: int, version: int, *, location: int = 0, device: int = 0, size: int = 0) -> dict[str, str]:
    base = f"{linux.KFD}/{number}"
    return {
        f"{base}/properties": (
            f"cpu_cores_count 0\nsimd_count 96\nvendor_id 4098\ndevice_id {device}\n"
            f"location_id {location}\ndomain 0\ngfx_target_version {version}\n"
        ),
        f"{base}/mem_banks/0/properties": f"heap_type 1\nsize_in_bytes {size}\nflags 0\n",
        f"{base}/mem_banks/1/properties": "heap_type 0\nsize_in_bytes 99999999999\nflags 0\n",
    }


CPU_NODE = {
    f"{linux.KFD}/0/properties": "cpu_cores_count 16\nsimd_count 0\nlocation_id 0\ngfx_target_version 0\n"
}
XTX = pci("0000:03:00.0", "1002:744c:c8", driver="amdgpu", vram=25753026560)
XTX_NODE = kfd(1, 110000, location=0x0300, device=0x744C, size=25753026560)
RAPHAEL = pci("0000:12:00.0", "1002:164e:d8", driver="amdgpu", vram=536870912)
RAPHAEL_NODE = kfd(2, 100306, location=0x1200, device=0x164E)


def nothing(command: Sequence[str], environ: Mapping[str, str]) -> tuple[int | None, str]:
    pytest.fail(f"started {command}")


def look(*files: Mapping[str, str], gpu: str = "") -> Host:
    tree = Tree({name: text for part in files for name, text in part.items()})
    return scan_host(
        {}, platform="linux", sources=Sources(tree=tree, places=NOWHERE, runner=nothing), gpu=gpu
    )


def test_a_machine_without_any_gpu_has_none_and_starts_no_process() -> None:
    host = look(pci("0000:00:01.0", "1af4:1000:00", kind="0x020000", driver="virtio-pci"))
    assert host.gpus == ()
    assert host.selected is None


def test_an_empty_sys_is_a_machine_without_a_gpu() -> None:
    assert look({}).gpus == ()


def test_topology_names_the_architecture() -> None:
    (gpu,) = look(XTX, CPU_NODE, XTX_NODE).gpus
    assert (gpu.gfx, gpu.integrated, gpu.memory_bytes) == ("gfx1100", False, 25753026560)
    assert (gpu.source, gpu.pci_id, gpu.driver) == ("KFD topology", "1002:744c:c8", "amdgpu")


def test_the_pci_id_names_it_where_there_is_no_topology() -> None:
    (gpu,) = look(XTX, {"sys/module/amdgpu/version": "6.10.5\n"}).gpus
    assert (gpu.gfx, gpu.source, gpu.driver) == ("gfx1100", "PCI id", "amdgpu 6.10.5")


def test_the_driver_is_believed_where_the_table_differs() -> None:
    host = look(pci("0000:03:00.0", "1002:747e:c8", driver="amdgpu"), CPU_NODE, XTX_NODE)
    assert host.gpus[0].gfx == "gfx1100"
    assert host.disagreements == (
        "The PCI id 1002:747e:c8 says gfx1101, the driver says gfx1100 and is believed.",
    )
    assert look(XTX, CPU_NODE, XTX_NODE).disagreements == ()


def test_an_override_of_the_architecture_is_noted() -> None:
    sources = Sources(tree=Tree(XTX), places=NOWHERE, runner=nothing)
    host = scan_host({"HSA_OVERRIDE_GFX_VERSION": "10.3.0"}, platform="linux", sources=sources)
    assert "10.3.0" in host.notes[0]


def test_topology_alone_is_enough_in_a_container() -> None:
    (gpu,) = look(CPU_NODE, XTX_NODE).gpus
    assert (gpu.gfx, gpu.memory_bytes, gpu.integrated) == ("gfx1100", 25753026560, None)
    assert "744C" in gpu.why_unknown["integrated"]


@pytest.mark.parametrize(
    ("version", "gfx"),
    [
        (110000, "gfx1100"),
        (90010, "gfx90a"),
        (90402, "gfx942"),
        (100306, "gfx1036"),
        (90012, "gfx90c"),
        (120001, "gfx1201"),
    ],
)
def test_target_versions_are_spelled_as_the_compiler_does(version: int, gfx: str) -> None:
    assert linux.gfx_name(version) == gfx


def test_the_discrete_gpu_is_preferred_wherever_it_stands() -> None:
    first = look(pci("0000:01:00.0", "1002:164e:d8", driver="amdgpu", vram=2**36), XTX)
    assert [gpu.gfx for gpu in first.gpus] == ["gfx1036", "gfx1100"]
    assert first.selected == 1
    second = look(XTX, RAPHAEL, CPU_NODE, XTX_NODE, RAPHAEL_NODE)
    assert [gpu.integrated for gpu in second.gpus] == [False, True]
    assert second.selected == 0


def test_a_number_chooses_and_a_bad_one_lists_what_exists() -> None:
    assert look(XTX, RAPHAEL, gpu="1").selected == 1
    for bad in ("2", "-1", "one", "1.0", "²"):
        with pytest.raises(UsageError) as caught:
            look(XTX, RAPHAEL, gpu=bad)
        assert len(caught.value.context) == 2
        assert "gfx1100" in caught.value.context[0]


def test_audio_functions_are_no_gpus() -> None:
    host = look(XTX, pci("0000:03:00.1", "1002:ab30:00", kind="0x040300", driver="snd_hda_intel"))
    assert len(host.gpus) == 1


def test_an_instinct_accelerator_is_a_gpu_named_by_the_topology() -> None:
    card = pci("0000:0b:00.0", "1002:74a1:00", kind="0x120000", driver="amdgpu", vram=2**37)
    (gpu,) = look(card, CPU_NODE, kfd(1, 90402, location=0x0B00, device=0x74A1)).gpus
    assert gpu.gfx == "gfx942"


def test_an_unknown_id_is_unknown_with_a_reason() -> None:
    (gpu,) = look(pci("0000:03:00.0", "1002:7fff:01", driver="amdgpu")).gpus
    assert (gpu.gfx, gpu.integrated, gpu.memory_bytes) == (None, None, None)
    assert "7FFF" in gpu.why_unknown["gfx"]
    assert gpu.why_unknown["memory_bytes"]


def test_a_gpu_handed_to_a_virtual_machine_has_no_usable_driver() -> None:
    (gpu,) = look(pci("0000:03:00.0", "1002:744c:c8", driver="vfio-pci")).gpus
    assert gpu.driver == "none"
    assert "vfio-pci" in gpu.why_unknown["driver"]


@pytest.mark.parametrize(
    ("ids", "word"),
    [
        ("1b36:0100:05", "QXL"),
        ("15ad:0405:00", "VMware"),
        ("1af4:1050:01", "virtio"),
        ("8086:a780:04", "8086:a780"),
    ],
)
def test_other_adapters_are_passed_over_by_name(ids: str, word: str) -> None:
    host = look(pci("0000:00:02.0", ids))
    assert host.gpus == ()
    assert word in host.notes[0]


def test_an_answering_nvidia_gpu_goes_before_a_discrete_radeon(tmp_path: Path) -> None:
    host = smi(tmp_path, H200_ROW, XTX, pci("0000:00:06.0", "10de:2335:a1", kind="0x030200", driver="nvidia"))
    assert [gpu.vendor for gpu in host.gpus] == ["amd", "nvidia"]
    assert host.selected == 1
    assert host.gpus[1].pci_id == "10de:2335:a1"


def test_nvidia_smi_decides_where_a_container_hides_sys(tmp_path: Path) -> None:
    host = smi(tmp_path, H200_ROW)
    (gpu,) = host.gpus
    assert (gpu.name, gpu.driver, gpu.integrated) == ("NVIDIA H200", "580.159.04", False)
    assert gpu.memory_bytes == 143771 * 1024 * 1024


def test_the_driver_alone_names_an_nvidia_gpu() -> None:
    (gpu,) = look(H200).gpus
    assert (gpu.name, gpu.driver, gpu.source) == ("NVIDIA H200", "580.159.04", "/proc/driver/nvidia")


def test_an_nvidia_gpu_without_its_driver_goes_last() -> None:
    host = look(pci("0000:01:00.0", "10de:2335:a1", driver="nouveau"), RAPHAEL)
    assert host.gpus[host.selected or 0].vendor == "amd"
    silent = next(gpu for gpu in host.gpus if gpu.vendor == "nvidia")
    assert silent.driver == "none"
    assert "nouveau" in silent.why_unknown["driver"]


def test_a_failing_nvidia_smi_is_a_note(tmp_path: Path) -> None:
    host = smi(tmp_path, "NVIDIA-SMI has failed because it couldn't communicate with the driver.\n", code=9)
    assert host.gpus == ()
    assert "couldn't communicate" in host.notes[0]


def test_a_gpu_that_shares_memory_is_of_unknown_kind() -> None:
    (gpu,) = nvidia.parse("0, NVIDIA GB10, [N/A], 580.95.05, 0000000F:01:00.0\n").values()
    assert (gpu.memory_bytes, gpu.integrated) == (None, None)
    assert set(gpu.why_unknown) == {"gfx", "memory_bytes", "integrated"}


@pytest.mark.posix_only
def test_a_real_folder_is_read_like_a_recorded_one(tmp_path: Path) -> None:
    for name, text in {**XTX, **CPU_NODE, **XTX_NODE}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    host = scan_host(
        {}, platform="linux", sources=Sources(tree=linux.FileReader(tmp_path), places=NOWHERE, runner=nothing)
    )
    assert host == look(XTX, CPU_NODE, XTX_NODE)


def smi(folder: Path, output: str, *files: Mapping[str, str], code: int = 0) -> Host:
    """Look at a machine that has nvidia-smi on its PATH, which prints ``output``."""
    tool = folder / ("nvidia-smi.exe" if sys.platform == "win32" else "nvidia-smi")
    tool.write_bytes(b"")
    tool.chmod(0o755)
    tree = Tree({name: text for part in files for name, text in part.items()})

    def runner(command: Sequence[str], environ: Mapping[str, str]) -> tuple[int | None, str]:
        return code, output

    return scan_host(
        {"PATH": str(folder)},
        platform="linux",
        sources=Sources(tree=tree, places=NOWHERE, runner=runner),
    )


@pytest.mark.parametrize(
    ("folder", "environ", "noted"),
    [
        ("usr/lib/x86_64-linux-gnu", {}, False),
        ("usr/local/nvidia/lib64", {}, False),
        ("opt/driver", {"LD_LIBRARY_PATH": ":/opt/driver/"}, False),
        ("opt/driver", {}, True),
    ],
)
def test_a_missing_cuda_library_is_a_note(folder: str, environ: Mapping[str, str], noted: bool) -> None:
    tree = Tree(H200 | {f"{folder}/libcuda.so.1": ""})
    host = scan_host(environ, platform="linux", sources=Sources(tree=tree, places=NOWHERE, runner=nothing))
    assert any("libcuda.so.1" in note for note in host.notes) is noted


def test_a_query_is_run_to_its_end_with_the_environment_given() -> None:
    environ = dict(os.environ) | {"ASKED": "größer"}
    code = "import os, sys; print(os.environ['ASKED'].encode('utf-8').hex()); sys.exit(3)"
    ended, output = nvidia.run([sys.executable, "-c", code], environ)
    assert (ended, output.strip()) == (3, "größer".encode().hex())


def test_a_query_that_does_not_start_is_no_failure_of_ours(tmp_path: Path) -> None:
    code, output = nvidia.run([str(tmp_path / "absent.exe")], dict(os.environ))
    assert code == -1
    assert output


def test_a_query_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvidia, "SECONDS", 0.5)
    code, output = nvidia.run([sys.executable, "-c", "import time; time.sleep(600)"], dict(os.environ))
    assert (code, output) == (None, "no answer within 0.5 seconds")
