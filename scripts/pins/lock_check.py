"""What the values of a lock must be: ids, URLs, paths, version ranges, references."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from scripts.errors import LockError
from scripts.pins.node import Node
from scripts.pins.urls import url_problem

MAX_ID: Final = 40

_STACK_ID: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_ARTIFACT_ID: Final = re.compile(r"[a-z0-9]+(?:[-.+_][a-z0-9]+)*")
_GFX: Final = re.compile(r"gfx[0-9]{1,2}[0-9a-f]{2}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BOUND: Final = re.compile(r"(>=|<=|==|>|<)(\d+(?:\.\d+){0,3})")
_RESERVED: Final = frozenset(
    {"con", "prn", "aux", "nul", *(f"com{n}" for n in range(1, 10)), *(f"lpt{n}" for n in range(1, 10))}
)


def identifier(node: Node, *, stack: bool) -> str:
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


def unique(nodes: Iterable[tuple[Node, str]], what: str) -> None:
    """Refuse a name that was there before, also if only Nox's folding makes them the same."""
    seen: dict[str, tuple[Node, str]] = {}
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


def url(node: Node) -> str:
    """Return an https URL that names one unchanging file and holds no secret."""
    value = node.text()
    problem = url_problem(value)
    if problem is not None:
        raise node.refusal(problem.message, f"lock-{problem.reference}", problem.hint)
    return value


def version_range(node: Node) -> str:
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


def _bad_range(node: Node, msg: str) -> LockError:
    return node.refusal(msg, "lock-bad-range", "Write it like >=6.4,<6.5.")


def relative(node: Node, *, empty: bool = False) -> str:
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


def gfx(node: Node) -> str:
    """Return an architecture such as ``gfx1200``."""
    value = node.text()
    if not _GFX.fullmatch(value):
        msg = f"{value!r} is not a GPU architecture."
        raise node.refusal(msg, "lock-bad-gfx", "Write it like gfx1200.")
    return value


def variable(node: Node, name: str) -> str:
    """Return the name of an environment variable."""
    if not _VARIABLE.fullmatch(name):
        msg = f"{name!r} is not a name of an environment variable."
        raise node.refusal(msg, "lock-bad-variable", "Use letters, digits and underscores.")
    return name


def option(node: Node, name: str) -> str:
    """Return the name of an optional part, as ``--with`` takes it."""
    if not _STACK_ID.fullmatch(name):
        msg = f"The option {name!r} is not made of lower-case letters, digits and single hyphens."
        raise node.refusal(msg, "lock-bad-id", "Rename it, for example libtorch.")
    return name


def references(nodes: Iterable[Node], known: Mapping[str, object]) -> Iterator[str]:
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
