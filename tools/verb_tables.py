"""The tables in the page of exit codes: tasks, from the registry and the page's own rows, and signals."""

from __future__ import annotations

import re
import signal
import sys
from pathlib import Path
from typing import Final

from scripts.cli.verbs import VERBS
from scripts.osal.signals import blocked, ending, usual
from tools.readme_table import between_markers

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "exit-codes.md"
_USUAL: Final = "every task, from its first moment on"
_AT_WORK: Final = "every task that is at work"
_WRAP: Final = "`wrap`, when its program is ended by it"
#: A row of the page: code, meaning, example, name of its test.
ROW: Final = re.compile(
    r"^\| (?P<code>[\w ]+) \| [^|]+ \| (?P<example>[^|]+) \| `[a-z0-9-]+` \|$", re.MULTILINE
)


def codes_table(page: str) -> str:
    """Return each verb with the exit codes that a row of the page shows for it."""
    found: dict[str, set[str]] = {name: set() for name in VERBS}
    wrap = page.index("## `wrap`")
    for row in ROW.finditer(page):
        named = re.match(r"`?(?P<verb>[a-z][a-z.-]*)", row["example"])
        verb = "wrap" if row.start() > wrap else named["verb"] if named else ""
        if verb in found:
            found[verb].add(row["code"])
    lines = ["| task | exit codes with a row below | |", "|---|---|---|"]
    for verb in VERBS.values():
        codes = sorted(found[verb.name], key=lambda code: (not code.isdigit(), code.zfill(3)))
        lines.append(f"| `{verb.name}` | {', '.join(codes) or '-'} | {verb.summary} |")
    return "\n".join(lines)


def signals_table() -> str:
    """Return the codes that a signal gives, as this system numbers them (Linux when it is written)."""
    if sys.platform != "linux":
        return ""
    named = {int(number): number.name for number in signal.Signals}
    first, last = int(signal.SIGRTMIN), int(signal.SIGRTMAX)
    lines = ["| code | signal | which tasks end with it |", "|---|---|---|"]
    others = sorted({*ending(), *blocked(), signal.SIGKILL} - {*range(first, last + 1)})
    lines += [f"| {128 + number} | `{named[number]}` | {_who(number)} |" for number in others]
    lines.append(f"| 149 | `SIGBREAK` (Windows, Ctrl-Break) | {_USUAL} |")
    lines.append(f"| {128 + first} to {128 + last} | `SIGRTMIN` to `SIGRTMAX` | {_who(first)} |")
    return "\n".join(lines)


def _who(number: int) -> str:
    """Say who ends with a signal."""
    if number in usual():
        return _USUAL
    return _AT_WORK if number in ending() else _WRAP


def write(*, check: bool) -> bool:
    """Bring the page up to date; with ``check`` only look. Return whether it was."""
    text = PAGE.read_text(encoding="utf-8")
    made = between_markers(text, codes_table(text), part="verbs")
    if sys.platform == "linux":
        made = between_markers(made, signals_table(), part="signals")
    if made != text and not check:
        PAGE.write_text(made, encoding="utf-8", newline="\n")
    return made == text
