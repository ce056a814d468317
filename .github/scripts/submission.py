# noqa: INP001 - a script, no package
"""Write the document that a compatibility issue carries as a file for ``evidence/``, or say why not.

python .github/scripts/submission.py EVENT FOLDER

EVENT is the file that GitHub describes the issue in. The issue is hostile input: it is read as data, by
``scripts/evidence/submission.py``, and never becomes part of a command.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from scripts.errors import UsageError
from scripts.evidence.submission import read_issue
from scripts.lock.reader import read_lock
from scripts.osal.text import utc_now

LOCK = Path(__file__).resolve().parents[2] / "pins.lock"


def main(event: Path, folder: Path) -> int:
    """Read the event, write the document and what a person is told; 2 where it is refused."""
    issue = json.loads(event.read_text(encoding="utf-8"))["issue"]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        filed = read_issue(
            issue["body"] or "",
            number=int(issue["number"]),
            url=str(issue["html_url"]),
            stacks=read_lock(LOCK).stacks,
            now=utc_now(),
        )
    except UsageError as error:
        sys.stdout.write("\n".join((error.message, *error.context, error.hint, "")))
        return 2
    (folder / filed.name).write_bytes(filed.content)
    sys.stdout.write(f"{filed.name}: {filed.summary}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
