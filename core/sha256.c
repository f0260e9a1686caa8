#include "core/sha256.h"

#include <string.h>

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes (FIPS 180-4, 4.2.2). */
static const uint32_t k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t turn(uint32_t x, int n) { return x >> n | x << (32 - n); }

static void take_block(uint32_t state[8], const unsigned char *block)
{
    uint32_t w[64], a[8];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
               block[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        const uint32_t s0 = turn(w[i - 15], 7) ^ turn(w[i - 15], 18) ^ w[i - 15] >> 3;
        const uint32_t s1 = turn(w[i - 2], 17) ^ turn(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    memcpy(a, state, sizeof a);
    for (int i = 0; i < 64; i++) {
        const uint32_t s1 = turn(a[4], 6) ^ turn(a[4], 11) ^ turn(a[4], 25);
        const uint32_t choice = (a[4] & a[5]) ^ (~a[4] & a[6]);
        const uint32_t t1 = a[7] + s1 + choice + k[i] + w[i];
        const uint32_t s0 = turn(a[0], 2) ^ turn(a[0], 13) ^ turn(a[0], 22);
        const uint32_t t2 = s0 + ((a[0] & a[1]) ^ (a[0] & a[2]) ^ (a[1] & a[2]));
        memmove(a + 1, a, 7 * sizeof *a);
        a[4] += t1;
        a[0] = t1 + t2;
    }
    for (int i = 0; i < 8; i++)
        state[i] += a[i];
}

void ff_sha256_begin(ff_sha256 *hash)
{
    *hash = (ff_sha256){
        .state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void ff_sha256_add(ff_sha256 *hash, const void *bytes, size_t length)
{
    const unsigned char *from = bytes;
    while (length > 0) {
        const size_t used = hash->length % 64, room = 64 - used, n = length < room ? length : room;
        memcpy(hash->block + used, from, n);
        hash->length += n;
        from += n;
        length -= n;
        if (n == room)
            take_block(hash->state, hash->block);
    }
}

void ff_sha256_add_text(ff_sha256 *hash, const char *text)
{
    if (text == NULL)
        text = "";
    ff_sha256_add(hash, text, strlen(text) + 1);
}

void ff_sha256_end(ff_sha256 *hash, char hex[FF_SHA256_HEX_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    const uint64_t bits = hash->length * 8;
    static const unsigned char end[64] = {0x80};
    ff_sha256_add(hash, end, 1 + (119 - hash->length % 64) % 64);
    unsigned char tail[8];
    for (int i = 0; i < 8; i++)
        tail[i] = (unsigned char)(bits >> (56 - 8 * i));
    ff_sha256_add(hash, tail, sizeof tail);
    for (int i = 0; i < 64; i++)
        hex[i] = digits[hash->state[i / 8] >> (28 - 4 * (i % 8)) & 15];
    hex[64] = '\0';
}
