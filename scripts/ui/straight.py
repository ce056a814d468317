"""The straight way from a plain line to its use case: Invoke is loaded only for lines that are not plain.

A line is plain when it is one task and options that are spelled in full and given once. Their names and
kinds are those of the use case's own parameters. Whatever else is typed (help, lists, shortened or unknown
options, bare words, two tasks) is Invoke's to read and to complain about; a test reads lines both ways and
compares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from scripts.app import use_case
from scripts.ui.present import perform, perform_wrap

#: Every task, as Invoke calls it, but ``compare``, which takes a bare word. The use case's module has the
#: same name with underscores.
TASKS: Final = frozenset(
    {
        *("setup", "status", "scan", "doctor", "fetch", "stage", "check", "run", "ab"),
        *(
            "preflight",
            "precompile",
            "wrap",
            "unwrap",
            "verify",
            "shim",
            "report",
            "validate",
            "stacks",
            "use",
        ),
        *("rollback", "remove", "pins.check", "pins.update", "pins.add", "cache.list", "cache.prune"),
    }
)
WRAP: Final = "wrap"


def perform_plain(argv: Sequence[str]) -> int | None:
    """Perform the task of a plain line and return its exit code; ``None`` where Invoke has to read it."""
    words = list(argv[1:])
    task = words[0] if words else ""
    if task not in TASKS or ("--" in words and task != WRAP):
        return None
    words = words[: words.index("--")] if "--" in words else words
    options = read_options(words[1:], parameters(task))
    if options is None:
        return None
    as_json = bool(options.pop("json", False))
    if task == WRAP:
        return perform_wrap(options, argv=argv, as_json=as_json)
    return perform(task, options, argv=argv, as_json=as_json)


def parameters(task: str) -> dict[str, object]:
    """Return what a task takes, by parameter, with its default: words, switches, and lists (``None``)."""
    name = task.replace(".", "_")
    found: Mapping[str, object] = use_case(name).__kwdefaults__ or {}
    typed = {key: value for key, value in found.items() if isinstance(value, (str, bool)) or key == "set_"}
    return {**typed, "json": False}


def read_options(words: Sequence[str], known: Mapping[str, object]) -> dict[str, object] | None:
    """Read a plain line's options; ``None`` where anything about them is not plain.

    Args:
        words: what stands between the task and ``--``.
        known: parameters and their defaults, as ``parameters`` returns them.
    """
    spelled = {f"--{name.rstrip('_').replace('_', '-')}": name for name in known}
    found: dict[str, object] = {}
    rest = iter(words)
    for word in rest:
        option, equals, value = word.partition("=")
        name = spelled.get(option, "")
        default = known.get(name)
        if not name or (name in found and default is not None) or (equals and default is False):
            return None
        if default is False:
            found[name] = True
            continue
        if not equals:
            value = next(rest, "")
        if not value or value.startswith("-"):  # also behind "=" Invoke takes it for an option that it knows
            return None
        found[name] = [*_listed(found.get(name)), value] if default is None else value
    return found


def _listed(value: object) -> list[str]:
    """Return what an option that can be given several times holds so far."""
    return value if isinstance(value, list) else []
