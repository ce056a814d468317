"""``docs/programs.md``: the known programs, from the data that ``wrap`` and ``native`` use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from scripts.host.support import coverage, native_ways
from scripts.launch.profiles import document

PAGE = Path(__file__).resolve().parents[1] / "docs" / "programs.md"

INTRODUCTION = (
    "Generated from `scripts/data/apps.toml` and `scripts/data/native.toml`",
    "(`python -m tools.generated_docs`). Nothing here was shown on a Radeon by this project: each row",
    "names who reported it. What documents show is in the table of the README. `invoke wrap` says what",
    "it sets; `--without=NAME` leaves one setting out, `--no-profile` all; `invoke native --exe=PROGRAM`",
    "names the commands for your GPU.",
)


def write(*, check: bool = False) -> bool:
    """Write the page, or compare it; true when it was up to date."""
    text = "\n".join(lines()) + "\n"
    same = PAGE.is_file() and PAGE.read_text(encoding="utf-8") == text
    if not same and not check:
        PAGE.write_text(text, encoding="utf-8", newline="\n")
    return same


def lines() -> Iterator[str]:
    """Yield the page."""
    yield "# Known programs"
    yield ""
    yield from INTRODUCTION
    yield ""
    yield f"AMD's packages cover {', '.join(coverage())}."  # one line, as the list grows
    yield ""
    yield "| program | recognised by | GPUs | without translation | on a layer, what is set | reported by |"
    yield "|---|---|---|---|---|---|"
    for row in document():
        yield _row(row)
    yield ""
    yield "## What is set, and why"
    for row in document():
        if row.get("set"):
            yield ""
            yield f"### {row['what']}"
            yield ""
            yield from (_setting(entry) for entry in row["set"])


def _row(row: Mapping[str, Any]) -> str:
    ways = {w.id: w for os in ("windows", "linux") for w in _own_ways(row["id"], os)}
    native = "<br>".join(_cell(way.what) for way in ways.values()) or "none is known"
    signs = [f"`{name}`" for key in ("names", "files", "packages", "kinds") for name in row.get(key, ())]
    entries = [*row.get("set", ()), *row.get("note", ())]
    families = {gfx for entry in entries for gfx in entry.get("gfx", ())}
    gpus = f"all; more for {', '.join(sorted(families))}" if families else "all"
    settings = dict.fromkeys(f"`{_name(entry)}`" for entry in row.get("set", ()))
    sources = dict.fromkeys(_cell(entry["source"]) for entry in entries)
    cells = (
        row["what"],
        ", ".join(signs),
        gpus,
        native,
        ", ".join(settings) or "nothing",
        "; ".join(sources),
    )
    return f"| {' | '.join(cells)} |"


def _own_ways(program: str, os: str) -> tuple[Any, ...]:
    return tuple(way for way in native_ways(gfx="gfx1100", os=os, programs=(program,)) if way.own)


def _setting(entry: Mapping[str, Any]) -> str:
    where = [f"on {', '.join(entry['gfx'])}"] if entry.get("gfx") else []
    where += [f"with {', '.join(entry['has'])}"] if entry.get("has") else []
    where += [f"without {', '.join(entry['lacks'])}"] if entry.get("lacks") else []
    value = f"={entry['value']}" if entry.get("env") else ""
    only = f" ({'; '.join(where)})" if where else ""
    return f"- `{_name(entry)}{value}`{only}: {_cell(entry['why'])} [{_cell(entry['source'])}]"


def _name(entry: Mapping[str, Any]) -> str:
    return str(entry.get("torch") or entry["env"])


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
