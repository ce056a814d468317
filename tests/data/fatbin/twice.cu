__global__ void twice(float *p) { p[threadIdx.x] *= 2; }
__global__ void plus(float *p) { p[threadIdx.x] += 1; }
