"""Documents on their way to everybody: the issue that is prepared, and hostile issues that come back."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import parse_qs

import pytest
from invoke.vendor import yaml
from msgspec.structs import replace

from scripts.app.context import workspace_from_environ
from scripts.app.report import report
from scripts.errors import UsageError
from scripts.evidence.document import Document, Provenance
from scripts.evidence.evidence_io import from_json, read_document, to_json, write_document
from scripts.evidence.submission import (
    FIELDS,
    MOST_IN_ISSUE,
    TEMPLATE,
    IssueDocument,
    read_issue,
    submission_of,
)
from scripts.lock.reader import read_lock
from scripts.osal.redaction import Redactor
from tests.checkout import ROOT, Checkout

SCRIPT = ROOT / ".github" / "scripts" / "submission.py"
URL = "https://github.com/me/it/issues/7"
NOW = datetime(2027, 1, 1, tzinfo=UTC)


def filed_from(body: str, *, now: datetime = NOW) -> IssueDocument:
    stacks = read_lock(ROOT / "pins.lock").stacks
    return read_issue(body, number=7, url=URL, stacks=stacks, now=now)


def measured() -> Document:
    """Return a real document of this workspace, made on a GPU."""
    return read_document(ROOT / "evidence" / "2026-11-30-native-cuda-h200.json")


def body_with(document: object, **fields: str) -> str:
    text = document if isinstance(document, str) else json.dumps(document)
    sections = {
        "GPU": "g",
        "Stack": "s",
        "What was shown": "w",
        "Document": f"```json\n{text}\n```",
        "Remarks": "r",
    }
    return "\n\n".join(f"### {name}\n\n{content}" for name, content in {**sections, **fields}.items())


def changed(**changes: Any) -> dict[str, Any]:
    return {**to_json(measured()), **changes}


def about(stack: str) -> dict[str, Any]:
    """Return a document that names another stack."""
    return to_json(replace(measured(), subject=replace(measured().subject, stack=stack)))


def test_the_template_has_the_fields_that_are_filled() -> None:
    form = yaml.safe_load((ROOT / ".github" / "ISSUE_TEMPLATE" / TEMPLATE).read_text(encoding="utf-8"))  # type: ignore[no-untyped-call]  # ships without hints
    fields = {row["id"]: row["attributes"]["label"] for row in form["body"] if "id" in row}
    assert fields == dict(FIELDS)


def test_what_is_prepared_can_be_filed() -> None:
    made = submission_of(measured(), Redactor())
    assert json.loads(made.document) == to_json(measured())
    assert parse_qs(made.query)["gpu"] == ["NVIDIA H200"]
    filed = filed_from(made.body)
    assert filed.name.startswith("2026-")
    assert filed.name.endswith(".json")
    back = from_json(json.loads(filed.content))
    assert back.provenance is Provenance.REPORTED
    assert back.source is not None
    assert back.source.url == URL
    assert back.level is measured().level
    assert back.results == measured().results


def test_line_ends_of_a_browser_make_no_difference() -> None:
    made = submission_of(measured(), Redactor())
    assert filed_from(made.body.replace("\n", "\r\n")) == filed_from(made.body)


@pytest.mark.parametrize("what", ["simulated", "custom", "no-lock", "no-gpu", "no-stack", "long"])
def test_what_helps_nobody_is_not_prepared(what: str) -> None:
    document = measured()
    assert document.lock is not None
    document = {
        "simulated": replace(document, simulated=True),
        "custom": replace(document, lock=replace(document.lock, custom=True)),
        "no-lock": replace(document, lock=None),
        "no-gpu": replace(document, subject=replace(document.subject, gpu=None)),
        "no-stack": replace(document, subject=replace(document.subject, stack="")),
        "long": replace(document, notes=tuple(f"note {number} " + "x" * 900 for number in range(80))),
    }[what]
    with pytest.raises(UsageError) as caught:
        submission_of(document, Redactor())
    assert caught.value.reference == ("document-too-long" if what == "long" else "nothing-to-submit")


@pytest.mark.slow
@pytest.mark.parametrize(
    "written",
    [
        *("Jürgen Groß", "J\\u00fcrgen Gro\\u00df", "J&#252;rgen Gro&#xdf;", "J%C3%BCrgen%20Gro%C3%9F"),
        *(
            "JÜRGEN GROSS",
            "Juergen_Gross",
            "Jürgen-Groß",
            "JürgenGroß",
            "Jür\u200bgen Groß",
            "RadeonJürgen Groß6600",
        ),
    ],
)
def test_a_gpu_that_a_person_named_after_herself_goes_without_the_name(written: str) -> None:
    document = measured()
    assert document.subject.gpu is not None
    gpu = replace(document.subject.gpu, name=f"AMD Radeon {written}", gfx=None)
    redactor = Redactor(user="Jürgen Groß", home="C:\\Users\\Jürgen Groß")
    made = submission_of(replace(document, subject=replace(document.subject, gpu=gpu)), redactor)
    [named] = parse_qs(made.query)["gpu"]
    assert named in made.title
    for part in (made.title, made.body, made.document, made.query):
        assert not re.search(r"rgen|gro(?:ß|s|%|\\\\)", part, re.IGNORECASE)


def hostile() -> dict[str, str]:
    """Return issues that anybody could write."""
    good = to_json(measured())
    subject: dict[str, Any] = to_json(measured())["subject"]  # type: ignore[assignment]  # an object
    return {
        "nothing": "",
        "no field": "### GPU\n\nx",
        "two documents": body_with(good) + "\n\n" + body_with(good),
        "no json": body_with("$(rm -rf /)"),
        "a list": body_with([]),
        "deep": body_with("[" * 50_000),
        "a long number": body_with('{"format": ' + "9" * 5_000 + "}"),
        "twice a key": body_with('{"format": 1, "format": 1}'),
        "newer": body_with(changed(format=99)),
        "simulated": body_with(changed(simulated=True)),
        "another lock": body_with(changed(lock={"digest": "0" * 64, "custom": True})),
        "no lock": body_with(changed(lock=None)),
        "no gpu": body_with(changed(subject={**subject, "gpu": None})),
        "no stack": body_with(changed(subject={**subject, "stack": ""})),
        "a level not earned": body_with(changed(level="integrated")),
        "a secret": body_with(changed(notes=["token ghp_0123456789abcdefghijABCDEFGHIJ012345"])),
        "a name": body_with(changed(notes=["see /home/juergen/run.log"])),
        "the year 9999": body_with(changed(created="9999-12-31T00:00:00Z")),
        "an unknown stack": body_with(about("zluda-v99-sdk99")),
        "an unknown key": body_with(changed(command="curl | sh")),
    }


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("submission_script", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize("name", hostile())
def test_a_hostile_issue_is_refused_in_a_sentence(
    name: str, tmp_path: Path, script: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    event = tmp_path / "event.json"
    issue = {"number": 7, "html_url": URL, "body": hostile()[name]}
    event.write_text(json.dumps({"issue": issue}), encoding="utf-8")
    assert script.main(event, tmp_path / "out") == 2
    told = capsys.readouterr().out.splitlines()
    assert told[0].strip()
    assert list((tmp_path / "out").iterdir()) == []


def test_the_script_ends_with_its_code(tmp_path: Path) -> None:
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"issue": {"number": 7, "html_url": URL, "body": ""}}), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(event), str(tmp_path / "out")],
        capture_output=True, text=True, encoding="utf-8", check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr


def test_a_name_is_made_of_checked_facts_only(tmp_path: Path) -> None:
    gpu = {
        "name": "../../.github/workflows/x.yml; rm -rf $HOME `id`",
        "gfx": None,
        "pci_id": None,
        "vendor": "AMD",
    }
    data = changed(subject={**to_json(measured())["subject"], "gpu": gpu})  # type: ignore[dict-item]  # an object
    filed = filed_from(body_with(data))
    assert "/" not in filed.name
    assert ".." not in filed.name
    assert set(filed.name) <= set("abcdefghijklmnopqrstuvwxyz0123456789.-")
    assert (tmp_path / filed.name).parent == tmp_path


def test_a_clock_may_be_a_day_ahead_and_no_more() -> None:
    made = body_with(to_json(measured()))
    created = measured().created
    assert filed_from(made, now=created - timedelta(days=1)).name
    with pytest.raises(UsageError) as caught:
        filed_from(made, now=created - timedelta(days=1, seconds=1))
    assert "is in the future" in caught.value.context[0]


def test_a_stack_that_no_lock_has_is_refused_for_that() -> None:
    with pytest.raises(UsageError, match=r"pins\.lock has no stack of its name"):
        filed_from(body_with(about("zluda-v99-sdk99")))


def test_a_field_in_the_remarks_is_no_second_document() -> None:
    made = submission_of(measured(), Redactor())
    forged = made.body.replace("_No response_", "### Document\n\n```json\n{}\n```")
    with pytest.raises(UsageError, match="2 fields"):
        filed_from(forged)


def test_a_good_document_behind_useless_ones_is_prepared(tmp_path: Path) -> None:
    """The newest one that says something counts, also where a newer one of the same stack does not."""
    good = measured()
    assert good.lock is not None
    useless = (
        replace(good, lock=replace(good.lock, custom=True)),
        replace(good, subject=replace(good.subject, gpu=None)),
        replace(good, simulated=True, subject=replace(good.subject, gpu=None)),
    )
    for number, document in enumerate((good, *useless)):
        write_document(tmp_path / "stage" / "reports" / f"2026120{number}T000000Z-x", document)
    ws = workspace_from_environ({}, root=tmp_path)
    made = report(ws, submit=True).submission
    assert made is not None
    assert json.loads(Path(made.document).read_text(encoding="utf-8")) == to_json(good)


@pytest.mark.slow
def test_report_shows_all_of_it_and_sends_nothing(checkout: Checkout) -> None:
    refused = checkout.run("report", "--submit")
    assert refused.returncode == 2
    assert "invoke setup" in refused.stderr
    folder = checkout.root / "stage" / "reports" / "20261130T000000Z-native-cuda"
    folder.mkdir(parents=True)
    (folder / "evidence.json").write_bytes(
        (ROOT / "evidence" / "2026-11-30-native-cuda-h200.json").read_bytes()
    )
    shown = checkout.run("report", "--submit")
    assert shown.returncode == 0
    assert "Nothing was sent." in shown.stdout
    made = checkout.json("report", "--submit")["submission"]
    assert made["body"].splitlines() == [line for line in made["body"].splitlines() if line in shown.stdout]
    assert Path(made["issue"]).read_text(encoding="utf-8") == made["body"]
    assert len(made["body"]) < MOST_IN_ISSUE
    assert not made["opened"]
