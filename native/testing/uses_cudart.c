/* A program that loads its own copy of the CUDA runtime, as torch does, and asks for the devices.
 *
 *     uses_cudart.exe CUDART [first]
 *
 * first: the driver is loaded by its bare name before, as a program that imports it has it.
 *
 * Prints "cudart RESULT COUNT VERSION": what cudaGetDeviceCount answers, and the numbers that it and
 * cudaDriverGetVersion give, -1 where none was given.
 */
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <stdio.h>

enum { OWN_FOLDER = 0x1100 };

typedef int (*Asks)(int *);

int wmain(int argc, wchar_t **argv)
{
    int count = -1, version = -1;
    if (argc > 2 && !LoadLibraryW(L"nvcuda.dll")) {
        fprintf(stderr, "Error: no driver: %lu\n", GetLastError());
        return 3;
    }
    HMODULE cudart = argc > 1 ? LoadLibraryExW(argv[1], NULL, OWN_FOLDER) : NULL;
    Asks devices = cudart ? (Asks)(void *)GetProcAddress(cudart, "cudaGetDeviceCount") : NULL;
    Asks driver = cudart ? (Asks)(void *)GetProcAddress(cudart, "cudaDriverGetVersion") : NULL;
    if (!devices || !driver) {
        fprintf(stderr, "Error: no CUDA runtime: %lu\n", GetLastError());
        return 3;
    }
    int result = devices(&count);
    driver(&version);
    printf("cudart %d %d %d\n", result, count, version);
    return 0;
}
