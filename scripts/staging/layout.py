"""Where a part's files go inside a runtime: the layer on top, everything else in a folder of its own.

A HIP runtime that comes as several packages becomes one folder ``hip`` with one ``bin``, because a layer
looks for its back-ends in one folder only (vosen/ZLUDA@87531d3). Packages and archives differ from release to
release in how deep their files lie, so the folder is found by what is in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Final

from scripts.errors import IntegrityError
from scripts.model import Artifact, HipSource, Stack
from scripts.store.archive import Tree

HIP: Final = "hip"
#: What lies below the root of a HIP runtime or of its kernels for one GPU (ROCm/TheRock@89553ce), lower case.
MARKS: Final = (
    "bin/amdhip64*.dll",
    "bin/rocblas.dll",
    "bin/*hipblaslt.dll",
    "bin/rocsparse.dll",
    "bin/miopen.dll",
    "bin/rocblas/library/*",
    "bin/hipblaslt/library/*",
    ".kpack/*.kpack",
)
#: What makes a package importable for Python; every package has its own, and HIP has no use for it.
PYTHON: Final = ("*.py", "*.pyi", "py.typed")


def folder_of(stack: Stack, artifact: Artifact) -> str:
    """Return the folder of the runtime for one of a stack's artifacts; empty is the top.

    The translation layer must lie on top with its own structure (it finds its parts by their place).
    A HIP runtime that comes as parts is merged into ``hip``, and an optional part has its option's name.
    """
    for option, ids in stack.optional.items():
        if artifact.id in ids:
            return option
    is_layer = any(member.provides for member in artifact.members)
    if stack.hip.source is HipSource.PARTS and not is_layer:
        return HIP
    return ""


def lay_out(stack: Stack, artifact: Artifact, tree: Tree) -> tuple[tuple[Artifact, Tree, str], ...]:
    """Return what ``plan_runtime`` takes of one artifact: several entries where HIP lies in several folders.

    Raises:
        IntegrityError: ``hip-part-unrecognised``: nothing in it looks like a HIP runtime.
    """
    folder = folder_of(stack, artifact)
    if folder != HIP or artifact.members:
        return ((artifact, tree, folder),)
    roots = hip_roots(file.path for file in tree.files)
    if not roots:
        msg = f"{artifact.id} holds no HIP runtime: no bin with amdhip64 or rocblas, and no kernels"
        tops = sorted({PurePosixPath(file.path).parts[0] for file in tree.files})
        hint = "its layout is new: report what lies in it, or choose another stack"
        raise IntegrityError("hip-part-unrecognised", msg, context=tuple(tops[:10]), hint=hint)
    return tuple((artifact, _below(tree, root), folder) for root in roots)


def hip_roots(paths: Iterable[str]) -> tuple[str, ...]:
    """Find the folders that hold a HIP runtime or its kernels, outermost only; empty text is the top."""
    found: set[str] = set()
    for path in paths:
        parts = path.split("/")
        for depth in range(len(parts) - 1):
            below = "/".join(parts[depth:]).lower()
            if any(fnmatchcase(below, mark) for mark in MARKS):
                found.add("/".join(parts[:depth]))
                break
    inner = {root for root in found for other in found if root != other and _is_below(root, other)}
    return tuple(sorted(found - inner))


def _is_below(root: str, other: str) -> bool:
    """Whether one folder lies in another."""
    return not other or root.startswith(f"{other}/")


def _below(tree: Tree, root: str) -> Tree:
    """Take one folder of a tree, without what only Python needs."""
    prefix = f"{root}/" if root else ""
    files = tuple(
        file
        for file in tree.files
        if file.path.startswith(prefix)
        and not any(fnmatchcase(PurePosixPath(file.path).name, mark) for mark in PYTHON)
    )
    return replace(tree, root=root, files=files)
