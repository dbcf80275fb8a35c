// Sum of all values: each block leaves its part in memory, the last one to come adds the parts up.
extern "C" __global__ void last_block(const unsigned *in, unsigned *parts, unsigned *count, unsigned *out) {
    __shared__ bool last;
    unsigned part = in[blockIdx.x * blockDim.x + threadIdx.x];
    for (unsigned d = 16; d > 0; d /= 2) part += __shfl_xor_sync(~0u, part, d);
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = part;
#ifndef FAULT
        __threadfence();
#endif
        last = atomicAdd(count, 1) == gridDim.x - 1;
        __threadfence();
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        unsigned sum = 0;
        for (unsigned b = 0; b < gridDim.x; b++) sum += parts[b];
        *out = sum;
    }
}
