"""The files to copy for a machine that validates each week."""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.checkout import ROOT

FILES = ROOT / "docs" / "runner"
TASK = "{http://schemas.microsoft.com/windows/2004/02/mit/task}"
#: Stands in for the workspace: the first command makes the environment, whose Python says what it was asked.
STAND_IN = """
import pathlib
folder = pathlib.Path(".venv", "bin")
folder.mkdir(parents=True)
python = folder / "python"
lines = ["#!/bin/sh", 'ls stage/reports > "$SAID"', 'echo "$@" >> "$SAID"', "mkdir stage/reports/new; exit 7"]
python.write_text(chr(10).join(lines))
python.chmod(0o755)
"""


def unit(name: str) -> configparser.ConfigParser:
    """Read a systemd file; its keys may come more than once."""
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # keys keep their case
    parser.read_string((FILES / name).read_text(encoding="utf-8"))
    return parser


def test_the_service_runs_without_rights_and_ends() -> None:
    service = unit("cuda-amd-validate.service")["Service"]
    assert service["User"] == "cuda-validate"
    assert service["NoNewPrivileges"] == service["PrivateTmp"] == "yes"
    assert service["ProtectSystem"] == "strict"
    assert service["TimeoutStartSec"] == "6h"
    assert "validate_once.py" in service["ExecStart"]
    assert unit("cuda-amd-validate.timer")["Timer"]["Persistent"] == "yes"


def test_the_windows_task_runs_without_rights_and_ends() -> None:
    task = ET.parse(FILES / "cuda-amd-validate.xml").getroot()  # noqa: S314 - our own

    def said(path: str) -> str | None:
        return task.findtext("/".join(f"{TASK}{name}" for name in path.split("/")))

    assert said("Principals/Principal/RunLevel") == "LeastPrivilege"
    assert said("Principals/Principal/UserId") == "cuda-validate"
    assert said("Settings/ExecutionTimeLimit") == "PT6H"
    assert said("Settings/MultipleInstancesPolicy") == "IgnoreNew"
    assert "validate_once.py" in str(said("Actions/Exec/Arguments"))


def test_every_file_is_named_in_the_page() -> None:
    page = (ROOT / "docs" / "runner.md").read_text(encoding="utf-8")
    assert all(path.name in page for path in FILES.iterdir() if path.name != "__pycache__")


@pytest.mark.posix_only
def test_once_means_a_fresh_clone_kept_reports_and_the_exit_code(tmp_path: Path) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    source = tmp_path / "source"
    (source / "scripts").mkdir(parents=True)
    (source / "scripts" / "__main__.py").write_text(STAND_IN, encoding="utf-8")
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    for words in (["init", "-q"], ["add", "."], [*identity, "commit", "-q", "-m", "x"]):
        subprocess.run(["git", "-C", str(source), *words], check=True)
    reports, temporary, said = tmp_path / "reports", tmp_path / "tmp", tmp_path / "said"
    (reports / "earlier").mkdir(parents=True)
    temporary.mkdir()
    done = subprocess.run(
        [sys.executable, str(FILES / "validate_once.py"), str(source), str(reports), "--require=gfx1100"],
        env={**os.environ, "TMPDIR": str(temporary), "SAID": str(said)},
        check=False,
    )
    assert done.returncode == 7
    assert said.read_text(encoding="utf-8") == "earlier\n-m nox -s validate -- --yes --require=gfx1100\n"
    assert sorted(path.name for path in reports.iterdir()) == ["earlier", "new"]
    assert list(temporary.iterdir()) == []
