/* emulated.cpp - the table of the emulated backend: the CUDA sources, compiled for the CPU (emulate/emulate.h).
 *
 * Entries without a CUDA source yet are NULL; callers take NULL as unsupported. */
#include "kernels/kernels.h"

extern "C" {

void ff_emulated_fill_layer_norm(ff_kernels *table);
void ff_emulated_fill_softmax(ff_kernels *table);
void ff_emulated_fill_linear(ff_kernels *table);
void ff_emulated_fill_elementwise(ff_kernels *table);
void ff_emulated_fill_transition(ff_kernels *table);
void ff_emulated_fill_pair_bias(ff_kernels *table);
void ff_emulated_fill_invariant_point_attention(ff_kernels *table);
void ff_emulated_fill_pointwise_attention(ff_kernels *table);
void ff_emulated_fill_global_attention(ff_kernels *table);
void ff_emulated_fill_outer_product_mean(ff_kernels *table);
void ff_emulated_fill_triangle(ff_kernels *table);
void ff_emulated_fill_gated_attention(ff_kernels *table); /* and attention_core */

const ff_kernels *ff_kernels_emulated(ff_dtype dtype);
}

static ff_kernels make_table(ff_dtype dtype, const ff_kernels *narrow)
{
    ff_kernels table = {};
    table.name = "emulated";
    table.backend = FF_BACKEND_EMULATED;
    table.isa = FF_ISA_NONE;
    table.dtype = dtype;
    table.narrow = narrow;
    table.operand_bytes = dtype == FF_DTYPE_BF16 ? 2 : 4;
    ff_emulated_fill_layer_norm(&table);
    ff_emulated_fill_softmax(&table);
    ff_emulated_fill_linear(&table);
    ff_emulated_fill_elementwise(&table);
    ff_emulated_fill_transition(&table);
    ff_emulated_fill_pair_bias(&table);
    ff_emulated_fill_invariant_point_attention(&table);
    ff_emulated_fill_pointwise_attention(&table);
    ff_emulated_fill_global_attention(&table);
    ff_emulated_fill_outer_product_mean(&table);
    ff_emulated_fill_triangle(&table);
    ff_emulated_fill_gated_attention(&table);
    return table;
}

const ff_kernels *ff_kernels_emulated(ff_dtype dtype)
{
    static const ff_kernels float32 = make_table(FF_DTYPE_F32, nullptr),
                            bf16 = make_table(FF_DTYPE_BF16, &float32);
    return dtype == FF_DTYPE_BF16 ? &bf16 : &float32;
}
