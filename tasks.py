"""Invoke tasks: read the command line, call one use case, render, end with its exit code.

``invoke --list`` shows them, ``invoke --help TASK`` explains one. Every parameter is a string or a
switch, because Invoke passes nothing else faithfully; the use cases read them and complain by name.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path

from invoke.collection import Collection
from invoke.context import Context
from invoke.exceptions import Exit
from invoke.program import Program
from invoke.tasks import task as invoke_task

sys.path.insert(0, str(Path(__file__).resolve().parent))

from scripts import __version__
from scripts.ui.commandline import HELP

task = functools.partial(invoke_task, auto_shortflags=False)


def verb(*options: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a function an Invoke task whose options are explained in one table."""
    return task(help={name: HELP[name] for name in (*options, "json")})


def call(name: str, options: dict[str, object]) -> None:
    """Perform the use case ``name`` with the task's parameters, and end with its exit code."""
    from scripts.ui.present import perform  # noqa: PLC0415 - `invoke --list` stays quick

    options.pop("c")
    as_json = bool(options.pop("json"))
    raise Exit(code=perform(name, options, argv=sys.argv, as_json=as_json))


@verb("stack", "gpu", "with", "yes", "offline", "mirror", "only-proven")
def setup(
    c: Context, stack="", gpu="", with_="", yes=False, offline=False, mirror="", only_proven=False, json=False
):
    """Set up a stack for this machine: choose, fetch, verify, assemble, check, run, report."""
    call("setup", locals())


ns = Collection(setup)


def main(arguments: list[str]) -> int:
    """Run tasks from anywhere; the same as ``invoke`` inside the checkout."""
    program = Program(name="cuda-on-amd", version=__version__, namespace=ns, binary="invoke")
    try:
        program.run(["invoke", *arguments])
    except SystemExit as leaving:
        return int(leaving.code or 0)
    return 0
