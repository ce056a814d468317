/* Operations that run those on singles: of f16, bf16 and f32x2, alone or in pairs, and of f32 with .ftz. ins.imm is the
 * other one's place in the table. Products of small numbers are exact in single precision, and sums have so many bits more
 * that rounding twice is rounding once; only fma needs one that rounds to odd. Included by variant.h. */
#define HALF_IN(x) half_float(n->flags & F_FTZ ? flush_half(x) : (x))
#define HALF_OUT(x) (n->flags & F_FTZ ? flush_half(float_half(x)) : float_half(x))

#define BY_SINGLES(name, T, IN, OUT)                                                                        \
    static void run_##name(void *d_, const void *a_, const void *b_, const void *c_, const struct ins *n) { \
        T *d = __builtin_assume_aligned(d_, 32);                                                            \
        SOURCES(T, T, T);                                                                                   \
        f32 x[3][2 * LANES] __attribute__((aligned(64))), y[2 * LANES] __attribute__((aligned(64)));        \
        int count = LANES * n->bytes / (int)sizeof(T);                                                      \
        for (int i = 0; i < count; i++) x[0][i] = IN(a[i]), x[1][i] = IN(b[i]), x[2][i] = IN(c[i]);         \
        for (int k = 0; k < count; k += LANES) VEC_OPS[n->imm].run(y + k, x[0] + k, x[1] + k, x[2] + k, n); \
        for (int i = 0; i < count; i++) d[i] = OUT(y[i]);                                                   \
    }                                                                                                       \
    static uint32_t compare_##name(const void *a_, const void *b_, const struct ins *n) {                   \
        const T *a = a_, *b = b_;                                                                           \
        f32 x[LANES] __attribute__((aligned(64))), y[LANES] __attribute__((aligned(64)));                   \
        for (int i = 0; i < LANES; i++) x[i] = IN(a[i]), y[i] = IN(b[i]);                                   \
        return COMPARE_OPS[n->imm].run(x, y, n);                                                            \
    }
BY_SINGLES(half, u16, HALF_IN, HALF_OUT)
BY_SINGLES(brain, u16, bfloat_float, float_bfloat)
BY_SINGLES(flushed, f32, flush32, flush32)
BY_SINGLES(plain, f32, PLAIN, PLAIN)
