"""Read ``pins.lock``, strictly and with the standard library alone, and resolve a stack's name in it.

Whatever this module returns has passed every check of ``docs/pins.md``; whatever it refuses, it refuses
with file, line and dotted key.
"""

from __future__ import annotations

import hashlib
import re
import sys
import tomllib
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from scripts.errors import LockError, UsageError
from scripts.lock.toml_nodes import LockNode, LockSource
from scripts.lock.values import (
    gfx,
    identifier,
    option,
    references,
    relative,
    setting,
    unique,
    url,
    variable,
    version_range,
)
from scripts.model import (
    Artifact,
    ArtifactFormat,
    EnvPolicy,
    HipNeed,
    HipSource,
    Lock,
    Member,
    Requires,
    Stack,
    StackKind,
    Trust,
)
from scripts.osal import fs, paths
from scripts.serialize import MOST_DEPTH, deep_line

VERSION: Final = 1
#: Bytes of a lock; ours has 40 kB.
MOST_BYTES: Final = 2 * 1024**2
BOM: Final = b"\xef\xbb\xbf"

_LINE: Final = re.compile(r"\(at line (\d+)")


def read_lock(path: Path, *, custom: bool = False, trust: str | None = None) -> Lock:
    """Read and check a lock file.

    Args:
        path: the file.
        custom: whether it replaces the checkout's own; it is then named by its absolute path.
        trust: the keys one of which must have signed it (``CUDA_AMD_TRUST``); ``None`` asks for no signature.

    Raises:
        LockError: it is missing, unreadable, not signed as asked, or breaks any rule of the format.
        UsageError: ``trust`` names no key.
    """
    name = str(path) if custom else path.name
    try:
        data = fs.read_bounded(path, MOST_BYTES)
    except FileNotFoundError:
        msg = f"there is no lock file {path}"
        hint = "restore it with `git checkout -- pins.lock`, or correct CUDA_AMD_LOCK"
        raise LockError(reference="lock-not-found", message=msg, context=(name,), hint=hint) from None
    except OSError as error:
        msg = f"the lock file cannot be read: {error.strerror}"
        hint = "make it a file that this user may read"
        raise LockError(reference="lock-unreadable", message=msg, context=(str(path),), hint=hint) from None
    signer = (
        _signer(data, path, trust) if trust is not None or path.with_name(f"{path.name}.sig").exists() else ""
    )
    return replace(parse_lock(data, path=path, custom=custom), signer=signer)


def _signer(data: bytes, path: Path, trust: str | None) -> str:
    """Return the fingerprint of the key that signed a lock; a signature beside it has to fit."""
    from scripts.lock.signature import signature_of, trusted_keys  # noqa: PLC0415 - most locks are not signed

    signed = signature_of(data, path, trusted_keys(trust) if trust is not None else None)
    return signed.fingerprint if signed is not None else ""


def parse_lock(data: bytes, *, path: Path, custom: bool = False) -> Lock:
    """Check the bytes of a lock; pure. ``path`` only names them.

    CRLF line ends are accepted, but they change the digest; a byte order mark is refused.
    """
    name = str(path) if custom else path.name
    document = _document(data, name)
    _version(document)
    top = document.table(required=("version",), optional=("artifact", "stack"))
    artifact_nodes = top["artifact"].items() if "artifact" in top else []
    stack_nodes = top["stack"].items() if "stack" in top else []
    artifacts = [(node, _artifact(_owned(node))) for node in artifact_nodes]
    unique(((node.child("id", None), item.id) for node, item in artifacts), "artifact id")
    by_id = {item.id: item for _, item in artifacts}
    stacks = [(node, _stack(_owned(node), by_id)) for node in stack_nodes]
    unique(((node.child("id", None), item.id) for node, item in stacks), "stack id")
    return Lock(
        path=path,
        digest=hashlib.sha256(data).hexdigest(),
        artifacts=by_id,
        stacks={item.id: item for _, item in stacks},
        custom=custom,
    )


def _document(data: bytes, name: str) -> LockNode:
    """Parse TOML; syntax errors keep the line tomllib found."""
    if len(data) > MOST_BYTES:
        msg = f"the lock has more than {MOST_BYTES:,} bytes"
        raise LockError("lock-too-large", msg, context=(name,), hint="split it, or correct CUDA_AMD_LOCK")
    if data.startswith(BOM):
        msg = "the lock begins with a byte order mark"
        hint = "save it as UTF-8 without BOM (PowerShell 5.1's -Encoding UTF8 adds one)"
        raise LockError(reference="lock-byte-order-mark", message=msg, context=(f"{name}:1",), hint=hint)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        msg, hint = "the lock is not UTF-8", "save it as UTF-8 without BOM"
        raise LockError("lock-not-utf8", msg, context=(f"{name}:{line}",), hint=hint) from None
    if number := deep_line(text):
        msg = f"a key is nested more than {MOST_DEPTH} deep"
        raise LockError("lock-too-deep", msg, context=(f"{name}:{number}",), hint="write flat tables")
    try:
        value = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # besides syntax: a number of thousands of digits
        raise _syntax(name, text, error) from None
    return LockNode(source=LockSource(name, text), key=(), value=value)


def _syntax(name: str, text: str, error: Exception) -> LockError:
    found = _LINE.search(str(error))
    if isinstance(error, RecursionError):
        line, reason = 1, "it is nested too deeply"
    else:
        line = int(found[1]) if found else text.count("\n") + 1
        reason = str(error)
    msg = "the lock is not valid TOML"
    hint = "correct that line, or restore the file with `git checkout -- pins.lock`"
    return LockError("lock-invalid-toml", msg, context=(f"{name}:{line}", reason), hint=hint)


def _version(document: LockNode) -> None:
    """Look at the version before anything else: a newer format may have any key."""
    node = document.entries().get("version")
    if node is None:
        msg = "the lock does not say which version of the format it has"
        hint = f"start it with `version = {VERSION}`"
        raise document.refusal(msg, "lock-missing-version", hint, at=("version",))
    version = node.number()
    if version < 1:
        msg = f"there is no format version {version}"
        raise node.refusal(msg, "lock-unknown-version", f"Write `version = {VERSION}`.")
    if version > VERSION:
        msg = f"the lock has format version {version}; this workspace reads {VERSION}"
        raise node.refusal(msg, "lock-newer-version", "Update this checkout (git pull).")


def _owned(node: LockNode) -> LockNode:
    """Give a node the id it carries, so that messages inside can name it."""
    value = node.value.get("id") if isinstance(node.value, dict) else None
    owner = value if isinstance(value, str) else ""
    return LockNode(source=node.source, key=node.key, value=node.value, owner=owner)


def _artifact(node: LockNode) -> Artifact:
    keys = node.table(
        required=("id", "format", "license", "source", "trust"),
        optional=("urls", "sha256", "size", "root", "note", "members"),
    )
    form = keys["format"].choice(ArtifactFormat)
    members = tuple(_member(child) for child in keys["members"].items()) if "members" in keys else ()
    if members:
        _unique_names(keys["members"], members)
    identity = identifier(keys["id"], stack=False)
    _origin(node, keys, form)
    return Artifact(
        id=identity,
        urls=tuple(url(child) for child in keys["urls"].items()) if "urls" in keys else (),
        sha256=keys["sha256"].sha256() if "sha256" in keys else None,
        size=keys["size"].size() if "size" in keys else None,
        format=form,
        root=relative(keys["root"], empty=True) if "root" in keys else "",
        license=keys["license"].text(),
        source=keys["source"].text(),
        trust=keys["trust"].choice(Trust),
        members=members,
        note=keys["note"].text(empty=True) if "note" in keys else "",
    )


def _origin(node: LockNode, keys: dict[str, LockNode], form: ArtifactFormat) -> None:
    """Refuse a download without address or hash, and supplied files without hashes of their own."""
    if form is ArtifactFormat.SUPPLIED:
        for key in ("urls", "sha256", "size"):
            if key in keys:
                msg = f"supplied files are brought by the user, so {key!r} has no meaning"
                raise keys[key].refusal(msg, "lock-supplied-with-url", "Remove it; hash each member instead.")
        _hashed_members(node, keys)
        return
    if "urls" not in keys or keys["urls"].value == []:
        where = keys.get("urls", node)
        msg = f"an artifact of format {form.value!r} needs at least one URL"
        hint = 'add urls = ["https://…"], or use format = "supplied" with members'
        raise where.refusal(msg, "lock-no-url", hint, at=(*node.key, "urls"))
    if "sha256" not in keys:
        msg = "there is a URL without a SHA-256"
        hint = "pin it: `invoke pins.add --url=…` downloads and hashes it"
        raise node.refusal(msg, "lock-url-without-sha256", hint, at=(*node.key, "sha256"))


def _hashed_members(node: LockNode, keys: dict[str, LockNode]) -> None:
    children = keys["members"].items() if "members" in keys else []
    if not children:
        msg = "supplied files must be listed as members"
        raise node.refusal(msg, "lock-supplied-without-members", "List them.", at=(*node.key, "members"))
    for child in children:
        if "sha256" not in child.entries():
            msg = "A supplied file has no SHA-256, so anything could be supplied"
            at = (*child.key, "sha256")
            raise child.refusal(msg, "lock-supplied-without-sha256", "Add its hash.", at=at)


def _member(node: LockNode) -> Member:
    keys = node.table(required=("path",), optional=("name", "sha256", "size", "provides", "needs"))
    path = relative(keys["path"])
    return Member(
        path=path,
        name=relative(keys["name"]) if "name" in keys else path,
        sha256=keys["sha256"].sha256() if "sha256" in keys else None,
        size=keys["size"].size() if "size" in keys else None,
        provides=keys["provides"].text() if "provides" in keys else None,
        needs=tuple(child.text() for child in keys["needs"].items()) if "needs" in keys else (),
    )


def _unique_names(node: LockNode, members: tuple[Member, ...]) -> None:
    """Names that Windows or macOS take for the same file would overwrite each other."""
    seen: dict[str, int] = {}
    for index, member in enumerate(members):
        folded = paths.fold(member.name)
        if folded in seen:
            msg = f"two members are installed as {member.name!r}: members[{seen[folded]}] and this one"
            hint = "give one of them another name, or remove it"
            raise node.items()[index].refusal(msg, "lock-duplicate-name", hint)
        seen[folded] = index


def _stack(node: LockNode, artifacts: dict[str, Artifact]) -> Stack:
    keys = node.table(
        required=("id", "kind"),
        optional=("parts", "optional", "hip", "requires", "api", "ptx", "env", "unset", "note"),
    )
    parts = tuple(references(keys["parts"].items(), artifacts)) if "parts" in keys else ()
    optional = keys["optional"].entries() if "optional" in keys else {}
    return Stack(
        id=identifier(keys["id"], stack=True),
        kind=keys["kind"].choice(StackKind),
        parts=parts,
        optional={
            option(child, name): tuple(references(child.items(), artifacts))
            for name, child in optional.items()
        },
        hip=_hip(keys["hip"]) if "hip" in keys else HipNeed(source=HipSource.NONE),
        requires=_requires(keys["requires"]) if "requires" in keys else Requires(),
        api=identifier(keys["api"], stack=False) if "api" in keys else None,
        ptx=identifier(keys["ptx"], stack=False) if "ptx" in keys else None,
        env=_environment(keys),
        note=keys["note"].text(empty=True) if "note" in keys else "",
    )


def _hip(node: LockNode) -> HipNeed:
    keys = node.table(required=("from",), optional=("range",))
    return HipNeed(
        source=keys["from"].choice(HipSource),
        range=version_range(keys["range"]) if "range" in keys else "",
    )


def _requires(node: LockNode) -> Requires:
    keys = node.table(optional=("os", "gfx"))
    system = keys["os"].text() if "os" in keys else ""
    if system not in {"", "windows", "linux"}:
        msg = f"{system!r} is not one of: windows, linux"
        raise keys["os"].refusal(msg, "lock-unknown-value", "Leave the key out where any system will do.")
    return Requires(os=system, gfx=tuple(map(gfx, keys["gfx"].items())) if "gfx" in keys else ())


def _environment(keys: dict[str, LockNode]) -> tuple[EnvPolicy, ...]:
    """Read what a stack sets and removes; a variable cannot be both."""
    found: dict[str, EnvPolicy] = {}
    for name, node in (keys["env"].entries() if "env" in keys else {}).items():
        parts = node.table(required=("value", "why"), optional=("only",))
        found[name] = _policy(name, setting(node, name, parts["value"]), parts)
    for name, node in (keys["unset"].entries() if "unset" in keys else {}).items():
        if name in found:
            msg = f"{name} is both set and removed"
            raise node.refusal(msg, "lock-contradiction", "Keep one of the two.")
        parts = node.table(required=("why",), optional=("only",))
        found[variable(node, name)] = _policy(name, None, parts)
    return tuple(found.values())


def _policy(name: str, value: str | None, parts: dict[str, LockNode]) -> EnvPolicy:
    only = parts["only"].text() if "only" in parts else ""
    if only not in {"", "check"}:
        msg = f"{only!r} is not one of: check"
        raise parts["only"].refusal(msg, "lock-unknown-value", "Leave the key out for every run.")
    return EnvPolicy(name=name, value=value, why=parts["why"].text(), only=only)


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
            msg = f"the stack {stack.id} has no optional part {name!r}"
            choices = ", ".join(sorted(stack.optional)) or "none"
            raise UsageError("unknown-option", msg, hint=f"choose one for --with: {choices}")
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


def find_stack(lock: Lock, stack_id: str, *, os: str = "") -> Stack:
    """Return a stack by its exact id; an unknown one raises ``UsageError`` with the nearest names.

    Only names for ``os``, or without it for this system, are proposed.
    """
    if stack_id in lock.stacks:
        return lock.stacks[stack_id]
    system = os or ("windows" if sys.platform == "win32" else "linux")
    here = tuple(name for name, stack in lock.stacks.items() if stack.requires.os in {"", system})
    raise unknown_name(
        "stack", stack_id, here, others=tuple(name for name in lock.stacks if name not in here)
    )


def unknown_name(what: str, name: str, known: tuple[str, ...], *, others: tuple[str, ...] = ()) -> UsageError:
    """Make the error for a name that does not exist, with what was perhaps meant.

    ``others`` exist as well, and are of no use on this system.
    """
    import difflib  # noqa: PLC0415 - only for this

    close = difflib.get_close_matches(name.lower(), known, n=3, cutoff=0.5)
    msg = f"there is no {what} {name!r}"
    listed = ", ".join(sorted(known)) or "none"
    near = f"try {' or '.join(close)}; known: {listed}" if close else f"choose one of: {listed}"
    if others:
        near += f"; for other systems: {', '.join(sorted(others))}"
    return UsageError(f"unknown-{what}", msg, hint=near)
