from __future__ import annotations

import random
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scripts.evidence.cuda_check import (
    CORE,
    NOTHING_BEHIND,
    OPTIONAL,
    CheckVerdict,
    group_of,
    judge,
    parse_output,
)
from scripts.model import Level, Outcome, StackKind
from scripts.statuses import describe_exit

SAMPLES = Path(__file__).parent / "data" / "cuda_check"
V6 = (
    "nvcuda",
    "nvml",
    "cudnn8",
    "cudnn9",
    "cublas11",
    "cublas12",
    "cublas13",
    "cublaslt11",
    "cublaslt12",
    "cublaslt13",
    "cusparse10",
    "cusparse11",
    "cusparse12",
    "cufft10",
    "cufft11",
    "cufft12",
)
DOCS = tuple(n for n in V6 if n not in {"cublas11", "cublaslt11", "cusparse10", "cufft10"})
HEALTHY = "\n".join(f"{name:<10}: OK" for name in V6) + "\n"


def sample(name: str) -> bytes:
    return (SAMPLES / f"{name}.txt").read_bytes()


def run(
    data: bytes | str,
    expected: tuple[str, ...] = V6,
    exit_code: int | None = 0,
    timed_out: bool = False,
    kind: StackKind = StackKind.TRANSLATION,
) -> CheckVerdict:
    return judge(parse_output(data), expected=expected, exit_code=exit_code, timed_out=timed_out, kind=kind)


def of(verdict: CheckVerdict, name: str) -> tuple[Level | None, Outcome]:
    result = next(r for r in verdict.results if r.capability == name)
    return result.level, result.outcome


# -- reading ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "lines", "good", "noise"),
    [
        ("healthy-paths", 12, 12, 0),
        ("healthy-plain", 12, 12, 0),
        ("hang-after-one-line", 1, 1, 0),
        ("hip-no-device", 0, 0, 2),
        ("official-sdk", 16, 14, 0),
        ("failing-derived", 4, 0, 0),
        ("v7-nvapi", 6, 5, 0),
        ("doctor-around", 0, 0, 5),
    ],
)
def test_every_published_sample_is_read(name: str, lines: int, good: int, noise: int) -> None:
    output = parse_output(sample(name))
    assert (len(output.lines), sum(x.ok for x in output.lines), len(output.noise)) == (lines, good, noise)


def test_a_path_is_kept_whatever_it_contains() -> None:
    (line,) = parse_output(r"cublaslt12: OK (C:\Program Files (x86)\AMD\Mü\hipblaslt.dll)").lines
    assert line.path == r"C:\Program Files (x86)\AMD\Mü\hipblaslt.dll"


def test_a_failed_start_gives_call_and_status() -> None:
    (line,) = parse_output('cublas12  : ERROR: Initialization("cublasCreate_v2", 6)').lines
    assert (line.ok, line.loading, line.call, line.code) == (False, False, "cublasCreate_v2", 6)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('Loading(LoadLibraryExW { source: Os { code: 126, message: "Modul nicht gefunden." } })', 126),
        ("Loading(LoadLibraryExW failed: Le module spécifié est introuvable. (os error 126))", 126),
        ("Loading(找不到指定的模块。 (os error 126))", 126),
        ("Loading(%1 is not a valid Win32 application. (os error 193))", 193),
        ("Loading(Die angegebene Prozedur wurde nicht gefunden. (os error 127))", 127),
        ("Loading(libcufft.so.11: cannot open shared object file)", None),
    ],
    ids=["german", "french", "chinese", "bitness", "procedure", "linux"],
)
def test_a_failed_load_is_known_by_its_number_not_by_its_words(text: str, code: int | None) -> None:
    (line,) = parse_output(f"cufft11   : ERROR: {text}\n").lines
    assert (line.loading, line.code) == (True, code)


@pytest.mark.parametrize(
    "data",
    [
        HEALTHY.encode(),
        HEALTHY.replace("\n", "\r\n").encode(),
        HEALTHY.encode("utf-16"),
        HEALTHY.encode("utf-16-le"),
        b"\xef\xbb\xbf" + HEALTHY.encode(),
        "\n".join(f"\x1b[32m{n:<10}\x1b[0m: \x1b[1;32mOK\x1b[0m" for n in V6).encode(),
        HEALTHY.upper().replace("OK", "OK").encode(),
        ("Überlauf in Gerät\n" + HEALTHY).encode("cp1252"),
        HEALTHY.encode() + b"\x00\xff\xfe\x81 garbage \n",
    ],
    ids=["utf-8", "crlf", "utf-16-bom", "utf-16", "utf-8-bom", "ansi", "upper", "cp1252", "rubbish"],
)
def test_encoding_colours_and_line_ends_do_not_matter(data: bytes) -> None:
    assert {x.name for x in parse_output(data).lines if x.ok} == set(V6)


@pytest.mark.parametrize(
    "cut", ["cublas12  : O", "cublas12  :", "cublas12", r"cublas12  : OK (C:\hip_sdk\bin"]
)
def test_a_line_cut_in_the_middle_shows_nothing(cut: str) -> None:
    output = parse_output("nvcuda    : OK\n" + cut)
    assert [x.name for x in output.lines] == ["nvcuda"]
    assert output.noise == (cut,)


@given(st.randoms(use_true_random=False))
@settings(max_examples=30)
def test_the_order_of_lines_does_not_matter(rng: random.Random) -> None:
    lines = sample("official-sdk").decode().splitlines()
    rng.shuffle(lines)
    assert run("\n".join(lines)) == run(sample("official-sdk"))


@given(st.binary(max_size=300) | st.text(max_size=300))
@settings(max_examples=150)
def test_no_output_breaks_the_reader_or_loads_by_accident(data: bytes | str) -> None:
    verdict = run(data)
    assert not verdict.loads
    assert verdict.outcome is not Outcome.PASS


# -- judging ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["healthy-paths", "healthy-plain"])
def test_a_healthy_run_loads_and_shows_no_more_than_loadable(name: str) -> None:
    verdict = run(sample(name), DOCS)
    assert (verdict.loads, verdict.outcome) == (True, Outcome.PASS)
    assert {r.level for r in verdict.results} == {Level.LOADABLE}
    assert verdict.reason == "nvcuda, cublas, cublaslt, cusparse, cufft load"


def test_an_older_check_that_does_not_know_a_version_does_not_spoil_its_group() -> None:
    verdict = run(sample("healthy-plain"), V6)
    assert verdict.loads
    assert of(verdict, "cublas11") == (None, Outcome.NOT_REACHED)


def test_the_official_sdk_loads_without_cudnn() -> None:
    verdict = run(sample("official-sdk"))
    assert (verdict.loads, verdict.outcome) == (True, Outcome.PASS)
    assert of(verdict, "cudnn8") == of(verdict, "cudnn9") == (Level.DETECTED, Outcome.UNAVAILABLE)
    assert verdict.groups["cudnn"] is Outcome.UNAVAILABLE
    assert "MIOpen.dll" in next(r.detail for r in verdict.results if r.capability == "cudnn9")


def test_ok_of_cufft_and_nvml_means_little_on_a_translation_stack() -> None:
    details = {r.capability: r.detail for r in run(HEALTHY).results}
    assert details["cufft11"] == details["nvml"] == NOTHING_BEHIND
    native = {r.capability: r.detail for r in run(HEALTHY, kind=StackKind.CONTROL).results}
    assert native["cufft11"] == native["nvml"] == ""


def test_cufft_with_something_behind_it_is_believed() -> None:
    verdict = judge(
        parse_output(HEALTHY), expected=V6, exit_code=0, timed_out=False, backed=("cufft11", "cufft12")
    )
    details = {r.capability: r.detail for r in verdict.results}
    assert (details["cufft11"], details["cufft12"]) == ("", "")
    assert details["cufft10"] == details["nvml"] == NOTHING_BEHIND


def test_a_hip_without_hipfft_costs_cufft_and_not_the_stack() -> None:
    lines = HEALTHY
    for number in (10, 11, 12):
        lines = lines.replace(
            f"cufft{number}   : OK", f'cufft{number}   : ERROR: Initialization("cufftCreate", 5)'
        )
    verdict = run(lines)
    assert (verdict.loads, verdict.outcome) == (True, Outcome.PASS)
    assert of(verdict, "cufft11") == (Level.DETECTED, Outcome.UNAVAILABLE)
    assert "hipfft.dll" in next(r.detail for r in verdict.results if r.capability == "cufft11")
    broken = run(lines.replace("cufftCreate", "cufftDestroy"))
    assert broken.outcome is Outcome.ERROR, "another failure of cuFFT is one"


def test_the_known_nvapi_line_of_v7_is_no_failure() -> None:
    verdict = run(sample("v7-nvapi"), ("nvcuda", "cublas12", "cublaslt12", "cusparse12", "cufft12"))
    assert (verdict.loads, verdict.outcome) == (True, Outcome.PASS)
    assert of(verdict, "nvapi") == (None, Outcome.UNAVAILABLE)


def test_nvapi_is_not_waited_for() -> None:
    assert "nvapi" not in {r.capability for r in run(HEALTHY, (*V6, "nvapi")).results}


def test_one_good_line_then_a_hang_leaves_the_rest_not_reached() -> None:
    verdict = run(sample("hang-after-one-line"), exit_code=None, timed_out=True)
    assert (verdict.loads, verdict.outcome) == (False, Outcome.TIMEOUT)
    assert of(verdict, "cublaslt12") == (Level.LOADABLE, Outcome.PASS)
    assert {of(verdict, n) for n in V6 if n != "cublaslt12"} == {(None, Outcome.NOT_REACHED)}
    assert of(verdict, "cuda_check") == (None, Outcome.TIMEOUT)
    assert "nvcuda" in verdict.reason


def test_a_hang_after_everything_was_printed_is_its_own_outcome() -> None:
    verdict = run(HEALTHY, exit_code=None, timed_out=True)
    assert (verdict.loads, verdict.outcome) == (True, Outcome.HANG_AFTER_RESULT)
    assert of(verdict, "cuda_check") == (Level.LOADABLE, Outcome.HANG_AFTER_RESULT)


def test_a_hang_before_an_optional_library_is_a_timeout_though_the_core_loads() -> None:
    text = "\n".join(x for x in HEALTHY.splitlines() if "cudnn" not in x)
    verdict = run(text, exit_code=None, timed_out=True)
    assert (verdict.loads, verdict.outcome) == (True, Outcome.TIMEOUT)
    assert "cudnn8, cudnn9" in verdict.reason


def test_a_crash_after_everything_was_printed_is_its_own_outcome() -> None:
    verdict = run(HEALTHY, exit_code=-1073740791)
    assert (verdict.loads, verdict.outcome) == (True, Outcome.CRASH_AFTER_RESULT)
    assert "0xC0000409" in verdict.reason


def test_a_library_that_aborts_the_process_is_an_error() -> None:
    verdict = run(sample("hip-no-device"), exit_code=3)
    assert (verdict.loads, verdict.outcome) == (False, Outcome.ERROR)
    assert "exit code 3" in verdict.reason


@pytest.mark.parametrize(
    ("line", "level", "outcome", "says"),
    [
        (
            'nvcuda    : ERROR: Initialization("cuInit", 100)',
            Level.DETECTED,
            Outcome.ERROR,
            "status 100: HIP finds no device",
        ),
        (
            'cublas12  : ERROR: Initialization("cublasCreate_v2", 1)',
            Level.DETECTED,
            Outcome.ERROR,
            "status 1",
        ),
        ('cublas12  : ERROR: Initialization("cublasCreate_v2", 6)', Level.DETECTED, Outcome.ERROR, "rocblas"),
        (
            'cublaslt12: ERROR: Initialization("cublasLtCreate", 6)',
            Level.DETECTED,
            Outcome.ERROR,
            "hipblaslt",
        ),
        (
            'cusparse12: ERROR: Initialization("cusparseCreate", 7)',
            Level.DETECTED,
            Outcome.ERROR,
            "rocsparse",
        ),
        ('cudnn9    : ERROR: Initialization("cudnnCreate", 1)', Level.DETECTED, Outcome.ERROR, "status 1"),
        (
            'cudnn9    : ERROR: Initialization("cudnnCreate", 4000)',
            Level.DETECTED,
            Outcome.UNAVAILABLE,
            "MIOpen",
        ),
        ("cudnn9    : ERROR: Loading(x (os error 126))", None, Outcome.UNAVAILABLE, "not found"),
        ("cudnn9    : ERROR: Loading(x (os error 193))", None, Outcome.ERROR, "193"),
        ("cublas12  : ERROR: Loading(x (os error 126))", None, Outcome.ERROR, "126"),
        ("cublas12  : ERROR: Loading(x)", None, Outcome.ERROR, "it did not load"),
        ("cublas12  : ERROR:", None, Outcome.ERROR, "without a word"),
        ("cublas12  : ERROR: Unheard(of)", None, Outcome.ERROR, "Unheard(of)"),
        ("nvapi     : ERROR: Loading(x (os error 126))", None, Outcome.UNAVAILABLE, "126"),
    ],
    ids=lambda v: v[:60] if isinstance(v, str) else None,
)
def test_what_a_failing_line_means(line: str, level: Level | None, outcome: Outcome, says: str) -> None:
    name = line.split(":", maxsplit=1)[0].strip()
    rest = "\n".join(x for x in HEALTHY.splitlines() if not x.startswith(f"{name} ") and f"{name}:" not in x)
    verdict = run(f"{rest}\n{line}\n")
    assert of(verdict, name) == (level, outcome)
    assert says in next(r.detail for r in verdict.results if r.capability == name)
    core = not name.startswith(("cudnn", "nvapi"))
    assert verdict.loads is not core
    assert verdict.outcome is (Outcome.ERROR if core else Outcome.PASS)


def test_one_failing_version_is_not_hidden_by_a_good_one() -> None:
    text = HEALTHY.replace("cublas11  : OK", 'cublas11  : ERROR: Initialization("cublasCreate_v2", 6)')
    verdict = run(text)
    assert not verdict.loads
    assert verdict.groups["cublas"] is Outcome.ERROR
    assert verdict.reason == "cublas did not start"


def test_a_name_printed_twice_counts_once_and_the_worse_answer_stays() -> None:
    same = run(HEALTHY + HEALTHY)
    assert same == run(HEALTHY)
    torn = run(HEALTHY + 'nvcuda    : ERROR: Initialization("cuInit", 100)\n')
    assert of(torn, "nvcuda") == (Level.DETECTED, Outcome.ERROR)
    assert "different answers" in next(r.detail for r in torn.results if r.capability == "nvcuda")


def test_an_unknown_name_is_reported_and_decides_nothing() -> None:
    text = HEALTHY + 'curand10  : ERROR: Loading(x)\nnpp12: ERROR: Initialization("nppInit", 3)\n'
    verdict = run(text)
    assert of(verdict, "curand10") == (None, Outcome.UNAVAILABLE)
    assert of(verdict, "npp12") == (Level.DETECTED, Outcome.ERROR)
    assert (verdict.loads, verdict.outcome) == (True, Outcome.PASS)


def test_without_expectations_every_core_group_must_show_up() -> None:
    verdict = run("nvcuda    : OK\ncublas12  : OK\n", ())
    assert (verdict.loads, verdict.outcome) == (False, Outcome.NOT_REACHED)
    assert verdict.reason == "the check ended without a line for cublaslt, cusparse, cufft"


def test_only_the_groups_a_stack_provides_are_required_and_always_the_driver() -> None:
    assert run("nvcuda    : OK\ncublas12  : OK\n", ("cublas12",)).loads
    assert not run("cublas12  : OK\n", ("cublas12",)).loads


def test_a_version_the_stack_does_not_have_is_unavailable_and_no_failure() -> None:
    text = "nvcuda: OK\ncublas12: OK\ncublas13: ERROR: Loading(libcublas.so.13: cannot open shared object)\n"
    verdict = run(text, ("nvcuda", "cublas12"))
    assert (verdict.loads, verdict.outcome) == (True, Outcome.PASS)
    assert of(verdict, "cublas13") == (None, Outcome.UNAVAILABLE)
    assert verdict.groups["cublas"] is Outcome.PASS


def test_a_control_stack_needs_the_driver_alone() -> None:
    text = "nvcuda: OK\ncublas12: ERROR: Loading(libcublas.so.12: cannot open shared object)\n"
    assert run(text, (), kind=StackKind.CONTROL).loads
    assert not run(text, (), kind=StackKind.REFERENCE).loads
    assert not run("cublas12: OK\n", (), kind=StackKind.CONTROL).loads
    broken = 'nvcuda: OK\ncublas12: ERROR: Initialization("cublasCreate_v2", 1)\n'
    assert of(run(broken, (), kind=StackKind.CONTROL), "cublas12") == (Level.DETECTED, Outcome.ERROR)


def test_a_closed_message_box_is_named_when_something_was_not_reached() -> None:
    verdict = judge(
        parse_output("nvcuda: OK\n"),
        expected=("nvcuda", "cublas12"),
        exit_code=0,
        timed_out=False,
        dialogs=("ZLUDA error: ZLUDA failed to load rocblas.dll",),
    )
    assert verdict.outcome is Outcome.DIALOG
    assert "rocblas.dll" in verdict.reason
    assert of(verdict, "cuda_check") == (None, Outcome.DIALOG)


def test_a_failure_outweighs_the_hang_that_followed() -> None:
    text = HEALTHY.replace("nvcuda    : OK", 'nvcuda    : ERROR: Initialization("cuInit", 100)')
    verdict = run(text, exit_code=None, timed_out=True)
    assert (verdict.outcome, verdict.reason) == (Outcome.ERROR, "nvcuda did not start")
    assert of(verdict, "cuda_check")[1] is Outcome.HANG_AFTER_RESULT


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (3, "exit code 3"),
        (-1073741515, "0xC0000135"),
        (0xC0000135, "0xC0000135"),
        (-11, "signal 11"),
        (None, "no exit code"),
    ],
)
def test_exit_codes_are_written_the_way_people_look_them_up(code: int | None, text: str) -> None:
    assert describe_exit(code) == text


def test_every_library_that_the_lock_provides_belongs_to_a_group() -> None:
    lock = tomllib.loads((Path(__file__).parents[1] / "pins.lock").read_text(encoding="utf-8"))
    provided = {m["provides"] for a in lock["artifact"] for m in a.get("members", []) if "provides" in m}
    assert {group_of(name) for name in provided} <= {*CORE, *OPTIONAL}
