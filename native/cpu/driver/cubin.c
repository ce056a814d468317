/* The PTX in machine code: compiled with line information (nvcc -lineinfo or -G) it has its PTX beside it, for debuggers. Lines
 * end with a NUL. The layout is ELF's for 64 bits, lowest byte first; since CUDA 13 (ABI 8) the number of the capability stands
 * one byte higher in the flags. */
#include "unpack.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { MACHINE = 190, SECTION = 64, TEXT_MOST = 1 << 30 };

typedef struct {
    uint32_t name, type;
    uint64_t flags, address, at, size;
} Section;

/* Whether `count` bytes from `at` on lie inside. */
static bool inside(size_t size, uint64_t at, uint64_t count) { return count <= TEXT_MOST && at <= size && count <= size - at; }

/* A section's header; what takes no room in the file may claim any size. */
static bool section(const uint8_t *bytes, size_t size, unsigned index, Section *found) {
    uint64_t table = little(bytes + 40, 8), count = little(bytes + 60, 2);
    if (index >= count || table > TEXT_MOST || !inside(size, table + (uint64_t)index * SECTION, SECTION)) return false;
    memcpy(found, bytes + table + (size_t)index * SECTION, sizeof *found);
    return true;
}

/* Code that may be linked has a number behind the section's name; linked from several units it has several texts, which is
 * not told apart here. */
static bool find(const uint8_t *bytes, size_t size, Section *found) {
    static const char NAME[] = ".nv_debug_ptx_txt";
    unsigned machine = (unsigned)little(bytes + 18, 2), each = (unsigned)little(bytes + 58, 2), titles = (unsigned)little(bytes + 62, 2);
    Section names, here;
    unsigned count = 0;
    if (machine != MACHINE || each != SECTION || !section(bytes, size, titles, &names) || !inside(size, names.at, names.size)) return false;
    for (unsigned i = 0; section(bytes, size, i, &here); i++) {
        if (!inside((size_t)names.size, here.name, sizeof NAME)) continue;
        const char *name = (const char *)bytes + names.at + here.name, behind = name[sizeof NAME - 1];
        if (memcmp(name, NAME, sizeof NAME - 1) || (behind && behind != '.')) continue;
        *found = here;
        count++;
    }
    return count == 1 && inside(size, found->at, found->size);
}

unsigned cubin_capability(const uint8_t *bytes, size_t size) {
    return size < 64 ? 0 : bytes[bytes[8] < 8 ? 48 : 49];
}

size_t cubin_ptx(const uint8_t *bytes, size_t size, char **text) {
    Section ptx = {0};
    *text = NULL;
    if (size < 64 || bytes[4] != 2 || !find(bytes, size, &ptx) || !ptx.size || !(*text = malloc((size_t)ptx.size + 1))) return 0;
    for (size_t i = 0; i < ptx.size; i++) {
        char letter = (char)bytes[ptx.at + i];
        (*text)[i] = letter ? letter : '\n';
    }
    (*text)[ptx.size] = '\0';
    return (size_t)ptx.size;
}
