"""A tree with many small members, to see how costs grow."""

from __future__ import annotations

import hashlib
from pathlib import Path

from scripts.model import Artifact, ArtifactFormat, Member, Trust
from scripts.store.trees import TreeFile, UnpackedTree


def many_members(folder: Path, count: int) -> tuple[Artifact, UnpackedTree]:
    """Write ``count`` files of 4 kB, and describe them as a lock would."""
    folder.mkdir(parents=True)
    entries, members = [], []
    for number in range(count):
        name, data = f"lib{number:04}.dll", number.to_bytes(4, "little") * 1024
        (folder / name).write_bytes(data)
        entries.append(TreeFile(path=name, sha256=hashlib.sha256(data).hexdigest(), size=len(data)))
        members.append(Member(path=name, name=name, provides=f"lib{number}"))
    artifact = Artifact(
        id="many",
        urls=(),
        sha256="0" * 64,
        size=None,
        format=ArtifactFormat.ZIP,
        root="",
        license="MIT",
        source="tests",
        trust=Trust.INDEPENDENT,
        members=tuple(members),
    )
    return artifact, UnpackedTree(path=folder, root="", files=tuple(entries))
