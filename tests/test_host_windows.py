"""A Windows machine is what its registry lists and what HIP answers, and where they differ it is said."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from scripts.host import hipinfo, windows_scan
from scripts.host import windows_registry as windows
from scripts.host.facts import Sources, scan_host
from scripts.host.hip import HipPlaces
from scripts.host.windows_registry import WinRegistry
from scripts.model import Gpu, Host
from tests.pe_version_file import library
from tests.windows_machines import AUDIO, RAPHAEL, XTX, Keys, Recorded, adapter, place, virtual

SAMPLES = Path(__file__).parent / "data" / "hipinfo"
BOTH = (SAMPLES / "integrated-first.txt").read_text(encoding="utf-8")
ONE = (SAMPLES / "renumbered.txt").read_text(encoding="utf-8")
STOPPED = (SAMPLES / "stopped-after-device-0.txt").read_text(encoding="utf-8")
STRIX = adapter(
    "1002:150e:c1", "AMD Radeon(TM) 890M Graphics", 1, location=place(202), service="amdkmdag-igpu"
)


class HipInfo:
    """Stands for the programs a scan may start, and keeps what it was asked."""

    def __init__(self, output: str, code: int | None = 0) -> None:
        self.answer = (code, output)
        self.asked: list[tuple[Sequence[str], Mapping[str, str]]] = []

    def __call__(self, command: Sequence[str], environ: Mapping[str, str]) -> tuple[int | None, str]:
        self.asked.append((command, environ))
        return self.answer


def look(
    folder: Path,
    *parts: Keys,
    says: HipInfo | None = None,
    environ: Mapping[str, str] | None = None,
    gpu: str = "",
) -> Host:
    """Scan a recorded machine; with ``says`` it has a HIP runtime whose hipInfo answers that."""
    places = HipPlaces()
    if says is not None:
        (folder / "hip" / "bin").mkdir(parents=True)
        for name in ("amdhip64_6.dll", "hipInfo.exe"):
            (folder / "hip" / "bin" / name).write_bytes(b"")
        places = HipPlaces(roots=((folder / "hip", "installed"),))
    sources = Sources(
        registry=Recorded(*parts), system32=folder / "System32", places=places, runner=says or HipInfo("")
    )
    return scan_host(environ or {}, platform="win32", gpu=gpu, sources=sources)


def only(host: Host) -> Gpu:
    assert len(host.gpus) == 1
    return host.gpus[0]


# ------------------------------------------------------------------ the registry alone


def test_the_registry_names_gpu_driver_and_memory(tmp_path: Path) -> None:
    gpu = only(look(tmp_path, XTX))
    assert (gpu.name, gpu.gfx, gpu.integrated) == ("AMD Radeon RX 7900 XTX", "gfx1100", False)
    assert (gpu.driver, gpu.memory_bytes) == ("32.0.31021.5001", 25753026560)
    assert (gpu.pci_id, gpu.source, gpu.why_unknown) == ("1002:744c:c8", "Windows registry", {})


def test_a_machine_without_any_display_device_has_no_gpu(tmp_path: Path) -> None:
    host = look(tmp_path, {})
    assert (host.gpus, host.selected, host.notes) == ((), None, ())


def test_the_id_decides_and_not_the_name(tmp_path: Path) -> None:
    liar = adapter("1002:73ff:df", "AMD Radeon RX 7900 XTX")
    assert only(look(tmp_path, liar)).gfx == "gfx1031"


def test_the_discrete_gpu_is_selected_in_either_order(tmp_path: Path) -> None:
    early = adapter("1002:164e:d8", "AMD Radeon(TM) Graphics", 1, location=place(1), service="igpu")
    for parts, chosen in (((XTX, RAPHAEL), 0), ((XTX, early), 1)):
        host = look(tmp_path, *parts)
        assert host.selected == chosen
        assert host.gpus[chosen].gfx == "gfx1100"


def test_memory_never_decides(tmp_path: Path) -> None:
    rich = adapter(
        "1002:150e:c1",
        "AMD Radeon(TM) 890M Graphics",
        1,
        location=place(1),
        service="igpu",
        memory={"HardwareInformation.qwMemorySize": 2**36},
    )
    host = look(tmp_path, XTX, rich)
    assert host.gpus[host.selected or 0].gfx == "gfx1100"


def test_audio_functions_are_no_gpus(tmp_path: Path) -> None:
    assert len(look(tmp_path, XTX, AUDIO).gpus) == 1


@pytest.mark.parametrize(
    ("values", "size"),
    [
        ({"HardwareInformation.qwMemorySize": 2**34}, 2**34),
        ({"HardwareInformation.qwMemorySize": (2**34).to_bytes(8, "little")}, 2**34),
        ({"HardwareInformation.MemorySize": 2**31}, 2**31),
        ({"HardwareInformation.MemorySize": 0xFFFFFFFF}, None),
        ({"HardwareInformation.MemorySize": 0xFFF00000}, None),
        ({"HardwareInformation.qwMemorySize": 0}, None),
        ({"HardwareInformation.qwMemorySize": "viel"}, None),
        ({}, None),
    ],
)
def test_memory_sizes(tmp_path: Path, values: Mapping[str, object], size: int | None) -> None:
    gpu = only(look(tmp_path, adapter("1002:744c:c8", "AMD Radeon RX 7900 XTX", memory=values)))
    assert gpu.memory_bytes == size
    assert ("memory_bytes" in gpu.why_unknown) is (size is None)


def test_an_unlisted_id_is_unknown_with_a_reason(tmp_path: Path) -> None:
    gpu = only(look(tmp_path, adapter("1002:7fff:00", "AMD Radeon RX 9999")))
    assert (gpu.gfx, gpu.integrated) == (None, None)
    assert "7FFF" in gpu.why_unknown["gfx"]
    assert "7FFF" in gpu.why_unknown["integrated"]


def test_microsoft_s_basic_driver_is_no_driver(tmp_path: Path) -> None:
    basic = adapter(
        "1002:744c:c8", "Microsoft Basic Display Adapter", service="BasicDisplay", version="10.0.19041.1"
    )
    gpu = only(look(tmp_path, basic))
    assert (gpu.driver, gpu.gfx, gpu.name) == ("none", "gfx1100", "AMD Radeon RX 7900 XTX")
    assert gpu.why_unknown["driver"] == "Microsoft Basic Display Adapter runs it"


def test_a_device_without_any_driver_is_found_by_its_class_code(tmp_path: Path) -> None:
    bare = adapter("1002:744c:c8", "Video Controller", guid="", service="")
    gpu = only(look(tmp_path, bare))
    assert gpu.driver == "none"
    assert "no driver is installed" in gpu.why_unknown["driver"]
    other = adapter("1002:ab30:00", "Audio", guid="", service="", compatible=["PCI\\CC_0403"])
    assert look(tmp_path, other).gpus == ()


@pytest.mark.parametrize(
    ("present", "count"), [pytest.param(True, 1, id="there"), pytest.param(None, 1, id="no-list"), (False, 0)]
)
def test_an_external_gpu_counts_only_while_it_is_plugged_in(
    tmp_path: Path, present: bool | None, count: int
) -> None:
    host = look(tmp_path, adapter("1002:744c:c8", "AMD Radeon RX 7900 XTX", present=present))
    assert len(host.gpus) == count
    if not count:
        assert "not plugged in" in host.notes[0]


@pytest.mark.parametrize(
    ("ids", "name", "words"),
    [
        ("1b36:0100:05", "Red Hat QXL controller", "QXL"),
        ("15ad:0405:00", "VMware SVGA 3D", "VMware"),
        ("1af4:1050:01", "Red Hat VirtIO GPU DOD controller", "virtio"),
        ("1414:5353:00", "Microsoft Hyper-V Video", "Hyper-V"),
        ("8086:a780:04", "Intel(R) UHD Graphics 770", "UHD"),
    ],
)
def test_other_adapters_are_passed_over_by_name(tmp_path: Path, ids: str, name: str, words: str) -> None:
    host = look(tmp_path, adapter(ids, name, service="other"))
    assert host.gpus == ()
    assert words in host.notes[0]


@pytest.mark.parametrize(
    ("name", "matching"),
    [
        ("Microsoft Remote Display Adapter", "swd\\remotedisplayenum"),
        ("Microsoft Basic Display Driver", "root\\basicdisplay"),
        ("Parsec Virtual Display Adapter", "Root\\Parsec\\VDA"),
    ],
)
def test_display_drivers_without_a_device_are_passed_over(tmp_path: Path, name: str, matching: str) -> None:
    host = look(tmp_path, XTX, virtual(7, name, matching))
    assert len(host.gpus) == 1
    assert name in host.notes[0]


def test_nvidia_and_amd_side_by_side(tmp_path: Path) -> None:
    rtx = adapter(
        "10de:2684:a1",
        "NVIDIA GeForce RTX 4090",
        1,
        location=place(1),
        service="nvlddmkm",
        version="32.0.15.8088",
    )
    host = look(tmp_path, XTX, rtx)
    assert [gpu.vendor for gpu in host.gpus] == ["nvidia", "amd"]
    assert host.selected == 0
    assert (host.gpus[0].gfx, host.gpus[0].driver) == (None, "32.0.15.8088")
    assert look(tmp_path, XTX, rtx, gpu="1").selected == 1


def test_nvidia_smi_speaks_for_the_card_in_its_slot(tmp_path: Path) -> None:
    tool = tmp_path / ("nvidia-smi.exe" if sys.platform == "win32" else "nvidia-smi")
    tool.write_bytes(b"")
    tool.chmod(0o755)
    rtx = adapter("10de:2684:a1", "NVIDIA GeForce RTX 4090", 1, location=place(101), service="nvlddmkm")
    says = HipInfo("0, NVIDIA GeForce RTX 4090, 24564 MiB, 580.88, 00000000:65:00.0\n")
    sources = Sources(registry=Recorded(rtx), system32=tmp_path, places=HipPlaces(), runner=says)
    gpu = only(scan_host({"Path": str(tmp_path)}, platform="win32", sources=sources))
    assert (gpu.driver, gpu.pci_id, gpu.source) == ("580.88", "10de:2684:a1", "nvidia-smi")


# ------------------------------------------------------------------ HIP's word


def test_both_lists_agree_and_hip_gives_its_numbers(tmp_path: Path) -> None:
    host = look(tmp_path, XTX, RAPHAEL, says=HipInfo(BOTH))
    assert host.disagreements == ()
    assert [(g.gfx, g.hip_index, g.integrated) for g in host.gpus] == [
        ("gfx1036", 0, True),
        ("gfx1100", 1, False),
    ]
    assert host.selected == 1
    assert host.gpus[1].driver == "32.0.31021.5001"
    assert "hipInfo" in host.gpus[1].source


def test_hip_is_asked_with_no_device_filtered_away(tmp_path: Path) -> None:
    says = HipInfo(BOTH)
    environ = {"Hip_Visible_Devices": "1", "CUDA_VISIBLE_DEVICES": "0", "KEPT": "yes"}
    host = look(tmp_path, XTX, RAPHAEL, says=says, environ=environ)
    (command, given) = says.asked[0]
    assert command[0].endswith("hipInfo.exe")
    assert dict(given) == {"KEPT": "yes"}
    assert any("HIP_VISIBLE_DEVICES=1" in note for note in host.notes)


def test_a_gpu_only_windows_lists_is_a_disagreement(tmp_path: Path) -> None:
    host = look(tmp_path, XTX, RAPHAEL, says=HipInfo(ONE))
    assert host.disagreements == ("Windows lists AMD Radeon(TM) Graphics (gfx1036), HIP does not.",)
    assert [gpu.gfx for gpu in host.gpus] == ["gfx1100", "gfx1036"]


@pytest.mark.slow
def test_a_gpu_only_hip_lists_is_a_disagreement(tmp_path: Path) -> None:
    host = look(tmp_path, XTX, says=HipInfo(BOTH))
    assert host.disagreements == ("HIP lists AMD Radeon(TM) Graphics (gfx1036), Windows does not.",)
    assert len(host.gpus) == 2


def test_hip_is_believed_about_the_architecture(tmp_path: Path) -> None:
    other = adapter("1002:747e:c8", "AMD Radeon RX 7800 XT", location=place(3))
    host = look(tmp_path, other, says=HipInfo(ONE))
    assert only(host).gfx == "gfx1100"
    assert "says gfx1101, HIP says gfx1100" in host.disagreements[0]


def test_hip_is_believed_about_the_kind(tmp_path: Path) -> None:
    odd = ONE.replace("isIntegrated:                     0", "isIntegrated:                     1")
    host = look(tmp_path, XTX, says=HipInfo(odd))
    assert only(host).integrated is True
    assert "discrete kind, HIP says integrated" in host.disagreements[0]


def test_hip_names_what_the_table_does_not(tmp_path: Path) -> None:
    new = adapter("1002:7fff:00", "AMD Radeon RX 7900 XTX", location=place(3))
    host = look(tmp_path, new, says=HipInfo(ONE))
    gpu = only(host)
    assert (gpu.gfx, gpu.integrated, gpu.why_unknown) == ("gfx1100", False, {})
    assert host.disagreements == ()


@pytest.mark.slow
def test_without_a_place_on_the_bus_a_single_architecture_pairs_them(tmp_path: Path) -> None:
    nowhere = adapter("1002:744c:c8", "AMD Radeon RX 7900 XTX", location="Intern")
    host = look(tmp_path, nowhere, says=HipInfo(ONE))
    assert only(host).hip_index == 0
    assert host.disagreements == ()


def test_two_equal_cards_without_a_place_are_not_paired_by_guess(tmp_path: Path) -> None:
    twins = (
        adapter("1002:744c:c8", "AMD Radeon RX 7900 XTX", 0, location="Intern", service="a"),
        adapter("1002:744c:c8", "AMD Radeon RX 7900 XTX", 1, location="Intern", service="b"),
    )
    host = look(tmp_path, *twins, says=HipInfo(ONE))
    assert len(host.disagreements) == 3


def test_two_equal_devices_of_hip_are_not_paired_with_one_card_by_guess(tmp_path: Path) -> None:
    nowhere = adapter("1002:744c:c8", "AMD Radeon RX 7900 XTX", location="Intern")
    twin = ONE.replace("pciBusID:                         3", "pciBusID:                         9")
    host = look(tmp_path, nowhere, says=HipInfo(ONE + twin))
    assert len(host.gpus) == 3
    assert len(host.disagreements) == 3


def test_a_hipinfo_that_stops_early_is_said_and_windows_fills_in(tmp_path: Path) -> None:
    host = look(tmp_path, XTX, RAPHAEL, says=HipInfo(STOPPED, code=1))
    assert len(host.gpus) == 2
    assert any("stopped after 1 device" in note for note in host.notes)
    assert host.disagreements == ("Windows lists AMD Radeon RX 7900 XTX (gfx1100), HIP does not.",)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "words"),
    [(-1073741819, "ended with code"), (None, "did not end in time"), (0, "printed nothing")],
)
def test_a_hipinfo_that_crashes_hangs_or_says_nothing_is_said(
    tmp_path: Path, code: int | None, words: str
) -> None:
    host = look(tmp_path, XTX, says=HipInfo("", code=code))
    assert any(words in note for note in host.notes)
    assert only(host).gfx == "gfx1100"


def test_hip_is_not_asked_on_a_machine_without_an_amd_gpu(tmp_path: Path) -> None:
    says = HipInfo(BOTH)
    look(tmp_path, adapter("8086:a780:04", "Intel(R) UHD Graphics 770"), says=says)
    assert says.asked == []


def test_merging_keeps_every_gpu_once() -> None:
    listed = windows.displays(Recorded(XTX, STRIX)).gpus
    merged = windows_scan.merge(listed, hipinfo.parse(BOTH))
    assert sorted(gpu.gfx or "" for gpu in merged.gpus) == ["gfx1036", "gfx1100", "gfx1150"]


# ------------------------------------------------------------------ files and the real registry


@pytest.mark.slow
def test_the_driver_s_runtimes_are_listed_with_their_versions(tmp_path: Path) -> None:
    system = tmp_path / "System32"
    system.mkdir()
    (system / "amdhip64_7.dll").write_bytes(library((10, 0, 3679, 0)))
    (system / "amdhip64.dll").write_bytes(b"broken")
    (system / "amdocl64.dll").write_bytes(b"")
    assert look(tmp_path, XTX).driver_files == {"amdhip64.dll": None, "amdhip64_7.dll": "10.0.3679.0"}


@pytest.fixture
def hive() -> Iterator[str]:
    """A key of our own below HKEY_CURRENT_USER, gone afterwards."""
    name = rf"Software\cuda-on-amd-test-{uuid.uuid4().hex}"
    yield name
    if sys.platform == "win32":
        import winreg  # noqa: PLC0415 - Windows only

        def remove(path: str) -> None:
            with winreg.OpenKey(winreg.HKEY_CURRENT_USER, path) as key:
                names = [winreg.EnumKey(key, index) for index in range(winreg.QueryInfoKey(key)[0])]
            for below in names:
                remove(rf"{path}\{below}")
            winreg.DeleteKey(winreg.HKEY_CURRENT_USER, path)

        remove(name)


def write(below: str, *parts: Keys) -> None:
    """Put recorded keys into the real registry."""
    if sys.platform == "win32":
        import winreg  # noqa: PLC0415 - Windows only

        kinds = {str: winreg.REG_SZ, list: winreg.REG_MULTI_SZ, bytes: winreg.REG_BINARY}
        for part in parts:
            for path, values in part.items():
                with winreg.CreateKey(winreg.HKEY_CURRENT_USER, rf"{below}\{path}") as key:
                    for name, value in values.items():
                        wide = isinstance(value, int) and value > 0xFFFFFFFF
                        kind = kinds.get(type(value), winreg.REG_QWORD if wide else winreg.REG_DWORD)
                        winreg.SetValueEx(key, name, 0, kind, value)


@pytest.mark.windows_only
def test_the_real_registry_reads_like_a_recorded_one(hive: str) -> None:
    parts = (XTX, RAPHAEL, AUDIO, virtual(7, "Microsoft Remote Display Adapter", "swd\\remote"))
    write(hive, *parts)
    assert windows.displays(WinRegistry(hive)) == windows.displays(Recorded(*parts))


@pytest.mark.windows_only
def test_a_key_that_is_not_there_is_nothing(hive: str) -> None:
    write(hive, {"SYSTEM": {}})
    registry = WinRegistry(hive)
    assert registry.keys("SYSTEM\\Absent") == ()
    assert registry.values("SYSTEM\\Absent") is None
    assert registry.values("SYSTEM") == {}


@pytest.mark.windows_only
def test_this_windows_can_be_scanned() -> None:
    import os  # noqa: PLC0415 - the one test that looks at the machine it runs on

    host = scan_host(os.environ, platform=sys.platform)
    assert host.os == "windows"
    assert [gpu.index for gpu in host.gpus] == list(range(len(host.gpus)))


@pytest.mark.posix_only
def test_elsewhere_there_is_no_registry() -> None:
    assert windows.displays(WinRegistry()) == windows.Adapters()
