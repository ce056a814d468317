/* The conversions that programs use most; see ops.h. The others are in convert.c. */
#define INTEGER_TO(T, bits, L, D)                                                                                        \
    OP("cvt." #T ".u16", cvt_##T##_u16, L "h", D, u16, u16, u16, a[i])                                                   \
    OP("cvt." #T ".s16", cvt_##T##_s16, L "h", D, s16, s16, s16, a[i])                                                   \
    OP("cvt." #T ".u32", cvt_##T##_u32, L "w", D, u32, u32, u32, a[i])                                                   \
    OP("cvt." #T ".s32", cvt_##T##_s32, L "w", D, s32, s32, s32, a[i])                                                   \
    OP("cvt." #T ".u64", cvt_##T##_u64, L "l", D, u64, u64, u64, a[i])                                                   \
    OP("cvt." #T ".s64", cvt_##T##_s64, L "l", D, s64, s64, s64, a[i])
INTEGER_TO(u16, 16, "h", u16)
INTEGER_TO(s16, 16, "h", s16)
INTEGER_TO(u32, 32, "w", u32)
INTEGER_TO(s32, 32, "w", s32)
INTEGER_TO(u64, 64, "l", u64)
INTEGER_TO(s64, 64, "l", s64)
INTEGER_TO(f32, 32, "f", f32)
INTEGER_TO(f64, 64, "d", f64)
OP("cvt.f32.f64", cvt_f32_f64, "fd", f32, f64, f64, f64, (float)a[i])
OP("cvt.f64.f32", cvt_f64_f32, "df", f64, f32, f32, f32, a[i])
OP("cvt.f16.f32", cvt_f16_f32, "hf", u16, f32, f32, f32, float_half(a[i]))
OP("cvt.f32.f16", cvt_f32_f16, "fh", f32, u16, u16, u16, nan32(half_float(a[i])))
OP("cvt.bf16.f32", cvt_bf16_f32, "hf", u16, f32, f32, f32, float_bfloat(a[i]))
OP("cvt.f32.bf16", cvt_f32_bf16, "fh", f32, u16, u16, u16, bfloat_float(a[i]))
OP("cvt.rzi.s32.f32", cvt_s32_f32, "wf", s32, f32, f32, f32,
   a[i] != a[i] ? 0 : a[i] >= 0x1p31f ? INT32_MAX : a[i] < -0x1p31f ? INT32_MIN : (s32)a[i])
OP("cvt.rzi.u32.f32", cvt_u32_f32, "wf", u32, f32, f32, f32, !(a[i] > 0) ? 0 : a[i] >= 0x1p32f ? UINT32_MAX : (u32)(s64)a[i])
OP("cvt.rzi.s32.f64", cvt_s32_f64, "wd", s32, f64, f64, f64,
   a[i] != a[i] ? INT32_MIN : a[i] >= 0x1p31 ? INT32_MAX : a[i] <= -0x1p31 ? INT32_MIN : (s32)a[i])
