"""Who uses a placement: one empty file a process, named by id and start, so that the dead do not count."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from scripts.placement.layout import Layout
from scripts.system.fsops import Fs
from scripts.system.pids import own_identity, process_start_time

#: The user that never ends: ``wrap --keep``.
KEEP: Final = "keep"
_NAME: Final = re.compile(r"([0-9]{1,10})-([0-9A-Za-z]{1,64})")

StartTime = Callable[[int], str | None]


@dataclass(frozen=True)
class User:
    """A process, told apart from any later one with the same id."""

    pid: int
    start: str

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{self.pid}-{self.start}"


def this_process() -> User:
    """Return the calling process as a user."""
    return User(*own_identity())


def attach(layout: Layout, fs: Fs, name: str) -> None:
    """Note a user; twice is once."""
    fs.mkdir(layout.users)
    path = layout.users / name
    if fs.look(path) is None:
        fs.write_new(path, b"")


def detach(layout: Layout, fs: Fs, name: str) -> None:
    """Forget a user."""
    fs.unlink(layout.users / name)


def live(layout: Layout, fs: Fs, *, start_time: StartTime = process_start_time) -> tuple[User, ...]:
    """Return the users whose processes still run."""
    found = (_NAME.fullmatch(name) for name in fs.names(layout.users))
    users = (User(int(match[1]), match[2]) for match in found if match)
    return tuple(user for user in users if start_time(user.pid) == user.start)


def running(name: str, *, start_time: StartTime = process_start_time) -> User | None:
    """Return the user of that name if its process still runs."""
    match = _NAME.fullmatch(name)
    user = User(int(match[1]), match[2]) if match else None
    return user if user is not None and start_time(user.pid) == user.start else None


def kept(layout: Layout, fs: Fs) -> bool:
    """Say whether the placement shall stay when its last user ends."""
    return fs.look(layout.users / KEEP) is not None
