"""Names of files, ids and versions from outside split no line of ours and command no terminal."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from scripts.osal.text import visible
from tests.checkout import ROOT, Checkout, make_ready

pytestmark = [pytest.mark.proof, pytest.mark.posix_only]

#: A line feed, a return, an escape sequence, a line separator, marks that turn the direction round, C1.
HOSTILE = (
    "n\nFORGED\rFORGED\x1b[31mFORGED\u2028FORGED\u2029FORGED\u202eFORGED\u2066\u200f\x85FORGED\x0bFORGED"
)
SIGNS = frozenset("\r\x1b\u2028\u2029\u202e\u2066\u200f\x85\x0b")
RECORD = str(ROOT / "evidence" / "records" / "ppo-ab-2026-09-13.csv")
PLACE = f"place {HOSTILE}"


def program_in(folder: Path) -> Path:
    """Copy a program into a folder with such a name, beside a library with another."""
    made = folder / PLACE
    made.mkdir()
    true = shutil.which("true")
    assert true
    shutil.copyfile(true, made / f"lib{HOSTILE}.so")
    program = Path(shutil.copyfile(true, made / f"program {HOSTILE}"))
    program.chmod(0o755)
    return program


def hostile_log(folder: Path) -> Path:
    log = folder / f"log {HOSTILE}"
    text = f"Error: Could not load library libcudnn.so.8 {HOSTILE.replace(chr(10), ' ')}\n"
    log.write_text(text, encoding="utf-8")
    return log


def hostile_document(folder: Path) -> Path:
    document = folder / f"document {HOSTILE}.json"
    document.write_text(json.dumps({"format": 1, HOSTILE: HOSTILE, "stack": HOSTILE}), encoding="utf-8")
    return document


def hostile_lock(checkout: Checkout, folder: Path) -> dict[str, str]:
    """Name the checkout's own lock by a path with such a name."""
    lock = folder / f"lock {HOSTILE}"
    shutil.copyfile(checkout.root / "pins.lock", lock)
    return {"CUDA_AMD_LOCK": str(lock)}


def damaged_lock(folder: Path) -> dict[str, str]:
    lock = folder / "damaged.lock"
    lock.write_text(f"version = 1\n{json.dumps(HOSTILE)} = 1\n", encoding="utf-8")
    return {"CUDA_AMD_LOCK": str(lock)}


#: A line by what it is about, and the settings it needs.
Line = Callable[[Path], list[str]]
LINES: dict[str, Line] = {
    "wrap": lambda at: ["wrap", f"--exe={program_in(at)}", f"--cwd={at / HOSTILE}"],
    "wrap with a setting": lambda at: ["wrap", f"--exe={program_in(at)}", f"--without={HOSTILE}"],
    "wrap explained": lambda at: ["wrap", f"--exe={program_in(at)}", "--explain", "--via=beside"],
    "wrap, nothing there": lambda at: ["wrap", f"--exe={at / HOSTILE}"],
    "unwrap, nothing there": lambda at: ["unwrap", f"--target={at / HOSTILE}"],
    "unwrap by name": lambda _at: ["unwrap", f"--exe={HOSTILE}"],
    "preflight": lambda at: ["preflight", f"--exe={program_in(at).parent}", "--details"],
    "preflight, nothing there": lambda at: ["preflight", f"--exe={at / HOSTILE}"],
    "doctor reads a log": lambda at: ["doctor", f"--log={hostile_log(at)}"],
    "doctor, nothing there": lambda at: ["doctor", f"--log={at / HOSTILE}"],
    "doctor looks at a program": lambda at: ["doctor", f"--exe={at / HOSTILE}"],
    "doctor, a code": lambda _at: ["doctor", f"--code={HOSTILE}"],
    "report files a document": lambda at: ["report", f"--import={hostile_document(at)}"],
    "report, nothing there": lambda at: ["report", f"--import={at / HOSTILE}"],
    "verify": lambda _at: ["verify", f"--stack={HOSTILE}"],
    "stacks": lambda _at: ["stacks", f"--for-gpu={HOSTILE}"],
    "pins.check": lambda _at: ["pins.check", f"--only={HOSTILE}"],
    "compare": lambda _at: ["compare", RECORD, f"--baseline={HOSTILE}"],
    "compare, nothing there": lambda at: ["compare", str(at / f"{HOSTILE}.json")],
    "no task": lambda _at: [HOSTILE],
    "no option": lambda _at: ["status", f"--{HOSTILE}"],
}


def assert_unsplit(stdout: str, stderr: str) -> None:
    """No line begins with what a name holds, and no sign of a name is printed as it is."""
    shown = stdout + stderr
    assert "FORGED" in shown, "the name is not shown, so this shows nothing"
    assert not SIGNS.intersection(shown), sorted(map(ascii, SIGNS.intersection(shown)))
    assert not [line for line in shown.splitlines() if line.lstrip(" │|→").startswith("FORGED")]
    assert "Traceback" not in stderr


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory, shared_store: Path) -> Checkout:
    """A checkout where the CPU reference is active."""
    return make_ready(tmp_path_factory.mktemp("names"), cache=shared_store)


WIDE = {"COLUMNS": "4000"}


@pytest.mark.parametrize("name", LINES)
def test_a_name_from_outside_splits_no_line(ready: Checkout, tmp_path: Path, name: str) -> None:
    done = ready.run(*LINES[name](tmp_path), env=WIDE)
    assert_unsplit(done.stdout, done.stderr)


@pytest.mark.parametrize("task", ["status", "stacks", "verify", "report", "scan"])
def test_the_path_of_a_lock_splits_no_line(ready: Checkout, tmp_path: Path, task: str) -> None:
    done = ready.run(task, env=WIDE | hostile_lock(ready, tmp_path))
    assert_unsplit(done.stdout, done.stderr)


@pytest.mark.parametrize("task", ["status", "stacks", "pins.check", "verify"])
def test_what_a_damaged_lock_holds_splits_no_line(ready: Checkout, tmp_path: Path, task: str) -> None:
    done = ready.run(task, env=WIDE | damaged_lock(tmp_path))
    assert done.returncode == 10
    assert_unsplit(done.stdout, done.stderr)


def test_a_placement_in_such_a_folder_is_shown_and_undone_in_whole_lines(
    ready: Checkout, tmp_path: Path
) -> None:
    program = program_in(tmp_path)
    placed = ready.run("wrap", f"--exe={program}", "--via=beside", "--keep", env=WIDE)
    assert placed.returncode == 0, placed.stderr
    status = ready.run("status", env=WIDE)
    undone = ready.run("unwrap", f"--target={program.parent}", env=WIDE)
    assert undone.returncode == 0
    for done in (status, undone):
        assert_unsplit(done.stdout, done.stderr)
        assert visible(PLACE) in done.stdout
