"""Guards for every test: no network but loopback, no writes outside temporary folders, no user settings."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from tests.checkout import FIRST, Checkout, make_checkout, make_ready
from tests.proof_files import is_left_out
from tools import calibration_counts, doctor_counts, placement_counts

ROOT = Path(__file__).resolve().parents[1]
#: What the test tools themselves write beside the sources.
TOOL_FOLDERS = tuple(
    str(ROOT / name) for name in (".pytest_cache", ".hypothesis", ".mypy_cache", ".ruff_cache")
)
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
LOOPBACK = ("127.", "::1", "localhost", "0.0.0.0")

hypothesis.settings.register_profile(
    "workspace", deadline=None, print_blob=True, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("workspace")

# Python looks for garbage after every 700 new objects; thousands of tests and syntax trees stay for good.
gc.set_threshold(100_000, 20, 50)
# As many tests run at once as there are cores; threads of NumPy's would only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# The tests start hundreds of interpreters; without bytecode each of them compiles the same modules again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

_guard_on = False
_allowed: list[str] = []


def _may_write(path: str) -> bool:
    path = path.removeprefix("\\\\?\\")  # the long form of a Windows path
    if "__pycache__" in path or path.startswith(("/dev/", "/proc/", "\\\\.\\")) or path.lower() == "nul":
        return True
    return path.startswith((*_allowed, *TOOL_FOLDERS))


def _watch(event: str, args: tuple[object, ...]) -> None:
    """Refuse what a test must not do; an audit hook cannot be removed, so a switch turns it on and off."""
    if not _guard_on:
        return
    if event == "open":
        path, _mode, flags = args
        if isinstance(path, (str, bytes)) and isinstance(flags, int) and flags & WRITING:
            full = os.path.abspath(os.fsdecode(path))  # noqa: PTH100 - runs inside open(), keep it light
            if not _may_write(full):
                msg = f"a test writes outside its temporary folder: {full}"
                raise RuntimeError(msg)
    elif event == "socket.connect":
        address = args[1]
        if isinstance(address, tuple) and not str(address[0]).startswith(LOOPBACK):
            msg = f"a test connects to {address[0]}; only loopback is allowed"
            raise RuntimeError(msg)


sys.addaudithook(_watch)


@pytest.fixture(autouse=True)
def _guard(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Turn the guard on while a test runs; ``network`` tests may leave the machine."""
    global _guard_on  # noqa: PLW0603 - the audit hook is global as well
    _allowed[:] = sorted(
        {
            str(tmp_path_factory.getbasetemp().resolve()),
            str(tmp_path_factory.getbasetemp()),
            str(tmp_path_factory.getbasetemp().parent / FIRST),
            tempfile.gettempdir(),
            os.path.realpath(tempfile.gettempdir()),
            "/dev/shm",  # noqa: S108 - a second file system for tests that compare them
        }
    )
    _guard_on = request.node.get_closest_marker("network") is None
    yield
    _guard_on = False


@pytest.fixture(autouse=True)
def _own_places(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Point store, registry and settings of this process and its children into a temporary folder."""
    places = tmp_path_factory.getbasetemp() / "user"
    places.mkdir(exist_ok=True)
    for name in ("CUDA_AMD_CACHE", "CUDA_AMD_STATE"):
        monkeypatch.setenv(name, str(places / name.lower()))
    for name in (
        "CUDA_AMD_LOCK",
        "CUDA_AMD_CPU_FAULT",
        "HIP_PATH",
        "CUDA_PATH",
        "NO_COLOR",
        "FORCE_COLOR",
        "GITHUB_TOKEN",
    ):
        monkeypatch.delenv(name, raising=False)


def pytest_configure(config: pytest.Config) -> None:
    """Give tests the surroundings that a terminal gives, whatever started this run."""
    if sys.platform == "win32":
        if not hasattr(config, "workerinput"):
            # Wine starts its desktop with the first window, and whoever starts it hands it the pipes it was
            # born with, for as long as it lives. On Windows there is a desktop already.
            ctypes.WinDLL("user32").GetDesktopWindow()
        return
    # `nohup` and a shell's `&` ignore these, and programs inherit that.
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave files unread of which no test is wanted: reading them takes seconds."""
    if collection_path.match("test_*.py"):
        return is_left_out(collection_path, config.getoption("markexpr")) or None
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what belongs to the other system, and say so."""
    windows = sys.platform == "win32"
    for item in items:
        if windows and item.get_closest_marker("posix_only"):
            item.add_marker(pytest.mark.skip(reason="Linux only"))
        if not windows and item.get_closest_marker("windows_only"):
            item.add_marker(pytest.mark.skip(reason="Windows only: runs in `nox -s windows`"))


@pytest.fixture(scope="session")
def shared_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that all tests share, so that our C is compiled once; no test may damage it.

    Its own locks keep workers apart; one that needs what another makes waits for it.
    """
    base = tmp_path_factory.getbasetemp()
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared store"


@pytest.fixture
def checkout(tmp_path: Path, shared_store: Path) -> Checkout:
    """A checkout where nothing is set up yet."""
    return make_checkout(tmp_path, cache=shared_store)


@pytest.fixture
def ready(tmp_path: Path, shared_store: Path) -> Checkout:
    """A checkout where the CPU reference is active."""
    return make_ready(tmp_path, cache=shared_store)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how much the proofs among the tests really ran."""
    placement_counts.pytest_terminal_summary(terminalreporter)
    calibration_counts.pytest_terminal_summary(terminalreporter)
    doctor_counts.pytest_terminal_summary(terminalreporter)
