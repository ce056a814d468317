/* A stand-in for hipInfo.exe: it prints hipInfo.txt, which lies beside it.
 *
 * As the real one it sees only what a filter leaves over: with HIP_VISIBLE_DEVICES set it finds no device.
 */
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <stdio.h>
#include <wchar.h>

int wmain(void)
{
    wchar_t path[1024];
    if (GetEnvironmentVariableW(L"HIP_VISIBLE_DEVICES", path, 1024)) {
        fprintf(stderr, "HIP API error = 0100 \"hipErrorNoDevice\"\n");
        return 1;
    }
    GetModuleFileNameW(NULL, path, 1024);
    wcscpy(wcsrchr(path, L'\\') + 1, L"hipInfo.txt");
    FILE *file = _wfopen(path, L"rb");
    for (int byte; file && (byte = fgetc(file)) != EOF;) {
        putchar(byte);
    }
    return file ? 0 : 1;
}
