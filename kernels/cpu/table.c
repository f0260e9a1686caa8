#include "kernels/cpu/families.h"

void FF_FN(ff_fill_cpu)(ff_kernels *table)
{
    FF_FN(ff_fill_elementwise)(table);
    FF_FN(ff_fill_linear)(table);
    FF_FN(ff_fill_transition)(table);
    FF_FN(ff_fill_attention)(table);
    FF_FN(ff_fill_global_attention)(table);
    FF_FN(ff_fill_pair_bias)(table);
    FF_FN(ff_fill_triangle)(table);
    FF_FN(ff_fill_outer_product_mean)(table);
    FF_FN(ff_fill_invariant_point_attention)(table);
}
