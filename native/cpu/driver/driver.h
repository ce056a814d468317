/* The driver's own types and numbers, as the public CUDA driver API defines them. */
#ifndef CPU_DRIVER_H
#define CPU_DRIVER_H

#include "../common/common.h"

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;

enum {
#define ERROR(code, name, text) name = code,
#include "errors.h"
#undef ERROR
};

typedef struct Context {
    unsigned flags;
    unsigned retained; /* primary context only */
    bool primary;
} Context;

typedef struct Stream Stream;
typedef struct Event Event;

enum { HANDLE_CONTEXT, HANDLE_STREAM, HANDLE_EVENT };

/* Each gives CUDA_SUCCESS or the error the call must return. */
CUresult need_init(void);
CUresult need_device(CUdevice device);
CUresult need_context(void);
CUresult need_stream(const Stream *stream);

Context *context_current(void);

/* A context that ends takes its memory along. */
void memory_drop_context(const Context *context);

#endif
