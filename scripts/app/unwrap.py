"""``unwrap``: take back what was placed beside programs; the checkout that placed it is not needed."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct, field

from scripts.app.context import Workspace
from scripts.app.wrap_placing import placed_here, registry_of
from scripts.errors import ExitCode, TargetError, UsageError, WorkspaceError
from scripts.osal.fs import long_path
from scripts.osal.paths import user_path
from scripts.osal.text import option
from scripts.placement.inspect import Mode, UndoReport
from scripts.placement.layout import Layout
from scripts.placement.rollback import undo
from scripts.placement.status import PlacementStatus, TargetState
from scripts.serialize import pick
from scripts.staging.state_folder import PLACEMENTS, PlacementRegistry


class UnwrapResult(Struct, frozen=True, kw_only=True):
    """What was taken back, target by target.

    Attributes:
        reports: one for each target that could be worked on.
        failures: targets where nothing was touched, with the reason.
        forgotten: listed folders that do not exist any more, although others beside them do, or ``theirs``.
    """

    reports: tuple[UndoReport, ...] = ()
    failures: tuple[tuple[Path, WorkspaceError], ...] = ()
    forgotten: tuple[Path, ...] = field(default=())

    @property
    def exit_code(self) -> int:
        """41 if any file could not be put back, else the first failure's own code."""
        if any(not report.complete for report in self.reports):
            return int(ExitCode.UNDO_INCOMPLETE)
        return int(self.failures[0][1].code) if self.failures else int(ExitCode.OK)

    def to_json(self) -> dict[str, object]:
        """Return plain data."""
        return {
            **pick(self, "targets=reports forgotten"),
            "failures": [{"target": str(target), **error.to_json()} for target, error in self.failures],
        }


def unwrap(
    ws: Workspace,
    *,
    exe: str = "",
    target: str = "",
    all_: bool = False,
    ours: bool = False,
    theirs: bool = False,
) -> UnwrapResult:
    """Undo the placement of a program, of a folder, or all; without any of these the only one there is.

    ``ours`` puts originals back even over changed files, which are kept beside; ``theirs`` keeps
    changed files and puts the originals beside them.

    Raises:
        UsageError: options that contradict each other, or none where several placements exist.
        WorkspaceError: of a single target, as ``rollback.undo`` raises it.
    """
    if ours and theirs:
        msg = "--ours and --theirs exclude each other"
        hint = "use --ours to restore the originals, --theirs to keep the changed files"
        raise UsageError("ours-or-theirs", msg, hint=hint)
    mode = Mode.OURS if ours else Mode.THEIRS if theirs else Mode.SAFE
    registry = registry_of(ws)
    if all_ and not exe and not target:
        return _all(ws, registry, mode)
    if not (exe or target or all_ or placed_here(ws)):
        return UnwrapResult(reports=())
    folder = _one(ws, exe=exe, target=target, all_=all_)
    if exe and not target and not _has_placement(folder, _listed(ws)):
        return UnwrapResult(reports=(UndoReport(target=folder),))
    if mode is Mode.THEIRS and folder in {status.target for status in placed_here(ws) if _missing(status)}:
        registry.remove(PLACEMENTS, folder)
        return UnwrapResult(forgotten=(folder,))
    return UnwrapResult(reports=(undo(folder, mode=mode, registry=registry),))


def _one(ws: Workspace, *, exe: str, target: str, all_: bool) -> Path:
    """Find the one folder that is meant."""
    if len([word for word in (exe, target) if word]) + all_ > 1:
        msg = "--exe, --target and --all exclude each other"
        raise UsageError("one-target", msg, hint="name one of them")
    if target:
        return user_path(target, "--target")
    if exe:
        return _folder_of(ws, user_path(exe, "--exe"))
    known = placed_here(ws)
    if len(known) == 1 and known[0].standing is not TargetState.MISSING:
        return known[0].target
    msg = f"{len(known)} placements are known; which one is meant?"
    hint = "invoke unwrap --target=FOLDER, or invoke unwrap --all"
    raise UsageError("which-target", msg, context=tuple(str(status.target) for status in known), hint=hint)


def _folder_of(ws: Workspace, exe: Path) -> Path:
    """Find where a program's libraries were placed: its own folder, or a listed one above it.

    Without a placement it is the program's own folder.

    Raises:
        TargetError: the program is not there; what lies in its folder may be placed for another one.
    """
    folder = (exe.resolve() if long_path(exe).exists() else exe.absolute()).parent
    named = exe.absolute().parent.resolve()  # a virtual environment's Python is a link to another folder
    listed = _listed(ws)
    for candidate in dict.fromkeys((folder, named, *folder.parents, *named.parents)):
        if _has_placement(candidate, listed):
            if not long_path(exe).exists():
                msg = f"there is no program {exe.name}, and what is placed there may be another program's"
                hint = f"name its folder to take it back: invoke unwrap {option('target', candidate)}"
                raise TargetError("no-program", msg, context=(str(exe),), hint=hint)
            return candidate
    if not long_path(exe).exists():
        msg = f"there is no program {exe.name}, and nothing is placed in its folder or above it"
        raise TargetError(
            "no-program", msg, context=(str(exe),), hint="see `invoke status` for what is placed"
        )
    return folder


def _listed(ws: Workspace) -> set[Path]:
    return {status.target for status in placed_here(ws)}


def _has_placement(folder: Path, listed: set[Path]) -> bool:
    """Whether something of ours is placed in a folder, as far as the list or the folder itself tells."""
    return folder in listed or long_path(Layout(folder).state).is_dir()


def _all(ws: Workspace, registry: PlacementRegistry, mode: Mode) -> UnwrapResult:
    """Undo every listed placement; one that fails does not stop the others."""
    reports: list[UndoReport] = []
    failures: list[tuple[Path, WorkspaceError]] = []
    forgotten: list[Path] = []
    for status in placed_here(ws):
        if _missing(status) and (mode is Mode.THEIRS or _deleted(status.target)):
            registry.remove(PLACEMENTS, status.target)
            forgotten.append(status.target)
            continue
        try:
            if _missing(status):
                msg = f"{status.target} is not there, and whether it was deleted cannot be known"
                raise TargetError("target-away", msg, hint=status.advice)
            reports.append(undo(status.target, mode=mode, registry=registry))
        except WorkspaceError as error:
            failures.append((status.target, error))
    return UnwrapResult(reports=tuple(reports), failures=tuple(failures), forgotten=tuple(forgotten))


def _missing(status: PlacementStatus) -> bool:
    return status.standing is TargetState.MISSING


def _deleted(target: Path) -> bool:
    """Whether a folder that is not there was deleted or moved; over an empty one a disk may belong."""
    try:
        return any(target.parent.iterdir())
    except OSError:
        return False
