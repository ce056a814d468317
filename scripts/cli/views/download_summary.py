"""What a person sees of a download before its first byte, and the question about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scripts.app.download_summary import TRUST_WORDS
from scripts.cli.console import Out, size

if TYPE_CHECKING:
    from scripts.app.download_summary import DownloadSummary


def show_download_summary(summary: DownloadSummary, out: Out) -> None:
    """Show what will be downloaded, its size there and here, its licence, and how far its hash is trusted."""
    rows = [
        (
            r.artifact,
            size(r.bytes) if r.bytes is not None else "not published",
            r.license,
            TRUST_WORDS[r.trust],
        )
        for r in summary.to_download
    ]
    if rows:
        out.note_table(("download", "size", "licence", "trust"), rows)
    if summary.known_disk:
        more = "" if summary.size_is_exact else " or more"
        out.note(f"On disk, with what is unpacked: about {size(summary.known_disk)}{more}")
    for row in summary.to_download:
        if row.note:
            out.note(f"{row.artifact}: {row.note}")
    for setting in summary.sets:
        out.note(f"The custom lock sets {setting} for every program that this stack starts.")


def ask_about_download(summary: DownloadSummary, out: Out) -> bool:
    """Ask on the terminal; only a clear yes counts."""
    show_download_summary(summary, out)
    total = size(summary.known_bytes) + ("" if summary.size_is_exact else " or more")
    question = f"Download {total} for {summary.stack}?" if summary.to_download else f"Use {summary.stack}?"
    out.stderr.print(f"{question} [y/N] ", end="", markup=False)
    try:
        return input().strip().lower() in {"y", "yes"}
    except EOFError:
        return False
