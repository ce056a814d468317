"""The lines of a journal: one record each, with its length and checksum, so that what is torn is seen.

A line is the length of its text, the first half of its SHA-256, the text (JSON, ASCII). A power failure can
leave the last record half written or as NULs: that is *torn*, and the journal ends before it. A bad record
with a good one behind it is *corrupt*: no failure of ours leaves that.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Final, NoReturn

from scripts.errors import JournalError

_LINE: Final = re.compile(rb"([0-9]{8}) ([0-9a-f]{32}) ([^\n]*)")
_ANYWHERE: Final = re.compile(rb"(?=([0-9]{8} [0-9a-f]{32} [^\n]*)\n)")
_HINT: Final = "look into .cuda-amd by hand: its README.txt says which file belongs where"


def record(body: Mapping[str, object]) -> bytes:
    """Return one line."""
    text = json.dumps(body, ensure_ascii=True, separators=(",", ":")).encode("ascii")
    return b"%08d %s %s\n" % (len(text), hashlib.sha256(text).hexdigest()[:32].encode(), text)


def whole_records(data: bytes) -> tuple[list[dict[str, object]], int]:
    """Return the records before the first bad line, and where they end.

    Raises:
        JournalError: ``journal-corrupt``.
    """
    records: list[dict[str, object]] = []
    at = 0
    while at < len(data):
        stop = data.find(b"\n", at)
        body = _body(data[at:stop]) if stop >= 0 else None
        if body is None:
            if any(_body(found[1]) is not None for found in _ANYWHERE.finditer(data, at + 1)):
                distrust("journal-corrupt", f"the journal is damaged at byte {at} and goes on behind it")
            break
        records.append(body)
        at = stop + 1
    return records, at


def _body(line: bytes) -> dict[str, object] | None:
    """Check length and checksum of one line."""
    found = _LINE.fullmatch(line)
    if found is None:
        return None
    length, check, text = found.groups()
    if int(length) != len(text) or hashlib.sha256(text).hexdigest()[:32].encode() != check:
        return None
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def distrust(reference: str, message: str, hint: str = _HINT) -> NoReturn:
    """Stop: nothing was touched."""
    raise JournalError(reference, message, context=("nothing was changed",), hint=hint)
