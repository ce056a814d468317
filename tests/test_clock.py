"""A clock that is wrong or jumps: runs, undo, locks, documents and certificates of another day."""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme
from pytest_httpserver import HTTPServer

from scripts.errors import FetchError
from scripts.net.request import hash_url
from scripts.net.session import Transport
from tests.checkout import Checkout, make_checkout

FAKETIME = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
JUMPS = {"a year back": "-365d", "an hour back": "-3600", "a year ahead": "+365d", "behind 2038": "+5000d"}

needs_faketime = [
    pytest.mark.posix_only,
    pytest.mark.proof,
    pytest.mark.skipif(
        FAKETIME is None, reason="libfaketime is not installed (Debian: apt install faketime)"
    ),
]


def faked(shift: str | Path) -> dict[str, str]:
    """Return variables under which a process sees another wall clock; its monotonic clock stays."""
    source = {"FAKETIME": shift} if isinstance(shift, str) else {"FAKETIME_TIMESTAMP_FILE": str(shift)}
    return {
        **source,
        "LD_PRELOAD": str(FAKETIME),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }


def program(folder: Path) -> Path:
    """A program that says that it runs, and ends when it is allowed to."""
    folder.mkdir()
    exe = folder / "program"
    shutil.copy(shutil.which("sh") or "sh", exe)
    return exe


def listing(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory, shared_store: Path) -> Checkout:
    """A checkout where the CPU reference is active."""
    checkout = make_checkout(tmp_path_factory.mktemp("clock"), cache=shared_store)
    checkout.json("setup")
    return checkout


class TestJumps:
    pytestmark = needs_faketime

    def test_the_clock_is_another_one(self) -> None:
        line = [sys.executable, "-c", "import time; print(time.time())"]
        done = subprocess.run(line, env={**os.environ, **faked("+365d")}, capture_output=True, check=True)
        assert float(done.stdout) > time.time() + 364 * 86400

    @pytest.mark.parametrize("jump", JUMPS)
    def test_a_run_during_which_the_clock_jumps_is_undone(
        self, ready: Checkout, tmp_path: Path, jump: str
    ) -> None:
        shift, exe = tmp_path / "shift", program(tmp_path / "game")
        shift.write_text("+0", encoding="utf-8")
        before = listing(exe.parent)
        words = ["wrap", f"--exe={exe}", "--via=beside", "--timeout=1h"]
        script = "echo runs; while ! [ -e end ]; do sleep 0.1; done; exit 5"
        with subprocess.Popen(
            [sys.executable, str(ready.front_door()), *words, f"--cwd={exe.parent}", "--", "-c", script],
            env=ready.environ | faked(shift),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as run:
            assert run.stdout is not None
            assert run.stdout.readline() == b"runs\n"
            assert "libcuda.so.1" in listing(exe.parent)
            shift.write_text(JUMPS[jump], encoding="utf-8")
            status = ready.run("status", env=faked(JUMPS[jump]))
            assert "in use" in status.stdout
            (exe.parent / "end").touch()
            _, said = run.communicate(timeout=120)
        assert run.returncode == 5, said
        (exe.parent / "end").unlink()
        assert listing(exe.parent) == before

    @pytest.mark.parametrize("jump", JUMPS)
    def test_what_was_placed_on_another_day_is_taken_back(
        self, ready: Checkout, tmp_path: Path, jump: str
    ) -> None:
        exe = program(tmp_path / "game")
        before = listing(exe.parent)
        words = ("wrap", f"--exe={exe}", "--keep", "--", "-c", "exit 0")
        assert ready.run(*words, env=faked(JUMPS[jump])).returncode == 0
        assert "libcuda.so.1" in listing(exe.parent)
        assert str(exe.parent) in ready.run("status").stdout
        done = ready.run("unwrap", f"--target={exe.parent}")
        assert done.returncode == 0, done.stderr
        assert listing(exe.parent) == before

    @pytest.mark.parametrize("jump", JUMPS)
    def test_documents_and_history_of_another_day_are_read(self, ready: Checkout, jump: str) -> None:
        for day, later in ((JUMPS[jump], "+0"), ("+0", JUMPS[jump])):
            made = ready.run("run", "--workload=gemm", env=faked(day))
            assert made.returncode == 0, made.stderr
            for task in ("report", "status", "stacks", "matrix"):
                done = ready.run(task, env=faked(later))
                assert done.returncode == 0, (task, done.stderr)
                assert "Traceback" not in done.stderr

    @pytest.mark.parametrize("jump", JUMPS)
    def test_a_lock_of_another_day_is_free_when_its_holder_has_ended(
        self, ready: Checkout, tmp_path: Path, jump: str
    ) -> None:
        store = {"CUDA_AMD_CACHE": str(tmp_path / "store")}
        first = ready.run("stage", "--stack=cpu-reference", env=store)
        assert first.returncode == 0, first.stderr
        for path in (tmp_path / "store").rglob("*.lock"):
            os.utime(path, (2**31 + 86400, 2**31 + 86400))
        again = ready.run("stage", "--stack=cpu-reference", env=store | faked(JUMPS[jump]), timeout=60)
        assert again.returncode == 0, again.stderr


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def expired(authority: trustme.CA) -> Iterator[HTTPServer]:
    """A server whose certificate ended yesterday."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    yesterday = datetime.now(tz=UTC) - timedelta(days=1)
    authority.issue_cert("localhost", not_after=yesterday).configure_cert(context)
    with HTTPServer(ssl_context=context) as server:
        yield server


@pytest.mark.posix_only  # Wine does not judge certificates as Windows does
def test_a_certificate_of_another_day_is_answered_with_the_date(
    expired: HTTPServer, authority: trustme.CA, tmp_path: Path
) -> None:
    file = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(str(file))
    with pytest.raises(FetchError) as caught:
        hash_url(f"https://localhost:{expired.port}/file", Transport(ca_file=file, delays=()))
    assert caught.value.reference == "untrusted-certificate"
    assert f"at this machine's date, {datetime.now(tz=UTC):%Y-%m-%d}" in caught.value.message
    assert "date" in caught.value.hint
