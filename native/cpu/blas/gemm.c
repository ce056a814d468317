/* From any product to the two that are blocked: overlaps, 16-bit types, the cases without A and B. */
#include "gemm.h"
#include "half.h"

size_t type_size(Type type) { return type == F64 ? 8 : type == F32 ? 4 : 2; }

/* ---- overlap ---- */

typedef struct {
    const char *low, *high;
} Extent;

static Extent extent(const void *data, Type type, int64_t rows, int64_t columns, int64_t ld, int64_t stride,
                     int64_t batch) {
    int64_t reach = (batch - 1) * stride, one = (columns - 1) * ld + rows, size = (int64_t)type_size(type);
    int64_t low = reach < 0 ? reach : 0, high = (reach > 0 ? reach : 0) + one;
    return (Extent){(const char *)data + low * size, (const char *)data + high * size};
}

/* If the input shares memory with C, give it a copy of its own; *copy is to be freed. */
static Status set_apart(const Gemm *g, Input *input, void **copy) {
    Extent from = extent(input->data, input->type, input->rows, input->columns, input->ld, input->stride, g->batch);
    Extent to = extent(g->c, g->c_type, g->m, g->n, g->ldc, g->stride_c, g->batch);
    if (from.high <= to.low || to.high <= from.low) return CUBLAS_STATUS_SUCCESS;
    size_t bytes = (size_t)(from.high - from.low);
    *copy = host_aligned_alloc(bytes);
    if (!*copy) return CUBLAS_STATUS_ALLOC_FAILED;
    memcpy(*copy, from.low, bytes);
    input->data = (char *)*copy + ((const char *)input->data - from.low);
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- one matrix of each ---- */

static float read16(const uint16_t *from, Type type) {
    return type == F16 ? half_to_float(*from) : bf16_to_float(*from);
}

/* C = beta * C, without reading C when beta is 0. */
static void scale(void *c, Type type, int64_t m, int64_t n, int64_t ldc, double beta) {
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < m; i++) {
            int64_t at = i + j * ldc;
            if (type == F64) ((double *)c)[at] = beta == 0 ? 0 : beta * ((double *)c)[at];
            else if (type == F32) ((float *)c)[at] = beta == 0 ? 0 : (float)beta * ((float *)c)[at];
            else {
                uint16_t *cell = (uint16_t *)c + at;
                float value = beta == 0 ? 0 : (float)beta * read16(cell, type);
                *cell = type == F16 ? float_to_half(value) : float_to_bf16(value);
            }
        }
}

static void widen(float *to, const uint16_t *from, Type type, int64_t rows, int64_t columns, int64_t ld) {
    for (int64_t j = 0; j < columns; j++)
        for (int64_t i = 0; i < rows; i++) to[i + j * rows] = read16(from + i + j * ld, type);
}

static void narrow(uint16_t *to, const float *from, Type type, int64_t rows, int64_t columns, int64_t ld) {
    for (int64_t j = 0; j < columns; j++)
        for (int64_t i = 0; i < rows; i++)
            to[i + j * ld] = type == F16 ? float_to_half(from[i + j * rows]) : float_to_bf16(from[i + j * rows]);
}

static Product plain(const Gemm *g) {
    return (Product){
        .m = g->m, .n = g->n, .k = g->k, .a = g->a.data, .b = g->b.data,
        .a_row = g->a.transposed ? g->a.ld : 1, .a_column = g->a.transposed ? 1 : g->a.ld,
        .b_row = g->b.transposed ? g->b.ld : 1, .b_column = g->b.transposed ? 1 : g->b.ld,
        .c = g->c, .ldc = g->ldc, .alpha = g->alpha, .beta = g->beta,
    };
}

/* 16-bit inputs: widened to float, multiplied there, and rounded once at the end if C is 16 bits wide. */
static Status widened(const Gemm *g) {
    const Input *a = &g->a, *b = &g->b;
    bool narrow_c = g->c_type != F32;
    size_t a_count = (size_t)(a->rows * a->columns), b_count = (size_t)(b->rows * b->columns);
    size_t c_count = narrow_c ? (size_t)(g->m * g->n) : 0;
    float *wide = host_aligned_alloc((a_count + b_count + c_count) * sizeof(float));
    if (!wide) return CUBLAS_STATUS_ALLOC_FAILED;
    float *wide_b = wide + a_count, *wide_c = wide_b + b_count;
    widen(wide, a->data, a->type, a->rows, a->columns, a->ld);
    widen(wide_b, b->data, b->type, b->rows, b->columns, b->ld);
    if (narrow_c && g->beta != 0) widen(wide_c, g->c, g->c_type, g->m, g->n, g->ldc);
    Gemm inner = *g;
    inner.a.data = wide, inner.a.ld = a->rows, inner.b.data = wide_b, inner.b.ld = b->rows;
    if (narrow_c) inner.c = wide_c, inner.ldc = g->m;
    Product product = plain(&inner);
    Status status = product_f32(&product);
    if (!status && narrow_c) narrow(g->c, wide_c, g->c_type, g->m, g->n, g->ldc);
    host_aligned_free(wide);
    return status;
}

static Status one(const Gemm *g) {
    if (g->k == 0 || g->alpha == 0) {
        if (g->beta != 1) scale(g->c, g->c_type, g->m, g->n, g->ldc, g->beta);
        return CUBLAS_STATUS_SUCCESS;
    }
    if (g->a.type == F16 || g->a.type == BF16) return widened(g);
    Product product = plain(g);
    return g->a.type == F64 ? product_f64(&product) : product_f32(&product);
}

static Status each(Gemm g) {
    Status status = CUBLAS_STATUS_SUCCESS;
    for (int64_t i = 0; i < g.batch && !status; i++) {
        status = one(&g);
        g.a.data = (const char *)g.a.data + g.a.stride * (int64_t)type_size(g.a.type);
        g.b.data = (const char *)g.b.data + g.b.stride * (int64_t)type_size(g.b.type);
        g.c = (char *)g.c + g.stride_c * (int64_t)type_size(g.c_type);
    }
    return status;
}

/* CUDA_AMD_CPU_FAULT=wrong: one element, off by more than any tolerance, and no error. */
static void spoil(const Gemm *g) {
    if (g->c_type == F64) *(double *)g->c += 1 + 0.5 * *(double *)g->c;
    else if (g->c_type == F32) *(float *)g->c += 1 + 0.5f * *(float *)g->c;
    else *(uint16_t *)g->c ^= 0x0700;
}

Status gemm_run(const Gemm *gemm) {
    if (fault_active() == FAULT_HANG_GEMM) fault_hang();
    if (gemm->m == 0 || gemm->n == 0 || gemm->batch == 0) return CUBLAS_STATUS_SUCCESS;
    Gemm g = *gemm;
    void *copy_a = NULL, *copy_b = NULL;
    bool inputs_matter = g.k != 0 && g.alpha != 0;
    Status status = inputs_matter ? set_apart(gemm, &g.a, &copy_a) : CUBLAS_STATUS_SUCCESS;
    if (!status && inputs_matter) status = set_apart(gemm, &g.b, &copy_b);
    if (!status) status = each(g);
    if (!status && fault_active() == FAULT_WRONG) spoil(gemm);
    host_aligned_free(copy_a);
    host_aligned_free(copy_b);
    return status;
}
