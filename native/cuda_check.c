/* cuda_check: which CUDA libraries load here, and does each one's first call succeed?
 *
 * For stacks that ship no such program. One line a library, in the format of ZLUDA's cuda_check:
 *     cublas12  : OK (/path/of/libcublas.so.12)
 *     cublas13  : ERROR: Loading(what the loader said)
 *     cublas11  : ERROR: Initialization("cublasCreate_v2", 1)
 * Libraries are found the way any CUDA program finds them: by name, through the system's loader.
 * The order is fixed, each line is flushed at once, and the exit code is 0 whatever the lines say
 * (2: the command line was wrong), so a caller reads the lines. NOT_SUPPORTED is an error here.
 *
 * Usage: cuda_check [--driver-first] [--nvcuda] [--cublas12] ...   (no library named: all of them)
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

typedef void (*Call)(void);

typedef enum {
    DRIVER,  /* int create(unsigned flags); nothing to destroy */
    GLOBAL,  /* int create(void), int destroy(void) */
    POINTER, /* int create(void **handle), int destroy(void *handle) */
    NUMBER   /* int create(int *handle), int destroy(int handle) */
} Shape;

typedef struct {
    const char *name, *linux_file, *windows_file;
    Shape shape;
    const char *create, *destroy;
} Library;

#define BLAS(v) {"cublas" #v, "libcublas.so." #v, "cublas64_" #v ".dll", POINTER, "cublasCreate_v2", "cublasDestroy_v2"}
#define LT(v) {"cublaslt" #v, "libcublasLt.so." #v, "cublasLt64_" #v ".dll", POINTER, "cublasLtCreate", "cublasLtDestroy"}
#define SPARSE(v) {"cusparse" #v, "libcusparse.so." #v, "cusparse64_" #v ".dll", POINTER, "cusparseCreate", "cusparseDestroy"}
#define FFT(v) {"cufft" #v, "libcufft.so." #v, "cufft64_" #v ".dll", NUMBER, "cufftCreate", "cufftDestroy"}
#define DNN(v) {"cudnn" #v, "libcudnn.so." #v, "cudnn64_" #v ".dll", POINTER, "cudnnCreate", "cudnnDestroy"}

static const Library LIBRARIES[] = {
    {"nvcuda", "libcuda.so.1", "nvcuda.dll", DRIVER, "cuInit", NULL},
    {"nvml", "libnvidia-ml.so.1", "nvml.dll", GLOBAL, "nvmlInit_v2", "nvmlShutdown"},
    BLAS(13), BLAS(12), BLAS(11), LT(13), LT(12), LT(11), SPARSE(12), SPARSE(11), SPARSE(10),
    FFT(12), FFT(11), FFT(10), DNN(9), DNN(8),
};

enum { COUNT = sizeof LIBRARIES / sizeof *LIBRARIES, TEXT = 4096 };

/* ---- the system's loader ---- */

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

static void *load(const Library *library, char *problem) {
    HMODULE module = LoadLibraryA(library->windows_file);
    if (!module) snprintf(problem, TEXT, "LoadLibrary %s: error %lu", library->windows_file, GetLastError());
    return module;
}

static Call find(void *module, const char *name) {
    FARPROC found = GetProcAddress(module, name);
    Call call = NULL;
    memcpy(&call, &found, sizeof call);
    return call;
}

static void path_of(void *module, Call call, char *path) {
    (void)call;
    wchar_t wide[TEXT / 4];
    DWORD length = GetModuleFileNameW(module, wide, TEXT / 4);
    int written = WideCharToMultiByte(CP_UTF8, 0, wide, (int)length, path, TEXT - 1, NULL, NULL);
    path[written] = '\0';
}
#else
#include <dlfcn.h>

/* dladdr is everywhere but in POSIX; this is its interface. */
typedef struct {
    const char *file;
    void *base;
    const char *symbol;
    void *address;
} Location;
int dladdr(const void *address, Location *location);

static void *load(const Library *library, char *problem) {
    void *module = dlopen(library->linux_file, RTLD_NOW | RTLD_LOCAL);
    if (!module) snprintf(problem, TEXT, "%s", dlerror());
    return module;
}

static Call find(void *module, const char *name) {
    void *found = dlsym(module, name);
    Call call = NULL;
    memcpy(&call, &found, sizeof call);
    return call;
}

static void path_of(void *module, Call call, char *path) {
    (void)module;
    const void *address;
    memcpy(&address, &call, sizeof address);
    Location location;
    if (dladdr(address, &location) && location.file) snprintf(path, TEXT, "%s", location.file);
}
#endif

/* ---- one library ---- */

typedef struct {
    const char *call;
    int code;
} Failure;

/* Call create and destroy; the first that does not return 0 is the failure. */
static Failure exercise(const Library *library, Call create, Call destroy) {
    void *pointer = NULL;
    int number = 0, code = 0;
    switch (library->shape) {
    case DRIVER: code = ((int (*)(unsigned))create)(0); break;
    case GLOBAL: code = ((int (*)(void))create)(); break;
    case POINTER: code = ((int (*)(void **))create)(&pointer); break;
    case NUMBER: code = ((int (*)(int *))create)(&number); break;
    }
    if (code) return (Failure){library->create, code};
    switch (library->shape) {
    case DRIVER: break;
    case GLOBAL: code = ((int (*)(void))destroy)(); break;
    case POINTER: code = ((int (*)(void *))destroy)(pointer); break;
    case NUMBER: code = ((int (*)(int))destroy)(number); break;
    }
    return (Failure){code ? library->destroy : NULL, code};
}

/* Libraries stay loaded until the process ends, as in a CUDA program. */
static void check(const Library *library) {
    char text[TEXT] = "";
    void *module = load(library, text);
    Call create = module ? find(module, library->create) : NULL;
    Call destroy = module && library->destroy ? find(module, library->destroy) : NULL;
    if (!module) {
        printf("%-10s: ERROR: Loading(%s)\n", library->name, text);
    } else if (!create || (library->destroy && !destroy)) {
        printf("%-10s: ERROR: Loading(no %s in it)\n", library->name, create ? library->destroy : library->create);
    } else {
        Failure failure = exercise(library, create, destroy);
        path_of(module, create, text);
        if (failure.call) printf("%-10s: ERROR: Initialization(\"%s\", %d)\n", library->name, failure.call, failure.code);
        else if (*text) printf("%-10s: OK (%s)\n", library->name, text);
        else printf("%-10s: OK\n", library->name);
    }
    fflush(stdout);
}

int main(int argc, char **argv) {
    bool wanted[COUNT] = {false}, any = false;
    for (int i = 1; i < argc; i++) {
        int found = 0;
        while (found < COUNT && !(strncmp(argv[i], "--", 2) == 0 && strcmp(argv[i] + 2, LIBRARIES[found].name) == 0))
            found++;
        if (found < COUNT) wanted[found] = any = true;
        else if (strcmp(argv[i], "--driver-first") != 0) { /* the driver is always first */
            fprintf(stderr, "cuda_check: unknown argument %s\nusage: cuda_check [--driver-first]", argv[i]);
            for (int j = 0; j < COUNT; j++) fprintf(stderr, " [--%s]", LIBRARIES[j].name);
            fputc('\n', stderr);
            return 2;
        }
    }
    for (int i = 0; i < COUNT; i++)
        if (wanted[i] || !any) check(&LIBRARIES[i]);
    return 0;
}
