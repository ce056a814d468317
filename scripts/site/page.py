"""Fills the page ``scripts/data/site/index.html`` with what it says where no script runs. Pure.

Every text from a document goes through ``escaped``. The rows are the same, element for element, as those that
``parts.js`` makes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from itertools import groupby
from string import Template
from typing import Final
from urllib.parse import quote

from scripts.evidence.document import IDLE, Provenance
from scripts.evidence.merging import Cell
from scripts.evidence.store import IngestFault
from scripts.model import Level, Outcome
from scripts.osal.text import count_of, listed, printable
from scripts.site.changes import ChangeKind, MatrixChange, count_kinds
from scripts.site.data import SiteContent

#: Nothing but files of this folder; ``data:`` is for the empty icon, so that no browser asks for one.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)
#: Rows of the large table that are in the page itself.
FIRST_ROWS: Final = 100
MOST_CHANGES: Final = 40
MOST_FAULTS: Final = 20
#: What stands beside a GPU that is in no list of products.
COMPARED: Final = {"NVIDIA": "for comparison: CUDA without translation"}
#: As much of names as fits beside an architecture.
MOST_NAMES: Final = 3
WHY_NOT: Final = {
    "simulated": "simulated on the CPU reference",
    "custom-lock": "made under another lock",
    "no-gpu": "about no GPU",
}


def index_page(
    template: str, content: SiteContent, changes: tuple[MatrixChange, ...] | None, commands: Iterable[str]
) -> bytes:
    """Return the page. ``changes`` is ``None`` where there is no build to compare with."""
    shown = [gpu for gpu in content.gpus if gpu in content.cells_of]
    silent = [gpu for gpu in content.gpus if gpu not in content.cells_of]
    return (
        Template(template)
        .substitute(
            policy=POLICY,
            summary=_summary(content),
            gpus="\n".join(_gpu_row(gpu, content) for gpu in shown) or _empty_row(),
            silent_count=len(silent),
            silent=", ".join(_link("gpu", gpu) for gpu in silent) or "none",
            cells="\n".join(_cell_row(cell) for cell in content.cells[:FIRST_ROWS]) or _empty_row(),
            count=_count(len(content.cells)),
            changes=_changes(changes),
            commands="\n".join(escaped(command) for command in commands),
            documents=count_of(len(content.matrix.documents), "document"),
        )
        .encode("utf-8")
    )


def escaped(text: str) -> str:
    """Return a text for HTML: one line, nothing that turns or hides other text."""
    return escape(printable(text))


def _summary(content: SiteContent) -> str:
    """Say how much is known, what does not count, and what could not be read."""
    counted = [fact for fact in content.matrix.documents if fact.counts]
    measured = sum(fact.provenance is Provenance.MEASURED for fact in counted)
    about = f"{count_of(len(counted), 'document')} about {count_of(len(content.cells_of), 'GPU')}"
    seen = f"{measured:,} measured with this project's tool, {len(counted) - measured:,} reported by others"
    others = Counter(fact.why_not for fact in content.matrix.documents if not fact.counts)
    more = "".join(
        f" {count_of(count, 'document')} more {WHY_NOT[why]}: not in the tables."
        for why, count in sorted(others.items())
    )
    return f"<p>{about}: {seen}.{more}</p>{_faults(content.matrix.faults)}"


def _faults(faults: Sequence[IngestFault]) -> str:
    """List files that are no documents, the first ones."""
    if not faults:
        return ""
    rows = "".join(
        f"<li><code>{escaped(fault.path)}</code>: {escaped(fault.reason)}</li>"
        for fault in faults[:MOST_FAULTS]
    )
    more = f"<li>and {len(faults) - MOST_FAULTS:,} more</li>" if len(faults) > MOST_FAULTS else ""
    summary = f"{count_of(len(faults), 'file')} that cannot be read as a document"
    return f"\n<details><summary>{summary}</summary><ul>{rows}{more}</ul></details>"


def _gpu_row(gpu: str, content: SiteContent) -> str:
    """Return the row of one GPU: its names, and how much stands at which level."""
    mine = content.cells_of.get(gpu, ())
    names = content.names.get(gpu, [])
    called = listed(names, MOST_NAMES) or COMPARED.get(content.families.get(gpu, ""), "")
    newest = max((cell.newest for cell in mine), default="") or "no date"
    return _row(
        (
            ("GPU", f'{_link("gpu", gpu)} <span class="faint">{escaped(called)}</span>'),
            ("Results", _tally(mine)),
            ("Documents", f"{content.counted[gpu]:,}"),
            ("Newest", f'<span class="seen">{escaped(newest)}</span>'),
        )
    )


def _tally(cells: Sequence[Cell]) -> str:
    """Count results by what they show: measured ones first, the highest level first, failures behind them."""
    counted = Counter(
        (cell.provenance is Provenance.REPORTED, _rank(cell), _class(cell), _sum_word(cell))
        for cell in cells
        if cell.capability
    )
    parts = []
    for who, group in groupby(sorted(counted.items()), key=lambda item: item[0][0]):
        marks = " ".join(f'<span class="{key[2]}">{count:,} {key[3]}</span>' for key, count in group)
        parts.append(f"{(Provenance.REPORTED if who else Provenance.MEASURED).value}: {marks}")
    return "<br>".join(parts) or "only about documents as a whole"


def _sum_word(cell: Cell) -> str:
    """Name what is counted together: every failure but a wrong answer is one kind."""
    if cell.outcome in IDLE:
        return "not tried"
    return _word(cell) if cell.outcome in {Outcome.PASS, Outcome.INCORRECT} else "failed"


def _cell_row(cell: Cell) -> str:
    link = f'<a href="{_route("cell", *cell.key)}">{count_of(cell.count, "document")}</a>'
    return _row(
        (
            ("GPU", _link("gpu", cell.gpu)),
            ("Stack", _link("stack", cell.stack, cell.stack or "not named")),
            ("Asked", _asked(cell)),
            ("Shown", _shown(cell)),
            ("Seen", f'<span class="seen">{cell.seen or "no date"}</span> {link}'),
        )
    )


def _row(cells: Iterable[tuple[str, str]]) -> str:
    """Return a row; its roles keep it one where the style shows it as a card."""
    head, *rest = cells
    first = f'<th role="rowheader" scope="row" data-name="{head[0]}">{head[1]}</th>'
    others = "".join(f'<td role="cell" data-name="{name}">{value}</td>' for name, value in rest)
    return f'<tr role="row">{first}{others}</tr>'


def _empty_row() -> str:
    return _row((("GPU", "There are no documents yet."),))


def _asked(cell: Cell) -> str:
    """Link what was asked: a capability, a program, or both."""
    capability = _link("capability", cell.capability) if cell.capability else ""
    program = _link("program", cell.application) if cell.application else ""
    if capability and program:
        return f"{capability} in {program}"
    return capability or program or "all checks of a document"


def _shown(cell: Cell) -> str:
    """Say what was shown, and by whom."""
    reached = f", reached {cell.level.value}" if cell.outcome is not Outcome.PASS and cell.level else ""
    conflict = ' <span class="mark conflict">conflict</span>' if cell.conflict else ""
    return f'<span class="{_class(cell)}">{_word(cell)}</span>{cell.provenance.value}{reached}{conflict}'


def _class(cell: Cell) -> str:
    passed = cell.outcome is Outcome.PASS
    idle = cell.outcome in IDLE or (passed and cell.level is None)
    return f"mark {cell.provenance.value} {'idle' if idle else 'pass' if passed else 'fail'}"


def _word(cell: Cell) -> str:
    if cell.outcome is not Outcome.PASS:
        return cell.outcome.value
    return cell.level.value if cell.level else "nothing shown"


def _rank(cell: Cell) -> int:
    """Order marks: the highest level first, then failures, what was not tried last."""
    if cell.outcome in IDLE:
        return len(Level) + 3
    if cell.outcome is not Outcome.PASS:
        return len(Level) + (1 if cell.outcome is Outcome.INCORRECT else 2)
    return len(Level) if cell.level is None else len(Level) - 1 - cell.level.rank


def _count(total: int) -> str:
    part = f", the first {FIRST_ROWS} are shown" if total > FIRST_ROWS else ""
    return f"{total:,} of {count_of(total, 'result')}{part}."


def _changes(changes: tuple[MatrixChange, ...] | None) -> str:
    """List what changed, or say why there is nothing to list."""
    if changes is None:
        return "<p>This is the first build in its folder: there is nothing to compare it with.</p>"
    if not changes:
        return "<p>There are other documents than before, and no result changed.</p>"
    counts = ", ".join(f"{count:,} {kind}" for kind, count in count_kinds(changes).items())
    rows = "\n".join(f"<li>{_change(change)}</li>" for change in changes[:MOST_CHANGES])
    hidden = len(changes) - MOST_CHANGES
    more = f'\n<p>And {hidden:,} more: <a href="data/changes.json">all as JSON</a>.</p>' if hidden > 0 else ""
    return f"<p>Results: {counts}.</p>\n<ul>\n{rows}\n</ul>{more}"


def _change(change: MatrixChange) -> str:
    """Say one change; what is gone has no page any more."""
    what = " in ".join(word for word in (change.capability, change.application) if word) or "all checks"
    text = escaped(f"{what} on {change.gpu} with {change.stack or 'a stack that is not named'}")
    if change.kind is not ChangeKind.GONE:
        href = _route("cell", change.gpu, change.stack, change.application, change.capability)
        text = f'<a href="{href}">{text}</a>'
    steps = " became ".join(escaped(word) for word in (change.before, change.now) if word)
    return f"<strong>{change.kind.value}</strong>: {text}: {steps}"


def _link(page: str, name: str, text: str = "") -> str:
    return f'<a href="{_route(page, name)}">{escaped(text or name)}</a>'


def _route(page: str, *names: str) -> str:
    """Return the address of a page inside the page, as ``encodeURIComponent`` would write it."""
    return escape("/".join(("#", page, *(quote(name, safe="!~*'()") for name in names))))
