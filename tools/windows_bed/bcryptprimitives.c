/* ProcessPrng, the one function that Rust programs (cryptography, rpds) take from bcryptprimitives.dll,
   which Wine before 9.0 lacks. Used on the Windows bed only. */
#include <windows.h>

BOOLEAN NTAPI SystemFunction036(PVOID buffer, ULONG size); /* RtlGenRandom of advapi32 */

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T size)
{
    while (size > 0) {
        ULONG step = size > 0x10000000 ? 0x10000000 : (ULONG)size;
        if (!SystemFunction036(data, step))
            return FALSE;
        data += step;
        size -= step;
    }
    return TRUE;
}
