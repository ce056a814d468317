/* Special registers, and the functions that every kernel can call: vprintf, __assertfail, malloc, free. */
#include "rare.h"
#include "host.h"

#include <stdio.h>
#include <stdlib.h>

/* A vector has three values and a fourth that is 0; `first` is that of its x. A cluster has one block here. */
static const struct {
    const char *name;
    enum special first;
    bool vector;
} NAMES[] = {
    {"%tid", S_TID_X, true}, {"%ntid", S_NTID_X, true}, {"%ctaid", S_CTAID_X, true}, {"%nctaid", S_NCTAID_X, true},
    {"%clusterid", S_CTAID_X, true}, {"%nclusterid", S_NCTAID_X, true}, {"%cluster_ctaid", S_ZERO, true}, {"%cluster_nctaid", S_ONE, true},
    {"%laneid", S_LANEID, false}, {"%warpid", S_WARPID, false}, {"%nwarpid", S_NWARPID, false}, {"%smid", S_SMID, false},
    {"%nsmid", S_NSMID, false}, {"%gridid", S_GRIDID, false}, {"%clock", S_CLOCK, false}, {"%clock_hi", S_CLOCK_HI, false},
    {"%clock64", S_CLOCK64, false}, {"%globaltimer", S_GLOBALTIMER, false}, {"%globaltimer_lo", S_GLOBALTIMER_LO, false},
    {"%globaltimer_hi", S_GLOBALTIMER_HI, false}, {"%lanemask_eq", S_LANEMASK_EQ, false}, {"%lanemask_lt", S_LANEMASK_LT, false},
    {"%lanemask_le", S_LANEMASK_LE, false}, {"%lanemask_gt", S_LANEMASK_GT, false}, {"%lanemask_ge", S_LANEMASK_GE, false},
    {"WARP_SZ", S_WARP_SZ, false}, {"%dynamic_smem_size", S_DYNAMIC_SHARED, false}, {"%total_smem_size", S_TOTAL_SHARED, false},
    {"%aggr_smem_size", S_TOTAL_SHARED, false}, {"%cluster_ctarank", S_ZERO, false}, {"%cluster_nctarank", S_ONE, false},
    {"%is_explicit_cluster", S_ZERO, false}, {"%reserved_smem_offset_begin", S_ZERO, false}, {"%reserved_smem_offset_end", S_ZERO, false},
    {"%reserved_smem_offset_cap", S_ZERO, false}, {"%current_graph_exec", S_ZERO, false},
    {"%envreg1", S_GRID_HIGH, false}, {"%envreg2", S_GRID_LOW, false},
};

enum special special_named(struct word w, bool *vector) {
    *vector = false;
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (word_is(w, NAMES[i].name)) return *vector = NAMES[i].vector, NAMES[i].first;
    bool counter = w.size > 3 && memcmp(w.at, "%pm", 3) == 0, environment = w.size > 7 && memcmp(w.at, "%envreg", 7) == 0;
    return counter || environment ? S_ZERO : SPECIAL_NONE;
}

enum special special_component(enum special first, uint32_t index) {
    if (index == 3) return S_ZERO;
    return first == S_ZERO || first == S_ONE ? first : (enum special)(first + index);
}

/* Where cooperative groups count the blocks that have arrived: %envreg1 and %envreg2 hold its address. */
static uint64_t grid_memory(const struct launch *l) { return l->asked->cooperative ? (uint64_t)(uintptr_t)l->grid_memory : 0; }

static void fill(uint32_t row[LANES], uint32_t value) {
    for (int i = 0; i < LANES; i++) row[i] = value;
}

void specials_prepare(struct warp *w) {
    const struct ptx_launch *asked = w->block->launch->asked;
    const unsigned *size = asked->block;
    for (uint32_t i = 0; i < LANES; i++) {
        uint32_t thread = w->index * LANES + i;
        w->special[S_TID_X][i] = thread % size[0];
        w->special[S_TID_Y][i] = thread / size[0] % size[1];
        w->special[S_TID_Z][i] = thread / size[0] / size[1];
        w->special[S_LANEID][i] = i;
    }
    for (int k = 0; k < 3; k++) {
        fill(w->special[S_NTID_X + k], size[k]);
        fill(w->special[S_NCTAID_X + k], asked->grid[k]);
    }
}

void specials_renew(struct warp *w) {
    for (int k = 0; k < 3; k++)
        if (w->special[S_CTAID_X + k][0] != w->block->id[k]) fill(w->special[S_CTAID_X + k], w->block->id[k]);
}

static uint64_t special_value(const struct warp *w, uint32_t special, uint32_t lane) {
    const struct block *b = w->block;
    const struct ptx_launch *asked = b->launch->asked;
    if (special < S_READY) return w->special[special][lane];
    uint32_t bit = 1u << lane;
    switch (special) {
    case S_WARPID: return w->index;
    case S_NWARPID: return b->warp_count;
    case S_SMID: return b->worker->index;
    case S_NSMID: return host_attribute(PTX_SM_COUNT, 1);
    case S_GRIDID: return b->launch->id;
    case S_CLOCK: case S_CLOCK64: case S_GLOBALTIMER: case S_GLOBALTIMER_LO: return host_nanoseconds();
    case S_CLOCK_HI: case S_GLOBALTIMER_HI: return host_nanoseconds() >> 32;
    case S_LANEMASK_EQ: return bit;
    case S_LANEMASK_LT: return bit - 1;
    case S_LANEMASK_LE: return bit | (bit - 1);
    case S_LANEMASK_GT: return ~(bit | (bit - 1));
    case S_LANEMASK_GE: return ~(bit - 1);
    case S_WARP_SZ: return LANES;
    case S_ONE: return 1;
    case S_GRID_LOW: return grid_memory(b->launch);
    case S_GRID_HIGH: return grid_memory(b->launch) >> 32;
    case S_DYNAMIC_SHARED: return asked->shared_bytes;
    case S_TOTAL_SHARED: return b->shared_bytes;
    default: return 0;
    }
}

bool run_special(struct warp *w, const struct ins *n, uint32_t mask) {
    bool time = n->mode >= S_CLOCK && n->mode <= S_GLOBALTIMER_HI;
    uint64_t now = time ? special_value(w, n->mode, 0) : 0; /* one time for all lanes */
    if (time) w->polled = true;
    EACH_LANE(i, mask) lane_set(w, n->d, n->bytes, (int)i, time ? now : special_value(w, n->mode, i));
    return true;
}

/* ---- text that kernels hand over ---- */

static bool byte_at(struct warp *w, const struct ins *n, uint64_t address, int lane, char *out) {
    uint64_t addresses[LANES];
    addresses[lane] = address;
    if (!range_known(w, address, address + 1) && !addresses_check(w, n, 1u << lane, addresses, 1, false)) return false;
    *out = *(const char *)(uintptr_t)address;
    return true;
}

static bool text_at(struct warp *w, const struct ins *n, uint64_t address, int lane, char *out, size_t room) {
    for (size_t i = 0; i + 1 < room; i++) {
        if (!byte_at(w, n, address + i, lane, &out[i])) return false;
        if (!out[i]) return true;
    }
    out[room - 1] = 0;
    return true;
}

static uint64_t argument(struct warp *w, const struct call *c, uint32_t k, uint32_t lane) {
    if (k >= c->arguments) return 0;
    const struct place *p = &c->actuals[c->results + k];
    uint64_t value = 0;
    if (p->space == SPACE_LOCAL) memcpy(&value, (void *)(uintptr_t)(w->current->local[lane] + p->at), p->bytes < 8 ? p->bytes : 8);
    else if (p->bytes) value = lane_get(w, p->at, p->bytes, (int)lane);
    return value;
}

static void give_result(struct warp *w, const struct call *c, uint32_t lane, uint64_t value, unsigned bytes) {
    if (!c->results) return;
    const struct place *p = &c->actuals[0];
    if (p->space == SPACE_LOCAL) memcpy((void *)(uintptr_t)(w->current->local[lane] + p->at), &value, p->bytes < bytes ? p->bytes : bytes);
    else if (p->bytes) lane_set(w, p->at, p->bytes, (int)lane, value);
}

/* ---- vprintf ---- */

struct output {
    char bytes[4096];
    size_t used;
};

static void put(struct output *o, const char *text, size_t size) {
    size_t room = sizeof o->bytes - o->used;
    if (size > room) size = room;
    memcpy(o->bytes + o->used, text, size);
    o->used += size;
}

/* One conversion: flags, width and precision as C has them; each argument takes 4 or 8 bytes, aligned. */
static bool put_converted(struct warp *w, const struct ins *n, int lane, struct output *o, const char *spec, size_t size, uint64_t *arguments) {
    char format[40], text[512] = "", string[1024];
    char kind = spec[size - 1];
    bool is_long = false, is_double = strchr("fFeEgGaA", kind) != NULL, is_text = kind == 's' || kind == 'p';
    size_t used = 0;
    int stars[2] = {0, 0}, star_count = 0;
    for (size_t i = 0; i + 1 < size && used < sizeof format - 8; i++) {
        if (spec[i] == '*') {
            uint32_t value;
            char first;
            *arguments = (*arguments + 3) & ~3ull;
            if (!byte_at(w, n, *arguments, lane, &first) || !byte_at(w, n, *arguments + 3, lane, &first)) return false;
            memcpy(&value, (void *)(uintptr_t)*arguments, 4);
            stars[star_count++] = (int)value % 500;
            *arguments += 4;
            used += (size_t)snprintf(format + used, sizeof format - used, "%d", stars[star_count - 1]);
            continue;
        }
        is_long |= spec[i] == 'l' || spec[i] == 'z' || spec[i] == 'j' || spec[i] == 't';
        if (!strchr("lzjtqhL", spec[i])) format[used++] = spec[i];
    }
    unsigned bytes = is_double || is_text || is_long ? 8 : 4;
    *arguments = (*arguments + bytes - 1) & ~(uint64_t)(bytes - 1);
    uint64_t value = 0;
    char probe;
    if (!byte_at(w, n, *arguments, lane, &probe) || !byte_at(w, n, *arguments + bytes - 1, lane, &probe)) return false;
    memcpy(&value, (void *)(uintptr_t)*arguments, bytes);
    *arguments += bytes;
    const char *tail = is_long && !is_double && !is_text && kind != 'c' ? "ll" : "";
    snprintf(format + used, sizeof format - used, "%s%c", tail, kind);
    if (kind == 's') {
        if (!text_at(w, n, value, lane, string, sizeof string)) return false;
        snprintf(text, sizeof text, format, string);
    } else if (is_double) {
        double real;
        memcpy(&real, &value, 8);
        snprintf(text, sizeof text, format, real);
    } else if (kind == 'p') {
        snprintf(text, sizeof text, "0x%llx", (unsigned long long)value);
    } else if (is_long) {
        snprintf(text, sizeof text, format, (long long)value);
    } else {
        snprintf(text, sizeof text, format, (int)value);
    }
    put(o, text, strlen(text));
    return true;
}

/* Two stars at most, and no number of more than three digits: others are printed as they are. */
static bool conversion_known(const char *spec, size_t size) {
    unsigned stars = 0, digits = 0, most = 0;
    for (size_t i = 1; i < size; i++) {
        stars += spec[i] == '*';
        digits = spec[i] >= '0' && spec[i] <= '9' ? digits + 1 : 0;
        most = digits > most ? digits : most;
    }
    return strchr("diouxXcsfFeEgGaAp", spec[size - 1]) && size < 32 && stars <= 2 && most <= 3;
}

static bool print(struct warp *w, const struct ins *n, uint32_t lane, uint64_t format_at, uint64_t arguments, uint32_t *printed) {
    char format[2048];
    struct output *o = malloc(sizeof *o);
    bool right = o && text_at(w, n, format_at, (int)lane, format, sizeof format);
    if (o) o->used = 0;
    *printed = 0;
    for (const char *p = format; right && *p;) {
        size_t plain = strcspn(p, "%");
        put(o, p, plain);
        p += plain;
        if (!*p) break;
        size_t size = 1 + strspn(p + 1, "-+ #0123456789.*lhzjtqL");
        if (!p[size]) break;
        size++;
        if (conversion_known(p, size)) {
            right = put_converted(w, n, (int)lane, o, p, size, &arguments);
            ++*printed;
        } else {
            put(o, p + (p[size - 1] == '%' ? size - 1 : 0), p[size - 1] == '%' ? 1 : size);
        }
        p += size;
    }
    if (right) host_print(o->bytes, o->used);
    free(o);
    return right;
}

static bool assert_failed(struct warp *w, const struct ins *n, const struct call *c, uint32_t lane) {
    char message[200], file[200], function[100];
    if (!text_at(w, n, argument(w, c, 0, lane), (int)lane, message, sizeof message) || !text_at(w, n, argument(w, c, 1, lane), (int)lane, file, sizeof file) ||
        !text_at(w, n, argument(w, c, 3, lane), (int)lane, function, sizeof function))
        return false;
    return raise_error(w, n, PTX_ASSERT, 0, (int)lane, "%.150s:%u: %.80s: assertion `%.150s` failed", file, (unsigned)argument(w, c, 2, lane), function, message);
}

/* Memory that kernels allocate for themselves ends with the process, as a GPU's heap ends with its context. */
static uint64_t device_malloc(struct warp *w, uint64_t bytes) {
    void *memory = bytes && bytes < (1u << 30) ? host_aligned_alloc(bytes) : NULL;
    if (memory && !heap_add(memory, bytes)) host_aligned_free(memory), memory = NULL;
    (void)w;
    return (uint64_t)(uintptr_t)memory;
}

bool run_builtin(struct warp *w, const struct ins *n, uint32_t mask, const struct call *c) {
    EACH_LANE(i, mask) {
        uint32_t printed = 0;
        uint64_t first = argument(w, c, 0, i);
        switch (c->builtin) {
        case BUILTIN_PRINT:
            if (!print(w, n, i, first, argument(w, c, 1, i), &printed)) return false;
            give_result(w, c, i, printed, 4);
            break;
        case BUILTIN_ASSERT: return assert_failed(w, n, c, i);
        case BUILTIN_MALLOC: give_result(w, c, i, device_malloc(w, first), 8); break;
        default:
            if (first) heap_remove((void *)(uintptr_t)first);
        }
    }
    return true;
}
