"""One redacted zip for a bug report: facts, findings, documents, logs.

Everything goes through the redactor, names of files too; the bundle says what it holds and what it left out.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct, field

from scripts.osal.redaction import Redactor, redact_bytes

#: Bytes of one log that are kept: its end, where the failure is.
LOG_CAP: Final = 2 * 1024 * 1024
#: Bytes of all logs together.
TOTAL_CAP: Final = 24 * 1024 * 1024
#: Every entry has this time, so that equal content makes equal bundles.
_WHEN: Final = (1980, 1, 1, 0, 0, 0)


class Bundle(Struct, frozen=True, kw_only=True):
    """A finished bundle: the zip's bytes, the names in it, and what was left out and why."""

    content: bytes
    names: tuple[str, ...]
    left_out: tuple[str, ...] = ()


class Parts(Struct, frozen=True, kw_only=True):
    """What goes in. ``data`` becomes JSON files; ``logs`` are bytes by name, most important first."""

    data: Mapping[str, object] = field(default_factory=dict)
    logs: Iterable[tuple[str, bytes]] = ()


def make_bundle(parts: Parts, redactor: Redactor) -> Bundle:
    """Make the zip. Logs are cut to their last ``LOG_CAP`` bytes, and end at ``TOTAL_CAP`` together."""
    entries: dict[str, bytes] = {}
    left_out: list[str] = []
    for name, value in parts.data.items():
        _add(entries, f"{redactor.text(name)}.json", _json(redactor.data(value)))
    total = 0
    for name, raw in parts.logs:
        clean = redactor.text(name)
        if total >= TOTAL_CAP:
            left_out.append(f"{clean}: the bundle is full")
            continue
        kept = _end_of(raw)
        if len(kept) < len(raw):
            left_out.append(f"{clean}: only the last {len(kept)} of {len(raw)} bytes")
        total += len(kept)
        _add(entries, f"logs/{clean}", _clean(name, kept, redactor))
    entries["CONTENTS.txt"] = _contents(entries, left_out)
    return Bundle(content=_zip(entries), names=tuple(sorted(entries)), left_out=tuple(left_out))


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


def _add(entries: dict[str, bytes], name: str, content: bytes) -> None:
    """Add an entry; names that redaction made equal get a number."""
    unique, number = name, 2
    while unique in entries:
        unique, number = f"{name}.{number}", number + 1
    entries[unique] = content


def _contents(entries: Mapping[str, bytes], left_out: Iterable[str]) -> bytes:
    """Write the page that a person reads before sending the bundle."""
    lines = [
        "User names, home folders, host names, e-mail addresses, tokens and serial numbers were taken out",
        "of every file here. Look through them yourself before you send them.",
        "",
        *(f"{name}  {len(content)} bytes" for name, content in sorted(entries.items())),
    ]
    cut = list(left_out)
    if cut:
        lines += ["", "Left out:", *cut]
    return ("\n".join(lines) + "\n").encode("utf-8")


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n").encode("utf-8")


def _zip(entries: Mapping[str, bytes]) -> bytes:
    """Pack the entries, sorted."""
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(entries.items()):
            archive.writestr(zipfile.ZipInfo(name, _WHEN), content, zipfile.ZIP_DEFLATED)
    return sink.getvalue()
