/* An nvcuda.dll that says from where it is loaded, and gives answers that no other gives.
 *
 * Prints "nvcuda loaded PATH" when it is loaded, and "nvcuda asked NAMES TABLES" when it is unloaded: how many
 * functions and export tables it was asked for. Paths are written as UTF-8. Its version is 13.9; cuInit answers
 * 802 (the system is not ready), which the CUDA runtime passes on to its program; tables it has none.
 */
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <stdio.h>
#include <string.h>

#define EXPORT __declspec(dllexport)

enum { SUCCESS = 0, NOT_SUPPORTED = 801, NOT_READY = 802, VERSION = 13090, BY_STATUS = 12000, PATHS = 1024 };

static int names, tables;

EXPORT int cuInit(unsigned flags)
{
    (void)flags;
    return NOT_READY;
}

EXPORT int cuDriverGetVersion(int *version)
{
    *version = VERSION;
    return SUCCESS;
}

EXPORT int cuGetExportTable(const void **table, const void *id)
{
    (void)id;
    ++tables;
    *table = NULL;
    return NOT_SUPPORTED;
}

static int not_supported(void)
{
    return NOT_SUPPORTED;
}

EXPORT int cuGetProcAddress(const char *name, void **call, int version, unsigned long long flags);

/* From CUDA 12 on the call of this name has a fifth argument; an empty name asks for it as well. */
EXPORT int cuGetProcAddress_v2(const char *name, void **call, int version, unsigned long long flags, int *status)
{
    (void)flags;
    ++names;
    if (status) {
        *status = 0;
    }
    if (!strcmp(name, "cuInit")) {
        *call = (void *)cuInit;
    } else if (!strcmp(name, "cuDriverGetVersion")) {
        *call = (void *)cuDriverGetVersion;
    } else if (!strcmp(name, "cuGetExportTable")) {
        *call = (void *)cuGetExportTable;
    } else if (!*name || (!strcmp(name, "cuGetProcAddress") && version >= BY_STATUS)) {
        *call = (void *)cuGetProcAddress_v2;
    } else if (!strcmp(name, "cuGetProcAddress")) {
        *call = (void *)cuGetProcAddress;
    } else {
        *call = (void *)not_supported;
    }
    return SUCCESS;
}

EXPORT int cuGetProcAddress(const char *name, void **call, int version, unsigned long long flags)
{
    return cuGetProcAddress_v2(name, call, version, flags, NULL);
}

static void say(const char *line)
{
    DWORD written;
    WriteFile(GetStdHandle(STD_OUTPUT_HANDLE), line, (DWORD)strlen(line), &written, NULL);
}

BOOL WINAPI DllMain(HINSTANCE module, DWORD reason, void *reserved)
{
    wchar_t wide[PATHS];
    char path[PATHS * 3], line[PATHS * 3 + 32];
    (void)reserved;
    if (reason == DLL_PROCESS_ATTACH) {
        GetModuleFileNameW(module, wide, PATHS);
        WideCharToMultiByte(CP_UTF8, 0, wide, -1, path, sizeof path, NULL, NULL);
        snprintf(line, sizeof line, "nvcuda loaded %s\n", path);
        say(line);
    } else if (reason == DLL_PROCESS_DETACH) {
        snprintf(line, sizeof line, "nvcuda asked %d %d\n", names, tables);
        say(line);
    }
    return TRUE;
}
