/* Loads the CUDA driver library as the CUDA runtime does, in this process and in a child of its own.
 *
 *     loads.exe [child]
 *
 * Prints "<who> <how> <path of what was loaded, or its error>" a line; the paths are ASCII in the tests.
 * 0x800 is LOAD_LIBRARY_SEARCH_SYSTEM32: what cudart asks with.
 */
#define WIN32_LEAN_AND_MEAN
#include <stdio.h>
#include <string.h>
#include <windows.h>

static void show(const char *who, const char *how, HMODULE module)
{
    char path[MAX_PATH];
    if (module && GetModuleFileNameA(module, path, sizeof path)) {
        printf("%s %s %s\n", who, how, path);
    } else {
        printf("%s %s error %lu\n", who, how, GetLastError());
    }
    fflush(stdout);
}

int wmain(int argc, wchar_t **argv)
{
    const char *who = argc > 1 ? "child" : "parent";
    (void)argv;
    STARTUPINFOA startup = {.cb = sizeof startup};
    PROCESS_INFORMATION child;
    char line[MAX_PATH + 16], own[MAX_PATH];

    show(who, "system", LoadLibraryExA("nvcuda.dll", NULL, 0x800));
    show(who, "name", LoadLibraryW(L"cublas64_12.dll"));
    show(who, "path", LoadLibraryA("C:\\no\\such\\folder\\cufft64_11.dll"));
    if (argc > 1) {
        return 0;
    }
    GetModuleFileNameA(NULL, own, sizeof own);
    snprintf(line, sizeof line, "\"%s\" child", own);
    if (!CreateProcessA(NULL, line, NULL, NULL, TRUE, 0, NULL, NULL, &startup, &child)) {
        return 3;
    }
    WaitForSingleObject(child.hProcess, INFINITE);
    return 0;
}
