/* Linking at run time: PTX in, and out comes an image that our own cuModuleLoadData takes. */
#include "image.h"
#include "device_runtime.h"
#include "module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INPUT_CUBIN, INPUT_PTX, INPUT_FATBINARY, INPUT_OBJECT, INPUT_LIBRARY, INPUT_NVVM };
enum { INFO_LOG = 3, INFO_LOG_SIZE = 4, ERROR_LOG = 5, ERROR_LOG_SIZE = 6 };

typedef struct {
    Jit jit;
    Texts ptx;
    void *result;
} Link;

/* ---- messages ---- */

static void write_log(const Jit *jit, int buffer_option, int size_option, const char *text) {
    char *buffer = NULL;
    void **size = NULL;
    for (unsigned i = 0; i < jit->count; i++) {
        if (jit->options[i] == buffer_option) buffer = jit->values[i];
        if (jit->options[i] == size_option) size = jit->values + i;
    }
    size_t room = size ? (size_t)*size & 0xFFFFFFFFu : 0, length = strlen(text); /* an unsigned int in a pointer's place */
    if (!buffer || !room) return;
    snprintf(buffer, room, "%s", text);
    *size = (void *)(length && length < room ? length + 1 : length ? room : 0);
}

void jit_report(const Jit *jit, const char *error) {
    write_log(jit, INFO_LOG, INFO_LOG_SIZE, "");
    write_log(jit, ERROR_LOG, ERROR_LOG_SIZE, error);
}

/* ---- the linker ---- */

static NEED_HANDLE(need_link, Link, HANDLE_LINK, need_context(), CUDA_ERROR_INVALID_HANDLE)

/* The options are kept: their buffers are written to until the linker ends. */
static CUresult keep_options(Link *link, unsigned count, const int *options, void **values) {
    if (!count) return CUDA_SUCCESS;
    link->jit.options = malloc(count * sizeof *options);
    if (!link->jit.options) return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(link->jit.options, options, count * sizeof *options);
    link->jit.values = values;
    link->jit.count = count;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuLinkCreate_v2(unsigned count, int *options, void **values, Link **link) {
    NEED(need_context());
    NEED_VALUE(link && (!count || (options && values)));
    Link *made = calloc(1, sizeof *made);
    if (!made || keep_options(made, count, options, values) || !registry_add(made, HANDLE_LINK)) {
        if (made) free(made->jit.options);
        free(made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *link = made;
    return CUDA_SUCCESS;
}

SAME(cuLinkCreate, cuLinkCreate_v2)

enum { ANY_CAPABILITY = 9999 };

/* NVIDIA's own device runtime asks NVIDIA's driver, whatever processor it is for: ours takes its place. */
static bool is_device_runtime(const void *bytes, size_t size) {
    Image image;
    if (image_read_for(ANY_CAPABILITY, bytes, size, &image)) return false;
    bool found = image.count && strstr(image.texts[0], "__cuda_syscall_CGS_sync");
    image_end(&image);
    return found;
}

static CUresult add_container(Link *link, const void *bytes, size_t size) {
    Image image = {0};
    bool fits;
    if (is_device_runtime(bytes, size)) fits = texts_add(&link->ptx, DEVICE_RUNTIME, strlen(DEVICE_RUNTIME));
    else fits = image_read(bytes, size, &image) || texts_add_all(&link->ptx, &image); /* some bytes only look like one */
    image_end(&image);
    return fits ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult nothing_usable(const Link *link) {
    jit_report(&link->jit, "an input holds no PTX that this device can use");
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
}

/* Archives and objects hold fat binaries. */
static CUresult add_archive(Link *link, const char *bytes, size_t size) {
    size_t before = link->ptx.count;
    for (size_t at = image_container(bytes, size, 0); at < size; at = image_container(bytes, size, at + 1))
        NEED(add_container(link, bytes + at, size - at));
    return link->ptx.count > before ? CUDA_SUCCESS : nothing_usable(link);
}

static CUresult add_image(Link *link, const void *bytes, size_t size) {
    Image image;
    NEED(image_read(bytes, size, &image));
    bool empty = !image.count, fits = texts_add_all(&link->ptx, &image);
    image_end(&image);
    return empty ? nothing_usable(link) : fits ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuLinkAddData_v2(Link *link, int kind, void *data, size_t size, const char *name, unsigned count, int *options,
                                 void **values) {
    NEED(need_link(link));
    NEED_VALUE(data && size && kind >= INPUT_CUBIN && kind <= INPUT_NVVM && (!count || (options && values)));
    (void)name;
    if (kind == INPUT_LIBRARY || kind == INPUT_OBJECT) return add_archive(link, data, size);
    if (kind == INPUT_NVVM) {
        jit_report(&link->jit, "only PTX can be linked here");
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    return add_image(link, data, size);
}

SAME(cuLinkAddData, cuLinkAddData_v2)

EXPORT CUresult cuLinkAddFile_v2(Link *link, int kind, const char *path, unsigned count, int *options, void **values) {
    NEED(need_link(link));
    NEED_VALUE(path);
    char *bytes;
    size_t size;
    NEED(image_file(path, &bytes, &size));
    CUresult result = size ? cuLinkAddData_v2(link, kind, bytes, size, path, count, options, values) : CUDA_ERROR_INVALID_IMAGE;
    free(bytes);
    return result;
}

SAME(cuLinkAddFile, cuLinkAddFile_v2)

/* Loading the texts together shows whether all that they refer to is there. */
EXPORT CUresult cuLinkComplete(Link *link, void **image, size_t *size) {
    NEED(need_link(link));
    NEED_VALUE(image && link->ptx.count);
    struct ptx_module *trial = NULL;
    NEED(ptx_loaded((const char *const *)link->ptx.texts, link->ptx.sizes, link->ptx.count, &link->jit, &trial));
    ptx_module_unload(trial);
    size_t bytes;
    free(link->result);
    link->result = image_join(&link->ptx, &bytes);
    if (!link->result) return CUDA_ERROR_OUT_OF_MEMORY;
    *image = link->result;
    if (size) *size = bytes;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuLinkDestroy(Link *link) {
    NEED(need_init());
    if (!registry_remove(link, HANDLE_LINK)) return CUDA_ERROR_INVALID_HANDLE;
    texts_end(&link->ptx);
    free(link->jit.options);
    free(link->result);
    free(link);
    return CUDA_SUCCESS;
}
