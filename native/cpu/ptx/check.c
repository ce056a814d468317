/* The checks of CUDA_AMD_CPU_CHECK: memory that is read before it is written, races in shared memory, barriers that not
 * all threads of a warp reach together. */
#include "rare.h"

#include <stdlib.h>

struct checker {
    uint8_t *shared_written, *local_written; /* a byte each */
    struct access {
        uint32_t writer, reader; /* 1 + thread; reader UINT32_MAX: several */
        uint32_t epoch;
    } *accesses; /* of shared bytes */
    uint32_t epoch;
    uint64_t local_bytes; /* of a warp */
};

uint32_t checks_asked(void) {
    static const char *const NAMES[] = {"memory", "race", "sync"};
    const char *p = getenv("CUDA_AMD_CPU_CHECK");
    uint32_t out = 0;
    while (p && *p) {
        size_t size = strcspn(p, ",");
        for (uint32_t i = 0; i < 3; i++)
            if (strlen(NAMES[i]) == size && memcmp(p, NAMES[i], size) == 0) out |= 1u << i;
        p += size + (p[size] == ',');
    }
    return out;
}

struct checker *checker_new(const struct block *b) {
    struct checker *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    c->shared_written = calloc(b->shared_bytes + 1, 1);
    c->accesses = calloc(b->shared_bytes + 1, sizeof *c->accesses);
    if (c->shared_written && c->accesses) return c;
    checker_free(c);
    return NULL;
}

void checker_begin(const struct block *b) {
    struct checker *c = b->checker;
    memset(c->shared_written, 0, b->shared_bytes);
    c->local_bytes = LANES * b->warps[0]->local_bytes;
    if (!c->local_written) c->local_written = malloc(c->local_bytes * b->warp_count);
    if (c->local_written) memset(c->local_written, 0, c->local_bytes * b->warp_count);
    c->epoch++;
}

void checker_free(struct checker *c) {
    if (!c) return;
    free(c->shared_written), free(c->local_written), free(c->accesses);
    free(c);
}

/* A barrier: what was accessed before it and what is accessed after it cannot race. */
void checker_reset(const struct block *b) { b->checker->epoch++; }

static bool written(struct warp *w, const struct ins *n, uint8_t *map, uint64_t at, unsigned bytes, bool write, uint32_t lane, const char *what) {
    for (unsigned k = 0; k < bytes; k++) {
        if (write) map[at + k] = 1;
        else if (!map[at + k]) return raise_error(w, n, PTX_ILLEGAL_ADDRESS, at + k, (int)lane, "check memory: the kernel reads byte %llu of %s memory, which was never written", (unsigned long long)(at + k), what);
    }
    return true;
}

static bool raced(struct warp *w, const struct ins *n, uint64_t at, unsigned bytes, bool write, uint32_t lane) {
    struct checker *c = w->block->checker;
    uint32_t me = 1 + w->index * LANES + lane;
    for (unsigned k = 0; k < bytes; k++) {
        struct access *a = &c->accesses[at + k];
        if (a->epoch != c->epoch) *a = (struct access){.epoch = c->epoch};
        uint32_t other = a->writer && a->writer != me ? a->writer : write && a->reader && a->reader != me ? a->reader : 0;
        /* Lanes of one warp are in step unless the program says otherwise: only other warps are reported. */
        bool same_warp = other && other != UINT32_MAX && (other - 1) / LANES == w->index;
        if (other && !same_warp)
            return raise_error(w, n, PTX_ILLEGAL_ADDRESS, at + k, (int)lane, "check race: byte %llu of shared memory is %s here and was %s by another thread since the last barrier",
                               (unsigned long long)(at + k), write ? "written" : "read", other == a->writer ? "written" : "read");
        if (write) a->writer = me;
        else a->reader = !a->reader || a->reader == me ? me : UINT32_MAX;
    }
    return true;
}

bool check_access(struct warp *w, const struct ins *n, uint32_t mask, const uint64_t *addresses, unsigned bytes, bool write) {
    const struct block *b = w->block;
    struct checker *c = b->checker;
    uint64_t shared = (uint64_t)(uintptr_t)b->shared, local = (uint64_t)(uintptr_t)w->local;
    bool atomic = n->kind == K_RUN && n->run == run_atomic;
    EACH_LANE(i, mask) {
        uint64_t at = addresses[i];
        if (at >= shared && at - shared < b->shared_bytes) {
            if (b->launch->checks & CHECK_MEMORY && !written(w, n, c->shared_written, at - shared, bytes, write && !atomic, i, "shared")) return false;
            if (b->launch->checks & CHECK_RACE && !atomic && !(n->flags & (F_VOLATILE | F_POLL)) && !raced(w, n, at - shared, bytes, write, i)) return false;
        } else if (at >= local && at - local < c->local_bytes && c->local_written && b->launch->checks & CHECK_MEMORY) {
            if (!written(w, n, c->local_written + c->local_bytes * w->index, at - local, bytes, write, i, "local")) return false;
        }
    }
    return true;
}

/* A barrier for all threads that part of a warp does not reach: the others ended, or wait elsewhere. */
bool check_barrier(struct warp *w, const struct ins *n, uint32_t mask, uint64_t count) {
    uint32_t started = w->index * LANES + LANES <= w->block->launch->threads ? ALL_LANES : (1u << (w->block->launch->threads % LANES)) - 1;
    if (mask == started) return true;
    uint32_t missing = started & ~mask;
    const char *where = missing & ~w->alive ? "have ended" : "are elsewhere";
    (void)count;
    return raise_error(w, n, PTX_ILLEGAL_INSTRUCTION, 0, __builtin_ctz(mask), "check sync: %u threads of the warp reach this barrier, others %s", (unsigned)__builtin_popcount(mask), where);
}
