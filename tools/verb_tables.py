"""The table of tasks in the page of exit codes, from the registry and the page's own rows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from scripts.cli.verbs import VERBS

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "exit-codes.md"
BEGIN: Final = "<!-- verbs:begin -->"
END: Final = "<!-- verbs:end -->"
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


def write(*, check: bool) -> bool:
    """Bring the page up to date; with ``check`` only look. Return whether it was."""
    text = PAGE.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    made = f"{head}{BEGIN}\n{codes_table(text)}\n{END}{rest.partition(END)[2]}"
    if made != text and not check:
        PAGE.write_text(made, encoding="utf-8", newline="\n")
    return made == text
