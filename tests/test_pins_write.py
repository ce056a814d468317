"""A lock is changed without losing a comment or changing a meaning nobody asked to change."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from scripts.errors import ConflictError, LockError
from scripts.lock.reader import parse_lock
from scripts.lock.writer import format_lock, save_lock, with_artifact, with_fields, with_stack
from scripts.model import (
    Artifact,
    ArtifactFormat,
    EnvPolicy,
    HipNeed,
    HipSource,
    Lock,
    Member,
    Requires,
    Stack,
    StackKind,
    Trust,
)

SHA = "e2959ed17c8ddae6bf2bf76cf3a7348f577a2548754685d776389df2220e5d9a"
UNTIDY = f"""\
# about the file

version   =   1 # the format

# about the stack
[[stack]] # layer and SDK
kind = "translation"
id = 'on-b'
unset = {{ B = {{ why = "b" }} }} # removed
[stack.hip]
# about hip
range = ">=6.4,<6.5"
from = "sdk" # the SDK
[stack.env.Z]
value = "1"
why = "z"

# about the next one,
# in two lines

[[artifact]]
trust = "independent"
# about the id
id = "b"
source = "s"
license = "MIT"
format = "zip"
sha256 = "{SHA}"
urls = ["https://example.org/b.zip", "https://example.org/c.zip",]
members = [{{path="z.dll",provides='z'}},{{path="a.dll"}}]
[[artifact]]
id = "a"
format = "zip"
license = "MIT"
source = "s # no comment"
trust = "independent"
sha256 = "{SHA}"
urls = [
  # the first mirror
  "https://example.org/a.zip",
]
# the end
"""
TIDY = f"""\
# about the file

version = 1  # the format

[[artifact]]
id = "a"
urls = [
  # the first mirror
  "https://example.org/a.zip",
]
sha256 = "{SHA}"
format = "zip"
license = "MIT"
source = "s # no comment"
trust = "independent"

# about the next one,
# in two lines
[[artifact]]
# about the id
id = "b"
urls = [
  "https://example.org/b.zip",
  "https://example.org/c.zip",
]
sha256 = "{SHA}"
format = "zip"
license = "MIT"
source = "s"
trust = "independent"
members = [
  {{ path = "a.dll" }},
  {{ path = "z.dll", provides = "z" }},
]

# about the stack
[[stack]]  # layer and SDK
id = "on-b"
kind = "translation"
# about hip
# the SDK
hip = {{ from = "sdk", range = ">=6.4,<6.5" }}

[stack.env]
Z = {{ value = "1", why = "z" }}

[stack.unset]  # removed
B = {{ why = "b" }}

# the end
"""


def read(text: str) -> Lock:
    return parse_lock(text.encode(), path=Path("pins.lock"))


def test_formatting_sorts_and_keeps_every_comment() -> None:
    assert format_lock(UNTIDY) == TIDY


def test_formatting_twice_changes_nothing() -> None:
    assert format_lock(TIDY) == TIDY


def test_formatting_makes_unix_line_ends() -> None:
    assert format_lock(UNTIDY.replace("\n", "\r\n")) == TIDY


def test_a_wrong_lock_is_refused_before_it_is_formatted() -> None:
    with pytest.raises(LockError) as caught:
        format_lock(UNTIDY.replace('"zip"', '"rar"', 1))
    assert caught.value.reference == "lock-unknown-value"


UNUSUAL = {
    "members with headers": 'version = 1\n[[artifact]]\nid = "a"\nformat = "zip"\nlicense = "x"\n'
    'source = "x"\n'
    f'trust = "independent"\nsha256 = "{SHA}"\nurls = ["https://example.org/a.zip"]\n'
    '[[artifact.members]]\npath = "a.dll"\n',
    "inline entries": 'version = 1\nstack = [{ id = "a", kind = "control" }]\n',
    "quoted headers": 'version = 1\n[["stack"]]\nid = "a"\nkind = "control"\n',
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_a_layout_that_cannot_be_kept_is_refused(name: str) -> None:
    read(UNUSUAL[name])
    with pytest.raises(LockError) as caught:
        format_lock(UNUSUAL[name])
    assert caught.value.reference == "lock-unusual-layout"


TEXTS = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp")), min_size=1, max_size=8
).filter(lambda text: text.strip())
IDS = st.from_regex(r"[a-z0-9]{1,4}(-[a-z0-9]{1,3}){0,2}", fullmatch=True)
HASHES = st.from_regex(r"[0-9a-f]{64}", fullmatch=True)
FILES = st.from_regex(r"[a-z]{3,6}(/[a-z]{3,6})?\.dll", fullmatch=True).filter(
    lambda path: not path.startswith(("con", "nul", "aux", "prn", "com", "lpt")) and "/" not in path
)


@st.composite
def artifacts(draw: st.DrawFn, identity: str) -> Artifact:
    paths = draw(st.lists(FILES, max_size=3, unique=True))
    return Artifact(
        id=identity,
        urls=tuple(f"https://example.org/{n}.zip" for n in range(draw(st.integers(1, 3)))),
        sha256=draw(HASHES),
        size=draw(st.none() | st.integers(1, 2**40)),
        format=draw(st.sampled_from([f for f in ArtifactFormat if f is not ArtifactFormat.SUPPLIED])),
        root=draw(st.sampled_from(["", "root", "a/b"])),
        license=draw(TEXTS),
        source=draw(TEXTS),
        trust=draw(st.sampled_from(Trust)),
        members=tuple(
            Member(
                path=path,
                name=draw(st.sampled_from([path, f"as/{path}"])),
                sha256=draw(st.none() | HASHES),
                size=draw(st.none() | st.integers(1, 9)),
                provides=draw(st.none() | TEXTS),
                needs=tuple(draw(st.lists(TEXTS, max_size=2))),
            )
            for path in sorted(paths)
        ),
        note=draw(st.just("") | TEXTS),
    )


PLAIN = st.from_regex(r"[a-z0-9:.']{1,9}[a-z]", fullmatch=True)


@st.composite
def locks(draw: st.DrawFn) -> Lock:
    names = draw(st.lists(IDS, max_size=3, unique=True))
    items = {name: draw(artifacts(name)) for name in names}
    stacks = {}
    for name in draw(st.lists(IDS, max_size=2, unique=True)):
        variables = draw(st.lists(st.from_regex(r"V[A-Z]{0,3}", fullmatch=True), max_size=3, unique=True))
        stacks[name] = Stack(
            id=name,
            kind=draw(st.sampled_from(StackKind)),
            parts=tuple(draw(st.permutations(names))) if names else (),
            optional={"more": (names[0],)} if names and draw(st.booleans()) else {},
            hip=HipNeed(
                source=draw(st.sampled_from(HipSource)), range=draw(st.sampled_from(["", ">=6.4,<6.5"]))
            ),
            requires=Requires(
                os=draw(st.sampled_from(["", "linux"])), gfx=draw(st.sampled_from([(), ("gfx1200",)]))
            ),
            api=draw(st.none() | IDS),
            env=tuple(
                EnvPolicy(
                    name=variable,
                    value=draw(st.none() | st.just("") | PLAIN),
                    why=draw(TEXTS),
                    only=draw(st.sampled_from(["", "check"])),
                )
                for variable in variables
            ),
            note=draw(st.just("") | TEXTS),
        )
    return Lock(path=Path("pins.lock"), digest="", artifacts=items, stacks=stacks)


@pytest.mark.slow
@settings(max_examples=25)
@given(locks())
def test_what_is_written_is_read_back_the_same(lock: Lock) -> None:
    text = "version = 1\n"
    for item in lock.artifacts.values():
        text = with_artifact(text, item)
    for stack in lock.stacks.values():
        text = with_stack(text, stack)
    again = read(text)
    assert again.artifacts == lock.artifacts
    by_name = {
        name: replace(stack, env=tuple(sorted(stack.env, key=lambda e: (e.value is None, e.name))))
        for name, stack in lock.stacks.items()
    }
    assert again.stacks == by_name
    assert format_lock(text) == text
    assert list(again.artifacts) == sorted(lock.artifacts)


COMMENTS = st.sampled_from(["# one", "# two [[stack]]", "# three = 'x", '# "four'])


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 60), COMMENTS), max_size=6))
def test_no_comment_line_is_ever_lost(insertions: list[tuple[int, str]]) -> None:
    lines = UNTIDY.split("\n")
    for where, comment in insertions:
        lines.insert(where % len(lines), comment)
    formatted = format_lock("\n".join(lines))
    for comment in ("# one", "# two [[stack]]", "# three = 'x", '# "four'):
        assert formatted.count(comment) == sum(comment == inserted for _, inserted in insertions)
    assert format_lock(formatted) == formatted


def test_setting_fields_keeps_the_entry_and_its_comments() -> None:
    text = with_fields(TIDY, "b", {"size": 5, "trust": "upstream-digest"})
    expected = TIDY.replace(f'c.zip",\n]\nsha256 = "{SHA}"\n', f'c.zip",\n]\nsha256 = "{SHA}"\nsize = 5\n')
    head, _, tail = expected.rpartition('trust = "independent"\nmembers')
    assert text == f'{head}trust = "upstream-digest"\nmembers{tail}'


def test_adding_what_is_there_already_is_refused() -> None:
    item = read(TIDY).artifacts["a"]
    with pytest.raises(LockError) as caught:
        with_artifact(TIDY, item)
    assert caught.value.reference == "lock-duplicate-id"


def test_adding_a_stack_of_unknown_parts_is_refused() -> None:
    with pytest.raises(LockError) as caught:
        with_stack(TIDY, Stack(id="x", kind=StackKind.CONTROL, parts=("nothing",)))
    assert caught.value.reference == "lock-dangling-reference"


def saved(tmp_path: Path, text: str) -> tuple[Path, str]:
    path = tmp_path / "pins.lock"
    path.write_bytes(text.encode())
    return path, read(text).digest


def test_saving_replaces_the_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    path, digest = saved(tmp_path, UNTIDY)
    mode = path.stat().st_mode
    save_lock(path, TIDY, expected=digest)
    assert path.read_bytes() == TIDY.encode(), "no platform may change the line ends"
    assert path.stat().st_mode == mode
    assert list(tmp_path.iterdir()) == [path]


def test_saving_over_somebody_elses_change_is_refused(tmp_path: Path) -> None:
    path, digest = saved(tmp_path, UNTIDY)
    path.write_bytes(TIDY.encode())
    with pytest.raises(ConflictError):
        save_lock(path, UNTIDY, expected=digest)
    assert path.read_bytes() == TIDY.encode()


@pytest.mark.posix_only
def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    path, digest = saved(tmp_path, UNTIDY)
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(LockError) as caught:
            save_lock(path, TIDY, expected=digest)
    finally:
        tmp_path.chmod(0o700)
    assert caught.value.reference == "lock-not-writable"


def test_a_write_that_fails_half_way_leaves_the_old_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, digest = saved(tmp_path, UNTIDY)

    def full(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(LockError) as caught:
        save_lock(path, TIDY, expected=digest)
    assert caught.value.reference == "lock-not-writable"
    assert path.read_bytes() == UNTIDY.encode()
    assert list(tmp_path.iterdir()) == [path]
