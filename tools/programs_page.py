"""``docs/programs.md``: the known programs, from the data that ``wrap`` and ``native`` use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from scripts.host.support import NativeWay, coverage, native_ways
from scripts.launch.profiles import document
from tools import keep_page

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
    return keep_page(PAGE, lines(), check=check)


def lines() -> Iterator[str]:
    """Yield the page."""
    yield "# Known programs"
    yield ""
    yield from INTRODUCTION
    yield ""
    yield f"AMD's list, for which there are packages: {', '.join(coverage())}."  # one line, as the list grows
    yield ""
    yield (
        "| program | recognised by | GPU families | recommended way, without translation | "
        "on a layer, what is set | shown by |"
    )
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
    native = (
        "<br>".join(dict.fromkeys(_cell(way.what) for way in ways.values()))
        or "none is known: a layer is the way to try"
    )
    signs = [f"`{name}`" for key in ("names", "files", "packages", "kinds") for name in row.get(key, ())]
    if together := row.get("together"):
        signs.append(" with ".join(f"`{name}`" for name in together))
    entries = [*row.get("set", ()), *row.get("note", ())]
    gpus = _families(ways.values(), entries)
    settings = dict.fromkeys(f"`{_name(entry)}`" for entry in row.get("set", ()))
    settings |= dict.fromkeys(f"what {_called(other)} gets" for other in row.get("also", ()))
    sources = dict.fromkeys(_cell(entry["source"]) for entry in entries)
    cells = (
        row["what"],
        ", ".join(signs),
        gpus,
        native,
        ", ".join(settings) or "nothing",
        f"reported: {'; '.join(sources)}",
    )
    return f"| {' | '.join(cells)} |"


def _families(ways: Iterable[NativeWay], entries: Iterable[Mapping[str, Any]]) -> str:
    """Say for which GPUs the ways are, and where something more is known on a layer."""
    said = []
    for way in ways:
        covered = (
            "any Radeon" if not way.gfx else "AMD's list" if way.gfx == coverage() else ", ".join(way.gfx)
        )
        said.append(covered)
    more = sorted({gfx for entry in entries for gfx in entry.get("gfx", ())})
    cells = list(dict.fromkeys(said)) or ["those of a stack"]
    return "; ".join([*cells, *([f"on a layer more for {', '.join(more)}"] if more else [])])


def _called(program: str) -> str:
    return next(str(row["what"]) for row in document() if row["id"] == program)


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
