"""Writes docs/probes.md: what every probe asks, its reference, tolerance, calls, and why it exists."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from scripts.evidence.evidence_io import read_document
from scripts.evidence.merging import PROBES
from scripts.model import Outcome
from scripts.probing.catalogue import Probe, ProbeGroup, groups
from tools import keep_page

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "probes.md"
INSIDE = ROOT / "scripts" / "inside" / "probes"


HEAD = """# Probes

Made by `python -m tools.generated_docs` from `scripts/data/probes.toml` and
`scripts/inside/probes`.

`invoke probe` asks a stack {count} questions whose answers are known, each in a process of
its own, started as `wrap` starts programs. Inputs are random, outputs hold NaN before they are
written, memory around buffers must keep its value, and NaN never passes. A probe that has no
answer when its time is over gets a second attempt with three times as much, because a first use
may compile for minutes. What ended how is said in the words of [evidence.md](evidence.md).

The score is the share of passes among all that was exercised. A refusal is no pass, and no
failure either: it is counted apart. What the stack or machine does not have is left out.

`invoke probe --only='cufft-*,!cufft-many'` asks some of them, `--exe=PYTHON` by another Python (the
`torch-` probes need PyTorch in it), `--compare A B` holds two documents side by side. An
interrupted matrix goes on where it stopped; `--fresh` starts again. `--device=cpu` asks PyTorch's
CPU device instead, which shows whether the probes themselves are right."""
MARKS = """
Marked *quick*: part of `setup` and `validate`. Marked *GPU*: the CPU reference does not have it;
every other one passes there, except those of PyTorch, whose kernels are machine code."""
CONTROL = """
## On NVIDIA's own CUDA

A probe is right where a real GPU of NVIDIA's passes it through `native-cuda`: {count} of {whole} do, by
{names}. Not shown there:
"""
ADVICE = """
## What follows from a failure

The calls above tie a probe to programs: `invoke preflight` names each probe that the stack failed
on this GPU and whose calls the program asks for, with the document; `invoke stacks` lists them by
stack. Documents count by the rules of [evidence.md](evidence.md): those in `evidence/`, and for
`preflight` and `wrap` those made here too.

`invoke wrap --policy=auto` switches on what goes around the probes of PyTorch that failed with
this stack on this GPU, and says for each setting which document asks for it. Without the option
no document switches anything on. The probes themselves run without these settings, which would
hide a failure.
"""
LEFT_OUT = """
## What is left out on purpose

A probe asks only what a real NVIDIA driver answers. Not asked:
"""
SEEDS = """
## The names of the project we follow

Its `scripts/capability_probe.py` and `scripts/functional_probe.py`
(github.com/Speedstu/CUDA-for-AMD-Windows) have 41 probes. Ours that ask the same, or more:
"""


def write(*, check: bool) -> bool:
    """Write the page, or only compare it; true when it was up to date."""
    return keep_page(PAGE, _page(), check=check)


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
    yield HEAD.format(count=len(every))
    for group in groups():
        yield from _group(group)
    yield MARKS
    yield from _control(every)
    yield from _table(ADVICE, "| failed | setting |", _settings(every))
    yield LEFT_OUT
    yield from (f"- `{probe.name}`: {probe.leaves_out}." for probe in every if probe.leaves_out)
    yield from _table(SEEDS, "| theirs | ours |", _seeds(every))


def _group(group: ProbeGroup) -> Iterator[str]:
    rows = []
    for probe in group.probes:
        calls = ", ".join(f"`{call}`" for call in probe.calls)
        asks = questions(probe.module)[probe.name]
        rows.append(f"| `{probe.name}`{_marks(probe)} | {asks} | {calls} | {probe.why} |")
    head = f"\n## {group.name}\n\nReference: {group.reference}. Tolerance: {group.tolerance}.\n"
    yield from _table(head, "| probe | asks | calls | why it exists |", rows)


def _table(head: str, columns: str, rows: Iterable[str]) -> Iterator[str]:
    yield from (head, columns, "|" + "---|" * (columns.count("|") - 1), *rows)


def _control(every: list[Probe]) -> Iterator[str]:
    """Say what the committed documents show of NVIDIA's own CUDA."""
    shown = passed_on_cuda()
    names = ", ".join(f"[{path}](../evidence/{path})" for path in dict.fromkeys(shown.values()))
    count = sum(probe.name in shown for probe in every)
    yield CONTROL.format(count=count, whole=len(every), names=names)
    yield from (f"- `{probe.name}`: {probe.unshown}." for probe in every if probe.unshown)


def passed_on_cuda() -> dict[str, str]:
    """Return the probes that stand as passed on NVIDIA's own CUDA, each with its newest document."""
    found: dict[str, tuple[bool, str]] = {}
    documents = [(p.name, read_document(p)) for p in sorted((ROOT / "evidence").glob("*.json"))]
    for name, document in sorted(documents, key=lambda pair: pair[1].observed):
        if (document.subject.application, document.subject.stack) == (PROBES, "native-cuda"):
            found |= {r.capability: (r.outcome is Outcome.PASS, name) for r in document.results}
    return {probe: name for probe, (passed, name) in found.items() if passed}


def _settings(every: list[Probe]) -> Iterator[str]:
    """Yield a row for each setting that goes around probes of PyTorch."""
    for policy in dict.fromkeys(probe.policy for probe in every if probe.policy):
        failed = ", ".join(f"`{probe.name}`" for probe in every if probe.policy == policy)
        yield f"| {failed} | `{policy}` |"


def _seeds(every: list[Probe]) -> Iterator[str]:
    """Yield a row for each probe of the project we follow."""
    for name in sorted({probe.seed for probe in every if probe.seed}):
        ours = ", ".join(f"`{probe.name}`" for probe in every if probe.seed == name)
        yield f"| `{name}` | {ours} |"


def _marks(probe: Probe) -> str:
    words = [word for word, there in (("quick", probe.quick), ("GPU", bool(probe.gpu))) if there]
    return f" ({', '.join(words)})" if words else ""
