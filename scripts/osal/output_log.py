"""Bytes from a pipe: copied on to where they were going and into a log, or kept in memory."""

from __future__ import annotations

import io
import os
import select
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from scripts.osal.fs import write_all
from scripts.osal.named_output import open_output, write_patiently

CHUNK: Final = 64 * 1024
#: Bytes a log may grow to; the program runs on when it is full.
LOG_CAP: Final = 64 * 1024 * 1024
#: Bytes of one stream that a captured run keeps; the rest is read and dropped.
CAPTURE_CAP: Final = 64 * 1024 * 1024
#: Seconds between two looks at whether a reader should give up.
POLL: Final = 0.1


class LogTo(Struct, frozen=True, kw_only=True):
    """Where a copy of the program's output goes, and how large it may grow."""

    path: Path
    cap: int = LOG_CAP


class Log:
    """A log of bytes that stops growing at its cap; a new file is readable by its owner only.

    A full disk or a full log never disturbs the program: ``note`` says what is missing.
    """

    def __init__(self, path: Path, cap: int) -> None:
        """Create or empty the file; a device or pipe is written to as it is.

        Raises:
            OSError: it cannot be written; nothing has been started yet.
        """
        self._fd = open_output(path, mode=0o600)
        self._room = cap
        self._cap = cap
        self._lock = threading.Lock()
        self.note = ""

    def write(self, data: bytes) -> None:
        """Append as much as fits."""
        with self._lock:
            if self.note:
                return
            try:
                write_patiently(self._fd, data[: self._room])
            except OSError as error:
                self.note = f"the log is incomplete: {error.strerror}"
                return
            self._room -= len(data)
            if self._room < 0:
                self.note = f"the log ends at its cap of {self._cap} bytes"

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)


class PipeReader:
    """Reads one pipe on a thread until it ends or ``finish`` gives up on it; owns the descriptor."""

    def __init__(self, fd: int) -> None:
        """Start reading ``fd``."""
        self._fd = fd
        self._give_up = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def take(self, data: bytes) -> bool:
        """Deal with bytes; ``False`` ends the reading, so that the program sees a closed pipe."""
        raise NotImplementedError

    def end(self) -> None:
        """Deal with the end of the pipe."""

    def finish(self, seconds: float) -> bool:
        """Wait for the end of the pipe; after ``seconds`` stop reading. Say whether the end was seen."""
        self._thread.join(seconds)
        complete = not self._thread.is_alive()
        self._give_up.set()
        if sys.platform != "win32":
            self._thread.join()
        return complete

    def _run(self) -> None:
        try:
            while self._ready():
                data = os.read(self._fd, CHUNK)
                if not data:
                    self.end()
                    return
                if not self.take(data):
                    return
        except OSError:
            return  # the other end is gone, and with it everything there was to read
        finally:
            os.close(self._fd)

    def _ready(self) -> bool:
        """Wait until there is something to read; ``False`` when it is not wanted any more.

        A pipe cannot be waited for on Windows: there the read blocks, and a reader that is given up on
        stays behind until the pipe's last holder ends.
        """
        if sys.platform == "win32":
            return not self._give_up.is_set()
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        while not poll.poll(POLL * 1000):
            if self._give_up.is_set():
                return False
        return True


class LineFilter:
    """Takes lines that begin with a mark out of a stream; everything else passes as it comes."""

    def __init__(self, mark: bytes) -> None:
        """Take out what begins with ``mark``; nothing if it is empty."""
        self._mark = mark
        self._held = b""
        self._begins = True
        self._drops = False

    def passing(self, data: bytes) -> bytes:
        """Return what passes; a begin of a line that may still become the mark is held back."""
        if not self._mark:
            return data
        passed = bytearray()
        lines = io.BytesIO(self._held + data)
        self._held = b""
        for line in lines:
            if self._begins:
                self._drops = line.startswith(self._mark)
                if not self._drops and self._mark.startswith(line):  # the last one, and not whole
                    self._held = line
                    break
            if not self._drops:
                passed += line
            self._begins = line.endswith(b"\n")
        return bytes(passed)

    def rest(self) -> bytes:
        """Return what was held back when the stream ends."""
        held, self._held = self._held, b""
        return held


class Tee(PipeReader):
    """Copies a pipe to one of our own streams and into a log, without the lines that begin with a mark."""

    def __init__(self, fd: int, stream: int, log: Log | None, *, drop: bytes = b"") -> None:
        """Copy ``fd`` to the descriptor ``stream``."""
        self._stream = stream
        self._log = log
        self._filter = LineFilter(drop)
        super().__init__(fd)

    def take(self, data: bytes) -> bool:
        """Copy what passes."""
        return self._copy(self._filter.passing(data))

    def end(self) -> None:
        """Copy what looked like the begin of a mark to the last."""
        self._copy(self._filter.rest())

    def _copy(self, data: bytes) -> bool:
        """Log first; a reader of ours that went away ends the copying, as it would without us."""
        if self._log is not None:
            self._log.write(data)
        try:
            write_all(self._stream, data)
        except BrokenPipeError:
            return False
        except OSError:
            return True  # our own stream was closed from the start: the log is all there is
        return True


class Keep(PipeReader):
    """Keeps what a pipe carries, up to ``CAPTURE_CAP`` bytes."""

    def __init__(self, fd: int) -> None:
        """Keep what comes from ``fd``."""
        self._kept = bytearray()
        super().__init__(fd)

    @property
    def kept(self) -> bytes:
        """What has arrived so far."""
        return bytes(self._kept)

    def take(self, data: bytes) -> bool:
        """Append what fits; keep reading, so that the program never blocks on us."""
        self._kept += data[: CAPTURE_CAP - len(self._kept)]
        return True


def feed(fd: int, data: bytes) -> None:
    """Write ``data`` into a pipe on a thread of its own and close it; owns the descriptor."""

    def run() -> None:
        try:
            with suppress(OSError):  # the program did not want all of it
                write_all(fd, data)
        finally:
            os.close(fd)

    threading.Thread(target=run, daemon=True).start()
