/* A running launch: blocks, their warps of 32 lanes, the frames of their functions. */
#ifndef PTX_RUNTIME_H
#define PTX_RUNTIME_H

#include "module.h"

#include <string.h>

#define ALL_LANES 0xffffffffu

enum special {
    SPECIAL_NONE, S_TID_X, S_TID_Y, S_TID_Z, S_NTID_X, S_NTID_Y, S_NTID_Z, S_CTAID_X, S_CTAID_Y, S_CTAID_Z, S_NCTAID_X,
    S_NCTAID_Y, S_NCTAID_Z, S_LANEID, S_READY /* those before it lie ready in each warp */, S_WARPID = S_READY, S_NWARPID, S_SMID, S_NSMID, S_GRIDID, S_CLOCK, S_CLOCK_HI, S_CLOCK64,
    S_GLOBALTIMER, S_GLOBALTIMER_LO, S_GLOBALTIMER_HI, S_LANEMASK_EQ, S_LANEMASK_LT, S_LANEMASK_LE, S_LANEMASK_GT,
    S_LANEMASK_GE, S_WARP_SZ, S_ZERO, S_ONE, S_DYNAMIC_SHARED, S_TOTAL_SHARED, S_GRID_LOW, S_GRID_HIGH, S_COUNT
};

/* Registers of one call of a function, for the lanes that made it. Each lane knows where it returns to. */
struct frame {
    struct frame *parent[LANES];
    uint32_t return_pc[LANES];
    uint64_t local[LANES]; /* host address of the lane's part of local memory */
    uint64_t top[LANES];   /* where the lane's memory from alloca begins; it grows down from the end */
    uint32_t live;         /* lanes that use this frame */
    uint32_t code, depth;
    struct frame *next_free;
    uint8_t *registers;
};

/* What registers and memory hold, whatever type it had before. */
typedef uint8_t u8 __attribute__((may_alias));
typedef int8_t s8 __attribute__((may_alias));
typedef uint16_t u16 __attribute__((may_alias));
typedef int16_t s16 __attribute__((may_alias));
typedef uint32_t u32 __attribute__((may_alias));
typedef int32_t s32 __attribute__((may_alias));
typedef uint64_t u64 __attribute__((may_alias));
typedef int64_t s64 __attribute__((may_alias));
typedef float f32 __attribute__((may_alias));
typedef double f64 __attribute__((may_alias));

struct warp {
    uint8_t *base[2]; /* registers of the running frame, constants */
    struct frame *current;
    uint32_t pc, active; /* of the running lanes */
    uint32_t horizon;    /* the lowest instruction at which other lanes wait to be joined */
    int32_t turn;        /* jumps back left before other lanes get a turn */
    int32_t slice;       /* jumps back left before another warp gets a turn */
    uint32_t waited;     /* lanes that used up a turn while others have not had theirs */
    bool divergent;      /* other lanes could run now */
    bool together;       /* all lanes are known to be at one place, in one frame */
    bool polled;         /* read or changed memory that others may change since the last jump back */
    const struct ins *code;
    struct block *block;
    uint32_t started;                    /* lanes that the block has */
    uint32_t alive, collective, barrier; /* lanes that have not ended; those parked at a collective or a barrier */
    uint32_t forced;                     /* lanes whose collective runs with whoever is there */
    uint32_t pcs[LANES];
    struct frame *frames[LANES];
    const struct ins *barrier_at[LANES]; /* the barrier instruction at which a lane is parked */
    uint32_t barrier_id[LANES];
    bool barrier_together; /* all lanes are parked at one: that of lane 0 */
    uint32_t index;
    uint32_t special[S_READY][LANES] __attribute__((aligned(64))); /* those every kernel asks for, by enum special */
    uint8_t *local; /* of all lanes */
    uint64_t local_bytes; /* of one lane */
    bool begun; /* has frames: a warp gets its first one when it first runs */
    uint8_t scratch[1024] __attribute__((aligned(64)));
};

struct barrier {
    uint32_t expected, arrived; /* threads; 0 expected: all that have not ended */
    uint32_t trues, voters;     /* of bar.red */
};

struct checker;
struct worker;
struct block {
    struct launch *launch;
    struct worker *worker;
    uint32_t id[3];
    uint64_t index;
    uint8_t *shared;
    uint64_t shared_bytes;
    uint32_t warp_count, live_threads;
    struct warp **warps;
    struct barrier barriers[16];
    uint32_t barriers_used; /* those that a thread has come to */
    bool released;          /* a barrier was: the warps that waited go on together with the one that came last */
    struct checker *checker;
    struct block *next;
};

enum { RANGES = 8, GRID_BYTES = 64, LINE_BYTES = 128 /* what processors keep apart: two threads' data share none */ };
struct worker {
    struct launch *launch;
    struct {
        uint64_t begin, end;
    } known[RANGES]; /* allocations that may be read and written */
    uint32_t next_range;
    struct block *resident, *spare;
    struct frame *free_frames; /* of all its warps: one that follows another finds its registers in the cache */
    uint32_t index;
} __attribute__((aligned(LINE_BYTES)));

struct launch {
    const struct ptx_launch *asked;
    struct function *function;
    struct program *program;
    uint8_t *parameters;
    uint8_t *grid_memory; /* GRID_BYTES behind the parameters */
    uint64_t parameter_bytes;
    uint64_t shared_bytes, dynamic_at;
    uint32_t threads, warps; /* of a block */
    uint64_t blocks;
    uint32_t stop; /* an error was met: everyone ends */
    uint32_t checks, workers;
    uint64_t id;
    struct ptx_error *error;
    uint64_t next_block __attribute__((aligned(LINE_BYTES))); /* all workers change it */
};

enum { CHECK_MEMORY = 1, CHECK_RACE = 2, CHECK_SYNC = 4 };

static inline uint8_t *at(const struct warp *w, ref r) { return w->base[r & REF_CONST] + (r & ~(uint32_t)REF_BITS); }
static inline uint32_t predicate(const struct warp *w, ref r) {
    uint32_t bits;
    memcpy(&bits, at(w, r), 4);
    return r & REF_NOT ? ~bits : bits;
}
/* Change the bits of some lanes. */
static inline void mix_bits(uint8_t *to, uint32_t lanes, uint32_t bits) {
    uint32_t old;
    memcpy(&old, to, 4);
    old = (old & ~lanes) | (bits & lanes);
    memcpy(to, &old, 4);
}
static inline void predicate_set(const struct warp *w, ref r, uint32_t lanes, uint32_t bits) { mix_bits(at(w, r), lanes, bits); }

/* Is this inside an allocation met before? */
static inline bool range_known(const struct warp *w, uint64_t low, uint64_t high) {
    const struct worker *k = w->block->worker;
    if (high <= low) return false; /* beyond the last address */
    for (int i = 0; i < RANGES; i++)
        if (low >= k->known[i].begin && high <= k->known[i].end) return true;
    return false;
}

/* Does the load stay inside the kernel's parameters? */
static inline bool parameter_known(const struct warp *w, const struct ins *n, unsigned bytes) {
    uint64_t at = (uint64_t)n->imm, end = w->block->launch->parameter_bytes;
    return at <= end && bytes <= end - at && !(at & (bytes - 1u));
}

/* Jumps back, and what may stand for one, cost time: that of the lanes that wait for others, and that of other warps. True: look again which lanes run. */
static inline bool spend_turn(struct warp *w) {
    int32_t cost = w->polled ? 64 : 1;
    w->polled = false;
    w->slice -= cost;
    if (w->divergent) w->turn -= cost;
    return w->slice <= 0 || w->turn <= 0;
}

static inline bool launch_stopped(const struct launch *l) { return __atomic_load_n(&l->stop, __ATOMIC_RELAXED); }

/* Do it with the unsigned type of 1, 2, 4 or (for any other size) 8 bytes. Sizes are told apart: compilers copy unknown
 * ones slowly. */
#define BY_SIZE(bytes, DO)             \
    switch (bytes) {                   \
    case 1: DO(u8); break;        \
    case 2: DO(u16); break;       \
    case 4: DO(u32); break;       \
    default: DO(u64);             \
    }

static inline uint64_t value_read(const void *from, unsigned bytes) {
#define READ(T)                                   \
    {                                             \
        T value;                                  \
        return memcpy(&value, from, sizeof value), value; \
    }
    BY_SIZE(bytes, READ)
#undef READ
}
static inline void value_write(void *to, unsigned bytes, uint64_t value) {
#define WRITE(T) memcpy(to, &value, sizeof(T))
    BY_SIZE(bytes, WRITE)
#undef WRITE
}
static inline uint64_t lane_get(const struct warp *w, ref r, unsigned bytes, int lane) {
    return value_read(at(w, r) + (size_t)bytes * (unsigned)lane, bytes);
}
static inline void lane_set(const struct warp *w, ref r, unsigned bytes, int lane, uint64_t value) {
    value_write(at(w, r) + (size_t)bytes * (unsigned)lane, bytes, value);
}

static inline uint32_t lane_count(uint32_t lanes) { return lanes == ALL_LANES ? LANES : (uint32_t)__builtin_popcount(lanes); }

/* Go through the lanes of a mask. */
#define EACH_LANE(i, mask) \
    for (uint32_t left_##i = (mask), i = 0; left_##i && (i = (uint32_t)__builtin_ctz(left_##i), 1); left_##i &= left_##i - 1)

/* Report an error at an instruction and stop the launch. Always false. */
bool raise_error(struct warp *w, const struct ins *n, enum ptx_result result, uint64_t address, int lane, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

/* memory.c: slow ways, and everything with state */
bool addresses_check(struct warp *w, const struct ins *n, uint32_t mask, const uint64_t *addresses, unsigned bytes, bool write);
bool parameter_check(struct warp *w, const struct ins *n, uint32_t mask, unsigned bytes, bool write); /* of a named parameter */
bool addresses_of(struct warp *w, const struct ins *n, uint32_t mask, unsigned bytes, bool write, uint64_t *out);

/* schedule.c */
bool warp_whole(const struct warp *w); /* have all its lanes the same place, and can they run? */
void warp_take(struct warp *w); /* run all lanes of such a warp */
bool warp_select(struct warp *w); /* choose the lanes to run; false: none can */
void warp_place(struct warp *w, uint32_t lanes, uint32_t pc); /* where these lanes go on */
void warp_end_lanes(struct warp *w, uint32_t lanes);
/* Does a collective have all lanes it names? Sets *lanes to those that take part; else parks the running ones. */
bool warp_gather(struct warp *w, const struct ins *n, uint32_t mask, uint32_t wanted, uint32_t *lanes);
struct frame *frame_new(struct warp *w, uint32_t code);
void frame_leave(struct warp *w, struct frame *f, uint32_t lanes);
void barrier_recheck(struct block *b);
void blocks_run(struct worker *k);
bool block_init(struct block *b);
bool warp_begin(struct warp *w);
void block_free(struct block *b);

uint64_t host_attribute(int which, uint64_t otherwise);
void host_print(const char *bytes, size_t size);
extern struct ptx_host the_host;

/* check.c: the optional checks of CUDA_AMD_CPU_CHECK */
uint32_t checks_asked(void);
struct checker *checker_new(const struct block *b);
void checker_reset(const struct block *b);
void checker_free(struct checker *c);
bool check_access(struct warp *w, const struct ins *n, uint32_t mask, const uint64_t *addresses, unsigned bytes, bool write);
bool check_barrier(struct warp *w, const struct ins *n, uint32_t mask, uint64_t count);
void checker_begin(const struct block *b);

/* memory that kernels allocate with malloc */
bool heap_add(void *memory, size_t bytes);
void heap_remove(void *memory);
bool heap_contains(uint64_t address, uint64_t *begin, uint64_t *end);

#endif
