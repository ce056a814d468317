"""``pins.lock`` is read strictly: what is wrong is named by file, line and key."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.errors import ExitCode, LockError
from scripts.lock.reader import parse_lock, read_lock
from scripts.lock.values import nox_name, url_problem
from scripts.model import ArtifactFormat, HipSource, Lock, StackKind, Trust
from tests.bounds import in_proportion

SHA = "e2959ed17c8ddae6bf2bf76cf3a7348f577a2548754685d776389df2220e5d9a"
GOOD = f"""\
version = 1

[[artifact]]
id = "layer-1.0"
urls = ["https://example.org/layer-1.0.zip"]
sha256 = "{SHA}"
size = 12
format = "zip"
root = "layer"
license = "MIT"
source = "example"
trust = "independent"
members = [
  {{ path = "nvcuda.dll", provides = "nvcuda", needs = ["amdhip64"] }},
  {{ path = "trace/nvcuda.dll", sha256 = "{SHA}", size = 3 }},
]

[[stack]]
id = "layer-sdk"
kind = "translation"
parts = ["layer-1.0"]
optional = {{ more = ["layer-1.0"] }}
hip = {{ from = "sdk", range = ">=6.4,<6.5" }}
requires = {{ os = "windows", gfx = ["gfx1200"] }}
api = "layer-1.0"
env = {{ ZLUDA_CC = {{ value = "8.6", why = "explicit" }} }}
unset = {{ CUDA_PATH = {{ why = "cuda_check reads it", only = "check" }} }}
"""


def parse(text: str | bytes) -> Lock:
    data = text.encode() if isinstance(text, str) else text
    return parse_lock(data, path=Path("pins.lock"))


def refused(text: str | bytes) -> LockError:
    with pytest.raises(LockError) as caught:
        parse(text)
    error = caught.value
    assert error.code is ExitCode.LOCK
    assert error.message
    assert error.hint, "a refusal says what to do"
    return error


def test_a_good_lock_is_read_whole() -> None:
    lock = parse(GOOD)
    item = lock.artifacts["layer-1.0"]
    assert (item.format, item.trust, item.size, item.root) == (
        ArtifactFormat.ZIP,
        Trust.INDEPENDENT,
        12,
        "layer",
    )
    assert [(m.path, m.name, m.provides, m.needs) for m in item.members] == [
        ("nvcuda.dll", "nvcuda.dll", "nvcuda", ("amdhip64",)),
        ("trace/nvcuda.dll", "trace/nvcuda.dll", None, ()),
    ]
    stack = lock.stacks["layer-sdk"]
    assert (stack.kind, stack.hip.source, stack.hip.range) == (
        StackKind.TRANSLATION,
        HipSource.SDK,
        ">=6.4,<6.5",
    )
    assert [(e.name, e.value, e.only) for e in stack.env] == [
        ("ZLUDA_CC", "8.6", ""),
        ("CUDA_PATH", None, "check"),
    ]
    assert stack.optional == {"more": ("layer-1.0",)}


def test_crlf_is_accepted_and_changes_the_digest() -> None:
    crlf = parse(GOOD.replace("\n", "\r\n"))
    assert crlf.artifacts == parse(GOOD).artifacts
    assert crlf.digest != parse(GOOD).digest


def swap(old: str, new: str) -> str:
    assert GOOD.count(old) >= 1, old
    return GOOD.replace(old, new, 1)


STACK = '[[stack]]\nid = "layer-sdk"'
URL = '"https://example.org/layer-1.0.zip"'
SUPPLIED = swap('"zip"', '"supplied"').replace(f'urls = [{URL}]\nsha256 = "{SHA}"\nsize = 12\n', "")
EMPTY = SUPPLIED[: SUPPLIED.index("members")]
AGAIN = GOOD[GOOD.index("[[artifact]]") : GOOD.index("[[stack]]")]
REFUSALS = {
    "unknown key at the top": (
        GOOD.replace("version = 1", "version = 1\nextra = 2"),
        "lock-unknown-key",
        "2: extra",
    ),
    "unknown key in an artifact": (
        swap('root = "layer"', 'rot = "layer"'),
        "lock-unknown-key",
        "9: artifact[0].rot",
    ),
    "unknown key in a member": (
        swap('provides = "nvcuda"', 'provide = "nvcuda"'),
        "lock-unknown-key",
        "14: artifact[0].members[0].provide",
    ),
    "unknown key in a stack": (
        swap('kind = "translation"', 'kind = "translation"\nstatus = "good"'),
        "lock-unknown-key",
        "21: stack[0].status",
    ),
    "unknown key in hip": (swap('from = "sdk"', 'form = "sdk"'), "lock-unknown-key", "23: stack[0].hip.form"),
    "unknown key in requires": (swap("gfx =", "gpu ="), "lock-unknown-key", "24: stack[0].requires.gpu"),
    "unknown key in env": (
        swap('why = "explicit"', 'why = "explicit", then = ""'),
        "lock-unknown-key",
        "26: stack[0].env.ZLUDA_CC.then",
    ),
    "missing version": (swap("version = 1\n", ""), "lock-missing-version", "1: version"),
    "newer version": (swap("version = 1", "version = 2\nnovel = true"), "lock-newer-version", "1: version"),
    "version zero": (swap("version = 1", "version = 0"), "lock-unknown-version", "1: version"),
    "version as text": (swap("version = 1", 'version = "1"'), "lock-wrong-type", "1: version"),
    "version as boolean": (swap("version = 1", "version = true"), "lock-wrong-type", "1: version"),
    "missing key in an artifact": (
        swap('license = "MIT"\n', ""),
        "lock-missing-key",
        "3: artifact[0].license",
    ),
    "missing key in a stack": (swap('kind = "translation"\n', ""), "lock-missing-key", "18: stack[0].kind"),
    "missing key in a member": (
        swap('path = "nvcuda.dll", ', ""),
        "lock-missing-key",
        "14: artifact[0].members[0].path",
    ),
    "missing why": (swap(', why = "explicit"', ""), "lock-missing-key", "26: stack[0].env.ZLUDA_CC.why"),
    "missing hip source": (swap('from = "sdk", ', ""), "lock-missing-key", "23: stack[0].hip.from"),
    "size as boolean": (swap("size = 12", "size = true"), "lock-wrong-type", "7: artifact[0].size"),
    "size as text": (swap("size = 12", 'size = "12"'), "lock-wrong-type", "7: artifact[0].size"),
    "negative size": (swap("size = 12", "size = -1"), "lock-bad-size", "7: artifact[0].size"),
    "urls as text": (swap(f"[{URL}]", URL), "lock-wrong-type", "5: artifact[0].urls"),
    "url as number": (swap(URL, "1"), "lock-wrong-type", "5: artifact[0].urls[0]"),
    "members as table": (
        swap("members = [\n", "members = [1,\n"),
        "lock-wrong-type",
        "13: artifact[0].members[0]",
    ),
    "artifact as table": (swap("[[artifact]]", "[artifact]"), "lock-wrong-type", "3: artifact"),
    "id as date": (swap('id = "layer-1.0"', "id = 2026-11-30"), "lock-wrong-type", "4: artifact[0].id"),
    "empty licence": (swap('"MIT"', '" "'), "lock-empty-value", "10: artifact[0].license"),
    "line break in text": (swap('"MIT"', '"MI\\nT"'), "lock-bad-text", "10: artifact[0].license"),
    "duplicate artifact": (GOOD + AGAIN, "lock-duplicate-id", "29: artifact[1].id"),
    "ids equal after folding": (
        GOOD + AGAIN.replace("layer-1.0", "layer-1-0"),
        "lock-duplicate-id",
        "29: artifact[1].id",
    ),
    "duplicate stack": (GOOD + GOOD[GOOD.index("[[stack]]") :], "lock-duplicate-id", "29: stack[1].id"),
    "dangling part": (
        swap('parts = ["layer-1.0"]', 'parts = ["layer-1.0", "layr"]'),
        "lock-dangling-reference",
        "21: stack[0].parts[1]",
    ),
    "dangling option": (
        swap('more = ["layer-1.0"]', 'more = ["layr"]'),
        "lock-dangling-reference",
        "22: stack[0].optional.more[0]",
    ),
    "part named twice": (
        swap('parts = ["layer-1.0"]', 'parts = ["layer-1.0", "layer-1.0"]'),
        "lock-duplicate-reference",
        "21: stack[0].parts[1]",
    ),
    "bad option name": (swap("more = [", '"a b" = ['), "lock-bad-id", '22: stack[0].optional."a b"'),
    "url without sha256": (
        swap(f'sha256 = "{SHA}"\n', ""),
        "lock-url-without-sha256",
        "3: artifact[0].sha256",
    ),
    "sha256 too short": (swap(f'"{SHA}"', f'"{SHA[:-1]}"'), "lock-bad-sha256", "6: artifact[0].sha256"),
    "sha256 in capitals": (swap(f'"{SHA}"', f'"{SHA.upper()}"'), "lock-bad-sha256", "6: artifact[0].sha256"),
    "sha256 with prefix": (swap(f'"{SHA}"', f'"sha256:{SHA}"'), "lock-bad-sha256", "6: artifact[0].sha256"),
    "bad member sha256": (
        swap(f'sha256 = "{SHA}", size = 3', 'sha256 = "00"'),
        "lock-bad-sha256",
        "15: artifact[0].members[1].sha256",
    ),
    "http": (swap("https://", "http://"), "lock-insecure-url", "5: artifact[0].urls[0]"),
    "second url http": (
        swap(URL, f'{URL},\n  "http://example.org/a.zip"'),
        "lock-insecure-url",
        "6: artifact[0].urls[1]",
    ),
    "ftp": (swap("https://", "ftp://"), "lock-bad-url", "5: artifact[0].urls[0]"),
    "file": (swap("https://example.org/", "file:///"), "lock-bad-url", "5: artifact[0].urls[0]"),
    "no file": (swap("/layer-1.0.zip", "/"), "lock-bad-url", "5: artifact[0].urls[0]"),
    "credentials": (
        swap("https://", "https://me:secret@"),
        "lock-credentials-in-url",
        "5: artifact[0].urls[0]",
    ),
    "latest": (swap("org/layer", "org/latest/layer"), "lock-moving-url", "5: artifact[0].urls[0]"),
    "bad artifact id": (swap('id = "layer-1.0"', 'id = "Layer 1"'), "lock-bad-id", "4: artifact[0].id"),
    "bad stack id": (swap('id = "layer-sdk"', 'id = "layer.sdk"'), "lock-bad-id", "19: stack[0].id"),
    "double hyphen": (swap('id = "layer-sdk"', 'id = "layer--sdk"'), "lock-bad-id", "19: stack[0].id"),
    "stack id too long": (swap('id = "layer-sdk"', f'id = "{"a" * 41}"'), "lock-bad-id", "19: stack[0].id"),
    "unknown format": (swap('"zip"', '"rar"'), "lock-unknown-value", "8: artifact[0].format"),
    "unknown trust": (swap('"independent"', '"total"'), "lock-unknown-value", "12: artifact[0].trust"),
    "unknown kind": (swap('"translation"', '"magic"'), "lock-unknown-value", "20: stack[0].kind"),
    "unknown hip source": (swap('"sdk"', '"disk"'), "lock-unknown-value", "23: stack[0].hip.from"),
    "unknown system": (swap('"windows"', '"beos"'), "lock-unknown-value", "24: stack[0].requires.os"),
    "unknown only": (
        swap('"check"', '"sometimes"'),
        "lock-unknown-value",
        "27: stack[0].unset.CUDA_PATH.only",
    ),
    "bad gfx": (swap('"gfx1200"', '"gfx1200:xnack-"'), "lock-bad-gfx", "24: stack[0].requires.gfx[0]"),
    "bad range": (swap(">=6.4,<6.5", "~6.4"), "lock-bad-range", "23: stack[0].hip.range"),
    "wild range": (swap(">=6.4,<6.5", "6.*"), "lock-bad-range", "23: stack[0].hip.range"),
    "impossible range": (swap(">=6.4,<6.5", ">=6.5,<6.4"), "lock-bad-range", "23: stack[0].hip.range"),
    "empty interval": (swap(">=6.4,<6.5", ">=6.4,<6.4"), "lock-bad-range", "23: stack[0].hip.range"),
    "trailing comma in range": (swap(">=6.4,<6.5", ">=6.4,"), "lock-bad-range", "23: stack[0].hip.range"),
    "bad variable": (swap("ZLUDA_CC =", '"ZLUDA CC" ='), "lock-bad-variable", '26: stack[0].env."ZLUDA CC"'),
    "set and removed": (swap("CUDA_PATH", "ZLUDA_CC"), "lock-contradiction", "27: stack[0].unset.ZLUDA_CC"),
    "absolute member": (
        swap('"nvcuda.dll"', '"/nvcuda.dll"'),
        "lock-unsafe-path",
        "14: artifact[0].members[0].path",
    ),
    "member above": (
        swap('"nvcuda.dll"', '"../nvcuda.dll"'),
        "lock-unsafe-path",
        "14: artifact[0].members[0].path",
    ),
    "backslash": (
        swap('"nvcuda.dll"', "'a\\nvcuda.dll'"),
        "lock-unsafe-path",
        "14: artifact[0].members[0].path",
    ),
    "drive": (swap('"nvcuda.dll"', '"c:nvcuda.dll"'), "lock-unsafe-path", "14: artifact[0].members[0].path"),
    "reserved name": (
        swap('"nvcuda.dll"', '"NUL.dll"'),
        "lock-unsafe-path",
        "14: artifact[0].members[0].path",
    ),
    "trailing dot": (
        swap('"nvcuda.dll"', '"nvcuda."'),
        "lock-unsafe-path",
        "14: artifact[0].members[0].path",
    ),
    "root above": (swap('root = "layer"', 'root = "a/../.."'), "lock-unsafe-path", "9: artifact[0].root"),
    "same name twice": (
        swap('"trace/nvcuda.dll"', '"NVCUDA.dll"'),
        "lock-duplicate-name",
        "15: artifact[0].members[1]",
    ),
    "renamed onto another": (
        swap('path = "trace/nvcuda.dll"', 'path = "trace/nvcuda.dll", name = "nvcuda.dll"'),
        "lock-duplicate-name",
        "15: artifact[0].members[1]",
    ),
    "no url": (swap(f"urls = [{URL}]\n", ""), "lock-no-url", "3: artifact[0].urls"),
    "empty urls": (swap(URL, ""), "lock-no-url", "5: artifact[0].urls"),
    "supplied with urls": (swap('"zip"', '"supplied"'), "lock-supplied-with-url", "5: artifact[0].urls"),
    "supplied member without hash": (
        SUPPLIED,
        "lock-supplied-without-sha256",
        "11: artifact[0].members[0].sha256",
    ),
    "supplied without members": (EMPTY, "lock-supplied-without-members", "3: artifact[0].members"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refusal_names_file_line_and_key(name: str) -> None:
    text, reference, where = REFUSALS[name]
    error = refused(text)
    assert (error.reference, error.context[0]) == (reference, f"pins.lock:{where}")


def test_a_refusal_names_the_entry_around_it() -> None:
    assert "in: layer-sdk" in refused(swap('"translation"', '"magic"')).context


NOT_TOML = {
    "syntax": ('version = 1\nid = [\n"a"\nb', "lock-invalid-toml", "pins.lock:4"),
    "unclosed": ("version = 1\n[[artifact", "lock-invalid-toml", "pins.lock:2"),
    "key twice": ("version = 1\nversion = 1\n", "lock-invalid-toml", "pins.lock:2"),
    "too deep": ("version = 1\nx = " + "[" * 9000, "lock-invalid-toml", "pins.lock:1"),
    "byte order mark": (b"\xef\xbb\xbfversion = 1", "lock-byte-order-mark", "pins.lock:1"),
    "utf-16": ("version = 1".encode("utf-16"), "lock-not-utf8", "pins.lock:1"),
    "latin-1": ("version = 1\n# Grüße".encode("latin-1"), "lock-not-utf8", "pins.lock:2"),
}


@pytest.mark.parametrize("name", NOT_TOML)
def test_what_is_no_toml_is_refused_with_its_line(name: str) -> None:
    text, reference, where = NOT_TOML[name]
    error = refused(text)
    assert (error.reference, error.context[0]) == (reference, where)


MOVING = (
    "https://github.com/o/r/releases/latest/download/a.zip",
    "https://example.org/a-latest.zip",
    "https://example.org/a.zip?version=latest",
    "https://github.com/o/r/archive/main.zip",
    "https://github.com/o/r/archive/refs/heads/dev.zip",
    "https://github.com/o/r/raw/master/a.dll",
    "https://github.com/o/r/raw/v1/a.dll",
    "https://example.org/HEAD/a.zip",
    "https://example.org/%6Dain/a.zip",
    "https://raw.githubusercontent.com/o/r/dev/a.dll",
    "https://example.org/a.zip?ref=main",
)
STAYING = (
    "https://github.com/vosen/ZLUDA/releases/download/v6/zluda-windows-3fe1206.zip",
    "https://raw.githubusercontent.com/o/r/0123456789abcdef0123456789abcdef01234567/a.dll",
    "https://github.com/o/r/raw/0123456789abcdef0123456789abcdef01234567/a.dll",
    "https://example.org/translatest/mainline.zip",
    "https://download.pytorch.org/libtorch/cu118/libtorch-2.3.0%2Bcu118.zip",
)
OTHER_FAULTS = {
    "https://example.org/a.zip?token=1": "credentials-in-url",
    "https://example.org/a.zip?X-Amz-Signature=1": "credentials-in-url",
    "https://user@example.org/a.zip": "credentials-in-url",
    "https://example.org/a.zip#sha256=00": "bad-url",
    "https://example.org/a b.zip": "bad-url",
    "https://exämple.org/a.zip": "bad-url",
    "https://example.org:99999/a.zip": "bad-url",
    "https://[::1/a.zip": "bad-url",
    "https:///a.zip": "bad-url",
    "https://example.org": "bad-url",
    "//example.org/a.zip": "bad-url",
    "HTTP://example.org/a.zip": "insecure-url",
    "": "bad-url",
}


@pytest.mark.parametrize("url", MOVING)
def test_a_url_that_moves_is_refused(url: str) -> None:
    problem = url_problem(url)
    assert problem is not None
    assert problem.reference == "moving-url"


@pytest.mark.parametrize("url", STAYING)
def test_a_url_of_one_release_or_commit_is_accepted(url: str) -> None:
    assert url_problem(url) is None


@pytest.mark.parametrize("url", OTHER_FAULTS)
def test_other_faults_of_urls_are_told_apart(url: str) -> None:
    problem = url_problem(url)
    assert problem is not None
    assert problem.reference == OTHER_FAULTS[url]


@given(st.text())
def test_judging_a_url_never_fails(url: str) -> None:
    url_problem(url)


@given(st.binary(max_size=60))
def test_any_bytes_give_a_lock_or_a_refusal(data: bytes) -> None:
    where = "pins.lock:"
    try:
        parse(data)
    except LockError as error:
        where = error.context[0]
    assert where.startswith("pins.lock:")


@given(st.text(max_size=60))
def test_folding_agrees_with_nox(name: str) -> None:
    from nox.sessions import _normalize_path  # noqa: PLC0415 - the rule we mirror

    ascii_name = "".join(c for c in name.lower() if c in "abcdefghijklmnopqrstuvwxyz0123456789-.+")
    folded = nox_name(ascii_name)
    if folded:
        assert _normalize_path("", ascii_name) == folded


HUGE = {
    "decimal": "size = " + "9" * 5_000,
    "hexadecimal": "size = 0x" + "f" * 100_000,
    "64 bits": "size = 9223372036854775808",
    "float": "size = " + "9" * 5_000 + ".0",
}


@pytest.mark.parametrize("line", HUGE.values(), ids=HUGE)
def test_a_number_of_any_length_is_refused(line: str) -> None:
    assert len(refused(swap("size = 12", line)).message) < 200


@pytest.mark.parametrize(
    "line", ["a" + ".a" * 200_000 + " = 1", "[a" + ".a" * 200_000 + "]", "a = {b" + ".b" * 200_000 + " = 1}"]
)
def test_deep_keys_are_refused_at_once(line: str) -> None:
    with in_proportion():
        assert refused(f"version = 1\n{line}\n").reference == "lock-too-deep"


def test_a_lock_has_a_size(tmp_path: Path) -> None:
    assert refused(b"#" * (2 * 1024**2 + 1)).reference == "lock-too-large"
    path = tmp_path / "pins.lock"
    path.write_bytes(b"#" * (2 * 1024**2 + 1))
    with pytest.raises(LockError, match="larger than"):
        read_lock(path)


@pytest.mark.posix_only
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_lock_that_is_a_pipe_or_an_endless_device_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "pins.lock"
    os.mkfifo(path) if kind == "pipe" else path.symlink_to("/dev/zero")
    with pytest.raises(LockError, match="not a regular file"):
        read_lock(path)


OBEYED = re.findall(
    r"\w+",
    """
    LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT DYLD_INSERT_LIBRARIES PATH Path PYTHONPATH PYTHONSTARTUP PYTHONHOME
    PYTHONBREAKPOINT COR_PROFILER CORECLR_ENABLE_PROFILING CORECLR_PROFILER_PATH DOTNET_STARTUP_HOOKS
    JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS NODE_OPTIONS PERL5OPT PERL5LIB RUBYOPT RUBYLIB BASH_ENV
    ENV CUDA_INJECTION64_PATH HSA_TOOLS_LIB ROCP_TOOL_LIB VK_LAYER_PATH LIBGL_DRIVERS_PATH OCL_ICD_FILENAMES
    GCONV_PATH QT_PLUGIN_PATH GIT_SSH_COMMAND CUDA_PATH HIP_PATH ROCM_PATH CUDA_AMD_LOCK COMSPEC SystemRoot
    """,
)


@pytest.mark.parametrize("name", OBEYED)
def test_a_lock_sets_no_variable_that_runs_code(name: str) -> None:
    error = refused(swap("ZLUDA_CC =", f"{name} ="))
    assert (error.code, error.reference) == (ExitCode.LOCK, "lock-loader-variable")
    assert error.context[0].endswith(f": stack[0].env.{name}")


@pytest.mark.parametrize(
    "value", ["/srv/x", "C:\\\\x", "..\\\\x", "evil.so", "evil.dll", "$HOME", "%TEMP%", "a/b"]
)
def test_a_lock_sets_no_variable_to_a_file(value: str) -> None:
    assert refused(swap('"8.6"', f'"{value}"')).reference == "lock-loader-variable"


PLAIN = {
    "ZLUDA_CC": "8.6",
    "HSA_OVERRIDE_GFX_VERSION": "11.0.0",
    "HIP_VISIBLE_DEVICES": "0,1",
    "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
    "ROCR_VISIBLE_DEVICES": "",
}


@pytest.mark.parametrize(("name", "value"), PLAIN.items())
def test_a_lock_sets_what_a_layer_reads(name: str, value: str) -> None:
    text = swap('ZLUDA_CC = { value = "8.6"', f'{name} = {{ value = "{value}"')
    assert [p.value for p in parse(text).stacks["layer-sdk"].env if p.name == name] == [value]


def test_a_missing_lock_is_named(tmp_path: Path) -> None:
    with pytest.raises(LockError) as caught:
        read_lock(tmp_path / "pins.lock")
    assert caught.value.reference == "lock-not-found"
    assert "CUDA_AMD_LOCK" in caught.value.hint


def test_a_folder_is_no_lock(tmp_path: Path) -> None:
    with pytest.raises(LockError) as caught:
        read_lock(tmp_path)
    assert caught.value.reference == "lock-unreadable"


def test_a_custom_lock_is_named_by_its_whole_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.lock"
    path.write_text("version = 9\n", encoding="utf-8")
    with pytest.raises(LockError) as caught:
        read_lock(path, custom=True)
    assert caught.value.context[0] == f"{path}:1: version"
