/* random.h - counter-based random numbers: a pure function of (seed, stream, element), so a dropout mask is the same
 * whatever the number of ranks or threads, the chunk size or the recomputation.
 *
 * Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011). */
#ifndef FF_CORE_RANDOM_H
#define FF_CORE_RANDOM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The key of one random operation. */
typedef struct {
    uint64_t seed;   /* of the run */
    uint64_t stream; /* which draw: made by ff_random_stream from (step, operation) */
} ff_random_key;

/** Mix (step, operation) into one stream number; different pairs give different streams. */
uint64_t ff_random_stream(uint64_t step, uint64_t operation);

/** Four 32-bit numbers at `counter` (64-bit block index) of a key. */
void ff_random_block(ff_random_key key, uint64_t counter, uint32_t out[4]);

/** Uniform in [0, 1), 24 bits, for element `index`. */
float ff_random_uniform(ff_random_key key, uint64_t index);

/** Standard normal for element `index` (Box-Muller on the element's own pair of uniforms). */
float ff_random_normal(ff_random_key key, uint64_t index);

/** Integer in [0, n), without modulo bias worth mentioning (64-bit multiply-shift); n > 0. */
uint64_t ff_random_below(ff_random_key key, uint64_t index, uint64_t n);

#ifdef __cplusplus
}
#endif
#endif
