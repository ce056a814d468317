"""A shim's text: what cmd.exe and a shell read is what was meant, or it is refused."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path, PureWindowsPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.app import shim as shims
from scripts.app.known_facts import Profiled
from scripts.app.shim import Shim, cmd_text, for_cmd, sh_text
from scripts.errors import LaunchError
from scripts.launch.argv import child_line, launcher_line
from scripts.launch.environ import EnvChange
from scripts.model import StackKind
from tests.checkout import Checkout
from tests.wrapping import runtime_in, staged_over, workspace

pytestmark = pytest.mark.proof

LAUNCHER = PureWindowsPath(r"C:\store\zluda.exe")
PROGRAM = PureWindowsPath(r"C:\Program Files (x86)\a & b\game.exe")
CHANGES = (
    EnvChange(name="HIP_PATH", action="set", value=r"C:\ROCm\100%", why="w"),
    EnvChange(name="HIP_VISIBLE_DEVICES", action="set", value="1", why="w"),
    EnvChange(name="PATH", action="prepend", value=r"C:\store", why="w"),
    EnvChange(name="PATH", action="prepend", value=r"C:\ROCm\bin", why="w"),
    EnvChange(name="PYTHONPATH", action="prepend", value=r"C:\safe", why="w"),
    EnvChange(name="GGML_CUDA_PDL", action="set", value="0", why="w"),
)


def test_a_cmd_file_is_what_a_person_would_have_written() -> None:
    line, _ = launcher_line(LAUNCHER, PROGRAM, ("--name=a b",))
    shim = Shim(
        name="game.exe",
        stack="zluda",
        changes=CHANGES,
        yielding=frozenset({"GGML_CUDA_PDL"}),
        unset=("ZLUDA_BLAS_LIB",),
        line=line,
    )
    assert cmd_text(shim).split("\r\n") == [
        (
            "@rem game.exe with zluda: starts it without verifying the stack's files, without undo, "
            "and without waiting for what it starts."
        ),
        "@echo off",
        "setlocal",
        'set "ZLUDA_BLAS_LIB="',
        r'set "HIP_PATH=C:\ROCm\100%%"',
        (
            "if not defined CUDA_VISIBLE_DEVICES if not defined HIP_VISIBLE_DEVICES "
            'if not defined ROCR_VISIBLE_DEVICES set "HIP_VISIBLE_DEVICES=1"'
        ),
        'if not defined GGML_CUDA_PDL set "GGML_CUDA_PDL=0"',
        r'set "PATH=C:\store;C:\ROCm\bin;%PATH%"',
        'if defined PYTHONPATH set "PYTHONPATH=;%PYTHONPATH%"',
        r'set "PYTHONPATH=C:\safe%PYTHONPATH%"',
        (
            r'"C:\store\zluda.exe" -- "\"C:\Program Files ^(x86^)\a ^& b\game.exe\"" '
            r'"\"--name=a b\""'
        ),
        "exit /b %ERRORLEVEL%",
        "",
    ]


def as_cmd_reads(text: str) -> str:
    """Read one line as cmd.exe does: percent signs first, then carets outside quotes."""
    text, read, inside, at = text.replace("%%", "%"), [], False, 0
    while at < len(text):
        char = text[at]
        if char == '"':
            inside = not inside
        elif char == "^" and not inside:
            at += 1
            char = text[at]
        elif not inside:
            assert char not in "&|<>", f"cmd would take {char} as its own in {text}"
        read.append(char)
        at += 1
    return "".join(read)


@given(st.lists(st.text(alphabet='ab "\\&|<>^()%!=', max_size=8), max_size=4))
def test_every_ascii_argument_survives_cmd(args: list[str]) -> None:
    for line in (child_line(PROGRAM, args), launcher_line(LAUNCHER, PROGRAM, args)[0]):
        assert as_cmd_reads(for_cmd(line)) == line


@pytest.mark.parametrize(
    ("line", "reference"),
    [('"C:\\Ä\\a.exe"', "shim-not-ascii"), ('"a.exe" "x\ny"', "shim-line-break")],
    ids=["letters", "line break"],
)
def test_what_a_cmd_file_cannot_carry_is_refused(line: str, reference: str) -> None:
    with pytest.raises(LaunchError) as caught:
        cmd_text(Shim(name="a.exe", stack="s", line=line))
    assert caught.value.reference == reference
    assert caught.value.hint


@pytest.mark.posix_only
def test_a_shell_reads_every_path_and_argument_as_it_is(tmp_path: Path) -> None:
    policy = "8 '6\" $HOME"
    changes = (
        EnvChange(name="ZLUDA_CC", action="set", value=policy, why="w"),
        EnvChange(name="LD_LIBRARY_PATH", action="prepend", value="/a b", why="w"),
        EnvChange(name="LD_LIBRARY_PATH", action="prepend", value="/c", why="w"),
        EnvChange(name="HIP_VISIBLE_DEVICES", action="set", value="1", why="w"),
    )
    names = ("ZLUDA_CC", "LD_LIBRARY_PATH", "GONE", "HIP_VISIBLE_DEVICES")
    code = f"import os, sys; print([os.environ.get(n) for n in {names}], sys.argv[1:])"
    shim = Shim(
        name="x\ny", stack="s", changes=changes, unset=("GONE",), words=(sys.executable, "-c", code, "$(a)")
    )
    path = tmp_path / "s.sh"
    path.write_text(sh_text(shim), encoding="utf-8")
    base = {"PATH": os.environ["PATH"]}
    inheriting = {**base, "GONE": "x", "LD_LIBRARY_PATH": "/d"}
    chosen = {**base, "CUDA_VISIBLE_DEVICES": "0"}
    for environ, libraries, device in (
        (base, "/a b:/c", "1"),
        (inheriting, "/a b:/c:/d", "1"),
        (chosen, "/a b:/c", None),
    ):
        start = ["sh", str(path), "more"]
        done = subprocess.run(start, env=environ, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == f"{[policy, libraries, None, device]} {['$(a)', 'more']}"


@pytest.mark.posix_only
@pytest.mark.parametrize(
    ("environ", "seen"),
    [({}, "0|8.6"), ({"PROPOSED": "mine", "POLICY": "mine"}, "mine|8.6"), ({"PROPOSED": ""}, "|8.6")],
    ids=["unset", "the user's own", "empty on purpose"],
)
def test_what_a_profile_proposes_yields_to_the_users_own(
    tmp_path: Path, environ: dict[str, str], seen: str
) -> None:
    changes = (
        EnvChange(name="PROPOSED", action="set", value="0", why="w"),
        EnvChange(name="POLICY", action="set", value="8.6", why="w"),
    )
    words = ("sh", "-c", 'echo "$PROPOSED|$POLICY"')
    path = tmp_path / "s.sh"
    shim = Shim(name="x", stack="s", changes=changes, yielding=frozenset({"PROPOSED"}), words=words)
    path.write_text(sh_text(shim), encoding="utf-8")
    start = ["sh", str(path)]
    done = subprocess.run(
        start, env={"PATH": os.environ["PATH"], **environ}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == seen


@pytest.mark.windows_only
@pytest.mark.parametrize(
    ("environ", "seen"), [({}, "0"), ({"PROPOSED": "mine"}, "mine")], ids=["unset", "the user's own"]
)
def test_what_a_profile_proposes_yields_in_cmd_as_well(
    tmp_path: Path, environ: dict[str, str], seen: str
) -> None:
    changes = (EnvChange(name="PROPOSED", action="set", value="0", why="w"),)
    path = tmp_path / "s.cmd"
    shim = Shim(
        name="x", stack="s", changes=changes, yielding=frozenset({"PROPOSED"}), line="cmd /c echo %PROPOSED%"
    )
    # The line is written so that percent signs survive; the inner cmd is what reads them.
    path.write_bytes(cmd_text(shim).encode("ascii"))
    done = subprocess.run(
        ["cmd", "/c", str(path)], env={**os.environ, **environ}, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == [seen]


@pytest.mark.posix_only
def test_a_shim_of_a_known_program_marks_what_its_profile_proposes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "llama-cli"
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o755)
    staged = staged_over(runtime_in(tmp_path / "layer", "libcuda.so.1"), kind=StackKind.TRANSLATION)
    proposed = EnvChange(name="GGML_CUDA_PDL", action="set", value="0", why="w")
    monkeypatch.setattr(shims, "staged_runtime", lambda _ws, _stack: staged)
    monkeypatch.setattr(shims, "profile_of", lambda *_args: Profiled(changes=(proposed,)))
    made = shims.shim(workspace(tmp_path), exe=str(program))
    assert made.written is not None
    text = made.written.read_text(encoding="utf-8")
    assert '[ -n "${GGML_CUDA_PDL+set}" ] || export GGML_CUDA_PDL=0' in text
    assert "\nexport ZLUDA_CC=" in text, "the stack's own policy does not yield"


@pytest.mark.posix_only
def test_a_shim_starts_the_program_with_the_stack_is_listed_and_removed(
    ready: Checkout, tmp_path: Path
) -> None:
    program = tmp_path / "ein Programm"
    program.write_text('#!/bin/sh\necho "$LD_LIBRARY_PATH|$*"\nexit 7\n', encoding="utf-8")
    program.chmod(0o755)
    (tmp_path / "args.json").write_text('["a b", ""]', encoding="utf-8")
    made = ready.json("shim", f"--exe={program}", f"--args-file={tmp_path / 'args.json'}")
    done = subprocess.run([made["written"], "c"], capture_output=True, text=True, check=False, env={})
    assert done.returncode == 7
    folder, arguments = done.stdout.strip().split("|")
    assert (Path(folder.split(":")[0]) / "libcuda.so.1").is_file()
    assert arguments == "a b  c"
    [listed] = ready.json("status")["shims"]
    assert (listed["path"], listed["standing"]) == (made["written"], "ready")
    kept: Any = ready.json("cache.list")
    assert made["written"] in str(kept) or "generation" in str(kept)
    assert ready.json("shim", f"--exe={program}", "--remove")["removed"] == [made["written"]]
    assert not Path(made["written"]).exists()
    assert ready.json("status")["shims"] == []
    assert ready.json("shim", f"--exe={program}", "--remove", code=2)["error"]["reference"] == "no-shim"


@pytest.mark.posix_only
def test_a_changed_shim_is_left_alone(ready: Checkout) -> None:
    made = ready.json("shim", f"--exe={sys.executable}")
    with Path(made["written"]).open("a", encoding="utf-8") as file:
        file.write("# mine\n")
    assert ready.json("shim", f"--exe={sys.executable}", "--remove", code=3)["kept"] == [made["written"]]
    assert Path(made["written"]).exists()
    assert ready.json("status")["shims"][0]["standing"] == "changed"


def test_a_guarded_game_gets_no_shim(ready: Checkout, tmp_path: Path) -> None:
    game = tmp_path / "game" / Path(sys.executable).name
    (game.parent / "EasyAntiCheat").mkdir(parents=True)
    (game.parent / "EasyAntiCheat" / "settings.json").write_text("{}", encoding="utf-8")
    shutil.copy(sys.executable, game)
    refused = ready.json("shim", f"--exe={game}", code=30)
    assert refused["error"]["reference"] == "anti-cheat"
    assert ready.json("status")["shims"] == []
