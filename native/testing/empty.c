/* A library with nothing in it: the tests look only at where it was loaded from. */
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

BOOL WINAPI DllMain(HINSTANCE module, DWORD reason, void *reserved)
{
    (void)module, (void)reason, (void)reserved;
    return TRUE;
}
