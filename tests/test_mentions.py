"""Whatever a text of ours tells a person to type exists: tasks, their options, sessions, pages."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from scripts.cli.verbs import VERBS

ROOT = Path(__file__).resolve().parents[1]
#: Texts that people read; what quotes commands of other projects is checked all the same.
PROSE = sorted(
    path
    for pattern in (
        "*.md",
        "docs/**/*.md",
        "stage/*.md",
        "evidence/*.md",
        ".github/**/*.yml",
        "scripts/data/*.toml",
    )
    for path in ROOT.glob(pattern)
)
SOURCES = sorted([*(ROOT / "scripts").rglob("*.py"), ROOT / "tasks.py", ROOT / "noxfile.py"])
#: What does not exist on purpose: examples of mistakes.
NONSENSE = {"nonsense"}
#: A command up to the end of its code span, string or line; what follows ``--`` is the program's.
COMMAND = re.compile(r"(?<![\w/-])(?<!nox )(?:invoke|-m scripts)[ ]+(?P<words>[a-z-][^`\"'\n]*)")
TASK = re.compile(r"(?:--[\w-]+ )*(?P<task>[a-z][a-z.-]*[a-z])\b(?!/)")
#: What ends a command inside a sentence.
SENTENCE = re.compile(r"[,;:)]|\. | -- |[ ]#|  ")
OPTION = re.compile(r"(?<![\w-])--(?P<name>[a-z][\w-]*)")
CODE_SPAN = re.compile(r"`(?P<task>[a-z][a-z.-]*) (?P<options>--[a-z][^`]*)`")
SESSION = re.compile(r"\bnox -s (?P<names>[a-z_]+(?: [a-z_]+)*)")
#: Ours are in lower case; other projects' pages are quoted as sources.
PAGE = re.compile(r"(?<![\w/])docs/[a-z][a-z-]*\.(?:md|svg)")
LINK = re.compile(r"\]\((?!https?:|#|mailto:)(?P<path>[^)#]+)")

OPTIONS = {name: {option.name for option in verb.options} for name, verb in VERBS.items()}


class Text(NamedTuple):
    """A piece of text and where it stands."""

    where: str
    text: str


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def strings(path: Path) -> Iterator[Text]:
    """Yield every string of a module; what is put into an f-string is an ellipsis."""
    inside: set[int] = set()
    for node in ast.walk(ast.parse(read(path))):
        if isinstance(node, ast.JoinedStr):
            inside |= {id(part) for part in ast.walk(node) if part is not node}
            parts = (part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
            yield Text(f"{path.relative_to(ROOT)}:{node.lineno}", "".join(map(str, parts)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield Text(f"{path.relative_to(ROOT)}:{node.lineno}", node.value)


def texts() -> Iterator[Text]:
    for path in PROSE:
        for number, line in enumerate(read(path).splitlines(), 1):
            yield Text(f"{path.relative_to(ROOT)}:{number}", line)
    for path in SOURCES:
        yield from strings(path)


@functools.cache
def every_text() -> tuple[Text, ...]:
    return tuple(texts())


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each task that a text tells to run, with the options it names."""
    for found in COMMAND.finditer(text):
        words = SENTENCE.split(found["words"])[0]
        if task := TASK.match(words):
            yield task["task"], [option["name"] for option in OPTION.finditer(words, task.end())]
    for found in CODE_SPAN.finditer(text):
        if found["task"] in OPTIONS:
            words = found["options"].split(" -- ")[0]
            yield found["task"], [option["name"] for option in OPTION.finditer(words)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("`invoke wrap --exe=… -- --its=own`", [("wrap", ["exe"])]),
        ("run `invoke verify --deep`, then invoke report", [("verify", ["deep"]), ("report", [])]),
        ("python -m scripts unwrap --all  take back", [("unwrap", ["all"])]),
        ("see `wrap --explain`", [("wrap", ["explain"])]),
        ("invoke stage, then invoke verify --deep", [("stage", []), ("verify", ["deep"])]),
        ("`git checkout --ours`", []),
    ],
)
def test_commands_are_found_in_sentences(text: str, expected: list[tuple[str, list[str]]]) -> None:
    found = [pair for part in re.split(r"(?<=,) |(?= invoke )", text) for pair in commands(part)]
    assert found == expected


def test_every_task_and_option_that_is_mentioned_exists() -> None:
    mentions = [(text.where, task, options) for text in every_text() for task, options in commands(text.text)]
    assert len(mentions) > 100, "the texts were not read"
    wrong = [
        f"{where}: {task} {' '.join(f'--{name}' for name in options)}"
        for where, task, options in mentions
        if task not in OPTIONS or set(options) - NONSENSE - OPTIONS[task]
    ]
    assert not wrong


def test_every_session_that_is_mentioned_exists() -> None:
    sessions = {
        node.name for node in ast.parse(read(ROOT / "noxfile.py")).body if isinstance(node, ast.FunctionDef)
    }
    mentions = [
        (text.where, name)
        for text in every_text()
        for m in SESSION.finditer(text.text)
        for name in m["names"].split()
    ]
    assert mentions
    assert [(where, name) for where, name in mentions if name not in sessions] == []


def test_every_page_that_is_mentioned_exists() -> None:
    pages = [
        (text.where, m[0])
        for text in every_text()
        for m in PAGE.finditer(text.text)
        if not re.search(
            r"[\w.-]+/[\w.-]+ $", text.text[max(0, m.start() - 80) : m.start()]
        )  # another project's
    ]
    assert pages
    assert [(where, page) for where, page in pages if not (ROOT / page).is_file()] == []


@pytest.mark.parametrize(
    "page",
    [path for path in PROSE if path.suffix == ".md"],
    ids=lambda path: path.relative_to(ROOT).as_posix(),
)
def test_links_lead_somewhere(page: Path) -> None:
    links = [found["path"] for found in LINK.finditer(read(page))]
    assert [link for link in links if not (page.parent / link).exists()] == []
