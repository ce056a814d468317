/* Libraries of ours that must be in the process before the vendor's of the same name: who looks for nvJitLink or NVRTC later
 * finds the one that is there. On Linux no search by file finds ours, so that programs which are linked with the vendor's keep it. */
#ifndef _WIN32
#define _GNU_SOURCE
#include <dlfcn.h>
#else
#define WIN32_LEAN_AND_MEAN
#define NOGDI
#include <windows.h>
#endif
#include "driver.h"

#include <stdio.h>
#include <string.h>

#ifdef _WIN32

static const char *const COMPANIONS[] = {"nvJitLink_120_0.dll", "nvJitLink_130_0.dll", "nvrtc64_120_0.dll", "nvrtc64_130_0.dll"};

/* Not while this library is being loaded: Windows allows no loading then. */
void companions_load(void) {
    char path[MAX_PATH];
    HMODULE self;
    DWORD flags = GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT;
    if (!GetModuleHandleExA(flags, (LPCSTR)(void *)companions_load, &self) || !GetModuleFileNameA(self, path, sizeof path)) return;
    char *name = strrchr(path, '\\');
    for (size_t i = 0; name && i < sizeof COMPANIONS / sizeof *COMPANIONS; i++) {
        snprintf(name + 1, sizeof path - (size_t)(name + 1 - path), "%s", COMPANIONS[i]);
        LoadLibraryA(path);
    }
}

#else

static const char *const COMPANIONS[] = {"cpu-nvjitlink-12.so", "cpu-nvjitlink-13.so", "cpu-nvrtc-12.so", "cpu-nvrtc-13.so"};

void companions_load(void) {} /* done */

__attribute__((constructor)) static void load(void) {
    Dl_info self;
    char path[4096];
    if (!dladdr((void *)companions_load, &self) || !strchr(self.dli_fname, '/')) return;
    int folder = (int)(strrchr(self.dli_fname, '/') - self.dli_fname);
    for (size_t i = 0; i < sizeof COMPANIONS / sizeof *COMPANIONS; i++) {
        snprintf(path, sizeof path, "%.*s/%s", folder, self.dli_fname, COMPANIONS[i]);
        dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    }
}

#endif
