/* Integer operations; see ops.h. L is the signature letter, U and S the types, W an unsigned type for sums and products. */
#define BOTH(op, bits, id, L, U, expression)                                   \
    OP(op ".u" #bits, id##_##bits, L, U, U, U, U, expression)                  \
    ALIAS(op ".s" #bits, id##_##bits, L)
#define BITS(op, bits, id, L, U, expression) OP(op ".b" #bits, id##_b##bits, L, U, U, U, U, expression)

#define ARITHMETIC(bits, L, U, S, W)                                                                                     \
    BOTH("add", bits, add, L L L, U, (W)a[i] + b[i])                                                                     \
    BOTH("sub", bits, sub, L L L, U, (W)a[i] - b[i])                                                                     \
    BOTH("mul", bits, mul, L L L, U, (W)a[i] * b[i])                                                                     \
    BOTH("mad", bits, mad, L L L L, U, (W)a[i] * b[i] + c[i])                                                            \
    OP("min.u" #bits, min_u##bits, L L L, U, U, U, U, a[i] < b[i] ? a[i] : b[i])                                         \
    OP("max.u" #bits, max_u##bits, L L L, U, U, U, U, a[i] > b[i] ? a[i] : b[i])                                         \
    OP("min.s" #bits, min_s##bits, L L L, S, S, S, S, a[i] < b[i] ? a[i] : b[i])                                         \
    OP("max.s" #bits, max_s##bits, L L L, S, S, S, S, a[i] > b[i] ? a[i] : b[i])                                         \
    OP("abs.s" #bits, abs_s##bits, L L, U, S, S, S, a[i] < 0 ? (W)0 - (U)a[i] : (U)a[i])                                 \
    OP("neg.s" #bits, neg_s##bits, L L, U, U, U, U, (W)0 - a[i])                                                         \
    OP("sad.u" #bits, sad_u##bits, L L L L, U, U, U, U, (W)c[i] + (a[i] > b[i] ? (W)a[i] - b[i] : (W)b[i] - a[i]))       \
    OP("sad.s" #bits, sad_s##bits, L L L L, U, S, S, U, (W)c[i] + (a[i] > b[i] ? (W)(U)a[i] - (U)b[i] : (W)(U)b[i] - (U)a[i])) \
    OP("div.u" #bits, div_u##bits, L L L, U, U, U, U, b[i] ? a[i] / b[i] : (U)-1)                                        \
    OP("rem.u" #bits, rem_u##bits, L L L, U, U, U, U, b[i] ? a[i] % b[i] : (U)-1)                                        \
    OP("div.s" #bits, div_s##bits, L L L, S, S, S, S, !b[i] ? (S)-1 : b[i] == -1 ? (S)((W)0 - (U)a[i]) : a[i] / b[i])    \
    OP("rem.s" #bits, rem_s##bits, L L L, S, S, S, S, !b[i] ? (S)-1 : b[i] == -1 ? (S)0 : a[i] % b[i])                   \
    BITS("and", bits, and, L L L, U, a[i] & b[i])                                                                        \
    BITS("or", bits, or, L L L, U, a[i] | b[i])                                                                          \
    BITS("xor", bits, xor, L L L, U, a[i] ^ b[i])                                                                        \
    BITS("not", bits, not, L L, U, ~a[i])                                                                                \
    BITS("cnot", bits, cnot, L L, U, !a[i])                                                                              \
    BITS("mov", bits, mov, L L, U, a[i])                                                                                 \
    OP("shl.b" #bits, shl_b##bits, L L "w", U, U, u32, u32, b[i] < bits ? (W)a[i] << b[i] : 0)                           \
    OP("shr.u" #bits, shr_u##bits, L L "w", U, U, u32, u32, b[i] < bits ? a[i] >> b[i] : 0)                              \
    ALIAS("shr.b" #bits, shr_u##bits, L L "w")                                                                           \
    OP("shr.s" #bits, shr_s##bits, L L "w", S, S, u32, u32, a[i] >> (b[i] < bits ? b[i] : bits - 1))                     \
    OP("slct.s32." #bits, slct_s_##bits, L L L "w", U, U, U, s32, c[i] >= 0 ? a[i] : b[i])                               \
    OP("slct.f32." #bits, slct_f_##bits, L L L "f", U, U, U, f32, (n->flags & F_FTZ ? flush32(c[i]) : c[i]) >= 0 ? a[i] : b[i])

ARITHMETIC(16, "h", u16, s16, u32)
ARITHMETIC(32, "w", u32, s32, u32)
ARITHMETIC(64, "l", u64, s64, u64)

#define PRODUCTS(bits, L, U, S, WU, WS)                                                                                  \
    OP("mul.hi.u" #bits, mul_hi_u##bits, L L L, U, U, U, U, (WU)a[i] * b[i] >> bits)                                     \
    OP("mul.hi.s" #bits, mul_hi_s##bits, L L L, U, S, S, S, (WU)((WS)a[i] * b[i]) >> bits)                               \
    OP("mad.hi.u" #bits, mad_hi_u##bits, L L L L, U, U, U, U, ((WU)a[i] * b[i] >> bits) + c[i])                          \
    OP("mad.hi.s" #bits, mad_hi_s##bits, L L L L, U, S, S, U, ((WU)((WS)a[i] * b[i]) >> bits) + c[i])

PRODUCTS(16, "h", u16, s16, u32, s32)
PRODUCTS(32, "w", u32, s32, u64, s64)
PRODUCTS(64, "l", u64, s64, u128, s128)

#define WIDE(bits, L, M, U, S, WU, WS)                                                                                   \
    OP("mul.wide.u" #bits, mul_wide_u##bits, M L L, WU, U, U, U, (WU)a[i] * b[i])                                        \
    OP("mul.wide.s" #bits, mul_wide_s##bits, M L L, WS, S, S, S, (WS)a[i] * b[i])                                        \
    OP("mad.wide.u" #bits, mad_wide_u##bits, M L L M, WU, U, U, WU, (WU)a[i] * b[i] + c[i])                              \
    OP("mad.wide.s" #bits, mad_wide_s##bits, M L L M, WU, S, S, WU, (WU)((WS)a[i] * b[i]) + c[i])

WIDE(16, "h", "w", u16, s16, u32, s32)
WIDE(32, "w", "l", u32, s32, u64, s64)

OP("mov.b128", mov_b128, "qq", u128, u128, u128, u128, a[i])
OP("add.sat.s32", add_sat, "www", s32, s32, s32, s32, saturate32((s64)a[i] + b[i]))
OP("sub.sat.s32", sub_sat, "www", s32, s32, s32, s32, saturate32((s64)a[i] - b[i]))
OP("mad.hi.sat.s32", mad_hi_sat, "wwww", s32, s32, s32, s32, saturate32(((s64)a[i] * b[i] >> 32) + c[i]))
OP("neg.sat.s32", neg_sat, "ww", s32, s32, s32, s32, saturate32(-(s64)a[i]))
OP("min.relu.s32", min_relu, "www", s32, s32, s32, s32, (a[i] < b[i] ? a[i] : b[i]) < 0 ? 0 : (a[i] < b[i] ? a[i] : b[i]))
OP("max.relu.s32", max_relu, "www", s32, s32, s32, s32, (a[i] > b[i] ? a[i] : b[i]) < 0 ? 0 : (a[i] > b[i] ? a[i] : b[i]))
OP("mul24.lo.u32", mul24_lo_u, "www", u32, u32, u32, u32, (a[i] & 0xffffff) * (b[i] & 0xffffff))
OP("mul24.lo.s32", mul24_lo_s, "www", u32, u32, u32, u32, sign24(a[i]) * sign24(b[i]))
OP("mul24.hi.u32", mul24_hi_u, "www", u32, u32, u32, u32, (u64)(a[i] & 0xffffff) * (b[i] & 0xffffff) >> 16)
OP("mul24.hi.s32", mul24_hi_s, "www", u32, u32, u32, u32, sign24(a[i]) * sign24(b[i]) >> 16)
OP("mad24.lo.u32", mad24_lo_u, "wwww", u32, u32, u32, u32, (a[i] & 0xffffff) * (b[i] & 0xffffff) + c[i])
OP("mad24.lo.s32", mad24_lo_s, "wwww", u32, u32, u32, u32, sign24(a[i]) * sign24(b[i]) + c[i])
OP("mad24.hi.u32", mad24_hi_u, "wwww", u32, u32, u32, u32, ((u64)(a[i] & 0xffffff) * (b[i] & 0xffffff) >> 16) + c[i])
OP("mad24.hi.s32", mad24_hi_s, "wwww", u32, u32, u32, u32, (sign24(a[i]) * sign24(b[i]) >> 16) + c[i])
OP("mad24.hi.sat.s32", mad24_hi_sat, "wwww", s32, u32, u32, s32, saturate32((sign24(a[i]) * sign24(b[i]) >> 16) + c[i]))

#define HALVES(x, y, T, o) ((u32)(u16)((T)(x) o (T)(y)) | (u32)(u16)((T)((x) >> 16) o (T)((y) >> 16)) << 16)
#define PICK(x, y, T, o) ((u32)(u16)((T)(x) o (T)(y) ? (x) : (y)) | (u32)(u16)((T)((x) >> 16) o (T)((y) >> 16) ? (x) >> 16 : (y) >> 16) << 16)
#define NOT_NEGATIVE(x) ((x) & ~(((x) >> 15 & 0x10001) * 0xffff))
OP("add.u16x2", add_u16x2, "www", u32, u32, u32, u32, HALVES(a[i], b[i], u16, +))
ALIAS("add.s16x2", add_u16x2, "www")
OP("min.u16x2", min_u16x2, "www", u32, u32, u32, u32, PICK(a[i], b[i], u16, <))
OP("max.u16x2", max_u16x2, "www", u32, u32, u32, u32, PICK(a[i], b[i], u16, >))
OP("min.s16x2", min_s16x2, "www", u32, u32, u32, u32, PICK(a[i], b[i], s16, <))
OP("max.s16x2", max_s16x2, "www", u32, u32, u32, u32, PICK(a[i], b[i], s16, >))
OP("min.relu.s16x2", min_relu_s16x2, "www", u32, u32, u32, u32, NOT_NEGATIVE(PICK(a[i], b[i], s16, <)))
OP("max.relu.s16x2", max_relu_s16x2, "www", u32, u32, u32, u32, NOT_NEGATIVE(PICK(a[i], b[i], s16, >)))

OP("popc.b32", popc_b32, "ww", u32, u32, u32, u32, __builtin_popcount(a[i]))
OP("popc.b64", popc_b64, "wl", u32, u64, u64, u64, __builtin_popcountll(a[i]))
OP("clz.b32", clz_b32, "ww", u32, u32, u32, u32, leading_zeros(a[i], 32))
OP("clz.b64", clz_b64, "wl", u32, u64, u64, u64, leading_zeros(a[i], 64))
OP("brev.b32", brev_b32, "ww", u32, u32, u32, u32, reverse_bits(a[i]) >> 32)
OP("brev.b64", brev_b64, "ll", u64, u64, u64, u64, reverse_bits(a[i]))
OP("bfind.u32", bfind_u32, "ww", u32, u32, u32, u32, find_bit(a[i], 32, 0, 0))
OP("bfind.s32", bfind_s32, "ww", u32, u32, u32, u32, find_bit(a[i], 32, 1, 0))
OP("bfind.u64", bfind_u64, "wl", u32, u64, u64, u64, find_bit(a[i], 64, 0, 0))
OP("bfind.s64", bfind_s64, "wl", u32, u64, u64, u64, find_bit(a[i], 64, 1, 0))
OP("bfind.shiftamt.u32", bfind_amount_u32, "ww", u32, u32, u32, u32, find_bit(a[i], 32, 0, 1))
OP("bfind.shiftamt.s32", bfind_amount_s32, "ww", u32, u32, u32, u32, find_bit(a[i], 32, 1, 1))
OP("bfind.shiftamt.u64", bfind_amount_u64, "wl", u32, u64, u64, u64, find_bit(a[i], 64, 0, 1))
OP("bfind.shiftamt.s64", bfind_amount_s64, "wl", u32, u64, u64, u64, find_bit(a[i], 64, 1, 1))
OP("bfe.u32", bfe_u32, "wwww", u32, u32, u32, u32, extract_field(a[i], b[i], c[i], 32, 0))
OP("bfe.s32", bfe_s32, "wwww", u32, u32, u32, u32, extract_field(a[i], b[i], c[i], 32, 1))
OP("bfe.u64", bfe_u64, "llww", u64, u64, u32, u32, extract_field(a[i], b[i], c[i], 64, 0))
OP("bfe.s64", bfe_s64, "llww", u64, u64, u32, u32, extract_field(a[i], b[i], c[i], 64, 1))
OP("fns.b32", fns, "wwww", u32, u32, u32, s32, nth_bit(a[i], b[i], c[i]))
OP("bmsk.clamp.b32", bmsk_clamp, "www", u32, u32, u32, u32, bit_mask(a[i], b[i], 0))
OP("bmsk.wrap.b32", bmsk_wrap, "www", u32, u32, u32, u32, bit_mask(a[i], b[i], 1))
OP("szext.clamp.u32", szext_clamp_u, "www", u32, u32, u32, u32, extend_field(a[i], b[i], 0, 0))
OP("szext.clamp.s32", szext_clamp_s, "www", u32, u32, u32, u32, extend_field(a[i], b[i], 0, 1))
OP("szext.wrap.u32", szext_wrap_u, "www", u32, u32, u32, u32, extend_field(a[i], b[i], 1, 0))
OP("szext.wrap.s32", szext_wrap_s, "www", u32, u32, u32, u32, extend_field(a[i], b[i], 1, 1))
OP("dp4a", dp4a, "wwww", u32, u32, u32, u32, dot_bytes(a[i], b[i], c[i], n->mode & 1u, n->mode >> 1u))
OP("dp2a.lo", dp2a_lo, "wwww", u32, u32, u32, u32, dot_halves(a[i], b[i], c[i], n->mode & 1u, n->mode >> 1u, 0))
OP("dp2a.hi", dp2a_hi, "wwww", u32, u32, u32, u32, dot_halves(a[i], b[i], c[i], n->mode & 1u, n->mode >> 1u, 1))
OP("prmt.b32", prmt, "wwww", u32, u32, u32, u32, permute_bytes(a[i], b[i], c[i], n->mode))
#define TERM(k, x, y, z) ((n->imm >> k & 1 ? ~0u : 0u) & (x) & (y) & (z))
OP("lop3.b32", lop3, "wwww", u32, u32, u32, u32,
   TERM(0, ~a[i], ~b[i], ~c[i]) | TERM(1, ~a[i], ~b[i], c[i]) | TERM(2, ~a[i], b[i], ~c[i]) | TERM(3, ~a[i], b[i], c[i]) |
   TERM(4, a[i], ~b[i], ~c[i]) | TERM(5, a[i], ~b[i], c[i]) | TERM(6, a[i], b[i], ~c[i]) | TERM(7, a[i], b[i], c[i]))
#define FUNNEL(x) ((u64)b[i] << 32 | a[i]) x
OP("shf.l.wrap.b32", shf_l_wrap, "wwww", u32, u32, u32, u32, FUNNEL(<< (c[i] & 31)) >> 32)
OP("shf.r.wrap.b32", shf_r_wrap, "wwww", u32, u32, u32, u32, FUNNEL(>> (c[i] & 31)))
OP("shf.l.clamp.b32", shf_l_clamp, "wwww", u32, u32, u32, u32, FUNNEL(<< (c[i] < 32 ? c[i] : 32)) >> 32)
OP("shf.r.clamp.b32", shf_r_clamp, "wwww", u32, u32, u32, u32, FUNNEL(>> (c[i] < 32 ? c[i] : 32)))

#define ORDER(T, bits)                                                  \
    COMPARE("eq." #T #bits, eq_##T##bits, T##bits, a[i] == b[i])        \
    COMPARE("ne." #T #bits, ne_##T##bits, T##bits, a[i] != b[i])        \
    COMPARE("lt." #T #bits, lt_##T##bits, T##bits, a[i] < b[i])         \
    COMPARE("le." #T #bits, le_##T##bits, T##bits, a[i] <= b[i])        \
    COMPARE("gt." #T #bits, gt_##T##bits, T##bits, a[i] > b[i])         \
    COMPARE("ge." #T #bits, ge_##T##bits, T##bits, a[i] >= b[i])
ORDER(u, 16) ORDER(u, 32) ORDER(u, 64) ORDER(s, 16) ORDER(s, 32) ORDER(s, 64)
