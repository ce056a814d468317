"""The face of ``stacks``."""

from __future__ import annotations

from scripts.app.stacks import StackRow, StacksResult
from scripts.model import StackKind
from scripts.cli.console import Out


def show(result: StacksResult, out: Out) -> None:
    """Show every stack: whether it fits, and the word its documents allow."""
    rows = [(_name(row), row.stack.kind.value, _fits(row, result.gfx), _worth(row)) for row in result.rows]
    out.table(("stack", "kind", "here", "evidence"), rows)
    for row in result.rows:
        _documents(row, out)
    out.line("Evidence is what committed documents show; nothing is inferred upwards.")
    out.line("`reported` was measured and published by others.")
    out.now("set one up: invoke setup --stack=ID")


def _name(row: StackRow) -> str:
    """Mark the active stack and the staged ones."""
    return row.stack.id + (" (active)" if row.active else " (staged)" if row.staged else "")


def _fits(row: StackRow, gfx: str) -> str:
    """Say what stands in the way."""
    if gfx:
        if row.stack.kind is StackKind.REFERENCE:
            return "needs no GPU"
        return f"lists {gfx}" if row.stack.requires.gfx else "any AMD GPU"
    return "; ".join(row.obstacles) or "fits"


def _worth(row: StackRow) -> str:
    """Say what is shown, GPU by GPU."""
    said = row.worth or row.proofs  # documents about a GPU without an architecture of AMD's stand alone
    return "; ".join(item.sentence for item in said) or "none"


def _documents(row: StackRow, out: Out) -> None:
    """Name the document behind each word, and those that say otherwise."""
    for worth in row.worth:
        out.line(f"{row.stack.id} on {worth.sentence}")
        out.line(f"    shown by {worth.document}")
        for document in worth.against:
            out.line(f"    against it {document}")
