"""The registry, and that everything else is made from it."""

from __future__ import annotations

import inspect
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import get_type_hints

import pytest

import tasks
from scripts.__main__ import ENDING
from scripts.app.context import workspace_from_environ
from scripts.cli.help import help_text, list_text
from scripts.cli.parse import Call, read_line
from scripts.cli.present import use_case
from scripts.cli.verbs import TASKS, VERBS
from scripts.errors import UsageError
from scripts.osal.signals import DeferredSignals, ForwardedSignals
from tests.checkout import ROOT, Checkout
from tools import verb_tables

pytestmark = pytest.mark.proof


def keywords_of(task: str) -> Mapping[str, object]:
    """What a use case can be given, with the defaults: keywords of its own, and a record that it shares."""
    function = use_case(VERBS[task])
    found: dict[str, object] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY:
            found[name] = parameter.default
        elif parameter.kind is parameter.VAR_KEYWORD:
            (record,) = re.findall(r"Unpack\[(\w+)\]", parameter.annotation)
            words = get_type_hints(function.__globals__[record])
            found |= {word: kind() for word, kind in words.items()}
    return found


@pytest.mark.parametrize("task", TASKS)
def test_a_use_case_takes_what_its_verb_offers(task: str) -> None:
    """Each option is a keyword with the same default; what else it takes is no text and no switch."""
    keywords = keywords_of(task)
    offered = {
        option.parameter: None if option.is_list else False if option.is_switch else option.default
        for option in VERBS[task].options
        if option.name != "json"
    }
    assert {name: keywords[name] for name in offered} == offered
    rest = {name: value for name, value in keywords.items() if name not in offered}
    assert not [name for name, value in rest.items() if isinstance(value, (str, bool))]


@pytest.mark.parametrize("task", TASKS)
def test_a_verb_has_a_view(task: str) -> None:
    view = import_module(f"scripts.cli.views.{VERBS[task].view}")
    assert callable(getattr(view, f"show_{VERBS[task].module}"))


@pytest.mark.parametrize("task", VERBS)
def test_a_home_is_named_only_where_it_is_another_module(task: str) -> None:
    assert VERBS[task].home != VERBS[task].module


NAMING_A_PATH = [
    (verb.name, option.name)
    for verb in VERBS.values()
    for option in verb.options
    if {"FILE", "FOLDER", "PATH"} & set(re.split(r"[ |]", option.value))
]
#: What a verb needs before it looks at the option.
BEFORE: Mapping[str, dict[str, object]] = {
    "wrap": {"exe": sys.executable},
    "shim": {"exe": sys.executable},
    "ab": {"a": "cpu-reference", "b": "cpu-reference"},
    "compare": {
        "records": str(ROOT / "evidence" / "records" / "ppo-ab-2026-09-13.csv"),
        "baseline": "upstream",
    },
}


@pytest.mark.parametrize(("task", "name"), NAMING_A_PATH)
def test_every_path_that_is_typed_is_read_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: str, name: str
) -> None:
    option = VERBS[task].option(name)
    assert option is not None
    typed = "no\0path.toml"  # the ending is how a workload is known to be a file
    value = [typed] * option.takes if option.is_list else typed
    ws = workspace_from_environ(
        {"CUDA_AMD_CACHE": str(tmp_path), "CUDA_AMD_STATE": str(tmp_path)}, root=tmp_path
    )
    shutil.copy(ROOT / "pins.lock", tmp_path)
    monkeypatch.setattr("scripts.app.shim.staged_runtime", lambda *_, **__: None)  # nothing is staged here
    with pytest.raises(UsageError) as caught:
        use_case(VERBS[task])(ws, **{**BEFORE.get(task, {}), option.parameter: value})
    assert caught.value.reference == "bad-path"
    assert f"--{name}" in caught.value.message


def test_invokes_tasks_are_the_registrys() -> None:
    assert set(tasks.ns.task_names) == set(VERBS)


@pytest.mark.parametrize("task", VERBS)
def test_invokes_options_are_the_registrys(task: str) -> None:
    theirs = {argument.attr_name or argument.name: argument for argument in tasks.ns[task].get_arguments()}
    assert set(theirs) == {option.parameter for option in VERBS[task].options}
    for option in VERBS[task].options:
        assert theirs[option.parameter].help == option.help
        assert theirs[option.parameter].takes_value is not option.is_switch


@pytest.mark.parametrize("task", VERBS)
def test_the_help_says_all(task: str) -> None:
    verb, text = VERBS[task], help_text(task)
    folded = " ".join(text.split())
    for part in (f"invoke {verb.name}", verb.summary, f"invoke {verb.name} {verb.example}".strip()):
        assert part in folded
    for option in verb.options:
        line = next(line for line in text.splitlines() if line.startswith(f"  {option.form}"))
        assert option.help.split()[0] in text.partition(line.strip().split()[0])[2]
    assert folded.count("(required") == sum(option.required for option in verb.options)
    assert all(f"default: {option.default}" in folded for option in verb.options if option.default)


def test_the_help_names_both_forms_of_a_program_and_quotes_patterns() -> None:
    assert "(required, also as PROGRAM alone)" in " ".join(help_text("wrap").split())
    assert "invoke probe --only='memory-*'" in help_text("probe")


@pytest.mark.parametrize("task", TASKS)
def test_the_example_can_be_read(task: str) -> None:
    call = read_line([task, *VERBS[task].example.split()])
    assert isinstance(call, Call)
    required = {option.parameter for option in VERBS[task].options if option.required}
    assert required <= set(call.options), "the example lacks what the verb requires"


def test_the_list_begins_with_what_a_beginner_needs() -> None:
    lines = list_text().splitlines()
    named = [line.split()[0] for line in lines if line.startswith("  ") and line[2] != " "]
    assert named[:3] == ["setup", "wrap", "status"]
    assert sorted(named) == sorted(VERBS)


def test_no_page_of_help_is_wider_than_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    for text in (list_text(), *(help_text(task) for task in VERBS)):
        prose = [line for line in text.splitlines() if not line.lstrip().startswith(("invoke ", "Usage:"))]
        assert max(map(len, prose)) <= 60


REQUIRED = [(task, o.name) for task in TASKS for o in VERBS[task].options if o.required]


@pytest.mark.proof
def test_a_required_option_is_missed(ready: Checkout) -> None:
    for task, option in REQUIRED:
        others = [f"--{name}=x" for verb, name in REQUIRED if verb == task and name != option]
        done = ready.run(task, *others)
        assert done.returncode == (121 if task == "wrap" else 2), (task, done.stderr)
        assert f"--{option}" in done.stderr, task


#: What a maintainer writes for an option, and for a verb: the files, and the text that is put into them.
NEW_OPTION = {
    "scripts/cli/verbs.py": ('take("stack deep")', 'take("stack deep", Option("twice", "read it twice"))'),
    "scripts/app/verify.py": ("deep: bool = False", "deep: bool = False, twice: bool = False"),
}
NEW_VERB = {
    "scripts/cli/verbs.py": (
        '    Verb(\n        "test"',
        '    Verb("greet", UPKEEP, "Greet.", take(""), view="greet"),\n    Verb(\n        "test"',
    ),
    "scripts/app/greet.py": (
        "",
        """
class Greeting:
    exit_code = 0
    def to_json(self):
        return {'said': 'hello'}
def greet(ws):
    return Greeting()
""",
    ),
    "scripts/cli/views/greet.py": ("", "def show_greet(result, out):\n    out.line('hello')\n"),
}


def apply(root: Path, change: dict[str, tuple[str, str]]) -> None:
    for name, (old, new) in change.items():
        path = root / name
        text = path.read_text(encoding="utf-8") if old else ""
        assert old in text
        path.write_text(text.replace(old, new, 1) if old else new, encoding="utf-8")


def typed_in(root: Path, *words: str, program: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    command = [*(program or (sys.executable, str(root / "scripts"))), *words]
    return subprocess.run(
        command,
        cwd=root,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        stdin=subprocess.DEVNULL,
    )


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    for name in ("scripts", "tasks.py", "pins.lock", "requirements.lock"):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, tmp_path / name)
    return tmp_path


def test_a_new_option_touches_two_files(copied: Path) -> None:
    apply(copied, NEW_OPTION)
    assert len(NEW_OPTION) == 2
    assert "--twice" in typed_in(copied, "--help", "verify").stdout
    assert "nothing is staged" in typed_in(copied, "verify", "--twice").stdout


def test_a_new_verb_touches_three_files(copied: Path) -> None:
    apply(copied, NEW_VERB)
    assert len(NEW_VERB) == 3
    invoke = (sys.executable, "-m", "invoke")
    assert "Greet." in typed_in(copied, "--list").stdout
    assert typed_in(copied, "greet").stdout == "hello\n"
    assert typed_in(copied, "greet", program=invoke).stdout == "hello\n"
    assert '"said"' in typed_in(copied, "greet", "--json", program=invoke).stdout
    assert "greet" in typed_in(copied, "--complete", "--", "invoke gr", program=invoke).stdout


def through_invoke(words: list[str], cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "invoke", *words],
        cwd=cwd,
        env=os.environ | more,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        stdin=subprocess.DEVNULL,
    )


SAME = (
    ["--list"],
    ["--help", "wrap"],
    ["wrap", "--help"],
    ["statu"],
    ["statu", "--json"],
    ["status", "--nope", "--json"],
    ["use", "--stack=nothing"],
    ["wrap", "--exe=a", "-f", "x.py"],
    ["-f", "x.py", "status"],
    ["status", "--json"],
)


def test_invoke_does_what_the_front_door_does(checkout: Checkout) -> None:
    for words in SAME:
        ours = checkout.run(*words)
        theirs = through_invoke(words, checkout.root, **checkout.environ)
        assert (theirs.returncode, theirs.stdout, theirs.stderr) == (
            ours.returncode,
            ours.stdout,
            ours.stderr,
        )


def test_invoke_runs_no_file_that_a_line_names(checkout: Checkout) -> None:
    planted = checkout.root / "planted.py"
    planted.write_text("open('ran', 'w')\n", encoding="utf-8")
    checkout.front_door()
    for words in (["wrap", "--exe=x", "-f", "planted.py"], ["-f", "planted.py", "status"]):
        assert through_invoke(words, checkout.root, **checkout.environ).returncode in {2, 121}
    assert not (checkout.root / "ran").exists()


@pytest.mark.posix_only
def test_invoke_hands_the_programs_end_on(ready: Checkout) -> None:
    run = ["wrap", "/bin/sh", "-c", "echo $1; exit 7", "-V", "-l"]
    done = through_invoke(run, ready.root, **ready.environ)
    assert (done.returncode, done.stdout) == (7, "-l\n")


def test_the_tables_of_verbs_are_up_to_date() -> None:
    assert verb_tables.write(check=True), "write them: python -m tools.generated_docs"


def codes_of_signals() -> set[int]:
    page = (ROOT / "docs" / "exit-codes.md").read_text(encoding="utf-8")
    ranges = re.findall(r"^\| (\d+)(?: to (\d+))? \| `SIG", page, re.MULTILINE)
    return {code for first, last in ranges for code in range(int(first), int(last or first) + 1)}


@pytest.mark.posix_only
def test_every_signal_that_we_answer_or_pass_on_is_on_the_page() -> None:
    with ForwardedSignals() as forwarded:
        passed_on = set(forwarded.taken)
    with DeferredSignals() as deferred:
        answered = set(deferred.taken)
    number = {name: signal.Signals[name] for name in ("SIGQUIT", "SIGUSR1", "SIGSEGV", "SIGPIPE")}
    assert {*number.values()} <= passed_on
    assert {number["SIGQUIT"], number["SIGUSR1"]} <= answered
    assert {128 + number for number in passed_on | answered | {*ENDING}} <= codes_of_signals()


@pytest.mark.windows_only
def test_every_signal_of_windows_is_on_the_page() -> None:
    assert {128 + number for number in ENDING} <= codes_of_signals()


def test_every_verb_that_a_row_is_about_is_counted() -> None:
    table = verb_tables.codes_table((ROOT / "docs" / "exit-codes.md").read_text(encoding="utf-8"))
    assert "| `check` | 2, 3, 32, 60 |" in table
    assert "| `wrap` | 41, 42, 121, 122, 124, 126, any, signal |" in table


def test_both_locks_pin_the_same_versions() -> None:
    def pins(name: str) -> set[str]:
        lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
        return {line.rstrip(" \\") for line in lines if "==" in line}

    assert pins("requirements.lock") < pins("requirements-test.lock")
