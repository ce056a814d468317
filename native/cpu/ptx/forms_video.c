/* The video instructions: how they are decoded. */
#include "decode.h"

static uint8_t found_in(const struct opcode *op, const char *const *names, uint8_t count) {
    for (uint8_t i = 0; i < count; i++)
        if (opcode_has(op, names[i])) return i;
    return 255;
}

/* vadd and its kin: vop{2,4}.dtype.atype.btype{.sat}{.op2} d, a, b{, c} */
bool form_video(struct decoder *d) {
    static const char *const NAMES[] = {"vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr", "vmad", "vset", "vavrg"};
    static const char *const THEN[] = {"", "add", "min", "max"}, *const COMPARE[] = {"eq", "ne", "lt", "le", "gt", "ge"};
    struct word base = d->op.base;
    char last = base.at[base.size - 1];
    uint8_t count = last == '2' || last == '4' ? (uint8_t)(last - '0') : 1, mode = 255, then = found_in(&d->op, THEN, 4), how = 0;
    if (count > 1) base.size--;
    for (uint8_t i = 0; i < 10; i++)
        if (word_is(base, NAMES[i])) mode = i;
    bool set = mode == 8;
    if (set && (how = found_in(&d->op, COMPARE, 6)) == 255) return unsupported(d);
    if (mode == 255 || d->op.type_count != (set ? 2u : 3u) || d->operand_count < 3 || d->operand_count > 4) return unsupported(d);
    enum type to = set ? T_U32 : d->op.types[0], a_type = d->op.types[set ? 0 : 1], b_type = d->op.types[set ? 1 : 2];
    const struct operand *o = d->operands;
    if (count > 1 && (o[0].selector || o[1].selector || o[2].selector)) return unsupported(d);
    ref at, a, b, c = 0;
    bool minus_a = o[1].negated, minus_b = o[2].negated, minus_c = d->operand_count > 3 && o[3].negated;
    if (!source(d, &o[1], T_B32, &a) || !source(d, &o[2], T_B32, &b)) return false;
    if (d->operand_count > 3 && !source(d, &o[3], T_B32, &c)) return false;
    if (!destination(d, &o[0], T_B32, &at)) return false;
    struct ins *n = emit_run(d, run_video);
    n->d = at, n->a = a, n->b = b, n->c = c, n->mode = mode, n->count = count;
    n->type = (uint8_t)to, n->from = (uint8_t)a_type, n->space = (uint8_t)b_type;
    n->rounding = then == 255 ? 0 : then;
    n->flags = d->op.flags;
    n->e = set ? how : opcode_has(&d->op, "wrap");
    int64_t shift = opcode_has(&d->op, "shr7") ? 7 : opcode_has(&d->op, "shr15") ? 15 : 0;
    int64_t signs = (minus_a != minus_b) | minus_c << 1 | opcode_has(&d->op, "po") << 2;
    n->imm = o[1].selector | o[2].selector << 8 | o[0].selector << 16 | shift << 24 | signs << 32;
    return true;
}
