"""A C compiler from the package index, for machines without one: ``ziglang``, by hash, once agreed to."""

from __future__ import annotations

import importlib
import subprocess
import sys
from typing import Final

from scripts.app.bill import Bill, BillRow, require_consent
from scripts.app.workspace import Workspace
from scripts.errors import FetchError
from scripts.model import Trust
from scripts.store.fetch import FetchAction

LOCK: Final = "requirements-zig.lock"
#: The wheel for x86-64 Linux; the others are of the same order.
BYTES: Final = 101_083_562
SECONDS: Final = 1800


def provide_compiler(ws: Workspace, *, yes: bool) -> None:
    """Install the locked ``ziglang`` into the environment that runs us; pip refuses any other bytes.

    Raises:
        UsageError: nobody agreed to the download.
        FetchError: pip could not install it.
    """
    row = BillRow(
        artifact="ziglang (a C compiler, from PyPI)",
        action=FetchAction.FETCH,
        bytes=BYTES,
        license="MIT",
        trust=Trust.UPSTREAM_DIGEST,
        note="needed once to build the CPU reference; this machine has no C compiler",
    )
    require_consent(Bill(stack="the C compiler", rows=(row,)), yes=yes, ask=ws.ask)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet"]
    with ws.progress.task("install ziglang", None):
        done = subprocess.run(
            [*pip, "--require-hashes", "-r", str(ws.root / LOCK)],
            capture_output=True,
            timeout=SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    if done.returncode != 0:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()[-5:]
        msg = "pip could not install the C compiler ziglang"
        hint = "install gcc or clang from your system instead, or connect to the package index"
        raise FetchError("compiler-not-installed", msg, context=tuple(lines), hint=hint)
    importlib.invalidate_caches()  # so that this process sees what pip has just put there
