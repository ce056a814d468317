"""Nox sessions: disposable environments around the same commands a person types.

``nox`` runs `lint`, `types` and `tests`. Importable with nothing but Nox installed.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import shutil
import sys
import time
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nox

ROOT = Path(__file__).resolve().parent
#: As the tasks end where the lock is wrong, and where this machine lacks something.
CODE_LOCK, CODE_HOST = 10, 50

nox.needs_version = ">=2026.8.10"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.error_on_external_run = True
nox.options.error_on_missing_interpreters = True
nox.options.reuse_venv = "no"
nox.options.sessions = ["lint", "types", "tests"]


def read_stacks() -> Mapping[str, Mapping[str, Any]]:
    """Read which stacks the lock names; the tasks check it in full."""
    lock = Path(os.environ.get("CUDA_AMD_LOCK") or ROOT / "pins.lock")
    try:
        content = tomllib.loads(lock.read_text(encoding="utf-8"))
        return {row["id"]: row for row in content["stack"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.stderr.write(f"{lock} is no lock of this workspace: {error}\nSee why: invoke stacks\n")
        sys.exit(CODE_LOCK)


#: One session each.
STACKS = read_stacks()
#: Names this round of validations, for the parallel workers of Nox as well, which read this file again.
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
    install(session, "requirements-test.lock")
    session.run("python", "-m", "scripts", "test", *session.posargs)


@nox.session
def network(session: nox.Session) -> None:
    """Run the tests that read real packages from the index; arguments go to pytest."""
    install(session, "requirements-test.lock")
    session.run("python", "-m", "pytest", "-m", "network", *session.posargs)


@nox.session
def windows(session: nox.Session) -> None:
    """Run the same tests on Windows CPython under Wine; arguments go to pytest."""
    install(session, "requirements-test.lock")
    session.run("python", "-m", "tools.windows_bed", *session.posargs)


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
    install(session, "requirements-test.lock")
    session.run("python", "-m", "tools.figures", *session.posargs)


def requires(stack: str) -> Mapping[str, Any]:
    """Return what a stack requires, as the lock says it."""
    found: Mapping[str, Any] = STACKS[stack].get("requires", {})
    return found


@functools.cache
def parsed(words: tuple[str, ...]) -> argparse.Namespace:
    """Read what follows ``--`` once for all sessions; what is wrong with it is in ``fault``."""
    parser = argparse.ArgumentParser(prog="nox -s validate --", add_help=False, exit_on_error=False)
    parser.add_argument(
        "--require", default="", help="stacks or architectures that must really have been run"
    )
    parser.add_argument("--exe", default="", help="a program of yours, of which a scratch copy is run")
    parser.add_argument("--yes", action="store_true", help="agree to downloads beforehand")
    parser.add_argument("--offline", action="store_true", help="connect to nothing")
    parser.add_argument("--mirror", default="", help="a folder or URL asked first for every download")
    parser.add_argument("--supplied", default="", help="the folder with files that cannot be downloaded")
    try:
        options, rest = parser.parse_known_args(words)
    except argparse.ArgumentError as error:
        return argparse.Namespace(fault=f"{error}\n{parser.format_help()}")
    options.required = [word.strip() for word in options.require.split(",") if word.strip()]
    known = {*STACKS, *(gfx for stack in STACKS for gfx in requires(stack).get("gfx", ()))}
    strange = " ".join([*rest, *(word for word in options.required if word not in known)])
    options.fault = strange and f"neither option, stack nor architecture: {strange}\n{parser.format_help()}"
    return options


def validation_options(session: nox.Session) -> argparse.Namespace:
    """Return what follows ``--`` for the sessions that validate."""
    options = parsed(tuple(session.posargs))
    if options.fault:
        session.error(options.fault)
    return options


def front_door(session: nox.Session, *words: str, **more: Any) -> Any:  # noqa: ANN401 - as session.run
    """Run a task as a person would: with the environment that the front door makes, or the one at hand."""
    return session.run(sys.executable, str(ROOT / "scripts"), *words, external=True, **more)


@functools.cache
def obstacles(session: nox.Session) -> Mapping[str, tuple[str, ...]]:
    """Return what stands in each stack's way on this machine, asked once."""
    answer = front_door(session, "stacks", "--json", silent=True, log=False, stderr=None)
    rows = json.loads(str(answer)[str(answer).index("{") :])["stacks"]
    return {row["id"]: tuple(row["obstacles"]) for row in rows}


def own_environment(session: nox.Session) -> dict[str, str]:
    """Name a new place for the environment of one validation; ``--no-install`` does without."""
    temporary = Path(session.create_tmp())
    places = {"TEMP": str(temporary), "TMP": str(temporary)}
    if "--no-install" in sys.argv:
        return places
    shutil.rmtree(temporary / "venv", ignore_errors=True)
    return {**places, "CUDA_AMD_VENV": str(temporary / "venv")}


@nox.session(python=False, allow_parallel=True)
@nox.parametrize(
    "stack",
    [
        nox.param(
            id_,
            id=id_,
            tags=[
                "validate",
                row["kind"],
                requires(id_).get("os") or "any-os",
                *requires(id_).get("gfx", ()),
            ],
        )
        for id_, row in STACKS.items()
    ],
)
def validate(session: nox.Session, stack: str) -> None:
    """Run every validation step with one stack in an environment of its own (docs/validate.md)."""
    options = validation_options(session)
    with contextlib.suppress(ValueError):  # under --parallel name `validate_summary` yourself
        session.notify("validate_summary")
    report = ROUND / f"{stack}.json"
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text("", encoding="utf-8")  # until its validation is finished it counts as failed
    asked = {name: getattr(options, name) for name in ("exe", "yes", "offline", "mirror", "supplied")}
    words = [f"--{name}" if value is True else f"--{name}={value}" for name, value in asked.items() if value]
    words = ["validate", f"--stack={stack}", f"--report={report}", *words]
    if obstacles(session)[stack]:  # judged before an environment is made
        front_door(session, *words, silent=True, log=False, success_codes=[CODE_HOST])
    else:
        own = own_environment(session)
        front_door(session, *words, env=own, success_codes=[0, CODE_HOST])
    shown = json.loads(report.read_text(encoding="utf-8"))
    if shown["verdict"] == "skipped":
        if stack in options.required:
            session.error(f"required, and skipped: {shown['reason']}")
        session.skip("it cannot run here; validate_summary says why")


@nox.session(python=False, default=False)
def validate_summary(session: nox.Session) -> None:
    """Judge this round of validations by their documents; `validate` calls it at its end."""
    options = validation_options(session)
    require = [f"--require={options.require}"] if options.require else []
    front_door(session, "validate-round", f"--folder={ROUND}", *require)


@nox.session
def rollback_proof(session: nox.Session) -> None:
    """Let upgrades die after every step, between all pairs of three stacks; arguments go to pytest."""
    install(session, "requirements-test.lock")
    session.run(
        *("python", "-m", "pytest", "-p", "no:cacheprovider", "tests/rollback_proof.py"), *session.posargs
    )


@nox.session
def docs(session: nox.Session) -> None:
    """Write the generated parts of README and docs from their sources; `-- --check` only compares."""
    install(session, "requirements-test.lock")
    session.run("python", "-m", "tools.generated_docs", *session.posargs)
