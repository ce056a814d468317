from __future__ import annotations

import io
import json
import os
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from scripts.app.context import Workspace
from scripts.app.report import report
from scripts.cli.console import Out
from scripts.cli.views.report import show_report as show
from scripts.errors import UsageError
from scripts.evidence.document import (
    Document,
    DocumentMachine,
    DocumentSource,
    GpuKey,
    LockFact,
    Provenance,
    Subject,
)
from scripts.evidence.evidence_io import dump, report_folder, write_document
from scripts.model import CapabilityResult, Level, NoProgress, Outcome
from tests.checkout import workspace_in

NOW = datetime(2026, 12, 1, tzinfo=UTC)
GPU = GpuKey(name="AMD Radeon RX 9060 XT", gfx="gfx1200", vendor="amd")


def workspace(root: Path, **environ: str) -> Workspace:
    return workspace_in(root, environ=environ)


def document(day: int, stack: str = "zluda", *, simulated: bool = False) -> Document:
    return Document(
        created=datetime(2026, 11, day, 12, 30, tzinfo=UTC),
        provenance=Provenance.MEASURED,
        subject=Subject(stack=stack, digest="b" * 64, gpu=None if simulated else GPU),
        machine=DocumentMachine(os="linux"),
        results=(
            CapabilityResult(capability="nvcuda", level=Level.LOADABLE, outcome=Outcome.PASS),
            CapabilityResult(
                capability="gemm", level=Level.LOADABLE, outcome=Outcome.INCORRECT, detail="off by [1e3]"
            ),
        ),
        not_exercised=("cudnn9",),
        simulated=simulated,
        lock=LockFact(digest="a" * 64),
    )


def file(ws: Workspace, made: Document) -> Path:
    folder = report_folder(ws.stage / "reports", stack=made.subject.stack, created=made.created)
    return write_document(folder, made)


def shown(result: object) -> str:
    stdout, stderr = io.StringIO(), io.StringIO()
    show(result, Out(stdout, stderr))  # type: ignore[arg-type]  # a ReportResult
    return stdout.getvalue() + stderr.getvalue()


def test_without_documents_it_says_what_to_do(tmp_path: Path) -> None:
    result = report(workspace(tmp_path))
    assert result.exit_code == 0
    assert "invoke setup" in shown(result)


@pytest.mark.parametrize(("simulated", "closing"), [(False, "promote it"), (True, "run a program")])
def test_only_what_a_gpu_did_is_to_be_promoted(tmp_path: Path, *, simulated: bool, closing: str) -> None:
    ws = workspace(tmp_path)
    file(ws, document(1, simulated=simulated))
    assert f"> {closing}" in shown(report(ws))


def test_the_newest_document_of_each_stack_is_shown(tmp_path: Path) -> None:
    ws = workspace(tmp_path)
    file(ws, document(1))
    newest = file(ws, document(3))
    other = file(ws, document(2, "cpu-reference", simulated=True))
    result = report(ws)
    assert [Path(seen.path) for seen in result.own] == [newest, other]
    text = shown(result)
    assert "zluda on AMD Radeon RX 9060 XT (gfx1200): loadable, incorrect, 2026-11-03 12:30 UTC" in text
    assert "off by [1e3]" in text
    assert "Not exercised: cudnn9" in text
    assert "proves the pipeline, not a GPU" in " ".join(text.split())


def test_a_broken_document_is_named_and_the_others_are_shown(tmp_path: Path) -> None:
    ws = workspace(tmp_path)
    good = file(ws, document(1))
    (ws.stage / "reports" / "20261102T000000Z-x").mkdir()
    (ws.stage / "reports" / "20261102T000000Z-x" / "evidence.json").write_text("{}", encoding="utf-8")
    result = report(ws)
    assert [Path(seen.path) for seen in result.own] == [good]
    assert "20261102T000000Z-x" in result.faults[0]


@pytest.mark.posix_only
def test_a_pipe_in_place_of_a_document_is_named_and_not_waited_for(tmp_path: Path) -> None:
    ws = workspace(tmp_path)
    good = file(ws, document(1))
    own, foreign = ws.stage / "reports" / "20261102T000000Z-x", tmp_path / "from others"
    for folder, name in ((own, "evidence.json"), (foreign, "capability-test.json"), (foreign, "other.json")):
        folder.mkdir(exist_ok=True)
        os.mkfifo(folder / name)
    result = report(ws)
    assert [Path(seen.path) for seen in result.own] == [good]
    assert "20261102T000000Z-x" in result.faults[0]
    with pytest.raises(UsageError):
        report(ws, import_=str(foreign))


def test_an_imported_document_is_filed_apart_and_never_becomes_evidence(tmp_path: Path) -> None:
    ws = workspace(tmp_path)
    stranger = tmp_path / "from a stranger ü.json"
    stranger.write_bytes(dump(document(5)))
    report(ws, import_=str(stranger), now=NOW)
    result = report(ws, import_=str(stranger), now=NOW)
    (added,) = result.added
    assert Path(added.path).parent == ws.stage / "reports" / "imported"
    assert len(result.imported) == 1
    assert result.own == ()
    assert not ws.evidence.exists()
    assert "not for truth" in shown(result)
    assert "From others (1)" in shown(report(ws))


@pytest.mark.parametrize("year", ["created", "source"])
def test_a_document_from_the_future_is_refused_and_not_filed(tmp_path: Path, year: str) -> None:
    ws = workspace(tmp_path)
    made = document(5)
    far = (
        replace(made, created=datetime(9999, 12, 31, tzinfo=UTC))
        if year == "created"
        else replace(
            made,
            provenance=Provenance.REPORTED,
            source=DocumentSource(name="x", url="https://example.org/x", date="9999-12-31"),
        )
    )
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "far.json").write_bytes(dump(far))
    (folder / "good.json").write_bytes(dump(document(4)))
    with pytest.raises(UsageError) as caught:
        report(ws, import_=str(folder / "far.json"), now=NOW)
    assert caught.value.context == ("its date, 9999-12-31, is in the future",)
    assert not (ws.stage / "reports").exists()
    result = report(ws, import_=str(folder), now=NOW)
    assert [seen.document for seen in result.added] == [document(4)]
    assert any("far.json" in fault and "in the future" in fault for fault in result.faults)


def test_a_strangers_forged_document_is_refused_and_not_filed(tmp_path: Path) -> None:
    ws = workspace(tmp_path)
    data = json.loads(dump(document(5)))
    data["level"] = "integrated"
    forged = tmp_path / "forged.json"
    forged.write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        report(ws, import_=str(forged))
    assert caught.value.reference == "evidence-invalid"
    assert caught.value.context == ("$.level: its results show loadable, it says integrated",)
    assert not (ws.stage / "reports").exists()


def test_the_bundle_holds_facts_findings_documents_and_logs_but_no_secrets(tmp_path: Path) -> None:
    ws = workspace(tmp_path, CUDA_PATH="/home/somebody/cuda", PATH="/home/somebody/bin", PRIVATE="no")
    path = file(ws, document(1))
    (path.parent / "check.log").write_text("token: ghp_" + "a1B2" * 9, encoding="utf-16")
    (ws.stage / "logs").mkdir()
    (ws.stage / "logs" / "wrap.log").write_text(
        "C:\\Users\\somebody\\x somebody@example.org", encoding="utf-8"
    )
    result = report(ws, bundle=True, findings=[{"rule": "x", "path": "/home/somebody/y"}])
    assert result.bundle is not None
    with zipfile.ZipFile(result.bundle) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    folder = path.parent.name
    assert set(content) == {
        "CONTENTS.txt", "doctor.json", "environment.json", "findings.json", "machine.json",
        "logs/logs/wrap.log",
        f"logs/{folder}/check.log", f"logs/{folder}/evidence.json",
    }  # fmt: skip
    for name, raw in content.items():
        text = raw.decode("utf-16" if name.endswith("check.log") else "utf-8")
        assert "somebody" not in text, name
        assert "a1B2" not in text, name
    assert json.loads(content["environment.json"]) == {
        "CUDA_PATH": "/home/<user>/cuda",
        "PATH": "/home/<user>/bin",
    }
    assert "look through the bundle" in shown(result)


class Noted(NoProgress):
    """Keep each note, and whether a bundle was there already."""

    def __init__(self, reports: Path) -> None:
        self.reports = reports
        self.notes: list[tuple[str, bool]] = []

    def note(self, message: str) -> None:
        self.notes.append((message, any(self.reports.glob("*.zip"))))


def test_the_bundle_says_what_was_taken_out_before_it_is_written(tmp_path: Path) -> None:
    noted = Noted(tmp_path / "stage" / "reports")
    ws = replace(workspace(tmp_path, CUDA_PATH="/home/somebody/cuda"), progress=noted)
    (ws.stage / "logs").mkdir(parents=True)
    for encoding in ("utf-8", "utf-16"):
        text = "/home/somebody/x by somebody@example.org, <user> as it was, token: ghp_" + "a1B2" * 9
        (ws.stage / "logs" / f"{encoding}.log").write_text(text, encoding=encoding)
    result = report(ws, bundle=True)
    assert noted.notes == [("taken out of 6 files: email (2), token (2), user (3)", False)]
    assert result.bundle is not None
    with zipfile.ZipFile(result.bundle) as archive:
        page = archive.read("CONTENTS.txt").decode()
    assert "replaced by the name of their kind, such as <user>" in " ".join(page.split())
    assert "\nTaken out:\n" in page, "the words that the page refers to"
    for line in (
        "environment.json: user (1)",
        "logs/logs/utf-8.log: email (1), token (1), user (1)",
        "logs/logs/utf-16.log: email (1), token (1), user (1)",
        "doctor.json: nothing",
    ):
        assert line in page.partition("Taken out:")[2].splitlines()


def test_what_json_says(tmp_path: Path) -> None:
    ws = workspace(tmp_path)
    path = file(ws, document(1))
    data = report(ws).to_json()
    assert json.loads(json.dumps(data))["own"] == [
        {"path": str(path), "document": json.loads(path.read_bytes())}
    ]
    assert (data["added"], data["bundle"], data["faults"]) == ([], None, [])
