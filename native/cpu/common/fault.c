/* Failures on demand: CUDA_AMD_CPU_FAULT makes every kind of failure happen on any machine. */
#ifndef _WIN32
#define _POSIX_C_SOURCE 200809L
#endif
#include "common.h"

#include <ctype.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
static void sleep_a_second(void) { Sleep(1000); }
static void die(void) { TerminateProcess(GetCurrentProcess(), 0xC0000409u); }
#else
#include <sys/resource.h>
#include <unistd.h>
static void sleep_a_second(void) { sleep(1); }
static void die(void) {
    struct rlimit none = {0, 0}; /* a crash that was asked for leaves no core file */
    setrlimit(RLIMIT_CORE, &none);
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
}
#endif

static const struct {
    const char *word;
    Fault fault;
} WORDS[] = {
    {"hang", FAULT_HANG_CREATE},     {"hang:create", FAULT_HANG_CREATE}, {"hang:gemm", FAULT_HANG_GEMM},
    {"hang:exit", FAULT_HANG_EXIT},  {"wrong", FAULT_WRONG},             {"crash-at-exit", FAULT_CRASH_AT_EXIT},
};

static const char *fault_text(void) {
    const char *text = getenv("CUDA_AMD_CPU_FAULT");
    return text ? text : "";
}

Fault fault_active(void) {
    const char *text = fault_text();
    if (strncmp(text, "missing:", 8) == 0) return FAULT_MISSING;
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++)
        if (strcmp(text, WORDS[i].word) == 0) return WORDS[i].fault;
    return FAULT_NONE;
}

/* `missing:cublas` and `missing:cublas12` both mean cublas; neither means cublaslt. */
bool fault_missing(const char *library) {
    if (fault_active() != FAULT_MISSING) return false;
    const char *wanted = fault_text() + 8;
    for (; *library; library++, wanted++)
        if (tolower((unsigned char)*wanted) != *library) return false;
    while (isdigit((unsigned char)*wanted)) wanted++;
    return *wanted == '\0';
}

_Noreturn void fault_hang(void) {
    for (;;) sleep_a_second();
}

static void at_exit(void) {
    if (fault_active() == FAULT_HANG_EXIT) fault_hang();
    die();
}

void fault_arm_exit(void) {
    static bool armed;
    Fault fault = fault_active();
    lock_take();
    bool arm = !armed && (fault == FAULT_CRASH_AT_EXIT || fault == FAULT_HANG_EXIT);
    armed |= arm;
    lock_release();
    if (arm) atexit(at_exit);
}
