"""The whole way of a Radeon on Windows, on stand-ins: set up, run, take back, and what each fault ends in."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.checkout import make_checkout
from tests.pe_files import pe
from tests.radeon import (
    BACKENDS,
    IGPU,
    RX9060XT,
    XT_DEVICE,
    Radeon,
    device,
    hip_packages,
    hip_sdk,
    radeon,
    release,
)
from tests.recorded_registry import FREE

pytestmark = pytest.mark.windows_only

STYLES = frozenset({"name", "system", "path", "added", "child", "import", "start"})
#: Programs that import their driver, at their start or when they first call it.
IMPORTING = {"import": "imports_cuda.exe", "delay": "delays_cuda.exe"}
V6P69, V7P10 = "zluda-windows-v6-preview.69", "zluda-windows-v7-preview.10"


@pytest.fixture(scope="module")
def programs() -> Path:
    return Path(os.environ["CUDA_AMD_TEST_BIN"])


@pytest.fixture(scope="module")
def machine(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Radeon:
    """A machine where HIP 6.4 is installed and the reference stack is set up; nobody may damage it."""
    folder = tmp_path_factory.mktemp("radeon")
    made = radeon(make_checkout(folder), folder / "machine", programs, V6P69, V7P10)
    made.hip = hip_sdk(folder / "Program Files" / "AMD" / "ROCm" / "6.4", programs, "6.4.2")
    result = made.setup("zluda-v6p69-sdk64")
    assert (result["level"], result["outcome"]) == ("loadable", "pass"), result
    return made


@pytest.fixture
def program(programs: Path, tmp_path: Path) -> Path:
    """A program in a folder with blanks and letters outside ASCII."""
    folder = tmp_path / "Programme (ü)"
    folder.mkdir()
    for name in ("uses_cuda.exe", "imports_cuda.exe", "delays_cuda.exe"):
        shutil.copyfile(programs / name, folder / name)
    return folder / "uses_cuda.exe"


def looks(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        path.relative_to(folder).as_posix(): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


def spoken(output: str) -> dict[str, tuple[str, str]]:
    """Read "STYLE RESULT PATH" lines."""
    rows = [line.split(" ", 2) for line in output.splitlines() if line.split(" ", 1)[0] in STYLES]
    return {style: (result, path) for style, result, path in rows}


def reference(machine: Radeon, *words: str, code: int, env: dict[str, str] | None = None) -> dict[str, Any]:
    """Type a command that must fail, and return its error."""
    result: Any = machine.json(*words, code=code, env=env)
    error: dict[str, Any] = result["error"]
    assert error["hint"]
    return error


def test_set_up_activates_what_a_check_and_a_product_showed_and_does_not_do_it_again(machine: Radeon) -> None:
    again: Any = machine.setup("zluda-v6p69-sdk64")
    assert {step["name"]: step["status"] for step in again["steps"]} == {
        "scan": "done",
        "select": "done",
        "bill": "kept",
        "fetch": "kept",
        "unpack": "kept",
        "build": "skipped",
        "assemble": "kept",
        "verify": "done",
        "check": "kept",
        "run": "kept",
        "report": "kept",
    }
    status: Any = machine.json("status")
    assert (status["active"]["stack"], status["runtime_present"]) == ("zluda-v6p69-sdk64", True)
    assert status["placements"] == []


@pytest.mark.parametrize("style", ["system", "path", "added", "child", "import", "delay"])
def test_with_the_launcher_every_way_of_loading_gets_our_driver(
    machine: Radeon, program: Path, programs: Path, style: str
) -> None:
    own = program.parent / "torch" / "lib"
    own.mkdir(parents=True)
    shutil.copyfile(programs / "empty.dll", own / "nvcuda.dll")
    if style == "added":
        shutil.copyfile(programs / "cpu-reference" / "nvcuda.dll", own / "nvcuda.dll")
    before = looks(program.parent)
    exe = program.with_name(IMPORTING.get(style, program.name))
    done = machine.run("wrap", f"--exe={exe}", "--via=launcher", "--", style, str(own))
    [(result, path)] = spoken(done.stdout).values()
    assert (done.returncode, result) == (0, "0"), done.stdout + done.stderr
    assert Path(path).is_relative_to(machine.checkout.cache), f"{style} got {path}"
    assert looks(program.parent) == before


@pytest.mark.parametrize("style", ["name", "import", "delay", "start"])
def test_copies_beside_the_program_serve_it_and_go_with_its_last_process(
    machine: Radeon, program: Path, style: str
) -> None:
    before = looks(program.parent)
    exe = program.with_name(IMPORTING.get(style, program.name))
    done = machine.run("wrap", f"--exe={exe}", "--via=beside", "--", style)
    [(result, path)] = spoken(done.stdout).values()
    assert (done.returncode, result) == (0, "0"), done.stdout + done.stderr
    assert Path(path).parent == program.parent
    assert looks(program.parent) == before


def test_what_is_kept_is_listed_and_taken_back(machine: Radeon, program: Path) -> None:
    before = looks(program.parent)
    assert machine.run("wrap", f"--exe={program}", "--keep", "--", "name").returncode == 0
    placed = {path.name for path in program.parent.iterdir()}
    assert {"nvcuda.dll", "nvcudart_hybrid64.dll"} <= placed
    unasked = {"cublas64_12.dll", "cufft64_11.dll", "trace", "ptxas.exe", "zluda.exe"}
    assert not placed & unasked, "the program asks for the driver alone"
    status: Any = machine.json("status")
    assert [Path(p["target"]) for p in status["placements"]] == [program.parent]
    assert machine.run("unwrap", f"--exe={program}").returncode == 0
    assert looks(program.parent) == before


def test_what_the_official_sdk_lacks_is_said_before_the_program_starts(
    machine: Radeon, program: Path
) -> None:
    nvidia = {"CUDA_PATH": r"C:\CUDA\v12"}
    result: Any = machine.json("wrap", f"--exe={program}", "--explain", "--", "name", env=nvidia)
    [note] = [note for note in result["notes"] if "MIOpen" in note]
    assert note.startswith("cudnn8, cudnn9 will fail")
    assert r"MIOpen.dll: not in the layer's folder; not in HIP\bin" in note
    environment = {change["name"]: change["value"] for change in result["environment"]}
    assert Path(environment["HIP_PATH"]) == machine.hip
    assert "CUDA_PATH" not in environment, (
        "programs that build extensions need it; only a check must not see it"
    )


def test_a_back_end_of_the_wrong_generation_is_named_down_to_the_leaf(
    machine: Radeon, program: Path, programs: Path
) -> None:
    assert machine.hip is not None
    rocblas = machine.hip / "bin" / "rocblas.dll"
    right = rocblas.read_bytes()
    rocblas.write_bytes((programs / "hip7" / "rocblas.dll").read_bytes())
    try:
        result: Any = machine.json("wrap", f"--exe={program}", "--explain")
    finally:
        rocblas.write_bytes(right)
    [note] = [note for note in result["notes"] if "rocblas" in note]
    assert "cublas64_11.dll → rocblas.dll → amdhip64_7.dll: HIP\\bin has only amdhip64_6.dll" in note


@pytest.mark.parametrize(
    ("fault", "outcome"), [("hang", "timeout"), ("half", "not-reached")], ids=["hangs", "ends half-way"]
)
def test_a_check_that_does_not_reach_its_end_is_negative(machine: Radeon, fault: str, outcome: str) -> None:
    result: Any = machine.json("check", "--timeout=6", code=3, env={"STANDIN_FAULT": fault})
    assert result["loads"] is False
    # It loads in any order; where cuDNN comes early, its box had to be closed, and that is the answer.
    assert result["outcome"] in {outcome, "dialog"}, result["reason"]
    reached = [c for c in result["capabilities"] if c["outcome"] != "not-reached"]
    assert 1 <= len(reached) <= 4


def test_a_library_that_vanished_is_refused_and_put_back(machine: Radeon, program: Path) -> None:
    before = looks(program.parent)
    [victim] = machine.checkout.cache.glob("runtimes-v1/*/cublas64_11.dll")
    victim.chmod(0o666)
    victim.unlink()
    error = reference(machine, "wrap", f"--exe={program}", code=122)
    assert error["reference"] == "staged-file-missing"
    assert "cublas64_11.dll" in str(error)
    assert looks(program.parent) == before
    machine.json("stage", "--stack=zluda-v6p69-sdk64", "--yes", f"--mirror={machine.mirror}")
    assert machine.run("wrap", f"--exe={program}", "--", "name").returncode == 0


def test_a_hip_library_of_the_programs_own_is_said_to_win(
    machine: Radeon, program: Path, programs: Path
) -> None:
    shutil.copyfile(programs / "hip6" / "rocblas.dll", program.with_name("rocblas.dll"))
    plugins = program.with_name("plugins")
    plugins.mkdir()
    (plugins / "p.dll").write_bytes(pe(imports={"cublas64_11.dll": ["cublasCreate_v2"]}))
    shutil.copyfile(programs / "hip6" / "rocblas.dll", plugins / "rocblas.dll")
    words = ("wrap", f"--exe={program}", "--explain", "--via=beside")
    result: Any = machine.json(*words)
    assert "rocblas.dll beside the program will be loaded instead of the HIP runtime's" in result["notes"]
    assert f"rocblas.dll in {plugins} will be loaded instead of the HIP runtime's" in result["notes"]
    assert f"would create: {plugins / 'cublas64_11.dll'} (for p.dll)" in result["notes"]


def test_a_shim_starts_the_program_by_a_double_click(machine: Radeon, programs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "Program Files (x86) & more"
    folder.mkdir()
    exe = folder / "uses_cuda.exe"
    shutil.copyfile(programs / "uses_cuda.exe", exe)
    (tmp_path / "args.json").write_text('["system", "100% a^b"]', encoding="utf-8")
    made: Any = machine.json("shim", f"--exe={exe}", f"--args-file={tmp_path / 'args.json'}")
    assert made["via"] == "launcher"
    assert made["steam"].endswith('zluda.exe" -- %command%')
    first, *_rest = Path(made["written"]).read_text(encoding="ascii").splitlines()
    assert "without verifying the stack's files, without undo" in first
    done = subprocess.run(
        ["cmd", "/c", made["written"]], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    [(result, path)] = spoken(done.stdout).values()
    assert (done.returncode, result) == (0, "0"), done.stdout + done.stderr
    assert Path(path).is_relative_to(machine.checkout.cache)
    machine.json("shim", f"--exe={exe}", "--remove")
    assert not Path(made["written"]).exists()


def test_a_shim_that_cmd_could_not_read_is_refused(machine: Radeon, program: Path) -> None:
    error = reference(machine, "shim", f"--exe={program}", code=60)
    assert error["reference"] == "shim-not-ascii"
    assert not list((machine.checkout.root / "stage").glob("shims/*"))


def test_a_trace_is_what_the_layers_own_libraries_wrote(
    machine: Radeon, programs: Path, tmp_path: Path
) -> None:
    exe = tmp_path / "Programme (ü)" / "calls_cuda.exe"
    exe.parent.mkdir()
    shutil.copyfile(programs / exe.name, exe)
    plain = machine.run("wrap", f"--exe={exe}")
    traced: Any = machine.json("wrap", f"--exe={exe}", "--trace")
    assert traced["trace"]["calls"] == {"nvcuda": 4}
    [log] = [Path(name) for name in traced["trace"]["logs"]]
    assert log.parent.name == exe.name
    assert log.is_relative_to(machine.checkout.root / "stage" / "traces")
    assert traced["trace"]["first_failure"]["function"] == "cuTexRefCreate"
    assert traced["trace"]["refused"] == {"cuTexRefCreate": 1}
    [broken] = traced["trace"]["broken"]
    assert (broken["call"], broken["files"]) == ("cuModuleLoadData", ["module_0001.ptx"])
    assert list(traced["trace"]["errors"].values()) == [['Unrecognized statement "nanosleep.u32 %r101;"']]
    shown = machine.run("wrap", f"--exe={exe}", "--trace")
    assert (shown.stdout, shown.returncode) == (plain.stdout, plain.returncode), "it sees the same answers"
    assert "words of its own\n[ZLUDA is no mark\n" in shown.stderr
    assert "[ZLUDA_TRACE]" not in shown.stderr
    assert "  failed   first cuTexRefCreate -> CUDA_ERROR_NOT_SUPPORTED" in shown.stderr


def test_the_layers_own_tool_compiles_beforehand(machine: Radeon, program: Path, tmp_path: Path) -> None:
    grows = {"STANDIN_CACHE": str(tmp_path / "elsewhere.db")}
    result: Any = machine.json("precompile", f"--path={program.parent}", env=grows)
    assert (result["code"], result["stack"]) == (0, "zluda-v6p69-sdk64")
    assert "[2/2] 1 file(s) compiled" in result["output"]
    assert (tmp_path / "elsewhere.db").stat().st_size == 1024
    assert result["compile_cache"]["path"].endswith(r"AppData\Local\zluda\ComputeCache")
    assert any("MIOpen" in note for note in result["notes"])
    error = reference(machine, "precompile", f"--path={program.parent}-gone", code=2)
    assert error["reference"] == "path-not-found"


def test_an_integrated_gpu_in_front_is_not_used(machine: Radeon, program: Path) -> None:
    assert machine.hip is not None
    listed = machine.hip / "bin" / "hipInfo.txt"
    integrated = device(0, "AMD Radeon(TM) Graphics", "gfx1036", bus=2, integrated=True)
    listed.write_text(integrated + device(1, "AMD Radeon RX 9060 XT", "gfx1200"), encoding="utf-8")
    machine.plug(IGPU, RX9060XT)
    try:
        scanned: Any = machine.json("scan")
        result: Any = machine.json("wrap", f"--exe={program}", "--explain")
    finally:
        machine.plug(RX9060XT)
        listed.write_text(XT_DEVICE, encoding="utf-8")
    assert scanned["gpus"][scanned["selected"]]["gfx"] == "gfx1200"
    environment = {change["name"]: change["value"] for change in result["environment"]}
    assert environment["HIP_VISIBLE_DEVICES"] == "1"


def test_a_stale_device_filter_hides_nothing_from_the_scan(machine: Radeon) -> None:
    scanned: Any = machine.json("scan", env={"HIP_VISIBLE_DEVICES": "9"})
    assert scanned["gpus"][scanned["selected"]]["hip_index"] == 0
    assert any("HIP_VISIBLE_DEVICES=9" in note for note in scanned["notes"])


@pytest.mark.parametrize(
    ("hip", "clause"),
    [("", "found none"), ("7.2.0", "found 7.2.0")],
    ids=["no HIP", "another major"],
)
def test_without_the_right_hip_nothing_is_fetched(
    machine: Radeon, programs: Path, tmp_path: Path, hip: str, clause: str
) -> None:
    root = hip_sdk(tmp_path / "ROCm", programs, hip) if hip else None
    bare = Radeon(checkout=machine.checkout, folder=machine.folder, programs=programs, hip=root)
    error = reference(bare, "setup", "--stack=zluda-v6p69-sdk64", "--yes", "--offline", code=50)
    assert error["reference"] == "stack-unmet"
    assert any(f"needs HIP SDK >=6.4,<6.5; {clause}" in line or clause in line for line in error["context"])
    assert "Install AMD HIP SDK 6.4.2" in error["hint"]


def test_the_release_of_v7_keeps_its_half_for_32_bit_programs_apart(
    machine: Radeon, programs: Path, tmp_path: Path
) -> None:
    root = hip_sdk(tmp_path / "ROCm", programs, "7.2.0", backends=(*BACKENDS, "MIOpen.dll"))
    newer = Radeon(checkout=machine.checkout, folder=machine.folder, programs=programs, hip=root)
    staged: Any = newer.json("stage", "--stack=zluda-v7p10-sdk72", "--yes", f"--mirror={machine.mirror}")
    folder = Path(staged["path"])
    assert (folder / "32" / "zluda.exe").is_file()
    assert (folder / "trace" / "nvcuda.dll").is_file()
    assert (folder / "nvapi64.dll").is_file()


def test_check_says_what_is_missing_behind_the_layer(machine: Radeon) -> None:
    result: Any = machine.json("check")
    [note] = result["notes"]
    assert note.startswith("cudnn8, cudnn9 will fail")
    assert "MIOpen.dll: not in the layer's folder" in note
    assert "cudnn8, cudnn9 will fail" in machine.run("check").stdout


def test_a_display_driver_that_is_too_old_is_negative_and_explained(machine: Radeon) -> None:
    done = machine.run("check", env={"STANDIN_FAULT": "driver"})
    assert done.returncode == 3
    assert (
        "nvcuda error: cuInit failed with status 100: HIP finds no device it can use: the display driver"
        in (done.stdout)
    )
    assert "    Hip error hipErrorNoDevice" in done.stdout
    assert "doctor: " not in done.stderr, (
        "three causes have this status: none of them is more likely than not"
    )


def test_a_check_that_fails_for_a_known_reason_says_it_under_the_error(machine: Radeon) -> None:
    done = machine.run("check", env={"STANDIN_FAULT": "kernels"})
    assert done.returncode == 3
    assert "doctor: arch-libraries" in done.stderr, done.stderr


def test_a_layer_made_for_a_newer_hip_is_not_made_active_and_says_which_function_is_missing(
    programs: Path, tmp_path: Path
) -> None:
    made = radeon(make_checkout(tmp_path), tmp_path / "machine", programs)
    release(made.lock, V6P69, programs, made.mirror, played={"nvcuda.dll": "newer/nvcuda.dll"})
    made.hip = hip_sdk(tmp_path / "ROCm", programs, "6.4.2")
    result: Any = made.setup("zluda-v6p69-sdk64", code=3)
    [check] = [step for step in result["steps"] if step["name"] == "check"]
    assert "amdhip64_6.dll may be too old for this stack" in check["detail"]
    assert "nvcuda.dll asks it for hip_newer_stand_in, which it lacks" in check["detail"]
    status: Any = made.json("status")
    assert status["active"] is None


def test_a_store_below_a_name_outside_ascii_still_serves_the_launcher(
    machine: Radeon, program: Path, tmp_path: Path
) -> None:
    store = tmp_path / "Jürgen" / "AppData" / "Local" / "cuda-on-amd"
    shutil.copytree(machine.checkout.cache, store)
    before = looks(program.parent)
    done = machine.run(
        "wrap", f"--exe={program}", "--via=launcher", "--", "name", env={"CUDA_AMD_CACHE": str(store)}
    )
    assert looks(program.parent) == before
    if done.returncode == 126:  # no volume of short names, and no place for a junction
        assert "layer-folder-not-ascii" in done.stderr
        return
    [(result, path)] = spoken(done.stdout).values()
    assert (done.returncode, result) == (0, "0"), done.stdout + done.stderr
    assert Path(path).name == "nvcuda.dll"
    assert Path(path).is_relative_to(store), path


def test_without_space_nothing_is_fetched_and_nothing_is_placed(
    machine: Radeon, program: Path, programs: Path, tmp_path: Path
) -> None:
    empty = radeon(make_checkout(tmp_path), tmp_path / "machine", programs, V6P69)
    empty.hip = machine.hip
    full = {FREE: "1000"}
    words = ("setup", "--stack=zluda-v6p69-sdk64", "--yes", f"--mirror={empty.mirror}")
    error = reference(empty, *words, code=20, env=full)
    assert error["reference"] == "no-space"
    assert "free:   1,000 bytes" in error["context"]
    assert not list(empty.checkout.cache.glob("blobs-v1/*/*"))
    before = looks(program.parent)
    error = reference(machine, "wrap", f"--exe={program}", "--via=beside", code=125, env=full)
    assert error["reference"] == "too-little-space"
    assert looks(program.parent) == before


def test_hip_in_parts_is_set_up_without_an_installed_one(
    programs: Path, program: Path, tmp_path: Path
) -> None:
    made = radeon(make_checkout(tmp_path), tmp_path / "machine", programs, V7P10)
    hip_packages(made.lock, programs, made.mirror)
    result: Any = made.setup("zluda-v7p10-rocm101-gfx120x")
    assert (result["level"], result["outcome"]) == ("loadable", "pass"), result
    checked: Any = made.json("check")
    assert checked["notes"] == [], "MIOpen is among the parts"
    cudnn = [c["outcome"] for c in checked["capabilities"] if c["capability"].startswith("cudnn")]
    assert cudnn == ["pass", "pass"]
    explained: Any = made.json("wrap", f"--exe={program}", "--explain")
    environment = {change["name"]: change["value"] for change in explained["environment"]}
    home = Path(environment["HIP_PATH"])
    assert home.is_relative_to(made.checkout.cache)
    assert (home / "bin" / "rocblas" / "library" / "TensileLibrary_lazy_gfx1201.dat").is_file()
    done = made.run("wrap", f"--exe={program}", "--", "name")
    assert (done.returncode, spoken(done.stdout)["name"][0]) == (0, "0"), done.stdout + done.stderr
