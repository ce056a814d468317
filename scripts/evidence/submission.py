"""A document on its way to everybody: the issue that carries it, and what an issue from a stranger holds.

``submission_of`` fills the form ``.github/ISSUE_TEMPLATE/compatibility.yml``; ``read_issue`` takes an issue
of that form apart again. In between anyone can type anything, so nothing of an issue is believed: the
document has to pass as any imported one, it is filed as *reported*, and its name is made of checked facts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Mapping
from datetime import datetime
from typing import Final, NoReturn
from urllib.parse import urlencode

from msgspec import Struct
from msgspec.structs import replace

from scripts.errors import UsageError
from scripts.evidence.document import Document, DocumentSource, Provenance
from scripts.evidence.evidence_io import check_time, content_hash, dump, from_json, to_json
from scripts.evidence.merging import why_not
from scripts.osal.redaction import Redactor
from scripts.serialize import parse_json

TEMPLATE: Final = "compatibility.yml"
#: The form's fields: their ids in the template and their labels, which become headings of the issue.
FIELDS: Final[Mapping[str, str]] = {
    "gpu": "GPU",
    "stack": "Stack",
    "result": "What was shown",
    "document": "Document",
    "remarks": "Remarks",
}
#: GitHub takes 65,536 characters in an issue; the headings and the remarks need some.
MOST_IN_ISSUE: Final = 60_000
#: Addresses that are longer are cut or refused by browsers and servers.
MOST_IN_ADDRESS: Final = 6_000

#: Why a document says nothing about a GPU and a stack of ours; each completes ``the document``.
_UNFIT: Final[Mapping[str, str]] = {
    "": "",
    "simulated": "is simulated",
    "custom-lock": "was made under another lock",
    "no-lock": "names no lock",
    "no-gpu": "names no GPU",
    "no-stack": "names no stack",
}
_FENCE: Final = re.compile(r"\A\s*```(?:json)?[ \t]*\r?\n(.*?)\r?\n```\s*\Z", re.DOTALL)
_UNSAFE: Final = re.compile(r"[^a-z0-9.-]+")


class Submission(Struct, frozen=True, kw_only=True):
    """What would be sent: the issue's title, its text, and the document in it.

    ``query`` opens the form with its short fields filled in; the document is pasted by hand.
    """

    title: str
    body: str
    document: str
    query: str


class IssueDocument(Struct, frozen=True, kw_only=True):
    """A document that an issue carried: the file's name and bytes, and one line about it."""

    name: str
    content: bytes
    summary: str


def unfit(document: Document) -> str:
    """Say what makes a document no submission, as the end of a sentence about it; empty where it is one."""
    reason = why_not(document) or ("no-lock" if document.lock is None else "")
    return _UNFIT[reason or ("" if document.subject.stack else "no-stack")]


def submission_of(document: Document, redactor: Redactor) -> Submission:
    """Prepare a document for the issue form; everything in it goes through the redactor again.

    Raises:
        UsageError: it says nothing about a GPU and a stack of ours, or does not fit into an issue.
    """
    problem = unfit(document)
    if problem:
        hint = "run one on the GPU first: invoke setup; then: invoke report --submit"
        raise UsageError(
            "nothing-to-submit",
            f"the newest document {problem}, so there is nothing to submit",
            hint=hint,
        )
    clean = from_json(redactor.data(to_json(document)))
    text = json.dumps(to_json(clean), ensure_ascii=False, separators=(",", ":"))
    if len(text) > MOST_IN_ISSUE:
        msg = f"the document has {len(text):,} characters, and an issue takes {MOST_IN_ISSUE:,}"
        raise UsageError(
            "document-too-long", msg, hint="send a bundle with the issue instead: invoke report --bundle"
        )
    fields = {"gpu": _gpu(clean), "stack": clean.subject.stack, "result": _result(clean)}
    title = f"{fields['stack']} on {fields['gpu']}: {fields['result']}"
    query = urlencode({"template": TEMPLATE, "title": title, **fields})
    sections = {**fields, "document": f"```json\n{text}\n```", "remarks": "_No response_"}
    body = "\n\n".join(f"### {FIELDS[name]}\n\n{content}" for name, content in sections.items()) + "\n"
    return Submission(title=title, body=body, document=text, query=query[:MOST_IN_ADDRESS])


def read_issue(body: str, *, number: int, url: str, stacks: Container[str], now: datetime) -> IssueDocument:
    """Take the document out of an issue that anyone may have written.

    Args:
        body: the issue's text, as the form makes it.
        number: the issue's number.
        url: its address, which becomes the document's source.
        stacks: the ids of the stacks that there are; a document has to be about one of them.
        now: when it is read; a document from a later day is refused.

    Raises:
        UsageError: there is no document in it, or it is not one that ``evidence/`` can take.
    """
    text = _section(body, FIELDS["document"])
    fenced = _FENCE.match(text)
    try:
        data = parse_json((fenced[1] if fenced else text).encode())
    except ValueError:
        _refuse("the field is no JSON", "paste the whole text that `invoke report --submit` wrote")
    document = from_json(data, origin=f"issue {number}")
    check_time(document, now=now, origin=f"issue {number}")
    if Redactor().data(data) != data:
        _refuse("something in it looks like a secret or a name", "make it again: invoke report --submit")
    problem = unfit(document)
    if problem:
        _refuse(f"it {problem}", "run one on a GPU: invoke setup")
    if document.subject.stack not in stacks:
        _refuse("pins.lock has no stack of its name", "update the checkout, then make it again")
    day = f"{document.created:%Y-%m-%d}"
    source = DocumentSource(name=f"issue {number}", url=url, date=day)
    filed = from_json(to_json(replace(document, provenance=Provenance.REPORTED, source=source)))
    gpu = filed.subject.gpu
    words = (day, filed.subject.stack, (gpu.gfx or gpu.name) if gpu else "")
    name = "-".join(
        (*(_UNSAFE.sub("-", word.lower())[:60].strip("-.") for word in words), content_hash(filed)[:8])
    )
    return IssueDocument(name=f"{name}.json", content=dump(filed), summary=f"{_gpu(filed)}: {_result(filed)}")


def _section(body: str, label: str) -> str:
    """Return what stands below a heading of the form, up to the next heading of the form."""
    headings = "|".join(map(re.escape, FIELDS.values()))
    parts = re.split(rf"(?m)^### ({headings})[ \t]*\r?$", body)
    found = [text for name, text in zip(parts[1::2], parts[2::2], strict=True) if name == label]
    if len(found) != 1:
        _refuse(f"it has {len(found)} fields {label!r}", "use the form as it is")
    return found[0]


def _gpu(document: Document) -> str:
    gpu = document.subject.gpu
    return "no GPU" if gpu is None else f"{gpu.name} ({gpu.gfx})" if gpu.gfx else gpu.name


def _result(document: Document) -> str:
    level = document.level.value if document.level else "nothing shown"
    return f"{level}, {document.outcome.value}"


def _refuse(what: str, hint: str) -> NoReturn:
    msg = f"the issue holds no document that can be filed: {what}"
    raise UsageError("issue-refused", msg, hint=hint) from None
