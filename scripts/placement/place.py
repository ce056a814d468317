"""Placing: look, refuse or plan, write it down, act; any failure on the way puts everything back."""

from __future__ import annotations

import contextlib
import errno
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from scripts.errors import ConflictError, JournalError, TargetError, UndoIncompleteError, WorkspaceError
from scripts.osal.file_operations import Fs
from scripts.osal.processes import User, this_process
from scripts.osal.signals import DeferredSignals
from scripts.osal.text import option, time_stamp
from scripts.placement import state
from scripts.placement.apply import apply, changed_record
from scripts.placement.inspect import UndoReport, is_ours, real_target, take_snapshot
from scripts.placement.journal import Journal, JournalStep, begun_by
from scripts.placement.layout import FILES, FOLDERS, Layout, fold
from scripts.placement.plan import (
    PlacementItem,
    PlacementPlan,
    PlacementRefusal,
    plan,
    refuse,
    refuse_system,
    warn,
)
from scripts.placement.rollback import REAL, leave, undo, undo_held
from scripts.placement.state import (
    WAIT,
    Held,
    again_while_going,
    as_memory,
    check_state,
    journal_or_memory,
    load,
    outstanding,
    recalled,
    refuse_in_use,
    remembered,
    remembered_users,
    target_lock,
)
from scripts.staging.state_folder import PLACEMENTS, PlacementRegistry

#: Seconds between looks at old files that something still holds when the program has ended.
LOOK_AGAIN: Final = (0.2, 0.5, 1.0, 2.0)


class Placement(Struct, frozen=True, kw_only=True):
    """Something that is placed and used by ``user``.

    ``files`` are the names that are ours; ``attached`` says that they were placed by another run
    before. Without files nothing was written anywhere.
    """

    target: Path
    stack: str
    digest: str
    user: User
    files: tuple[str, ...] = ()
    attached: bool = False
    keep: bool = False
    warnings: tuple[str, ...] = ()
    fs: Fs = field(default=REAL)
    registry: PlacementRegistry | None = field(default=None)
    memory: Journal | None = field(default=None)

    def leave(self) -> UndoReport | None:
        """Stop using it; see ``rollback.leave``."""
        if not self.files:
            return None
        return leave(
            self.target,
            self.user,
            fs=self.fs,
            registry=self.registry,
            memory=self.memory,
            keep=self.keep,
        )

    @property
    def hashes(self) -> dict[str, str]:
        """The files that are ours, with what they must be."""
        return {a.path: a.sha256 for a in self.memory.actions} if self.memory is not None else {}

    def still_there(self) -> tuple[str, ...]:
        """Name the files that are not what they were before placing."""
        if self.memory is None:
            return self.files
        try:
            return outstanding(Layout(self.target), self.fs, self.memory)
        except OSError:
            return self.files


def explain(
    target: Path,
    items: Sequence[PlacementItem],
    *,
    stack: str,
    digest: str,
    program: Path | None = None,
    system_folders: Sequence[Path] = (),
    fs: Fs = REAL,
) -> PlacementPlan:
    """Say what placing would do, or every reason against it. Changes nothing.

    Raises:
        TargetError: ``target-missing``.
        JournalError: there is a state folder that cannot be trusted.
    """
    layout = Layout(real_target(target))
    snapshot = take_snapshot(layout.target, items, fs=fs, program=program)
    journal = load(layout, fs) if check_state(layout, fs) else None
    placed = journal if journal and journal.step is JournalStep.COMMITTED else None
    if placed and (placed.stack, placed.digest) == (stack, digest):
        files = tuple(action.path for action in placed.actions)
        return PlacementPlan(target=layout.target, stack=stack, digest=digest, identical=files)
    other = (_other_stack(layout, placed),) if placed else ()
    refusals = (*other, *refuse(snapshot, items, system_folders=system_folders))
    return plan(
        snapshot, items, stack=stack, digest=digest, refusals=refusals, warnings=warn(snapshot, items)
    )


def place(
    target: Path,
    items: Sequence[PlacementItem],
    *,
    stack: str,
    digest: str,
    keep: bool = False,
    program: Path | None = None,
    system_folders: Sequence[Path] = (),
    fs: Fs = REAL,
    registry: PlacementRegistry | None = None,
    user: User | None = None,
    wait: float = WAIT,
) -> Placement:
    """Put items beside a program, or join those who have placed the same stack there already.

    A placement that was interrupted is undone first. When this raises, the target is what it was,
    unless the error is ``undo-incomplete`` and names what is left.

    Raises:
        TargetError: a refusal, ``target-changed-since-plan`` or ``placing-failed``.
        ConflictError: another stack is placed, a file is in use, or ``target-busy``.
        StagedFileError: a source is missing or has changed.
        JournalError: there is a state folder that cannot be trusted.
        UndoIncompleteError: what was done could not be taken back completely.
    """
    layout = Layout(real_target(target))
    wish = _Wish(
        items=tuple(items),
        keep=keep,
        system_folders=tuple(system_folders),
        program=program,
        placement=Placement(
            target=layout.target,
            stack=stack,
            digest=digest,
            user=user or this_process(),
            keep=keep,
            fs=fs,
            registry=registry,
        ),
    )
    try:
        return wish.grant(layout, wait)
    except OSError as error:
        raise _failed(layout, error) from error


class _Wish(Struct, frozen=True, kw_only=True):
    """What shall be placed for whom."""

    items: tuple[PlacementItem, ...]
    keep: bool
    program: Path | None
    system_folders: tuple[Path, ...]
    placement: Placement

    @property
    def fs(self) -> Fs:
        """The file system."""
        return self.placement.fs

    def grant(self, layout: Layout, wait: float) -> Placement:
        """Refuse, join, clean up after a crash, or place; the lock decides which."""
        fs, registry = self.fs, self.placement.registry
        warnings = self.refuse_early(layout)
        memory = recalled(registry.memory(PLACEMENTS, layout.target)) if registry else None
        while True:
            with target_lock(layout, fs, create=True, wait=wait) as held:
                if held is None:  # pragma: no cover - with `create` there is always something to hold
                    continue
                journal, lost = journal_or_memory(layout, fs, memory)
                if journal is not None and journal.step is JournalStep.COMMITTED and not lost:
                    return self.attach(layout, journal)
                if journal is None and not {*FOLDERS, *FILES}.difference({"lock"}).intersection(
                    fs.names(layout.state)
                ):
                    return replace(self.fresh(held), warnings=warnings)
                if lost:
                    refuse_in_use(layout, remembered_users(registry, layout.target, but=self.placement.user))
                _must_be_clean(undo_held(held, fs, journal, lost=lost))

    def refuse_early(self, layout: Layout) -> tuple[str, ...]:
        """Raise the first refusal while nothing, not even our folder, exists; return the warnings."""
        for refusal in refuse_system(layout.target, self.system_folders, self.program):
            raise refusal.error()
        if check_state(layout, self.fs):
            return ()  # ours may stand there: the lock decides
        snapshot = take_snapshot(layout.target, self.items, fs=self.fs, program=self.program, hashes=False)
        for refusal in refuse(snapshot, self.items, system_folders=self.system_folders):
            if not check_state(layout, self.fs):  # else another process began meanwhile: the lock decides
                raise refusal.error()
        return warn(snapshot, self.items)

    def fresh(self, held: Held) -> Placement:
        """Place where nothing is placed; the lock is held."""
        layout, fs, mine = held.layout, self.fs, self.placement
        memory: Journal | None = None
        try:
            snapshot = take_snapshot(layout.target, self.items, fs=fs, program=self.program, in_use=False)
            refusals = refuse(snapshot, self.items, system_folders=self.system_folders)
            chosen = plan(snapshot, self.items, stack=mine.stack, digest=mine.digest, refusals=refusals)
            chosen.check()
            if not chosen.actions:
                held.vanish()
                return mine
            created = time_stamp()
            memory = as_memory(begun_by(chosen, created))
            if mine.registry:
                mine.registry.remember(PLACEMENTS, layout.target, remembered(memory))
                mine.registry.add(PLACEMENTS, layout.target, stack=mine.stack, user=mine.user.name)
            names = (mine.user.name, state.KEEP) if self.keep else (mine.user.name,)
            apply(chosen, layout, fs, users=names, created=created)
            memory = self.remember(layout) or memory
        except BaseException as error:
            self._roll_back(held, error, memory)
            raise
        return replace(mine, files=tuple(action.path for action in chosen.actions), memory=memory)

    def attach(self, layout: Layout, journal: Journal) -> Placement:
        """Join a placement of the same stack, once every file of it was read and is right."""
        mine, fs = self.placement, self.fs
        if (journal.stack, journal.digest) != (mine.stack, mine.digest):
            raise _other_stack(layout, journal).error()
        placed = {fold(action.path): action for action in journal.actions}
        for action in journal.actions:
            path = layout.inside(action.path)
            seen = fs.look(path)
            if seen is None or not is_ours(action, path, seen, fs):
                msg = f"{action.path} is placed in {layout.target} and is missing or has changed"
                hint = f"look at `invoke unwrap {option('target', layout.target)}`, then try again"
                raise ConflictError("placement-damaged", msg, hint=hint)
        for item in self.items:
            there = placed.get(fold(item.path))
            if (_hash(layout, item, fs) if there is None else there.sha256) != item.sha256:
                msg = f"the same stack is placed in {layout.target}, but without {item.path}"
                hint = (
                    f"end its programs, or `invoke unwrap {option('target', layout.target)}`, and try again"
                )
                raise ConflictError("placed-differently", msg, hint=hint)
        for name in (mine.user.name, state.KEEP) if self.keep else (mine.user.name,):
            state.attach(layout, fs, name)
        fs.sync_folder(layout.users)
        files = tuple(action.path for action in journal.actions)
        return replace(mine, files=files, attached=True, memory=as_memory(journal))

    def remember(self, layout: Layout) -> Journal | None:
        """Remember the placement as it was committed, with the times of its folders."""
        mine = self.placement
        try:
            journal = load(layout, self.fs)
        except JournalError as error:
            changed_record(error)
        if journal is None:
            return None
        if mine.registry:
            mine.registry.remember(PLACEMENTS, layout.target, remembered(journal))
        return as_memory(journal)

    def _roll_back(self, held: Held, error: BaseException, memory: Journal | None) -> None:
        """Undo what was begun; where the record vanished meanwhile, ``memory`` says what that was."""
        layout, mine = held.layout, self.placement
        report = again_while_going(lambda: self._undo_once(held, memory))
        if not report.complete:
            context = tuple(f"{left.path}: {left.why}" for left in report.kept)
            msg = f"placing in {layout.target} failed, and not everything could be put back: {error}"
            hint = f"try again: invoke unwrap {option('target', layout.target)}"
            raise UndoIncompleteError("undo-incomplete", msg, context=context, hint=hint) from error
        if mine.registry:
            mine.registry.remove(PLACEMENTS, layout.target)

    def _undo_once(self, held: Held, memory: Journal | None) -> UndoReport:
        """Undo by the record; where the state folder is gone, by memory, under the lock that is there now."""
        layout, fs = held.layout, self.fs
        if fs.look(layout.state) is not None:
            journal, lost = self._begun(layout, memory)
            return undo_held(held, fs, journal, lost=lost)
        if memory is None or not outstanding(layout, fs, memory):
            return UndoReport(target=layout.target)
        with target_lock(layout, fs, create=True) as again:
            return undo_held(again or held, fs, memory, lost=True)

    def _begun(self, layout: Layout, memory: Journal | None) -> tuple[Journal | None, bool]:
        """Return what was begun, and whether its record vanished; what this process knows is right."""
        try:
            return journal_or_memory(layout, self.fs, memory)
        except JournalError:
            if memory is None:
                raise
            self.fs.unlink(layout.journal)  # it was ours, and what is in it now is not
            return memory, True


def _failed(layout: Layout, error: OSError) -> TargetError:
    """Say in our words what the system refused; everything has been put back."""
    msg = f"placing in {layout.target} failed: {error.strerror or error}"
    hint = "see whether the disk is full or something holds the folder"
    if error.errno == errno.EOPNOTSUPP:
        hint = "copy the program to a disk of another kind, for example ext4 or NTFS"
    elif error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
        hint = "see who owns the places named above, or copy the program into a folder of your own"
    where = tuple(str(name) for name in (error.filename, error.filename2) if name is not None)
    return TargetError("placing-failed", msg, context=where, hint=f"{hint}; nothing was left behind")


def _must_be_clean(report: UndoReport) -> None:
    if not report.complete:
        context = tuple(f"{left.path}: {left.why}" for left in report.kept)
        msg = f"an earlier placement in {report.target} could not be undone completely"
        way = f"`invoke unwrap {option('target', report.target)}`"
        hint = f"see {way}, with --ours or --theirs if files were changed"
        raise UndoIncompleteError("undo-incomplete", msg, context=context, hint=hint)
    if report.pending:
        msg = f"a running program still holds files of an earlier placement in {report.target}"
        raise ConflictError("clean-up-pending", msg, context=report.pending, hint="end it and try again")


def _other_stack(layout: Layout, journal: Journal) -> PlacementRefusal:
    """Refuse a second stack in one target."""
    return PlacementRefusal(
        reference="other-stack-placed",
        message=f"{journal.stack or 'another stack'} is placed in {layout.target} already",
        hint=f"take it away first: `invoke unwrap {option('target', layout.target)}`",
    )


def _hash(layout: Layout, item: PlacementItem, fs: Fs) -> str:
    """Hash what lies at an item's name; empty if nothing does."""
    path = layout.inside(item.path)
    return fs.sha256(path) if fs.look(path) else ""


class Session(Struct):
    """A placement in use.

    On leaving either ``report`` is filled (``None`` if it stays for others or was kept) or, when the
    undo could not even be tried, ``failure``. Leaving raises neither: the program's end comes first.
    """

    placement: Placement
    report: UndoReport | None = None
    failure: WorkspaceError | None = None
    still_there: tuple[str, ...] = ()

    @property
    def pending(self) -> tuple[str, ...]:
        """Files of ours, out of the way already, that a running program still holds."""
        return self.report.pending if self.report is not None else ()

    @property
    def lost(self) -> bool:
        """Whether the record had vanished, alone or with the whole folder."""
        gone = self.failure is not None and self.failure.reference == "target-missing"
        return gone or (self.report is not None and self.report.lost)

    @property
    def left(self) -> tuple[str, ...]:
        """What is not as before after leaving, one line each."""
        if self.failure is not None:
            kept = "went with the folder, and so did the original that was kept for it"
            why = kept if self.lost else "still beside the program"
            still = (f"{path}: {why}" for path in self.still_there)
            return (self.failure.message, *self.failure.context, *still)
        if self.report is None:
            return ()
        return (
            *(f"{left.path}: {left.why}" for left in self.report.kept),
            *(_vanished(self.report) if self.report.lost else ()),
        )


@contextlib.contextmanager
def placed(start: Callable[[], Placement], *, signals: bool = True) -> Iterator[Session]:
    """Call ``start`` (which places), run the body, and leave, whatever happens.

    A signal while placing waits until placing is done. One in the body ends the body: Ctrl-C as
    ``KeyboardInterrupt``, SIGTERM, SIGHUP and a closed console as ``SystemExit``. During the undo
    every further signal waits until the undo is finished. With ``signals=False`` the caller sees to
    it that no signal raises here.
    """
    with DeferredSignals(signals=signals) as shield:
        session = Session(placement=start())
        try:
            try:
                shield.lower()
                yield session
            finally:
                shield.raise_()
        finally:
            try:
                session.report = _without_pending(session.placement, session.placement.leave())
            except WorkspaceError as error:
                session.failure = error
                session.still_there = session.placement.still_there()


def _without_pending(placement: Placement, report: UndoReport | None) -> UndoReport | None:
    """Look again for a while where a stranger (a virus scanner, an indexer) still holds an old file."""
    for pause in LOOK_AGAIN if report is not None and report.complete else ():
        if report is None or not report.pending:
            break
        time.sleep(pause)
        try:
            again = undo(placement.target, fs=placement.fs, registry=placement.registry, user=placement.user)
        except WorkspaceError:  # placed again meanwhile
            break
        report = replace(report, pending=again.pending)
    return report


def _vanished(report: UndoReport) -> tuple[str, ...]:
    """Say what became of the files whose record vanished while the program ran."""
    why = "the record of the placement (.cuda-amd) vanished while the program ran"
    return (
        why,
        *(f"{path}: removed, since it was still the stack's copy" for path in report.removed),
        *(f"{path}: your original was put back" for path in report.restored),
    )
