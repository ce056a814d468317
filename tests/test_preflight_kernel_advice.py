"""Which missing kernels matter, what helps to avoid them, and what a person sees of a large environment."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from scripts.app.context import ROOT, Workspace, workspace_from_environ
from scripts.app.preflight import PreflightResult, preflight
from scripts.binary.image import read_image
from scripts.model import Level
from scripts.preflight import kernel_advice
from scripts.preflight.kernel_advice import avoidances, with_mentioned
from scripts.preflight.kernels import KernelStore
from scripts.preflight.libraries import data_table
from scripts.preflight.unusable import FileKernels, kernels_of
from tests.bounds import in_proportion
from tests.fatbins import PTX, container, entry, ptx, sass
from tests.preflight_programs import dll, examined, exe, ship, zluda
from tests.ptx_texts import kernel, text
from tests.test_app_preflight import HOST, STACK, shown

LOP3 = "lop3.b32 %r1, %r2, %r3, %r4, 1;"
#: Screens: columns and rows.
SCREENS = {100: 24, 80: 30}


def code(*names: str, bad: bool = True) -> dict[str, bytes]:
    kernels = [kernel(name, *((LOP3,) if bad else ())) for name in names]
    return {".nv_fatb": container(entry(PTX, 86, text(*kernels), way="zstd"))}


def missing(tmp_path: Path, files: dict[str, bytes]) -> dict[str, FileKernels]:
    found = examined(ship(tmp_path / "p", files), tmp_path)
    store = KernelStore(tmp_path / "kernels")
    return {
        file.path.name: file
        for file in with_mentioned(kernels_of(found.closure, store, zluda()), found.closure, store)
    }


@pytest.mark.parametrize(
    ("asks", "data"),
    [
        (["run"], b"\0some text\0_Z10the_kernelPf\0"),
        (["run"], b"\0the_kernel\0"),
        (["the_kern", "run"], b"\0"),
    ],
    ids=["its name", "its plain name", "a function that is imported"],
)
def test_kernels_that_the_program_mentions_come_first(
    tmp_path: Path, asks: list[str], data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        "app.exe": exe({"lib.dll": asks}, sections={".data": data}),
        "lib.dll": dll(sections=code("_Z5otherPf", "_Z10the_kernelPf")),
    }
    (file,) = missing(tmp_path, files).values()
    assert [fate.name for fate in file.tally.missing] == ["_Z10the_kernelPf", "_Z5otherPf"]
    assert file.mentioned == {"_Z10the_kernelPf"}
    monkeypatch.setattr(kernel_advice, "_mentioned", None)
    found = examined(tmp_path / "p" / "app.exe", tmp_path)
    store = KernelStore(tmp_path / "kernels")
    (again,) = with_mentioned(kernels_of(found.closure, store, zluda()), found.closure, store)
    assert again.mentioned == file.mentioned, "the answer is kept"


def test_what_a_file_says_of_itself_and_parts_of_words_are_no_mentions(tmp_path: Path) -> None:
    files = {
        "app.exe": exe({"lib.dll": ["kernel"]}, sections={".data": b"\0not_the_kernel\0the_kernel_2\0"}),
        "lib.dll": dll(sections={**code("the_kernel"), ".data": b"\0the_kernel\0"}),
    }
    (file,) = missing(tmp_path, files).values()
    assert file.mentioned == frozenset()


def test_no_more_bytes_are_read_than_the_bound_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bound holds within a file too: the only mention lies behind 2,500 other bytes."""
    app = exe({"lib.dll": ["run"]}, sections={".data": bytes(2500) + b"\0the_kernel\0"})
    program = ship(tmp_path / "p", {"app.exe": app, "lib.dll": dll(sections=code("the_kernel"))})
    closure, seen = examined(program, tmp_path).closure, read_image(program)
    (file,) = kernels_of(closure, KernelStore(tmp_path / "kernels"), zluda())
    read: list[int] = []
    plain = kernel_advice.FileBytes.read

    def counted(self: kernel_advice.FileBytes, offset: int, size: int) -> bytes:
        read.append(size)
        return plain(self, offset, size)

    monkeypatch.setattr(kernel_advice, "read_image", lambda _path: seen)
    monkeypatch.setattr(kernel_advice.FileBytes, "read", counted)
    assert kernel_advice._mentioned(file.tally.missing, [program])
    whole = sum(read) + 100
    for most, found in ((whole, True), (1500, False)):
        read.clear()
        monkeypatch.setattr(kernel_advice, "MAX_SEARCHED", most)
        assert bool(kernel_advice._mentioned(file.tally.missing, [program] * 3)) is found
        assert 0 < sum(read) <= most


def test_no_more_functions_are_kept_than_the_bound_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        "app.exe": exe({"lib.dll": ["another_name", "the_kernel_of_it"]}),
        "lib.dll": dll(sections=code("the_kernel_of_it_all")),
    }
    (file,) = missing(tmp_path / "all", files).values()
    assert file.mentioned
    monkeypatch.setattr(kernel_advice, "MAX_FUNCTIONS", 1)
    (file,) = missing(tmp_path / "one", files).values()
    assert not file.mentioned


@pytest.mark.slow
@given(
    words=st.sets(st.text("ab", min_size=8, max_size=14), max_size=40),
    functions=st.sets(st.text("ab", min_size=6, max_size=12), max_size=40),
)
def test_words_that_begin_with_a_function_are_those_that_trying_every_pair_finds(
    words: set[str], functions: set[str]
) -> None:
    long = [name for name in functions if len(name) >= kernel_advice.SHORTEST_FUNCTION]
    expected = {word for word in words if any(word.startswith(name) for name in long)}
    assert kernel_advice._begun(words, functions) == expected


def test_the_time_for_kernels_and_functions_does_not_grow_with_their_product() -> None:
    words = {f"kernel_{number:06}_body" for number in range(20_000)}
    functions = {f"kernel_{number:06}" for number in range(0, 40_000, 2)}
    with in_proportion():  # every pair tried takes more than a minute
        assert len(kernel_advice._begun(words, functions)) == 10_000


def test_every_row_compiles_and_says_what_to_do_and_who_shows_it() -> None:
    rows = data_table("avoid.toml")["way"]
    assert len({row["id"] for row in rows}) == len(rows) == len(kernel_advice._ways())
    for row in rows:
        assert row["source"], row["id"]
        assert bool(row.get("set")) != bool(row.get("do")), row["id"]


def test_each_kernel_is_counted_for_the_first_way_around_it(tmp_path: Path) -> None:
    kernels = code("gemm_forward_4bit_x", "_Z3addI13__nv_bfloat16EvPT_", "plain", "_Z4halfP6__half")
    files = {"app.exe": exe({"ctranslate2.dll": ["run"]}), "ctranslate2.dll": dll(sections=kernels)}
    found = avoidances(tuple(missing(tmp_path, files).values()))
    assert [(way.row.id, way.kernels, way.row.set) for way in found] == [
        ("ctranslate2-half", 2, {}),
        ("ctranslate2-awq", 1, {}),
    ]
    assert 'compute_type="float32"' in found[0].sentence
    fine = {**files, "ctranslate2.dll": dll(sections=code("gemm_forward_4bit_x", bad=False))}
    assert avoidances(tuple(missing(tmp_path / "fine", fine).values())) == ()


def test_a_variable_is_given_so_that_it_can_be_pasted(tmp_path: Path) -> None:
    name = "onnxruntime_providers_cuda.dll"
    files = {
        "app.exe": exe({name: ["run"]}),
        name: dll(sections=code("_ZN13fpA_intB_gemv6kernelEPf")),
    }
    (way,) = avoidances(tuple(missing(tmp_path, files).values()))
    assert "`invoke wrap --set=ORT_FPA_INTB_GEMM=0 …`" in way.sentence
    assert way.to_json()["set"] == {"ORT_FPA_INTB_GEMM": "0"}


@pytest.fixture
def ws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setattr("scripts.app.preflight.host_of", lambda _ws: HOST)
    monkeypatch.setattr(
        "scripts.app.evidence_lookup.worth_here", lambda _ws: lambda _stack, _gfx: Level.LOADABLE
    )
    ws = workspace_from_environ(dict(os.environ), root=ROOT)
    return replace(ws, stage=tmp_path / "stage", state_root=tmp_path / "state", cache_root=tmp_path / "store")


PACKAGES = ("torch", "cupy-cuda12x", "onnxruntime-gpu", "ctranslate2", "nvidia-cublas-cu12", "xgboost")


def environment(root: Path, libraries: int) -> Path:
    """An interpreter and libraries of six packages, each with something that a stack lacks."""
    site = root / "Lib" / "site-packages"
    wants = [
        {"cublas64_12.dll": ["cublasDgemm_v2"]},
        {"cufft64_11.dll": ["cufftPlan1d"]},
        {"cudart64_12.dll": ["cudaMallocAsync"]},
        {"cusolver64_11.dll": ["cusolverDnCreate"]},
        {"cudnn64_9.dll": ["cudnnPoolingForward"]},
    ]
    lists: dict[str, list[str]] = {name: [] for name in PACKAGES}
    for number in range(libraries):
        package = PACKAGES[number % len(PACKAGES)]
        known = ("ctranslate2.dll", "onnxruntime_providers_cuda.dll")
        name = known[number] if number < len(known) else f"part{number}_with_a_rather_long_name.dll"
        kernels = (f"_Z{len(name) - 3}{name[:-4]}_vPf", "_Z3addI13__nv_bfloat16EvPT_")
        sections = code(*kernels, "_ZN13fpA_intB_gemv6kernelEPf")
        sections[".nv_fatb"] += container(sass(90)) + (container(ptx(90)) if number % 7 == 0 else b"")
        path = site / package.replace("-", "_") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(dll(wants[number % len(wants)], sections=sections))
        lists[package].append(f"{package.replace('-', '_')}/{name},,")
    for package, lines in lists.items():
        info = site / f"{package.replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        (info / "RECORD").write_text("\n".join(lines), encoding="utf-8")
    return ship(root / "Scripts", {"python.exe": exe()})


@pytest.mark.slow
@pytest.mark.parametrize("libraries", [60, pytest.param(340, marks=pytest.mark.proof)])
def test_what_is_seen_of_a_large_environment_fits_on_one_screen(
    ws: Workspace, tmp_path: Path, libraries: int
) -> None:
    program = environment(tmp_path / "venv", libraries)
    result: PreflightResult = preflight(ws, exe=str(program), stack=STACK)
    assert len(result.examined.closure.visited) == libraries + 1
    assert len(result.judged.reasons) > libraries + 1, "each of them has a reason or more"
    for columns, rows in SCREENS.items():
        lines = [line for text in shown(result).splitlines() for line in textwrap.wrap(text, columns)]
        assert len(lines) <= rows, "\n".join(lines)
    missing, kernels = 3 * libraries, 3 * libraries + len(range(0, libraries, 7))
    where = f"in {libraries} of {libraries} files with PTX"
    assert f"Kernels: {missing:,} of {kernels:,} would be missing {where}" in shown(result)
    everything = replace(result, details=True)
    assert len(shown(everything).splitlines()) > 100
