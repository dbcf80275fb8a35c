/* What the examples share: calls that must succeed, small random numbers, comparisons. */
#ifndef CHECK_H
#define CHECK_H

#include <corrust.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends the program unless a call succeeds; where there is no such device, with exit code 77. */
static inline void check(corrust_status status, const char *call) {
    if (status == CORRUST_STATUS_OK) return;
    fprintf(stderr, "%s: %s\n", call, corrust_last_error());
    exit(status == CORRUST_STATUS_DEVICE ? 77 : 1);
}
#define CHECK(call) check((call), #call)

/* Ends the program unless numbers are what plain loops give. */
static inline void same(const char *what, size_t index, long long found, long long expected) {
    if (found == expected) return;
    fprintf(stderr, "%s, number %zu: found %lld, expected %lld\n", what, index, found, expected);
    exit(1);
}

/* Bytes of any value. */
static inline void fill(void *data, size_t bytes, unsigned seed) {
    unsigned char *byte = (unsigned char *)data;
    for (size_t i = 0; i < bytes; i++) {
        seed = seed * 1664525u + 1013904223u;
        byte[i] = (unsigned char)(seed >> 24);
    }
}

#endif
