"""From a stack's name to everything it needs, in the order it is laid down; pure."""

from __future__ import annotations

from msgspec import Struct

from scripts.errors import UsageError
from scripts.model import Artifact, ArtifactFormat, Lock, Member, Stack


class Resolved(Struct, frozen=True, kw_only=True):
    """A stack with its artifacts.

    Attributes:
        stack: the stack.
        artifacts: its parts in the lock's order, then the chosen options; each once. Where two hold a
            file of the same name, the later one's is used.
        members: installed name to its artifact's id and member, after that rule. Artifacts that list no
            members (everything below their root is used) do not appear.
        download_bytes: what would be downloaded into an empty store; ``None`` if any size is unknown.
    """

    stack: Stack
    artifacts: tuple[Artifact, ...]
    members: dict[str, tuple[str, Member]]
    download_bytes: int | None


def resolve(lock: Lock, stack_id: str, *, with_: tuple[str, ...] = ()) -> Resolved:
    """Look up a stack and the options asked for.

    Raises:
        UsageError: the stack or an option does not exist; the hint lists what does.
    """
    stack = find_stack(lock, stack_id)
    for name in with_:
        if name not in stack.optional:
            raise _unknown_option(stack, name)
    ids = dict.fromkeys([*stack.parts, *(part for name in with_ for part in stack.optional[name])])
    artifacts = tuple(lock.artifacts[part] for part in ids)
    members = {member.name: (item.id, member) for item in artifacts for member in item.members}
    sizes = [item.size for item in artifacts if item.format is not ArtifactFormat.SUPPLIED]
    known = [size for size in sizes if size is not None]
    return Resolved(
        stack=stack,
        artifacts=artifacts,
        members=members,
        download_bytes=sum(known) if len(known) == len(sizes) else None,
    )


def find_stack(lock: Lock, stack_id: str) -> Stack:
    """Return a stack by its exact id; an unknown one raises ``UsageError`` with the nearest names."""
    if stack_id in lock.stacks:
        return lock.stacks[stack_id]
    raise unknown_name("stack", stack_id, tuple(lock.stacks))


def unknown_name(what: str, name: str, known: tuple[str, ...]) -> UsageError:
    """Make the error for a name that does not exist, with what was perhaps meant."""
    import difflib  # noqa: PLC0415 - only for this

    close = difflib.get_close_matches(name.lower(), known, n=3, cutoff=0.5)
    msg = f"there is no {what} {name!r}"
    listed = ", ".join(sorted(known)) or "none"
    near = f"try {' or '.join(close)}; known: {listed}" if close else f"choose one of: {listed}"
    return UsageError(f"unknown-{what}", msg, hint=near)


def _unknown_option(stack: Stack, name: str) -> UsageError:
    choices = ", ".join(sorted(stack.optional)) or "none"
    msg = f"the stack {stack.id} has no optional part {name!r}"
    return UsageError(reference="unknown-option", message=msg, hint=f"choose one for --with: {choices}")
