"""Every option that names a file or folder reads it as people type it: quotes, ``~``, and no nonsense."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from scripts.app.context import ROOT, Workspace, workspace_from_environ
from scripts.cli.options import Option, Verb
from scripts.cli.present import use_case
from scripts.cli.verbs import VERBS
from scripts.errors import UsageError

#: What else is typed, so that the option is read.
BESIDE: dict[str, dict[str, Any]] = {
    "compare and": {"records": "a.csv"},
    "compare plot": {"records": "a.csv"},
    "run workload": {"record": True},
    "ab workload": {"a": "cpu-reference", "b": "cpu-reference"},
}
#: Values that tell a file from a name.
ENDINGS = {"workload": ".toml"}
NAMED = [
    (verb, option)
    for verb in VERBS.values()
    for option in verb.options
    if {"FILE", "FOLDER", "PATH"} & set(option.value.replace("|", " ").split())
]


@pytest.fixture
def ws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A workspace in which nothing is set up; a shim alone would ask for its stack first."""
    made = workspace_from_environ(dict(os.environ), root=ROOT)
    places = {"stage": tmp_path / "stage", "state_root": tmp_path / "state", "cache_root": tmp_path / "store"}
    monkeypatch.setattr("scripts.app.shim.staged_runtime", lambda _ws, _stack: None)
    return replace(made, **places)


def test_the_table_of_options_has_some() -> None:
    names = {option.name for _verb, option in NAMED}
    assert {"supplied", "import", "path", "folder", "log", "workload", "records", "hip-root"} <= names


@pytest.mark.parametrize(("verb", "option"), NAMED, ids=[f"{v.name} {o.name}" for v, o in NAMED])
def test_what_is_no_path_is_refused_by_the_options_name(ws: Workspace, verb: Verb, option: Option) -> None:
    """Only the one reader of typed paths refuses so; it takes quotes and ``~`` too (test_output_files)."""
    value = "a\0b" + ENDINGS.get(option.name, "")
    words: dict[str, Any] = dict(BESIDE.get(f"{verb.name} {option.name}", {}))
    if any(other.name == "exe" and other.required for other in verb.options):
        words["exe"] = sys.executable
    words[option.parameter] = [value, value] if option.is_list else value
    with pytest.raises(UsageError) as caught:
        use_case(verb)(ws, **words)
    assert caught.value.reference == "bad-path"
    assert caught.value.message == f"--{option.name} holds a NUL character"
