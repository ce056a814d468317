/* Control flow, barriers, calls, and the few instructions that do nothing here: how each is decoded. */
#include "decode.h"

#include <stdlib.h>

static bool form_bra(struct decoder *d) {
    if (!operands_between(d, 1, 1) || !d->operands[0].name.size) return unsupported(d);
    struct ins *n = emit(d, K_BRANCH);
    return label_use(d, d->operands[0].name, (uint32_t)(n - d->p->ins), 0);
}

/* brx.idx index, targets */
static bool form_brx(struct decoder *d) {
    ref index;
    if (!operands_between(d, 2, 2) || !source(d, &d->operands[0], T_U32, &index)) return false;
    struct symbol *s = d->operands[1].kind == O_LABEL ? d->operands[1].symbol : NULL;
    if (!s || s->kind != SYMBOL_TARGETS) return bad(d, PTX_INVALID_PTX, "the branch targets of brx are not defined before it");
    struct text t = s->list;
    uint32_t list = d->p->ref_count, count = 0;
    do {
        struct word name = text_name(&t);
        if (!name.size || !list_put(d, 0) || !label_use(d, name, 0, d->p->ref_count)) return bad(d, PTX_INVALID_PTX, "a list of branch targets is not understood");
        count++;
    } while (text_take(&t, ','));
    struct ins *n = emit_run(d, run_branch_index);
    n->a = index, n->list = list, n->target = count;
    return true;
}

static bool form_exit(struct decoder *d) { return emit_run(d, run_exit) != NULL; }
static bool form_ret(struct decoder *d) { return emit_run(d, d->f->entry ? run_exit : run_return) != NULL; }
static bool form_trap(struct decoder *d) { return emit_run(d, run_trap) != NULL; }
static bool form_fence(struct decoder *d) { return emit_run(d, run_fence) != NULL; }
static bool form_nothing(struct decoder *d) { return emit_run(d, run_nothing) != NULL; }

static bool form_nanosleep(struct decoder *d) { return emit_form(d, run_yield, "aw") != NULL; }

/* bar and barrier: sync, arrive, red. n->mode: 0 sync, 1 arrive, 2 popc, 3 and, 4 or. */
static bool form_barrier(struct decoder *d) {
    if (opcode_has(&d->op, "warp")) return form_warp_sync(d);
    bool red = opcode_has(&d->op, "red"), arrive = opcode_has(&d->op, "arrive");
    if (d->op.whole.size > 15 && memcmp(d->op.whole.at, "barrier.cluster", 15) == 0) /* a cluster has one block */
        return opcode_has(&d->op, "wait") ? form_cluster_wait(d) : form_nothing(d);
    if (!red && !arrive && !opcode_has(&d->op, "sync")) return unsupported(d);
    uint32_t first = red ? 1 : 0, last = d->operand_count - (red ? 1 : 0);
    if (!operands_between(d, red ? 3 : arrive ? 2 : 1, red ? 4 : 2)) return false;
    ref to = 0, id, threads = 0, vote = 0;
    uint8_t mode = !red ? arrive : opcode_has(&d->op, "popc") ? 2 : opcode_has(&d->op, "and") ? 3 : 4;
    if (red && !(mode == 2 ? destination(d, &d->operands[0], T_U32, &to) : predicate_destination(d, &d->operands[0], &to))) return false;
    if (!source(d, &d->operands[first], T_U32, &id)) return false;
    bool counted = last - first > 1;
    if (counted && !source(d, &d->operands[first + 1], T_U32, &threads)) return false;
    if (red && !predicate_source(d, &d->operands[last], &vote)) return false;
    struct ins *n = emit_run(d, run_barrier);
    n->d = to, n->a = id, n->b = threads, n->c = vote, n->mode = mode, n->count = counted;
    return true;
}

/* ---- calls ---- */

static bool actual_place(struct decoder *d, const struct operand *o, unsigned bytes, bool result, struct place *out) {
    if (o->kind == O_VARIABLE && o->symbol && o->symbol->space == SPACE_LOCAL) {
        uint32_t size = o->symbol->bytes;
        *out = (struct place){SPACE_LOCAL, (uint16_t)(size < 65535 ? size : 65535), o->symbol->at};
        return true;
    }
    if (o->kind == O_REGISTER) {
        *out = (struct place){SPACE_REG, (uint16_t)type_bytes((enum type)o->type), o->at};
        return !result || !o->negated;
    }
    if (o->kind == O_SINK && result) return *out = (struct place){SPACE_REG, 4, 0}, true;
    ref r;
    if (result || !source(d, o, bytes == 8 ? T_B64 : bytes == 2 ? T_B16 : T_B32, &r)) return bad(d, PTX_INVALID_PTX, "an argument of a call is not understood");
    *out = (struct place){SPACE_REG, (uint16_t)(bytes == 8 ? 8 : bytes == 2 ? 2 : 4), r};
    return true;
}

/* A constant has the size of the parameter it is given to. */
static unsigned formal_bytes(const struct function *f, const struct variable *formals, uint32_t count, uint32_t k) {
    return f && k < count ? (unsigned)formals[k].bytes : 8;
}

/* The places of a list, up to its `)`, are put behind those that `c` has. */
static bool call_list(struct decoder *d, struct call *c, uint32_t *room, const struct function *f, bool results) {
    struct variable *formals = NULL;
    uint32_t formal_count = 0, *count = results ? &c->results : &c->arguments;
    uint64_t bytes;
    bool right = !f || function_formals((struct function *)f, results ? &f->results : &f->parameters, &formals, &formal_count, &bytes);
    bool more = right && !text_take(&d->t, ')');
    while (right && more) {
        struct operand o;
        d->element_count = 0;
        right = operand_parse(d, &o);
        uint32_t many = o.kind == O_VECTOR ? o.count : 1;
        for (uint32_t k = 0; right && k < many; k++) {
            const struct operand *one = o.kind == O_VECTOR ? &d->elements[o.first + k] : &o;
            uint32_t all = c->results + c->arguments;
            right = grow(&c->actuals, room, all + 1, sizeof *c->actuals) && actual_place(d, one, formal_bytes(f, formals, formal_count, *count), results, &c->actuals[all]);
            *count += right;
        }
        more = right && text_take(&d->t, ',');
        if (right && !more) right = text_take(&d->t, ')');
    }
    free(formals);
    return right;
}

static bool call_target(struct decoder *d, struct call *c, struct word name, const struct function *f) {
    if (f) {
        c->builtin = f->has_body ? BUILTIN_NONE : (uint8_t)(1 + word_choice(name, "vprintf __assertfail malloc free"));
        if (!f->has_body && !c->builtin) return bad_name(d, PTX_UNSUPPORTED, "the function", name, "is not defined");
        if (f->has_body && f->entry) return bad(d, PTX_INVALID_PTX, "a kernel is called like a function");
        if (!c->builtin) c->code = code_of(d, (struct function *)f);
        return true;
    }
    struct symbol *s = symbol_find(d, name);
    struct operand o = {0};
    struct text t = {name.at, name.at + name.size, 0}, before = d->t;
    d->t = t;
    bool right = (!s || s->kind == SYMBOL_REGISTER) && operand_parse(d, &o) && o.kind == O_REGISTER && o.type != T_PRED && type_bytes((enum type)o.type) == 8;
    d->t = before;
    if (!right) return bad_name(d, PTX_INVALID_PTX, "the function", name, "is not declared");
    c->indirect = o.at;
    d->indirect = d->p->recursive = true;
    return true;
}

/* What follows the name: `, (arguments), prototype;`, each of them optional. */
static bool call_arguments(struct decoder *d, struct call *c, uint32_t *room, const struct function *f) {
    if (!text_take(&d->t, ',')) return text_take(&d->t, ';');
    if (text_take(&d->t, '(')) {
        if (!call_list(d, c, room, f, false)) return false;
        if (!text_take(&d->t, ',')) return text_take(&d->t, ';');
    }
    return text_name(&d->t).size && text_take(&d->t, ';');
}

/* call (results), name, (arguments), prototype; The name says what the results are, so it is read first. */
bool decode_call(struct decoder *d) {
    struct text results = {0};
    if (text_take(&d->t, '(')) {
        results = d->t;
        if (!text_until(&d->t, ')') || !text_take(&d->t, ',')) return false;
    }
    struct word name = text_name(&d->t);
    struct text after = d->t;
    if (!name.size) return false;
    struct function *f = symbol_find(d, name) ? NULL : unit_function(d->u, name);
    struct call c = {.caller = d->code};
    struct program *p = d->p;
    uint32_t room = 0;
    d->t = results.at ? results : after;
    bool right = !results.at || call_list(d, &c, &room, f, true);
    d->t = after;
    right = right && call_arguments(d, &c, &room, f) && call_target(d, &c, name, f) && grow(&p->calls, &p->call_room, p->call_count + 1, sizeof *p->calls);
    if (!right) return free(c.actuals), false;
    p->calls[p->call_count++] = c;
    emit_run(d, run_call)->target = p->call_count - 1;
    return true;
}

static bool measure(const struct program *p, uint32_t code, uint8_t *state, uint32_t *deepest, uint32_t depth) {
    if (state[code] == 1 || depth > 64) return false; /* recursion */
    if (state[code] == 2) return true;
    state[code] = 1;
    uint32_t most = 0;
    for (uint32_t i = 0; i < p->call_count; i++) {
        const struct call *c = &p->calls[i];
        if (c->caller != code || c->builtin || c->indirect) continue;
        if (!measure(p, c->code, state, deepest, depth + 1)) return false;
        if (deepest[c->code] > most) most = deepest[c->code];
    }
    deepest[code] = ((p->codes[code].local_bytes + 127) & ~127u) + most;
    state[code] = 2;
    return true;
}

void program_measure(struct program *p) {
    uint8_t *state = calloc(p->code_count, 1);
    uint32_t *deepest = calloc(p->code_count, sizeof *deepest);
    if (!state || !deepest || !measure(p, 0, state, deepest, 0)) p->recursive = true;
    p->local_bytes = deepest && !p->recursive ? deepest[0] : 0;
    free(state), free(deepest);
}

const struct form FORMS_CONTROL[] = {
    {"bra", form_bra}, {"brx", form_brx}, {"exit", form_exit}, {"ret", form_ret}, {"trap", form_trap}, {"brkpt", form_trap},
    {"bar", form_barrier}, {"barrier", form_barrier}, {"membar", form_fence}, {"fence", form_fence}, {"nanosleep", form_nanosleep},
    {"griddepcontrol", form_nothing}, {"pmevent", form_nothing}, {"prefetch", form_nothing}, {"prefetchu", form_nothing},
    {"applypriority", form_nothing}, {"discard", form_nothing}, {"setmaxnreg", form_nothing}, {NULL, NULL},
};
