"""The straight way reads a plain line as Invoke does, and leaves every other line to Invoke."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from invoke.exceptions import Exit

import tasks
from scripts.cli import straight
from scripts.cli.straight import TASKS, parameters, perform_plain, read_options

NAMES = sorted(TASKS)
TAKEN = {task: parameters(task) for task in NAMES}
WORDS = st.one_of(
    st.sampled_from(
        ["", "-", "--", "-x", "gemm", "status", "wrap", "A=B", "ü ä", "--json", "no", "1", "[x]"]
    ),
    st.text(max_size=6),
)


def by_invoke(words: Sequence[str]) -> tuple[str, Mapping[str, object]] | None:
    """What Invoke makes of a line of one task; ``None`` where it complains or runs something else."""
    program = tasks.FrontDoor(name="x", version="0", namespace=tasks.ns, binary="invoke")
    hidden = io.StringIO()
    try:
        with contextlib.redirect_stdout(hidden), contextlib.redirect_stderr(hidden):
            program.create_config()
            program.parse_core(["invoke", *words])
            program.parse_collection()
            program.parse_tasks()
    except (Exit, SystemExit):
        return None
    [context, *others] = program.tasks or [None]
    if context is None or others:
        return None
    return str(context.name), context.as_kwargs


def option(name: str) -> str:
    return f"--{name.rstrip('_').replace('_', '-')}"


@st.composite
def lines(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A task and words after it: mostly its own options, in every spelling, and now and then anything."""
    task = draw(st.sampled_from(NAMES))
    words: list[str] = []
    for name in draw(st.lists(st.sampled_from([*sorted(TAKEN[task]), "help", "nothing"]), max_size=5)):
        form = draw(st.sampled_from(["bare", "equals", "equals", "two words"]))
        value = draw(WORDS)
        words += {
            "bare": [option(name)],
            "equals": [f"{option(name)}={value}"],
            "two words": [option(name), value],
        }[form]
    if draw(st.integers(0, 9)) == 0:
        words.insert(draw(st.integers(0, len(words))), draw(WORDS))
    return task, words


@given(lines())
def test_a_plain_line_means_what_invoke_reads(line: tuple[str, list[str]]) -> None:
    task, words = line
    mine = read_options([*words[: words.index("--")]] if "--" in words else words, TAKEN[task])
    if mine is None or "--" in words:
        return
    theirs = by_invoke([task, *words])
    assert theirs is not None, f"Invoke does not read {words}"
    name, values = theirs
    given_and_default = {**TAKEN[task], **({"set_": []} if task == "wrap" else {}), **mine}
    assert (name, {key: values[key] for key in given_and_default}) == (task, given_and_default)


@pytest.mark.parametrize("task", NAMES)
def test_every_option_can_be_given_plainly(task: str) -> None:
    """The property above would also hold of a reader that reads nothing."""
    words = [option(name) if value is False else f"{option(name)}=x" for name, value in TAKEN[task].items()]
    expected = {
        name: True if value is False else ["x"] if value is None else "x"
        for name, value in TAKEN[task].items()
    }
    assert read_options(words, TAKEN[task]) == expected


def test_the_tasks_are_those_of_invoke() -> None:
    assert set(tasks.ns.task_names) == TASKS | {"compare"}


@pytest.mark.parametrize("task", NAMES)
def test_a_use_case_and_its_task_take_the_same(task: str) -> None:
    """A task hands on all of its parameters, the straight way only those that were typed."""
    theirs = {argument.name: argument.default for argument in tasks.ns[task].get_arguments()}
    theirs = {name: None if value == [] else value for name, value in theirs.items()}
    assert theirs == TAKEN[task]


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--list",),
        ("--help", "wrap"),
        ("wrap", "--help"),
        ("wrap", "-h"),
        ("status", "scan"),
        ("status", "--", "x"),
        ("scan", "--gpu"),
        ("scan", "--gpu="),
        ("scan", "--gpu", "--json"),
        ("scan", "--gpu=--json"),
        ("scan", "--gpu=1", "--gpu=2"),
        ("scan", "--json=yes"),
        ("compare", "a.json"),
        ("compare", "--records=a.json"),
        ("wrap", "--no_profile"),
        ("statu",),
        ("workspace",),
    ],
    ids=" ".join,
)
def test_other_lines_are_left_to_invoke(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    def performed(*_: object, **__: object) -> int:
        pytest.fail("it was performed")

    monkeypatch.setattr(straight, "perform", performed)
    monkeypatch.setattr(straight, "perform_wrap", performed)
    assert perform_plain([sys.executable, *words]) is None
