/* Names, types, constant expressions, declarations: what modules and function bodies have in common. */
#include "module.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct type_info TYPES[T_COUNT] = {
    [T_NONE] = {"", 0, 0}, [T_PRED] = {"pred", 4, 'p'}, [T_B8] = {"b8", 1, 'b'}, [T_U8] = {"u8", 1, 'u'},
    [T_S8] = {"s8", 1, 's'}, [T_B16] = {"b16", 2, 'b'}, [T_U16] = {"u16", 2, 'u'}, [T_S16] = {"s16", 2, 's'},
    [T_F16] = {"f16", 2, 'h', 10, 5}, [T_BF16] = {"bf16", 2, 'h', 7, 8}, [T_B32] = {"b32", 4, 'b'},
    [T_U32] = {"u32", 4, 'u'}, [T_S32] = {"s32", 4, 's'}, [T_F32] = {"f32", 4, 'f', 23, 8},
    [T_F16X2] = {"f16x2", 4, 'h', .element = T_F16}, [T_BF16X2] = {"bf16x2", 4, 'h', .element = T_BF16},
    [T_U16X2] = {"u16x2", 4, 'u'}, [T_S16X2] = {"s16x2", 4, 's'}, [T_TF32] = {"tf32", 4, 'h', 10, 8},
    [T_B64] = {"b64", 8, 'b'}, [T_U64] = {"u64", 8, 'u'}, [T_S64] = {"s64", 8, 's'}, [T_F64] = {"f64", 8, 'f', 52, 11},
    [T_F32X2] = {"f32x2", 8, 'h'}, [T_B128] = {"b128", 16, 'b'}, [T_E4M3] = {"e4m3", 1, 'h', 3, 4},
    [T_E5M2] = {"e5m2", 1, 'h', 2, 5}, [T_E4M3X2] = {"e4m3x2", 2, 'h', .element = T_E4M3},
    [T_E5M2X2] = {"e5m2x2", 2, 'h', .element = T_E5M2}, [T_E4M3X4] = {"e4m3x4", 4, 'h'}, [T_E5M2X4] = {"e5m2x4", 4, 'h'},
};

enum type type_named(struct word w) {
    for (int i = 1; i < T_COUNT; i++)
        if (word_is(w, TYPES[i].name)) return (enum type)i;
    return T_NONE;
}

bool type_is_float(enum type t) { return TYPES[t].kind == 'f' || TYPES[t].kind == 'h'; }
bool type_is_brain(enum type type) { return type == T_BF16 || type == T_BF16X2; }

enum ptx_result fail(struct ptx_error *error, enum ptx_result result, unsigned line, const char *format, ...) {
    if (!error || error->result != PTX_OK) return result; /* the first failure is the cause */
    error->result = result;
    error->line = line;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    return result;
}

bool grow(void *array, uint32_t *room, uint32_t needed, size_t size) {
    if (needed <= *room) return true;
    uint32_t more = *room ? 2 * *room : 64;
    while (more < needed) more *= 2;
    void *old;
    memcpy(&old, array, sizeof old);
    void *grown = realloc(old, more * size);
    if (!grown) return false;
    memcpy(array, &grown, sizeof grown);
    *room = more;
    return true;
}

static struct name_slot *slot_of(struct name_slot *slots, size_t room, struct word name) {
    size_t i = word_hash(name) & (room - 1);
    while (slots[i].value && !(slots[i].name.size == name.size && memcmp(slots[i].name.at, name.at, name.size) == 0))
        i = (i + 1) & (room - 1);
    return &slots[i];
}

bool names_put(struct names *n, struct word name, void *value) {
    if (2 * (n->used + 1) > n->room) {
        size_t room = n->room ? 2 * n->room : 64;
        struct name_slot *slots = calloc(room, sizeof *slots);
        if (!slots) return false;
        for (size_t i = 0; i < n->room; i++)
            if (n->slots[i].value) *slot_of(slots, room, n->slots[i].name) = n->slots[i];
        free(n->slots);
        n->slots = slots;
        n->room = room;
    }
    struct name_slot *slot = slot_of(n->slots, n->room, name);
    if (slot->value) return true;
    *slot = (struct name_slot){name, value};
    n->used++;
    return true;
}

void *names_get(const struct names *n, struct word name) {
    return n->used ? slot_of(n->slots, n->room, name)->value : NULL;
}

void names_free(struct names *n) {
    free(n->slots);
    *n = (struct names){0};
}

/* ---- constant expressions ---- */

static double number_value(const struct number *n) {
    double d;
    float f;
    if (n->kind == NUMBER_F64) return memcpy(&d, &n->bits, sizeof d), d;
    if (n->kind == NUMBER_F32) return memcpy(&f, &n->bits, sizeof f), f;
    return n->is_unsigned ? (double)n->bits : (double)(int64_t)n->bits;
}

uint64_t number_as(const struct number *n, enum type type) {
    uint64_t bits = 0;
    if (type == T_F32 && n->kind != NUMBER_F32) {
        float f = (float)number_value(n);
        memcpy(&bits, &f, sizeof f);
        return n->kind == NUMBER_INTEGER ? n->bits & 0xffffffffu : bits;
    }
    if (type == T_F64 && n->kind == NUMBER_F32) {
        double d = number_value(n);
        return memcpy(&bits, &d, sizeof d), bits;
    }
    return n->bits;
}

static bool expression(struct text *t, int level, int depth, struct number *out);

static bool primary(struct text *t, int depth, struct number *out) {
    if (depth > 100) return false;
    text_skip(t);
    if (text_take(t, '(')) {
        struct text before = *t;
        struct word cast = text_dotted(t);
        if (cast.size && *cast.at == '.' && text_take(t, ')')) {
            if (!primary(t, depth + 1, out)) return false;
            out->is_unsigned = word_is(cast, ".u64");
            return true;
        }
        *t = before;
        return expression(t, 0, depth + 1, out) && text_take(t, ')');
    }
    char c = t->at < t->end ? *t->at : 0;
    if (c != '-' && c != '+' && c != '~' && c != '!') return text_number(t, out);
    t->at++;
    if (!primary(t, depth + 1, out)) return false;
    if (out->kind == NUMBER_INTEGER) out->bits = c == '-' ? 0 - out->bits : c == '~' ? ~out->bits : c == '!' ? !out->bits : out->bits;
    else if (c == '-') out->bits ^= out->kind == NUMBER_F32 ? 0x80000000u : 0x8000000000000000u;
    return c == '-' || c == '+' || out->kind == NUMBER_INTEGER;
}

static const struct {
    const char *sign;
    int level;
} BINARY[] = {{"||", 1}, {"&&", 2}, {"<<", 7}, {">>", 7}, {"==", 5}, {"!=", 5}, {"<=", 6}, {">=", 6}, {"<", 6},
              {">", 6},  {"|", 3},  {"^", 3},  {"&", 4},  {"+", 8},  {"-", 8},  {"*", 9},  {"/", 9},  {"%", 9}};

static uint64_t combine(const char *sign, uint64_t a, uint64_t b, bool is_unsigned) {
    int64_t x = (int64_t)a, y = (int64_t)b;
    bool less = is_unsigned ? a < b : x < y, overflow = !is_unsigned && y == -1;
    switch (sign[0]) {
    case '|': return sign[1] ? a || b : a | b;
    case '&': return sign[1] ? a && b : a & b;
    case '^': return a ^ b;
    case '=': return a == b;
    case '!': return a != b;
    case '<': return sign[1] == '<' ? (b < 64 ? a << b : 0) : sign[1] ? less || a == b : less;
    case '>': return sign[1] == '>' ? (is_unsigned ? (b < 64 ? a >> b : 0) : (uint64_t)(x >> (b < 63 ? b : 63)))
                                    : sign[1] ? !less : !less && a != b;
    case '+': return a + b;
    case '-': return a - b;
    case '*': return a * b;
    case '/': return b == 0 ? 0 : overflow ? 0 - a : is_unsigned ? a / b : (uint64_t)(x / y);
    default: return b == 0 ? a : overflow ? 0 : is_unsigned ? a % b : (uint64_t)(x % y);
    }
}

static bool expression(struct text *t, int level, int depth, struct number *out) {
    if (!primary(t, depth, out)) return false;
    for (;;) {
        text_skip(t);
        size_t i = 0, count = sizeof BINARY / sizeof *BINARY, left = (size_t)(t->end - t->at);
        while (i < count && !(strlen(BINARY[i].sign) <= left && memcmp(t->at, BINARY[i].sign, strlen(BINARY[i].sign)) == 0)) i++;
        if (i == count || BINARY[i].level <= level || out->kind != NUMBER_INTEGER) return true;
        t->at += strlen(BINARY[i].sign);
        struct number right;
        if (!expression(t, BINARY[i].level, depth + 1, &right) || right.kind != NUMBER_INTEGER) return false;
        out->is_unsigned |= right.is_unsigned;
        out->bits = combine(BINARY[i].sign, out->bits, right.bits, out->is_unsigned);
    }
}

bool expression_parse(struct text *t, struct number *out) {
    if (!expression(t, 0, 0, out)) return false;
    struct text before = *t;
    if (!text_take(t, '?')) return true;
    struct number yes, no;
    if (out->kind != NUMBER_INTEGER || !expression(t, 0, 0, &yes) || !text_take(t, ':') || !expression(t, 0, 0, &no)) {
        *t = before;
        return false;
    }
    *out = out->bits ? yes : no;
    return true;
}

/* ---- declarations ---- */

static bool dimensions(struct text *t, struct variable *v) {
    uint64_t before;
    v->row_count = 0;
    while (text_take(t, '[')) {
        struct number n;
        if (text_take(t, ']')) {
            v->unsized = true;
            continue;
        }
        if (!expression_parse(t, &n) || n.kind != NUMBER_INTEGER || !text_take(t, ']')) return false;
        if (n.bits > 1ull << 40 || v->bytes * n.bits > 1ull << 40) return false;
        before = v->bytes;
        v->bytes *= n.bits;
        for (uint32_t k = 0; k < v->row_count; k++) v->rows[k] *= n.bits;
        if (v->row_count < 4) v->rows[v->row_count++] = before;
    }
    return true;
}

static bool qualifier(struct text *t, struct variable *v, bool *more) {
    struct word w = text_directive(t);
    struct number n;
    *more = w.size > 1 && *w.at == '.';
    if (!*more) {
        t->at = w.at;
        return true;
    }
    if (word_is(w, ".align")) {
        if (!text_number(t, &n) || n.kind != NUMBER_INTEGER || !n.bits || (n.bits & (n.bits - 1)) || n.bits > 65536) return false;
        v->align = (uint32_t)n.bits;
        return true;
    }
    if (word_is(w, ".attribute")) return text_take(t, '(') && text_until(t, ')') && (text_take(t, ')'), true);
    if (word_choice(w, ".v2 .v4 .v8") >= 0) {
        v->count = (uint32_t)(w.at[2] - '0');
        return true;
    }
    if (word_choice(w, ".ptr .global .const .shared .local") >= 0) return true;
    if (word_choice(w, ".texref .samplerref .surfref") >= 0) {
        v->type = T_B64; /* a handle; the kernels that use it are refused, the others of the text run */
        v->opaque = true;
        return true;
    }
    w.at++;
    w.size--;
    v->type = (uint8_t)type_named(w);
    return v->type != T_NONE;
}

/* The names after the first share its type: `out` is left as it is where the list goes on. */
bool declaration_parse(struct text *t, struct variable *out) {
    if (out->type == T_NONE) {
        out->count = 1;
        uint32_t align = 0;
        for (bool more = true; more;) {
            uint8_t type = out->type;
            if (!qualifier(t, out, &more)) return false;
            if (type == T_NONE && out->type != T_NONE) align = out->align, out->align = 0;
        }
        if (out->type == T_NONE) return false;
        if (align) out->align = align; /* a pointer's alignment, after the type, is not the variable's */
        if (!align) out->align = TYPES[out->type].bytes * out->count;
    }
    out->bytes = (uint64_t)TYPES[out->type].bytes * out->count;
    out->unsized = false;
    out->range = 0;
    out->init.at = NULL;
    out->name = text_name(t);
    if (!out->name.size) return false;
    struct number n;
    if (text_take(t, '<')) {
        if (!text_number(t, &n) || n.kind != NUMBER_INTEGER || n.bits > 1u << 24 || !text_take(t, '>')) return false;
        out->range = (uint32_t)n.bits;
        if (!out->range) return false;
    }
    return dimensions(t, out);
}

bool function_formals(struct function *f, const struct text *list, struct variable **out, uint32_t *count, uint64_t *bytes) {
    struct text t = *list;
    uint32_t room = 0;
    *count = 0;
    *bytes = 0;
    *out = NULL;
    if (!t.at || text_take(&t, ')')) return true;
    do {
        if (!grow(out, &room, *count + 1, sizeof **out)) return false;
        struct word kind = text_directive(&t);
        struct variable *v = &(*out)[*count];
        *v = (struct variable){.is_reg = word_is(kind, ".reg"), .space = SPACE_PARAM, .unit = f->unit};
        if (!v->is_reg && !word_is(kind, ".param")) return false;
        if (!declaration_parse(&t, v)) return false;
        *bytes = (*bytes + v->align - 1) & ~(uint64_t)(v->align - 1);
        v->offset = *bytes;
        *bytes += v->bytes;
        if (++*count > 4096 || *bytes > 1 << 20) return false;
    } while (text_take(&t, ','));
    return text_take(&t, ')');
}
