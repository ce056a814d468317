"""Nox sessions: disposable environments around the same commands a person types.

``nox`` runs `lint`, `types` and `tests`. Importable with nothing but Nox installed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import nox

ROOT = Path(__file__).resolve().parent
# `nox` does not put the checkout on the path, `python -m nox` does: make both the same.
sys.path.insert(0, str(ROOT))

from scripts.errors import ExitCode, WorkspaceError
from scripts.evidence.validation import (
    ValidationVerdict,
    markdown,
    problems_of,
    read_validation,
    read_validations,
    unfinished,
    words_of,
    write_validation,
)
from scripts.lock.reader import read_lock
from scripts.model import Stack

nox.needs_version = ">=2026.8.10"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.error_on_external_run = True
nox.options.error_on_missing_interpreters = True
nox.options.reuse_venv = "no"
nox.options.sessions = ["lint", "types", "tests"]


def read_stacks() -> Mapping[str, Stack]:
    """Read the same lock that the tasks will use; one that is refused ends Nox with the reason."""
    try:
        return read_lock(Path(os.environ.get("CUDA_AMD_LOCK") or ROOT / "pins.lock")).stacks
    except WorkspaceError as error:
        sys.stderr.write("\n".join(filter(None, (error.message, *error.context, error.hint))) + "\n")
        sys.exit(int(error.code))


#: One session each.
STACKS = read_stacks()
#: Names this round of validations, for the parallel workers of Nox as well, which read this file anew.
NOW = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
ROUND = (
    ROOT / "stage" / "reports" / "rounds" / os.environ.setdefault("CUDA_AMD_ROUND", f"{NOW}-{os.getpid()}")
)


def install(session: nox.Session, *locks: str) -> None:
    """Install locked packages by hash."""
    arguments = [word for lock in locks for word in ("-r", str(ROOT / lock))]
    session.install("--require-hashes", *arguments)


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests on this system; arguments go to pytest."""
    install(session, "requirements.lock")
    session.run("python", "-m", "scripts", "test", *session.posargs)


@nox.session
def network(session: nox.Session) -> None:
    """Run the tests that read real packages from the index; arguments go to pytest."""
    install(session, "requirements.lock")
    session.run("python", "-m", "pytest", "-m", "network", *session.posargs)


@nox.session
def windows(session: nox.Session) -> None:
    """Run the same tests on Windows CPython under Wine; arguments go to pytest."""
    install(session, "requirements.lock")
    session.run("python", "-m", "tests.windows_bed", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, formatting and workflows."""
    install(session, "requirements-lint.lock")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("actionlint", *map(str, sorted((ROOT / ".github" / "workflows").glob("*.yml"))))
    session.run("zizmor", "--offline", "--quiet", ".github/workflows")


@nox.session
def types(session: nox.Session) -> None:
    """Check types as seen from Linux and from Windows."""
    install(session, "requirements.lock", "requirements-lint.lock")
    session.run("mypy")
    session.run("mypy", "--platform", "win32")


@nox.session
def figures(session: nox.Session) -> None:
    """Measure our own speed side by side with what people would use otherwise."""
    install(session, "requirements.lock")
    session.run("python", "-m", "tests.figures", *session.posargs)


def validation_options(session: nox.Session) -> argparse.Namespace:
    """Read what follows ``--`` for the sessions that validate."""
    parser = argparse.ArgumentParser(prog=f"nox -s {session.name} --", add_help=False, exit_on_error=False)
    parser.add_argument(
        "--require", default="", help="stacks or architectures that must really have been run"
    )
    parser.add_argument("--exe", default="", help="a program of yours, of which a throw-away copy is run")
    parser.add_argument("--yes", action="store_true", help="agree to downloads beforehand")
    parser.add_argument("--offline", action="store_true", help="connect to nothing")
    parser.add_argument("--mirror", default="", help="a folder or URL asked first for every download")
    parser.add_argument("--supplied", default="", help="the folder with files that nobody publishes")
    try:
        options, rest = parser.parse_known_args(session.posargs)
    except argparse.ArgumentError as error:
        session.error(f"{error}\n{parser.format_help()}")
    known = {*STACKS, *(gfx for stack in STACKS.values() for gfx in stack.requires.gfx)}
    strange = [*rest, *(word for word in words_of(options.require) if word not in known)]
    if strange:
        session.error(f"neither option, stack nor architecture: {' '.join(strange)}\n{parser.format_help()}")
    return options


@nox.session(allow_parallel=True)
@nox.parametrize(
    "stack",
    [
        nox.param(
            id_,
            id=id_,
            tags=["validate", stack.kind.value, stack.requires.os or "any-os", *stack.requires.gfx],
        )
        for id_, stack in STACKS.items()
    ],
)
def validate(session: nox.Session, stack: str) -> None:
    """Climb the whole ladder with one stack in an environment of its own (docs/validate.md)."""
    options = validation_options(session)
    with contextlib.suppress(ValueError):  # under --parallel name `validate_summary` yourself
        session.notify("validate_summary")
    report = ROUND / f"{stack}.json"
    write_validation(report, unfinished(stack, started=NOW))
    install(session, "requirements.lock")
    temporary = session.create_tmp()
    asked = {name: value for name, value in vars(options).items() if value and name != "require"}
    words = [f"--{name}" if value is True else f"--{name}={value}" for name, value in asked.items()]
    session.run(
        *("python", "-m", "scripts", "validate", f"--stack={stack}", f"--report={report}", *words),
        env={"TEMP": temporary, "TMP": temporary},
        success_codes=[0, int(ExitCode.HOST)],
    )
    validation = read_validation(report)
    if validation.verdict is ValidationVerdict.SKIPPED:
        if stack in words_of(options.require):
            session.error(f"required, and skipped: {validation.reason}")
        session.skip(validation.reason)


@nox.session(python=False, default=False)
def validate_summary(session: nox.Session) -> None:
    """Judge this round of validations by their documents; `validate` calls it at its end."""
    options = validation_options(session)
    validations, faults = read_validations(ROUND)
    problems = problems_of(validations, require=options.require, faults=faults)
    page = markdown(validations, problems)
    for validation in validations:
        session.log(validation.summary)
    ROUND.mkdir(parents=True, exist_ok=True)
    (ROUND / "summary.md").write_text(page, encoding="utf-8", newline="\n")
    if run_page := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(run_page).open("a", encoding="utf-8") as file:
            file.write(page)
    if problems:
        session.error("\n".join(("not a success:", *problems)))


@nox.session
def rollback_proof(session: nox.Session) -> None:
    """Let upgrades die after every step, between all pairs of three stacks; arguments go to pytest."""
    install(session, "requirements.lock")
    session.run(
        *("python", "-m", "pytest", "-p", "no:cacheprovider", "tests/rollback_proof.py"), *session.posargs
    )


@nox.session
def docs(session: nox.Session) -> None:
    """Write the generated parts of README and docs anew from their sources; `-- --check` only compares."""
    install(session, "requirements.lock")
    session.run("python", "-m", "tests.generated_docs", *session.posargs)
