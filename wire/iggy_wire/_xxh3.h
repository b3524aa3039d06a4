/* XXH3-64 with seed 0, from the xxHash header that pyarrow ships (needed when compiling only).
 *
 * x86-64 compilers build for SSE2 unless told otherwise, so the long-input loop exists once more,
 * built for AVX2 in _xxh3.c, and is taken when the machine has it. Short inputs are inlined. */
#ifndef IGGY_XXH3_H
#define IGGY_XXH3_H

#define XXH_INLINE_ALL
#include "arrow/vendored/xxhash/xxhash.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define IGGY_XXH3_AVX2 1
#define IGGY_XXH3_LONG 240 /* up to here XXH3 has scalar code for every machine */
__attribute__((visibility("hidden"))) uint64_t iggy_xxh3_avx2(const void *data, size_t length);
#endif

static int iggy_has_avx2;

static inline void iggy_xxh3_prepare(void) {
#ifdef IGGY_XXH3_AVX2
    __builtin_cpu_init();
    iggy_has_avx2 = __builtin_cpu_supports("avx2");
#endif
}

static inline uint64_t iggy_xxh3(const void *data, size_t length) {
#ifdef IGGY_XXH3_AVX2
    if (length > IGGY_XXH3_LONG && iggy_has_avx2) return iggy_xxh3_avx2(data, length);
#endif
    return XXH3_64bits(data, length);
}

#endif
