/* cuFFT: plans can be made and destroyed; planning and transforming are not here yet and say so. */
#include "common/common.h"

enum { SUCCESS = 0, INVALID_PLAN = 1, ALLOC_FAILED = 2, INVALID_VALUE = 4, SETUP_FAILED = 7 };
enum { HANDLE_PLAN, VERSION_NUMBER = 11303 };

/* A plan is a small number in cuFFT; the registry keeps it like any other handle. */
static void *as_handle(int plan) { return (void *)(intptr_t)plan; }

EXPORT int cufftCreate(int *plan) {
    static int last;
    if (fault_missing("cufft")) return SETUP_FAILED;
    if (!plan) return INVALID_VALUE;
    lock_take();
    int made = ++last;
    lock_release();
    if (!registry_add(as_handle(made), HANDLE_PLAN)) return ALLOC_FAILED;
    *plan = made;
    return SUCCESS;
}

EXPORT int cufftDestroy(int plan) {
    return registry_remove(as_handle(plan), HANDLE_PLAN) ? SUCCESS : INVALID_PLAN;
}

static bool alive(int plan) { return registry_has(as_handle(plan), HANDLE_PLAN); }

EXPORT int cufftSetStream(int plan, void *stream) {
    (void)stream;
    return alive(plan) ? SUCCESS : INVALID_PLAN;
}

EXPORT int cufftSetAutoAllocation(int plan, int automatic) {
    (void)automatic;
    return alive(plan) ? SUCCESS : INVALID_PLAN;
}

EXPORT int cufftGetVersion(int *version) {
    if (!version) return INVALID_VALUE;
    *version = VERSION_NUMBER;
    return SUCCESS;
}

EXPORT int cufftGetProperty(int property, int *value) {
    bool known = version_part(property, VERSION_NUMBER / 1000, VERSION_NUMBER / 100 % 10, VERSION_NUMBER % 100, value);
    return known ? SUCCESS : INVALID_VALUE;
}
