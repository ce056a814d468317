"""SQLite files that belong to other programs: whether one of them is in use."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Final

#: A journal that ends so names a file elsewhere, which SQLite deletes when it has written the journal back.
_POINTER: Final = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"


def in_use(path: Path) -> bool:
    """Whether another program has the database open.

    SQLite itself answers: it lends the file exclusively to nobody while somebody else has it open (in WAL
    mode even idle). A file that is no database is in nobody's use. Its content does not change, but SQLite
    may write its journal back into it. One whose journal names a file elsewhere is not opened and counts as
    in use: in a transaction over several databases that file is SQLite's own, in a planted journal anybody's.
    """
    import sqlite3  # noqa: PLC0415 - only here, and seldom asked

    if _leads_elsewhere(path.with_name(f"{path.name}-journal")):
        return True
    address = f"{path.absolute().as_uri()}?mode=rw"
    try:
        with closing(sqlite3.connect(address, uri=True, timeout=0, isolation_level=None)) as connection:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            connection.execute("BEGIN EXCLUSIVE")
            connection.execute("ROLLBACK")
    except sqlite3.OperationalError as error:
        return error.sqlite_errorcode & 0xFF in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
    except sqlite3.DatabaseError:
        return False
    return False


def _leads_elsewhere(journal: Path) -> bool:
    """Whether a journal names another file."""
    try:
        return journal.is_file() and journal.read_bytes().rstrip(b"\0").endswith(_POINTER)
    except FileNotFoundError:
        return False
    except OSError:  # held by somebody
        return True
