"""Writes docs/probes.md: what every probe asks, its reference, tolerance, calls, and why it exists."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from scripts.probing.catalogue import Probe, groups

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "probes.md"
INSIDE = ROOT / "scripts" / "inside" / "probes"


def write(*, check: bool) -> bool:
    """Write the page, or only compare it; true when it was up to date."""
    text = "\n".join(_page()) + "\n"
    current = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    if not check and current != text:
        PAGE.write_text(text, encoding="utf-8", newline="\n")
    return current == text


def questions(module: str) -> dict[str, str]:
    """Return the first sentence of each probe's function; one that shares a function names its arguments."""
    tree = ast.parse((INSIDE / f"{module}.py").read_text(encoding="utf-8"))
    said = {
        node.name: (ast.get_docstring(node) or "").split("\n\n")[0].replace("\n", " ")
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    }
    table = next(
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "PROBES"
    )
    assert isinstance(table, ast.Dict)
    return {
        ast.literal_eval(key): _said(value, said)
        for key, value in zip(table.keys, table.values, strict=True)
        if key
    }


def _said(value: ast.expr, said: dict[str, str]) -> str:
    if isinstance(value, ast.Name):
        return said[value.id]
    assert isinstance(value, ast.Lambda)
    assert isinstance(value.body, ast.Call)
    given = ", ".join(ast.unparse(a).replace("np.", "").strip("'") for a in value.body.args[1:])
    return f"{said[ast.unparse(value.body.func)]} ({given})" if given else said[ast.unparse(value.body.func)]


def _page() -> Iterator[str]:
    every = [probe for group in groups() for probe in group.probes]
    yield "# Probes"
    yield ""
    yield "Made by `python -m tools.generated_docs` from `scripts/data/probes.toml` and"
    yield "`scripts/inside/probes`."
    yield ""
    yield f"`invoke probe` asks a stack {len(every)} questions whose answers are known, each in a process of"
    yield "its own, started as `wrap` starts programs. Inputs are random, outputs hold NaN before they are"
    yield "written, memory around buffers must keep its value, and NaN never passes. A probe that has no"
    yield "answer when its time is over gets a second attempt with three times as much, because a first use"
    yield "may compile for minutes. What ended how is said in the words of [evidence.md](evidence.md)."
    yield ""
    yield "The score is the share of passes among all that was exercised. A refusal is no pass, and no"
    yield "failure either: it is counted apart. What the stack or machine does not have is left out."
    yield ""
    yield "`invoke probe --only=cufft-*,!cufft-many` asks some of them, `--exe=PYTHON` by another Python (the"
    yield "`torch-` probes need PyTorch in it), `--compare A B` holds two documents side by side. An"
    yield "interrupted matrix goes on where it stopped; `--fresh` starts again. `--device=cpu` asks PyTorch's"
    yield "CPU device instead, which shows whether the probes themselves are right."
    for group in groups():
        yield ""
        yield f"## {group.name}"
        yield ""
        yield f"Reference: {group.reference}. Tolerance: {group.tolerance}."
        yield ""
        yield "| probe | asks | calls | why it exists |"
        yield "|---|---|---|---|"
        for probe in group.probes:
            asks = questions(probe.module)[probe.name]
            calls = ", ".join(f"`{call}`" for call in probe.calls)
            yield f"| `{probe.name}`{_marks(probe)} | {asks} | {calls} | {probe.why} |"
    yield ""
    yield "Marked *quick*: part of `setup` and `validate`. Marked *GPU*: the CPU reference does not have it;"
    yield "every other one passes there, except those of PyTorch, whose kernels are machine code."
    yield ""
    yield "## What is left out on purpose"
    yield ""
    yield "A probe asks only what a real NVIDIA driver answers. Not asked:"
    yield ""
    yield from (f"- `{probe.name}`: {probe.leaves_out}." for probe in every if probe.leaves_out)
    yield ""
    yield "## The names of the project we follow"
    yield ""
    yield "Its `scripts/capability_probe.py` and `scripts/functional_probe.py`"
    yield "(github.com/Speedstu/CUDA-for-AMD-Windows) have 41 probes. Ours that ask the same, or more:"
    yield ""
    yield "| theirs | ours |"
    yield "|---|---|"
    theirs = sorted({probe.seed for probe in every if probe.seed})
    for name in theirs:
        ours = ", ".join(f"`{probe.name}`" for probe in every if probe.seed == name)
        yield f"| `{name}` | {ours} |"


def _marks(probe: Probe) -> str:
    words = [word for word, there in (("quick", probe.quick), ("GPU", bool(probe.gpu))) if there]
    return f" ({', '.join(words)})" if words else ""
