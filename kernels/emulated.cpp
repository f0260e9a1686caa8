/* emulated.cpp - the table of the emulated backend: the CUDA sources, compiled for the CPU (emulate/emulate.h).
 *
 * Entries without a CUDA source yet are NULL; callers take NULL as unsupported. */
#include "kernels/kernels.h"

extern "C" {

void ff_emulated_fill_layer_norm(ff_kernels *table);
void ff_emulated_fill_softmax(ff_kernels *table);
void ff_emulated_fill_linear(ff_kernels *table);
void ff_emulated_fill_elementwise(ff_kernels *table);
void ff_emulated_fill_gated_attention(ff_kernels *table); /* and attention_core, pair_bias */

const ff_kernels *ff_kernels_emulated(ff_dtype dtype);
}

static ff_kernels make_table(ff_dtype dtype)
{
    ff_kernels table = {};
    table.name = "emulated";
    table.backend = FF_BACKEND_EMULATED;
    table.isa = FF_ISA_NONE;
    table.dtype = dtype;
    table.operand_bytes = dtype == FF_DTYPE_BF16 ? 2 : 4;
    ff_emulated_fill_layer_norm(&table);
    ff_emulated_fill_softmax(&table);
    ff_emulated_fill_linear(&table);
    ff_emulated_fill_elementwise(&table);
    ff_emulated_fill_gated_attention(&table);
    return table;
}

const ff_kernels *ff_kernels_emulated(ff_dtype dtype)
{
    static const ff_kernels tables[2] = {make_table(FF_DTYPE_F32), make_table(FF_DTYPE_BF16)};
    return &tables[dtype == FF_DTYPE_BF16];
}
