/* What every library of the CPU reference shares: what it reports of itself, exports, locking, time, live handles, faults. */
#ifndef CPU_COMMON_H
#define CPU_COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef _WIN32
#define EXPORT __declspec(dllexport)
#define DRIVER_FILE "nvcuda.dll"
#else
#define EXPORT __attribute__((visibility("default")))
#define DRIVER_FILE "libcuda.so.1"
#endif

/* The CUDA release that the driver reports unless CUDA_AMD_CPU_CUDA says another one, the release whose
 * mathematical libraries we speak (12.8), and our own names for this "device". */
#define CPU_CUDA_VERSION 13000
#define CPU_LIBRARY_VERSION 12080
#define CPU_DEVICE_NAME "CPU reference (simulated, not a GPU)"
#define CPU_DRIVER_TEXT "0.1-cpu-reference"
#define CPU_UUID "cuda-amd-cpu-ref"

/* Compute capability, major * 10 + minor, unless CUDA_AMD_CPU_CAPABILITY says another one: wheels carry PTX for it. */
enum { CPU_CAPABILITY = 121 };

int reported_cuda(void);       /* 13000 */
int reported_capability(void); /* 121 */

/* What questions for a library's property are answered with: 0 the major number, 1 the minor one, 2 the patch level. */
bool version_part(int property, int major, int minor, int patch, int *value);

/* A lock that needs no set-up. Every library has its own. */
void lock_take(void);
void lock_release(void);
void lock_wait(void);      /* with the lock held: sleep until lock_announce, the lock is held again then */
void lock_announce(void);  /* wake every sleeper */
unsigned lock_count(unsigned *counter, int change); /* change it under the lock; what it is then */

bool host_thread(void (*run)(void *), void *argument); /* a thread that is not joined */

uint64_t host_nanoseconds(void);   /* monotonic */
void host_pause(void);             /* a moment, for loops that wait for another thread */
uint64_t host_memory_bytes(void);  /* physical memory of this machine */
int host_processors(void);
void *host_aligned_alloc(size_t bytes); /* aligned as cuMemAlloc does it: programs count on it; NULL when out of memory */
void host_aligned_free(void *memory);

void *host_library(const char *path); /* opened, with whatever it needs beside it; NULL if it cannot be */
void *host_loaded(const char *name);  /* a library that the program holds; NULL if it does not */
void *host_symbol(void *library, const char *name); /* NULL if it has none */

/* Live handles: a stale or foreign handle is recognised without ever being read. */
bool registry_add(void *handle, int kind);
void *registry_new(size_t size, int kind); /* zeroed memory that is a live handle of that kind; NULL when out of memory */
bool registry_has(const void *handle, int kind);
bool registry_remove(const void *handle, int kind);

/* CUDA_AMD_CPU_FAULT; ../README.md says where each fault acts. */
typedef enum {
    FAULT_NONE,
    FAULT_HANG_CREATE,
    FAULT_HANG_GEMM,
    FAULT_HANG_EXIT,
    FAULT_WRONG,
    FAULT_CRASH_AT_EXIT,
    FAULT_MISSING
} Fault;

Fault fault_active(void);
bool fault_missing(const char *library); /* is `missing:` about this library ("cublas", "nvcuda", ...)? */
_Noreturn void fault_hang(void);
void fault_arm_exit(void); /* hang or crash when this process ends, if the fault says so */

#endif
