"""``validate-round``: what the documents of a round of validations mean together."""

from __future__ import annotations

import os
from pathlib import Path

from scripts.app.context import Workspace
from scripts.errors import ExitCode, TargetError, UsageError
from scripts.evidence.validation import (
    Validation,
    ValidationVerdict,
    markdown,
    problems_of,
    read_validations,
)
from scripts.serialize import JsonRecord

PAGE = "summary.md"


class RoundResult(JsonRecord, frozen=True, kw_only=True):
    """A judged round.

    Attributes:
        validations: one for each stack.
        problems: why the round is no success; empty when it is one.
        page: where the summary was written.
    """

    validations: tuple[Validation, ...]
    problems: tuple[str, ...]
    page: Path

    JSON = "validations problems page"

    @property
    def exit_code(self) -> int:
        """3 unless it is a success."""
        return int(ExitCode.NEGATIVE if self.problems else ExitCode.OK)

    @property
    def skipped(self) -> dict[str, list[str]]:
        """The skipped stacks by reason, in which each is ``it``, so that a reason is given once."""
        found: dict[str, list[str]] = {}
        for validation in self.validations:
            if validation.verdict is ValidationVerdict.SKIPPED:
                reason = validation.reason.replace(validation.stack, "it")
                found.setdefault(reason, []).append(validation.stack)
        return found


def validate_round(ws: Workspace, *, folder: str = "", require: str = "") -> RoundResult:
    """Read a round's documents, write its page, and judge it.

    Args:
        ws: the workspace.
        folder: holds one document for each stack.
        require: stacks and architectures, comma separated, that must really have been run.

    Raises:
        UsageError: no folder is named.
        TargetError: it is not there.
    """
    if not folder:
        hint = "name it: invoke validate-round --folder=FOLDER"
        raise UsageError("folder-needed", "no folder of a round is named", hint=hint)
    place = Path(folder)
    if not place.is_dir():
        msg = f"{folder} is not a folder"
        raise TargetError("no-round", msg, hint="run a round: nox -s validate")
    validations, faults = read_validations(place)
    problems = problems_of(validations, require=require, faults=faults)
    page = markdown(validations, problems)
    (place / PAGE).write_text(page, encoding="utf-8", newline="\n")
    if run_page := ws.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(run_page).open("a", encoding="utf-8", newline=os.linesep) as file:
            file.write(page)
    return RoundResult(validations=validations, problems=problems, page=place / PAGE)
