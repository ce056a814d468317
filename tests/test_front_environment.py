"""The form that was asked for: an environment with a few packages of its own runs every task."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import invoke
import pytest

from scripts.app.download_summary import DownloadSummary
from scripts.app.pins import pins_check
from scripts.cli.console import brief
from scripts.cli.parse import LineError, read_line
from scripts.cli.verbs import TEST, VERBS
from scripts.errors import UsageError
from scripts.model import NoProgress
from tests.small_stack import small_stack
from tests.test_bootstrap import BARE, CHECKOUT, Clone, answer

ROOT = Path(__file__).resolve().parents[1]
#: Stands in for the tasks: says who performs which.
PERFORMED = """
import json, sys
def perform(call):
    print(json.dumps({"prefix": sys.prefix, "task": call.verb.name}))
    return 0
"""


@pytest.mark.proof
@pytest.mark.posix_only
def test_every_task_works_where_only_invoke_is_installed(tmp_path: Path) -> None:
    clone, few = Clone(tmp_path), tmp_path / "few packages"
    package = Path(invoke.__file__).parent
    for folder in (package, *package.parent.glob("invoke-*.dist-info")):
        shutil.copytree(folder, few / folder.name)
    shutil.copy(CHECKOUT / "tasks.py", clone.root)
    shutil.copy(CHECKOUT / "scripts" / "errors.py", clone.root / "scripts")
    for name in ("parse.py", "corrections.py", "console.py", "help.py", "tables.py"):
        shutil.copy(CHECKOUT / "scripts" / "cli" / name, clone.root / "scripts" / "cli")
    (clone.root / "scripts" / "cli" / "present.py").write_text(PERFORMED, encoding="utf-8")

    def typed(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*BARE, "-m", "invoke", *words],
            cwd=clone.root,
            env=clone.environ() | {"PYTHONPATH": str(few)},
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=240,
            check=False,
        )

    first = typed("wrap", "--exe=program", "--", "-V")
    assert "Preparing .venv: at most 1 packages" in first.stderr, first.stderr
    assert answer(first) == {"prefix": str(clone.venv), "task": "wrap"}
    for task in sorted(VERBS.keys() - {"wrap", TEST}):
        done = typed(task)
        assert "Preparing" not in done.stderr
        assert answer(done) == {"prefix": str(clone.venv), "task": task}


@pytest.mark.proof
@pytest.mark.posix_only
def test_a_terminal_shows_what_is_being_installed(tmp_path: Path) -> None:
    clone = Clone(tmp_path)
    line = " ".join(map(shlex.quote, [*BARE, str(clone.root / "scripts"), "status"]))
    words = ["script", "--quiet", "--return", "--command", line, os.devnull]
    if shutil.which("script") is None:
        pytest.skip("the program `script` is not installed")
    done = subprocess.run(words, env=clone.environ(), capture_output=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout
    assert b"1 of 1 for this system: pinned_thing" in done.stdout
    assert b"Prepared .venv in " in done.stdout


def test_the_readme_shows_both_forms_and_nox() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for line in ("pip install nox invoke requests tomlkit pytest rich", "invoke setup", "nox -s validate"):
        assert f"\n{line}" in text
    assert "python -m scripts " in text
    assert "invoke wrap " in text


@pytest.mark.parametrize(
    "words",
    [["wrap", "--exe=p", "-V"], ["wrap", "--exe=p", "-f", "x.py"], ["wrap", "--exe=p", "-l", "-c", "2"]],
    ids=" ".join,
)
def test_an_option_of_the_program_is_answered_with_dashes(words: list[str]) -> None:
    with pytest.raises(LineError) as caught:
        read_line(words)
    assert "did you mean `--`? invoke wrap --exe=p -- " in caught.value.error.hint


def test_pins_check_asks_with_the_size_before_anything_is_read(tmp_path: Path) -> None:
    small, asked = small_stack(tmp_path), list[DownloadSummary]()

    def no(summary: DownloadSummary) -> bool:
        asked.append(summary)
        return False

    ws = SimpleNamespace(lock_path=small.lock, custom_lock=True, environ={}, progress=NoProgress(), ask=no)
    with pytest.raises(UsageError) as caught:
        pins_check(ws)  # type: ignore[arg-type]  # what it needs of a workspace
    assert caught.value.reference == "declined"
    assert [summary.known_bytes for summary in asked] == [len(small.archive)]


def test_no_path_with_a_digest_stands_in_a_table() -> None:
    digest = "0123456789abcdef" * 4
    assert brief(f"x: /home/me/.cache/store/{digest}/lib/libcuda.so.1") == "x: lib/libcuda.so.1"
