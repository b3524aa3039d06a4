/* The XXH3 loop for long inputs, built for AVX2; see _xxh3.h. */
#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC target("avx2") /* before the header, which chooses its vector code by __AVX2__ */
#define XXH_INLINE_ALL
#include "arrow/vendored/xxhash/xxhash.h"

__attribute__((visibility("hidden"))) uint64_t iggy_xxh3_avx2(const void *data, size_t length) {
    return XXH3_64bits(data, length);
}
#endif
