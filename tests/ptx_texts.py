"""PTX texts made of exactly what a test wants in them."""

from __future__ import annotations

HEAD = ".version 8.2\n.target sm_86\n.address_size 64\n\n"


def kernel(name: str = "k", *lines: str, tail: str = "", parameters: str = "") -> str:
    """One kernel; ``tail`` stands between its parameters and its body."""
    body = "".join(f"\t{line}\n" for line in lines)
    return f".visible .entry {name}({parameters}){tail}\n{{\n\t.reg .b32 \t%r<9>;\n{body}\tret;\n\n}}\n"


def function(name: str, *lines: str) -> str:
    """One function that kernels call."""
    body = "".join(f"\t{line}\n" for line in lines)
    return f".func {name}()\n{{\n{body}\tret;\n}}\n"


def text(*parts: str, head: str = HEAD) -> bytes:
    """A whole text."""
    return (head + "\n".join(parts)).encode()
