"""Count what was tried against each promise, and what survived: one row for each kind.

python -m tools.promise_counts [--windows] [KIND …]

Every test is one try; some count more themselves (crash points, damaged values). ``--windows`` runs the same
on Windows CPython under Wine (``docs/windows-tests.md``).
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
#: What a person was promised, and the test files that try to break it.
KINDS: Final[dict[str, tuple[str, ...]]] = {
    "absence": ("placement_memory", "wrap_beside"),
    "crashes": ("placement_crash", "placement_power", "placement_life"),
    "errors": ("placement_errors", "placement_filesystems"),
    "signals": ("wrap_signals", "placement_signals", "placement_closing", "launch_posix"),
    "bad-files": ("placement_hostile", "bad_documents", "staging_generations", "binary_fuzz"),
    "sizes": ("bombs", "bounded_reads", "store_archive", "reporting_tracelog", "pins_lock"),
    "outputs": ("output_files",),
    "loaded": ("wrap_loaded", "wrap_gpu_use"),
    "secrets": ("system_redact", "redaction_corpus", "reporting_bundle", "submission"),
    "rules": ("placement_rules", "placing_places", "guards", "paths"),
    "windows": ("windows_lines", "system_names_windows", "launch_windows"),
    "sentences": ("doctor_tasks", "messages"),
}
_OUTCOME: Final = re.compile(r"(\d+) (passed|failed|skipped|errors?)")
_COUNTED: Final = re.compile(r"^(?:placement proof|tried): (.*)$", re.MULTILINE)


def run(names: tuple[str, ...], *, windows: bool) -> str:
    """Run test files and return what pytest printed."""
    files = [f"tests/test_{name}.py" for name in names]
    start = ["tools.windows_bed"] if windows else ["pytest"]
    line = [sys.executable, "-m", *start, "-q", "-n", "0", *files]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, errors="replace", check=False)
    return done.stdout + done.stderr


def main() -> int:
    """Print a table; return 1 where anything failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--windows", action="store_true")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(KINDS)}")
    asked = parser.parse_args()
    if unknown := set(asked.kinds) - KINDS.keys():
        parser.error(f"no such kind: {', '.join(sorted(unknown))}")
    print("| kind | tried | survived | not here | counted besides | seconds |\n|---|---|---|---|---|---|")
    failed = 0
    for kind in asked.kinds or KINDS:
        begun = time.monotonic()
        text = run(KINDS[kind], windows=asked.windows)
        last = next((line for line in reversed(text.splitlines()) if _OUTCOME.search(line)), "")
        outcome = {word.rstrip("s"): int(count) for count, word in _OUTCOME.findall(last)}
        passed, broken = outcome.get("passed", 0), outcome.get("failed", 0) + outcome.get("error", 0)
        failed += broken or not outcome
        besides = "; ".join(_COUNTED.findall(text))
        seconds = time.monotonic() - begun
        cells = (kind, passed + broken, passed, outcome.get("skipped", 0), besides, f"{seconds:.0f}")
        print(f"| {' | '.join(map(str, cells))} |", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
