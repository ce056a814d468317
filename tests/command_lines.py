"""How programs on Windows split their command line, from the documented rules and independent of ours.

Microsoft, "Parsing C command-line arguments" (C runtime since 2008) and "CommandLineToArgvW function".
"""

from __future__ import annotations


def _program(line: str) -> tuple[str, int]:
    """Read the first word: up to the next quote if it begins with one, else up to the next blank."""
    if line.startswith('"'):
        end = line.find('"', 1)
        return (line[1:], len(line)) if end < 0 else (line[1:end], end + 1)
    end = next((i for i, c in enumerate(line) if c in " \t"), len(line))
    return line[:end], end


def _split(line: str, *, doubled_quote_closes: bool) -> list[str]:
    program, at = _program(line)
    words = [program]
    while True:
        while at < len(line) and line[at] in " \t":
            at += 1
        if at == len(line):
            return words
        word, quoted = "", False
        while at < len(line) and (quoted or line[at] not in " \t"):
            run = 0
            while at < len(line) and line[at] == "\\":
                run, at = run + 1, at + 1
            if at < len(line) and line[at] == '"':
                word += "\\" * (run // 2)
                at += 1
                if run % 2:
                    word += '"'
                elif quoted and at < len(line) and line[at] == '"':
                    word, at = word + '"', at + 1
                    quoted = not doubled_quote_closes
                else:
                    quoted = not quoted
            else:
                word += "\\" * run
                if at < len(line) and (quoted or line[at] not in " \t"):
                    word, at = word + line[at], at + 1
        words.append(word)


def by_c_runtime(line: str) -> list[str]:
    """Split as C, C++, Rust and CPython do: a doubled quote inside quotes is one, and stays inside."""
    return _split(line, doubled_quote_closes=False)


def by_shell32(line: str) -> list[str]:
    """Split as ``CommandLineToArgvW`` does: a doubled quote inside quotes is one, and ends them."""
    return _split(line, doubled_quote_closes=True)


def through_joining_launcher(line: str) -> str:
    """Return the line a program gets from a launcher that splits its own and joins the rest unquoted."""
    words = by_c_runtime(line)
    assert words[1] == "--", "options of the launcher end where the program begins"
    return " ".join(words[2:])
