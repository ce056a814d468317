/* A stand-in for zluda.exe that really gets a DLL into a program before its first instruction.
 *
 *     injecting_launcher.exe -- EXE ARGS...
 *
 * As the real one it joins EXE and ARGS with single spaces and quotes nothing (vosen/ZLUDA@87531d3), starts
 * the program suspended in a job that is killed when it ends itself, and ends with the program's code. It loads
 * zluda_redirect.dll from its own folder by a call queued to the program's first thread.
 */
#include "inject.h"

#include <stdio.h>

static wchar_t line[1 << 17];

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

    join(argc, argv, argc > 1 && !wcscmp(argv[1], L"--") ? 2 : 1);
    GetModuleFileNameW(NULL, dll, MAX_PATH);
    wcscpy(wcsrchr(dll, L'\\') + 1, L"zluda_redirect.dll");
    HANDLE job = CreateJobObjectW(NULL, NULL);
    limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
    if (!job || !SetInformationJobObject(job, JobObjectExtendedLimitInformation, &limits, sizeof limits)) {
        return fail("job");
    }
    if (!CreateProcessW(NULL, line, NULL, NULL, FALSE, CREATE_SUSPENDED, NULL, NULL, &startup, &child)) {
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
