"""The first command on a fresh Windows: a bare Python makes ``.venv`` by hash and hands over to it."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.windows_bed.wheels import windows_requirements

pytestmark = [pytest.mark.windows_only, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[1]
FETCH = 20
#: virtualenv and what it imports: the way in where Python comes without ``venv``.
VIRTUALENV = ("virtualenv", "distlib", "filelock", "packaging", "platformdirs", "python-discovery")
TASKS = """
import json, os, sys
import invoke

def main(arguments):
    print(json.dumps({"arguments": arguments, "prefix": sys.prefix, "cwd": os.getcwd(), "tasks": __file__}))
    return 41
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of this Python that has virtualenv and nothing else."""
    home = tmp_path_factory.mktemp("bare") / "Python"
    shutil.copytree(sys.base_prefix, home, ignore=shutil.ignore_patterns("site-packages", "Scripts"))
    site_packages = home / "Lib" / "site-packages"
    for name in VIRTUALENV:
        for file in importlib.metadata.files(name) or ():
            if ".." not in file.parts and "bin" not in file.parts:
                target = site_packages.joinpath(*file.parts)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(str(file.locate()), target)
    return home / "python.exe"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A fresh clone with one locked package, in a folder with a space and an umlaut."""
    folder = tmp_path / "Jürgens clone"
    (folder / "scripts").mkdir(parents=True)
    shutil.copy(ROOT / "scripts" / "__main__.py", folder / "scripts")
    (folder / "scripts" / "__init__.py").write_text("", encoding="utf-8")
    (folder / "tasks.py").write_text(TASKS, encoding="utf-8")
    locked = windows_requirements((ROOT / "requirements.lock").read_text(encoding="utf-8"))
    (folder / "requirements.lock").write_text(locked["invoke"] + "\n", encoding="utf-8")
    return folder


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    wheels = os.environ.get("CUDA_AMD_TEST_WHEELS")
    if wheels is None:
        pytest.skip("CUDA_AMD_TEST_WHEELS does not name a folder of Windows wheels")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", wheels)
    # Faster: pip alone, not compiled twice.
    monkeypatch.setenv("PIP_NO_COMPILE", "1")
    monkeypatch.setenv("VIRTUALENV_SETUPTOOLS", "none")
    monkeypatch.delenv("PYTHONPYCACHEPREFIX", raising=False)


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
    )


@pytest.mark.usefixtures("offline")
def test_the_first_command_makes_the_environment_and_the_next_one_uses_it(
    python: Path, checkout: Path, tmp_path: Path
) -> None:
    first = run(python, "-m", "scripts", "status", "--exe=C:\\a b\\", "", 'say "hi"', cwd=checkout)
    assert first.returncode == 41, first.stderr
    assert "Preparing .venv" in first.stderr
    told = json.loads(first.stdout)
    assert told["arguments"] == ["status", "--exe=C:\\a b\\", "", 'say "hi"']
    assert Path(told["prefix"]) == checkout / ".venv"

    second = run(python, checkout / "scripts", "scan", cwd=tmp_path)
    assert (second.returncode, second.stderr) == (41, "")
    told = json.loads(second.stdout)
    assert (told["arguments"], Path(told["cwd"])) == (["scan"], tmp_path)
    assert Path(told["tasks"]) == checkout / "tasks.py"


@pytest.mark.usefixtures("offline")
def test_a_wrong_hash_ends_the_bootstrap_and_the_next_try_repairs_it(python: Path, checkout: Path) -> None:
    lock = checkout / "requirements.lock"
    right = lock.read_text(encoding="utf-8")
    lock.write_text(f"{right.split()[0]} --hash=sha256:{'0' * 64}\n", encoding="utf-8")
    done = run(python, "-m", "scripts", "status", cwd=checkout)
    assert (done.returncode, done.stdout) == (FETCH, "")
    assert "DO NOT MATCH THE HASHES" in done.stderr
    assert "could not install requirements.lock" in done.stderr
    assert not (checkout / ".venv" / ".made-from").exists()

    lock.write_text(right, encoding="utf-8")
    repaired = run(python, "-m", "scripts", "status", cwd=checkout)
    assert repaired.returncode == 41, repaired.stderr
    assert "Preparing .venv" in repaired.stderr
