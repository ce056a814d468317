/* Calls that only have another name in the driver. */
#include "runtime.h"

int forward(const char *name, Word a, Word b, Word c, Word d, Word e, Word f, Word g, Word h) {
    TRY(ready());
    return keep(DRIVER(name, a, b, c, d, e, f, g, h));
}

#include "forwards.h"

EXPORT int cudaStreamCreate(Stream **stream) {
    TRY(ready());
    return keep(DRIVER("cuStreamCreate", stream, 0));
}

EXPORT int cudaEventCreate(Event **event) {
    TRY(ready());
    return keep(DRIVER("cuEventCreate", event, 0));
}

EXPORT int cudaFreeHost(void *pointer) {
    TRY(ready());
    return pointer ? keep(DRIVER("cuMemFreeHost", pointer)) : 0;
}
