"""A path that a person named is looked at in the form that Windows takes beyond 260 characters."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import scripts

ROOT = Path(scripts.__file__).resolve().parent
#: What reads a path's text, and how a path is looked at; ``user_path`` itself has the form of the system.
NAMING = frozenset({"user_path"})
LOOKING = frozenset({"exists", "is_file", "is_dir", "stat", "lstat", "open", "iterdir", "glob", "unlink"})
CHANGING = frozenset({"absolute", "resolve"})


def named(value: ast.expr) -> bool:
    """Whether an expression is a path that a person named."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if value.func.attr not in CHANGING:
            return False
        value = value.func.value
    if isinstance(value, ast.IfExp):
        return named(value.body) or named(value.orelse)
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in NAMING


def looked_at_in_short(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield where a function looks at such a path without ``long_path``."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        inside = list(ast.walk(function))
        names = {
            target.id
            for node in inside
            if isinstance(node, ast.Assign) and named(node.value)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in inside:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                path = node.func.value
                if node.func.attr in LOOKING and isinstance(path, ast.Name) and path.id in names:
                    yield node.lineno, f"{path.id}.{node.func.attr}()"


def test_what_a_person_named_is_looked_at_in_the_long_form() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {what}"
        for path in sorted(ROOT.rglob("*.py"))
        for line, what in looked_at_in_short(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == []


@pytest.mark.parametrize("form", ["user_path(text, '--x')", "user_path(text, '--x').absolute()"])
def test_the_rule_finds_what_it_is_for(form: str) -> None:
    code = f"def f(text):\n    path = {form}\n    return path.is_file()\n"
    assert list(looked_at_in_short(ast.parse(code))) == [(3, "path.is_file()")]
    assert not list(
        looked_at_in_short(ast.parse(code.replace("path.is_file()", "long_path(path).is_file()")))
    )
