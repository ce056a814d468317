"""Write the CycloneDX document of every stack, one file each, for a release of this project.

python -m tools.sboms FOLDER
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from scripts.lock.reader import read_lock
from scripts.lock.sbom import sbom_of

ROOT = Path(__file__).resolve().parents[1]


def main(folder: Path) -> int:
    """Write the files; what ``invoke stacks --sbom=ID`` prints, and nothing else."""
    lock = read_lock(ROOT / "pins.lock")
    folder.mkdir(parents=True, exist_ok=True)
    for stack in lock.stacks.values():
        text = json.dumps(sbom_of(lock, stack), indent=2) + "\n"
        (folder / f"{stack.id}.cdx.json").write_text(text, encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
