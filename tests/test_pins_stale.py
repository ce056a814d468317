"""``pins.check --stale``: releases and indexes are asked for newer versions, and no file is fetched."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer

from scripts.app.context import Workspace
from scripts.app.pins import pins_check
from scripts.app.pins_stale import PinAge
from scripts.app.pins_update import pins_update
from scripts.cli.views.pins import show_pins_check
from scripts.lock.package_index import family_of, index_of, versions
from scripts.lock.reader import read_lock
from scripts.model import Trust
from tests.test_pins_tasks import (
    NEW,
    NEW_NAME,
    OLD,
    OLD_NAME,
    certificates,
    running,
    serve,
    serve_tags,
    server,
    sha,
    shown,
    ws,
)

__all__ = ["certificates", "running", "server", "ws"]

INDEX = "/rocm/core/whl-next/rocm-sdk-core/"
LAYER = "layer-windows-v7-preview.1"


def wheel(version: str, system: str = "win_amd64") -> str:
    return f"rocm_sdk_core-{version}-py3-none-{system}.whl"


def pin_wheels(ws: Workspace, server: HTTPServer, *names: str) -> None:
    """Add wheels to the lock."""
    text = ws.lock_path.read_text(encoding="utf-8")
    entries = "".join(
        f"""
[[artifact]]
id = "core-{number}"
urls = ["{server.url_for(INDEX + name)}"]
sha256 = "{sha(name.encode())}"
format = "wheel"
license = "MIT"
source = "somewhere"
trust = "independent"
"""
        for number, name in enumerate(names)
    )
    cut = text.index("[[stack]]")
    ws.lock_path.write_text(text[:cut] + entries + "\n" + text[cut:], encoding="utf-8", newline="\n")


def serve_index(server: HTTPServer, *names: str) -> None:
    page = "".join(f'<a href="{name}#sha256={sha(name.encode())}">{name}</a>' for name in names)
    server.expect_request(INDEX).respond_with_data(page, content_type="text/html")


def statuses(ws: Workspace) -> dict[str, str]:
    return {pin.artifact: pin.status.value for pin in pins_check(ws, stale=True).ages}


def test_a_newer_release_is_named_with_the_command_that_brings_it(ws: Workspace, server: HTTPServer) -> None:
    serve(server, "v7-preview.2", NEW_NAME, NEW)
    serve_tags(server, "v7-preview.2", "v7-preview.1")
    result = pins_check(ws, stale=True)
    [pin] = [pin for pin in result.ages if pin.artifact == LAYER]
    assert (pin.status, pin.pinned, pin.newest) == (PinAge.BEHIND, "v7-preview.1", "v7-preview.2")
    assert result.exit_code == 3
    assert f"invoke pins.update --artifact={LAYER}" in shown(show_pins_check, result)
    assert json.loads(json.dumps(result.to_json()))["ages"]
    assert not any(request.path.endswith(".zip") for request, _ in server.log), "no file is fetched"


def test_a_pin_of_the_newest_release_is_not_behind(ws: Workspace, server: HTTPServer) -> None:
    serve_tags(server, "v7-preview.1", "v6")
    result = pins_check(ws, stale=True)
    assert {pin.artifact: pin.status.value for pin in result.ages} == {
        LAYER: "newest",
        "own": "no-metadata",
        "wheel": "no-metadata",
    }
    assert result.exit_code == 0
    assert "no pin is behind" in shown(show_pins_check, result)


def test_a_newer_release_without_such_a_file_does_not_count(ws: Workspace, server: HTTPServer) -> None:
    serve(server, "v7-preview.3", "layer-linux-0123456.tar.gz", NEW)
    serve(server, "v7-preview.2", NEW_NAME, NEW)
    serve_tags(server, "v7-preview.3", "v7-preview.2", "v7-preview.1")
    [pin] = pins_check(ws, stale=True, only=LAYER).ages
    assert (pin.status, pin.newest) == (PinAge.BEHIND, "v7-preview.2")


def test_an_index_names_newer_wheels_for_the_same_system(ws: Workspace, server: HTTPServer) -> None:
    serve(server, "v7-preview.1", OLD_NAME, OLD)
    serve_tags(server, "v7-preview.1")
    pin_wheels(ws, server, wheel("10.0.0"), wheel("10.1.0"), wheel("10.0.0", "linux_x86_64"))
    serve_index(
        server,
        *(wheel(v) for v in ("10.1.0", "10.10.0", "10.2.0", "11.0.0a20270101", "bad")),
        wheel("10.11.0", "linux_aarch64"),
    )
    result = pins_check(ws, stale=True)
    found = {pin.artifact: pin for pin in result.ages}
    assert found["core-0"].status is PinAge.REPLACED
    assert (found["core-1"].status, found["core-1"].newest) == (PinAge.BEHIND, "10.10.0")
    assert found["core-2"].status is PinAge.NEWEST, "its own system has nothing newer"
    assert f"invoke pins.add --url={server.url_for(INDEX + wheel('10.10.0'))}" in found["core-1"].detail


@pytest.mark.parametrize("folder", ["x/$(touch%20pwned);a/", "x/`id`/", "x/a'b/", "x/a&calc/", "x/a|b/"])
def test_an_index_writes_no_line_for_a_shell(ws: Workspace, server: HTTPServer, folder: str) -> None:
    serve_tags(server, "v7-preview.1")
    pin_wheels(ws, server, wheel("10.0.0"))
    serve_index(server, escape(f"/{folder}{wheel('10.2.0')}"))
    [pin] = pins_check(ws, stale=True, only="core-0").ages
    assert "pins.add" not in pin.detail
    assert folder not in pin.detail
    if pin.status is PinAge.BEHIND:
        assert pin.detail == f"upstream has 10.2.0: see {server.url_for(INDEX)}"


def test_an_index_lists_only_what_a_lock_may_hold() -> None:
    base = "https://e.org/i/rocm-sdk-core/"
    other = (
        f"http://e.org/i/rocm-sdk-core/{wheel('9.1.0')}",
        f"{base}{wheel('9.2.0')}?token=x",
        f"/x/{{y}}/{wheel('9.3.0')}",
        f"https://[::1/{wheel('9.4.0')}",
        f"https://e.com/{wheel('9.5.0')}",
    )
    page = "".join(f'<a href="{address}">' for address in (*other, wheel("9.0.1")))
    assert list(versions(page, urls=[base + wheel("9.0.0")])) == ["9.0.1", "9.0.0"]


@pytest.mark.slow
def test_what_does_not_answer_is_not_called_new(ws: Workspace, server: HTTPServer) -> None:
    pin_wheels(ws, server, wheel("10.1.0"))
    server.expect_request(INDEX).respond_with_data("gone", status=404)
    server.expect_request("/api/v3/repos/o/r/releases").respond_with_data("gone", status=404)
    result = pins_check(ws, stale=True)
    assert statuses(ws) == {
        LAYER: "unreachable",
        "own": "no-metadata",
        "wheel": "no-metadata",
        "core-0": "unreachable",
    }
    assert result.exit_code == 20
    assert "may be behind too" in shown(show_pins_check, result)


def test_nothing_is_written_and_no_token_is_needed(ws: Workspace, server: HTTPServer) -> None:
    serve_tags(server, "v7-preview.1")
    before = ws.lock_path.read_bytes()
    del ws.environ["GITHUB_TOKEN"]  # type: ignore[attr-defined]  # a dictionary here
    assert pins_check(ws, stale=True).exit_code == 0
    assert ws.lock_path.read_bytes() == before
    assert all("Authorization" not in request.headers for request, _ in server.log)


@pytest.mark.parametrize(
    ("url", "index"),
    [
        (
            "https://e.org/i/rocm-sdk-core/rocm_sdk_core-10.1.0-py3-none-any.whl",
            "https://e.org/i/rocm-sdk-core/",
        ),
        ("https://e.org/flat/rocm_sdk_core-10.1.0-py3-none-any.whl", ""),
        ("https://e.org/rocm-sdk-core/notes.zip", ""),
    ],
)
def test_a_wheel_in_the_folder_of_its_project_has_an_index(url: str, index: str) -> None:
    assert index_of(url) == index


def test_versions_are_compared_as_versions_and_early_ones_only_with_early_ones() -> None:
    base = "https://e.org/i/rocm-sdk-core/"
    page = "".join(f'<a href="{wheel(v)}">' for v in ("9.0.0", "10.0.0", "10.2.0a1"))
    assert list(versions(page, urls=[base + wheel("9.0.0")])) == ["10.0.0", "9.0.0"]
    assert list(versions(page, urls=[base + wheel("10.1.0a1")]))[:2] == ["10.2.0a1", "10.1.0a1"]
    assert family_of(base + wheel("1.0")) != family_of(base + wheel("1.0", "linux_x86_64"))


def test_every_amd_package_of_our_own_lock_has_an_index() -> None:
    lock = read_lock(Path(__file__).resolve().parents[1] / "pins.lock")
    assert all(index_of(a.urls[0]) for a in lock.artifacts.values() if a.format.value == "wheel")


def test_update_confirms_wheels_by_the_digest_in_their_index(ws: Workspace, server: HTTPServer) -> None:
    serve(server, "v7-preview.1", OLD_NAME, OLD)
    serve_tags(server, "v7-preview.1")
    pin_wheels(ws, server, wheel("10.0.0"), wheel("10.1.0"), wheel("10.2.0"))
    text = ws.lock_path.read_text(encoding="utf-8").replace(
        'trust = "independent"', 'trust = "single-report"'
    )
    text = text.replace('trust = "single-report"\n', 'trust = "single-report"\nnote = "One project."\n')
    text = text.replace('note = "One project."\nnote', "note")
    ws.lock_path.write_text(text, encoding="utf-8", newline="\n")
    other = f'<a href="{wheel("10.1.0")}#sha256={"0" * 64}">x</a><a href="{wheel("10.2.0")}">x</a>'
    same = f'<a href="{wheel("10.0.0")}#sha256={sha(wheel("10.0.0").encode())}">x</a>'
    server.expect_request(INDEX).respond_with_data(same + other, content_type="text/html")
    result = pins_update(ws, write=True)
    found = {row.artifact: row.status for row in result.asked}
    assert (found["core-0"], found["core-1"], found["core-2"]) == ("confirmed", "differs", "no-digest")
    assert result.exit_code == 3
    pins = read_lock(ws.lock_path).artifacts
    assert pins["core-0"].trust is Trust.UPSTREAM_DIGEST
    assert pins["core-0"].note.startswith("The package index gives this digest.")
    assert pins["core-1"].trust is Trust.SINGLE_REPORT, "what upstream contradicts is never changed"
    assert pins["core-1"].sha256 == sha(wheel("10.1.0").encode())


def test_an_index_that_is_silent_is_no_confirmation(ws: Workspace, server: HTTPServer) -> None:
    serve(server, "v7-preview.1", OLD_NAME, OLD)
    serve_tags(server, "v7-preview.1")
    pin_wheels(ws, server, wheel("10.0.0"))
    server.expect_request(INDEX).respond_with_data("gone", status=404)
    result = pins_update(ws)
    assert {row.artifact: row.status for row in result.asked}["core-0"] == "unreachable"
    assert result.exit_code == 20


HOSTILE = {
    "half an address": '<a href="//[">x</a>',
    "no host": '<a href="http://[bad/x.whl">x</a>',
    "a sign that becomes a stroke": '<a href="//a\u2100b/x.whl">x</a>',
    "a number without end": f'<a href="{wheel("9" * 5_000)}">x</a>',
    "an entity without end": f'<a href="&#{"9" * 10_000};">x</a>',
    "tags multiplied": f'<a href="torch-9.0.0-{".".join(f"a{n}" for n in range(100))}'
    f'-{".".join(f"b{n}" for n in range(100))}-{".".join(f"c{n}" for n in range(100))}.whl">x</a>',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_link_hides_no_other(name: str) -> None:
    base = "https://stable.repo.amd.com/rocm/whl-next/rocm-sdk-core/"
    page = f'{HOSTILE[name]}<a href="{wheel("9.0.1")}">new</a>'
    assert list(versions(page, urls=[base + wheel("9.0.0")])) == ["9.0.1", "9.0.0"]
