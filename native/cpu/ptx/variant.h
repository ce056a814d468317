/* All that is worth vector instructions, compiled once for each kind of processor; VARIANT names the result. */
#include "bits.h"
#include "ops.h"
#include "rare.h"

#define OP DEFINE_OP
#define ALIAS NOTHING
#define COMPARE DEFINE_COMPARE
#include "ops_int.h"
#include "ops_float.h"
#include "ops_convert.h"
#undef OP
#undef ALIAS
#undef COMPARE

#include "interpret.h"

#define OP ROW_OP
#define ALIAS SAME_ROW
#define COMPARE(name, id, A, expression)
static const struct vec_op VEC_OPS[] = {
#include "ops_int.h"
#include "ops_float.h"
#include "ops_convert.h"
};
#undef OP
#undef ALIAS
#undef COMPARE

#define OP(name, id, signature, D, A, B, C, expression)
#define ALIAS(name, id, signature)
#define COMPARE ROW_COMPARE
static const struct compare_op COMPARE_OPS[] = {
#include "ops_int.h"
#include "ops_float.h"
#include "ops_convert.h"
};

#include "singles.h"

const struct operations VARIANT = {
    VEC_OPS, COMPARE_OPS, sizeof VEC_OPS / sizeof *VEC_OPS, sizeof COMPARE_OPS / sizeof *COMPARE_OPS,
    {run_half, run_brain, run_flushed, run_plain}, {compare_half, compare_brain, compare_flushed, compare_plain}, interpret, shuffle,
};
