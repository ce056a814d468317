"""The one walk over imports: order, chains, limits. What each user makes of it is tested with that user."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from scripts.binary.imports import (
    AskedName,
    ImportWalk,
    ReachedFile,
    WindowsFolders,
    asked_name,
    search_path,
)

Table = Mapping[str, Sequence[tuple[str, int]]]


def reader(table: Table, seen: list[ReachedFile], missing: str = "") -> Callable[..., Iterator[AskedName]]:
    def read(file: ReachedFile) -> Iterator[AskedName]:
        seen.append(file)
        for name, rank in table.get(file.path.name, ()):
            yield AskedName(name=name, found=None if name in missing.split() else Path(name), rank=rank)

    return read


def test_surer_ways_come_before_shorter_ones_and_each_file_is_read_once() -> None:
    table = {"app": [("b", 1), ("a", 0)], "a": [("c", 0)], "c": [("b", 0), ("app", 0)], "b": [("d", 0)]}
    seen: list[ReachedFile] = []
    walk = ImportWalk(reader(table, seen))
    walk.add(Path("app"))
    assert (list(walk), walk.complete) == ([], True)
    assert [(file.path.name, file.rank, file.chain) for file in seen] == [
        ("app", 0, ("app",)),
        ("a", 0, ("app", "a")),
        ("c", 0, ("app", "a", "c")),
        ("b", 0, ("app", "a", "c", "b")),
        ("d", 0, ("app", "a", "c", "b", "d")),
    ]


def test_what_leads_nowhere_is_named_with_who_asks_and_how_sure_it_is() -> None:
    table = {"app": [("a", 1), ("x", 0)], "a": [("x", 0), ("y", 0)]}
    walk = ImportWalk(reader(table, [], "x y"))
    walk.add(Path("app"), chain=("package", "app"))
    assert [(lost.name, lost.asker.chain, lost.rank) for lost in walk] == [
        ("x", ("package", "app"), 0),
        ("x", ("package", "app", "a"), 1),
        ("y", ("package", "app", "a"), 1),
    ]


@pytest.mark.parametrize(("limit", "complete"), [(3, False), (4, True)])
def test_a_limit_is_said(limit: int, complete: bool) -> None:
    seen: list[ReachedFile] = []
    walk = ImportWalk(reader({"app": [("a", 0), ("b", 0), ("c", 0), ("app", 0)]}, seen), limit=limit)
    walk.add(Path("app"))
    assert (list(walk), len(seen), walk.complete) == ([], limit, complete)


@pytest.mark.posix_only
def test_a_link_and_its_file_are_one(tmp_path: Path) -> None:
    (tmp_path / "liba.so.1").write_bytes(b"")
    (tmp_path / "liba.so").symlink_to("liba.so.1")
    seen: list[ReachedFile] = []
    walk = ImportWalk(reader({}, seen))
    for name in ("liba.so", "liba.so.1"):
        walk.add(tmp_path / name)
    assert (list(walk), [file.path.name for file in seen]) == ([], ["liba.so.1"])


def test_windows_folders_are_searched_in_order_and_without_regard_to_case(tmp_path: Path) -> None:
    for folder, name in (("one", "A.DLL"), ("two", "a.dll"), ("two", "b.dll")):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / name).write_bytes(b"")
    folders = WindowsFolders()
    order = [None, tmp_path / "nowhere", tmp_path / "one", tmp_path / "two"]
    found = [folders.find(name, order) for name in ("a.dll", "B.dll", "c.dll")]
    assert found == [tmp_path / "one" / "A.DLL", tmp_path / "two" / "b.dll", None]


@pytest.mark.parametrize("text", ["a.dll", r"C:\x\a.dll", "x/a.dll", r"..\x/a.dll", r"\\?\C:\a.dll"])
def test_a_librarys_name_is_found_in_every_spelling(text: str) -> None:
    assert asked_name(text) == "a.dll"


@pytest.mark.posix_only
def test_the_tokens_of_the_linux_loader_are_expanded() -> None:
    """``$LIB`` differs by distribution, so each folder that it may be is searched; others are left out."""
    asker = Path("/opt/a/b/prog")
    entries = ["$ORIGIN/../${LIB}", "/opt/x/$PLATFORM", "relative/$ORIGIN", "/opt/$OTHER", "${ORIGIN}"]
    assert [path.as_posix() for path in search_path(asker, entries)] == [
        "/opt/a/b/../lib/x86_64-linux-gnu",
        "/opt/a/b/../lib64",
        "/opt/a/b/../lib",
        "/opt/x/x86_64",
        "/opt/a/b",
    ]
