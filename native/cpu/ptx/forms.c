/* What all forms have in common: which function decodes an instruction, and how its operands are read. */
#include "decode.h"

bool base_is(const struct decoder *d, const char *name) { return word_is(d->op.base, name); }

bool operands_between(struct decoder *d, uint32_t least, uint32_t most) {
    if (d->operand_count >= least && d->operand_count <= most) return true;
    return bad_instruction(d, "has the wrong number of operands");
}

static enum type type_of_letter(const struct decoder *d, char letter) {
    static const char LETTERS[] = "hwlqfdp";
    static const uint8_t KINDS[] = {T_B16, T_B32, T_B64, T_B128, T_F32, T_F64, T_PRED};
    const char *found = strchr(LETTERS, letter);
    if (found) return (enum type)KINDS[found - LETTERS];
    uint32_t index = (uint32_t)(letter - '0');
    return index < d->op.type_count ? d->op.types[index] : T_NONE;
}

static ref *field_of_letter(struct ins *n, char letter) {
    switch (letter) {
    case 'a': return &n->a;
    case 'b': return &n->b;
    case 'c': return &n->c;
    case 'd': return &n->d;
    case 'e': return &n->e;
    default: return &n->target;
    }
}

static bool read_operand(struct decoder *d, uint32_t k, char field, char letter, struct ins *n) {
    enum type type = type_of_letter(d, letter);
    if (type == T_NONE) return unsupported(d);
    return (field == 'd' ? destination : source)(d, &d->operands[k], type, field_of_letter(n, field));
}

struct ins *emit_form(struct decoder *d, run_fn run, const char *form) {
    struct ins read = {0};
    uint32_t k = 0;
    for (const char *p = form; *p; k++) {
        if (k >= d->operand_count) return operands_between(d, k + 1, k + 1), NULL;
        if (!read_operand(d, k, p[0], p[1], &read)) return NULL;
        p += 2;
        if (*p == '|') {
            if (d->second[k].kind && !predicate_destination(d, &d->second[k], field_of_letter(&read, p[1]))) return NULL;
            p += 2;
        }
        p += *p == ' ';
    }
    if (!operands_between(d, k, k)) return NULL;
    struct ins *n = emit_run(d, run);
    n->a = read.a, n->b = read.b, n->c = read.c, n->d = read.d, n->e = read.e, n->target = read.target;
    n->type = (uint8_t)d->op.types[0], n->bytes = TYPES[d->op.types[0]].bytes, n->flags = d->op.flags;
    return n;
}

bool list_registers(struct decoder *d, const struct operand *o, enum type type, bool write, uint32_t *count) {
    ref refs[VECTOR_MOST];
    *count = o->kind == O_VECTOR ? o->count : 1;
    for (uint32_t i = 0; i < *count; i++) {
        const struct operand *e = o->kind == O_VECTOR ? &d->elements[o->first + i] : o;
        if (!(write ? destination : source)(d, e, type, &refs[i])) return false;
    }
    for (uint32_t i = 0; i < *count; i++)
        if (!list_put(d, refs[i])) return false;
    return true;
}

/* ---- operations on 32 lanes, by their name in the tables ---- */

static bool append(char *out, size_t room, struct word w) {
    size_t used = strlen(out);
    if (used + w.size + 2 > room) return false;
    if (used) out[used++] = '.';
    for (uint32_t i = 0; i < w.size; i++) out[used++] = w.at[i];
    out[used] = 0;
    return true;
}

/* The base, what changes the operation, the types. What only changes rounding, saturation or caching is no part of it. */
static bool operation_name(struct decoder *d, char *out, size_t room) {
    const struct opcode *op = &d->op;
    enum type type = op->types[0];
    bool product = base_is(d, "mul") || base_is(d, "mad"), real = type_is_float(type);
    bool flushed = (type == T_F32 || type == T_F64 || type == T_F32X2) && op->flags & F_FTZ;
    struct word base = base_is(d, "mad") && real ? word_of("fma") : op->base;
    *out = 0;
    bool right = append(out, room, base);
    if ((base_is(d, "min") || base_is(d, "max")) && d->operand_count == 4) strcat(out, "3");
    if (base_is(d, "div") && op->approx) right = right && append(out, room, word_of("approx"));
    if (op->flags & F_NAN) right = right && append(out, room, word_of("nan"));
    for (uint32_t i = 0; i < op->part_count; i++)
        if (!(product && word_is(op->parts[i], "lo"))) right = right && append(out, room, op->parts[i]);
    if (!real && op->flags & F_SAT) right = right && append(out, room, word_of("sat"));
    if (!real && op->flags & F_RELU) right = right && append(out, room, word_of("relu"));
    if (flushed) right = right && append(out, room, word_of("ftz"));
    for (uint32_t i = 0; i < op->type_count; i++) right = right && append(out, room, word_of(TYPES[op->types[i]].name));
    return right;
}

static bool emit_operation(struct decoder *d, const struct vec_op *v) {
    struct ins read = {0};
    uint32_t count = (uint32_t)strlen(v->signature);
    if (!operands_between(d, count, count)) return false;
    for (uint32_t k = 1; k < count; k++)
        if (!read_operand(d, k, "dabc"[k], v->signature[k], &read)) return false;
    if (!read_operand(d, 0, 'd', v->signature[0], &read)) return false;
    bool after = type_is_float(d->op.types[0]) && d->op.flags & (F_SAT | F_RELU);
    struct ins *n = emit(d, d->op.rounding != ROUND_NEAREST || after ? K_VEC_ROUNDED : K_VEC);
    n->d = read.d, n->a = read.a, n->b = read.b, n->c = read.c;
    n->type = (uint8_t)d->op.types[0], n->bytes = TYPES[type_of_letter(d, v->signature[0])].bytes;
    n->rounding = d->op.rounding, n->flags = d->op.flags;
    n->vec = v->run;
    return true;
}

/* f16, bf16, f32x2, and f32 with .ftz: by the operation on singles. */
static bool emit_by_singles(struct decoder *d, enum singles by) {
    static const char *const OPERANDS[] = {"", "", "d0 a0", "d0 a0 b0", "d0 a0 b0 c0"};
    struct opcode whole = d->op;
    bool small = by == SINGLES_HALF || by == SINGLES_BRAIN, fused = word_choice(whole.base, "fma mad") >= 0;
    const char *known = small ? "add sub mul fma mad min max ex2 tanh neg abs" : "add sub mul fma mad";
    if (whole.types[0] != T_F32 && (word_choice(whole.base, known) < 0 || d->operand_count > (fused ? 4u : 3u))) return unsupported(d);
    char name[96];
    if (small && fused) d->op.base = word_of("fma_odd");
    d->op.types[0] = T_F32, d->op.flags &= ~(uint32_t)F_FTZ;
    const struct vec_op *v = operation_name(d, name, sizeof name) ? vec_named(name) : NULL;
    d->op = whole;
    if (!v) return unsupported(d);
    struct ins *n = emit_form(d, NULL, OPERANDS[strlen(v->signature)]);
    if (!n) return false;
    n->rounding = whole.rounding;
    n->kind = n->rounding != ROUND_NEAREST || n->flags & (F_SAT | F_RELU) ? K_VEC_ROUNDED : K_VEC;
    n->vec = operations()->by_singles[by], n->imm = v - operations()->vec;
    return true;
}

bool form_operation(struct decoder *d) {
    char name[96];
    if (d->op.carry) return form_carry(d);
    const struct vec_op *v = operation_name(d, name, sizeof name) ? vec_named(name) : NULL;
    enum singles by = d->op.type_count == 1 ? singles_of(d->op.types[0], d->op.flags) : SINGLES_COUNT;
    if (!v && by != SINGLES_COUNT) return emit_by_singles(d, by);
    return v ? emit_operation(d, v) : unsupported(d);
}

/* ---- all instructions ---- */

static form_fn form_in(const struct form *list, struct word name) {
    for (; list->name; list++)
        if (word_is(name, list->name)) return list->decode;
    return NULL;
}

static form_fn form_of(const struct opcode *op) {
    static const struct form *const LISTS[] = {FORMS_VALUE, FORMS_MEMORY, FORMS_CONTROL, FORMS_MATRIX};
    static const char REFUSED[] = "wmma wgmma tcgen05 tex tld4 txq suld sust sured suq multimem clusterlaunchcontrol tensormap istypep";
    form_fn form = NULL;
    if (word_choice(op->base, REFUSED) >= 0) return NULL; /* whatever its operands look like */
    for (size_t i = 0; i < sizeof LISTS / sizeof *LISTS && !form; i++) form = form_in(LISTS[i], op->base);
    return form ? form : *op->base.at == 'v' ? form_video : form_operation;
}

bool instruction_decode(struct decoder *d, struct word opcode) {
    struct opcode *known = names_get(&d->opcodes, opcode);
    if (known) d->op = *known;
    else if (!opcode_parse(d, opcode)) return false;
    if (base_is(d, "call")) return decode_call(d) || bad(d, PTX_INVALID_PTX, "a call is not understood");
    if (!known) {
        d->op.form = form_of(&d->op);
        if ((known = keep(d, sizeof *known))) *known = d->op;
        if (!known || !names_put(&d->opcodes, opcode, known)) return no_memory(d);
    }
    return d->op.form ? operands_parse(d) && d->op.form(d) : unsupported(d);
}
