"""A report is pasted with something around it: stamps, quotes, fences, colours; the answer stays."""

from __future__ import annotations

import html
from collections.abc import Callable

import pytest

from scripts.doctor.diagnose import diagnose
from scripts.doctor.knowledge import knowledge
from tests.doctor_cases import Case, cases

#: Every fifth report, so that the table stays quick.
SOME = [case for case in cases() if case.sure][::5]
NOISE = "\n".join(f"[INFO] step {number} of 32 done" for number in range(40))
TOLD = {
    cause.id for cause in knowledge().causes if any(knowledge().book.phrases[name].user for name in cause.on)
}


def each(text: str, before: str, after: str = "") -> str:
    return "\n".join(f"{before}{line}{after}" for line in text.split("\n"))


PASTED: dict[str, Callable[[str], str]] = {
    "between fences": lambda text: f"### What happened?\n\n```\n{text}\n```\n",
    "quoted": lambda text: each(text, "> "),
    "in a box": lambda text: each(text, "│ "),
    "coloured": lambda text: each(text, "\x1b[31m", "\x1b[0m"),
    "with a terminal's line ends": lambda text: text.replace("\n", "\r\n"),
    "with doubled backslashes": lambda text: text.replace("\\", "\\\\"),
    "with a page's signs": lambda text: html.escape(text, quote=False),
    "in capitals": str.upper,
    "in UTF-16": lambda text: text,
}


def first(text: str | bytes, case: Case) -> str:
    found = diagnose(text, case.facts)
    return found[0].reference if found else ""


@pytest.mark.slow
@pytest.mark.parametrize("pasted", PASTED)
def test_what_stands_around_a_report_changes_little(pasted: str) -> None:
    lost = []
    for case in SOME:
        text = PASTED[pasted](case.text)
        now = first(text.encode("utf-16") if pasted == "in UTF-16" else text, case)
        if now != case.kind == first(case.text, case):
            lost.append(case.id)
    assert len(lost) <= 0.05 * len(SOME), lost


@pytest.mark.slow
def test_a_programs_lines_are_understood_behind_a_loggers_stamp_and_between_others() -> None:
    lost = []
    for case in SOME:
        plain = diagnose(case.text, case.facts)
        if not plain or plain[0].reference != case.kind or plain[0].rule in TOLD:
            continue
        stamped = each(case.text, "2026-01-02 12:33:44,123 - root - ERROR - ")
        lost += [
            case.id for text in (stamped, f"{NOISE}\n{case.text}\n{NOISE}") if first(text, case) != case.kind
        ]
    assert len(lost) <= 0.05 * 2 * len(SOME), lost


def test_a_persons_paragraphs_with_a_forms_headings_are_heard() -> None:
    text = (
        "### Checklist\n\n- [x] I have searched the issues\n\n### What happened?\n\n"
        "Windows Defender flagged zluda.exe as a trojan after the download.\n"
        "Now I cannot start anything any more with the launcher.\n"
    )
    (best, *_) = diagnose(text)
    assert best.reference == "antivirus"
    assert best.confidence.sure


def test_a_persons_sentences_in_a_programs_output_are_no_more_than_a_guess() -> None:
    text = f"{NOISE}\nMy program still gives black images with zluda since yesterday.\n{NOISE}"
    found = diagnose(text)
    assert [finding.reference for finding in found][:1] == ["wrong-results"]
    assert not found[0].confidence.sure
