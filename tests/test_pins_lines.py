"""Every key of a TOML document is found on its line, whatever the document looks like."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator

import pytest
import tomlkit
from hypothesis import given, settings
from hypothesis import strategies as st

from scripts.lock.toml_nodes import Key, dotted, line_of, locate

SAMPLE = """\
# a comment with [brackets] and "quotes"
version = 1
"quoted key" = 'x'  # = not = a = key
a.b . "c.d" = [ # first
  1, "]", '''
]]''',
  { x = [
    true,
  ], y.z = 1979-05-27T07:32:00Z },
]
text = \"\"\"
[[artifact]]
id = "no" \\
\"\"\"\"\"

[[artifact]]
id = "one"
[artifact.sub]
k = 1
[[artifact.deep]]
k = 2
[[artifact.deep]]
k = 3

[[ artifact ]]
id = "two"
[artifact.'sub']
"\\u006b" = 4
"""
EXPECTED = {
    "version": 2,
    '"quoted key"': 3,
    "a": 4,
    "a.b": 4,
    'a.b."c.d"': 4,
    'a.b."c.d"[0]': 5,
    'a.b."c.d"[1]': 5,
    'a.b."c.d"[2]': 5,
    'a.b."c.d"[3]': 7,
    'a.b."c.d"[3].x': 7,
    'a.b."c.d"[3].x[0]': 8,
    'a.b."c.d"[3].y': 9,
    'a.b."c.d"[3].y.z': 9,
    "text": 11,
    "artifact": 16,
    "artifact[0]": 16,
    "artifact[0].id": 17,
    "artifact[0].sub": 18,
    "artifact[0].sub.k": 19,
    "artifact[0].deep": 20,
    "artifact[0].deep[0]": 20,
    "artifact[0].deep[0].k": 21,
    "artifact[0].deep[1]": 22,
    "artifact[0].deep[1].k": 23,
    "artifact[1]": 25,
    "artifact[1].id": 26,
    "artifact[1].sub": 27,
    "artifact[1].sub.k": 28,
}


@pytest.mark.parametrize("ends", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_every_kind_of_key_is_found_on_its_line(ends: str) -> None:
    text = SAMPLE.replace("\n", ends)
    tomllib.loads(text)
    assert {dotted(key): line for key, line in locate(text).items()} == EXPECTED


def test_a_missing_key_falls_back_to_what_is_around_it() -> None:
    lines = locate(SAMPLE)
    assert line_of(lines, ("artifact", 1, "urls", 3)) == 25
    assert line_of(lines, ("nothing",)) == 1
    assert line_of(lines, ()) == 1


KEYS = st.text("ab-_", min_size=1, max_size=3) | st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=4
)
SCALARS = (
    st.integers(-9, 9)
    | st.booleans()
    | st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=6)
    | st.datetimes()
    | st.floats(allow_nan=False)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


def paths(value: object, key: Key = ()) -> Iterator[Key]:
    if key:
        yield key
    if isinstance(value, dict):
        for name, item in value.items():
            yield from paths(item, (*key, name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from paths(item, (*key, index))


@pytest.mark.slow
@settings(max_examples=60)
@given(st.dictionaries(KEYS, VALUES, max_size=4))
def test_exactly_the_keys_that_tomllib_reads_are_found(data: dict[str, object]) -> None:
    text = tomlkit.dumps(data)
    whole = tomllib.loads(text)
    lines = locate(text)
    assert set(lines) == set(paths(whole))
    assert all(1 <= line <= text.count("\n") + 1 for line in lines.values())


@given(
    st.lists(
        st.tuples(st.sampled_from(["x = 1", "y = [\n1,\n\n2]", "# no", "", "z = '''\n\n'''"])), max_size=6
    )
)
def test_lines_are_counted_through_everything_in_between(blocks: list[tuple[str]]) -> None:
    text = ""
    expected = []
    for (block,) in blocks:
        text += "[[t]]\n" + block + "\n"
        expected.append(text.count("\n", 0, text.rindex("[[t]]")) + 1)
    lines = locate(text)
    assert [lines["t", index] for index in range(len(blocks))] == expected


def test_the_cost_is_linear() -> None:
    """Counted, not timed: reading a character twice would show in the number of newlines counted."""
    text = "[[t]]\nx = [1, 2, 3]\n" * 2000
    lines = locate(text)
    assert lines["t", 1999, "x", 2] == 4000
    assert len(lines) == 1 + 2000 * 5


@pytest.mark.parametrize(
    ("key", "text"),
    [((), ""), (("a", 3, "urls", 0), "a[3].urls[0]"), (("a b",), '"a b"'), (("", "é"), '"".' + '"é"')],
)
def test_paths_are_written_the_way_people_read_them(key: Key, text: str) -> None:
    assert dotted(key) == text
