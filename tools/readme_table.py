"""The generated tables of the README: what is known to work, from ``evidence/``, and the verbs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from scripts.cli.verbs import VERBS
from scripts.errors import UsageError
from scripts.evidence.document import IDLE, SEVERITY, Provenance
from scripts.evidence.matrix import DocumentFact, Matrix, matrix, without_retired
from scripts.evidence.merging import PROBES, Cell
from scripts.evidence.store import open_store
from scripts.probing.catalogue import probes

_HEAD: Final = (
    "| GPU | stack | what was shown | what failed or is missing | who saw it |",
    "|---|---|---|---|---|",
)
#: What would end a link or a cell of the table.
IN_LINK: Final = {ord(char): f"%{ord(char):02X}" for char in "()<>|`"}
EMPTY: Final = "There are no evidence documents yet."


def status_table(shown: Matrix) -> str:
    """Return the table as Markdown: one row a GPU and stack, GPUs sorted, no claim without a link."""
    shown = without_retired(shown, probes())
    counting = [fact for fact in shown.documents if fact.counts]
    if not counting:
        return EMPTY
    rows = [_row(shown.cells, list(group)) for _, group in groupby(sorted(counting, key=_place), key=_place)]
    return "\n".join((*_HEAD, *rows))


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
    with open_store() as store:
        store.ingest(evidence)
        shown = matrix(store)
    if shown.faults:
        raise UsageError(
            "evidence-invalid",
            f"{len(shown.faults)} file(s) in {evidence.name} are no valid documents",
            context=tuple(f"{fault.path}: {fault.reason}" for fault in shown.faults),
            hint="Correct or remove them; what is committed there is what this project claims.",
        )
    old = page.read_bytes().decode("utf-8")
    new = between_markers(old, status_table(shown))
    if new != old and not check:
        page.write_bytes(new.encode("utf-8"))
    return new == old


def _place(fact: DocumentFact | Cell) -> tuple[bool, str, bool, str]:
    """Sort rows by GPU, architectures first, and what is pinned first."""
    return not fact.gpu.startswith("gfx"), fact.gpu, not fact.pinned, fact.stack


def _row(cells: Iterable[Cell], documents: Sequence[DocumentFact]) -> str:
    """Write what is known of one GPU and stack."""
    first = documents[0]
    mine = [cell for cell in cells if cell.capability and _place(cell) == _place(first)]
    products = " / ".join(sorted({fact.gpu_name for fact in documents}))
    architecture = f" ({first.gfx or 'gfx unknown'})" if first.vendor != "nvidia" else ""
    words = f"no stack of ours: {_cell(first.stack)}" if first.stack else "no stack of ours"
    stack = f"`{first.stack}`" if first.pinned else words
    row = (
        _cell(products) + architecture,
        stack,
        _shown(mine),
        _lacking(mine, documents),
        _seen_by(documents),
    )
    return f"| {' | '.join(row)} |"


def _shown(cells: Sequence[Cell]) -> str:
    """List what rests on a pass by level, highest first."""
    passes = [cell for cell in cells if cell.stands.passed and cell.level is not None]
    levels = sorted({cell.level for cell in passes if cell.level}, key=lambda level: -level.rank)
    return "; ".join(
        f"**{level}**: {_passed([cell for cell in passes if cell.level is level], cells)}" for level in levels
    ) or "nothing"  # fmt: skip


def _passed(some: Sequence[Cell], cells: Sequence[Cell]) -> str:
    """Name what passed; probes, which are many, are counted."""
    count = sum(cell.application == PROBES for cell in some)
    names = _list(_names([cell for cell in some if cell.application != PROBES], cells))
    return ", ".join(filter(None, (names, _counted(count))))


def _counted(count: int) -> str:
    return f"[{count} probe{'' if count == 1 else 's'}](docs/probes.md)" if count else ""


def _lacking(cells: Sequence[Cell], documents: Sequence[DocumentFact]) -> str:
    """List everything else by outcome, worst first, and what no document exercised."""
    others = [cell for cell in cells if not cell.stands.passed]
    parts = [
        f"**{outcome}**: {_list(_names([cell for cell in others if cell.outcome is outcome], cells))}"
        for outcome in (*SEVERITY, *sorted(IDLE))
        if any(cell.outcome is outcome for cell in others)
    ]
    known = {cell.capability for cell in cells}
    rest = {name for fact in documents for name in fact.not_exercised} - known
    if rest:
        questions = rest & set(probes())
        words = ", ".join(filter(None, (_list(rest - questions), _counted(len(questions)))))
        parts.append(f"not exercised: {words}")
    return "; ".join(parts) or "–"


def _names(some: Iterable[Cell], cells: Sequence[Cell]) -> Iterable[str]:
    """Name capabilities; with the application where several have one of the same name."""
    count = Counter(cell.capability for cell in cells)
    for cell in some:
        several = count[cell.capability] > 1 and cell.application
        yield f"{cell.capability} ({cell.application})" if several else cell.capability


def _seen_by(documents: Iterable[DocumentFact]) -> str:
    """Say who saw it, with links to the documents and the public sources."""
    return "<br>".join(map(_link, sorted(documents, key=lambda fact: (fact.seen, fact.paths))))


def _link(fact: DocumentFact) -> str:
    link = f"[document]({fact.paths[0]})"
    if fact.provenance is Provenance.MEASURED:
        return f"measured {fact.seen}: {link}"
    return f"reported {fact.seen or '(undated)'}: {link}, [source]({fact.url.translate(IN_LINK)})"


def _list(names: Iterable[str]) -> str:
    """Join names for a cell, each once."""
    return ", ".join(_cell(n) for n in sorted(set(names)))


def _cell(text: str) -> str:
    """Keep a text from breaking the table or its links."""
    for char in "\\|<>[]`*_":
        text = text.replace(char, f"\\{char}")
    return text
