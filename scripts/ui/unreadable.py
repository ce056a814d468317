"""What a person sees when Invoke cannot read a line: its complaint, and what to do."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final

from scripts.errors import UsageError, WorkspaceError
from scripts.launch.argv import split_argv
from scripts.ui.console import Out
from scripts.ui.streams import ready_streams

#: How Invoke says that an option ends the line without its value: with the inside of its own object.
_NO_VALUE: Final = re.compile(r"Flag <Argument: ([\w-]+)[^>]*> needed value and was not given one!")


def complain(complaint: str, argv: Sequence[str], tasks: Sequence[str]) -> int:
    """Show why a line cannot be read, as an object too where ``--json`` was asked for.

    Args:
        complaint: Invoke's own sentence.
        argv: the process's arguments; what follows ``--`` belongs to a program.
        tasks: the names of all tasks.

    Returns:
        1, as Invoke itself does; 121 where a program was to be run, since 1 could be that program's.
    """
    ready_streams()
    words = split_argv(argv)[0][1:]
    task = next((word for word in words if word in tasks), "")
    lacking = _NO_VALUE.fullmatch(complaint)
    if lacking is not None:
        option = f"--{lacking[1].replace('_', '-')}"
        complaint = f"{option} needs a value: {option}=…"
    error = WorkspaceError("unreadable-line", complaint, hint=_hint(task, words, tasks))
    if "--json" in words:
        sys.stdout.write(json.dumps(error.to_json(), indent=2) + "\n")
    Out().error(error.reference, error.message, hint=error.hint)
    if task != "wrap":
        return int(error.code)
    from scripts.app.wrap.wrap import not_started_code  # noqa: PLC0415 - seldom needed, and not small

    return not_started_code(UsageError(error.reference, complaint))


def _hint(task: str, words: Sequence[str], tasks: Sequence[str]) -> str:
    """Say what may have been meant, and where the options are explained."""
    if task == "wrap":
        return "invoke wrap --exe=PROGRAM -- ARGUMENTS; the options: invoke --help wrap"
    if task:
        return f"the options: invoke --help {task}"
    typed = next((word for word in words if not word.startswith("-")), "")
    alike = get_close_matches(typed, tasks, n=1)
    return f"did you mean {alike[0]}? All tasks: invoke --list" if alike else "all tasks: invoke --list"
