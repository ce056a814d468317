/* Launching kernels: what a launch may ask for, its arguments, and its run. */
#include "module.h"
#include "queue.h"

#include <stdlib.h>
#include <string.h>

enum { /* CUlaunchAttributeID */
    IGNORE = 0, COOPERATIVE = 2, SYNCHRONIZATION_POLICY = 3, CLUSTER_DIMENSION = 4, CLUSTER_SCHEDULING = 5, PROGRAMMATIC_STREAM = 6,
    PROGRAMMATIC_EVENT = 7, PRIORITY = 8, SYNC_DOMAIN_MAP = 9, SYNC_DOMAIN = 10, PREFERRED_CLUSTER = 11, COMPLETION_EVENT = 12,
    CARVEOUT_WISH = 14,
};

/* ---- arguments ---- */

size_t packed_size(Function *function, size_t *count) {
    size_t offset, size, end = 0;
    for (*count = 0; ptx_parameter(function->ptx, *count, &offset, &size); ++*count)
        if (offset + size > end) end = offset + size;
    return end;
}

/* The `extra` list: CU_LAUNCH_PARAM_BUFFER_POINTER 1, its size 2, end 0. */
static bool read_extra(void **extra, const char **buffer, size_t *size) {
    *buffer = NULL;
    *size = 0;
    for (; *extra; extra += 2) {
        if (*extra == (void *)1) *buffer = extra[1];
        else if (*extra == (void *)2) *size = extra[1] ? *(const size_t *)extra[1] : 0;
        else return false;
    }
    return true;
}

static CUresult fill_arguments(Launch *launch, const KernelParams *params, size_t count) {
    const char *buffer = NULL;
    size_t given = 0, offset, size;
    if (params->extra) NEED_VALUE(!params->arguments && read_extra(params->extra, &buffer, &given));
    NEED_VALUE(!count || buffer || params->arguments);
    for (size_t i = 0; i < count; i++) {
        ptx_parameter(launch->function->ptx, i, &offset, &size);
        launch->pointers[i] = (char *)launch->arguments + offset;
        if (buffer) NEED_VALUE(offset + size <= given);
        else NEED_VALUE(params->arguments[i]);
        memcpy(launch->pointers[i], buffer ? buffer + offset : (const char *)params->arguments[i], size);
    }
    return CUDA_SUCCESS;
}

CUresult launch_make(Launch *launch, const KernelParams *params) {
    Function *function = params->function ? params->function : params->kernel;
    NEED(need_function(function));
    size_t count;
    *launch = (Launch){.function = function, .shared = params->shared};
    memcpy(launch->grid, params->grid, sizeof launch->grid);
    memcpy(launch->block, params->block, sizeof launch->block);
    memcpy(launch->cluster, function->cluster, sizeof launch->cluster);
    launch->size = packed_size(function, &count);
    launch->arguments = calloc(1, launch->size + 1);
    launch->pointers = calloc(count + 1, sizeof *launch->pointers);
    CUresult result = launch->arguments && launch->pointers ? fill_arguments(launch, params, count) : CUDA_ERROR_OUT_OF_MEMORY;
    if (result) {
        free(launch->arguments);
        free(launch->pointers);
    }
    return result;
}

/* ---- checks ---- */

static CUresult check_cluster(const Launch *launch) {
    for (int i = 0; i < 3; i++) {
        if (launch->cluster[i] > 1) return CUDA_ERROR_INVALID_CLUSTER_SIZE; /* a cluster has one block here */
    }
    return CUDA_SUCCESS;
}

static CUresult check_cooperative(const Launch *launch, unsigned threads) {
    int blocks;
    NEED(blocks_per_processor(launch->function, threads, launch->shared, &blocks));
    uint64_t grid = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
    return grid <= (uint64_t)blocks * (uint64_t)device_number(16) ? CUDA_SUCCESS : CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
}

/* What cannot run is refused here, not found out by the queue: a refusal leaves the context as it was. */
static CUresult check_code(Function *function) {
    struct ptx_error error = {0};
    enum ptx_result result = ptx_function_check(function->ptx, &error);
    if (result) report_fault(&error);
    return result_of(result);
}

CUresult launch_check(const Launch *launch) {
    uint64_t threads = 1;
    NEED(check_code(launch->function));
    for (int i = 0; i < 3; i++) {
        NEED_VALUE(launch->grid[i] && launch->grid[i] <= (unsigned)device_number(5 + i));
        NEED_VALUE(launch->block[i] && launch->block[i] <= (unsigned)device_number(2 + i));
        threads *= launch->block[i];
    }
    NEED_VALUE(threads <= (unsigned)device_number(1));
    if (threads > function_attributes(launch->function)->max_threads) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    NEED_VALUE(launch->shared <= function_dynamic_most(launch->function));
    NEED(check_cluster(launch));
    return launch->cooperative ? check_cooperative(launch, (unsigned)threads) : CUDA_SUCCESS;
}

CUresult launch_run(const Launch *launch) {
    struct ptx_launch wish = {.shared_bytes = launch->shared, .arguments = launch->pointers, .cooperative = launch->cooperative};
    struct ptx_error error = {0};
    memcpy(wish.grid, launch->grid, sizeof wish.grid);
    memcpy(wish.block, launch->block, sizeof wish.block);
    memcpy(wish.cluster, launch->cluster, sizeof wish.cluster);
    enum ptx_result result = ptx_launch(launch->function->ptx, &wish, &error);
    if (result) report_fault(&error);
    return result_of(result);
}

/* ---- the calls ---- */

static CUresult submit(const KernelParams *params, Stream *stream, const LaunchAttribute *attributes, unsigned count) {
    NEED(need_stream(&stream));
    Task task = {.kind = TASK_KERNEL};
    NEED(launch_make(&task.launch, params));
    CUresult result = launch_attributes(&task.launch, attributes, count);
    if (!result) result = launch_check(&task.launch);
    if (!result) return stream_submit(stream, &task);
    task_end(&task);
    return result;
}

CUresult launch_attributes(Launch *launch, const LaunchAttribute *attributes, unsigned count) {
    NEED_VALUE(!count || attributes);
    for (unsigned i = 0; i < count; i++) {
        const LaunchAttribute *wish = attributes + i;
        switch (wish->id) {
        case COOPERATIVE: launch->cooperative = wish->value.cooperative != 0; break;
        case CLUSTER_DIMENSION: memcpy(launch->cluster, wish->value.cluster, sizeof launch->cluster); break;
        case PRIORITY: launch->priority = wish->value.number; break;
        /* Wishes about speed, and an order that we keep more strictly than asked for: */
        case IGNORE: case SYNCHRONIZATION_POLICY: case CLUSTER_SCHEDULING: case PROGRAMMATIC_STREAM: case PREFERRED_CLUSTER:
        case SYNC_DOMAIN_MAP: case SYNC_DOMAIN: case CARVEOUT_WISH: break;
        case PROGRAMMATIC_EVENT: case COMPLETION_EVENT: return CUDA_ERROR_NOT_SUPPORTED;
        default: return wish->id < 0 || wish->id > 16 ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED;
        }
    }
    return CUDA_SUCCESS;
}

EXPORT CUresult cuLaunchKernel(Function *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                               unsigned shared, Stream *stream, void **arguments, void **extra) {
    KernelParams params = {function, {gx, gy, gz}, {bx, by, bz}, shared, arguments, extra, NULL, NULL};
    return submit(&params, stream, NULL, 0);
}

EXPORT CUresult cuLaunchCooperativeKernel(Function *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                          unsigned bz, unsigned shared, Stream *stream, void **arguments) {
    KernelParams params = {function, {gx, gy, gz}, {bx, by, bz}, shared, arguments, NULL, NULL, NULL};
    LaunchAttribute together = {.id = COOPERATIVE, .value.cooperative = 1};
    return submit(&params, stream, &together, 1);
}

EXPORT CUresult cuLaunchKernelEx(const LaunchConfig *config, Function *function, void **arguments, void **extra) {
    NEED_VALUE(config);
    KernelParams params = {.function = function, .shared = config->shared, .arguments = arguments, .extra = extra};
    memcpy(params.grid, config->grid, sizeof params.grid);
    memcpy(params.block, config->block, sizeof params.block);
    return submit(&params, config->stream, config->attributes, config->count);
}
