"""Where a part's files go inside a runtime: the layer on top, everything else in a folder of its own."""

from __future__ import annotations

from scripts.model import Artifact, HipSource, Stack


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
        return "hip"
    return ""
