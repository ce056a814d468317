"""Read ``pins.lock``: the standard library only, strict, and never a guess.

Whatever this module returns has passed every check of ``docs/pins.md``; whatever it refuses, it refuses
with file, line and dotted key.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from scripts.errors import LockError
from scripts.lock.toml_nodes import LockNode, LockSource
from scripts.lock.urls import url_problem
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

VERSION: Final = 1
BOM: Final = b"\xef\xbb\xbf"

_LINE: Final = re.compile(r"\(at line (\d+)")


def read_lock(path: Path, *, custom: bool = False) -> Lock:
    """Read and check a lock file.

    Args:
        path: the file.
        custom: whether it replaces the checkout's own; it is then named by its whole path.

    Raises:
        LockError: it is missing, unreadable, or breaks any rule of the format.
    """
    name = str(path) if custom else path.name
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        msg = f"There is no lock file {path}."
        hint = "Restore it with `git checkout -- pins.lock`, or correct CUDA_AMD_LOCK."
        raise LockError(reference="lock-not-found", message=msg, context=(name,), hint=hint) from None
    except OSError as error:
        msg = f"The lock file cannot be read: {error.strerror}."
        hint = "Make it a file that this user may read."
        raise LockError(reference="lock-unreadable", message=msg, context=(str(path),), hint=hint) from None
    return parse_lock(data, path=path, custom=custom)


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
    if data.startswith(BOM):
        msg = "The lock begins with a byte order mark."
        hint = "Save it as UTF-8 without BOM (PowerShell 5.1's -Encoding UTF8 adds one)."
        raise LockError(reference="lock-byte-order-mark", message=msg, context=(f"{name}:1",), hint=hint)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        msg = "The lock is not UTF-8."
        raise LockError(
            reference="lock-not-utf8",
            message=msg,
            context=(f"{name}:{line}",),
            hint="Save it as UTF-8 without BOM.",
        ) from None
    try:
        value = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise _syntax(name, text, error) from None
    return LockNode(source=LockSource(name, text), key=(), value=value)


def _syntax(name: str, text: str, error: Exception) -> LockError:
    found = _LINE.search(str(error))
    if isinstance(error, RecursionError):
        line, reason = 1, "it is nested too deeply"
    else:
        line = int(found[1]) if found else text.count("\n") + 1
        reason = str(error)
    msg = "The lock is not valid TOML."
    hint = "Correct that line, or restore the file with `git checkout -- pins.lock`."
    return LockError(
        reference="lock-invalid-toml", message=msg, context=(f"{name}:{line}", reason), hint=hint
    )


def _version(document: LockNode) -> None:
    """Look at the version before anything else: a newer format may have any key."""
    node = document.entries().get("version")
    if node is None:
        msg = "The lock does not say which version of the format it has."
        hint = f"Begin it with `version = {VERSION}`."
        raise document.refusal(msg, "lock-missing-version", hint, at=("version",))
    version = node.number()
    if version < 1:
        msg = f"There is no format version {version}."
        raise node.refusal(msg, "lock-unknown-version", f"Write `version = {VERSION}`.")
    if version > VERSION:
        msg = f"The lock has format version {version}; this workspace reads {VERSION}."
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
                msg = f"Supplied files are brought by the user, so {key!r} has no meaning."
                raise keys[key].refusal(msg, "lock-supplied-with-url", "Remove it; hash each member instead.")
        _hashed_members(node, keys)
        return
    if "urls" not in keys or keys["urls"].value == []:
        where = keys.get("urls", node)
        msg = f"An artifact of format {form.value!r} needs at least one URL."
        hint = 'Add urls = ["https://…"], or use format = "supplied" with members.'
        raise where.refusal(msg, "lock-no-url", hint, at=(*node.key, "urls"))
    if "sha256" not in keys:
        msg = "There is a URL without a SHA-256."
        hint = "Pin it: `invoke pins.add --url=…` downloads and hashes it."
        raise node.refusal(msg, "lock-url-without-sha256", hint, at=(*node.key, "sha256"))


def _hashed_members(node: LockNode, keys: dict[str, LockNode]) -> None:
    children = keys["members"].items() if "members" in keys else []
    if not children:
        msg = "Supplied files must be listed as members."
        raise node.refusal(msg, "lock-supplied-without-members", "List them.", at=(*node.key, "members"))
    for child in children:
        if "sha256" not in child.entries():
            msg = "A supplied file has no SHA-256, so anything could be supplied."
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
        folded = unicodedata.normalize("NFC", member.name.casefold())
        if folded in seen:
            msg = f"Two members are installed as {member.name!r}: members[{seen[folded]}] and this one."
            hint = "Give one of them another name, or remove it."
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
        msg = f"{system!r} is not one of: windows, linux."
        raise keys["os"].refusal(msg, "lock-unknown-value", "Leave the key out where any system will do.")
    return Requires(os=system, gfx=tuple(map(gfx, keys["gfx"].items())) if "gfx" in keys else ())


def _environment(keys: dict[str, LockNode]) -> tuple[EnvPolicy, ...]:
    """Read what a stack sets and removes; a variable cannot be both."""
    found: dict[str, EnvPolicy] = {}
    for name, node in (keys["env"].entries() if "env" in keys else {}).items():
        parts = node.table(required=("value", "why"), optional=("only",))
        value = parts["value"].text(empty=True)
        found[variable(node, name)] = _policy(name, value, parts)
    for name, node in (keys["unset"].entries() if "unset" in keys else {}).items():
        if name in found:
            msg = f"{name} is both set and removed."
            raise node.refusal(msg, "lock-contradiction", "Keep one of the two.")
        parts = node.table(required=("why",), optional=("only",))
        found[variable(node, name)] = _policy(name, None, parts)
    return tuple(found.values())


def _policy(name: str, value: str | None, parts: dict[str, LockNode]) -> EnvPolicy:
    only = parts["only"].text() if "only" in parts else ""
    if only not in {"", "check"}:
        msg = f"{only!r} is not one of: check."
        raise parts["only"].refusal(msg, "lock-unknown-value", "Leave the key out for every run.")
    return EnvPolicy(name=name, value=value, why=parts["why"].text(), only=only)


MAX_ID: Final = 40

_STACK_ID: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_ARTIFACT_ID: Final = re.compile(r"[a-z0-9]+(?:[-.+_][a-z0-9]+)*")
_GFX: Final = re.compile(r"gfx[0-9]{1,2}[0-9a-f]{2}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BOUND: Final = re.compile(r"(>=|<=|==|>|<)(\d+(?:\.\d+){0,3})")
_RESERVED: Final = frozenset(
    {"con", "prn", "aux", "nul", *(f"com{n}" for n in range(1, 10)), *(f"lpt{n}" for n in range(1, 10))}
)


def identifier(node: LockNode, *, stack: bool) -> str:
    """Return an id that Nox, file systems and shells leave as it is."""
    value = node.text()
    pattern = _STACK_ID if stack else _ARTIFACT_ID
    if not pattern.fullmatch(value):
        letters = "lower-case letters, digits and single hyphens"
        msg = (
            f"The id {value!r} is not made of {letters}{'' if stack else ', dots, plus signs, underscores'}."
        )
        raise node.refusal(msg, "lock-bad-id", "Rename it, for example zluda-v6p69-sdk64.")
    if stack and len(value) > MAX_ID:
        msg = f"The id has {len(value)} characters; {MAX_ID} are allowed."
        raise node.refusal(msg, "lock-bad-id", "Shorten it: Nox replaces longer folder names by a hash.")
    return value


def fold(name: str) -> str:
    """Return what Nox makes of a name: everything but letters and digits becomes one hyphen."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def unique(nodes: Iterable[tuple[LockNode, str]], what: str) -> None:
    """Refuse a name that was there before, also if only Nox's folding makes them the same."""
    seen: dict[str, tuple[LockNode, str]] = {}
    for node, name in nodes:
        first = seen.setdefault(fold(name), (node, name))
        if first[0] is node:
            continue
        line = node.source.line(first[0].key)
        if first[1] == name:
            msg = f"The {what} {name!r} is already there, on line {line}."
            raise node.refusal(msg, "lock-duplicate-id", "Give each one an id of its own.")
        msg = f"The {what}s {name!r} and {first[1]!r} (line {line}) become the same name in Nox."
        raise node.refusal(msg, "lock-duplicate-id", "Make them differ in letters or digits.")


def url(node: LockNode) -> str:
    """Return an https URL that names one unchanging file and holds no secret."""
    value = node.text()
    problem = url_problem(value)
    if problem is not None:
        raise node.refusal(problem.message, f"lock-{problem.reference}", problem.hint)
    return value


def version_range(node: LockNode) -> str:
    """Return a specifier set such as ``>=6.4,<6.5`` that some version can satisfy; empty means any."""
    value = node.text(empty=True)
    low: tuple[tuple[int, ...], bool] = ((0,) * 4, False)  # the bound; is it excluded?
    high: tuple[tuple[int, ...], bool] | None = None  # the bound; is it included?
    for part in value.split(",") if value else ():
        match = _BOUND.fullmatch(part.strip())
        if match is None:
            raise _bad_range(node, f"{part!r} is not a version bound.")
        numbers = [int(number) for number in match[2].split(".")]
        bound = (*numbers, *[0] * (4 - len(numbers)))
        if match[1] in {">=", ">", "=="}:
            low = max(low, (bound, match[1] == ">"))
        if match[1] in {"<=", "<", "=="}:
            found = (bound, match[1] != "<")
            high = found if high is None else min(high, found)
    if high is not None and (low[0] > high[0] or (low[0] == high[0] and (low[1] or not high[1]))):
        raise _bad_range(node, f"No version satisfies {value!r}.")
    return value


def _bad_range(node: LockNode, msg: str) -> LockError:
    return node.refusal(msg, "lock-bad-range", "Write it like >=6.4,<6.5.")


def relative(node: LockNode, *, empty: bool = False) -> str:
    """Return a POSIX path that stays inside its archive on every system."""
    value = node.text(empty=empty)
    if not value:
        return value
    for part in value.split("/"):
        stem = part.split(".")[0].rstrip(" ").casefold()
        bad = part in {"", ".", ".."} or part.endswith((" ", ".")) or stem in _RESERVED
        if bad or any(char in part for char in '\\:*?"<>|'):
            msg = f"The path {value!r} is not a plain relative path."
            hint = (
                "Write it relative to the archive's root with forward slashes, without '..', drive or colon."
            )
            raise node.refusal(msg, "lock-unsafe-path", hint)
    return value


def gfx(node: LockNode) -> str:
    """Return an architecture such as ``gfx1200``."""
    value = node.text()
    if not _GFX.fullmatch(value):
        msg = f"{value!r} is not a GPU architecture."
        raise node.refusal(msg, "lock-bad-gfx", "Write it like gfx1200.")
    return value


def variable(node: LockNode, name: str) -> str:
    """Return the name of an environment variable."""
    if not _VARIABLE.fullmatch(name):
        msg = f"{name!r} is not a name of an environment variable."
        raise node.refusal(msg, "lock-bad-variable", "Use letters, digits and underscores.")
    return name


def option(node: LockNode, name: str) -> str:
    """Return the name of an optional part, as ``--with`` takes it."""
    if not _STACK_ID.fullmatch(name):
        msg = f"The option {name!r} is not made of lower-case letters, digits and single hyphens."
        raise node.refusal(msg, "lock-bad-id", "Rename it, for example libtorch.")
    return name


def references(nodes: Iterable[LockNode], known: Mapping[str, object]) -> Iterator[str]:
    """Yield the artifact ids an array names; each must exist and stand there once."""
    seen: set[str] = set()
    for node in nodes:
        name = node.text()
        if name not in known:
            msg = f"There is no artifact {name!r}."
            raise node.refusal(msg, "lock-dangling-reference", "Correct the id, or add the artifact.")
        if name in seen:
            msg = f"The artifact {name!r} is named twice."
            raise node.refusal(msg, "lock-duplicate-reference", "Name it once.")
        seen.add(name)
        yield name
