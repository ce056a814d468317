/* What the rooms of the driver ask of each other. */
#ifndef CPU_DRIVER_H
#define CPU_DRIVER_H

#include "api.h"

enum { LIMITS = 10 };

struct Context {
    unsigned flags;
    unsigned retained; /* how often; one of a program's own has 1 when it is made */
    bool primary;
    CUresult fault; /* a kernel failed: every later call returns this */
    size_t limits[LIMITS];
    uint64_t id;
    Stream *streams; /* the program's, the threads' own, the legacy one */
    Stream *legacy;
    Pool *pool; /* for cuMemAllocAsync */
};

enum {
    HANDLE_CONTEXT, HANDLE_STREAM, HANDLE_EVENT, HANDLE_MODULE, HANDLE_FUNCTION, HANDLE_LINK,
    HANDLE_GRAPH, HANDLE_NODE, HANDLE_EXEC, HANDLE_POOL, HANDLE_MEMORY, HANDLE_OBJECT,
};

#define STREAM_LEGACY ((Stream *)1)
#define STREAM_PER_THREAD ((Stream *)2)

/* Return from the calling function if there is an error. */
#define NEED(call)                    \
    do {                              \
        CUresult need_ = (call);      \
        if (need_) return need_;      \
    } while (0)
#define NEED_VALUE(condition) NEED((condition) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE)

/* A call that gives one answer: what it needs, where the answer goes, and what it is. */
#define ANSWER(name, parameters, needed, place, answer) \
    EXPORT CUresult name parameters {                   \
        NEED(needed);                                   \
        NEED_VALUE(place);                              \
        *place = answer;                                \
        return CUDA_SUCCESS;                            \
    }

/* A call of older or newer programs that is another one of the same file. */
#define SAME(name, call) EXPORT __typeof__(call) name __attribute__((alias(#call)));

/* Checks a handle of one kind, after what is needed before. */
#define NEED_HANDLE(name, Type, kind, needed, error)                  \
    CUresult name(const Type *handle) {                               \
        NEED(needed);                                                 \
        return registry_has(handle, kind) ? CUDA_SUCCESS : error;     \
    }

/* Each gives CUDA_SUCCESS or the error the call must return. */
CUresult need_init(void);
CUresult need_device(CUdevice device);
CUresult need_current(void); /* a context, even one whose kernel failed */
CUresult need_context(void); /* a context that still works */
/* For calls that name what they are about: its context works, or the current one if it has none; there need be none. */
CUresult need_owner(const Context *owner);

Context *context_current(void);
bool context_alive(const Context *context);
CUresult context_wait(Context *context); /* until all its work is done; its fault, if there is one */
uint64_t next_id(void);                  /* of contexts, streams, graphs; never 0 */

void companions_load(void);

/* A context that ends takes these along. */
void memory_drop_context(const Context *context);
void modules_drop_context(const Context *context);

CUresult cuMemFree_v2(CUdeviceptr pointer);

CUresult device_attribute(int attribute, int *value);
int device_number(int attribute); /* an attribute that is known to exist */

#endif
