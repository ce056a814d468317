/* Reading PTX text, word by word. */
#include "text.h"

#include <stdlib.h>
#include <string.h>

enum { LETTER = 1, DIGIT = 2, HEX = 4 };

static int kind_of(char c) {
    if (c >= '0' && c <= '9') return DIGIT | HEX;
    if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')) return LETTER | HEX;
    if ((c >= 'g' && c <= 'z') || (c >= 'G' && c <= 'Z') || c == '_' || c == '$' || c == '%' || (c & 0x80)) return LETTER;
    return 0;
}

static bool is_letter(const struct text *t) { return t->at < t->end && (kind_of(*t->at) & (LETTER | DIGIT)); }

void text_skip(struct text *t) {
    while (t->at < t->end) {
        char c = *t->at;
        if (c == '\n') t->line++;
        if (c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v') {
            t->at++;
        } else if (c == '/' && t->at[1] == '/') {
            const char *line = memchr(t->at, '\n', (size_t)(t->end - t->at));
            t->at = line ? line : t->end;
        } else if (c == '/' && t->at[1] == '*') {
            for (t->at += 2; t->at < t->end && !(t->at[0] == '*' && t->at[1] == '/'); t->at++) t->line += *t->at == '\n';
            t->at = t->end - t->at >= 2 ? t->at + 2 : t->end;
        } else {
            return;
        }
    }
}

bool text_is(struct text *t, char c) {
    text_skip(t);
    return t->at < t->end && *t->at == c;
}

bool text_take(struct text *t, char c) {
    if (!text_is(t, c)) return false;
    t->at++;
    return true;
}

struct word word_of(const char *s) { return (struct word){s, (uint32_t)strlen(s)}; }

int word_choice(struct word w, const char *words) {
    for (int i = 0;; i++) {
        size_t size = strcspn(words, " ");
        if (size && size == w.size && memcmp(w.at, words, size) == 0) return i;
        words += size;
        if (!*words++) return -1;
    }
}

uint32_t word_hash(struct word w) {
    uint32_t hash = 2166136261u;
    for (uint32_t i = 0; i < w.size; i++) hash = (hash ^ (unsigned char)w.at[i]) * 16777619u;
    return hash;
}

struct word text_name(struct text *t) {
    text_skip(t);
    struct word w = {t->at, 0};
    if (t->at < t->end && (kind_of(*t->at) & LETTER))
        while (is_letter(t)) t->at++;
    w.size = (uint32_t)(t->at - w.at);
    return w;
}

struct word text_dotted(struct text *t) {
    text_skip(t);
    struct word w = {t->at, 0};
    while (t->at < t->end) {
        if (is_letter(t) || *t->at == '.') t->at++;
        else if (t->at[0] == ':' && t->at[1] == ':' && t->at > w.at) t->at += 2;
        else break;
    }
    w.size = (uint32_t)(t->at - w.at);
    return w;
}

struct word text_directive(struct text *t) {
    struct word w = text_dotted(t);
    for (uint32_t i = 1; i < w.size; i++)
        if (w.at[0] == '.' && w.at[i] == '.') w.size = i;
    t->at = w.at + w.size;
    return w;
}

bool text_string(struct text *t, struct word *out) {
    if (!text_take(t, '"')) return false;
    out->at = t->at;
    for (; t->at < t->end && *t->at != '"'; t->at++) {
        if (*t->at == '\\' && t->end - t->at > 1) t->at++;
        t->line += *t->at == '\n';
    }
    out->size = (uint32_t)(t->at - out->at);
    if (t->at == t->end) return false;
    t->at++;
    return true;
}

/* Characters at which skipping a body has to look closer. */
static const unsigned char STOPS[256] = {['{'] = 1, ['}'] = 1, ['/'] = 1, ['"'] = 1, ['\n'] = 1};

bool text_block(struct text *t) {
    for (int depth = 1; t->at < t->end;) {
        while (t->at < t->end && !STOPS[(unsigned char)*t->at]) t->at++;
        if (t->at == t->end) return false;
        char c = *t->at;
        struct word skipped;
        if (c == '"') {
            if (!text_string(t, &skipped)) return false;
            continue;
        }
        if (c == '/' && (t->at[1] == '/' || t->at[1] == '*')) {
            text_skip(t);
            continue;
        }
        t->line += c == '\n';
        t->at++;
        if (c == '{') depth++;
        if (c == '}' && --depth == 0) return true;
    }
    return false;
}

bool text_until(struct text *t, char c) {
    struct word skipped;
    while (text_skip(t), t->at < t->end) {
        if (*t->at == c) {
            t->at++;
            return true;
        }
        if (*t->at != '"') t->at++;
        else if (!text_string(t, &skipped)) return false;
    }
    return false;
}

static int digit(char c) { return c <= '9' ? c - '0' : (c | 32) - 'a' + 10; }

static bool hex_digits(struct text *t, int count, uint64_t *bits) {
    *bits = 0;
    for (int i = 0; i < count; i++, t->at++) {
        if (t->at >= t->end || !(kind_of(*t->at) & HEX)) return false;
        *bits = *bits << 4 | (uint64_t)digit(*t->at);
    }
    return !is_letter(t);
}

static bool decimal_fraction(struct text *t, struct number *out) {
    char copy[64]; /* the text may end in mid-number */
    size_t size = 0;
    while (t->at < t->end && size < sizeof copy - 1 &&
           ((kind_of(*t->at) & DIGIT) || *t->at == '.' || (*t->at | 32) == 'e' ||
            ((*t->at == '-' || *t->at == '+') && size && (copy[size - 1] | 32) == 'e')))
        copy[size++] = *t->at++;
    copy[size] = 0;
    char *end;
    double value = strtod(copy, &end);
    memcpy(&out->bits, &value, sizeof value);
    out->kind = NUMBER_F64;
    return *end == 0 && size && !is_letter(t);
}

/* Is this decimal number one with a point or an exponent? */
static bool has_fraction(const struct text *t) {
    const char *p = t->at;
    while (p < t->end && (kind_of(*p) & DIGIT)) p++;
    return p < t->end && (*p == '.' || ((*p | 32) == 'e' && p + 1 < t->end));
}

bool text_number(struct text *t, struct number *out) {
    text_skip(t);
    *out = (struct number){NUMBER_NONE, false, 0};
    if (t->at >= t->end || !(kind_of(*t->at) & DIGIT)) return false;
    char second = t->end - t->at > 1 ? (char)(t->at[1] | 32) : 0;
    bool prefixed = *t->at == '0' && (second == 'f' || second == 'd' || second == 'x' || second == 'b');
    if (prefixed && (second == 'f' || second == 'd')) {
        t->at += 2;
        out->kind = second == 'f' ? NUMBER_F32 : NUMBER_F64;
        return hex_digits(t, second == 'f' ? 8 : 16, &out->bits);
    }
    if (!prefixed && has_fraction(t)) return decimal_fraction(t, out);
    int base = !prefixed ? (*t->at == '0' ? 8 : 10) : second == 'x' ? 16 : 2;
    t->at += prefixed ? 2 : 0;
    const char *first = t->at;
    for (; t->at < t->end && (kind_of(*t->at) & HEX); t->at++) {
        if (digit(*t->at) >= base) break;
        out->bits = out->bits * (uint64_t)base + (uint64_t)digit(*t->at);
    }
    bool some = t->at > first;
    if (t->at < t->end && *t->at == 'U') {
        out->is_unsigned = true;
        t->at++;
    }
    out->kind = NUMBER_INTEGER;
    return some && !is_letter(t);
}
