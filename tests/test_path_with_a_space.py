"""The README's command for the tests is green where checkout and Python lie in a path with a space."""

from __future__ import annotations

import os
import re
import shutil
import site
import subprocess
import venv
from pathlib import Path

import pytest

from tests.checkout import HIDDEN, ROOT

pytestmark = [pytest.mark.proof, pytest.mark.posix_only]

#: The quick tests that start programs: fake ones, scripts, our own front door, and the shells of a user.
STARTING = (
    *("launch_wrap", "launch_posix", "launch_profiles", "wrap_trace", "wrap_gpu_use", "host_linux"),
    *("guards", "kept_cc", "lines_to_paste", "thirty_two_bits", "system_process", "cli_streams"),
)


def copy_of_the_tree(folder: Path) -> Path:
    """Copy what git keeps, or would keep."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True).stdout.split(b"\0")
    for name in filter(None, map(os.fsdecode, names)):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def python_in(folder: Path) -> Path:
    """Make an interpreter there that has our packages."""
    venv.create(folder, with_pip=False, symlinks=True)
    made = folder / "bin" / "python"
    [purelib] = folder.glob("lib/python*/site-packages")
    (purelib / "packages.pth").write_text("\n".join(site.getsitepackages()) + "\n", encoding="utf-8")
    return made


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="only git knows which files belong to the tree")
@pytest.mark.timeout(900)
def test_the_tests_are_green_in_a_path_with_a_space(tmp_path: Path) -> None:
    place = tmp_path / "a b ü"
    root, python = copy_of_the_tree(place / "the tree"), python_in(place / "its python")
    environ = {name: value for name, value in os.environ.items() if not name.startswith((*HIDDEN, "PYTEST"))}
    done = subprocess.run(
        [python, "-m", "scripts", "test", "-q", "-p", "no:cacheprovider", "-k", " or ".join(STARTING)],
        cwd=root,
        env=environ | {"TMPDIR": str(place), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        stdin=subprocess.DEVNULL,
        check=False,
    )
    said = done.stdout[-6000:] + done.stderr
    assert done.returncode == 0, said
    announced = "Running the quick tests (--all runs the slow ones, too); that takes minutes."
    assert announced in done.stderr
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed, said
    assert int(passed[1]) > 400, said
    assert " failed" not in done.stdout
