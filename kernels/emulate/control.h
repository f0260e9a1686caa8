/* control.h - what C code may ask of the emulator of CUDA kernels (emulate.h). */
#ifndef FF_KERNELS_EMULATE_CONTROL_H
#define FF_KERNELS_EMULATE_CONTROL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Choose the order in which the calling OS thread's next launches run their blocks and threads.
 *
 * Blocks come in random order always. Between two barriers the threads of a block run in random order for an even seed;
 * for an odd one the threads released last run first, so that one warp gets ahead of the others as far as it can: that
 * is what shows a missing barrier between reading shared memory and overwriting it. The same seed and the same launches
 * give the same orders. The seed is 0 until it is set.
 */
void ff_emulate_set_seed(uint64_t seed);

#ifdef __cplusplus
}
#endif
#endif
