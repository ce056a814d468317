"""One message has several causes: on recorded machines the doctor names the one that is true there."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from msgspec.structs import asdict

from scripts.app import doctor as doctor_module
from scripts.app.context import Workspace
from scripts.app.doctor import doctor
from scripts.app.doctor_look import with_machine
from scripts.doctor.machine import Facts, MachineState, StageFact
from scripts.host.facts import Sources, scan_host
from scripts.host.hip import HipPlaces
from scripts.model import Host
from tests.checkout import workspace_in
from tests.windows_machines import RAPHAEL, XTX, Keys, Recorded, adapter, place

NAVI23 = adapter("1002:73ff:c1", "AMD Radeon RX 6600", 0, location=place(3))
POLARIS = adapter("1002:67df:e7", "Radeon RX 580 Series", 0, location=place(3))
GEFORCE = adapter("10de:2684:a1", "NVIDIA GeForce RTX 4090", 0, service="nvlddmkm", location=place(1))

NO_DEVICE = "RuntimeError: No HIP GPUs are available"
NO_KERNEL = "RuntimeError: HIP error: no kernel image is available for execution on the device"
INVALID_IMAGE = "torch.AcceleratorError: HIP error: device kernel image is invalid"
INSIDE = "rocBLAS error: Cannot read C:/ROCm/bin/rocblas/library/TensileLibrary.dat: for GPU arch : gfx1036"
HIPBLASLT = "OSError: [WinError 126] The specified module could not be found: 'hipblaslt.dll'"
NVCUDA = "OSError: [WinError 126] The specified module could not be found: 'nvcuda.dll'"
ROCBLAS = "OSError: [WinError 126] The specified module could not be found: 'rocblas.dll'"
VIOLATION = "Windows fatal exception: access violation\nFaulting module name: amdhip64_6.dll"


@dataclass
class Pc:
    """A recorded machine: its display adapters, the HIP SDK it has, and its variables."""

    adapters: tuple[Keys, ...] = (XTX,)
    hip: str = "6.4"
    libraries: tuple[str, ...] = ("amdhip64_6", "rocblas", "hipblaslt")
    environ: dict[str, str] = field(default_factory=dict)

    def scan(self, folder: Path) -> Host:
        for name in self.libraries if self.hip else ():
            path = folder / "ROCm" / self.hip / "bin" / f"{name}.dll"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"")
        sources = Sources(
            registry=Recorded(*self.adapters),
            system32=folder / "System32",
            places=HipPlaces(parents=((folder / "ROCm", r"Program Files\AMD\ROCm"),)),
            runner=lambda _command, _environ: (1, ""),
        )
        return scan_host(self.environ, platform="win32", sources=sources)


def workspace(folder: Path, pc: Pc) -> Workspace:
    return workspace_in(folder, environ=pc.environ, platform="win32")


SITUATIONS = {
    "no device, two of them": (NO_DEVICE, Pc((XTX, RAPHAEL)), "wrong-device"),
    "no device, the variable hides it": (NO_DEVICE, Pc(environ={"HIP_VISIBLE_DEVICES": "3"}), "wrong-device"),
    "no kernels, one GPU": (NO_KERNEL, Pc((NAVI23,)), "arch-libraries"),
    "no kernels, an old GPU": (NO_KERNEL, Pc((POLARIS,)), "arch-libraries"),
    "no kernels, the other GPU": (NO_KERNEL, Pc((XTX, RAPHAEL)), "wrong-device"),
    "an invalid image, two GPUs": (INVALID_IMAGE, Pc((XTX, RAPHAEL)), "wrong-device"),
    "an invalid image, one GPU": (INVALID_IMAGE, Pc((NAVI23,)), "arch-libraries"),
    "kernels for the inner GPU, with a card": (INSIDE, Pc((XTX, RAPHAEL)), "wrong-device"),
    "kernels for the inner GPU, alone": (INSIDE, Pc((RAPHAEL,)), "arch-libraries"),
    "hipBLASLt, in no SDK": (
        HIPBLASLT,
        Pc(libraries=("amdhip64_6", "rocblas"), hip="6.2"),
        "hipblaslt-missing",
    ),
    "rocBLAS, no SDK": (ROCBLAS, Pc(hip=""), "missing-dll"),
    "nvcuda, a Radeon": (NVCUDA, Pc(), "missing-dll"),
    "a crash in HIP, two GPUs": (VIOLATION, Pc((XTX, RAPHAEL)), "wrong-device"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("log", "pc", "kind"), SITUATIONS.values(), ids=SITUATIONS)
def test_the_machine_decides(
    log: str, pc: Pc, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = pc.scan(tmp_path)
    monkeypatch.setattr(doctor_module, "host_of", lambda _ws: host)
    text = tmp_path / "log.txt"
    text.write_text(log, encoding="utf-16")
    findings = doctor(workspace(tmp_path, pc), log=str(text)).findings
    assert findings[0].reference == kind, [(f.reference, f.rule, f.confidence) for f in findings]


def test_a_machine_without_a_radeon_does_not_speak_for_a_log_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Pc((GEFORCE,), hip="").scan(tmp_path)
    monkeypatch.setattr(doctor_module, "host_of", lambda _ws: host)
    (tmp_path / "log.txt").write_text(INSIDE, encoding="utf-8")
    told = {
        f.reference: f.tell for f in doctor(workspace(tmp_path, Pc()), log=str(tmp_path / "log.txt")).findings
    }
    assert set(told) == {"arch-libraries", "wrong-device"}
    assert told["wrong-device"]  # what to look at where the log was made


STAGE = StageFact(state="intact", stack="zluda", translation=True)


@pytest.mark.parametrize(
    ("look", "facts"),
    [
        ({}, Facts()),
        ({"vc_runtime": ""}, Facts(vc_runtime=False)),
        ({"vc_runtime": "14.44.35211.0"}, Facts(vc_runtime=True)),
        ({"missing_functions": ("hipMemcpy",)}, Facts(driver_lacks=True)),
        ({"missing_functions": ()}, Facts(driver_lacks=False)),
        ({"stage": STAGE}, Facts(vanished=False)),
        ({"stage": StageFact(state="missing", stack="zluda", translation=True)}, Facts(vanished=True)),
        ({"threats": ()}, Facts(vanished=False)),
    ],
    ids=str,
)
def test_what_only_a_look_at_everything_tells(look: dict[str, object], facts: Facts) -> None:
    unknown = MachineState(
        host=Host(os="windows", machine="AMD64", gpus=(), selected=None),
        kernels={},
        stage=None,
        variables={},
        folders={},
        free={},
        vc_runtime=None,
        missing_functions=None,
        cache=None,
        threats=None,
    )
    changed = MachineState(**{**asdict(unknown), **look})
    assert with_machine(Facts(), changed) == facts
