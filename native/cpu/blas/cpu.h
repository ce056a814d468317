/* Does this processor, with this operating system, run AVX2 and FMA? */
#ifndef CPU_FEATURES_H
#define CPU_FEATURES_H

#include <stdbool.h>

#if defined(__x86_64__)
#define HAVE_AVX2_KERNELS 1
#define TARGET_AVX2 __attribute__((target("avx2,fma")))
bool cpu_has_avx2(void);
#endif

#endif
