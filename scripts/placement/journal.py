"""The journal of one placement: what was planned, and how far it went."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NoReturn, TypeGuard

from msgspec import Struct, field
from msgspec.structs import asdict

from scripts.errors import JournalError
from scripts.osal.file_operations import FileKind
from scripts.placement.layout import fold, unsafe_path
from scripts.placement.plan import Action, Before, Deed, PlacementPlan

FORMAT: Final = 1


class JournalStep(StrEnum):
    """How far a placement went; recovery looks at the disk for everything else."""

    BEGIN = "begin"
    COMMITTED = "committed"
    UNDOING = "undoing"
    UNDONE = "undone"


class Journal(Struct, frozen=True, kw_only=True):
    """A journal that was read and checked, or one about to be written.

    Attributes:
        stack, digest: what was placed.
        actions: the plan.
        folders: times of last change before placing, by folder.
        created: UTC, for people.
        step: the last record.
        placed_folders: times of last change after placing, from ``committed``.
        reset: folders whose time an undo puts back, from ``undoing``.
        end: where the next record goes.
        torn: whether something unreadable lay behind that.
    """

    stack: str
    digest: str
    actions: tuple[Action, ...]
    folders: Mapping[str, int] = field(default_factory=dict)
    created: str = ""
    step: JournalStep = JournalStep.BEGIN
    placed_folders: Mapping[str, int] = field(default_factory=dict)
    reset: tuple[str, ...] = ()
    end: int = 0
    torn: bool = False


def begun_by(plan: PlacementPlan, created: str) -> Journal:
    """Return the journal that a plan begins with."""
    return Journal(
        stack=plan.stack,
        digest=plan.digest,
        actions=plan.actions,
        folders=plan.folders,
        created=created,
    )


def begin(journal: Journal) -> bytes:
    """Return the first record, which holds the whole plan.

    Names that are no text (Linux allows any bytes) survive as escaped surrogates.
    """
    return record(
        {
            "record": JournalStep.BEGIN,
            "format": FORMAT,
            "stack": journal.stack,
            "digest": journal.digest,
            "created": journal.created,
            "folders": dict(journal.folders),
            "actions": [_action_json(action) for action in journal.actions],
        }
    )


def committed(folders: Mapping[str, int]) -> bytes:
    """Return the record that ends placing."""
    return record({"record": JournalStep.COMMITTED, "folders": dict(folders)})


def undoing(reset: tuple[str, ...]) -> bytes:
    """Return the record that starts an undo."""
    return record({"record": JournalStep.UNDOING, "reset": list(reset)})


def undone() -> bytes:
    """Return the record behind which only our own folder is left to remove."""
    return record({"record": JournalStep.UNDONE})


def _action_json(action: Action) -> dict[str, object]:
    body: dict[str, object] = {
        "deed": action.deed,
        "folder": action.folder,
        "name": action.name,
        "new": f"new/{action.number:04d}",
        "original": f"originals/{action.number:04d}",
        "sha256": action.sha256,
        "size": action.size,
    }
    if action.before:
        body["before"] = {**asdict(action.before)}
    return body


_LINE: Final = re.compile(rb"([0-9]{8}) ([0-9a-f]{32}) ([^\n]*)")
_HEAD: Final = re.compile(rb"(?=([0-9]{8}) [0-9a-f]{32} )")
_HEAD_LENGTH: Final = 42
#: So many places of damaged lines are hashed to see whether a record begins there; real damage has few.
_TRIES: Final = 256
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
            if _good_behind(data, at + 1):
                distrust("journal-corrupt", f"the journal is damaged at byte {at} and goes on behind it")
            break
        records.append(body)
        at = stop + 1
    return records, at


def _good_behind(data: bytes, start: int) -> bool:
    """Whether a good record lies behind a bad one; in linear time, whatever the bytes are."""
    tries = 0
    for line in data[start:].split(b"\n")[:-1]:
        for found in _HEAD.finditer(line):
            if int(found[1]) != len(line) - found.start() - _HEAD_LENGTH:
                continue
            tries += 1
            if tries > _TRIES or _body(line[found.start() :]) is not None:
                return True
    return False


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


#: More than 100,000 files would need; what is larger is not ours.
LONGEST: Final = 64 * 1024 * 1024
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_TOKEN: Final = re.compile(r"[0-9A-Za-z._:+-]{0,128}")


def parse(data: bytes) -> Journal | None:
    """Read a journal; ``None`` when not even its first record is whole, so nothing was touched yet.

    Raises:
        JournalError: ``journal-corrupt``, ``journal-newer`` or ``journal-unsafe``.
    """
    if len(data) > LONGEST:
        distrust("journal-unsafe", f"the journal is {len(data):,} bytes long")
    records, end = whole_records(data)
    if not records:
        return None
    journal = _begin(records[0], end=end, torn=end < len(data))
    for body in records[1:]:
        journal = _next(journal, body)
    return journal


def _begin(body: dict[str, object], *, end: int, torn: bool) -> Journal:
    """Check the plan as if a stranger had written it."""
    number = body.get("format")
    if not _is_whole(number):
        distrust("journal-unsafe", "the format is not a number")
    if number > FORMAT:
        hint = "undo it with the workspace that made it, or update this one"
        distrust("journal-newer", f"this placement was made by a newer workspace (format {number})", hint)
    if number != FORMAT or body.get("record") != JournalStep.BEGIN:
        distrust("journal-unsafe", "the journal does not begin with a plan")
    actions = body.get("actions")
    if not isinstance(actions, list):
        distrust("journal-unsafe", "the plan has no list of actions")
    checked = tuple(_action(entry, number) for number, entry in enumerate(actions, start=1))
    if len({fold(action.path) for action in checked}) != len(checked):
        distrust("journal-unsafe", "the plan names a file twice")
    return Journal(
        stack=_token(body, "stack"),
        digest=_token(body, "digest"),
        created=_token(body, "created"),
        folders=_times(body.get("folders")),
        actions=checked,
        end=end,
        torn=torn,
    )


def _next(journal: Journal, body: dict[str, object]) -> Journal:
    """Apply one later record; undoing may be written again after a crash."""
    allowed = {
        JournalStep.BEGIN: {JournalStep.COMMITTED, JournalStep.UNDOING},
        JournalStep.COMMITTED: {JournalStep.UNDOING},
        JournalStep.UNDOING: {JournalStep.UNDOING, JournalStep.UNDONE},
        JournalStep.UNDONE: set[JournalStep](),
    }
    step = next((step for step in allowed[journal.step] if step == body.get("record")), None)
    if step is None:
        distrust("journal-unsafe", f"the record {body.get('record')!r} cannot follow {journal.step.value!r}")
    changes: dict[str, object] = {**asdict(journal), "step": step}
    if step is JournalStep.COMMITTED:
        changes["placed_folders"] = _times(body.get("folders"))
    if step is JournalStep.UNDOING:
        changes["reset"] = tuple(_times(dict.fromkeys(_list(body.get("reset")), 0)))
    return Journal(**changes)  # type: ignore[arg-type] # a copy of checked fields


def _action(entry: object, number: int) -> Action:
    if not isinstance(entry, dict):
        distrust("journal-unsafe", "an action is not an object")
    folder, name = entry.get("folder"), entry.get("name")
    if not isinstance(folder, str) or not isinstance(name, str) or "/" in name:
        distrust("journal-unsafe", f"action {number} names no file")
    path = f"{folder}/{name}" if folder else name
    if why := unsafe_path(path):
        distrust("journal-unsafe", f"the path {path!r} {why}")
    deed = entry.get("deed")
    if not isinstance(deed, str) or deed not in set(Deed):
        distrust("journal-unsafe", f"action {number} does {deed!r}")
    before = entry.get("before")
    return Action(
        number=number,
        deed=Deed(deed),
        folder=folder,
        name=name,
        sha256=_sha256(entry),
        size=_whole(entry, "size"),
        before=_before(before) if Deed(deed) is Deed.REPLACE else None,
    )


def _before(entry: object) -> Before:
    """Check what an original was."""
    kind = entry.get("kind") if isinstance(entry, dict) else None
    if not isinstance(entry, dict) or not isinstance(kind, str) or kind not in {FileKind.FILE, FileKind.LINK}:
        distrust("journal-unsafe", "an original is neither file nor link")
    return Before(
        kind=FileKind(kind),
        sha256=_sha256(entry),
        size=_whole(entry, "size"),
        mtime_ns=_whole(entry, "mtime_ns", negative=True),
        mode=_whole(entry, "mode"),
    )


def _times(value: object) -> dict[str, int]:
    if not isinstance(value, dict):
        distrust("journal-unsafe", "times of folders are missing")
    for folder, time in value.items():
        why = unsafe_path(folder) if folder else ""
        if why or not _is_whole(time):
            distrust("journal-unsafe", f"the folder {folder!r} {why or 'has no time'}")
    return value


def _list(value: object) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        distrust("journal-unsafe", "a list of folders is damaged")
    return value


def _token(body: Mapping[str, object], key: str) -> str:
    """Check a short word that is shown to people."""
    value = body.get(key)
    if not isinstance(value, str) or not _TOKEN.fullmatch(value):
        distrust("journal-unsafe", f"{key} is not a plain word")
    return value


def _sha256(entry: Mapping[str, object]) -> str:
    value = entry.get("sha256")
    if not isinstance(value, str) or not _SHA256.fullmatch(value):
        distrust("journal-unsafe", "a hash is not a SHA-256")
    return value


def _whole(entry: Mapping[str, object], key: str, *, negative: bool = False) -> int:
    value = entry.get(key)
    if not _is_whole(value) or (value < 0 and not negative):
        distrust("journal-unsafe", f"{key} is not a number")
    return value


def _is_whole(value: object) -> TypeGuard[int]:
    """Say whether this is a number that the operating system can take."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
