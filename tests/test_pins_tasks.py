"""``pins.check``, ``pins.update`` and ``pins.add`` against a server in the shape of GitHub's."""

from __future__ import annotations

import ctypes
import hashlib
import io
import json
import ssl
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trustme
from msgspec.structs import replace
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from scripts.app.context import Workspace
from scripts.app.pins import pins_add, pins_check
from scripts.app.pins_update import pins_update
from scripts.cli.console import Out
from scripts.cli.views.pins import show_pins_add, show_pins_check, show_pins_update
from scripts.errors import ConflictError, FetchError, IntegrityError, LockError, UsageError
from scripts.lock.reader import read_lock
from scripts.model import Trust
from scripts.net.request import hash_url
from scripts.net.session import Transport

OLD = b"PK\x03\x04 the old layer"
NEW = b"PK\x03\x04 the new layer, longer"
WHEEL = b"PK\x03\x04 a wheel"
OLD_NAME, NEW_NAME = "layer-windows-abc1234.zip", "layer-windows-def5678.zip"


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, Path]:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    path = tmp_path_factory.mktemp("ca") / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return context, path


@pytest.fixture(scope="module")
def running(certificates: tuple[ssl.SSLContext, Path]) -> Iterator[HTTPServer]:
    with HTTPServer(host="localhost", ssl_context=certificates[0]) as server:
        yield server


@pytest.fixture
def server(running: HTTPServer) -> HTTPServer:
    running.clear()
    return running


@pytest.fixture
def ws(server: HTTPServer, certificates: tuple[ssl.SSLContext, Path], tmp_path: Path) -> Workspace:
    """A workspace whose lock pins one release file, one file of a host without metadata, one supplied."""
    path = tmp_path / "pins.lock"
    path.write_text(lock_text(server), encoding="utf-8", newline="\n")
    return Workspace(
        root=tmp_path,
        lock_path=path,
        custom_lock=False,
        cache_root=tmp_path / "cache",
        stage=tmp_path / "stage",
        state_root=tmp_path / "state",
        environ={
            "CUDA_AMD_GITHUB_API": server.url_for("/api/v3"),
            "SSL_CERT_FILE": str(certificates[1]),
            "GITHUB_TOKEN": "letmein",
        },
    )


def lock_text(server: HTTPServer) -> str:
    return f"""\
version = 1

[[artifact]]
id = "layer-windows-v7-preview.1"
urls = ["{server.url_for(download("v7-preview.1", OLD_NAME))}"]
sha256 = "{sha(OLD)}"
format = "zip"
root = "layer"
license = "MIT"
source = "o/r@abc1234"
trust = "single-report"
note = "One project reports it."
members = [
  {{ path = "nvcuda.dll", sha256 = "{sha(b"x")}", size = 1, provides = "nvcuda" }},
]

[[artifact]]
id = "own"
format = "supplied"
license = "unknown"
source = "the user"
trust = "single-report"
members = [
  {{ path = "own.dll", sha256 = "{sha(b"y")}" }},
]

# a comment that stays
[[artifact]]
id = "wheel"
urls = ["{server.url_for("/files/wheel-1.0.whl")}"]
sha256 = "{sha(WHEEL)}"
size = {len(WHEEL)}
format = "wheel"
license = "MIT"
source = "somewhere"
trust = "independent"

[[stack]]
id = "layer-v7p1-mixed"
kind = "translation"
parts = [
  "layer-windows-v7-preview.1",
  "own",
]

[[stack]]
id = "layer-v7p1-sdk"
kind = "translation"
parts = ["layer-windows-v7-preview.1"]
hip = {{ from = "sdk", range = ">=7.2,<7.3" }}
api = "layer-v7-preview.1"
note = "The known one."

[stack.env]
ZLUDA_CC = {{ value = "8.6", why = "explicit" }}
"""


def download(tag: str, name: str) -> str:
    return f"/o/r/releases/download/{tag}/{name}"


def serve(server: HTTPServer, tag: str, name: str, data: bytes, **changes: object) -> None:
    """Serve a release with one file and its metadata; ``changes`` override the metadata's fields."""
    server.expect_request(download(tag, name)).respond_with_data(data)
    asset = {
        "name": name,
        "browser_download_url": server.url_for(download(tag, name)),
        "size": len(data),
        "digest": f"sha256:{sha(data)}",
    }
    asset |= changes
    body = {"tag_name": tag, "draft": False, "assets": [asset, {**asset, "name": "SHA256SUMS"}]}
    server.expect_request(f"/api/v3/repos/o/r/releases/tags/{tag}").respond_with_json(body)


def serve_tags(server: HTTPServer, *tags: str) -> None:
    listed = [{"tag_name": tag} for tag in tags]
    server.expect_request("/api/v3/repos/o/r/releases").respond_with_json(listed)


def shown(show: Callable[..., None], result: object) -> str:
    stdout, stderr = io.StringIO(), io.StringIO()
    show(result, Out(stdout, stderr))
    return stdout.getvalue() + stderr.getvalue()


def untouched(ws: Workspace, server: HTTPServer) -> bool:
    """Whether the lock is as it was and nothing lies beside it."""
    same = ws.lock_path.read_text(encoding="utf-8") == lock_text(server)
    return same and [path.name for path in ws.root.iterdir()] == ["pins.lock"]


# ---------------------------------------------------------------------------------------- pins.check


def test_check_finds_everything_the_same_and_keeps_nothing(ws: Workspace, server: HTTPServer) -> None:
    serve(server, "v7-preview.1", OLD_NAME, OLD)
    server.expect_request("/files/wheel-1.0.whl").respond_with_data(WHEEL)
    result = pins_check(ws)
    assert [(row.artifact, row.status.value) for row in result.checked] == [
        ("layer-windows-v7-preview.1", "same"),
        ("own", "supplied"),
        ("wheel", "same"),
    ]
    assert result.exit_code == 0
    assert untouched(ws, server)
    assert "2 downloads are what pins.lock says" in shown(show_pins_check, result)
    json.dumps(result.to_json())
    assert all("Authorization" not in request.headers for request, _ in server.log)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"PK\x03\x04 b wheel", "sha256 "),
        (WHEEL + b"!", f"more than {len(WHEEL)} bytes"),
        (WHEEL[:-1], "sha256 "),
    ],
    ids=["other bytes", "longer", "shorter"],
)
def test_check_ends_with_3_where_bytes_differ(
    ws: Workspace, server: HTTPServer, data: bytes, words: str
) -> None:
    server.expect_request("/files/wheel-1.0.whl").respond_with_data(data)
    result = pins_check(ws, only="wheel")
    assert [row.status.value for row in result.checked] == ["differs"]
    assert words in result.checked[0].detail
    assert result.exit_code == 3
    assert untouched(ws, server)
    assert "Do not change the pin" in shown(show_pins_check, result)


def test_check_tells_a_missing_file_from_a_different_one(ws: Workspace, server: HTTPServer) -> None:
    server.expect_request("/files/wheel-1.0.whl").respond_with_data("gone", status=404)
    result = pins_check(ws, only="wheel")
    assert [row.status.value for row in result.checked] == ["unreachable"]
    assert result.exit_code == 20
    assert "404" in result.checked[0].detail
    assert "what they hold is unknown" in shown(show_pins_check, result)


def test_check_goes_on_after_a_failure(ws: Workspace, server: HTTPServer) -> None:
    server.expect_request(download("v7-preview.1", OLD_NAME)).respond_with_data("", status=404)
    server.expect_request("/files/wheel-1.0.whl").respond_with_data(b"other")
    result = pins_check(ws)
    assert [row.status.value for row in result.checked] == ["unreachable", "supplied", "differs"]
    assert result.exit_code == 3


def wine() -> bool:
    """Whether this Windows is Wine, whose chain policy is laxer."""
    return sys.platform == "win32" and hasattr(ctypes.windll.ntdll, "wine_get_version")


not_wine = pytest.mark.skipif(wine(), reason="Wine 8 accepts any certificate truststore asks about")


@not_wine
def test_check_does_not_trust_an_unknown_certificate(ws: Workspace, server: HTTPServer) -> None:
    server.expect_request("/files/wheel-1.0.whl").respond_with_data(WHEEL)
    url = read_lock(ws.lock_path).artifacts["wheel"].urls[0]
    with pytest.raises(FetchError) as caught:
        hash_url(url, Transport(delays=()))
    assert caught.value.reference == "untrusted-certificate"
    assert "verify" not in caught.value.hint, "never advise to switch protection off"


@not_wine
def test_check_does_not_trust_a_certificate_for_another_name(ws: Workspace, server: HTTPServer) -> None:
    server.expect_request("/files/wheel-1.0.whl").respond_with_data(WHEEL)
    ca_file = Path(ws.environ["SSL_CERT_FILE"])
    with pytest.raises(FetchError) as caught:
        hash_url(
            f"https://127.0.0.1:{server.port}/files/wheel-1.0.whl", Transport(ca_file=ca_file, delays=())
        )
    assert caught.value.reference == "untrusted-certificate"


def test_certificates_that_cannot_be_read_are_named(ws: Workspace) -> None:
    broken = replace(ws, environ={"SSL_CERT_FILE": str(ws.root / "none.pem")})
    assert "none.pem" in pins_check(broken, only="wheel").checked[0].detail


def test_check_refuses_unknown_names_and_offline(ws: Workspace) -> None:
    with pytest.raises(UsageError) as caught:
        pins_check(ws, only="wheel,wheeel")
    assert "try wheel" in caught.value.hint
    with pytest.raises(UsageError):
        pins_check(ws, offline=True)


# --------------------------------------------------------------------------------------- pins.update


def test_update_confirms_a_pin_and_proposes_what_is_now_known(ws: Workspace, server: HTTPServer) -> None:
    serve(server, "v7-preview.1", OLD_NAME, OLD)
    serve_tags(server, "v7-preview.1")
    result = pins_update(ws)
    assert [(row.artifact, row.status) for row in result.asked] == [
        ("layer-windows-v7-preview.1", "confirmed"),
        ("own", "no-metadata"),
        ("wheel", "no-metadata"),
    ]
    assert result.diff.lines() == (
        "~ artifact layer-windows-v7-preview.1",
        f"    + size: {len(OLD)}",
        "    - trust: single-report",
        "    + trust: upstream-digest",
        "    - note: One project reports it.",
        "    + note: The release's own metadata gives this digest. One project reports it.",
    )
    assert not result.written
    assert untouched(ws, server)
    assert "--write" in shown(show_pins_update, result)
    assert {request.headers["Authorization"] for request, _ in server.log} == {"Bearer letmein"}


def test_update_writes_once_and_then_has_nothing_to_say(ws: Workspace, server: HTTPServer) -> None:
    serve(server, "v7-preview.1", OLD_NAME, OLD)
    serve_tags(server, "v7-preview.1")
    first = pins_update(ws, write=True)
    assert first.written
    assert "# a comment that stays\n[[artifact]]" in ws.lock_path.read_text(encoding="utf-8")
    item = read_lock(ws.lock_path).artifacts["layer-windows-v7-preview.1"]
    assert (item.size, item.trust) == (len(OLD), Trust.UPSTREAM_DIGEST)
    second = pins_update(ws, write=True)
    assert (second.written, bool(second.diff)) == (False, False)
    assert "nothing to change" in shown(show_pins_update, second)


def test_update_brings_a_newer_release_in_beside_the_old(ws: Workspace, server: HTTPServer) -> None:
    serve(server, "v7-preview.1", OLD_NAME, OLD)
    serve(server, "v7-preview.2", NEW_NAME, NEW)
    serve_tags(server, "v7-preview.2", "v7-preview.1")
    before = read_lock(ws.lock_path)
    result = pins_update(ws, write=True)
    after = read_lock(ws.lock_path)
    new = after.artifacts["layer-windows-v7-preview.2"]
    assert (new.sha256, new.size, new.trust) == (sha(NEW), len(NEW), Trust.UPSTREAM_DIGEST)
    assert new.source == "o/r@def5678"
    assert new.note == "Members as in layer-windows-v7-preview.1, not read from this archive."
    assert [(m.path, m.sha256, m.size, m.provides) for m in new.members] == [
        ("nvcuda.dll", None, None, "nvcuda")
    ]
    assert set(after.stacks) - set(before.stacks) == {"layer-v7p2-sdk"}, (
        "supplied files belong to one version"
    )
    stack = after.stacks["layer-v7p2-sdk"]
    assert stack.parts == ("layer-windows-v7-preview.2",)
    assert (stack.api, stack.ptx) == (None, None), "no table is ever borrowed"
    assert stack.env == before.stacks["layer-v7p1-sdk"].env
    assert after.stacks["layer-v7p1-sdk"] == before.stacks["layer-v7p1-sdk"]
    assert "git diff" in shown(show_pins_update, result)


def test_update_takes_the_release_it_is_told(ws: Workspace, server: HTTPServer) -> None:
    serve(server, "v7-preview.1", OLD_NAME, OLD)
    serve(server, "v7-preview.0", NEW_NAME, NEW)
    serve_tags(server, "v7-preview.1", "v7-preview.0")
    result = pins_update(ws, artifact="layer-windows-v7-preview.1", tag="v7-preview.0")
    assert result.asked[-1].artifact == "layer-windows-v7-preview.0"


@pytest.mark.parametrize(
    "change", [{"digest": f"sha256:{sha(b'other')}"}, {"size": 999}], ids=["digest", "size"]
)
def test_update_never_changes_a_pin_that_upstream_contradicts(
    ws: Workspace, server: HTTPServer, change: dict[str, object]
) -> None:
    text = ws.lock_path.read_text(encoding="utf-8").replace(
        f'sha256 = "{sha(OLD)}"\n', f'sha256 = "{sha(OLD)}"\nsize = {len(OLD)}\n'
    )
    ws.lock_path.write_text(text, encoding="utf-8", newline="\n")
    serve(server, "v7-preview.1", OLD_NAME, OLD, **change)
    serve_tags(server, "v7-preview.1")
    result = pins_update(ws, write=True)
    assert result.asked[0].status == "differs"
    assert result.exit_code == 3
    assert not result.written
    assert ws.lock_path.read_text(encoding="utf-8") == text
    assert "contradicts" in shown(show_pins_update, result)


def test_update_says_when_a_file_is_gone(ws: Workspace, server: HTTPServer) -> None:
    serve(server, "v7-preview.1", "another.zip", OLD)
    serve_tags(server, "v7-preview.1")
    result = pins_update(ws)
    assert (result.asked[0].status, result.exit_code) == ("gone", 3)


def test_update_does_not_pin_a_release_without_digest(ws: Workspace, server: HTTPServer) -> None:
    serve(server, "v7-preview.1", OLD_NAME, OLD, digest=None)
    serve(server, "v7-preview.2", NEW_NAME, NEW, digest=None)
    serve_tags(server, "v7-preview.2", "v7-preview.1")
    result = pins_update(ws, write=True)
    assert [row.status for row in result.asked] == ["no-digest", "no-metadata", "no-metadata", "no-digest"]
    assert "pins.add" in result.asked[-1].detail
    assert untouched(ws, server)


def test_update_does_not_take_an_insecure_address_from_metadata(ws: Workspace, server: HTTPServer) -> None:
    serve(server, "v7-preview.1", OLD_NAME, OLD)
    serve(server, "v7-preview.2", NEW_NAME, NEW, browser_download_url="http://example.org/a.zip")
    serve_tags(server, "v7-preview.2", "v7-preview.1")
    assert "http:" in pins_update(ws).asked[-1].detail


def test_update_says_when_a_release_has_no_such_file(ws: Workspace, server: HTTPServer) -> None:
    serve(server, "v7-preview.1", OLD_NAME, OLD)
    serve(server, "v7-preview.2", "renamed.zip", NEW)
    serve_tags(server, "v7-preview.2", "v7-preview.1")
    assert pins_update(ws).asked[-1].status == "no-counterpart"


def test_update_writes_nothing_when_a_later_question_fails(ws: Workspace, server: HTTPServer) -> None:
    serve(server, "v7-preview.1", OLD_NAME, OLD)
    server.expect_request("/api/v3/repos/o/r/releases").respond_with_data(
        "{}", status=403, headers={"X-RateLimit-Remaining": "0"}
    )
    with pytest.raises(FetchError) as caught:
        pins_update(ws, write=True)
    assert caught.value.reference == "upstream-rate-limited"
    assert untouched(ws, server)


def test_update_does_not_overwrite_a_change_made_meanwhile(ws: Workspace, server: HTTPServer) -> None:
    serve(server, "v7-preview.1", OLD_NAME, OLD)
    changed = lock_text(server) + "# somebody was here\n"

    def meddle(_: Request) -> Response:
        ws.lock_path.write_text(changed, encoding="utf-8", newline="\n")
        return Response(json.dumps([{"tag_name": "v7-preview.1"}]), content_type="application/json")

    server.expect_request("/api/v3/repos/o/r/releases").respond_with_handler(meddle)
    with pytest.raises(ConflictError):
        pins_update(ws, write=True)
    assert ws.lock_path.read_text(encoding="utf-8") == changed


def test_an_insecure_metadata_address_is_refused(ws: Workspace) -> None:
    with pytest.raises(UsageError) as caught:
        pins_update(replace(ws, environ={"CUDA_AMD_GITHUB_API": "http://example.org"}))
    assert caught.value.reference == "bad-api-address"


# ------------------------------------------------------------------------------------------ pins.add


def test_add_records_the_releases_digest_as_trust(ws: Workspace, server: HTTPServer) -> None:
    serve(server, "v7-preview.2", NEW_NAME, NEW)
    url = server.url_for(download("v7-preview.2", NEW_NAME))
    result = pins_add(ws, url=url, license="MIT")
    item = result.artifact
    assert (item.id, item.trust) == ("layer-windows-v7-preview.2", Trust.UPSTREAM_DIGEST)
    assert (item.sha256, item.size, item.source) == (sha(NEW), len(NEW), "o/r@v7-preview.2")
    assert not result.written
    assert untouched(ws, server)
    assert "--write" in shown(show_pins_add, result)
    tokens = {request.path: "Authorization" in request.headers for request, _ in server.log}
    assert tokens == {
        "/api/v3/repos/o/r/releases/tags/v7-preview.2": True,
        download("v7-preview.2", NEW_NAME): False,
    }


def test_add_writes_the_pin_and_keeps_the_rest(ws: Workspace, server: HTTPServer) -> None:
    serve(server, "v7-preview.2", NEW_NAME, NEW)
    url = server.url_for(download("v7-preview.2", NEW_NAME))
    before = read_lock(ws.lock_path)
    result = pins_add(ws, url=url, id="mine-1", license="MIT", write=True)
    after = read_lock(ws.lock_path)
    assert result.written
    assert after.artifacts["mine-1"] == result.artifact
    assert {k: v for k, v in after.artifacts.items() if k != "mine-1"} == before.artifacts
    assert "# a comment that stays\n[[artifact]]" in ws.lock_path.read_text(encoding="utf-8")
    assert "name it in a stack" in shown(show_pins_add, result)


@pytest.mark.parametrize(
    "change", [{"digest": f"sha256:{sha(b'other')}"}, {"size": 3}], ids=["digest", "size"]
)
def test_add_refuses_what_the_release_contradicts(
    ws: Workspace, server: HTTPServer, change: dict[str, object]
) -> None:
    serve(server, "v7-preview.2", NEW_NAME, NEW, **change)
    with pytest.raises(IntegrityError) as caught:
        pins_add(ws, url=server.url_for(download("v7-preview.2", NEW_NAME)), license="MIT", write=True)
    assert caught.value.reference == "hash-mismatch"
    assert f"got: sha256 {sha(NEW)}, {len(NEW)} bytes" in caught.value.context
    assert untouched(ws, server)


def test_add_marks_a_hash_that_only_we_have_seen(ws: Workspace, server: HTTPServer) -> None:
    server.expect_request("/files/new%2Bthing-1.0.tar.gz").respond_with_data(NEW)
    server.expect_request("/files/new+thing-1.0.tar.gz").respond_with_data(NEW)
    result = pins_add(ws, url=server.url_for("/files/new%2Bthing-1.0.tar.gz"), license="MIT", write=True)
    item = read_lock(ws.lock_path).artifacts["new+thing-1.0"]
    assert (item.trust, item.format.value) == (Trust.SINGLE_REPORT, "tar.gz")
    assert "publishes no digest" in item.note
    assert "no other source confirms" in shown(show_pins_add, result)


def test_add_marks_a_release_without_digest(ws: Workspace, server: HTTPServer) -> None:
    serve(server, "v7-preview.2", NEW_NAME, NEW, digest=None)
    result = pins_add(ws, url=server.url_for(download("v7-preview.2", NEW_NAME)), license="MIT")
    assert result.artifact.trust is Trust.SINGLE_REPORT
    assert "gives no SHA-256" in result.artifact.note


def test_add_asks_the_release_before_it_downloads(ws: Workspace, server: HTTPServer) -> None:
    serve(server, "v7-preview.2", "another.zip", NEW)
    with pytest.raises(FetchError) as caught:
        pins_add(ws, url=server.url_for(download("v7-preview.2", NEW_NAME)), license="MIT")
    assert caught.value.reference == "upstream-not-found"
    assert len(server.log) == 1


@pytest.mark.parametrize(
    "page", [b"<!DOCTYPE html><title>Sign in", b"\n<HTML>", b""], ids=["page", "old", "empty"]
)
def test_add_refuses_a_web_page(ws: Workspace, server: HTTPServer, page: bytes) -> None:
    server.expect_request("/files/a-1.0.zip").respond_with_data(page)
    with pytest.raises(FetchError) as caught:
        pins_add(ws, url=server.url_for("/files/a-1.0.zip"), license="MIT")
    assert caught.value.reference == "not-a-file"


def test_add_refuses_what_the_lock_has(ws: Workspace, server: HTTPServer) -> None:
    server.expect_request("/files/copy-1.0.whl").respond_with_data(WHEEL)
    with pytest.raises(ConflictError) as caught:
        pins_add(ws, url=server.url_for("/files/copy-1.0.whl"), license="MIT", write=True)
    assert "wheel" in caught.value.message
    assert untouched(ws, server)


def test_add_refuses_a_known_address_or_id_before_it_connects(ws: Workspace, server: HTTPServer) -> None:
    pinned = read_lock(ws.lock_path).artifacts["wheel"].urls[0]
    for url, name in ((pinned, "other"), (server.url_for("/files/b.zip"), "wheel")):
        with pytest.raises(ConflictError) as caught:
            pins_add(ws, url=url, id=name, license="MIT")
        assert caught.value.reference == "already-pinned"
    assert server.log == []


def test_add_refuses_a_bad_id(ws: Workspace, server: HTTPServer) -> None:
    server.expect_request("/files/copy-1.0.zip").respond_with_data(NEW)
    with pytest.raises(LockError) as caught:
        pins_add(ws, url=server.url_for("/files/copy-1.0.zip"), id="No Good", license="MIT", write=True)
    assert caught.value.reference == "lock-bad-id"
    assert untouched(ws, server)


@pytest.mark.parametrize(
    ("options", "reference"),
    [
        ({}, "no-url"),
        ({"url": "https://example.org/a.zip"}, "no-license"),
        ({"url": "http://example.org/a.zip", "license": "MIT"}, "insecure-url"),
        ({"url": "https://example.org/latest/a.zip", "license": "MIT"}, "moving-url"),
        ({"url": "https://me:pw@example.org/a.zip", "license": "MIT"}, "credentials-in-url"),
    ],
    ids=["no url", "no licence", "http", "latest", "credentials"],
)
def test_add_refuses_before_it_connects(ws: Workspace, options: dict[str, str], reference: str) -> None:
    with pytest.raises(UsageError) as caught:
        pins_add(ws, **options)  # type: ignore[arg-type]  # only strings
    assert caught.value.reference == reference
    assert caught.value.hint
