/* evoformer.h - the trunk as programs use it: configurations and presets, parameters by AlphaFold's names, blocks, stacks
 * and the whole. Single modules are in the headers below. */
#ifndef FF_EVOFORMER_EVOFORMER_H
#define FF_EVOFORMER_EVOFORMER_H

#include "evoformer/attention.h"
#include "evoformer/block.h"
#include "evoformer/embedders.h"
#include "evoformer/embeddings_and_evoformer.h"
#include "evoformer/msa_attention.h"
#include "evoformer/outer_product_mean.h"
#include "evoformer/parameters.h"
#include "evoformer/primitives.h"
#include "evoformer/template.h"
#include "evoformer/transition.h"
#include "evoformer/triangle_attention.h"
#include "evoformer/triangle_multiplication.h"

#endif
