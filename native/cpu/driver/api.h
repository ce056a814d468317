/* Records that programs hand over, laid out as the public CUDA driver API defines them. */
#ifndef CPU_DRIVER_API_H
#define CPU_DRIVER_API_H

#include "../common/common.h"

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;

enum {
#define ERROR(code, name, text) name = code,
#include "errors.h"
#undef ERROR
};

typedef struct Context Context;
typedef struct Stream Stream;
typedef struct Event Event;
typedef struct Module Module;     /* CUmodule and CUlibrary */
typedef struct Function Function; /* CUfunction and CUkernel */
typedef struct Graph Graph;
typedef struct Node Node;
typedef struct GraphExec GraphExec;
typedef struct Pool Pool;

typedef void HostFunction(void *);
typedef void StreamCallback(Stream *, CUresult, void *);

enum { MEMORY_HOST = 1, MEMORY_DEVICE = 2, MEMORY_ARRAY = 3, MEMORY_UNIFIED = 4 };

typedef struct {
    size_t x, y;
    unsigned type;
    void *host;
    CUdeviceptr device;
    void *array;
    size_t pitch;
} Side2D;

typedef struct { /* CUDA_MEMCPY2D_v2 */
    Side2D from, to;
    size_t width, height;
} Copy2D;

typedef struct {
    size_t x, y, z, level;
    unsigned type;
    void *host;
    CUdeviceptr device;
    void *array, *reserved;
    size_t pitch, height;
} Side3D;

typedef struct { /* CUDA_MEMCPY3D_v2; CUDA_MEMCPY3D_PEER has contexts in the reserved fields */
    Side3D from, to;
    size_t width, height, depth;
} Copy3D;

typedef struct { /* CUDA_MEMSET_NODE_PARAMS_v1; v2 adds the context */
    CUdeviceptr to;
    size_t pitch;
    unsigned value, element;
    size_t width, height;
} Fill;

typedef struct { /* CUDA_HOST_NODE_PARAMS */
    HostFunction *function;
    void *data;
} HostCall;

typedef struct { /* CUDA_KERNEL_NODE_PARAMS_v2, _v3; v1 ends before `kernel` */
    Function *function;
    unsigned grid[3], block[3], shared;
    void **arguments, **extra;
    Function *kernel;
    Context *context;
} KernelParams;

typedef struct { /* CUlaunchAttribute */
    int id;
    char pad[4];
    union {
        char pad[64];
        int cooperative;
        unsigned cluster[3];
        int number;
    } value;
} LaunchAttribute;

typedef struct { /* CUlaunchConfig */
    unsigned grid[3], block[3], shared;
    Stream *stream;
    LaunchAttribute *attributes;
    unsigned count;
} LaunchConfig;

typedef struct { /* CUmemLocation */
    int type, id;
} Location;

typedef struct { /* CUmemAccessDesc */
    Location location;
    unsigned flags;
} AccessDesc;

typedef struct { /* CUmemPoolProps */
    int type, handles;
    Location location;
    void *security;
    size_t most;
    unsigned short usage;
    unsigned char reserved[54];
} PoolProps;

typedef struct { /* CUDA_MEM_ALLOC_NODE_PARAMS */
    PoolProps pool;
    const AccessDesc *access;
    size_t access_count, size;
    CUdeviceptr pointer;
} AllocParams;

typedef struct { /* CUgraphNodeParams */
    int type, unused[3];
    union {
        long long room[29];
        KernelParams kernel;
        struct {
            int flags, reserved;
            Context *context;
            Copy3D copy;
        } copy;
        Fill fill;
        HostCall host;
        struct {
            Graph *graph;
            int ownership;
        } child;
        Event *event;
        AllocParams alloc;
        CUdeviceptr freed;
    };
    long long reserved2;
} NodeParams;

#endif
