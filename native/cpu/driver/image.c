/* Finding the PTX in an image. The layout of fat binaries is not documented: it was read off nvcc's output. */
#include "image.h"
#include "unpack.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WRAPPER_MAGIC 0x466243B1u
#define CONTAINER_MAGIC 0xBA55ED50u
#define LTO_MAGIC 0x7F4E43EDu
#define JOINED_MAGIC "CPU\x01PTX"

enum { KIND_PTX = 1, CONTAINER_HEADER = 16, ENTRY_HEADER = 64, UNPACKED_MOST = 1 << 30 };

typedef struct {
    uint32_t magic, version;
    const void *container, *more;
} Wrapper;

typedef struct {
    const uint8_t *payload;
    size_t stored, whole; /* whole = 0: not packed */
    unsigned sm, order;
} Candidate;

/* ---- fat binaries ---- */

static bool read_entry(const uint8_t *at, size_t left, Candidate *entry, unsigned *kind, size_t *length) {
    if (left < ENTRY_HEADER) return false;
    uint64_t header = little(at + 4, 4), payload = little(at + 8, 8), packed = little(at + 16, 4);
    if (header < ENTRY_HEADER || header > left || payload > left - header || packed > payload) return false;
    *kind = (unsigned)little(at, 2);
    *entry = (Candidate){.payload = at + header, .stored = (size_t)(packed ? packed : payload), .sm = (unsigned)little(at + 28, 4)};
    if (packed) entry->whole = (size_t)little(at + 56, 8);
    *length = (size_t)(header + payload);
    return true;
}

/* The best that comes before `last` in rank: by sm, then the one that stands first. */
static bool next_candidate(const uint8_t *container, unsigned capability, const Candidate *last, Candidate *best) {
    const uint8_t *at = container + CONTAINER_HEADER;
    uint64_t left = little(container + 8, 8);
    bool found = false;
    for (unsigned order = 0; left; order++) {
        Candidate entry;
        unsigned kind;
        size_t length;
        if (!read_entry(at, (size_t)left, &entry, &kind, &length)) break;
        entry.order = order;
        at += length;
        left -= length;
        if (kind != KIND_PTX || entry.sm > capability) continue;
        if (last && (entry.sm > last->sm || (entry.sm == last->sm && entry.order <= last->order))) continue;
        if (!found || entry.sm > best->sm) *best = entry;
        found = true;
    }
    return found;
}

static size_t unpack(const Candidate *entry, char **text) {
    size_t room = entry->whole ? entry->whole : entry->stored;
    if (room > UNPACKED_MOST || !(*text = malloc(room + 1))) return SIZE_MAX;
    size_t size = entry->stored;
    if (!entry->whole) memcpy(*text, entry->payload, size);
    else if (zstd_content_size(entry->payload, entry->stored) || (entry->stored > 4 && little(entry->payload, 4) == 0xFD2FB528u))
        size = unpack_zstd(entry->payload, entry->stored, (uint8_t *)*text, room);
    else size = unpack_lz4(entry->payload, entry->stored, (uint8_t *)*text, room);
    if (size == SIZE_MAX) {
        free(*text);
        return SIZE_MAX;
    }
    while (size && !(*text)[size - 1]) size--;
    (*text)[size] = '\0';
    return size;
}

/* sm_90a runs on 9.0 only, sm_120f on the 12.x from 12.0 on. */
static bool target_fits(const char *text, unsigned capability) {
    const char *at = strstr(text, ".target");
    at = at ? strstr(at, "sm_") : NULL;
    if (!at) return true;
    char *end;
    unsigned long sm = strtoul(at + 3, &end, 10);
    if (*end == 'a') return sm == capability;
    return *end != 'f' || sm / 10 == capability / 10;
}

static CUresult hold(Image *image, const char *text, size_t size) {
    image->texts = malloc(sizeof *image->texts);
    image->sizes = malloc(sizeof *image->sizes);
    if (!image->texts || !image->sizes) return CUDA_ERROR_OUT_OF_MEMORY;
    image->texts[0] = text;
    image->sizes[0] = size;
    image->count = 1;
    return CUDA_SUCCESS;
}

static CUresult read_container(const uint8_t *container, size_t size, unsigned capability, Image *image) {
    if (size < CONTAINER_HEADER || (size != SIZE_MAX && little(container + 8, 8) > size - CONTAINER_HEADER)) return CUDA_ERROR_INVALID_IMAGE;
    Candidate last, next;
    for (bool more = next_candidate(container, capability, NULL, &next); more;
         last = next, more = next_candidate(container, capability, &last, &next)) {
        char *text;
        size_t length = unpack(&next, &text);
        if (length == SIZE_MAX) return CUDA_ERROR_INVALID_IMAGE;
        if (target_fits(text, capability)) {
            image->owned = text;
            return hold(image, text, length);
        }
        free(text);
    }
    return CUDA_SUCCESS;
}

/* Machine code cannot run here, but it may have its PTX beside it. For sm_120 it is for the 12.x from 12.0 on. */
static CUresult read_cubin(const uint8_t *bytes, size_t size, unsigned capability, Image *image) {
    unsigned sm = cubin_capability(bytes, size);
    if (sm > capability || sm / 10 != capability / 10) return CUDA_SUCCESS;
    size_t length = cubin_ptx(bytes, size, &image->owned);
    return length && target_fits(image->owned, capability) ? hold(image, image->owned, length) : CUDA_SUCCESS;
}

size_t image_container(const void *bytes, size_t size, size_t from) {
    static const uint8_t MAGIC[] = {0x50, 0xED, 0x55, 0xBA};
    for (size_t at = from; at + CONTAINER_HEADER <= size; at++)
        if (!memcmp((const uint8_t *)bytes + at, MAGIC, sizeof MAGIC)) return at;
    return size;
}

/* ---- joined texts: magic, count, then size and text with a NUL each ---- */

bool texts_add(Texts *list, const char *text, size_t size) {
    char **texts = realloc(list->texts, (list->count + 1) * sizeof *texts);
    if (texts) list->texts = texts;
    size_t *sizes = realloc(list->sizes, (list->count + 1) * sizeof *sizes);
    if (sizes) list->sizes = sizes;
    char *copy = texts && sizes ? calloc(1, size + 1) : NULL;
    if (!copy) return false;
    memcpy(copy, text, size);
    list->texts[list->count] = copy;
    list->sizes[list->count++] = size;
    return true;
}

bool texts_add_all(Texts *list, const Image *image) {
    bool fits = true;
    for (size_t i = 0; i < image->count && fits; i++) fits = texts_add(list, image->texts[i], image->sizes[i]);
    return fits;
}

void texts_end(Texts *list) {
    for (size_t i = 0; i < list->count; i++) free(list->texts[i]);
    free(list->texts);
    free(list->sizes);
}

void *image_join(const Texts *list, size_t *size) {
    *size = 16;
    for (size_t i = 0; i < list->count; i++) *size += 8 + list->sizes[i] + 1;
    char *image = calloc(1, *size), *at = image + 16;
    if (!image) return NULL;
    uint64_t number = list->count;
    memcpy(image, JOINED_MAGIC, sizeof JOINED_MAGIC);
    memcpy(image + 8, &number, 8);
    for (size_t i = 0; i < list->count; i++) {
        number = list->sizes[i];
        memcpy(at, &number, 8);
        memcpy(at + 8, list->texts[i], list->sizes[i]);
        at += 8 + list->sizes[i] + 1;
    }
    return image;
}

static CUresult read_joined(const char *bytes, size_t size, Image *image) {
    uint64_t count, length;
    memcpy(&count, bytes + 8, 8);
    if (count > 1 << 20) return CUDA_ERROR_INVALID_IMAGE;
    image->texts = calloc(count + 1, sizeof *image->texts);
    image->sizes = calloc(count + 1, sizeof *image->sizes);
    if (!image->texts || !image->sizes) return CUDA_ERROR_OUT_OF_MEMORY;
    size_t at = 16;
    for (uint64_t i = 0; i < count; i++) {
        if (size - at < 9) return CUDA_ERROR_INVALID_IMAGE;
        memcpy(&length, bytes + at, 8);
        if (length > size - at - 9) return CUDA_ERROR_INVALID_IMAGE;
        image->texts[i] = bytes + at + 8;
        image->sizes[i] = (size_t)length;
        at += 8 + (size_t)length + 1;
        image->count++;
    }
    return CUDA_SUCCESS;
}

/* ---- any image ---- */

static bool looks_like_text(const uint8_t *bytes, size_t size) {
    size_t i = 0;
    while (i < size && isspace(bytes[i])) i++;
    return i < size && (bytes[i] == '.' || bytes[i] == '/');
}

static size_t text_length(const char *text, size_t most) {
    size_t length = 0;
    while (length < most && text[length]) length++;
    return length;
}

CUresult image_read_for(unsigned capability, const void *image_bytes, size_t size, Image *image) {
    const uint8_t *bytes = image_bytes;
    *image = (Image){0};
    if (!bytes) return CUDA_ERROR_INVALID_VALUE;
    if (looks_like_text(bytes, size)) return hold(image, (const char *)bytes, text_length((const char *)bytes, size));
    if (size < CONTAINER_HEADER) return CUDA_ERROR_INVALID_IMAGE;
    CUresult result = CUDA_ERROR_INVALID_IMAGE;
    Wrapper wrapper;
    memcpy(&wrapper, bytes, 16);
    if (wrapper.magic == WRAPPER_MAGIC && wrapper.container) return image_read_for(capability, wrapper.container, SIZE_MAX, image);
    if (wrapper.magic == CONTAINER_MAGIC) result = read_container(bytes, size, capability, image);
    else if (!memcmp(bytes, JOINED_MAGIC, sizeof JOINED_MAGIC)) result = read_joined((const char *)bytes, size, image);
    else if (!memcmp(bytes, "\177ELF", 4)) result = read_cubin(bytes, size, capability, image);
    else if (wrapper.magic == LTO_MAGIC) result = CUDA_SUCCESS; /* without PTX */
    if (result) image_end(image);
    return result;
}

CUresult image_read(const void *bytes, size_t size, Image *image) {
    return image_read_for((unsigned)reported_capability(), bytes, size, image);
}

void image_end(Image *image) {
    free(image->texts);
    free(image->sizes);
    free(image->owned);
    *image = (Image){0};
}

CUresult image_file(const char *path, char **bytes, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
    CUresult result = CUDA_ERROR_FILE_NOT_FOUND;
    long length = fseek(file, 0, SEEK_END) ? -1 : ftell(file);
    rewind(file);
    *bytes = length >= 0 ? calloc(1, (size_t)length + 1) : NULL;
    if (*bytes && fread(*bytes, 1, (size_t)length, file) == (size_t)length) result = CUDA_SUCCESS;
    else free(*bytes);
    *size = (size_t)length;
    fclose(file);
    return result;
}
