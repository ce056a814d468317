"""Files that people name, or that programs left, are read within a bound, however much there is."""

from __future__ import annotations

import errno
import os
import sys
import threading
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
from scripts.osal.fs import read_bounded, read_end


def arguments(path: Path) -> object:
    return _arguments(path.parent, WrapRequest(exe="x", args_file=str(path)))


#: What a person names, how it is read, how much of it, and the reference of the refusal.
NAMED: dict[str, tuple[Callable[[Path], object], int, str]] = {
    "--args-file": (arguments, MOST_ARGS, "args-file-unreadable"),
    "a record": (trials.read_record, trials.MAX_BYTES, "record-unreadable"),
    "a table": (trials.read_table, trials.MAX_BYTES, "record-unreadable"),
    "a workload": (workloads.read_own_workload, workloads.MOST_BYTES, "workload-unreadable"),
}


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
