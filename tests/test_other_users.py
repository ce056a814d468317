"""As another user: a checkout of root's that cannot be written, a store and program folders of others."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.checkout import Checkout, make_checkout

pytestmark = [pytest.mark.posix_only, pytest.mark.proof]

#: A user without an entry in the list of users, as in many containers, and one that has one.
USERS = {"without a name": 54321, "nobody": 65534}


@dataclass
class Person:
    """A user other than root, with a home of their own."""

    checkout: Checkout
    uid: int
    home: Path
    python: str

    def run(self, *words: str, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
        environ = {k: v for k, v in self.checkout.environ.items() if k not in {"USER", "LOGNAME"}}
        environ |= {"HOME": str(self.home), "CUDA_AMD_STATE": str(self.home / "state"), **env}
        environ |= {} if self.python == sys.executable else {"PYTHONPATH": sysconfig.get_path("purelib")}
        return subprocess.run(
            [self.python, str(self.checkout.root / "scripts"), *words],
            cwd=cwd or self.home,
            env=environ,
            user=self.uid,
            group=self.uid,
            extra_groups=[],
            umask=0o022,
            capture_output=True,
            text=True,
            encoding="utf-8",
            stdin=subprocess.DEVNULL,
            timeout=240,
            check=False,
        )


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder that everybody may enter; pytest's own are root's alone."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    folder = Path(tempfile.mkdtemp(prefix="other users "))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def ready(place: Path) -> Checkout:
    """A checkout of root's where the CPU reference is active; others may read it."""
    os.umask(0o022)
    checkout = make_checkout(place)
    checkout.front_door()
    checkout.json("setup")
    return checkout


@pytest.fixture(params=USERS)
def person(request: pytest.FixtureRequest, ready: Checkout, place: Path) -> Person:
    uid = USERS[request.param]
    home = place / f"home of {uid}"
    home.mkdir(exist_ok=True)
    os.chown(home, uid, uid)
    return Person(ready, uid, home, python_of(uid))


def python_of(uid: int) -> str:
    """Return a Python that this user can start; the one of the tests may lie in root's home."""
    system = f"/usr/bin/python{sys.version_info[0]}.{sys.version_info[1]}"
    for python in (sys.executable, system):
        with suppress(OSError):
            line = [python, "-c", "import sys; print(sys.version_info[:2])"]
            found = subprocess.run(
                line, user=uid, group=uid, extra_groups=[], check=False, capture_output=True, cwd="/"
            )
            if found.returncode == 0:
                return python
    pytest.skip("no Python of this version can be started by another user")


def files(folder: Path) -> dict[str, tuple[int, int]]:
    """What lies in a folder, with size and time of each."""
    return {
        str(path): (path.lstat().st_size, path.lstat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if "__pycache__" not in path.parts and not path.is_dir()
    }


def assert_sentence(done: subprocess.CompletedProcess[str], *codes: int) -> None:
    assert done.returncode in codes, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == 0 or "What to do: " in done.stderr


@pytest.mark.parametrize("task", ["status", "scan", "stacks", "verify", "cache.list", "doctor", "check"])
def test_what_only_looks_works_in_a_checkout_of_roots(person: Person, task: str) -> None:
    before = files(person.checkout.root)
    done = person.run(task)
    assert_sentence(done, 0)
    assert files(person.checkout.root) == before


def test_a_program_of_ones_own_runs_with_roots_stack(person: Person) -> None:
    done = person.run("wrap", "--exe=sh", "--via=env", "--", "-c", "echo $LD_LIBRARY_PATH; exit 7")
    assert done.returncode == 7, done.stderr
    assert str(person.checkout.cache) in done.stdout
    assert "Traceback" not in done.stderr


def test_files_are_placed_beside_ones_own_program_and_taken_back(person: Person) -> None:
    folder = person.home / "program"
    folder.mkdir(exist_ok=True)
    shutil.copy(shutil.which("true") or "true", folder / "program")
    os.chown(folder, person.uid, person.uid)
    before = files(folder)
    kept = person.run("wrap", f"--exe={folder / 'program'}", "--keep")
    assert kept.returncode == 0, kept.stderr
    assert (folder / "libcuda.so.1").stat().st_uid == person.uid
    assert str(folder) in person.run("status").stdout
    assert_sentence(person.run("unwrap", f"--target={folder}"), 0)
    assert files(folder) == before


def test_a_program_in_a_folder_of_roots_is_refused_and_nothing_is_placed(person: Person, place: Path) -> None:
    folder = place / "program of root"
    folder.mkdir(exist_ok=True)
    shutil.copy(shutil.which("true") or "true", folder / "program")
    before = files(folder)
    done = person.run("wrap", f"--exe={folder / 'program'}", "--via=beside")
    assert 120 < done.returncode < 128, done.stderr
    assert "What to do: " in done.stderr
    assert "Traceback" not in done.stderr
    assert files(folder) == before


def test_what_root_has_placed_is_not_taken_back_by_another(person: Person, place: Path) -> None:
    folder = place / "kept by root"
    folder.mkdir(exist_ok=True)
    shutil.copy(shutil.which("true") or "true", folder / "program")
    kept = person.checkout.run("wrap", f"--exe={folder / 'program'}", "--keep")
    assert kept.returncode == 0, kept.stderr
    before = files(folder)
    done = person.run("unwrap", f"--target={folder}")
    assert done.returncode not in {0, 1}, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert "What to do: " in done.stderr
    assert files(folder) == before
    assert person.checkout.run("unwrap", f"--target={folder}").returncode == 0


@pytest.mark.parametrize("words", [("setup",), ("use", "--stack=cpu-reference"), ("remove", "--yes")])
def test_what_would_write_in_a_checkout_of_roots_ends_in_a_sentence(
    person: Person, words: tuple[str, ...]
) -> None:
    before = files(person.checkout.root), files(person.checkout.cache)
    done = person.run(*words)
    assert_sentence(done, 0, 31, 50)
    assert (files(person.checkout.root), files(person.checkout.cache)) == before


def test_a_checkout_of_ones_own_is_set_up(person: Person) -> None:
    """The store of root serves what is in it; a store of one's own is filled."""
    own = person.home / "checkout"
    shutil.copytree(
        person.checkout.root, own, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.rmtree(own / "stage")
    (own / "stage").mkdir()
    subprocess.run(["chown", "-R", f"{person.uid}:{person.uid}", str(own)], check=True)
    checkout = Checkout(own, person.checkout.cache, person.checkout.state)
    mine = Person(checkout, person.uid, person.home, person.python)
    assert_sentence(mine.run("setup"), 0, 50)
    assert_sentence(mine.run("status"), 0)
