"""The control: its steps run in a clone of a commit, and what is committed of them is what it claims."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from scripts.app.context import workspace_from_environ
from scripts.app.stack_process import revision_of
from tools.control import clone

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not there")


def commit(folder: Path, text: str) -> None:
    """Put one file into a repository and commit it."""
    (folder / "file").write_text(text, encoding="utf-8")
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    for words in (("init", "-q"), ("add", "file"), (*who, "commit", "-qm", "One file")):
        subprocess.run(["git", "-C", str(folder), *words], check=True, timeout=60)


@needs_git
def test_a_changed_checkout_is_cloned_clean(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "source"
    source.mkdir()
    commit(source, "committed")
    (source / "file").write_text("changed", encoding="utf-8")
    before = revision_of(workspace_from_environ(os.environ, root=source))
    assert before is not None
    assert before.dirty
    cloned = clone(source, tmp_path / "clone")
    after = revision_of(workspace_from_environ(os.environ, root=cloned))
    assert after is not None
    assert (after.commit, after.dirty) == (before.commit, False)
    assert (cloned / "file").read_text(encoding="utf-8") == "committed"
    assert "not in it: M file" in capsys.readouterr().out
