/* A stand-in for a translation layer's zluda_precompile.exe (vosen/ZLUDA@87531d3): one path, and a cache that grows.
 *
 *     layer_precompile.exe PATH
 *
 * Says which path it was given and adds a kilobyte to the file STANDIN_CACHE names. Without that variable it finds no
 * device code. STANDIN_FAULT=fail: no GPU answers, as the real one says it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <wchar.h>

int wmain(int argc, wchar_t **argv)
{
    const wchar_t *cache = _wgetenv(L"STANDIN_CACHE"), *fault = _wgetenv(L"STANDIN_FAULT");
    static const char kilobyte[1024];

    if (fault && !wcscmp(fault, L"fail")) {
        fputs("Error: \"Failed to initialize ZLUDA\"\n", stderr);
        return 1;
    }
    printf("[2/2] %d file(s) compiled\n", argc - 1);
    wprintf(L"%ls\n", argc > 1 ? argv[1] : L"");
    FILE *file = cache ? _wfopen(cache, L"ab") : NULL;
    if (file) {
        fwrite(kilobyte, sizeof kilobyte, 1, file);
        fclose(file);
    }
    return 0;
}
