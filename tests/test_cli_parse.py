"""One parser for every line: what it reads, what it refuses, and what it says then."""

from __future__ import annotations

import itertools
import shlex
import sys
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from invoke.main import program as invoke_program

from scripts.app.wrap_result import not_started_code
from scripts.cli.options import Option
from scripts.cli.parse import INVOKES, WRAP_USAGE, Call, LineError, Show, read_line, read_or_answer
from scripts.cli.verbs import TASKS, VERBS
from scripts.errors import UsageError

WORDS = st.one_of(
    st.sampled_from(["", "-", "--", "-x", "gemm", "status", "A=B", "ü ä", "--json", "no", "-f", "-V", "[x]"]),
    st.text(max_size=6),
)


def read(line: str | Sequence[str]) -> Call:
    call = read_line(line.split() if isinstance(line, str) else line)
    assert isinstance(call, Call)
    return call


def refused(line: str | Sequence[str]) -> LineError:
    with pytest.raises(LineError) as caught:
        read_line(line.split() if isinstance(line, str) else line)
    return caught.value


def value_for(option: Option) -> object:
    return True if option.is_switch else ["a=b", "c=d"] if option.is_list else "value"


def typed(option: Option, *, apart: bool) -> list[str]:
    value = value_for(option)
    values = [str(one) for one in (value if isinstance(value, list) else [value])]
    if option.is_switch:
        return [f"--{option.name}"]
    if option.takes > 1:
        first, *more = values
        return [f"--{option.name}", first, *more] if apart else [f"--{option.name}={first}", *more]
    return [w for v in values for w in ([f"--{option.name}", v] if apart else [f"--{option.name}={v}"])]


@pytest.mark.parametrize("apart", [False, True], ids=["--option=value", "--option value"])
@pytest.mark.parametrize("task", TASKS)
def test_every_option_can_be_given(task: str, *, apart: bool) -> None:
    options = VERBS[task].options
    call = read([task, *itertools.chain.from_iterable(typed(option, apart=apart) for option in options)])
    expected = {option.parameter: value_for(option) for option in options if option.name != "json"}
    assert (call.verb.name, call.options, call.as_json) == (task, expected, True)


def test_nothing_typed_is_nothing_given() -> None:
    assert [(read([task]).options, read([task]).as_json) for task in TASKS] == [({}, False)] * len(TASKS)


@given(st.lists(WORDS, max_size=6))
def test_what_follows_the_dashes_is_untouched(words: list[str]) -> None:
    assert read(["wrap", "--exe=p", "--", *words]).arguments == tuple(words)


@given(st.lists(WORDS, max_size=6))
def test_what_follows_a_program_is_untouched(words: list[str]) -> None:
    """As with ``uv run``; only a ``--`` right behind the program could belong to either.

    A lone typographic dash or ``=`` right behind it is a slip: ``tests/test_cli_corrections.py``.
    """
    line = ["wrap", "--stack=s", "./program", *words]
    if words[:1] in (["="], ["\u2013"], ["\u2014"]):
        assert "is no argument" in refused(line).error.message
        return
    if words[:1] == ["--"]:
        assert "--exe=./program" in refused(line).error.hint
        return
    call = read(line)
    assert (call.options, call.arguments) == ({"stack": "s", "exe": "./program"}, tuple(words))
    assert not call.as_json


def test_the_program_may_stand_behind_the_dashes() -> None:
    call = read(["wrap", "--keep", "--", "program", "--", "-x"])
    assert (call.options, call.arguments) == ({"keep": True, "exe": "program"}, ("--", "-x"))


@pytest.mark.parametrize("option", sorted(INVOKES))
@pytest.mark.parametrize("task", ["wrap", "status", "compare"])
def test_no_option_of_invoke_is_obeyed_behind_a_task(task: str, option: str) -> None:
    """``-f FILE.py`` would run that file in this process, ``-V`` end it with 0, ``-T`` eat a word."""
    for more in ([], ["x.py"]):
        line = [task, *(["--exe=p"] if task == "wrap" else ["--json"]), option, *more]
        error = refused(line)
        assert error.code == (WRAP_USAGE if task == "wrap" else 2)
        if task == "wrap":
            assert error.error.hint.startswith("did you mean ")
            assert "`--`? invoke wrap --exe=p -- " in error.error.hint


@pytest.mark.parametrize("option", sorted(INVOKES - {"--list", "-l", "--help", "-h", "--version", "-V"}))
def test_no_option_of_invoke_is_obeyed_before_a_task(option: str) -> None:
    error = refused([option, "x.py", "status"])
    assert (error.code, error.error.reference) == (2, "unreadable-line")
    assert error.error.hint.endswith("invoke status")


def test_the_options_of_invoke_are_all_known() -> None:
    theirs = {
        f"{'-' if len(name) == 1 else '--'}{name}"
        for argument in (*invoke_program.core_args(), *invoke_program.task_args())
        for name in argument.names
    }
    assert theirs <= INVOKES


def test_a_refused_line_is_shown_as_it_was_meant() -> None:
    hint = refused(["wrap", "--exe=my app", "-f", "a b.py", "--", "x"]).error.hint
    assert hint.startswith("did you mean `--`? invoke ")
    if sys.platform != "win32":
        meant = read(shlex.split(hint.partition("invoke ")[2]))
        assert (meant.options, meant.arguments) == ({"exe": "my app"}, ("-f", "a b.py", "x"))


@pytest.mark.parametrize(
    ("line", "code", "reference", "message", "hint"),
    [
        ("chek", 2, "unreadable-line", "unknown task 'chek'", "did you mean check?"),
        ("xyzzy", 2, "unreadable-line", "unknown task", "invoke --list"),
        ("--help nothing", 2, "unreadable-line", "unknown task 'nothing'", "invoke --list"),
        ("status --nope", 2, "unreadable-line", "--nope is no option of status", "invoke --help status"),
        ("status --jsn", 2, "unreadable-line", "--jsn", "did you mean --json?"),
        ("wrap --no_profile", 121, "unreadable-line", "--no_profile", "did you mean --no-profile"),
        ("wrap --exe=a b", 121, "stray-word", "unexpected argument 'b'", "invoke wrap --exe=a -- b"),
        ("wrap status", 121, "stray-word", "'status' is a task", "invoke wrap --exe=status"),
        ("wrap --exe", 121, "unreadable-line", "--exe needs a value", "--exe=PROGRAM"),
        ("status stacks", 2, "stray-word", "one task at a time", "invoke stacks"),
        ("status x", 2, "stray-word", "unexpected argument 'x'", "invoke --help status"),
        ("compare a b", 2, "stray-word", "'b': compare takes no further word", "invoke --help compare"),
        ("remove wat", 2, "stray-word", "'wat': remove takes options only", "invoke --help remove"),
        ("-s validate", 2, "unreadable-line", "-s is an option of Nox", "nox -s validate"),
        ("status -- x", 2, "unreadable-line", "nothing can follow `--`", "invoke --help status"),
        ("scan --gpu", 2, "unreadable-line", "--gpu needs a value", "--gpu=NUMBER"),
        ("scan --gpu=", 2, "unreadable-line", "--gpu needs a value", "--gpu=NUMBER"),
        ("scan --gpu --json", 2, "unreadable-line", "--gpu needs a value", "--gpu=NUMBER"),
        ("scan --gpu=1 --gpu=2", 2, "unreadable-line", "--gpu is given twice", "leave one of the two out"),
        ("probe --compare", 2, "unreadable-line", "--compare needs 2 values", "--compare=FILE FILE"),
        ("probe --compare a", 2, "unreadable-line", "--compare needs 2 values", "--compare=FILE FILE"),
        ("probe --compare a --json", 2, "unreadable-line", "--compare needs 2 values", "FILE FILE"),
        ("probe --compare a b c", 2, "stray-word", "unexpected argument 'c'", "invoke --help probe"),
        ("probe --compare a b --compare c d", 2, "unreadable-line", "--compare is given twice", "leave one"),
        ("scan --json=yes", 2, "unreadable-line", "--json takes no value", "leave =yes out"),
        (
            "--json status",
            2,
            "unreadable-line",
            "unexpected option --json before a task",
            "invoke status --json",
        ),
    ],
)
def test_a_line_that_cannot_be_read(line: str, code: int, reference: str, message: str, hint: str) -> None:
    error = refused(line)
    assert (error.code, error.error.reference) == (code, reference)
    assert message in error.error.message
    assert hint in error.error.hint


def test_a_bare_word_is_the_one_that_the_verb_names() -> None:
    assert read("compare a.json --warmup=1").options == {"records": "a.json", "warmup": "1"}
    assert read("preflight p").options == {"exe": "p"}
    assert read("use s").options == {"stack": "s"}
    assert read("doctor --log -").options == {"log": "-"}
    assert read("wrap --set=A=-1 --set B=2 p").options["set_"] == ["A=-1", "B=2"]


def test_words_behind_test_are_those_of_pytest() -> None:
    assert read("test -n 0 --help -x").arguments == ("-n", "0", "--help", "-x")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", Show("list")),
        ("--list", Show("list")),
        ("-l", Show("list")),
        ("--list=pins", Show("list", "pins")),
        ("--help wrap", Show("help", "wrap")),
        ("--help=wrap", Show("help", "wrap")),
        ("help wrap", Show("help", "wrap")),
        ("help", Show("help")),
        ("wrap --help", Show("help", "wrap")),
        ("pins.check -h", Show("help", "pins.check")),
        ("--version", Show("version")),
    ],
)
def test_what_asks_about_the_tasks(line: str, expected: Show) -> None:
    assert read_line(line.split()) == expected


def test_the_code_of_a_line_that_wrap_refuses_is_its_own() -> None:
    assert not_started_code(UsageError("x", "x")) == WRAP_USAGE


def test_json_of_the_program_is_not_ours(capsys: pytest.CaptureFixture[str]) -> None:
    assert read_or_answer(["wrap", "--nope", "--", "--json"]) == WRAP_USAGE
    assert capsys.readouterr().out == ""
