"""Facts decide where one message has several causes; any size and encoding of a log is read."""

from __future__ import annotations

import random
import re
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from scripts.doctor import log_sampling as reading
from scripts.doctor.diagnose import MOST, diagnose
from scripts.doctor.knowledge import Confidence, knowledge
from scripts.doctor.log_sampling import plain
from scripts.doctor.log_sampling import sample_log as read
from scripts.doctor.machine import Facts, holds, with_text

TENSILE = (
    "rocBLAS error: Cannot read C:\\ROCm\\6.2\\bin\\/rocblas/library/TensileLibrary.dat: "
    "No such file or directory for GPU arch : gfx1031"
)
NO_DEVICE = 'checkHipErrors() HIP API error = 0100 "no ROCm-capable device is detected"'
IMAGE = "torch.AcceleratorError: HIP error: device kernel image is invalid"
NO_CUBLAS = "Error loading torch\\lib\\cublas64_11.dll"
RADEON = Facts(os="windows", amd=True, gfx=("gfx1100",), mixed=False, hip=("6.4.2",))


def first(text: str | bytes, facts: Facts | None = None) -> str:
    found = diagnose(text, facts)
    return found[0].reference if found else ""


@pytest.mark.parametrize(
    ("text", "facts", "expected"),
    [
        (NO_DEVICE, replace(RADEON, gfx=("gfx906",), hip=("7.2",)), "arch-libraries"),
        (NO_DEVICE, replace(RADEON, mixed=True), "wrong-device"),
        (NO_DEVICE, replace(RADEON, variables=frozenset({"HIP_VISIBLE_DEVICES"})), "wrong-device"),
        (NO_CUBLAS, replace(RADEON, overwritten=True), "overwritten-library"),
        (NO_CUBLAS, replace(RADEON, overwritten=False), "missing-dll"),
        (NO_CUBLAS, replace(RADEON, vanished=True), "antivirus"),
        (f"{TENSILE[:-8]}gfx1036", replace(RADEON, gfx=("gfx1100", "gfx1036"), mixed=True), "wrong-device"),
        (f"{TENSILE[:-8]}gfx1036", replace(RADEON, gfx=("gfx1036",), mixed=False), "arch-libraries"),
        (IMAGE, replace(RADEON, mixed=True), "wrong-device"),
        (IMAGE, replace(RADEON, gfx=("gfx1034",)), "arch-libraries"),
        (
            "OSError: exception: access violation reading 0x000000C3FF1F0000",
            replace(RADEON, non_ascii=True),
            "path-encoding",
        ),
    ],
    ids=[
        "no device, old GPU", "no device, two GPUs", "no device, filtered", "DLL replaced",
        "DLL not replaced", "DLL taken away", "no kernels, inner GPU of two", "no kernels, one GPU",
        "code of another GPU of two", "code of another GPU", "access violation, odd folder",
    ],
)  # fmt: skip
def test_the_machine_decides_where_one_message_has_several_causes(
    text: str, facts: Facts, expected: str
) -> None:
    assert first(text, facts) == expected


def test_without_facts_the_answer_lists_what_would_tell() -> None:
    found = diagnose(NO_DEVICE)
    assert len(found) > 1
    assert all(finding.tell for finding in found)
    decided = diagnose(NO_DEVICE, replace(RADEON, mixed=True))[0]
    assert decided.tell == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("OSError: [WinError 126] Das angegebene Modul wurde nicht gefunden: nvcuda.dll", "missing-dll"),
        ("OSError: [WinError 126] Le module spécifié est introuvable. D:\\zluda\\cublas.dll", "missing-dll"),
        ("[WinError 126] Не найден указанный модуль. Error loading nvrtc64_112_0.dll", "missing-dll"),
        ("LoadLibraryExW failed (0x7e) for amdhip64_7.dll", "missing-dll"),
        ("[WinError 193] %1 ist keine zulässige Win32-Anwendung (zluda)", "runtime-or-bitness"),
        ("OSError: [WinError 193] %1 不是有效的 Win32 应用程序。 zluda.exe", "runtime-or-bitness"),
        ("zluda: process exited with -1073741701", "runtime-or-bitness"),
        ("[WinError 1114] Eine DLL-Initialisierungsroutine ist fehlgeschlagen: zluda", "runtime-or-bitness"),
        ("LoadLibrary failed with error 998 zluda_redirect.dll os error 998", "runtime-or-bitness"),
        ("Der Prozedureinsprungpunkt hipDeviceSetLimit wurde in nvcuda.dll nicht gefunden", "driver-version"),
        ("zluda ended with 0xC0000139", "driver-version"),
        ("[WinError 225] zluda.zip", "antivirus"),
        ("CUDA_ERROR_NO_BINARY_FOR_GPU (209) at zluda", "unsupported-call"),
        ("HIP error: invalid device function", "arch-libraries"),
        ("cuLaunchKernelEx returned 801 (zluda)", "unsupported-call"),
        ("RuntimeError: cuDNN error: CUDNN_STATUS_NOT_INITIALIZED [ZLUDA]", "cudnn-miopen"),
        ("HIP error: invalid device ordinal", "wrong-device"),
        ("SSL: CERTIFICATE_VERIFY_FAILED certificate verify failed: zluda.zip", "download-failed"),
        ("zipfile.BadZipFile: File is not a zip file: zluda.zip", "download-failed"),
    ],
)  # fmt: skip
def test_numbers_are_read_in_any_language(text: str, expected: str) -> None:
    assert first(text) == expected


@pytest.mark.parametrize(
    "encoding",
    ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be", "cp1252"],
)
def test_every_encoding_of_windows_is_read(encoding: str) -> None:
    log = f"Größe 12\r\nstarting\r\n{TENSILE}\r\nstopped\r\n"
    found = diagnose(log.encode(encoding))
    assert found[0].reference == "arch-libraries"
    assert found[0].evidence == (f"line 3: {TENSILE}",)


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ("cp866", "Не найден указанный модуль"),
        ("cp1251", "Не найден указанный модуль"),
        ("gb18030", "找不到指定的模块"),
        ("cp932", "指定されたモジュールが見つかりません"),
        ("cp850", "n'est pas une application Win32 valide: module spécifié"),
    ],
)
def test_the_code_page_of_a_console_is_recognised(page: str, message: str) -> None:
    log = f"zluda\r\n{message}: nvcuda.dll\r\n".encode(page)
    assert first(log)
    assert read(log).lines[1] == f"{message}: nvcuda.dll"


def test_wide_characters_behind_plain_ones_are_read() -> None:
    log = b"starting zluda\r\n" + f"{TENSILE}\r\n".encode("utf-16-le")
    assert first(log) == "arch-libraries"


@pytest.mark.parametrize(
    ("written", "compared"),
    [
        ("“Datei” ‘x’", "\"datei\" 'x'"),
        ("C:\\\\a\\b//c", "c:/a/b/c"),
        ("出错模块名称： a.dll，版本", "出错模块名称: a.dll,版本"),
        ("[48;5;0mCannot[0m load", "cannot load"),
        ("exit -1073741819", "exit 0xc0000005"),
        ("exit code 3221225781.", "exit code 3221225781."),
        ("exit code 3221225781", "exit code 0xc0000135"),
        ("port 32212257812", "port 32212257812"),
        ("│ a ┃", "  a  "),
    ],
)
def test_what_is_the_same_is_compared_as_the_same(written: str, compared: str) -> None:
    assert plain(written) == compared


def test_a_line_that_a_logger_wrapped_is_compared_whole() -> None:
    log = (
        "14:43:52-388838 WARNING  Failed to install ZLUDA: <urlopen error [SSL: CERTIFICATE_VERIFY_FAILED]\n"
        "                         certificate verify failed: unable to get local issuer certificate>\n"
        "14:43:53-388838 INFO     ready\n"
    )
    lines = read(log.encode()).plain
    assert "certificate_verify_failed] certificate verify failed: unable to get local issuer" in lines[0]
    assert lines[2] == "14:43:53-388838 info     ready"


def test_a_sentence_that_a_console_broke_off_is_compared_whole() -> None:
    above = "Program 'server.exe' failed to run: Operation did not complete because the file contains a"
    lines = read(f"{above}\nvirus or potentially unwanted software\n".encode()).plain
    assert lines[0].endswith("contains a virus or potentially unwanted software")
    apart = read(f"{above}\nfixme:nvapi: nvapi64.dll is not installed\n".encode()).plain
    assert apart[0].endswith("contains a")


def test_a_persons_sentence_between_a_programs_lines_is_a_guess() -> None:
    found = diagnose(
        "(Exit code: 1844674407263). Unknown error.\nit looks like it may be using my integrated GPU"
    )
    assert (found[0].reference, found[0].confidence) == ("wrong-device", Confidence.POSSIBLE)


def test_colours_and_doubled_slashes_do_not_hide_a_failure() -> None:
    folder = "C:\\\\ROCm\\\\bin\\\\rocblas\\\\library"
    coloured = f"\x1b[31mrocBLAS\x1b[0m error: Cannot read {folder}\\\\TensileLibrary.dat"
    assert first(coloured) == "arch-libraries"


@pytest.mark.proof
@pytest.mark.parametrize("place", [0.0, 0.5, 1.0], ids=["begin", "middle", "end"])
@pytest.mark.parametrize("kind", ["alike", "all different"])
def test_a_failure_is_found_wherever_it_stands_in_a_large_log(place: float, kind: str) -> None:
    chance = random.Random(7)  # noqa: S311 - words, no secrets
    letters = "abcdefghijklmnopqrstuvwxyz"
    if kind == "alike":
        lines = [f"step {i} loss {1 / (i + 1):.5f} cuda error rate {i % 97}" for i in range(70_000)]
    else:
        lines = [" ".join("".join(chance.choices(letters, k=7)) for _ in range(6)) for _ in range(70_000)]
    at = int(place * len(lines))
    log = "\n".join([*lines[:at], TENSILE, *lines[at:]])
    assert len(log) > reading.LARGE
    found = diagnose(log)
    assert found[0].reference == "arch-libraries"
    assert found[0].evidence[0].startswith(f"line {at + 1}: ")


def test_ten_megabytes_are_read_and_the_time_is_told(record_property: Any) -> None:
    lines = "\n".join(f"step {i} loss {1 / (i + 1):.5f} cuda error rate {i % 97}" for i in range(240_000))
    log = f"{lines}\n{TENSILE}\n".encode()
    assert len(log) > 10_000_000
    begin = time.process_time()
    assert first(log) == "arch-libraries"
    record_property("doctor: a 10 MB log", f"{time.process_time() - begin:.2f} s of processor time")


@pytest.mark.slow
def test_of_a_large_log_little_is_read_line_by_line() -> None:
    log = "\n".join(f"{i:x} {hash(str(i)):x} token" for i in range(300_000)).encode()
    assert len(log) > 2 * reading.LARGE
    kept = read(log, knowledge().book.strong)
    assert len(kept.text) <= reading.HEAD + reading.TAIL + 2 * reading.LONGEST


def test_an_endless_line_is_read_in_pieces() -> None:
    log = "x " * 600_000 + TENSILE + " y" * 600_000
    kept = read(log.encode(), knowledge().book.strong)
    assert max(map(len, kept.lines)) <= reading.LONGEST
    assert first("a " * 3000 + TENSILE) == "arch-libraries"


def test_an_endless_line_that_says_one_thing_is_read_a_few_times() -> None:
    """``gfx`` 127,000 times in one line took 90 s."""
    assert len(read(b"fail" * 95_000).lines) <= reading.ALIKE + 1


def test_no_pattern_looks_for_a_word_without_end() -> None:
    """Behind another such word it takes the cube of an endless word's length."""
    patterns = [p.pattern for m in knowledge().book.phrases.values() for p in (*m.lines, *m.unless)]
    assert [pattern for pattern in patterns if re.search(r"\\w[*+]", pattern)] == []
    assert sum(r"\w{" in pattern for pattern in patterns) > 50


def test_lines_alike_but_for_numbers_are_kept_a_few_times() -> None:
    kept = read("\n".join(f"step {i}" for i in range(1000)).encode())
    assert kept.numbers == tuple(range(1, reading.ALIKE + 1))


def test_no_more_findings_than_a_person_reads_and_one_of_each_kind() -> None:
    everything = "\n".join(case.cause for case in knowledge().causes)
    found = diagnose(everything + "\n" + TENSILE + "\n" + NO_DEVICE, RADEON)
    references = [finding.reference for finding in found]
    assert len(found) <= MOST
    assert len(set(references)) == len(references)
    assert all(f.confidence.order >= Confidence.POSSIBLE.order for f in found[1:])
    assert all(f.confidence.order >= found[0].confidence.order for f in found)


@pytest.mark.parametrize(
    ("text", "gfx", "hip"),
    [
        ("using rx 7900 xtx with hip sdk 6.4", ("gfx1100",), ("6.4",)),
        ("c:/program files/amd/rocm/6.2/bin", (), ("6.2",)),
        ("gfx1036 and gfx1100, hip 7.2", ("gfx1036", "gfx1100"), ("7.2",)),
        ("a box of 6600 pieces", (), ()),
    ],
)
def test_the_text_tells_gpu_and_hip(text: str, gfx: tuple[str, ...], hip: tuple[str, ...]) -> None:
    known = with_text(Facts(), [text])
    assert (known.gfx, known.hip) == (gfx, hip)


@pytest.mark.parametrize(
    ("lines", "mixed"),
    [
        (["device 0: amd radeon(tm) graphics (gfx1036)", "device 1: amd radeon rx 7900 xt (gfx1100)"], True),
        (["rocm: agents=['gfx1201', 'gfx1036']"], True),
        (["device 0: amd radeon rx 7900 xtx, gfx1100"], None),
        (["targets gfx1036;gfx1100"], None),
    ],
    ids=["two devices", "two agents", "one device", "what a library was built for"],
)
def test_a_text_tells_of_two_kinds_of_gpu_where_it_lists_them(lines: list[str], mixed: bool | None) -> None:
    assert with_text(Facts(), lines).mixed is mixed
    known = replace(RADEON, gfx=("gfx1100", "gfx1201"), mixed=False)
    assert with_text(known, lines).mixed is False


def test_a_text_about_another_gpu_is_another_machines() -> None:
    other = with_text(replace(RADEON, libraries=frozenset({"miopen"})), ["gfx1031 has no kernels"])
    assert (other.gfx, other.libraries, other.mixed, other.os) == (("gfx1031",), None, None, "windows")
    assert with_text(RADEON, ["supported: gfx1030, gfx1100"]).gfx == ("gfx1100",)


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        ({"gfx": ["gfx11*"]}, True),
        ({"gfx": ["gfx9*"]}, False),
        ({"hip": ">=7"}, False),
        ({"hip": ">=6,<7"}, True),
        ({"support": ["RL"]}, True),
        ({"mixed": True}, False),
        ({"absent": "miopen"}, None),
        ({"overwritten": True}, None),
        ({"gfx": ["gfx11*"], "overwritten": True}, None),
        ({"gfx": ["gfx9*"], "overwritten": True}, False),
        ({"os": "windows"}, True),
    ],
    ids=str,
)
def test_unknown_is_neither_true_nor_false(when: dict[str, object], expected: bool | None) -> None:
    assert holds(when, RADEON) is expected


@settings(max_examples=60)
@given(st.binary(max_size=3000))
def test_no_bytes_are_too_odd(data: bytes) -> None:
    for finding in diagnose(data):
        assert finding.confidence is not Confidence.UNKNOWN


@pytest.mark.slow
@settings(max_examples=60)
@given(st.text(max_size=500), st.sampled_from([TENSILE, NO_DEVICE]))
def test_what_stands_around_a_failure_does_not_hide_it(around: str, failure: str) -> None:
    assert diagnose(f"{around}\n{failure}\n{around}")
