/* gemm.h - the GEMM library (oneDNN) behind one small interface: large single products, and the peak that benchmarks
 * compare with. The fused kernels call kernels/cpu/mm.h per tile instead (see there). */
#ifndef FF_KERNELS_GEMM_H
#define FF_KERNELS_GEMM_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Whether the GEMM library was built in. */
bool ff_gemm_available(void);

/** Keep the library to an instruction set (dnnl_set_max_cpu_isa); only the first call of a process has an effect. */
void ff_gemm_limit_isa(ff_isa isa);

/** C (=, += when beta is 1) A B, float32 row-major; trans_a, trans_b read the stored transposes. False if not built. */
bool ff_gemm_f32(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, const float *a, int64_t lda,
                 const float *b, int64_t ldb, float beta, float *c, int64_t ldc);

/**
 * One run of the library's peak shape: float32 2048^3 sgemm, bf16 matmul primitive M 4096, N = K = 2048 with packed
 * weights. @return GFLOP/s of this run, 0 when not available. State is made at the first call and kept in *state;
 * free it with ff_gemm_peak_free.
 */
double ff_gemm_peak(ff_dtype dtype, void **state);
void ff_gemm_peak_free(void *state);

#ifdef __cplusplus
}
#endif
#endif
