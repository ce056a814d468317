"""Lines that cannot be read, readers that go away, closed streams: said plainly, never a traceback."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from scripts.cli.console import SMALL, Out, TerminalProgress
from scripts.cli.parse import read_or_answer
from tests.checkout import ROOT


class Terminal(io.StringIO):
    """A stream that somebody looks at."""

    def isatty(self) -> bool:
        return True


HOSTILE = "failed\x1b[1A\x1b[2K\x1b]0;title\x07verified\x9b2J\u202eKO\x00 [bold]"


@pytest.mark.parametrize("stream", [io.StringIO, Terminal], ids=["a file", "a terminal"])
def test_what_a_log_or_a_name_holds_is_shown_and_commands_no_terminal(stream: type[io.StringIO]) -> None:
    """A trace, a pasted log, a folder's name may be a stranger's; it could overwrite what was said."""
    said, noted = stream(), stream()
    out = Out(said, noted, environ={})
    out.line(HOSTILE)
    out.mark("ok", HOSTILE)
    out.now(HOSTILE)
    out.note(HOSTILE)
    out.loud(HOSTILE)
    out.error(HOSTILE, HOSTILE, (HOSTILE,), HOSTILE)
    out.table((HOSTILE,), [(HOSTILE,)], title=HOSTILE)
    shown = said.getvalue() + noted.getvalue()
    assert not set("\x00\x07\x9b\u202e").intersection(shown)
    assert "\x1b]" not in shown
    assert "\x1b[2K" not in shown
    assert r"failed\x1b[1A\x1b[2K\x1b]0;title\x07verified\x9b2J\u202eKO\x00 [bold]" in said.getvalue()
    assert _written_by(lambda out: out.line("a\r\nb"), stream) == "a\\r\\nb\n"


def test_no_color_leaves_every_style_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def say(out: Out) -> None:
        out.now("next")
        out.mark("ok", "good")

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[1m" in _written_by(say, Terminal)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in _written_by(say, Terminal)


def test_no_color_lets_bars_and_tables_move_without_painting(monkeypatch: pytest.MonkeyPatch) -> None:
    """By no-color.org it concerns colour alone: what only moves the cursor may stay."""
    monkeypatch.setenv("TERM", "xterm")
    seen = []
    for value in ("", "1"):
        monkeypatch.setenv("NO_COLOR", value)
        drawn = Terminal()
        progress = TerminalProgress(Out(Terminal(), drawn, environ={}))
        with progress.task("a file", 2 * SMALL["bytes"]) as advance:
            advance(SMALL["bytes"])
        with progress.table("probes", ("group", "passed")) as show:
            show([("memory", "1")])
        seen.append(drawn.getvalue())
    assert all("a file" in text and "memory" in text and "\x1b[1A" in text for text in seen)
    assert [bool(re.search(r"\x1b\[[\d;]*m", text)) for text in seen] == [True, False]


def _written_by(say: Callable[[Out], None], stream: type[io.StringIO]) -> str:
    written = stream()
    say(Out(written, stream(), environ={}))
    return written.getvalue()


def test_an_unreadable_line_is_an_object_with_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert read_or_answer(["status", "--json", "--nope"]) == 2
    out, err = capsys.readouterr()
    assert json.loads(out)["error"]["reference"] == "unreadable-line"
    assert "invoke --help status" in err


def test_what_to_do_can_be_copied_from_the_narrowest_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    command = f"invoke wrap --exe={'x' * 60} -- {'y' * 60}"
    err = io.StringIO()
    Out(io.StringIO(), err).error("kind", "a message", hint=f"run: {command}")
    assert command in err.getvalue()


def test_a_refusal_is_readable_without_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line can be refused before there is an environment."""
    monkeypatch.setitem(sys.modules, "scripts.cli.painting", None)
    err = io.StringIO()
    Out(io.StringIO(), err).error("kind", "a message", ("a fact",), "do this")
    assert err.getvalue() == "kind: a message\na fact\nWhat to do: do this\n"


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [("utf-8", "−2.5 % → ±1 ü ж"), ("cp1252", "-2.5 % -> ±1 ü ?"), ("ascii", "-2.5 % -> +-1 ? ?")],
)
def test_a_sign_that_cannot_be_encoded_stays_readable(encoding: str, shown: str) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, newline="\n")
    Out(stream, stream).line("−2.5 % → ±1 ü ж")
    stream.seek(0)
    assert stream.read() == f"{shown}\n"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a [red]b[/] [/]",
        "C:\\dir\\[a]\\",
        "\\[x]",
        "a  b",
        "ends ",
        "tab\there",
        "x" * 300,
        ":smile: 😀 ü—✓",
        "a\u00a0b",
    ],
    ids=ascii,
)
@pytest.mark.parametrize("way", ["line", "note", "now", "mark"])
def test_a_line_is_written_with_and_without_rich_alike(way: str, text: str) -> None:
    """To a pipe lines are just written; to a terminal, and where colours are forced, Rich writes them."""
    shown = []
    plain: dict[str, str] = {}
    for environ in (plain, None):
        stream = io.StringIO()
        words = ("ok", text) if way == "mark" else (text,)
        getattr(Out(stream, stream, environ=environ), way)(*words)
        shown.append(stream.getvalue())
    assert shown[0] == shown[1]
    assert text.partition("\t")[0] in shown[0]


def front_door(
    folder: Path, *words: str, stdout: int | None = subprocess.PIPE, closed: bool = False
) -> tuple[int, str]:
    """Type a line in this checkout; ``closed`` closes stdout before Python starts."""
    command = [sys.executable, str(ROOT / "scripts"), *words]
    if closed:
        command = ["sh", "-c", 'exec "$@" >&-', "sh", *command]
    env = os.environ | {"CUDA_AMD_CACHE": str(folder / "store"), "CUDA_AMD_STATE": str(folder / "state")}
    done = subprocess.run(
        command, env=env, stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE, check=False
    )
    return done.returncode, done.stderr.decode()


@pytest.mark.slow
@pytest.mark.posix_only
@pytest.mark.parametrize("words", [("scan",), ("scan", "--json"), ("--list",)], ids=" ".join)
def test_closed_stdout_is_no_failure(tmp_path: Path, words: tuple[str, ...]) -> None:
    assert front_door(tmp_path, *words, closed=True) == (0, "")


@pytest.mark.slow
@pytest.mark.posix_only
@pytest.mark.parametrize("closed", [">&-", "<&- >&-", "<&- >&- 2>&-"])
def test_wrap_with_json_runs_with_closed_streams(tmp_path: Path, closed: str) -> None:
    """A stream that Python finds closed takes the first free descriptor, which need not be its own."""
    env = os.environ | {"CUDA_AMD_CACHE": str(tmp_path / "store"), "CUDA_AMD_STATE": str(tmp_path / "state")}
    words = [sys.executable, str(ROOT / "scripts"), "wrap", "--exe=/bin/true", "--stack=nothing", "--json"]
    line = ["sh", "-c", f'"$@" {closed}', "sh", *words]
    done = subprocess.run(line, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    said = done.stderr.decode()
    assert (done.returncode, done.stdout, "Traceback" in said) == (121, b"", False)
    assert ("unknown-stack" in said) is ("2>" not in closed)


@pytest.mark.parametrize("words", [("stacks",), ("stacks", "--json"), ("--list",)], ids=" ".join)
def test_a_reader_that_went_away_is_no_failure(tmp_path: Path, words: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        assert front_door(tmp_path, *words, stdout=writer) == (0, "")
    finally:
        os.close(writer)


def test_a_failure_stays_a_failure_when_its_reader_went_away(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        code, said = front_door(tmp_path, "use", "--stack=nothing", "--json", stdout=writer)
    finally:
        os.close(writer)
    assert (code, "unknown-stack" in said, "Traceback" in said) == (2, True, False)


def test_a_line_that_cannot_be_read_comes_through_the_front_door(tmp_path: Path) -> None:
    code, error = front_door(tmp_path, "wrap", "--exe=program", "argument")
    assert code == 121
    assert " wrap --exe=program -- argument" in error


@pytest.mark.slow
@pytest.mark.posix_only
@pytest.mark.parametrize("words", [["status"], ["status", "--json"]], ids=["text", "json"])
def test_a_result_that_a_full_disk_does_not_take_is_said_and_counted(words: list[str]) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, str(ROOT / "scripts"), *words], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 50
    assert b"could not be written" in done.stderr
    assert b"Traceback" not in done.stderr
