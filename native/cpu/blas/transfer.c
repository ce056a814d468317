/* Copies of vectors and matrices between host and device, which are one memory here. */
#include "blas.h"

#include <string.h>

static Status vector(int64_t n, int64_t size, const void *from, int64_t from_step, void *to, int64_t to_step) {
    if (n < 0 || size <= 0 || from_step <= 0 || to_step <= 0) return CUBLAS_STATUS_INVALID_VALUE;
    if (n > 0 && (!from || !to)) return CUBLAS_STATUS_INVALID_VALUE;
    for (int64_t i = 0; i < n; i++)
        memmove((char *)to + i * to_step * size, (const char *)from + i * from_step * size, (size_t)size);
    return CUBLAS_STATUS_SUCCESS;
}

static Status matrix(int64_t rows, int64_t columns, int64_t size, const void *from, int64_t from_ld, void *to,
                     int64_t to_ld) {
    if (rows < 0 || columns < 0 || size <= 0 || from_ld <= 0 || to_ld <= 0) return CUBLAS_STATUS_INVALID_VALUE;
    if (rows > from_ld || rows > to_ld) return CUBLAS_STATUS_INVALID_VALUE;
    if (rows && columns && (!from || !to)) return CUBLAS_STATUS_INVALID_VALUE;
    for (int64_t j = 0; rows && j < columns; j++)
        memmove((char *)to + j * to_ld * size, (const char *)from + j * from_ld * size, (size_t)(rows * size));
    return CUBLAS_STATUS_SUCCESS;
}

#define TRANSFERS(direction, Int, suffix)                                                                       \
    EXPORT Status cublas##direction##Vector##suffix(Int n, Int size, const void *x, Int incx, void *y, Int incy) { \
        Status status = wait_for(NULL);                                                                         \
        return status ? status : vector(n, size, x, incx, y, incy);                                             \
    }                                                                                                           \
    EXPORT Status cublas##direction##VectorAsync##suffix(Int n, Int size, const void *x, Int incx, void *y,     \
                                                         Int incy, void *stream) {                              \
        Status status = wait_for(stream);                                                                       \
        return status ? status : vector(n, size, x, incx, y, incy);                                             \
    }                                                                                                           \
    EXPORT Status cublas##direction##Matrix##suffix(Int rows, Int columns, Int size, const void *a, Int lda,    \
                                                    void *b, Int ldb) {                                         \
        Status status = wait_for(NULL);                                                                         \
        return status ? status : matrix(rows, columns, size, a, lda, b, ldb);                                   \
    }                                                                                                           \
    EXPORT Status cublas##direction##MatrixAsync##suffix(Int rows, Int columns, Int size, const void *a,        \
                                                         Int lda, void *b, Int ldb, void *stream) {             \
        Status status = wait_for(stream);                                                                       \
        return status ? status : matrix(rows, columns, size, a, lda, b, ldb);                                   \
    }

TRANSFERS(Set, int, )
TRANSFERS(Get, int, )
TRANSFERS(Set, int64_t, _64)
TRANSFERS(Get, int64_t, _64)
