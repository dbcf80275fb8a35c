// Sum of a block's values, by halves in shared memory.
extern "C" __global__ void reduce(const float *in, float *out) {
    __shared__ float part[256];
    unsigned t = threadIdx.x;
    part[t] = in[blockIdx.x * 256 + t];
    for (unsigned half = 128; half > 0; half /= 2) {
#ifndef FAULT
        __syncthreads();
#endif
        if (t < half) part[t] += part[t + half];
    }
    if (t == 0) out[blockIdx.x] = part[0];
}
