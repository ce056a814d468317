/* A program under construction: instructions, registers, constants, shared variables. */
#include "decode.h"
#include "../common/common.h"

#include <stdlib.h>

enum { REGISTER_BYTES_MOST = 1 << 28, INSTRUCTIONS_MOST = 1 << 26 };

struct ins *emit(struct decoder *d, enum kind kind) {
    static struct ins nowhere;
    struct program *p = d->p;
    if (p->size >= INSTRUCTIONS_MOST || !grow(&p->ins, &p->room, p->size + 1, sizeof *p->ins)) {
        bad(d, PTX_OUT_OF_MEMORY, "the kernel is too large");
        return &nowhere;
    }
    struct ins *n = &p->ins[p->size++];
    *n = (struct ins){.kind = (uint8_t)kind, .line = d->line, .guard = d->guard, .count = 1};
    return n;
}

struct ins *emit_run(struct decoder *d, run_fn run) {
    struct ins *n = emit(d, K_RUN);
    n->run = run;
    return n;
}

ref register_new(struct decoder *d, unsigned bytes) {
    struct code *c = &d->p->codes[d->code];
    uint32_t align = bytes ? (bytes < 2 ? 32 : 64) : 4, size = bytes ? bytes * LANES : 4;
    uint32_t at = (c->register_bytes + align - 1) & ~(align - 1);
    if (at + size > REGISTER_BYTES_MOST || !grow(&c->registers, &c->register_room, c->register_count + 1, sizeof *c->registers)) {
        bad(d, PTX_OUT_OF_MEMORY, "the kernel has too many registers");
        return 0;
    }
    c->registers[c->register_count].at = at;
    c->registers[c->register_count++].bytes = bytes;
    c->register_bytes = at + size;
    return at;
}

static ref constant_new(struct decoder *d, uint64_t value, unsigned bytes) {
    struct program *p = d->p;
    uint32_t align = bytes < 2 ? 32 : 64, at = (p->constant_bytes + align - 1) & ~(align - 1), size = bytes * LANES;
    uint32_t old = p->constant_room;
    if (at + size > p->constant_room) {
        uint32_t room = old ? 2 * old : 8192;
        while (room < at + size) room *= 2;
        uint8_t *grown = room > 1u << 28 ? NULL : host_aligned_alloc(room);
        if (!grown) return bad(d, PTX_OUT_OF_MEMORY, "the kernel has too many constants"), (ref)REF_CONST;
        if (p->constants) memcpy(grown, p->constants, p->constant_bytes);
        host_aligned_free(p->constants);
        p->constants = grown;
        p->constant_room = room;
    }
    memset(p->constants + at, 0, size);
    for (unsigned i = 0; i < LANES; i++) memcpy(p->constants + at + i * bytes, &value, bytes < 8 ? bytes : 8);
    p->constant_bytes = at + size;
    return at | REF_CONST;
}

ref constant(struct decoder *d, uint64_t value, unsigned bytes) {
    struct constant wanted = {.value = bytes < 8 ? value & ((1ull << 8 * bytes) - 1) : value, .bytes = bytes};
    struct constant *c = names_get(&d->constants, (struct word){(const char *)&wanted, CONSTANT_KEY});
    if (c) return c->at;
    wanted.at = constant_new(d, wanted.value, bytes);
    if ((c = keep(d, sizeof *c))) *c = wanted;
    if (!c || !names_put(&d->constants, (struct word){(const char *)c, CONSTANT_KEY}, c)) no_memory(d);
    return wanted.at;
}

uint32_t code_of(struct decoder *d, struct function *f) {
    struct program *p = d->p;
    for (uint32_t i = 0; i < p->code_count; i++)
        if (p->codes[i].function == f) return i;
    if (!grow(&p->codes, &p->code_room, p->code_count + 1, sizeof *p->codes)) return no_memory(d), 0;
    p->codes[p->code_count] = (struct code){.function = f, .register_bytes = SINK_BYTES, .entry = UINT32_MAX};
    return p->code_count++;
}

/* A function whose address is taken may be the target of any indirect call. */
bool function_taken(struct decoder *d, struct function *f) {
    struct ptx_module *m = d->u->module;
    return module_take(m, f) || no_memory(d);
}

bool needs_dynamic(struct decoder *d, uint32_t ins) {
    d->p->has_dynamic_shared = true;
    if (!grow(&d->dynamic, &d->dynamic_room, d->dynamic_count + 1, sizeof *d->dynamic)) return no_memory(d);
    d->dynamic[d->dynamic_count++] = ins;
    return true;
}

/* Give a shared variable its place in this program, when it is first used. */
bool shared_place(struct decoder *d, struct variable *v) {
    if (v->owner == d->p) return true;
    uint64_t at = (d->p->shared_bytes + (uint64_t)v->align - 1) & ~((uint64_t)v->align - 1);
    if (at + v->bytes > 1u << 30) return bad(d, PTX_TOO_LARGE, "the kernel's shared variables are too large");
    v->owner = d->p;
    v->offset = at;
    d->p->shared_bytes = (uint32_t)(at + v->bytes);
    return true;
}

void program_free(struct program *p) {
    if (!p) return;
    for (uint32_t i = 0; i < p->code_count; i++) free(p->codes[i].formals), free(p->codes[i].registers);
    for (uint32_t i = 0; i < p->call_count; i++) free(p->calls[i].actuals);
    host_aligned_free(p->constants);
    free(p->ins), free(p->refs), free(p->codes), free(p->calls), free(p);
}
