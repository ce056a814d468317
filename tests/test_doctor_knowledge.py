from __future__ import annotations

import copy
import re
from collections.abc import Iterable
from re import _constants as codes  # type: ignore[attr-defined]  # how the re module names parts of a pattern
from re import _parser as parser  # type: ignore[attr-defined]  # the only one who knows a pattern's parts
from typing import Any

import pytest

from scripts.doctor.context import read_context
from scripts.doctor.diagnose import diagnose, fitting
from scripts.doctor.event import CONDITIONS_OF_EVENTS, read_event
from scripts.doctor.knowledge import RANKS, REFERENCES, Confidence, knowledge, read_knowledge
from scripts.doctor.log_sampling import sample_log
from scripts.doctor.machine import Facts
from scripts.doctor.object_reader import owners
from scripts.doctor.phrases import phrase_book, read_phrases
from scripts.serialize import data_table
from scripts.statuses import tables
from tests.doctor_cases import cases, first_finding, ordinary, reports, score
from tools import doctor_confidence
from tools.doctor_page import write

pytestmark = pytest.mark.proof

#: What nobody may be told to do.
UNSAFE = re.compile(
    r"exclu(?:sion|de)|whitelist|(?:turn|switch)(?:ing)? (?:it |them )?off (?!in the program)|disable|"
    r"ssl-no-revoke|verify=false|insecure",
    re.IGNORECASE,
)
#: Things that are no protection and may be switched off.
HARMLESS = re.compile(
    r"switch (?:it|cuDNN) off(?: in the program)?|Switch cuDNN off|switch cuDNN off|"
    r"DISABLE_ADDMM_(?:CUDA|HIP)_LT|Switch the integrated GPU off",
)
DOCUMENT = data_table("knowledge.toml")
#: Rows for which no public report with its text was at hand; what they rest on is a reference.
WITHOUT_REPORT = frozenset(
    {
        *("cuda-build-code", "code-rocblas-start", "absent-hipblaslt", "code-antivirus"),
        *("code-context", "code-handle", "code-not-started"),
    }
)


def test_the_right_kind_comes_first(record_property: Any) -> None:
    sure = [case for case in cases() if case.sure]
    first, two, count = score(sure, facts=True)
    plain, plain_two, _ = score(sure, facts=False)
    record_property("doctor: right first", f"{first}/{count} ({first / count:.1%})")
    record_property("doctor: right in the first two", f"{two}/{count} ({two / count:.1%})")
    record_property("doctor: from the text alone", f"{plain}/{count} and {plain_two}/{count}")
    assert first >= 0.97 * count
    assert two >= 0.97 * count
    assert plain >= 0.93 * count


@pytest.mark.parametrize("gathered", ["2", "3", "4", "5", "6", "7"])
def test_reports_as_they_were_pasted_are_answered_rightly(gathered: str, record_property: Any) -> None:
    some = [case for case in reports() if case.round == gathered]
    answers = [(case, first_finding(case)) for case in some]
    wrong = [case.id for case, found in answers if not case.accepts(found.reference if found else "")]
    sure = [case.id for case, found in answers if case.id in wrong and found and found.confidence.sure]
    record_property(f"doctor: reports of round {gathered}", f"{len(some) - len(wrong)}/{len(some)}")
    assert len(wrong) <= 0.05 * len(some), wrong
    assert sure == []


def test_ordinary_logs_are_left_alone(record_property: Any) -> None:
    logs = ordinary()
    surest = {path.name: found[0].confidence for path in logs if (found := diagnose(path.read_bytes()))}
    record_property("doctor: ordinary logs", f"{len(logs)}, {len(surest)} of them with a finding")
    assert len(logs) >= 40
    assert {name: word for name, word in surest.items() if word.sure} == {}


def test_most_ordinary_logs_give_nothing_at_all() -> None:
    silent = [path for path in ordinary() if not diagnose(path.read_bytes())]
    assert len(silent) >= 0.7 * len(ordinary())


@pytest.mark.parametrize("rule", [cause.id for cause in knowledge().causes])
def test_every_row_is_covered_by_a_real_report_of_its_kind(rule: str) -> None:
    cause = next(cause for cause in knowledge().causes if cause.id == rule)
    known = [case for case in (*cases(), *reports()) if case.accepts(cause.reference)]
    covered = any(rule in fitting(case.text) for case in known)
    assert covered != (rule in WITHOUT_REPORT)


def test_reports_that_were_gathered_later_are_named_as_well(record_property: Any) -> None:
    later = [case for case in cases() if case.sure and case.round]
    first, two, count = score(later, facts=True)
    record_property("doctor: reports gathered later", f"{first}/{count} first, {two}/{count} in two")
    assert first >= 0.90 * count
    assert two >= 0.95 * count


def test_every_kind_has_rules_and_cases() -> None:
    assert {cause.reference for cause in knowledge().causes} == set(REFERENCES)
    assert {kind for case in (*cases(), *reports()) for kind in (case.kind, *case.also)} >= set(
        REFERENCES
    ) - {"blocked-by-policy"}


def test_ids_are_unique() -> None:
    ids = [cause.id for cause in knowledge().causes]
    assert len(set(ids)) == len(ids)


def test_every_phrase_is_used() -> None:
    used = {name for cause in knowledge().causes for name in (*cause.on, *cause.without)}
    used |= {name for cause in knowledge().causes for group in cause.needs for name in group}
    assert set(phrase_book().phrases) - used <= {"amd", "nvidia"}  # they say whose software it is about


@pytest.mark.parametrize("cause", knowledge().causes, ids=lambda cause: cause.id)
def test_advice_begins_here_and_never_lowers_protection(cause: Any) -> None:
    assert "invoke " in cause.fix[0] or cause.fix[0].startswith("See ")
    assert "invoke " in " ".join(cause.fix)
    for sentence in (*cause.fix, *cause.fix_rocm, cause.cause, cause.cause_rocm, *cause.tell):
        assert not UNSAFE.search(HARMLESS.sub("", sentence)), sentence
    assert cause.source, "no public report"
    assert RANKS.index(cause.alone) >= RANKS.index(cause.rank)


#: Stands in a run of letters for what is not known.
HOLE = "\0"


def literal_runs(pattern: Iterable[tuple[Any, Any]]) -> list[str]:
    """Return what is certain of the texts that a pattern matches, one for each way to match it."""
    found = [""]
    for code, value in pattern:
        if code is codes.LITERAL:
            more = [chr(value)]
        elif code is codes.SUBPATTERN:
            more = literal_runs(value[3])
        elif code is codes.BRANCH:
            more = [run for branch in value[1] for run in literal_runs(branch)]
        elif code in {codes.MAX_REPEAT, codes.MIN_REPEAT}:
            least, most, inner = value
            more = [run + HOLE * (most > 1) for run in literal_runs(inner)] if least else [HOLE]
        elif code in {codes.AT, codes.ASSERT, codes.ASSERT_NOT}:
            more = [""]
        else:
            more = [HOLE]
        found = list(dict.fromkeys(run + other for run in found for other in more))
    return found


@pytest.mark.parametrize("message", phrase_book().phrases.values(), ids=list(phrase_book().phrases))
def test_every_way_to_match_a_line_holds_a_word_that_leads_to_it(message: Any) -> None:
    if not message.words:
        assert message.user, "a log's every line would be looked at"
    unreachable = [
        run
        for line in message.lines
        for run in literal_runs(parser.parse(line.pattern))
        if message.words and not any(word in run for word in message.words)
    ]
    assert unreachable == []


@pytest.mark.parametrize("message", phrase_book().phrases.values(), ids=list(phrase_book().phrases))
def test_words_are_in_the_form_that_lines_are_compared_in(message: Any) -> None:
    for word in message.words:
        assert word == word.lower()
        assert "\\" not in word
        assert "//" not in word
    for pattern in (*message.lines, *message.unless):
        assert not re.search(r"(?<!\\)[*+](?!\?)\)?[*+]", pattern.pattern), "nested repetition"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"on": ["no-such-phrase"]}, "no-such-phrase"),
        ({"with": ["amd|nothing"]}, "nothing"),
        ({"without": ["none-such"]}, "none-such"),
        ({"reference": "bad-weather"}, "bad-weather"),
        ({"facts": [{"when": {"moon": "full"}, "then": "hint"}]}, "moon"),
        ({"facts": [{"when": {"mixed": True}, "then": "perhaps"}]}, "perhaps"),
        ({"event": {"status": ["ok"], "tide": "high"}}, "tide"),
        ({"rank": "first"}, "first"),
        ({"colour": "red"}, "colour"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_row_that_names_what_is_not_there_is_refused(change: dict[str, Any], named: str) -> None:
    document = copy.deepcopy(DOCUMENT)
    document["cause"][0] |= change
    with pytest.raises(ValueError, match=named):
        read_knowledge(document, phrase_book())


def test_a_row_that_no_log_could_show_is_refused() -> None:
    document = copy.deepcopy(DOCUMENT)
    document["cause"][0] = {**document["cause"][0], "event": {"layer": True}}
    document["cause"][0].pop("on", None)
    with pytest.raises(ValueError, match="nothing that a log would have to show"):
        read_knowledge(document, phrase_book())


def test_a_phrase_with_an_unknown_key_is_refused() -> None:
    document = copy.deepcopy(data_table("phrases.toml"))
    document["phrase"]["amd"]["colour"] = "red"
    with pytest.raises(ValueError, match="colour"):
        read_phrases(document)


def test_rows_ask_for_classes_and_owners_that_exist() -> None:
    codes = [code for table in tables().values.values() for code in table.values()]
    known = {code.kind for code in codes} | {code.name for code in codes}
    known |= {f"{code.enumeration}:{what}" for code in codes for what in (code.kind, "*")}
    groups = {owner.group for owner in owners()} | {"unknown"}
    for cause in knowledge().causes:
        wanted = {name: value if isinstance(value, list) else [value] for name, value in cause.event.items()}
        assert set(wanted.get("status", [])) <= known, cause.id
        assert {*wanted.get("missing", []), *wanted.get("refused", [])} <= groups, cause.id


def test_every_condition_answers_for_an_event_that_holds_nothing() -> None:
    empty = read_event("all is well")
    wanted = {"layer": True, "amd": True, "nvidia": True, "versions_differ": True, "only_ending": True}
    for name, condition in CONDITIONS_OF_EVENTS.items():
        assert condition(wanted.get(name, "none-such"), empty) is None, name


def test_a_row_of_one_report_is_possible_at_most() -> None:
    answers = [*doctor_confidence.judged(), *doctor_confidence.at_first_sight()]
    for key, word in knowledge().measured.items():
        if len({item.case.thread for item in answers if item.key == key}) == 1:
            assert not word.sure, key


def test_the_words_of_confidence_are_true(record_property: Any) -> None:
    """Each word's share of right answers at first sight, with whole threads left out."""
    known = [*doctor_confidence.judged(), *doctor_confidence.at_first_sight()]
    lines = {
        line.word: line
        for line in doctor_confidence.measured_words(doctor_confidence.at_first_sight(), known)
    }
    for line in lines.values():
        record_property(f"doctor: {line.word.value} at first sight", f"{line.right}/{line.count}")
    for word, least in ((Confidence.CERTAIN, 0.9), (Confidence.LIKELY, 0.75), (Confidence.POSSIBLE, 0.4)):
        assert lines[word].right >= least * lines[word].count


def test_the_page_and_the_words_are_up_to_date() -> None:
    assert doctor_confidence.write(check=True), "python -m tools.generated_docs"
    assert write(check=True), "python -m tools.generated_docs"


def test_nothing_is_said_of_nothing() -> None:
    assert diagnose(b"") == ()
    assert diagnose("\n\n\r\n") == ()
    assert diagnose("The quick brown fox jumps over the lazy dog.", Facts(amd=True)) == ()


@pytest.mark.parametrize(
    ("text", "native"),
    [
        ("RuntimeError: HIP error: operation not supported\ntorch 2.9.0+rocm7.1", True),
        ("rocBLAS error: Cannot read /opt/rocm/lib/rocblas/library/TensileLibrary.dat", True),
        ("Using ZLUDA\nrocBLAS error: Cannot read TensileLibrary.dat", False),
        ("Radeon RX 6600, torch 2.2.0+cu118: CUDA error: operation not supported", False),
        ("Radeon RX 6600: CUDA error: operation not supported", False),
        ("OSError: [WinError 126] caffe2_nvrtc.dll", False),
    ],
)
def test_what_runs_without_a_layer_is_told_apart(text: str, native: bool) -> None:
    assert read_event(text).native is native


def test_who_runs_amds_own_software_is_not_told_of_stacks() -> None:
    (finding, *_) = diagnose("torch 2.9.0+rocm7.1\nRuntimeError: HIP error: operation not supported")
    assert finding.rule == "driver-call"
    assert "layer" not in finding.cause
    assert not any("stack" in step for step in finding.fix)
    assert "torch-lib-mixture" not in fitting("torch 2.9.0+rocm7.1\nHIP error: operation not supported")
    (finding, *_) = diagnose("ZLUDA, RX 6600: RuntimeError: CUDA error: operation not supported")
    assert "layer" in finding.cause


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("torch 2.1.2+rocm5.6\nROCm on this machine is 6.0.0.", {"torch": {"rocm"}, "versions_differ": True}),
        ("torch 2.9.0+rocm7.1\nROCm version: 7.1.1", {"torch": {"rocm"}, "versions_differ": False}),
        ("pytorch version: 2.3.0+cu118\nUsing ZLUDA", {"torch": {"cu"}, "layer": True}),
        ("nvidia-cublas-cu12==12.1.3.1", {"torch": {"cu"}, "layer": False}),
        ("pip install torch --index-url https://download.pytorch.org/whl/rocm6.3", {"torch": {"rocm"}}),
        ("**Kernel**: 6.6.87.2-microsoft-standard-WSL2\n/opt/rocm/lib", {"wsl": True, "system": "linux"}),
        ("docker run --device=/dev/kfd", {"container": True}),
        ("OSError: [WinError 126] C:\\app\\x.dll", {"system": "windows"}),
    ],
)
def test_surroundings_are_read(text: str, expected: dict[str, Any]) -> None:
    context = read_context(sample_log(text.encode()))
    assert {name: getattr(context, name) for name in expected} == expected
