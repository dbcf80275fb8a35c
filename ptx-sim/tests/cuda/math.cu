// Arithmetic that `--use_fast_math` and directed rounding change.
extern "C" __global__ void math(const float *x, float *y, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float a = x[i], b = x[(i + 1) % n];
    float *to = y + 16 * i;
    to[0] = a / b;
    to[1] = sqrtf(fabsf(a));
    to[2] = __fmul_rz(a, b);
    to[3] = __fadd_rd(a, b);
    to[4] = __fsub_ru(a, b);
    to[5] = __fmaf_rz(a, b, a);
    to[6] = __fdiv_ru(a, b);
    to[7] = __fsqrt_rd(fabsf(a));
    to[8] = a * b + a;
    to[9] = fmaxf(a, b);
    to[10] = (float)(double)a * 3.0f;
    to[11] = rsqrtf(fabsf(a));
    to[12] = floorf(a) + truncf(b) + rintf(a);
    to[13] = (float)(int)a + __int2float_rz(123456789 + (int)i);
    to[14] = __double2float_rd((double)a * 1.0000000001);
    to[15] = a > b ? sinf(a) : expf(b) + powf(fabsf(a), b) + logf(fabsf(b));
}
