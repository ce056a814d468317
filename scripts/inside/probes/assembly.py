"""PTX by the line: a kernel's head, registers, parameters and thread number, so that probes show their point."""

from __future__ import annotations

import re

REGISTERS = """    .reg .pred %p<8>; .reg .b16 %h<16>; .reg .b32 %r<40>; .reg .b64 %d<32>; .reg .f32 %f<40>; .reg .f64 %g<16>;
    .reg .u32 %i, %t, %lane, %block, %size;
"""
THREAD = """    mov.u32 %t, %tid.x; mov.u32 %block, %ctaid.x; mov.u32 %size, %ntid.x; mad.lo.u32 %i, %block, %size, %t;
    and.b32 %lane, %t, 31;
"""

#: Declarations in a body; they go before all instructions.
ARRAY = re.compile(r"\.(?:shared|local) [^;]*;")


def entry(name: str, parameters: str, body: str, *, directives: str = "", guard: bool = True) -> str:
    """Write a kernel.

    Args:
        name: its name.
        parameters: for example ``u64 a, u64 out, u32 n``; each is in a register of its name, pointers (u64)
            as addresses in global memory. ``%i`` is the thread's number in the grid, ``%t`` in its block.
        body: the instructions; ``ret`` is added.
        directives: for example ``.maxntid 64, 1, 1``.
        guard: threads from ``n`` on end at once; not for kernels with barriers.
    """
    pairs = [word.split() for word in parameters.split(",")]
    heads = ", ".join(".param .%s p_%s" % (kind, word) for kind, word in pairs)
    arrays = "".join("    %s\n" % found for found in ARRAY.findall(body))
    body, loads = (
        ARRAY.sub("", body),
        "".join("    .reg .%s %%%s;\n" % pair for pair in map(tuple, pairs)) + arrays,
    )
    for kind, word in pairs:
        loads += "    ld.param.%s %%%s, [p_%s];" % (kind, word, word)
        loads += " cvta.to.global.u64 %%%s, %%%s;\n" % (word, word) if kind == "u64" else "\n"
    stop = "    setp.ge.u32 %p0, %i, %n; @%p0 ret;\n" if guard else ""
    lines = "\n".join("    " + line.strip() for line in body.strip().splitlines())
    form = ".visible .entry %s(%s) %s\n{\n%s%s%s%s%s\n    ret;\n}\n"
    return form % (name, heads, directives, REGISTERS, loads, THREAD, stop, lines)


def at(register: str, pointer: str, size: int, index: str = "%i") -> str:
    """Compute the address of an element: ``register = pointer + index * size``."""
    return "mad.wide.u32 %s, %s, %d, %s;" % (register, index, size, pointer)


def several(loads: str, computed: str, count: int, kind: str = "f32") -> str:
    """A kernel ``run`` with ``count`` results an element, all in one output, one row after the other.

    ``loads`` reads the inputs (a, b, c); ``computed`` leaves the results in registers 10, 11, ...
    """
    size = int(kind[1:]) // 8
    prefix = {"f32": "%f", "f64": "%g"}.get(kind, "%r" if size == 4 else "%d")
    stores = ["mov.u32 %r0, %i;"]
    for number in range(count):
        stores.append(
            "%s st.global.%s [%%d9], %s%d;" % (at("%d9", "%out", size, "%r0"), kind, prefix, 10 + number)
        )
        stores.append("add.u32 %r0, %r0, %n;")
    parameters = "u64 a, u64 b, u64 c, u64 out, u32 n"
    return entry("run", parameters, loads + "\n" + computed + "\n" + "\n".join(stores))


def inputs(kind: str, size: int) -> str:
    """Load an element of a, b and c into registers 0, 1 and 2."""
    prefix = {"f32": "%f", "f64": "%g"}.get(kind, "%r" if size == 4 else "%d")
    return "\n".join(
        "%s ld.global.%s %s%d, [%%d%d];" % (at("%%d%d" % n, "%" + "abc"[n], size), kind, prefix, n + 1, n)
        for n in range(3)
    )
