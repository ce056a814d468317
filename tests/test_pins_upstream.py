"""Release metadata is asked politely, read strictly, and no token leaves its host."""

from __future__ import annotations

import hashlib
import json
import socket
from collections.abc import Iterator

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from scripts.errors import FetchError, UsageError
from scripts.net.github import AssetRef, GitHub, api_base, asset_of
from scripts.net.request import hash_url
from scripts.net.session import Transport

SHA = "e2959ed17c8ddae6bf2bf76cf3a7348f577a2548754685d776389df2220e5d9a"
BEARER = "letmein"
PATH = "/repos/vosen/ZLUDA/releases/tags/v6"
ASSET = {
    "name": "zluda-windows-3fe1206.zip",
    "browser_download_url": "https://github.com/vosen/ZLUDA/releases/download/v6/zluda-windows-3fe1206.zip",
    "size": 35506692,
    "digest": f"sha256:{SHA}",
    "content_type": "application/zip",
}
RELEASE = {"tag_name": "v6", "draft": False, "assets": [ASSET]}
QUICK = Transport(delays=(0.0, 0.0), sleep=lambda _: None, connect_timeout=5.0, read_timeout=5.0)


@pytest.fixture(scope="module")
def running() -> Iterator[HTTPServer]:
    with HTTPServer(host="127.0.0.1") as server:  # stopping one takes half a second
        yield server


@pytest.fixture
def server(running: HTTPServer) -> HTTPServer:
    running.clear()
    return running


def ask(server: HTTPServer, token: str = "") -> GitHub:
    return GitHub(transport=QUICK, api=server.url_for("").rstrip("/"), token=token)


def refused(server: HTTPServer, token: str = "") -> FetchError:
    with pytest.raises(FetchError) as caught:
        ask(server, token).release("vosen", "ZLUDA", "v6")
    return caught.value


def test_an_asset_has_name_url_size_and_digest(server: HTTPServer) -> None:
    server.expect_request(PATH).respond_with_json(RELEASE)
    release = ask(server).release("vosen", "ZLUDA", "v6")
    asset = release.asset("zluda-windows-3fe1206.zip")
    assert asset is not None
    assert (asset.url, asset.size, asset.sha256) == (ASSET["browser_download_url"], 35506692, SHA)
    assert release.asset("other.zip") is None


@pytest.mark.parametrize(
    ("digest", "expected"),
    [(None, None), ("sha512:00", None), (f"sha256:{SHA.upper()}", SHA)],
    ids=["old release", "another algorithm", "capitals"],
)
def test_a_digest_we_cannot_use_counts_as_none(server: HTTPServer, digest: object, expected: object) -> None:
    server.expect_request(PATH).respond_with_json({**RELEASE, "assets": [{**ASSET, "digest": digest}]})
    assert ask(server).release("vosen", "ZLUDA", "v6").assets[0].sha256 == expected


def test_names_are_percent_encoded_into_the_question(server: HTTPServer) -> None:
    server.expect_request("/repos/o/r/releases/tags/a/b").respond_with_json({**RELEASE, "tag_name": "a/b"})
    ask(server).release("o", "r", "a/b")
    request, _ = server.log[0]
    assert request.environ["RAW_URI"] == "/repos/o/r/releases/tags/a%2Fb"


def test_tags_come_newest_first_without_drafts(server: HTTPServer) -> None:
    listed = [{"tag_name": "v8", "draft": True}, {"tag_name": "v7"}, {"tag_name": "v6", "draft": False}]
    server.expect_request("/repos/o/r/releases").respond_with_json(listed)
    assert ask(server).tags("o", "r") == ("v7", "v6")


MALFORMED: dict[str, bytes] = {
    "html": b"<!DOCTYPE html><p>Sign in",
    "cut": json.dumps(RELEASE).encode()[:-9],
    "nothing": b"",
    "list": b"[]",
    "no assets": b'{"tag_name": "v6"}',
    "assets no list": b'{"tag_name": "v6", "assets": {}}',
    "asset no table": b'{"tag_name": "v6", "assets": [1]}',
    "size as text": json.dumps({**RELEASE, "assets": [{**ASSET, "size": "12"}]}).encode(),
    "size negative": json.dumps({**RELEASE, "assets": [{**ASSET, "size": -1}]}).encode(),
    "size boolean": json.dumps({**RELEASE, "assets": [{**ASSET, "size": True}]}).encode(),
    "digest too short": json.dumps({**RELEASE, "assets": [{**ASSET, "digest": "sha256:00"}]}).encode(),
    "digest no text": json.dumps({**RELEASE, "assets": [{**ASSET, "digest": 7}]}).encode(),
    "name empty": json.dumps({**RELEASE, "assets": [{**ASSET, "name": ""}]}).encode(),
    "too deep": b"[" * 200_000,
    "huge": b" " * (8 * 1024**2 + 2),
    "not utf-8": b'{"tag_name": "\xff"}',
}


@pytest.mark.parametrize("name", MALFORMED)
def test_an_answer_that_is_no_release_is_refused_whole(server: HTTPServer, name: str) -> None:
    server.expect_request(PATH).respond_with_data(MALFORMED[name])
    error = refused(server)
    assert error.reference == "upstream-malformed"
    assert error.hint


def test_malformed_lists_of_tags_are_refused(server: HTTPServer) -> None:
    server.expect_request("/repos/o/r/releases").respond_with_json({"message": "no"})
    with pytest.raises(FetchError) as caught:
        ask(server).tags("o", "r")
    assert caught.value.reference == "upstream-malformed"


@pytest.mark.parametrize(
    ("status", "headers", "reference"),
    [
        (404, {}, "upstream-not-found"),
        (401, {}, "upstream-token-refused"),
        (403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1796036400"}, "upstream-rate-limited"),
        (429, {"Retry-After": "60"}, "upstream-rate-limited"),
        (403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "soon"}, "upstream-rate-limited"),
        (403, {}, "upstream-refused"),
        (410, {}, "upstream-refused"),
    ],
    ids=["missing", "bad token", "rate limit", "secondary limit", "odd limit", "forbidden", "gone"],
)
def test_a_refusal_is_told_apart_and_not_repeated(
    server: HTTPServer, status: int, headers: dict[str, str], reference: str
) -> None:
    server.expect_request(PATH).respond_with_data("{}", status=status, headers=headers)
    error = refused(server)
    assert error.reference == reference
    assert error.hint
    assert len(server.log) == 1, "asking again would make a limit worse"


def test_a_rate_limit_says_when_and_offers_a_token_once(server: HTTPServer) -> None:
    headers = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1796036400"}
    server.expect_request(PATH).respond_with_data("{}", status=403, headers=headers)
    assert refused(server).hint == (
        "ask again after 11:00 UTC, or set GITHUB_TOKEN to a token without any permission, "
        "which raises the limit"
    )
    assert refused(server, token=BEARER).hint == "ask again after 11:00 UTC"


def test_a_busy_server_is_asked_again(server: HTTPServer) -> None:
    server.expect_ordered_request(PATH).respond_with_data("", status=502)
    server.expect_ordered_request(PATH).respond_with_data("", status=503)
    server.expect_ordered_request(PATH).respond_with_json(RELEASE)
    assert ask(server).release("vosen", "ZLUDA", "v6").tag == "v6"


def test_a_server_that_stays_busy_is_given_up(server: HTTPServer) -> None:
    server.expect_request(PATH).respond_with_data("", status=503)
    assert refused(server).reference == "upstream-refused"
    assert len(server.log) == 3


def test_an_unreachable_server_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        port = taken.getsockname()[1]
        with pytest.raises(FetchError) as caught:
            GitHub(transport=QUICK, api=f"http://127.0.0.1:{port}").release("o", "r", "v1")
    assert caught.value.reference == "upstream-unreachable"


def test_the_token_goes_to_its_own_host_and_not_along_a_redirect(server: HTTPServer) -> None:
    with HTTPServer(host="127.0.0.1") as stranger:
        stranger.expect_request("/moved").respond_with_json(RELEASE)
        server.expect_request(PATH).respond_with_data(
            "", status=302, headers={"Location": stranger.url_for("/moved")}
        )
        ask(server, token=BEARER).release("vosen", "ZLUDA", "v6")
        assert server.log[0][0].headers["Authorization"] == f"Bearer {BEARER}"
        assert "Authorization" not in stranger.log[0][0].headers
        assert all(BEARER not in str(value) for value in stranger.log[0][0].headers.values())


def test_the_token_stays_along_a_redirect_on_its_own_host(server: HTTPServer) -> None:
    server.expect_request(PATH).respond_with_data("", status=301, headers={"Location": "/repositories/1"})
    server.expect_request("/repositories/1").respond_with_json(RELEASE)
    ask(server, token=BEARER).release("vosen", "ZLUDA", "v6")
    assert server.log[1][0].headers["Authorization"] == f"Bearer {BEARER}"


def test_without_a_token_none_is_sent_and_netrc_is_not_read(
    server: HTTPServer, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    netrc = tmp_path_factory.mktemp("home") / "netrc"
    netrc.write_text("default login me password secret\n", encoding="utf-8")
    monkeypatch.setenv("NETRC", str(netrc))
    server.expect_request(PATH).respond_with_json(RELEASE)
    ask(server).release("vosen", "ZLUDA", "v6")
    assert "Authorization" not in server.log[0][0].headers


def test_a_redirect_to_http_elsewhere_is_not_followed(server: HTTPServer) -> None:
    server.expect_request(PATH).respond_with_data(
        "", status=302, headers={"Location": "http://192.0.2.1/?s=1"}
    )
    error = refused(server)
    assert error.reference == "insecure-redirect"
    assert "http://192.0.2.1/:" in error.message
    assert "s=1" not in f"{error.message}{error.context}", "signatures in queries stay out of messages"


def test_endless_redirects_end(server: HTTPServer) -> None:
    server.expect_request(PATH).respond_with_data("", status=302, headers={"Location": PATH})
    assert refused(server).reference == "too-many-redirects"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (ASSET["browser_download_url"], AssetRef(owner="vosen", repo="ZLUDA", tag="v6", name=ASSET["name"])),
        (
            "https://github.com/o/r/releases/download/a%2Fb/c%2Bd.zip",
            AssetRef(owner="o", repo="r", tag="a/b", name="c+d.zip"),
        ),
        ("https://github.com/o/r/archive/v1.zip", None),
        ("https://github.com.example.org/o/r/releases/download/v1/a.zip", None),
        ("https://stable.repo.amd.com/rocm/core/tarball/a.tar.gz", None),
        ("https://github.com/o/r/releases/download/v1/sub/a.zip", None),
    ],
)
def test_only_release_downloads_have_metadata(url: str, expected: AssetRef | None) -> None:
    assert asset_of(url) == expected


@pytest.mark.parametrize(
    "value", ["https://ghe.example.org/api/v3/", "http://127.0.0.1:8000", "http://localhost"]
)
def test_an_api_address_is_https_or_loopback(value: str) -> None:
    assert api_base(value) == value.rstrip("/")


@pytest.mark.parametrize(
    "value",
    [
        "http://example.org",
        "ftp://localhost",
        "https://",
        "https://me:pw@example.org",
        "x",
        "http://127.0.0.1.example.org",
    ],
)
def test_another_api_address_is_refused(value: str) -> None:
    with pytest.raises(UsageError) as caught:
        api_base(value)
    assert caught.value.reference == "bad-api-address"


def test_a_file_is_hashed_as_it_streams(server: HTTPServer) -> None:
    data = bytes(range(256)) * 9000
    server.expect_request("/f").respond_with_data(data)
    found = hash_url(server.url_for("/f"), QUICK)
    assert (found.sha256, found.size, found.cut) == (hashlib.sha256(data).hexdigest(), len(data), False)
    assert found.first == data[:64]
    assert server.log[0][0].headers["Accept-Encoding"] == "identity"


def test_a_file_over_the_limit_is_cut_with_and_without_a_length(server: HTTPServer) -> None:
    server.expect_request("/known").respond_with_data(b"x" * 100)
    server.expect_request("/unknown").respond_with_response(Response(iter([b"x" * 60, b"x" * 60])))
    for path in ("/known", "/unknown"):
        found = hash_url(server.url_for(path), QUICK, most=99)
        assert found.cut
        assert found.sha256 == ""


def test_a_file_of_exactly_the_limit_is_whole(server: HTTPServer) -> None:
    server.expect_request("/f").respond_with_data(b"x" * 100)
    assert not hash_url(server.url_for("/f"), QUICK, most=100).cut


def test_a_packed_copy_is_refused(server: HTTPServer) -> None:
    server.expect_request("/f").respond_with_data(b"x", headers={"Content-Encoding": "gzip"})
    with pytest.raises(FetchError) as caught:
        hash_url(server.url_for("/f"), QUICK)
    assert caught.value.reference == "content-encoding"


def test_a_broken_line_is_tried_again_from_the_start(server: HTTPServer) -> None:
    tries: list[Request] = []

    def short_at_first(request: Request) -> Response:
        tries.append(request)
        body = b"abc" if len(tries) < 3 else b"abcdef"
        response = Response(iter([body]))
        response.headers["Content-Length"] = "6"
        return response

    server.expect_request("/f").respond_with_handler(short_at_first)
    found = hash_url(server.url_for("/f"), QUICK)
    assert found.sha256 == hashlib.sha256(b"abcdef").hexdigest()
    assert len(tries) == 3
