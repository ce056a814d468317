"""Lines to paste: whatever a program or a folder is called, a shell reads the name and nothing else."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import scripts
from scripts.app.wrap_placing import ShimStatus
from scripts.binary.image import Unreadable, read_image
from scripts.osal.text import option, visible
from scripts.placement.apply import readme
from scripts.placement.journal import Journal
from scripts.placement.plan import Action, Deed
from scripts.placement.status import placement_status

HOSTILE = {
    "command": "$(touch pwned)",
    "backtick": "`touch pwned`",
    "quote": '"; touch pwned; echo "',
    "single quote": "'; touch pwned; echo '$HOME",
    "newline": "a\ntouch pwned\n",
    "newline and quotes": "a'\ntouch pwned\n'$(touch pwned)",
    "escape": "\x1b[2Ja",
    "turned around": "a\u202eexe.b",
    "history": "!x!",
    "percent": "%PATH%",
    "variable": "$HOME",
    "backslashes": "a\\\\b\\",
    "not UTF-8": "a\udcffb",
}
PLAIN = ["a b", "Größe", "it's (1) [x] & co, v1.2+3@4; #~=", "日本"]
each = pytest.mark.parametrize("name", list(HOSTILE.values()), ids=list(HOSTILE))
SHELLS = [shell for shell in ("bash", "dash", "zsh") if shutil.which(shell)]
posix = pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell reads the line")


def pasted(shell: str, line: str, folder: Path) -> bytes:
    """Return the first argument that a shell passes on, and insist that it performed nothing else."""
    python = shlex.quote(sys.executable)
    done = subprocess.run(
        [shell, "-c", f"{python} -c 'import os, sys; os.write(1, os.fsencode(sys.argv[1]))' {line}"],
        cwd=folder,
        capture_output=True,
        check=False,
    )
    assert not (folder / "pwned").exists()
    return done.stdout


@pytest.mark.slow
@posix
@each
@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_reads_the_name_and_performs_nothing(tmp_path: Path, shell: str, name: str) -> None:
    line = option("target", f"/a/{name}")
    assert line.isprintable()
    read = pasted(shell, line, tmp_path)
    if not line.startswith("--target=$'") or shell != "dash":  # dash has no $''
        assert os.fsdecode(read) == f"--target=/a/{name}"


@pytest.mark.parametrize("windows", [False, True])
@pytest.mark.parametrize("name", PLAIN)
def test_a_plain_name_stands_in_double_quotes(name: str, windows: bool) -> None:
    assert option("exe", name, windows=windows) == f'--exe="{name}"'


@posix
@pytest.mark.parametrize("name", PLAIN)
def test_a_plain_name_is_read_as_it_is(tmp_path: Path, name: str) -> None:
    assert os.fsdecode(pasted("bash", option("exe", name), tmp_path)) == f"--exe={name}"


@each
def test_what_windows_shells_expand_is_left_to_the_person(name: str) -> None:
    line = option("target", name, windows=True)
    inner = line.removeprefix('--target="').removesuffix('"')
    assert line == "--target=FOLDER" or (inner.isprintable() and not set(inner) & set('"$`%!“”„'))


def test_a_backslash_before_the_quote_is_doubled_on_windows() -> None:
    assert option("target", "C:\\", windows=True) == '--target="C:\\\\"'
    assert option("target", "C:\\a\\b", windows=True) == '--target="C:\\a\\b"'
    assert option("exe", "100%.exe", windows=True) == "--exe=PROGRAM"


def of_readme(path: Path) -> str:
    action = Action(number=0, deed=Deed.CREATE, folder=path.name, name="b.so", sha256="0" * 64, size=1)
    journal = Journal(stack="s", digest="d", actions=(action,), folders={}, created="now")
    return readme(journal, os.fspath(path)).decode()


def of_status(path: Path) -> str:
    return placement_status(path).advice


def of_shim(path: Path) -> str:
    return ShimStatus(path=Path("s"), program=path, stack="s", digest="d", standing="gone").advice


PLACES: dict[str, Callable[[Path], str]] = {"readme": of_readme, "status": of_status, "shim": of_shim}


@each
@pytest.mark.parametrize("place", PLACES)
def test_every_place_writes_the_name_so(tmp_path: Path, place: str, name: str) -> None:
    if sys.platform == "win32" and place == "status" and not {'"', "\n", "\x1b"}.isdisjoint(name):
        pytest.skip("Windows has no folder of that name, so that nothing is placed there")
    path = tmp_path / "absent" / name
    text = PLACES[place](path)
    plain = PLACES[place](tmp_path / "absent" / "plain")
    assert option("exe" if place == "shim" else "target", path) in text
    assert len(text.splitlines()) == len(plain.splitlines())
    assert all(line.isprintable() for line in text.split("\n"))


def test_no_line_to_paste_quotes_a_name_by_itself() -> None:
    """The options that name a file are written in one place only."""
    own = re.compile(r"""--(?:target|exe)=\\?["']?\{""")
    sources = Path(scripts.__file__).parent.rglob("*.py")
    found = {path.name for path in sources if own.search(path.read_text(encoding="utf-8"))}
    # The first names a program of plain letters only, the others hold words, which `typed` quotes.
    assert found == {"image.py", "parse.py", "wrap.py"}


def test_what_cannot_be_shown_is_escaped() -> None:
    assert visible("a\nb\x1b\u202e é'\\") == "a\\nb\\x1b\\u202e é'\\"


@pytest.mark.parametrize("runs", ["$(touch${IFS}pwned)", "`touch`", "a;touch", "a|b", "a\x1bb", "a&b"])
def test_what_runs_a_script_is_named_by_plain_letters_only(tmp_path: Path, runs: str) -> None:
    (tmp_path / "run").write_text(f"#!/usr/bin/{runs}\n", encoding="utf-8")
    image = read_image(tmp_path / "run")
    assert isinstance(image, Unreadable)
    assert runs not in repr(image)
