/* A decoded kernel: one array of instructions for the kernel and every function it can reach. */
#ifndef PTX_PROGRAM_H
#define PTX_PROGRAM_H

#include "ptx.h"
#include "text.h"

enum { LANES = 32, SINK_BYTES = 512 /* the first bytes of a frame's registers: where `_` goes */ };

enum type {
    T_NONE, T_PRED, T_B8, T_U8, T_S8, T_B16, T_U16, T_S16, T_F16, T_BF16, T_B32, T_U32, T_S32, T_F32, T_F16X2, T_BF16X2,
    T_U16X2, T_S16X2, T_TF32, T_B64, T_U64, T_S64, T_F64, T_F32X2, T_B128, T_E4M3, T_E5M2, T_E4M3X2, T_E5M2X2,
    T_E4M3X4, T_E5M2X4, T_COUNT
};
struct type_info {
    const char *name;
    uint8_t bytes;
    char kind; /* b, u, s, f, p; h for what is no plain number */
    uint8_t fraction, exponent; /* bits of a floating-point type */
    uint8_t element;            /* the type of a pair's halves */
};
extern const struct type_info TYPES[T_COUNT];
enum type type_named(struct word w);

enum space { SPACE_GENERIC, SPACE_GLOBAL, SPACE_CONST, SPACE_PARAM, SPACE_SHARED, SPACE_LOCAL, SPACE_REG };

enum rounding { ROUND_NEAREST, ROUND_ZERO, ROUND_DOWN, ROUND_UP, ROUND_AWAY /* ties away from zero */ };

enum flag {
    F_FTZ = 1, F_SAT = 2, F_RELU = 4, F_INTEGRAL = 8 /* cvt.rni and its kin */, F_ABS = 16, F_NAN = 32, F_CARRY_IN = 64,
    F_CARRY_OUT = 128, F_RETURNS = 256 /* atom, not red */, F_TRANS = 512, F_VOLATILE = 1024, F_FENCE = 2048, F_NEGATE = 4096,
    F_SATFINITE = 8192, F_POLL = 16384 /* may be a wait for another thread */,
    F_ORDERED = F_VOLATILE | F_FENCE | F_POLL
};

/* What the loop does itself; everything else is a call of `run`. */
enum kind { 
    K_VEC, K_VEC_ROUNDED, K_COMPARE, K_SELECT, K_LOAD, K_LOAD_PLAIN /* one value a lane, as wide as its register, not ordered */,
    K_STORE, K_STORE_PLAIN, K_BRANCH, K_SPECIAL /* one of the registers that lie ready in each warp */, K_RUN,
};

/* How a memory instruction forms its address; ins.mode. imm is added. */
enum { SHARED_REG32 = 1, ABSOLUTE, FROM_REG64, FROM_REG32, FROM_FRAME };

/* An operand: the byte offset of a register, or with REF_CONST of a constant; REF_NOT on a negated predicate.
 * A register is 32 values side by side; a predicate is one word of 32 bits. */
typedef uint32_t ref;
enum { REF_CONST = 1, REF_NOT = 2, REF_BITS = 3 };

struct ins;
struct warp;
typedef void (*vec_fn)(void *d, const void *a, const void *b, const void *c, const struct ins *n);
typedef uint32_t (*compare_fn)(const void *a, const void *b, const struct ins *n);
/* Returns whether the warp goes on with the next instruction; else it looks again at what its lanes do. */
typedef bool (*run_fn)(struct warp *w, const struct ins *n, uint32_t mask);

struct ins {
    uint8_t kind, space, bytes /* of one value in memory */, count /* of a vector, of a list */;
    uint8_t type, from, mode, rounding;
    ref guard; /* 0: always */
    ref d, a, b, c;
    ref e; /* a fourth source, a second destination */
    uint32_t target, flags;
    int64_t imm;
    union {
        vec_fn vec;
        compare_fn compare;
        run_fn run;
    };
    uint32_t list; /* more operands, in program.refs */
    uint32_t line;
};

/* A value handed over by a call: where it lies on one side. */
struct place {
    uint8_t space; /* SPACE_REG or SPACE_LOCAL */
    uint16_t bytes;
    uint32_t at; /* ref, or offset in the frame's local memory */
};

struct code {
    struct function *function;
    uint32_t entry, register_bytes, local_bytes;
    struct place *formals; /* results, then arguments */
    uint32_t results, arguments;
    struct {
        uint32_t at, bytes; /* 0 bytes: a predicate */
    } *registers;
    uint32_t register_count, register_room;
};

enum builtin { BUILTIN_NONE, BUILTIN_PRINT, BUILTIN_ASSERT, BUILTIN_MALLOC, BUILTIN_FREE };

struct call {
    uint32_t code, caller; /* indices in program.codes */
    ref indirect;  /* instead of it: a register that holds a function's address */
    uint8_t builtin;
    uint32_t results, arguments;
    struct place *actuals; /* results, then arguments */
};

struct program {
    struct ins *ins;
    uint32_t size, room;
    uint8_t *constants; /* 32 copies each */
    uint32_t constant_bytes, constant_room;
    uint32_t *refs;
    uint32_t ref_count, ref_room;
    struct code *codes;
    uint32_t code_count, code_room;
    struct call *calls;
    uint32_t call_count, call_room;
    uint32_t shared_bytes;      /* static */
    uint32_t local_bytes;       /* of a thread, for the deepest chain of calls */
    bool recursive;             /* or unknown: the stack has a fixed size then */
    bool has_dynamic_shared;
    uint32_t dynamic_at; /* where dynamic shared memory begins */
};

/* Decode a kernel and what it calls. On failure *error says what and in which line. */
enum ptx_result program_decode(struct function *f, struct program **out, struct ptx_error *error);
void program_free(struct program *p);
/* Do threads have memory of their own, or calls that hand it on? */
static inline bool program_has_stack(const struct program *p) { return p->local_bytes || p->recursive || p->code_count > 1; }
void program_measure(struct program *p); /* the local memory of the deepest chain of calls */

/* The operations on 32 lanes, found by their canonical name. `signature` has a letter for the destination and each
 * source: h, w, l, q for 2, 4, 8, 16 bytes, f and d for float and double, p for a predicate. */
struct vec_op {
    const char *name, *signature;
    vec_fn run;
};
struct compare_op {
    const char *name;
    compare_fn run;
};
/* What is computed by an operation on singles: f16, bf16, f32 or f32x2 with .ftz, f32x2 without. */
enum singles { SINGLES_HALF, SINGLES_BRAIN, SINGLES_FLUSHED, SINGLES_PLAIN, SINGLES_COUNT };
struct operations {
    const struct vec_op *vec;
    const struct compare_op *compare;
    size_t vec_count, compare_count;
    vec_fn by_singles[SINGLES_COUNT]; /* run operation ins.imm on singles */
    compare_fn compare_by_singles[SINGLES_COUNT];
    void (*interpret)(struct warp **warps, unsigned count);
    uint32_t (*shuffle)(void *d, const void *a, const void *b, const void *c, int mode); /* of all lanes; returns which are inside */
};
extern const struct operations OPERATIONS_BASE;
#if defined(__x86_64__)
#define PTX_HAS_AVX2 1
extern const struct operations OPERATIONS_AVX2;
#endif
const struct operations *operations(void); /* the variant this processor runs */
const struct vec_op *vec_named(const char *name);
const struct compare_op *compare_named(const char *name);
enum singles singles_of(enum type type, uint32_t flags); /* SINGLES_COUNT: it has operations of its own */
compare_fn compare_of(enum type type, const struct ins *n); /* compares values of a type by the operation ins.imm */
bool type_is_float(enum type type);
bool type_is_brain(enum type type); /* bf16 or two of them */

#endif
