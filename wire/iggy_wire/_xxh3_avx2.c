/* XXH3 built for AVX2; see _xxh3.h. Empty where that does not exist. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC target("avx2") /* before any header: xxHash picks its vector code by it */
#include <stddef.h>
#include <stdint.h>
#define XXH_INLINE_ALL
#include "arrow/vendored/xxhash/xxhash.h"

__attribute__((visibility("hidden"))) uint64_t iggy_xxh3_avx2(const void *data, size_t length) {
    return XXH3_64bits(data, length);
}
#else
typedef int iggy_xxh3_avx2_is_not_here; /* a C file may not be empty */
#endif
