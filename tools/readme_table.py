"""The generated tables of the README: what is known to work, from ``evidence/``, and the verbs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from scripts.cli.verbs import VERBS
from scripts.errors import UsageError
from scripts.evidence.document import Document, Provenance
from scripts.evidence.index import EvidenceIndex, Filed, load_evidence
from scripts.model import Outcome

_HEAD: Final = (
    "| GPU | stack | what was shown | what failed or is missing | who saw it |",
    "|---|---|---|---|---|",
)
EMPTY: Final = "There are no evidence documents yet."


def status_table(index: EvidenceIndex, *, folder: str = "evidence") -> str:
    """Return the table as Markdown: one row a document that counts, GPUs sorted, no claim without a link."""
    filed = [f for f in index.filed if f.counts]
    if not filed:
        return EMPTY
    return "\n".join((*_HEAD, *(_row(f, folder) for f in sorted(filed, key=_order))))


def between_markers(text: str, table: str, *, part: str = "status") -> str:
    """Return a page with ``table`` put between the markers of a part (``<!-- part:begin -->``, ``:end``).

    Raises:
        UsageError: the page does not have both markers, once each and in order.
    """
    begin, end = f"<!-- {part}:begin -->", f"<!-- {part}:end -->"
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
        raise UsageError(
            "no-markers",
            f"the page has no place for the {part} table",
            hint=f"put {begin} and {end} on lines of their own where the table belongs",
        )
    head, rest = text.split(begin)
    tail = rest.split(end)[1]
    return f"{head}{begin}\n{table}\n{end}{tail}"


def verb_table() -> str:
    """Return the registry of verbs as Markdown, a table a group."""
    groups: dict[str, list[str]] = {}
    for verb in VERBS.values():
        groups.setdefault(verb.group, []).append(f"| `{verb.name}` | {verb.summary} |")
    return "\n\n".join(
        "\n".join((f"**{group.capitalize()}**", "", "| task | what it does |", "|---|---|", *rows))
        for group, rows in groups.items()
    )


def refresh_verbs(page: Path, *, check: bool = False) -> bool:
    """Bring a page's tables of verbs up to date; with ``check`` only look. Return whether they were."""
    text = page.read_text(encoding="utf-8")
    fresh = between_markers(text, verb_table(), part="verbs")
    if fresh != text and not check:
        page.write_text(fresh, encoding="utf-8", newline="\n")
    return fresh == text


def refresh(page: Path, evidence: Path, *, check: bool = False) -> bool:
    """Bring a page's table up to date; with ``check`` only look. Return whether it was up to date.

    Raises:
        UsageError: markers are missing, or a file in ``evidence`` is no valid document.
    """
    index = load_evidence(evidence)
    if index.faults:
        raise UsageError(
            "evidence-invalid",
            f"{len(index.faults)} file(s) in {evidence.name} are no valid documents",
            context=index.faults,
            hint="Correct or remove them; what is committed there is what this project claims.",
        )
    old = page.read_bytes().decode("utf-8")
    new = between_markers(old, status_table(index, folder=evidence.name))
    if new != old and not check:
        page.write_bytes(new.encode("utf-8"))
    return new == old


def _order(filed: Filed) -> tuple[str, str, str]:
    """Sort rows by GPU, stack and file."""
    gpu = filed.document.subject.gpu
    return (gpu.name if gpu else "", filed.document.subject.stack, filed.path)


def _row(filed: Filed, folder: str) -> str:
    """Write one document as a row."""
    document = filed.document
    gpu = document.subject.gpu
    name = (
        f"{gpu.name} ({gpu.gfx or 'gfx unknown'})"
        if gpu and gpu.vendor != "nvidia"
        else (gpu.name if gpu else "")
    )
    stack = f"`{document.subject.stack}`" if document.subject.stack else "no stack of ours"
    cells = (_cell(name), stack, _shown(document), _lacking(document), _seen_by(filed, folder))
    return f"| {' | '.join(cells)} |"


def _shown(document: Document) -> str:
    """List the passes by level, highest first."""
    passes = [r for r in document.results if r.outcome is Outcome.PASS and r.level is not None]
    levels = sorted({r.level for r in passes if r.level}, key=lambda level: -level.rank)
    return "; ".join(
        f"**{level}**: {_list(r.capability for r in passes if r.level is level)}" for level in levels
    ) or "nothing"  # fmt: skip


def _lacking(document: Document) -> str:
    """List everything else by outcome, and what was not exercised at all."""
    others = [r for r in document.results if r.outcome is not Outcome.PASS]
    outcomes = list(dict.fromkeys(r.outcome for r in others))
    parts = [f"**{o}**: {_list(r.capability for r in others if r.outcome is o)}" for o in outcomes]
    rest = set(document.not_exercised) - {r.capability for r in others}
    if rest:
        parts.append(f"not exercised: {_list(sorted(rest))}")
    return "; ".join(parts) or "–"


def _seen_by(filed: Filed, folder: str) -> str:
    """Say who saw it, with links to the document and the public source."""
    document = filed.document
    link = f"[document]({folder}/{filed.path})"
    if document.provenance is Provenance.MEASURED:
        return f"measured {document.created:%Y-%m-%d}, {link}"
    source = document.source
    return f"reported by [{_cell(source.name)}]({source.url}), {link}" if source else f"reported, {link}"


def _list(names: Iterable[str]) -> str:
    """Join names for a cell."""
    return ", ".join(_cell(n) for n in names)


def _cell(text: str) -> str:
    """Keep a text from breaking the table or its links."""
    for char in "\\|<>[]`*_":
        text = text.replace(char, f"\\{char}")
    return text
