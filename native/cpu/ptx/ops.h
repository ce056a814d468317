/* The machinery of the operation tables: one line is one operation on 32 lanes and its row in the table.
 * Included by variant.h, which is compiled once for each kind of processor. */
#include "runtime.h"
#include "floats.h"

#include <math.h>

typedef unsigned __int128 u128 __attribute__((may_alias));
typedef __int128 s128;

#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed" /* loops of calls to libm stay as they are */
#define FOR_LANES _Pragma("clang loop vectorize(assume_safety)") for (int i = 0; i < LANES; i++)
#else
#define FOR_LANES _Pragma("GCC ivdep") for (int i = 0; i < LANES; i++)
#endif

/* Registers lie on multiples of their own size times 32, so of 32 bytes at least. */
#define SOURCES(A, B, C)                                                                              \
    const A *a = __builtin_assume_aligned(a_, 32);                                                    \
    const B *b = __builtin_assume_aligned(b_, 32);                                                    \
    const C *c = __builtin_assume_aligned(c_, 32);                                                    \
    (void)a, (void)b, (void)c, (void)n

#define DEFINE_OP(name, id, signature, D, A, B, C, expression)                                        \
    static void id(void *d_, const void *a_, const void *b_, const void *c_, const struct ins *n) {   \
        D *d = __builtin_assume_aligned(d_, 32);                                                      \
        SOURCES(A, B, C);                                                                             \
        FOR_LANES d[i] = (D)(expression);                                                             \
    }
#define DEFINE_COMPARE(name, id, A, expression)                                                       \
    static uint32_t id(const void *a_, const void *b_, const struct ins *n) {                         \
        const A *a = __builtin_assume_aligned(a_, 32), *b = __builtin_assume_aligned(b_, 32);         \
        uint8_t bits[LANES] __attribute__((aligned(32)));                                             \
        (void)n, (void)b;                                                                             \
        FOR_LANES bits[i] = (uint8_t)(expression);                                                    \
        return pack_bits(bits);                                                                       \
    }
#define ROW_OP(name, id, signature, D, A, B, C, expression) {name, signature, id},
#define ROW_COMPARE(name, id, A, expression) {name, id},
#define SAME_ROW(name, id, signature) {name, signature, id},
#define NOTHING(name, id, signature)

/* 32 bytes of 0 or 1 to a mask. */
static inline uint32_t pack_bits(const uint8_t *bits) {
    uint32_t mask = 0;
    for (int k = 0; k < 4; k++) {
        uint64_t eight;
        memcpy(&eight, bits + 8 * k, 8);
        mask |= (uint32_t)((eight * 0x0102040810204080u) >> 56) << (8 * k);
    }
    return mask;
}
