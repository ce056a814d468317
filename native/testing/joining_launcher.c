/* A stand-in for zluda.exe that has its faults (vosen/ZLUDA@87531d3, zluda_inject/src).
 *
 *     joining_launcher.exe [--zluda | --zluda-trace | --nvidia-trace] -- EXE ARGS...
 *
 * It joins EXE and ARGS with single spaces and quotes nothing, starts that line with no application name and
 * without handing handles on, keeps the program in a job that is killed when it ends itself, and ends
 * with the program's code. Its own failures end with 1, as many a program's do. Nothing is injected.
 */
#define WIN32_LEAN_AND_MEAN
#include <stdio.h>
#include <wchar.h>
#include <windows.h>

static wchar_t line[1 << 17];

static int fail(const char *what)
{
    fprintf(stderr, "Error: %s: %lu\n", what, GetLastError());
    return 1;
}

static int is_mode(const wchar_t *word)
{
    return !wcscmp(word, L"--zluda") || !wcscmp(word, L"--zluda-trace") || !wcscmp(word, L"--nvidia-trace");
}

static int join(int argc, wchar_t **argv, int first)
{
    size_t used = 0;
    for (int i = first; i < argc; ++i) {
        size_t length = wcslen(argv[i]);
        if (used + length + 2 > sizeof line / sizeof *line) {
            return 0;
        }
        if (i > first) {
            line[used++] = L' ';
        }
        wmemcpy(line + used, argv[i], length + 1);
        used += length;
    }
    return used > 0;
}

int wmain(int argc, wchar_t **argv)
{
    STARTUPINFOW startup = {.cb = sizeof startup};
    PROCESS_INFORMATION child;
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits = {0};
    DWORD code = 1;
    int first = 1;

    while (first < argc && is_mode(argv[first])) {
        ++first;
    }
    if (first < argc && !wcscmp(argv[first], L"--")) {
        ++first;
    }
    if (!join(argc, argv, first)) {
        return fail("no program named");
    }
    HANDLE job = CreateJobObjectW(NULL, NULL);
    limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
    if (!job || !SetInformationJobObject(job, JobObjectExtendedLimitInformation, &limits, sizeof limits)) {
        return fail("job");
    }
    if (!CreateProcessW(NULL, line, NULL, NULL, FALSE, CREATE_SUSPENDED | CREATE_UNICODE_ENVIRONMENT, NULL,
                        NULL, &startup, &child)) {
        return fail("CreateProcess");
    }
    if (!AssignProcessToJobObject(job, child.hProcess)) {
        TerminateProcess(child.hProcess, 1);
        return fail("AssignProcessToJobObject");
    }
    ResumeThread(child.hThread);
    WaitForSingleObject(child.hProcess, INFINITE);
    GetExitCodeProcess(child.hProcess, &code);
    ExitProcess(code);
}
