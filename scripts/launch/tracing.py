"""How a translation layer's tracing libraries get into a program, and where they write. Pure.

Facts: vosen/ZLUDA@87531d3. A tracing library writes to a new folder below ``ZLUDA_LOG_DIR``, named after the
program, and hands every call on to the library that a variable names.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath, PurePosixPath
from typing import Final

from scripts.errors import LaunchError
from scripts.launch.environ import EnvChange
from scripts.model import Runtime

FOLDER: Final = "trace"
LOG_DIR: Final = "ZLUDA_LOG_DIR"
LOG_NAME: Final = "log.txt"
#: How every line begins that a tracing library also writes to the program's standard error.
PREFIX: Final = b"[ZLUDA_TRACE] "
#: The launcher's option that puts the tracing libraries in instead of the layer's own.
LAUNCHER_OPTION: Final = "--zluda-trace"
#: The launcher adds a ``ZLUDA_LOG_DIR`` of its own unless a variable has that *value*: it compares values
#: where it means names. So a variable with that value keeps ours, also where the last of two counts.
KEEPS_OURS: Final = ("CUDA_AMD_TRACE", LOG_DIR)
#: What each tracing library asks for the real one, and the names of the file on Linux. On Windows the
#: launcher sets the same, but for NVML, where it sets a name that is not read.
HANDS_ON: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("ZLUDA_CUDA_LIB", ("libcuda.so", "libcuda.so.1")),
    ("ZLUDA_BLAS_LIB", ("libcublas.so", "libcublas.so.13", "libcublas.so.12")),
    ("ZLUDA_BLASLT_LIB", ("libcublasLt.so", "libcublasLt.so.13", "libcublasLt.so.12")),
    ("ZLUDA_DNN8_LIB", ("libcudnn64_8.so", "libcudnn.so.8")),
    ("ZLUDA_DNN9_LIB", ("libcudnn64_9.so", "libcudnn.so.9")),
    ("ZLUDA_FFT_LIB", ("libcufft.so", "libcufft.so.12", "libcufft.so.11")),
    ("ZLUDA_NVML_LIB", ("libnvml.so", "libnvidia-ml.so", "libnvidia-ml.so.1")),
    ("ZLUDA_SPARSE_LIB", ("libcusparse.so", "libcusparse.so.12", "libcusparse.so.11")),
)
NVML: Final = ("ZLUDA_NVML_LIB", "nvml.dll")
DRIVERS: Final = ("nvcuda.dll", "libcuda.so", "libcuda.so.1")


def plan_trace(runtime: Runtime, logs: PurePath, *, platform: str, bits: int = 64) -> tuple[EnvChange, ...]:
    """Return what a program's environment needs so that its CUDA calls are written below ``logs``.

    Raises:
        LaunchError: ``no-trace``: the stack has no tracing libraries for this kind of program.
    """
    home = PurePosixPath("32") if bits == 32 else PurePosixPath()  # noqa: PLR2004 - the word size itself
    names = {file.name.lower(): file.name for file in runtime.files}
    if runtime.path is None or not any(str(home / FOLDER / name) in names for name in DRIVERS):
        msg = f"{runtime.stack} has no libraries that trace CUDA calls"
        hint = "use one of ZLUDA's releases for Windows: see `invoke stacks`"
        raise LaunchError("no-trace", msg, hint=hint)
    return tuple(_changes(runtime.path, logs, home, names, windows=platform == "win32"))


def _changes(
    path: PurePath, logs: PurePath, home: PurePosixPath, names: dict[str, str], *, windows: bool
) -> Iterator[EnvChange]:
    why = "the tracing libraries write below it"
    yield EnvChange(name=LOG_DIR, action="set", value=str(logs), why=why)
    on = "the tracing library hands the calls on to it"
    if windows:
        name, value = KEEPS_OURS
        yield EnvChange(
            name=name, action="set", value=value, why="the launcher then keeps our folder for logs"
        )
        variable, file = NVML
        if (there := names.get(str(home / file))) is not None:
            yield EnvChange(name=variable, action="set", value=str(path / there), why=on)
        return
    for variable, files in HANDS_ON:
        found = next((names[name.lower()] for name in files if name.lower() in names), None)
        if found is not None:
            yield EnvChange(name=variable, action="set", value=str(path / found), why=on)
    why = "the libraries that trace CUDA calls"
    yield EnvChange(name="LD_LIBRARY_PATH", action="prepend", value=str(path / FOLDER), why=why)
