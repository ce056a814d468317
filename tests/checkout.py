"""A checkout of our own for tests that type commands as a person would, with its own stage and store."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import platformdirs
from filelock import FileLock

from scripts.app.context import Workspace
from scripts.staging.runtimes import remember_stage
from tests.typist import Typist

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("scripts", "native", "evidence", "tasks.py", "noxfile.py", "pins.lock", "requirements.lock")
#: A person's settings must not decide a test, nor how long it takes.
HIDDEN = ("CUDA_", "HIP_", "ROCM", "ROCR_", "ZLUDA", "FORCE_COLOR", "GITHUB_", "INVOKE_", "PYTHONDONTWRITE")

#: Where what was compiled is kept from one run of the tests to the next.
COMPILED = Path(platformdirs.user_cache_dir("cuda-on-amd tests", appauthor=False)) / "compiled"

#: Beside a store that tests share: the first checkout that was set up with it.
FIRST = "first set up"

TYPIST = Typist()


@dataclass
class Checkout:
    """A copied checkout with its own store and registry."""

    root: Path
    cache: Path
    state: Path
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def environ(self) -> dict[str, str]:
        """The environment of a person at this checkout."""
        env = {name: value for name, value in os.environ.items() if not name.upper().startswith(HIDDEN)}
        env |= {
            "CUDA_AMD_CACHE": str(self.cache),
            "CUDA_AMD_STATE": str(self.state),
            "PYTHONUTF8": "1",
            "NO_COLOR": "1",
            "CUDA_AMD_TYPED": "invoke",
        }
        return env | compiler() | self.extra

    def run(
        self,
        *words: str,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        timeout: float = 240,
    ) -> subprocess.CompletedProcess[str]:
        """Type a command; nothing is there to answer questions.

        On Windows one waiting interpreter performs it, unless the test is about a variable that the
        interpreter reads when it starts.
        """
        environ = {**self.environ, **(env or {})}
        if sys.platform == "win32" and not any(name.startswith("PYTHON") for name in env or {}):
            return TYPIST.type(self.root, words, cwd=cwd or self.root, env=environ, timeout=timeout)
        return subprocess.run(
            [sys.executable, str(self.front_door()), *words],
            cwd=cwd or self.root,
            env=environ,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=timeout,
            check=False,
        )

    def front_door(self) -> Path:
        """Return what ``python`` is given, with all the code it needs."""
        door = self.root / "scripts"
        if not (door / "__main__.py").exists():
            _copy("scripts", self.root)
        return door

    def json(self, *words: str, env: Mapping[str, str] | None = None, code: int = 0) -> dict[str, Any]:
        """Type a command with ``--json`` and read the one object it prints."""
        if "--" in words:
            cut = words.index("--")
            words = (*words[:cut], "--json", *words[cut:])
        else:
            words = (*words, "--json")
        done = self.run(*words, env=env)
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        value = json.loads(done.stdout)
        assert isinstance(value, dict)
        return value


def workspace_in(
    folder: Path, *, environ: Mapping[str, str] | None = None, platform: str = sys.platform
) -> Workspace:
    """A workspace that has everything in one folder."""
    return Workspace(
        root=folder,
        lock_path=folder / "pins.lock",
        custom_lock=False,
        cache_root=folder / "cache",
        stage=folder / "stage",
        state_root=folder / "state",
        environ=environ or {},
        platform=platform,
    )


def make_checkout(folder: Path, *, cache: Path | None = None) -> Checkout:
    """Copy what a checkout needs; ``cache`` may be shared, since nothing in it ever changes."""
    root = folder / "Ein Checkout ü"
    (root / "stage").mkdir(parents=True)
    for name in PARTS:
        # Three hundred small files; most tests on Windows need only what is run as a program.
        _copy("scripts/inside" if name == "scripts" and sys.platform == "win32" else name, root)
    return Checkout(root=root, cache=cache or folder / "store", state=folder / "state")


def first_setup(cache: Path) -> dict[str, Any]:
    """Set the CPU reference up where no test has, and return what ``setup`` said of itself."""
    first = cache.parent / FIRST
    said = first / "setup.json"
    with FileLock(first.with_suffix(".lock")):
        if not said.exists():
            shutil.rmtree(first, ignore_errors=True)  # half of one that failed
            made = make_checkout(first, cache=cache).json("setup")
            said.write_text(json.dumps(made), encoding="utf-8")
    return dict(json.loads(said.read_text(encoding="utf-8")))


def make_ready(folder: Path, *, cache: Path) -> Checkout:
    """Make a checkout where the CPU reference is active: as ``setup`` leaves it, which is run once for all.

    Setting up asks the quick probes, which takes seconds. What it leaves lies beside the shared store.
    """
    first_setup(cache)
    made = make_checkout(folder, cache=cache)
    left = cache.parent / FIRST / made.root.name / "stage"
    shutil.copytree(left, made.root / "stage", dirs_exist_ok=True)
    remember_stage(made.state, made.root / "stage")
    return made


def _copy(name: str, root: Path) -> None:
    source = ROOT / name
    if source.is_dir():
        unwanted = shutil.ignore_patterns("*.pyc.*")  # bytecode that another process is about to finish
        shutil.copytree(source, root / name, ignore=unwanted, dirs_exist_ok=True)
    else:
        shutil.copy(source, root / name)


def compiler() -> dict[str, str]:
    """Name a compiler that compiles our C once: what the same sources gave before is handed out again.

    On Windows no compiler is at hand: what was cross-built before the tests is handed out instead.
    """
    if sys.platform == "win32":
        script = ROOT / "tools" / "prebuilt_cc.py"
        return {"CC": f'"{sys.executable}" "{script}" "{os.environ["CUDA_AMD_TEST_BIN"]}\\cpu-reference"'}
    found = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if found is None or os.environ.get("CC"):
        return {}
    words = [sys.executable, "-I", "-S", str(ROOT / "tools" / "kept_cc.py"), str(COMPILED), found]
    return {"CC": shlex.join(words)}
