/* One micro-kernel: tile[MR x NR] = sum over p of a[p] (MR values) times b[p] (NR values), both packed.
 * Include with KERNEL (name), REAL, LANES, VECTORS (MR = LANES * VECTORS), NR and TARGET defined. */

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define VECTOR JOIN(KERNEL, _vector)

/* Element alignment only: buffers need none, and Windows compilers misplace wider spills. */
typedef REAL VECTOR __attribute__((vector_size(LANES * sizeof(REAL)), aligned(sizeof(REAL)), may_alias));

TARGET static void KERNEL(int64_t k, const REAL *restrict a, const REAL *restrict b, REAL *restrict tile) {
    VECTOR sum[NR][VECTORS] = {{{0}}};
    for (int64_t p = 0; p < k; p++, a += LANES * VECTORS, b += NR)
        for (int j = 0; j < NR; j++)
            for (int v = 0; v < VECTORS; v++) sum[j][v] += ((const VECTOR *)a)[v] * b[j];
    for (int j = 0; j < NR; j++)
        for (int v = 0; v < VECTORS; v++) ((VECTOR *)tile)[j * VECTORS + v] = sum[j][v];
}

#undef JOIN_
#undef JOIN
#undef VECTOR
