"""What a line that cannot be read is answered with: a line that can be pasted and read, or none."""

from __future__ import annotations

import doctest
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from scripts.cli import corrections, parse
from scripts.cli.help import list_text
from scripts.cli.parse import Call, LineError, read_line

MODULE = "python3 -m scripts"


@pytest.fixture
def module_form() -> Iterator[None]:
    parse.set_form(MODULE)
    yield
    parse.set_form("")


def refused(words: Sequence[str]) -> LineError:
    with pytest.raises(LineError) as caught:
        read_line(words)
    return caught.value


def proposed(words: Sequence[str]) -> Call:
    """Paste what the hint proposes and read it."""
    hint = refused(words).error.hint
    assert "invoke " in hint, hint
    read = read_line(shlex.split(hint.partition("invoke ")[2]))
    assert isinstance(read, Call), hint
    return read


def test_the_example_is_true() -> None:
    assert doctest.testmod(corrections).failed == 0


@pytest.mark.posix_only
@pytest.mark.parametrize(
    ("line", "options", "arguments"),
    [
        ("--ex=/bin/echo -- hi", {"exe": "/bin/echo"}, ("hi",)),
        ("--programm=/bin/echo -- hi", {"exe": "/bin/echo"}, ("hi",)),
        ("-exe=/bin/echo -- hi", {"exe": "/bin/echo"}, ("hi",)),
        ("-e /bin/echo", {"exe": "/bin/echo"}, ()),
        ("-- --exe=/bin/echo", {"exe": "/bin/echo"}, ()),
        ("-- --exe=/bin/echo hi", {"exe": "/bin/echo"}, ("hi",)),
        ("--EXE=/bin/echo -- hi", {"exe": "/bin/echo"}, ("hi",)),
        ("--ex /bin/echo hi", {"exe": "/bin/echo"}, ("hi",)),
        ("--keep --ex=/bin/echo -x", {"keep": True, "exe": "/bin/echo"}, ("-x",)),
        ("--ex=/bin/echo --stack=s -- hi", {"exe": "/bin/echo", "stack": "s"}, ("hi",)),
        ("--stak=s --exe=/bin/echo -- hi", {"exe": "/bin/echo", "stack": "s"}, ("hi",)),
        ("--exe=p \u2013 a", {"exe": "p"}, ("a",)),
        ("--exe=p \u2014 -x a", {"exe": "p"}, ("-x", "a")),
        ("p \u2014 a", {"exe": "p"}, ("a",)),
        ("\u2013 p a", {"exe": "p"}, ("a",)),
        ("--exe = p", {"exe": "p"}, ()),
        ("--exe = p a", {"exe": "p"}, ("a",)),
        ("--exe = p -- a", {"exe": "p"}, ("a",)),
        ("p = a", {"exe": "p"}, ("a",)),
    ],
)
def test_a_mistyped_line_is_answered_with_one_that_reads(
    line: str, options: dict[str, object], arguments: tuple[str, ...]
) -> None:
    call = proposed(["wrap", *line.split()])
    assert (call.options, call.arguments) == (options, arguments)


@pytest.mark.parametrize("line", ["--zzz=/bin/echo -- hi", "-x -- hi", "--no_profile", "--ex", "--ex -- hi"])
def test_what_has_no_sure_correction_is_answered_with_the_options(line: str) -> None:
    hint = refused(["wrap", *line.split()]).error.hint
    assert hint.lower().endswith("see the options: invoke --help wrap")


def test_a_dash_behind_the_dashes_is_the_programs() -> None:
    read = read_line(["wrap", "--exe=p", "--", "\u2013", "="])
    assert isinstance(read, Call)
    assert read.arguments == ("\u2013", "=")


@pytest.mark.posix_only
@pytest.mark.parametrize(
    ("task", "line", "arguments"),
    [
        ("wrap", ["--exe={}/my", "own app/train"], ()),
        ("wrap", ["--exe={}/my", "own", "app/train", "--", "a"], ("a",)),
        ("wrap", ["--exe", "{}/my", "own", "app/train", "a"], ("a",)),
        ("wrap", ["{}/my", "own", "app/train", "-x"], ("-x",)),
        ("preflight", ["--exe={}/my", "own", "app/train"], ()),
        ("preflight", ["{}/my", "own", "app/train"], ()),
    ],
)
def test_a_path_that_its_blanks_divided_is_quoted(
    tmp_path: Path, task: str, line: list[str], arguments: tuple[str, ...]
) -> None:
    program = tmp_path / "my own app" / "train"
    program.parent.mkdir()
    program.touch()
    call = proposed([task, *(word.format(tmp_path) for word in line)])
    assert (call.verb.name, call.options, call.arguments) == (task, {"exe": str(program)}, arguments)


@pytest.mark.posix_only
@pytest.mark.parametrize(
    ("line", "name", "options"),
    [
        ("unwrap FILE", "--exe", {"exe": "FILE"}),
        ("unwrap FOLDER", "--target", {"target": "FOLDER"}),
        ("doctor FILE", "--log", {"log": "FILE"}),
        ("doctor --log=x FILE --json", "--exe", {"log": "x", "exe": "FILE"}),
        ("report FILE", "--import", {"import_": "FILE"}),
    ],
)
def test_a_file_that_exists_is_given_to_its_option(
    line: str, name: str, options: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    places = {"FILE": str(tmp_path / "file"), "FOLDER": str(tmp_path)}
    words = [places.get(word, word) for word in line.split()]
    assert refused(words).error.hint.startswith(f"did you mean {name}? invoke ")
    assert proposed(words).options == {key: places.get(value, value) for key, value in options.items()}


def test_a_log_that_is_not_there_is_given_to_its_option() -> None:
    assert proposed(["doctor", "none.log"]).options == {"log": "none.log"}
    assert "did you mean" not in refused(["report", "none.log"]).error.hint


def test_words_behind_a_program_that_exists_stay_its_own(tmp_path: Path) -> None:
    for name in ("train", "train a"):
        (tmp_path / name).touch()
    read = read_line(["wrap", str(tmp_path / "train"), "a"])
    assert isinstance(read, Call)
    assert read.arguments == ("a",)


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("setup zluda-v6-linux", "name the stack by its option: invoke setup --stack=zluda-v6-linux"),
        ("setup --yes zluda-v6-linux", "invoke setup --yes --stack=zluda-v6-linux"),
        ("stacks --for-gpu RX 9060 XT", "--for-gpu=RX 9060 XT"),
        ("stacks --for-gpu=RX 9060 XT --json", "--for-gpu=RX 9060 XT"),
    ],
)
def test_a_word_that_belongs_to_an_option_is_given_to_it(line: str, hint: str) -> None:
    hinted = refused(line.split()).error.hint
    assert hint in hinted
    if sys.platform != "win32":
        read = read_line(shlex.split(hinted.partition("invoke ")[2]))
        assert isinstance(read, Call)


def test_help_behind_a_program_has_no_lookalike() -> None:
    error = refused(["wrap", "--exe=p", "--help"]).error
    assert "`invoke wrap --help` shows the help" in error.message
    assert error.hint == "did you mean `--`? invoke wrap --exe=p -- --help"


@pytest.mark.usefixtures("module_form")
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("wrap --exe=p -c", "-c is no option of wrap"),
        ("status -c", "-c is no option of status"),
        ("-c status", "unexpected option -c before a task"),
    ],
)
def test_without_invoke_no_line_speaks_of_its_options(line: str, message: str) -> None:
    assert refused(line.split()).error.message == message


def test_only_invokes_list_speaks_of_the_other_form(module_form: None) -> None:
    del module_form
    assert "Outside the environment" not in list_text()
    parse.set_form("")
    assert "Outside the environment" in list_text()
