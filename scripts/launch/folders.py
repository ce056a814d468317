"""Which folders of an assembled runtime are searched, found by what lies in them, not by a fixed layout."""

from __future__ import annotations

from pathlib import PurePath, PurePosixPath
from typing import Final, Literal

from scripts.model import Runtime, RuntimeFile
from scripts.records import dataclass

Kind = Literal["layer", "hip", "libtorch"]

#: How the file names (lower case) begin that mark a folder, in search order.
MARKS: Final[dict[Kind, tuple[str, ...]]] = {
    "hip": ("amdhip64", "libamdhip64.so"),
    "libtorch": ("torch_cpu.dll", "torch.dll", "libtorch.so", "libtorch_cpu.so"),
}
LAUNCHER: Final = "zluda.exe"
#: Parts of the layer that must never be on a search path: they write traces, or serve 32-bit programs.
ASIDE: Final = frozenset({"trace", "trace_nvidia", "32"})
WHY: Final[dict[Kind, str]] = {
    "layer": "the stack's CUDA libraries",
    "hip": "the HIP runtime that came with the stack",
    "libtorch": "LibTorch, an optional part of the stack",
}


@dataclass(frozen=True, kw_only=True)
class Folder:
    """One folder to search, and why."""

    kind: Kind
    path: PurePath
    why: str


def search_folders(runtime: Runtime) -> tuple[Folder, ...]:
    """Return the runtime's folders in search order: the layer, HIP, LibTorch; empty without files."""
    if runtime.path is None:
        return ()
    layer = PurePosixPath()
    found: list[tuple[Kind, PurePosixPath]] = [("layer", layer)]
    for kind, marks in MARKS.items():
        for file in runtime.files:
            path = PurePosixPath(file.name)
            folder = path.parent
            if path.name.lower().startswith(marks) and not ASIDE & set(folder.parts) and folder != layer:
                found.append((kind, folder))
                break
    return tuple(Folder(kind=kind, path=runtime.path / folder, why=WHY[kind]) for kind, folder in found)


def launcher_in(runtime: Runtime, *, bits: int = 64) -> RuntimeFile | None:
    """Return the launcher for programs of ``bits``, or ``None`` where the stack has none."""
    wanted = f"32/{LAUNCHER}" if bits == 32 else LAUNCHER  # noqa: PLR2004 - the word size itself
    return next((f for f in runtime.files if f.name.lower() == wanted), None)
