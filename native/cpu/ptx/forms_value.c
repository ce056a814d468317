/* Instructions that compute values: how each is decoded. */
#include "decode.h"

#include <stdio.h>

static bool needs(struct decoder *d, uint32_t least, uint32_t most, uint32_t types) {
    return d->op.type_count < types ? bad_instruction(d, "names too few types") : operands_between(d, least, most);
}

/* ---- carries, predicates ---- */

bool form_carry(struct decoder *d) {
    bool product = base_is(d, "mad") || base_is(d, "madc"), in = d->op.base.size == 4, high = opcode_has(&d->op, "hi");
    if (TYPES[d->op.types[0]].bytes < 4 || type_is_float(d->op.types[0])) return unsupported(d);
    struct ins *n = emit_form(d, run_carry, product ? "d0 a0 b0 c0" : "d0 a0 b0");
    if (!n) return false;
    if (!d->carry) d->carry = register_new(d, 0);
    n->e = d->carry;
    n->mode = product ? (high ? 3 : 2) : word_is((struct word){d->op.base.at, 3}, "sub");
    n->from = TYPES[n->type].kind == 's';
    n->flags = (in ? F_CARRY_IN : 0) | (d->op.carry ? F_CARRY_OUT : 0);
    return true;
}

enum { LOGIC_NOT = 3, LOGIC_MOV }; /* after and, or, xor */

static bool emit_predicate_logic(struct decoder *d, uint8_t mode) {
    struct ins *n = emit_form(d, run_predicate_logic, mode < LOGIC_NOT ? "dp ap bp" : "dp ap");
    if (n) n->mode = mode;
    return n != NULL;
}

static bool form_logic(struct decoder *d) {
    if (!opcode_has(&d->op, "pred")) return form_operation(d);
    return emit_predicate_logic(d, (uint8_t)word_choice(d->op.base, "and or xor not"));
}

/* The name in the table: the comparison and the type. `nan` is a comparison and `NaN` a modifier of other instructions. */
static const struct compare_op *comparison(struct decoder *d, enum type type) {
    static const char *const UNSIGNED[] = {"lt", "le", "gt", "ge"};
    if (!d->op.part_count || d->op.flags & F_NAN) return NULL;
    struct word w = d->op.parts[0];
    char name[48], kind = TYPES[type].kind;
    int other = kind == 'u' ? word_choice(w, "lo ls hi hs") : -1;
    if (other >= 0) w = word_of(UNSIGNED[other]);
    if (kind == 'b' && word_choice(w, "eq ne") < 0) return NULL;
    const char *compared = TYPES[singles_of(type, 0) == SINGLES_COUNT ? type : T_F32].name;
    snprintf(name, sizeof name, "%.*s.%s", (int)(w.size < 20 ? w.size : 20), w.at, compared);
    if (kind == 'b') name[3] = 'u'; /* bits compare as numbers do */
    return compare_named(name);
}

/* setp and set: a comparison, and what is done to it with a predicate. */
static struct ins *emit_comparison(struct decoder *d, run_fn run, enum type type, const char *alone, const char *combined) {
    const struct compare_op *op = comparison(d, type);
    int boolean = d->op.part_count < 2 ? 0 : 1 + word_choice(d->op.parts[1], "and or xor");
    if (!op || (d->op.part_count > 1 && !boolean)) return unsupported(d), NULL;
    struct ins *n = emit_form(d, run, boolean ? combined : alone);
    if (!n) return NULL;
    n->mode = (uint8_t)boolean;
    n->imm = op - operations()->compare;
    return n;
}

static bool form_setp(struct decoder *d) {
    enum type type = d->op.types[0];
    bool pair = type == T_F16X2 || type == T_BF16X2;
    struct ins *n = emit_comparison(d, run_compare_pair, type, "dp|e a0 b0", "dp|e a0 b0 cp");
    if (n && !pair) n->kind = K_COMPARE, n->compare = compare_of(type, n);
    return n != NULL;
}

static bool form_set(struct decoder *d) {
    struct ins *n = emit_comparison(d, run_set, d->op.types[1], "d0 a1 b1", "d0 a1 b1 cp");
    if (n) n->from = (uint8_t)d->op.types[1];
    return n != NULL;
}

static bool form_testp(struct decoder *d) {
    const struct compare_op *op = comparison(d, d->op.types[0]);
    if (!op || (d->op.types[0] != T_F32 && d->op.types[0] != T_F64)) return unsupported(d);
    struct ins *n = emit_form(d, NULL, "dp a0");
    if (n) n->kind = K_COMPARE, n->b = n->a, n->compare = op->run;
    return n != NULL;
}

static bool form_selp(struct decoder *d) {
    struct ins *n = emit_form(d, NULL, "d0 a0 b0 cp");
    if (!n) return false;
    n->kind = K_SELECT;
    return (n->bytes >= 2 && n->bytes <= 8) || unsupported(d);
}

static bool form_slct(struct decoder *d) {
    char name[32];
    snprintf(name, sizeof name, "slct.%s.%u", TYPES[d->op.types[1]].name, 8u * TYPES[d->op.types[0]].bytes);
    const struct vec_op *v = vec_named(name);
    struct ins *n = v ? emit_form(d, NULL, "d0 a0 b0 c1") : NULL;
    if (n) n->kind = K_VEC, n->vec = v->run;
    return n != NULL || (!v && unsupported(d));
}

/* ---- moves ---- */

static bool emit_pack(struct decoder *d, const struct operand *whole, const struct operand *parts, enum type type, bool unpack) {
    static const uint8_t PARTS_OF[] = {[1] = T_B8, [2] = T_B16, [4] = T_B32, [8] = T_B64};
    unsigned each = TYPES[type].bytes / parts->count;
    ref to;
    if (each * parts->count != TYPES[type].bytes || each > 8 || !PARTS_OF[each]) return unsupported(d);
    if (each < 4 && d->elements[parts->first].kind == O_SPECIAL) return unsupported(d);
    if (unpack ? !source(d, whole, type, &to) : !destination(d, whole, type, &to)) return false;
    uint32_t list = d->p->ref_count, count;
    if (!list_registers(d, parts, (enum type)PARTS_OF[each], unpack, &count)) return false;
    struct ins *n = emit_run(d, run_pack);
    n->d = to, n->list = list, n->count = (uint8_t)count;
    n->bytes = (uint8_t)each, n->from = TYPES[type].bytes, n->mode = unpack;
    return true;
}

static bool emit_move(struct decoder *d, const struct operand *to, const struct operand *from, enum type type) {
    ref a, at;
    if (from->kind == O_SPECIAL) return destination(d, to, type, &at) && emit_special(d, at, TYPES[type].bytes, from->special);
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

static bool form_bfi(struct decoder *d) { return emit_form(d, run_insert_field, "d0 a0 b0 cw ew") != NULL; }

static bool form_prmt(struct decoder *d) {
    int mode = 1 + opcode_choice(&d->op, "f4e b4e rc8 ecl ecr rc16");
    if (mode) d->op.part_count = 0;
    if (!form_operation(d)) return false;
    d->p->ins[d->p->size - 1].mode = (uint8_t)mode;
    return true;
}

/* dp4a, dp2a: ins.mode says which factors have a sign */
static bool form_dot(struct decoder *d) {
    int a = word_choice(word_of(TYPES[d->op.types[0]].name), "u32 s32"), b = word_choice(word_of(TYPES[d->op.types[1]].name), "u32 s32");
    if (a < 0 || b < 0 || d->op.type_count != 2) return unsupported(d);
    d->op.type_count = 0;
    if (!form_operation(d)) return false;
    d->p->ins[d->p->size - 1].mode = (uint8_t)(a | b << 1);
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
    if (d->op.space != SPACE_SHARED) return emit_move(d, &d->operands[0], &d->operands[1], d->op.types[0]);
    struct ins *n = emit_form(d, run_shared_generic, "d0 a0");
    if (n) n->mode = opcode_has(&d->op, "to");
    return n != NULL;
}

static bool form_isspacep(struct decoder *d) {
    ref a, p;
    unsigned bytes;
    if (!needs(d, 2, 2, 0)) return false;
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
    {"or", form_logic}, {"xor", form_logic}, {"not", form_logic}, {"bfi", form_bfi}, {"prmt", form_prmt}, {"dp4a", form_dot}, {"dp2a", form_dot}, {"lop3", form_lop3},
    {"cvta", form_cvta}, {"isspacep", form_isspacep}, {"mapa", form_mapa}, {"getctarank", form_mapa},
    {NULL, NULL},
};
