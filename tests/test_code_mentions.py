"""What a docstring or comment names of our own code exists: files, folders, names in modules."""

from __future__ import annotations

import ast
import fnmatch
import functools
import importlib.util
import mimetypes
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.cli.verbs import VERBS

ROOT = Path(__file__).resolve().parents[1]
#: Where what is named may lie.
TOPS = ("scripts", "tools", "tests", "native", "docs")
#: Docstrings and comments have two backticks; texts that are printed have one, see ``test_mentions.py``.
SPAN = re.compile(r"(?<!`)``([\w./-]+?)(?:\(\))?``(?!`)")
MEMBER = re.compile(r"([a-z_]\w*)\.(\w+)")
DEFINED = re.compile(r"^(?:async def|def|class) (\w+)", re.MULTILINE)
#: Endings of our files that hold names.
READ = frozenset({".py", ".toml", ".js", ".c", ".h", ".json"})
#: Endings of files that Python itself knows, whatever the system adds.
ENDINGS = mimetypes.MimeTypes().types_map[True]


@functools.cache
def sources() -> dict[Path, str]:
    paths = [path for folder in ("scripts", "tools") for path in sorted((ROOT / folder).rglob("*.py"))]
    return {path: path.read_text(encoding="utf-8") for path in paths}


@functools.cache
def ours() -> frozenset[str]:
    """Return every file and folder of ours, and every end of their paths."""
    inside = [path for top in TOPS for path in (ROOT / top).rglob("*") if "__pycache__" not in path.parts]
    parts = [path.relative_to(ROOT).parts for path in [*ROOT.glob("*"), *inside]]
    return frozenset("/".join(each[at:]) for each in parts for at in range(len(each)))


@functools.cache
def defined() -> frozenset[str]:
    return frozenset(name for text in sources().values() for name in DEFINED.findall(text))


@functools.cache
def names_in(module: str) -> frozenset[str]:
    """Return what the modules and rooms of a name hold; empty where there are none."""
    found = set()
    for path, text in sources().items():
        if path.parent.name == module:
            found.add(path.stem)
        if module not in {path.stem, path.parent.name if path.stem == "__init__" else ""}:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                found.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.id)
            elif isinstance(node, ast.alias):
                found.add(node.asname or node.name.split(".")[0])
    return frozenset(found)


def problem(span: str) -> str:
    """Say what is wrong with a name in backticks; empty where it stands, or may belong to others."""
    name = span.strip("/")
    if name in ours() or f"{name}.py" in ours() or name in VERBS:
        return ""
    ending = f".{name.rpartition('.')[2]}"
    if (ending in {".py", ".toml"} and name != ending) or name.startswith(tuple(f"{top}/" for top in TOPS)):
        return "no such file or folder"
    found = MEMBER.fullmatch(name)
    if found is None or ending in ENDINGS:
        return ""
    module, member = found.groups()
    if names := names_in(module):
        return "" if member in names else f"{module} has no such name"
    foreign = member not in defined() or importlib.util.find_spec(module) is not None
    return "" if foreign else "no such module"


def mentions() -> Iterator[tuple[str, str]]:
    for path, text in sources().items():
        for found in SPAN.finditer(text):
            line = text.count("\n", 0, found.start()) + 1
            yield f"{path.relative_to(ROOT).as_posix()}:{line}", found[1]


@pytest.mark.parametrize(
    ("span", "wrong"),
    [
        ("own_venv.py", ""),
        ("no_such.py", "no such file or folder"),
        ("data/probes.toml", ""),
        ("scripts/cli/gone", "no such file or folder"),
        ("binary/fatbin", ""),
        ("zluda_inject/src/args.rs", ""),
        ("log_sampling.plain", ""),
        ("log_sampling.gone", "log_sampling has no such name"),
        ("decoding.plain", "no such module"),
        ("binary.machine_of", "binary has no such name"),
        ("pins.update", ""),
        ("sys.exit", ""),
        ("cuda_check.exe", ""),
    ],
)
def test_a_name_of_ours_is_told_from_others(span: str, wrong: str) -> None:
    assert problem(span) == wrong


@pytest.mark.slow
def test_every_file_and_name_in_the_table_for_contributors_exists() -> None:
    """A row says where a change is made: a name in it stands in some file of ours."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    spans = {span for row in rows for span in re.findall(r"`([^`]+)`", row)}
    assert len(spans) > 200, "the table was not read"
    code = [path for top in ("scripts", "tools", "native") for path in (ROOT / top).rglob("*.*")]
    texts = [path.read_text(encoding="utf-8") for path in code if path.suffix in READ]
    words = set(re.findall(r"\w+", "\n".join(texts)))
    forms = {re.sub("VERB|…", "*", span) for span in spans if "." in span}
    assert [form for form in forms if "*" in form and not fnmatch.filter(ours(), form)] == []
    assert [(form, wrong) for form in forms if "*" not in form and (wrong := problem(form))] == []
    assert [span for span in sorted(spans) if re.fullmatch(r"\w+", span) and span not in words] == []


def test_everything_of_ours_that_a_module_names_exists() -> None:
    found = list(mentions())
    assert len(found) > 200, "the modules were not read"
    assert [(where, span, wrong) for where, span in found if (wrong := problem(span))] == []
