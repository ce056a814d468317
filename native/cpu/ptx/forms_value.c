/* Instructions that compute values: how each is decoded. */
#include "decode.h"

#include <stdio.h>

static bool append(char *out, size_t room, struct word w) {
    size_t used = strlen(out);
    if (used + w.size + 2 > room) return false;
    out[used++] = '.';
    for (uint32_t i = 0; i < w.size; i++) out[used++] = w.at[i];
    out[used] = 0;
    return true;
}
static bool append_text(char *out, size_t room, const char *text) { return append(out, room, (struct word){text, (uint32_t)strlen(text)}); }

static bool is_float(enum type t) { return TYPES[t].kind == 'f' || TYPES[t].kind == 'h'; }
static bool base_is(const struct decoder *d, const char *name) { return word_is(d->op.base, name); }

/* The name in the table: the base, what changes the operation, the types. What only changes rounding, saturation or
 * caching is no part of it. */
static bool operation_name(struct decoder *d, char *out, size_t room) {
    const struct opcode *op = &d->op;
    enum type type = op->type_count ? op->types[0] : T_NONE;
    bool product = base_is(d, "mul") || base_is(d, "mad"), right = op->base.size + 2 < room;
    if (!right) return false;
    memcpy(out, op->base.at, op->base.size);
    out[op->base.size] = 0;
    if (base_is(d, "mad") && is_float(type)) strcpy(out, "fma");
    if ((base_is(d, "min") || base_is(d, "max")) && d->operand_count == 4) strcat(out, "3");
    if (base_is(d, "div") && op->approx) right = append_text(out, room, "approx");
    if (op->flags & F_NAN) right = right && append_text(out, room, "nan");
    for (uint32_t i = 0; i < op->part_count; i++)
        if (!(product && word_is(op->parts[i], "lo"))) right = right && append(out, room, op->parts[i]);
    if (!is_float(type) && op->flags & F_SAT) right = right && append_text(out, room, "sat");
    if (!is_float(type) && op->flags & F_RELU) right = right && append_text(out, room, "relu");
    if ((type == T_F32 || type == T_F64 || type == T_F32X2) && op->flags & F_FTZ) right = right && append_text(out, room, "ftz");
    for (uint32_t i = 0; i < op->type_count; i++) right = right && append_text(out, room, TYPES[op->types[i]].name);
    return right;
}

static bool emit_operation(struct decoder *d, const struct vec_op *v) {
    ref refs[4] = {0};
    size_t count = strlen(v->signature);
    if (d->operand_count != count) return bad(d, PTX_INVALID_PTX, "%.*s has %u operands instead of %u", (int)d->op.whole.size, d->op.whole.at, d->operand_count, (unsigned)count);
    static const char LETTERS[] = "hwlqfdp";
    static const uint8_t SIZES[] = {2, 4, 8, 16, 4, 8, 4};
    for (size_t i = 1; i < count; i++)
        if (!source_letter(d, &d->operands[i], v->signature[i], &refs[i])) return false;
    static const uint8_t KINDS[] = {T_B16, T_B32, T_B64, T_B128, T_F32, T_F64};
    size_t letter = (size_t)(strchr(LETTERS, v->signature[0]) - LETTERS);
    if (!destination(d, &d->operands[0], (enum type)KINDS[letter], &refs[0])) return false;
    enum type type = d->op.type_count ? d->op.types[0] : T_NONE;
    bool after = is_float(type) && d->op.flags & (F_SAT | F_RELU);
    struct ins *n = emit(d, d->op.rounding != ROUND_NEAREST || after ? K_VEC_ROUNDED : K_VEC);
    n->d = refs[0], n->a = refs[1], n->b = refs[2], n->c = refs[3];
    n->bytes = SIZES[letter];
    n->rounding = d->op.rounding;
    n->flags = d->op.flags;
    n->type = (uint8_t)type;
    n->vec = v->run;
    return true;
}

static bool form_carry(struct decoder *d);

bool form_operation(struct decoder *d) {
    char name[96];
    if (d->op.carry) return form_carry(d);
    if (!operation_name(d, name, sizeof name)) return unsupported(d);
    const struct vec_op *v = vec_named(name);
    return v ? emit_operation(d, v) : unsupported(d);
}

static bool needs(struct decoder *d, uint32_t least, uint32_t most, uint32_t types) {
    if (d->operand_count >= least && d->operand_count <= most && d->op.type_count >= types) return true;
    return bad(d, PTX_INVALID_PTX, "%.*s has the wrong number of operands or types", (int)(d->op.whole.size < 100 ? d->op.whole.size : 100), d->op.whole.at);
}

/* ---- carries, predicates ---- */

static bool form_carry(struct decoder *d) {
    bool product = base_is(d, "mad") || base_is(d, "madc"), in = d->op.base.size == 4, high = opcode_has(&d->op, "hi");
    if (!needs(d, product ? 4 : 3, product ? 4 : 3, 1)) return false;
    enum type type = d->op.types[0];
    if (TYPES[type].bytes < 4 || is_float(type)) return unsupported(d);
    ref refs[4] = {0};
    for (uint32_t i = 1; i < d->operand_count; i++)
        if (!source(d, &d->operands[i], type, &refs[i])) return false;
    if (!destination(d, &d->operands[0], type, &refs[0])) return false;
    if (!d->carry) d->carry = register_new(d, 0);
    struct ins *n = emit_run(d, run_carry);
    n->d = refs[0], n->a = refs[1], n->b = refs[2], n->c = refs[3], n->e = d->carry;
    n->bytes = TYPES[type].bytes;
    n->mode = product ? (high ? 3 : 2) : word_is((struct word){d->op.base.at, 3}, "sub");
    n->from = TYPES[type].kind == 's';
    n->flags = (in ? F_CARRY_IN : 0) | (d->op.carry ? F_CARRY_OUT : 0);
    return true;
}

enum { LOGIC_AND, LOGIC_OR, LOGIC_XOR, LOGIC_NOT, LOGIC_MOV };

static bool emit_predicate_logic(struct decoder *d, uint8_t mode) {
    ref to, a, b = 0;
    if (!needs(d, mode >= LOGIC_NOT ? 2 : 3, mode >= LOGIC_NOT ? 2 : 3, 0)) return false;
    if (!predicate_destination(d, &d->operands[0], &to) || !predicate_source(d, &d->operands[1], &a)) return false;
    if (mode < LOGIC_NOT && !predicate_source(d, &d->operands[2], &b)) return false;
    struct ins *n = emit_run(d, run_predicate_logic);
    n->d = to, n->a = a, n->b = b, n->mode = mode;
    return true;
}

static bool form_logic(struct decoder *d) {
    if (!opcode_has(&d->op, "pred")) return form_operation(d);
    return emit_predicate_logic(d, base_is(d, "and") ? LOGIC_AND : base_is(d, "or") ? LOGIC_OR : base_is(d, "xor") ? LOGIC_XOR : LOGIC_NOT);
}

static bool compare_name(struct decoder *d, enum type type, char *out, size_t room) {
    static const char *const NAMES[][2] = {{"lo", "lt"}, {"ls", "le"}, {"hi", "gt"}, {"hs", "ge"}};
    if (!d->op.part_count) return false;
    out[0] = 0;
    struct word w = d->op.parts[0];
    const char *name = NULL, *kind = TYPES[type].name;
    if (TYPES[type].kind == 'u')
        for (int i = 0; i < 4; i++)
            if (word_is(w, NAMES[i][0])) name = NAMES[i][1];
    if (name) append_text(out, room, name);
    else if (d->op.flags & F_NAN || !append(out, room, w)) return false;
    if (type == T_F32 && d->op.flags & F_FTZ) append_text(out, room, "ftz");
    if (type == T_F16X2) kind = "f16";
    if (type == T_BF16X2) kind = "bf16";
    char plain[8];
    if (TYPES[type].kind == 'b') {
        if (!word_is(w, "eq") && !word_is(w, "ne")) return false;
        snprintf(plain, sizeof plain, "u%u", 8u * TYPES[type].bytes);
        kind = plain;
    }
    if (!append_text(out, room, kind)) return false;
    memmove(out, out + 1, strlen(out));
    return true;
}

/* `nan` is a comparison here and `NaN` a modifier elsewhere: only the latter is taken out of the parts. */
static const struct compare_op *comparison(struct decoder *d, enum type type) {
    char name[96];
    return compare_name(d, type, name, sizeof name) ? compare_named(name) : NULL;
}

static uint8_t boolean_of(struct decoder *d) {
    if (d->op.part_count < 2) return 0;
    struct word w = d->op.parts[1];
    return word_is(w, "and") ? 1 : word_is(w, "or") ? 2 : word_is(w, "xor") ? 3 : 255;
}

static bool form_setp(struct decoder *d) {
    uint8_t boolean = boolean_of(d);
    if (!needs(d, boolean ? 4 : 3, boolean ? 4 : 3, 1)) return false;
    enum type type = d->op.types[0];
    const struct compare_op *op = comparison(d, type);
    if (!op || boolean == 255) return unsupported(d);
    ref a, b, c = 0, p, q = 0;
    if (!source(d, &d->operands[1], type, &a) || !source(d, &d->operands[2], type, &b)) return false;
    if (boolean && !predicate_source(d, &d->operands[3], &c)) return false;
    if (!predicate_destination(d, &d->operands[0], &p)) return false;
    if (d->second[0].kind && !predicate_destination(d, &d->second[0], &q)) return false;
    bool pair = type == T_F16X2 || type == T_BF16X2;
    struct ins *n = pair ? emit_run(d, run_compare_pair) : emit(d, K_COMPARE);
    n->d = p, n->e = q, n->a = a, n->b = b, n->c = c;
    n->mode = boolean;
    n->flags = d->op.flags;
    n->imm = op - operations()->compare;
    if (!pair) n->compare = op->run;
    return true;
}

static bool form_set(struct decoder *d) {
    uint8_t boolean = boolean_of(d);
    if (!needs(d, boolean ? 4 : 3, boolean ? 4 : 3, 2)) return false;
    enum type type = d->op.types[1];
    const struct compare_op *op = comparison(d, type);
    if (!op || boolean == 255) return unsupported(d);
    ref a, b, c = 0, to;
    if (!source(d, &d->operands[1], type, &a) || !source(d, &d->operands[2], type, &b)) return false;
    if (boolean && !predicate_source(d, &d->operands[3], &c)) return false;
    if (!destination(d, &d->operands[0], d->op.types[0], &to)) return false;
    struct ins *n = emit_run(d, run_set);
    n->d = to, n->a = a, n->b = b, n->c = c;
    n->mode = boolean;
    n->type = (uint8_t)d->op.types[0], n->from = (uint8_t)type;
    n->flags = d->op.flags;
    n->imm = op - operations()->compare;
    return true;
}

static bool form_testp(struct decoder *d) {
    if (!needs(d, 2, 2, 1)) return false;
    const struct compare_op *op = comparison(d, d->op.types[0]);
    if (!op) return unsupported(d);
    ref a, p;
    if (!source(d, &d->operands[1], d->op.types[0], &a) || !predicate_destination(d, &d->operands[0], &p)) return false;
    struct ins *n = emit(d, K_COMPARE);
    n->d = p, n->a = n->b = a;
    n->compare = op->run;
    return true;
}

static bool form_selp(struct decoder *d) {
    if (!needs(d, 4, 4, 1)) return false;
    enum type type = d->op.types[0];
    ref a, b, c, to;
    if (!source(d, &d->operands[1], type, &a) || !source(d, &d->operands[2], type, &b) || !predicate_source(d, &d->operands[3], &c)) return false;
    if (!destination(d, &d->operands[0], type, &to)) return false;
    struct ins *n = emit(d, K_SELECT);
    n->d = to, n->a = a, n->b = b, n->c = c;
    n->bytes = TYPES[type].bytes;
    return n->bytes >= 2 && n->bytes <= 8 ? true : unsupported(d);
}

static bool form_slct(struct decoder *d) {
    if (!needs(d, 4, 4, 2) || (d->op.types[1] != T_S32 && d->op.types[1] != T_F32)) return unsupported(d);
    char name[32];
    snprintf(name, sizeof name, "slct.%s.%u", TYPES[d->op.types[1]].name, 8u * TYPES[d->op.types[0]].bytes);
    const struct vec_op *v = vec_named(name);
    if (!v) return unsupported(d);
    ref a, b, c, to;
    enum type type = d->op.types[0];
    if (!source(d, &d->operands[1], type, &a) || !source(d, &d->operands[2], type, &b) || !source(d, &d->operands[3], d->op.types[1], &c)) return false;
    if (!destination(d, &d->operands[0], type, &to)) return false;
    struct ins *n = emit(d, K_VEC);
    n->d = to, n->a = a, n->b = b, n->c = c;
    n->bytes = TYPES[type].bytes, n->flags = d->op.flags, n->vec = v->run;
    return true;
}

/* ---- moves ---- */

static bool emit_pack(struct decoder *d, const struct operand *whole, const struct operand *parts, enum type type, bool unpack) {
    unsigned each = TYPES[type].bytes / (parts->count ? parts->count : 1), bytes;
    ref to, refs[VECTOR_MOST];
    if (each * parts->count != TYPES[type].bytes || !each) return unsupported(d);
    enum type part = each == 1 ? T_B8 : each == 2 ? T_B16 : each == 4 ? T_B32 : T_B64;
    for (uint32_t i = 0; i < parts->count; i++) {
        const struct operand *e = &d->elements[parts->first + i];
        if (e->kind == O_SPECIAL && each < 4) return unsupported(d);
        if (unpack ? !destination_any(d, e, part, &refs[i], &bytes) : !source(d, e, part, &refs[i])) return false;
        if (bytes != each && unpack && e->kind != O_SINK) return bad(d, PTX_INVALID_PTX, "a register of the vector has the wrong size");
    }
    if (unpack ? !source(d, whole, type, &to) : !destination(d, whole, type, &to)) return false;
    uint32_t list = d->p->ref_count;
    for (uint32_t i = 0; i < parts->count; i++)
        if (!list_put(d, refs[i])) return false;
    struct ins *n = emit_run(d, run_pack);
    n->d = to, n->list = list, n->count = (uint8_t)parts->count;
    n->bytes = (uint8_t)each, n->from = TYPES[type].bytes, n->mode = unpack;
    return true;
}

static bool emit_move(struct decoder *d, const struct operand *to, const struct operand *from, enum type type) {
    ref a, at;
    if (from->kind == O_SPECIAL) {
        if (!destination(d, to, type, &at)) return false;
        struct ins *n = emit_run(d, run_special);
        n->d = at, n->bytes = TYPES[type].bytes, n->mode = from->special;
        return true;
    }
    if (!source(d, from, type, &a) || !destination(d, to, type, &at)) return false;
    char name[16];
    snprintf(name, sizeof name, "mov.b%u", 8u * TYPES[type].bytes);
    const struct vec_op *v = vec_named(name);
    if (!v) return unsupported(d);
    struct ins *n = emit(d, K_VEC);
    n->d = at, n->a = a, n->bytes = TYPES[type].bytes, n->vec = v->run;
    return true;
}

/* mov.vN, through copies: the same registers may be on both sides. A single source goes into the first, and
 * the others are 0: so an H200 does it. */
static bool emit_vector_move(struct decoder *d, const struct operand *to, const struct operand *from, enum type type) {
    uint32_t count = d->op.vector;
    if (to->kind != O_VECTOR || to->count != count || (from->kind == O_VECTOR && from->count != count)) return unsupported(d);
    struct operand copies[VECTOR_MOST], zero = {.kind = O_NUMBER, .number = {.kind = NUMBER_INTEGER}};
    for (uint32_t i = 0; i < count; i++) {
        const struct operand *one = from->kind == O_VECTOR ? &d->elements[from->first + i] : i ? &zero : from;
        copies[i] = (struct operand){.kind = O_REGISTER, .type = (uint8_t)type, .at = register_new(d, TYPES[type].bytes)};
        if (!emit_move(d, &copies[i], one, type)) return false;
    }
    for (uint32_t i = 0; i < count; i++)
        if (!emit_move(d, &d->elements[to->first + i], &copies[i], type)) return false;
    return true;
}

static bool form_mov(struct decoder *d) {
    if (opcode_has(&d->op, "pred")) return emit_predicate_logic(d, LOGIC_MOV);
    if (!needs(d, 2, 2, 1)) return false;
    struct operand *to = &d->operands[0], *from = &d->operands[1];
    enum type type = d->op.types[0];
    if (d->op.part_count) return unsupported(d);
    if (d->op.vector > 1) return emit_vector_move(d, to, from, type);
    if (to->kind == O_VECTOR && from->kind == O_VECTOR) return unsupported(d);
    if (to->kind == O_VECTOR || from->kind == O_VECTOR)
        return to->kind == O_VECTOR ? emit_pack(d, from, to, type, true) : emit_pack(d, to, from, type, false);
    if (type == T_B128 && to->kind == O_REGISTER && from->kind == O_REGISTER) {
        ref a, b;
        if (!source(d, from, type, &a) || !destination(d, to, type, &b) || !list_put(d, a)) return false;
        struct ins *n = emit_run(d, run_pack);
        n->d = b, n->list = d->p->ref_count - 1, n->bytes = n->from = 16;
        return true;
    }
    return emit_move(d, to, from, type);
}

/* ---- conversions ---- */

static bool form_cvt(struct decoder *d) {
    uint32_t sources = d->operand_count - 1;
    if (!needs(d, 2, 4, 2) || opcode_has(&d->op, "rs") || opcode_has(&d->op, "scaled::n2::ue8m0")) return unsupported(d);
    enum type to = d->op.types[0], from = d->op.types[1];
    bool pack = opcode_has(&d->op, "pack"), plain = sources == 1 && !d->op.part_count;
    unsigned to_bytes, from_bytes, more_bytes;
    ref a, b = 0, c = 0, at;
    if (d->op.part_count > (pack ? 1u : 0u)) return unsupported(d);
    if (!source_any(d, &d->operands[1], from, &a, &from_bytes)) return false;
    if (sources > 1 && !source_any(d, &d->operands[2], from, &b, &more_bytes)) return false;
    if (sources > 2 && !source(d, &d->operands[3], T_B32, &c)) return false;
    enum type narrow = pack ? T_B32 : to;
    if (!destination_any(d, &d->operands[0], narrow, &at, &to_bytes)) return false;
    bool special = d->op.flags & (F_FTZ | F_SAT | F_RELU | F_SATFINITE) || (d->op.has_rounding && d->op.rounding != ROUND_NEAREST && !d->op.integral);
    if (plain && !special && to_bytes == TYPES[to].bytes && from_bytes == TYPES[from].bytes) {
        char name[48];
        snprintf(name, sizeof name, "cvt%s.%s.%s", d->op.integral && d->op.rounding == ROUND_ZERO ? ".rzi" : d->op.integral ? ".other" : "", TYPES[to].name, TYPES[from].name);
        const struct vec_op *v = vec_named(name);
        if (v) {
            struct ins *n = emit(d, K_VEC);
            n->d = at, n->a = a, n->bytes = (uint8_t)to_bytes, n->vec = v->run;
            return true;
        }
    }
    struct ins *n = emit_run(d, run_convert);
    n->d = at, n->a = a, n->b = b, n->c = c;
    n->type = (uint8_t)to, n->from = (uint8_t)from, n->bytes = (uint8_t)to_bytes, n->count = (uint8_t)from_bytes;
    n->flags = d->op.flags | (d->op.integral ? F_INTEGRAL : 0);
    n->rounding = d->op.rounding;
    n->mode = pack ? 3 : (uint8_t)sources;
    if (pack) n->e = sources > 2, n->space = d->op.type_count > 2 ? (uint8_t)d->op.types[2] : 0;
    return true;
}

/* ---- others ---- */

static bool form_bfi(struct decoder *d) {
    if (!needs(d, 5, 5, 1)) return false;
    enum type type = d->op.types[0];
    ref a, b, c, e, to;
    if (!source(d, &d->operands[1], type, &a) || !source(d, &d->operands[2], type, &b) || !source(d, &d->operands[3], T_U32, &c) ||
        !source(d, &d->operands[4], T_U32, &e) || !destination(d, &d->operands[0], type, &to))
        return false;
    struct ins *n = emit_run(d, run_insert_field);
    n->d = to, n->a = a, n->b = b, n->c = c, n->e = e, n->bytes = TYPES[type].bytes;
    return true;
}

static bool form_prmt(struct decoder *d) {
    static const char *const MODES[] = {"", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16"};
    uint8_t mode = 0;
    for (uint8_t i = 1; i < 7; i++)
        if (opcode_has(&d->op, MODES[i])) mode = i, d->op.part_count = 0;
    if (!form_operation(d)) return false;
    d->p->ins[d->p->size - 1].mode = mode;
    return true;
}

/* lop3.b32 d, a, b, c, table; lop3.or.b32 d|p, a, b, c, table, q */
static bool form_lop3(struct decoder *d) {
    bool boolean = d->op.part_count == 1;
    if (!needs(d, boolean ? 6 : 5, boolean ? 6 : 5, 1) || d->operands[4].kind != O_NUMBER) return unsupported(d);
    int64_t table = (int64_t)(d->operands[4].number.bits & 0xff);
    struct operand last = d->operands[5];
    bool either = boolean && word_is(d->op.parts[0], "or");
    if (boolean && !either && !word_is(d->op.parts[0], "and")) return unsupported(d);
    d->operand_count = 4;
    d->op.part_count = 0;
    ref q = 0, p = 0;
    if (boolean && !predicate_source(d, &last, &q)) return false;
    if (boolean && !predicate_destination(d, &d->second[0], &p)) return false;
    if (boolean && d->operands[0].kind == O_SINK) d->operands[0] = (struct operand){.kind = O_REGISTER, .type = T_B32, .at = register_new(d, 4)};
    if (!form_operation(d)) return false;
    struct ins *n = &d->p->ins[d->p->size - 1];
    n->imm = table;
    if (!boolean) return true;
    ref value = n->d;
    n = emit_run(d, run_lop3_predicate);
    n->d = p, n->a = value, n->c = q, n->mode = either;
    return true;
}

static bool form_cvta(struct decoder *d) {
    if (!needs(d, 2, 2, 1)) return false;
    enum type type = d->op.types[0];
    bool to = opcode_has(&d->op, "to");
    uint8_t space = d->op.space;
    if (space != SPACE_SHARED) return emit_move(d, &d->operands[0], &d->operands[1], type);
    ref a, at;
    if (!source(d, &d->operands[1], type, &a) || !destination(d, &d->operands[0], type, &at)) return false;
    struct ins *n = emit_run(d, run_shared_generic);
    n->d = at, n->a = a, n->bytes = TYPES[type].bytes, n->mode = to;
    return true;
}

static bool form_isspacep(struct decoder *d) {
    if (!needs(d, 2, 2, 0)) return false;
    ref a, p;
    unsigned bytes;
    if (!source_any(d, &d->operands[1], T_U32, &a, &bytes) || !predicate_destination(d, &d->operands[0], &p)) return false;
    struct ins *n = emit_run(d, run_is_space);
    n->d = p, n->a = a, n->space = d->op.space, n->bytes = (uint8_t)bytes;
    return true;
}

/* mapa: a cluster has one block, so an address maps to itself; getctarank is 0. */
static bool form_mapa(struct decoder *d) {
    if (!needs(d, 2, 3, 1)) return false;
    if (base_is(d, "mapa")) return emit_move(d, &d->operands[0], &d->operands[1], d->op.types[0]);
    struct operand zero = {.kind = O_NUMBER, .number = {NUMBER_INTEGER, false, 0}};
    return emit_move(d, &d->operands[0], &zero, T_U32);
}


const struct form FORMS_VALUE[] = {
    {"mov", form_mov}, {"cvt", form_cvt}, {"setp", form_setp}, {"set", form_set}, {"selp", form_selp}, {"slct", form_slct},
    {"testp", form_testp}, {"addc", form_carry}, {"subc", form_carry}, {"madc", form_carry}, {"and", form_logic},
    {"or", form_logic}, {"xor", form_logic}, {"not", form_logic}, {"bfi", form_bfi}, {"prmt", form_prmt}, {"lop3", form_lop3},
    {"cvta", form_cvta}, {"isspacep", form_isspacep}, {"mapa", form_mapa}, {"getctarank", form_mapa},
    {"vadd", form_video}, {"vsub", form_video}, {"vabsdiff", form_video}, {"vmin", form_video}, {"vmax", form_video},
    {"vshl", form_video}, {"vshr", form_video}, {"vmad", form_video}, {"vset", form_video},
    {"vadd2", form_video}, {"vsub2", form_video}, {"vavrg2", form_video}, {"vabsdiff2", form_video}, {"vmin2", form_video},
    {"vmax2", form_video}, {"vset2", form_video}, {"vadd4", form_video}, {"vsub4", form_video}, {"vavrg4", form_video},
    {"vabsdiff4", form_video}, {"vmin4", form_video}, {"vmax4", form_video}, {"vset4", form_video}, {NULL, NULL},
};
