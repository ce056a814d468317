"""What a person sees of ``native``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scripts.cli.console import Out

if TYPE_CHECKING:
    from scripts.app.native import NativeResult


def show_native(result: NativeResult, out: Out) -> None:
    """Show each way with its commands, as they are typed."""
    gpu = result.gfx or "a GPU whose architecture is not known"
    known = ", ".join(result.programs) or "a program that is not known here"
    what = f"{result.program.name} ({known})" if result.program is not None else "the usual programs"
    out.line(f"Without translation: {what}, {gpu}, {result.os}")
    if result.refusal:
        out.mark("warn", result.refusal)
    for way in result.ways:
        out.line(f"{way.what} [{way.source}, {way.date}]")
        for command in way.commands:
            out.line(f"    {command}")
        if way.better:
            out.line(f"    translation is the better way: {way.better}")
    if result.better:
        out.mark("ok", result.better)
    out.line("Nothing of this was run on a Radeon by this project, and nothing is installed by itself.")
    if not result.refusal:
        name = f' --exe="{result.program}"' if result.program is not None else ""
        out.now(
            f"see what translation would do: invoke preflight{name}"
            if name
            else "explain preflight: invoke --help preflight"
        )
