/* The vendor's NVRTC, asked for PTX where a program asks for machine code: that is all our driver can run. The library itself
 * is the program's own; it is looked for where Python packages and toolkits put it. */
#ifndef _WIN32
#define _GNU_SOURCE
#include <link.h>
#else
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#define PSAPI_VERSION 2
#include <psapi.h>
#endif
#include "common/common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uintptr_t Word;
typedef Word Call(Word, Word, Word, Word, Word, Word);

enum { PATH_MOST = 4096, INTERNAL_ERROR = 11 };

extern const int NVRTC_RELEASE; /* 12, 13: which of the two libraries this is */

/* Below a root: in packages, then in toolkits. */
#ifdef _WIN32
static const char *const FILES_12[] = {"nvidia/cuda_nvrtc/bin/nvrtc64_120_0.dll", "bin/nvrtc64_120_0.dll"};
static const char *const FILES_13[] = {"nvidia/cu13/bin/x86_64/nvrtc64_130_0.dll", "bin/x64/nvrtc64_130_0.dll"};
#else
static const char *const FILES_12[] = {"nvidia/cuda_nvrtc/lib/libnvrtc.so.12", "lib64/libnvrtc.so.12"};
static const char *const FILES_13[] = {"nvidia/cu13/lib/libnvrtc.so.13", "lib64/libnvrtc.so.13"};
#endif

static void *library;

/* ---- finding it ---- */

static void try_files(const char *root, size_t length, const char *const files[2]) {
    char path[PATH_MOST];
    for (size_t i = 0; i < 2 && !library; i++) {
        snprintf(path, sizeof path, "%.*s/%s", (int)length, root, files[i]);
        library = host_library(path);
    }
}

/* The other release is better than none: who takes what is loaded already may get this library for that one. */
static bool try_root(const char *root, size_t length) {
    try_files(root, length, NVRTC_RELEASE == 12 ? FILES_12 : FILES_13);
    try_files(root, length, NVRTC_RELEASE == 12 ? FILES_13 : FILES_12);
    return library;
}

/* A module of a Python package tells where packages are. */
static bool try_module(const char *path) {
    const char *at = path ? strstr(path, "site-packages") : NULL;
    return at && try_root(path, (size_t)(at - path) + strlen("site-packages"));
}

#ifdef _WIN32
static void try_modules(void) {
    HMODULE modules[1024];
    DWORD bytes;
    char path[PATH_MOST];
    if (!K32EnumProcessModules(GetCurrentProcess(), modules, sizeof modules, &bytes)) return;
    for (size_t i = 0; i < bytes / sizeof *modules && i < 1024 && !library; i++)
        if (GetModuleFileNameA(modules[i], path, sizeof path)) try_module(path);
}
#else
static int look_at(struct dl_phdr_info *info, size_t size, void *nothing) {
    (void)size, (void)nothing;
    return try_module(info->dlpi_name);
}
static void try_modules(void) { dl_iterate_phdr(look_at, NULL); }
#endif

static void find_library(void) {
    static const char *const VARIABLES[] = {"CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"};
    try_modules();
    for (size_t i = 0; i < 3 && !library; i++)
        if (getenv(VARIABLES[i])) try_root(getenv(VARIABLES[i]), strlen(getenv(VARIABLES[i])));
    if (!library) try_root("/usr/local/cuda", strlen("/usr/local/cuda"));
}

static Call *find(const char *name) {
    lock_take();
    if (!library) find_library();
    void *found = library ? host_symbol(library, name) : NULL;
    lock_release();
    Call *call;
    memcpy(&call, &found, sizeof call);
    return call;
}

static Word forward(const char *name, Word a, Word b, Word c, Word d, Word e, Word f) {
    Call *call = find(name);
    return call ? call(a, b, c, d, e, f) : INTERNAL_ERROR;
}

/* ---- the calls ---- */

#define FORWARD(name) \
    EXPORT Word name(Word a, Word b, Word c, Word d, Word e, Word f) { return forward(#name, a, b, c, d, e, f); }

FORWARD(nvrtcVersion)
FORWARD(nvrtcGetNumSupportedArchs)
FORWARD(nvrtcGetSupportedArchs)
FORWARD(nvrtcCreateProgram)
FORWARD(nvrtcDestroyProgram)
FORWARD(nvrtcCompileProgram)
FORWARD(nvrtcGetPTXSize)
FORWARD(nvrtcGetPTX)
FORWARD(nvrtcGetNVVMSize)
FORWARD(nvrtcGetNVVM)
FORWARD(nvrtcGetLTOIRSize)
FORWARD(nvrtcGetLTOIR)
FORWARD(nvrtcGetOptiXIRSize)
FORWARD(nvrtcGetOptiXIR)
FORWARD(nvrtcGetTileIRSize)
FORWARD(nvrtcGetTileIR)
FORWARD(nvrtcGetProgramLogSize)
FORWARD(nvrtcGetProgramLog)
FORWARD(nvrtcAddNameExpression)
FORWARD(nvrtcGetLoweredName)
FORWARD(nvrtcGetPCHHeapSize)
FORWARD(nvrtcSetPCHHeapSize)
FORWARD(nvrtcGetPCHCreateStatus)
FORWARD(nvrtcGetPCHHeapSizeRequired)
FORWARD(nvrtcSetFlowCallback)
FORWARD(nvrtcGetBundledHeadersInfo)
FORWARD(nvrtcInstallBundledHeaders)
FORWARD(nvrtcRemoveBundledHeaders)

EXPORT const char *nvrtcGetErrorString(int error) {
    Call *call = find("nvrtcGetErrorString");
    return call ? (const char *)call((Word)error, 0, 0, 0, 0, 0) : "NVRTC was not found: install its package, or set CUDA_HOME";
}

EXPORT int nvrtcGetCUBINSize(Word program, size_t *size) {
    int error = (int)forward("nvrtcGetCUBINSize", program, (Word)size, 0, 0, 0, 0);
    return error || !*size ? error : (int)forward("nvrtcGetPTXSize", program, (Word)size, 0, 0, 0, 0);
}

EXPORT int nvrtcGetCUBIN(Word program, char *code) {
    size_t size = 0;
    int error = (int)forward("nvrtcGetCUBINSize", program, (Word)&size, 0, 0, 0, 0);
    return (int)forward(error || !size ? "nvrtcGetCUBIN" : "nvrtcGetPTX", program, (Word)code, 0, 0, 0, 0);
}
