/* The engine's lock, and the operating system's threads for the workers of a launch. */
#ifndef _WIN32
#define _POSIX_C_SOURCE 200809L
#endif
#include "host.h"

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

static SRWLOCK lock = SRWLOCK_INIT;
void engine_lock(void) { AcquireSRWLockExclusive(&lock); }
void engine_unlock(void) { ReleaseSRWLockExclusive(&lock); }

static DWORD WINAPI run_worker(void *worker) {
    blocks_run(worker);
    return 0;
}

void workers_run(struct worker *workers, unsigned count) {
    HANDLE threads[THREADS_MOST];
    for (unsigned i = 1; i < count; i++) threads[i] = CreateThread(NULL, 0, run_worker, &workers[i], 0, NULL);
    blocks_run(&workers[0]);
    for (unsigned i = 1; i < count; i++) {
        if (!threads[i]) {
            blocks_run(&workers[i]);
            continue;
        }
        WaitForSingleObject(threads[i], INFINITE);
        CloseHandle(threads[i]);
    }
}
#else
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
void engine_lock(void) { pthread_mutex_lock(&lock); }
void engine_unlock(void) { pthread_mutex_unlock(&lock); }

static void *run_worker(void *worker) {
    blocks_run(worker);
    return NULL;
}

void workers_run(struct worker *workers, unsigned count) {
    pthread_t threads[THREADS_MOST];
    bool started[THREADS_MOST];
    for (unsigned i = 1; i < count; i++) started[i] = pthread_create(&threads[i], NULL, run_worker, &workers[i]) == 0;
    blocks_run(&workers[0]);
    for (unsigned i = 1; i < count; i++) {
        if (started[i]) pthread_join(threads[i], NULL);
        else blocks_run(&workers[i]);
    }
}
#endif
