/* Images of modules: PTX text, fat binaries, machine code, and what our own linker gives out. */
#ifndef CPU_DRIVER_IMAGE_H
#define CPU_DRIVER_IMAGE_H

#include "driver.h"

typedef struct {
    const char **texts; /* PTX; none when the image has none that this device can use */
    size_t *sizes, count;
    char *owned; /* what had to be unpacked */
} Image;

/* `size` is SIZE_MAX when the program does not tell; then PTX ends with a NUL and other forms say how long they are. */
CUresult image_read(const void *bytes, size_t size, Image *image);
CUresult image_read_for(unsigned capability, const void *bytes, size_t size, Image *image);
void image_end(Image *image);

/* Where the next fat binary begins at or after `from`; `size` if there is none. */
size_t image_container(const void *bytes, size_t size, size_t from);

/* Join PTX texts into one image that image_read takes apart again. The caller frees it. */
void *image_join(const char *const *texts, const size_t *sizes, size_t count, size_t *size);

/* A whole file with a NUL behind it; the caller frees it. */
CUresult image_file(const char *path, char **bytes, size_t *size);

#endif
