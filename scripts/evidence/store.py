"""The evidence store: documents of folders, checked, each content once, merged into cells.

SQLite is underneath. What it keeps in a file is a copy that can be made again at any time: a file of another
make, or a damaged one, is replaced. Documents are known by a hash of their content, so spacing, the order of
keys and the names of files do not make one document two.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from sys import intern
from typing import Any, Final, NamedTuple, Self

import msgspec
from msgspec import Struct

from scripts import __version__
from scripts.errors import UsageError, WorkspaceError
from scripts.evidence.document import Document, Provenance
from scripts.evidence.evidence_io import SCHEMA, content_hash, read_document
from scripts.evidence.merging import (
    Cell,
    CellKey,
    Observation,
    gpu_key,
    merge,
    newest_first,
    observations_of,
    stack_key,
    why_not,
)
from scripts.model import Level, Outcome
from scripts.osal.fs import write_atomic
from scripts.osal.text import printable
from scripts.serialize import JsonRecord

#: Raised with every change of the tables, of what is put into them, and of the rules of merging.
FORMAT: Final = 1
#: A file that was changed less than this (in nanoseconds) before it was read may change again unnoticed.
RACY: Final = 2_000_000_000
PROVENANCES: Final = {each.value: each for each in Provenance}
LEVELS: Final = {None: None} | {each.value: each for each in Level}
OUTCOMES: Final = {each.value: each for each in Outcome}
#: Seconds to wait for another process that writes.
PATIENCE: Final = 30.0

#: KiB of memory for pages of the file: taking in many documents touches all of them again and again.
CACHE: Final = 64 * 1024

TABLES: Final = """
CREATE TABLE file (
    folder TEXT NOT NULL, name TEXT NOT NULL, size INTEGER NOT NULL, time INTEGER NOT NULL,
    document INTEGER, fault TEXT NOT NULL, PRIMARY KEY (folder, name));
CREATE INDEX file_document ON file (document);
CREATE TABLE document (
    id INTEGER PRIMARY KEY, hash TEXT NOT NULL UNIQUE, observed TEXT NOT NULL, provenance TEXT NOT NULL,
    gpu TEXT NOT NULL, stack TEXT NOT NULL, body BLOB NOT NULL);
CREATE INDEX document_gpu ON document (gpu, observed DESC, hash);
CREATE INDEX document_stack ON document (stack, observed DESC, hash);
CREATE INDEX document_observed ON document (observed DESC, hash);
CREATE TABLE cell (
    id INTEGER PRIMARY KEY, gpu TEXT NOT NULL, stack TEXT NOT NULL, application TEXT NOT NULL,
    capability TEXT NOT NULL, pinned INTEGER NOT NULL, stands INTEGER, newest TEXT, conflict INTEGER,
    count INTEGER, UNIQUE (gpu, stack, application, capability));
CREATE INDEX cell_stack ON cell (stack);
CREATE INDEX cell_application ON cell (application, capability);
CREATE TABLE observation (
    cell INTEGER NOT NULL, document INTEGER NOT NULL, level TEXT, outcome TEXT NOT NULL, detail TEXT NOT NULL,
    PRIMARY KEY (cell, document)) WITHOUT ROWID;
"""
_KEY: Final = "cell.gpu, cell.stack, cell.application, cell.capability"
_SEEN: Final = (
    "document.hash, document.observed, document.provenance, observation.level, observation.outcome, "
    "observation.detail"
)
#: Every statement is made of these words and of names of columns; values are always bound.
CELLS: Final = (
    f"SELECT cell.id, {_KEY}, pinned, newest, conflict, count, {_SEEN} FROM cell "  # noqa: S608 - see above
    "JOIN observation ON observation.cell = cell.id AND observation.document = cell.stands "
    "JOIN document ON document.id = cell.stands"
)
OBSERVATIONS: Final = (
    f"SELECT cell.id, {_KEY}, pinned, document.id, {_SEEN} FROM cell "  # noqa: S608 - see above
    "JOIN observation ON observation.cell = cell.id JOIN document ON document.id = observation.document"
)


class IngestFault(JsonRecord, frozen=True, kw_only=True):
    """A file that is no valid document, and why."""

    path: str
    reason: str


class Ingested(JsonRecord, frozen=True, kw_only=True):
    """What one look at a folder changed: documents that are new or gone, and files that are none."""

    added: int
    removed: int
    faults: tuple[IngestFault, ...]


class Kept(Struct, frozen=True, kw_only=True):
    """A document of the store: its content hash and the files it lies in."""

    content: str
    paths: tuple[str, ...]
    document: Document


class EvidenceStore:
    """An open store; ``open_store`` makes one. Leaving its ``with`` block closes it."""

    def __init__(self, base: sqlite3.Connection) -> None:
        """Take over a connection whose tables exist."""
        self._base = base

    def __enter__(self) -> Self:
        """Return the store."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        self._base.close()

    def ingest(self, folder: Path) -> Ingested:
        """Bring the store up to date with the ``*.json`` files of a folder.

        Only files that are new or have changed are read. What is no valid document is kept as a fault and
        proves nothing; what is gone from the folder goes from the store.
        """
        label = folder.name
        listed = {found.name: found for found in _listing(folder)}
        rows = self._base.execute("SELECT name, size, time FROM file WHERE folder = ?", (label,))
        known = {name: (size, stamp) for name, size, stamp in rows}
        changed = sorted(name for name, found in listed.items() if known.get(name) != found.mark)
        gone = known.keys() - listed.keys()
        added = removed = 0
        if changed or gone:
            intake = _Intake(self._base)
            with self._base:
                self._base.execute("BEGIN IMMEDIATE")
                intake.forget((label, name) for name in (*gone, *changed))
                added = sum(intake.take(label, listed[name]) for name in changed)
                removed = intake.drop_documents_without_file()
                intake.merge_changed_cells()
        return Ingested(added=added, removed=removed, faults=self.faults(label))

    def faults(self, label: str = "") -> tuple[IngestFault, ...]:
        """Return the files that are no documents, by path; of one folder if it is named."""
        rows = self._base.execute(
            "SELECT folder, name, fault FROM file WHERE fault <> '' AND (?1 = '' OR folder = ?1) "
            "ORDER BY folder, name",
            (label,),
        )
        return tuple(IngestFault(path=f"{folder}/{name}", reason=fault) for folder, name, fault in rows)

    def cells(
        self,
        *,
        gpu: str | None = None,
        stack: str | None = None,
        application: str | None = None,
        capability: str | None = None,
        observations: bool = False,
    ) -> tuple[Cell, ...]:
        """Return cells, sorted by what they are about; each word that is given restricts them.

        Without ``observations`` each has only what stands.
        """
        words = {"gpu": gpu, "stack": stack, "application": application, "capability": capability}
        asked = {name: value for name, value in words.items() if value is not None}
        where = " AND ".join(f"cell.{name} = :{name}" for name in asked) or "1"
        every: dict[int, list[Observation]] = {}
        if observations:
            for row in self._base.execute(f"{OBSERVATIONS} WHERE {where}", asked):
                every.setdefault(row[0], []).append(_observation(row[7:]))
        rows = self._base.execute(f"{CELLS} WHERE {where} ORDER BY {_KEY}", asked)
        return tuple(_cell(row, every.get(row[0], [])) for row in rows)

    def document(self, content: str) -> Kept | None:
        """Return a document by its hash, ``None`` where there is none."""
        return next(self._kept("hash = ?", content), None)

    def documents(self, *, gpu: str = "", stack: str = "", limit: int = -1) -> Iterator[Kept]:
        """Yield documents, newest first; about one GPU or stack if it is named, and so many at most."""
        named = {"gpu": gpu, "stack": stack}
        asked = {name: value for name, value in named.items() if value}
        return self._kept(" AND ".join(f"{name} = ?" for name in asked) or "1", *asked.values(), limit=limit)

    def _kept(self, where: str, *values: str, limit: int = -1) -> Iterator[Kept]:
        """Yield documents with the files that hold them; no path has two strokes in a row."""
        rows = self._base.execute(
            "SELECT hash, body, (SELECT group_concat(folder || '/' || name, '//') FROM file "  # noqa: S608 - see CELLS
            f"WHERE file.document = document.id) FROM document WHERE {where} "
            "ORDER BY observed DESC, hash LIMIT ?",
            (*values, limit),
        )
        for content, body, paths in rows:
            document = msgspec.msgpack.decode(body, type=Document)
            yield Kept(content=content, paths=tuple(sorted(paths.split("//"))), document=document)


def store_of(folder: Path, path: Path | None = None) -> EvidenceStore:
    """Open a store, up to date with a folder; in memory where its file turns out to be of no use.

    A store in a file is believed only with its checksum beside it: a damaged copy could answer wrongly.
    """
    path = path if path is not None and _usable(path) else None
    store = open_store(path)
    try:
        store.ingest(folder)
        if path is not None:
            write_atomic(_sum_of(path), _checksum(path), durable=False)
    except (sqlite3.DatabaseError, OSError):  # damaged inside, locked for long, or the disk is full
        store.close()
        store = open_store()
        store.ingest(folder)
    return store


def _usable(path: Path) -> bool:
    """Remove a store whose bytes are not those that were written last; false where it cannot be removed."""
    try:
        known = _sum_of(path).read_bytes() if _sum_of(path).exists() else b""
        if path.exists() and known != _checksum(path):
            path.unlink()
    except OSError:
        return False
    return True


def _sum_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.sum")


def _checksum(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest().encode()


def open_store(path: Path | None = None) -> EvidenceStore:
    """Open a store: in memory, or kept in a file, so that only what has changed is read next time.

    A file that is no store, or that another version made, is made again; where none can be used, the store is
    in memory.
    """
    for file in () if path is None else (path, path):
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            return EvidenceStore(_connected(str(file)))
        except (sqlite3.OperationalError, OSError):
            break  # another process writes, or nothing can be written here
        except sqlite3.DatabaseError:
            with suppress(OSError):
                file.unlink()
    return EvidenceStore(_connected(":memory:"))


def _connected(name: str) -> sqlite3.Connection:
    """Connect, and make the tables where they are not those of this version."""
    base = sqlite3.connect(name, timeout=PATIENCE, isolation_level=None)
    base.execute(f"PRAGMA cache_size = -{CACHE}")
    make = zlib.crc32(f"{FORMAT} {__version__} ".encode() + SCHEMA.read_bytes()) & 0x7FFFFFFF
    try:
        if base.execute("PRAGMA user_version").fetchone()[0] != make:
            if base.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                msg = "another version made it"
                raise sqlite3.DatabaseError(msg)
            base.executescript(f"BEGIN IMMEDIATE; {TABLES} PRAGMA user_version = {make}; COMMIT;")
    except sqlite3.Error:
        base.close()
        raise
    return base


class _Listed(NamedTuple):
    """One file of a folder; ``mark`` is its size and the time of its last change, in nanoseconds."""

    name: str
    path: Path
    mark: tuple[int, int]
    regular: bool


def _listing(folder: Path) -> Iterator[_Listed]:
    """Yield what is called ``*.json`` in a folder; without a folder there is nothing."""
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".json"):
                with suppress(OSError):
                    state = entry.stat()
                    mark = (state.st_size, state.st_mtime_ns)
                    yield _Listed(printable(entry.name), Path(entry.path), mark, entry.is_file())
                    continue
                yield _Listed(printable(entry.name), Path(entry.path), (0, 0), regular=False)


class _Intake:
    """One round of writing: reads files, files documents, merges the cells that have changed."""

    def __init__(self, base: sqlite3.Connection) -> None:
        self._base = base
        self._rows: dict[tuple[str, str, str], dict[str, int]] = {}
        self._changed: set[int] = set()

    def forget(self, names: Iterator[tuple[str, str]]) -> None:
        """Forget files; their documents stay until ``drop_documents_without_file``."""
        self._base.executemany("DELETE FROM file WHERE folder = ? AND name = ?", names)

    def take(self, label: str, found: _Listed) -> bool:
        """Read one file; return whether it brings a new document."""
        row, fault, new = None, "", False
        try:
            row, new = self._filed(_read(found))
        except WorkspaceError as error:
            fault = printable("; ".join((error.message, *error.context)))
        size, stamp = found.mark
        if time.time_ns() - stamp < RACY:
            stamp = 0  # it may change again within the same tick of its clock: read it next time too
        values = (label, found.name, size, stamp, row, fault)
        self._base.execute("INSERT INTO file VALUES (?, ?, ?, ?, ?, ?)", values)
        return new

    def _filed(self, document: Document) -> tuple[int, bool]:
        """Put a document into its cells if its content is new; return its row, and if it is."""
        content = content_hash(document)
        known = self._base.execute("SELECT id FROM document WHERE hash = ?", (content,)).fetchone()
        if known is not None:
            return known[0], False
        seen = observations_of(document, content)
        gpu, stack = gpu_key(document), stack_key(document)
        body = msgspec.msgpack.encode(document)
        values = (content, seen[""].observed, document.provenance.value, gpu, stack, body)
        row = self._insert("INSERT INTO document VALUES (NULL, ?, ?, ?, ?, ?, ?)", values)
        if not why_not(document):
            cells = self._cells_of(document, seen)
            shown = {name: (one.level and one.level.value, one.outcome.value) for name, one in seen.items()}
            rows = ((cells[name], row, *shown[name], one.detail) for name, one in seen.items())
            self._base.executemany("INSERT INTO observation VALUES (?, ?, ?, ?, ?)", rows)
        return row, True

    def _cells_of(self, document: Document, capabilities: Iterable[str]) -> Mapping[str, int]:
        """Return the rows of a document's cells by capability, made if they must be; all are merged later."""
        key = (gpu_key(document), stack_key(document), document.subject.application)
        known = self._rows.setdefault(key, {})
        for name in capabilities:
            if name not in known:
                known[name] = self._cell_row(CellKey(*key, name), pinned=bool(document.subject.stack))
            self._changed.add(known[name])
        return known

    def _cell_row(self, key: CellKey, *, pinned: bool) -> int:
        """Return a cell's row, which is made if there is none."""
        where = "gpu = ? AND stack = ? AND application = ? AND capability = ?"
        found = self._base.execute(f"SELECT id FROM cell WHERE {where}", key).fetchone()  # noqa: S608 - see CELLS
        columns = "gpu, stack, application, capability, pinned"
        insert = f"INSERT INTO cell ({columns}) VALUES (?, ?, ?, ?, ?)"  # noqa: S608 - see CELLS
        return found[0] if found else self._insert(insert, (*key, pinned))

    def _insert(self, statement: str, values: tuple[object, ...]) -> int:
        return self._base.execute(statement, values).lastrowid or 0

    def drop_documents_without_file(self) -> int:
        """Drop documents that no file holds any more; return how many."""
        held = "SELECT document FROM file WHERE document NOT NULL"
        rows = self._base.execute(f"SELECT id, body FROM document WHERE id NOT IN ({held})").fetchall()  # noqa: S608 - see CELLS
        for row, body in rows:
            document = msgspec.msgpack.decode(body, type=Document)
            if not why_not(document):
                cells = self._cells_of(document, ("", *(result.capability for result in document.results)))
                gone = ((cell, row) for cell in cells.values())
                self._base.executemany("DELETE FROM observation WHERE cell = ? AND document = ?", gone)
            self._base.execute("DELETE FROM document WHERE id = ?", (row,))
        return len(rows)

    def merge_changed_cells(self) -> None:
        """Find again what stands in each cell that has changed; one without observations goes."""
        self._base.execute("CREATE TEMP TABLE IF NOT EXISTS changed (cell INTEGER PRIMARY KEY)")
        self._base.execute("DELETE FROM changed")
        self._base.executemany("INSERT INTO changed VALUES (?)", ((cell,) for cell in self._changed))
        rows = self._base.execute(f"{OBSERVATIONS} JOIN changed ON changed.cell = cell.id ORDER BY cell.id")
        merged = [_merged(list(group)) for _, group in groupby(rows, key=lambda row: row[0])]
        self._base.executemany(
            "UPDATE cell SET stands = ?, newest = ?, conflict = ?, count = ? WHERE id = ?", merged
        )
        self._base.execute(
            "DELETE FROM cell WHERE id IN (SELECT cell FROM changed) "
            "AND id NOT IN (SELECT cell FROM observation)"
        )


def _read(found: _Listed) -> Document:
    """Read a file that anyone may have made."""
    if not found.regular:
        raise UsageError("evidence-unreadable", "it is no file", hint="remove it from the folder")
    return read_document(found.path)


def _merged(rows: list[Any]) -> tuple[object, ...]:
    """Merge one cell's rows of ``OBSERVATIONS`` into what is kept of it."""
    cell, *key, pinned = rows[0][:6]
    documents = {row[7]: row[6] for row in rows}
    made = merge(CellKey(*key), (_observation(row[7:]) for row in rows), pinned=bool(pinned))
    return documents[made.document], made.newest, made.conflict, made.count, cell


def _observation(row: Any) -> Observation:  # noqa: ANN401 - a row
    content, observed, provenance, level, outcome, detail = row
    return Observation(
        document=intern(content),  # many observations are of one document
        observed=intern(observed),
        provenance=PROVENANCES[provenance],
        level=LEVELS[level],
        outcome=OUTCOMES[outcome],
        detail=detail,
    )


def _cell(row: Any, observations: list[Observation]) -> Cell:  # noqa: ANN401 - a row
    return Cell(
        gpu=row[1],
        stack=row[2],
        application=row[3],
        capability=row[4],
        pinned=bool(row[5]),
        newest=row[6],
        conflict=bool(row[7]),
        count=row[8],
        stands=_observation(row[9:]),
        observations=newest_first(observations),
    )
