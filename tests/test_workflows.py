"""The workflows keep the rules for machines of our own; their steps are commands that a person types."""

from __future__ import annotations

import functools
import importlib.util
import json
import re
import shlex
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from invoke.vendor import yaml  # type: ignore[attr-defined]  # ships without hints
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from tests.checkout import ROOT, Checkout

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
SCRIPT = ROOT / ".github" / "scripts" / "regressions.py"
#: Whoever can cause these is not one of us.
STRANGERS = {
    "pull_request",
    "pull_request_target",
    "issues",
    "issue_comment",
    "discussion",
    "workflow_run",
    "fork",
}
#: What it takes to open a pull request; such a job gets checked files only.
PROPOSING = {"contents": "write", "pull-requests": "write"}
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}")


@functools.cache
def read(path: Path) -> dict[str, Any]:
    """Read a workflow; YAML 1.1 takes the key ``on`` for a truth value."""
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {("on" if key is True else key): value for key, value in data.items()}


def jobs() -> list[Any]:
    """Return every job of every workflow."""
    found = []
    for path in WORKFLOWS:
        for name, job in read(path)["jobs"].items():
            found.append(pytest.param(read(path), job, id=f"{path.stem}-{name}"))
    return found


def runners(job: dict[str, Any]) -> list[str]:
    """Return every label that a job may run on."""
    matrix = job.get("strategy", {}).get("matrix", {})
    rows = [row.get("labels", []) for row in matrix.get("include", [])]
    plain = job["runs-on"] if isinstance(job["runs-on"], list) else [job["runs-on"]]
    return [
        str(label) for label in (*plain, *(label for row in rows for label in row), *matrix.get("os", []))
    ]


def test_there_is_something_to_check() -> None:
    assert {path.stem for path in WORKFLOWS} == {"ci", "compatibility", "pins", "release", "validate"}
    assert any("self-hosted" in runners(job) for job in read(WORKFLOWS[-1])["jobs"].values())


@pytest.mark.parametrize(("workflow", "job"), jobs())
def test_every_job_has_few_rights_pinned_actions_and_an_end(
    workflow: dict[str, Any], job: dict[str, Any]
) -> None:
    assert workflow["permissions"] == {}, "rights are given job by job"
    own = "self-hosted" in runners(job)
    rights = job["permissions"]
    if rights == PROPOSING:
        assert job["needs"] == "check", "what a stranger wrote was read by a job without rights"
    elif rights == {"contents": "write"}:
        assert set(workflow["on"]) == {"push"}, "only who may push a tag drafts a release"
    else:
        assert rights == {"contents": "read"} if own else rights.get("contents") == "read"
        assert set(rights) <= {"contents", "issues"}
    assert job["timeout-minutes"] > 0
    for step in job["steps"]:
        if "uses" in step:
            assert PINNED.fullmatch(step["uses"]), step["uses"]
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False
        if own:
            assert "GITHUB_TOKEN" not in str(step), "no token on a machine of our own"


@pytest.mark.parametrize(("workflow", "job"), jobs())
def test_no_stranger_reaches_a_machine_of_our_own(workflow: dict[str, Any], job: dict[str, Any]) -> None:
    if "self-hosted" not in runners(job):
        assert all(
            re.fullmatch(r"(ubuntu|windows)-[0-9.]+|\$\{\{ matrix\.os \}\}", r) for r in runners(job)
        ), runners(job)
        return
    assert set(workflow["on"]) == {"schedule", "workflow_dispatch"}
    assert workflow["on"]["workflow_dispatch"] is None, "no inputs: nothing that somebody types gets there"
    default = "(github.event_name == 'schedule' || github.ref_name == github.event.repository.default_branch)"
    assert job["if"].endswith(f"&& {default}")


def test_strangers_start_hosted_jobs_without_secrets_only() -> None:
    for path in WORKFLOWS:
        workflow = read(path)
        if STRANGERS & set(workflow["on"]):
            assert "secrets." not in path.read_text(encoding="utf-8")
            assert not any("self-hosted" in runners(job) for job in workflow["jobs"].values())


@pytest.mark.parametrize(("workflow", "job"), jobs())
def test_no_step_puts_what_somebody_typed_into_a_shell(workflow: dict[str, Any], job: dict[str, Any]) -> None:
    for step in job["steps"]:
        found = set(re.findall(r"\$\{\{\s*([^}]+?)\s*\}\}", step.get("run", "")))
        assert found <= {"matrix.python", "matrix.gfx"}, found


def commands() -> list[Any]:
    """Return what the jobs run, as words, once each."""
    seen: dict[str, str] = {}
    for path in WORKFLOWS:
        for name, job in read(path)["jobs"].items():
            for step in job["steps"]:
                if "run" in step:
                    seen.setdefault(step["run"].strip(), f"{path.stem}-{name}")
    return [pytest.param(line, id=f"{where}: {line.splitlines()[0][:40]}") for line, where in seen.items()]


#: Commands that need the network or hours; what they start is tested where it lives.
ELSEWHERE = {
    "python -m scripts test --all": "test_bootstrap: the front door",
    "bash .ci/run": "this is what runs the tests",
    "python -m scripts pins.check": "test_pins_tasks, against a local server",
    "python -m scripts pins.update --write": "test_pins_tasks, against a local server",
    "python .github/scripts/regressions.py validations": "below, against a local server",
    "python -m tools.sboms components": "test_sbom",
    "python -m tools.generated_docs": "test_cli_verbs and the session `docs`",
    "python -m pip install --require-hashes -r requirements.lock": "test_bootstrap: the front door",
    'python .github/scripts/submission.py "$GITHUB_EVENT_PATH" checked': "test_submission",
}


@pytest.mark.slow
@pytest.mark.parametrize("line", commands())
def test_the_steps_are_commands_that_a_person_types(line: str, request: pytest.FixtureRequest) -> None:
    if line in ELSEWHERE:
        return
    if line.startswith("{ echo"):
        assert "git diff -- pins.lock" in line
        return
    if line.startswith("gh issue comment"):
        assert "github.event" not in line, "the text is ours"
        return
    if line.startswith("gh release create"):
        assert "--draft" in line
        return
    if "gh pr create" in line:
        assert "git add evidence README.md docs" in line
        assert "--force" not in line, "what was reviewed is not replaced"
        return
    words = shlex.split(
        line.replace("${{ matrix.python }}", "python").replace("${{ matrix.gfx }}", "gfx1200")
    )
    assert words[:2] == ["python", "-m"]
    checkout: Checkout = request.getfixturevalue("checkout")
    if words[2] == "scripts":
        assert checkout.run(*words[3:]).returncode == 0
        return
    from tests.test_validate import nox  # noqa: PLC0415 - only this row needs it

    assert words[2:5] == ["nox", "-s", "validate"]
    words[4] = "validate(native-cuda)"  # one stack is enough to see that the line is read
    done = nox(checkout, *words[3:])
    assert "gfx1200 was required and nothing was shown for it" in done.stdout + done.stderr


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("regressions_script", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


class GitHub:
    """A server in the shape of GitHub's issues: lists with labels and pages, opens, changes."""

    def __init__(self, server: HTTPServer) -> None:
        self.issues: list[dict[str, Any]] = []
        self.tokens: set[str | None] = set()
        server.expect_request(re.compile("/repos/me/it/issues.*")).respond_with_handler(self.answer)
        self.environ = {
            "GITHUB_API_URL": server.url_for("").rstrip("/"),
            "GITHUB_SERVER_URL": "https://github.com",
            "GITHUB_REPOSITORY": "me/it",
            "GITHUB_RUN_ID": "7",
            "GITHUB_TOKEN": "t0ken",
        }

    def answer(self, request: Request) -> Response:
        self.tokens.add(request.headers.get("Authorization"))
        if request.method == "GET":
            size, page = int(request.args["per_page"]), int(request.args["page"])
            rows = [
                row
                for row in self.issues
                if row["state"] == request.args["state"] and request.args["labels"] in row["labels"]
            ]
            return Response(json.dumps(rows[size * (page - 1) : size * page]))
        body = json.loads(request.data)
        if request.method == "POST":
            self.issues.append({"number": len(self.issues) + 1, "state": "open", **body})
            return Response(json.dumps(self.issues[-1]), status=201)
        issue = self.issues[int(request.path.rsplit("/", 1)[1]) - 1]
        issue.update(body)
        return Response(json.dumps(issue))


@pytest.fixture
def github(httpserver: HTTPServer) -> GitHub:
    return GitHub(httpserver)


def file_round(folder: Path, *, started: str = "2026-09-01", **changes: object) -> None:
    """Write one validation as an artifact holds it."""
    row = {
        "capability": "cublas gemm",
        "before": "functional",
        "now": "loadable",
        "outcome": "incorrect",
        "detail": "error 0.5 ``` </details> @everyone",
        "document": "evidence/a`b.json",
    }
    body = {
        "format": 1,
        "stack": "zluda-v6-sdk64",
        "gfx": "gfx1200",
        "verdict": "failed",
        "simulated": False,
        "started": started,
        "passed": ["nvcuda"],
        "regressions": [row],
        **changes,
    }
    path = folder / "validation-windows-gfx1200" / "rounds" / started / "zluda-v6-sdk64.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(body), encoding="utf-8")


RECOVERED: dict[str, Any] = {"verdict": "passed", "passed": ["nvcuda", "cublas gemm"], "regressions": []}


def test_a_regression_opens_one_issue_updates_it_and_closes_it(
    script: ModuleType, github: GitHub, tmp_path: Path
) -> None:
    file_round(tmp_path)
    assert script.main([str(tmp_path)], github.environ) == 0
    (issue,) = github.issues
    assert issue["title"] == "cublas gemm got worse with zluda-v6-sdk64 on gfx1200 (was functional)"
    assert issue["labels"] == ["regression"]
    assert "actions/runs/7" in issue["body"]
    assert issue["body"].count("```") == 2, "what the machine said stays inside the block"
    assert "a?b.json" in issue["body"]
    assert github.tokens == {"Bearer t0ken"}

    script.main([str(tmp_path)], {**github.environ, "GITHUB_RUN_ID": "8"})
    assert len(github.issues) == 1
    assert "actions/runs/8" in issue["body"]
    assert issue["state"] == "open"

    file_round(tmp_path, started="2026-09-08", **RECOVERED)
    script.main([str(tmp_path)], github.environ)
    assert (issue["state"], issue["state_reason"]) == ("closed", "completed")

    file_round(tmp_path, started="2026-09-15")
    script.main([str(tmp_path)], github.environ)
    assert [row["state"] for row in github.issues] == ["closed", "open"], "a second time is a second issue"


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"verdict": "skipped"}, id="skipped"),
        pytest.param({"gfx": "gfx1100", **RECOVERED}, id="another GPU"),
        pytest.param({"stack": "other", **RECOVERED}, id="another stack"),
        pytest.param({"passed": ["nvcuda"], "regressions": []}, id="that capability was not shown"),
        pytest.param({"simulated": True, **RECOVERED}, id="simulated"),
    ],
)
def test_only_a_pass_of_the_same_closes_an_issue(
    script: ModuleType, github: GitHub, tmp_path: Path, changes: dict[str, Any]
) -> None:
    file_round(tmp_path / "first")
    script.main([str(tmp_path / "first")], github.environ)
    file_round(tmp_path / "then", **changes)
    script.main([str(tmp_path / "then")], github.environ)
    assert [issue["state"] for issue in github.issues] == ["open"]


def test_issues_of_others_are_left_alone(script: ModuleType, github: GitHub, tmp_path: Path) -> None:
    marker = "<!-- regression: zluda-v6-sdk64/gfx1200/cublas gemm -->"
    strange = [
        {"body": marker, "labels": []},
        {"body": None, "labels": ["regression"]},
        {"body": f"see {marker}", "labels": ["regression"]},
        {"body": marker, "labels": ["regression"], "pull_request": {}},
    ]
    github.issues = [{"number": n, "state": "open", **row} for n, row in enumerate(strange, 1)]
    before = json.dumps(github.issues)
    file_round(tmp_path, **RECOVERED)
    script.main([str(tmp_path)], github.environ)
    assert json.dumps(github.issues) == before


def test_an_issue_beyond_the_first_page_is_found(script: ModuleType, github: GitHub, tmp_path: Path) -> None:
    file_round(tmp_path)
    script.main([str(tmp_path)], github.environ)
    (known,) = github.issues
    github.issues = [
        *({"number": n, "state": "open", "labels": ["regression"], "body": "x"} for n in range(1, 102)),
        {**known, "number": 102},
    ]
    script.main([str(tmp_path)], github.environ)
    assert len(github.issues) == 102


def test_a_strange_name_from_the_other_machine_stops_everything(
    script: ModuleType, github: GitHub, tmp_path: Path
) -> None:
    file_round(tmp_path, stack="a --> [x](https://example.org)")
    with pytest.raises(ValueError, match="strange name"):
        script.main([str(tmp_path)], github.environ)
    assert github.issues == []
