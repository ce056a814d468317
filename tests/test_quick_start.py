"""What a short run must not load: tasks that start slowly are tasks that people avoid."""

from __future__ import annotations

import sys

import pytest

from tests.checkout import Checkout

#: Each of these costs about as much as a whole short run without it.
HEAVY = frozenset(
    {
        *("invoke", "rich", "requests", "urllib3", "jsonschema", "tomlkit", "numpy", "matplotlib"),
        *("pefile", "elftools", "filelock", "truststore", "lz4", "zstandard", "isal"),
        *("asyncio", "unittest", "email", "http", "ssl", "zipfile", "tarfile", "concurrent", "logging"),
    }
)
#: Modules that a run may load in all, Python's own forty included; under Wine each costs 5 to 10 ms.
MOST = {"status": 196, "stacks": 184, "verify": 168, "wrap": 200}
#: And how many of them may be ours, packages included: a new one in these runs is one too many.
OURS = {"status": 63, "stacks": 49, "verify": 37, "wrap": 60}
#: Windows loads up to 6 of ours more than Linux (seen under Wine), and more of Python's own.
WINDOWS_OURS, WINDOWS_ALL = (6, 25) if sys.platform == "win32" else (0, 0)
RUNS = {
    "status": ["status"],
    "stacks": ["stacks"],
    "verify": ["verify"],
    "wrap": ["wrap", f"--exe={sys.executable}", "--", "-I", "-c", "pass"],
}


def loaded(ready: Checkout, words: list[str]) -> list[str]:
    """Return the modules that a run loads, each once, as the interpreter itself tells."""
    done = ready.run(*words, env={"PYTHONPROFILEIMPORTTIME": "1"})
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return sorted({line.rpartition("|")[2].strip() for line in lines[1:]})


@pytest.mark.slow
@pytest.mark.parametrize("task", RUNS)
def test_a_short_run_loads_little(ready: Checkout, task: str) -> None:
    ready.run(*RUNS[task])  # what a program's files tell is read once and kept
    modules = loaded(ready, RUNS[task])
    assert "scripts.cli.parse" in modules, "this looks at something else than our front door"
    heavy = sorted({name.partition(".")[0] for name in modules} & HEAVY)
    assert not heavy, f"{task} loads {', '.join(heavy)}: import it where it is used"
    assert len(modules) <= MOST[task] + WINDOWS_ALL, f"{task} loads {len(modules)} modules"
    ours = [name for name in modules if name.partition(".")[0] == "scripts"]
    assert len(ours) <= OURS[task] + WINDOWS_OURS, f"{task} loads {len(ours)} modules of ours"
