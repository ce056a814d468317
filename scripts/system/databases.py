"""SQLite files that belong to other programs: whether one of them is in use."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path


def in_use(path: Path) -> bool:
    """Whether another program has the database open.

    SQLite itself answers: it lends the file exclusively to nobody while somebody else has it open (in WAL
    mode even idle). A file that is no database is in nobody's use. Its content does not change, but SQLite
    may write its journal back into it.
    """
    import sqlite3  # noqa: PLC0415 - only here, and seldom asked

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
