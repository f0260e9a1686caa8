/* template_realign.h - a hit whose sequence is another version of the chain's: kalign says which residue is which. */
#ifndef FF_DATA_TEMPLATE_REALIGN_H
#define FF_DATA_TEMPLATE_REALIGN_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Align the hit's sequence with the chain's, and change the second column of `map` from residues of the one to
 * residues of the other. Entries without a partner are removed.
 *
 * @param kalign    path of the program
 * @param map       [*num_map, 2]  inout
 * @param good      out  false: kalign failed, a sequence is too short for it (6 residues), or fewer than nine tenths
 * of the
 *                  shorter sequence agree; `reason` then says which, and `map` is as it was
 * @return FF_ERR_MEM, FF_ERR_IO: temporary files
 */
ff_status ff_template_realign(ff_ctx *ctx, const char *kalign, const volatile sig_atomic_t *cancel,
                              const char *old_sequence, const char *new_sequence, int32_t (*map)[2], int64_t *num_map,
                              bool *good, char *reason, size_t reason_size);

#ifdef __cplusplus
}
#endif
#endif
