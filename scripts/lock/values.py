"""The plain values of a lock: ids, URLs, ranges, paths, variables. Each is checked where it is read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from msgspec import Struct

from scripts.errors import LockError
from scripts.lock.toml_nodes import LockNode
from scripts.osal import paths
from scripts.serialize import data_table

_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_ARCHIVE_END: Final = re.compile(r"\.(?:zip|tar|tar\.gz|tgz|whl|7z)$")
_LATEST: Final = re.compile(r"(?<![a-z0-9])latest(?![a-z0-9])")
_BRANCHES: Final = frozenset({"main", "master", "head", "heads", "trunk", "develop", "nightly"})
_SECRETS: Final = frozenset(
    {"access_token", "token", "key", "sig", "signature", "x-amz-signature", "x-amz-credential", "password"}
)
_ENCODE: Final = frozenset(' \\"<>^`{|}')


class UrlProblem(Struct, frozen=True, kw_only=True):
    """Why a URL cannot be pinned, in the words of an error panel."""

    reference: str
    message: str
    hint: str


def url_problem(value: str) -> UrlProblem | None:
    """Return what is wrong with a URL, or ``None`` if it may be pinned; pure."""
    if not value.isascii() or not value.isprintable() or _ENCODE & set(value):
        return _bad(
            "holds characters that must be percent-encoded", "Percent-encode it, for example + as %2B."
        )
    try:
        parts = urlsplit(value)
        _ = parts.port
    except ValueError:
        return _bad("cannot be read as one", "Copy it again from its source.")
    return _address(parts) or _secret(parts) or _moving(parts)


def _address(parts: SplitResult) -> UrlProblem | None:
    if parts.scheme == "http":
        message = "the URL uses http:, which anyone on the way can change"
        hint = "use the https address; a file from an http mirror goes through --mirror"
        return UrlProblem(reference="insecure-url", message=message, hint=hint)
    if parts.scheme != "https" or not parts.hostname or parts.path in {"", "/"}:
        return _bad("is not the https address of a file", "Use an https URL.")
    if parts.fragment:
        return _bad("has a fragment, which is never sent to a server", "Put a #sha256=… into the key sha256.")
    return None


def _secret(parts: SplitResult) -> UrlProblem | None:
    names = {name.lower() for name, _ in parse_qsl(parts.query, keep_blank_values=True)}
    if parts.username is None and not names & _SECRETS:
        return None
    return UrlProblem(
        reference="credentials-in-url",
        message="The URL holds credentials, which a lock would publish.",
        hint="Take them out and revoke them; pin a public URL.",
    )


def _bad(what: str, hint: str) -> UrlProblem:
    return UrlProblem(reference="bad-url", message=f"The URL {what}.", hint=hint)


def _moving(parts: SplitResult) -> UrlProblem | None:
    """Find a branch or ``latest``: such a URL gives other bytes tomorrow."""
    path = [unquote(part).lower() for part in parts.path.split("/")]
    values = [value.lower() for _, value in parse_qsl(parts.query)]
    found = next((part for part in (*path, *values) if _moves(part)), None)
    pinned = any(_COMMIT.fullmatch(part) for part in path)
    if found is None and not pinned and ("raw" in path or parts.hostname == "raw.githubusercontent.com"):
        found = "raw"
    if found is None:
        return None
    return UrlProblem(
        reference="moving-url",
        message=f"The URL names something that moves ({found!r}), so its bytes will change.",
        hint="Use the URL of one release or of one commit.",
    )


def _moves(part: str) -> bool:
    return _LATEST.search(part) is not None or _ARCHIVE_END.sub("", part) in _BRANCHES


MAX_ID: Final = 40

_STACK_ID: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_ARTIFACT_ID: Final = re.compile(r"[a-z0-9]+(?:[-.+_][a-z0-9]+)*")
_GFX: Final = re.compile(r"gfx[0-9]{1,2}[0-9a-f]{2}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BOUND: Final = re.compile(r"(>=|<=|==|>|<)(\d{1,9}(?:\.\d{1,9}){0,3})", re.ASCII)

#: A path, a reference to another variable, or the file name of a library or program.
_NAMES_A_FILE: Final = re.compile(r"[\\/%$]|\.(?:so|dll|dylib|exe|py|jar|js)\b", re.IGNORECASE)


def identifier(node: LockNode, *, stack: bool) -> str:
    """Return an id that Nox, file systems and shells leave as it is."""
    value = node.text()
    pattern = _STACK_ID if stack else _ARTIFACT_ID
    if not pattern.fullmatch(value):
        letters = "lower-case letters, digits and single hyphens"
        msg = f"the id {value!r} is not made of {letters}{'' if stack else ', dots, plus signs, underscores'}"
        raise node.refusal(msg, "lock-bad-id", "Rename it, for example zluda-v6p69-sdk64.")
    if stack and len(value) > MAX_ID:
        msg = f"the id has {len(value)} characters; {MAX_ID} are allowed"
        raise node.refusal(msg, "lock-bad-id", "Shorten it: Nox replaces longer folder names by a hash.")
    return value


def nox_name(name: str) -> str:
    """Return what Nox makes of a name: everything but letters and digits becomes one hyphen."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def unique(nodes: Iterable[tuple[LockNode, str]], what: str) -> None:
    """Refuse a name that was there before, also if only Nox's folding makes them the same."""
    seen: dict[str, tuple[LockNode, str]] = {}
    for node, name in nodes:
        first = seen.setdefault(nox_name(name), (node, name))
        if first[0] is node:
            continue
        line = node.source.line(first[0].key)
        if first[1] == name:
            msg = f"the {what} {name!r} is already there, on line {line}"
            raise node.refusal(msg, "lock-duplicate-id", "Give each one an id of its own.")
        msg = f"the {what}s {name!r} and {first[1]!r} (line {line}) become the same name in Nox"
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
    rule = paths.refusal(value) if value else None
    if rule is not None:
        msg = f"the path {value[:100]!r} {rule.sentence}"
        hint = "write it relative to the archive's root with forward slashes, without '..', drive or colon"
        raise node.refusal(msg, "lock-unsafe-path", hint)
    return value


def gfx(node: LockNode) -> str:
    """Return an architecture such as ``gfx1200``."""
    value = node.text()
    if not _GFX.fullmatch(value):
        msg = f"{value!r} is not a GPU architecture"
        raise node.refusal(msg, "lock-bad-gfx", "Write it like gfx1200.")
    return value


def variable(node: LockNode, name: str) -> str:
    """Return the name of an environment variable."""
    if not _VARIABLE.fullmatch(name):
        msg = f"{name!r} is not a name of an environment variable"
        raise node.refusal(msg, "lock-bad-variable", "Use letters, digits and underscores.")
    return name


def setting(node: LockNode, name: str, value: LockNode) -> str:
    """Return the value of a variable that a stack sets, once it cannot make anything load code.

    Names that loaders and interpreters obey are refused, and so are values that name a file: a variable
    that is not known here could name a library.
    """
    text, known = value.text(empty=True), variable(node, name).upper()
    obeyed = data_table("obeyed.toml")
    ends = known.startswith(tuple(obeyed["prefixes"])) or known.endswith(tuple(obeyed["suffixes"]))
    if known in obeyed["names"] or ends:
        msg = f"{name} can make a program run other code, so a lock may not set it"
        raise node.refusal(msg, "lock-loader-variable", "Remove it; `wrap --set` sets it for one run.")
    if _NAMES_A_FILE.search(text):
        msg = f"the value of {name} names a file or folder, which could be a library"
        raise value.refusal(msg, "lock-loader-variable", "Write a plain word or number.")
    return text


def option(node: LockNode, name: str) -> str:
    """Return the name of an optional part, as ``--with`` takes it."""
    if not _STACK_ID.fullmatch(name):
        msg = f"the option {name!r} is not made of lower-case letters, digits and single hyphens"
        raise node.refusal(msg, "lock-bad-id", "Rename it, for example libtorch.")
    return name


def references(nodes: Iterable[LockNode], known: Mapping[str, object]) -> Iterator[str]:
    """Yield the artifact ids an array names; each must exist and stand there once."""
    seen: set[str] = set()
    for node in nodes:
        name = node.text()
        if name not in known:
            msg = f"there is no artifact {name!r}"
            raise node.refusal(msg, "lock-dangling-reference", "Correct the id, or add the artifact.")
        if name in seen:
            msg = f"the artifact {name!r} is named twice"
            raise node.refusal(msg, "lock-duplicate-reference", "Name it once.")
        seen.add(name)
        yield name
