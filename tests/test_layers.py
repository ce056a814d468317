"""The arrows point down: a room imports from lower layers only."""

from __future__ import annotations

import ast
import functools
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import scripts
import scripts.__main__ as front_door
from tests.proof_files import LEFT_OUT, marks_of_file

PACKAGE = Path(scripts.__file__).parent
ROW = {room: row for row, rooms in enumerate(scripts.LAYERS) for room in rooms}
MODULES = sorted(p for p in PACKAGE.rglob("*.py"))
#: Lines of the longest module that is allowed.
LONGEST = 450


#: A comment that takes one line out of a rule, and the same with its reason.
EXCEPTION = re.compile(r"# (?:noqa|type: ignore)\b")
REASONED = re.compile(r"# (?:noqa: [A-Z0-9, ]+ - |type: ignore\[[a-z, -]+\] +# )\S|ruff: noqa: ")
#: Where a distribution's import name is another one.
IMPORTED_AS = {
    "axe-core-python": "axe_core_python",
    "cyclonedx-python-lib": "cyclonedx",
    "pyelftools": "elftools",
    "pillow": "PIL",
    "pytest-httpserver": "pytest_httpserver",
    "pytest-timeout": "pytest_timeout",
    "pytest-xdist": "xdist",
}


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


@functools.cache
def tree(path: Path) -> ast.Module:
    """A file's syntax; many tests ask, and reading takes most of their time."""
    return ast.parse(path.read_bytes())


def statements(body: list[ast.AST]) -> Iterator[ast.AST]:
    """Yield the statements of a body and of the bodies in them; expressions are most of a file."""
    for node in body:
        yield node
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            yield from statements(getattr(node, name, []))


def imports(path: Path) -> Iterator[tuple[str, int]]:
    for node in statements([tree(path)]):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            if node.module == "scripts":
                for alias in node.names:
                    yield f"scripts.{alias.name}", node.lineno
            else:
                yield node.module or "", node.lineno


def ours(path: Path) -> Iterator[tuple[str, int]]:
    for name, line in imports(path):
        parts = name.split(".")
        if parts[0] == "scripts" and len(parts) > 1:
            yield parts[1], line


def every_source(root: Path) -> list[Path]:
    """Every Python file of ours, tests and tools included."""
    beside = (path for folder in ("tests", "tools") for path in (root / folder).rglob("*.py"))
    return [*MODULES, root / "tasks.py", root / "noxfile.py", *beside]


def test_every_room_has_a_layer() -> None:
    rooms = {room_of(p) for p in MODULES} - {"__init__"}
    assert rooms <= set(ROW) | set(scripts.ALONE), "a room without a layer: name it in scripts/__init__.py"


def wrong_arrows(path: Path) -> Iterator[str]:
    """Imports of a module that do not point down."""
    here = room_of(path)
    for room, line in ours(path):
        if room in {here, "__version__"} or here in {"__main__", "own_venv"}:
            continue
        where = f"{path.relative_to(PACKAGE)}:{line} imports scripts.{room}"
        if here in {"__init__", "inside"}:
            yield f"{where}, but imports nothing of ours"
        elif ROW[room] >= ROW[here]:
            yield f"{where}: not a lower layer"


def test_imports_point_down() -> None:
    wrong = [each for path in MODULES for each in wrong_arrows(path)]
    assert not wrong, "\n".join(wrong)


def test_foreign_libraries_have_one_owner() -> None:
    wrong = [
        f"{path.relative_to(PACKAGE)}:{line} imports {name}; owner: {owners}"
        for path in MODULES
        for name, line in imports(path)
        if (owners := scripts.OWNERS.get(name.split(".")[0])) and room_of(path) not in owners
    ]
    assert not wrong, "\n".join(wrong)


def test_only_app_host_and_main_read_the_environment() -> None:
    for path in MODULES:
        if room_of(path) in {"app", "host", "__main__", "inside"}:
            continue
        text = path.read_text(encoding="utf-8")
        assert "os.environ" not in text, f"{path.relative_to(PACKAGE)} reads os.environ"


def test_modules_stay_small() -> None:
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    large = [
        f"{path.relative_to(PACKAGE)} has {count} lines" for path, count in lines.items() if count > LONGEST
    ]
    assert not large, "a room is missing:\n" + "\n".join(large)


def dependencies(group: str = "") -> set[str]:
    settings = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text(encoding="utf-8"))
    lines = settings["dependency-groups"][group] if group else settings["project"]["dependencies"]
    names = {re.split(r"[ ;<>=!\[]", line)[0] for line in lines}
    return {IMPORTED_AS.get(name, name) for name in names}


def test_every_dependency_is_imported_by_something() -> None:
    root = PACKAGE.parent
    sources = every_source(root)
    used = {name.split(".")[0] for path in sources for name, _line in imports(path)}
    assert dependencies() <= used, (
        "a package that nothing imports: take it out of pyproject.toml and the lock"
    )


def test_the_front_door_asks_for_exactly_the_dependencies() -> None:
    assert set(front_door.PROBES) == dependencies()
    assert set(front_door.TEST_PROBES) == dependencies("test")


def test_every_exception_from_a_rule_says_why() -> None:
    root = PACKAGE.parent
    sources = every_source(root)
    silent = [
        f"{path.relative_to(root)}:{number}"
        for path in sources
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if EXCEPTION.search(line) and not REASONED.search(line)
    ]
    assert silent == []


def test_programs_of_tests_start_from_a_path_with_a_space() -> None:
    """A first line that names the interpreter does not: use ``tests/python_programs.py``."""
    line = "#!{sys." + "executable}"
    files = (PACKAGE.parent / "tests").rglob("*.py")
    assert [path.name for path in files if line in path.read_text(encoding="utf-8")] == []


def test_no_class_name_stands_twice() -> None:
    names: dict[str, set[str]] = {}
    for path in MODULES:
        for node in statements([tree(path)]):
            if isinstance(node, ast.ClassDef):
                names.setdefault(node.name, set()).add(path.relative_to(PACKAGE).as_posix())
    again = {name: places for name, places in names.items() if len(places) > 1}
    assert not again, "give the class its room's name"


def test_a_small_module_with_one_importer_belongs_to_it() -> None:
    lines = {".".join(p.relative_to(PACKAGE).with_suffix("").parts): p for p in MODULES}
    importers: dict[str, set[str]] = {name: set() for name in lines}
    for name, path in lines.items():
        for node in statements([tree(path)]):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("scripts."):
                module = str(node.module).removeprefix("scripts.")
                for each in (module, *(f"{module}.{alias.name}" for alias in node.names)):
                    importers.get(each, set()).add(name)
    small = {
        name
        for name, path in lines.items()
        if len(importers[name] - {name}) == 1 and path.read_bytes().count(b"\n") < 60
    }
    assert not small, f"join them to their importers: {sorted(small)}"


def assigned_marks(path: Path) -> set[str]:
    """Return which of the marks that the short run leaves out a file gives to all of its tests."""
    values = [
        node.value
        for node in tree(path).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
    ]
    named = {each.attr for value in values for each in ast.walk(value) if isinstance(each, ast.Attribute)}
    return named.intersection(LEFT_OUT)


def test_files_that_are_left_out_are_known_by_their_text() -> None:
    """The short run does not import them, so that each of them and no other has to be found."""
    for path in Path(__file__).parent.glob("test_*.py"):
        assert marks_of_file(path) == assigned_marks(path), path.name


def test_the_short_run_touches_every_room() -> None:
    files = [path for path in Path(__file__).parent.glob("test_*.py") if not marks_of_file(path)]
    touched = {room for path in files for room, _line in ours(path)}
    assert set(ROW) - touched == set(), "only files of slow tests look at these rooms"
