/* A stand-in for a translation layer's trace\nvcuda.dll (vosen/ZLUDA@87531d3, zluda_trace): logs calls, hands them on.
 *
 * The real library is the one ZLUDA_CUDA_LIB names. Lines go to log.txt in a new folder below ZLUDA_LOG_DIR that is
 * named after the program (EXE, EXE_1, ...), and with a prefix to stderr. Device code that is handed over is saved
 * there; text with an instruction that the layer does not know gets a log of its own. Without a real library every
 * call fails, and says so.
 */
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

enum { PATHS = 1024, UNKNOWN = 999 };
#define EXPORT __declspec(dllexport)

static wchar_t folder[PATHS];
static FILE *file;
static HMODULE real;
static int modules;
static char remarks[PATHS * 4];

static const char *name_of(int status)
{
    static char number[16];
    switch (status) {
    case 0: return "CUDA_SUCCESS";
    case 1: return "CUDA_ERROR_INVALID_VALUE";
    case 3: return "CUDA_ERROR_NOT_INITIALIZED";
    case 201: return "CUDA_ERROR_INVALID_CONTEXT";
    case 218: return "CUDA_ERROR_INVALID_PTX";
    case 801: return "CUDA_ERROR_NOT_SUPPORTED";
    case UNKNOWN: return "CUDA_ERROR_UNKNOWN";
    default: snprintf(number, sizeof number, "%d", status); return number;
    }
}

/* Remarks stand below the call, so they are kept until it is written. */
static void remark(const char *format, ...)
{
    va_list args;
    size_t used = strlen(remarks);
    va_start(args, format);
    vsnprintf(remarks + used, sizeof remarks - used, format, args);
    va_end(args);
}

static void write_lines(const char *text)
{
    fprintf(stderr, "[ZLUDA_TRACE] %s\n", text);
    if (file) {
        fprintf(file, "%s\n", text);
    }
    for (char *line = strtok(remarks, "\n"); line; line = strtok(NULL, "\n")) {
        fprintf(stderr, "[ZLUDA_TRACE]     %s\n", line);
        if (file) {
            fprintf(file, "    %s\n", line);
        }
    }
    fflush(stderr);
    if (file) {
        fflush(file);
    }
    *remarks = 0;
}

static void begin(void)
{
    wchar_t logs[PATHS], exe[PATHS], path[PATHS + 16];
    char utf8[PATHS * 3];
    if (real || file) {
        return;
    }
    if (GetEnvironmentVariableW(L"ZLUDA_LOG_DIR", logs, PATHS)) {
        GetModuleFileNameW(NULL, exe, PATHS);
        const wchar_t *name = wcsrchr(exe, L'\\') + 1;
        CreateDirectoryW(logs, NULL);
        swprintf(folder, PATHS, L"%ls\\%ls", logs, name);
        for (int i = 1; !CreateDirectoryW(folder, NULL) && i < 100; ++i) {
            swprintf(folder, PATHS, L"%ls\\%ls_%d", logs, name, i);
        }
        swprintf(path, PATHS + 16, L"%ls\\log.txt", folder);
        file = _wfopen(path, L"wb");
        WideCharToMultiByte(CP_UTF8, 0, folder, -1, utf8, sizeof utf8, NULL, NULL);
        remark("Created trace directory %s \n", utf8);
    }
    /* By an address that is not redirected, as the real one asks for it. */
    HMODULE(WINAPI *load)(const wchar_t *) =
        (HMODULE(WINAPI *)(const wchar_t *))(void *)GetProcAddress(GetModuleHandleW(L"kernel32.dll"), "LoadLibraryW");
    wchar_t library[PATHS];
    real = GetEnvironmentVariableW(L"ZLUDA_CUDA_LIB", library, PATHS) ? load(library) : NULL;
}

typedef int (*Call)(void *, void *, void *, void *, void *, void *);

static int hand_on(const char *function, const char *arguments, void *a, void *b, void *c, void *d, void *e, void *f)
{
    char line[PATHS * 2];
    begin();
    Call call = real ? (Call)(void *)GetProcAddress(real, function) : NULL;
    int status = call ? call(a, b, c, d, e, f) : UNKNOWN;
    if (!call) {
        remark("No function %s in the underlying library\n", function);
    }
    snprintf(line, sizeof line, "%s(%s) -> %s", function, arguments, call ? name_of(status) : "UNKNOWN");
    write_lines(line);
    return status;
}

static void save(const char *suffix, const char *text)
{
    wchar_t path[PATHS + 32];
    swprintf(path, PATHS + 32, L"%ls\\module_%04d.%hs", folder, modules, suffix);
    FILE *saved = _wfopen(path, L"wb");
    if (saved) {
        fputs(text, saved);
        fclose(saved);
    }
}

EXPORT int cuInit(unsigned flags)
{
    char arguments[32];
    snprintf(arguments, sizeof arguments, "Flags: %u", flags);
    return hand_on("cuInit", arguments, (void *)(size_t)flags, NULL, NULL, NULL, NULL, NULL);
}

EXPORT int cuDeviceGetCount(int *count)
{
    return hand_on("cuDeviceGetCount", "count: 0x1", count, NULL, NULL, NULL, NULL, NULL);
}

EXPORT int cuTexRefCreate(void **made)
{
    return hand_on("cuTexRefCreate", "pTexRef: 0x1", made, NULL, NULL, NULL, NULL, NULL);
}

EXPORT int cuModuleLoadData(void **module, const char *image)
{
    begin();
    ++modules;
    save("ptx", image);
    remark("Saved module to module_%04d.ptx\n", modules);
    if (strstr(image, "nanosleep")) {
        save("log", "Unrecognized statement \"nanosleep.u32 %r101;\"\n");
        remark("Error parsing module, log has been written to module_%04d.log\n", modules);
    }
    return hand_on("cuModuleLoadData", "module: 0x1, image: 0x2", module, (void *)image, NULL, NULL, NULL, NULL);
}
