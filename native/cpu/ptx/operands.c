/* Opcodes and operands: from text to registers, constants and addresses. */
#include "decode.h"

unsigned type_bytes(enum type t) { return t == T_PRED ? 0 : TYPES[t].bytes; }

/* ---- opcodes ---- */

static const struct {
    const char *word;
    uint8_t what; /* 1 rounding, 2 integral rounding, 3 space, 4 flag, 5 nothing, 6 approx, 7 full, 8 carry */
    uint32_t value;
} MODIFIERS[] = {
    {"rn", 1, ROUND_NEAREST}, {"rz", 1, ROUND_ZERO}, {"rm", 1, ROUND_DOWN}, {"rp", 1, ROUND_UP}, {"rna", 1, ROUND_AWAY},
    {"rni", 2, ROUND_NEAREST}, {"rzi", 2, ROUND_ZERO}, {"rmi", 2, ROUND_DOWN}, {"rpi", 2, ROUND_UP},
    {"global", 3, SPACE_GLOBAL}, {"shared", 3, SPACE_SHARED}, {"shared::cta", 3, SPACE_SHARED}, {"shared::cluster", 3, SPACE_SHARED},
    {"const", 3, SPACE_CONST}, {"local", 3, SPACE_LOCAL}, {"param", 3, SPACE_PARAM}, {"param::entry", 3, SPACE_PARAM},
    {"param::func", 3, SPACE_PARAM}, {"ftz", 4, F_FTZ}, {"sat", 4, F_SAT}, {"satfinite", 4, F_SATFINITE}, {"relu", 4, F_RELU},
    {"NaN", 4, F_NAN}, {"volatile", 4, F_VOLATILE}, {"acquire", 4, F_FENCE | F_POLL}, {"release", 4, F_FENCE}, {"relaxed", 4, F_POLL},
    {"acq_rel", 4, F_FENCE | F_POLL}, {"mmio", 4, F_POLL}, {"uni", 5, 0}, {"aligned", 5, 0}, {"weak", 5, 0}, {"noftz", 5, 0},
    {"nc", 5, 0}, {"cta", 5, 0}, {"gpu", 5, 0}, {"sys", 5, 0}, {"cluster", 5, 0}, {"approx", 6, 0}, {"full", 7, 0}, {"cc", 8, 0},
};

static bool known_modifier(struct opcode *op, struct word w) {
    for (size_t i = 0; i < sizeof MODIFIERS / sizeof *MODIFIERS; i++) {
        if (!word_is(w, MODIFIERS[i].word)) continue;
        uint32_t value = MODIFIERS[i].value;
        switch (MODIFIERS[i].what) {
        case 2: op->integral = true; /* fall through */
        case 1: op->rounding = (uint8_t)value, op->has_rounding = true; break;
        case 3: op->space = (uint8_t)value, op->has_space = true; break;
        case 4: op->flags |= value; break;
        case 6: op->approx = true; break;
        case 7: op->full = true; break;
        case 8: op->carry = true; break;
        }
        return true;
    }
    return false;
}

/* Cache operators, eviction priorities and prefetch sizes change nothing here. */
static bool is_cache_hint(struct word w) {
    bool level = w.size > 4 && w.at[0] == 'L' && (w.at[1] == '1' || w.at[1] == '2') && w.at[2] == ':';
    return level || word_choice(w, "ca cg cs cv lu wb wt L1 L2") >= 0;
}

bool opcode_parse(struct decoder *d, struct word w) {
    struct opcode *op = &d->op;
    *op = (struct opcode){.whole = w, .vector = 1};
    const char *p = w.at, *end = w.at + w.size;
    for (bool first = true; p < end; first = false) {
        const char *begin = p;
        while (p < end && *p != '.') p++;
        struct word part = {begin, (uint32_t)(p - begin)};
        p++;
        enum type type;
        if (first) op->base = part;
        else if ((type = type_named(part)) && type != T_PRED && op->type_count < 4) op->types[op->type_count++] = type;
        else if (part.size == 2 && part.at[0] == 'v' && (part.at[1] == '2' || part.at[1] == '4' || part.at[1] == '8')) op->vector = (uint8_t)(part.at[1] - '0');
        else if (!known_modifier(op, part) && !is_cache_hint(part)) {
            if (op->part_count == PARTS) return unsupported(d);
            op->parts[op->part_count++] = part;
        }
    }
    return true;
}

bool opcode_has(const struct opcode *op, const char *part) {
    for (uint32_t i = 0; i < op->part_count; i++)
        if (word_is(op->parts[i], part)) return true;
    return false;
}

int opcode_choice(const struct opcode *op, const char *words) {
    int found = -1;
    for (uint32_t i = 0; i < op->part_count && found < 0; i++) found = word_choice(op->parts[i], words);
    return found;
}

/* ---- operands ---- */

static bool no_operand(struct decoder *d) { return bad_instruction(d, "has an operand that is not understood"); }

/* A register that `%r<100>` declared gets its place when it is first named. */
static bool range_member(struct decoder *d, struct word name, struct operand *o) {
    uint32_t digits = 0, number = 0;
    while (digits < name.size && digits < 9 && name.at[name.size - 1 - digits] >= '0' && name.at[name.size - 1 - digits] <= '9') digits++;
    for (uint32_t i = name.size - digits; i < name.size; i++) number = number * 10 + (uint32_t)(name.at[i] - '0');
    for (; digits; digits--, number = 0) { /* `%r1<5>` declares %r10: the prefix may end in digits itself */
        number = 0;
        for (uint32_t i = name.size - digits; i < name.size; i++) number = number * 10 + (uint32_t)(name.at[i] - '0');
        struct symbol *s = symbol_range(d, (struct word){name.at, name.size - digits}, number);
        if (!s) continue;
        ref *member = &s->members[number * s->count];
        if (!*member)
            for (uint32_t k = 0; k < s->count; k++) member[k] = register_new(d, type_bytes((enum type)s->type));
        o->kind = O_REGISTER;
        o->type = s->type;
        o->at = *member;
        o->symbol = s;
        o->first = number * s->count;
        return true;
    }
    return false;
}

/* x, y, z, w or r, g, b, a; 8: neither */
static uint32_t component_index(char c) {
    static const char NAMES[] = "xyzwrgba";
    const char *found = strchr(NAMES, c);
    return found ? (uint32_t)(found - NAMES) & 3 : 8;
}

static bool component(struct decoder *d, struct operand *o) {
    if (d->t.at >= d->t.end || *d->t.at != '.') return true;
    struct text before = d->t;
    struct word w = text_dotted(&d->t);
    if (o->kind == O_REGISTER && w.size == 2 && o->symbol->count > 1) {
        uint32_t index = component_index(w.at[1]);
        if (index >= o->symbol->count) return no_operand(d);
        o->at = o->symbol->members[o->first + index];
        o->count = 1;
        return true;
    }
    if (o->kind == O_REGISTER && w.size == 3 && (w.at[1] == 'b' || w.at[1] == 'h') && w.at[2] >= '0' && w.at[2] <= '3') {
        o->selector = (uint8_t)((w.at[1] == 'b' ? 1 : 8) + w.at[2] - '0');
        return true;
    }
    d->t = before;
    return no_operand(d);
}

/* A register of several values (.v2, .v4) without a component stands for all of them. */
static bool register_operand(struct decoder *d, struct operand *o) {
    if (!component(d, o)) return false;
    struct symbol *s = o->symbol;
    if (s->count < 2 || o->count) return true;
    if (d->element_count + s->count > OPERANDS * VECTOR_MOST) return no_operand(d);
    const ref *members = s->members + o->first;
    o->kind = O_VECTOR;
    o->count = s->count;
    o->first = d->element_count;
    for (uint32_t i = 0; i < s->count; i++)
        d->elements[d->element_count++] = (struct operand){.kind = O_REGISTER, .type = s->type, .at = members[i], .symbol = s, .name = o->name, .count = 1};
    return true;
}

static bool special_operand(struct decoder *d, struct operand *o) {
    bool vector;
    enum special first = special_named(o->name, &vector);
    if (!first) return bad_name(d, *o->name.at == '%' ? PTX_UNSUPPORTED : PTX_INVALID_PTX, "the register", o->name, "is not known");
    o->kind = O_SPECIAL;
    o->special = (uint8_t)first;
    if (!vector) return true;
    if (d->t.at < d->t.end && *d->t.at == '.') {
        struct word w = text_dotted(&d->t);
        uint32_t index = w.size == 2 ? component_index(w.at[1]) : 8;
        o->special = (uint8_t)special_component(first, index);
        return index < 4 || no_operand(d);
    }
    if (d->element_count + 4 > OPERANDS * VECTOR_MOST) return no_operand(d);
    o->kind = O_VECTOR;
    o->count = 4;
    o->first = d->element_count;
    for (uint32_t i = 0; i < 4; i++)
        d->elements[d->element_count++] = (struct operand){.kind = O_SPECIAL, .special = (uint8_t)special_component(first, i), .name = o->name};
    return true;
}

static bool named_operand(struct decoder *d, struct operand *o) {
    struct word w = text_name(&d->t);
    o->name = w;
    if (word_is(w, "_")) return o->kind = O_SINK, true;
    struct symbol *s = symbol_find(d, w);
    if (s && s->kind == SYMBOL_REGISTER) {
        o->kind = O_REGISTER, o->type = s->type, o->at = s->members[0], o->symbol = s, o->first = 0;
        return register_operand(d, o);
    }
    if (!s && range_member(d, w, o)) return register_operand(d, o);
    if (!s && (*w.at == '%' || word_is(w, "WARP_SZ"))) return special_operand(d, o);
    if (s && s->kind == SYMBOL_VARIABLE) o->kind = O_VARIABLE, o->symbol = s, o->variable = s->variable;
    else if (s) o->kind = O_LABEL, o->symbol = s;
    else if ((o->variable = unit_variable(d->u, w))) o->kind = O_VARIABLE;
    else if ((o->function = unit_function(d->u, w))) o->kind = O_FUNCTION;
    else o->kind = O_LABEL;
    return true;
}

/* `+ 4`, `- 4`, `+ -4`, `[4]`: what follows the base of an address. */
static bool displacement(struct decoder *d, int64_t *plus) {
    struct number n;
    while (text_is(&d->t, '+') || text_is(&d->t, '-')) {
        bool minus = !text_take(&d->t, '+') && text_take(&d->t, '-');
        if (!expression_parse(&d->t, &n) || n.kind != NUMBER_INTEGER) return no_operand(d);
        *plus = (int64_t)((uint64_t)*plus + (minus ? 0 - n.bits : n.bits));
    }
    return true;
}

static bool address_operand(struct decoder *d, struct operand *o) {
    text_skip(&d->t);
    if (d->t.at < d->t.end && ((*d->t.at >= '0' && *d->t.at <= '9') || *d->t.at == '-')) {
        if (!expression_parse(&d->t, &o->number)) return no_operand(d);
        o->base_kind = O_NUMBER;
        o->plus = (int64_t)o->number.bits;
    } else {
        if (!text_name(&(struct text){d->t.at, d->t.end, 0}).size || !named_operand(d, o)) return no_operand(d);
        o->base_kind = o->kind;
    }
    o->kind = O_ADDRESS;
    if (!displacement(d, &o->plus)) return false;
    if (text_take(&d->t, ',')) return unsupported(d);
    return text_take(&d->t, ']') || no_operand(d);
}

static bool vector_operand(struct decoder *d, struct operand *o) {
    o->kind = O_VECTOR;
    o->first = d->element_count;
    o->count = 0;
    do {
        if (o->count == VECTOR_MOST || d->element_count == OPERANDS * VECTOR_MOST) return no_operand(d);
        struct operand *e = &d->elements[d->element_count];
        *e = (struct operand){0};
        text_skip(&d->t);
        if (text_is(&d->t, '{') || text_is(&d->t, '[') || !operand_parse(d, e)) return no_operand(d);
        d->element_count++;
        o->count++;
    } while (text_take(&d->t, ','));
    return text_take(&d->t, '}') || no_operand(d);
}

bool operand_parse(struct decoder *d, struct operand *o) {
    *o = (struct operand){0};
    text_skip(&d->t);
    char c = d->t.at < d->t.end ? *d->t.at : 0;
    if (c == '{') return d->t.at++, vector_operand(d, o);
    if (c == '[') return d->t.at++, address_operand(d, o);
    if (c == '!' || c == '-') {
        struct text before = d->t;
        d->t.at++;
        text_skip(&d->t);
        if (text_name(&(struct text){d->t.at, d->t.end, 0}).size) {
            o->negated = true;
            return named_operand(d, o) || no_operand(d);
        }
        d->t = before;
    }
    if ((c >= '0' && c <= '9') || c == '-' || c == '+' || c == '~' || c == '(' || c == '!') {
        o->kind = O_NUMBER;
        return expression_parse(&d->t, &o->number) || no_operand(d);
    }
    if (!text_name(&(struct text){d->t.at, d->t.end, 0}).size || !named_operand(d, o)) return no_operand(d);
    if (o->kind == O_VARIABLE || o->kind == O_LABEL) {
        struct number n;
        if (text_take(&d->t, '[')) { /* the old way to write an address: name[4] */
            if (!expression_parse(&d->t, &n) || n.kind != NUMBER_INTEGER || !text_take(&d->t, ']')) return no_operand(d);
            o->plus = (int64_t)n.bits;
            o->base_kind = o->kind;
            o->kind = O_ADDRESS;
            return true;
        }
        return displacement(d, &o->plus);
    }
    return true;
}

bool operands_parse(struct decoder *d) {
    d->operand_count = d->element_count = 0;
    if (text_take(&d->t, ';')) return true;
    do {
        uint32_t k = d->operand_count;
        if (k == OPERANDS) return no_operand(d);
        d->second[k].kind = O_NONE;
        if (!operand_parse(d, &d->operands[k])) return false;
        if (text_take(&d->t, '|') && !operand_parse(d, &d->second[k])) return false;
        d->operand_count++;
    } while (text_take(&d->t, ','));
    return text_take(&d->t, ';') || bad_name(d, PTX_INVALID_PTX, "a ; is missing after", d->op.whole, "");
}

/* ---- what operands mean ---- */

bool list_put(struct decoder *d, uint32_t value) {
    struct program *p = d->p;
    if (!grow(&p->refs, &p->ref_room, p->ref_count + 1, sizeof *p->refs)) return no_memory(d);
    p->refs[p->ref_count++] = value;
    return true;
}

/* A special register's value. */
bool emit_special(struct decoder *d, ref to, unsigned bytes, uint8_t special) {
    struct ins *n = emit_run(d, run_special);
    n->d = to, n->bytes = (uint8_t)bytes, n->mode = special;
    if (bytes == 4 && special < S_READY) n->kind = K_SPECIAL;
    return true;
}

static ref into_register(struct decoder *d, run_fn run, unsigned bytes, uint8_t mode, int64_t imm) {
    ref guard = d->guard, to = register_new(d, bytes);
    d->guard = 0;
    struct ins *n = emit_run(d, run);
    n->d = to, n->bytes = (uint8_t)bytes, n->mode = mode, n->imm = imm;
    d->guard = guard;
    return to;
}

static bool special_value(struct decoder *d, uint8_t special, unsigned bytes, ref *out) {
    ref guard = d->guard;
    *out = register_new(d, bytes);
    d->guard = 0;
    emit_special(d, *out, bytes, special);
    d->guard = guard;
    return true;
}

static bool variable_value(struct decoder *d, const struct operand *o, unsigned bytes, ref *out) {
    struct variable *v = o->variable;
    if (o->symbol && o->symbol->space != SPACE_SHARED) {
        bool parameter = o->symbol->space == SPACE_PARAM;
        *out = into_register(d, parameter ? run_parameter_address : run_local_address, bytes, 0, o->plus + o->symbol->at);
        return true;
    }
    if (v->space != SPACE_SHARED) {
        if (!v->memory) return bad_name(d, PTX_NOT_FOUND, "the variable", v->name, "is not defined");
        *out = constant(d, (uint64_t)(uintptr_t)v->memory + (uint64_t)o->plus, bytes);
        return true;
    }
    if (v->unsized) { /* `.extern .shared x[256]` with a size has its own place: LLVM writes it so */
        *out = into_register(d, run_parameter_address, bytes, 1, o->plus);
        return needs_dynamic(d, d->p->size - 1);
    }
    if (!shared_place(d, v)) return false;
    *out = constant(d, v->offset + (uint64_t)o->plus, bytes);
    return true;
}

static bool value_of_size(struct decoder *d, const struct operand *o, enum type type, unsigned bytes, ref *out) {
    switch (o->kind) {
    case O_NUMBER: *out = constant(d, number_as(&o->number, type), bytes); return true;
    case O_REGISTER: *out = o->at; return true;
    case O_SINK: *out = 0; return true;
    case O_SPECIAL: return special_value(d, o->special, bytes, out);
    case O_VARIABLE: return variable_value(d, o, bytes, out);
    case O_FUNCTION:
        if (!function_taken(d, o->function)) return false;
        *out = constant(d, (uint64_t)(uintptr_t)o->function, bytes);
        return true;
    default: return bad_name(d, PTX_INVALID_PTX, "the name", o->name, "is not defined");
    }
}

static bool size_mismatch(struct decoder *d, const struct operand *o) {
    return bad_name(d, PTX_INVALID_PTX, "the register", o->name, "has the wrong size for its instruction");
}

bool source(struct decoder *d, const struct operand *o, enum type type, ref *out) {
    if (type == T_PRED) return predicate_source(d, o, out);
    if (o->kind == O_REGISTER && (type_bytes((enum type)o->type) != TYPES[type].bytes)) return size_mismatch(d, o);
    return value_of_size(d, o, type, TYPES[type].bytes, out);
}

bool source_any(struct decoder *d, const struct operand *o, enum type type, ref *out, unsigned *bytes) {
    *bytes = TYPES[type].bytes;
    if (o->kind == O_REGISTER) {
        *bytes = type_bytes((enum type)o->type);
        if (*bytes < TYPES[type].bytes) return size_mismatch(d, o);
    }
    return value_of_size(d, o, type, *bytes, out);
}

bool destination_any(struct decoder *d, const struct operand *o, enum type type, ref *out, unsigned *bytes) {
    *bytes = TYPES[type].bytes;
    *out = 0;
    if (o->kind == O_SINK) return true;
    if (o->kind != O_REGISTER || o->negated) return bad_instruction(d, "has a destination that is no register");
    *bytes = type_bytes((enum type)o->type);
    *out = o->at;
    return *bytes >= TYPES[type].bytes || size_mismatch(d, o);
}

bool destination(struct decoder *d, const struct operand *o, enum type type, ref *out) {
    unsigned bytes;
    if (type == T_PRED) return predicate_destination(d, o, out);
    return destination_any(d, o, type, out, &bytes) && (bytes == TYPES[type].bytes || size_mismatch(d, o));
}

bool predicate_source(struct decoder *d, const struct operand *o, ref *out) {
    if (o->kind == O_NUMBER) { /* a constant predicate: 32 bits alike, whose first word is the mask */
        *out = constant(d, o->number.bits != 0 ? 0xffffffffu : 0, 4);
        return true;
    }
    if (o->kind != O_REGISTER || o->type != T_PRED) return bad_instruction(d, "needs a predicate");
    *out = o->at | (o->negated ? REF_NOT : 0);
    return true;
}

bool predicate_destination(struct decoder *d, const struct operand *o, ref *out) {
    *out = 0;
    if (o->kind == O_SINK) return true;
    if (o->kind != O_REGISTER || o->type != T_PRED || o->negated) return bad_instruction(d, "needs a predicate to write to");
    *out = o->at;
    return true;
}

bool address(struct decoder *d, const struct operand *o, struct ins *n) {
    bool shared = n->space == SPACE_SHARED;
    if (o->kind == O_REGISTER || o->kind == O_VARIABLE) { /* some instructions take addresses without brackets */
    } else if (o->kind != O_ADDRESS) {
        return bad_instruction(d, "needs an address");
    }
    uint8_t kind = o->kind == O_ADDRESS ? o->base_kind : o->kind;
    n->imm = o->plus;
    n->mode = ABSOLUTE;
    if (kind == O_NUMBER) return true;
    if (kind == O_REGISTER) {
        unsigned bytes = type_bytes((enum type)o->type);
        if (bytes != 4 && bytes != 8) return size_mismatch(d, o);
        n->a = o->at;
        n->mode = bytes == 8 ? FROM_REG64 : shared ? SHARED_REG32 : FROM_REG32;
        return true;
    }
    if (kind != O_VARIABLE) return bad_name(d, PTX_INVALID_PTX, "the name", o->name, "is not defined");
    struct variable *v = o->variable;
    if (o->symbol && o->symbol->space != SPACE_SHARED) {
        n->space = o->symbol->space;
        n->mode = n->space == SPACE_PARAM ? ABSOLUTE : FROM_FRAME;
        n->imm += o->symbol->at;
        return true;
    }
    if (v->space == SPACE_SHARED) {
        if (!shared) return bad_name(d, PTX_INVALID_PTX, "the variable", v->name, "is in shared memory");
        if (v->unsized) return needs_dynamic(d, (uint32_t)(n - d->p->ins));
        if (!shared_place(d, v)) return false;
        n->imm += (int64_t)v->offset;
        return true;
    }
    if (!v->memory) return bad_name(d, PTX_NOT_FOUND, "the variable", v->name, "is not defined");
    n->imm += (int64_t)(uintptr_t)v->memory;
    return true;
}
