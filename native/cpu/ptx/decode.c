/* Function bodies: statements, scopes, registers, labels. Instructions themselves are in forms*.c. */
#include "decode.h"
#include "../common/common.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct chunk {
    struct chunk *next;
    size_t used;
    uint8_t bytes[16384];
};

bool bad(struct decoder *d, enum ptx_result result, const char *format, ...) {
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fail(d->error, result, d->line, "%s", text);
    return false;
}

bool bad_name(struct decoder *d, enum ptx_result result, const char *what, struct word name, const char *problem) {
    return bad(d, result, "%s %.*s%s%s", what, (int)(name.size < 200 ? name.size : 200), name.size ? name.at : "", *problem ? " " : "", problem);
}

bool bad_instruction(struct decoder *d, const char *problem) { return bad_name(d, PTX_INVALID_PTX, "the instruction", d->op.whole, problem); }
bool unsupported(struct decoder *d) { return bad_name(d, PTX_UNSUPPORTED, "the instruction", d->op.whole, "is not supported"); }
bool no_memory(struct decoder *d) { return bad(d, PTX_OUT_OF_MEMORY, "there is no memory for the kernel"); }

void *keep(struct decoder *d, size_t bytes) {
    bytes = (bytes + 15) & ~(size_t)15;
    size_t room = bytes > sizeof d->chunks->bytes ? bytes : sizeof d->chunks->bytes;
    if (!d->chunks || d->chunks->used + bytes > sizeof d->chunks->bytes) {
        struct chunk *c = calloc(1, sizeof *c - sizeof c->bytes + room);
        if (!c) return NULL;
        c->next = d->chunks;
        d->chunks = c;
    }
    void *out = d->chunks->bytes + d->chunks->used;
    d->chunks->used += bytes;
    return out;
}

/* ---- scopes, symbols, labels ---- */

static bool scope_open(struct decoder *d) {
    if (!grow(&d->scopes, &d->scope_room, d->scope_count + 1, sizeof *d->scopes)) return no_memory(d);
    d->scopes[d->scope_count] = (struct scope){.parent = d->scope};
    d->scope = d->scope_count++;
    return true;
}

static struct symbol *symbol_in(const struct decoder *d, uint32_t scope, struct word name) {
    struct symbol *s = NULL;
    for (uint32_t k = scope;; k = d->scopes[k].parent) {
        s = names_get(&d->scopes[k].names, name);
        if (s || k == 0) return s;
    }
}

struct symbol *symbol_find(const struct decoder *d, struct word name) { return symbol_in(d, d->scope, name); }

/* The innermost range that has this number. */
struct symbol *symbol_range(const struct decoder *d, struct word prefix, uint32_t number) {
    for (uint32_t k = d->scope;; k = d->scopes[k].parent) {
        struct symbol *s = names_get(&d->scopes[k].ranges, prefix);
        if (s && number < s->range) return s;
        if (k == 0) return NULL;
    }
}

static struct symbol *symbol_new(struct decoder *d, struct word name, enum symbol_kind kind) {
    struct symbol *s = keep(d, sizeof *s);
    struct scope *scope = &d->scopes[d->scope];
    if (!s || !names_put(kind == SYMBOL_RANGE ? &scope->ranges : &scope->names, name, s)) return no_memory(d), NULL;
    s->kind = (uint8_t)kind;
    s->scope = d->scope;
    s->count = 1;
    return s;
}

bool label_use(struct decoder *d, struct word name, uint32_t ins, uint32_t list) {
    if (!grow(&d->uses, &d->use_room, d->use_count + 1, sizeof *d->uses)) return no_memory(d);
    d->uses[d->use_count++] = (struct label_use){ins, d->scope, list, name, d->line};
    return true;
}

static bool labels_resolve(struct decoder *d) {
    for (uint32_t i = 0; i < d->use_count; i++) {
        struct label_use *u = &d->uses[i];
        struct symbol *s = symbol_in(d, u->scope, u->name);
        d->line = u->line;
        if (!s || s->kind != SYMBOL_LABEL) return bad_name(d, PTX_INVALID_PTX, "the label", u->name, "is not defined");
        if (u->list) d->p->refs[u->list - 1] = s->at;
        else d->p->ins[u->ins].target = s->at;
    }
    d->use_count = 0;
    return true;
}

static uint32_t local_place(struct decoder *d, uint64_t bytes, uint32_t align) {
    struct code *c = &d->p->codes[d->code];
    uint64_t at = (c->local_bytes + (uint64_t)align - 1) & ~((uint64_t)align - 1);
    if (at + bytes > 1u << 26) return bad(d, PTX_TOO_LARGE, "the kernel's local variables are too large"), 0;
    c->local_bytes = (uint32_t)(at + bytes);
    return (uint32_t)at;
}

static bool declare_register(struct decoder *d, const struct variable *v) {
    struct symbol *s = symbol_new(d, v->name, v->range ? SYMBOL_RANGE : SYMBOL_REGISTER);
    if (!s) return false;
    s->type = v->type;
    s->count = (uint8_t)v->count;
    s->range = v->range;
    unsigned bytes = v->type == T_PRED ? 0 : TYPES[v->type].bytes;
    if (v->range) return (s->members = keep(d, v->range * v->count * sizeof *s->members)) || no_memory(d);
    s->members = keep(d, v->count * sizeof *s->members);
    for (uint32_t k = 0; s->members && k < v->count; k++) s->members[k] = register_new(d, bytes);
    return s->members != NULL;
}

static bool declare(struct decoder *d, enum space space, const char *kind) {
    struct variable v = {.space = (uint8_t)space, .unit = d->u};
    do {
        if (!declaration_parse(&d->t, &v)) return bad(d, PTX_INVALID_PTX, "the %s declaration is not understood", kind);
        if (space == SPACE_REG) {
            if (!declare_register(d, &v)) return false;
            continue;
        }
        struct symbol *s = symbol_new(d, v.name, SYMBOL_VARIABLE);
        if (!s) return false;
        s->type = v.type;
        s->space = (uint8_t)space;
        if (space == SPACE_LOCAL) {
            s->at = local_place(d, v.bytes, v.align);
            s->bytes = (uint32_t)v.bytes;
        } else {
            struct variable *own = keep(d, sizeof *own);
            if (!own) return no_memory(d);
            *own = v;
            s->variable = own;
            if (!v.unsized && !shared_place(d, own)) return false;
        }
    } while (text_take(&d->t, ','));
    return text_take(&d->t, ';') || bad(d, PTX_INVALID_PTX, "a ; is missing after a %s declaration", kind);
}

/* ---- statements ---- */

static bool directive(struct decoder *d, struct word w) {
    if (word_is(w, ".reg")) return declare(d, SPACE_REG, ".reg");
    if (word_is(w, ".local")) return declare(d, SPACE_LOCAL, ".local");
    if (word_is(w, ".param")) return declare(d, SPACE_LOCAL, ".param");
    if (word_is(w, ".shared")) return declare(d, SPACE_SHARED, ".shared");
    if (word_is(w, ".extern")) return word_is(text_directive(&d->t), ".shared") ? declare(d, SPACE_SHARED, ".shared") : bad(d, PTX_INVALID_PTX, "a declaration is not understood");
    if (word_is(w, ".loc") || word_is(w, ".file")) { /* up to the end of the line */
        while (d->t.at < d->t.end && *d->t.at != '\n' && *d->t.at != ';') d->t.at++;
        text_take(&d->t, ';');
        return true;
    }
    if (word_is(w, ".pragma")) return text_until(&d->t, ';') || bad(d, PTX_INVALID_PTX, "a ; is missing after .pragma");
    if (word_is(w, ".section")) return (text_dotted(&d->t).size && text_take(&d->t, '{') && text_block(&d->t)) || bad(d, PTX_INVALID_PTX, "a .section is not understood");
    if (word_is(w, ".global") || word_is(w, ".const")) return bad_name(d, PTX_UNSUPPORTED, "the directive", w, "is not supported inside of a function");
    return bad_name(d, PTX_INVALID_PTX, "the directive", w, "is not understood");
}

/* `label: .callprototype ...;` and its kin. */
static bool label_directive(struct decoder *d, struct word name) {
    struct word w = text_dotted(&d->t);
    bool targets = word_is(w, ".branchtargets") || word_is(w, ".calltargets");
    if (!targets && !word_is(w, ".callprototype")) return directive(d, w) && false;
    struct symbol *s = symbol_new(d, name, targets ? SYMBOL_TARGETS : SYMBOL_PROTOTYPE);
    if (!s) return false;
    s->list = d->t;
    return text_until(&d->t, ';') || bad_name(d, PTX_INVALID_PTX, "a ; is missing after", w, "");
}

static bool define_label(struct decoder *d, struct word name) {
    struct text before = d->t;
    if (text_is(&d->t, '.')) {
        struct word w = text_dotted(&d->t);
        d->t = before;
        if (word_choice(w, ".branchtargets .calltargets .callprototype") >= 0) return label_directive(d, name);
    }
    struct symbol *s = symbol_new(d, name, SYMBOL_LABEL);
    if (s) s->at = d->p->size;
    return s != NULL;
}

static bool guard_parse(struct decoder *d) {
    bool negated = text_take(&d->t, '!');
    struct operand o;
    if (!operand_parse(d, &o)) return false;
    if (o.kind == O_NUMBER) { /* @0, @1 */
        bool always = (o.number.bits != 0) != negated;
        d->guard = always ? 0 : constant(d, 0, 4);
        return true;
    }
    o.negated ^= negated;
    return predicate_source(d, &o, &d->guard);
}

static bool statement(struct decoder *d, uint32_t *depth) {
    d->line = d->t.line;
    d->guard = 0;
    if (text_take(&d->t, ';')) return true;
    if (text_take(&d->t, '{')) return ++*depth < 200 ? scope_open(d) : bad(d, PTX_INVALID_PTX, "blocks are nested too deeply");
    if (text_take(&d->t, '}')) {
        if (!*depth) return bad(d, PTX_INVALID_PTX, "a block ends that has not begun");
        --*depth;
        d->scope = d->scopes[d->scope].parent;
        return true;
    }
    if (text_is(&d->t, '.')) return directive(d, text_directive(&d->t));
    struct text before = d->t;
    struct word name = text_name(&d->t);
    if (name.size && text_is(&d->t, ':') && !(d->t.end - d->t.at > 1 && d->t.at[1] == ':')) {
        d->t.at++;
        return define_label(d, name);
    }
    d->t = before;
    if (text_take(&d->t, '@') && !guard_parse(d)) return false;
    struct word opcode = text_dotted(&d->t);
    if (!opcode.size) return bad(d, PTX_INVALID_PTX, "a statement is not understood");
    return instruction_decode(d, opcode);
}

/* A register of several values is as many parameters. */
static bool place_formals(struct decoder *d, const struct variable *list, uint32_t count, struct place *out, uint32_t *placed) {
    for (uint32_t i = 0; i < count; i++) {
        struct variable v = list[i];
        struct symbol *s;
        if (v.is_reg) {
            if (v.range || !declare_register(d, &v)) return bad(d, PTX_INVALID_PTX, "a register parameter is not understood");
            s = names_get(&d->scopes[d->scope].names, v.name);
            for (uint32_t k = 0; k < v.count; k++) out[(*placed)++] = (struct place){SPACE_REG, (uint16_t)type_bytes((enum type)v.type), s->members[k]};
            continue;
        }
        if (v.bytes > 65535) return bad(d, PTX_INVALID_PTX, "a parameter is too large");
        s = symbol_new(d, v.name, SYMBOL_VARIABLE);
        if (!s) return false;
        s->type = v.type;
        s->space = SPACE_LOCAL;
        s->at = local_place(d, v.bytes, v.align);
        s->bytes = (uint32_t)v.bytes;
        out[(*placed)++] = (struct place){SPACE_LOCAL, (uint16_t)v.bytes, s->at};
    }
    return true;
}

/* The kernel's own parameters lie in the launch's buffer, a function's in its frame. */
static bool formals_declare(struct decoder *d) {
    struct variable *results = NULL, *arguments = NULL;
    uint32_t result_count = 0, argument_count = 0;
    uint64_t bytes;
    bool right = function_formals(d->f, &d->f->results, &results, &result_count, &bytes) &&
                 function_formals(d->f, &d->f->parameters, &arguments, &argument_count, &bytes);
    if (!right) bad(d, PTX_INVALID_PTX, "the parameters of %s are not understood", d->f->text_name);
    if (right && d->f->entry) {
        for (uint32_t i = 0; right && i < argument_count; i++) {
            struct symbol *s = symbol_new(d, arguments[i].name, SYMBOL_VARIABLE);
            if ((right = s != NULL)) s->type = arguments[i].type, s->space = SPACE_PARAM, s->at = (uint32_t)arguments[i].offset;
        }
    } else if (right) {
        struct place *places = calloc(VECTOR_MOST * (result_count + argument_count) + 1, sizeof *places);
        uint32_t placed = 0, given = 0;
        right = places && place_formals(d, results, result_count, places, &placed) && place_formals(d, arguments, argument_count, places + placed, &given);
        struct code *c = &d->p->codes[d->code];
        c->formals = places;
        c->results = placed;
        c->arguments = given;
    }
    free(results), free(arguments);
    return right;
}

static void scopes_free(struct decoder *d) {
    for (uint32_t i = 0; i < d->scope_count; i++) names_free(&d->scopes[i].names), names_free(&d->scopes[i].ranges);
    d->scope_count = d->scope = 0;
}

static bool decode_function(struct decoder *d, uint32_t code) {
    uint32_t depth = 0;
    d->code = code;
    d->f = d->p->codes[code].function;
    d->u = d->f->unit;
    d->t = d->f->body;
    d->line = d->f->line;
    d->guard = 0;
    d->carry = 0;
    d->use_count = 0;
    d->p->codes[code].entry = d->p->size;
    if (!scope_open(d)) return false;
    if (!d->f->has_body) return bad(d, PTX_NOT_FOUND, "the function %s is not defined", d->f->text_name);
    if (!formals_declare(d)) return false;
    while (text_skip(&d->t), d->t.at < d->t.end)
        if (!statement(d, &depth)) {
            if (d->error->result == PTX_OK) bad(d, PTX_INVALID_PTX, "a statement is not understood");
            return false;
        }
    d->guard = 0;
    emit_run(d, d->f->entry ? run_exit : run_return);
    bool right = !d->error->result && labels_resolve(d);
    scopes_free(d);
    return right && d->error->result == PTX_OK;
}

static bool decode_all(struct decoder *d) {
    for (uint32_t i = 0; i < d->p->code_count; i++) {
        if (!decode_function(d, i)) return false;
        if (i + 1 == d->p->code_count && d->indirect) { /* any function whose address was taken may be meant */
            d->indirect = false;
            const struct ptx_module *m = d->u->module;
            for (size_t k = 0; k < m->taken_count; k++)
                if (m->taken[k]->has_body && !m->taken[k]->entry) code_of(d, m->taken[k]);
        }
    }
    return true;
}

static void place_dynamic(struct decoder *d) {
    struct program *p = d->p;
    if (!p->has_dynamic_shared) return;
    p->dynamic_at = (p->shared_bytes + 127) & ~127u;
    for (uint32_t i = 0; i < d->dynamic_count; i++) p->ins[d->dynamic[i]].imm += p->dynamic_at;
}

enum ptx_result program_decode(struct function *f, struct program **out, struct ptx_error *error) {
    struct ptx_error own = {0};
    struct decoder *d = calloc(1, sizeof *d);
    struct program *p = calloc(1, sizeof *p);
    if (d && p) {
        d->p = p;
        d->error = &own;
        code_of(d, f);
        if (decode_all(d)) place_dynamic(d), program_measure(p);
    } else {
        fail(&own, PTX_OUT_OF_MEMORY, 0, "there is no memory for the kernel");
    }
    if (d) {
        scopes_free(d);
        names_free(&d->constants);
        names_free(&d->opcodes);
        for (struct chunk *c = d->chunks, *next; c; c = next) next = c->next, free(c);
        free(d->scopes), free(d->uses), free(d->dynamic), free(d);
    }
    if (own.result) {
        snprintf(own.kernel, sizeof own.kernel, "%s", f->text_name);
        program_free(p);
        if (error) *error = own;
        return own.result;
    }
    *out = p;
    return PTX_OK;
}
