"""What ``--list`` and ``--help TASK`` print, made from the registry. Standard library only."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from itertools import groupby
from typing import Final

from scripts import __version__
from scripts.cli.console import patient, ready_streams
from scripts.cli.options import Option, Verb
from scripts.cli.parse import WRITTEN, Show, as_typed, form
from scripts.cli.tables import terminal_width
from scripts.cli.verbs import VERBS

WIDEST: Final = 100
_WHERE: Final = (
    "Outside the environment: python -m scripts TASK, or from any other folder python CHECKOUT/scripts TASK."
)


def show_help(asked: Show) -> int:
    """Print what a line asks about the tasks; a reader that goes away (``| head``) is no failure."""
    ready_streams()
    text = {"list": list_text, "help": help_text, "version": _version_text}[asked.what](asked.topic)
    encoding = sys.stdout.encoding or "ascii"
    with patient():
        sys.stdout.write(text.replace("…", "...").encode(encoding, "replace").decode(encoding))
        sys.stdout.flush()
    return 0


def list_text(topic: str = "") -> str:
    """List the tasks by group; ``topic`` (``pins``) shows only those below it."""
    verbs = [verb for verb in VERBS.values() if not topic or verb.name.partition(".")[0] == topic] or [
        *VERBS.values()
    ]
    column = min(max(len(verb.name) for verb in verbs) + 4, 17)
    lines = [f"Usage: {form()} TASK [OPTIONS]"]
    for group, members in groupby(verbs, key=lambda verb: verb.group):
        lines += ["", f"{group[0].upper()}{group[1:]}:"]
        for verb in members:
            lines += _hanging(f"  {verb.name}", as_typed(verb.summary), column)
    lines += ["", f"One of them with its options: {form()} --help TASK"]
    if form() == WRITTEN:
        lines.append(_WHERE)
    return "\n".join(_wrapped(lines)) + "\n"


def help_text(topic: str) -> str:
    """Explain one task; without a name, how tasks are run."""
    verb = VERBS.get(topic)
    if verb is None:
        return list_text()
    lines = [*_usage(verb), "", *textwrap.wrap(as_typed(verb.summary), _width()), "", "Options:"]
    column = min(max(len(option.form) for option in verb.options) + 4, 28)
    for option in verb.options:
        lines += _hanging(f"  {option.form}", _meaning(option, is_bare=option.name == verb.bare), column)
    lines += ["", "Example:", f"  {form()} {f'{verb.name} {verb.example}'.strip()}"]
    return "\n".join(lines) + "\n"


def _usage(verb: Verb) -> Iterator[str]:
    """Yield the forms in which a verb is typed."""
    bare = verb.option(verb.bare) if verb.bare else None
    required = [o.form for o in verb.options if o.required and o is not bare]
    optional = ["[OPTIONS]"]
    rest = f"[{verb.rest}]" if verb.rest else ""
    forms = [[*required, *optional, *([bare.form, f"[-- {verb.rest}]" if rest else ""] if bare else [rest])]]
    if bare is not None:
        value = bare.value.partition("|")[0]
        forms.append([*required, *optional, value, rest])
    for number, words in enumerate(forms):
        yield f"{'       ' if number else 'Usage: '}{form()} {' '.join(filter(None, (verb.name, *words)))}"


def _meaning(option: Option, *, is_bare: bool) -> str:
    """Return an option's help with its marks."""
    marks = [
        f"required, also as {option.value.partition('|')[0]} alone"
        if option.required and is_bare
        else "required"
        if option.required
        else "",
        f"default: {option.default}" if option.default else "",
        "can be given several times" if option.many else "",
    ]
    shown = ", ".join(filter(None, marks))
    return as_typed(f"{option.help} ({shown})" if shown else option.help)


def _width() -> int:
    return max(40, min(terminal_width(), WIDEST))


def _hanging(head: str, text: str, column: int) -> list[str]:
    """Set a text beside its head, indented where it folds; a head that is too long stands alone."""
    width = max(_width() - column, 20)
    folded = textwrap.wrap(text, width, break_on_hyphens=False, break_long_words=False)
    if len(head) + 2 > column:
        return [head, *(" " * column + line for line in folded)]
    return [head.ljust(column) + folded[0], *(" " * column + line for line in folded[1:])]


def _wrapped(lines: list[str]) -> Iterator[str]:
    for line in lines:
        if line.startswith(" "):
            yield line
        else:
            yield from textwrap.wrap(line, _width(), break_on_hyphens=False) or [""]


def _version_text(_topic: str) -> str:
    return f"cuda-on-amd {__version__}\n"
