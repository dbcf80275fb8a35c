/* Makes visibilities and spectra of a recording, which is read once, by a plan, and compares with plain loops.
 *
 *     cc observe.c $(pkg-config --cflags --libs corrust) && ./a.out [DEVICE]
 *
 * Files are written to the working folder.
 */
#include "check.h"

enum { INPUTS = 3, CHANNELS = 2, TIMES = 50, DUMP = 20, DUMPS = 3, BASELINES = INPUTS * (INPUTS + 1) / 2 };

static int8_t samples[TIMES][CHANNELS][INPUTS][2];

static FILE *open_file(const char *path, const char *mode) {
    FILE *file = fopen(path, mode);
    if (file == NULL) {
        perror(path);
        exit(1);
    }
    return file;
}

/* A NumPy file: a magic number, the length of the header, the header, the samples. */
static void write_samples(const char *path) {
    char header[118];
    memset(header, ' ', sizeof header);
    int length = snprintf(header, sizeof header,
                          "{'descr': '|i1', 'fortran_order': False, 'shape': (%d, %d, %d, 2), }",
                          TIMES, CHANNELS, INPUTS);
    header[length] = ' ';
    header[sizeof header - 1] = '\n';
    FILE *file = open_file(path, "wb");
    fwrite("\x93NUMPY\x01\0\x76\0", 1, 10, file);
    fwrite(header, 1, sizeof header, file);
    fwrite(samples, 1, sizeof samples, file);
    fclose(file);
}

/* The numbers of a NumPy file of int64, which has as many. */
static int64_t *read_numbers(const char *path, size_t count) {
    FILE *file = open_file(path, "rb");
    unsigned char start[10];
    same(path, 0, (long long)fread(start, 1, sizeof start, file), sizeof start);
    fseek(file, start[8] + 256 * start[9], SEEK_CUR);
    int64_t *numbers = malloc((count + 1) * sizeof *numbers);
    same("numbers of a file", 0, (long long)fread(numbers, sizeof *numbers, count + 1, file), (long long)count);
    fclose(file);
    return numbers;
}

static void say(const char *sentence, void *context) {
    printf("%s\n", sentence);
    ++*(int *)context;
}

int main(int argc, char **argv) {
    fill(samples, sizeof samples, 7);
    write_samples("samples.npy");
    char plan[512];
    snprintf(plan, sizeof plan,
             "[input]\n"
             "files = [\"samples.npy\"]\n"
             "device = \"%s\"\n"
             "[[visibilities]]\n"
             "output = \"visibilities.npy\"\n"
             "integrate = %d\n"
             "keep-partial = true\n"
             "[[spectra]]\n"
             "output = \"spectra.npy\"\n"
             "integrate = %d\n"
             "keep-partial = true\n",
             argc > 1 ? argv[1] : "auto", DUMP, DUMP);
    int sentences = 0;
    CHECK(corrust_observe(plan, say, &sentences));
    same("sentences on two products and all", 0, sentences, 3);

    int64_t *visibilities = read_numbers("visibilities.npy", DUMPS * CHANNELS * BASELINES * 2);
    int64_t *spectra = read_numbers("spectra.npy", DUMPS * CHANNELS * INPUTS);
    size_t at = 0, cell = 0;
    for (size_t dump = 0; dump < DUMPS; dump++)
        for (size_t c = 0; c < CHANNELS; c++)
            for (size_t i = 0; i < INPUTS; i++)
                for (size_t j = 0; j <= i; j++) {
                    long long re = 0, im = 0;
                    for (size_t t = DUMP * dump; t < DUMP * (dump + 1) && t < TIMES; t++) {
                        const int8_t *x = samples[t][c][i], *y = samples[t][c][j];
                        re += x[0] * y[0] + x[1] * y[1];
                        im += x[1] * y[0] - x[0] * y[1];
                    }
                    same("visibility", at, visibilities[at], re);
                    same("visibility", at + 1, visibilities[at + 1], im);
                    at += 2;
                    if (i == j) {
                        same("spectrum", cell, spectra[cell], re);
                        cell++;
                    }
                }
    printf("%zu visibilities and %zu powers are right\n", at / 2, cell);
    free(visibilities);
    free(spectra);
    return 0;
}
