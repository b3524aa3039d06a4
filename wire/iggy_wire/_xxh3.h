/* XXH3-64 with seed 0, from the xxHash header that pyarrow ships (needed when compiling only).
 *
 * x86-64 compilers build for SSE2 unless told otherwise. So the code for long inputs exists twice
 * more, built for AVX2 and AVX-512 in files of their own, and the machine's best one is taken:
 * 1 MiB in frames of 1,040 bytes took 84, 56 and 37 microseconds. Short inputs are inlined. */
#ifndef IGGY_XXH3_H
#define IGGY_XXH3_H

#define XXH_INLINE_ALL
#include "arrow/vendored/xxhash/xxhash.h"

#define IGGY_XXH3_LONG 240 /* up to here XXH3 is scalar code, the same on every machine */

typedef uint64_t (*iggy_xxh3_function)(const void *data, size_t length);

static uint64_t iggy_xxh3_baseline(const void *data, size_t length) {
    return XXH3_64bits(data, length);
}

static iggy_xxh3_function iggy_xxh3_long = iggy_xxh3_baseline;

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
__attribute__((visibility("hidden"))) uint64_t iggy_xxh3_avx2(const void *data, size_t length);
__attribute__((visibility("hidden"))) uint64_t iggy_xxh3_avx512(const void *data, size_t length);
#endif

/* Take the best code up to a level: 0 baseline, 1 AVX2, 2 AVX-512. Answers the level taken. */
static inline int iggy_xxh3_prepare(int level_max) {
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
    __builtin_cpu_init();
    if (level_max >= 2 && __builtin_cpu_supports("avx512f")) {
        iggy_xxh3_long = iggy_xxh3_avx512;
        return 2;
    }
    if (level_max >= 1 && __builtin_cpu_supports("avx2")) {
        iggy_xxh3_long = iggy_xxh3_avx2;
        return 1;
    }
#endif
    iggy_xxh3_long = iggy_xxh3_baseline;
    return 0;
}

static inline uint64_t iggy_xxh3(const void *data, size_t length) {
    return length > IGGY_XXH3_LONG ? iggy_xxh3_long(data, length) : XXH3_64bits(data, length);
}

#endif
