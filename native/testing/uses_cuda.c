/* A CUDA program that gets its driver in the way it is told, calls it, and says which file answered.
 *
 *     uses_cuda.exe STYLE [FOLDER]
 *
 * name: by its bare name. system: from the system folder alone, as the CUDA runtime asks. path: a copy in FOLDER, by
 * full path, as torch asks for torch\lib. added: FOLDER is added to the folders that are searched. child: a process
 * started by this one asks by name. start: like child, but this one ends first.
 *
 * Prints "STYLE RESULT PATH"; RESULT is cuInit's, or the loader's error as -N. Paths are written as UTF-8.
 */
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <stdio.h>
#include <string.h>
#include <wchar.h>

enum { PATHS = 1024, SYSTEM_ONLY = 0x800, OWN_FOLDER = 0x1100, DEFAULT_FOLDERS = 0x1000 };

static int say(const wchar_t *style, HMODULE module)
{
    wchar_t wide[PATHS];
    char path[PATHS * 3] = "";
    int result = module ? 0 : -(int)GetLastError();
    if (module) {
        int (*init)(unsigned) = (int (*)(unsigned))(void *)GetProcAddress(module, "cuInit");
        result = init ? init(0) : -1;
        GetModuleFileNameW(module, wide, PATHS);
        WideCharToMultiByte(CP_UTF8, 0, wide, -1, path, sizeof path, NULL, NULL);
    }
    printf("%ls %d %s\n", style, result, path);
    fflush(stdout);
    return result == 0 ? 0 : 9;
}

static int start(const wchar_t *style, int wait)
{
    STARTUPINFOW startup = {.cb = sizeof startup};
    PROCESS_INFORMATION child;
    wchar_t own[PATHS], line[PATHS + 32];
    DWORD code = 3;
    GetModuleFileNameW(NULL, own, PATHS);
    swprintf(line, PATHS + 32, L"\"%ls\" name", own);
    if (!CreateProcessW(NULL, line, NULL, NULL, TRUE, 0, NULL, NULL, &startup, &child)) {
        printf("%ls %d \n", style, -(int)GetLastError());
        return 3;
    }
    if (wait) {
        WaitForSingleObject(child.hProcess, INFINITE);
        GetExitCodeProcess(child.hProcess, &code);
        return (int)code;
    }
    return 0;
}

int wmain(int argc, wchar_t **argv)
{
    const wchar_t *style = argc > 1 ? argv[1] : L"name";
    wchar_t path[PATHS];
    if (!wcscmp(style, L"system")) {
        return say(style, LoadLibraryExW(L"nvcuda.dll", NULL, SYSTEM_ONLY));
    }
    if (!wcscmp(style, L"path")) {
        swprintf(path, PATHS, L"%ls\\nvcuda.dll", argv[2]);
        return say(style, LoadLibraryExW(path, NULL, OWN_FOLDER));
    }
    if (!wcscmp(style, L"added")) {
        SetDefaultDllDirectories(DEFAULT_FOLDERS);
        AddDllDirectory(argv[2]);
        return say(style, LoadLibraryExW(L"nvcuda.dll", NULL, 0));
    }
    if (!wcscmp(style, L"child")) {
        return start(style, 1);
    }
    if (!wcscmp(style, L"start")) {
        return start(style, 0);
    }
    return say(style, LoadLibraryW(L"nvcuda.dll"));
}
