/* The few things we ask of the operating system. */
#ifndef _WIN32
#define _DEFAULT_SOURCE
#endif
#include "common.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    void (*run)(void *);
    void *argument;
} Start;

/* Large allocations begin at a page of the GPU, 2 MiB. */
static size_t alignment_of(size_t bytes) { return bytes < 1 << 20 ? 512 : 2 << 20; }

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <malloc.h>
#include <windows.h>

static SRWLOCK lock = SRWLOCK_INIT;
static CONDITION_VARIABLE changed = CONDITION_VARIABLE_INIT;

void lock_take(void) { AcquireSRWLockExclusive(&lock); }
void lock_release(void) { ReleaseSRWLockExclusive(&lock); }
void lock_wait(void) { SleepConditionVariableSRW(&changed, &lock, INFINITE, 0); }
void lock_announce(void) { WakeAllConditionVariable(&changed); }

static DWORD WINAPI begin(LPVOID start) {
    Start taken = *(Start *)start;
    free(start);
    taken.run(taken.argument);
    return 0;
}

static bool start_thread(Start *start) {
    HANDLE thread = CreateThread(NULL, 0, begin, start, 0, NULL);
    if (thread) CloseHandle(thread);
    return thread != NULL;
}

uint64_t host_nanoseconds(void) {
    LARGE_INTEGER count, frequency;
    QueryPerformanceCounter(&count);
    QueryPerformanceFrequency(&frequency);
    uint64_t c = (uint64_t)count.QuadPart, f = (uint64_t)frequency.QuadPart;
    return c / f * 1000000000u + c % f * 1000000000u / f;
}

void host_pause(void) { Sleep(0); }

uint64_t host_memory_bytes(void) {
    MEMORYSTATUSEX status = {.dwLength = sizeof status};
    return GlobalMemoryStatusEx(&status) ? status.ullTotalPhys : 0;
}

int host_processors(void) {
    SYSTEM_INFO info;
    GetSystemInfo(&info);
    return (int)info.dwNumberOfProcessors;
}

void *host_aligned_alloc(size_t bytes) { return _aligned_malloc(bytes, alignment_of(bytes)); }
void host_aligned_free(void *memory) { _aligned_free(memory); }

void *host_library(const char *path) {
    DWORD search = strchr(path, '/') ? LOAD_WITH_ALTERED_SEARCH_PATH : 0; /* which wants a path */
    return (void *)LoadLibraryExA(path, NULL, search);
}

void *host_loaded(const char *name) { return (void *)GetModuleHandleA(name); }

void *host_symbol(void *library, const char *name) {
    FARPROC found = GetProcAddress(library, name);
    void *address;
    memcpy(&address, &found, sizeof address);
    return address;
}

#else
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

void lock_take(void) { pthread_mutex_lock(&lock); }
void lock_release(void) { pthread_mutex_unlock(&lock); }
void lock_wait(void) { pthread_cond_wait(&changed, &lock); }
void lock_announce(void) { pthread_cond_broadcast(&changed); }

static void *begin(void *start) {
    Start taken = *(Start *)start;
    free(start);
    taken.run(taken.argument);
    return NULL;
}

/* Signals are the program's own: its handlers must not run in a thread it does not know. */
static bool start_thread(Start *start) {
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&thread, NULL, begin, start) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (started) pthread_detach(thread);
    return started;
}

uint64_t host_nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void host_pause(void) { sched_yield(); }

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
    return posix_memalign(&memory, alignment_of(bytes), bytes) == 0 ? memory : NULL;
}

void host_aligned_free(void *memory) { free(memory); }

void *host_library(const char *path) { return dlopen(path, RTLD_NOW | RTLD_LOCAL); }
void *host_symbol(void *library, const char *name) { return dlsym(library, name); }

void *host_loaded(const char *name) {
    void *library = dlopen(name, RTLD_NOW | RTLD_NOLOAD);
    if (library) dlclose(library); /* the program holds it */
    return library;
}
#endif

unsigned lock_count(unsigned *counter, int change) {
    lock_take();
    unsigned now = *counter += (unsigned)change;
    lock_release();
    return now;
}

bool host_thread(void (*run)(void *), void *argument) {
    Start *start = malloc(sizeof *start);
    if (!start) return false;
    *start = (Start){run, argument};
    bool started = start_thread(start);
    if (!started) free(start);
    return started;
}

/* "13.0" with 1000 and 10 is 13000; what is no such number leaves what was there. */
static int version_from(const char *variable, int major_weight, int minor_weight, int otherwise) {
    const char *text = getenv(variable);
    char *end = NULL;
    long major = text ? strtol(text, &end, 10) : 0;
    if (major < 1 || major > 99 || *end != '.') return otherwise;
    long minor = strtol(end + 1, &end, 10);
    return *end || minor < 0 || minor > 9 ? otherwise : (int)(major * major_weight + minor * minor_weight);
}

int reported_cuda(void) { return version_from("CUDA_AMD_CPU_CUDA", 1000, 10, CPU_CUDA_VERSION); }
int reported_capability(void) { return version_from("CUDA_AMD_CPU_CAPABILITY", 10, 1, CPU_CAPABILITY); }

bool version_part(int property, int major, int minor, int patch, int *value) {
    if (property < 0 || property > 2 || !value) return false;
    *value = property == 0 ? major : property == 1 ? minor : patch;
    return true;
}
