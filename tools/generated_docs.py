"""Write what is generated in README and docs from its sources; ``--check`` only compares.

Usage: ``python -m tools.generated_docs [--check]``
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from scripts.app.context import workspace_from_environ
from scripts.app.matrix import SITE, build_site, write_site
from scripts.site.files import stale_files
from tools import comparison_picture, modules_page, probes_page, programs_page, verb_tables
from tools.doctor_confidence import write as confidence
from tools.doctor_page import write as diagnoses
from tools.readme_table import refresh, refresh_verbs

ROOT = Path(__file__).resolve().parents[1]


def status_table(*, check: bool) -> bool:
    """The table of what is known to work in README, from ``evidence/``; true when it was up to date."""
    return refresh(ROOT / "README.md", ROOT / "evidence", check=check)


def verbs(*, check: bool) -> bool:
    """The tables of tasks in README, from the registry; true when they were up to date."""
    return refresh_verbs(ROOT / "README.md", check=check)


def site(*, check: bool) -> bool:
    """The site of the matrix in docs/site, from ``evidence/``; true when it was up to date."""
    folder = ROOT.joinpath(*SITE)
    files = build_site(workspace_from_environ({}, root=ROOT), folder).files
    stale = [name for name, data in files.items() if not _holds(folder / name, data)]
    current = not stale and not stale_files(folder, files)
    if not current and not check:
        write_site(folder, files)
    return current


def _holds(path: Path, data: bytes) -> bool:
    return path.is_file() and path.read_bytes() == data


GENERATED: tuple[tuple[str, Callable[..., bool]], ...] = (
    ("README.md: what is known to work", status_table),
    ("scripts/data/confidence.toml", confidence),
    ("README.md: the tasks", verbs),
    ("docs/exit-codes.md: the tasks", verb_tables.write),
    ("docs/diagnoses.md", diagnoses),
    ("docs/modules.md", modules_page.write),
    ("docs/probes.md", probes_page.write),
    ("docs/programs.md", programs_page.write),
    ("docs/ppo-ab.svg", comparison_picture.write),
    ("docs/site", site),
)


def main(arguments: list[str]) -> int:
    """Refresh or compare everything; 1 when ``--check`` found something stale."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; fail when something is stale")
    check = parser.parse_args(arguments).check
    stale = [name for name, generate in GENERATED if not generate(check=check)]
    for name in stale:
        print(f"{'stale' if check else 'written'}: {name}")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
