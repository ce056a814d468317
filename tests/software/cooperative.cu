// A grid that waits for itself, in a managed array: each cell takes its right neighbour's value plus one.
#include <cooperative_groups.h>
#include <cstdio>

__global__ void shift(int *cells, int n, int rounds) {
    auto grid = cooperative_groups::this_grid();
    int i = grid.thread_rank();
    for (int r = 0; r < rounds; r++) {
        int value = cells[(r % 2) * n + (i + 1) % n] + 1;
        cells[((r + 1) % 2) * n + i] = value;
        grid.sync();
    }
}

int main() {
    int n = 256, rounds = 11, *cells, wrong = 0;
    cudaMallocManaged(&cells, 2 * n * sizeof *cells);
    for (int i = 0; i < n; i++) cells[i] = i;
    void *arguments[] = {&cells, &n, &rounds};
    cudaError_t error = cudaLaunchCooperativeKernel((void *)shift, dim3(4), dim3(64), arguments);
    if (!error) error = cudaDeviceSynchronize();
    for (int i = 0; i < n; i++) wrong += cells[(rounds % 2) * n + i] != (i + rounds) % n + rounds;
    printf("%s\n", error ? cudaGetErrorString(error) : wrong ? "wrong" : "right");
    return error || wrong;
}
