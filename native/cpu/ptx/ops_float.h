/* Floating-point operations; see ops.h. Those of f16, bf16, f32x2 and f32 with .ftz are in singles.h, but for the most
 * frequent with .ftz. */
#define F32(name, id, L, operation) OP(name ".f32", id##_f32, L, f32, f32, f32, f32, nan32(operation(a[i], b[i], c[i])))
#define F32_1(name, id, operation) OP(name ".f32", id##_f32, "ff", f32, f32, f32, f32, nan32(operation(a[i])))
#define F32_FTZ(name, id, L, operation)                                                                                  \
    F32(name, id, L, operation)                                                                                          \
    OP(name ".ftz.f32", id##_ftz, L, f32, f32, f32, f32, nan32(flush32(operation(flush32(a[i]), flush32(b[i]), flush32(c[i])))))
/* Of several NaNs the result is the first one of x, y, z. */
#define F64(name, id, L, operation, x, y, z)                                                                             \
    OP(name ".f64", id##_f64, L, f64, f64, f64, f64, nan64(operation(a[i], b[i], c[i]), x[i], y[i], z[i]))

#define ADD(x, y, z) ((x) + (y))
#define SUB(x, y, z) ((x) - (y))
#define MUL(x, y, z) ((x) * (y))
#define DIV(x, y, z) ((x) / (y))
#define FMA32(x, y, z) __builtin_fmaf(x, y, z)
#define FMA64(x, y, z) __builtin_fma(x, y, z)
#define RCP(x) (1 / (x))
#define MIN32(x, y, z) min32(x, y)
#define MAX32(x, y, z) max32(x, y)
#define MIN32N(x, y, z) min32_nan(x, y)
#define MAX32N(x, y, z) max32_nan(x, y)
#define MIN3(x, y, z) min32(min32(x, y), z)
#define MAX3(x, y, z) max32(max32(x, y), z)
#define MIN3N(x, y, z) min32_nan(min32_nan(x, y), z)
#define MAX3N(x, y, z) max32_nan(max32_nan(x, y), z)
#define SIGNED(x, y, f) with_sign(f(absolute(x), absolute(y)), bits32(x) ^ bits32(y))
#define MIN32X(x, y, z) SIGNED(x, y, min32)
#define MAX32X(x, y, z) SIGNED(x, y, max32)
#define MIN32NX(x, y, z) SIGNED(x, y, min32_nan)
#define MAX32NX(x, y, z) SIGNED(x, y, max32_nan)
#define MIN3A(x, y, z) min32(min32(absolute(x), absolute(y)), absolute(z))
#define MAX3A(x, y, z) max32(max32(absolute(x), absolute(y)), absolute(z))
#define MIN3NA(x, y, z) min32_nan(min32_nan(absolute(x), absolute(y)), absolute(z))
#define MAX3NA(x, y, z) max32_nan(max32_nan(absolute(x), absolute(y)), absolute(z))
#define DIV_APPROX(x, y, z) div_approx(x, y)

F32_FTZ("add", add, "fff", ADD)
F32_FTZ("sub", sub, "fff", SUB)
F32_FTZ("mul", mul, "fff", MUL)
F32_FTZ("fma", fma, "ffff", FMA32)
F32("div", div, "fff", DIV)
F32("div.approx", div_approx, "fff", DIV_APPROX)
F32("min", min, "fff", MIN32)
F32("max", max, "fff", MAX32)
F32("min.nan", min_nan, "fff", MIN32N)
F32("max.nan", max_nan, "fff", MAX32N)
F32("min.xorsign.abs", min_sign, "fff", MIN32X)
F32("max.xorsign.abs", max_sign, "fff", MAX32X)
F32("min.nan.xorsign.abs", min_nan_sign, "fff", MIN32NX)
F32("max.nan.xorsign.abs", max_nan_sign, "fff", MAX32NX)
F32("min3", min3, "ffff", MIN3)
F32("max3", max3, "ffff", MAX3)
F32("min3.nan", min3_nan, "ffff", MIN3N)
F32("max3.nan", max3_nan, "ffff", MAX3N)
F32("min3.abs", min3_abs, "ffff", MIN3A)
F32("max3.abs", max3_abs, "ffff", MAX3A)
F32("min3.nan.abs", min3_nan_abs, "ffff", MIN3NA)
F32("max3.nan.abs", max3_nan_abs, "ffff", MAX3NA)
F32_1("rcp", rcp, RCP)
F32_1("sqrt", sqrt, sqrtf)
#define RSQRT32(x) (float)(1 / sqrt((double)(x)))
#define EX2(x) (float)exp2((double)(x))
#define LG2(x) (float)log2((double)(x))
#define SIN(x) (float)sin((double)(x))
#define COS(x) (float)cos((double)(x))
#define TANH(x) (float)tanh((double)(x))
F32_1("rsqrt", rsqrt, RSQRT32)
F32_1("ex2", ex2, EX2)
F32_1("lg2", lg2, LG2)
F32_1("sin", sin, SIN)
F32_1("cos", cos, COS)
F32_1("tanh", tanh, TANH)
OP("abs.f32", abs_f32, "ww", u32, u32, u32, u32, bits32(nan32(absolute(float32(a[i])))))
OP("neg.f32", neg_f32, "ww", u32, u32, u32, u32, bits32(nan32(float32(a[i] ^ 0x80000000))))
OP("copysign.f32", copysign_f32, "fff", u32, u32, u32, u32, (b[i] & 0x7fffffff) | (a[i] & 0x80000000))
ALIAS("mov.f32", mov_b32, "ff")
ALIAS("mov.f64", mov_b64, "dd")

F64("add", add, "ddd", ADD, b, a, a)
F64("sub", sub, "ddd", SUB, b, a, a)
F64("mul", mul, "ddd", MUL, b, a, a)
F64("fma", fma, "dddd", FMA64, b, c, a)
F64("div", div, "ddd", DIV, a, b, b)
OP("min.f64", min_f64, "ddd", f64, f64, f64, f64, quiet64(min64(a[i], b[i])))
OP("max.f64", max_f64, "ddd", f64, f64, f64, f64, quiet64(max64(a[i], b[i])))
OP("rcp.f64", rcp_f64, "dd", f64, f64, f64, f64, 1 / a[i])
OP("sqrt.f64", sqrt_f64, "dd", f64, f64, f64, f64, sqrt(a[i]))
OP("rsqrt.f64", rsqrt_f64, "dd", f64, f64, f64, f64, 1 / sqrt(a[i]))
OP("rcp.ftz.f64", rcp_upper, "dd", f64, f64, f64, f64, upper_half(1 / upper_half(a[i])))
OP("rsqrt.ftz.f64", rsqrt_upper, "dd", f64, f64, f64, f64, upper_half(1 / sqrt(upper_half(a[i]))))
OP("abs.f64", abs_f64, "dd", f64, f64, f64, f64, a[i] != a[i] ? quiet64(a[i]) : float64(bits64(a[i]) & 0x7fffffffffffffff))
OP("neg.f64", neg_f64, "dd", f64, f64, f64, f64, a[i] != a[i] ? quiet64(a[i]) : float64(bits64(a[i]) ^ 0x8000000000000000))
OP("copysign.f64", copysign_f64, "ddd", u64, u64, u64, u64, (b[i] & 0x7fffffffffffffff) | (a[i] & 0x8000000000000000))

OP("fma_odd.f32", fma_odd_f32, "ffff", f32, f32, f32, f32, fma_odd(a[i], b[i], c[i]))

/* Sums of a float and a small one. */
#define MIXED(T, FROM)                                                                                                   \
    OP("add.f32." #T, add_mixed_##T, "fhf", f32, u16, f32, f32, nan32(FROM(a[i]) + b[i]))                                \
    OP("sub.f32." #T, sub_mixed_##T, "fhf", f32, u16, f32, f32, nan32(FROM(a[i]) - b[i]))                                \
    OP("fma.f32." #T, fma_mixed_##T, "fhhf", f32, u16, u16, f32, nan32(__builtin_fmaf(FROM(a[i]), FROM(b[i]), c[i])))
MIXED(f16, half_float)
MIXED(bf16, bfloat_float)

#define PLAIN(x) (x)
#define ORDERED(T, S, FROM)                                                                                              \
    COMPARE("eq." S, eq_##T, T##_type, FROM(a[i]) == FROM(b[i]))                                                         \
    COMPARE("ne." S, ne_##T, T##_type, FROM(a[i]) < FROM(b[i]) || FROM(a[i]) > FROM(b[i]))                               \
    COMPARE("lt." S, lt_##T, T##_type, FROM(a[i]) < FROM(b[i]))                                                          \
    COMPARE("le." S, le_##T, T##_type, FROM(a[i]) <= FROM(b[i]))                                                         \
    COMPARE("gt." S, gt_##T, T##_type, FROM(a[i]) > FROM(b[i]))                                                          \
    COMPARE("ge." S, ge_##T, T##_type, FROM(a[i]) >= FROM(b[i]))                                                         \
    COMPARE("equ." S, equ_##T, T##_type, !(FROM(a[i]) < FROM(b[i]) || FROM(a[i]) > FROM(b[i])))                          \
    COMPARE("neu." S, neu_##T, T##_type, FROM(a[i]) != FROM(b[i]))                                                       \
    COMPARE("ltu." S, ltu_##T, T##_type, !(FROM(a[i]) >= FROM(b[i])))                                                    \
    COMPARE("leu." S, leu_##T, T##_type, !(FROM(a[i]) > FROM(b[i])))                                                     \
    COMPARE("gtu." S, gtu_##T, T##_type, !(FROM(a[i]) <= FROM(b[i])))                                                    \
    COMPARE("geu." S, geu_##T, T##_type, !(FROM(a[i]) < FROM(b[i])))                                                     \
    COMPARE("num." S, num_##T, T##_type, FROM(a[i]) == FROM(a[i]) && FROM(b[i]) == FROM(b[i]))                           \
    COMPARE("nan." S, nan_##T, T##_type, FROM(a[i]) != FROM(a[i]) || FROM(b[i]) != FROM(b[i]))
#define f32_type f32
#define f64_type f64
ORDERED(f32, "f32", PLAIN)
ORDERED(f64, "f64", PLAIN)

#define TESTP(T, U, size, infinite, least)                                                                               \
    COMPARE("finite." #T, finite_##T, U, (a[i] & size) < infinite)                                                       \
    COMPARE("infinite." #T, infinite_##T, U, (a[i] & size) == infinite)                                                  \
    COMPARE("number." #T, number_##T, U, (a[i] & size) <= infinite)                                                      \
    COMPARE("notanumber." #T, notanumber_##T, U, (a[i] & size) > infinite)                                               \
    COMPARE("normal." #T, normal_##T, U, (a[i] & size) < infinite && (!(a[i] & size) || (a[i] & size) >= least))                             \
    COMPARE("subnormal." #T, subnormal_##T, U, (a[i] & size) && (a[i] & size) < least)
TESTP(f32, u32, 0x7fffffffu, 0x7f800000u, 0x800000u)
TESTP(f64, u64, 0x7fffffffffffffffull, 0x7ff0000000000000ull, 0x10000000000000ull)
