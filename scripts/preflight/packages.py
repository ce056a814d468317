"""Python programs: the packages of their environment are examined, because an interpreter needs nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from scripts.preflight.listing import is_native

#: Distributions whose native files use CUDA: names on PyPI, compared in their normal form.
KNOWN: Final = (
    r"torch|torchvision|torchaudio|cupy(-cuda\d+x|-cuda\d+)?|onnxruntime-gpu|ctranslate2|bitsandbytes",
    r"llama-cpp-python|tensorflow(-gpu)?|jaxlib|jax-cuda\d+-(pjrt|plugin)|xformers|flash-attn|triton(-windows)?",
    r"numba|numba-cuda|pycuda|cuda-(python|bindings|core)|faiss-gpu(-cu\d+)?|paddlepaddle-gpu|mxnet-cu\d+",
    r"tensorrt(-.*)?|nvidia-.*|xgboost|lightgbm|catboost|opencv-contrib-python|spconv-cu\d+|auto-gptq|exllamav2",
    r"vllm|sgl-kernel|deepspeed|taichi|warp-lang|open3d|pynvml|nvidia-ml-py|insightface|whisper-ctranslate2",
)
_PYTHON: Final = re.compile(r"python(w)?(\d(\.\d+)?t?)?(_d)?(\.exe)?", re.IGNORECASE)
MAX_RECORD: Final = 1 << 23


class Package(Struct, frozen=True, kw_only=True):
    """One installed distribution and its native files."""

    name: str
    version: str
    files: tuple[Path, ...]


def is_python(program: Path) -> bool:
    """Whether a program is a Python interpreter, by its name or by lying in an environment."""
    return bool(_PYTHON.fullmatch(program.name))


def environments(program: Path) -> tuple[Path, ...]:
    """Return the package folders of the interpreter's environment, its own first."""
    found: list[Path] = []
    homes = dict.fromkeys(
        home for path in (program, program.resolve()) for home in (path.parent, path.parent.parent)
    )
    for home in homes:
        found += [home / "Lib" / "site-packages", *sorted(home.glob("lib/python3*/*-packages"))]
        settings = _settings(home / "pyvenv.cfg")
        base = settings.get("home", "")
        if base and settings.get("include-system-site-packages", "").lower() == "true":
            found += [Path(base) / "Lib" / "site-packages"]
            found += sorted(Path(base).parent.glob("lib/python3*/site-packages"))
    return tuple(dict.fromkeys(path for path in found if path.is_dir()))


def roots_of(program: Path) -> tuple[Path, ...]:
    """Return the folders that hold a program: its own and, in a virtual or conda environment, that one."""
    own = program.resolve().parent
    above = (folder.parent for folder in (program.parent.resolve(), own))
    around = [root for root in above if (root / "pyvenv.cfg").is_file() or (root / "conda-meta").is_dir()]
    return tuple(dict.fromkeys((own, *around)))


def installed(folders: Sequence[Path]) -> tuple[Package, ...]:
    """Return the distributions that are known to use CUDA, by what their RECORD lists."""
    found: dict[str, Package] = {}
    for folder in folders:
        for info in sorted(folder.glob("*.dist-info")):
            name, _, version = info.name.removesuffix(".dist-info").rpartition("-")
            normal = re.sub(r"[-_.]+", "-", name).lower()
            if normal not in found and re.fullmatch("|".join(KNOWN), normal):
                files = tuple(_native(folder, info))
                found[normal] = Package(name=normal, version=version, files=files)
    return tuple(found.values())


def _native(folder: Path, info: Path) -> Iterator[Path]:
    """Yield the native files of one distribution; entries that leave the folder are ignored."""
    try:
        with (info / "RECORD").open(encoding="utf-8", errors="replace") as record:
            text = record.read(MAX_RECORD)
    except OSError:
        return
    for line in text.splitlines():
        entry = line.rsplit(",", 2)[0].strip('"')
        if not is_native(entry.rpartition("/")[2]) or ".." in entry.split("/") or entry.startswith("/"):
            continue
        path = folder / entry
        if path.is_file():
            yield path


def _settings(path: Path) -> dict[str, str]:
    """Read ``pyvenv.cfg``; empty where there is none."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    pairs = (line.partition("=") for line in lines if "=" in line)
    return {key.strip().lower(): value.strip() for key, _, value in pairs}
