"""F-engines of libraries: cuFFT's real transforms alone, two CuPy kernels around cuFFT, PyTorch's operations.

Task: 2^30 int8 samples of 64 inputs, 8 taps, 1024 points, to ci8 spectra [spectrum][channel][input] of 512 channels.
"""

import cupy as cp
import numpy as np
from cupy.cuda import cufft

from common import Failed, Kernel, cubins, random_bytes, timed

INPUTS, POINTS, TAPS, SAMPLES = 64, 1024, 8, 1 << 30
CHANNELS = POINTS // 2
# Weights have a sum of squares of 1, so that spectra of int8 noise need a gain to fit int8.
GAIN = 0.25
# Sums of eight taps by a thread, which keeps the last seven samples of its four points; then rounding and a transpose
# of tiles of 32 channels and all inputs.
KERNELS = r"""
extern "C" __global__ void fir(const char4 *raw, const float4 *weights, float4 *out, unsigned spectra, unsigned each) {
    const unsigned quads = POINTS / 4, quad = threadIdx.x, input = blockIdx.y, first = blockIdx.x * each;
    const char4 *in = raw + (size_t)input * (spectra + TAPS - 1) * quads + quad;
    float4 w[TAPS], x[TAPS];
    #pragma unroll
    for (int p = 0; p < TAPS; ++p) w[p] = weights[p * quads + quad];
    #pragma unroll
    for (int p = 0; p < TAPS - 1; ++p) {
        char4 c = in[(size_t)(first + p) * quads];
        x[p] = make_float4(c.x, c.y, c.z, c.w);
    }
    for (unsigned block = 0; block < each; block += TAPS) {
        #pragma unroll
        for (int step = 0; step < TAPS; ++step) {
            const unsigned m = first + block + step;
            char4 c = in[(size_t)(m + TAPS - 1) * quads];
            x[(step + TAPS - 1) % TAPS] = make_float4(c.x, c.y, c.z, c.w);
            float4 sum = make_float4(0, 0, 0, 0);
            #pragma unroll
            for (int p = 0; p < TAPS; ++p) {
                const float4 v = x[(step + p) % TAPS];
                sum.x = fmaf(w[p].x, v.x, sum.x);
                sum.y = fmaf(w[p].y, v.y, sum.y);
                sum.z = fmaf(w[p].z, v.z, sum.z);
                sum.w = fmaf(w[p].w, v.w, sum.w);
            }
            out[((size_t)input * spectra + m) * quads + quad] = sum;
        }
    }
}

extern "C" __global__ void quantise(const float2 *spectrum, char2 *out, unsigned spectra) {
    __shared__ char2 tile[32][INPUTS + 2];
    const unsigned m = blockIdx.y, k = blockIdx.x * 32;
    for (unsigned n = threadIdx.y; n < INPUTS; n += blockDim.y) {
        const float2 v = spectrum[((size_t)n * spectra + m) * (POINTS / 2 + 1) + k + threadIdx.x];
        const float re = fminf(fmaxf(rintf(v.x * GAIN), -127), 127), im = fminf(fmaxf(rintf(v.y * GAIN), -127), 127);
        tile[threadIdx.x][n] = make_char2(re, im);
    }
    __syncthreads();
    const unsigned thread = threadIdx.y * 32 + threadIdx.x;
    for (unsigned i = thread; i < 32 * INPUTS; i += 32 * blockDim.y)
        out[((size_t)m * (POINTS / 2) + k) * INPUTS + i] = tile[i / INPUTS][i % INPUTS];
}
"""


def measure(folder, rng):
    """Figures of the transform alone, and of the two F-engines."""
    for points in (1024, 65536):
        yield transform(rng, points)
    spectra = SAMPLES // INPUTS // POINTS
    raw = random_bytes(rng, (INPUTS, spectra + TAPS - 1, POINTS))
    n = np.arange(TAPS * POINTS) + 0.5
    weights = np.sin(np.pi * n / (TAPS * POINTS)) ** 2 * np.sinc((n - TAPS * POINTS / 2) / POINTS)
    weights = (weights / np.sqrt((weights**2).sum())).reshape(TAPS, POINTS)
    unit = folder / "fengine.cu"
    unit.write_text(KERNELS)
    [image] = cubins(unit, [{"POINTS": POINTS, "TAPS": TAPS, "INPUTS": INPUTS, "GAIN": f"{GAIN}f"}])
    yield with_kernels(image, raw, weights, spectra)
    yield with_torch(raw, weights, spectra)


def report(name, time, points, samples, checked):
    sizes = {"N": INPUTS, "K": points, "samples": samples}
    return {
        "case": name,
        "sizes": sizes,
        **time,
        "rate": samples / time["seconds"],
        "unit": "samples/s",
        "checked": checked,
    }


def transform(rng, points):
    """cuFFT's real transforms of float32."""
    real = rng.standard_normal(size=(SAMPLES // points, points), dtype=np.float32)
    plan = cufft.Plan1d(points, cufft.CUFFT_R2C, len(real))
    out = cp.full((len(real), points // 2 + 1), np.nan, np.complex64)

    def launch():
        plan.fft(real, out, cufft.CUFFT_FORWARD)

    launch()
    rows = [0, len(real) // 3, len(real) - 1]
    expected = np.fft.rfft(cp.asnumpy(real[rows]).astype(np.float64))
    error = float(np.sqrt((np.abs(cp.asnumpy(out[rows]) - expected) ** 2).sum() / (np.abs(expected) ** 2).sum()))
    if not error <= 1e-6:
        raise Failed(f"cuFFT: relative error {error:.1e}")
    return report("cuFFT, real", timed([launch]), points, SAMPLES, f"three transforms, relative error {error:.1e}")


def check(raw, weights, found, spectra):
    """Largest distance of some ci8 spectra [spectrum][channel][input][2] from the exact ones."""
    worst = 0.0
    for m in (0, 1, spectra // 2 + 1, spectra - 1):
        x = cp.asnumpy(raw[:, m : m + TAPS]).astype(np.float64)
        exact = np.fft.rfft((x * weights).sum(1))[:, :CHANNELS].T * GAIN
        exact = np.clip(np.stack([exact.real, exact.imag], -1), -127, 127)
        worst = max(worst, float(np.abs(cp.asnumpy(found[m]) - exact).max()))
    if not worst <= 0.51:
        raise Failed(f"spectra differ from the exact ones by {worst:.2f}")
    return f"four spectra of all inputs, within {worst:.3f} of the exact ones"


def with_kernels(image, raw, weights, spectra):
    """Filter, cuFFT, rounding and transpose: three launches."""
    fir, quantise = Kernel(image, "fir"), Kernel(image, "quantise")
    filtered = cp.empty((INPUTS * spectra, POINTS), np.float32)
    transformed = cp.empty((INPUTS * spectra, CHANNELS + 1), np.complex64)
    found = cp.full((spectra, CHANNELS, INPUTS, 2), 77, np.int8)
    plan = cufft.Plan1d(POINTS, cufft.CUFFT_R2C, INPUTS * spectra)
    each = 256
    factors = cp.asarray(weights.astype(np.float32))
    first = fir.launcher((spectra // each, INPUTS, 1), (POINTS // 4, 1, 1), raw, factors, filtered, spectra, each)
    last = quantise.launcher((CHANNELS // 32, spectra, 1), (32, 8, 1), transformed, found, spectra)

    def launch():
        first()
        plan.fft(filtered, transformed, cufft.CUFFT_FORWARD)
        last()

    launch()
    checked = check(raw, weights, found, spectra)
    return report("F-engine, kernels around cuFFT", timed([launch]), POINTS, SAMPLES, checked)


def with_torch(raw, weights, spectra):
    """PyTorch's operations one after another, an eighth of the inputs at a time for its intermediate arrays."""
    import torch

    x, parts = torch.from_dlpack(raw), 8
    factors = torch.as_tensor(weights.astype(np.float32), device="cuda")
    found = torch.full((spectra, CHANNELS, INPUTS, 2), 77, dtype=torch.int8, device="cuda")

    def launch():
        for part in range(0, INPUTS, INPUTS // parts):
            some = slice(part, part + INPUTS // parts)
            real = x[some].to(torch.float32)
            filtered = factors[0] * real[:, :spectra]
            for tap in range(1, TAPS):
                filtered.addcmul_(factors[tap], real[:, tap : tap + spectra])
            both = torch.view_as_real(torch.fft.rfft(filtered)[..., :CHANNELS])
            found[:, :, some] = (both * GAIN).round_().clamp_(-127, 127).to(torch.int8).permute(1, 2, 0, 3)

    launch()
    checked = check(raw, weights, cp.from_dlpack(found), spectra)
    return report(f"F-engine, PyTorch {torch.__version__}", timed([launch]), POINTS, SAMPLES, checked)
