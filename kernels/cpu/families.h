/* families.h - each kernel family of kernels/cpu/ fills its entries of the table; one copy per instruction set and
 * operand type. A new family: write kernels/cpu/NAME.c with static functions and one fill function, declare it here and
 * call it in table.c. */
#ifndef FF_KERNELS_CPU_FAMILIES_H
#define FF_KERNELS_CPU_FAMILIES_H

#include "kernels/cpu/mm.h"
#include "kernels/kernels.h"

void FF_FN(ff_fill_elementwise)(ff_kernels *table);          /* layer_norm, softmax, gates, dropout, copies */
void FF_FN(ff_fill_linear)(ff_kernels *table);               /* linear */
void FF_FN(ff_fill_transition)(ff_kernels *table);           /* transition */
void FF_FN(ff_fill_attention)(ff_kernels *table);            /* attention_core, gated_attention */
void FF_FN(ff_fill_global_attention)(ff_kernels *table);     /* global_attention, pointwise_attention */
void FF_FN(ff_fill_pair_bias)(ff_kernels *table);            /* pair_bias */
void FF_FN(ff_fill_triangle)(ff_kernels *table);             /* triangle_multiplication_* */
void FF_FN(ff_fill_outer_product_mean)(ff_kernels *table);   /* outer_product_mean_* */
void FF_FN(ff_fill_invariant_point_attention)(ff_kernels *table); /* invariant_point_attention */

/** Fill every CPU entry. */
void FF_FN(ff_fill_cpu)(ff_kernels *table);

#endif
