/* Loads, stores, atomics and copies: how each is decoded. */
#include "decode.h"

/* The registers of a vector operand, or a single one; all of one size. */
static bool data_registers(struct decoder *d, const struct operand *o, enum type type, bool write, ref *single, uint32_t *list, unsigned *bytes) {
    if (o->kind != O_VECTOR) {
        if (d->op.vector != 1) return bad_instruction(d, "needs a vector");
        return write ? destination_any(d, o, type, single, bytes) : source_any(d, o, type, single, bytes);
    }
    if (o->count != d->op.vector) return bad_instruction(d, "has a vector of the wrong size");
    ref refs[VECTOR_MOST];
    *bytes = 0;
    for (uint32_t i = 0; i < o->count; i++) {
        unsigned one;
        const struct operand *e = &d->elements[o->first + i];
        if (!(write ? destination_any(d, e, type, &refs[i], &one) : source_any(d, e, type, &refs[i], &one))) return false;
        if (e->kind == O_SINK) continue;
        if (*bytes && one != *bytes) { /* constants take the type's size */
            if (e->kind == O_REGISTER || write) return bad(d, PTX_INVALID_PTX, "the registers of a vector differ in size");
        }
        if (e->kind == O_REGISTER || !*bytes) *bytes = one;
    }
    if (!*bytes) *bytes = TYPES[type].bytes;
    for (uint32_t i = 0; i < o->count && !write; i++) /* now that the size is known, constants of that size */
        if (d->elements[o->first + i].kind == O_NUMBER) refs[i] = constant(d, number_as(&d->elements[o->first + i].number, type), *bytes);
    *list = d->p->ref_count;
    for (uint32_t i = 0; i < o->count; i++)
        if (!list_put(d, refs[i])) return false;
    *single = refs[0];
    return true;
}

static bool form_load_store(struct decoder *d) {
    bool write = base_is(d, "st");
    if (opcode_has(&d->op, "async") || opcode_has(&d->op, "bulk")) return unsupported(d);
    if (!operands_between(d, 2, 4) || !d->op.type_count) return false;
    enum type type = d->op.types[0];
    const struct operand *data = &d->operands[write ? 1 : 0], *where = &d->operands[write ? 0 : 1];
    ref single = 0;
    uint32_t list = 0;
    unsigned bytes = 0;
    if (!data_registers(d, data, type, !write, &single, &list, &bytes)) return false;
    struct ins *n = emit(d, write ? K_STORE : K_LOAD);
    n->d = single, n->list = list, n->count = d->op.vector;
    n->type = (uint8_t)type, n->bytes = TYPES[type].bytes, n->from = (uint8_t)bytes;
    n->space = base_is(d, "ldu") && !d->op.has_space ? SPACE_GLOBAL : d->op.space;
    n->flags = d->op.flags;
    if (n->flags & F_VOLATILE) n->flags |= F_POLL;
    if (n->space == SPACE_PARAM && !d->f->entry) n->space = SPACE_LOCAL;
    if (d->op.part_count && !opcode_has(&d->op, "unified")) return unsupported(d);
    bool plain = n->count == 1 && n->bytes == n->from && n->bytes < 16 && !(n->flags & F_ORDERED);
    if (plain) n->kind = write ? K_STORE_PLAIN : K_LOAD_PLAIN;
    return address(d, where, n);
}

/* atom and red. n->mode is the address's, n->rounding the operation. */
static bool form_atomic(struct decoder *d) {
    bool returns = base_is(d, "atom");
    int operation = opcode_choice(&d->op, "add and or xor min max inc dec exch cas");
    if (operation < 0 || d->op.part_count != 1 || !d->op.type_count) return unsupported(d);
    uint32_t first = returns ? 1 : 0, cas = operation == 9;
    if (!operands_between(d, first + 2 + cas, first + 3 + cas)) return false;
    enum type type = d->op.types[0];
    ref to = 0, b = 0, c = 0;
    uint32_t list_d = 0, list_b = 0;
    unsigned bytes = TYPES[type].bytes, got;
    if (returns && !data_registers(d, &d->operands[0], type, true, &to, &list_d, &got)) return false;
    if (returns && got != bytes && d->operands[0].kind != O_SINK) return bad_instruction(d, "has a destination of the wrong size");
    if (!data_registers(d, &d->operands[first + 1], type, false, &b, &list_b, &got)) return false;
    if (got != bytes) return bad_instruction(d, "has an operand of the wrong size");
    if (cas && !source(d, &d->operands[first + 2], type, &c)) return false;
    struct ins *n = emit_run(d, run_atomic);
    n->d = to, n->b = b, n->c = c, n->list = list_b, n->target = list_d, n->count = d->op.vector;
    n->type = (uint8_t)type, n->bytes = (uint8_t)bytes, n->space = d->op.space, n->rounding = (uint8_t)operation;
    n->flags = d->op.flags | (returns ? F_RETURNS : 0) | F_POLL;
    return address(d, &d->operands[first], n);
}

/* cp.async: done at once, so that waiting for it is nothing. */
static bool form_copy(struct decoder *d) {
    if (opcode_has(&d->op, "bulk") || opcode_has(&d->op, "reduce") || !opcode_has(&d->op, "async")) return unsupported(d);
    if (opcode_has(&d->op, "commit_group") || opcode_has(&d->op, "wait_group") || opcode_has(&d->op, "wait_all")) return emit_run(d, run_nothing) != NULL;
    if (opcode_has(&d->op, "mbarrier")) { /* cp.async.mbarrier.arrive: the copies before it are complete */
        if (!operands_between(d, 1, 1)) return false;
        if (!opcode_has(&d->op, "noinc")) return emit_run(d, run_nothing) != NULL;
        ref one = constant(d, 1, 4);
        struct ins *n = emit_run(d, run_mbarrier);
        n->rounding = 3, n->bytes = 8, n->space = SPACE_SHARED, n->b = one;
        return address(d, &d->operands[0], n);
    }
    if (!operands_between(d, 3, 5) || d->operands[2].kind != O_NUMBER) return false;
    uint64_t size = d->operands[2].number.bits;
    if (size != 4 && size != 8 && size != 16) return unsupported(d);
    ref from_size = constant(d, size, 4), ignore = 0;
    bool has_ignore = d->operand_count > 3 && d->operands[3].kind == O_REGISTER && d->operands[3].type == T_PRED;
    bool policy = d->operand_count > 3 && d->operands[3].kind == O_REGISTER && type_bytes((enum type)d->operands[3].type) == 8;
    if (has_ignore && !predicate_source(d, &d->operands[3], &ignore)) return false;
    if (d->operand_count > 3 && !has_ignore && !policy && !source(d, &d->operands[3], T_U32, &from_size)) return false;
    /* The source's address stands in an instruction of its own, run by the one before it. */
    struct ins *n = emit_run(d, run_async_copy);
    n->b = from_size, n->c = ignore, n->count = 1, n->bytes = (uint8_t)size, n->space = SPACE_SHARED;
    n->imm = 0;
    if (!address(d, &d->operands[0], n)) return false;
    ref guard = d->guard;
    d->guard = 0;
    struct ins *m = emit_run(d, run_nothing);
    d->guard = guard;
    m->bytes = (uint8_t)size, m->space = SPACE_GLOBAL;
    return address(d, &d->operands[1], m);
}

/* mbarrier: init, inval, arrive, test_wait, try_wait, pending_count */
static bool form_mbarrier(struct decoder *d) {
    int operation = opcode_choice(&d->op, "init inval arrive arrive_noinc test_wait try_wait arrive_drop");
    if (opcode_has(&d->op, "pending_count")) {
        struct ins *n = emit_form(d, run_mbarrier, "dw bl");
        if (n) n->rounding = 9;
        return n != NULL;
    }
    bool waits = operation == 4 || operation == 5, arrives = operation == 2 || operation == 6, parity = opcode_has(&d->op, "parity");
    if (operation < 0 || opcode_choice(&d->op, "expect_tx complete_tx") >= 0) return unsupported(d);
    uint32_t first = waits || arrives ? 1 : 0;
    if (!operands_between(d, first + (operation == 0 || waits), first + 3)) return false;
    ref to = 0, b = 0;
    if (waits && !predicate_destination(d, &d->operands[0], &to)) return false;
    if (arrives && !destination(d, &d->operands[0], T_B64, &to)) return false;
    if (waits && !source(d, &d->operands[2], parity ? T_U32 : T_B64, &b)) return false;
    if (!waits && d->operand_count > first + 1 && !source(d, &d->operands[first + 1], T_U32, &b)) return false;
    if (!b) b = constant(d, 1, 4);
    struct ins *n = emit_run(d, run_mbarrier);
    n->d = to, n->b = b, n->rounding = (uint8_t)operation, n->bytes = 8, n->flags = parity ? F_CARRY_IN : 0;
    n->space = d->op.space;
    return address(d, &d->operands[first], n);
}

/* A cache policy is a value that is never looked at. */
static bool form_createpolicy(struct decoder *d) {
    ref to;
    if (!operands_between(d, 1, 4) || !destination(d, &d->operands[0], T_B64, &to)) return false;
    emit_run(d, run_pack)->d = to;
    struct ins *n = &d->p->ins[d->p->size - 1];
    n->list = d->p->ref_count, n->bytes = n->from = 8;
    return list_put(d, constant(d, 0x12f0000000000000u, 8));
}

/* alloca.type ptr, size{, align}; stacksave.type d; stackrestore.type a */
static bool form_stack(struct decoder *d) {
    bool alloca = base_is(d, "alloca"), restore = base_is(d, "stackrestore");
    ref a = 0, to = 0;
    if (!operands_between(d, alloca ? 2 : 1, alloca ? 3 : 1) || !d->op.type_count || TYPES[d->op.types[0]].bytes < 4) return unsupported(d);
    uint64_t align = d->operand_count > 2 ? d->operands[2].number.bits : 8;
    if (!align || (align & (align - 1)) || align > 1024) return unsupported(d);
    if ((alloca || restore) && !source(d, &d->operands[alloca], d->op.types[0], &a)) return false;
    if (!restore && !destination(d, &d->operands[0], d->op.types[0], &to)) return false;
    d->p->recursive = true; /* the size of the stack is not known */
    struct ins *n = emit_run(d, run_stack);
    n->d = to, n->a = a, n->bytes = TYPES[d->op.types[0]].bytes, n->mode = alloca ? 0 : restore ? 2 : 1, n->imm = (int64_t)align;
    return true;
}

const struct form FORMS_MEMORY[] = {
    {"ld", form_load_store}, {"ldu", form_load_store}, {"st", form_load_store}, {"atom", form_atomic}, {"red", form_atomic},
    {"cp", form_copy}, {"mbarrier", form_mbarrier}, {"createpolicy", form_createpolicy},
    {"alloca", form_stack}, {"stacksave", form_stack}, {"stackrestore", form_stack}, {NULL, NULL},
};
