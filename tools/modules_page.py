"""``docs/modules.md``: what every module is about, from the first sentence of each."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from scripts import ALONE, LAYERS
from tools import keep_page

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "modules.md"

INTRODUCTION = (
    "Generated from the first sentence of each module (`python -m tools.generated_docs`). The rooms of",
    "`scripts/` stand as in `LAYERS` of `scripts/__init__.py`, highest first: a module imports from rooms",
    "below its own only. Which of them a kind of change touches is in [CONTRIBUTING.md](../CONTRIBUTING.md).",
)
#: The form of a first comment, behind the lines that may stand before it.
_SLASHES = r"(?:#include.*\n|\"use strict\";\n|\n)*/\* ((?:[^*]|\*(?!/))*)\*/"
_HASHES = r"(?:#!.*\n|name:.*\n|\n)*# (.*(?:\n# .*)*)"
#: What stands outside the rooms of ``scripts``.
FOLDERS = (
    ("scripts/data", "Knowledge: tables that the code reads", "*.toml", _HASHES),
    ("scripts/data/site", "The site of the matrix: its style and scripts", "*.[cj]s*", _SLASHES),
    ("native/cpu", "The CPU reference, in C", "*.[ch]", _SLASHES),
    (".github/workflows", "What runs at GitHub", "*.yml", _HASHES),
    (".ci", "What must hold before a change lands", "run", _HASHES),
)


def write(*, check: bool = False) -> bool:
    """Write the page, or compare it; true when it was up to date."""
    return keep_page(PAGE, lines(), check=check)


def lines() -> Iterator[str]:
    """Yield the page."""
    yield "# What is where"
    yield ""
    yield from INTRODUCTION
    for room in (*(room for layer in reversed(LAYERS) for room in layer), *ALONE):
        yield from _room(ROOT / "scripts" / room)
    for folder, about, pattern, comment in FOLDERS:
        paths = sorted((ROOT / folder).rglob(pattern))
        yield from _section(f"{folder}/", about, ((path, _first(_comment(path, comment))) for path in paths))
    yield from _python(ROOT / "tools", "What only makes, checks or measures")


def _room(room: Path) -> Iterator[str]:
    """Yield a room of ``scripts``: a folder, or a module by itself."""
    if room.is_dir():
        if (room / "__init__.py").is_file():
            yield from _python(room, _docstring(room / "__init__.py"))
    else:
        path = room.with_suffix(".py")
        yield from _section(path.relative_to(ROOT).as_posix(), _docstring(path), ())


def _python(folder: Path, about: str) -> Iterator[str]:
    """Yield a folder of Python modules."""
    paths = sorted(path for path in folder.rglob("*.py") if path.name != "__init__.py")
    name = f"{folder.relative_to(ROOT).as_posix()}/"
    yield from _section(name, about, ((path, _docstring(path)) for path in paths))


def _section(name: str, about: str, rows: Iterable[tuple[Path, str]]) -> Iterator[str]:
    """Yield a heading, what is below it, and a line for each file."""
    yield from ("", f"## {name}", "", f"{about.rstrip('.')}.")
    for number, (path, text) in enumerate(rows):
        if number == 0:
            yield ""
        if not text:
            msg = f"{path} does not begin with a sentence about itself"
            raise ValueError(msg)
        yield f"- `{path.relative_to(ROOT / name).as_posix()}`: {text.rstrip('.')}"


def _docstring(path: Path) -> str:
    return _first(ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "")


def _comment(path: Path, pattern: str) -> str:
    found = re.match(pattern, path.read_text(encoding="utf-8"))
    return re.sub(r"\n *[#*]? *", " ", found[1]) if found else ""


def _first(text: str) -> str:
    """Return the first sentence, on one line."""
    words = " ".join(text.split("\n\n", maxsplit=1)[0].split())
    return re.split(r"(?<=\.) (?=[A-Z`])", words)[0].replace("``", "`")
