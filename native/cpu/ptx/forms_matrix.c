/* What the lanes of a warp do together: how each is decoded. */
#include "decode.h"

bool form_warp_sync(struct decoder *d) { return emit_form(d, run_warp_sync, "ew") != NULL; }

/* barrier.cluster.wait with one block is a barrier of that block. */
bool form_cluster_wait(struct decoder *d) {
    ref id = constant(d, 15, 4);
    struct ins *n = emit_run(d, run_barrier);
    n->a = id, n->count = 0;
    return true;
}

/* shfl{.sync}.mode.b32 d|p, a, b, c{, mask}; ins.e: the mask, 0 without .sync */
static bool form_shuffle(struct decoder *d) {
    int mode = opcode_choice(&d->op, "up down bfly idx");
    if (mode < 0) return unsupported(d);
    struct ins *n = emit_form(d, run_shuffle, opcode_has(&d->op, "sync") ? "dw|p aw bw cw ew" : "dw|p aw bw cw");
    if (n) n->mode = (uint8_t)mode;
    return n != NULL;
}

/* `uni` says nothing elsewhere and is not kept: look for it in the whole opcode. */
static bool has_uni(struct word w) {
    for (uint32_t i = 0; i + 4 <= w.size; i++)
        if (memcmp(w.at + i, ".uni", 4) == 0) return true;
    return false;
}

/* vote{.sync}.all/any/uni.pred p, {!}a{, mask}; vote.ballot.b32 d, {!}a{, mask} */
static bool form_vote(struct decoder *d) {
    enum { UNI = 2, BALLOT };
    static const char *const FORMS[2][2] = {{"dp ap", "dp ap ew"}, {"dw ap", "dw ap ew"}};
    int mode = has_uni(d->op.whole) ? UNI : opcode_choice(&d->op, "all any uni ballot");
    if (mode < 0) return unsupported(d);
    struct ins *n = emit_form(d, run_vote, FORMS[mode == BALLOT][opcode_has(&d->op, "sync")]);
    if (n) n->mode = (uint8_t)mode;
    return n != NULL;
}

static bool form_match(struct decoder *d) {
    struct ins *n = emit_form(d, run_match, "dw|p a0 ew");
    if (n) n->mode = opcode_has(&d->op, "all");
    return n != NULL;
}

static bool form_redux(struct decoder *d) {
    int mode = opcode_choice(&d->op, "add and or xor min max");
    if (mode < 0 || TYPES[d->op.types[0]].bytes != 4) return unsupported(d);
    struct ins *n = emit_form(d, run_reduce, "d0 a0 ew");
    if (!n) return false;
    n->mode = (uint8_t)mode;
    n->flags |= opcode_has(&d->op, "abs") ? F_ABS : 0;
    return true;
}

static bool form_activemask(struct decoder *d) { return emit_form(d, run_active_mask, "dw") != NULL; }
static bool form_elect(struct decoder *d) { return emit_form(d, run_elect, "dw|p ew") != NULL; }

/* ---- matrices ---- */

/* ldmatrix, stmatrix .m8n8.xN{.trans}.b16 */
static bool form_matrix_memory(struct decoder *d) {
    bool write = base_is(d, "stmatrix");
    if (!opcode_has(&d->op, "m8n8") || !operands_between(d, 2, 2) || d->op.types[0] != T_B16) return unsupported(d);
    int which = opcode_choice(&d->op, "x1 x2 x4");
    uint32_t count;
    if (which < 0 || !list_registers(d, &d->operands[write], T_B32, !write, &count) || count != 1u << which) return unsupported(d);
    struct ins *n = emit_run(d, write ? run_matrix_store : run_matrix_load);
    n->list = d->p->ref_count - count, n->count = (uint8_t)count, n->bytes = 16, n->space = d->op.space;
    n->flags = opcode_has(&d->op, "trans") ? F_TRANS : 0;
    return address(d, &d->operands[!write], n);
}

static bool form_movmatrix(struct decoder *d) {
    if (!opcode_has(&d->op, "m8n8") || !opcode_has(&d->op, "trans")) return unsupported(d);
    return emit_form(d, run_matrix_transpose, "dw aw") != NULL;
}

static uint32_t number_after(struct word w, char letter) {
    uint32_t value = 0;
    for (uint32_t i = 0; i < w.size; i++)
        if (w.at[i] == letter)
            for (i++; i < w.size && value < 10000 && w.at[i] >= '0' && w.at[i] <= '9'; i++) value = value * 10 + (uint32_t)(w.at[i] - '0');
    return value;
}

/* mma.sync.aligned.mMnNkK.row.col{.satfinite}{.op.popc}.d.a.b.c: list has the registers of d, a, b, c in this order. */
static bool form_mma(struct decoder *d) {
    struct word shape = {0};
    for (uint32_t i = 0; i < d->op.part_count; i++)
        if (d->op.parts[i].size > 4 && d->op.parts[i].at[0] == 'm' && number_after(d->op.parts[i], 'k')) shape = d->op.parts[i];
    bool bits = opcode_has(&d->op, "b1"), fours = opcode_has(&d->op, "u4") || opcode_has(&d->op, "s4");
    if (!shape.size || !operands_between(d, 4, 4) || opcode_has(&d->op, "sp") || opcode_has(&d->op, "block_scale")) return unsupported(d);
    uint32_t rows = number_after(shape, 'm'), columns = number_after(shape, 'n'), depth = number_after(shape, 'k');
    if (rows > 16 || columns > 8 || depth > 256) return unsupported(d);
    struct mma_shape m = {.m = (uint8_t)rows, .n = (uint8_t)columns, .k = (uint16_t)depth};
    enum type accumulate = d->op.types[0];
    if (bits || fours) {
        if (accumulate != T_S32) return unsupported(d);
        m.bits = bits ? 1 : 4;
        uint32_t seen = 0;
        for (uint32_t i = 0; i < d->op.part_count; i++) {
            bool is_signed = word_is(d->op.parts[i], "s4");
            if (is_signed || word_is(d->op.parts[i], "u4")) seen++ ? (m.b_signed = is_signed) : (m.a_signed = is_signed);
        }
        m.kind = bits ? (opcode_has(&d->op, "and") ? 2 : 1) : 0;
    } else {
        if (d->op.type_count != 4 || d->op.types[3] != accumulate) return unsupported(d);
        m.a_type = d->op.types[1], m.b_type = d->op.types[2];
        m.bits = 8 * TYPES[m.a_type].bytes;
        m.a_signed = m.a_type == T_S8, m.b_signed = m.b_type == T_S8;
    }
    if (!mma_shape_known(&m, accumulate)) return unsupported(d);
    bool wide = accumulate == T_F64;
    uint32_t counts[4], at;
    for (int k = 0; k < 4; k++)
        if (!list_registers(d, &d->operands[k], wide ? T_B64 : T_B32, k == 0, &counts[k])) return false;
    at = d->p->ref_count - counts[0] - counts[1] - counts[2] - counts[3];
    uint32_t each = wide ? 1 : 32 / m.bits, results = m.m * m.n / 32 / (accumulate == T_F16 ? 2 : 1);
    if (counts[0] != results || counts[3] != results || counts[1] != m.m * m.k / 32 / each || counts[2] != m.n * m.k / 32 / each)
        return bad_instruction(d, "has vectors of the wrong size");
    struct ins *n = emit_run(d, run_mma);
    n->list = at, n->type = (uint8_t)accumulate, n->flags = d->op.flags;
    memcpy(&n->imm, &m, sizeof m);
    return true;
}

const struct form FORMS_MATRIX[] = {
    {"shfl", form_shuffle}, {"vote", form_vote}, {"match", form_match}, {"redux", form_redux}, {"activemask", form_activemask},
    {"elect", form_elect}, {"ldmatrix", form_matrix_memory}, {"stmatrix", form_matrix_memory}, {"movmatrix", form_movmatrix},
    {"mma", form_mma}, {NULL, NULL},
};
