#ifndef _WIN32
#define _POSIX_C_SOURCE 200809L
#endif
#include "host.h"
#include "module.h"

struct task {
    void (*work)(void *);
    void *argument;
};

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

static SRWLOCK lock = SRWLOCK_INIT;
void engine_lock(void) { AcquireSRWLockExclusive(&lock); }
void engine_unlock(void) { ReleaseSRWLockExclusive(&lock); }

static DWORD WINAPI run_task(void *task) {
    ((struct task *)task)->work(((struct task *)task)->argument);
    return 0;
}

void host_run(void (*work)(void *), void *const *arguments, unsigned count) {
    HANDLE threads[THREADS_MOST];
    struct task tasks[THREADS_MOST];
    for (unsigned i = 1; i < count; i++) {
        tasks[i] = (struct task){work, arguments[i]};
        threads[i] = CreateThread(NULL, 0, run_task, &tasks[i], 0, NULL);
    }
    work(arguments[0]);
    for (unsigned i = 1; i < count; i++) {
        if (!threads[i]) {
            work(arguments[i]);
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

static void *run_task(void *task) {
    ((struct task *)task)->work(((struct task *)task)->argument);
    return NULL;
}

void host_run(void (*work)(void *), void *const *arguments, unsigned count) {
    pthread_t threads[THREADS_MOST];
    struct task tasks[THREADS_MOST];
    bool started[THREADS_MOST];
    for (unsigned i = 1; i < count; i++) {
        tasks[i] = (struct task){work, arguments[i]};
        started[i] = pthread_create(&threads[i], NULL, run_task, &tasks[i]) == 0;
    }
    work(arguments[0]);
    for (unsigned i = 1; i < count; i++) {
        if (started[i]) pthread_join(threads[i], NULL);
        else work(arguments[i]);
    }
}
#endif
