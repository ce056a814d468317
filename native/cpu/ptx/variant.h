/* All that is worth vector instructions, compiled once for each kind of processor; VARIANT names the result. */
#include "bits.h"
#include "ops.h"
#include "rare.h"

#define PAIR_LOOP(name, id, signature, T, count, expression)                                          \
    static void id(void *d_, const void *a_, const void *b_, const void *c_, const struct ins *n) {   \
        T *d = __builtin_assume_aligned(d_, 32);                                                      \
        SOURCES(T, T, T);                                                                             \
        for (int i = 0; i < count * LANES; i++) d[i] = (T)(expression);                               \
    }

#define OP DEFINE_OP
#define ALIAS NOTHING
#define COMPARE DEFINE_COMPARE
#define PAIR_OP(name, id, signature, expression) PAIR_LOOP(name, id, signature, u16, 2, expression)
#define TWIN_OP(name, id, signature, expression) PAIR_LOOP(name, id, signature, f32, 2, expression)
#include "ops_int.h"
#include "ops_float.h"
#include "ops_convert.h"
#undef OP
#undef ALIAS
#undef COMPARE
#undef PAIR_OP
#undef TWIN_OP

#include "interpret.h"

#define OP ROW_OP
#define ALIAS SAME_ROW
#define COMPARE(name, id, A, expression)
#define PAIR_OP(name, id, signature, expression) {name, signature, id},
#define TWIN_OP PAIR_OP
static const struct vec_op VEC_OPS[] = {
#include "ops_int.h"
#include "ops_float.h"
#include "ops_convert.h"
};
#undef OP
#undef ALIAS
#undef COMPARE
#undef PAIR_OP
#undef TWIN_OP

#define OP(name, id, signature, D, A, B, C, expression)
#define ALIAS(name, id, signature)
#define COMPARE ROW_COMPARE
#define PAIR_OP(name, id, signature, expression)
#define TWIN_OP PAIR_OP
static const struct compare_op COMPARE_OPS[] = {
#include "ops_int.h"
#include "ops_float.h"
#include "ops_convert.h"
};

const struct operations VARIANT = {
    VEC_OPS, COMPARE_OPS, sizeof VEC_OPS / sizeof *VEC_OPS, sizeof COMPARE_OPS / sizeof *COMPARE_OPS, interpret, shuffle,
};
