from __future__ import annotations

import copy
import re
import tomllib
from collections.abc import Iterable
from re import _constants as codes  # type: ignore[attr-defined]  # how the re module names parts of a pattern
from re import _parser as parser  # type: ignore[attr-defined]  # the only one who knows a pattern's parts
from typing import Any

import pytest

from scripts.doctor.diagnose import SURE, diagnose, fitting
from scripts.doctor.facts import Facts
from scripts.doctor.rules import KNOWLEDGE, REFERENCES, knowledge, read_knowledge
from tests.doctor_cases import cases, ordinary, score
from tools.doctor_page import write

#: What nobody may be told to do.
UNSAFE = re.compile(
    r"exclu(?:sion|de)|whitelist|(?:turn|switch)(?:ing)? (?:it |them )?off (?!in the program)|disable|"
    r"ssl-no-revoke|verify=false|insecure",
    re.IGNORECASE,
)
#: Things that are no protection and may be switched off.
HARMLESS = re.compile(
    r"switch (?:it|cuDNN) off(?: in the program)?|Switch cuDNN off|switch cuDNN off|DISABLE_ADDMM_CUDA_LT|"
    r"Switch the integrated GPU off",
)
DOCUMENT = tomllib.loads(KNOWLEDGE.read_text(encoding="utf-8"))


def test_the_right_kind_comes_first(record_property: Any) -> None:
    sure = [case for case in cases() if case.sure]
    first, two, count = score(sure, facts=True)
    plain, plain_two, _ = score(sure, facts=False)
    record_property("doctor: right first", f"{first}/{count} ({first / count:.1%})")
    record_property("doctor: right in the first two", f"{two}/{count} ({two / count:.1%})")
    record_property("doctor: from the text alone", f"{plain}/{count} and {plain_two}/{count}")
    assert first >= 0.90 * count
    assert two >= 0.95 * count
    assert plain >= 0.90 * count


def test_ordinary_logs_are_left_alone(record_property: Any) -> None:
    logs = ordinary()
    worst = {
        path.name: max((f.confidence for f in diagnose(path.read_bytes())), default=0.0) for path in logs
    }
    record_property("doctor: ordinary logs", f"{len(logs)}, highest confidence {max(worst.values()):.2f}")
    assert len(logs) >= 40
    assert {name: value for name, value in worst.items() if value > SURE} == {}


def test_most_ordinary_logs_give_nothing_at_all() -> None:
    silent = [path for path in ordinary() if not diagnose(path.read_bytes())]
    assert len(silent) >= 0.8 * len(ordinary())


@pytest.mark.parametrize("rule", [cause.id for cause in knowledge().causes])
def test_every_rule_is_covered_by_a_real_case_of_its_kind(rule: str) -> None:
    cause = next(cause for cause in knowledge().causes if cause.id == rule)
    covering = [case.id for case in cases() if case.kind == cause.reference and rule in fitting(case.text)]
    assert covering


def test_reports_that_were_gathered_later_are_named_as_well(record_property: Any) -> None:
    later = [case for case in cases() if case.sure and case.round]
    first, two, count = score(later, facts=True)
    record_property("doctor: reports gathered later", f"{first}/{count} first, {two}/{count} in two")
    assert first >= 0.90 * count
    assert two >= 0.95 * count


def test_every_kind_has_rules_and_cases() -> None:
    assert {cause.reference for cause in knowledge().causes} == set(REFERENCES)
    assert {case.kind for case in cases()} == set(REFERENCES)


def test_ids_are_unique() -> None:
    ids = [cause.id for cause in knowledge().causes]
    assert len(set(ids)) == len(ids)


def test_every_message_is_used() -> None:
    used = {name for cause in knowledge().causes for name in (*cause.on, *cause.without)}
    used |= {name for cause in knowledge().causes for group in cause.needs for name in group}
    assert set(knowledge().messages) - used <= {"amd", "nvidia"}  # they say whose software it is about


@pytest.mark.parametrize("cause", knowledge().causes, ids=lambda cause: cause.id)
def test_advice_begins_here_and_never_lowers_protection(cause: Any) -> None:
    assert "invoke " in cause.fix[0] or cause.fix[0].startswith("See ")
    assert "invoke " in " ".join(cause.fix)
    for sentence in (*cause.fix, cause.cause, *cause.tell):
        assert not UNSAFE.search(HARMLESS.sub("", sentence)), sentence
    assert cause.source, "no public report"
    assert 0 < cause.alone <= cause.confidence <= 1


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


@pytest.mark.parametrize("message", knowledge().messages.values(), ids=lambda message: message.name)
def test_every_way_to_match_a_line_holds_a_word_that_leads_to_it(message: Any) -> None:
    if not message.words:
        assert message.told, "a log's every line would be looked at"
    unreachable = [
        run
        for line in message.lines
        for run in literal_runs(parser.parse(line.pattern))
        if message.words and not any(word in run for word in message.words)
    ]
    assert unreachable == []


@pytest.mark.parametrize("message", knowledge().messages.values(), ids=lambda message: message.name)
def test_words_are_in_the_form_that_lines_are_compared_in(message: Any) -> None:
    for word in message.words:
        assert word == word.lower()
        assert "\\" not in word
        assert "//" not in word
    for pattern in (*message.lines, *message.but):
        assert not re.search(r"(?<!\\)[*+](?!\?)\)?[*+]", pattern.pattern), "nested repetition"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"cause": {"on": ["no-such-message"]}}, "no-such-message"),
        ({"cause": {"with": ["amd|nothing"]}}, "nothing"),
        ({"cause": {"without": ["none-such"]}}, "none-such"),
        ({"cause": {"reference": "bad-weather"}}, "bad-weather"),
        ({"cause": {"facts": [{"when": {"moon": "full"}, "then": 1.0}]}}, "moon"),
        ({"cause": {"colour": "red"}}, "colour"),
        ({"message": {"colour": "red"}}, "colour"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_rule_that_names_what_is_not_there_is_refused(change: dict[str, Any], named: str) -> None:
    document = copy.deepcopy(DOCUMENT)
    document["cause"][0] |= change.get("cause", {})
    document["message"]["amd"] |= change.get("message", {})
    with pytest.raises(ValueError, match=named):
        read_knowledge(document)


def test_the_page_of_diagnoses_is_up_to_date() -> None:
    assert write(check=True), "python -m tools.generated_docs"


def test_nothing_is_said_of_nothing() -> None:
    assert diagnose(b"") == ()
    assert diagnose("\n\n\r\n") == ()
    assert diagnose("The quick brown fox jumps over the lazy dog.", Facts(amd=True)) == ()
