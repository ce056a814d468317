/* The few things we ask of the operating system. */
#ifndef _WIN32
#define _POSIX_C_SOURCE 200809L
#endif
#include "common.h"

#include <stdlib.h>

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <malloc.h>
#include <windows.h>

static SRWLOCK lock = SRWLOCK_INIT;

void lock_take(void) { AcquireSRWLockExclusive(&lock); }
void lock_release(void) { ReleaseSRWLockExclusive(&lock); }

uint64_t host_nanoseconds(void) {
    LARGE_INTEGER count, frequency;
    QueryPerformanceCounter(&count);
    QueryPerformanceFrequency(&frequency);
    uint64_t c = (uint64_t)count.QuadPart, f = (uint64_t)frequency.QuadPart;
    return c / f * 1000000000u + c % f * 1000000000u / f;
}

uint64_t host_memory_bytes(void) {
    MEMORYSTATUSEX status = {.dwLength = sizeof status};
    return GlobalMemoryStatusEx(&status) ? status.ullTotalPhys : 0;
}

int host_processors(void) {
    SYSTEM_INFO info;
    GetSystemInfo(&info);
    return (int)info.dwNumberOfProcessors;
}

void *host_aligned_alloc(size_t bytes) { return _aligned_malloc(bytes, 256); }
void host_aligned_free(void *memory) { _aligned_free(memory); }

#else
#include <pthread.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void lock_take(void) { pthread_mutex_lock(&lock); }
void lock_release(void) { pthread_mutex_unlock(&lock); }

uint64_t host_nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t host_memory_bytes(void) {
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGE_SIZE);
    return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : 0;
}

int host_processors(void) {
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count > 0 ? (int)count : 1;
}

void *host_aligned_alloc(size_t bytes) {
    void *memory = NULL;
    return posix_memalign(&memory, 256, bytes) == 0 ? memory : NULL;
}

void host_aligned_free(void *memory) { free(memory); }
#endif
