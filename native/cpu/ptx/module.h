/* What a module holds before anything is decoded: where each function and variable stands in the text. */
#ifndef PTX_MODULE_H
#define PTX_MODULE_H

#include "program.h"

/* A table of names. The first value put under a name stays. */
struct names {
    struct name_slot {
        struct word name;
        void *value;
    } *slots;
    size_t room, used;
};
bool names_put(struct names *n, struct word name, void *value); /* false: out of memory */
void *names_get(const struct names *n, struct word name);
void names_free(struct names *n);

/* A declared variable or parameter. */
struct variable {
    struct word name;
    uint8_t space, type;
    bool external, exported, unsized, is_reg;
    bool opaque; /* a texture, surface or sampler: its initial value is not a number */
    uint32_t align, count; /* count: of a vector's elements */
    uint32_t range;        /* `name<range>` */
    uint32_t row_count;    /* of an array with several dimensions: bytes of a row, of a row's rows, and so on */
    uint64_t rows[4];
    uint64_t bytes;
    uint8_t *memory;  /* .global, .const */
    uint64_t offset;  /* of a parameter; of .shared in the program that `owner` names */
    const void *owner;
    struct text init; /* at the `=`'s right side; at == NULL: none */
    struct unit *unit;
    struct variable *next;
};

struct function {
    struct word name;
    char *text_name; /* ends with a zero byte */
    bool entry, exported, has_body;
    unsigned line;
    struct text results, parameters, body;
    unsigned max_block[3], required_block[3];
    struct unit *unit;
    struct variable *formals; /* parsed when asked for: parameters */
    bool formals_known;
    uint32_t formal_count;
    uint64_t formal_bytes;
    struct program *program;
    struct ptx_error failure; /* of decoding */
    bool decoded;
};

/* One PTX text. */
struct unit {
    char *text;
    size_t size;
    unsigned version, target;
    struct names functions, variables;
    struct ptx_module *module;
    struct variable *first, **last;
};

struct ptx_module {
    struct unit *units;
    size_t unit_count;
    struct names functions, variables; /* exported ones */
    struct function **entries, **all;
    uint32_t entry_count, all_count, all_room;
    struct function **taken; /* functions whose address a variable holds */
    uint32_t taken_count, taken_room;
    void *arena_block;
    uint8_t *arena; /* the memory of all variables, inside of the block */
    size_t arena_bytes, const_bytes;
    struct ptx_module *next; /* of all loaded modules */
};

struct function *unit_function(const struct unit *u, struct word name); /* the definition, if one is anywhere */
struct variable *unit_variable(const struct unit *u, struct word name);

bool module_take(struct ptx_module *m, struct function *f); /* note that a function's address is used */

/* Parse one declaration after its space: alignment, type, name, dimensions. The initialiser is left. */
bool declaration_parse(struct text *t, struct variable *out);
bool function_formals(struct function *f, const struct text *list, struct variable **out, uint32_t *count, uint64_t *bytes);

/* Is this range inside a loaded module's variables? Sets the arena's bounds. */
bool modules_contain(uint64_t address, uint64_t *begin, uint64_t *end);

bool constant_contains(const struct function *f, uint64_t address); /* one of the module's .const variables? */

enum ptx_result fail(struct ptx_error *error, enum ptx_result result, unsigned line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void engine_lock(void);
void engine_unlock(void);

/* Make room for so many elements; `array` is the address of a pointer. */
bool grow(void *array, uint32_t *room, uint32_t needed, size_t size);

/* A constant expression: literals, unary and binary operators, parentheses. */
bool expression_parse(struct text *t, struct number *out);
uint64_t number_as(const struct number *n, enum type type); /* the bits of a value of that type */

#endif
