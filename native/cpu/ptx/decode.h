/* The decoder of function bodies; its parts share this state. */
#ifndef PTX_DECODE_H
#define PTX_DECODE_H

#include "module.h"
#include "rare.h"

enum { OPERANDS = 16, VECTOR_MOST = 8, PARTS = 24 };

enum symbol_kind { SYMBOL_REGISTER, SYMBOL_RANGE, SYMBOL_VARIABLE, SYMBOL_LABEL, SYMBOL_PROTOTYPE, SYMBOL_TARGETS };
struct symbol {
    uint8_t kind, type, space, count; /* count: elements of a vector register, 1 otherwise */
    uint32_t at;                      /* ref, offset in the frame's local memory, or instruction */
    uint32_t range;
    uint32_t bytes;   /* of a variable in local memory */
    uint32_t *members; /* refs of a range's registers, 0 while unused */
    struct variable *variable;
    struct text list; /* of .branchtargets */
    uint32_t scope;
};

struct constant {
    uint64_t value;
    uint32_t bytes;
    ref at;
};
enum { CONSTANT_KEY = offsetof(struct constant, at) };

struct scope {
    struct names names, ranges; /* `%r<8>` does not declare %r */
    uint32_t parent;
};

enum operand_kind {
    O_NONE, O_SINK, O_REGISTER, O_NUMBER, O_VECTOR, O_ADDRESS, O_VARIABLE, O_FUNCTION, O_SPECIAL, O_LABEL
};
struct operand {
    uint8_t kind, type, selector /* of video instructions: 1 + byte, 8 + half */, special;
    bool negated;
    ref at;
    int64_t plus; /* address: displacement */
    struct number number;
    struct symbol *symbol;
    struct variable *variable;
    struct function *function;
    struct word name;
    uint8_t base_kind;     /* of an address: O_REGISTER, O_VARIABLE, O_NUMBER */
    uint32_t count, first; /* of a vector: its elements in decoder.elements */
};

struct decoder;
typedef bool form_type(struct decoder *d);
typedef form_type *form_fn;

/* An opcode taken apart, and what decodes its instructions. */
struct opcode {
    struct word whole, base;
    struct word parts[PARTS]; /* what has no field of its own here */
    uint32_t part_count;
    enum type types[4];
    uint32_t type_count;
    uint8_t rounding, space, vector;
    bool has_rounding, integral, has_space;
    uint32_t flags; /* F_FTZ, F_SAT, F_RELU, F_NAN, F_SATFINITE */
    bool approx, full, carry;
    form_fn form;
};

struct decoder {
    struct program *p;
    struct ptx_error *error;
    struct function *f;
    struct unit *u;
    struct text t;
    unsigned line;
    uint32_t code; /* index in p->codes */
    struct scope *scopes;
    uint32_t scope, scope_count, scope_room;
    struct chunk *chunks; /* memory of symbols, given back at the end */
    struct label_use {
        uint32_t ins, scope, list; /* list: 1 + index in p->refs instead of ins.target */
        struct word name;
        unsigned line;
    } *uses;
    uint32_t use_count, use_room;
    uint32_t *dynamic; /* instructions whose imm counts from the place of dynamic shared memory */
    uint32_t dynamic_count, dynamic_room;
    struct names constants; /* struct constant, by their first bytes */
    struct names opcodes;   /* struct opcode: a kernel has few, and each often */
    struct operand operands[OPERANDS], second[OPERANDS], elements[OPERANDS * VECTOR_MOST];
    uint32_t operand_count, element_count;
    struct opcode op;
    ref guard;
    ref carry; /* the function's carry flags; 0: not used yet */
    bool indirect;
};

/* Each returns false after it has reported an error. */
bool bad(struct decoder *d, enum ptx_result result, const char *format, ...) __attribute__((format(printf, 3, 4)));
bool bad_name(struct decoder *d, enum ptx_result result, const char *what, struct word name, const char *problem);
bool bad_instruction(struct decoder *d, const char *problem);
bool unsupported(struct decoder *d);
bool no_memory(struct decoder *d);
void *keep(struct decoder *d, size_t bytes);

struct ins *emit(struct decoder *d, enum kind kind);
struct ins *emit_run(struct decoder *d, run_fn run);
bool emit_special(struct decoder *d, ref to, unsigned bytes, uint8_t special); /* operands.c */
ref register_new(struct decoder *d, unsigned bytes); /* 0 bytes: a predicate; 0 when there is no memory */
ref constant(struct decoder *d, uint64_t value, unsigned bytes);
uint32_t code_of(struct decoder *d, struct function *f);
struct symbol *symbol_find(const struct decoder *d, struct word name);
struct symbol *symbol_range(const struct decoder *d, struct word prefix, uint32_t number);
bool shared_place(struct decoder *d, struct variable *v);
bool needs_dynamic(struct decoder *d, uint32_t ins);
bool label_use(struct decoder *d, struct word name, uint32_t ins, uint32_t list);

bool function_taken(struct decoder *d, struct function *f);

/* operands.c */
bool opcode_parse(struct decoder *d, struct word w);
bool opcode_has(const struct opcode *op, const char *part);
int opcode_choice(const struct opcode *op, const char *words); /* which of these words does it have? -1: none */
bool operands_parse(struct decoder *d);
bool operand_parse(struct decoder *d, struct operand *o);
bool source(struct decoder *d, const struct operand *o, enum type type, ref *out); /* a value of exactly that size */
bool source_any(struct decoder *d, const struct operand *o, enum type type, ref *out, unsigned *bytes); /* as wide as it is, at least the type */
bool destination(struct decoder *d, const struct operand *o, enum type type, ref *out);
bool destination_any(struct decoder *d, const struct operand *o, enum type type, ref *out, unsigned *bytes);
bool predicate_source(struct decoder *d, const struct operand *o, ref *out);
bool predicate_destination(struct decoder *d, const struct operand *o, ref *out);
bool address(struct decoder *d, const struct operand *o, struct ins *n);
bool list_put(struct decoder *d, uint32_t value);
unsigned type_bytes(enum type t);

/* forms.c: what the functions below share */
bool base_is(const struct decoder *d, const char *name);
bool operands_between(struct decoder *d, uint32_t least, uint32_t most);
/* Emit an instruction whose operands are as a form says, a word for each: its field in struct ins (a, b, c, d, e, or p for
 * `target`), its type (h, w, l, q: 2 to 16 bytes; f, d; p: a predicate; 0, 1: the opcode's), and where a predicate may stand
 * behind it as in `d|p`, the field of that. NULL after an error. */
struct ins *emit_form(struct decoder *d, run_fn run, const char *form);
/* Put the registers of a vector, or a single one, into the program's list. */
bool list_registers(struct decoder *d, const struct operand *o, enum type type, bool write, uint32_t *count);
bool form_operation(struct decoder *d); /* found by name among the vector operations */
bool instruction_decode(struct decoder *d, struct word opcode);

/* forms_*.c: one function for each kind of instruction */
struct form {
    const char *name;
    form_fn decode;
};
extern const struct form FORMS_MEMORY[], FORMS_CONTROL[], FORMS_VALUE[], FORMS_MATRIX[];
form_type form_carry, form_warp_sync, form_video, form_cluster_wait, decode_call;

#endif
