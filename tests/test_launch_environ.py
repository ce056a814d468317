"""The environment, the way in and the launcher are planned, and every decision has its reason."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path, PureWindowsPath

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from scripts.errors import HostError, LaunchError, StagedFileError, UsageError
from scripts.launch.environ import EnvPlan, GpuChoice, plan_environment, search_folders
from scripts.launch.injection import Via, ViaFacts, ascii_folder, choose_via, launcher_in, plan_launcher
from scripts.launch.program import parse_settings, parse_timeout
from scripts.model import EnvPolicy, HipNeed, HipRoot, HipSource, Runtime, RuntimeFile, Stack, StackKind

CC = EnvPolicy(name="ZLUDA_CC", value="8.6", why="explicit")
WINDOWS = Stack(
    id="zluda-x", kind=StackKind.TRANSLATION, hip=HipNeed(source=HipSource.SDK, range=">=6.4,<6.5"), env=(CC,)
)
LINUX = replace(WINDOWS, hip=HipNeed(source=HipSource.SYSTEM))
PARTS = replace(WINDOWS, hip=HipNeed(source=HipSource.PARTS))
REFERENCE = Stack(id="cpu", kind=StackKind.REFERENCE)
CONTROL = Stack(id="native", kind=StackKind.CONTROL)


def file(name: str, provides: str | None = None, needs: tuple[str, ...] = ()) -> RuntimeFile:
    return RuntimeFile(name=name, sha256="0" * 64, size=1, provides=provides, needs=needs)


def runtime(path: str, *names: str) -> Runtime:
    return Runtime(stack="x", digest="d", path=Path(path), files=tuple(file(n) for n in names))


LAYER_W = runtime("C:/store/r", "nvcuda.dll", "zluda.exe", "trace/nvcuda.dll", "32/nvcuda.dll")
LAYER_L = runtime("/store/r", "libcuda.so.1", "trace/libcuda.so.1")
SDK = HipRoot(path=Path("C:/AMD/ROCm/6.4"), version="6.4.2", source="HIP_PATH")
ROCM = HipRoot(path=Path("/opt/rocm"), version="6.4.0", source="/opt")


def windows(base: dict[str, str] | None = None, **options: object) -> EnvPlan:
    defaults: dict[str, object] = {"stack": WINDOWS, "runtime": LAYER_W, "hip_root": SDK}
    return plan_environment(base or {}, platform="win32", **{**defaults, **options})  # type: ignore[arg-type] # options of one test


def linux(base: dict[str, str] | None = None, **options: object) -> EnvPlan:
    defaults: dict[str, object] = {"stack": LINUX, "runtime": LAYER_L, "hip_root": ROCM}
    return plan_environment(base or {}, platform="linux", **{**defaults, **options})  # type: ignore[arg-type] # options of one test


def test_windows_search_path_is_layer_hip_libtorch_inherited() -> None:
    layer = replace(LAYER_W, files=(*LAYER_W.files, file("libtorch/lib/torch_cpu.dll")))
    plan = windows({"Path": r"C:\Windows;C:\bin"}, runtime=layer)
    assert plan.environ["Path"] == r"C:\store\r;C:\AMD\ROCm\6.4\bin;C:\store\r\libtorch\lib;C:\Windows;C:\bin"
    assert "PATH" not in plan.environ
    assert plan.environ["HIP_PATH"] == r"C:\AMD\ROCm\6.4"


def test_a_hip_runtime_that_came_as_parts_is_used_instead_of_an_installed_one() -> None:
    layer = replace(
        LAYER_W, files=(*LAYER_W.files, file("hip/bin/amdhip64_7.dll"), file("hip/bin/rocblas.dll"))
    )
    plan = windows({"HIP_PATH": r"C:\old"}, stack=PARTS, runtime=layer)
    assert plan.environ["HIP_PATH"] == r"C:\store\r\hip"
    assert plan.environ["PATH"] == r"C:\store\r;C:\store\r\hip\bin"


@pytest.mark.parametrize("inherited", ["", ":", "::", "/a", "/a:", ":/a", "/a::/b"])
def test_linux_search_path_never_holds_an_empty_part(inherited: str) -> None:
    parts = linux({"LD_LIBRARY_PATH": inherited}).environ["LD_LIBRARY_PATH"].split(":")
    assert parts == ["/store/r", "/opt/rocm/lib", *(p for p in inherited.split(":") if p)]


@given(st.text(st.sampled_from(":/ab"), max_size=12))
def test_no_inherited_value_makes_an_empty_part(inherited: str) -> None:
    value = linux({"LD_LIBRARY_PATH": inherited}, hip_root=None).environ["LD_LIBRARY_PATH"]
    assert "" not in value.split(":")


def test_linux_sets_no_hip_path() -> None:
    assert "HIP_PATH" not in linux().environ


def test_windows_names_are_compared_without_case() -> None:
    plan = windows({"zluda_log_dir": "x", "Zluda_Cc": "8.8", "Rocblas_Tensile_Libpath": "y"})
    assert plan.environ["Zluda_Cc"] == "8.6"
    assert {name.upper() for name in plan.environ} == {"ZLUDA_CC", "HIP_PATH", "PATH"}


def test_linux_names_are_compared_exactly() -> None:
    assert linux({"zluda_log_dir": "x"}).environ["zluda_log_dir"] == "x"


@pytest.mark.parametrize(
    "name",
    [
        "ROCBLAS_TENSILE_LIBPATH",
        "HIPBLASLT_TENSILE_LIBPATH",
        "ZLUDA_CUDA_LIB",
        "ZLUDA_BLAS_LIB",
        "ZLUDA_NVAPI_LIB",
        "ZLUDA_LOG_DIR",
    ],
)
@pytest.mark.parametrize("plan", [windows, linux])
def test_what_would_mislead_the_layer_is_removed_with_its_reason(
    plan: Callable[..., EnvPlan], name: str
) -> None:
    made = plan({name: "somewhere"})
    assert name not in made.environ
    [change] = [c for c in made.changes if c.name == name]
    assert (change.action, bool(change.why)) == ("unset", True)


def test_other_stacks_leave_the_layers_variables_alone() -> None:
    base = {"ZLUDA_LOG_DIR": "x", "ROCBLAS_TENSILE_LIBPATH": "y"}
    plan = linux(base, stack=REFERENCE, hip_root=None)
    assert plan.environ == {**base, "LD_LIBRARY_PATH": "/store/r"}


@pytest.mark.parametrize(("purpose", "there"), [("program", True), ("check", False)])
@pytest.mark.parametrize("only", ["check", ""])
def test_cuda_path_is_removed_for_checks_only(purpose: str, there: bool, only: str) -> None:
    policy = EnvPolicy(name="CUDA_PATH", value=None, why="cuda_check", only=only)
    plan = windows({"Cuda_Path": "x"}, stack=replace(WINDOWS, env=(CC, policy)), purpose=purpose)
    assert ("Cuda_Path" in plan.environ) is there


def test_a_policy_for_checks_is_not_applied_to_programs() -> None:
    policy = EnvPolicy(name="NAME", value="v", why="w", only="check")
    assert "NAME" not in windows(stack=replace(WINDOWS, env=(CC, policy))).environ
    assert windows(stack=replace(WINDOWS, env=(CC, policy)), purpose="check").environ["NAME"] == "v"


def test_the_compute_capability_is_explicit_even_without_a_policy() -> None:
    plan = windows(stack=replace(WINDOWS, env=()))
    assert plan.environ["ZLUDA_CC"] == "8.6"
    assert windows().environ["ZLUDA_CC"] == "8.6"


@pytest.mark.parametrize("value", ["86", "8", "8.6.0", "", "sm_86", "8,6"])
def test_a_capability_that_would_be_silently_misread_is_refused(value: str) -> None:
    with pytest.raises(UsageError) as caught:
        windows(user_set={"ZLUDA_CC": value})
    assert caught.value.reference == "bad-compute-capability"


def test_what_the_user_sets_wins() -> None:
    plan = windows({"HIP_PATH": "x"}, user_set={"hip_path": r"D:\hip", "ZLUDA_CC": "12.0", "PATH": "only"})
    assert (plan.environ["HIP_PATH"], plan.environ["ZLUDA_CC"], plan.environ["PATH"]) == (
        r"D:\hip",
        "12.0",
        windows({"PATH": "only"}).environ["PATH"],
    )
    assert [c.why for c in plan.changes][-2:] == ["you set it for this run"] * 2


@pytest.mark.parametrize("name", ["PATH", "Path", "path"])
def test_a_search_path_of_the_users_keeps_the_stack_in_front(name: str) -> None:
    plan = windows({"PATH": "old"}, user_set={name: "mine;more"})
    folders = plan.environ["PATH"].split(";")
    assert folders[-2:] == ["mine", "more"]
    assert folders[:-2] == windows({"PATH": "old"}).environ["PATH"].split(";")[:-1] != []
    mine = linux({"LD_LIBRARY_PATH": "old"}, user_set={"LD_LIBRARY_PATH": "/mine"})
    assert mine.environ["LD_LIBRARY_PATH"].endswith(":/mine")
    assert mine.environ["LD_LIBRARY_PATH"] != ":/mine"
    assert "old" not in mine.environ["LD_LIBRARY_PATH"]


@pytest.mark.parametrize(
    ("base", "gpu", "expected"),
    [
        ({}, None, None),
        ({}, GpuChoice(index=0, count=1), None),
        ({}, GpuChoice(index=1, count=2, name="RX 9060 XT"), "1"),
        ({}, GpuChoice(index=0, count=2), "0"),
        ({"CUDA_VISIBLE_DEVICES": "0"}, GpuChoice(index=1, count=2), None),
        ({"CUDA_VISIBLE_DEVICES": ""}, GpuChoice(index=1, count=2), None),
        ({"ROCR_VISIBLE_DEVICES": "0"}, GpuChoice(index=1, count=2), None),
        ({"HIP_VISIBLE_DEVICES": "0"}, GpuChoice(index=1, count=2), "0"),
    ],
)
def test_a_device_is_named_only_where_there_is_a_choice_and_nobody_made_it(
    base: dict[str, str], gpu: GpuChoice | None, expected: str | None
) -> None:
    plan = linux(base, gpu=gpu)
    assert plan.environ.get("HIP_VISIBLE_DEVICES") == expected
    assert plan.environ.get("CUDA_VISIBLE_DEVICES") == base.get("CUDA_VISIBLE_DEVICES")


def test_a_device_set_for_this_run_is_not_joined_by_ours() -> None:
    plan = linux(gpu=GpuChoice(index=1, count=2), user_set={"CUDA_VISIBLE_DEVICES": "0"})
    assert "HIP_VISIBLE_DEVICES" not in plan.environ


def test_a_missing_sdk_is_a_fact_about_the_machine() -> None:
    with pytest.raises(HostError) as caught:
        windows(hip_root=None)
    assert caught.value.reference == "hip-missing"
    assert ">=6.4,<6.5" in caught.value.message


def test_a_control_stack_changes_nothing() -> None:
    base = {"PATH": "/bin", "CUDA_PATH": "x", "LD_LIBRARY_PATH": ":"}
    plan = linux(base, stack=CONTROL, runtime=Runtime(stack="native", digest="", path=None), hip_root=None)
    assert (plan.environ, plan.changes) == (base, ())


NAMES = st.sampled_from(["PATH", "Path", "ZLUDA_CC", "ZLUDA_X_LIB", "HOME", "CUDA_PATH", "HIP_PATH", "A"])


@given(st.dictionaries(NAMES, st.text("ab;:", max_size=5), max_size=5))
def test_every_difference_has_a_change_with_a_reason_and_the_base_stays(base: dict[str, str]) -> None:
    before = dict(base)
    for plan in (windows(base), linux(base)):
        touched = {c.name for c in plan.changes}
        names = set(base) | set(plan.environ)
        assert {n for n in names if base.get(n) != plan.environ.get(n)} <= touched
        assert all(c.why for c in plan.changes)
    assert base == before


@pytest.mark.parametrize(
    ("facts", "via", "words"),
    [
        (ViaFacts(platform="linux", kind=StackKind.TRANSLATION), Via.ENV, "search path"),
        (ViaFacts(platform="linux", kind=StackKind.REFERENCE), Via.ENV, "search path"),
        (ViaFacts(platform="linux", kind=StackKind.CONTROL), Via.ENV, "adds no files"),
        (
            ViaFacts(platform="linux", kind=StackKind.TRANSLATION, own_copies=("lib/libcublas.so.12",)),
            Via.BESIDE,
            "its own lib/libcublas.so.12",
        ),
        (
            ViaFacts(platform="win32", kind=StackKind.TRANSLATION, launcher=True),
            Via.LAUNCHER,
            "system folder",
        ),
        (
            ViaFacts(
                platform="win32", kind=StackKind.TRANSLATION, launcher=True, own_copies=("torch/lib/x.dll",)
            ),
            Via.LAUNCHER,
            "injection",
        ),
        (ViaFacts(platform="win32", kind=StackKind.TRANSLATION, at_start=True), Via.BESIDE, "when it starts"),
        (ViaFacts(platform="win32", kind=StackKind.TRANSLATION, bare_load=True), Via.BESIDE, "by name"),
        (ViaFacts(platform="win32", kind=StackKind.REFERENCE), Via.ENV, "no launcher"),
        (ViaFacts(platform="win32", kind=StackKind.REFERENCE, at_start=True), Via.BESIDE, "when it starts"),
        (ViaFacts(platform="win32", kind=StackKind.CONTROL), Via.ENV, "adds no files"),
    ],
)
def test_the_way_in_follows_from_the_program(facts: ViaFacts, via: Via, words: str) -> None:
    choice = choose_via(facts)
    assert choice.via is via
    assert words in choice.reason
    assert not re.search(r"\bserves?\b|\bloads? ours\b|\buses? ours\b", choice.reason), (
        "not certain before the start"
    )


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (ViaFacts(platform="win32", kind=StackKind.TRANSLATION), "nothing shows"),
        (
            ViaFacts(
                platform="win32", kind=StackKind.TRANSLATION, at_start=True, system_only=("cudart64_12.dll",)
            ),
            "cudart64_12.dll",
        ),
        (ViaFacts(platform="win32", kind=StackKind.TRANSLATION, bare_load=True, nvrtc=True), "NVRTC"),
    ],
)
def test_where_no_way_reaches_the_program_the_reason_is_named(facts: ViaFacts, words: str) -> None:
    with pytest.raises(LaunchError) as caught:
        choose_via(facts)
    assert caught.value.reference == "no-way-in"
    assert words in caught.value.message


def test_folders_are_found_by_what_lies_in_them() -> None:
    made = runtime(
        "r", "nvcuda.dll", "rocm/bin/AMDHIP64_7.dll", "trace/amdhip64.dll", "torch/libtorch_cpu.so"
    )
    assert [(f.kind, f.path.as_posix()) for f in search_folders(made)] == [
        ("layer", "r"),
        ("hip", "r/rocm/bin"),
        ("libtorch", "r/torch"),
    ]


def test_the_launcher_fits_the_program() -> None:
    made = runtime("r", "Zluda.exe", "32/zluda.exe")
    found = [launcher_in(made, bits=bits) for bits in (64, 32)]
    assert [f and f.name for f in found] == ["Zluda.exe", "32/zluda.exe"]
    assert launcher_in(LAYER_W, bits=32) is None


INJECTED = Runtime(
    stack="zluda-x",
    digest="d",
    path=Path("r"),
    files=(
        file("zluda.exe"),
        file("zluda_redirect.dll"),
        file("nvcuda.dll", "nvcuda", ("amdhip64",)),
        file("cudnn64_9.dll", "cudnn9", ("miopen", "amdhip64")),
        file("trace/nvcuda.dll", "nvcuda"),
        file("ptxas.exe"),
    ),
)


@pytest.mark.parametrize(
    ("missing", "refused"),
    [("nvcuda.dll", True), ("zluda_redirect.dll", True), ("trace/nvcuda.dll", False), ("ptxas.exe", False)],
)
def test_everything_that_is_injected_must_be_there(missing: str, refused: bool) -> None:
    def plan() -> str:
        return plan_launcher(
            INJECTED,
            folder=PureWindowsPath(r"C:\l"),
            program=PureWindowsPath(r"C:\p q\a.exe"),
            machine="x86_64",
            args=("a b",),
            present=lambda name: name != missing,
        ).line

    if refused:
        with pytest.raises(StagedFileError) as caught:
            plan()
        assert caught.value.context == (missing,)
    else:
        assert plan() == r'"C:\l\zluda.exe" -- "\"C:\p q\a.exe\"" "\"a b\""'


@pytest.mark.parametrize("machine", ["aarch64", "arm", "x86"])
def test_a_program_for_another_processor_is_refused(machine: str) -> None:
    with pytest.raises(LaunchError, match="32-bit" if machine == "x86" else machine):
        plan_launcher(
            INJECTED,
            folder=PureWindowsPath(r"C:\l"),
            program=PureWindowsPath("a.exe"),
            machine=machine,
            args=(),
            present=lambda _: True,
        )


def no_junction(folder: Path) -> Path:
    pytest.fail(f"a junction was made for {folder}")


def test_an_ascii_folder_is_used_as_it_is() -> None:
    used = ascii_folder(Path("C:/store dir/r"), short_name=lambda _: "no", junction=no_junction)
    assert used == PureWindowsPath(str(Path("C:/store dir/r")))


def test_a_short_name_serves_before_a_junction() -> None:
    used = ascii_folder(Path("C:/Jürgen/r"), short_name=lambda _: r"C:\JRGEN~1\r", junction=no_junction)
    assert used == PureWindowsPath(r"C:\JRGEN~1\r")


@pytest.mark.parametrize("short", [None, r"C:\Jürgen\r"], ids=["no 8.3 names", "8.3 names keep the letter"])
def test_a_junction_serves_where_no_short_name_does(short: str | None) -> None:
    used = ascii_folder(Path("C:/Jürgen/r"), short_name=lambda _: short, junction=lambda _: Path("C:/link"))
    assert used == PureWindowsPath(str(Path("C:/link")))


@pytest.mark.parametrize("place", ["C:/Ä", "C:/" + "a" * 240])
def test_a_folder_without_a_usable_name_is_refused_with_a_way_out(place: str) -> None:
    with pytest.raises(LaunchError) as caught:
        ascii_folder(Path("C:/Jürgen/r"), short_name=lambda _: None, junction=lambda _: Path(place))
    assert caught.value.reference == "layer-folder-not-ascii"
    assert "CUDA_AMD_CACHE" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "seconds"), [("", None), ("90", 90), ("90s", 90), ("1.5m", 90), ("2h", 7200), (" 5M ", 300)]
)
def test_durations_are_read_as_people_write_them(text: str, seconds: float | None) -> None:
    assert parse_timeout(text) == seconds


@pytest.mark.parametrize("text", ["soon", "-1", "0", "0s", "5d", "1e3", "m"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_timeout(text)


def test_settings_keep_their_value_whole() -> None:
    assert parse_settings(["A=b=c", "E=", "A=last"]) == {"A": "last", "E": ""}
