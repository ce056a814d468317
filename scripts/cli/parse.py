"""From the words of a command line to one call: the only parser of this workspace.

``python -m scripts`` and ``invoke`` both read their words here, once. Invoke's own options are refused
wherever they stand: behind a task it would obey them, and the program would lose its arguments; some load
code or change how tasks run. Standard library only, see ``scripts/cli/verbs.py``.

What a person is advised to type is written ``invoke TASK`` everywhere in the sources, and is shown in the
form that was typed (``as_typed``): whoever typed ``python3 -m scripts`` may not have Invoke.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from scripts.cli.options import Option, Verb
from scripts.cli.verbs import TEST, VERBS, WRAP
from scripts.errors import ExitCode, UsageError, WorkspaceError

#: What ``wrap`` ends with when its line cannot be read: 1 and 2 could be the program's.
WRAP_USAGE: Final = int(ExitCode.WRAP_NOT_STARTED) + 1
#: Invoke's own options (``invoke --help`` of 3.0.3).
INVOKES: Final = frozenset(
    {
        *("--collection", "-c", "--config", "-f", "--search-root", "-r", "--command-timeout", "-T"),
        *("--debug", "-d", "--dry", "-R", "--echo", "-e", "--hide", "--warn-only", "-w", "--pty", "-p"),
        *("--no-dedupe", "--prompt-for-sudo-password", "--write-pyc", "--list-depth", "-D"),
        *("--list-format", "-F", "--list", "-l", "--version", "-V", "--help", "-h", "--complete"),
        "--print-completion-script",
    }
)
_HELP: Final = frozenset({"--help", "-h"})
_LIST: Final = frozenset({"--list", "-l"})
_VERSION: Final = frozenset({"--version", "-V"})
#: The form in the sources, in documents and in ``--json``.
WRITTEN: Final = "invoke"
#: One entry: the form of this process.
_FORM: Final = [WRITTEN]
DASHES: Final = "--"
#: What editors and phones make of `--`.
TYPOGRAPHIC: Final = frozenset({"\u2013", "\u2014"})
EQUALS: Final = "="
_SEE_ALL: Final = "see all tasks: invoke --list"


class Call(NamedTuple):
    """One line, read: what is performed, with what.

    Attributes:
        verb: the row of the registry.
        options: what was typed, by parameter of the use case.
        arguments: the program's own, untouched.
        as_json: whether ``--json`` was typed.
    """

    verb: Verb
    options: Mapping[str, object]
    arguments: tuple[str, ...] = ()
    as_json: bool = False


class Show(NamedTuple):
    """A line that asks about the tasks: ``list``, ``help`` or ``version``; ``topic`` names a task."""

    what: str
    topic: str = ""


class LineError(Exception):
    """A line that cannot be read: what to show, in which form, and the code to end with."""

    def __init__(self, error: WorkspaceError, *, code: int, as_json: bool) -> None:
        """Keep the three."""
        super().__init__(error.message)
        self.error = error
        self.code = code
        self.as_json = as_json


def read_line(words: Sequence[str]) -> Call | Show:
    """Read what stands behind ``invoke`` or ``python -m scripts``.

    Raises:
        LineError: it cannot be read.
    """
    first, rest = (words[0], words[1:]) if words else ("--list", ())
    if first.startswith("-") or first == "help":
        return _about_tasks(first, rest)
    verb = VERBS.get(first)
    if verb is None:
        raise _unknown_task(first, words)
    if len(rest) == 1 and rest[0] in _HELP:
        return _help(verb.name)
    if verb.name == TEST:
        return Call(verb, {}, tuple(rest))
    return _Reader(verb, rest).read()


def _about_tasks(first: str, rest: Sequence[str]) -> Show:
    """Read a line that begins with no task."""
    name, _, topic = first.partition("=")
    topic = topic or next(iter(rest), "")
    if name in _VERSION:
        return Show("version")
    if name in _LIST:
        if topic and topic not in {*VERBS, *(verb.partition(".")[0] for verb in VERBS)}:
            raise _unknown_task(topic, ())
        return Show("list", topic)
    if name in _HELP or first == "help":
        return _help(topic)
    raise _refuse_before((first, *rest))


def _help(topic: str) -> Show:
    if topic and topic not in VERBS:
        raise _unknown_task(topic, ())
    return Show("help", topic)


def _unknown_task(word: str, words: Sequence[str]) -> LineError:
    return _unreadable(words, f"unknown task {word!r}", _alike(word, list(VERBS), _SEE_ALL))


def _refuse_before(words: Sequence[str]) -> LineError:
    """Refuse an option that stands before the task."""
    option = words[0].partition("=")[0]
    task = next((word for word in words if word in VERBS), "")
    if _is_invokes(option):
        msg = f"{option} is an option of Invoke itself, and this workspace obeys none of them"
        return _unreadable(words, msg, f"leave it out: invoke {task or '--list'}")
    if option == "-s" and task:
        return _unreadable(words, "-s is an option of Nox", f"run it with Nox: nox -s {task}")
    hint = f"name the task first: invoke {task} {words[0]}" if task else "name a task: invoke --list"
    return _unreadable(words, f"unexpected option {option} before a task", hint)


class _Reader:
    """Reads what stands behind one verb."""

    def __init__(self, verb: Verb, words: Sequence[str], *, advises: bool = True) -> None:
        self.verb = verb
        self.words = list(words)
        self.known = {f"--{option.name}": option for option in verb.options}
        self.found: dict[str, object] = {}
        self.advises = advises

    def read(self) -> Call:
        """Read all of it."""
        at, arguments = 0, None
        while at < len(self.words) and arguments is None:
            word = self.words[at]
            if word == DASHES:
                arguments = self._behind_dashes(at)
            elif self._is_slip(at):
                raise self._slip(at)
            elif word.startswith("-") and word != "-":
                at = self._option(at)
            else:
                arguments = self._bare(at)
                at += 1
        as_json = bool(self.found.pop("json", False))
        return Call(self.verb, self.found, tuple(arguments or ()), as_json)

    def _option(self, at: int) -> int:
        """Take one option; return where the next word stands."""
        name, equals, value = self.words[at].partition("=")
        option = self.known.get(name)
        if option is None:
            raise self._unknown(at)
        if option.is_switch:
            if equals:
                msg = f"{name} takes no value"
                raise self._refused(msg, f"leave {equals}{value} out")
            self.found[option.parameter] = True
            return at + 1
        if not equals:
            at += 1
            if self._is_slip(at):
                raise self._slip(at)
            value = self.words[at] if at < len(self.words) else ""
            if value.startswith("-") and value != "-":
                value = ""
        values = [value, *self.words[at + 1 : at + option.takes]]
        if not value or len(values) < option.takes or any(word.startswith("-") for word in values[1:]):
            msg = f"{name} needs {'a value' if option.takes == 1 else f'{option.takes} values'}"
            raise self._refused(msg, f"name {'it' if option.takes == 1 else 'them'}: {option.form}")
        self._keep(option, values)
        return at + option.takes

    def _keep(self, option: Option, values: list[str]) -> None:
        earlier = self.found.get(option.parameter)
        if option.many:
            self.found[option.parameter] = [*(earlier if isinstance(earlier, list) else []), *values]
        elif earlier is not None:
            msg = f"--{option.name} is given twice"
            raise self._refused(msg, "leave one of the two out")
        else:
            self.found[option.parameter] = values if option.is_list else values[0]

    def _bare(self, at: int) -> list[str] | None:
        """Take a word that is no option; behind a program's name all others are the program's."""
        word, rest = self.words[at], self.words[at + 1 :]
        option = self.verb.option(self.verb.bare) if self.verb.bare else None
        if option is None or option.parameter in self.found:
            raise self._stray(at)
        if word in VERBS:
            msg = f"{word!r} is a task, so it is unclear whether a file of that name is meant"
            raise self._refused(
                msg, f"name the file: {typed(self.verb.name, f'--{option.name}={word}')}", stray=True
            )
        self.found[option.parameter] = word
        if not self.verb.rest:
            return None
        if rest[:1] == [DASHES]:
            msg = f"it is unclear whether the `--` behind {word!r} belongs to the program"
            line = typed(self.verb.name, *self.words[:at], f"--{option.name}={word}", *rest)
            raise self._refused(msg, f"name the program by its option: {line}", stray=True)
        if self._is_slip(at + 1):
            raise self._slip(at + 1)
        if rest and not os.path.lexists(word) and (whole := self._undivided(at + 1, word)):
            msg = f"{word!r} does not exist, and the path that goes on behind its blank does"
            raise self._refused(msg, f"quote the path: {whole}", stray=True)
        return rest

    def _behind_dashes(self, at: int) -> list[str]:
        """Take the program's arguments, and the program itself where no option named it."""
        rest = self.words[at + 1 :]
        if not self.verb.rest:
            msg = f"{self.verb.name} starts no program, so nothing can follow `--`"
            raise self._refused(msg, f"see the options: invoke --help {self.verb.name}")
        if self.verb.bare not in self.found and rest:
            if rest[0].startswith("--exe=") and not os.path.lexists(rest[0]):
                msg = f"{rest[0]!r} stands behind `--`, where the program's own words stand"
                line = typed(
                    self.verb.name, *self.words[:at], rest[0], *([DASHES, *rest[1:]] if rest[1:] else [])
                )
                raise self._refused(msg, f"name the program before it: {line}")
            self.found[self.verb.bare] = rest.pop(0)
        return rest

    def _unknown(self, at: int) -> LineError:
        """Refuse an option that the verb does not have."""
        name = self.words[at].partition("=")[0]
        whose = "an option of Invoke itself" if _is_invokes(name) else f"no option of {self.verb.name}"
        if self.verb.name == WRAP:
            alone = f"{name} is read only by itself: `{typed(WRAP, name)}` shows the help of wrap"
            msg = alone if name in _HELP else f"{name} is {whose}"
            return self._refused(msg, self._ask_for_dashes(at))
        options = f"see the options: invoke --help {self.verb.name}"
        if _is_invokes(name):
            msg = f"{name} is an option of Invoke itself, and this workspace obeys none of them"
            return self._refused(msg, f"leave it out; {options}")
        return self._refused(f"{name} is {whose}", _alike(name, list(self.known), options))

    def _stray(self, at: int) -> LineError:
        word = self.words[at]
        msg = f"unexpected argument {word!r}"
        exe = str(self.found.get("exe", ""))
        divided = exe and self.words[at - 1] in {exe, f"--exe={exe}"}
        if divided and (whole := self._undivided(at, exe)):
            return self._refused(msg, f"quote the path: {whole}", stray=True)
        if self.verb.name == WRAP:
            return self._refused(msg, self._ask_for_dashes(at), stray=True)
        if word in VERBS:
            hint = self._name_option(at) or f"run it by itself: invoke {word}"
            return self._refused(f"{msg}: one task at a time", hint, stray=True)
        hint = (
            self._name_option(at) or self._name_path(at) or f"see the options: invoke --help {self.verb.name}"
        )
        what = "no further word" if self.verb.bare else "options only"
        return self._refused(f"{msg}: {self.verb.name} takes {what}", hint, stray=True)

    def _name_path(self, at: int) -> str:
        """Give a file or folder that exists to the option that takes one; empty where there is none."""
        from scripts.cli.corrections import option_of_path  # noqa: PLC0415 - only for a refusal

        free = [name for name, option in self.known.items() if option.parameter not in self.found]
        name = option_of_path(self.words[at], free)
        meant = f"{name}={self.words[at]}"
        line = [*self.words[:at], meant, *self.words[at + 1 :]]
        return f"did you mean {name}? {typed(self.verb.name, *line)}" if name else ""

    def _undivided(self, at: int, value: str) -> str:
        """Return the line with the path that its blanks divided before ``at``; empty where there is none."""
        from scripts.cli.corrections import with_path  # noqa: PLC0415 - most lines name what is there

        return self._line_that_reads(with_path(self.words, at, value))

    def _name_option(self, at: int) -> str:
        """Say where the words at ``at`` belong: to the value before them, or to ``--stack``."""
        before, behind = self.words[:at], self.words[at:]
        end = next((n for n, word in enumerate(behind) if word.startswith("-")), len(behind))
        last = before[-1].partition("=")[0] if before else ""
        name, value = (last, before[-1]) if EQUALS in (before or [""])[-1] else ("".join(before[-2:-1]), "")
        if name == "--for-gpu":
            first = value.partition("=")[2] or before[-1]
            kept = before[: -1 if value else -2]
            line = [*kept, f"{name}={' '.join((first, *behind[:end]))}", *behind[end:]]
            return f"quote the value: {typed(self.verb.name, *line)}"
        if "--stack" in self.known and "-" in behind[0] and "stack" not in self.found and not self.verb.bare:
            line = [*before, f"--stack={behind[0]}", *behind[1:]]
            return f"name the stack by its option: {typed(self.verb.name, *line)}"
        return ""

    def _ask_for_dashes(self, at: int) -> str:
        """Return the line that was probably meant, to be pasted."""
        from scripts.cli.corrections import option_meant, with_option  # noqa: PLC0415 - only for a refusal

        before, behind = self.words[:at], self.words[at:]
        known = [name for name, option in self.known.items() if option.parameter not in self.found]
        alike = "" if behind[0] in _HELP else option_meant(behind[0], known) if behind[0][0] == "-" else ""
        if "exe" not in self.found:
            see = "see the options: invoke --help wrap"
            if not alike:
                return see
            lines = with_option(self.words, at, alike, is_switch=self.known[alike].is_switch)
            return f"did you mean {alike}? {self._line_that_reads(lines) or f'S{see[1:]}'}"
        if DASHES in behind:
            behind.remove(DASHES)
        line = typed(WRAP, *before, DASHES, *behind)
        return f"did you mean {f'{alike}, or ' if alike else ''}`--`? {line}"

    def _is_slip(self, at: int) -> bool:
        """Whether the word at ``at`` is a lone ``=``, or a typographic dash where ``--`` may stand."""
        word = self.words[at] if at < len(self.words) else ""
        return word == EQUALS or (word in TYPOGRAPHIC and bool(self.verb.rest))

    def _slip(self, at: int) -> LineError:
        """Refuse a word that is no word of a line, and propose the line without it."""
        from scripts.cli.corrections import without_slip  # noqa: PLC0415 - only for a refusal

        word = self.words[at]
        msg = "a lone = is no argument" if word == EQUALS else f"a lone {word} is no argument, and not `--`"
        line = self._line_that_reads(without_slip(self.words, at, list(self.known)))
        hint = f"type {line}" if line else f"leave {word} out"
        return self._refused(msg, hint, stray=True)

    def _line_that_reads(self, lines: Iterable[list[str]]) -> str:
        """Return the first of these lines that can be read and names what it has to, else an empty string."""
        if not self.advises:
            return ""
        for words in lines:
            try:
                call = _Reader(self.verb, words, advises=False).read()
            except LineError:
                continue
            if not self.verb.bare or self.verb.bare in call.options:
                return typed(self.verb.name, *words)
        return ""

    def _refused(self, message: str, hint: str, *, stray: bool = False) -> LineError:
        if not stray:
            return _unreadable((self.verb.name, *self.words), message, hint)
        error = UsageError("stray-word", message, hint=hint)
        code = WRAP_USAGE if self.verb.name == WRAP else int(error.code)
        return LineError(error, code=code, as_json=_wants_json(self.words))


def _unreadable(words: Sequence[str], message: str, hint: str) -> LineError:
    error = UsageError("unreadable-line", message, hint=hint)
    code = WRAP_USAGE if WRAP in words[:1] else int(error.code)
    return LineError(error, code=code, as_json=_wants_json(words))


def _wants_json(words: Sequence[str]) -> bool:
    """Whether ``--json`` is among our own words; behind ``--`` it is the program's."""
    ours = words[: words.index(DASHES)] if DASHES in words else words
    return "--json" in ours


def _is_invokes(option: str) -> bool:
    """Whether an option is Invoke's, for a person who typed ``invoke``; who did not may not know it."""
    return option in INVOKES and form() == WRITTEN


def _alike(word: str, known: Sequence[str], otherwise: str) -> str:
    """Say what was probably meant."""
    from scripts.cli.corrections import close  # noqa: PLC0415 - only for a refusal

    alike = close(word, known)
    return f"did you mean {alike}? {otherwise[0].upper()}{otherwise[1:]}" if alike else otherwise


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
    return re.compile(
        rf"(?<![\w./\\-])(?<!-m ){WRITTEN}(?= (?:--(?:help|list)|TASK|{tasks})(?![\w/\\]|[.-]\w))"
    )


def typed(*words: str) -> str:
    """Write a line that can be pasted into this system's shell, in the form of the sources."""
    if sys.platform == "win32":
        from subprocess import list2cmdline  # noqa: PLC0415 - only where a line is refused

        return f"{WRITTEN} {list2cmdline(words)}"
    from shlex import join  # noqa: PLC0415 - as above

    return f"{WRITTEN} {join(words)}"


def read_or_answer(words: Sequence[str]) -> Call | int:
    """Read a line; what asks about the tasks or cannot be read is answered, and the exit code returned."""
    try:
        read = read_line(words)
    except LineError as refused:
        from scripts.cli.console import show_refused_line  # noqa: PLC0415 - as below

        return show_refused_line(refused.error, code=refused.code, as_json=refused.as_json)
    if isinstance(read, Call):
        return read
    from scripts.cli.help import show_help  # noqa: PLC0415 - a line that is performed needs neither

    return show_help(read)
