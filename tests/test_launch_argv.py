"""Every argument arrives as it was given, through one reading of a command line or through two."""

from __future__ import annotations

from pathlib import PureWindowsPath

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scripts.errors import LaunchError, UsageError
from scripts.launch.argv import (
    LINE_LIMIT,
    child_line,
    direct_line,
    launcher_line,
    parse_args_file,
    quote,
    refuse_nul,
    refuse_unstartable,
    utf16_units,
)
from tests.command_lines import by_c_runtime, by_shell32, through_joining_launcher

E = PureWindowsPath("E")
Z = PureWindowsPath("Z")

#: Arguments, the line the program must see, and the line the launcher must get, seen to arrive
#: with msvcrt, UCRT, CommandLineToArgvW, Rust and CPython behind the argument logic of vosen/ZLUDA@87531d3.
TABLE = [
    (("plain",), '"E" plain', r"-- \"E\" plain"),
    (("a b",), '"E" "a b"', r'-- \"E\" "\"a b\""'),
    (("",), '"E" ""', r"-- \"E\" \"\""),
    (("", "x", ""), '"E" "" x ""', r"-- \"E\" \"\" x \"\""),
    (('a"b',), r'"E" a\"b', r"-- \"E\" a\\\"b"),
    (('"a b"',), r'"E" "\"a b\""', r'-- \"E\" "\"\\\"a b\\\"\""'),
    (('"',), r'"E" \"', r"-- \"E\" \\\""),
    (("C:\\dir\\",), '"E" C:\\dir\\', '-- \\"E\\" C:\\dir\\'),
    (("C:\\Program Files\\",), r'"E" "C:\Program Files\\"', r'-- \"E\" "\"C:\Program Files\\\\\""'),
    (('a\\\\"b c',), r'"E" "a\\\\\"b c"', r'-- \"E\" "\"a\\\\\\\\\\\"b c\""'),
    (("\\\\srv\\share\\x y\\",), r'"E" "\\srv\share\x y\\"', r'-- \"E\" "\"\\srv\share\x y\\\\\""'),
    (('--out="a b"',), r'"E" "--out=\"a b\""', r'-- \"E\" "\"--out=\\\"a b\\\"\""'),
    (('{"k": "v\\\\"}',), r'"E" "{\"k\": \"v\\\\\"}"', r'-- \"E\" "\"{\\\"k\\\": \\\"v\\\\\\\\\\\"}\""'),
    (
        ("-x", "--help", "--", "--zluda", "--nvcuda=x"),
        '"E" -x --help -- --zluda --nvcuda=x',
        r"-- \"E\" -x --help -- --zluda --nvcuda=x",
    ),
    (
        ("%PATH%", "^", "&", "|", "<", ">", "(", ")", "!"),
        '"E" %PATH% ^ & | < > ( ) !',
        r"-- \"E\" %PATH% ^ & | < > ( ) !",
    ),
    (("Jürgen", "中文", "😀"), '"E" Jürgen 中文 😀', r"-- \"E\" Jürgen 中文 😀"),
    (("a\tb",), '"E" "a\tb"', '-- \\"E\\" "\\"a\tb\\""'),
    (("a\nb",), '"E" a\nb', '-- \\"E\\" a\nb'),
    (("it's",), '"E" it\'s', r"-- \"E\" it's"),
    (("*", "?"), '"E" * ?', r"-- \"E\" * ?"),
    (("@file",), '"E" @file', r"-- \"E\" @file"),
    (
        ("\ud800", "\u00a0", "\u3000", "\uff02", "\u0001"),
        '"E" \ud800 \u00a0 \u3000 \uff02 \u0001',
        '-- \\"E\\" \ud800 \u00a0 \u3000 \uff02 \u0001',
    ),
]
IDS = [" ".join(ascii(a)[1:-1] for a in args) for args, _, _ in TABLE]


@pytest.mark.parametrize(("args", "inner", "outer"), TABLE, ids=IDS)
def test_the_lines_are_exactly_these(args: tuple[str, ...], inner: str, outer: str) -> None:
    assert launcher_line(Z, E, args) == (f'"Z" {outer}', inner)
    assert direct_line(E, args) == inner


ANYTHING = st.text(st.one_of(st.sampled_from('\\" \t'), st.characters(exclude_characters="\0")), max_size=12)


@given(st.lists(ANYTHING, max_size=6))
@example(["\\"])
@example(['\\"', "\\\\", ""])
def test_any_arguments_survive_one_reading(args: list[str]) -> None:
    line = child_line(PureWindowsPath(r"C:\Program Files\Ä\app.exe"), args)
    assert by_c_runtime(line)[1:] == args
    assert by_shell32(line) == [r"C:\Program Files\Ä\app.exe", *args]


@given(st.lists(ANYTHING, max_size=6))
@example(["--", "-x", "a\\ b\\"])
def test_any_arguments_survive_two_readings(args: list[str]) -> None:
    program = PureWindowsPath(r"C:\Program Files\Ä ö\app.exe")
    outer, inner = launcher_line(PureWindowsPath(r"C:\layer dir\zluda.exe"), program, args)
    assert through_joining_launcher(outer) == inner
    assert by_c_runtime(inner) == [str(program), *args]
    assert by_shell32(inner) == [str(program), *args]


def test_a_joining_launcher_without_our_quoting_loses_arguments() -> None:
    line = '"Z" -- E "a b" ""'
    assert by_c_runtime(through_joining_launcher(line)) == ["E", "a", "b"], "the stand-in has lost its fault"


@pytest.mark.parametrize("arg", ["x" * 20_000, "x y" * 3_000, '"' * 4_000], ids=["plain", "blanks", "quotes"])
def test_long_arguments_fit(arg: str) -> None:
    outer, inner = launcher_line(Z, E, (arg,))
    assert through_joining_launcher(outer) == inner


def test_the_longest_line_fits_and_one_more_does_not() -> None:
    room = LINE_LIMIT - utf16_units('"E" ')
    assert utf16_units(direct_line(E, ("x" * room,))) == LINE_LIMIT
    with pytest.raises(UsageError) as caught:
        direct_line(E, ("x" * (room + 1),))
    assert caught.value.reference == "arguments-too-long"
    assert str(LINE_LIMIT + 1) in caught.value.message


def test_characters_outside_the_first_plane_count_twice() -> None:
    with pytest.raises(UsageError):
        direct_line(E, ("😀" * (LINE_LIMIT // 2),))


def test_a_line_too_long_for_the_launcher_only_says_which_way_is_left() -> None:
    with pytest.raises(UsageError) as caught:
        launcher_line(Z, E, ('"' * 10_000,))
    assert "--via=beside" in caught.value.hint
    with pytest.raises(UsageError) as caught:
        launcher_line(Z, E, ('"' * 20_000,))
    assert "--via=beside" not in caught.value.hint


def test_a_program_path_of_260_characters_is_refused_for_the_launcher() -> None:
    stem = "C:\\" + "a" * 250
    launcher_line(Z, PureWindowsPath(stem + "bb.exe"), ())
    with pytest.raises(LaunchError) as caught:
        launcher_line(Z, PureWindowsPath(stem + "bbb.exe"), ())
    assert caught.value.reference == "path-too-long"


def test_a_nul_is_refused_and_counted() -> None:
    with pytest.raises(UsageError, match="argument 2"):
        refuse_nul(["fine", "not\0fine"])


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        ("run.bat", "batch-file"),
        ("RUN.CMD", "batch-file"),
        ("a.py", "not-a-program"),
        ("a.lnk", "not-a-program"),
        ("a.msi", "not-a-program"),
        ("a.ps1", "not-a-program"),
    ],
)
def test_what_only_looks_like_a_program_is_refused_with_what_to_name(name: str, reference: str) -> None:
    with pytest.raises(LaunchError) as caught:
        refuse_unstartable(PureWindowsPath(name))
    assert caught.value.reference == reference
    assert ".exe" in caught.value.hint or "interpreter" in caught.value.hint or "program" in caught.value.hint


@pytest.mark.parametrize("name", ["app.exe", "app", "app.com", "bat.exe", "a.bat.exe"])
def test_programs_are_not_refused(name: str) -> None:
    refuse_unstartable(PureWindowsPath(name))


@given(st.text(st.sampled_from('ab\\" \t'), max_size=10))
def test_quotes_stand_only_where_they_are_needed(arg: str) -> None:
    assert (quote(arg) == arg) == (bool(arg) and not set(arg) & set(' \t"'))


def test_an_arguments_file_holds_a_list_of_strings() -> None:
    assert parse_args_file('\ufeff["", "a b", "--", "\\n", "ü"]') == ("", "a b", "--", "\n", "ü")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('["a",]', "line 1, column"),
        ('[\n"a" "b"]', "line 2, column"),
        ("", "line 1, column 1"),
        ('{"a": 1}', "holds an object, not a list"),
        ('"a b"', "holds a string, not a list"),
        ('["a", 1]', "element 2 is a number, not a string"),
        ("[true]", "element 1 is true or false, not a string"),
        ("[null]", "element 1 is null, not a string"),
        ('["a", ["b"]]', "element 2 is a list, not a string"),
        ("[" * 100_000, "must hold a list of strings"),
        ("[" + "9" * 6000 + "]", "must hold a list of strings"),
    ],
    ids=lambda text: text[:40],
)
def test_an_arguments_file_that_is_none_says_where(text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_args_file(text, name="args.json")
    assert words in caught.value.message
    assert caught.value.message.startswith("args.json")
    assert '["--size", "64", ""]' in caught.value.hint
