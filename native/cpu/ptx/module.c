/* Loading: where everything stands in the texts. Bodies are skipped; variables get their memory and values. */
#include "module.h"
#include "../common/common.h"

#include <stdlib.h>
#include <string.h>

static struct ptx_module *loaded; /* under the engine's lock */

static bool add_function(struct unit *u, struct function *f) {
    struct ptx_module *m = u->module;
    if (!grow(&m->all, &m->all_room, m->all_count + 1, sizeof *m->all)) return false;
    m->all[m->all_count++] = f;
    struct function *known = names_get(&u->functions, f->name);
    if (known && !known->has_body && f->has_body) { /* a prototype stood first: it becomes the function */
        known->results = f->results;
        known->parameters = f->parameters;
        known->body = f->body;
        known->line = f->line;
        known->has_body = true;
        known->exported |= f->exported;
        f->has_body = false; /* this record only keeps its memory */
        f = known;
    }
    if (f->has_body && (f->exported || f->entry) && !names_put(&m->functions, f->name, f)) return false;
    return names_put(&u->functions, f->name, f);
}

static bool block_size(struct text *t, unsigned out[3]) {
    for (int i = 0; i < 3; i++) out[i] = 1;
    for (int i = 0; i < 3; i++) {
        struct number n;
        if (!text_number(t, &n) || n.bits > 0xffffffffu) return false;
        out[i] = (unsigned)n.bits;
        if (!text_take(t, ',')) return true;
    }
    return false;
}

/* .maxntid and its kin, up to the body or the end of a prototype. */
static bool function_directives(struct text *t, struct function *f) {
    while (!text_is(t, '{') && !text_is(t, ';')) {
        struct word w = text_dotted(t), string;
        if (!w.size || *w.at != '.') return false;
        if (word_is(w, ".maxntid") ? !block_size(t, f->max_block) : word_is(w, ".reqntid") && !block_size(t, f->required_block)) return false;
        if (word_is(w, ".pragma")) {
            while (text_string(t, &string) && text_take(t, ',')) {}
            if (!text_take(t, ';')) return false;
        }
        while (!text_is(t, '{') && !text_is(t, ';') && !text_is(t, '.')) { /* its numbers */
            struct number n;
            if (!text_number(t, &n) && !text_take(t, ',')) return false;
        }
    }
    return true;
}

static bool parse_function(struct unit *u, struct text *t, bool entry, bool exported) {
    struct function *f = calloc(1, sizeof *f);
    if (!f) return false;
    *f = (struct function){.entry = entry, .exported = exported, .unit = u, .line = t->line};
    bool right = true;
    while (right && text_is(t, '.')) {
        struct word w = text_dotted(t);
        right = word_is(w, ".noreturn") || (word_is(w, ".attribute") && text_take(t, '(') && text_until(t, ')') && (text_take(t, ')'), true));
    }
    if (right && text_take(t, '(')) {
        f->results = *t;
        right = text_until(t, ')');
    }
    f->name = right ? text_name(t) : (struct word){0};
    right = f->name.size > 0;
    f->line = t->line;
    if (right && text_take(t, '(')) {
        f->parameters = *t;
        right = text_until(t, ')');
    }
    right = right && function_directives(t, f);
    if (right && text_take(t, '{')) {
        f->body = *t;
        f->has_body = true;
        right = text_block(t);
        f->body.end = t->at - 1;
    } else {
        right = right && text_take(t, ';');
    }
    f->text_name = right ? malloc(f->name.size + 1) : NULL;
    if (f->text_name) {
        memcpy(f->text_name, f->name.at, f->name.size);
        f->text_name[f->name.size] = 0;
        if (add_function(u, f)) return true;
    }
    free(f->text_name);
    free(f);
    return false;
}

/* Past an initialiser: to the `,` or `;` that ends it. */
static bool skip_initialiser(struct text *t) {
    for (int depth = 0; text_skip(t), t->at < t->end; t->at++) {
        char c = *t->at;
        if (c == '{' || c == '(') depth++;
        if ((c == '}' || c == ')') && --depth < 0) return false;
        if ((c == ',' || c == ';') && depth == 0) return true;
    }
    return false;
}

static bool parse_variables(struct unit *u, struct text *t, enum space space, bool external, bool exported) {
    struct variable pattern = {.space = (uint8_t)space, .external = external, .exported = exported, .unit = u};
    do {
        if (!declaration_parse(t, &pattern)) return false;
        struct variable *v = malloc(sizeof *v);
        if (!v) return false;
        *v = pattern;
        *u->last = v;
        u->last = &v->next;
        v->next = NULL;
        if (text_take(t, '=')) {
            v->init = *t;
            if (!skip_initialiser(t)) return false;
            if (v->opaque) v->init.at = NULL;
        }
        struct variable *known = names_get(&u->variables, v->name);
        if (known && known->external && !v->external) known->init = v->init, known->external = false, known->bytes = v->bytes, known->unsized = v->unsized;
        else if (!names_put(&u->variables, v->name, v)) return false;
    } while (text_take(t, ','));
    return text_take(t, ';');
}

/* No version and no target of PTX has reached these. */
enum { VERSION_END = 100, TARGET_END = 200 };

static bool parse_heading(struct unit *u, struct text *t, struct word w, bool *known) {
    struct number n;
    struct word string;
    *known = true;
    if (word_is(w, ".version")) {
        struct word v = text_dotted(t);
        for (uint32_t i = 0; i < v.size && i < 6; i++)
            if (v.at[i] >= '0' && v.at[i] <= '9') u->version = u->version * 10 + (unsigned)(v.at[i] - '0');
        return v.size > 0;
    }
    if (word_is(w, ".target")) {
        do {
            struct word v = text_name(t);
            if (!v.size) return false;
            for (uint32_t i = 3; v.at[0] == 's' && i < v.size && i < 7 && v.at[i] >= '0' && v.at[i] <= '9'; i++)
                u->target = u->target * 10 + (unsigned)(v.at[i] - '0');
        } while (text_take(t, ','));
        return true;
    }
    if (word_is(w, ".address_size")) return text_number(t, &n) && n.bits == 64;
    if (word_is(w, ".file")) {
        if (!text_number(t, &n) || !text_string(t, &string)) return false;
        while (text_take(t, ','))
            if (!text_number(t, &n)) return false;
        return true;
    }
    if (word_is(w, ".section")) return text_dotted(t).size && text_take(t, '{') && text_block(t);
    if (word_choice(w, ".pragma .tex .alias .loc") >= 0) return text_until(t, ';');
    *known = false;
    return true;
}

static bool parse_directive(struct unit *u, struct text *t) {
    bool external = false, exported = false, known;
    for (;;) {
        struct word w = text_directive(t);
        if (word_is(w, ".extern")) external = true;
        else if (word_choice(w, ".visible .common .weak") >= 0) exported = true;
        else if (word_is(w, ".entry")) return parse_function(u, t, true, true);
        else if (word_is(w, ".func")) return parse_function(u, t, false, exported);
        else if (word_is(w, ".global")) return parse_variables(u, t, SPACE_GLOBAL, external, exported);
        else if (word_is(w, ".const")) return parse_variables(u, t, SPACE_CONST, external, exported);
        else if (word_is(w, ".shared")) return parse_variables(u, t, SPACE_SHARED, external, exported);
        else if (w.size == 0) return text_take(t, ';');
        else return parse_heading(u, t, w, &known) && known;
    }
}

static enum ptx_result parse_unit(struct unit *u, struct ptx_error *error) {
    struct text t = {u->text, u->text + u->size, 1};
    while (text_skip(&t), t.at < t.end) {
        if (*t.at == '@') { /* @@DWARF of old compilers */
            const char *line = memchr(t.at, '\n', (size_t)(t.end - t.at));
            t.at = line ? line : t.end;
            continue;
        }
        unsigned line = t.line;
        if (!parse_directive(u, &t)) return fail(error, PTX_INVALID_PTX, line, "the PTX text is not understood in line %u", t.line);
    }
    if (!u->version) return fail(error, PTX_INVALID_PTX, 1, "the PTX text names no .version");
    if (u->version >= VERSION_END || u->target >= TARGET_END)
        return fail(error, PTX_UNSUPPORTED, 1, "the PTX text is of version %u.%u for sm_%u, which do not exist", u->version / 10, u->version % 10, u->target);
    return PTX_OK;
}

/* ---- variables ---- */

struct function *unit_function(const struct unit *u, struct word name) {
    struct function *f = names_get(&u->functions, name);
    if (f && f->has_body) return f;
    struct function *shared = names_get(&u->module->functions, name);
    return shared && shared->has_body ? shared : f;
}

struct variable *unit_variable(const struct unit *u, struct word name) {
    struct variable *v = names_get(&u->variables, name);
    if (v && !v->external) return v;
    struct variable *shared = names_get(&u->module->variables, name);
    return shared ? shared : v;
}

bool module_take(struct ptx_module *m, struct function *f) {
    for (size_t i = 0; i < m->taken_count; i++)
        if (m->taken[i] == f) return true;
    if (!grow(&m->taken, &m->taken_room, m->taken_count + 1, sizeof *m->taken)) return false;
    m->taken[m->taken_count++] = f;
    return true;
}

/* `name`, `generic(name)`, each with `+ number`, or a number. */
static bool initial_value(struct variable *v, struct text *t, uint64_t *bits) {
    struct number n;
    text_skip(t);
    struct text before = *t;
    struct word name = text_name(t);
    if (!name.size) return expression_parse(t, &n) && (*bits = number_as(&n, (enum type)v->type), true);
    bool wrapped = word_is(name, "generic") && text_take(t, '(');
    if (wrapped) name = text_name(t);
    struct variable *target = unit_variable(v->unit, name);
    struct function *f = target ? NULL : unit_function(v->unit, name);
    if (!target && !f) return *t = before, false;
    if (wrapped && !text_take(t, ')')) return false;
    *bits = target ? (uint64_t)(uintptr_t)target->memory : (uint64_t)(uintptr_t)f;
    if (f && !module_take(v->unit->module, f)) return false;
    if (text_is(t, '+') || text_is(t, '-')) {
        if (!expression_parse(t, &n) || n.kind != NUMBER_INTEGER) return false;
        *bits += n.bits;
    }
    return true;
}

static bool initial_values(struct variable *v, struct text *t, uint64_t *at, int depth) {
    size_t size = TYPES[v->type].bytes;
    if (text_take(t, '{')) {
        if (depth > 16) return false;
        if (text_take(t, '}')) return true;
        uint64_t begin = *at;
        do {
            if (!initial_values(v, t, at, depth + 1)) return false;
        } while (text_take(t, ','));
        if (depth && (uint32_t)depth <= v->row_count) *at = begin + v->rows[depth - 1]; /* what a row does not name is zero */
        return text_take(t, '}');
    }
    uint64_t bits = 0;
    /* A byte of an address: `0xFF00(name)` */
    struct text before = *t;
    struct number mask;
    if (size == 1 && text_number(t, &mask) && mask.kind == NUMBER_INTEGER && text_take(t, '(')) {
        if (!initial_value(v, t, &bits) || !text_take(t, ')') || !mask.bits) return false;
        bits = (bits & mask.bits) >> __builtin_ctzll(mask.bits);
    } else {
        *t = before;
        if (!initial_value(v, t, &bits)) return false;
    }
    if (*at + size > v->bytes) return false;
    memcpy(v->memory + *at, &bits, size < 8 ? size : 8);
    *at += size;
    return true;
}

static bool has_memory(const struct variable *v) { return (v->space == SPACE_GLOBAL || v->space == SPACE_CONST) && !v->external; }

static enum ptx_result place_variables(struct ptx_module *m, struct ptx_error *error) {
    for (int pass = 0; pass < 2; pass++) {
        size_t at = 0;
        for (size_t i = 0; i < m->unit_count; i++)
            for (struct variable *v = m->units[i].first; v; v = v->next) {
                if (pass == 0 && v->exported && !v->external && !names_put(&m->variables, v->name, v)) return PTX_OUT_OF_MEMORY;
                if (!has_memory(v) || names_get(&m->units[i].variables, v->name) != v) continue;
                if (v->unsized && v->init.at) v->bytes = 0; /* sizes by initialiser are not PTX */
                at = (at + v->align - 1) & ~(size_t)(v->align - 1);
                if (pass == 1) v->memory = m->arena + at;
                if (pass == 0 && v->space == SPACE_CONST) m->const_bytes += v->bytes;
                at += v->bytes ? v->bytes : 1;
                if (at > (size_t)1 << 40) return fail(error, PTX_OUT_OF_MEMORY, 0, "the module's variables are too large");
            }
        if (pass == 0) {
            m->arena_bytes = at;
            uint64_t most = host_memory_bytes();
            m->arena_block = most && at > most ? NULL : calloc(1, at + 512); /* large ones are not touched before they are used */
            if (!m->arena_block) return fail(error, PTX_OUT_OF_MEMORY, 0, "there is no memory for the module's variables");
            m->arena = (uint8_t *)(((uintptr_t)m->arena_block + 255) & ~(uintptr_t)255);
        }
    }
    for (size_t i = 0; i < m->unit_count; i++)
        for (struct variable *v = m->units[i].first; v; v = v->next) {
            uint64_t at = 0;
            struct text t = v->init;
            if (v->memory && t.at && !initial_values(v, &t, &at, 0))
                return fail(error, PTX_INVALID_PTX, t.line, "the initial value of %.*s is not understood", (int)v->name.size, v->name.at);
        }
    return PTX_OK;
}

bool modules_contain(uint64_t address, uint64_t *begin, uint64_t *end) {
    bool found = false;
    engine_lock();
    for (struct ptx_module *m = loaded; m && !found; m = m->next) {
        *begin = (uint64_t)(uintptr_t)m->arena;
        *end = *begin + m->arena_bytes;
        found = address >= *begin && address < *end;
    }
    engine_unlock();
    return found;
}

bool constant_contains(const struct function *f, uint64_t address) {
    const struct ptx_module *m = f->unit->module;
    for (size_t i = 0; i < m->unit_count; i++)
        for (const struct variable *v = m->units[i].first; v; v = v->next) {
            uint64_t begin = (uint64_t)(uintptr_t)v->memory;
            if (v->memory && v->space == SPACE_CONST && address >= begin && address < begin + v->bytes) return true;
        }
    return false;
}

static enum ptx_result collect_entries(struct ptx_module *m) {
    m->entries = calloc(m->all_count + 1, sizeof *m->entries);
    if (!m->entries) return PTX_OUT_OF_MEMORY;
    for (size_t i = 0; i < m->all_count; i++)
        if (m->all[i]->entry && m->all[i]->has_body && names_get(&m->functions, m->all[i]->name) == m->all[i])
            m->entries[m->entry_count++] = m->all[i];
    return PTX_OK;
}

static enum ptx_result load_units(struct ptx_module *m, const char *const *texts, const size_t *sizes, size_t count, struct ptx_error *error) {
    m->units = calloc(count, sizeof *m->units);
    if (!m->units) return PTX_OUT_OF_MEMORY;
    m->unit_count = count;
    for (size_t i = 0; i < count; i++) {
        struct unit *u = &m->units[i];
        size_t size = sizes[i];
        while (size && texts[i][size - 1] == 0) size--;
        *u = (struct unit){.text = malloc(size + 2), .size = size, .module = m, .last = &u->first};
        if (!u->text) return PTX_OUT_OF_MEMORY;
        memcpy(u->text, texts[i], size);
        u->text[size] = u->text[size + 1] = 0;
        enum ptx_result result = parse_unit(u, error);
        if (result) return result;
    }
    enum ptx_result result = place_variables(m, error);
    return result ? result : collect_entries(m);
}

enum ptx_result ptx_module_load(const char *const *texts, const size_t *sizes, size_t count, struct ptx_module **out,
                                struct ptx_error *error) {
    if (error) memset(error, 0, sizeof *error);
    if (!count) return fail(error, PTX_INVALID_VALUE, 0, "there is no PTX text");
    struct ptx_module *m = calloc(1, sizeof *m);
    if (!m) return PTX_OUT_OF_MEMORY;
    enum ptx_result result = load_units(m, texts, sizes, count, error);
    if (result) {
        ptx_module_unload(m);
        return fail(error, result, 0, "there is no memory for the module");
    }
    engine_lock();
    m->next = loaded;
    loaded = m;
    engine_unlock();
    *out = m;
    return PTX_OK;
}

void ptx_module_unload(struct ptx_module *m) {
    if (!m) return;
    engine_lock();
    for (struct ptx_module **at = &loaded; *at; at = &(*at)->next)
        if (*at == m) {
            *at = m->next;
            break;
        }
    engine_unlock();
    for (size_t i = 0; i < m->unit_count; i++) {
        struct unit *u = &m->units[i];
        for (struct variable *v = u->first, *next; v; v = next) {
            next = v->next;
            free(v);
        }
        names_free(&u->functions);
        names_free(&u->variables);
        free(u->text);
    }
    for (size_t i = 0; i < m->all_count; i++) {
        program_free(m->all[i]->program);
        free(m->all[i]->formals);
        free(m->all[i]->text_name);
        free(m->all[i]);
    }
    names_free(&m->functions);
    names_free(&m->variables);
    free(m->arena_block), free(m->units), free(m->entries), free(m->all), free(m->taken);
    free(m);
}
