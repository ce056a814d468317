/* Instructions that need no vector code: handlers and helpers of the loop. */
#ifndef PTX_RARE_H
#define PTX_RARE_H

#include "runtime.h"

int rounding_set(int rounding); /* returns what rounding_restore takes */
void rounding_restore(int before);
void result_clamp(void *d, int type, uint32_t flags, uint32_t mask); /* .sat and .relu */

/* convert.c */
bool run_convert(struct warp *w, const struct ins *n, uint32_t mask);
uint64_t round_float(int type, bool negative, int exponent, uint64_t mantissa, bool sticky, int rounding, uint32_t flags);
double value_of(int type, uint64_t bits); /* of a floating-point type */
uint64_t bits_of(int type, double value, int rounding, uint32_t flags);

/* control.c */
bool run_exit(struct warp *w, const struct ins *n, uint32_t mask);
bool run_return(struct warp *w, const struct ins *n, uint32_t mask);
bool run_call(struct warp *w, const struct ins *n, uint32_t mask);
bool run_stack(struct warp *w, const struct ins *n, uint32_t mask);
bool run_branch_index(struct warp *w, const struct ins *n, uint32_t mask);
bool run_barrier(struct warp *w, const struct ins *n, uint32_t mask);
bool run_trap(struct warp *w, const struct ins *n, uint32_t mask);
bool run_fence(struct warp *w, const struct ins *n, uint32_t mask);
bool run_yield(struct warp *w, const struct ins *n, uint32_t mask);
bool run_nothing(struct warp *w, const struct ins *n, uint32_t mask);
bool run_unsupported(struct warp *w, const struct ins *n, uint32_t mask);

/* atomics.c, memory.c */
bool run_atomic(struct warp *w, const struct ins *n, uint32_t mask);
bool run_async_copy(struct warp *w, const struct ins *n, uint32_t mask);
bool run_mbarrier(struct warp *w, const struct ins *n, uint32_t mask);
bool run_parameter_address(struct warp *w, const struct ins *n, uint32_t mask);
bool run_local_address(struct warp *w, const struct ins *n, uint32_t mask);
bool run_shared_generic(struct warp *w, const struct ins *n, uint32_t mask);
bool run_is_space(struct warp *w, const struct ins *n, uint32_t mask);

/* collectives.c */
bool run_shuffle(struct warp *w, const struct ins *n, uint32_t mask);
bool run_vote(struct warp *w, const struct ins *n, uint32_t mask);
bool run_match(struct warp *w, const struct ins *n, uint32_t mask);
bool run_reduce(struct warp *w, const struct ins *n, uint32_t mask);
bool run_active_mask(struct warp *w, const struct ins *n, uint32_t mask);
bool run_elect(struct warp *w, const struct ins *n, uint32_t mask);
bool run_warp_sync(struct warp *w, const struct ins *n, uint32_t mask);
bool run_matrix_load(struct warp *w, const struct ins *n, uint32_t mask);
bool run_matrix_store(struct warp *w, const struct ins *n, uint32_t mask);
bool run_matrix_transpose(struct warp *w, const struct ins *n, uint32_t mask);
bool run_mma(struct warp *w, const struct ins *n, uint32_t mask);

struct mma_shape {
    uint32_t m, n, k, bits, a_type, b_type, a_signed, b_signed, kind; /* kind: of one-bit products, 1 xor, 2 and */
};
bool mma_shape_known(const struct mma_shape *s, int accumulate);

/* special.c, video.c, rare.c */
bool run_special(struct warp *w, const struct ins *n, uint32_t mask);
bool run_video(struct warp *w, const struct ins *n, uint32_t mask);
bool run_builtin(struct warp *w, const struct ins *n, uint32_t mask, const struct call *c);
bool run_insert_field(struct warp *w, const struct ins *n, uint32_t mask);
bool run_carry(struct warp *w, const struct ins *n, uint32_t mask);
bool run_predicate_logic(struct warp *w, const struct ins *n, uint32_t mask);
bool run_set(struct warp *w, const struct ins *n, uint32_t mask);
bool run_compare_pair(struct warp *w, const struct ins *n, uint32_t mask);
bool run_pack(struct warp *w, const struct ins *n, uint32_t mask);
bool run_lop3_predicate(struct warp *w, const struct ins *n, uint32_t mask);

enum special {
    SPECIAL_NONE, S_TID_X, S_TID_Y, S_TID_Z, S_NTID_X, S_NTID_Y, S_NTID_Z, S_CTAID_X, S_CTAID_Y, S_CTAID_Z, S_NCTAID_X,
    S_NCTAID_Y, S_NCTAID_Z, S_LANEID, S_WARPID, S_NWARPID, S_SMID, S_NSMID, S_GRIDID, S_CLOCK, S_CLOCK_HI, S_CLOCK64,
    S_GLOBALTIMER, S_GLOBALTIMER_LO, S_GLOBALTIMER_HI, S_LANEMASK_EQ, S_LANEMASK_LT, S_LANEMASK_LE, S_LANEMASK_GT,
    S_LANEMASK_GE, S_WARP_SZ, S_ZERO, S_ONE, S_DYNAMIC_SHARED, S_TOTAL_SHARED, S_GRID_LOW, S_GRID_HIGH, S_COUNT
};
enum special special_named(struct word w, bool *vector);
enum special special_component(enum special first, uint32_t index); /* x, y, z or w of a vector */

#endif
