/* A stand-in for zluda.exe that really gets a DLL into a program before its first instruction.
 *
 *     injecting_launcher.exe [--zluda-trace] -- EXE ARGS...
 *
 * As the real one it joins EXE and ARGS with single spaces and quotes nothing (vosen/ZLUDA@87531d3), starts
 * the program suspended in a job that is killed when it ends itself, and ends with the program's code. It loads
 * zluda_redirect.dll from its own folder by a call queued to the program's first thread. With --zluda-trace that DLL
 * serves from the folder trace, and variables are added at the end of the environment as the real one adds them: also
 * where they are set already, unless a variable has their name as its value.
 */
#include "inject.h"

#include <stdio.h>

static wchar_t line[1 << 17];
static wchar_t block[1 << 17];
static size_t used;

static void add(const wchar_t *name, const wchar_t *value)
{
    for (const wchar_t *at = block; *at; at += wcslen(at) + 1) {
        const wchar_t *equals = wcschr(at + 1, L'=');
        if (equals && !wcscmp(equals + 1, name)) {
            return;
        }
    }
    used += swprintf(block + used, sizeof block / sizeof *block - used, L"%ls=%ls", name, value) + 1;
}

/* The environment of a traced program. */
static wchar_t *traced(void)
{
    wchar_t path[MAX_PATH], *mine = GetEnvironmentStringsW();
    for (const wchar_t *at = mine; *at; at += wcslen(at) + 1) {
        wcscpy(block + used, at);
        used += wcslen(at) + 1;
    }
    FreeEnvironmentStringsW(mine);
    GetModuleFileNameW(NULL, path, MAX_PATH);
    wcscpy(wcsrchr(path, L'\\') + 1, L"nvcuda.dll");
    add(L"ZLUDA_CUDA_LIB", path);
    GetTempPathW(MAX_PATH - 8, path);
    wcscat(path, L"zluda");
    add(L"ZLUDA_LOG_DIR", path);
    add(L"STANDIN_TRACE", L"1");
    block[used] = 0;
    return block;
}

static int fail(const char *what)
{
    fprintf(stderr, "Error: %s: %lu\n", what, GetLastError());
    return 1;
}

static void join(int argc, wchar_t **argv, int first)
{
    for (int i = first; i < argc; ++i) {
        if (i > first) {
            wcscat(line, L" ");
        }
        wcscat(line, argv[i]);
    }
}

int wmain(int argc, wchar_t **argv)
{
    STARTUPINFOW startup = {.cb = sizeof startup};
    PROCESS_INFORMATION child;
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits = {0};
    wchar_t dll[MAX_PATH];
    DWORD code = 1;

    int first = 1, trace = argc > 1 && !wcscmp(argv[1], L"--zluda-trace");
    first += trace;
    join(argc, argv, argc > first && !wcscmp(argv[first], L"--") ? first + 1 : first);
    GetModuleFileNameW(NULL, dll, MAX_PATH);
    wcscpy(wcsrchr(dll, L'\\') + 1, L"zluda_redirect.dll");
    HANDLE job = CreateJobObjectW(NULL, NULL);
    limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
    if (!job || !SetInformationJobObject(job, JobObjectExtendedLimitInformation, &limits, sizeof limits)) {
        return fail("job");
    }
    if (!CreateProcessW(NULL, line, NULL, NULL, FALSE, CREATE_SUSPENDED | CREATE_UNICODE_ENVIRONMENT,
                        trace ? traced() : NULL, NULL, &startup, &child)) {
        return fail("CreateProcess");
    }
    if (!AssignProcessToJobObject(job, child.hProcess) || !inject(&child, dll)) {
        TerminateProcess(child.hProcess, 1);
        return fail("injection");
    }
    ResumeThread(child.hThread);
    WaitForSingleObject(child.hProcess, INFINITE);
    GetExitCodeProcess(child.hProcess, &code);
    ExitProcess(code);
}
