"""What changed between two locks, field by field; pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping

from scripts.model import Artifact, EnvPolicy, Lock, Member, Stack
from scripts.records import dataclass


@dataclass(frozen=True, kw_only=True)
class FieldChange:
    """One field that differs; ``old`` or ``new`` is empty where it is absent."""

    field: str
    old: str
    new: str


@dataclass(frozen=True, kw_only=True)
class EntryChange:
    """One artifact or stack. ``change`` is ``added``, ``removed`` or ``changed``."""

    kind: str
    id: str
    change: str
    fields: tuple[FieldChange, ...]


@dataclass(frozen=True, kw_only=True)
class LockDiff:
    """All changes, artifacts before stacks, each sorted by id. False when there are none."""

    changes: tuple[EntryChange, ...]

    def __bool__(self) -> bool:
        """Whether anything differs."""
        return bool(self.changes)

    def lines(self) -> tuple[str, ...]:
        """Return the diff as text for people."""
        return tuple(_lines(self.changes))

    def to_json(self) -> list[dict[str, object]]:
        """Return plain data."""
        return [dataclasses.asdict(change) for change in self.changes]


def diff(old: Lock, new: Lock) -> LockDiff:
    """Compare what two locks mean; comments, order of entries and layout do not count."""
    return LockDiff(
        changes=(
            *_entries("artifact", old.artifacts, new.artifacts),
            *_entries("stack", old.stacks, new.stacks),
        )
    )


def _entries(
    kind: str, old: Mapping[str, Artifact | Stack], new: Mapping[str, Artifact | Stack]
) -> Iterator[EntryChange]:
    for name in sorted(old.keys() | new.keys()):
        before = _fields(old[name]) if name in old else {}
        after = _fields(new[name]) if name in new else {}
        fields = tuple(
            FieldChange(field=field, old=before.get(field, ""), new=after.get(field, ""))
            for field in dict.fromkeys([*before, *after])
            if before.get(field, "") != after.get(field, "")
        )
        if fields:
            change = "added" if name not in old else "removed" if name not in new else "changed"
            yield EntryChange(kind=kind, id=name, change=change, fields=fields)


def _fields(entry: Artifact | Stack) -> dict[str, str]:
    """Flatten an entry to text, members and variables under names of their own."""
    out: dict[str, str] = {}
    for field in dataclasses.fields(entry):
        if field.name != "id":
            _flatten(field.name, getattr(entry, field.name), out)
    return out


def _flatten(name: str, value: object, out: dict[str, str]) -> None:
    if isinstance(value, Mapping):
        for key, item in value.items():
            _flatten(f"{name}.{key}", item, out)
    elif isinstance(value, tuple) and value and isinstance(value[0], (Member, EnvPolicy)):
        for item in value:
            key = item.path if isinstance(item, Member) else item.name
            _flatten(f"{name}[{key}]", _plain(item), out)
    elif isinstance(value, tuple):
        out[name] = ", ".join(value)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        _flatten(name, dataclasses.asdict(value), out)
    else:
        out[name] = "" if value is None else str(value)


def _plain(item: Member | EnvPolicy) -> dict[str, object]:
    """Return an item's fields; a variable that is removed and one set to nothing must not look alike."""
    data = dataclasses.asdict(item)
    if isinstance(item, EnvPolicy) and not item.value:
        data["value"] = "(removed)" if item.value is None else "(empty)"
    return data


def _lines(changes: Iterable[EntryChange]) -> Iterator[str]:
    signs = {"added": "+", "removed": "-", "changed": "~"}
    for change in changes:
        yield f"{signs[change.change]} {change.kind} {change.id}"
        for field in change.fields:
            if field.old:
                yield f"    - {field.field}: {field.old}"
            if field.new:
                yield f"    + {field.field}: {field.new}"
