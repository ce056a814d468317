/* Matrix products of a warp, and the loads, stores and transpositions that go with them. */
#include "rare.h"
#include "floats.h"

/* Where each value lies follows one rule: a register holds the values of 4 lanes' columns, lane / 4 is the row (of A and
 * of the result) or the column (of B). */

bool mma_shape_known(const struct mma_shape *s, int accumulate) {
    static const struct {
        uint8_t bits, m, integer;
        uint16_t k[3];
    } KNOWN[] = {{16, 16, 0, {8, 16, 0}}, {32, 16, 0, {4, 8, 0}}, {64, 8, 0, {4, 0, 0}},   {64, 16, 0, {4, 8, 16}},  {8, 8, 1, {16, 0, 0}},
                 {8, 16, 1, {16, 32, 0}}, {4, 8, 1, {32, 0, 0}},  {4, 16, 1, {32, 64, 0}}, {1, 8, 1, {128, 0, 0}}, {1, 16, 1, {128, 256, 0}},
                 {8, 16, 0, {16, 32, 0}}};
    bool integer = accumulate == T_S32;
    if (s->n != 8) return false;
    if (s->bits >= 8) {
        bool right = s->bits == 64   ? s->a_type == T_F64 && s->b_type == T_F64 && accumulate == T_F64
                     : s->bits == 32 ? s->a_type == T_TF32 && s->b_type == T_TF32 && accumulate == T_F32
                     : s->bits == 16 ? s->a_type == s->b_type && ((s->a_type == T_F16 && (accumulate == T_F16 || accumulate == T_F32)) || (s->a_type == T_BF16 && accumulate == T_F32))
                     : integer       ? TYPES[s->a_type].kind != 'h' && TYPES[s->b_type].kind != 'h' && TYPES[s->a_type].kind != 'b' && TYPES[s->b_type].kind != 'b'
                                     : TYPES[s->a_type].kind == 'h' && TYPES[s->b_type].kind == 'h' && (accumulate == T_F32 || accumulate == T_F16);
        if (!right) return false;
    }
    for (size_t i = 0; i < sizeof KNOWN / sizeof *KNOWN; i++)
        if (KNOWN[i].bits == s->bits && KNOWN[i].m == s->m && KNOWN[i].integer == integer)
            for (int j = 0; j < 3; j++)
                if (KNOWN[i].k[j] == s->k && s->k) return true;
    return false;
}

struct matrices {
    struct mma_shape s;
    double a[16][64], b[64][8];
    int64_t ai[16][256], bi[256][8];
};

static uint64_t value_bits(struct warp *w, ref r, uint32_t lane, uint32_t bits, uint32_t index) {
    uint64_t value = lane_get(w, r, bits == 64 ? 8 : 4, (int)lane);
    return bits >= 32 ? value : value >> (bits * index) & ((1ull << bits) - 1);
}

static int64_t integer_of(uint64_t bits, uint32_t width, bool is_signed) {
    return is_signed && bits >> (width - 1) & 1 ? (int64_t)(bits | ~0ull << width) : (int64_t)bits;
}

static double float_of(int type, uint64_t bits) { return value_of(type, type == T_TF32 ? bits & 0xffffe000u : bits); }

static void read_factors(struct warp *w, const uint32_t *list, struct matrices *x, bool integer) {
    const struct mma_shape *s = &x->s;
    uint32_t each = s->bits == 64 ? 1 : 32 / s->bits, halves = s->m / 8;
    for (uint32_t lane = 0; lane < LANES; lane++)
        for (uint32_t k = 0; k < s->k; k += 4 * each)
            for (uint32_t j = 0; j < each; j++) {
                uint32_t column = k + lane % 4 * each + j, group = k / (4 * each);
                for (uint32_t h = 0; h < halves; h++) {
                    uint64_t bits = value_bits(w, list[group * halves + h], lane, s->bits, j);
                    if (integer) x->ai[lane / 4 + 8 * h][column] = integer_of(bits, s->bits, s->a_signed);
                    else x->a[lane / 4 + 8 * h][column] = float_of((int)s->a_type, bits);
                }
                uint64_t bits = value_bits(w, list[s->m * s->k / 32 / each + group], lane, s->bits, j);
                if (integer) x->bi[column][lane / 4] = integer_of(bits, s->bits, s->b_signed);
                else x->b[column][lane / 4] = float_of((int)s->b_type, bits);
            }
}

/* Products are exact in double; they are summed there and rounded once. A GPU rounds in between, differently by model. */
static double sum_float(const struct matrices *x, uint32_t row, uint32_t column, double c, bool doubles) {
    double sum = doubles ? c : 0;
    for (uint32_t k = 0; k < x->s.k; k++) sum = doubles ? fma(x->a[row][k], x->b[k][column], sum) : sum + x->a[row][k] * x->b[k][column];
    return doubles ? sum : sum + c;
}

static uint64_t sum_integer(const struct matrices *x, uint32_t row, uint32_t column, int64_t c, bool saturate) {
    int64_t sum = c;
    for (uint32_t k = 0; k < x->s.k; k++) {
        int64_t a = x->ai[row][k], b = x->bi[k][column];
        sum += x->s.kind == 1 ? a ^ b : x->s.kind == 2 ? a & b : a * b;
    }
    if (saturate) sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
    return (uint32_t)sum;
}

static void write_results(struct warp *w, const struct ins *n, const uint32_t *list, const struct matrices *x, uint32_t inputs) {
    uint32_t per_lane = x->s.m * 8 / LANES, packed = n->type == T_F16 ? 2 : 1, bytes = n->type == T_F64 ? 8 : 4;
    uint64_t out[LANES][4];
    for (uint32_t lane = 0; lane < LANES; lane++)
        for (uint32_t i = 0; i < per_lane; i++) {
            uint32_t row = lane / 4 + 8 * (i / 2), column = lane % 4 * 2 + i % 2;
            uint64_t c = lane_get(w, list[inputs + i / packed], bytes, (int)lane) >> (packed == 2 ? 16 * (i & 1) : 0);
            if (n->type == T_S32) out[lane][i] = sum_integer(x, row, column, (int32_t)c, n->flags & F_SATFINITE);
            else out[lane][i] = bits_of(n->type, sum_float(x, row, column, value_of(n->type, c), n->type == T_F64), ROUND_NEAREST, 0);
        }
    for (uint32_t lane = 0; lane < LANES; lane++)
        for (uint32_t i = 0; i < per_lane; i += packed)
            lane_set(w, list[i / packed], bytes, (int)lane, packed == 2 ? out[lane][i] | out[lane][i + 1] << 16 : out[lane][i]);
}

bool run_mma(struct warp *w, const struct ins *n, uint32_t mask) {
    const uint32_t *list = w->block->launch->program->refs + n->list;
    uint32_t lanes;
    struct matrices x;
    if (!warp_gather(w, n, mask, ALL_LANES, &lanes)) return false;
    memcpy(&x.s, &n->imm, sizeof x.s);
    bool integer = n->type == T_S32;
    uint32_t each = x.s.bits == 64 ? 1 : 32 / x.s.bits, results = x.s.m * 8 / 32 / (n->type == T_F16 ? 2 : 1);
    uint32_t factors = (x.s.m * x.s.k + 8 * x.s.k) / 32 / each;
    read_factors(w, list + results, &x, integer);
    write_results(w, n, list, &x, results + factors);
    return true;
}

/* ---- 8 x 8 matrices of 16-bit values ---- */

static bool rows_located(struct warp *w, const struct ins *n, uint32_t mask, bool write, uint64_t *rows) {
    uint32_t used = n->count == 4 ? ALL_LANES : n->count == 2 ? 0xffff : 0xff;
    return addresses_of(w, n, mask & used ? mask & used : mask, 16, write, rows);
}

bool run_matrix_load(struct warp *w, const struct ins *n, uint32_t mask) {
    const uint32_t *list = w->block->launch->program->refs + n->list;
    uint64_t rows[LANES];
    uint16_t values[LANES][8];
    uint32_t lanes;
    if (!warp_gather(w, n, mask, ALL_LANES, &lanes) || !rows_located(w, n, lanes, false, rows)) return false;
    for (uint32_t i = 0; i < 8u * n->count; i++) memcpy(values[i], (const void *)(uintptr_t)rows[i], 16);
    for (uint32_t k = 0; k < n->count; k++)
        EACH_LANE(i, lanes) {
            uint32_t row = i / 4, column = i % 4 * 2;
            uint16_t low = n->flags & F_TRANS ? values[8 * k + column][row] : values[8 * k + row][column];
            uint16_t high = n->flags & F_TRANS ? values[8 * k + column + 1][row] : values[8 * k + row][column + 1];
            lane_set(w, list[k], 4, (int)i, low | (uint32_t)high << 16);
        }
    return true;
}

bool run_matrix_store(struct warp *w, const struct ins *n, uint32_t mask) {
    const uint32_t *list = w->block->launch->program->refs + n->list;
    uint64_t rows[LANES];
    uint32_t lanes;
    if (!warp_gather(w, n, mask, ALL_LANES, &lanes) || !rows_located(w, n, lanes, true, rows)) return false;
    for (uint32_t k = 0; k < n->count; k++) {
        uint16_t values[8][8] = {{0}};
        EACH_LANE(i, lanes) {
            uint32_t row = i / 4, column = i % 4 * 2;
            uint64_t both = lane_get(w, list[k], 4, (int)i);
            bool swap = n->flags & F_TRANS;
            *(swap ? &values[column][row] : &values[row][column]) = (uint16_t)both;
            *(swap ? &values[column + 1][row] : &values[row][column + 1]) = (uint16_t)(both >> 16);
        }
        for (uint32_t i = 0; i < 8; i++) memcpy((void *)(uintptr_t)rows[8 * k + i], values[i], 16);
    }
    return true;
}

bool run_matrix_transpose(struct warp *w, const struct ins *n, uint32_t mask) {
    uint16_t values[8][8];
    uint32_t lanes;
    if (!warp_gather(w, n, mask, ALL_LANES, &lanes)) return false;
    for (uint32_t i = 0; i < LANES; i++) {
        uint64_t both = lane_get(w, n->a, 4, (int)i);
        values[i / 4][i % 4 * 2] = (uint16_t)both;
        values[i / 4][i % 4 * 2 + 1] = (uint16_t)(both >> 16);
    }
    EACH_LANE(i, lanes) lane_set(w, n->d, 4, (int)i, values[i % 4 * 2][i / 4] | (uint32_t)values[i % 4 * 2 + 1][i / 4] << 16);
    return true;
}
