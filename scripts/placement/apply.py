"""The acts of placing, in the order that loses nothing whenever the power fails between two of them.

1. the plan is on the disk; 2. all new files are on the disk, in ``new/``; 3. every original has a
second name in ``originals/``, on the disk; 4. only then names change, each in one step; 5. the changes
are on the disk before the journal says ``committed``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NoReturn

from scripts.errors import StagedFileError, TargetError
from scripts.osal.file_operations import Fs, Seen
from scripts.osal.fs import extended_path
from scripts.osal.text import option, visible
from scripts.placement import journal as journals
from scripts.placement import state as user_files
from scripts.placement.journal import Journal
from scripts.placement.layout import Layout
from scripts.placement.plan import Action, Deed, PlacementPlan


def apply(plan: PlacementPlan, layout: Layout, fs: Fs, *, users: Sequence[str], created: str) -> None:
    """Do the plan; the caller undoes if this raises.

    Raises:
        TargetError: ``target-changed-since-plan``.
        StagedFileError: a source is missing or is not what was verified.
        OSError: the system refused.
    """
    end = _write_down(plan, layout, fs, users=users, created=created)
    _prepare(plan, layout, fs)
    linked = _keep_originals(plan, layout, fs)
    for action in plan.actions:
        if action.deed is Deed.CREATE:
            _create(action, layout, fs)
        elif action.number in linked:
            _replace(action, layout, fs)
        else:
            _swap(action, layout, fs, plan.originals[action.number])
    _commit(plan, layout, fs, end)


def _write_down(plan: PlacementPlan, layout: Layout, fs: Fs, *, users: Sequence[str], created: str) -> int:
    """Make the state folder speak for itself before anything else changes; return the journal's end."""
    for folder in (layout.new(0).parent, layout.original(0).parent, layout.trash(0).parent):
        fs.mkdir(folder)
    for name in users:
        user_files.attach(layout, fs, name)
    journal = journals.begun_by(plan, created)
    line = journals.begin(journal)
    fs.write_new(layout.readme, readme(journal, os.fspath(layout.target)))
    fs.write_new(layout.journal, line)
    fs.sync_files([layout.readme, layout.journal])
    if user_files.KEEP in users:
        fs.sync_folder(layout.users)
    fs.sync_folder(layout.state)
    fs.sync_folder(layout.target)
    return len(line)


def _prepare(plan: PlacementPlan, layout: Layout, fs: Fs) -> None:
    """Copy every source into the target's volume, verify the copy, and wait for the disk."""
    for action, source in zip(plan.actions, plan.sources, strict=True):
        try:
            digest = fs.copy_new(source, layout.new(action.number))
        except OSError as error:
            if error.filename != extended_path(source):
                raise
            reason = error.strerror or str(error)
            msg = f"{source} is verified and staged but cannot be read: {reason}"
            hint = "look into the antivirus program's quarantine, then run `stage` again"
            raise StagedFileError("staged-file-missing", msg, hint=hint) from error
        if digest != action.sha256:
            msg = f"{source} has changed since it was verified"
            context = (f"expected {action.sha256}", f"got      {digest}")
            raise StagedFileError("staged-file-changed", msg, context=context, hint="run `verify --deep`")
    fs.sync_files([layout.new(action.number) for action in plan.actions])


def _keep_originals(plan: PlacementPlan, layout: Layout, fs: Fs) -> frozenset[int]:
    """Give every original a second name, where that is possible; return the numbers of those."""
    linked: set[int] = set()
    for action in plan.actions:
        if action.deed is not Deed.REPLACE:
            continue
        if fs.link(layout.inside(action.path), layout.original(action.number)):
            _must_be_original(action, layout, fs, plan.originals[action.number])
            linked.add(action.number)
    if linked:
        fs.sync_folder(layout.original(0).parent)
    return frozenset(linked)


def _create(action: Action, layout: Layout, fs: Fs) -> None:
    """Take a free name."""
    try:
        fs.rename_new(layout.new(action.number), layout.inside(action.path))
    except FileExistsError:
        _changed(action)


def _replace(action: Action, layout: Layout, fs: Fs) -> None:
    """Take a name whose file has a second one; looked at until the last moment."""
    here = layout.inside(action.path)
    kept = fs.look(layout.original(action.number))
    if kept is None or not kept.same_file(fs.look(here)):
        _changed(action)
    fs.replace(layout.new(action.number), here)


def _swap(action: Action, layout: Layout, fs: Fs, original: Seen) -> None:
    """Without hard links: move the original away, durably, then take its name.

    The name is absent for that moment; were it not on the disk first, a power failure could keep
    the second rename without the first.
    """
    here, away = layout.inside(action.path), layout.original(action.number)
    fs.rename_new(here, away)
    fs.sync_folder(away.parent)
    fs.sync_folder(here.parent)
    _must_be_original(action, layout, fs, original)
    _create(action, layout, fs)


def _commit(plan: PlacementPlan, layout: Layout, fs: Fs, end: int) -> None:
    """Make the names durable, then say so."""
    times: dict[str, int] = {}
    fs.sync_folder(layout.new(0).parent)
    for folder in plan.folders:
        fs.sync_folder(layout.inside(folder))
        seen = fs.look(layout.inside(folder))
        times[folder] = seen.mtime_ns if seen else 0
    seen = fs.look(layout.journal)
    if seen is None or seen.size != end:  # a cleaner took it: the caller undoes from its memory
        changed_record()
    fs.append(layout.journal, end, journals.committed(times))
    fs.sync_files([layout.journal])


def _must_be_original(action: Action, layout: Layout, fs: Fs, then: Seen) -> None:
    """The kept file is the one that was planned with; where inodes move with names, its hash says so."""
    path = layout.original(action.number)
    seen = fs.look(path)
    if seen is None or action.before is None:
        _changed(action)
    if not seen.unchanged(then) and fs.sha256(path) != action.before.sha256:
        _changed(action)


def _changed(action: Action) -> NoReturn:
    """The target changed since it was planned."""
    msg = f"{action.path} has changed while it was looked at"
    hint = "let an updater that may be running finish, and try again"
    raise TargetError("target-changed-since-plan", msg, hint=hint)


def changed_record(cause: Exception | None = None) -> NoReturn:
    """Raise that the record of the placement is not what was written a moment ago."""
    msg = "the record of the placement (.cuda-amd) was changed while files were placed"
    hint = "let a cleaner or antivirus program that may be running finish, and try again"
    raise TargetError("target-changed-since-plan", msg, hint=hint) from cause


_HEAD = """\
WHAT THIS FOLDER IS

A tool called "CUDA on AMD" has put libraries beside this program so that it can run on an
AMD GPU. This folder remembers what was here before. Do not delete it while the libraries are in use:
it holds your original files.

The easy way back, from a checkout of the tool:

    python -m scripts unwrap {target}

THE WAY BACK BY HAND

Close the program first. All paths start at the folder that holds ".cuda-amd".

"""

_TAIL = """\
Look before you delete or move: if a file is not what this page says (compare the SHA-256, for example
with "certutil -hashfile FILE SHA256" or "sha256sum FILE"), it was changed later and may be yours.
When everything is back and the folder "originals" is empty, delete the folder ".cuda-amd".

Placed: {created} (UTC)   Stack: {stack}
"""


def readme(journal: Journal, target: str) -> bytes:
    """Return README.txt for a plan."""
    created = [action for action in journal.actions if action.deed is Deed.CREATE]
    replaced = [action for action in journal.actions if action.deed is Deed.REPLACE]
    parts = [_HEAD.format(target=option("target", target))]
    if replaced:
        parts.append("These files of yours were moved away. For each pair: delete the first, then move the\n")
        parts.append("second to the place and name of the first.\n\n")
        for action in replaced:
            parts.append(f"    {visible(action.path)}\n    .cuda-amd/originals/{action.number:04d}\n")
            parts.append(f"        first, the tool's: SHA-256 {action.sha256}\n")
            if action.before:
                parts.append(
                    f"        second, yours: {action.before.size} bytes, SHA-256 {action.before.sha256}\n"
                )
        parts.append("\n")
    if created:
        parts.append("These files were not there before. Delete each one:\n\n")
        parts += [f"    {visible(action.path)}\n        SHA-256 {action.sha256}\n" for action in created]
        parts.append("\n")
    parts.append(_TAIL.format(created=journal.created, stack=journal.stack))
    return "".join(parts).encode("utf-8", errors="backslashreplace")
