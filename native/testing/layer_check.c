/* A stand-in for a translation layer's cuda_check.exe (vosen/ZLUDA@87531d3, cuda_check/src/win.rs and zluda_windows).
 *
 * For every CUDA library in its own folder it loads that file and then what of HIP stands behind it, where the
 * layer looks: its own folder, then %HIP_PATH%\bin. It prints its lines in random order, ends with 0 whatever it
 * found, and shows a box for each back-end that is missing. Without any HIP runtime it dies as a failed delay load does.
 *
 * STANDIN_FAULT=hang: it sleeps after one line. STANDIN_FAULT=half: it ends after three. STANDIN_FAULT=driver: the HIP
 * runtime finds no device, as with a display driver that is too old for it (vosen/ZLUDA#659). STANDIN_FAULT=kernels: rocBLAS
 * ends the process, because it has no kernels for the GPU.
 */
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <stdio.h>
#include <string.h>
#include <wchar.h>

enum { SEARCH = 0x1100, PATHS = 1024, DELAY_LOAD_FAILED = (int)0xC06D007E };

typedef struct {
    const char *name, *dll, *call;
    int status; /* what the call returns without its back-end */
    const wchar_t *backends[3];
} Library;

#define BLAS(v) {"cublas" #v, "cublas64_" #v ".dll", "cublasCreate_v2", 6, {L"rocblas.dll"}}
#define LT(v) {"cublaslt" #v, "cublasLt64_" #v ".dll", "cublasLtCreate", 6, {L"hipblaslt.dll", L"libhipblaslt.dll"}}
#define SPARSE(v) {"cusparse" #v, "cusparse64_" #v ".dll", "cusparseCreate", 7, {L"rocsparse.dll"}}
#define FFT(v) {"cufft" #v, "cufft64_" #v ".dll", "", 0, {NULL}}

static const Library LIBRARIES[] = {
    {"nvcuda", "nvcuda.dll", "cuInit", 0, {L"amdhip64_7.dll", L"amdhip64_6.dll"}},
    {"nvml", "nvml.dll", "", 0, {NULL}},
    {"cudnn8", "cudnn64_8.dll", "cudnnCreate", 4, {L"MIOpen.dll"}},
    {"cudnn9", "cudnn64_9.dll", "cudnnCreate", 4000, {L"MIOpen.dll"}},
    BLAS(11), BLAS(12), BLAS(13), LT(11), LT(12), LT(13), SPARSE(10), SPARSE(11), SPARSE(12), FFT(10), FFT(11), FFT(12),
};
enum { COUNT = sizeof LIBRARIES / sizeof *LIBRARIES };

static wchar_t own[PATHS];
static int no_device;

static HMODULE backend(const wchar_t *name)
{
    wchar_t path[PATHS], hip[PATHS];
    HMODULE module = GetModuleHandleW(name);
    if (!module) {
        swprintf(path, PATHS, L"%ls%ls", own, name);
        module = LoadLibraryExW(path, NULL, SEARCH);
    }
    if (!module && GetEnvironmentVariableW(L"HIP_PATH", hip, PATHS)) {
        swprintf(path, PATHS, L"%ls\\bin\\%ls", hip, name);
        module = LoadLibraryExW(path, NULL, SEARCH);
    }
    return module;
}

/* The runtime itself is what a back-end has brought along, else what its bare name finds. */
static void require_hip(void)
{
    static const wchar_t *const first[] = {L"hipblaslt.dll", L"libhipblaslt.dll", L"rocblas.dll", L"rocsparse.dll",
                                           L"MIOpen.dll"};
    for (int i = 0; i < 5; ++i) {
        backend(first[i]);
    }
    if (!GetModuleHandleW(L"amdhip64_7.dll") && !GetModuleHandleW(L"amdhip64_6.dll") &&
        !LoadLibraryW(L"amdhip64_7.dll") && !LoadLibraryW(L"amdhip64_6.dll")) {
        ExitProcess((UINT)DELAY_LOAD_FAILED);
    }
}

static void check(const Library *library)
{
    char path[PATHS], file[PATHS];
    wchar_t text[PATHS];
    snprintf(path, PATHS, "%ls%s", own, library->dll);
    if (!LoadLibraryExA(path, NULL, 8)) {
        printf("%-10s: ERROR: Loading(LoadLibraryExW { source: %lu })\n", library->name, GetLastError());
        return;
    }
    if (no_device && !strcmp(library->name, "nvcuda")) {
        fputs("Hip error hipErrorNoDevice at hipblaslt.cpp:164\n", stderr);
        printf("%-10s: ERROR: Initialization(\"cuInit\", 100)\n", library->name);
        return;
    }
    if (!library->backends[0]) {
        printf("%-10s: OK\n", library->name);
        return;
    }
    for (int i = 0; library->backends[i]; ++i) {
        HMODULE module = backend(library->backends[i]);
        if (module && GetModuleFileNameA(module, file, PATHS)) {
            printf("%-10s: OK (%s)\n", library->name, file);
            return;
        }
    }
    swprintf(text, PATHS, L"%ls could not be found", library->backends[0]);
    MessageBoxW(NULL, text, L"ZLUDA error", MB_OK | MB_ICONERROR);
    printf("%-10s: ERROR: Initialization(\"%s\", %d)\n", library->name, library->call, library->status);
}

int wmain(void)
{
    int order[COUNT];
    char fault[16] = "";
    unsigned seed = GetTickCount() ^ GetCurrentProcessId();

    GetEnvironmentVariableA("STANDIN_FAULT", fault, sizeof fault);
    no_device = !strcmp(fault, "driver");
    GetModuleFileNameW(NULL, own, PATHS);
    wcsrchr(own, L'\\')[1] = 0;
    require_hip();
    for (int i = 0; i < COUNT; ++i) {
        seed = seed * 1103515245u + 12345u;
        int j = (int)(seed >> 16) % (i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    for (int i = 0; i < COUNT; ++i) {
        check(&LIBRARIES[order[i]]);
        fflush(stdout);
        if (i == 0 && !strcmp(fault, "kernels")) {
            fputs("rocBLAS error: Cannot read C:\\ROCm\\bin\\/rocblas/library/TensileLibrary.dat: "
                  "No such file or directory for GPU arch : gfx1200\n", stderr);
            return 3;
        }
        if (i == 0 && !strcmp(fault, "hang")) {
            Sleep(INFINITE);
        }
        if (i == 2 && !strcmp(fault, "half")) {
            return 0;
        }
    }
    return 0;
}
