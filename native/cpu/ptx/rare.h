/* Instructions that need no vector code: handlers and helpers of the loop. */
#ifndef PTX_RARE_H
#define PTX_RARE_H

#include "runtime.h"

typedef bool run_type(struct warp *w, const struct ins *n, uint32_t mask); /* see run_fn */

int rounding_set(int rounding); /* returns what rounding_restore takes */
void rounding_restore(int before);
void result_clamp(void *d, int type, uint32_t flags, uint32_t mask); /* .sat and .relu */

/* convert.c */
run_type run_convert;
uint64_t round_float(int type, bool negative, int exponent, uint64_t mantissa, bool sticky, int rounding, uint32_t flags);
double value_of(int type, uint64_t bits); /* of a floating-point type */
uint64_t bits_of(int type, double value, int rounding, uint32_t flags);

/* control.c */
run_type run_exit, run_return, run_call, run_stack, run_branch_index, run_barrier, run_trap, run_fence, run_yield,
    run_nothing;

/* atomics.c, memory.c */
run_type run_atomic, run_async_copy, run_mbarrier, run_parameter_address, run_local_address, run_shared_generic,
    run_is_space;

/* collectives.c */
run_type run_shuffle, run_vote, run_match, run_reduce, run_active_mask, run_elect, run_warp_sync, run_matrix_load,
    run_matrix_store, run_matrix_transpose, run_mma;

struct mma_shape { /* as large as ins.imm, which holds it */
    uint8_t m, n, bits, a_type, b_type, a_signed : 1, b_signed : 1, kind : 2; /* kind: of one-bit products, 1 xor, 2 and */
    uint16_t k;
};
bool mma_shape_known(const struct mma_shape *s, int accumulate);

/* special.c, video.c, rare.c */
run_type run_special, run_video;
bool run_builtin(struct warp *w, const struct ins *n, uint32_t mask, const struct call *c);
run_type run_insert_field, run_carry, run_predicate_logic, run_set, run_compare_pair, run_pack, run_lop3_predicate;

enum special special_named(struct word w, bool *vector);
enum special special_component(enum special first, uint32_t index); /* x, y, z or w of a vector */
void specials_prepare(struct warp *w); /* when the warp is made */
void specials_renew(struct warp *w); /* when it runs another block */

#endif
