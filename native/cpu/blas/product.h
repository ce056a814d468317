/* Everything for one type: micro-kernels, the choice between them, the blocked product.
 * Include with REAL and PRODUCT (function name) defined.
 * Loop order and packing after Goto and van de Geijn (2008): B's panel stays in the last-level cache,
 * A's block in the second level, and the micro-kernel streams both. */
#include "cpu.h"
#include "gemm.h"

typedef struct {
    int mr, nr;
    void (*run)(int64_t k, const REAL *restrict a, const REAL *restrict b, REAL *restrict tile);
} Kernel;

#define VECTORS 2

/* 16-byte vectors: SSE2 and NEON, which every 64-bit processor has. */
#define KERNEL kernel_any
#define LANES (16 / (int)sizeof(REAL))
#define NR 4
#define TARGET
#include "kernel.h"
#undef KERNEL
#undef LANES
#undef NR
#undef TARGET

/* 32-byte vectors: 12 sums, 2 of A and 1 of B fill the 16 registers. */
#ifdef HAVE_AVX2_KERNELS
#define KERNEL kernel_avx2
#define LANES (32 / (int)sizeof(REAL))
#define NR 6
#define TARGET TARGET_AVX2
#include "kernel.h"
#undef KERNEL
#undef LANES
#undef NR
#undef TARGET
#endif

static Kernel choose_kernel(void) {
#ifdef HAVE_AVX2_KERNELS
    if (cpu_has_avx2()) return (Kernel){VECTORS * 32 / (int)sizeof(REAL), 6, kernel_avx2};
#endif
    return (Kernel){VECTORS * 16 / (int)sizeof(REAL), 4, kernel_any};
}

enum { DEPTH = 256, ROWS = 192, COLUMNS = 2040 }; /* k, m and n of one block; multiples of every kernel's tile */
enum { TILE_MAX = 128 };

/* Copy `count` lines of `k` values into panels of `width` lines, filled up with zeros. */
static void pack(REAL *restrict to, const REAL *from, int64_t count, int64_t k, int64_t line, int64_t step, int width) {
    for (int64_t first = 0; first < count; first += width) {
        int64_t lines = count - first < width ? count - first : width;
        const REAL *panel = from + first * line;
        for (int64_t p = 0; p < k; p++, to += width) {
            for (int64_t i = 0; i < lines; i++) to[i] = panel[i * line + p * step];
            for (int64_t i = lines; i < width; i++) to[i] = 0;
        }
    }
}

static void store(REAL *restrict c, int64_t ldc, const REAL *restrict tile, int mr, int64_t rows, int64_t columns,
                  REAL alpha, REAL beta) {
    for (int64_t j = 0; j < columns; j++)
        for (int64_t i = 0; i < rows; i++) {
            REAL value = alpha * tile[j * mr + i];
            c[j * ldc + i] = beta == 0 ? value : value + beta * c[j * ldc + i];
        }
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t up_to_multiple(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

/* One block of A times one panel of B, both packed. */
static void block(const Kernel *kernel, const REAL *a, const REAL *b, int64_t m, int64_t n, int64_t k, REAL *c,
                  int64_t ldc, REAL alpha, REAL beta) {
    REAL tile[TILE_MAX];
    for (int64_t j = 0; j < n; j += kernel->nr)
        for (int64_t i = 0; i < m; i += kernel->mr) {
            kernel->run(k, a + i * k, b + j * k, tile);
            store(c + i + j * ldc, ldc, tile, kernel->mr, least(kernel->mr, m - i), least(kernel->nr, n - j), alpha,
                  beta);
        }
}

Status PRODUCT(const Product *g) {
    Kernel kernel = choose_kernel();
    int64_t depth = least(g->k, DEPTH), rows = up_to_multiple(least(g->m, ROWS), kernel.mr);
    int64_t columns = up_to_multiple(least(g->n, COLUMNS), kernel.nr);
    REAL *packed = host_aligned_alloc((size_t)((rows + columns) * depth) * sizeof(REAL));
    if (!packed) return CUBLAS_STATUS_ALLOC_FAILED;
    REAL *packed_b = packed + rows * depth;
    const REAL *a = g->a, *b = g->b;
    for (int64_t j = 0; j < g->n; j += COLUMNS)
        for (int64_t p = 0; p < g->k; p += DEPTH) {
            int64_t n = least(COLUMNS, g->n - j), k = least(DEPTH, g->k - p);
            REAL beta = p == 0 ? (REAL)g->beta : 1;
            pack(packed_b, b + p * g->b_row + j * g->b_column, n, k, g->b_column, g->b_row, kernel.nr);
            for (int64_t i = 0; i < g->m; i += ROWS) {
                int64_t m = least(ROWS, g->m - i);
                pack(packed, a + i * g->a_row + p * g->a_column, m, k, g->a_row, g->a_column, kernel.mr);
                block(&kernel, packed, packed_b, m, n, k, (REAL *)g->c + i + j * g->ldc, g->ldc, (REAL)g->alpha, beta);
            }
        }
    host_aligned_free(packed);
    return CUBLAS_STATUS_SUCCESS;
}
