"""A raw HTTP server whose misbehaviour is scripted, request by request."""

from __future__ import annotations

import re
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

ETAG = '"one"'


@dataclass(frozen=True)
class Request:
    path: str
    headers: dict[str, str]

    @property
    def start(self) -> int:
        found = re.fullmatch(r"bytes=(\d+)-", self.headers.get("range", ""))
        return int(found[1]) if found else 0


Behaviour = Callable[[socket.socket, Request], None]


@dataclass
class Server:
    """Answers each path by its list of behaviours; the last one repeats. Unknown paths are 404."""

    port: int
    scheme: str = "http"
    routes: dict[str, list[Behaviour]] = field(default_factory=dict)
    seen: list[Request] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"{self.scheme}://localhost:{self.port}"

    def on(self, path: str, *behaviours: Behaviour) -> None:
        self.routes[path] = list(behaviours)

    def asked(self, path: str) -> list[Request]:
        return [request for request in self.seen if request.path == path]

    def answer(self, connection: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            if not (data := connection.recv(65536)):
                return
            head += data
        first, *lines = head.decode("latin-1").split("\r\n\r\n")[0].split("\r\n")
        headers = {k.strip().lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
        request = Request(first.split(" ")[1], headers)
        self.seen.append(request)
        script = self.routes.get(request.path, [status(404)])
        (script.pop(0) if len(script) > 1 else script[0])(connection, request)


@contextmanager
def serving(context: ssl.SSLContext | None = None) -> Iterator[Server]:
    listener = socket.create_server(("127.0.0.1", 0))
    server = Server(listener.getsockname()[1], "https" if context else "http")

    def one(connection: socket.socket) -> None:
        with suppress(OSError):
            wrapped = context.wrap_socket(connection, server_side=True) if context else connection
            with wrapped:
                server.answer(wrapped)
        connection.close()

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=one, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield server
    finally:
        server.stop.set()
        listener.close()


def head(code: int, **headers: object) -> bytes:
    lines = [f"HTTP/1.1 {code} Said", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def file(body: bytes, *, etag: str = ETAG, **more: object) -> Behaviour:
    """A good server: ranges are honoured when If-Range names the file it has."""

    def act(connection: socket.socket, request: Request) -> None:
        connection.sendall(_begin(body, etag, request, more))
        connection.sendall(body[_from(request, etag) :])

    return act


def cut(body: bytes, after: int, *, etag: str = ETAG, reset: bool = False) -> Behaviour:
    """Announces everything, sends until byte ``after`` of the file, then breaks the connection."""

    def act(connection: socket.socket, request: Request) -> None:
        connection.sendall(_begin(body, etag, request, {}))
        connection.sendall(body[_from(request, etag) : after])
        if reset:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    return act


def stalled(server: Server, body: bytes, after: int, *, etag: str = ETAG) -> Behaviour:
    """Sends until byte ``after`` of the file and then nothing until the server ends."""

    def act(connection: socket.socket, request: Request) -> None:
        connection.sendall(_begin(body, etag, request, {}))
        connection.sendall(body[_from(request, etag) : after])
        server.stop.wait(60)

    return act


def status(code: int, **headers: object) -> Behaviour:
    return raw(head(code, Content_Length=0, **headers))


def redirect(to: str) -> Behaviour:
    return status(302, Location=to)


def raw(data: bytes) -> Behaviour:
    def act(connection: socket.socket, request: Request) -> None:
        connection.sendall(data)

    return act


def _from(request: Request, etag: str) -> int:
    return request.start if etag and request.headers.get("if-range") == etag else 0


def _begin(body: bytes, etag: str, request: Request, more: dict[str, object]) -> bytes:
    tag: dict[str, object] = {"ETag": etag} if etag else {}
    if start := _from(request, etag):
        span = f"bytes {start}-{len(body) - 1}/{len(body)}"
        return head(206, Content_Length=len(body) - start, Content_Range=span, **tag, **more)
    return head(200, Content_Length=len(body), **tag, **more)
