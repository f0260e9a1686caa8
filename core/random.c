/* random.c - Philox4x32-10 and what is made of its words.
 *
 * Layout. The 128-bit counter is (counter low, counter high, stream low, stream high), the 64-bit key is the seed.
 * Element `index` of a key uses
 *     uniform          word index % 4 of block index / 4
 *     normal, below    words 2 * (index % 2) and the next one of block index / 2
 * Vectorised and CUDA versions must follow the same layout. */
#include "core/random.h"

#include <assert.h>
#include <math.h>

enum { PHILOX_ROUNDS = 10 };

/* Multipliers and key increments of Salmon et al. 2011, section 4.3 (golden ratio and sqrt(3) - 1). */
#define PHILOX_M0 UINT32_C(0xD2511F53)
#define PHILOX_M1 UINT32_C(0xCD9E8D57)
#define PHILOX_W0 UINT32_C(0x9E3779B9)
#define PHILOX_W1 UINT32_C(0xBB67AE85)

/* Bits of the operation number in a stream number; the step has the other 40. */
enum { OPERATION_BITS = 24 };

/* One-to-one on 64 bits, and 0 stays 0 (the finaliser of SplitMix64, Steele et al. 2014). */
static uint64_t mix_bits(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

/* Steps below 2^40 with operations below 2^24 are packed side by side, so their streams differ for certain; bits beyond
 * that are hashed on top, and then streams differ but for a chance of 2^-64. */
uint64_t ff_random_stream(uint64_t step, uint64_t operation)
{
    const uint64_t packed = step << OPERATION_BITS | (operation & ((UINT64_C(1) << OPERATION_BITS) - 1));
    const uint64_t step_rest = step >> (64 - OPERATION_BITS), operation_rest = operation >> OPERATION_BITS;
    return packed ^ mix_bits(operation_rest) ^ mix_bits(mix_bits(step_rest));
}

void ff_random_block(ff_random_key key, uint64_t counter, uint32_t out[4])
{
    uint32_t c0 = (uint32_t)counter, c1 = (uint32_t)(counter >> 32);
    uint32_t c2 = (uint32_t)key.stream, c3 = (uint32_t)(key.stream >> 32);
    uint32_t k0 = (uint32_t)key.seed, k1 = (uint32_t)(key.seed >> 32);
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        const uint64_t p0 = (uint64_t)PHILOX_M0 * c0, p1 = (uint64_t)PHILOX_M1 * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        k0 += PHILOX_W0;
        k1 += PHILOX_W1;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

float ff_random_uniform(ff_random_key key, uint64_t index)
{
    uint32_t words[4];
    ff_random_block(key, index / 4, words);
    return (float)(words[index % 4] >> 8) * 0x1p-24f;
}

float ff_random_normal(ff_random_key key, uint64_t index)
{
    uint32_t words[4];
    ff_random_block(key, index / 2, words);
    const uint32_t *pair = words + 2 * (index % 2);
    const double two_pi = 6.28318530717958647692;
    const double u = ((double)pair[0] + 1.0) * 0x1p-32; /* in (0, 1], so the logarithm is finite */
    const double v = (double)pair[1] * 0x1p-32;
    return (float)(sqrt(-2.0 * log(u)) * cos(two_pi * v));
}

uint64_t ff_random_below(ff_random_key key, uint64_t index, uint64_t n)
{
    assert(n > 0);
    uint32_t words[4];
    ff_random_block(key, index / 2, words);
    const uint32_t *pair = words + 2 * (index % 2);
    /* floor(x * n / 2^64) for x = pair[1] * 2^32 + pair[0], in 32-bit halves of n */
    const uint64_t n_low = (uint32_t)n, n_high = n >> 32;
    const uint64_t low = pair[0] * n_low, mid_a = pair[1] * n_low, mid_b = pair[0] * n_high;
    const uint64_t carry = ((low >> 32) + (uint32_t)mid_a + (uint32_t)mid_b) >> 32;
    return pair[1] * n_high + (mid_a >> 32) + (mid_b >> 32) + carry;
}
