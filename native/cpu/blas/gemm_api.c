/* The cuBLAS calls for matrix products: read the arguments, refuse what cuBLAS refuses, run. */
#include "gemm.h"
#include "half.h"

enum { OP_N, OP_T, OP_C }; /* cublasOperation_t; for real matrices C is T */

/* Everything a call can say. Pointers are arrays of pointers when `arrays` is set. */
typedef struct {
    Handle *handle;
    int op_a, op_b;
    int64_t m, n, k;
    const void *alpha, *a, *b, *beta;
    void *c;
    int64_t lda, ldb, ldc, stride_a, stride_b, stride_c, batch;
    Type a_type, b_type, c_type, compute;
    bool arrays;
} Call;

/* cudaDataType_t */
static Type data_type(int number) {
    switch (number) {
    case 0: return F32;
    case 1: return F64;
    case 2: return F16;
    case 14: return BF16;
    default: return TYPE_UNKNOWN;
    }
}

/* cublasComputeType_t; the "fast" ones allow less precision and get more. */
static Type compute_type(int number) {
    switch (number) {
    case 64: case 65: return F16;
    case 68: case 69: case 74: case 75: case 77: return F32;
    case 70: case 71: return F64;
    default: return TYPE_UNKNOWN;
    }
}

/* The combinations of the GemmEx table that we compute. */
static bool supported(const Call *call) {
    Type in = call->a_type, out = call->c_type;
    if (in != call->b_type) return false;
    switch (call->compute) {
    case F64: return in == F64 && out == F64;
    case F16: return in == F16 && out == F16;
    case F32: return (in == F32 && out == F32) || ((in == F16 || in == BF16) && (out == in || out == F32));
    default: return false;
    }
}

static bool valid_op(int op) { return op >= OP_N && op <= OP_C; }
static int64_t at_least_one(int64_t rows) { return rows > 1 ? rows : 1; }

static Status check(const Call *call) {
    if (need_handle(call->handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!valid_op(call->op_a) || !valid_op(call->op_b)) return CUBLAS_STATUS_INVALID_VALUE;
    if (call->m < 0 || call->n < 0 || call->k < 0 || call->batch < 0) return CUBLAS_STATUS_INVALID_VALUE;
    if (call->lda < at_least_one(call->op_a == OP_N ? call->m : call->k)) return CUBLAS_STATUS_INVALID_VALUE;
    if (call->ldb < at_least_one(call->op_b == OP_N ? call->k : call->n)) return CUBLAS_STATUS_INVALID_VALUE;
    if (call->ldc < at_least_one(call->m)) return CUBLAS_STATUS_INVALID_VALUE;
    if (!supported(call)) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (!call->alpha || !call->beta) return CUBLAS_STATUS_INVALID_VALUE;
    return CUBLAS_STATUS_SUCCESS;
}

static double scalar(const void *at, Type type) {
    if (type == F64) return *(const double *)at;
    return type == F32 ? *(const float *)at : half_to_float(*(const uint16_t *)at);
}

static Status run_one(const Call *call, Gemm *g, const void *a, const void *b, void *c) {
    bool inputs_matter = g->k != 0 && g->alpha != 0;
    if (!c || (inputs_matter && (!a || !b))) return CUBLAS_STATUS_INVALID_VALUE;
    bool across_a = call->op_a != OP_N, across_b = call->op_b != OP_N;
    g->a = (Input){a, call->a_type, across_a, across_a ? g->k : g->m, across_a ? g->m : g->k, call->lda, call->stride_a};
    g->b = (Input){b, call->b_type, across_b, across_b ? g->n : g->k, across_b ? g->k : g->n, call->ldb, call->stride_b};
    g->c = c;
    return gemm_run(g);
}

/* Device memory is host memory, so both pointer modes read alpha and beta the same way. */
static Status run(Call call) {
    Status status = check(&call);
    if (status || call.m == 0 || call.n == 0 || call.batch == 0) return status;
    if ((status = wait_for_handle(call.handle))) return status;
    Gemm g = {
        .m = call.m, .n = call.n, .k = call.k, .batch = call.arrays ? 1 : call.batch, .c_type = call.c_type,
        .ldc = call.ldc, .stride_c = call.stride_c, .alpha = scalar(call.alpha, call.compute),
        .beta = scalar(call.beta, call.compute),
    };
    if (!call.arrays) return run_one(&call, &g, call.a, call.b, call.c);
    if (!call.a || !call.b || !call.c) return CUBLAS_STATUS_INVALID_VALUE;
    const void *const *a = call.a, *const *b = call.b;
    void *const *c = call.c;
    for (int64_t i = 0; i < call.batch && !status; i++) status = run_one(&call, &g, a[i], b[i], c[i]);
    return status;
}

#define COMMON                                                                                       \
    .handle = handle, .op_a = op_a, .op_b = op_b, .m = m, .n = n, .k = k, .alpha = alpha, .a = a, .lda = lda, \
    .b = b, .ldb = ldb, .beta = beta, .c = (void *)(uintptr_t)c, .ldc = ldc
#define ONE_TYPE(type) .a_type = type, .b_type = type, .c_type = type, .compute = type
#define THREE_TYPES .a_type = data_type(a_type), .b_type = data_type(b_type), .c_type = data_type(c_type)
#define HEAD(Int) Handle *handle, int op_a, int op_b, Int m, Int n, Int k

#define TYPED(Int, suffix, letter, Real, type)                                                             \
    EXPORT Status cublas##letter##suffix(HEAD(Int), const Real *alpha, const Real *a, Int lda, const Real *b, \
                                         Int ldb, const Real *beta, Real *c, Int ldc) {                    \
        return run((Call){COMMON, ONE_TYPE(type), .batch = 1});                                            \
    }
#define TYPED_BATCHES(Int, suffix, letter, Real, type)                                                     \
    EXPORT Status cublas##letter##gemmStridedBatched##suffix(                                              \
        HEAD(Int), const Real *alpha, const Real *a, Int lda, long long stride_a, const Real *b, Int ldb,  \
        long long stride_b, const Real *beta, Real *c, Int ldc, long long stride_c, Int batch) {           \
        return run((Call){COMMON, ONE_TYPE(type), .stride_a = stride_a, .stride_b = stride_b,              \
                          .stride_c = stride_c, .batch = batch});                                          \
    }                                                                                                      \
    EXPORT Status cublas##letter##gemmBatched##suffix(HEAD(Int), const Real *alpha, const Real *const *a,  \
                                                      Int lda, const Real *const *b, Int ldb,              \
                                                      const Real *beta, Real *const *c, Int ldc, Int batch) { \
        return run((Call){COMMON, ONE_TYPE(type), .batch = batch, .arrays = true});                        \
    }

#define EXTENDED(Int, suffix)                                                                              \
    EXPORT Status cublasSgemmEx##suffix(HEAD(Int), const float *alpha, const void *a, int a_type, Int lda, \
                                        const void *b, int b_type, Int ldb, const float *beta, void *c,    \
                                        int c_type, Int ldc) {                                             \
        return run((Call){COMMON, THREE_TYPES, .compute = F32, .batch = 1});                               \
    }                                                                                                      \
    EXPORT Status cublasGemmEx##suffix(HEAD(Int), const void *alpha, const void *a, int a_type, Int lda,   \
                                       const void *b, int b_type, Int ldb, const void *beta, void *c,      \
                                       int c_type, Int ldc, int compute, int algorithm) {                  \
        (void)algorithm;                                                                                   \
        return run((Call){COMMON, THREE_TYPES, .compute = compute_type(compute), .batch = 1});             \
    }                                                                                                      \
    EXPORT Status cublasGemmStridedBatchedEx##suffix(                                                      \
        HEAD(Int), const void *alpha, const void *a, int a_type, Int lda, long long stride_a, const void *b, \
        int b_type, Int ldb, long long stride_b, const void *beta, void *c, int c_type, Int ldc,           \
        long long stride_c, Int batch, int compute, int algorithm) {                                       \
        (void)algorithm;                                                                                   \
        return run((Call){COMMON, THREE_TYPES, .compute = compute_type(compute), .stride_a = stride_a,     \
                          .stride_b = stride_b, .stride_c = stride_c, .batch = batch});                    \
    }                                                                                                      \
    EXPORT Status cublasGemmBatchedEx##suffix(HEAD(Int), const void *alpha, const void *const *a, int a_type, \
                                              Int lda, const void *const *b, int b_type, Int ldb,          \
                                              const void *beta, void *const *c, int c_type, Int ldc,       \
                                              Int batch, int compute, int algorithm) {                     \
        (void)algorithm;                                                                                   \
        return run((Call){COMMON, THREE_TYPES, .compute = compute_type(compute), .batch = batch, .arrays = true}); \
    }

#define WIDTH(Int, suffix)                                \
    TYPED_BATCHES(Int, suffix, S, float, F32)             \
    TYPED_BATCHES(Int, suffix, D, double, F64)            \
    TYPED_BATCHES(Int, suffix, H, uint16_t, F16)          \
    EXTENDED(Int, suffix)

WIDTH(int, )
WIDTH(int64_t, _64)
TYPED(int, gemm_v2, S, float, F32)
TYPED(int, gemm_v2, D, double, F64)
TYPED(int, gemm, H, uint16_t, F16)
TYPED(int64_t, gemm_v2_64, S, float, F32)
TYPED(int64_t, gemm_v2_64, D, double, F64)
TYPED(int64_t, gemm_64, H, uint16_t, F16)
