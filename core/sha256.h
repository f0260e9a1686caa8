/* sha256.h - SHA-256 (FIPS 180-4), to name contents: cache keys, identities of databases. */
#ifndef FF_CORE_SHA256_H
#define FF_CORE_SHA256_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { FF_SHA256_HEX_BYTES = 65 };

typedef struct {
    uint32_t state[8];
    uint64_t length; /* bytes taken in */
    unsigned char block[64];
} ff_sha256;

void ff_sha256_begin(ff_sha256 *hash);
void ff_sha256_add(ff_sha256 *hash, const void *bytes, size_t length);
/** Add a text and the NUL at its end, so that ("ab", "c") and ("a", "bc") differ. NULL counts as "". */
void ff_sha256_add_text(ff_sha256 *hash, const char *text);
/** End it: 64 hexadecimal digits and a NUL. */
void ff_sha256_end(ff_sha256 *hash, char hex[FF_SHA256_HEX_BYTES]);

#ifdef __cplusplus
}
#endif
#endif
