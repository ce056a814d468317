"""What a person sees of ``preflight``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from scripts.cli.console import Out
from scripts.preflight.reasons import Verdict, grouped
from scripts.preflight.verdict import SYSTEMS

if TYPE_CHECKING:
    from scripts.app.preflight import PreflightResult
    from scripts.preflight.coverage import Covered
    from scripts.preflight.facts import Code


_MARKS: Final = {
    Verdict.RUNS: "ok",
    Verdict.PARTIAL: "warn",
    Verdict.UNKNOWN: "unknown",
    Verdict.REFUSES: "fail",
}
_SAYS: Final = {
    Verdict.RUNS: "should run: everything that was found is there",
    Verdict.PARTIAL: "may run in part: something it asks for is not there",
    Verdict.UNKNOWN: "unknown: its files do not tell",
    Verdict.REFUSES: "will not run",
}
#: So many reasons, asking files, and files of device code are listed.
SHOWN: Final = 12


def show_preflight(result: PreflightResult, out: Out) -> None:
    """Show the verdict first, then the reasons, the needs, the device code, and what else there is."""
    verdict = result.judged.verdict
    gpu = f" on {result.stack.gfx}" if result.stack.gfx else ""
    says = _SAYS[verdict] if result.examined.closure.program.facts.format else "no program"
    out.mark(_MARKS[verdict], f"{result.program.name} under {result.stack.id}{gpu}: {says}")
    reasons = grouped(result.judged.reasons)
    for said in reasons[:SHOWN]:
        out.line(f"  {'note: ' if said.reason.effect is Verdict.RUNS else ''}{said.text}")
    if len(reasons) > SHOWN:
        out.line(f"  and {len(reasons) - SHOWN} more reasons; --json lists all")
    _needs(result, out)
    _code(result, out)
    for other in result.better:
        out.line(f"{other.stack} would do better ({other.verdict.value}): {other.why}")
    for choice in result.alternatives:
        out.line(f"Without translation: {choice.what}")
    proof = f"documents show {result.level} for this stack here" if result.level else "no document shows more"
    count = len(result.examined.closure.visited)
    files = "1 file" if count == 1 else f"{count} files"
    out.note(f"Read {files}; nothing was run, so this predicts; {proof}.")
    out.now(_now(result))


def _needs(result: PreflightResult, out: Out) -> None:
    """Show who asks for what, as a tree: the asking file, then its libraries."""
    by_chain: dict[tuple[str, ...], list[Covered]] = {}
    for item in result.covered:
        by_chain.setdefault(item.need.chain, []).append(item)
    for chain, items in list(by_chain.items())[:SHOWN]:
        out.line(" > ".join(chain))
        for item in items:
            mark = {"ok": "ok", "fail": "fail", "unknown": "unknown"}[item.status]
            out.mark(mark, f"  {_need(item)}")
    if len(by_chain) > SHOWN:
        out.line(f"and {len(by_chain) - SHOWN} more files that ask for CUDA; --json lists all")


def _need(item: Covered) -> str:
    """Say one need in a line."""
    need = item.need
    words = [f"{need.named.title} ({need.file}, {need.how})", _functions(item)]
    words.append(f"by {item.provided_by}" if item.provided_by else "the stack has no file for it")
    if need.own is not None:
        words.append(f"the program ships its own {need.own.name}")
    if item.absent or item.kernelless:
        words.append(f"HIP lacks {', '.join((*item.absent, *item.kernelless))}")
    return "; ".join(words)


def _functions(item: Covered) -> str:
    """Say how many functions are asked for and work; a number only where a table has it."""
    count = len(item.need.functions)
    if not count:
        return "no functions are named" if item.need.calls_known else "its functions are hidden"
    if item.need.spelled:
        return (
            f"{_functions_word(count)} named in its data, {item.working} of them work; its calls are hidden"
        )
    if item.unknown:
        return f"{_functions_word(count)}, {len(item.unknown)} of them unknown here"
    if item.provided_by is None or not item.need.named.library.api:
        return _functions_word(count)
    return f"{item.working} of {_functions_word(count)} work"


def _functions_word(count: int) -> str:
    """Say a number of functions."""
    return f"{count} function{'' if count == 1 else 's'}"


def _code(result: PreflightResult, out: Out) -> None:
    """Show the device code, file by file."""
    found = [(v.path.name, code) for v in result.examined.closure.visited for code in v.facts.code]
    rows = [(name, code.section or "file", _ptx(code), _sass(code)) for name, code in found[:SHOWN]]
    if rows:
        out.table(("device code in", "section", "PTX", "NVIDIA machine code"), rows)
    if len(found) > SHOWN:
        out.line(f"and {len(found) - SHOWN} more; --json lists all")


def _ptx(code: Code) -> str:
    """Say which PTX there is, and where it cannot be used."""
    text = ", ".join(f"sm_{sm}{letter} (ISA {isa}) x{count}" for sm, letter, isa, count in code.ptx)
    return f"{text}, only for linking" if text and code.relocatable else text or "none"


def _sass(code: Code) -> str:
    """Say which machine code there is."""
    return ", ".join(f"sm_{sm}{letter} x{count}" for sm, letter, count in code.sass) or "none"


def _now(result: PreflightResult) -> str:
    """Say what a person would do next, on which machine."""
    program = result.examined.closure.program.facts
    if not program.format:
        return program.then or "name a program"
    system = SYSTEMS[program.format]
    if result.judged.verdict is Verdict.REFUSES:
        return _instead(result, "" if system == result.system else f"on a machine with {system.title()}, ")
    if system != result.system:
        return f"ask again on the machine with {system.title()} that is to run it: its HIP was not seen here"
    if program.format == "pe" and program.library:
        return "it is a library: name the program that loads it"
    return f'try it: invoke wrap --exe="{result.program}"'


def _instead(result: PreflightResult, there: str) -> str:
    """Say what to do about a refusal; ``there`` names the machine to do it on, where it is not this one."""
    if result.better:
        return f"{there}try the other stack: invoke setup --stack={result.better[0].stack}"
    if result.judged.reasons[0].then:
        return result.judged.reasons[0].then
    if result.alternatives:
        return "use what serves without translation, above"
    return "ask the program's authors for a build for Radeon"
