"""Files that a person names for output: never a program or a file of ours, never replaced by another kind."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from scripts.app.context import workspace_from_environ
from scripts.app.validate import validate
from scripts.errors import LaunchError, UsageError
from scripts.launch.program import find_program
from scripts.osal import named_output
from scripts.osal.fs import long_path
from scripts.osal.named_output import check_output, is_plain, open_output, write_output
from scripts.osal.output_log import Log
from scripts.osal.paths import device_of, home_folder, plain_spelling, unquoted, user_path
from scripts.preflight.packaging import is_shared
from tests.checkout import Checkout
from tests.pe_files import pe

ROOT = Path(__file__).resolve().parents[1]


def log_to(path: Path, data: bytes) -> None:
    log = Log(path, 1 << 20)
    log.write(data)
    log.close()
    assert not log.note


WRITERS: dict[str, Callable[[Path, bytes], None]] = {"report": write_output, "log": log_to}


@pytest.fixture(params=WRITERS)
def write(request: pytest.FixtureRequest) -> Callable[[Path, bytes], None]:
    return WRITERS[request.param]


def test_a_new_file_is_made(tmp_path: Path, write: Callable[[Path, bytes], None]) -> None:
    write(tmp_path / "out", b"new")
    assert (tmp_path / "out").read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.posix_only
def test_an_existing_file_keeps_its_mode_owner_and_names(
    tmp_path: Path, write: Callable[[Path, bytes], None]
) -> None:
    path, second = tmp_path / "out", tmp_path / "second name"
    path.write_bytes(b"something longer than before")
    path.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(path, 12345, 12345)
    second.hardlink_to(path)
    before = path.stat()
    write(path, b"new")
    after = path.stat()
    assert second.read_bytes() == path.read_bytes() == b"new"
    kept = ("st_mode", "st_uid", "st_gid", "st_ino", "st_nlink")
    assert [getattr(before, name) for name in kept] == [getattr(after, name) for name in kept]


@pytest.mark.posix_only
def test_the_mode_of_a_file_of_ours_is_kept(tmp_path: Path, write: Callable[[Path, bytes], None]) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"old")
    path.chmod(0o604)
    write(path, b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o604


@pytest.mark.posix_only
@pytest.mark.parametrize("dangling", [True, False])
def test_a_link_is_followed_and_stays(
    tmp_path: Path, write: Callable[[Path, bytes], None], dangling: bool
) -> None:
    real, link = tmp_path / "folder" / "real", tmp_path / "link"
    real.parent.mkdir()
    if not dangling:
        real.write_bytes(b"old")
    link.symlink_to(Path("folder") / "real")
    write(link, b"new")
    assert link.is_symlink()
    assert real.read_bytes() == b"new"


@pytest.mark.posix_only
@pytest.mark.parametrize("through_link", [True, False])
def test_a_pipe_is_written_to_and_stays_a_pipe(
    tmp_path: Path, write: Callable[[Path, bytes], None], through_link: bool
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o640)
    named = tmp_path / "link" if through_link else pipe
    if through_link:
        named.symlink_to(pipe)
    heard: list[bytes] = []
    reader = threading.Thread(target=lambda: heard.append(pipe.read_bytes()))
    reader.start()
    write(named, b"x" * 300_000)
    reader.join(20)
    assert heard == [b"x" * 300_000]
    assert stat.S_ISFIFO(pipe.lstat().st_mode)
    assert stat.S_IMODE(pipe.lstat().st_mode) == 0o640


@pytest.mark.posix_only
def test_a_pipe_that_nothing_reads_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named_output, "PIPE_WAIT", 0.2)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="nothing reads"):
        write_output(pipe, b"x")
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    log = Log(pipe, 1 << 30)
    log.write(b"x" * 2_000_000)
    assert "incomplete" in log.note
    log.close()
    os.close(reader)


def make_device(path: Path, number: tuple[int, int], kind: int = stat.S_IFCHR) -> None:
    """Make a node of a device in a folder of the test's own."""
    try:
        os.mknod(path, kind | 0o622, os.makedev(*number))
        path.chmod(0o622)
        os.close(os.open(path, os.O_WRONLY)) if kind == stat.S_IFCHR else None
    except OSError:
        pytest.skip("devices cannot be made or used here")


@pytest.mark.posix_only
@pytest.mark.parametrize("through_link", [True, False])
def test_a_device_is_written_to_and_stays_a_device(
    tmp_path: Path, write: Callable[[Path, bytes], None], through_link: bool
) -> None:
    device = tmp_path / "null"
    make_device(device, (1, 3))
    named = tmp_path / "link" if through_link else device
    if through_link:
        named.symlink_to(device)
    before = device.lstat()
    check_output(named, "--report")
    write(named, b"x" * 100_000)
    after = device.lstat()
    assert (before.st_mode, before.st_rdev, before.st_ino) == (after.st_mode, after.st_rdev, after.st_ino)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted({"null", named.name})


@pytest.mark.posix_only
def test_a_full_device_is_said_and_stays(tmp_path: Path) -> None:
    device = tmp_path / "full"
    make_device(device, (1, 7))
    with pytest.raises(OSError, match="space"):
        write_output(device, b"x")
    log = Log(device, 100)
    log.write(b"x")
    assert "space" in log.note
    log.close()
    assert stat.S_ISCHR(device.lstat().st_mode)


@pytest.mark.posix_only
def test_a_disk_is_refused_unopened(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    make_device(disk, (240, 99), stat.S_IFBLK)
    assert refused(disk) == "--log names a disk or another block device"


@pytest.mark.posix_only
@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_our_own_streams_are_written_where_they_are(tmp_path: Path, name: str) -> None:
    code = (
        "import sys; from pathlib import Path; from scripts.osal.named_output import *\n"
        "sys.stdout.write('before '); sys.stdout.flush()\n"
        f"check_output(Path({name!r}), '--report'); write_output(Path({name!r}), b'between ')\n"
        "sys.stdout.write('after')\n"
    )
    with (tmp_path / "redirected").open("wb") as file:
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, stdout=file, check=True)
    assert (tmp_path / "redirected").read_bytes() == b"before between after"


@pytest.mark.posix_only
def test_a_descriptor_that_is_not_open_is_refused() -> None:
    assert "not open" in refused(Path("/dev/fd/999"))


def refused(path: Path, **more: object) -> str:
    with pytest.raises(UsageError) as caught:
        check_output(path, "--log", **more)  # type: ignore[arg-type]  # by name
    assert caught.value.reference == "bad-output"
    return caught.value.message


@pytest.mark.parametrize(
    "name", ["nvcuda.dll", "libcuda.so", "libcuda.so.1", "libx.so.12.4", "A.EXE", "x.pyd", "y.sys"]
)
def test_the_name_of_a_library_is_refused_also_where_none_lies(tmp_path: Path, name: str) -> None:
    assert "program or library" in refused(tmp_path / name)


@pytest.mark.parametrize("data", [pe(dll=True), b"\x7fELF\2\1\1" + bytes(60)], ids=["pe", "elf"])
def test_a_program_or_library_is_refused_by_its_first_bytes(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "tool").write_bytes(data)
    assert "program or library" in refused(tmp_path / "tool")
    assert (tmp_path / "tool").read_bytes() == data


def test_what_is_taken_is_refused_by_every_name(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text("#!/bin/sh\n", encoding="utf-8")
    names = [script, tmp_path / "x" / ".." / "run.sh"]
    (tmp_path / "x").mkdir()
    (tmp_path / "hard").hardlink_to(script)
    names.append(tmp_path / "hard")
    if sys.platform != "win32":
        (tmp_path / "soft").symlink_to(script)
        names.append(tmp_path / "soft")
    for name in names:
        assert refused(name, taken={"the program itself": script}) == "--log is the program itself"


@pytest.mark.parametrize("name", [".cuda-amd/journal", ".cuda-amd/lock", ".cuda-amd/new.json", ".CUDA-AMD/x"])
def test_the_record_of_a_placement_is_refused(tmp_path: Path, name: str) -> None:
    assert "remembers a placement" in refused(tmp_path / name)


def test_the_store_is_refused(tmp_path: Path) -> None:
    assert "the store" in refused(tmp_path / "cache" / "x", trees={"the store": tmp_path / "cache"})
    check_output(tmp_path / "cachet", "--log", trees={"the store": tmp_path / "cache"})


@pytest.mark.parametrize("name", ["report.json", "log", "a.b.txt", "größe.json", "so", "x.sol", "my.source"])
def test_ordinary_names_are_taken(tmp_path: Path, name: str) -> None:
    check_output(tmp_path / name, "--report", taken={"x": tmp_path / "other"}, trees={"y": tmp_path / "z"})
    assert is_plain(tmp_path / name)


@pytest.mark.proof
@pytest.mark.parametrize("option", ["report", "log"])
@pytest.mark.parametrize("victim", ["program", "argument", "lock", "library"])
@pytest.mark.posix_only
def test_wrap_writes_over_nothing_that_it_reads(
    ready: Checkout, tmp_path: Path, option: str, victim: str
) -> None:
    program, argument, library = tmp_path / "A", tmp_path / "train.py", tmp_path / "libown.so.1"
    program.write_text("#!/bin/sh\nexit 5\n", encoding="utf-8")
    program.chmod(0o755)
    argument.write_text("print()\n", encoding="utf-8")
    library.write_bytes(b"a library")
    files = {"program": program, "argument": argument, "library": library, "lock": ready.root / "pins.lock"}
    path = files[victim]
    before = path.read_bytes(), path.stat().st_mode
    done = ready.run("wrap", f"--exe={program}", f"--{option}={path}", "--", str(argument))
    assert done.returncode == 121, done.stderr
    assert "bad-output" in done.stderr
    assert (path.read_bytes(), path.stat().st_mode) == before


@pytest.mark.parametrize("victim", ["program", "lock", "history", "library", "journal", "store", "folder"])
def test_validate_writes_over_nothing_that_it_reads(tmp_path: Path, victim: str) -> None:
    environ = {"CUDA_AMD_CACHE": str(tmp_path / "store"), "CUDA_AMD_STATE": str(tmp_path / "state")}
    ws = workspace_from_environ(environ, root=tmp_path)
    files = {
        "program": tmp_path / "A",
        "lock": tmp_path / "pins.lock",
        "history": tmp_path / "stage" / "generations.json",
        "library": tmp_path / "nvcuda.dll",
        "journal": tmp_path / ".cuda-amd" / "journal",
        "store": tmp_path / "store" / "x",
    }
    for path in files.values():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"before")
        path.chmod(0o755)
    with pytest.raises(UsageError) as caught:
        validate(ws, exe=str(files["program"]), report=str(files.get(victim, tmp_path.anchor)))
    assert caught.value.reference == "bad-output"
    assert {path.read_bytes() for path in files.values()} == {b"before"}


@pytest.mark.slow
@pytest.mark.posix_only
def test_validate_reports_into_a_device(checkout: Checkout, tmp_path: Path) -> None:
    null = tmp_path / "null"
    make_device(null, (1, 3))
    done = checkout.run("validate", "--stack=native-cuda", f"--report={null}")
    assert done.returncode == 50, done.stderr
    assert stat.S_ISCHR(null.lstat().st_mode)


@pytest.mark.slow
@pytest.mark.posix_only
def test_wrap_reports_into_a_pipe_and_logs_to_a_device(ready: Checkout, tmp_path: Path) -> None:
    program, pipe, null = tmp_path / "A", tmp_path / "pipe", tmp_path / "null"
    program.write_text("#!/bin/sh\necho said\nexit 5\n", encoding="utf-8")
    program.chmod(0o755)
    os.mkfifo(pipe)
    make_device(null, (1, 3))
    heard: list[bytes] = []
    reader = threading.Thread(target=lambda: heard.append(pipe.read_bytes()), daemon=True)
    reader.start()
    done = ready.run("wrap", f"--exe={program}", f"--report={pipe}", f"--log={null}")
    reader.join(20)
    assert done.returncode == 5, done.stderr
    assert json.loads(heard[0])["exit_code"] == 5
    assert stat.S_ISFIFO(pipe.lstat().st_mode)
    assert stat.S_ISCHR(null.lstat().st_mode)
    assert stat.S_IMODE(null.lstat().st_mode) == 0o622


# Paths as people type them --------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["a\0b", "", "x" * 5000, "\ud800x" if sys.platform != "win32" else "\0"])
def test_what_is_no_path_is_a_sentence(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        user_path(text, "--report")
    assert caught.value.reference == "bad-path"
    assert caught.value.message.startswith("--report ")


@pytest.mark.posix_only
def test_a_deleted_current_folder_is_a_sentence(tmp_path: Path) -> None:
    code = (
        "import os, sys\nfrom scripts.osal.paths import user_path\n"
        "from scripts.errors import UsageError\n"
        "os.chdir(sys.argv[1]); os.rmdir(sys.argv[1])\n"
        "try:\n    user_path('x', '--report')\nexcept UsageError as error:\n    print(error.reference)\n"
    )
    (tmp_path / "gone").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "gone")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.stdout == "no-current-folder\n"


def test_a_tilde_that_the_shell_left_means_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path))
    assert user_path("~/out.json", "--report") == tmp_path / "out.json"


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ('"a b"', "a b"),
        ("'a b'", "a b"),
        (' "a" ', "a"),
        ("a b", "a b"),
        ('"', '"'),
        ("it's", "it's"),
        ("", ""),
    ],
)
def test_quotes_around_a_whole_value_are_taken_away(text: str, meant: str) -> None:
    assert unquoted(text) == meant


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("\\\\?\\C:\\windows\\system32", "C:\\windows\\system32"),
        ("\\\\.\\C:\\windows", "C:\\windows"),
        ("\\??\\C:\\windows", "C:\\windows"),
        ("//?/C:/windows", "C:\\windows"),
        ("\\\\?\\UNC\\server\\share\\x", "\\\\server\\share\\x"),
        ("\\\\?\\unc\\server\\share", "\\\\server\\share"),
        ("\\\\.\\PhysicalDrive0", "\\\\.\\PhysicalDrive0"),
        ("\\\\?\\Volume{0}\\x", "\\\\?\\Volume{0}\\x"),
        ("C:\\x", "C:\\x"),
        ("\\\\server\\share", "\\\\server\\share"),
    ],
)
def test_a_windows_path_has_one_plain_spelling(text: str, plain: str) -> None:
    assert plain_spelling(text) == plain
    assert plain_spelling(plain) == plain


@pytest.mark.parametrize(
    ("name", "device"),
    [
        ("NUL", "NUL"),
        ("nul.txt", "NUL"),
        ("Con", "CON"),
        ("COM1", "COM1"),
        ("com\u00b9.log", "COM\u00b9"),
        ("LPT9:", "LPT9"),
        ("aux .x", "AUX"),
        ("conout$", "CONOUT$"),
        ("console", ""),
        ("com10", ""),
        ("nulls", ""),
        ("", ""),
    ],
)
def test_names_of_windows_devices_are_known(name: str, device: str) -> None:
    assert device_of(name) == device


def test_the_log_of_a_new_file_is_private(tmp_path: Path) -> None:
    os.close(open_output(tmp_path / "log", mode=0o600))
    if sys.platform != "win32":
        assert stat.S_IMODE((tmp_path / "log").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "text",
    [
        "C:\\",
        "C:",
        "\\\\srv\\share\\",
        "\\\\?\\C:\\",
        "NUL",
        "nul.exe",
        "COM1",
        "x\\con",
        "\\\\.\\PhysicalDrive0",
    ],
)
def test_a_drive_a_share_or_a_device_is_no_program(tmp_path: Path, text: str) -> None:
    with pytest.raises(LaunchError) as caught:
        find_program(text, cwd=tmp_path, search=lambda _name: None, platform="win32")
    assert caught.value.reference == "not-a-file"


def deep_program(tmp_path: Path) -> Path:
    program = tmp_path.joinpath(*["d" * 60] * 5, "p.exe")
    long_path(program.parent).mkdir(parents=True)
    long_path(program).write_bytes(b"")
    return program


def test_a_program_deeper_than_windows_starts_is_a_sentence(tmp_path: Path) -> None:
    program = deep_program(tmp_path)
    for short in (None, "C:\\" + "d" * 300):
        with pytest.raises(LaunchError) as caught:
            find_program(
                str(program),
                cwd=tmp_path,
                search=lambda _name: None,
                platform="win32",
                short_name=lambda _path, short=short: short,
            )
        assert caught.value.reference == "path-too-long"
        assert f"has {len(str(program))} characters" in caught.value.message


def test_a_program_in_a_deep_folder_is_started_by_the_folders_short_name(tmp_path: Path) -> None:
    program = deep_program(tmp_path)
    found = find_program(
        str(program),
        cwd=tmp_path,
        search=lambda _name: None,
        platform="win32",
        short_name=lambda path: "C:\\D~1" if path == program.parent else None,
    )
    assert str(found) == "C:\\D~1\\p.exe"


def test_a_deep_program_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(LaunchError) as caught:
        find_program("/".join(["d" * 60] * 5), cwd=tmp_path, search=lambda _name: None, platform="win32")
    assert caught.value.reference == "program-not-found"


@pytest.mark.parametrize("text", ["a\0b", "x" * 5000])
def test_a_program_that_is_no_path_is_a_sentence(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        find_program(text, cwd=tmp_path, search=lambda _name: None, platform=sys.platform)
    assert caught.value.reference == "bad-path"


def test_quotes_around_a_program_are_taken_away(tmp_path: Path) -> None:
    (tmp_path / "my app").write_bytes(b"")
    found = find_program('"my app"', cwd=tmp_path, search=lambda _name: None, platform="linux")
    assert found == tmp_path / "my app"


def test_quotes_around_our_own_variables_are_taken_away(tmp_path: Path) -> None:
    environ = {name: f'"{tmp_path / name}"' for name in ("CUDA_AMD_CACHE", "CUDA_AMD_STATE", "CUDA_AMD_LOCK")}
    ws = workspace_from_environ(environ, root=tmp_path)
    assert (ws.cache_root, ws.state_root) == (tmp_path / "CUDA_AMD_CACHE", tmp_path / "CUDA_AMD_STATE")
    assert ws.lock_path == tmp_path / "CUDA_AMD_LOCK"


def test_an_environment_without_a_home_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> Path:
        msg = "Could not determine home directory."
        raise RuntimeError(msg)

    monkeypatch.setattr(Path, "home", nowhere)
    assert home_folder() is None
    assert not is_shared(ROOT / "some program")
    monkeypatch.setattr(Path, "expanduser", lambda _path: nowhere())
    with pytest.raises(UsageError):
        user_path("~nobody-here/x", "--report")
