/* What the rooms of the runtime library ask of each other. Everything is done by driver calls. */
#ifndef CPU_RUNTIME_H
#define CPU_RUNTIME_H

#include "../driver/api.h"

typedef uintptr_t Word;

typedef struct {
    unsigned x, y, z;
} Dim3;

enum { /* codes that only the runtime has */
    CUDART_INVALID_CONFIGURATION = 9, CUDART_INVALID_SYMBOL = 13, CUDART_INVALID_DIRECTION = 21, CUDART_INSUFFICIENT_DRIVER = 35,
    CUDART_MISSING_CONFIGURATION = 52, CUDART_INVALID_FUNCTION = 98,
};

extern const int RUNTIME_VERSION; /* 12080, 13000: which of the two libraries this is */

/* The address of a driver call; NULL if there is no driver or no such call. */
typedef int Call(Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word);
Call *driver_call(const char *name);

/* Call the driver by name with arguments of a machine word each. */
#define W(value) ((Word)(value))
#define DRIVER(...) DRIVER_PICK(__VA_ARGS__, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
#define DRIVER_PICK(name, a, b, c, d, e, f, g, h, i, j, k, ...) \
    driver(name, W(a), W(b), W(c), W(d), W(e), W(f), W(g), W(h), W(i), W(j), W(k))
int driver(const char *name, Word a, Word b, Word c, Word d, Word e, Word f, Word g, Word h, Word i, Word j, Word k);

int ready(void);       /* the primary context is current, or why not */
int keep(int error);   /* remember an error for cudaGetLastError; returns it */

#define TRY(call)                   \
    do {                            \
        int try_ = (call);          \
        if (try_) return keep(try_); \
    } while (0)
#define TRY_VALUE(condition) TRY((condition) ? 0 : CUDA_ERROR_INVALID_VALUE)

/* Calls that only have another name in the driver. Their arguments are machine words, at most eight of them; words that a
 * caller did not pass are handed on unread. STREAM: there is also a variant with the thread's own default stream. */
int forward(const char *name, Word a, Word b, Word c, Word d, Word e, Word f, Word g, Word h);
#define FORWARD(name, call) \
    EXPORT int name(Word a, Word b, Word c, Word d, Word e, Word f, Word g, Word h) { return forward(#call, a, b, c, d, e, f, g, h); }
#define STREAM(name, call) FORWARD(name, call) FORWARD(name##_ptsz, call##_ptsz)

#define OWN(stream) ((stream) ? (stream) : (Stream *)2)

/* Kernels and variables by the host's address for them, or kernels by handle. */
int find_function(const void *symbol, Function **function);
int find_variable(const void *symbol, CUdeviceptr *address, size_t *size);
int variable_part(const void *symbol, size_t size, size_t offset, void **place);

int driver_ready(void); /* as `ready`, without a context */
int copy_of(void *to, const void *from, size_t size, int kind, Copy3D *copy); /* by cudaMemcpyKind */
int add_any_node(Node **node, Graph *graph, Node *const *needs, size_t count, void *params);

#endif
