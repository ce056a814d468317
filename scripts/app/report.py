"""``report``: what this machine has shown, documents from others, and one redacted zip for a bug report.

Everything goes through the redactor, names of files too; the bundle says what it holds and what it left out.
"""

from __future__ import annotations

import io
import json
import re
import webbrowser
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from scripts.app.context import Workspace, host_of, lock_of
from scripts.app.doctor_look import facts_of, look_around
from scripts.app.stack_process import home_of, redactor_of
from scripts.doctor.diagnose import diagnose
from scripts.doctor.examine import examine
from scripts.errors import ExitCode, UsageError, WorkspaceError
from scripts.evidence.document import Document
from scripts.evidence.evidence_io import (
    FILE_NAME,
    Filed,
    check_time,
    content_hash,
    read_document,
    write_document,
)
from scripts.model import Host
from scripts.osal.fs import long_path, read_bounded, read_end, write_atomic
from scripts.osal.paths import user_path
from scripts.osal.redaction import Redactor, redact_bytes
from scripts.osal.text import file_stamp, utc_now
from scripts.serialize import JsonRecord, plain

#: Bytes of one log that are kept: its end, where the failure is.
LOG_CAP: Final = 2 * 1024 * 1024
#: Bytes of a log's end that the doctor reads, and of a document.
LOG_END: Final = 16 * 1024 * 1024
MAX_DOCUMENT: Final = LOG_END
#: Bytes of all logs together.
TOTAL_CAP: Final = 24 * 1024 * 1024
#: Every entry has this time, so that equal content makes equal bundles.
_WHEN: Final = (1980, 1, 1, 0, 0, 0)


class Bundle(Struct, frozen=True, kw_only=True):
    """A finished bundle: the zip's bytes, the names in it, what was left out and why, what was redacted."""

    content: bytes
    names: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    taken_out: Mapping[str, int] = field(default_factory=dict)


def make_bundle(data: Mapping[str, object], logs: Iterable[tuple[str, bytes]], redactor: Redactor) -> Bundle:
    """Make the zip: ``data`` as JSON files, ``logs`` by name, most important first.

    Logs are cut to their last ``LOG_CAP`` bytes, and end at ``TOTAL_CAP`` together.
    """
    entries: dict[str, bytes] = {}
    left_out: list[str] = []
    taken: dict[str, Counter[str]] = {}
    for name, value in data.items():
        content = _json(redactor.data(value))
        added = _add(entries, f"{redactor.text(name)}.json", content)
        taken[added] = _marks(content) - _marks(_json(value))
    total = 0
    for name, raw in logs:
        clean = redactor.text(name)
        if total >= TOTAL_CAP:
            left_out.append(f"{clean}: the bundle is full")
            continue
        kept = _end_of(raw)
        if len(kept) < len(raw):
            left_out.append(f"{clean}: only the last {len(kept)} of {len(raw)} bytes")
        total += len(kept)
        content = _clean(name, kept, redactor)
        taken[_add(entries, f"logs/{clean}", content)] = _marks(content) - _marks(kept)
    entries["CONTENTS.txt"] = _contents(entries, left_out, taken)
    return Bundle(
        content=_zip(entries),
        names=tuple(sorted(entries)),
        left_out=tuple(left_out),
        taken_out=sum(taken.values(), Counter()),
    )


#: What the redactor puts in place of what it takes out.
_PUT: Final = re.compile(
    rb"<(user|home|host|domain|share|email|ip|mac|uuid|sid|serial|token|redacted)>", re.ASCII
)


def _marks(data: bytes) -> Counter[str]:
    """Count what stands in place of something, by kind; wide text has NULs in between."""
    return Counter(match[1].decode() for match in _PUT.finditer(data.replace(b"\0", b"")))


def counted(taken: Mapping[str, int]) -> str:
    """Say how much of each kind was taken out."""
    return ", ".join(f"{kind} ({count:,})" for kind, count in sorted(taken.items())) or "nothing"


def _clean(name: str, raw: bytes, redactor: Redactor) -> bytes:
    """Redact one log; JSON is read first, because escapes would hide names in it."""
    if name.endswith(".json"):
        try:
            return _json(redactor.data(json.loads(raw)))
        except (ValueError, RecursionError):
            pass
    return redact_bytes(raw, redactor)


def _end_of(raw: bytes) -> bytes:
    """Keep the end of a log, from a whole line on: half a line could hold half a name."""
    if len(raw) <= LOG_CAP:
        return raw
    mark = raw[:2] if raw.startswith((b"\xff\xfe", b"\xfe\xff")) else b""
    start = raw.find(b"\n", len(raw) - LOG_CAP) + 1
    if start == 0:
        return b""
    if raw[start : start + 1] == b"\0":  # the other half of a UTF-16 line feed
        start += 1
    return mark + raw[start:]


def _add(entries: dict[str, bytes], name: str, content: bytes) -> str:
    """Add an entry and return its name; names that redaction made equal get a number."""
    unique, number = name, 2
    while unique in entries:
        unique, number = f"{name}.{number}", number + 1
    entries[unique] = content
    return unique


def _contents(
    entries: Mapping[str, bytes], left_out: Iterable[str], taken: Mapping[str, Mapping[str, int]]
) -> bytes:
    """Write the page that a person reads before sending the bundle."""
    lines = [
        "In the files listed here, names of users, computers and home folders, e-mail addresses, tokens and",
        "serial numbers are replaced by the name of their kind, such as <user>. How often each kind was",
        'replaced stands under "Taken out". What was not recognised is still there: read the files before',
        "you send them.",
        "",
        *(f"{name}  {len(content)} bytes" for name, content in sorted(entries.items())),
    ]
    lines += ["", "Taken out:", *(f"{name}: {counted(kinds)}" for name, kinds in sorted(taken.items()))]
    cut = list(left_out)
    if cut:
        lines += ["", "Left out:", *cut]
    return ("\n".join(lines) + "\n").encode("utf-8")


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n").encode("utf-8")


def _zip(entries: Mapping[str, bytes]) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(entries.items()):
            archive.writestr(zipfile.ZipInfo(name, _WHEN), content, zipfile.ZIP_DEFLATED)
    return sink.getvalue()


IMPORTED: Final = "imported"
#: Newest reports whose documents and logs go into a bundle.
BUNDLED_REPORTS: Final = 5


class Prepared(Struct, frozen=True, kw_only=True):
    """An issue that a person can send: its title and text, the files they lie in, and the form's address.

    ``address`` is empty where this checkout comes from nowhere on GitHub; ``opened`` if a browser shows it.
    """

    title: str
    body: str
    issue: Path
    document: Path
    address: str
    opened: bool = False


class ReportResult(JsonRecord, frozen=True, kw_only=True):
    """What ``report`` found or did.

    Attributes:
        own: the newest document of each stack, made on this machine, newest first.
        imported: documents from others: not measured here, whatever they claim.
        added: the documents that were just imported.
        bundle: the bundle that was just written, and ``bundle_names`` what it holds.
        submission: what was prepared for the project's issue form; nothing is sent.
        faults: files in the folders that are no valid documents.
    """

    own: tuple[Filed, ...]
    imported: tuple[Filed, ...]
    added: tuple[Filed, ...] = ()
    bundle: Path | None = None
    bundle_names: tuple[str, ...] = ()
    submission: Prepared | None = None
    faults: tuple[str, ...] = ()
    exit_code: int = ExitCode.OK


def report(
    ws: Workspace,
    *,
    import_: str = "",
    bundle: bool = False,
    submit: bool = False,
    open_: bool = False,
    findings: Sequence[object] = (),
    now: datetime | None = None,
) -> ReportResult:
    """Show the newest documents; file a stranger's documents; write a bundle; prepare a submission.

    An imported document goes to ``stage/reports/imported``, never to ``evidence``: committing it there
    is a person's decision. A folder is imported file by file, and what is no document in it is named; so is
    one from after ``now``, which is this moment unless it is given. ``findings`` go into the bundle before
    what the doctor says of the logs there. A submission is shown and written, never sent; ``open_`` shows the
    project's form in a browser, its short fields filled in.

    Raises:
        UsageError: the file to import cannot be read or is no valid document, or a folder has none; or
            nothing here is worth a submission.
    """
    faults: list[str] = []
    added = _import(ws, user_path(import_, "--import"), faults, now=now or utc_now()) if import_ else ()
    own = _newest_of_each(_read_all(_own_files(ws), faults))
    imported = tuple(_read_all(sorted((_reports(ws) / IMPORTED).glob("*.json")), faults))
    path, names = _write_bundle(ws, findings) if bundle else (None, ())
    return ReportResult(
        own=own,
        imported=imported,
        added=added,
        bundle=path,
        bundle_names=names,
        submission=_prepare(ws, open_=open_) if submit or open_ else None,
        faults=tuple(faults),
    )


def _prepare(ws: Workspace, *, open_: bool) -> Prepared:
    """Fill the issue form with the newest document that says something about a GPU."""
    from scripts.evidence.submission import submission_of, unfit  # noqa: PLC0415 - only a submission needs it

    found = [seen.document for seen in _read_all(_own_files(ws), [])]
    documents = [document for document in found if not unfit(document)] or found
    if not documents:
        raise UsageError(
            "nothing-to-submit", "this machine has no document yet", hint="make one: invoke setup"
        )
    made = submission_of(documents[0], redactor_of(ws))
    folder = _reports(ws) / "submission"
    folder.mkdir(parents=True, exist_ok=True)
    issue, document = folder / "issue.md", folder / "document.json"
    write_atomic(issue, made.body.encode())
    write_atomic(document, f"{made.document}\n".encode())
    home = home_of(ws)
    address = f"{home}/issues/new?{made.query}" if home else ""
    return Prepared(
        title=made.title,
        body=made.body,
        issue=issue,
        document=document,
        address=address,
        opened=bool(open_ and address) and webbrowser.open(address),
    )


def _reports(ws: Workspace) -> Path:
    return ws.stage / "reports"


def _own_files(ws: Workspace) -> list[Path]:
    """Return this machine's documents, newest first; their folders start with the time."""
    return sorted(_reports(ws).glob(f"*/{FILE_NAME}"), key=lambda path: path.parent.name, reverse=True)


def _read_all(paths: Sequence[Path], faults: list[str], *, now: datetime | None = None) -> Iterator[Filed]:
    """Read documents; what is none, or is from after ``now``, is named and passed over."""
    for path in paths:
        try:
            yield Filed(path=str(path), document=_read(path, now))
        except WorkspaceError as error:
            faults.append("; ".join((f"{path}: {error.message}", *error.context)))


def _read(path: Path, now: datetime | None) -> Document:
    document = read_document(path)
    if now is not None:
        check_time(document, now=now, origin=path.name)
    return document


def _newest_of_each(seen: Iterator[Filed]) -> tuple[Filed, ...]:
    found: dict[str, Filed] = {}
    for item in seen:
        found.setdefault(item.document.subject.stack, item)
    return tuple(found.values())


def _import(ws: Workspace, source: Path, faults: list[str], *, now: datetime) -> tuple[Filed, ...]:
    """Check documents and file each under a name of ours, made from its content."""
    from scripts.evidence import foreign  # noqa: PLC0415 - only an import needs it

    reports = foreign.read_foreign(source)
    documents: list[Document] = []
    if reports is not None:
        documents += foreign.documents_of(reports, lock=lock_of(ws), redactor=redactor_of(ws))
        for document in documents:
            check_time(document, now=now, origin=source.name)
    if long_path(source).is_dir():
        files = sorted(path for path in source.glob("*.json") if path.name not in foreign.FILES)
        documents += (seen.document for seen in _read_all(files, faults, now=now))
        if not documents:
            msg = f"{source} holds no document to import"
            raise UsageError("nothing-to-import", msg, context=tuple(faults), hint="name the file itself")
    elif reports is None:
        documents.append(_read(source, now))
    return tuple(_file(ws, document) for document in documents)


def _file(ws: Workspace, document: Document) -> Filed:
    """Write one document where imported ones lie."""
    path = write_document(_reports(ws) / IMPORTED, document, name=f"{content_hash(document)[:16]}.json")
    return Filed(path=str(path), document=document)


def _write_bundle(ws: Workspace, findings: Sequence[object]) -> tuple[Path, tuple[str, ...]]:
    """Gather facts, the doctor's examination and findings, documents and logs; redact; write."""
    host = host_of(ws)
    data: dict[str, object] = {
        "machine": plain(host),
        "doctor": [line.to_json() for line in examine(look_around(ws, host))],
        "findings": [*findings, *_explained(ws, host)],
        "environment": {name: ws.environ[name] for name in sorted(ws.environ) if _telling(name)},
    }
    made = make_bundle(data, _logs(ws), redactor_of(ws))
    ws.progress.note(f"taken out of {len(made.names) - 1} files: {counted(made.taken_out)}")
    path = _reports(ws) / f"{file_stamp()}-bundle.zip"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, made.content)
    return path, made.names


def _explained(ws: Workspace, host: Host) -> Iterator[dict[str, object]]:
    """Yield what the doctor says of each log that goes in."""
    facts = facts_of(ws, host)
    for name, raw in _logs(ws):
        if not name.endswith(".json"):
            yield from ({"log": name, **finding.to_json()} for finding in diagnose(raw, facts))


def _telling(name: str) -> bool:
    """Whether a variable bears on CUDA, HIP or loading; the others are private."""
    upper = name.upper()
    starts = ("CUDA", "HIP", "ROC", "HSA", "ZLUDA", "MIOPEN", "PYTORCH", "TORCH", "GPU_", "AMD", "LD_LIBRARY")
    return upper.startswith(starts) or upper in {"PATH", "LD_PRELOAD", "PROCESSOR_ARCHITECTURE"}


def _logs(ws: Workspace) -> Iterator[tuple[str, bytes]]:
    """Yield documents and logs of the newest reports, then the newest logs; unreadable files are skipped."""
    folders = [path.parent for path in _own_files(ws)[:BUNDLED_REPORTS]]
    files = [file for folder in folders for file in sorted(folder.iterdir())]
    logs = sorted((ws.stage / "logs").glob("*"), key=lambda path: path.name, reverse=True)
    for file in (*files, *logs[:BUNDLED_REPORTS]):
        if file.is_symlink() or not file.is_file():
            continue
        try:
            whole = file.suffix == ".json"
            raw = read_bounded(file, MAX_DOCUMENT) if whole else read_end(file, LOG_END)
            yield f"{file.parent.name}/{file.name}", raw
        except OSError:
            continue
