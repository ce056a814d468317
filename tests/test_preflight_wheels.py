"""Real Windows packages of PyPI, read as independent readers read them."""

from __future__ import annotations

import re
import shutil
import stat
import struct
import subprocess
import sys
from collections import Counter
from pathlib import Path

import lz4.block
import pytest
import zstandard

from scripts.binary.fatbin import read_containers
from scripts.binary.image import FileBytes, Image, Section, read_image
from scripts.binary.payload import Opener
from scripts.preflight.coverage import Verdict, cover
from scripts.preflight.kernels import KernelStore, tally
from scripts.preflight.loading import loading_of
from scripts.preflight.look import look
from scripts.preflight.needs import FileFacts
from scripts.preflight.ptx_table import ptx_tables
from scripts.preflight.verdict import judge
from tests.preflight_programs import NEEDS, examined, exe, ship, zluda
from tests.wheels import unpacked

pytestmark = [pytest.mark.proof, pytest.mark.network]
OBJDUMP, READELF = shutil.which("objdump"), shutil.which("readelf")
FILES = {
    "ctranslate2": ("ctranslate2", "4.5.0", "ctranslate2/ctranslate2.dll"),
    "bitsandbytes": ("bitsandbytes", "0.43.3", "bitsandbytes/libbitsandbytes_cuda118.dll"),
    "cupy-cublas": ("cupy-cuda11x", "13.3.0", "cupy_backends/cuda/libs/cublas.cp311-win_amd64.pyd"),
    "cupy-runtime": ("cupy-cuda11x", "13.3.0", "cupy_backends/cuda/api/runtime.cp311-win_amd64.pyd"),
    "cupy-cub": ("cupy-cuda11x", "13.3.0", "cupy/cuda/cub.cp311-win_amd64.pyd"),
    "nvjpeg": ("nvidia-nvjpeg-cu12", "12.4.0.76", "nvidia/nvjpeg/bin/nvjpeg64_12.dll"),
    "cudart-11": ("nvidia-cuda-runtime-cu11", "11.8.89", "nvidia/cuda_runtime/bin/cudart64_110.dll"),
    "cudart-12": ("nvidia-cuda-runtime-cu12", "12.9.79", "nvidia/cuda_runtime/bin/cudart64_12.dll"),
}


@pytest.fixture(scope="session")
def sites(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("wheels")
    wanted = {name: version for name, version, _ in FILES.values()}
    return {name: unpacked(name, version, root / name) for name, version in wanted.items()}


def path_of(sites: dict[str, Path], key: str) -> Path:
    name, _, file = FILES[key]
    return sites[name] / file


@pytest.mark.skipif(OBJDUMP is None, reason="no objdump here")
@pytest.mark.parametrize("key", FILES, ids=str)
def test_imports_are_what_objdump_shows(sites: dict[str, Path], key: str) -> None:
    path = path_of(sites, key)
    image = read_image(path)
    assert isinstance(image, Image)
    assert OBJDUMP is not None
    shown = subprocess.run([OBJDUMP, "-p", str(path)], capture_output=True, text=True, check=True).stdout
    tables = shown.partition("The Import Tables")[2].partition("The Function Table")[0]
    expected: list[tuple[str, int]] = []
    for block in tables.split("DLL Name: ")[1:]:
        rows = re.findall(r"^\t[0-9a-f]+\t", block, re.MULTILINE)
        expected.append((block.split()[0], len(rows)))
    assert [(n.library, len(n.functions)) for n in image.needed if not n.delayed] == expected


@pytest.fixture(scope="session")
def cuobjdump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if sys.platform != "linux":
        pytest.skip("cuobjdump is taken from its Linux package")
    folder = tmp_path_factory.mktemp("tool")
    tool = unpacked("nvidia-cuda-cuobjdump", "13.5.37", folder, platform="manylinux_2_17_x86_64")
    program = next(p for p in tool.rglob("cuobjdump") if p.is_file())
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


@pytest.mark.parametrize("key", ["ctranslate2", "bitsandbytes"], ids=str)
def test_device_code_is_what_cuobjdump_lists(
    sites: dict[str, Path], key: str, cuobjdump: Path, tmp_path: Path
) -> None:
    carved = carve(path_of(sites, key), tmp_path)
    shown = subprocess.run(
        [cuobjdump, "-lelf", "-lptx", carved], capture_output=True, text=True, check=True
    ).stdout
    listed = Counter(
        (kind.lower().replace("elf", "sass"), int(sm))
        for kind, sm in re.findall(r"(ELF|PTX) file.*\.sm_(\d+)", shown)
    )
    facts = look(carved)
    ours: Counter[tuple[str, int]] = Counter()
    for code in facts.code:
        ours.update({("ptx", sm): n for sm, _, _, n in code.ptx})
        ours.update({("sass", sm): n for sm, _, n in code.sass})
    assert ours == listed


@pytest.mark.skipif(READELF is None, reason="no readelf here")
@pytest.mark.parametrize("key", ["ctranslate2", "bitsandbytes"], ids=str)
def test_kernels_are_those_readelf_finds_in_what_cuobjdump_unpacks(
    sites: dict[str, Path], key: str, cuobjdump: Path, tmp_path: Path
) -> None:
    carved = carve(path_of(sites, key), tmp_path)
    subprocess.run([cuobjdump, "-xelf", "all", carved], cwd=tmp_path, capture_output=True, check=True)
    theirs: dict[int, int] = {}
    for cubin in tmp_path.glob("*.cubin"):
        shown = subprocess.run(
            [str(READELF), "-SW", str(cubin)], capture_output=True, text=True, check=False
        ).stdout
        number = re.search(r"sm_(\d+)", cubin.name)
        assert number is not None
        theirs[int(number[1])] = len(re.findall(r" \.text\.", shown))
    ours = {}
    with FileBytes(carved) as source:
        for entry in read_containers(source, 0, source.size).found[0].entries:
            if entry.kind == "sass":
                ours[entry.sm] = Opener(source).kernels(entry)
    assert ours == theirs
    assert all(theirs.values())


def carve(path: Path, folder: Path) -> Path:
    """Cut a library's first container out: cuobjdump does not read PE."""
    image = read_image(path)
    assert isinstance(image, Image)
    carved = folder / "carved.fatbin"
    carved.write_bytes(_first_container(path, next(s for s in image.sections if s.name == ".nv_fatb")))
    return carved


def _first_container(path: Path, section: Section) -> bytes:
    data = path.read_bytes()[section.offset : section.offset + section.size]
    return data[: 16 + int.from_bytes(data[8:16], "little")]


def facts_of(sites: dict[str, Path], key: str) -> FileFacts:
    return look(path_of(sites, key))


def test_bitsandbytes_has_no_code_that_could_be_translated(sites: dict[str, Path]) -> None:
    sections = {code.section: code for code in facts_of(sites, "bitsandbytes").code}
    loaded, linked = sections[".nv_fatb"], sections["__nv_rel"]
    assert (loaded.ptx, loaded.modules, loaded.sass_only) == ((), 1, 1)
    assert [sm for sm, _, _ in loaded.sass] == [50, 52, 60, 61, 70, 75, 80, 86, 89]
    assert linked.relocatable
    assert linked.ptx == ((89, "", "7.8", 2),)


def test_where_the_runtime_is_linked_in_is_seen(sites: dict[str, Path]) -> None:
    linked = {key: facts_of(sites, key).static_runtime for key in FILES}
    assert {key for key, there in linked.items() if there} == {"ctranslate2", "cupy-runtime", "cupy-cub"}


def test_ctranslate2_brings_ptx_in_every_module_and_hides_the_runtime(sites: dict[str, Path]) -> None:
    facts = facts_of(sites, "ctranslate2")
    (code,) = facts.code
    assert (code.ptx, code.modules, code.sass_only, code.stubs) == (((86, "", "8.2", 24),), 24, 0, 0)
    assert facts.static_runtime
    assert {"cublas64_12.dll", "nvcuda.dll"} <= {a.library for a in facts.asks if a.how == "string"}
    assert len(next(a for a in facts.asks if a.library == "cudnn64_9.dll").functions) == 21


@pytest.mark.parametrize(
    ("key", "word"), [("bitsandbytes", Verdict.REFUSES), ("ctranslate2", Verdict.PARTIAL)], ids=str
)
def test_their_verdicts(sites: dict[str, Path], key: str, word: Verdict, tmp_path: Path) -> None:
    everything = {**zluda().providers}
    everything |= {f"{name}11": everything[f"{name}12"] for name in ("cublas", "cublaslt", "cusparse")}
    stack = zluda(providers=everything)
    program = tmp_path / "alone" / path_of(sites, key).name
    program.parent.mkdir()
    shutil.copy(path_of(sites, key), program)
    found = examined(program, tmp_path)
    assert judge(found.closure, cover(found.closure.needs, stack), found.kinds, stack).verdict is word


@pytest.mark.parametrize("key", ["cudart-11", "cudart-12"], ids=str)
def test_beside_the_real_runtime_copies_do_not_serve(
    sites: dict[str, Path], key: str, tmp_path: Path
) -> None:
    runtime = path_of(sites, key)
    program = ship(tmp_path / "p", {"app.exe": exe({runtime.name: ["cudaMalloc"]})})
    shutil.copy(runtime, program.parent)
    seen = loading_of(examined(program, tmp_path).closure, NEEDS, hidden=False)
    assert (seen.at_start, seen.system_only) == (False, (runtime.name,))
    assert "LoadLibraryExA" in look(runtime).loaders, "it passes the flag that means the system folder alone"


def test_a_python_environment_with_real_packages(sites: dict[str, Path], tmp_path: Path) -> None:
    site = tmp_path / "venv" / "Lib" / "site-packages"
    for name in ("ctranslate2", "cupy-cuda11x"):
        shutil.copytree(sites[name], site, dirs_exist_ok=True)
    python = ship(tmp_path / "venv" / "Scripts", {"python.exe": exe()})
    found = examined(python, tmp_path)
    assert [(p.name, p.version) for p in found.packages] == [
        ("ctranslate2", "4.5.0"),
        ("cupy-cuda11x", "13.3.0"),
    ]
    asked = {need.named.key for need in found.closure.needs if need.chain[0] == "cupy-cuda11x"}
    assert {"cublas11", "cufft10", "cusparse11", "curand10", "nvrtc112", "cusolver11", "nvcuda"} <= asked


@pytest.mark.parametrize(
    ("key", "counts", "cause"),
    [
        ("ctranslate2", [(516, 40), (516, 40), (516, 40)], "fma.rn.bf16"),
        ("nvjpeg", [(248, 16), (248, 12), (248, 12)], "prmt.b32.f4e"),
    ],
    ids=str,
)
def test_the_kernels_that_each_release_drops(
    sites: dict[str, Path], key: str, counts: list[tuple[int, int]], cause: str, tmp_path: Path
) -> None:
    store = KernelStore(tmp_path / "kernels")
    report = store.get(look(path_of(sites, key), store).device)
    assert report is not None
    found = [tally(key, report, table.name) for table in ptx_tables()]
    assert [(one.total, len(one.missing)) for one in found] == counts
    assert {one.causes[0][0] for one in found} == {cause}


def walked(path: Path) -> tuple[int, int]:
    """Count modules with PTX and the kernels of their last texts, equal ones once, by the bytes alone."""
    data, seen, kernels = path.read_bytes(), set[bytes](), 0
    image = read_image(path)
    assert isinstance(image, Image)
    for section in (s for s in image.sections if s.name.startswith(".nv_fatb")):
        at, end = section.offset, section.offset + section.size
        while (at := data.find(struct.pack("<I", 0xBA55ED50), at, end)) >= 0:
            entry, at = at + 16, at + 16 + int.from_bytes(data[at + 8 : at + 16], "little")
            texts = []
            while entry < at:
                kind, _, head, size = struct.unpack_from("<HHIQ", data, entry)
                if kind == 1:
                    texts.append(_unpacked(data, entry, head, size))
                entry += head + size
            if texts and b"\0".join(texts) not in seen:
                seen.add(b"\0".join(texts))
                plain = re.sub(rb"/\*.*?\*/|//[^\n]*", b"", texts[-1], flags=re.DOTALL)
                kernels += len(re.findall(rb"\.entry\s+[\w$%]+[^;{]*\{", plain))
    return len(seen), kernels


def _unpacked(data: bytes, entry: int, head: int, size: int) -> bytes:
    (stored,) = struct.unpack_from("<I", data, entry + 16)
    (whole,) = struct.unpack_from("<Q", data, entry + 56)
    raw = data[entry + head : entry + head + (stored or size)]
    if not stored:
        return raw.rstrip(b"\0")
    zstd = raw.startswith(b"\x28\xb5\x2f\xfd")
    opened = zstandard.decompress(raw) if zstd else lz4.block.decompress(raw, uncompressed_size=whole)
    return opened.rstrip(b"\0")


@pytest.mark.parametrize("key", ["ctranslate2", "nvjpeg", "cupy-cub", "bitsandbytes"], ids=str)
def test_totals_are_those_of_a_walk_over_the_bytes(sites: dict[str, Path], key: str, tmp_path: Path) -> None:
    store = KernelStore(tmp_path / "kernels")
    facts = look(path_of(sites, key), store)
    report = store.get(facts.device)
    total = tally(key, report, "zluda-v6").total if report is not None else 0
    assert (len(report.containers) if report is not None else 0, total) == walked(path_of(sites, key))
