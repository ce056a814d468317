"""Fetching survives every way a server, a line or a disk misbehaves, and keeps no wrong byte."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import hashlib
import random
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
import trustme
from msgspec.structs import replace

from scripts.errors import ExitCode, FetchError, IntegrityError, UsageError, WorkspaceError
from scripts.model import Artifact, ArtifactFormat, NoProgress, Trust
from scripts.net import request
from scripts.net.session import DELAYS, Transport
from scripts.net.sources import HashingWriter
from scripts.osal import fs
from scripts.store.cache import Cache
from scripts.store.fetch import FetchAction, FetchOptions, fetch, plan_fetch
from tests import store_server as web

BODY = b"PK\x03\x04" + random.Random(7).randbytes(3_000_000)  # noqa: S311 - reproducible, not secret
SHA = hashlib.sha256(BODY).hexdigest()
PATH = f"/{SHA}"
MIB = 1024 * 1024
ROOT = Path(__file__).resolve().parents[1]


class Notes(NoProgress):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, message: str) -> None:
        self.lines.append(message)


def artifact(**changes: Any) -> Artifact:
    return replace(
        Artifact(
            id="part-1.0",
            urls=(),
            sha256=SHA,
            size=len(BODY),
            format=ArtifactFormat.ZIP,
            root="",
            license="MIT",
            source="nobody/part@1",
            trust=Trust.INDEPENDENT,
        ),
        **changes,
    )


@dataclass
class Setting:
    server: web.Server
    cache: Cache
    notes: Notes = field(default_factory=Notes)
    slept: list[float] = field(default_factory=list)
    read_timeout: float = 30.0

    def fetch(self, what: Artifact | None = None, **options: Any) -> Path:
        options.setdefault("mirrors", (self.server.url,))
        transport = Transport(
            read_timeout=self.read_timeout,
            sleep=self.slept.append,
            ca_file=options.get("ca_file"),
        )
        return fetch(
            what or artifact(),
            self.cache,
            options=FetchOptions(**options),
            progress=self.notes,
            transport=transport,
        )

    def fails(self, what: Artifact | None = None, **options: Any) -> WorkspaceError:
        with pytest.raises(WorkspaceError) as caught:
            self.fetch(what, **options)
        return caught.value

    def leftovers(self) -> list[str]:
        return sorted(p.name for p in (self.cache.root / "blobs-v1").rglob("*") if p.is_file())


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Setting]:
    with web.serving() as server:
        yield Setting(server, Cache(tmp_path / "the store ä"))


def test_a_file_arrives_read_only_under_its_hash(here: Setting) -> None:
    here.server.on(PATH, web.file(BODY))
    blob = here.fetch()
    assert blob == here.cache.blob_path(SHA)
    assert blob.read_bytes() == BODY
    assert not blob.stat().st_mode & 0o222
    assert here.leftovers() == [SHA]


def test_no_encoding_is_asked_for_and_no_netrc_is_read(
    here: Setting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine localhost login me password secret\n", encoding="utf-8")
    monkeypatch.setenv("NETRC", str(netrc))
    here.server.on(PATH, web.file(BODY))
    here.fetch()
    (request,) = here.server.seen
    assert request.headers["accept-encoding"] == "identity"
    assert "authorization" not in request.headers
    assert "range" not in request.headers


def test_a_second_fetch_asks_nobody(here: Setting) -> None:
    here.server.on(PATH, web.file(BODY))
    assert here.fetch() == here.fetch(offline=True)
    assert len(here.server.seen) == 1


def test_a_stored_file_of_another_size_is_fetched_again(here: Setting) -> None:
    here.server.on(PATH, web.file(BODY))
    blob = here.fetch()
    blob.chmod(0o600)
    blob.write_bytes(BODY[:-1])
    assert here.fetch().read_bytes() == BODY
    assert "another size" in here.notes.lines[0]


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
def test_a_broken_connection_goes_on_where_it_stopped(here: Setting, reset: bool) -> None:
    here.server.on(PATH, web.cut(BODY, 2 * MIB, reset=reset), web.file(BODY))
    assert here.fetch().read_bytes() == BODY
    second = here.server.seen[1]
    assert 0 < second.start <= 2 * MIB
    assert second.headers["if-range"] == web.ETAG


def test_a_changed_file_begins_anew(here: Setting) -> None:
    other = b"PK other" + BODY[8:]
    here.server.on(PATH, web.cut(other, 2 * MIB, etag='"old"'), web.file(BODY, etag='"new"'))
    assert here.fetch().read_bytes() == BODY
    assert here.server.seen[1].headers["if-range"] == '"old"'


@pytest.mark.parametrize("etag", ["", 'W/"weak"'], ids=["none", "weak"])
def test_without_a_strong_validator_nothing_is_resumed(here: Setting, etag: str) -> None:
    here.server.on(PATH, web.cut(BODY, 2 * MIB, etag=etag), web.file(BODY, etag=etag))
    assert here.fetch().read_bytes() == BODY
    assert here.server.seen[1].start == 0


@pytest.mark.parametrize(
    ("span", "what"),
    [
        ("bytes 5-{last}/{size}", "asked for bytes"),
        ("bytes {start}-{start}/{size}", "stops early"),
        ("pages 1-2/3", "asked for bytes"),
        ("", "no Content-Range"),
    ],
    ids=["other-start", "stops-early", "nonsense", "missing"],
)
def test_a_wrong_content_range_fails(here: Setting, span: str, what: str) -> None:
    start = 2 * MIB
    text = span.format(start=start, last=len(BODY) - 1, size=len(BODY))
    headers = {"Content_Range": text} if text else {}
    bad = web.raw(web.head(206, Content_Length=len(BODY) - start, ETag=web.ETAG, **headers) + BODY[start:])
    here.server.on(PATH, web.cut(BODY, start), bad)
    error = here.fails()
    assert (error.code, error.reference) == (ExitCode.FETCH, "fetch-failed")
    assert what in error.context[0]
    assert len(here.server.seen) == 2


DIGITS = "9" * 5_000


def test_numbers_of_any_length_from_a_server_are_refused_or_ignored(here: Setting) -> None:
    start = 2 * MIB
    spans = [
        f"bytes {DIGITS}-{DIGITS}/{DIGITS}",
        f"bytes {start}-{DIGITS}/*",
        f"bytes {start}-{len(BODY) - 1}/{DIGITS}",
    ]
    for span in spans:
        bad = web.raw(web.head(206, Content_Length=5, ETag=web.ETAG, Content_Range=span))
        here.server.on(PATH, web.cut(BODY, start), bad)
        assert "asked for bytes" in here.fails().context[0]
    here.server.on(PATH, web.status(503, Retry_After=DIGITS), web.file(BODY))
    assert here.fetch().read_bytes() == BODY


def test_a_length_of_5000_digits_counts_as_none(here: Setting) -> None:
    here.server.on(PATH, web.raw(web.head(200, Content_Length=DIGITS) + BODY))
    assert here.fetch().read_bytes() == BODY


def test_a_range_that_cannot_be_satisfied_begins_anew(here: Setting) -> None:
    here.server.on(PATH, web.cut(BODY, 2 * MIB), web.status(416), web.file(BODY))
    assert here.fetch().read_bytes() == BODY
    assert here.server.seen[2].start == 0


def test_a_damaged_partial_file_is_begun_anew_once(here: Setting) -> None:
    here.server.on(PATH, web.file(BODY))
    part = here.cache.blob_path(SHA).with_name(f"{SHA}.part")
    part.parent.mkdir(parents=True)
    fs.write_cachedir_tag(here.cache.root)
    part.write_bytes(bytes(MIB))
    part.with_name(f"{SHA}.part.json").write_text('{"etag": "\\"one\\""}', encoding="utf-8")
    assert here.fetch().read_bytes() == BODY
    assert [request.start for request in here.server.seen] == [MIB, 0]
    assert here.leftovers() == [SHA]


def test_a_complete_partial_file_needs_no_server(here: Setting) -> None:
    part = here.cache.blob_path(SHA).with_name(f"{SHA}.part")
    part.parent.mkdir(parents=True)
    fs.write_cachedir_tag(here.cache.root)
    part.write_bytes(BODY)
    part.with_name(f"{SHA}.part.json").write_text('{"etag": "\\"one\\""}', encoding="utf-8")
    assert here.fetch().read_bytes() == BODY
    assert here.server.seen == []


@pytest.mark.parametrize("code", [408, 429, 500, 502, 503, 504])
def test_a_passing_failure_is_tried_again(here: Setting, code: int) -> None:
    here.server.on(PATH, web.status(code), web.status(code), web.file(BODY))
    assert here.fetch().read_bytes() == BODY
    assert here.slept == list(DELAYS[:2])


@pytest.mark.parametrize("code", [400, 401, 403, 404, 407, 410, 451])
def test_a_final_refusal_is_not_tried_again(here: Setting, code: int) -> None:
    here.server.on(PATH, web.status(code))
    error = here.fails()
    assert (error.reference, len(here.server.seen), here.slept) == ("fetch-failed", 1, [])
    assert f"HTTP {code}" in error.context[0]


@pytest.mark.parametrize(("code", "words"), [(403, "--mirror"), (404, "release page"), (407, "HTTPS_PROXY")])
def test_a_final_refusal_says_what_helps(here: Setting, code: int, words: str) -> None:
    here.server.on(PATH, web.status(code))
    assert words in here.fails().hint


def test_a_proxy_that_wants_a_login_is_asked_once(here: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []

    def refuse(proxy: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = proxy.accept()
                asked.append(connection.recv(4096))
                connection.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
                connection.close()

    with socket.create_server(("127.0.0.1", 0)) as proxy:
        threading.Thread(target=refuse, args=(proxy,), daemon=True).start()
        for name in ("https_proxy", "HTTPS_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.getsockname()[1]}")
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        error = here.fails(artifact(urls=("https://downloads.invalid/x.zip",)), mirrors=())
    assert asked[0].startswith(b"CONNECT downloads.invalid:443")
    assert (error.reference, len(asked), here.slept) == ("fetch-failed", 1, [])
    assert "HTTPS_PROXY" in error.hint


def test_retries_span_at_least_a_minute(here: Setting) -> None:
    here.server.on(PATH, web.status(503))
    assert here.fails().reference == "fetch-failed"
    assert sum(here.slept) >= 60
    assert len(here.server.seen) == len(here.slept) + 1


@pytest.mark.parametrize(
    ("value", "least", "most"),
    [("7", 7, 7), ("100000", 120, 120), ("-3", 1, 1), ("soon", 1, 1), ("date", 20, 40)],
)
def test_retry_after_is_honoured_within_reason(here: Setting, value: str, least: int, most: int) -> None:
    if value == "date":
        value = format_datetime(datetime.now(UTC) + timedelta(seconds=40), usegmt=True)
    here.server.on(PATH, web.status(503, Retry_After=value), web.file(BODY))
    here.fetch()
    assert least <= here.slept[0] <= most


def test_silence_is_given_up_and_resumed(here: Setting) -> None:
    here.read_timeout = 0.5
    here.server.on(PATH, web.stalled(here.server, BODY, 2 * MIB), web.file(BODY))
    assert here.fetch().read_bytes() == BODY
    assert here.server.seen[1].start > 0


def test_a_trickle_is_given_up(here: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request, "_MINUTE", 0.0)
    monkeypatch.setattr(request, "_SLOWEST", 10 * MIB)
    here.server.on(PATH, web.file(BODY))
    error = here.fails()
    assert "in a minute" in error.context[0]


@pytest.mark.parametrize("size", [len(BODY), None], ids=["pinned-size", "unknown-size"])
def test_a_body_that_ends_early_is_not_the_file(here: Setting, size: int | None) -> None:
    here.server.on(PATH, web.raw(web.head(200) + BODY[:1000]))
    error = here.fails(artifact(size=size))
    assert error.reference == ("fetch-failed" if size else "hash-mismatch")
    assert here.leftovers() == []


@pytest.mark.parametrize("announced", [True, False], ids=["announced", "unannounced"])
def test_a_longer_body_is_cut_off(here: Setting, announced: bool) -> None:
    body = BODY + bytes(5 * MIB)
    here.server.on(PATH, web.file(body) if announced else web.raw(web.head(200) + body))
    error = here.fails()
    assert (error.code, error.reference) == (ExitCode.INTEGRITY, "hash-mismatch")
    assert here.leftovers() == []


def test_a_download_of_unknown_size_has_a_cap(here: Setting) -> None:
    here.server.on(PATH, web.raw(web.head(200) + BODY))
    error = here.fails(artifact(size=None), max_unknown_size=MIB)
    assert (error.reference, here.leftovers()) == ("fetch-failed", [])
    assert "1,048,576" in error.context[0]


def test_a_chunked_body_of_unknown_size_arrives(here: Setting) -> None:
    chunks = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
    here.server.on(PATH, web.raw(web.head(200, Transfer_Encoding="chunked") + chunks))
    assert here.fetch(artifact(size=None)).read_bytes() == BODY


@pytest.mark.parametrize("page", [b"<!DOCTYPE html><title>Log in</title>", b"\xef\xbb\xbf\n <HTML lang=de>"])
def test_a_web_page_is_recognised(here: Setting, page: bytes) -> None:
    here.server.on(PATH, web.file(page))
    error = here.fails()
    assert "a web page came" in error.context[0]
    assert here.leftovers() == []


def test_an_encoded_answer_is_not_decoded(here: Setting) -> None:
    here.server.on(PATH, web.file(BODY, Content_Encoding="gzip"))
    assert here.fetch().read_bytes() == BODY


def test_wrong_bytes_are_described_and_removed(here: Setting) -> None:
    wrong = b"MZ wrong" + BODY[8:]
    here.server.on(PATH, web.file(wrong))
    error = here.fails()
    assert isinstance(error, IntegrityError)
    assert error.message == "what came for part-1.0 is not the pinned file; nothing of it was kept"
    assert error.context == (
        f"{here.server.url}{PATH}: the bytes have another SHA-256 than pinned",
        "  name:     part-1.0",
        f"  from:     {here.server.url}{PATH}",
        f"  expected: {SHA}",
        f"  got:      {hashlib.sha256(wrong).hexdigest()}",
        "  size:     3,000,004 bytes, pinned 3,000,004 bytes",
        f"  begins:   {wrong[:48]!r}",
    )
    assert "replaced upstream" in error.hint
    assert "proxy" in error.hint
    assert here.leftovers() == []
    assert len(here.server.seen) == 1


def test_mirrors_are_asked_in_order_and_every_error_is_kept(here: Setting, tmp_path: Path) -> None:
    empty = tmp_path / "usb"
    empty.mkdir()
    here.server.on(f"/a{PATH}", web.status(404))
    here.server.on(f"/b{PATH}", web.status(403))
    mirrors = (str(empty), f"{here.server.url}/a", f"{here.server.url}/b/")
    error = here.fails(mirrors=mirrors)
    assert error.context == (
        f"{empty / SHA}: not in this folder",
        f"{here.server.url}/a{PATH}: HTTP 404 Said",
        f"{here.server.url}/b{PATH}: HTTP 403 Said",
    )


def test_a_wrong_mirror_is_passed_over_and_said(here: Setting) -> None:
    here.server.on(f"/bad{PATH}", web.file(b"PK bad!!" + BODY[8:]))
    here.server.on(f"/good{PATH}", web.file(BODY))
    assert here.fetch(mirrors=(f"{here.server.url}/bad", f"{here.server.url}/good")).read_bytes() == BODY
    assert "/bad" in here.notes.lines[-1]


@pytest.mark.parametrize("name", [SHA, "part+1.0 ä.zip"], ids=["by-hash", "by-name"])
def test_a_folder_serves_as_mirror_also_offline(here: Setting, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(BODY)
    what = artifact(urls=("https://nowhere.invalid/x/part%2B1.0%20%C3%A4.zip?token=1",))
    assert here.fetch(what, mirrors=(str(tmp_path),), offline=True).read_bytes() == BODY
    assert (tmp_path / name).read_bytes() == BODY


def test_a_short_file_in_a_folder_is_wrong(here: Setting, tmp_path: Path) -> None:
    (tmp_path / SHA).write_bytes(BODY[:-1])
    error = here.fails(mirrors=(str(tmp_path),))
    assert (error.reference, here.leftovers()) == ("hash-mismatch", [])


@pytest.mark.parametrize(
    "url",
    [
        "https://nowhere.invalid/a/..%2F..%2Fsecret",
        "https://nowhere.invalid/a/%2e%2e",
        "https://nowhere.invalid/a/",
        "https://nowhere.invalid/a/..%5Csecret",
        "https://nowhere.invalid/a/C%3Asecret",
        "https://nowhere.invalid/a/x%00",
        "https://nowhere.invalid/a/%ff",
    ],
)
def test_a_mirror_name_is_one_component(url: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(BODY)
    plan = plan_fetch(
        artifact(urls=(url,)), Cache(tmp_path / "c"), FetchOptions(mirrors=(str(tmp_path / "m"),))
    )
    assert plan.urls == (str(tmp_path / "m" / SHA), url.partition("?")[0])


@pytest.mark.parametrize(
    "mirror",
    ["http://example.org", "ftp://localhost/", "http://127.0.0.1.example.org/", "https://x/?a=1", "https://"],
)
def test_other_mirrors_are_refused(here: Setting, mirror: str) -> None:
    error = here.fails(mirrors=(mirror,))
    assert isinstance(error, UsageError)
    assert error.reference == "mirror-not-usable"


def test_an_artifacts_own_url_must_be_https(here: Setting) -> None:
    here.server.on("/x.zip", web.file(BODY))
    error = here.fails(artifact(urls=(f"{here.server.url}/x.zip",)), mirrors=())
    assert "not https" in error.context[0]
    assert here.server.seen == []


def test_a_redirect_loop_ends(here: Setting) -> None:
    here.server.on(PATH, web.redirect(PATH))
    assert "redirects" in here.fails().context[0]
    assert len(here.server.seen) == 11


def test_redirects_are_followed(here: Setting) -> None:
    here.server.on(PATH, web.redirect("/else?token=secret"))
    here.server.on("/else?token=secret", web.file(BODY))
    assert here.fetch().read_bytes() == BODY


def test_a_redirect_to_plain_http_elsewhere_is_refused(here: Setting) -> None:
    here.server.on(PATH, web.redirect("http://example.org/x?token=secret"))
    (line,) = here.fails().context
    assert line.endswith("refused to ask http://example.org/x: not https")


def test_offline_names_what_is_missing(here: Setting) -> None:
    error = here.fails(artifact(urls=("https://nowhere.invalid/x.zip",)), offline=True)
    assert (error.code, error.reference) == (ExitCode.FETCH, "offline-missing")
    assert here.server.seen == []


def test_supplied_artifacts_are_not_downloaded(here: Setting) -> None:
    supplied = artifact(sha256=None, size=None, format=ArtifactFormat.SUPPLIED, note="Bring it.")
    assert here.fails(supplied).reference == "artifact-supplied"
    assert plan_fetch(supplied, here.cache, FetchOptions()).action is FetchAction.SUPPLIED


def test_the_plan_decides_without_touching_anything(here: Setting) -> None:
    url = "https://user:secret@nowhere.invalid/x.zip?token=1"
    what = artifact(urls=(url,))
    plan = plan_fetch(what, here.cache, FetchOptions())
    assert (plan.action, plan.download_bytes, plan.disk_bytes) == (
        FetchAction.FETCH,
        len(BODY),
        4 * len(BODY),
    )
    assert plan.urls == ("https://nowhere.invalid/x.zip",)
    assert not here.cache.root.exists()
    assert plan_fetch(what, here.cache, FetchOptions(offline=True)).action is FetchAction.OFFLINE_MISSING
    here.server.on(PATH, web.file(BODY))
    here.fetch()
    plan = plan_fetch(what, here.cache, FetchOptions(offline=True))
    assert (plan.action, plan.download_bytes, plan.urls) == (FetchAction.HAVE, 0, ())


def test_too_little_space_is_said_before_the_first_byte(
    here: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fs, "free_space", lambda _: 2 * len(BODY) - 1)
    error = here.fails()
    assert (error.reference, here.server.seen) == ("no-space", [])
    assert error.context[0].startswith("needed: 6,000,008 bytes")


def test_a_disk_that_fills_up_leaves_nothing(here: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: HashingWriter, block: bytes) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(HashingWriter, "write", full)
    here.server.on(PATH, web.file(BODY))
    error = here.fails()
    assert isinstance(error, FetchError)
    assert (error.reference, here.leftovers()) == ("no-space", [])


def test_an_interrupted_download_stays_resumable(here: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    write, calls = HashingWriter.write, []

    def interrupted(self: HashingWriter, block: bytes) -> None:
        calls.append(block)
        if self.size > MIB:
            raise KeyboardInterrupt
        write(self, block)

    here.server.on(PATH, web.file(BODY))
    with monkeypatch.context() as patch:
        patch.setattr(HashingWriter, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            here.fetch()
    assert here.leftovers() == [f"{SHA}.part", f"{SHA}.part.json"]
    assert here.fetch().read_bytes() == BODY
    assert here.server.seen[1].start > MIB
    assert here.leftovers() == [SHA]


CHILD = f"""
import sys
from pathlib import Path
sys.path[:0] = [{str(ROOT)!r}]
from tests.test_store_fetch import Cache, FetchOptions, NoProgress, artifact, fetch
options = FetchOptions(mirrors=(sys.argv[1],))
fetch(artifact(), Cache(Path(sys.argv[2])), options=options, progress=NoProgress())
"""


def child(here: Setting) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", CHILD, here.server.url, str(here.cache.root)]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL)


@pytest.mark.slow
def test_two_processes_download_once(here: Setting) -> None:
    here.server.on(PATH, web.file(BODY))
    children = [child(here), child(here)]
    for process in children:
        assert process.wait(60) == 0
    assert len(here.server.seen) == 1
    assert here.cache.blob_path(SHA).read_bytes() == BODY


@pytest.mark.slow
def test_a_killed_download_is_resumed(here: Setting) -> None:
    here.server.on(PATH, web.stalled(here.server, BODY, 2 * MIB), web.file(BODY))
    process = child(here)
    part = here.cache.blob_path(SHA).with_name(f"{SHA}.part")
    for _ in range(600):
        if part.exists() and part.stat().st_size > MIB:
            break
        time.sleep(0.05)
    process.kill()
    process.wait(60)
    assert here.fetch().read_bytes() == BODY
    assert here.server.seen[1].start > MIB


def wine() -> bool:
    return sys.platform == "win32" and hasattr(ctypes.windll.ntdll, "wine_get_version")


not_wine = pytest.mark.skipif(wine(), reason="Wine 8 accepts any certificate truststore asks about")


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[Setting]:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    with web.serving(context) as server:
        yield Setting(server, Cache(tmp_path / "store"))


def test_https_with_a_trusted_certificate_works(secure: Setting, tmp_path: Path) -> None:
    secure.server.on("/x.zip", web.file(BODY))
    what = artifact(urls=(f"{secure.server.url}/x.zip",))
    assert secure.fetch(what, mirrors=(), ca_file=tmp_path / "ca.pem").read_bytes() == BODY


@not_wine
def test_an_unknown_certificate_is_refused_and_explained(secure: Setting) -> None:
    secure.server.on("/x.zip", web.file(BODY))
    error = secure.fails(artifact(urls=(f"{secure.server.url}/x.zip",)), mirrors=())
    assert "certificate is not trusted" in error.context[0]
    assert "system's store" in error.context[1]
    assert error.hint.startswith("add the certificate")
    assert secure.server.seen == []
    assert secure.slept == []


@not_wine
def test_a_certificate_for_another_name_is_refused(secure: Setting, tmp_path: Path) -> None:
    url = secure.server.url.replace("localhost", "127.0.0.1")
    error = secure.fails(artifact(urls=(f"{url}/x.zip",)), mirrors=(), ca_file=tmp_path / "ca.pem")
    assert "certificate is not trusted" in error.context[0]


def test_a_redirect_from_https_to_http_is_refused(secure: Setting, here: Setting, tmp_path: Path) -> None:
    here.server.on("/x.zip", web.file(BODY))
    secure.server.on("/x.zip", web.redirect(f"{here.server.url}/x.zip"))
    what = artifact(urls=(f"{secure.server.url}/x.zip",))
    error = secure.fails(what, mirrors=(), ca_file=tmp_path / "ca.pem")
    assert "not https" in error.context[0]
    assert here.server.seen == []


def test_a_ca_file_that_cannot_be_read_is_named(here: Setting, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing", encoding="utf-8")
    assert here.fails(ca_file=tmp_path / "ca.pem").reference == "ca-file-not-usable"
