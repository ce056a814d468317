"""Files that people name, or that programs left, are read within a bound, however much there is."""

from __future__ import annotations

import errno
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from scripts.app import doctor
from scripts.app.context import workspace_from_environ
from scripts.app.doctor_look import MAX_RECORD, _records
from scripts.app.report import LOG_END, _logs
from scripts.app.wrap_plan import MOST_ARGS, WrapRequest, _arguments
from scripts.bench import trials, workloads
from scripts.errors import UsageError
from scripts.evidence import evidence_io, tracelog
from scripts.lock import reader
from scripts.net import github
from scripts.osal import fs, paths
from scripts.osal.fs import read_bounded, read_end
from scripts.osal.text import MOST_DIGITS
from scripts.placement import journal
from scripts.serialize import MOST_DEPTH
from scripts.staging import state_folder
from scripts.store import fetch, tar_reader, zip_reader
from scripts.store.entries import Limits
from tests.test_bombs import MOST_MEMORY

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "threat-model.md").read_text(encoding="utf-8")
KIB, MIB, GIB = 1024, 1024**2, 1024**3
LIMITS = Limits()
#: Every bound that docs/threat-model.md names, written from the code.
BOUNDS = {
    "all that an archive unpacks to, a tar's headers, padding and zeros included": (
        f"{LIMITS.floor // MIB} MiB + {LIMITS.ratio} times its packed size, "
        f"never more than {LIMITS.total // GIB} GiB"
    ),
    "files and folders of an archive, implied ones included": (
        f"{paths.MAX_NAMES:,}, at most {paths.MAX_DEPTH} deep, {paths.MAX_PATH:,} characters a path, "
        f"{paths.MAX_COMPONENT} bytes a name"
    ),
    "a zip's directory": (
        f"{zip_reader._MOST_DIRECTORY // MIB} MiB before it is parsed, "
        f"{zip_reader._MOST_EXTRA // KIB} KiB of extra fields an entry"
    ),
    "a tar member's extended headers": f"{tar_reader._MOST_HEADER // MIB} MiB together",
    "a number in a header, of a tar, a server or a lock": f"{MOST_DIGITS} digits",
    "`pins.lock`": f"{reader.MOST_BYTES // MIB} MiB, {MOST_DEPTH} levels, a regular file",
    "release metadata": f"{github.MAX_ANSWER // MIB} MiB",
    "arguments, records, workloads and logs that a person names": (
        f"{MOST_ARGS // MIB}, {trials.MAX_BYTES // MIB}, {workloads.MOST_BYTES // MIB} and "
        f"{2 * doctor.HALF // MIB} MiB; of a longer log file both ends"
    ),
    "what programs leave: packages' lists, logs for a bundle": (
        f"{MAX_RECORD // MIB} MiB, the last {LOG_END // MIB} MiB of each"
    ),
    "a download of unpublished size": f"{fetch.MAX_UNKNOWN_SIZE // GIB} GiB",
    "a trace: kinds of failure, refused functions, pieces of device code that are listed": (
        f"{tracelog.MAX_FAILURES:,}, {tracelog.MAX_REFUSED:,}, {tracelog.MAX_LOADS:,}; all are counted"
    ),
    "a pattern in a workload's description": f"{workloads.SEARCH_SECONDS:.0f} s for the output of a run",
}
#: Bounds in other sentences of the page.
SENTENCES = (
    f"Unpacking needs at most {MOST_MEMORY // 1_000_000} MB of memory",
    f"entries up to {state_folder.LONGEST // KIB} KiB, journals up to {journal.LONGEST // MIB} MiB",
    f"schema, {evidence_io.MAX_BYTES // MIB} MiB ({trials.MAX_BYTES // MIB} MiB for records)",
)


def arguments(path: Path) -> object:
    return _arguments(path.parent, WrapRequest(exe="x", args_file=str(path)))


#: What a person names, how it is read, how much of it, and the reference of the refusal.
NAMED: dict[str, tuple[Callable[[Path], object], int, str]] = {
    "--args-file": (arguments, MOST_ARGS, "args-file-unreadable"),
    "a record": (trials.read_record, trials.MAX_BYTES, "record-unreadable"),
    "a table": (trials.read_table, trials.MAX_BYTES, "record-unreadable"),
    "a workload": (workloads.read_own_workload, workloads.MOST_BYTES, "workload-unreadable"),
}


def test_the_bounds_of_the_page_are_those_of_the_code() -> None:
    table = PAGE.partition("## Bounds")[2].partition("\n## ")[0]
    rows = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("|")][2:]
    assert {name.strip(): bound.strip() for name, bound in rows} == BOUNDS
    assert [sentence for sentence in SENTENCES if sentence not in PAGE] == []


def enormous(path: Path, size: int) -> Path:
    """Make a file of that size, which takes no room where the file system leaves holes."""
    path.touch()
    os.truncate(path, size)
    return path


@pytest.mark.parametrize("what", NAMED)
def test_a_named_file_that_is_too_large_is_a_sentence(tmp_path: Path, what: str) -> None:
    read, most, reference = NAMED[what]
    with pytest.raises(UsageError) as caught:
        read(enormous(tmp_path / "file", most + 1))
    assert caught.value.reference == reference
    assert f"larger than {most:,} bytes" in f"{caught.value.message} {caught.value.context}"


@pytest.mark.posix_only
@pytest.mark.parametrize("what", NAMED)
def test_a_device_without_an_end_is_a_sentence(what: str) -> None:
    read, _most, reference = NAMED[what]
    with pytest.raises(UsageError) as caught:
        read(Path("/dev/zero"))
    assert caught.value.reference == reference


@pytest.mark.posix_only
def test_arguments_may_come_through_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(b'["--size", "64"]'))
    writer.start()
    assert arguments(pipe) == ("--size", "64")
    writer.join()


@pytest.mark.posix_only
@pytest.mark.parametrize("what", NAMED)
def test_a_pipe_that_no_program_writes_to_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Without a bound this test does not end."""
    monkeypatch.setattr(fs, "PATIENCE", 0.1)
    read, _most, reference = NAMED[what]
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError) as caught:
        read(tmp_path / "pipe")
    assert caught.value.reference == reference
    assert "a pipe that no program writes to" in f"{caught.value.message} {caught.value.context}"


@pytest.mark.posix_only
def test_a_pipe_may_be_slow_and_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an open pipe will hold is waited for, however late it comes."""
    monkeypatch.setattr(fs, "PATIENCE", 0.1)
    ours, theirs = os.pipe()

    def write() -> None:
        time.sleep(0.3)
        os.write(theirs, b'["' + b"a" * 60_000)
        time.sleep(0.3)
        os.write(theirs, b'"]')
        os.close(theirs)

    writer = threading.Thread(target=write)
    writer.start()
    assert arguments(Path(f"/dev/fd/{ours}")) == ("a" * 60_000,)
    writer.join()
    os.close(ours)


@pytest.mark.posix_only
def test_the_doctor_says_what_it_waits_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "SLOW", 0.01)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    notes: list[str] = []

    def note(text: str) -> None:
        notes.append(text)
        writer.start()

    writer = threading.Thread(target=lambda: pipe.write_bytes(b"CUDA error 700"))
    assert doctor._read(str(pipe), note) == b"CUDA error 700"
    writer.join()
    assert notes == [f"waiting for {pipe}"]


def test_what_is_not_named_for_reading_must_be_a_file(tmp_path: Path) -> None:
    for read in (read_bounded, read_end):
        with pytest.raises(OSError, match="not a regular file") as caught:
            read(tmp_path, 10)
        assert caught.value.errno == errno.EINVAL
    if sys.platform != "win32":
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(OSError, match="not a regular file"):
            read_end(tmp_path / "pipe", 10)


def test_of_a_long_file_the_end_is_read(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"a" * 1_000_000 + b"the end")
    assert read_end(tmp_path / "log", 7) == b"the end"
    assert len(read_end(tmp_path / "log", 2_000_000)) == 1_000_007
    assert read_bounded(tmp_path / "log", 1_000_007).endswith(b"the end")


def test_the_doctor_reads_both_ends_of_a_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "HALF", 10)
    for size, seen in ((5, 5), (10, 10), (15, 15), (20, 20), (99, 20)):
        text = bytes(range(size))
        (tmp_path / "log").write_bytes(text)
        assert doctor._read(str(tmp_path / "log")) == text[:10] + text[10:][-10:]
        assert len(doctor._read(str(tmp_path / "log"))) == seen


@pytest.mark.posix_only
def test_the_doctor_reads_no_endless_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "HALF", 1000)
    with pytest.raises(UsageError) as caught:
        doctor._read("/dev/zero")
    assert caught.value.reference == "log-unreadable"
    assert "write it to a file first" in caught.value.context[0]


def test_the_list_of_a_package_is_read_within_a_bound(tmp_path: Path) -> None:
    for name, size in (("torch-1.dist-info", MAX_RECORD + 1), ("torch-2.dist-info", 0)):
        (tmp_path / name).mkdir()
        enormous(tmp_path / name / "RECORD", size)
    with (tmp_path / "torch-2.dist-info" / "RECORD").open("w", encoding="utf-8") as record:
        record.write("torch/lib/cublas64_12.dll,sha256=AAAA,7\n")
    assert _records({tmp_path}) == {"torch/lib/cublas64_12.dll": "000000"}


def test_a_bundle_takes_the_end_of_an_enormous_log(tmp_path: Path) -> None:
    ws = workspace_from_environ({"CUDA_AMD_STATE": str(tmp_path / "state")}, root=tmp_path)
    logs = tmp_path / "stage" / "logs"
    logs.mkdir(parents=True)
    with enormous(logs / "20261201-wrap.log", LOG_END + 1000).open("ab") as log:
        log.write(b"the end")
    [(name, raw)] = _logs(ws)
    assert name == "logs/20261201-wrap.log"
    assert (len(raw), raw[-7:]) == (LOG_END, b"the end")
