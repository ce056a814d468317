"""One style for every message and hint, and words that are not to come back.

A message is one sentence, lower case, without a full stop. A hint starts with a verb. Messages name facts,
not narrators. Rooms that are not there yet have an allowance in ``ALLOWED``: it only ever gets smaller.
"""

from __future__ import annotations

import ast
import functools
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from scripts import errors

SCRIPTS = Path(errors.__file__).parent
ERRORS = {name for name in vars(errors) if name.endswith("Error")}
ROOMS = sorted({p.relative_to(SCRIPTS).parts[0] for p in SCRIPTS.rglob("*.py")} - {"inside", "__init__.py"})

#: How a hint may start; ``invoke`` where it is a command to paste.
VERBS = frozenset(
    word
    for line in (
        "accept activate add agree answer ask assemble attach bring build change check choose clear close",
        "compare connect copy correct create delete describe disable edit enable end enter export extract",
        "fetch fill find fix free get give import install invoke keep leave let list load log look make",
        "mark measure move name open pass pick pin place press print publish put quote raise read remove",
        "rename repair repeat replace report reset restart restore retry review run save say see select",
        "send set show sign split stage start state stop supply take tell test try turn type undo unpack",
        "unset update upgrade use validate wait write",
    )
    for word in line.split()
)
#: Words that start with a capital letter anywhere in a sentence.
NAMES = frozenset(
    {"AMD", "Ctrl", "CUDA", "Defender", "GitHub", "HIP", "Invoke", "Linux", "MIOpen", "Microsoft", "Nox"}
    | {"NumPy", "NVIDIA", "Python", "PyTorch", "ROCm", "SQLite", "Windows", "Wine", "ZLUDA"}
)
#: What no message, hint, docstring or comment says any more, and what it says instead.
BANNED = {
    r"\bnobody(?:'s)?\b": "say what is the case: 'unknown', 'not published', 'without a terminal'",
    r"\bsomebody(?:'s)?\b": "name who: another program, the user",
    r"\banybody(?:'s)?\b": "anyone, or name who",
    r"\btold\b": "known, given, reported",
    r"\bsaid\b": "reported, noted, shown",
    r"\bis a word too many\b": "unexpected argument",
    r"\bis not a way\b": "unknown value",
    r"\bholds something else than\b": "must be",
    r"\bits time was over\b": "killed after N s (--timeout)",
    r"\ba box was closed\b": "closed a message box",
    r"\bwhole path\b": "absolute path",
    r"\bsomebody was faster\b": "changed since it was planned",
    r"\banew\b": "again",
    r"\bstands? on\b": "uses, needs, calls",
}
#: Those of them that pages and data do not use either.
NARRATORS = tuple(word for word in BANNED if re.search("nobody|somebody|anybody|anew|stands", word))
#: So many findings a room may still have: (messages and hints, banned words). Lower them, never raise them.
ALLOWED: dict[str, tuple[int, int]] = {
    "__main__.py": (2, 0),  # two commands to paste, after "then run:"
}


class Text(NamedTuple):
    """One literal that a person reads."""

    room: str
    place: str
    kind: str
    text: str


def literal(node: ast.AST | None) -> str | None:
    """The text of a literal; ``{}`` stands for what is filled in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(v.value) if isinstance(v, ast.Constant) else "{}" for v in node.values)
    return None


@functools.cache
def texts() -> tuple[Text, ...]:
    """Every literal message and hint of an error."""
    found = []
    for path in sorted(SCRIPTS.rglob("*.py")):
        place = path.relative_to(SCRIPTS)
        for node in ast.walk(ast.parse(path.read_bytes())):
            for kind, value in found_in(node):
                text = literal(value)
                if text:
                    where = f"{place.as_posix()}:{getattr(value, 'lineno', 0)}"
                    found.append(Text(place.parts[0], where, kind, text))
    return tuple(found)


def found_in(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        kind = {"msg": "message", "message": "message", "hint": "hint"}.get(node.targets[0].id)
        if kind:
            yield from ((kind, each) for each in branches(node.value))
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ERRORS:
        yield from (("message", each) for arg in node.args[1:2] for each in branches(arg))
        for keyword in node.keywords:
            if keyword.arg in {"message", "hint"}:
                yield from ((keyword.arg, each) for each in branches(keyword.value))


def branches(node: ast.AST) -> Iterator[ast.AST]:
    """Both sides of a conditional."""
    if isinstance(node, ast.IfExp):
        yield from branches(node.body)
        yield from branches(node.orelse)
    else:
        yield node


def faults(text: Text) -> Iterator[str]:
    """What is wrong with a message or hint."""
    words = text.text.split()
    first = words[0].strip("'\"(:,;…")
    if text.text.rstrip().endswith(".") and not text.text.endswith("…"):
        yield "ends with a full stop"
    if re.search(r"[.!?] +[A-Z]", text.text):
        yield "is more than one sentence"
    name = first in NAMES or first.isupper()
    if text.kind == "message" and first[:1].isupper() and not name:
        yield "starts with a capital letter"
    if text.kind == "hint" and first not in VERBS and not first.startswith("{}"):
        yield f"does not start with a verb: {first}"


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Comments and strings, line by line."""
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type in {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", -1)}:
                yield from enumerate(token.string.split("\n"), token.start[0])


def banned_in(room: str) -> list[str]:
    """Every banned word of a room, with its place and what to write."""
    base = SCRIPTS / room
    found = []
    for path in sorted(base.rglob("*.py")) if base.is_dir() else [base]:
        for number, line in prose(path):
            place = f"{path.relative_to(SCRIPTS).as_posix()}:{number}"
            found += [
                f"{place}: {match[0]!r}: {instead}"
                for word, instead in BANNED.items()
                for match in re.finditer(word, line, re.IGNORECASE)
            ]
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_messages_and_hints_have_one_style(room: str) -> None:
    found = [f"{t.place}: {fault}: {t.text}" for t in texts() if t.room == room for fault in faults(t)]
    assert len(found) <= ALLOWED.get(room, (0, 0))[0], "\n" + "\n".join(found)


@pytest.mark.parametrize("room", ROOMS)
def test_banned_words_do_not_come_back(room: str) -> None:
    found = banned_in(room)
    assert len(found) <= ALLOWED.get(room, (0, 0))[1], "\n" + "\n".join(found)


def pages() -> Iterator[Path]:
    """What people read besides messages: pages, and the sentences of the data files."""
    root = SCRIPTS.parent
    yield from (root / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"))
    yield from sorted((root / "docs").glob("*.md"))
    # What programs print is quoted in phrases.toml as it is.
    yield from (path for path in sorted((SCRIPTS / "data").rglob("*.toml")) if path.name != "phrases.toml")


@pytest.mark.parametrize("path", list(pages()), ids=lambda path: path.relative_to(SCRIPTS.parent).as_posix())
def test_pages_and_data_have_no_narrator(path: Path) -> None:
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    narrated = re.compile("|".join(NARRATORS), re.IGNORECASE)
    found = [f"{number}: {line}" for number, line in lines if narrated.search(line)]
    assert not found, "\n".join(found)


def test_the_lint_reads_what_people_read() -> None:
    kinds = Counter(text.kind for text in texts())
    assert kinds["message"] > 150
    assert kinds["hint"] > 150


@pytest.mark.parametrize(
    ("kind", "text", "fault"),
    [
        ("message", "The file is gone", "capital"),
        ("message", "the file is gone.", "full stop"),
        ("message", "it is gone. Put it back", "more than one"),
        ("hint", "the file can be made anew", "verb"),
        ("hint", "Run it again", "verb"),
    ],
)
def test_each_fault_is_seen(kind: str, text: str, fault: str) -> None:
    assert any(fault in found for found in faults(Text("x", "x:1", kind, text)))


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("message", "HIP finds no device"),
        ("message", "{} is not staged"),
        ("message", "--via=x: unknown value"),
        ("hint", "run `invoke setup` first"),
        ("hint", "use one of: {}"),
    ],
)
def test_good_style_passes(kind: str, text: str) -> None:
    assert not list(faults(Text("x", "x:1", kind, text)))
