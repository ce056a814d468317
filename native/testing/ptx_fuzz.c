/* Feeds damaged PTX to the engine: ptx_fuzz SEED COUNT FILE... Built with sanitizers; prints how many texts were decoded. */
#include "../cpu/ptx/ptx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t state;
static uint32_t next(uint32_t below) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return below ? (uint32_t)((state >> 16) % below) : 0;
}

struct text {
    char *bytes;
    size_t size;
};

static struct text read_file(const char *name) {
    struct text t = {NULL, 0};
    FILE *file = fopen(name, "rb");
    if (!file) exit(2);
    fseek(file, 0, SEEK_END);
    t.size = (size_t)ftell(file);
    rewind(file);
    t.bytes = malloc(t.size + 1);
    if (!t.bytes || fread(t.bytes, 1, t.size, file) != t.size) exit(2);
    fclose(file);
    return t;
}

static const char *const WORDS[] = {
    "0", "-1", "4294967295", "18446744073709551615", "0x80000000", "1e999", "0f7F800000", "<65536>", "[99999]", "{", "}", "(", ")", ";", ",", "|",
    "%tid.x", "%r1", "%rd1", "%p1", "!", "@", "_", ".v4", ".reg .b32 %q<9>;", ".shared .b8 s[64];", ".u64", ".s16", ".f32", ".pred", "call", "bra L;", "L:",
    "/*", "*/", "//", "\"", ".align 65536", ".param", "=", "::", "$", "generic(", "ret;", ".local .b8 l[100];", ".branchtargets A;", ".b128", "mma.sync",
};

/* Some damage: a byte, a piece cut out, doubled, moved from another text, or a word put in. */
static void damage(struct text *t, size_t room, const struct text *other) {
    size_t at = next((uint32_t)t->size), size = 1 + next(next(4) ? 12 : 300);
    if (at + size > t->size) size = t->size - at;
    switch (next(6)) {
    case 0: t->bytes[at] = (char)next(256); break;
    case 1: t->bytes[at] ^= (char)(1 << next(8)); break;
    case 2: memmove(t->bytes + at, t->bytes + at + size, t->size - at - size), t->size -= size; break;
    case 3:
        if (t->size + size > room) break;
        memmove(t->bytes + at + size, t->bytes + at, t->size - at), t->size += size;
        break;
    case 4: {
        size_t from = next((uint32_t)other->size);
        if (from + size > other->size) size = other->size - from;
        if (at + size <= t->size) memcpy(t->bytes + at, other->bytes + from, size);
        break;
    }
    default: {
        const char *word = WORDS[next(sizeof WORDS / sizeof *WORDS)];
        size_t length = strlen(word);
        if (t->size + length > room) break;
        memmove(t->bytes + at + length, t->bytes + at, t->size - at);
        memcpy(t->bytes + at, word, length), t->size += length;
    }
    }
    if (!t->size) t->bytes[0] = ' ', t->size = 1;
}

int main(int count, char **words) {
    if (count < 4) return 2;
    int files = count - 3;
    unsigned long decoded = 0, loaded = 0, total = strtoul(words[2], NULL, 10);
    struct text *seeds = calloc((size_t)files, sizeof *seeds);
    clock_t slowest = 0;
    if (!seeds) return 2;
    for (int i = 0; i < files; i++) seeds[i] = read_file(words[3 + i]);
    for (unsigned long run = 0; run < total; run++) {
        state = 0x9e3779b97f4a7c15u * (strtoul(words[1], NULL, 10) + run + 1) | 1;
        const struct text *seed = &seeds[next((uint32_t)files)];
        size_t room = seed->size + 4096;
        struct text t = {malloc(room), seed->size};
        if (!t.bytes) return 2;
        memcpy(t.bytes, seed->bytes, seed->size);
        for (uint32_t k = 1 + next(next(3) ? 3 : 12); k; k--) damage(&t, room, &seeds[next((uint32_t)files)]);
        char *exact = malloc(t.size); /* so that a read beyond the end is seen */
        if (!exact) return 2;
        memcpy(exact, t.bytes, t.size);
        struct ptx_module *module = NULL;
        struct ptx_error error;
        clock_t begin = clock();
        if (ptx_module_load((const char *const[]){exact}, &t.size, 1, &module, &error) == PTX_OK) {
            loaded++;
            for (size_t i = 0; i < ptx_function_count(module); i++) {
                struct ptx_attributes a;
                size_t offset, size;
                ptx_parameter(ptx_function_at(module, i), 0, &offset, &size);
                ptx_function_attributes(ptx_function_at(module, i), &a);
                decoded += a.registers != 0;
            }
            ptx_module_unload(module);
        }
        if (clock() - begin > slowest) slowest = clock() - begin;
        free(exact), free(t.bytes);
    }
    for (int i = 0; i < files; i++) free(seeds[i].bytes);
    free(seeds);
    printf("%lu texts, %lu loaded, %lu kernels decoded, slowest %.3f s\n", total, loaded, decoded, (double)slowest / CLOCKS_PER_SEC);
    return 0;
}
