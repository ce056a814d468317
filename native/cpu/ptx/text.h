/* Words of PTX text. The text ends with a zero byte that is not part of it, so one byte may be looked ahead. */
#ifndef PTX_TEXT_H
#define PTX_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct text {
    const char *at, *end;
    unsigned line;
};

struct word {
    const char *at;
    uint32_t size;
};

enum number_kind { NUMBER_NONE, NUMBER_INTEGER, NUMBER_F32, NUMBER_F64 };
struct number {
    enum number_kind kind;
    bool is_unsigned;
    uint64_t bits; /* two's complement, or the bits of the float or double */
};

void text_skip(struct text *t);                    /* blanks and comments */
bool text_is(struct text *t, char c);              /* is this the next character? */
bool text_take(struct text *t, char c);            /* the same, and go past it */
struct word text_name(struct text *t);             /* an identifier; size 0 when there is none */
struct word text_dotted(struct text *t);           /* an opcode or directive with its dots: `.reg`, `ld.shared::cta.u32` */
struct word text_directive(struct text *t);          /* one directive, though `.reg.b32` may follow without a blank */
bool text_string(struct text *t, struct word *out); /* between quotes */
bool text_block(struct text *t);                   /* past the `}` that closes the `{` just taken */
bool text_until(struct text *t, char c);           /* past the next such character outside strings and comments */
bool text_number(struct text *t, struct number *out); /* one literal */

struct word word_of(const char *s);
static inline bool word_is(struct word w, const char *s) { return (!w.size || *w.at == *s) && strlen(s) == w.size && memcmp(w.at, s, w.size) == 0; }
int word_choice(struct word w, const char *words); /* which of these words, with blanks between them, is it? -1: none */
uint32_t word_hash(struct word w);

#endif
