"""Libraries are placed where the program's files look for them, and taken away there, byte for byte."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from scripts.app.context import Staged, Workspace
from scripts.app.preflight import inspect_program
from scripts.app.unwrap import unwrap
from scripts.app.wrap import WrapResult, wrap
from scripts.app.wrap_placing import BesidePlacer, choose
from scripts.app.wrap_result import Inspected
from scripts.errors import TargetError
from scripts.launch.injection import Via, ViaFacts
from scripts.model import Host, Lock, Runtime, RuntimeFile, Stack, StackKind
from scripts.preflight.loading import Places, places_of
from scripts.preflight.packaging import is_python, roots_of
from tests.elf_files import elf
from tests.fatbins import container, ptx
from tests.placement_harness import World, tree
from tests.preflight_programs import NEEDS, dll, examined, exe, ship
from tests.wrapping import workspace

#: A layer's files, what they provide and what they need behind them.
LAYER = {
    "nvcuda.dll": ("nvcuda", ("amdhip64",)),
    "nvcudart_hybrid64.dll": (None, ()),
    "cublas64_12.dll": ("cublas12", ("rocblas", "hipblaslt")),
    "cublasLt64_12.dll": ("cublaslt12", ("hipblaslt",)),
    "cudnn64_9.dll": ("cudnn9", ("miopen", "amdhip64")),
    "cufft64_11.dll": ("cufft11", ()),
    "nvml.dll": ("nvml", ()),
}
LINUX = {"libcuda.so.1": ("nvcuda", ()), "libcublas.so.12": ("cublas12", ())}


def staged(root: Path, files: Mapping[str, tuple[str | None, tuple[str, ...]]], **stack: object) -> Staged:
    """Make a stack whose files say who they are."""
    folder = root / "layer"
    folder.mkdir(exist_ok=True)
    made = []
    for name, (provides, needs) in files.items():
        data = f"ours: {name}".encode()
        (folder / name).write_bytes(data)
        digest = hashlib.sha256(data).hexdigest()
        made.append(RuntimeFile(name=name, sha256=digest, size=len(data), provides=provides, needs=needs))
    known = Stack(id="layer", **{"kind": StackKind.TRANSLATION, **stack})  # type: ignore[arg-type] # fields by name
    host = Host(os="windows" if "nvcuda.dll" in files else "linux", machine="x86_64")
    lock = Lock(path=root / "pins.lock", digest="0" * 64, artifacts={}, stacks={"layer": known})
    runtime = Runtime(stack="layer", digest="e" * 64, path=folder, files=tuple(made))
    return Staged(lock=lock, stack=known, runtime=runtime, host=host)


def looked_at(program: Path, root: Path, provided: Mapping[str, object] = NEEDS) -> Places:
    closure = examined(program, root).closure
    found, unserved = places_of(closure, provided, python=is_python(program))
    return Places(found=found, unserved=unserved, roots=roots_of(program))


CUBLAS = {"cublas64_12.dll": ["cublasCreate_v2"]}
DRIVER = {"nvcuda.dll": ["cuInit"]}

#: A program's files (the program first), and where which library must lie.
WINDOWS = {
    "imported": ({"app.exe": exe(CUBLAS)}, {"cublas64_12.dll"}),
    "other-spelling": ({"app.exe": exe({"CUBLAS64_12.DLL": ["x"]})}, {"CUBLAS64_12.DLL"}),
    "own-copy-beside": ({"app.exe": exe(CUBLAS), "cublas64_12.dll": dll()}, {"cublas64_12.dll"}),
    "own-copy-elsewhere": (
        {"app.exe": exe(CUBLAS), "lib/x64/cublas64_12.dll": dll()},
        {"lib/x64/cublas64_12.dll"},
    ),
    "two-own-copies-elsewhere": (
        {"app.exe": exe(CUBLAS), "a/cublas64_12.dll": dll(), "b/cublas64_12.dll": dll()},
        {"a/cublas64_12.dll", "b/cublas64_12.dll"},
    ),
    "plugin": (
        {"app.exe": exe(), "plugins/p.dll": dll(CUBLAS)},
        {"cublas64_12.dll", "plugins/cublas64_12.dll"},
    ),
    "plugin-with-its-own-copy": (
        {"app.exe": exe(), "plugins/p.dll": dll(CUBLAS), "plugins/cublas64_12.dll": dll()},
        {"plugins/cublas64_12.dll"},
    ),
    "library-of-the-program": (
        {"app.exe": exe({"core.dll": ["x"]}), "core.dll": dll(CUBLAS)},
        {"cublas64_12.dll"},
    ),
    "runtime-asks-the-system-alone": ({"app.exe": exe({"cudart64_12.dll": ["cudaMalloc"]})}, set()),
    "runtime-after-an-import": (
        {"app.exe": exe({"cudart64_12.dll": ["cudaMalloc"], **DRIVER})},
        {"nvcuda.dll"},
    ),
    "runtime-linked-in": (
        {"app.exe": exe(sections={".nv_fatb": container(ptx()), ".data": b"nvcuda.dll\0"})},
        set(),
    ),
    "not-provided": ({"app.exe": exe({"cusolver64_11.dll": ["x"]})}, set()),
    "extension-of-python": (
        {"python.exe": exe(), "torch/lib/torch_cuda.dll": dll(CUBLAS)},
        {"torch/lib/cublas64_12.dll"},
    ),
    "extension-of-python-with-its-own-copy": (
        {"python.exe": exe(), "torch/lib/torch_cuda.dll": dll(CUBLAS), "torch/lib/cublas64_12.dll": dll()},
        {"torch/lib/cublas64_12.dll"},
    ),
}


def python_home(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Ship the files of an interpreter: what lies in folders belongs to a package that RECORD lists."""
    site = folder / "Lib" / "site-packages"
    packaged = {name: data for name, data in files.items() if "/" in name}
    program = ship(folder, {name: data for name, data in files.items() if name not in packaged})
    ship(site, packaged)
    info = site / "torch-2.3.0.dist-info"
    info.mkdir(parents=True)
    record = "".join(f"{name},,\n" for name in packaged)
    (info / "RECORD").write_text(record, encoding="utf-8")
    return program


@pytest.mark.parametrize("case", WINDOWS)
def test_the_unit_is_the_folder_of_who_asks_and_the_name(tmp_path: Path, case: str) -> None:
    files, expected = WINDOWS[case]
    python = "python.exe" in files
    program = (python_home if python else ship)(tmp_path / "p", files)
    places = looked_at(program, tmp_path)
    site = "Lib/site-packages/" if python else ""
    found = {(place.folder / place.name).relative_to(tmp_path / "p").as_posix() for place in places.found}
    assert found == {site + name for name in expected}


def test_who_cannot_be_served_by_any_folder_is_named(tmp_path: Path) -> None:
    program = ship(tmp_path / "p", WINDOWS["runtime-asks-the-system-alone"][0])
    assert looked_at(program, tmp_path).unserved == (
        "nvcuda.dll is not placed for cudart64_12.dll: it asks the system folder alone",
    )


ELF = {
    "rpath": ({"rpath": "$ORIGIN/lib"}, {"lib"}),
    "runpath": ({"runpath": "$ORIGIN/lib"}, {"lib"}),
    "the-copy-found-first": ({"rpath": "$ORIGIN/none:$ORIGIN/empty:$ORIGIN/lib"}, {"lib"}),
    "no-copy-anywhere": ({"rpath": "$ORIGIN/none:$ORIGIN/empty"}, {"empty"}),
    "up-and-down": ({"rpath": "$ORIGIN/empty/../lib"}, {"lib"}),
    "nothing-leads-there": ({}, set()),
}


@pytest.mark.posix_only
@pytest.mark.parametrize("case", ELF)
def test_on_linux_the_unit_is_the_folder_that_the_loader_finds(tmp_path: Path, case: str) -> None:
    links, expected = ELF[case]
    program = ship(
        tmp_path / "p",
        {
            "app": elf(needed=["libcublas.so.12"], program=True, **links),  # type: ignore[arg-type] # options by name
            **({"lib/libcublas.so.12": elf()} if case != "no-copy-anywhere" else {}),
            "empty/x": b"",
        },
    )
    places = looked_at(program, tmp_path, {"cublas12": ()})
    found = {place.folder.resolve().relative_to(tmp_path / "p").as_posix() for place in places.found}
    assert found == expected
    assert bool(places.unserved) == (not expected)


# What is chosen -------------------------------------------------------------------------------------


def chosen(root: Path, files: Mapping[str, bytes], **changes: object) -> tuple[dict[str, str], str]:
    """Return who asks for each item, and the notes."""
    program = ship(root / "p", files)
    places = replace(looked_at(program, root), **changes)
    picked = choose(staged(root, LAYER), program, places)
    return {item.path: picked.askers.get(item.path, "") for item in picked.items}, "\n".join(picked.notes)


def test_only_what_is_asked_for_is_placed_and_what_that_needs(tmp_path: Path) -> None:
    """cuBLAS of the layer wants cuBLASLt in its own folder, and everything wants the driver."""
    files = {"app.exe": exe(), "plug/p.dll": dll(CUBLAS), "plug/cublas64_12.dll": dll()}
    items, notes = chosen(tmp_path, files)
    ours = "the stack's own libraries"
    assert items == {
        "plug/cublas64_12.dll": "p.dll",
        "plug/cublasLt64_12.dll": ours,
        "nvcuda.dll": ours,
        "nvcudart_hybrid64.dll": ours,
    }
    assert notes == ""


def test_the_helper_of_the_driver_goes_with_it_everywhere(tmp_path: Path) -> None:
    items, _ = chosen(tmp_path, {"app.exe": exe(), "plug/p.dll": dll(DRIVER)})
    assert set(items) == {f"{place}{name}" for place in ("", "plug/") for name in list(LAYER)[:2]}


def test_a_stub_never_covers_a_copy_that_works(tmp_path: Path) -> None:
    items, _ = chosen(
        tmp_path, {"app.exe": exe({**DRIVER, "cufft64_11.dll": ["x"]}), "cufft64_11.dll": dll()}
    )
    assert set(items) == {"nvcuda.dll", "nvcudart_hybrid64.dll"}


def test_what_has_nothing_behind_it_stays_the_programs_own(tmp_path: Path) -> None:
    files = {"app.exe": exe({**DRIVER, "cudnn64_9.dll": ["x"]}), "cudnn64_9.dll": dll()}
    items, notes = chosen(tmp_path, files, absent=frozenset({"miopen"}))
    assert "cudnn64_9.dll" not in items
    assert notes == "cudnn64_9.dll is not placed: behind it miopen is missing"


def test_a_program_that_hides_things_gets_the_rest_beside_it(tmp_path: Path) -> None:
    files = {"app.exe": exe(), "plug/p.dll": dll(CUBLAS), "plug/cublas64_12.dll": dll()}
    items, notes = chosen(tmp_path, files, complete=False)
    assert items["plug/cublas64_12.dll"] == "p.dll"
    assert {"cudnn64_9.dll", "nvml.dll", "nvcuda.dll"} <= set(items)
    assert "cublas64_12.dll" not in items
    assert "app.exe hides part of what it loads, so the other 2 libraries of layer" in notes


def test_of_an_unknown_program_everything_goes_beside_it_and_that_is_said(tmp_path: Path) -> None:
    program = ship(tmp_path / "p", {"app.exe": b"#!"})
    picked = choose(staged(tmp_path, LAYER), program)
    assert {item.path for item in picked.items} == set(LAYER) - {"cufft64_11.dll"}
    assert picked.notes == (
        "what app.exe loads is not known from its files, so all 5 libraries of layer go beside it",
    )


@pytest.mark.parametrize("mark", ["pyvenv.cfg", "conda-meta/history"])
def test_an_environment_is_one_target(tmp_path: Path, mark: str) -> None:
    """In a virtual environment the packages lie beside the folder of the interpreter."""
    program = ship(tmp_path / "env" / "Scripts", {"python.exe": exe()})
    ship(tmp_path / "env", {mark: b""})
    python_home(tmp_path / "env", {"torch/lib/torch_cuda.dll": dll(CUBLAS), "x.txt": b""})
    picked = choose(staged(tmp_path, LAYER), program, looked_at(program, tmp_path))
    assert picked.target == (tmp_path / "env").resolve()
    assert "Lib/site-packages/torch/lib/cublas64_12.dll" in {item.path for item in picked.items}


def test_what_lies_outside_the_program_is_left_alone_and_named(tmp_path: Path) -> None:
    program = ship(tmp_path / "app", {"python.exe": exe()})
    python_home(tmp_path, {"torch/lib/torch_cuda.dll": dll(CUBLAS), "x.txt": b""})
    places = looked_at(program, tmp_path)
    picked = choose(staged(tmp_path, LAYER), program, places)
    assert picked.items == ()
    assert "torch_cuda.dll looks for cublas64_12.dll in" in picked.notes[0]
    assert "no part of the program; nothing is placed there" in picked.notes[0]


# The whole way --------------------------------------------------------------------------------------


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    return workspace(tmp_path, state_root=tmp_path / "state", cache_root=tmp_path / "cache")


@pytest.fixture
def torch(tmp_path: Path) -> World:
    """A program whose plugin has its own copy in a folder of its own."""
    world = World(tmp_path)
    world.own("Programm ü.exe", exe())
    world.own("torch/lib/torch_cuda.dll", dll({**CUBLAS, **DRIVER}))
    world.own("torch/lib/cublas64_12.dll", dll() + b"the program's own copy", mode=0o640)
    world.own("torch/lib/data.bin", b"data")
    return world.settle()


def seen(ws: Workspace, stack: Staged, program: Path) -> Inspected:
    facts = ViaFacts(platform=ws.platform, kind=stack.stack.kind)
    return inspect_program(ws, stack, program, facts)


def test_an_own_copy_in_torch_lib_is_replaced_there_and_put_back(
    ws: Workspace, torch: World, tmp_path: Path
) -> None:
    stack, program = staged(tmp_path, LAYER), torch.target / "Programm ü.exe"
    places = seen(ws, stack, program).places
    lib = torch.target / "torch" / "lib"
    with BesidePlacer(ws)(stack, program, places=places) as placement:
        assert set(placement.files) == {
            *("torch/lib/cublas64_12.dll", "torch/lib/cublasLt64_12.dll"),
            *("torch/lib/nvcuda.dll", "torch/lib/nvcudart_hybrid64.dll"),
            *("nvcuda.dll", "nvcudart_hybrid64.dll"),
        }
        assert (lib / "cublas64_12.dll").read_bytes() == b"ours: cublas64_12.dll"
        assert not (torch.target / "cublas64_12.dll").exists()
    assert placement.left == ()
    assert tree(torch.target) == torch.start


def test_what_is_kept_there_is_found_again_by_the_next_run_and_by_unwrap(
    ws: Workspace, torch: World, tmp_path: Path
) -> None:
    """Preflight meets our own copies then, and must come to the same places."""
    stack, program = staged(tmp_path, LAYER), torch.target / "Programm ü.exe"
    files = []
    for _ in range(2):
        places = seen(ws, stack, program).places
        with BesidePlacer(ws)(stack, program, keep=True, places=places) as placement:
            files.append(placement.files)
    assert files[0] == files[1]
    assert unwrap(ws, exe=str(program)).exit_code == 0
    assert tree(torch.target) == torch.start


def test_explaining_names_the_folder_and_who_looks_there(ws: Workspace, torch: World, tmp_path: Path) -> None:
    stack, program = staged(tmp_path, LAYER), torch.target / "Programm ü.exe"
    told = BesidePlacer(ws).sentences(stack, program, seen(ws, stack, program).places)
    lib = torch.target / "torch" / "lib"
    replaced = f"would replace (the original is kept and put back): {lib / 'cublas64_12.dll'}"
    assert f"{replaced} (for torch_cuda.dll)" in told
    assert f"would create: {lib / 'nvcuda.dll'} (for torch_cuda.dll)" in told
    assert tree(torch.target) == torch.start


def test_a_program_that_no_copy_serves_is_refused_with_the_reason(ws: Workspace, tmp_path: Path) -> None:
    stack = staged(tmp_path, LAYER)
    program = ship(tmp_path / "p", WINDOWS["runtime-asks-the-system-alone"][0])
    with pytest.raises(TargetError) as caught:
        BesidePlacer(ws)(stack, program, places=seen(ws, stack, program).places)
    assert caught.value.reference == "nothing-to-place"
    assert caught.value.context == (
        "nvcuda.dll is not placed for cudart64_12.dll: it asks the system folder alone",
    )


def wrapped(ws: Workspace, stack: Staged, program: Path, **options: object) -> WrapResult:
    """Run ``wrap`` as the command line does."""
    return wrap(
        ws,
        exe=str(program),
        staged=lambda _ws, _stack: stack,
        placer=BesidePlacer(ws),
        explain_placement=BesidePlacer(ws).sentences,
        inspect=partial(inspect_program, ws),
        **options,  # type: ignore[arg-type] # options of one test
    )


APP = "extern int which(void); int main(void) { return which(); }\n"
LIBRARY = "int which(void) { return %d; }\n"


@pytest.fixture
def compiled(tmp_path: Path) -> Callable[..., Path]:
    """Compile one C text, with the words of its command line."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler here to make a program with an RPATH")

    def build(name: str, text: str, *words: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        line = [compiler, "-x", "c", "-", "-x", "none", "-o", str(path), *words]
        subprocess.run(line, input=text.encode(), check=True, cwd=tmp_path)
        return path

    return build


@pytest.mark.posix_only
def test_a_real_program_with_an_rpath_loads_ours_from_there(
    ws: Workspace, tmp_path: Path, compiled: Callable[..., Path]
) -> None:
    """Its own copy wins over every search path, so this way is chosen; afterwards the copy is back."""
    shared = ("-shared", "-Wl,-soname,libcublas.so.12")
    own = compiled("app/lib/libcublas.so.12", LIBRARY % 3, *shared)
    ours = compiled("layer/libcublas.so.12", LIBRARY % 4, *shared)
    rpath = "-Wl,--disable-new-dtags,-rpath,$ORIGIN/lib"
    program = compiled("app/Programm ü", APP, str(own), rpath)
    data = ours.read_bytes()
    file = RuntimeFile(
        name=ours.name, sha256=hashlib.sha256(data).hexdigest(), size=len(data), provides="cublas12"
    )
    base = staged(tmp_path, {}, kind=StackKind.REFERENCE)
    runtime = Runtime(stack="layer", digest="e" * 64, path=ours.parent, files=(file,))
    stack = Staged(lock=base.lock, stack=base.stack, runtime=runtime, host=base.host)
    before = tree(program.parent)
    assert subprocess.run([program], check=False).returncode == 3
    result = wrapped(ws, stack, program)
    assert (result.via, result.exit_code) == (Via.BESIDE, 4)
    told = result.to_json()
    assert (told["placed"], told["placed_in"]) == (["lib/libcublas.so.12"], str(program.parent))
    assert tree(program.parent) == before
    assert subprocess.run([program], check=False).returncode == 3


@pytest.fixture
def imports_cuda(tmp_path: Path) -> Path:
    """A real program that imports the driver, in a folder with a blank and an umlaut."""
    programs = os.environ.get("CUDA_AMD_TEST_BIN")
    if programs is None:
        pytest.skip("CUDA_AMD_TEST_BIN does not name the folder of cross-built programs")
    folder = tmp_path / "app dir ü"
    folder.mkdir()
    shutil.copy(Path(programs) / "imports_cuda.exe", folder)
    return folder / "imports_cuda.exe"


@pytest.mark.windows_only
def test_a_real_program_that_imports_its_driver_loads_ours_beside_it(
    ws: Workspace, tmp_path: Path, imports_cuda: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """It asks for nothing else, so nothing else is placed."""
    layer = tmp_path / "layer"
    source = Path(os.environ["CUDA_AMD_TEST_BIN"]) / "cpu-reference" / "nvcuda.dll"
    base = staged(tmp_path, {"cublas64_12.dll": ("cublas12", ())}, kind=StackKind.REFERENCE)
    shutil.copy(source, layer)
    data = source.read_bytes()
    file = RuntimeFile(
        name=source.name, sha256=hashlib.sha256(data).hexdigest(), size=len(data), provides="nvcuda"
    )
    runtime = Runtime(stack="layer", digest="e" * 64, path=layer, files=(file, *base.runtime.files))
    stack = Staged(lock=base.lock, stack=base.stack, runtime=runtime, host=base.host)
    before = tree(imports_cuda.parent)
    result = wrapped(ws, stack, imports_cuda)
    assert (result.via, result.exit_code, result.placement.files) == (Via.BESIDE, 0, ("nvcuda.dll",))
    assert f"import 0 {imports_cuda.parent / 'nvcuda.dll'}" in capfd.readouterr().out
    assert tree(imports_cuda.parent) == before
