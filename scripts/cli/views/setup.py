"""What a person sees of ``setup``, ``stage`` and ``fetch``: steps, the cost of a download, the question."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from scripts.app.download_summary import TRUST_WORDS
from scripts.cli.console import RUN_ONE, Out, seconds
from scripts.model import StackKind
from scripts.osal.text import size_text as size
from scripts.osal.text import visible

if TYPE_CHECKING:
    from scripts.app.download_summary import DownloadSummary
    from scripts.app.setup import FetchResult, SetupResult, StageResult
    from scripts.app.setup_steps import FlowStep

#: What a finished set-up proves, and what not; a simulated run must never be taken for a GPU.
PROVES = {
    StackKind.REFERENCE: (
        "SIMULATED on the CPU: this proves that the pipeline works on this machine. "
        "It says nothing about any GPU, any driver, or your program."
    ),
    StackKind.CONTROL: (
        "This is the control: NVIDIA's own CUDA, nothing translated. "
        "It proves that check and workload are right, not that a Radeon can run them."
    ),
    StackKind.TRANSLATION: (
        "This proves what the table says for this GPU and this stack, and nothing about your program: "
        "run it, and compare its own answer."
    ),
}


def show_setup(result: SetupResult, out: Out) -> None:
    """Show the steps, what they prove, where it is written, and what to do now."""
    show_steps(result.steps, out)
    out.loud(PROVES[result.kind])
    level = result.level.value if result.level else "nothing shown"
    good = result.generation is not None
    simulated = ", simulated" if result.simulated else ""
    out.mark("ok" if good else "fail", f"{result.stack}: {result.outcome.value}, {level}{simulated}")
    for failure in result.failures:
        out.mark("fail", f"{failure.capability}: {failure.outcome.value} {failure.detail}")
    out.line(f"document: {result.evidence}")
    if good:
        out.now(RUN_ONE)
    else:
        out.now("the stack was not made active; the logs lie beside the document")


def show_fetch(result: FetchResult, out: Out) -> None:
    """Show the steps and what is in the store."""
    show_steps(result.steps, out)
    out.lines(result.blobs, "")
    if result.bundle is not None:
        out.mark("ok", f"{result.bundle}: {size(result.bundle_bytes or 0)}; each archive in it is verified")
        out.line("The other machine needs this project with the same pins.lock besides.")
        out.now(f"there: invoke setup --supplied={result.bundle.name}")
        return
    out.now(f"unpack and assemble: invoke stage --stack={result.stack}")


def show_stage(result: StageResult, out: Out) -> None:
    """Show the steps and what to do with the result."""
    show_steps(result.steps, out)
    out.line(f"{result.stack} lies ready: {result.path or 'nothing to stage'}")
    out.now(f"check it and make it active: invoke setup --stack={result.stack}")


def show_steps(steps: Iterable[FlowStep], out: Out) -> None:
    """Show what was done, what was so already, and how long it took."""
    out.table(
        ("step", "status", "time", ""), [(s.name, s.status, seconds(s.seconds), s.detail) for s in steps]
    )


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
    out.stderr.print(f"{visible(question)} [y/N] ", end="", markup=False)
    try:
        return input().strip().lower() in {"y", "yes"}
    except EOFError:
        return False
