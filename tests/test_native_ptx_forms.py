"""Every form of a value instruction on edge values, against the plain reference."""

from __future__ import annotations

import math
from collections import defaultdict
from functools import cache

import numpy as np
import pytest

from tests.native_cpu import no_compiler
from tests.native_ptx import Module
from tools.ptx_cases import Form, bits_of, every_form, module_text, rows
from tools.ptx_cases_convert import real

pytestmark = [pytest.mark.proof, pytest.mark.skipif(bool(no_compiler()), reason=no_compiler() or "-")]
STORAGE = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


def by_opcode() -> dict[str, list[Form]]:
    groups: dict[str, list[Form]] = defaultdict(list)
    for form in every_form():
        words = form.text.removeprefix(".reg ").split("; ")[-1 if form.text.startswith(".reg") else 0]
        groups[words.split(".")[0]].append(form)
    return groups


GROUPS = by_opcode()


@cache
def module(opcode: str) -> Module:
    return Module(module_text(GROUPS[opcode], 120, 88))


def results(opcode: str, index: int) -> list[int]:
    form = GROUPS[opcode][index]
    inputs = rows(form)
    columns = [
        np.array([row[k] for row in inputs], STORAGE[bits_of(kind)]) for k, kind in enumerate(form.sources)
    ]
    out = np.zeros(len(inputs), STORAGE[bits_of(form.out)])
    blocks = (len(inputs) + 95) // 96
    module(opcode).launch(
        f"k{index}", [out, *columns, np.uint32(len(inputs))], grid=(blocks, 1, 1), block=(96, 1, 1)
    )
    return [int(value) for value in out]


def near(form: Form, got: int, want: int) -> bool:
    if got == want or not form.error:
        return got == want
    a, b = real(got, form.out), real(want, form.out)
    periodic = form.text.startswith(("sin", "cos"))
    error = 2.0**-19 if periodic else form.error * abs(b)  # the engine's sines are closer than a GPU's
    return (math.isnan(a) and math.isnan(b)) or abs(a - b) <= error


@pytest.mark.parametrize("opcode", sorted(GROUPS))
def test_every_form_computes_what_the_reference_says(opcode: str) -> None:
    wrong = []
    for index, form in enumerate(GROUPS[opcode]):
        for inputs, got in zip(rows(form), results(opcode, index), strict=True):
            want = form.compute(*inputs)
            if want is not None and not near(form, got, want):
                wrong.append(f"{form.text} of {[hex(x) for x in inputs]}: {got:#x} instead of {want:#x}")
                break
    assert not wrong, "\n".join(wrong)


def test_the_table_is_large_and_has_no_name_twice() -> None:
    texts = [form.text for forms in GROUPS.values() for form in forms]
    assert len(texts) == len(set(texts))
    assert len(texts) > 800
