"""Type a command as on a machine whose registry was recorded: ``radeon_cli.py REGISTRY.json WORDS…``.

It runs in a process of its own, in a checkout: everything but the registry is the real thing.
Names are compared without regard to case, as Windows does.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


class Recorded:
    """A registry made of plain data."""

    def __init__(self, data: dict[str, dict[str, object]]) -> None:
        self.data = data

    def keys(self, path: str) -> tuple[str, ...]:
        start = f"{path}\\".lower()
        below = [name[len(start) :] for name in self.data if name.lower().startswith(start)]
        return tuple(sorted({name.partition("\\")[0] for name in below}))

    def values(self, path: str) -> dict[str, object] | None:
        return next((values for name, values in self.data.items() if name.lower() == path.lower()), None)


def main(registry: Path, words: list[str]) -> int:
    """Run the command line of the checkout in the current folder."""
    sys.path[0] = str(Path.cwd())
    import tasks  # noqa: PLC0415 - from the checkout of the current folder
    from scripts.host.winregistry import WinRegistry  # noqa: PLC0415 - from the checkout of the current folder

    recorded = Recorded(json.loads(registry.read_text(encoding="utf-8")))
    for name in ("keys", "values"):
        setattr(WinRegistry, name, staticmethod(getattr(recorded, name)))  # the one thing that is replaced
    sys.argv = ["invoke", *words]
    return tasks.main(words)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
