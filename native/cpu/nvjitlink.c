/* nvJitLink for PTX. What it hands out as machine code is an image for our own driver. There is no version call: by that
 * Numba and cuda.core see that link-time optimisation is not to be had, and hand over PTX instead of its intermediate code. */
#include "driver/image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK, INVALID_INPUT = 3, INTERNAL = 6, UNRECOGNIZED_INPUT = 8 };
enum { INPUT_PTX = 2, INPUT_LTO = 3, INPUT_FATBIN = 4, INPUT_ANY = 10, HANDLE_LINKER = 1 };

typedef struct {
    Texts ptx;
    void *image;
    size_t image_size;
    const char *error;
} Linker;

static bool alive(const Linker *linker) { return registry_has(linker, HANDLE_LINKER); }

static int create(Linker **linker, uint32_t count, const char **options) {
    if (!linker || (count && !options)) return INVALID_INPUT;
    Linker *made = registry_new(sizeof *made, HANDLE_LINKER);
    if (!made) return INTERNAL;
    made->error = "";
    *linker = made;
    return OK;
}

static int destroy(Linker **linker) {
    if (!linker || !registry_remove(*linker, HANDLE_LINKER)) return INVALID_INPUT;
    texts_end(&(*linker)->ptx);
    free((*linker)->image);
    free(*linker);
    *linker = NULL;
    return OK;
}

static int refuse(Linker *linker, const char *why) {
    linker->error = why;
    return UNRECOGNIZED_INPUT;
}

static int add_data(Linker *linker, int kind, const void *data, size_t size, const char *name) {
    (void)name;
    if (!alive(linker) || !data || !size) return INVALID_INPUT;
    if (kind != INPUT_PTX && kind != INPUT_FATBIN && kind != INPUT_ANY) return refuse(linker, "only PTX can be linked on the CPU reference");
    Image image;
    if (image_read(data, size, &image)) return refuse(linker, "an input is damaged or of an unknown kind");
    bool fits = texts_add_all(&linker->ptx, &image), empty = !image.count;
    image_end(&image);
    return empty ? refuse(linker, "an input holds no PTX that this device can use") : fits ? OK : INTERNAL;
}

static int add_file(Linker *linker, int kind, const char *path) {
    char *bytes;
    size_t size;
    if (!alive(linker) || !path) return INVALID_INPUT;
    if (image_file(path, &bytes, &size)) return refuse(linker, "an input file cannot be read");
    int result = add_data(linker, kind, bytes, size, path);
    free(bytes);
    return result;
}

static int complete(Linker *linker) {
    if (!alive(linker) || !linker->ptx.count) return INVALID_INPUT;
    free(linker->image);
    linker->image = image_join(&linker->ptx, &linker->image_size);
    return linker->image ? OK : INTERNAL;
}

static int cubin_size(Linker *linker, size_t *size) {
    if (!alive(linker) || !size || !linker->image) return INVALID_INPUT;
    *size = linker->image_size;
    return OK;
}

static int cubin(Linker *linker, void *image) {
    if (!alive(linker) || !image || !linker->image) return INVALID_INPUT;
    memcpy(image, linker->image, linker->image_size);
    return OK;
}

static int ptx_size(Linker *linker, size_t *size) {
    (void)size;
    return alive(linker) ? refuse(linker, "PTX is given out by a link-time optimisation only") : INVALID_INPUT;
}

static int ptx(Linker *linker, char *text) { return ptx_size(linker, (size_t *)text); }

static int log_size(Linker *linker, size_t *size) {
    if (!alive(linker) || !size) return INVALID_INPUT;
    *size = strlen(linker->error) + 1;
    return OK;
}

static int log_text(Linker *linker, char *text) {
    if (!alive(linker) || !text) return INVALID_INPUT;
    strcpy(text, linker->error);
    return OK;
}

static int info_size(Linker *linker, size_t *size) {
    if (!alive(linker) || !size) return INVALID_INPUT;
    *size = 1;
    return OK;
}

static int info_text(Linker *linker, char *text) {
    if (!alive(linker) || !text) return INVALID_INPUT;
    *text = '\0';
    return OK;
}

/* Programs call the name of the release whose header they were compiled with. */
#define NAMED(symbol, parameters, call)             \
    EXPORT int symbol parameters { return call; }

#define RELEASE(before, after)                                                                                               \
    NAMED(before##Create##after, (Linker * *linker, uint32_t count, const char **options), create(linker, count, options))   \
    NAMED(before##Destroy##after, (Linker * *linker), destroy(linker))                                                       \
    NAMED(before##AddData##after, (Linker * linker, int kind, const void *data, size_t size, const char *name),              \
          add_data(linker, kind, data, size, name))                                                                          \
    NAMED(before##AddFile##after, (Linker * linker, int kind, const char *path), add_file(linker, kind, path))               \
    NAMED(before##Complete##after, (Linker * linker), complete(linker))                                                      \
    NAMED(before##GetLinkedCubinSize##after, (Linker * linker, size_t *size), cubin_size(linker, size))                      \
    NAMED(before##GetLinkedCubin##after, (Linker * linker, void *image), cubin(linker, image))                               \
    NAMED(before##GetLinkedPtxSize##after, (Linker * linker, size_t *size), ptx_size(linker, size))                          \
    NAMED(before##GetLinkedPtx##after, (Linker * linker, char *text), ptx(linker, text))                                     \
    NAMED(before##GetErrorLogSize##after, (Linker * linker, size_t *size), log_size(linker, size))                           \
    NAMED(before##GetErrorLog##after, (Linker * linker, char *text), log_text(linker, text))                                 \
    NAMED(before##GetInfoLogSize##after, (Linker * linker, size_t *size), info_size(linker, size))                           \
    NAMED(before##GetInfoLog##after, (Linker * linker, char *text), info_text(linker, text))

RELEASE(nvJitLink, )
RELEASE(__nvJitLink, _12_0)
RELEASE(__nvJitLink, _12_1)
RELEASE(__nvJitLink, _12_2)
RELEASE(__nvJitLink, _12_3)
RELEASE(__nvJitLink, _12_4)
RELEASE(__nvJitLink, _12_5)
RELEASE(__nvJitLink, _12_6)
RELEASE(__nvJitLink, _12_7)
RELEASE(__nvJitLink, _12_8)
RELEASE(__nvJitLink, _12_9)
RELEASE(__nvJitLink, _13_0)
RELEASE(__nvJitLink, _13_1)
RELEASE(__nvJitLink, _13_2)
RELEASE(__nvJitLink, _13_3)
RELEASE(__nvJitLink, _13_4)
RELEASE(__nvJitLink, _13_5)
