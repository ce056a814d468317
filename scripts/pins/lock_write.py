"""Change a lock: every function takes its text and returns a new, formatted one; only ``save_lock`` writes.

What comes out has been read back: it means what it should, or nothing is returned.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from scripts.errors import ConflictError, LockError
from scripts.model import Artifact, EnvPolicy, Lock, Member, Stack
from scripts.pins.lock import parse_lock
from scripts.pins.lock_text import Value, put_together, render, take_apart, unusual_layout


def format_lock(text: str, *, path: Path = Path("pins.lock")) -> str:
    """Return the one canonical text of a lock, comments included; formatting twice changes nothing.

    Raises:
        LockError: the lock is wrong, or laid out so that formatting would lose something.
    """
    before = parse_lock(text.encode(), path=path)
    after = put_together(take_apart(text))
    if _meaning(parse_lock(after.encode(), path=path)) != _meaning(before):
        raise unusual_layout(1)
    return after


def with_artifact(text: str, artifact: Artifact) -> str:
    """Add an artifact; one with the same id is an error of the lock."""
    return format_lock(text + "\n" + render("artifact", _artifact(artifact), {}))


def with_stack(text: str, stack: Stack) -> str:
    """Add a stack; its artifacts must be there already."""
    sections = {
        "env": {item.name: _policy(item) for item in stack.env if item.value is not None},
        "unset": {item.name: _policy(item) for item in stack.env if item.value is None},
    }
    return format_lock(text + "\n" + render("stack", _stack(stack), sections))


def with_fields(text: str, artifact_id: str, fields: Mapping[str, str | int]) -> str:
    """Set plain keys of one artifact, such as a size that was unknown; its comments stay."""
    document = take_apart(format_lock(text))
    entry = next(e for e in document.entries if e.kind == "artifact" and e.id == artifact_id)
    for key, data in fields.items():
        old = entry.values.get(key, Value(data=data))
        entry.values[key] = Value(data=data, lead=old.lead, tail=old.tail)
    return format_lock(put_together(document))


def save_lock(path: Path, text: str, *, expected: str) -> None:
    """Replace a lock file in one step: readers see the old one or the new one.

    Args:
        path: the lock file.
        text: the new text.
        expected: the digest of the lock the change was made from.

    Raises:
        LockError: the file cannot be written.
        ConflictError: somebody changed the file meanwhile; nothing was written.
    """
    if parse_lock(path.read_bytes(), path=path).digest != expected:
        msg = "The lock has changed since it was read, so nothing was written."
        raise ConflictError(
            reference="lock-changed-meanwhile", message=msg, context=(str(path),), hint="Run the task again."
        )
    try:
        _replace(path, text.encode())
    except OSError as error:
        msg = f"The lock cannot be written: {error.strerror}."
        hint = "Close programs that hold it open, and make its folder writable."
        raise LockError(reference="lock-not-writable", message=msg, context=(str(path),), hint=hint) from None


def _replace(path: Path, data: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".new")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).chmod(path.stat().st_mode)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _meaning(lock: Lock) -> Lock:
    """Return the lock without its digest, with members and variables in one order."""
    artifacts = {
        name: replace(item, members=tuple(sorted(item.members, key=lambda member: member.path)))
        for name, item in lock.artifacts.items()
    }
    stacks = {
        name: replace(item, env=tuple(sorted(item.env, key=lambda policy: policy.name)))
        for name, item in lock.stacks.items()
    }
    return replace(lock, digest="", artifacts=artifacts, stacks=stacks)


def _artifact(artifact: Artifact) -> dict[str, object]:
    return _filled(
        id=artifact.id,
        urls=list(artifact.urls),
        sha256=artifact.sha256,
        size=artifact.size,
        format=artifact.format.value,
        root=artifact.root,
        license=artifact.license,
        source=artifact.source,
        trust=artifact.trust.value,
        note=artifact.note,
        members=[_member(member) for member in artifact.members],
    )


def _member(member: Member) -> dict[str, object]:
    return _filled(
        path=member.path,
        name=member.name if member.name != member.path else None,
        sha256=member.sha256,
        size=member.size,
        provides=member.provides,
        needs=list(member.needs),
    )


def _stack(stack: Stack) -> dict[str, object]:
    return _filled(
        id=stack.id,
        kind=stack.kind.value,
        parts=list(stack.parts),
        optional={name: list(parts) for name, parts in stack.optional.items()},
        hip={"from": stack.hip.source.value, **_filled(range=stack.hip.range)},
        requires=_filled(os=stack.requires.os, gfx=list(stack.requires.gfx)),
        api=stack.api,
        ptx=stack.ptx,
        note=stack.note,
    )


def _policy(policy: EnvPolicy) -> dict[str, object]:
    value = {} if policy.value is None else {"value": policy.value}
    return {**value, "why": policy.why, **_filled(only=policy.only)}


def _filled(**values: object) -> dict[str, object]:
    """Drop what is empty: an absent key says the same."""
    return {key: value for key, value in values.items() if value not in (None, "", [], {})}
