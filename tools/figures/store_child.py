"""What the store's races start: our own contenders and the server, importing only what they need."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from scripts.model import Artifact, ArtifactFormat, NoProgress, Trust
from scripts.store.archive import unpack
from scripts.store.cache import Cache
from scripts.store.fetch import FetchOptions, fetch

MB = 1_000_000


def artifact(sha256: str, size: int, kind: ArtifactFormat) -> Artifact:
    return Artifact(
        id="figure",
        urls=(),
        sha256=sha256,
        size=size,
        format=kind,
        root="",
        license="",
        source="",
        trust=Trust.SINGLE_REPORT,
    )


def fetch_one(url: str, sha256: str, size: str, store: str) -> None:
    """What our own contender of the download race does."""
    what = artifact(sha256, int(size), ArtifactFormat.RAW)
    fetch(what, Cache(Path(store)), options=FetchOptions(mirrors=(url,)), progress=NoProgress())
    print(peak_memory())


def unpack_one(path: str, sha256: str, store: str) -> None:
    """What our own contender of the unpacking race does."""
    blob = Path(path)
    what = artifact(sha256, blob.stat().st_size, ArtifactFormat.ZIP)
    unpack(what, Cache(Path(store)), blob, progress=NoProgress())
    print(peak_memory())


def peak_memory() -> float:
    """Return this process's peak resident memory in MB (Linux), or 0."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / MB
    return 0.0


def serve(name: str) -> None:
    """Serve one file as fast as the kernel copies; print the port. Runs until its input closes."""
    path = Path(name)
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    size = path.stat().st_size

    def answer(connection: socket.socket) -> None:
        with connection, suppress(OSError), path.open("rb") as file:
            head = b""
            while b"\r\n\r\n" not in head:
                head += connection.recv(65536) or b"\r\n\r\n"
            start, end, code = 0, size, b"200 OK"
            for line in head.decode("latin-1").lower().split("\r\n"):
                if line.startswith("range: bytes="):
                    first, _, last = line.removeprefix("range: bytes=").partition("-")
                    start, end, code = int(first), int(last) + 1 if last else size, b"206 Partial Content"
            span = (
                b"Content-Range: bytes %d-%d/%d\r\n" % (start, end - 1, size) if code[:3] == b"206" else b""
            )
            connection.sendall(
                b'HTTP/1.1 %s\r\nContent-Length: %d\r\n%sETag: "1"\r\nAccept-Ranges: bytes\r\n'
                b"Connection: close\r\n\r\n" % (code, end - start, span)
            )
            if not head.startswith(b"HEAD"):
                connection.sendfile(file, start, end - start)

    def accept() -> None:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    sys.stdin.read()


PARTS: dict[str, Callable[..., None]] = {"fetch": fetch_one, "unpack": unpack_one, "serve": serve}

if __name__ == "__main__":
    PARTS[sys.argv[1]](*sys.argv[2:])
