/* One general matrix product, whatever call asked for it: C = alpha * op(A) * op(B) + beta * C,
 * column-major. */
#ifndef CPU_GEMM_H
#define CPU_GEMM_H

#include "blas.h"

typedef enum { F32, F64, F16, BF16, TYPE_UNKNOWN } Type;

size_t type_size(Type type);

typedef struct {
    const void *data;
    Type type;
    bool transposed;
    int64_t rows, columns; /* as it lies in memory */
    int64_t ld, stride; /* in elements; `stride` from one matrix of a batch to the next */
} Input;

typedef struct {
    int64_t m, n, k, batch;
    Input a, b;
    void *c;
    Type c_type;
    int64_t ldc, stride_c;
    double alpha, beta;
} Gemm;

/* Arguments have been checked. Every C element is right even if C overlaps A or B: inputs are as they
 * were before the call. With beta == 0 C is never read; with alpha == 0 or k == 0, A and B are not. */
Status gemm_run(const Gemm *gemm);

/* The blocked products, one matrix each, C apart from A and B. Row and column steps express transposition. */
typedef struct {
    int64_t m, n, k;
    const void *a, *b;
    int64_t a_row, a_column, b_row, b_column;
    void *c;
    int64_t ldc;
    double alpha, beta;
} Product;

Status product_f32(const Product *product);
Status product_f64(const Product *product);

#endif
