"""``scan``: what a script reads, what a person reads, and what a wrong option says."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from scripts.app import scan as scan_module
from scripts.app.context import Workspace
from scripts.app.scan import ScanResult, scan
from scripts.cli.console import Out
from scripts.cli.views.status import show_scan as show
from scripts.errors import UsageError
from scripts.host.facts import Sources, scan_host
from scripts.host.hip import HipPlaces
from scripts.model import Host
from tests.checkout import workspace_in
from tests.windows_machines import RAPHAEL, XTX, Recorded

SAMPLES = Path(__file__).parent / "data" / "hipinfo"
GIVEN = {
    "gpus": ["index", "name", "gfx", "integrated", "memory_bytes", "driver", "source"],
    "hip_roots": ["path", "version", "source", "libraries"],
}


def workspace(folder: Path, platform: str = "win32") -> Workspace:
    return workspace_in(folder, platform=platform)


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A Windows machine with two GPUs and HIP 6.4.2, whose hipInfo sees one of them."""
    root = tmp_path / "ROCm" / "6.4"
    (root / "bin").mkdir(parents=True)
    (root / ".info").mkdir()
    (root / ".info" / "version").write_text("6.4.2\n", encoding="utf-8")
    for name in ("amdhip64_6.dll", "rocblas.dll", "hipInfo.exe"):
        (root / "bin" / name).write_bytes(b"")
    output = (SAMPLES / "renumbered.txt").read_text(encoding="utf-8")
    sources = Sources(
        registry=Recorded(XTX, RAPHAEL),
        system32=tmp_path / "System32",
        places=HipPlaces(parents=((tmp_path / "ROCm", r"Program Files\AMD\ROCm"),)),
        runner=lambda _command, _environ: (0, output),
    )

    def look(environ: Mapping[str, str], **options: str) -> Host:
        return scan_host(environ, **options, sources=sources)

    monkeypatch.setattr(scan_module, "scan_host", look)
    return workspace(tmp_path)


def seen(result: ScanResult, folder: Path) -> str:
    """What a person reads, with the temporary folder neutralised and blanks at line ends gone."""
    out, err = io.StringIO(), io.StringIO()
    face = Out(out, err)
    face.stdout.width = 100
    show(result, face)
    lines = (out.getvalue() + "--\n" + err.getvalue()).replace(str(folder), "T").splitlines()
    return "\n".join(line.rstrip() for line in lines if line.strip())


def test_json_has_the_keys_people_were_promised(recorded: Workspace, tmp_path: Path) -> None:
    data = json.loads(json.dumps(scan(recorded).to_json()))
    for key, fields in GIVEN.items():
        assert all(set(fields) <= set(item) for item in data[key])
        assert data[key]
    assert data["selected"] == 0
    assert data["disagreements"] == ["Windows lists AMD Radeon(TM) Graphics (gfx1036), HIP does not."]
    assert data["hip_roots"] == [
        {
            "path": str(tmp_path / "ROCm" / "6.4"),
            "version": "6.4.2",
            "source": r"Program Files\AMD\ROCm",
            "libraries": ["amdhip64", "amdhip64_6", "rocblas"],
        }
    ]
    assert data["gpus"][0] == {
        "index": 0,
        "name": "AMD Radeon RX 7900 XTX",
        "vendor": "amd",
        "gfx": "gfx1100",
        "integrated": False,
        "memory_bytes": 25748328940,
        "driver": "32.0.31021.5001",
        "pci_id": "1002:744c:c8",
        "hip_index": 0,
        "source": "hipInfo, Windows registry",
        "why_unknown": {},
    }


SNAPSHOT = """\
#    GPU                      gfx      kind        memory    driver
---  -----------------------  -------  ----------  --------  ---------------
0 *  AMD Radeon RX 7900 XTX   gfx1100  discrete    24.0 GiB  32.0.31021.5001
1    AMD Radeon(TM) Graphics  gfx1036  integrated  0.5 GiB   32.0.31021.5001
HIP runtime  version  found by                libraries
-----------  -------  ----------------------  -----------------------------
ROCm         6.4.2    Program Files\\AMD\\ROCm  amdhip64, amdhip64_6, rocblas
! Windows lists AMD Radeon(TM) Graphics (gfx1036), HIP does not.
HIP SDK 6.4.2 supports gfx1100: runtime and libraries. \
(rocm.docs.amd.com/projects/install-on-windows/en/docs-6.4.2/reference/system-requirements.html)
-> use GPU 0, AMD Radeon RX 7900 XTX: invoke setup
--"""


def test_a_person_reads_the_machine(recorded: Workspace, tmp_path: Path) -> None:
    result = scan(recorded)
    roots = tuple(replace(root, path=Path("ROCm")) for root in result.host.hip_roots)
    named = replace(result, host=replace(result.host, hip_roots=roots))
    assert [line.strip() for line in seen(named, tmp_path).splitlines()] == SNAPSHOT.splitlines()


def test_a_folder_of_ones_own_is_listed_first(recorded: Workspace, tmp_path: Path) -> None:
    mine = tmp_path / "my HIP"
    (mine / "bin").mkdir(parents=True)
    (mine / "bin" / "amdhip64_7.dll").write_bytes(b"")
    found = scan(recorded, hip_root=str(mine)).host.hip_roots
    assert [(root.path.name, root.version) for root in found] == [("my HIP", None), ("6.4", "6.4.2")]
    with pytest.raises(UsageError) as caught:
        scan(recorded, hip_root=str(tmp_path))
    assert caught.value.reference == "hip-root-unusable"


def test_a_number_chooses_the_gpu(recorded: Workspace) -> None:
    assert scan(recorded, gpu="1").to_json()["selected"] == 1
    with pytest.raises(UsageError) as caught:
        scan(recorded, gpu="7")
    assert caught.value.context == (
        "0: AMD Radeon RX 7900 XTX (gfx1100)",
        "1: AMD Radeon(TM) Graphics (gfx1036)",
    )


def test_a_pasted_output_is_read_from_a_file(tmp_path: Path) -> None:
    result = scan(workspace(tmp_path), from_hipinfo=str(SAMPLES / "two-devices-xnack.txt"))
    assert [(g.index, g.gfx, g.integrated) for g in result.host.gpus] == [
        (0, "gfx1010", False),
        (1, "gfx1150", True),
    ]
    assert (result.host.selected, result.exit_code) == (0, 0)
    assert result.host.hip_roots == ()
    assert "HIP SDK 7.2.0 does not list gfx1010." in result.remarks[0]
    assert "invoke stacks --for-gpu=gfx1010" in seen(result, tmp_path)


def test_a_pasted_output_is_read_from_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = (SAMPLES / "integrated-first.txt").read_text(encoding="utf-8").encode("utf-16")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    result = scan(workspace(tmp_path, "linux"), from_hipinfo="-", gpu="0")
    assert result.host.selected == 0
    assert [gpu.gfx for gpu in result.host.gpus] == ["gfx1036", "gfx1100"]


def test_a_closed_standard_input_is_an_empty_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    result = scan(workspace(tmp_path), from_hipinfo="-")
    assert result.host.gpus == ()
    assert "printed nothing" in result.host.notes[0]


@pytest.mark.parametrize("name", ["error-100", "nothing"])
def test_no_device_is_an_answer_and_its_reason_is_shown(tmp_path: Path, name: str) -> None:
    result = scan(workspace(tmp_path), from_hipinfo=str(SAMPLES / f"{name}.txt"))
    assert result.to_json()["gpus"] == []
    assert result.to_json()["selected"] is None
    assert result.host.notes[0] in seen(result, tmp_path)


def test_a_file_that_is_missing_or_a_folder_is_said(tmp_path: Path) -> None:
    for path in (tmp_path / "absent.txt", tmp_path):
        with pytest.raises(UsageError) as caught:
            scan(workspace(tmp_path), from_hipinfo=str(path))
        assert caught.value.reference == "hipinfo-unreadable"


@pytest.mark.parametrize(
    "data",
    [b"<!DOCTYPE html><title>404</title>", b"hello", b"x" * (scan_module.CAP + 1)],
    ids=["page", "word", "huge"],
)
def test_a_file_of_another_kind_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(data)
    with pytest.raises(UsageError) as caught:
        scan(workspace(tmp_path), from_hipinfo=str(path))
    assert caught.value.reference == "hipinfo-unrecognised"


def test_what_is_unknown_is_shown_with_its_reason(tmp_path: Path) -> None:
    text = seen(scan(workspace(tmp_path), from_hipinfo=str(SAMPLES / "partial-780m.txt")), tmp_path)
    assert "GPU 0, gfx: the output has no gcnArchName." in text
    assert "GPU 0, kind: the output has no isIntegrated." in text


def test_a_machine_without_a_gpu_says_what_can_be_done() -> None:
    text = seen(ScanResult(host=Host(os="linux", machine="x86_64")), Path("T"))
    assert "No GPU that a stack could use was found." in text
    assert "CPU reference" in text
    assert "If this machine has a Radeon, see `lspci -nn | grep -i vga`" in text
    assert "passed through" in text
    windows = seen(ScanResult(host=Host(os="windows", machine="AMD64")), Path("T"))
    assert "Device Manager" in windows
    assert "amd.com/support" in windows
