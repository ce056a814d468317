"""Nox sessions: disposable environments around the same commands a person types.

``nox`` runs `lint`, `types` and `tests`. Importable with nothing but Nox installed.
"""

from __future__ import annotations

import sys
from pathlib import Path

import nox

ROOT = Path(__file__).resolve().parent
# `nox` does not put the checkout on the path, `python -m nox` does: make both the same.
sys.path.insert(0, str(ROOT))

nox.needs_version = ">=2026.8.10"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.error_on_external_run = True
nox.options.error_on_missing_interpreters = True
nox.options.reuse_venv = "no"
nox.options.sessions = ["lint", "types", "tests"]


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


@nox.session
def docs(session: nox.Session) -> None:
    """Write the generated parts of README and docs anew from their sources; `-- --check` only compares."""
    install(session, "requirements.lock")
    session.run("python", "-m", "tests.generated_docs", *session.posargs)
