"""``compare``: two runtimes' trials, from run records or a CSV file, and a verdict that noise cannot sway."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from scripts.app.context import Workspace, read_count, read_percent
from scripts.bench.judgement import ESTIMATOR, MARGIN, PUBLISHED, CompareVerdict, Comparison, PairFinding
from scripts.bench.judgement import compare as compare_runs
from scripts.bench.picture import as_svg, draw
from scripts.bench.trials import HIGHER, LOWER, Runs, join, read_record, read_table
from scripts.errors import ExitCode, UsageError
from scripts.osal.named_output import check_output, write_output
from scripts.osal.paths import user_path
from scripts.serialize import pick

#: No run has more iterations.
MOST_WARMUP: Final = 1_000_000_000
#: The forms a picture is written in, by the ends of its name.
FORMS: Final = (".svg", ".png")
#: Verdicts that do not speak against the candidate.
GOOD: Final = frozenset({CompareVerdict.BETTER, CompareVerdict.SAME})


class CompareResult(Struct, frozen=True, kw_only=True):
    """A comparison, where its trials came from, and the picture drawn of it."""

    comparison: Comparison
    sources: tuple[str, ...]
    picture: str = ""
    notes: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 for ``better`` and ``same``; 3 for ``worse`` and ``inconclusive``."""
        return ExitCode.OK if self.comparison.verdict in GOOD else ExitCode.NEGATIVE

    def to_json(self) -> dict[str, object]:
        """Return plain data; what is not a finite number is ``null``."""
        known = (
            "workload baseline candidate warmup primary conditions unpaired_trials=unpaired answers_known "
            "trials_apart_percent=trials_apart simulated verdict"
        )
        return {
            **pick(self.comparison, known),
            "margin_percent": self.comparison.margin * 100,
            "metrics": {name: finding_json(f) for name, f in self.comparison.findings.items()},
            **pick(self, "sources picture notes"),
        }


def finding_json(finding: PairFinding) -> dict[str, object]:
    """Return one metric: our estimate, and the published definition beside it."""
    pooled, interval = finding.pooled, finding.interval
    ends = [percent(interval.low), percent(interval.high)]
    return {
        "better": finding.better or "unknown",
        **pick(finding, "unit verdict needed_pairs"),
        **pick(pooled, "baseline_median candidate_median"),
        "delta_percent": percent(interval.mean),
        "estimator": ESTIMATOR,
        "published_definition": {
            "definition": PUBLISHED,
            **pick(pooled, "baseline_median candidate_median baseline_mean candidate_mean"),
            "median_delta_percent": _change(pooled.baseline_median, pooled.candidate_median),
            "mean_delta_percent": _change(pooled.baseline_mean, pooled.candidate_mean),
        },
        "ci95_percent": None if None in ends else ends,
        "pairs": interval.pairs,
        "pair_percent": [percent(ratio) for ratio in finding.ratios],
    }


def compare(
    ws: Workspace,
    *,
    records: str = "",
    and_: str = "",
    baseline: str = "",
    candidate: str = "",
    warmup: str = "",
    margin: str = "",
    primary: str = "",
    plot: str = "",
) -> CompareResult:
    """Compare two runtimes of one or two records.

    Raises:
        UsageError: an option cannot be read, or the trials cannot be compared (a wrong answer among them).
    """
    del ws  # records lie where the person says, not in the workspace
    if not records:
        raise UsageError("records-needed", "no record is named", hint="invoke compare --records=FILE")
    here = Path.cwd()
    named = {"--records": records, "--and": and_}
    paths = [user_path(name, option, cwd=here) for option, name in named.items() if name]
    runs = read_runs(paths[0])
    for path in paths[1:]:
        runs = join(runs, read_runs(path))
    name, direction = _read_primary(primary, runs)
    if direction:
        runs = replace(runs, metrics={**runs.metrics, name: replace(runs.metrics[name], better=direction)})
    old, new = choose_sides(runs, baseline, candidate)
    compared = compare_runs(
        runs,
        baseline=old,
        candidate=new,
        warmup=read_count(warmup, option="warmup", least=0, most=MOST_WARMUP) if warmup else runs.warmup,
        primary=name,
        margin=read_margin(margin),
    )
    picture = _draw(user_path(plot, "--plot", cwd=here), compared) if plot else ""
    return CompareResult(
        comparison=compared, sources=tuple(p.name for p in paths), picture=picture, notes=runs.notes
    )


def read_runs(path: Path) -> Runs:
    """Read a record (``.json``) or a CSV file.

    Raises:
        UsageError: it is neither, or something in it is wrong.
    """
    return read_table(path) if path.suffix.lower() == ".csv" else read_record(path)


def choose_sides(runs: Runs, baseline: str, candidate: str) -> tuple[str, str]:
    """Decide which runtime is compared with which; with two of them one name is enough.

    Raises:
        UsageError: the sides are not clear, or the same.
    """
    known = list(runs.conditions)
    if len(known) == 1 and {baseline, candidate} <= {"", *known}:
        msg = f"the record holds one runtime, {known[0]}, and a comparison needs two"
        hint = f"measure it in turn with another one: invoke ab --a={known[0]} --b={known[0]}"
        raise UsageError("which-runtimes", msg, hint=hint)
    baseline = baseline or (runs.baseline if runs.baseline != candidate else "")
    if not baseline and candidate and len(known) == 2:  # noqa: PLR2004 - the other one of two
        baseline = next((name for name in known if name != candidate), "")
    if not candidate and baseline and len(known) == 2:  # noqa: PLR2004 - the other one of two
        candidate = next((name for name in known if name != baseline), "")
    for option, name in (("baseline", baseline), ("candidate", candidate)):
        if name not in known:
            msg = (
                f"there is no runtime {name!r}" if name else f"it is not clear which runtime is the {option}"
            )
            hint = f"name both: --baseline={known[0]} --candidate={known[-1]} (known: {', '.join(known)})"
            raise UsageError("which-runtimes", msg, hint=hint)
    if baseline == candidate:
        msg = "baseline and candidate are the same runtime"
        raise UsageError(
            "which-runtimes", msg, hint=f"compare it with itself: invoke ab --a={baseline} --b={baseline}"
        )
    return baseline, candidate


def read_margin(text: str) -> float:
    """Read ``2``, ``2%`` or ``0.5``: percent, above 0 and below 100; the default is 2.

    Raises:
        UsageError: it is none.
    """
    return read_percent(text, "bad-margin", option="margin") / 100 if text else MARGIN


def _read_primary(text: str, runs: Runs) -> tuple[str, str]:
    """Read ``NAME``, ``NAME:higher`` or ``NAME:lower``; a CSV file's first metric decides by default."""
    name, _, direction = text.partition(":")
    if direction not in {"", HIGHER, LOWER} or (direction and name not in runs.metrics):
        hint = f"name a metric of the record ({', '.join(runs.metrics)}), perhaps with :higher or :lower"
        raise UsageError("bad-primary", f"--primary={text} cannot be read", hint=hint)
    return name or runs.primary or next(iter(runs.metrics)), direction


def _draw(path: Path, compared: Comparison) -> str:
    """Write the picture in the form its name asks for."""
    form = path.suffix.lower()
    if form not in FORMS:
        msg = f"--plot={path.name}: this form is not known"
        raise UsageError("bad-plot", msg, hint=f"name a file that ends in {' or '.join(FORMS)}")
    check_output(path, "--plot")
    try:
        write_picture(path, compared)
    except OSError as error:
        msg = f"the picture cannot be written: {path}"
        hint = "choose another --plot, in a folder that exists and is yours to write in"
        raise UsageError("plot-not-writable", msg, context=(error.strerror or "",), hint=hint) from error
    return str(path)


def write_picture(path: Path, compared: Comparison) -> None:
    """Draw a comparison into a file whose name ends in one of ``FORMS``."""
    picture = draw(compared)
    if path.suffix.lower() == ".svg":
        write_output(path, as_svg(picture).encode("utf-8"))
        return
    from scripts.bench.picture import as_png  # noqa: PLC0415 - Pillow is loaded only for a PNG

    write_output(path, as_png(picture))


def percent(ratio: float) -> float | None:
    """Turn a log ratio into percent; what is not finite is ``None``."""
    return _finite(math.expm1(ratio) * 100) if ratio < 700 else None  # noqa: PLR2004 - exp overflows above


def _change(old: float, new: float) -> float | None:
    return _finite((new / old - 1) * 100) if old else None


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
