"""What a person sees of ``report``, ``validate`` and ``matrix``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from scripts.cli.console import RUN_ONE, Out, brief, seconds
from scripts.evidence.document import Provenance
from scripts.evidence.validation import ValidationVerdict
from scripts.osal.text import listed
from scripts.osal.text import size_text as size

if TYPE_CHECKING:
    from scripts.app.matrix import MatrixResult
    from scripts.app.report import Prepared, ReportResult
    from scripts.app.validate import RoundResult, ValidateResult
    from scripts.evidence.evidence_io import Filed


#: Names that are listed before the rest is counted.
MOST_LISTED: Final = 12


def show_report(result: ReportResult, out: Out) -> None:
    """Show what was imported or bundled, then what this machine has shown."""
    for seen in result.added:
        out.mark("ok", f"imported: {_title(seen)}: {_worth(seen)}")
        out.line(f"    {seen.path}")
    if result.added:
        out.line("    What is imported was checked for form, not for truth; it was not measured here.")
    if result.bundle is not None:
        out.mark("ok", f"bundle: {result.bundle}")
        out.lines(result.bundle_names)
    out.marks("fail", result.faults)
    if result.submission is not None:
        _submission(result.submission, out)
        return
    for seen in result.own:
        _document(seen, out)
    if result.imported and not result.added:
        out.line(f"From others ({len(result.imported)}):")
        for seen in result.imported:
            out.line(f"    {_title(seen)}: {_worth(seen)}")
    _close(result, out)


def _submission(made: Prepared, out: Out) -> None:
    """Show exactly what would be sent, and how a person sends it."""
    out.quote(made.title)
    out.line()
    for line in made.body.split("\n"):
        out.quote(line)
    if made.opened:
        out.line("The browser was given the title and the three short fields; the document was not sent.")
    else:
        out.line("Nothing was sent. The redactor went over it again; read it yourself first.")
    out.line(f"The text: {made.issue}")
    out.line(f"The document alone: {made.document}")
    if made.opened:
        out.now("paste the document into the form in the browser")
    elif made.address:
        out.line(f"The form, filled in but for the document: {made.address}")
        out.now("open it: invoke report --open")
    else:
        out.now("open the form `Compatibility` among the project's issues and paste the text")


def _document(seen: Filed, out: Out) -> None:
    """Show one document of this machine in full."""
    document = seen.document
    rows = [
        (r.capability, r.level.value if r.level else "-", r.outcome.value, brief(r.detail))
        for r in document.results
    ]
    out.line(f"{_title(seen)}: {_worth(seen)}")
    out.table(("capability", "level", "outcome", "detail"), rows)
    if document.simulated:
        out.loud("Simulated on the CPU reference stack: it proves the pipeline, not a GPU.")
    if document.lock is not None and document.lock.custom:
        out.loud("Made under another lock: it proves nothing for the stacks of this workspace.")
    if document.not_exercised:
        out.line(f"Not exercised: {listed(document.not_exercised, MOST_LISTED)}")
    out.line(f"Document: {seen.path}")


def _title(seen: Filed) -> str:
    """Name a document's subject."""
    subject = seen.document.subject
    gpu = subject.gpu
    where = f"{gpu.name} ({gpu.gfx or gpu.vendor})" if gpu else "no GPU"
    what = f", {subject.application}" if subject.application else ""
    return f"{subject.stack or 'no stack of ours'} on {where}{what}"


def _worth(seen: Filed) -> str:
    """Say level, outcome and when it was seen."""
    document = seen.document
    level = document.level.value if document.level else "nothing shown for all"
    who = (
        "reported" if document.provenance is Provenance.REPORTED else f"{document.created:%Y-%m-%d %H:%M} UTC"
    )
    return f"{level}, {document.outcome.value}, {who}"


def _close(result: ReportResult, out: Out) -> None:
    if result.bundle is not None:
        out.now("look through the bundle, then attach it to your report")
    elif not result.own:
        out.line("This machine has no documents yet.")
        out.now("make one: invoke setup")
    elif all(seen.document.simulated for seen in result.own):
        out.now(RUN_ONE)
    else:
        out.now("promote it: commit the document in evidence/ (docs/evidence.md)")


MARKS = {ValidationVerdict.PASSED: "ok", ValidationVerdict.FAILED: "fail", ValidationVerdict.SKIPPED: "skip"}


def show_validate(result: ValidateResult, out: Out) -> None:
    """Show every step, the verdict, what got worse, and where it is written."""
    validation = result.validation
    for step in validation.steps:
        mark = {"failed": "fail", "skipped": "skip"}.get(step.status, "ok")
        detail = f": {step.detail}" if step.detail else ""
        out.mark(mark, f"{step.name} ({seconds(step.seconds)}){detail}")
    if validation.simulated:
        out.loud("SIMULATED on the CPU: this proves that the pipeline works, and nothing about any GPU.")
    for regression in result.regressions:
        out.mark("fail", f"worse than before: {regression.sentence} ({regression.document})")
    out.mark(MARKS[validation.verdict], validation.summary)
    for word in result.missing:
        out.mark("fail", f"{word} was required, and nothing was shown for it")
    out.line(f"documents: {result.folder}")
    if result.exit_code == 0 and validation.simulated:
        out.now("validate every stack of the lock: nox -s validate (docs/validate.md)")
    elif result.exit_code == 0:
        out.now("promote it: commit the document in evidence/ (docs/evidence.md)")
    elif validation.verdict is ValidationVerdict.SKIPPED:
        out.now("see what each stack needs: invoke stacks")
    else:
        out.now("the logs lie beside the documents; a bug report takes them: invoke report --bundle")


def show_validate_round(result: RoundResult, out: Out) -> None:
    """Show each stack that ran, each reason of the others once, and what is wrong."""
    for validation in result.validations:
        if validation.verdict is not ValidationVerdict.SKIPPED:
            out.mark(MARKS[validation.verdict], validation.summary)
    for reason, stacks in result.skipped.items():
        out.mark("skip", f"skipped: {', '.join(stacks)}")
        out.line(f"    {reason}")
    out.line(f"page: {result.page}")
    out.marks("fail", result.problems, "not a success: ")
    if not result.problems:
        out.now("promote a document: commit it in evidence/ (docs/evidence.md)")


def show_matrix(result: MatrixResult, out: Out) -> None:
    """Show what was written, what could not be read, and what is different from the build before."""
    for fault in result.faults:
        out.mark("fail", f"no document: {fault.path}: {fault.reason}")
    about = f"{result.documents:,} documents, {result.cells:,} results, {result.gpus:,} GPUs"
    out.mark("ok", f"site of {about}: {result.folder}")
    out.line(
        f"    {result.files:,} files, {size(result.size)}; the first page reads {size(result.first_view)}"
    )
    if result.changes is None:
        out.line("    the first build in this folder")
    else:
        changed = ", ".join(f"{count:,} {kind}" for kind, count in result.kinds.items())
        out.line(f"    since the build before: {changed or 'no result changed'}")
    out.now(f"open it in a browser: {result.folder / 'index.html'}")
