"""Generations: which stack was active when; forward, back, and what a damaged list does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts.errors import HistoryError, UsageError
from scripts.staging.runtimes import (
    activate,
    forget_stage,
    go_back,
    known_stages,
    read_history,
    remember_stage,
)

A, B = "a" * 64, "b" * 64


def edited(**changes: object) -> str:
    """A list as somebody's editor might leave it."""
    row = {"number": 1, "stack": "one", "digest": A, "options": [], "lock": "", "created": "", "reason": ""}
    return json.dumps({"format": 1, "current": 1, "generations": [{**row, "document": "", **changes}]})


def test_an_empty_stage_has_no_history(tmp_path: Path) -> None:
    history = read_history(tmp_path)
    assert (history.current, history.generations, history.active, history.previous) == (0, (), None, None)


def test_each_activation_is_a_new_generation(tmp_path: Path) -> None:
    one = activate(tmp_path, stack="one", digest=A, lock="l", reason="setup")
    two = activate(tmp_path, stack="two", digest=B, lock="l", reason="setup")
    assert (one.number, two.number) == (1, 2)
    assert read_history(tmp_path).active == two
    assert read_history(tmp_path).previous == one


def test_activating_what_is_active_adds_nothing(tmp_path: Path) -> None:
    first = activate(tmp_path, stack="one", digest=A, lock="l", reason="setup")
    assert activate(tmp_path, stack="one", digest=A, lock="l", reason="setup") == first
    assert len(read_history(tmp_path).generations) == 1


def test_a_newer_document_takes_the_place_of_the_older_one(tmp_path: Path) -> None:
    activate(tmp_path, stack="one", digest=A, lock="l", reason="setup", document="first")
    activate(tmp_path, stack="one", digest=A, lock="l", reason="setup", document="second")
    activate(tmp_path, stack="one", digest=A, lock="l", reason="use")
    assert [g.document for g in read_history(tmp_path).generations] == ["second"]


@pytest.mark.parametrize(
    "change",
    [{"digest": B}, {"stack": "other"}, {"options": ("libtorch",)}, {"lock": "m"}],
    ids=lambda c: next(iter(c)),
)
def test_any_difference_is_a_new_generation(tmp_path: Path, change: dict[str, object]) -> None:
    base = {"stack": "one", "digest": A, "lock": "l", "options": ()}
    activate(tmp_path, **base, reason="setup")
    activate(tmp_path, **{**base, **change}, reason="setup")
    assert len(read_history(tmp_path).generations) == 2


def test_going_back_and_forward_keeps_the_list(tmp_path: Path) -> None:
    one = activate(tmp_path, stack="one", digest=A, lock="l", reason="setup")
    two = activate(tmp_path, stack="two", digest=B, lock="l", reason="setup")
    assert go_back(tmp_path) == (two, one)
    assert read_history(tmp_path).active == one
    assert go_back(tmp_path, to=2) == (one, two)
    assert read_history(tmp_path).generations == (one, two)


def test_numbers_are_never_used_twice(tmp_path: Path) -> None:
    activate(tmp_path, stack="one", digest=A, lock="l", reason="setup")
    activate(tmp_path, stack="two", digest=B, lock="l", reason="setup")
    go_back(tmp_path)
    assert activate(tmp_path, stack="three", digest=A, lock="l", reason="setup").number == 3


@pytest.mark.parametrize(
    ("count", "to"), [(0, None), (1, None), (1, 7)], ids=["nothing", "only one", "unknown"]
)
def test_nothing_to_go_back_to_is_said(tmp_path: Path, count: int, to: int | None) -> None:
    for number in range(count):
        activate(tmp_path, stack=f"s{number}", digest=A, lock="l", reason="setup")
    before = read_history(tmp_path)
    with pytest.raises(UsageError) as caught:
        go_back(tmp_path, to=to)
    assert caught.value.reference == "no-such-generation"
    assert read_history(tmp_path) == before


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"format": 1}',
        '{"format": 99, "current": 0, "generations": []}',
        '{"format":1,"current":1,"generations":[{}]}',
        "[" * 100_000,
        edited(digest="../../elsewhere"),
        edited(digest=5),
        edited(digest=""),
        edited(number="1"),
        edited(stack=["one"]),
        edited(document=7),
        edited(options=[1]),
        edited(document="evidence\0.json"),
        edited(stack="\ud800"),
        edited(document="d" * 5000),
        edited(number=10**400),
        '{"format":1,"current":Infinity,"generations":[]}',
        '{"format":1,"current":true,"generations":[]}',
        '{"format":1,"current":2,"generations":[]}',
        '{"format":1,"current":-1,"generations":[]}',
    ],
    ids=[
        *("empty", "cut off", "a list", "nothing in it", "newer", "an empty entry", "too deep"),
        *("digest leads away", "digest is a number", "no digest", "number is a word"),
        *("stack is a list", "document is a number", "an option is a number"),
        *("a NUL", "half a character", "too long", "a huge number", "infinity", "a truth value"),
        *("a current one that is not listed", "a current one below zero"),
    ],
)
def test_a_damaged_list_is_refused_and_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "generations.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(HistoryError) as caught:
        activate(tmp_path, stack="one", digest=A, lock="l", reason="setup")
    assert (caught.value.reference, int(caught.value.code)) == ("generations-unreadable", 40)
    assert path.read_text(encoding="utf-8") == text


def test_the_file_is_plain_json(tmp_path: Path) -> None:
    activate(tmp_path, stack="one", digest=A, lock="l", reason="setup")
    data = json.loads((tmp_path / "generations.json").read_text(encoding="utf-8"))
    assert data["current"] == 1
    assert data["generations"][0]["stack"] == "one"


def test_the_index_of_checkouts_forgets_what_is_gone(tmp_path: Path) -> None:
    state, one, two = tmp_path / "state", tmp_path / "one", tmp_path / "zwei ü"
    one.mkdir()
    two.mkdir()
    remember_stage(state, one)
    remember_stage(state, two)
    remember_stage(state, two)
    assert known_stages(state) == (one, two)
    one.rmdir()
    assert known_stages(state) == (two,)
    forget_stage(state, two)
    assert known_stages(state) == ()


def test_one_bad_name_in_the_index_hides_no_other(tmp_path: Path) -> None:
    state, one = tmp_path / "state", tmp_path / "one"
    state.mkdir()
    one.mkdir()
    names = [5, "n" * 5000, None, str(one), ["two"]]
    (state / "workspaces.json").write_text(json.dumps({"stages": names}), encoding="utf-8")
    assert known_stages(state) == (one,)


def test_an_unreadable_index_knows_nothing_and_is_made_anew(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    (state / "workspaces.json").write_text("not json", encoding="utf-8")
    assert known_stages(state) == ()
    remember_stage(state, tmp_path)
    assert known_stages(state) == (tmp_path,)
