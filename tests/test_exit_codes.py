"""Every row of docs/exit-codes.md, typed as a person would type it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.checkout import ROOT, Checkout, make_checkout
from tests.small_stack import make_zip, small_stack
from tests.test_interrupted_steps import TAG, assert_one_sentence, interrupted, tagged

pytestmark = pytest.mark.proof

ROW = re.compile(r"^\| (?P<code>\S+) \|.*\| `(?P<row>[a-z0-9-]+)` \|$", re.MULTILINE)
TABLE = {
    m["row"]: m["code"] for m in ROW.finditer((ROOT / "docs" / "exit-codes.md").read_text(encoding="utf-8"))
}
Scenario = Callable[[Checkout, Path], "int | subprocess.CompletedProcess[str]"]
SCENARIOS: dict[str, Scenario] = {}
POSIX = {"own-signal", "wrap-left", "interrupted", "ended", "unstartable", "wrap-unstartable"}
WINDOWS = sys.platform == "win32"


def scenario(row: str) -> Callable[[Scenario], Scenario]:
    def add(function: Scenario) -> Scenario:
        SCENARIOS[row] = function
        return function

    return add


def own_store(checkout: Checkout, folder: Path) -> Checkout:
    """Give a checkout a store that may be damaged."""
    checkout.cache = folder / "own store"
    checkout.json("setup")
    return checkout


def staged_files(checkout: Checkout) -> list[Path]:
    """Return the files of the active runtime."""
    runtime = checkout.cache / "runtimes-v1" / checkout.json("status")["active"]["digest"]
    return sorted(path for path in runtime.rglob("*") if path.is_file())


def spoil(path: Path, data: bytes | None) -> None:
    """Change or remove a read-only file behind our back."""
    path.parent.chmod(0o755)
    path.chmod(0o644)
    if data is None:
        path.unlink()
    else:
        path.unlink()  # the store may link it; only this name is to change
        path.write_bytes(data)


@scenario("fresh-status")
def _(checkout: Checkout, _folder: Path) -> subprocess.CompletedProcess[str]:
    return checkout.run("status")


@scenario("setup")
def _(checkout: Checkout, _folder: Path) -> subprocess.CompletedProcess[str]:
    return checkout.run("setup")


@scenario("unreadable-line")
def _(checkout: Checkout, _folder: Path) -> subprocess.CompletedProcess[str]:
    return checkout.run("status", "--nonsense")


@scenario("stack-needed")
def _(checkout: Checkout, _folder: Path) -> subprocess.CompletedProcess[str]:
    return checkout.run("use")


@scenario("unknown-stack")
def _(checkout: Checkout, _folder: Path) -> subprocess.CompletedProcess[str]:
    return checkout.run("setup", "--stack=nonsense")


@scenario("consent-needed")
def _(checkout: Checkout, folder: Path) -> subprocess.CompletedProcess[str]:
    small = small_stack(folder)
    return checkout.run("fetch", "--stack=small", f"--mirror={small.mirror}", env=small.env)


@scenario("stray-word")
def _(checkout: Checkout, _folder: Path) -> subprocess.CompletedProcess[str]:
    return checkout.run("status", "stacks")


@scenario("nothing-active")
def _(checkout: Checkout, _folder: Path) -> subprocess.CompletedProcess[str]:
    return checkout.run("check")


@scenario("nothing-staged")
def _(checkout: Checkout, _folder: Path) -> subprocess.CompletedProcess[str]:
    return checkout.run("verify")


@scenario("nothing-placed")
def _(checkout: Checkout, _folder: Path) -> subprocess.CompletedProcess[str]:
    return checkout.run("unwrap")


@scenario("negative-check")
def _(checkout: Checkout, _folder: Path) -> subprocess.CompletedProcess[str]:
    checkout.json("setup")
    return checkout.run("check", env={"CUDA_AMD_CPU_FAULT": "missing:nvcuda"})


@scenario("wrong-answer")
def _(checkout: Checkout, _folder: Path) -> subprocess.CompletedProcess[str]:
    checkout.json("setup")
    return checkout.run("run", "--size=64", env={"CUDA_AMD_CPU_FAULT": "wrong"})


@scenario("over-budget")
def _(checkout: Checkout, _folder: Path) -> subprocess.CompletedProcess[str]:
    """One pair leaves everything open, so that no budget can be shown to be kept."""
    checkout.json("setup")
    return checkout.run("run", "--size=64", "--budget=0", "--trials=1")


@scenario("known-failure")
def _(checkout: Checkout, folder: Path) -> subprocess.CompletedProcess[str]:
    log = folder / "program.log"
    log.write_text("rocBLAS error: Cannot read TensileLibrary.dat for GPU arch : gfx1031\n", encoding="utf-8")
    return checkout.run("doctor", f"--log={log}")


@scenario("unsure-failure")
def _(checkout: Checkout, folder: Path) -> subprocess.CompletedProcess[str]:
    log = folder / "program.log"
    log.write_text("CUDA error: cuModuleLoad failed: 201\n", encoding="utf-8")
    done = checkout.run("doctor", f"--log={log}")
    assert "unsupported-call (possible)" in done.stdout
    return done


@scenario("negative-setup")
def _(checkout: Checkout, _folder: Path) -> subprocess.CompletedProcess[str]:
    return checkout.run("setup", env={"CUDA_AMD_CPU_FAULT": "wrong"})


@scenario("inconclusive")
def _(checkout: Checkout, _folder: Path) -> subprocess.CompletedProcess[str]:
    published = ROOT / "evidence" / "records" / "ppo-ab-2026-09-13.csv"
    return checkout.run("compare", str(published), "--warmup=1", "--baseline=upstream")


@scenario("bad-lock")
def _(checkout: Checkout, folder: Path) -> subprocess.CompletedProcess[str]:
    lock = folder / "bad.lock"
    lock.write_text("version = 1\nsurprise = true\n", encoding="utf-8")
    return checkout.run("status", env={"CUDA_AMD_LOCK": str(lock)})


@scenario("offline-missing")
def _(checkout: Checkout, folder: Path) -> subprocess.CompletedProcess[str]:
    small = small_stack(folder)
    return checkout.run("fetch", "--stack=small", "--offline", "--yes", env=small.env)


@scenario("wrong-bytes")
def _(checkout: Checkout, folder: Path) -> subprocess.CompletedProcess[str]:
    small = small_stack(folder)
    small.serve(small.archive[:-1] + b"!")
    return checkout.run(
        "fetch", "--stack=small", "--offline", "--yes", f"--mirror={small.mirror}", env=small.env
    )


@scenario("evil-archive")
def _(checkout: Checkout, folder: Path) -> subprocess.CompletedProcess[str]:
    small = small_stack(folder)
    small.archive = make_zip({"layer/cuda_check": b"x", "../evil.dll": b"x"})
    small.pin().serve()
    return checkout.run("stage", "--stack=small", "--yes", f"--mirror={small.mirror}", env=small.env)


@scenario("changed-file")
def _(checkout: Checkout, folder: Path) -> subprocess.CompletedProcess[str]:
    own_store(checkout, folder)
    spoil(staged_files(checkout)[0], b"changed")
    return checkout.run("verify")


@scenario("vanished-file")
def _(checkout: Checkout, folder: Path) -> subprocess.CompletedProcess[str]:
    own_store(checkout, folder)
    spoil(staged_files(checkout)[0], None)
    return checkout.run("check")


@scenario("no-nvidia")
def _(checkout: Checkout, _folder: Path) -> subprocess.CompletedProcess[str]:
    if shutil.which("nvidia-smi"):
        pytest.skip("this machine has an NVIDIA GPU")
    return checkout.run("setup", "--stack=native-cuda")


@scenario("validate-skipped")
def _(checkout: Checkout, _folder: Path) -> subprocess.CompletedProcess[str]:
    if shutil.which("nvidia-smi"):
        pytest.skip("this machine has an NVIDIA GPU")
    return checkout.run("validate", "--stack=native-cuda")


@scenario("validate-required")
def _(checkout: Checkout, _folder: Path) -> subprocess.CompletedProcess[str]:
    return checkout.run("validate", "--stack=zluda-v6p69-sdk64", "--require=gfx1200")


@scenario("unstartable")
def _(checkout: Checkout, folder: Path) -> subprocess.CompletedProcess[str]:
    small = small_stack(folder, {"layer/cuda_check": b"no program at all"})
    return checkout.run("setup", "--stack=small", "--yes", f"--mirror={small.mirror}", env=small.env)


@scenario("no-program")
def _(checkout: Checkout, folder: Path) -> subprocess.CompletedProcess[str]:
    checkout.json("setup")
    return checkout.run("preflight", f"--exe={folder / 'missing'}")


@scenario("no-precompiler")
def _(checkout: Checkout, folder: Path) -> subprocess.CompletedProcess[str]:
    checkout.json("setup")
    return checkout.run("precompile", f"--path={folder}")


@scenario("wrap-untraceable")
def _(checkout: Checkout, _folder: Path) -> subprocess.CompletedProcess[str]:
    checkout.json("setup")
    done = checkout.run("wrap", f"--exe={sys.executable}", "--trace", "--", "-c", "print('ran')")
    assert "ran" not in done.stdout
    assert not (checkout.root / "stage" / "traces").exists()
    return done


@scenario("timeout")
def _(checkout: Checkout, _folder: Path) -> subprocess.CompletedProcess[str]:
    checkout.json("setup")
    return checkout.run("run", "--timeout=2", "--size=64", env={"CUDA_AMD_CPU_FAULT": "hang"})


@scenario("interrupted")
def _(checkout: Checkout, _folder: Path) -> int:
    return ended_by(signal.SIGINT, checkout)


@scenario("ended")
def _(checkout: Checkout, _folder: Path) -> int:
    return ended_by(signal.SIGTERM, checkout)


def ended_by(number: int, checkout: Checkout) -> int:
    """Send a signal when the program that the task runs hangs; what stood before is kept, no process is."""
    checkout.json("setup")
    before = checkout.json("status")["active"]
    tag = str(number) + str(checkout.root)
    env = checkout.environ | {"CUDA_AMD_CPU_FAULT": "hang", TAG: tag}
    command = [sys.executable, str(checkout.front_door()), "run", "--size=64"]
    runtime = str(checkout.cache / "runtimes-v1" / before["digest"])

    def hangs() -> bool:
        return any(runtime in mapped_by(pid) for pid in tagged(tag))

    said = interrupted(command, env, number, hangs, checkout.root)
    assert_one_sentence(said, number)
    assert "; what was finished is kept, " in said, "the task was at work"
    assert tagged(tag) == []
    assert checkout.json("status")["active"] == before
    checkout.json("run", "--size=64")
    return 128 + number


def mapped_by(pid: int) -> str:
    """Name the files that a process has in memory; nothing where it has ended."""
    try:
        return Path(f"/proc/{pid}/maps").read_text(encoding="utf-8")
    except OSError:
        return ""


def program_in(folder: Path) -> Path:
    """Put a program that does nothing into a folder of its own."""
    folder.mkdir()
    if WINDOWS:
        return Path(shutil.copy(Path(os.environ["CUDA_AMD_TEST_BIN"]) / "exits.exe", folder / "app.exe"))
    program = folder / "app"
    program.write_text('#!/bin/sh\n[ $# = 0 ] || exec "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return program


def placed(checkout: Checkout, folder: Path) -> Path:
    """Place the stack beside a program and leave it there; return one placed file."""
    checkout.json("setup")
    program = program_in(folder / "app folder")
    arguments = ("0",) if WINDOWS else ()
    done = checkout.run("wrap", f"--exe={program}", "--via=beside", "--keep", "--", *arguments)
    assert done.returncode == 0, done.stderr
    return next(p for p in sorted(program.parent.iterdir()) if "cublas" in p.name)


@scenario("no-target")
def _(checkout: Checkout, folder: Path) -> subprocess.CompletedProcess[str]:
    return checkout.run("unwrap", f"--target={folder / 'missing'}")


@scenario("still-placed")
def _(checkout: Checkout, folder: Path) -> subprocess.CompletedProcess[str]:
    library = placed(checkout, folder)
    done = checkout.run("remove", "--yes")
    assert library.exists()
    return done


@scenario("undo-incomplete")
def _(checkout: Checkout, folder: Path) -> subprocess.CompletedProcess[str]:
    library = placed(checkout, folder)
    library.chmod(0o644)
    library.write_bytes(b"mine now")
    done = checkout.run("unwrap", f"--target={library.parent}")
    assert library.read_bytes() == b"mine now"
    return done


@scenario("planted-journal")
def _(checkout: Checkout, folder: Path) -> subprocess.CompletedProcess[str]:
    library = placed(checkout, folder)
    journal = library.parent / ".cuda-amd" / "journal"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(lines[0].replace(b"cublas", b"../../", 1) + b"".join(lines[1:]))
    done = checkout.run("unwrap", f"--target={library.parent}")
    assert library.exists()
    return done


@scenario("damaged-history")
def _(checkout: Checkout, folder: Path) -> subprocess.CompletedProcess[str]:
    del folder
    (checkout.root / "stage" / "generations.json").write_text('{"format": 1, "current"', encoding="utf-8")
    return checkout.run("status")


@scenario("wrap-damaged-history")
def _(checkout: Checkout, folder: Path) -> subprocess.CompletedProcess[str]:
    program = program_in(folder / "app folder")
    (checkout.root / "stage" / "generations.json").write_text("[]", encoding="utf-8")
    return checkout.run("wrap", f"--exe={program}")


@scenario("wrap-left")
def _(checkout: Checkout, folder: Path) -> subprocess.CompletedProcess[str]:
    checkout.json("setup")
    program = program_in(folder / "app folder")
    change = "for f in libcublas*; do chmod u+w $f; echo mine > $f; done"
    return checkout.run(
        "wrap", f"--exe={program}", "--via=beside", f"--cwd={program.parent}", "--", "/bin/sh", "-c", change
    )


@scenario("own-code")
def _(checkout: Checkout, _folder: Path) -> subprocess.CompletedProcess[str]:
    checkout.json("setup")
    done = checkout.run("wrap", f"--exe={sys.executable}", "--", "-c", "raise SystemExit(7)")
    assert done.returncode == 7
    return done


@scenario("own-signal")
def _(checkout: Checkout, _folder: Path) -> subprocess.CompletedProcess[str]:
    checkout.json("setup")
    program = "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"
    done = checkout.run("wrap", f"--exe={sys.executable}", "--", "-c", program)
    assert done.returncode == -signal.SIGTERM
    return done


@scenario("wrap-no-gpu")
def _(checkout: Checkout, _folder: Path) -> subprocess.CompletedProcess[str]:
    checkout.json("setup")
    return checkout.run("wrap", f"--exe={sys.executable}", "--expect-gpu", "--", "-c", "print('(none)')")


@scenario("wrap-usage")
def _(checkout: Checkout, _folder: Path) -> subprocess.CompletedProcess[str]:
    checkout.json("setup")
    return checkout.run("wrap")


@scenario("wrap-vanished")
def _(checkout: Checkout, folder: Path) -> subprocess.CompletedProcess[str]:
    own_store(checkout, folder)
    spoil(staged_files(checkout)[0], None)
    return checkout.run("wrap", f"--exe={sys.executable}", "--", "-c", "pass")


@scenario("wrap-timeout")
def _(checkout: Checkout, _folder: Path) -> subprocess.CompletedProcess[str]:
    checkout.json("setup")
    return checkout.run(
        "wrap", f"--exe={sys.executable}", "--timeout=1", "--", "-c", "import time; time.sleep(60)"
    )


@scenario("wrap-no-program")
def _(checkout: Checkout, folder: Path) -> subprocess.CompletedProcess[str]:
    checkout.json("setup")
    return checkout.run("wrap", f"--exe={folder / 'missing'}")


@scenario("wrap-unstartable")
def _(checkout: Checkout, folder: Path) -> subprocess.CompletedProcess[str]:
    checkout.json("setup")
    text = folder / "notes.txt"
    text.write_text("no program", encoding="utf-8")
    return checkout.run("wrap", f"--exe={text}")


def test_every_row_has_a_scenario_and_every_scenario_a_row() -> None:
    assert set(TABLE) == set(SCENARIOS)


@pytest.mark.parametrize("row", TABLE)
def test_row(row: str, tmp_path: Path, shared_store: Path) -> None:
    if WINDOWS and row in POSIX:
        pytest.skip("Linux only: signals and executable bits")
    checkout = make_checkout(tmp_path, cache=shared_store)
    done = SCENARIOS[row](checkout, tmp_path)
    code = done if isinstance(done, int) else done.returncode
    if TABLE[row].isdigit():
        shown = "" if isinstance(done, int) else f"{done.stdout}\n{done.stderr}"
        assert code == int(TABLE[row]), shown
    if not isinstance(done, int):
        assert "Traceback" not in done.stderr, done.stderr
