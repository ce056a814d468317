"""Pins held against a release's metadata, and a newer one's entries (``pins_update`` chooses). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct, structs
from msgspec.structs import replace

from scripts.model import Artifact, ArtifactFormat, EnvPolicy, Lock, Member, Stack, Trust
from scripts.net.github import Asset, AssetRef, Release
from scripts.serialize import plain

CONFIRMED: Final = "The release's own metadata gives this digest."

_COMMIT: Final = re.compile(r"(?<![0-9a-z])[0-9a-f]{7,40}(?![0-9a-z])")


class PinFinding(StrEnum):
    """What metadata says about a pin."""

    CONFIRMED = "confirmed"
    DIFFERS = "differs"
    NO_DIGEST = "no-digest"
    GONE = "gone"


class Judgement(Struct, frozen=True, kw_only=True):
    """A finding, what it rests on, and the plain keys of the artifact that could be set because of it."""

    finding: PinFinding
    detail: str
    fields: Mapping[str, str | int] = {}


def judge(artifact: Artifact, asset: Asset | None) -> Judgement:
    """Compare a pin with its release's asset. A contradicted pin is never changed."""
    if asset is None:
        return Judgement(finding=PinFinding.GONE, detail="the release no longer has this file")
    if artifact.size is not None and artifact.size != asset.size:
        detail = f"size {asset.size}, pinned {artifact.size}"
        return Judgement(finding=PinFinding.DIFFERS, detail=detail)
    if asset.sha256 is None:
        return Judgement(finding=PinFinding.NO_DIGEST, detail="the release gives no SHA-256 for this file")
    if asset.sha256 != artifact.sha256:
        detail = f"sha256 {asset.sha256}, pinned {artifact.sha256}"
        return Judgement(finding=PinFinding.DIFFERS, detail=detail)
    fields: dict[str, str | int] = {}
    if artifact.size is None:
        fields["size"] = asset.size
    if artifact.trust is not Trust.UPSTREAM_DIGEST:
        fields["trust"] = Trust.UPSTREAM_DIGEST.value
        fields["note"] = f"{CONFIRMED} {artifact.note}".strip()
    return Judgement(finding=PinFinding.CONFIRMED, detail="digest and size agree", fields=fields)


def shape(name: str, tag: str) -> str:
    """Return what stays the same in a file's name from release to release."""
    return _COMMIT.sub("*", name.replace(tag, "{tag}"))


def counterpart(ref: AssetRef, release: Release) -> Asset | None:
    """Return the file of another release that is to it what ``ref`` is to its own, if exactly one is."""
    wanted = shape(ref.name, ref.tag)
    found = [asset for asset in release.assets if shape(asset.name, release.tag) == wanted]
    return found[0] if len(found) == 1 else None


def successor(old: Artifact, ref: AssetRef, release: Release, asset: Asset) -> Artifact:
    """Make the artifact of a newer release. Its members are taken over by name, and the note says so.

    ``asset.sha256`` must be known.
    """
    tag = release.tag.lower()
    commit = _COMMIT.search(asset.name)
    members = tuple(replace(member, sha256=None, size=None) for member in old.members)
    note = f"Members as in {old.id}, not read from this archive." if members else ""
    return replace(
        old,
        id=_renamed(old.id, ref.tag.lower(), tag, tag),
        urls=(asset.url,),
        sha256=asset.sha256,
        size=asset.size,
        source=f"{release.owner}/{release.repo}@{commit[0] if commit else release.tag}",
        trust=Trust.UPSTREAM_DIGEST,
        members=members,
        note=note,
    )


def with_known_needs(new: Artifact, lock: Lock) -> Artifact:
    """Take over what libraries need of HIP from another file of the same release, where one is pinned."""
    same = [lock.artifacts[name] for name in _same_release(lock, new)]
    known = {member.provides: member.needs for item in same for member in item.members if member.provides}
    members = tuple(
        replace(member, needs=known.get(member.provides, member.needs)) if member.provides else member
        for member in new.members
    )
    return replace(new, members=members)


def successor_stacks(
    lock: Lock, old: Artifact, new: Artifact, old_tag: str, new_tag: str
) -> tuple[Stack, ...]:
    """Make a stack beside each one that uses ``old``, with ``new`` in its place and no call table.

    What PTX it compiles is known where another system's file of the same release is pinned already. Stacks
    with supplied files are left out: those files belong to one version.
    """
    stacks = []
    for stack in lock.stacks.values():
        formats = {lock.artifacts[part].format for part in stack.parts}
        if old.id in stack.parts and ArtifactFormat.SUPPLIED not in formats:
            short = _short(new_tag)
            made = replace(
                stack,
                id=_renamed(stack.id, _short(old_tag), short, short),
                parts=tuple(new.id if part == old.id else part for part in stack.parts),
                api=None,
                ptx=_ptx_of(lock, new),
                note=f"Derived from {stack.id}; nothing is known about it yet.",
            )
            if made.id not in lock.stacks:
                stacks.append(made)
    return tuple(stacks)


def _ptx_of(lock: Lock, new: Artifact) -> str | None:
    """Return the PTX table of a stack that has a part of the same release."""
    same = _same_release(lock, new)
    return next((stack.ptx for stack in lock.stacks.values() if stack.ptx and same & set(stack.parts)), None)


def _same_release(lock: Lock, new: Artifact) -> set[str]:
    """Return the ids of artifacts that were built from the same commit, whose number may be cut shorter."""
    return {
        item.id
        for item in lock.artifacts.values()
        if item.id != new.id
        and _COMMIT.search(item.source)
        and (new.source.startswith(item.source) or item.source.startswith(new.source))
    }


def newest_first(
    artifacts: Iterable[tuple[Artifact, AssetRef]], tags: tuple[str, ...]
) -> list[tuple[Artifact, AssetRef]]:
    """Sort pins of one project by the age of their releases; unlisted ones are oldest."""
    rank = {tag: index for index, tag in enumerate(tags)}
    return sorted(artifacts, key=lambda pair: rank.get(pair[1].tag, len(tags)))


def _short(tag: str) -> str:
    """Return a tag as stack ids write it: ``v7-preview.10`` becomes ``v7p10``."""
    return re.sub(r"[^a-z0-9]+", "-", re.sub(r"-preview\.", "p", tag.lower())).strip("-")


def _renamed(name: str, old: str, new: str, suffix: str) -> str:
    changed, count = re.subn(rf"(?<![a-z0-9]){re.escape(old)}(?![a-z0-9.])", new, name, count=1)
    return changed if count else f"{name}-{suffix}"


class FieldChange(Struct, frozen=True, kw_only=True):
    """One field that differs; ``old`` or ``new`` is empty where it is absent."""

    field: str
    old: str
    new: str


class EntryChange(Struct, frozen=True, kw_only=True):
    """One artifact or stack. ``change`` is ``added``, ``removed`` or ``changed``."""

    kind: str
    id: str
    change: str
    fields: tuple[FieldChange, ...]


class LockDiff(Struct, frozen=True, kw_only=True):
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
        return [plain(change) for change in self.changes]


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
    for field in structs.fields(entry):
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
    elif isinstance(value, Struct):
        _flatten(name, structs.asdict(value), out)
    else:
        out[name] = "" if value is None else str(value)


def _plain(item: Member | EnvPolicy) -> dict[str, object]:
    """Return an item's fields; a variable that is removed and one set to nothing must not look alike."""
    data: dict[str, object] = structs.asdict(item)
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
