/* A CUDA program that imports its driver: Windows loads it before the program's first instruction.
 *
 * Prints "import RESULT PATH": cuInit's result and the file that answered, as UTF-8.
 */
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <stdio.h>

__declspec(dllimport) int cuInit(unsigned flags);

int wmain(void)
{
    wchar_t wide[1024];
    char path[3072];
    int result = cuInit(0);
    GetModuleFileNameW(GetModuleHandleW(L"nvcuda.dll"), wide, 1024);
    WideCharToMultiByte(CP_UTF8, 0, wide, -1, path, sizeof path, NULL, NULL);
    printf("import %d %s\n", result, path);
    return result == 0 ? 0 : 9;
}
