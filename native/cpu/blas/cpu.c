/* Asking the processor whether it has AVX2 and FMA. */
#include "cpu.h"

#ifdef HAVE_AVX2_KERNELS
#include <cpuid.h>

enum { FMA = 1 << 12, OSXSAVE = 1 << 27, AVX = 1 << 28, AVX2 = 1 << 5, YMM_STATE = 6 };

bool cpu_has_avx2(void) {
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return false;
    if (!(c & FMA) || !(c & OSXSAVE) || !(c & AVX)) return false;
    unsigned low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0)); /* registers that the operating system saves */
    (void)high;
    if ((low & YMM_STATE) != YMM_STATE) return false;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & AVX2);
}
#else
typedef int nothing_to_ask; /* a file must not be empty */
#endif
