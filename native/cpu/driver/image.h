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

typedef struct { /* copies of PTX texts, for a linker */
    char **texts;
    size_t *sizes, count;
} Texts;

bool texts_add(Texts *list, const char *text, size_t size);
bool texts_add_all(Texts *list, const Image *image);
void texts_end(Texts *list);

/* Join PTX texts into one image that image_read takes apart again. The caller frees it. */
void *image_join(const Texts *list, size_t *size);

/* A whole file with a NUL behind it; the caller frees it. */
CUresult image_file(const char *path, char **bytes, size_t *size);

#endif
