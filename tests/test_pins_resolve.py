"""A stack's name leads to its files in order; two locks differ field by field."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from scripts.errors import UsageError
from scripts.lock.reader import parse_lock, resolve
from scripts.lock.update import diff
from scripts.model import Lock

SHA = "e2959ed17c8ddae6bf2bf76cf3a7348f577a2548754685d776389df2220e5d9a"


def artifact(name: str, *, size: str = "size = 10\n", members: str = "") -> str:
    return (
        f'[[artifact]]\nid = "{name}"\nurls = ["https://example.org/{name}.zip"]\nsha256 = "{SHA}"\n{size}'
        f'format = "zip"\nlicense = "MIT"\nsource = "s"\ntrust = "independent"\nmembers = [{members}]\n'
    )


TEXT = (
    "version = 1\n"
    + artifact("layer", members='{ path = "a.dll", provides = "a" }, { path = "b.dll" }')
    + artifact("patch", size="size = 5\n", members='{ path = "a.dll", provides = "patched" }')
    + artifact("torch", size="")
    + f"""
[[artifact]]
id = "mine"
format = "supplied"
license = "unknown"
source = "s"
trust = "single-report"
members = [{{ path = "own.dll", sha256 = "{SHA}" }}]

[[stack]]
id = "layer-patched"
kind = "translation"
parts = ["layer", "mine", "patch"]
optional = {{ libtorch = ["torch"], again = ["patch"] }}
env = {{ ZLUDA_CC = {{ value = "8.6", why = "explicit" }} }}

[[stack]]
id = "native-cuda"
kind = "control"
"""
)


def lock(text: str = TEXT) -> Lock:
    return parse_lock(text.encode(), path=Path("pins.lock"))


def test_parts_come_in_the_locks_order_and_later_ones_win() -> None:
    found = resolve(lock(), "layer-patched")
    assert [item.id for item in found.artifacts] == ["layer", "mine", "patch"]
    assert {name: owner for name, (owner, _) in found.members.items()} == {
        "a.dll": "patch",
        "b.dll": "layer",
        "own.dll": "mine",
    }
    assert found.members["a.dll"][1].provides == "patched"


def test_supplied_files_are_no_download() -> None:
    assert resolve(lock(), "layer-patched").download_bytes == 15


def test_an_unknown_size_makes_the_sum_unknown() -> None:
    assert resolve(lock(), "layer-patched", with_=("libtorch",)).download_bytes is None


def test_options_come_last_and_each_artifact_once() -> None:
    found = resolve(lock(), "layer-patched", with_=("libtorch", "again"))
    assert [item.id for item in found.artifacts] == ["layer", "mine", "patch", "torch"]


def test_a_stack_without_parts_needs_nothing() -> None:
    found = resolve(lock(), "native-cuda")
    assert (found.artifacts, found.members, found.download_bytes) == ((), {}, 0)


def test_an_unknown_stack_is_answered_with_near_names_and_all_names() -> None:
    with pytest.raises(UsageError) as caught:
        resolve(lock(), "layer-patchd")
    assert caught.value.reference == "unknown-stack"
    assert caught.value.hint == "try layer-patched; known: layer-patched, native-cuda"


def test_a_name_like_none_of_them_is_answered_with_all_names() -> None:
    with pytest.raises(UsageError) as caught:
        resolve(lock(), "zzz")
    assert caught.value.hint == "choose one of: layer-patched, native-cuda"


def test_an_unknown_option_is_answered_with_the_choices() -> None:
    with pytest.raises(UsageError) as caught:
        resolve(lock(), "layer-patched", with_=("torch",))
    assert caught.value.reference == "unknown-option"
    assert caught.value.hint == "choose one for --with: again, libtorch"


def test_equal_locks_do_not_differ_whatever_their_layout() -> None:
    change = diff(lock(), replace(lock("# a comment\n" + TEXT)))
    assert not change
    assert change.lines() == ()


def test_changes_are_told_field_by_field() -> None:
    new = (
        TEXT.replace("size = 5\n", "size = 6\n")
        .replace('"b.dll" }', '"b.dll", size = 3 }')
        .replace('value = "8.6"', 'value = "8.8"')
        .replace('id = "native-cuda"\nkind = "control"', 'id = "other"\nkind = "reference"')
    )
    assert diff(lock(), lock(new)).lines() == (
        "~ artifact layer",
        "    + members[b.dll].size: 3",
        "~ artifact patch",
        "    - size: 5",
        "    + size: 6",
        "~ stack layer-patched",
        "    - env[ZLUDA_CC].value: 8.6",
        "    + env[ZLUDA_CC].value: 8.8",
        "- stack native-cuda",
        "    - kind: control",
        "    - hip.source: none",
        "+ stack other",
        "    + kind: reference",
        "    + hip.source: none",
    )


def test_a_removed_variable_does_not_look_like_an_empty_one() -> None:
    removed = TEXT.replace('env = { ZLUDA_CC = { value = "8.6",', "unset = { ZLUDA_CC = {")
    empty = TEXT.replace('value = "8.6"', 'value = ""')
    assert diff(lock(removed), lock(empty)).lines() == (
        "~ stack layer-patched",
        "    - env[ZLUDA_CC].value: (removed)",
        "    + env[ZLUDA_CC].value: (empty)",
    )


def test_going_back_is_the_opposite_difference() -> None:
    new = lock(TEXT.replace("size = 5\n", ""))
    there, back = diff(lock(), new), diff(new, lock())
    assert [(f.field, f.old, f.new) for f in there.changes[0].fields] == [("size", "5", "")]
    assert [(f.field, f.old, f.new) for f in back.changes[0].fields] == [("size", "", "5")]
    assert there.to_json()[0]["change"] == "changed"
