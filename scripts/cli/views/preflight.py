"""What a person sees of ``preflight``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from scripts.cli.console import Out
from scripts.launch.program import interpreter_line, unstartable_script
from scripts.osal.text import count_of, option
from scripts.preflight.coverage import Verdict, grouped, versions_sentence, wanted_versions
from scripts.preflight.kernels import demangled
from scripts.preflight.verdict import SYSTEMS

if TYPE_CHECKING:
    from scripts.app.preflight import PreflightResult
    from scripts.preflight.coverage import Covered
    from scripts.preflight.needs import Code


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
#: So many reasons are shown without ``--details``; so many rows of a table with it.
REASONS: Final = 3
#: So many ways around missing kernels are shown without ``--details``.
AVOIDED: Final = 2
#: And so many ways without translation: ``native`` has all of them.
WAYS: Final = 1
SHOWN: Final = 40
#: What becomes of a kernel, for a table.
_STATES: Final = {
    "fine": "compiled",
    "dropped": "dropped",
    "text": "lost: its PTX cannot be read",
    "module": "lost with its module",
    "ends": "ends the process",
    "linking": "for linking while the program runs",
}


def show_preflight(result: PreflightResult, out: Out) -> None:
    """Show the verdict, the reasons that matter, the kernels, other ways, and what to do next."""
    verdict = result.judged.verdict
    gpu = f" on {result.stack.gfx}" if result.stack.gfx else ""
    says = _SAYS[verdict] if result.examined.closure.program.facts.format else "no program"
    if verdict is Verdict.RUNS and not _uses_cuda(result):
        says = "should run: nothing of CUDA was found in it, and what files beside it ask for is there"
    out.mark(_MARKS[verdict], f"{result.program.name} under {result.stack.id}{gpu}: {says}")
    _reasons(result, out)
    _kernels(result, out)
    versions = versions_sentence(
        wanted_versions(result.examined.closure), result.stack.reported, result.stack.id
    )
    if versions:
        out.line(versions)
    _probes(result, out)
    if result.details:
        _needs(result, out)
        _code(result, out)
    if result.listed:
        _every_kernel(result, out)
    if result.compared:
        _stacks(result, out)
    _better(result, out)
    _without_translation(result, out)
    proof = f"documents show {result.level} for this stack here" if result.level else "no document shows more"
    files = count_of(len(result.examined.closure.visited), "file")
    out.note(f"Read {files}; nothing was run, so this predicts; {proof}.")
    out.now(_now(result))


def _uses_cuda(result: PreflightResult) -> bool:
    """Whether the program, or a file that it names, asks for CUDA or holds device code."""
    closure = result.examined.closure
    coded = any(file.facts.code and file.how != "package" for file in closure.visited)
    return coded or any(need.how != "package" for need in closure.needs)


def _better(result: PreflightResult, out: Out) -> None:
    """Show which stack would do better; all of them only in full."""
    if result.compared:
        return
    shown = result.better if result.details else result.better[:1]
    more = len(result.better) - len(shown)
    for other in shown:
        others = f"; so would {more} more (--all-stacks)" if more else ""
        out.line(f"{other.stack} would do better ({other.verdict.value}): {other.why}{others}")


def _without_translation(result: PreflightResult, out: Out) -> None:
    """Show what serves without a layer: the program's own ways here, else what is known of its kind."""
    for way in result.native if result.details else result.native[:WAYS]:
        words = "; ".join(way.commands) if result.details else ""
        source = f" [{way.source}, {way.date}]" if result.details else ""
        out.line(f"Without translation: {way.what}{f': {words}' if words else ''}{source}")
    if result.native and not result.details:
        out.line(f"  how: invoke native {option('exe', result.program)}")
    choices = result.alternatives if result.details or not result.native else ()
    for choice in choices if result.details else choices[:WAYS]:
        out.line(f"Without translation: {choice.what}")


def _reasons(result: PreflightResult, out: Out) -> None:
    """Show the heaviest reasons; notes, which change nothing, only in full."""
    reasons = grouped(result.judged.reasons)
    heavy = [group for group in reasons if group.reason.effect is not Verdict.RUNS]
    shown = reasons if result.details else heavy[:REASONS]
    for group in shown:
        out.line(f"  {'note: ' if group.reason.effect is Verdict.RUNS else ''}{group.text}")
    if len(reasons) > len(shown):
        every = ", --kernels every kernel" if result.kernels and not result.listed else ""
        out.line(f"  and {len(reasons) - len(shown)} more; --details shows all{every}")


def _probes(result: PreflightResult, out: Out) -> None:
    """Name the probes that the stack failed on this GPU and that concern the program."""
    shown = result.warnings if result.details else result.warnings[:REASONS]
    for warning in shown:
        out.line(f"  {warning.sentence}")
    if len(result.warnings) > len(shown):
        out.line(f"  and {len(result.warnings) - len(shown)} failed probes more; --details shows all")


def _kernels(result: PreflightResult, out: Out) -> None:
    """Sum up the kernels of all files."""
    if not result.kernels:
        return
    total = sum(file.tally.total for file in result.kernels)
    lost = [file for file in result.kernels if file.tally.missing]
    missing = sum(len(file.tally.missing) for file in lost)
    release = result.stack.ptx.removeprefix("zluda-")
    assumed = (
        f"{release}, taken for this release, which was not read" if result.stack.ptx_assumed else release
    )
    where = f" in {len(lost)} of {len(result.kernels)} files with PTX" if missing else ""
    bare = sum(code.kernels_lost or 0 for code in _loaded(result))
    more = f"; at most {bare:,} more are machine code for NVIDIA alone" if bare else ""
    out.line(
        f"Kernels: {missing:,} of {total:,} would be missing{where}{more} "
        f"(by the source of {assumed}, not seen on a GPU)"
    )
    if result.details:
        unchecked = sum(file.tally.types_unchecked for file in result.kernels)
        taken = count_of(unchecked, "instruction")
        out.line(f"  types of operands are not checked: {taken} taken by form alone")
    for way in result.avoid if result.details else result.avoid[:AVOIDED]:
        out.line(f"  {way.sentence}{f' [{way.row.source}]' if result.details else ''}")


def _loaded(result: PreflightResult) -> list[Code]:
    """Return the device code that can be loaded."""
    return [code for v in result.examined.closure.visited for code in v.facts.code if not code.relocatable]


def _every_kernel(result: PreflightResult, out: Out) -> None:
    """List kernels file by file, the missing ones first."""
    for file in result.kernels:
        rows = [
            (
                demangled(fate.name),
                _STATES[fate.state],
                f"{fate.cause} {fate.why}".strip(),
                str(fate.line or ""),
            )
            for fate in (*file.tally.missing, *file.tally.fine)
        ]
        out.table(("kernel", "becomes", "because of", "line"), rows, title=file.path.name)


def _stacks(result: PreflightResult, out: Out) -> None:
    """Show stacks side by side; in lines, because a table would break their names."""
    width = max(len(one.stack) for one in result.compared)
    for one in result.compared:
        kernels = f"{_known(one.kernels_missing)}{'*' if one.assumed else ''}"
        fits = "" if one.fits else f"; not for {result.stack.gfx}"
        functions = _known(one.functions_missing)
        out.line(
            f"{one.stack:<{width}}  {one.verdict:<7}  missing: kernels {kernels}, functions {functions}{fits}"
        )
    if any(one.assumed for one in result.compared):
        out.line("* by the table of the nearest release that was read")


def _known(number: int | None) -> str:
    return "unknown" if number is None else f"{number:,}"


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
        out.line(f"and {len(by_chain) - SHOWN} more files that ask for CUDA; --json has all")


def _need(item: Covered) -> str:
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
    asked = count_of(count, "function")
    if not count:
        return "no functions are named" if item.need.calls_known else "its functions are hidden"
    if item.need.spelled:
        return f"{asked} named in its data, {item.working} of them work; its calls are hidden"
    if item.unknown:
        return f"{asked}, {len(item.unknown)} of them unknown here"
    if item.provided_by is None or not item.need.named.library.api:
        return asked
    return f"{item.working} of {asked} work"


def _code(result: PreflightResult, out: Out) -> None:
    """Show the device code, file by file."""
    found = [(v.path.name, code) for v in result.examined.closure.visited for code in v.facts.code]
    rows = [(name, code.section or "file", _ptx(code), _sass(code)) for name, code in found[:SHOWN]]
    if rows:
        out.table(("device code in", "section", "PTX", "NVIDIA machine code"), rows)
    if len(found) > SHOWN:
        out.line(f"and {len(found) - SHOWN} more; --json has all")


def _ptx(code: Code) -> str:
    text = ", ".join(f"sm_{sm}{letter} (ISA {isa}) x{count}" for sm, letter, isa, count in code.ptx)
    return f"{text}, only for linking" if text and code.relocatable else text or "none"


def _sass(code: Code) -> str:
    return ", ".join(f"sm_{sm}{letter} x{count}" for sm, letter, count in code.sass) or "none"


def _now(result: PreflightResult) -> str:
    """Return the next step: a command that can work on this machine, or where there is none a sentence."""
    program = result.examined.closure.program.facts
    if not program.format:
        return _by_interpreter(result) or program.then or "name a program"
    system = SYSTEMS[program.format]
    if program.library:
        return "it is a library: name the program that loads it"
    if result.judged.verdict is Verdict.REFUSES:
        return _instead(result, "" if system == result.system else system.title())
    if system != result.system:
        return f"ask again on the machine with {system.title()} that is to run it: its HIP was not seen here"
    if not result.staged:
        return f"prepare the stack: invoke setup --stack={result.stack.id}"
    stack = "" if result.active else f" --stack={result.stack.id}"
    return f"try it: invoke wrap {option('exe', result.program)}{stack}"


def _by_interpreter(result: PreflightResult) -> str:
    """Return the line for a Python script that the system does not start by itself; else nothing."""
    platform = "win32" if result.system == "windows" else "linux"
    if not unstartable_script(result.program, platform=platform):
        return ""
    stack = () if result.active else (f"--stack={result.stack.id}",)
    return f"type {interpreter_line(result.program, (), stack, platform=platform)}"


def _instead(result: PreflightResult, system: str) -> str:
    """Say what to do about a refusal; ``system`` names the one to do it on, where it is not this one."""
    there = f"on a machine with {system}, " if system else ""
    better = next((other for other in result.better if other.verdict is not Verdict.REFUSES), None)
    if better is not None:
        return f"{there}try the other stack: invoke setup --stack={better.stack}"
    if system == SYSTEMS["pe"].title() and result.stack.os == result.system:
        return f"start it on {system}, with a stack for that system"
    if result.judged.reasons[0].then:
        return result.judged.reasons[0].then
    if result.alternatives:
        return "use what serves without translation, above"
    return "ask the program's authors for a build for Radeon"
