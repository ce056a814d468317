# noqa: INP001 - a script, no package
"""Keep one issue for each regression: open or update it, and close it when the capability passes again.

python .github/scripts/regressions.py FOLDER

FOLDER holds the artifacts of a run of `validate`. Standard library only. What the files say is used as
text, never as markup: they come from another machine. An issue is ours when it carries the label and, in
its first line, the marker that names stack, GPU and capability.
"""

from __future__ import annotations

import json
import os
import re
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LABEL = "regression"
#: A stack, an architecture, a capability: what the other machine may call them.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._+-]{0,99}")
MARKER = re.compile(r"\A<!-- regression: (?P<key>[^\r\n]+) -->")
PAGE = 100
MOST_PAGES = 20


@dataclass(frozen=True)
class Action:
    """One change: ``number`` is 0 for an issue that is not there yet."""

    number: int
    body: Mapping[str, object]
    why: str


def read_rounds(folder: Path) -> list[dict[str, Any]]:
    """Return the newest validation of each (stack, gfx) that really ran."""
    newest: dict[tuple[str, str], dict[str, Any]] = {}
    for path in sorted(folder.rglob("*.json")):
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if not isinstance(data, dict) or data.get("format") != 1 or "verdict" not in data:
            continue
        if data["verdict"] == "skipped" or data.get("simulated") or not data.get("gfx"):
            continue
        key = (_name(data["stack"]), _name(data["gfx"]))
        if key not in newest or str(newest[key]["started"]) < str(data["started"]):
            newest[key] = data
    return list(newest.values())


def plan(rounds: list[dict[str, Any]], issues: list[dict[str, Any]], *, run: str) -> list[Action]:
    """Say what to change; an issue about something that was not run this time is left alone."""
    opened = {found["key"]: issue for issue in issues if (found := MARKER.match(issue.get("body") or ""))}
    actions: list[Action] = []
    for data in rounds:
        where = f"{_name(data['stack'])}/{_name(data['gfx'])}"
        worse = {f"{where}/{_name(row['capability'])}": row for row in data["regressions"]}
        for key, row in worse.items():
            issue = opened.get(key)
            if issue is None:
                body: dict[str, object] = {
                    "title": _title(key, row),
                    "body": _body(key, row, run),
                    "labels": [LABEL],
                }
                actions.append(Action(0, body, f"opened: {key}"))
            elif issue["body"] != _body(key, row, run):
                body = {"body": _body(key, row, run)}
                actions.append(Action(issue["number"], body, f"updated: {key}"))
        for capability in data["passed"]:
            key = f"{where}/{_name(capability)}"
            if key in opened and key not in worse:
                body = {"state": "closed", "state_reason": "completed", "body": _recovered(key, run)}
                actions.append(Action(opened[key]["number"], body, f"closed: {key}"))
    return actions


def _title(key: str, row: Mapping[str, Any]) -> str:
    stack, gfx, capability = key.split("/")
    return f"{capability} got worse with {stack} on {gfx} (was {_name(row['before'])})"


def _body(key: str, row: Mapping[str, Any], run: str) -> str:
    """Write an issue's text; what another machine said stands in a code block."""
    now = _name(row["outcome"]) if row["outcome"] != "pass" else _name(row["now"])
    detail = " ".join(str(row["detail"]).split()).replace("`", "'")[:500]
    return (
        f"<!-- regression: {key} -->\n"
        f"Was **{_name(row['before'])}** in `{_plain(row['document'])}`, is **{now}** in {run}.\n\n"
        f"```text\n{detail or 'no detail'}\n```\n"
    )


def _recovered(key: str, run: str) -> str:
    return f"<!-- regression: {key} -->\nIt passed again in {run}.\n"


def _plain(text: object) -> str:
    """Keep a path to harmless characters."""
    return re.sub(r"[^A-Za-z0-9 ._/-]", "?", str(text))[:200]


def _name(text: object) -> str:
    """Return a name as it is, or stop: a file with other names was not made by us.

    Raises:
        ValueError: it holds something that could be markup.
    """
    if not NAME.fullmatch(str(text)):
        msg = f"a validation holds a strange name: {str(text)[:60]!r}"
        raise ValueError(msg)
    return str(text)


class Issues:
    """The issues of one repository, over GitHub's interface for programs."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Take address, repository and token from the variables that GitHub sets."""
        self._url = f"{environ['GITHUB_API_URL']}/repos/{environ['GITHUB_REPOSITORY']}/issues"
        self._token = environ["GITHUB_TOKEN"]

    def ask(self, method: str, tail: str, body: Mapping[str, object] | None = None) -> Any:  # noqa: ANN401 - JSON
        """Ask once.

        Raises:
            OSError: no answer, or an answer that is an error.
        """
        request = urllib.request.Request(  # noqa: S310 - the address is GitHub's own variable
            self._url + tail, method=method, data=json.dumps(body).encode() if body is not None else None
        )
        request.add_header("Accept", "application/vnd.github+json")
        request.add_header("Authorization", f"Bearer {self._token}")
        request.add_header("X-GitHub-Api-Version", "2022-11-28")
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - as above
            return json.load(answer)

    def opened(self) -> Iterator[dict[str, Any]]:
        """Yield every open issue with our label; pull requests are listed there as well and left out."""
        for page in range(1, MOST_PAGES + 1):
            rows = self.ask("GET", f"?state=open&labels={LABEL}&per_page={PAGE}&page={page}")
            yield from (row for row in rows if "pull_request" not in row)
            if len(rows) < PAGE:
                return


def main(arguments: list[str], environ: Mapping[str, str]) -> int:
    """Do it, and say what was done."""
    rounds = read_rounds(Path(arguments[0]))
    issues = Issues(environ)
    where = f"{environ['GITHUB_SERVER_URL']}/{environ['GITHUB_REPOSITORY']}"
    run = f"{where}/actions/runs/{environ['GITHUB_RUN_ID']}"
    for action in plan(rounds, list(issues.opened()), run=run):
        if action.number:
            issues.ask("PATCH", f"/{action.number}", action.body)
        else:
            issues.ask("POST", "", action.body)
        sys.stdout.write(action.why + "\n")
    sys.stdout.write(f"{len(rounds)} validations looked at\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
