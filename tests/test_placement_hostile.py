"""One bad file stops nothing: journals, registries and state folders with anything in them."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scripts.errors import JournalError, UndoIncompleteError
from scripts.osal.file_operations import Fs
from scripts.osal.paths import plain_spelling
from scripts.placement import place as place_module
from scripts.placement.inspect import Mode
from scripts.placement.journal import parse, record, whole_records
from scripts.placement.layout import STATE, unsafe_path
from scripts.placement.place import Placement, place, placed
from scripts.placement.rollback import undo
from scripts.placement.status import TargetState, placement_status, placements
from scripts.staging.state_folder import PLACEMENTS, PlacementRegistry
from tests.bounds import in_proportion
from tests.placement_harness import GONE, STACK, LightFs, World, loader, mixed_world, pair_world, tree

FS = LightFs()
#: What JSON may hold instead of what belongs there.
WRONG: tuple[object, ...] = (
    *(None, True, False, -1, 2**70, 1.5, float("inf"), "", "x", "\0", "\ud800", "a\udcffb", "x" * 300),
    *("../x", "/x", "C:\\x", [], [[]], {}, {"x": []}, ["\0"], "x/" * 3000 + "y"),
)


def do_place(world: World, **more: object) -> Placement:
    return place(world.target, world.items, **STACK, **{"fs": FS, "user": GONE, **more})  # type: ignore[arg-type]  # by name


def places(value: object, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to every value of a document."""
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, (*path, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from places(inner, (*path, number))


def changed(body: object, path: tuple[Any, ...], value: object) -> object:
    """Return a copy with one value replaced."""
    if not path:
        return value
    copy: Any = json.loads(json.dumps(body))
    here = copy
    for step in path[:-1]:
        here = here[step]
    here[path[-1]] = value
    return copy


def test_a_journal_with_any_wrong_value_is_refused_or_understood(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    world = mixed_world(tmp_path)
    do_place(world)
    journal = world.target / STATE / "journal"
    whole = journal.read_bytes()
    records, _ = whole_records(whole)
    tried = refused = 0
    for number, body in enumerate(records):
        for path in places(body):
            for value in WRONG:
                bodies = [*records[:number], changed(body, path, value), *records[number + 1 :]]
                data = b"".join(record(b) if isinstance(b, dict) else b"x\n" for b in bodies)
                tried += 1
                try:
                    parse(data)
                except JournalError:
                    refused += 1
    assert tried > 1000
    assert refused > tried // 2
    record_property("placement: wrong values in journals", tried)
    assert undo(world.target, fs=FS).complete
    assert tree(world.target) == world.start


@pytest.mark.parametrize("name", ["x" * 256, "ü" * 200, "\ud800", "x\0", "sub/" + "y" * 300])
@pytest.mark.parametrize("key", ["name", "folder"])
def test_a_journal_of_impossible_names_is_refused_before_anything_is_touched(
    tmp_path: Path, name: str, key: str
) -> None:
    if sys.platform == "win32" and name in {"\ud800", "ü" * 200}:
        pytest.skip("Windows has such names")
    world = mixed_world(tmp_path)
    do_place(world)
    journal = world.target / STATE / "journal"
    (begin, *rest), _ = whole_records(journal.read_bytes())
    begin["actions"][-1][key] = name  # type: ignore[index]  # it is a list of objects
    journal.write_bytes(b"".join(map(record, (begin, *rest))))
    before = tree(world.target)
    with pytest.raises(JournalError) as caught:
        undo(world.target, fs=FS)
    assert int(caught.value.code) == 40
    assert tree(world.target) == before
    assert placement_status(world.target).standing is TargetState.UNREADABLE


@pytest.mark.posix_only
def test_a_path_that_is_too_long_as_a_whole_is_refused(tmp_path: Path) -> None:
    world = mixed_world(tmp_path)
    do_place(world)
    journal = world.target / STATE / "journal"
    (begin, *rest), _ = whole_records(journal.read_bytes())
    begin["actions"][-1]["folder"] = "/".join(["x" * 250] * 17)  # type: ignore[index]  # it is a list of objects
    journal.write_bytes(b"".join(map(record, (begin, *rest))))
    before = tree(world.target)
    with pytest.raises(JournalError):
        undo(world.target, fs=FS)
    assert {k: v for k, v in tree(world.target).items() if k != STATE} == {
        k: v for k, v in before.items() if k != STATE
    }


@pytest.mark.slow
def test_a_damaged_journal_is_read_in_linear_time() -> None:
    text = b"{}"
    good = b"%08d %s " % (len(text), hashlib.sha256(text).hexdigest()[:32].encode())
    for bomb in (good * 200_000, b"x" + good * 200_000 + b"\n", (b"x" + good + b"\n") * 200_000):
        with in_proportion(), contextlib.suppress(JournalError):
            parse(b"bad\n" + bomb)


ENTRIES = [
    *("[" * 100_000, "[]", "", "\0" * 10_000, "{", '{"path": "x", "added": "", "facts": {}}', "\xff"),
    *(json.dumps({"path": value, "added": "", "facts": {}}) for value in WRONG if value != "/x"),
    *(json.dumps({"path": f"/{value}", "added": "", "facts": {}}) for value in ("\0", "\ud800", "x" * 5000)),
    *(json.dumps({"path": "/x/y", "added": value, "facts": value}) for value in WRONG if value != {}),
    '{"path": "/x/y", "facts": {}, "added": ' + "1" * 5000 + "}",
]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(ENTRIES)))
def test_a_bad_entry_of_the_registry_hides_no_other(tmp_path: Path, number: int) -> None:
    world = pair_world(tmp_path)
    registry = PlacementRegistry(tmp_path / "state")
    do_place(world, registry=registry)
    [entry] = (tmp_path / "state").rglob("*.json")
    entry.with_name("0.json").write_bytes(ENTRIES[number].encode("utf-8", "surrogatepass"))
    found = [status.target for status in placements(registry)]
    assert world.target in found
    real = {world.target, Path("/x/y"), *([Path("C:\\x")] if sys.platform == "win32" else [])}
    assert set(found) <= real


def test_an_entry_that_is_a_folder_or_huge_hides_no_other(tmp_path: Path) -> None:
    world = pair_world(tmp_path)
    registry = PlacementRegistry(tmp_path / "state")
    do_place(world, registry=registry)
    [entry] = (tmp_path / "state").rglob("*.json")
    entry.with_name("0.json").mkdir()
    body = {"path": str(tmp_path), "added": "", "facts": {"x": "y" * 1_000_000}}
    entry.with_name("1.json").write_text(json.dumps(body), encoding="ascii")
    assert [status.target for status in placements(registry)] == [world.target]


@pytest.mark.parametrize("where", ["", "originals/", "trash/", "new/", "users/"])
@pytest.mark.parametrize("name", ["notes.txt", "0099", "0001"])
def test_a_file_of_a_strangers_in_our_folder_is_never_deleted_unread(
    tmp_path: Path, where: str, name: str
) -> None:
    world = pair_world(tmp_path)  # 0001 is a replaced file, 0002 a new one
    name = "0002" if (where, name) == ("originals/", "0001") else name
    if where in {"new/", "users/"} and name != "notes.txt":
        pytest.skip("names of our own there, which hold nothing of a user's")
    if (where, name) == ("trash/", "0001"):
        pytest.skip("kept as a second version of the file: see the decision table's tests")
    registry = PlacementRegistry(tmp_path / "state")
    with placed(lambda: do_place(world, registry=registry), signals=False) as session:
        strange = world.target / STATE / f"{where}{name}"
        strange.write_bytes(b"precious")
    assert len(session.left) == 1
    assert f"{STATE}/{where}{name}" in session.left[0]
    assert strange.read_bytes() == b"precious"
    rest = {k: v for k, v in tree(world.target).items() if not k.startswith(STATE)}
    assert rest == world.start
    assert [status.target for status in placements(registry)] == [world.target]
    again = undo(world.target, fs=FS, registry=registry)
    assert not again.complete
    strange.rename(world.root / "moved away")
    assert undo(world.target, fs=FS, registry=registry).complete
    assert tree(world.target) == world.start
    assert placements(registry) == ()


@pytest.mark.parametrize("mode", [Mode.OURS, Mode.THEIRS])
def test_both_ways_out_move_a_strangers_file_beside_the_program(tmp_path: Path, mode: Mode) -> None:
    world = pair_world(tmp_path)
    do_place(world)
    for name in ("notes.txt", "originals/notes.txt"):
        (world.target / STATE / name).write_text(name, encoding="ascii")
    report = undo(world.target, fs=FS, mode=mode)
    assert report.complete
    assert report.aside == ("notes.txt.cuda-amd-found", "notes.txt.cuda-amd-found-2")
    assert (world.target / report.aside[1]).read_text(encoding="ascii") == "originals/notes.txt"
    assert not (world.target / STATE).exists()


def test_a_strangers_file_stops_placing_anew_with_a_sentence(tmp_path: Path) -> None:
    world = pair_world(tmp_path)
    do_place(world)
    (world.target / STATE / "notes.txt").write_bytes(b"precious")
    undo(world.target, fs=FS)
    with pytest.raises(UndoIncompleteError) as caught:
        do_place(world)
    assert "notes.txt" in " ".join(caught.value.context)


class Scanned(LightFs):
    """A virus scanner holds what is moved into the trash for a while."""

    until = 0.0

    def unlink(self, path: Path) -> None:
        if path.parent.name == "trash" and time.monotonic() < Scanned.until:
            raise PermissionError(13, "held")
        super().unlink(path)


@pytest.mark.slow
@pytest.mark.parametrize(("seconds", "pending"), [(1.0, 0), (60.0, 2)])
def test_an_old_file_that_is_held_for_seconds_is_not_left_beside(
    tmp_path: Path, seconds: float, pending: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if pending:
        monkeypatch.setattr("scripts.placement.place.LOOK_AGAIN", (0.01, 0.01))
    world = pair_world(tmp_path)
    fs = Scanned(trades=False)
    with placed(lambda: do_place(world, fs=fs), signals=False) as session:
        Scanned.until = time.monotonic() + seconds
    assert session.left == ()
    assert len(session.pending) == pending
    rest = {k: v for k, v in tree(world.target).items() if not k.startswith(STATE)}
    assert rest == world.start
    Scanned.until = 0.0
    assert undo(world.target, fs=FS).complete
    assert tree(world.target) == world.start


@pytest.mark.windows_only
@pytest.mark.parametrize(
    "spelled", ["\\\\?\\{}", "\\\\.\\{}", "{}\\", "{}\\lib\\..", "{}\\.", "upper", "slashes"]
)
def test_a_target_is_the_same_in_every_spelling(tmp_path: Path, spelled: str) -> None:
    world = mixed_world(tmp_path)
    plain = str(world.target)
    forms = {"upper": plain.upper(), "slashes": plain.replace("\\", "/")}
    registry = PlacementRegistry(tmp_path / "state")
    odd = Path(forms.get(spelled, spelled.format(plain)))
    place(odd, world.items, **STACK, fs=FS, user=GONE, registry=registry)  # type: ignore[arg-type]  # by name
    assert [status.target for status in placements(registry)] == [world.target]
    do_place(world, registry=registry)
    assert [status.target for status in placements(registry)] == [world.target]
    assert undo(odd, fs=FS, registry=registry).complete
    assert placements(registry) == ()
    assert tree(world.target) == world.start


@pytest.mark.windows_only
@pytest.mark.parametrize("ends", [True, False], ids=["for seconds", "for longer"])
def test_a_library_that_a_real_stranger_holds_is_no_failure(
    tmp_path: Path, ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    world.own("helper.dll", b"theirs")
    world.item("", "helper.dll", (Path(sys.executable).parent / "vcruntime140.dll").read_bytes())
    world.settle()
    strangers, looked = [], []

    def look_again(_seconds: float) -> None:
        looked.append(strangers[0].poll() is None)
        if ends and looked[-1]:
            strangers[0].communicate(b"")

    monkeypatch.setattr(place_module, "time", SimpleNamespace(sleep=look_again))
    with placed(lambda: do_place(world, fs=Fs()), signals=False) as session:
        strangers.append(loader(world.target / "helper.dll"))
    try:
        assert looked[0], "the stranger holds it when the program has ended"
        assert session.left == ()
        assert bool(session.pending) is not ends
        assert (world.target / "helper.dll").read_bytes() == b"theirs"
        standing = placement_status(world.target).standing
        assert standing is (TargetState.NOTHING if ends else TargetState.CLEAN_UP)
    finally:
        strangers[0].communicate(b"")
    assert undo(world.target).complete
    assert tree(world.target) == world.start


@pytest.mark.parametrize("name", ["x" * 256, "\ud800", "a/" + "y" * 300])
def test_no_plan_names_what_cannot_be(name: str) -> None:
    if sys.platform == "win32" and name == "\ud800":
        pytest.skip("Windows has such names")
    assert unsafe_path(name)


@pytest.mark.windows_only
@pytest.mark.parametrize("prefix", ["\\\\?\\", "\\\\.\\", ""])
def test_a_system_folder_is_refused_in_every_spelling(tmp_path: Path, prefix: str) -> None:
    root = os.environ["SYSTEMROOT"]
    world = pair_world(tmp_path)
    for folder in (root, f"{root}\\system32", f"{root.upper()}\\SYSTEM32\\drivers"):
        spelled = Path(prefix + folder)
        assert plain_spelling(str(spelled)).upper() == folder.upper()
        with pytest.raises(Exception, match="belongs to the operating system"):
            place(spelled, world.items, **STACK, fs=FS, user=GONE, system_folders=(Path(root),))  # type: ignore[arg-type]  # by name
        assert not [name for name in os.listdir(folder) if "cuda-amd" in name]  # noqa: PTH208 - names alone


class Watched(LightFs):
    """Something looks at the lock that was removed, so that its name stays for a while (Windows)."""

    tries = 0

    def rmdir(self, folder: Path) -> bool:
        self.tries += folder.name == STATE
        return super().rmdir(folder) if folder.name != STATE or self.tries > 3 else False


def test_a_folder_that_is_watched_while_it_goes_is_not_left(tmp_path: Path) -> None:
    world = pair_world(tmp_path)
    fs = Watched()
    do_place(world, fs=fs).leave()
    assert fs.tries == 4
    assert tree(world.target) == world.start


@pytest.mark.slow
def test_listing_while_others_place_and_undo_never_fails(tmp_path: Path) -> None:
    world = pair_world(tmp_path)
    registry = PlacementRegistry(tmp_path / "state")
    stop = threading.Event()
    failed: list[BaseException] = []

    def watch() -> None:
        while not stop.is_set():
            try:
                placements(registry)
            except BaseException as error:  # noqa: BLE001 - any of them is the finding
                failed.append(error)
                return

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        for _ in range(30):
            do_place(world, registry=registry).leave()
    finally:
        stop.set()
        watcher.join()
    assert failed == []
    assert registry.entries(PLACEMENTS) == ()
    assert tree(world.target) == world.start
