/* A CUDA program that asks for its driver as the CUDA runtime does and calls what layers often lack.
 *
 * It says on stdout what each call returned, and on stderr a line of its own without and with an end.
 */
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <stdio.h>
#include <wchar.h>

enum { SYSTEM_ONLY = 0x800 };
typedef int (*Call)(void *, void *, void *, void *);

int wmain(void)
{
    static const char ptx[] = ".version 8.0\n.target sm_86\n.visible .entry k() { nanosleep.u32 %r101; ret; }\n";
    HMODULE driver = LoadLibraryExW(L"nvcuda.dll", NULL, SYSTEM_ONLY);
    int count = 0;
    void *made = NULL;
    const struct {
        const char *name;
        void *first, *second;
    } calls[] = {
        {"cuInit", NULL, NULL},
        {"cuDeviceGetCount", &count, NULL},
        {"cuTexRefCreate", &made, NULL},
        {"cuModuleLoadData", &made, (void *)ptx},
    };
    fputs("words of its own\n[ZLUDA", stderr);
    fflush(stderr);
    fputs(" is no mark\n", stderr);
    fflush(stderr);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; ++i) {
        Call call = driver ? (Call)(void *)GetProcAddress(driver, calls[i].name) : NULL;
        printf("%s %d\n", calls[i].name, call ? call(calls[i].first, calls[i].second, NULL, NULL) : -1);
        fflush(stdout);
    }
    return driver ? 0 : 9;
}
