/* For x86-64 with AVX2, FMA and F16C. On Windows GCC misplaces 32-byte spills, so there vectors have 16 bytes. */
#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,bmi,bmi2,lzcnt,popcnt"))), apply_to = function)
#elif defined(_WIN32)
#pragma GCC target("avx2,fma,f16c,bmi,bmi2,lzcnt,popcnt,prefer-vector-width=128")
#else
#pragma GCC target("avx2,fma,f16c,bmi,bmi2,lzcnt,popcnt")
#endif
#define VARIANT OPERATIONS_AVX2
#include "variant.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#else
typedef int nothing_to_build;
#endif
