from __future__ import annotations

import io
import json
import zipfile
from pathlib import PureWindowsPath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scripts.app import report
from scripts.app.report import make_bundle
from scripts.osal.redaction import Redactor

REDACTOR = Redactor(user="Jürgen Groß", home=r"C:\Users\Jürgen Groß", host="TURM-4711")
SECRETS = {
    "user": "Jürgen Groß",
    "home, backslashes": r"C:\Users\Jürgen Groß\zluda",
    "home, slashes": "C:/Users/Jürgen Groß/zluda",
    "home, doubled": r"C:\\Users\\Jürgen Groß\\zluda",
    "other user": r"D:\Users\somebody\x",
    "host": "turm-4711",
    "mail": "juergen.gross@example.org",
    "token": "ghp_" + "a1B2" * 9,
    "hf token": "hf_" + "aB1" * 11,
    "header": "Authorization: Bearer abcdefghijklmnop",
    "url": "https://jg:hunter22@example.org/x",
    "serial": "SerialNumber: PF3ABC12",
    "uuid": "12345678-1234-1234-1234-123456789abc",
}
NEEDLES = (
    "jürgen", "groß", "gross", "turm-4711", "somebody", "a1b2a1b2", "ab1ab1", "abcdefghijklmnop", "hunter22",
    "pf3abc12", "123456789abc", "j%c3%bcrgen", "j\\u00fcrgen",
)  # fmt: skip


def unpack(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def assert_clean(content: bytes) -> None:
    for name, data in unpack(content).items():
        for encoding in ("utf-8", "cp1252", "utf-16-le", "utf-16-be"):
            text = (name + data.decode(encoding, errors="ignore")).casefold()
            for offset in (text, data[1:].decode(encoding, errors="ignore").casefold()):
                for needle in NEEDLES:
                    assert needle.casefold() not in offset, f"{needle} in {name} as {encoding}"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252"])
def test_nothing_that_identifies_survives_in_a_log(encoding: str) -> None:
    log = "".join(f"{kind}: {secret} end\r\n" for kind, secret in SECRETS.items())
    made = make_bundle({}, [("x/run.log", log.encode(encoding))], REDACTOR)
    assert_clean(made.content)
    kept = unpack(made.content)["logs/x/run.log"].decode(encoding)
    assert kept.count(" end") == len(SECRETS)


def test_nothing_that_identifies_survives_in_data_names_and_json_logs() -> None:
    nested = {"list": [*SECRETS.values()], "path": PureWindowsPath(r"C:\Users\Jürgen Groß\x"), "serial": 4711}
    data = {"machine": {**nested, **dict.fromkeys(SECRETS.values(), 1)}}
    logs = [
        ("Jürgen Groß/a.json", json.dumps({"deep": [SECRETS]}).encode()),
        ("turm-4711/b.json", b"{ broken " + json.dumps(SECRETS).encode()),
    ]
    made = make_bundle(data, logs, REDACTOR)
    assert_clean(made.content)
    assert "logs/<user>/a.json" in made.names
    machine = json.loads(unpack(made.content)["machine.json"])["path"]
    assert machine == r"<home>\x"


@given(st.sampled_from(sorted(SECRETS.values())), st.text(max_size=20), st.booleans())
@settings(max_examples=60)
def test_a_planted_secret_never_survives(secret: str, around: str, wide: bool) -> None:
    text = f"{around} {secret} {around}"
    raw = text.encode("utf-16" if wide else "utf-8", errors="replace")
    assert_clean(make_bundle({}, [("x.log", raw)], REDACTOR).content)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_long_log_keeps_its_end_from_a_whole_line_on(
    encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "LOG_CAP", 101)
    raw = "".join(f"line {n} by Jürgen Groß\n" for n in range(40)).encode(encoding)
    made = make_bundle({}, [("x.log", raw)], REDACTOR)
    lines = unpack(made.content)["logs/x.log"].decode(encoding).splitlines()
    assert lines[-1] == "line 39 by <user>"
    assert all(line.startswith("line ") for line in lines)
    assert made.left_out[0].startswith("x.log: only the last")
    assert_clean(made.content)


def test_one_endless_line_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "LOG_CAP", 10)
    assert unpack(make_bundle({}, [("x.log", b"a" * 100)], REDACTOR).content)["logs/x.log"] == b""


def test_a_full_bundle_says_what_it_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "TOTAL_CAP", 5)
    made = make_bundle({}, [("a.log", b"123456"), ("b.log", b"x")], REDACTOR)
    assert made.left_out == ("b.log: the bundle is full",)
    assert "logs/b.log" not in made.names
    assert b"b.log: the bundle is full" in unpack(made.content)["CONTENTS.txt"]


def test_equal_content_makes_equal_bundles_and_equal_names_do_not_collide() -> None:
    parts = ({"m": 1}, [("Jürgen Groß.log", b"1"), ("<user>.log", b"2")])
    made = make_bundle(*parts, REDACTOR)
    assert made.content == make_bundle(*parts, REDACTOR).content
    assert [n for n in made.names if n.startswith("logs/")] == ["logs/<user>.log", "logs/<user>.log.2"]
