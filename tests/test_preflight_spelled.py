"""Names for GetProcAddress and dlsym: they are told as the weak evidence they are, and decide nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.binary import strings
from scripts.binary.image import FileBytes, Format, Section
from scripts.binary.strings import sweep, words
from scripts.preflight.coverage import Covered, Provider, StackFacts, Verdict, cover
from scripts.preflight.look import look
from scripts.preflight.verdict import better_stack
from tests.elf_files import elf
from tests.fatbins import container, ptx
from tests.preflight_programs import dll, examined, exe, judged, ship, zluda

#: One that works, one that says NOT_SUPPORTED, one that no release has, and a word like a name.
NAMES = ["cuInit", "cuStreamQuery", "cuNoSuchThing", "curious"]


def texts(*words: str) -> bytes:
    return b"\0" + b"\0".join(word.encode() for word in words) + b"\0"


def covered(program: Path, tmp_path: Path, stack: StackFacts | None = None) -> dict[str, Covered]:
    needs = examined(program, tmp_path).closure.needs
    return {item.need.named.key: item for item in cover(needs, stack or zluda())}


@pytest.mark.parametrize(
    "program",
    [
        exe(sections={".data": texts("nvcuda.dll", *NAMES)}),
        exe(sections={".data": "C:\\x\\nvcuda.dll\0".encode("utf-16-le"), ".more": texts(*NAMES)}),
        exe(managed=["nvcuda", *NAMES]),
        elf(program=True, sections={".rodata": b"cuInit\0" + texts("libcuda.so.1", *NAMES)}),
        elf(program=True, sections={".rodata": b"cuInit\0cuStreamQuery\0libcuda.so.1\0"}),
    ],
    ids=["text", "wide-library", "dotnet", "linux", "first-in-its-section"],
)
def test_names_that_the_call_table_has_are_reported_and_no_others(tmp_path: Path, program: bytes) -> None:
    item = covered(ship(tmp_path / "p", {"app.exe": program}), tmp_path)["nvcuda"]
    body = item.to_json()
    assert (body["how"], body["calls_known"], body["functions_from"]) == (
        "string",
        False,
        "names in its data",
    )
    assert (body["functions"], body["missing"]) == (["cuInit", "cuStreamQuery"], ["cuStreamQuery"])
    assert item.status == "unknown", "a name is no call"


def test_what_is_said_of_names_decides_nothing(tmp_path: Path) -> None:
    program = ship(tmp_path / "p", {"app.exe": exe(sections={".data": texts("nvcuda.dll", *NAMES)})})
    found = judged(program, tmp_path)
    assert found.verdict is Verdict.UNKNOWN
    reason = found.reasons[0]
    assert reason.text == (
        "app.exe loads nvcuda.dll by name while it runs; its data has the names of 2 functions, of which 1 "
        "would always get NOT_SUPPORTED (cuStreamQuery); whether it calls them, or others, is hidden"
    )
    assert reason.functions == ("cuStreamQuery",)


def test_names_that_all_work_are_no_all_clear(tmp_path: Path) -> None:
    program = ship(tmp_path / "p", {"app.exe": exe(sections={".data": texts("nvcuda.dll", "cuInit")})})
    found = judged(program, tmp_path)
    assert found.verdict is Verdict.UNKNOWN
    assert "or others, is hidden" in found.reasons[0].text


def test_a_name_that_ends_the_process_is_said_to(tmp_path: Path) -> None:
    data = texts("cublas64_12.dll", "cublasXerbla")
    found = judged(ship(tmp_path / "p", {"app.exe": exe(sections={".data": data})}), tmp_path)
    assert found.verdict is Verdict.UNKNOWN
    assert "1 would end the process (cublasXerbla)" in found.reasons[0].text


def test_each_name_goes_to_its_own_library(tmp_path: Path) -> None:
    words = ["cublas64_12.dll", "cublasLt64_12.dll", "cublasSgemm_v2", "cublasLtMatmul", "cuInit"]
    found = covered(ship(tmp_path / "p", {"app.exe": exe(sections={".data": texts(*words)})}), tmp_path)
    assert {key: item.need.functions for key, item in found.items()} == {
        "cublas12": ("cublasSgemm_v2",),
        "cublaslt12": ("cublasLtMatmul",),
    }


@pytest.mark.parametrize(
    "program",
    [
        exe({"nvcuda.dll": ["cuInit"]}, sections={".data": texts("nvcuda.dll", "cuStreamQuery")}),
        exe({"nvcuda.dll": ["cuInit"]}, sections={".data": texts("cuStreamQuery")}),
    ],
    ids=["imported-and-named", "imported"],
)
def test_names_beside_an_import_are_not_read(tmp_path: Path, program: bytes) -> None:
    item = covered(ship(tmp_path / "p", {"app.exe": program}), tmp_path)["nvcuda"]
    assert (item.need.how, item.need.functions, item.need.spelled) == ("import", ("cuInit",), False)


def test_the_runtime_that_is_linked_in_names_the_driver_for_itself(tmp_path: Path) -> None:
    data = texts("nvcuda.dll", "cuStreamQuery", "cublas64_12.dll", "cublasDgemm_v2")
    program = exe(sections={".data": data, ".nv_fatb": container(ptx())})
    found = covered(ship(tmp_path / "p", {"app.exe": program}), tmp_path)
    assert found["nvcuda"].need.functions == ()
    assert found["cublas12"].missing == ("cublasDgemm_v2",)


def test_the_shared_runtimes_names_are_not_the_programs(tmp_path: Path) -> None:
    runtime = dll(sections={".data": texts("nvcuda.dll", "cuStreamQuery")})
    path = ship(tmp_path / "p", {"cudart64_12.dll": runtime})
    assert [ask.functions for ask in look(path).asks if ask.library == "nvcuda.dll"] == [()]


def test_a_stack_without_a_table_knows_no_names(tmp_path: Path) -> None:
    program = ship(tmp_path / "p", {"app.exe": exe(sections={".data": texts("nvcuda.dll", "cuInit")})})
    item = covered(program, tmp_path, zluda(api=None))["nvcuda"]
    assert (item.need.functions, item.unknown) == ((), ())


@pytest.mark.parametrize(
    ("names", "missing"),
    [(["cuMemAlloc"], ("cuMemAlloc",)), (["cuGetProcAddress_v2", "cuMemAlloc"], ())],
    ids=["by-the-loader", "by-the-driver"],
)
def test_the_driver_gives_its_newest_form_for_a_name_without_version(
    tmp_path: Path, names: list[str], missing: tuple[str, ...]
) -> None:
    program = exe(sections={".data": texts("nvcuda.dll", *names)})
    item = covered(ship(tmp_path / "p", {"app.exe": program}), tmp_path)["nvcuda"]
    assert item.missing == missing


def test_no_stack_is_recommended_for_names_alone(tmp_path: Path) -> None:
    data = texts("nvcuda.dll", "cuStreamQuery", "cuInit")
    program = ship(tmp_path / "p", {"app.exe": exe(sections={".data": data})})
    needs = examined(program, tmp_path).closure.needs
    other = zluda()
    poorer, richer = cover(needs, zluda()), cover([], other)
    assert poorer[0].missing
    assert better_stack(poorer, richer, other) == ""


def swept(tmp_path: Path, data: bytes, form: Format = Format.PE) -> set[str]:
    path = tmp_path / "data"
    path.write_bytes(data)
    with FileBytes(path) as source:
        return sweep(source, [Section(name=".data", offset=0, size=len(data))], form).names


@pytest.mark.parametrize(
    ("data", "form", "names"),
    [
        (b"\0NvCuda.DLL\0", Format.PE, {"nvcuda.dll"}),
        (b"C:\\a b\\nvcuda.dll", Format.PE, {"nvcuda.dll"}),
        ("x\\NvCuda.Dll\0".encode("utf-16-le"), Format.PE, {"nvcuda.dll"}),
        (b"a.dll\0" + "NvCuda.dll\0".encode("utf-16-le"), Format.PE, {"a.dll", "lnvcuda.dll", "nvcuda.dll"}),
        (b"a.dll b\0\0" + "c.dll\0".encode("utf-16-le"), Format.PE, {"a.dll", "c.dll"}),
        (b"a.dll.dll b.dlL", Format.PE, {"a.dll", "a.dll.dll", "b.dll"}),
        (b".dll \0.dll", Format.PE, set()),
        (b"/x/libcuda.so.1\0libA.so.12.3.4.5\0", Format.ELF, {"libcuda.so.1", "libA.so.12.3.4"}),
        (b"nvcuda.dll", Format.ELF, set()),
        (b"x" * (strings.CHUNK - 7) + b"\0nvcuda.dll\0", Format.PE, {"nvcuda.dll"}),
        (b"\0" + b"n" * 300 + b".dll", Format.PE, {"n" * 100 + ".dll"}),
    ],
    ids=[
        "case",
        "path",
        "wide",
        "wide-after-narrow",
        "wide-after-a-gap",
        "twice",
        "no-name",
        "so",
        "other-format",
        "across-pieces",
        "long",
    ],
)
def test_library_names_are_found_as_they_are_written(
    tmp_path: Path, data: bytes, form: Format, names: set[str]
) -> None:
    found = swept(tmp_path, data, form)
    assert {n[-104:] for n in found} == names


def test_a_file_of_nothing_but_endings_is_not_searched_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strings, "MAX_ENDS", 100)
    path = ship(tmp_path / "p", {"app.exe": exe(sections={".data": b"a.dll" * 1000})})
    facts = look(path)
    assert "it names more libraries than the 100 that were looked at" in facts.faults


def test_names_across_two_pieces_are_found_once(tmp_path: Path) -> None:
    data = b"\0" * (strings.CHUNK - 4) + b"cuInit\0cuStreamQuery\0" + b"\0" * 64
    path = tmp_path / "data"
    path.write_bytes(data)
    with FileBytes(path) as source:
        found = words(source, [Section(name=".data", offset=0, size=len(data))], "cu[A-Z]")
    assert found == ({"cuInit", "cuStreamQuery"}, True)


def test_a_library_asked_for_without_its_number_is_the_stacks_newest(tmp_path: Path) -> None:
    program = elf(program=True, sections={".rodata": texts("libcublas.so", "libcudnn.so", "libcufft.so")})
    files = {"cublas11": "libcublas.so.11", "cublas12": "libcublas.so.12", "cublaslt13": "libcublasLt.so.13"}
    stack = zluda(os="linux", providers={key: Provider(file=file) for key, file in files.items()})
    found = covered(ship(tmp_path / "p", {"app": program}), tmp_path, stack)
    assert {key: item.provided_by for key, item in found.items()} == {
        "cublas": "libcublas.so.12",
        "cudnn": None,
        "cufft": None,
    }
