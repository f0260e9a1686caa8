/* openfold_names.h - the names of OpenFold's parameters for AlphaFold's, and weights read from OpenFold's .pt files.
 *
 * OpenFold keeps a linear layer's weights as [output, input] with heads folded into either, and each block of a stack
 * in tensors of its own: "evoformer.blocks.7.msa_att_row.mha.linear_q.weight" [256, 256] is block 7 of AlphaFold's
 * "evoformer/evoformer_iteration/msa_row_attention_with_pair_bias/attention/query_w" [48, 256, 8, 32]. Every
 * two-dimensional tensor is the transpose of AlphaFold's array with some first axes joined and the rest joined; all
 * others are the same numbers in the same order. In the incoming triangle multiplication, a and b are AlphaFold's right
 * and left.
 *
 * Names changed over OpenFold's releases ("core.", "pair_stack.", "template_embedder.", ...); they are brought to one
 * form first. Source: openfold/utils/import_weights.py of releases 1 and 2. */
#ifndef FF_MODEL_OPENFOLD_NAMES_H
#define FF_MODEL_OPENFOLD_NAMES_H

#include "core/context.h"
#include "model/weights.h"
#include "tensor/parameters.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { FF_OPENFOLD_NAME_BYTES = 256 };

/**
 * The name in OpenFold, in the one form, of a parameter (model/weights.h, name in memory).
 *
 * @param name   out
 * @param block  which block of a stack
 * @return false when OpenFold has no such parameter. `stacked` says whether `block` was used.
 */
bool ff_openfold_name(const char *parameter, int64_t block, char name[FF_OPENFOLD_NAME_BYTES], bool *stacked);

/** Bring a name of any release to the one form: without "module.", "model.", "core.", "pair_stack." and so on. */
void ff_openfold_normalise(const char *stored, char name[FF_OPENFOLD_NAME_BYTES]);

/**
 * Fill every declared and allocated array from a .pt. Looked for, in this order: the averaged weights ("ema" /
 * "params"), "state_dict", "module", the file itself.
 * @return as ff_weights_read.
 */
ff_status ff_openfold_read(ff_ctx *ctx, ff_parameters *parameters, const char *path);
/** Compare a .pt with declared arrays, without reading numbers. */
ff_status ff_openfold_match(ff_ctx *ctx, const ff_parameters *parameters, const char *path, ff_weights_match *match);

#ifdef __cplusplus
}
#endif
#endif
