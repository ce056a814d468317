"""Evidence documents as files: written atomically, read as something a stranger may have made.

The schema is ``data/schemas/evidence-1.json``. Reading checks it and then what a schema cannot say:
that no result claims more than its outcome allows, and that level and outcome follow from the results.
"""

from __future__ import annotations

import errno
import hashlib
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal, NoReturn
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from scripts.errors import UsageError
from scripts.evidence.document import (
    FORMAT,
    HIDDEN,
    Document,
    Name,
    Provenance,
    Text,
    lowest,
    within_ceiling,
    worst,
)
from scripts.evidence.schema_check import first_fault, is_newer
from scripts.model import Level, Outcome
from scripts.osal.fs import read_bounded, write_atomic
from scripts.osal.text import file_stamp, printable, time_stamp
from scripts.serialize import parse_json, pick, texts_in

SCHEMA: Final = Path(__file__).resolve().parents[1] / "data" / "schemas" / f"evidence-{FORMAT}.json"
MAX_BYTES: Final = 4 * 1024 * 1024
FILE_NAME: Final = "evidence.json"
#: So far apart may the clocks of two machines be; a report's date is a day of any time zone.
CLOCKS_DIFFER: Final = timedelta(days=1)
#: The stack of ``pins.lock`` that computes on the CPU, whatever a document says of itself.
REFERENCE: Final = "cpu-reference"
#: Keys that most documents have no use for, and do not have.
OPTIONAL: Final = ("attempts", "figures", "combination")
#: What every document has, where it says nothing.
_EMPTY: Final[dict[str, object]] = {
    **dict.fromkeys(("source", "lock", "revision")),
    "simulated": False,
    **{name: [] for name in ("files", "not_exercised", "attachments", "notes")},
}
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"


class Filed(Struct, frozen=True, kw_only=True):
    """A document and the name of the file it lies in."""

    path: str
    document: Document

    def to_json(self) -> dict[str, object]:
        """Return plain data."""
        return {"path": self.path, "document": to_json(self.document)}


def to_json(document: Document) -> dict[str, object]:
    """Return the document as plain JSON data; ``OPTIONAL`` keys only where there is something."""
    return {
        "format": FORMAT,
        "created": time_stamp(document.created),
        **pick(
            document,
            "provenance source simulated subject machine lock revision level outcome capabilities=results "
            "not_exercised files attachments notes",
        ),
        **pick(document, " ".join(name for name in OPTIONAL if getattr(document, name))),
    }


def from_json(data: object, *, origin: str = "this document") -> Document:
    """Read a document from JSON data that anyone may have made.

    Raises:
        UsageError: ``evidence-invalid``, naming the JSON path of the first thing that is wrong;
            ``evidence-newer`` for a later format.
    """
    if isinstance(data, dict) and is_newer(data, FORMAT):
        msg = f"{origin} has format {data['format']}; this workspace reads {FORMAT}"
        raise UsageError("evidence-newer", msg, hint="update the workspace, then import the document again")
    document = well_formed(data)
    if document is None:  # what is wrong is asked only where something may be
        if (fault := first_fault(data, SCHEMA)) is not None:
            _refuse(origin, fault[0], _shorten(fault[1]))
        try:
            document = _document(data, origin)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            _refuse(origin, "$", f"it is incomplete: {_shorten(str(error))}")
    _check_claims(document, data, origin)
    return document


def read_document(path: Path) -> Document:
    """Read and check one document file.

    Raises:
        UsageError: the file cannot be read, is larger than ``MAX_BYTES``, or is not a valid document.
    """
    origin, raw = path.name, read_raw(path)
    if raw is None:
        _refuse(origin, "$", f"it is larger than {MAX_BYTES} bytes")
    try:
        data = parse_json(raw)
    except ValueError as error:
        _refuse(origin, "$", f"it is not JSON: {_shorten(str(error))}")
    return from_json(data, origin=origin)


def read_raw(path: Path) -> bytes | None:
    """Return the bytes of a file that anyone may have made; ``None`` where it is larger than ``MAX_BYTES``.

    Raises:
        UsageError: ``evidence-unreadable``.
    """
    try:
        return read_bounded(path, MAX_BYTES)
    except OSError as error:
        if error.errno == errno.EFBIG:
            return None
        msg = f"{path} cannot be read: {error.strerror}"
        raise UsageError("evidence-unreadable", msg, hint="check the path") from error


def check_time(document: Document, *, now: datetime, origin: str) -> None:
    """Refuse a stranger's document from the future, which would stand above everything to come.

    Raises:
        UsageError: it was made, or says it was seen, more than ``CLOCKS_DIFFER`` after ``now``.
    """
    latest = max(document.created, document.observed)
    if latest > now + CLOCKS_DIFFER:
        raise UsageError(
            "evidence-invalid",
            f"{origin} is not a valid evidence document",
            context=(f"its date, {latest:%Y-%m-%d}, is in the future",),
            hint="check the clocks of this machine and of the one that it was made on",
        )


def content_hash(document: Document) -> str:
    """Return the SHA-256 of what a document says; spacing and the order of keys make no difference.

    What is empty by default is left out, so that a new optional key changes no hash.
    """
    return hashlib.sha256(msgspec.json.encode(document, order="sorted")).hexdigest()


def dump(document: Document) -> bytes:
    """Return the bytes of a document file: UTF-8, LF, readable."""
    return (json.dumps(to_json(document), indent=2, ensure_ascii=False) + "\n").encode("utf-8")


def report_folder(reports: Path, *, stack: str, created: datetime) -> Path:
    """Make and return a new folder ``<utc>-<stack>`` below ``reports``; never one that exists."""
    name = f"{file_stamp(created)}-{stack}"
    reports.mkdir(parents=True, exist_ok=True)
    for number in range(1, 1000):
        folder = reports / (name if number == 1 else f"{name}-{number}")
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        return folder
    raise UsageError(
        "too-many-reports", f"{reports / name} exists a thousand times", hint="delete old reports"
    )


def write_document(folder: Path, document: Document, *, name: str = FILE_NAME) -> Path:
    """Write ``folder/evidence.json`` and return it; readers see the old file or the whole new one.

    What is written passes ``from_json``: a document that we could not read back is never made.
    """
    content = dump(document)
    from_json(json.loads(content), origin="the new document")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    write_atomic(path, content)
    return path


class _Shown(Struct, forbid_unknown_fields=True):
    """A result as it is written."""

    capability: Name
    level: Level | None
    outcome: Outcome
    detail: Text


class _Claims(Struct):
    """What a document says that is not read into it, and its results."""

    format: Literal[1]
    level: Level | None
    outcome: Outcome
    capabilities: tuple[_Shown, ...]


def well_formed(data: Any) -> Document | None:  # noqa: ANN401 - JSON of any shape
    """Return a document that follows the schema for sure; ``None`` leaves the question to ``jsonschema``.

    That takes a hundred times as long, and ten thousand documents are read at a time. Whatever is written
    comes back the same, so that nothing is missing and nothing unknown is there.
    """
    try:
        msgspec.convert(data, _Claims)
        rest = {key: value for key, value in data.items() if key not in _Claims.__struct_fields__}
        found = msgspec.convert({**rest, "results": data["capabilities"]}, Document)
        again = _EMPTY | msgspec.json.decode(msgspec.json.encode(found))
    except (ValueError, RecursionError):
        return None
    again.pop("results")
    same = again == rest and rest["created"] == time_stamp(found.created)
    hidden = HIDDEN.search("".join(texts_in(data)))
    return found if same and not hidden and _agrees(found) else None


def _agrees(document: Document) -> bool:
    """Whether what a document is and what it has go together, and nothing is named twice."""
    reported = document.provenance is Provenance.REPORTED
    lists = (document.not_exercised, document.attachments)
    return (
        (document.source is not None) == reported
        and not (reported and document.simulated)
        and (reported or document.lock is not None)
        and not (document.simulated and document.subject.gpu is not None)
        and all(len(set(names)) == len(names) for names in lists)
    )


def _document(data: Any, origin: str) -> Document:  # noqa: ANN401 - JSON of any shape
    """Build the document; what it says of level and outcome is checked by ``_check_claims``."""
    try:
        datetime.strptime(data["created"], _TIME).replace(tzinfo=UTC)
    except ValueError:
        _refuse(origin, "$.created", "it is no date")
    return msgspec.convert({**data, "results": data["capabilities"]}, Document)


def _check_claims(document: Document, data: Any, origin: str) -> None:  # noqa: ANN401 - as above
    """Refuse claims that the document's own results do not carry."""
    try:
        _ = document.observed
    except ValueError:
        _refuse(origin, "$.source.date", "it is no date")
    try:
        _ = urlsplit(document.source.url if document.source else "").port
    except ValueError:
        _refuse(origin, "$.source.url", "it is no address")
    _check_stack(document, origin)
    names: set[str] = set()
    for number, result in enumerate(document.results):
        at = f"$.capabilities[{number}]"
        if within_ceiling(result) != result:
            _refuse(origin, f"{at}.level", f"{result.outcome} cannot show {result.level}")
        if result.outcome is Outcome.PASS and result.level is None:
            _refuse(origin, f"{at}.level", "a pass shows at least detected")
        if result.capability in names:
            _refuse(origin, f"{at}.capability", f"{result.capability} is there twice")
        names.add(result.capability)
    level, outcome = lowest(document.results), worst(document.results)
    claimed = data.get("level")
    if claimed != (level.value if level else None):
        _refuse(origin, "$.level", f"its results show {level or 'nothing'}, it says {claimed or 'nothing'}")
    if data.get("outcome") != outcome.value:
        _refuse(origin, "$.outcome", f"its results show {outcome}, it says {data.get('outcome')}")


def _check_stack(document: Document, origin: str) -> None:
    """Refuse a stack, or words for one, that would be taken for something else."""
    custom = document.lock is not None and document.lock.custom
    if document.subject.stack == REFERENCE and not document.simulated and not custom:
        _refuse(origin, "$.simulated", f"{REFERENCE} computes on the CPU: it shows nothing about a GPU")
    if document.combination and document.subject.stack:
        _refuse(origin, "$.combination", "a stack of pins.lock is a combination already")
    if document.combination and " " not in document.combination:
        _refuse(origin, "$.combination", "it is to say in words what was used; a single word may be a stack")


def _refuse(origin: str, where: str, what: str) -> NoReturn:
    """Raise the one error for a document that we do not accept."""
    raise UsageError(
        "evidence-invalid",
        f"{origin} is not a valid evidence document",
        context=(f"{where}: {what}",),
        hint="ask whoever sent it for the file exactly as their `report` wrote it",
    )


def _shorten(text: str) -> str:
    """Keep a stranger's text to one short printable line."""
    line = printable(text, instead="?")
    return line if len(line) <= 200 else f"{line[:120]} … {line[-60:]}"  # noqa: PLR2004 - one or two lines
