/* Load a DLL into a process that was started suspended, before its entry point runs. */
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <wchar.h>

static inline int inject(const PROCESS_INFORMATION *child, const wchar_t *dll)
{
    SIZE_T size = (wcslen(dll) + 1) * sizeof *dll;
    void *path = VirtualAllocEx(child->hProcess, NULL, size, MEM_COMMIT | MEM_RESERVE, PAGE_READWRITE);
    if (!path || !WriteProcessMemory(child->hProcess, path, dll, size, NULL)) {
        return 0;
    }
    /* kernel32 lies at the same place in every process of one architecture. */
    return QueueUserAPC((PAPCFUNC)(void *)LoadLibraryW, child->hThread, (ULONG_PTR)path) != 0;
}
