"""Invoke's tasks, made from the registry of ``scripts/cli/verbs.py``.

``invoke TASK`` does what ``python -m scripts TASK`` does: a line that Invoke was started with is read by our
own parser, before Invoke reads it, so that nothing behind a task's name is taken for an option of Invoke. The
tasks below are what Invoke completes in a shell, and what other task files may call.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import cast

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))

from invoke.collection import Collection
from invoke.context import Context
from invoke.exceptions import Exit
from invoke.tasks import Task, task

from scripts.__main__ import enter, main
from scripts.cli.options import JSON, Verb
from scripts.cli.parse import Call
from scripts.cli.verbs import TEST, VERBS


def signature_of(verb: Verb) -> inspect.Signature:
    """Return the parameters that Invoke makes options of."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter("c", kind)]
    for option in verb.options:
        default: object = False if option.is_switch else None if option.is_list else option.default
        parameters.append(inspect.Parameter(option.parameter, kind, default=default))
    return inspect.Signature(parameters)


def body_of(verb: Verb) -> Callable[..., None]:
    """Return the function behind a task."""

    def body(_context: Context, **values: object) -> None:
        if verb.name == TEST:
            raise Exit(code=main([TEST]))
        from scripts.cli.present import perform  # noqa: PLC0415 - completing a line needs no environment

        as_json = bool(values.pop(JSON.name, False))
        given = {name: value for name, value in values.items() if value or isinstance(value, bool)}
        raise Exit(code=perform(Call(verb, given, (), as_json)))

    body.__name__ = verb.name.rpartition(".")[2]
    body.__doc__ = verb.summary
    vars(body)["__signature__"] = signature_of(verb)
    return body


def task_of(verb: Verb) -> Task[Callable[..., None]]:
    """Return one task of Invoke's."""
    made = task(
        body_of(verb),
        name=verb.name.rpartition(".")[2],
        help={option.name: option.help for option in verb.options},
        iterable=[option.parameter for option in verb.options if option.is_list],
        auto_shortflags=False,
    )
    return cast("Task[Callable[..., None]]", made)


def make_collection() -> Collection:
    """Return all tasks, those with a dot in collections of their own."""
    top, inner = Collection(), dict[str, Collection]()
    for verb in VERBS.values():
        room, _, _name = verb.name.rpartition(".")
        if room:
            inner.setdefault(room, Collection(room)).add_task(task_of(verb))
        else:
            top.add_task(task_of(verb))
    for collection in inner.values():
        top.add_collection(collection)
    return top


def started_with() -> list[str] | None:
    """Return the words that ``invoke`` was started with; ``None`` where it was not, or completes a line."""
    program = getattr(sys.modules.get("invoke.main"), "program", None)
    words = list(getattr(program, "argv", ()))[1:]
    asks = {"--complete", "--print-completion-script"}
    return None if program is None or not program.argv or asks.intersection(words) else words


def perform_started() -> None:
    """Perform the line that ``invoke`` was started with, and end."""
    words = started_with()
    if words is None:
        return
    sys.dont_write_bytecode = False  # Invoke's own wish is for task files
    enter(words)


perform_started()
ns = make_collection()
