// Thrust and CUB: sums, scans, sorts, transformations and maxima, each against the C++ standard library.
#include <cub/cub.cuh>
#include <thrust/copy.h>
#include <thrust/device_vector.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sort.h>
#include <thrust/transform.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <vector>

static int wrong;

static void expect(bool right, const char *what) {
    if (!right) printf("wrong: %s\n", what);
    wrong += !right;
}

template <typename Call> static void with_storage(Call call) {
    size_t bytes = 0;
    void *storage = nullptr;
    call(storage, bytes);
    cudaMalloc(&storage, bytes);
    call(storage, bytes);
    cudaFree(storage);
}

int main() {
    const int n = 20000;
    std::vector<int> data(n), expected, result(n);
    unsigned state = 1;
    for (int &x : data) x = int((state = state * 1664525u + 1013904223u) >> 8) - (1 << 22);

    thrust::device_vector<int> there(data.begin(), data.end());
    expect(thrust::reduce(there.begin(), there.end()) == std::accumulate(data.begin(), data.end(), 0), "reduce");
    thrust::inclusive_scan(there.begin(), there.end(), there.begin());
    expected = data;
    std::partial_sum(expected.begin(), expected.end(), expected.begin());
    thrust::copy(there.begin(), there.end(), result.begin());
    expect(result == expected, "inclusive_scan");
    there = data;
    thrust::sort(there.begin(), there.end());
    expected = data;
    std::sort(expected.begin(), expected.end());
    thrust::copy(there.begin(), there.end(), result.begin());
    expect(result == expected, "sort");
    thrust::device_vector<double> halves(n);
    thrust::transform(there.begin(), there.end(), halves.begin(), [] __device__(int x) { return x * 0.5; });
    double sum = 0;
    for (int x : data) sum += x * 0.5;
    expect(thrust::reduce(halves.begin(), halves.end()) == sum, "transform");

    int *in, *out, most;
    cudaMalloc(&in, n * sizeof *in);
    cudaMalloc(&out, n * sizeof *out);
    cudaMemcpy(in, data.data(), n * sizeof *in, cudaMemcpyHostToDevice);
    with_storage([&](void *s, size_t &b) { cub::DeviceRadixSort::SortKeysDescending(s, b, in, out, n); });
    cudaMemcpy(result.data(), out, n * sizeof *out, cudaMemcpyDeviceToHost);
    std::reverse(expected.begin(), expected.end());
    expect(result == expected, "SortKeysDescending");
    with_storage([&](void *s, size_t &b) { cub::DeviceReduce::Max(s, b, in, out, n); });
    cudaMemcpy(&most, out, sizeof most, cudaMemcpyDeviceToHost);
    expect(most == expected[0], "Max");
    with_storage([&](void *s, size_t &b) { cub::DeviceScan::ExclusiveSum(s, b, in, out, n); });
    cudaMemcpy(result.data(), out, n * sizeof *out, cudaMemcpyDeviceToHost);
    std::exclusive_scan(data.begin(), data.end(), expected.begin(), 0);
    expect(result == expected, "ExclusiveSum");
    expect(cudaGetLastError() == cudaSuccess, "no error");
    if (!wrong) printf("right\n");
    return wrong != 0;
}
