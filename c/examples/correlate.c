/* Correlates ci8 samples in host and device memory, in three orders, and compares with plain loops.
 *
 *     cc correlate.c $(pkg-config --cflags --libs corrust) && ./a.out [DEVICE]
 */
#include "check.h"

enum { INPUTS = 5, CHANNELS = 3, TIMES = 48, BASELINES = INPUTS * (INPUTS + 1) / 2, BLOCK = 16 };

typedef struct { int8_t re, im; } sample;
typedef struct { int64_t re, im; } sum;

static sample tcn[TIMES][CHANNELS][INPUTS];
static sample tcc[CHANNELS][TIMES / BLOCK][INPUTS][BLOCK];
static sum expected[CHANNELS][BASELINES];
static uint64_t expected_valid[CHANNELS][BASELINES];

/* Samples of input 1 are missing from time 7 to 19. */
static const corrust_missing lost = {.times_begin = 7, .times_end = 20, .inputs_begin = 1, .inputs_end = 2};

static int is_lost(size_t t, size_t i) {
    return t >= lost.times_begin && t < lost.times_end && i == lost.inputs_begin;
}

static void by_loops(void) {
    for (size_t t = 0; t < TIMES; t++)
        for (size_t c = 0; c < CHANNELS; c++)
            for (size_t i = 0; i < INPUTS; i++)
                for (size_t j = 0; j <= i; j++) {
                    if (is_lost(t, i) || is_lost(t, j)) continue;
                    sample x = tcn[t][c][i], y = tcn[t][c][j];
                    size_t b = i * (i + 1) / 2 + j;
                    expected[c][b].re += x.re * y.re + x.im * y.im;
                    expected[c][b].im += x.im * y.re - x.re * y.im;
                    expected_valid[c][b]++;
                }
}

static void compare(const char *what, const sum *found) {
    const sum *right = &expected[0][0];
    for (size_t k = 0; k < CHANNELS * BASELINES; k++) {
        same(what, k, found[k].re, right[k].re);
        same(what, k, found[k].im, right[k].im);
    }
    printf("%s: %d sums are right\n", what, CHANNELS * BASELINES);
}

static corrust_correlator *plan(const char *layout, const char *device) {
    corrust_correlator_config config = {.size = sizeof config, .inputs = INPUTS, .channels = CHANNELS};
    config.encoding = "ci8";
    config.layout = layout;
    config.device = device;
    corrust_correlator *correlator;
    CHECK(corrust_correlator_new(&config, &correlator));
    return correlator;
}

/* Samples in host memory in one order. */
static void on_host(const char *layout, const void *data, const char *device) {
    corrust_correlator *correlator = plan(layout, device);
    corrust_samples samples = {.size = sizeof samples, .data = data, .bytes = sizeof tcn};
    samples.missing = &lost;
    samples.missing_count = 1;
    CHECK(corrust_correlator_accumulate(correlator, &samples));

    sum sums[CHANNELS][BASELINES];
    uint64_t times, valid[CHANNELS][BASELINES];
    corrust_room room = {.data = sums, .bytes = sizeof sums};
    CHECK(corrust_correlator_dump(correlator, &room, &times, 1, &valid[0][0], CHANNELS * BASELINES));
    compare(layout, &sums[0][0]);
    same("times", 0, (long long)times, TIMES);
    for (size_t k = 0; k < CHANNELS * BASELINES; k++)
        same("valid", k, (long long)(&valid[0][0])[k], (long long)(&expected_valid[0][0])[k]);
    corrust_correlator_free(correlator);
}

/* Every other time of a larger array, in two calls. */
static void with_strides(const char *device) {
    static sample apart[CHANNELS][INPUTS][TIMES][2];
    for (size_t t = 0; t < TIMES; t++)
        for (size_t c = 0; c < CHANNELS; c++)
            for (size_t i = 0; i < INPUTS; i++)
                apart[c][i][t][0] = is_lost(t, i) ? (sample){0, 0} : tcn[t][c][i];
    corrust_correlator *correlator = plan("cnt", device);
    for (size_t first = 0; first < TIMES; first += 24) {
        const sample *begin = &apart[0][0][first][0];
        corrust_samples samples = {.size = sizeof samples, .data = begin, .times = 24};
        samples.bytes = sizeof apart - first * sizeof apart[0][0][0];
        samples.channel_stride = sizeof apart[0];
        samples.input_stride = sizeof apart[0][0];
        samples.time_stride = sizeof apart[0][0][0];
        CHECK(corrust_correlator_accumulate(correlator, &samples));
    }
    sum sums[CHANNELS][BASELINES];
    corrust_room room = {.data = sums, .bytes = sizeof sums};
    CHECK(corrust_correlator_dump(correlator, &room, NULL, 0, NULL, 0));
    compare("cnt, with strides", &sums[0][0]);
    corrust_correlator_free(correlator);
}

/* Input 1 comes a sample early: shifted by -1, all others are delayed by 1. */
static void with_shifts(const char *device) {
    corrust_correlator_config config = {.size = sizeof config, .inputs = INPUTS, .channels = CHANNELS, .device = device};
    int64_t shifts[INPUTS] = {0};
    shifts[1] = -1;
    config.shifts = shifts;
    config.shift_count = INPUTS;
    corrust_correlator *correlator;
    CHECK(corrust_correlator_new(&config, &correlator));
    corrust_samples samples = {.size = sizeof samples, .data = tcn, .bytes = sizeof tcn};
    CHECK(corrust_correlator_accumulate(correlator, &samples));
    static sum sums[CHANNELS][BASELINES];
    corrust_room room = {.data = sums, .bytes = sizeof sums};
    CHECK(corrust_correlator_dump(correlator, &room, NULL, 0, NULL, 0));
    for (size_t c = 0; c < CHANNELS; c++) {
        int64_t re = 0, im = 0;
        for (size_t t = 1; t < TIMES; t++) {
            sample x = tcn[t][c][1], y = tcn[t - 1][c][0];
            re += x.re * y.re + x.im * y.im;
            im += x.im * y.re - x.re * y.im;
        }
        same("real part with shifts", c, sums[c][1].re, re);
        same("imaginary part with shifts", c, sums[c][1].im, im);
    }
    corrust_correlator_free(correlator);
    printf("tcn, with shifts: %d sums are right\n", CHANNELS);
}

/* Samples and sums in the device's memory. With CUDA, `data` may be any address from cudaMalloc, `stream` any stream. */
static void on_device(const char *layout, const void *data, const char *device) {
    corrust_correlator *correlator = plan(layout, device);
    size_t bytes = corrust_correlator_visibility_bytes(correlator);
    corrust_buffer *from, *to;
    CHECK(corrust_buffer_new(device, sizeof tcn, &from));
    CHECK(corrust_buffer_new(device, bytes, &to));
    CHECK(corrust_buffer_upload(from, 0, data, sizeof tcn));

    corrust_samples samples = {.size = sizeof samples, .bytes = sizeof tcn, .on_device = true, .stream = NULL};
    samples.data = corrust_buffer_data(from);
    samples.missing = &lost;
    samples.missing_count = 1;
    /* Twice, of which the first is forgotten. */
    CHECK(corrust_correlator_accumulate(correlator, &samples));
    CHECK(corrust_correlator_reset(correlator));
    CHECK(corrust_correlator_accumulate(correlator, &samples));
    corrust_room room = {.data = corrust_buffer_data(to), .bytes = bytes, .on_device = true, .stream = NULL};
    CHECK(corrust_correlator_dump(correlator, &room, NULL, 0, NULL, 0));

    sum sums[CHANNELS][BASELINES];
    CHECK(corrust_buffer_download(to, 0, sums, sizeof sums));
    char what[64];
    snprintf(what, sizeof what, "%s, on the device", layout);
    compare(what, &sums[0][0]);
    corrust_correlator_free(correlator);
    corrust_buffer_free(from);
    corrust_buffer_free(to);
}

int main(int count, char **arguments) {
    const char *device = count > 1 ? arguments[1] : "auto";
    fill(tcn, sizeof tcn, 1);
    tcn[0][0][0] = tcn[0][0][1] = (sample){-128, -128};
    by_loops();
    static sample cnt[CHANNELS][INPUTS][TIMES];
    for (size_t t = 0; t < TIMES; t++)
        for (size_t c = 0; c < CHANNELS; c++)
            for (size_t i = 0; i < INPUTS; i++) {
                cnt[c][i][t] = tcn[t][c][i];
                tcc[c][t / BLOCK][i][t % BLOCK] = tcn[t][c][i];
            }

    corrust_correlator *correlator = plan("tcn", device);
    printf("corrust %s on %s\n", corrust_version(), corrust_correlator_device(correlator));
    corrust_correlator_free(correlator);
    on_host("tcn", tcn, device);
    on_host("cnt", cnt, device);
    on_host("tcc", tcc, device);
    with_strides(device);
    with_shifts(device);
    if (strcmp(device, "cpu") != 0 && strcmp(device, "auto") != 0) {
        on_device("tcn", tcn, device);
        on_device("cnt", cnt, device);
        on_device("tcc", tcc, device);
    }
    return 0;
}
