"""The bill before a download, and the question."""

from __future__ import annotations

from scripts.app.setup.download_summary import TRUST_WORDS, DownloadSummary
from scripts.ui.console import Out
from scripts.ui.words import size


def show_bill(bill: DownloadSummary, out: Out) -> None:
    """Show what will be downloaded, its size there and here, its licence, and how far its hash is trusted."""
    rows = [
        (
            r.artifact,
            size(r.bytes) if r.bytes is not None else "not published",
            r.license,
            TRUST_WORDS[r.trust],
        )
        for r in bill.to_download
    ]
    if rows:
        out.note_table(("download", "size", "licence", "trust"), rows)
    if bill.known_disk:
        more = "" if bill.size_is_exact else " or more"
        out.note(f"On disk, with what is unpacked: about {size(bill.known_disk)}{more}")
    for row in bill.to_download:
        if row.note:
            out.note(f"{row.artifact}: {row.note}")
    for setting in bill.sets:
        out.note(f"The custom lock sets {setting} for every program that this stack starts.")


def ask_about(bill: DownloadSummary, out: Out) -> bool:
    """Ask on the terminal; only a clear yes counts."""
    show_bill(bill, out)
    total = size(bill.known_bytes) + ("" if bill.size_is_exact else " or more")
    question = f"Download {total} for {bill.stack}?" if bill.to_download else f"Use {bill.stack}?"
    out.stderr.print(f"{question} [y/N] ", end="", markup=False)
    try:
        return input().strip().lower() in {"y", "yes"}
    except EOFError:
        return False
