/* The DLL that injecting_launcher.exe loads: sends CUDA libraries to the ones in its own folder.
 *
 * It replaces LoadLibrary* and CreateProcess* in the import tables of every module that is loaded, now or later.
 * A library whose file name also lies in this DLL's folder is loaded from there, wherever it was asked
 * for; a child process gets this DLL too. Names that a program asks GetProcAddress for are not covered. While
 * STANDIN_TRACE is set, libraries come from the folder trace below this DLL's.
 */
#include "inject.h"

#include <psapi.h>
#include <stdio.h>

static wchar_t folder[MAX_PATH];
static wchar_t self[MAX_PATH];

static void patch_all(void);

/* The path of our own copy, or NULL; `buffer` holds MAX_PATH units. */
static const wchar_t *ours(const wchar_t *asked, wchar_t *buffer)
{
    const wchar_t *name = asked;
    for (const wchar_t *c = asked; c && *c; ++c) {
        if (*c == L'\\' || *c == L'/') {
            name = c + 1;
        }
    }
    if (!name || !*name || wcslen(folder) + wcslen(name) >= MAX_PATH) {
        return NULL;
    }
    swprintf(buffer, MAX_PATH, L"%ls%ls", folder, name);
    return GetFileAttributesW(buffer) == INVALID_FILE_ATTRIBUTES ? NULL : buffer;
}

static HMODULE WINAPI load_ex_w(const wchar_t *asked, HANDLE file, DWORD flags)
{
    wchar_t buffer[MAX_PATH];
    const wchar_t *mine = ours(asked, buffer);
    HMODULE module = mine ? LoadLibraryExW(mine, NULL, 0) : LoadLibraryExW(asked, file, flags);
    patch_all();
    return module;
}

static HMODULE WINAPI load_w(const wchar_t *asked)
{
    return load_ex_w(asked, NULL, 0);
}

static HMODULE WINAPI load_ex_a(const char *asked, HANDLE file, DWORD flags)
{
    wchar_t wide[MAX_PATH];
    if (!asked || !MultiByteToWideChar(CP_ACP, 0, asked, -1, wide, MAX_PATH)) {
        return LoadLibraryExA(asked, file, flags);
    }
    return load_ex_w(wide, file, flags);
}

static HMODULE WINAPI load_a(const char *asked)
{
    return load_ex_a(asked, NULL, 0);
}

static BOOL started(BOOL done, DWORD flags, const PROCESS_INFORMATION *child)
{
    if (done) {
        inject(child, self);
        if (!(flags & CREATE_SUSPENDED)) {
            ResumeThread(child->hThread);
        }
    }
    return done;
}

static BOOL WINAPI create_w(const wchar_t *app, wchar_t *line, SECURITY_ATTRIBUTES *process, SECURITY_ATTRIBUTES *thread,
                            BOOL handles, DWORD flags, void *env, const wchar_t *cwd, STARTUPINFOW *startup,
                            PROCESS_INFORMATION *child)
{
    return started(CreateProcessW(app, line, process, thread, handles, flags | CREATE_SUSPENDED, env, cwd, startup, child),
                   flags, child);
}

static BOOL WINAPI create_a(const char *app, char *line, SECURITY_ATTRIBUTES *process, SECURITY_ATTRIBUTES *thread,
                            BOOL handles, DWORD flags, void *env, const char *cwd, STARTUPINFOA *startup,
                            PROCESS_INFORMATION *child)
{
    return started(CreateProcessA(app, line, process, thread, handles, flags | CREATE_SUSPENDED, env, cwd, startup, child),
                   flags, child);
}

static const struct {
    const char *name;
    void *hook;
} hooks[] = {
    {"LoadLibraryA", load_a},      {"LoadLibraryW", load_w},      {"LoadLibraryExA", load_ex_a},
    {"LoadLibraryExW", load_ex_w}, {"CreateProcessW", create_w}, {"CreateProcessA", create_a},
};

static void replace(void **slot, void *hook)
{
    DWORD before;
    if (*slot != hook && VirtualProtect(slot, sizeof *slot, PAGE_READWRITE, &before)) {
        *slot = hook;
        VirtualProtect(slot, sizeof *slot, before, &before);
    }
}

/* Replace the hooked names in one module's import table; modules without names (bound only) are left. */
static void patch(char *base)
{
    IMAGE_NT_HEADERS *head = (void *)(base + ((IMAGE_DOS_HEADER *)base)->e_lfanew);
    IMAGE_DATA_DIRECTORY *directory = &head->OptionalHeader.DataDirectory[IMAGE_DIRECTORY_ENTRY_IMPORT];
    if (!directory->VirtualAddress) {
        return;
    }
    for (IMAGE_IMPORT_DESCRIPTOR *from = (void *)(base + directory->VirtualAddress); from->Name; ++from) {
        if (!from->OriginalFirstThunk) {
            continue;
        }
        IMAGE_THUNK_DATA *name = (void *)(base + from->OriginalFirstThunk);
        IMAGE_THUNK_DATA *slot = (void *)(base + from->FirstThunk);
        for (; name->u1.AddressOfData; ++name, ++slot) {
            if (IMAGE_SNAP_BY_ORDINAL(name->u1.Ordinal)) {
                continue;
            }
            IMAGE_IMPORT_BY_NAME *import = (void *)(base + name->u1.AddressOfData);
            for (size_t i = 0; i < sizeof hooks / sizeof *hooks; ++i) {
                if (!strcmp((char *)import->Name, hooks[i].name)) {
                    replace((void **)&slot->u1.Function, hooks[i].hook);
                }
            }
        }
    }
}

static int is_system(HMODULE module)
{
    wchar_t path[MAX_PATH], windows[MAX_PATH];
    UINT length = GetWindowsDirectoryW(windows, MAX_PATH);
    return !GetModuleFileNameW(module, path, MAX_PATH) || !_wcsnicmp(path, windows, length);
}

static void patch_all(void)
{
    HMODULE modules[1024], mine = GetModuleHandleW(self);
    DWORD size = 0;
    if (!K32EnumProcessModules(GetCurrentProcess(), modules, sizeof modules, &size)) {
        return;
    }
    for (DWORD i = 0; i < size / sizeof *modules && i < 1024; ++i) {
        if (modules[i] != mine && !is_system(modules[i])) {
            patch((char *)modules[i]);
        }
    }
}

BOOL WINAPI DllMain(HINSTANCE module, DWORD reason, void *reserved)
{
    (void)reserved;
    if (reason == DLL_PROCESS_ATTACH) {
        GetModuleFileNameW(module, self, MAX_PATH);
        wcscpy(folder, self);
        wcsrchr(folder, L'\\')[1] = 0;
        if (GetEnvironmentVariableW(L"STANDIN_TRACE", NULL, 0)) {
            wcscat(folder, L"trace\\");
        }
        patch_all();
    }
    return TRUE;
}
