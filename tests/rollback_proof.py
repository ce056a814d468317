"""Proof that an upgrade can die anywhere and leave nothing, and that going back leaves nothing either.

`nox -s rollback_proof` runs all of it; `tests/test_rollback_proof.py` runs one pair of stacks each time.

Three small stacks of a lock of their own, served from a folder. Each world has its store, stage, registry,
home and a program with one of the stacks kept beside it. On Linux a death is a real one (fork, then
``_exit``, so that no ``finally`` of ours runs); on Windows it is an exception that nothing of ours catches.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import shutil
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from scripts.app import setup as setup_steps
from scripts.app.cleanup import cache_prune, remove
from scripts.app.context import Staged, Workspace, cache_of, host_of, lock_of, staged_runtime
from scripts.app.setup import setup, stage
from scripts.app.setup_steps import Flow, StepNotes
from scripts.app.stacks import rollback, use
from scripts.app.status import status
from scripts.app.unwrap import unwrap
from scripts.app.validation_steps import differences, tree_of
from scripts.app.verify import verify
from scripts.app.wrap_placing import BesidePlacer, registry_of
from scripts.app.wrap_placing import digest_of as digest_of_shim
from scripts.bench.workloads import workloads
from scripts.staging.runtimes import load_runtime, read_history
from scripts.staging.state_folder import SHIMS
from tests.checkout import HIDDEN, ROOT, compiler
from tests.small_stack import make_zip

STACKS = ("one", "two", "three")
PAIRS = tuple(itertools.permutations(STACKS, 2))
#: The steps of `setup`; it may die after each of them, and after the last one before anything is switched.
STEPS = ("scan", "select", "bill", "fetch", "unpack", "build", "assemble", "verify", "check", "run", "report")
DIED = 77
#: One upgrade dies a dozen times, and each death costs a process; under Wine that takes minutes.
pytestmark = pytest.mark.timeout(1800)
#: What a run writes to tell what it saw; it is no state, and `remove` takes it away.
TOLD = ("reports", ".generations.lock")
ARTIFACT = """
[[artifact]]
id = "{name}"
urls = ["https://github.com/example/{name}/releases/download/v1/{name}.zip"]
sha256 = "{sha256}"
size = {size}
format = "zip"
root = "{name}"
license = "MIT"
source = "example/{name}@0000000"
trust = "single-report"
members = [
  {{ path = "extra-{name}.bin" }},
]
"""
STACK = """
[[stack]]
id = "{name}"
kind = "reference"
parts = ["{name}"]
hip = {{ from = "none" }}
"""


class Died(BaseException):
    """The process ended here, as far as the code under test can tell."""


def write_lock(folder: Path) -> Path:
    """Pin one small archive for each stack, and put all of them into the mirror folder."""
    text = "version = 1\n"
    mirror = folder / "mirror"
    mirror.mkdir()
    for name in STACKS:
        data = make_zip({f"{name}/extra-{name}.bin": name.encode() * 1000})
        (mirror / f"{name}.zip").write_bytes(data)
        text += ARTIFACT.format(name=name, sha256=hashlib.sha256(data).hexdigest(), size=len(data))
    for name in STACKS:
        text += STACK.format(name=name)
    path = folder / "three.lock"
    path.write_text(text, encoding="utf-8", newline="\n")
    return path


@dataclass(frozen=True)
class World:
    """One machine: everything that may be written lies below ``folder``."""

    folder: Path
    ws: Workspace

    @property
    def program(self) -> Path:
        """The program that the user wants to run."""
        return self.folder / "Mein Programm" / "app.exe"

    @property
    def target(self) -> Path:
        """Its folder."""
        return self.program.parent

    def setup(self, stack: str) -> int:
        """Set a stack up and return the generation."""
        done = setup(self.ws, stack=stack, yes=True, mirror=str(self.folder / "mirror"))
        assert done.generation is not None, done.failures
        return done.generation

    def keep_beside(self, staged: Staged) -> None:
        """Place a stack beside the program, and leave it there."""
        with BesidePlacer(self.ws)(staged, self.program, keep=True):
            pass


def make_world(folder: Path, template: Path | None = None) -> World:
    """Make a machine where nothing was ever done; ``template`` is a store with our C already compiled."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("home", "Mein Programm", "checkout/stage"):
        (folder / name).mkdir(parents=True)
    (folder / "home" / ".profile").write_text("export MINE=1\n", encoding="utf-8")
    (folder / "Mein Programm" / "app.exe").write_bytes(b"a program of the user's")
    (folder / "Mein Programm" / "libcuda.so.1").write_bytes(b"its own copy")
    (folder / "Mein Programm" / "nvcuda.dll").write_bytes(b"its own copy")
    if template is not None:
        shutil.copytree(template, folder / "store")
    home = str(folder / "home")
    environ = {name: value for name, value in os.environ.items() if not name.upper().startswith(HIDDEN)}
    environ |= {"HOME": home, "USERPROFILE": home, "APPDATA": home, "LOCALAPPDATA": home, "PYTHONUTF8": "1"}
    ws = Workspace(
        root=ROOT,
        lock_path=write_lock(folder),
        custom_lock=True,
        cache_root=folder / "store",
        stage=folder / "checkout" / "stage",
        state_root=folder / "state",
        environ=environ | compiler(),
    )
    return World(folder=folder, ws=ws)


@dataclass(frozen=True)
class Seen:
    """Everything that must be as before."""

    target: Mapping[str, object]
    stage: Mapping[str, object]
    store: frozenset[str]
    home: Mapping[str, object]
    environment: Mapping[str, str]
    registry: Mapping[str, object]


def look(world: World) -> Seen:
    """Take all of it in."""
    ws = world.ws
    stage_tree = {n: node for n, node in tree_of(ws.stage).items() if n.split("/")[0] not in TOLD}
    return Seen(
        target=tree_of(world.target),
        stage=stage_tree,
        store=frozenset(f"{e.kind.value} {e.key}" for e in cache_of(ws).entries()),
        home=tree_of(world.folder / "home"),
        environment=dict(os.environ),
        registry=windows_registry(),
    )


def windows_registry() -> dict[str, object]:
    """Read what installers like to change for a user: the variables, and which programs are known."""
    if sys.platform != "win32":
        return {}
    import winreg  # noqa: PLC0415 - Windows only

    found: dict[str, object] = {}
    for name in ("Environment", "Software", r"Software\Microsoft\Windows\CurrentVersion\Run"):
        try:
            with winreg.OpenKey(winreg.HKEY_CURRENT_USER, name) as key:
                keys, values, _ = winreg.QueryInfoKey(key)
                found[name] = (
                    sorted(winreg.EnumKey(key, n) for n in range(keys)),
                    sorted(str(winreg.EnumValue(key, n)) for n in range(values)),
                )
        except FileNotFoundError:
            found[name] = None
    return found


@contextmanager
def dying_after(monkeypatch: pytest.MonkeyPatch, name: str) -> Iterator[None]:
    """Let the flow die when it has done one of its steps."""
    original = Flow.step

    @contextmanager
    def step(self: Flow, step_name: str, coming: str = "") -> Iterator[StepNotes]:
        with original(self, step_name, coming) as notes:
            yield notes
        if step_name == name:
            if sys.platform != "win32":
                os._exit(DIED)
            raise Died

    with monkeypatch.context() as patch:
        patch.setattr(Flow, "step", step)
        yield


def die_in_setup(world: World, stack: str, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set a stack up and die after a step of it."""
    if sys.platform == "win32":
        with dying_after(monkeypatch, step), pytest.raises(Died):
            world.setup(stack)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of forking beside threads
        child = os.fork()
    if child == 0:
        try:
            with dying_after(monkeypatch, step):
                world.setup(stack)
        finally:
            os._exit(1)  # it should have died before
    _, ended = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(ended) == DIED, f"setup did not come to {step}"


@pytest.fixture(autouse=True)
def _small_product(monkeypatch: pytest.MonkeyPatch) -> None:
    """Multiply small matrices: what counts here is what is left behind."""
    small = {**workloads(), "gemm": replace(workloads()["gemm"], size=64)}
    monkeypatch.setattr(setup_steps, "workloads", lambda: small)


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store where our C has been compiled, so that it happens once."""
    world = make_world(tmp_path_factory.mktemp("template") / "w")
    stage(world.ws, stack="one", yes=True, mirror=str(world.folder / "mirror"))
    return world.folder / "store"


@pytest.fixture
def world(tmp_path: Path, template: Path) -> World:
    return make_world(tmp_path / "w", template)


@pytest.mark.parametrize(("before", "after"), PAIRS, ids=str)
def test_an_upgrade_that_dies_leaves_nothing(
    world: World, before: str, after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.setup(before)
    world.keep_beside(staged_runtime(world.ws, before))
    cache_prune(world.ws)
    start = look(world)
    for step in STEPS:
        die_in_setup(world, after, step, monkeypatch)
        assert status(world.ws).active.stack == before  # type: ignore[union-attr]  # something is active
        assert verify(world.ws).exit_code == 0
        left = look(world).store - start.store
        assert bool(left) == (STEPS.index(step) >= STEPS.index("fetch")), (
            "what was fetched is kept for the next try"
        )
        cache_prune(world.ws)
        assert look(world) == start, f"died after {step}"
    world.setup(after)
    assert status(world.ws).active.stack == after  # type: ignore[union-attr]  # something is active


@pytest.mark.parametrize(("before", "after"), PAIRS, ids=str)
def test_there_and_back_again_leaves_nothing(
    world: World, before: str, after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    untouched = tree_of(world.target)
    world.setup(before)
    world.keep_beside(staged_runtime(world.ws, before))
    cache_prune(world.ws)
    start = look(world)
    world.setup(after)
    both = look(world)
    assert both.target == start.target, "what is beside a program stays what it was"
    for step in STEPS[:8]:  # what was proven once is not proven again
        die_in_setup(world, before, step, monkeypatch)
        assert status(world.ws).active.stack == after  # type: ignore[union-attr]  # something is active
        assert look(world) == both, f"died on the way back, after {step}"
    rollback(world.ws)
    assert status(world.ws).active.stack == before  # type: ignore[union-attr]  # something is active
    use(world.ws, stack=after)
    rollback(world.ws, to="1")
    cache_prune(world.ws)
    back = look(world)
    assert (back.target, back.home, back.environment, back.registry) == (
        start.target,
        start.home,
        start.environment,
        start.registry,
    )
    assert back.store == both.store, (
        "a generation that one can go back to keeps its files, and nothing else is kept"
    )
    assert set(back.stage) == set(start.stage) == {"generations.json"}
    unwrap(world.ws, target=str(world.target))
    assert differences(untouched, tree_of(world.target)) == ()


def test_pruning_keeps_what_generations_placements_and_shims_refer_to(world: World) -> None:
    ws, mirror = world.ws, str(world.folder / "mirror")
    world.setup("one")
    for name in ("two", "three"):
        stage(ws, stack=name, yes=True, mirror=mirror)
    digests = {name: digest_of(world, name) for name in STACKS}
    runtime = load_runtime(cache_of(ws), digests["two"], stack="two")
    assert runtime is not None
    lock = lock_of(ws)
    world.keep_beside(Staged(lock=lock, stack=lock.stacks["two"], runtime=runtime, host=host_of(ws)))

    script = world.folder / "start three.cmd"
    script.write_bytes(b"a shim")
    known = {"digest": digests["three"], "sha256": digest_of_shim(b"a shim")}
    registry_of(ws).add(SHIMS, script, program="app", stack="three", **known)

    def kept() -> set[str]:
        cache_prune(ws)
        here = {entry.key for entry in cache_of(ws).entries()}
        return {name for name, digest in digests.items() if digest in here}

    assert kept() == {"one", "two", "three"}, "one is active, two is beside a program, three has a shim"
    script.unlink()
    assert kept() == {"one", "two"}, "the shim is gone"
    names = {entry.key for entry in cache_of(ws).entries()}
    archives = {name: lock.artifacts[name].sha256 for name in STACKS}
    assert {name for name, sha256 in archives.items() if sha256 in names} == {"one", "two"}
    unwrap(ws, target=str(world.target))
    assert kept() == {"one"}
    assert {g.stack for g in read_history(ws.stage).generations} == {"one"}


def digest_of(world: World, stack: str) -> str:
    """Return the digest of a stack's runtime, staged or not."""
    flow_result = stage(world.ws, stack=stack, yes=True, mirror=str(world.folder / "mirror"))
    return flow_result.digest


def test_removing_leaves_the_machine_as_before_the_first_command(tmp_path: Path, template: Path) -> None:
    world = make_world(tmp_path / "w")
    before, registry, environment = tree_of(world.folder), windows_registry(), dict(os.environ)
    shutil.copytree(template, world.folder / "store")  # as the first command would have compiled it
    for name in STACKS:
        world.setup(name)
    world.keep_beside(staged_runtime(world.ws, "two"))
    rollback(world.ws)
    cache_prune(world.ws)
    unwrap(world.ws, all_=True)
    remove(world.ws, yes=True)
    folders = {
        "Mein Programm",
        "checkout/stage",
        "",
    }  # only the times of folders that we wrote into may differ
    after = tree_of(world.folder)
    lines = differences(before, after)
    assert [line for line in lines if line.split(": ")[0] not in folders] == []
    assert all(line.endswith(": other mtime_ns") for line in lines), lines
    assert (windows_registry(), dict(os.environ)) == (registry, environment)
