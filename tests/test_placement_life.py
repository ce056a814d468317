"""Any life a target may have: placed, undone, crashed, tampered with, written into, by either stack."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from scripts.errors import ConflictError, UndoIncompleteError
from scripts.placement.place import place
from scripts.placement.rollback import undo
from tests.placement_harness import GONE, MEMORY, VARIANTS, Died, DyingFs, LightFs, World

NAMES = ("a.dll", "lib/b.dll", "lib/c.dll", "lib/d.dll")
names = st.sampled_from(NAMES)
points = st.integers(1, 40)
stacks = st.sampled_from(["first", "second"])


class Life(RuleBasedStateMachine):
    """``safe`` is every content of the user's that must exist; ``names`` what each name must hold."""

    steps = 0

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(dir=MEMORY))
        self.world = World(self.root)
        self.names: dict[str, bytes] = {}
        self.safe: set[bytes] = set()
        self.touched: set[str] = set()
        self.writes = 0
        self.options: dict[str, bool] = {}

    @initialize(variant=st.sampled_from(sorted(VARIANTS)))
    def begin(self, variant: str) -> None:
        self.options = VARIANTS[variant]
        for name in NAMES[:2]:
            self.world.own(name, b"original " + name.encode())
            self.names[name] = b"original " + name.encode()
        self.world.own("lib/bystander.dll", b"bystander")
        self.safe = {*self.names.values(), b"bystander"}
        for name in NAMES:
            folder, _, last = name.rpartition("/")
            self.world.item(folder, last, b"ours " + name.encode())

    def teardown(self) -> None:
        try:
            if not undo(self.world.target, fs=self.fs()).complete:
                self.rescue("theirs")
            self.settled()
            ours = {b"ours " + name.encode() for name in NAMES}
            assert not ours & set(self.contents()), "something of ours was left behind"
        finally:
            shutil.rmtree(self.root)

    # What the workspace does --------------------------------------------------------------------

    def fs(self) -> LightFs:
        return LightFs(**self.options)

    def attempt(self, act: Callable[[], object]) -> None:
        Life.steps += 1
        with contextlib.suppress(Died, ConflictError, UndoIncompleteError):
            act()
        self.settled()

    def place_with(self, fs: LightFs, stack: str) -> None:
        place(self.world.target, self.world.items, stack=stack, digest="d", fs=fs, user=GONE)

    @rule(stack=stacks)
    def place(self, stack: str) -> None:
        self.attempt(lambda: self.place_with(self.fs(), stack))

    @rule(stack=stacks, at=points, half=st.booleans())
    def die_placing(self, stack: str, at: int, half: bool) -> None:
        self.attempt(lambda: self.place_with(DyingFs(at, half=half, **self.options), stack))

    @rule()
    def undo(self) -> None:
        self.attempt(lambda: undo(self.world.target, fs=self.fs()))

    @rule(at=points, half=st.booleans())
    def die_undoing(self, at: int, half: bool) -> None:
        self.attempt(lambda: undo(self.world.target, fs=DyingFs(at, half=half, **self.options)))

    @rule(mode=st.sampled_from(["ours", "theirs"]))
    def rescue(self, mode: str) -> None:
        assert undo(self.world.target, fs=self.fs(), mode=mode).complete
        self.settled()

    @rule(mode=st.sampled_from(["ours", "theirs"]), at=points)
    def die_rescuing(self, mode: str, at: int) -> None:
        self.attempt(lambda: undo(self.world.target, fs=DyingFs(at, **self.options), mode=mode))

    # What others do -----------------------------------------------------------------------------

    def write(self, name: str, *, anew: bool) -> None:
        path = self.world.target / name
        self.writes += 1
        content = b"written %d" % self.writes
        if path.exists():
            self.safe.discard(path.read_bytes())  # the user overwrites it, knowingly
            if anew:
                path.unlink()
        path.write_bytes(content)
        self.safe.add(content)
        self.changed(name, content)

    def changed(self, name: str, content: bytes | None) -> None:
        if (self.world.target / ".cuda-amd").exists():
            self.touched.add(name)
        elif content is None:
            self.names.pop(name, None)
        else:
            self.names[name] = content

    @rule(name=names)
    def user_replaces(self, name: str) -> None:
        self.write(name, anew=True)

    @rule(name=names)
    def program_overwrites(self, name: str) -> None:
        if (self.world.target / name).exists():
            self.write(name, anew=False)

    @rule(name=names)
    def user_deletes(self, name: str) -> None:
        path = self.world.target / name
        if path.exists():
            self.safe.discard(path.read_bytes())
            path.unlink()
            self.changed(name, None)

    @rule()
    def program_writes_its_own(self) -> None:
        self.writes += 1
        self.world.own(f"lib/own-{self.writes}", b"own %d" % self.writes)
        self.safe.add(b"own %d" % self.writes)

    # What must hold -----------------------------------------------------------------------------

    def contents(self) -> Iterator[bytes]:
        return (path.read_bytes() for path in self.world.target.rglob("*") if path.is_file())

    @invariant()
    def nothing_is_lost(self) -> None:
        missing = self.safe - set(self.contents())
        assert not missing

    def settled(self) -> None:
        """When our folder is gone, every name that nobody touched holds what it held."""
        if (self.world.target / ".cuda-amd").exists():
            return
        for name in NAMES:
            path = self.world.target / name
            now = path.read_bytes() if path.exists() else None
            if name not in self.touched:
                assert now == self.names.get(name), name
            elif now is None:
                self.names.pop(name, None)
            else:
                self.names[name] = now
        self.touched.clear()


@pytest.mark.slow
def test_no_life_loses_a_byte_or_leaves_one(record_property: Callable[[str, object], None]) -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call] # Hypothesis leaves it untyped
        Life,
        settings=settings(
            max_examples=60 if sys.platform != "win32" else 6, stateful_step_count=20, deadline=None
        ),
    )
    record_property("placement: acts in random lives", Life.steps)


def test_the_machine_can_fail(tmp_path: Path) -> None:
    """A placement whose originals vanish is noticed by the invariant."""
    life = Life()
    try:
        life.begin(variant="all")
        life.place_with(life.fs(), "first")
        shutil.rmtree(life.world.target / ".cuda-amd" / "originals")
        lost = life.safe - set(life.contents())
        assert {hashlib.sha256(content).hexdigest() for content in lost} == {
            hashlib.sha256(life.names[name]).hexdigest() for name in NAMES[:2]
        }
    finally:
        shutil.rmtree(life.root)
