"""Building our C: which compiler is taken, what a build is named by, how failures are told."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pefile
import pytest

from scripts.errors import HostError
from scripts.model import NoProgress
from scripts.staging.build import (
    BuiltFile,
    Compiler,
    Output,
    ask_compiler,
    build,
    build_key,
    command_line,
    find_compiler,
    host_cpu,
    key_of,
    read_recipe,
    read_sources,
)
from tests.native_cpu import NATIVE, ROOT, host_compiler, no_compiler
from tests.python_programs import write_python_program

pytestmark = pytest.mark.proof

GCC = Compiler(command=("gcc",), version="gcc 12.2.0", target="x86_64-linux-gnu")
MINGW = Compiler(command=("x86_64-w64-mingw32-gcc",), version="gcc 12-win32", target="x86_64-w64-mingw32")
ZIG = Compiler(
    command=("python", "-m", "ziglang", "cc"), version="clang 22", target="x86_64-unknown-windows-gnu"
)
KEY = {"compiler": GCC, "sources": {"a.c": b"int a;"}, "flags": ("-O3",), "cpu": "x86_64 avx2"}


def script(folder: Path, name: str, body: str) -> Path:
    """A program for PATH that is a Python script."""
    return write_python_program(folder / name, f"import sys\n{body}")


ANSWERS = "print({version!r} if sys.argv[1] == '--version' else 'x86_64-linux-gnu')"

# ---- which compiler ----


@pytest.mark.posix_only
@pytest.mark.parametrize(
    ("present", "taken"),
    [(["clang", "gcc", "cc"], "cc"), (["clang", "gcc"], "gcc"), (["clang"], "clang")],
    ids=["cc first", "then gcc", "then clang"],
)
def test_the_first_compiler_in_path_is_taken(tmp_path: Path, present: list[str], taken: str) -> None:
    for name in present:
        script(tmp_path, name, ANSWERS.format(version=f"{name} 1.0"))
    found = find_compiler({"PATH": str(tmp_path)}, platform="linux", has_zig=False)
    assert (found.version, found.target) == (f"{taken} 1.0", "x86_64-linux-gnu")


@pytest.mark.posix_only
def test_a_compiler_that_does_not_answer_is_passed_over(tmp_path: Path) -> None:
    script(tmp_path, "cc", "sys.exit('licence expired')")
    script(tmp_path, "clang", ANSWERS.format(version="clang 1.0"))
    assert find_compiler({"PATH": str(tmp_path)}, platform="linux", has_zig=False).version == "clang 1.0"


@pytest.mark.posix_only
def test_cc_decides_and_may_carry_arguments(tmp_path: Path) -> None:
    script(tmp_path, "cc", ANSWERS.format(version="cc 1.0"))
    mine = script(
        tmp_path, "my cc", "assert sys.argv.pop(1) == '-m64'\n" + ANSWERS.format(version="mine 2.0")
    )
    environ = {"PATH": str(tmp_path), "CC": f"{shlex.quote(str(mine))} -m64"}
    found = find_compiler(environ, platform="linux", has_zig=False)
    assert found.command == (str(mine), "-m64")
    assert found.version == "mine 2.0"


def test_a_cc_that_does_not_exist_is_an_error_not_passed_over(tmp_path: Path) -> None:
    environ = {"CC": "no-such-compiler-here", "PATH": str(tmp_path)}
    with pytest.raises(HostError) as caught:
        find_compiler(environ, platform="linux")
    assert caught.value.reference == "compiler-unusable"
    assert caught.value.hint == "correct or unset CC"


def test_cc_on_windows_may_quote_a_path_with_backslashes() -> None:
    with pytest.raises(HostError) as caught:
        find_compiler({"CC": r'"C:\no such\gcc.exe" -m64'}, platform="win32")
    assert caught.value.message == r"'C:\no such\gcc.exe' -m64 --version does not answer"


@pytest.mark.parametrize(
    ("platform", "words"),
    [("linux", ("gcc", "clang", "pip install ziglang")), ("win32", ("pip install ziglang", "CC"))],
)
def test_without_a_compiler_the_hint_names_what_to_install(
    tmp_path: Path, platform: str, words: tuple[str, ...]
) -> None:
    with pytest.raises(HostError) as caught:
        find_compiler({"PATH": str(tmp_path)}, platform=platform, has_zig=False)
    assert caught.value.reference == "no-compiler"
    assert all(word in caught.value.hint for word in words)


def test_ziglang_is_the_last_resort(tmp_path: Path) -> None:
    """The package is not installed here, so asking it fails, and the error shows that it was asked."""
    if shutil.which("zig") or _has_ziglang():
        assert find_compiler({"PATH": str(tmp_path)}, platform="linux").zig
        return
    with pytest.raises(HostError) as caught:
        find_compiler({"PATH": str(tmp_path)}, platform="linux", has_zig=True)
    assert any("-m ziglang cc" in line for line in caught.value.context)


def _has_ziglang() -> bool:
    line = [sys.executable, "-c", "import ziglang"]
    return subprocess.run(line, capture_output=True, check=False, timeout=60).returncode == 0


# ---- what a build is named by ----


@pytest.mark.parametrize(
    "change",
    [
        {"compiler": Compiler(command=("gcc",), version="gcc 13.1.0", target="x86_64-linux-gnu")},
        {"compiler": Compiler(command=("gcc",), version="gcc 12.2.0", target="aarch64-linux-gnu")},
        {"sources": {"a.c": b"int b;"}},
        {"sources": {"b.c": b"int a;"}},
        {"flags": ("-O2",)},
        {"cpu": "x86_64 avx512f"},
    ],
    ids=["compiler", "target", "content", "file name", "flags", "processor"],
)
def test_everything_that_matters_changes_the_key(change: dict[str, object]) -> None:
    assert build_key(**{**KEY, **change}) != build_key(**KEY)  # type: ignore[arg-type] # a table of arguments


def test_where_the_compiler_lies_does_not_change_the_key() -> None:
    elsewhere = Compiler(command=("/opt/bin/gcc",), version=GCC.version, target=GCC.target)
    assert build_key(**{**KEY, "compiler": elsewhere}) == build_key(**KEY)  # type: ignore[arg-type] # likewise
    assert re.fullmatch("[0-9a-f]{64}", key_of(NATIVE, GCC, cpu="any"))


def test_the_processor_is_named_by_its_features(tmp_path: Path) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text("processor\t: 0\nflags\t\t: sse2 fma avx2\n\nflags\t\t: other\n", encoding="utf-8")
    assert host_cpu(info).endswith(" avx2 fma sse2")
    assert host_cpu(tmp_path / "nothing")


# ---- the recipe ----


@pytest.mark.parametrize("windows", [False, True], ids=["linux", "windows"])
def test_the_recipe_names_every_source_and_header_once(windows: bool) -> None:
    recipe = read_recipe(NATIVE, windows=windows)
    listed = set(recipe.files)
    kinds = ("*.[ch]", "*.map")
    files = {p for kind in kinds for p in (NATIVE / "cpu").rglob(kind)}
    there = {p.relative_to(NATIVE).as_posix() for p in files} | {"cuda_check.c"}
    assert listed - {"outputs.toml"} == there - ({"cpu/forward.c"} if windows else set())
    assert set(read_sources(NATIVE, recipe)) == listed


def test_names_are_those_of_the_real_libraries() -> None:
    names = [output.name for output in read_recipe(NATIVE, windows=True).outputs]
    assert names == [
        "nvcuda.dll",
        "cublas64_12.dll",
        "cublasLt64_12.dll",
        "cusparse64_12.dll",
        "cufft64_11.dll",
        "nvml.dll",
        "cudart64_12.dll",
        "cudart64_13.dll",
        "nvJitLink_120_0.dll",
        "nvJitLink_130_0.dll",
        "nvrtc64_120_0.dll",
        "nvrtc64_130_0.dll",
        "cuda_check.exe",
    ]
    names = [output.name for output in read_recipe(NATIVE, windows=False).outputs]
    assert names == [
        "libcuda.so.1",
        "libcuda.so",
        "libcublas.so.12",
        "libcublasLt.so.12",
        "libcusparse.so.12",
        "libcufft.so.11",
        "libnvidia-ml.so.1",
        "libcudart.so.12",
        "libcudart.so.13",
        "cpu-nvjitlink-12.so",
        "cpu-nvjitlink-13.so",
        "cpu-nvrtc-12.so",
        "cpu-nvrtc-13.so",
        "cuda_check",
    ]


LIBRARY = Output(name="lib.so.1", sources=("a.c",))
SHORT = Output(name="lib.so", sources=("a.c",), forwards="lib.so.1")
LINUX_ZIG = Compiler(command=ZIG.command, version="clang 22", target="x86_64-linux-gnu")


@pytest.mark.parametrize(
    ("compiler", "output", "has", "has_not"),
    [
        (GCC, LIBRARY, {"-shared", "-fPIC", "-Wl,-soname,lib.so.1"}, {"-fno-sanitize=all", "-static-libgcc"}),
        (GCC, Output(name="p", sources=("a.c",), program=True), {"-ldl"}, {"-shared"}),
        (MINGW, LIBRARY, {"-shared", "-static-libgcc", "-Wl,--no-insert-timestamp"}, {"-fPIC"}),
        (ZIG, LIBRARY, {"-shared", "-fno-sanitize=all"}, {"-static-libgcc", "-Wl,--no-insert-timestamp"}),
        (GCC, SHORT, {"-Wl,-soname,lib.so.1", "-Wl,--filter,$ORIGIN/lib.so.1"}, {"out/lib.so.1"}),
        (LINUX_ZIG, SHORT, {"-Wl,-soname,lib.so", "out/lib.so.1"}, {"-Wl,--filter,$ORIGIN/lib.so.1"}),
    ],
    ids=["linux library", "linux program", "mingw", "zig", "short name", "short name by zig"],
)
def test_each_compiler_is_told_what_it_understands(
    compiler: Compiler, output: Output, has: set[str], has_not: set[str]
) -> None:
    line = set(command_line(compiler, output, Path("out")))
    assert has <= line
    assert not has_not & line


# ---- building ----


RECIPE = """
common = []
headers = []
[[library]]
provides = "good"
linux = "libgood.so.1"
windows = "good.dll"
sources = ["good.c"]
[[program]]
linux = "bad"
windows = "bad.exe"
sources = ["bad.c"]
"""


@pytest.mark.posix_only
def test_a_failing_compiler_says_its_last_words(tmp_path: Path) -> None:
    (tmp_path / "outputs.toml").write_text(RECIPE, encoding="utf-8")
    (tmp_path / "good.c").write_text("int good(void) { return 1; }\n", encoding="utf-8")
    (tmp_path / "bad.c").write_text("int main(void) { return good }\n", encoding="utf-8")
    with pytest.raises(HostError) as caught:
        build(tmp_path, tmp_path / "out", host_compiler(), progress=NoProgress())
    error = caught.value
    assert error.reference == "compile-failed"
    assert error.message.endswith("could not build bad")
    assert any("bad.c:1" in line for line in error.context)
    assert "ziglang" in error.hint


def test_a_compiler_that_vanished_is_a_clear_error(tmp_path: Path) -> None:
    gone = Compiler(command=(str(tmp_path / "gone"),), version="gone 1.0", target="x86_64-linux-gnu")
    with pytest.raises(HostError, match=r"gone 1\.0 did not finish building"):
        build(NATIVE, tmp_path / "out", gone, progress=NoProgress())


def built_by(command: tuple[str, ...], out: Path) -> dict[str, BuiltFile]:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    files = build(NATIVE, out, ask_compiler(command), progress=NoProgress(), extra=("-Werror",))
    return {file.name: file for file in files}


def exports(image: pefile.PE) -> set[str]:
    return {symbol.name.decode() for symbol in image.DIRECTORY_ENTRY_EXPORT.symbols}


@pytest.mark.posix_only
@pytest.mark.proof
@pytest.mark.timeout(900)
def test_windows_libraries_are_cross_built_and_export_their_calls(tmp_path: Path) -> None:
    """They need nothing that is not in every Windows."""
    files = built_by(MINGW.command, tmp_path / "Ein Ordner ü")
    assert len(files) == 13
    for file in files.values():
        with pefile.PE(str(file.path)) as image:
            needed = {entry.dll.decode() for entry in image.DIRECTORY_ENTRY_IMPORT}
            assert needed <= {"KERNEL32.dll", "msvcrt.dll"}
            if file.provides:
                plain = file.provides.startswith("cudart")
                name = file.provides if plain else re.sub(r"\d+$", "", file.provides)
                header = (NATIVE / "cpu" / "exports" / f"{name}.h").read_text(encoding="utf-8")
                assert set(re.findall(r"^STUB\((\w+)\)$", header, re.MULTILINE)) < exports(image)


@pytest.mark.posix_only
@pytest.mark.proof
@pytest.mark.timeout(900)
def test_the_sanitizers_find_nothing(tmp_path: Path) -> None:
    """AddressSanitizer, its leak check and UndefinedBehaviorSanitizer, over every library at once."""
    if no_compiler():
        pytest.skip(no_compiler())
    apart = ("runtime", "nvrtc", "nvjitlink", "cudart")  # they have names in common
    sources = [str(p) for p in sorted((NATIVE / "cpu").rglob("*.c")) if not any(a in str(p) for a in apart)]
    line = [
        "cc", "-std=c11", "-O1", "-g", "-ffp-contract=fast", "-Wall", "-Wextra", "-Werror",
        "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
        str(ROOT / "tests" / "native" / "exercise.c"), *sources,
        "-o", str(tmp_path / "exercise"), "-lpthread", "-lm", "-ldl",
    ]  # fmt: skip
    made = subprocess.run(line, capture_output=True, text=True, check=False, timeout=800)
    if "cannot find" in made.stderr and "asan" in made.stderr:
        pytest.skip("this compiler has no sanitizer libraries")
    assert made.returncode == 0, made.stderr[-3000:]
    ran = subprocess.run([tmp_path / "exercise"], capture_output=True, text=True, check=False, timeout=600)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "400 products right\n", "")


@pytest.mark.posix_only
@pytest.mark.proof
@pytest.mark.timeout(900)
def test_worker_threads_do_not_race(tmp_path: Path) -> None:
    """ThreadSanitizer over kernels on three workers each that three threads launch at the same time."""
    if no_compiler():
        pytest.skip(no_compiler())
    sources = [str(p) for room in ("ptx", "common") for p in sorted((NATIVE / "cpu" / room).glob("*.c"))]
    line = [
        "cc", "-std=c11", "-O1", "-g", "-ffp-contract=fast", "-Wall", "-Wextra", "-fsanitize=thread",
        str(ROOT / "tests" / "native" / "threads.c"), *sources,
        "-o", str(tmp_path / "threads"), "-lpthread", "-lm", "-ldl",
    ]  # fmt: skip
    made = subprocess.run(line, capture_output=True, text=True, check=False, timeout=800)
    if "cannot find" in made.stderr and "tsan" in made.stderr:
        pytest.skip("this compiler has no ThreadSanitizer")
    assert made.returncode == 0, made.stderr[-3000:]
    env = {**os.environ, "CUDA_AMD_CPU_THREADS": "3"}
    ran = subprocess.run(
        [tmp_path / "threads"], env=env, capture_output=True, text=True, check=False, timeout=600
    )
    if "unexpected memory mapping" in ran.stderr:
        pytest.skip("this kernel places memory where ThreadSanitizer cannot work")
    words = "120 launches right, 480 blocks summed, 1440 bytes printed\n"
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, words, "")
