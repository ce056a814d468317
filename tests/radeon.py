"""A Windows machine with a Radeon, as far as it can be made: real names and layouts, stand-ins inside.

The lock is the committed one; only the archives' hashes are those of the stand-ins. Programs come from the
folder of cross-built ones (``native/testing`` and the CPU reference, which really computes).
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from scripts.lock.reader import read_lock
from tests.checkout import ROOT, Checkout
from tests.recorded_registry import VARIABLE
from tests.typist import Typist
from tests.windows_machines import Keys, adapter, place

TYPIST = Typist(prepare="tests.recorded_registry")
#: Members that do something; all others are an empty library or program.
PLAYED_BY = {
    "zluda.exe": "injecting_launcher.exe",
    "zluda_redirect.dll": "zluda_redirect.dll",
    "cuda_check.exe": "layer_check.exe",
    "nvcuda.dll": "cpu-reference/nvcuda.dll",
    "cublas64_12.dll": "cpu-reference/cublas64_12.dll",
    "cublasLt64_12.dll": "cpu-reference/cublasLt64_12.dll",
    "trace/nvcuda.dll": "trace/nvcuda.dll",
    "zluda_precompile.exe": "layer_precompile.exe",
}
RX9060XT: Keys = adapter(
    "1002:7590:c0",
    "AMD Radeon RX 9060 XT",
    0,
    location=place(3),
    memory={"HardwareInformation.qwMemorySize": 17095983104},
)
IGPU: Keys = adapter("1002:164e:d8", "AMD Radeon(TM) Graphics", 1, location=place(2), service="amdkmdag-igpu")
HIPINFO = """
--------------------------------------------------------------------------------
device#                           {number}
Name:                             {name}
pciBusID:                         {bus}
pciDeviceID:                      0
pciDomainID:                      0
totalGlobalMem:                   15.92 GB
isIntegrated:                     {integrated}
gcnArchName:                      {gfx}
"""
BACKENDS = ("rocblas.dll", "libhipblaslt.dll", "rocsparse.dll")


def device(number: int, name: str, gfx: str, *, bus: int = 3, integrated: bool = False) -> str:
    return HIPINFO.format(number=number, name=name, gfx=gfx, bus=bus, integrated=int(integrated))


XT_DEVICE = device(0, "AMD Radeon RX 9060 XT", "gfx1200")


def hip_sdk(
    folder: Path,
    programs: Path,
    version: str,
    *,
    devices: str = XT_DEVICE,
    backends: tuple[str, ...] = BACKENDS,
    gfx: str = "gfx1200",
) -> Path:
    """Make an installed HIP SDK: its runtime, its libraries linked to it, kernels, and hipInfo."""
    sdk = f"hip{version.partition('.')[0]}"
    runtime = f"amdhip64_{version.partition('.')[0]}.dll"
    files = {f"bin/{runtime}": f"{sdk}/{runtime}", "bin/hipInfo.exe": "hip_info.exe"}
    files |= {f"bin/{name}": f"{sdk}/rocblas.dll" for name in backends}
    for name, source in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes((programs / source).read_bytes())
    for name in ("rocblas", "hipblaslt"):
        (folder / "bin" / name / "library").mkdir(parents=True)
        (folder / "bin" / name / "library" / f"TensileLibrary_lazy_{gfx}.dat").write_bytes(b"k")
    (folder / ".info").mkdir()
    (folder / ".info" / "version").write_text(f"{version}\n", encoding="ascii")
    (folder / "bin" / "hipInfo.txt").write_text(devices, encoding="utf-8")
    return folder


def release(
    lock: Path, artifact: str, programs: Path, mirror: Path, *, played: Mapping[str, str] | None = None
) -> None:
    """Pack a release with exactly the members that the lock names, and pin its bytes in ``lock``."""
    known = read_lock(lock, custom=True).artifacts[artifact]
    archive = mirror / PurePosixPath(known.urls[0]).name
    mirror.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(archive, "w") as packed:
        for member in known.members:
            path = PurePosixPath(member.path)
            plays = {**PLAYED_BY, **(played or {})}.get(str(path))
            source = programs / (plays or ("empty.dll" if path.suffix == ".dll" else "show_argv.exe"))
            packed.writestr(f"{known.root}/{member.path}", source.read_bytes())
    _pin(lock, artifact, archive)


def _pin(lock: Path, artifact: str, archive: Path) -> None:
    """Let a lock name the bytes of a stand-in."""
    known = read_lock(lock, custom=True).artifacts[artifact]
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    text = lock.read_text(encoding="utf-8")
    start = text.index(f'id = "{artifact}"\n')
    end = text.index("[[", start)
    block = text[start:end].replace(known.sha256 or "", digest)
    block = re.sub(r"^size = \d+\n", f"size = {archive.stat().st_size}\n", block, flags=re.MULTILINE)
    lock.write_text(text[:start] + block + text[end:], encoding="utf-8", newline="\n")


def hip_packages(lock: Path, programs: Path, mirror: Path, *, version: str = "10.1.0") -> None:
    """Pack AMD's ROCm as wheels with their real folders, and pin them: core, libraries, and two devices'."""
    runtime = {"bin/amdhip64_7.dll": "hip7/amdhip64_7.dll", "bin/hipInfo.exe": "hip_info.exe"}
    libraries = dict.fromkeys((f"bin/{name}" for name in (*BACKENDS, "MIOpen.dll")), "hip7/rocblas.dll")
    core = {name: (programs / source).read_bytes() for name, source in runtime.items()}
    core |= {".info/version": f"{version}\n".encode(), "bin/hipInfo.txt": XT_DEVICE.encode()}
    contents = {
        f"rocm-sdk-core-{version}-windows": core,
        f"rocm-sdk-libraries-{version}-windows": {
            name: (programs / source).read_bytes() for name, source in libraries.items()
        },
    }
    for gfx in ("gfx1200", "gfx1201"):
        names = [f"bin/{of}/library/TensileLibrary_lazy_{gfx}.dat" for of in ("rocblas", "hipblaslt")]
        contents[f"rocm-sdk-device-{gfx}-{version}-windows"] = dict.fromkeys(names, b"k")
    mirror.mkdir(parents=True, exist_ok=True)
    for artifact, files in contents.items():
        known = read_lock(lock, custom=True).artifacts[artifact]
        archive = mirror / PurePosixPath(known.urls[0]).name
        with zipfile.ZipFile(archive, "w") as packed:
            for name, data in files.items():
                packed.writestr(f"{known.root}/{name}", data)
            package = archive.name.partition("-")[0]
            packed.writestr(f"{package}-{version}.dist-info/METADATA", f"Version: {version}\n")
        _pin(lock, artifact, archive)


@dataclass
class Radeon:
    """A machine of our own to type commands on; change ``extra`` for one command's environment."""

    checkout: Checkout
    folder: Path
    programs: Path
    hip: Path | None = None
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def lock(self) -> Path:
        return self.folder / "radeon.lock"

    @property
    def mirror(self) -> Path:
        return self.folder / "mirror"

    def plug(self, *adapters: Keys) -> None:
        """Record the registry."""
        data = {path: values for keys in adapters for path, values in keys.items()}
        (self.folder / "registry.json").write_text(json.dumps(data), encoding="utf-8")

    def run(self, *words: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Type a command; nobody is there to answer."""
        # These releases of ZLUDA report CUDA 12.8.
        own = {
            "CUDA_AMD_LOCK": str(self.lock),
            "CUDA_AMD_CPU_CUDA": "12.8",
        }
        environ = {**self.checkout.environ, **own, **self.extra, **(env or {})}
        if self.hip is not None:
            environ["HIP_PATH"] = f"{self.hip}\\"
        environ[VARIABLE] = str(self.folder / "registry.json")
        root = self.checkout.root
        return TYPIST.type(root, words, cwd=root, env=environ, timeout=240)

    def json(self, *words: str, code: int = 0, env: Mapping[str, str] | None = None) -> dict[str, object]:
        """Type a command with ``--json``; a program's arguments may follow."""
        cut = words.index("--") if "--" in words else len(words)
        done = self.run(*words[:cut], "--json", *words[cut:], env=env)
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        value = json.loads(done.stdout)
        assert isinstance(value, dict)
        return value

    def setup(
        self, stack: str = "", *, code: int = 0, env: Mapping[str, str] | None = None
    ) -> dict[str, object]:
        """Set a stack up from the mirror."""
        wanted = [f"--stack={stack}"] if stack else []
        return self.json("setup", *wanted, "--yes", f"--mirror={self.mirror}", code=code, env=env)


def radeon(checkout: Checkout, folder: Path, programs: Path, *artifacts: str) -> Radeon:
    """Make a machine with one RX 9060 XT; HIP is installed by ``hip_sdk``."""
    folder.mkdir(parents=True, exist_ok=True)
    made = Radeon(checkout=checkout, folder=folder, programs=programs)
    made.lock.write_bytes((ROOT / "pins.lock").read_bytes())
    for artifact in artifacts:
        release(made.lock, artifact, programs, made.mirror)
    made.plug(RX9060XT)
    return made
