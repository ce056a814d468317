"""What Microsoft Defender did to files, as its event log tells whoever may read it."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from typing import Final

from scripts.host import nvidia

LOG: Final = "Microsoft-Windows-Windows Defender/Operational"
#: 1116: found; 1117: acted upon.
QUERY: Final = "*[System[(EventID=1116 or EventID=1117)]]"
NEWEST: Final = 50
_EVENT: Final = re.compile(r"<Event .*?</Event>", re.DOTALL)
_FIELD: Final = r"<Data Name=['\"]{}['\"]>(.*?)</Data>"
#: Paths of ours and of those who share the trouble.
_OURS: Final = re.compile(r"zluda|nccl\.dll|nvcuda|cublas|cusparse|cuda-on-amd", re.IGNORECASE)


def threat_events(environ: Mapping[str, str], run: nvidia.Run = nvidia.run) -> tuple[str, ...] | None:
    """Return one sentence for each event about a file of ours or of ZLUDA; ``None`` where nobody may read."""
    command = ["wevtutil", "qe", LOG, f"/q:{QUERY}", f"/c:{NEWEST}", "/rd:true", "/f:xml"]
    code, output = run(command, environ)
    return parse_events(output) if code == 0 else None


def parse_events(text: str) -> tuple[str, ...]:
    """Read the events that ``wevtutil`` prints as XML; names of fields are the same in every language."""
    found: dict[str, None] = {}
    for event in _EVENT.findall(text):
        name, path, when = _field(event, "Threat Name"), _field(event, "Path"), _time(event)
        if _OURS.search(path):
            found[f"{when}: Defender took {path} for {name or 'malware'}"] = None
    return tuple(found)


def _field(event: str, name: str) -> str:
    """Return one field of an event."""
    match = re.search(_FIELD.format(name), event, re.DOTALL)
    return html.unescape(match[1]).strip() if match else ""


def _time(event: str) -> str:
    """Return when an event was written, to the second."""
    match = re.search(r"SystemTime=['\"]([\d-]+T[\d:]+)", event)
    return match[1] if match else "at an unknown time"
