"""How a line is typed here: ``invoke``, ``python3 -m scripts``, ``python CHECKOUT/scripts``.

What a person is advised to type is written ``invoke TASK`` everywhere in the sources, and is shown in the
form that was typed, so that it can be pasted: whoever typed another form may not have Invoke.
Standard library only.
"""

from __future__ import annotations

import functools
import re
from typing import Final

from scripts.cli.verbs import VERBS

#: The form in the sources, in documents and in ``--json``.
WRITTEN: Final = "invoke"
#: One entry: the form of this process.
_FORM: Final = [WRITTEN]


def set_form(text: str) -> None:
    """Set what was typed before the task."""
    _FORM[0] = text or WRITTEN


def form() -> str:
    """Return what was typed before the task."""
    return _FORM[0]


def as_typed(text: str) -> str:
    """Return a text with its lines for this workspace in the form that was typed.

    >>> set_form("python3 -m scripts")
    >>> as_typed("set one up: invoke setup, or `invoke --list`")
    'set one up: python3 -m scripts setup, or `python3 -m scripts --list`'
    >>> set_form("")
    """
    if form() == WRITTEN or WRITTEN not in text:
        return text
    return _lines().sub(lambda _found: form(), text)


@functools.cache
def _lines() -> re.Pattern[str]:
    """Find the word before a task or an option; a path that holds it is left alone."""
    tasks = "|".join(sorted(map(re.escape, VERBS), key=len, reverse=True))
    return re.compile(rf"(?<![\w./\\-]){WRITTEN}(?= (?:--(?:help|list)|TASK|{tasks})(?![\w/\\]))")
