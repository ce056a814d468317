"""Change a lock: every function takes its text and returns a new, formatted one; only ``save_lock`` writes.

What comes out has been read back: it means what it should, or nothing is returned.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import tomlkit
from msgspec import Struct, field
from msgspec.structs import replace
from tomlkit.items import Comment, Item

from scripts.errors import ConflictError, LockError
from scripts.lock.reader import MOST_BYTES, parse_lock
from scripts.model import Artifact, EnvPolicy, Lock, Member, Stack
from scripts.osal.fs import read_bounded, write_atomic
from scripts.serialize import plain


def format_lock(text: str, *, path: Path = Path("pins.lock")) -> str:
    """Return the one canonical text of a lock, comments included; formatting twice changes nothing.

    Raises:
        LockError: the lock is wrong, or laid out so that formatting would lose something.
    """
    before = parse_lock(text.encode(), path=path)
    after = serialize_entries(parse_entries(text))
    if _meaning(parse_lock(after.encode(), path=path)) != _meaning(before):
        raise unusual_layout(1)
    return after


def with_artifact(text: str, artifact: Artifact) -> str:
    """Add an artifact; one with the same id is an error of the lock."""
    return format_lock(text + "\n" + render("artifact", _artifact(artifact), {}))


def with_stack(text: str, stack: Stack) -> str:
    """Add a stack; its artifacts must be there already."""
    sections = {
        "env": {item.name: _policy(item) for item in stack.env if item.value is not None},
        "unset": {item.name: _policy(item) for item in stack.env if item.value is None},
    }
    return format_lock(text + "\n" + render("stack", _stack(stack), sections))


def with_fields(text: str, artifact_id: str, fields: Mapping[str, str | int]) -> str:
    """Set plain keys of one artifact, such as a size that was unknown; its comments stay."""
    document = parse_entries(format_lock(text))
    entry = next(e for e in document.entries if e.kind == "artifact" and e.id == artifact_id)
    for key, data in fields.items():
        old = entry.values.get(key, Value(data=data))
        entry.values[key] = Value(data=data, lead=old.lead, tail=old.tail)
    return format_lock(serialize_entries(document))


def save_lock(path: Path, text: str, *, expected: str) -> None:
    """Replace a lock file in one step: readers see the old one or the new one.

    Args:
        path: the lock file.
        text: the new text.
        expected: the digest of the lock the change was made from.

    Raises:
        LockError: the file cannot be written.
        ConflictError: the file changed meanwhile; nothing was written.
    """
    if parse_lock(read_bounded(path, MOST_BYTES), path=path).digest != expected:
        msg = "the lock has changed since it was read, so nothing was written"
        hint = "run the task again"
        raise ConflictError("lock-changed-meanwhile", msg, context=(str(path),), hint=hint)
    try:
        write_atomic(path, text.encode(), keep_mode=True)
    except OSError as error:
        msg = f"the lock cannot be written: {error.strerror}"
        hint = "close programs that hold it open, and make its folder writable"
        raise LockError(reference="lock-not-writable", message=msg, context=(str(path),), hint=hint) from None


def _meaning(lock: Lock) -> Lock:
    """Return the lock without its digest, with members and variables in one order."""
    artifacts = {
        name: replace(item, members=tuple(sorted(item.members, key=lambda member: member.path)))
        for name, item in lock.artifacts.items()
    }
    stacks = {
        name: replace(item, env=tuple(sorted(item.env, key=lambda policy: policy.name)))
        for name, item in lock.stacks.items()
    }
    return replace(lock, digest="", artifacts=artifacts, stacks=stacks)


def _artifact(artifact: Artifact) -> dict[str, object]:
    members = [_member(member) for member in artifact.members]
    return _filled(**plain(artifact) | {"members": members})


def _member(member: Member) -> dict[str, object]:
    return _filled(**plain(member) | {"name": member.name if member.name != member.path else None})


def _stack(stack: Stack) -> dict[str, object]:
    hip = {"from": stack.hip.source.value, **_filled(range=stack.hip.range)}
    requires = _filled(**plain(stack.requires))
    return _filled(**plain(stack) | {"hip": hip, "requires": requires, "env": None})


def _policy(policy: EnvPolicy) -> dict[str, object]:
    value = {} if policy.value is None else {"value": policy.value}
    return {**value, "why": policy.why, **_filled(only=policy.only)}


def _filled(**values: object) -> dict[str, object]:
    """Drop what is empty: an absent key says the same."""
    return {key: value for key, value in values.items() if value not in (None, "", [], {})}


KEYS: Final[dict[str, tuple[str, ...]]] = {
    "artifact": (
        *("id", "urls", "sha256", "size", "format", "root", "license", "source", "trust", "note"),
        "members",
    ),
    "stack": ("id", "kind", "parts", "optional", "hip", "requires", "api", "ptx", "note"),
}
SECTIONS: Final = ("env", "unset")
MEMBER_KEYS: Final = ("path", "name", "sha256", "size", "provides", "needs")
TABLE_KEYS: Final = ("from", "range", "os", "gfx", "value", "why", "only")

_HEADER: Final = re.compile(r"^[ \t]*\[(\[?)[ \t]*([A-Za-z0-9_.\- \t]+?)[ \t]*\]\]?[ \t]*(#.*)?$")
_STRINGS: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'')


class Value(Struct, kw_only=True):
    """A key's value; ``verbatim`` is its text where comments inside it must survive."""

    data: object
    lead: list[str] = field(default_factory=list)
    tail: str = ""
    verbatim: str = ""


class LockSection(Struct, kw_only=True):
    """A run of ``key = value`` lines below one header."""

    lead: list[str] = field(default_factory=list)
    tail: str = ""
    values: dict[str, Value] = field(default_factory=dict)


class LockEntry(LockSection, kw_only=True):
    """One ``[[artifact]]`` or ``[[stack]]`` with its sub-tables."""

    kind: str
    sections: dict[str, LockSection] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The entry's id."""
        return str(self.values["id"].data)


class LockDocument(Struct, kw_only=True):
    """A whole lock: what stands before the first entry, the entries, and comments at the end."""

    head: LockSection
    entries: list[LockEntry]
    end: list[str]


def parse_entries(text: str) -> LockDocument:
    """Read a lock that ``parse_lock`` accepts and whose entries have headers of their own."""
    head = LockSection()
    entries: list[LockEntry] = []
    current: LockSection = head
    body: list[str] = []
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), start=1):
        match = _HEADER.match(line)
        if match is None:
            body.append(line)
            continue
        lead = _read_body(current, body)
        body = []
        path = [part.strip() for part in match[2].split(".")]
        if len(path) > 1 and (match[1] or not entries):
            raise unusual_layout(number)
        if match[1]:
            current = LockEntry(kind=path[0], lead=lead, tail=match[3] or "")
            entries.append(current)
        else:
            current = LockSection(lead=lead, tail=match[3] or "")
            entries[-1].sections[".".join(path[1:])] = current
    end = _read_body(current, body)
    for entry in entries:
        _gather(entry)
    return LockDocument(head=head, entries=entries, end=end)


def unusual_layout(line: int) -> LockError:
    """Make the error for valid TOML that has no place in the fixed layout."""
    msg = "the lock is written in a way that cannot be formatted without losing something"
    hint = "write entries below [[artifact]] or [[stack]] lines, and members as a list of inline tables"
    context = (f"pins.lock:{line}",)
    return LockError(reference="lock-unusual-layout", message=msg, context=context, hint=hint)


def serialize_entries(document: LockDocument) -> str:
    """Write a lock: entries sorted, keys in order, one blank line between blocks, LF."""
    order = list(KEYS)
    entries = sorted(document.entries, key=lambda entry: (order.index(entry.kind), entry.id))
    version = document.head.values.get("version", Value(data=1))
    blocks = [version.lead, _lines(LockSection(values={"version": replace(version, lead=[])}), ("version",))]
    for entry in entries:
        blocks += _blocks(entry)
    return _joined([*blocks, document.end])


def _blocks(entry: LockEntry) -> Iterator[list[str]]:
    yield [*entry.lead, _tailed(f"[[{entry.kind}]]", entry.tail), *_lines(entry, KEYS[entry.kind])]
    for name in SECTIONS:
        section = entry.sections.get(name)
        if section is not None and section.values:
            head = _tailed(f"[{entry.kind}.{name}]", section.tail)
            yield [*section.lead, head, *_lines(section, sorted(section.values))]


def _joined(blocks: Iterable[list[str]]) -> str:
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def render(kind: str, values: Mapping[str, object], sections: Mapping[str, Mapping[str, object]]) -> str:
    """Write one entry of plain data."""
    entry = LockEntry(kind=kind, values={key: Value(data=data) for key, data in values.items()})
    for name, section in sections.items():
        entry.sections[name] = LockSection(values={key: Value(data=data) for key, data in section.items()})
    return _joined(_blocks(entry))


def _read_body(section: LockSection, lines: list[str]) -> list[str]:
    """Fill a section from its lines; return the comments after its last key, which lead what follows."""
    parsed = tomlkit.parse("\n".join(lines) + "\n")
    lead: list[str] = []
    whole = parsed.unwrap()
    for key, item in parsed.body:
        if isinstance(item, Comment):
            lead.append(item.as_string().strip())
        elif key is not None:
            value = section.values.setdefault(key.key, Value(data=whole[key.key]))
            value.lead += lead
            value.tail = item.trivia.comment or value.tail
            value.verbatim = _with_comments(item)
            lead = []
    return lead


def _with_comments(item: Item) -> str:
    """Return the text of a value that holds comments, else nothing."""
    text = item.as_string()
    return text.strip() if "#" in _STRINGS.sub("", text) and text.lstrip().startswith(("[", "{")) else ""


def _gather(entry: LockEntry) -> None:
    """Move every value to where it belongs: variables into sections, other sub-tables inline."""
    for name in [name for name in entry.sections if name not in SECTIONS]:
        section = entry.sections.pop(name)
        parts = name.split(".")
        if parts[0] in SECTIONS:
            home = entry.sections.setdefault(parts[0], LockSection())
            data: dict[str, object] = {key: value.data for key, value in section.values.items()}
            home.values[parts[1]] = Value(data=data, lead=_comments(section))
        else:
            data = {key: value.data for key, value in section.values.items()}
            entry.values[name] = Value(data=data, lead=_comments(section))
    for name in SECTIONS:
        inline = entry.values.pop(name, None)
        if inline is not None and isinstance(inline.data, dict):
            values = {key: Value(data=data) for key, data in inline.data.items()}
            entry.sections[name] = LockSection(lead=inline.lead, tail=inline.tail, values=values)


def _comments(section: LockSection) -> list[str]:
    """Return every comment of a section that becomes one line."""
    found = [*section.lead, section.tail]
    for value in section.values.values():
        found += [*value.lead, value.tail]
    return [comment for comment in found if comment]


def _lines(section: LockSection, order: Iterable[str]) -> list[str]:
    lines = []
    for key in order:
        value = section.values.get(key)
        if value is not None:
            text = value.verbatim or _text(key, value.data)
            lines += [*value.lead, _tailed(f"{_key(key)} = {text}", value.tail)]
    return lines


def _tailed(line: str, comment: str) -> str:
    return f"{line}  {comment}" if comment else line


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else tomlkit.item(name).as_string()


def _text(key: str, data: object) -> str:
    """Write a value: several elements of an array one a line, tables inline."""
    if key == "members" and isinstance(data, list):
        members = sorted(data, key=lambda member: str(member["path"]))
        return "[\n" + "".join(f"  {_inline(member)},\n" for member in members) + "]"
    if isinstance(data, list) and len(data) > 1:
        return "[\n" + "".join(f"  {_inline(item)},\n" for item in data) + "]"
    return _inline(data)


def _inline(data: object) -> str:
    if isinstance(data, dict):
        return "{ " + ", ".join(f"{_key(key)} = {_inline(data[key])}" for key in _ordered(data)) + " }"
    if isinstance(data, list):
        return "[" + ", ".join(_inline(item) for item in data) + "]"
    return tomlkit.item(data).as_string()


def _ordered(data: Mapping[str, object]) -> Iterator[str]:
    known = (*MEMBER_KEYS, *TABLE_KEYS)
    yield from (key for key in known if key in data)
    yield from sorted(key for key in data if key not in known)
