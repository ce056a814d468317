/* The video instructions: how they are decoded. */
#include "decode.h"

/* vadd and its kin: vop{2,4}.dtype.atype.btype{.sat}{.op2} d, a, b{, c} */
bool form_video(struct decoder *d) {
    enum { SET = 8 };
    struct word base = d->op.base;
    char last = base.size ? base.at[base.size - 1] : 0;
    uint8_t count = last == '2' || last == '4' ? (uint8_t)(last - '0') : 1;
    if (count > 1) base.size--;
    int mode = word_choice(base, "vadd vsub vabsdiff vmin vmax vshl vshr vmad vset vavrg"), then = 1 + opcode_choice(&d->op, "add min max");
    bool set = mode == SET;
    int how = set ? opcode_choice(&d->op, "eq ne lt le gt ge") : 0;
    if (mode < 0 || how < 0 || d->op.type_count != (set ? 2u : 3u) || d->operand_count < 3 || d->operand_count > 4) return unsupported(d);
    enum type to = set ? T_U32 : d->op.types[0], a_type = d->op.types[set ? 0 : 1], b_type = d->op.types[set ? 1 : 2];
    const struct operand *o = d->operands;
    if (count > 1 && (o[0].selector || o[1].selector || o[2].selector)) return unsupported(d);
    bool minus_a = o[1].negated, minus_b = o[2].negated, minus_c = d->operand_count > 3 && o[3].negated;
    struct ins *n = emit_form(d, run_video, d->operand_count > 3 ? "dw aw bw cw" : "dw aw bw");
    if (!n) return false;
    n->mode = (uint8_t)mode, n->count = count;
    n->type = (uint8_t)to, n->from = (uint8_t)a_type, n->space = (uint8_t)b_type;
    n->rounding = (uint8_t)then;
    n->e = set ? (ref)how : opcode_has(&d->op, "wrap");
    int64_t shift = opcode_has(&d->op, "shr7") ? 7 : opcode_has(&d->op, "shr15") ? 15 : 0;
    int64_t signs = (minus_a != minus_b) | minus_c << 1 | opcode_has(&d->op, "po") << 2;
    n->imm = o[1].selector | o[2].selector << 8 | o[0].selector << 16 | shift << 24 | signs << 32;
    return true;
}
