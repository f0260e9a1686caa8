#include "kernels/gemm.h"
#include "core/clock.h"

#include <stdlib.h>
#include <string.h>

#ifdef FF_HAVE_DNNL
#include <dnnl.h>

bool ff_gemm_available(void) { return true; }

void ff_gemm_limit_isa(ff_isa isa)
{
    const dnnl_cpu_isa_t limits[FF_ISA_COUNT] = {dnnl_cpu_isa_sse41, dnnl_cpu_isa_avx2, dnnl_cpu_isa_avx512_core_vnni,
                                                 dnnl_cpu_isa_avx512_core_bf16, dnnl_cpu_isa_all};
    if (isa >= 0 && isa < FF_ISA_COUNT)
        dnnl_set_max_cpu_isa(limits[isa]); /* refused after the first use: the first limit stays */
}

bool ff_gemm_f32(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b,
                 int64_t ldb, float beta, float *c, int64_t ldc)
{
    return dnnl_sgemm(trans_a ? 'T' : 'N', trans_b ? 'T' : 'N', m, n, k, 1.0f, a, lda, b, ldb, beta, c, ldc) == dnnl_success;
}

/* ---- the peak ---- */

enum { F32_SIZE = 2048, BF16_M = 4096, BF16_N = 2048, BF16_K = 2048 };

typedef struct {
    ff_dtype dtype;
    float *a, *b, *c; /* bf16: a and c as 16-bit, b unused */
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_t matmul;
    dnnl_memory_t src, weights, dst;
} peak_state;

void ff_gemm_peak_free(void *state)
{
    peak_state *s = state;
    if (s == NULL)
        return;
    if (s->dst != NULL)
        dnnl_memory_destroy(s->dst);
    if (s->weights != NULL)
        dnnl_memory_destroy(s->weights);
    if (s->src != NULL)
        dnnl_memory_destroy(s->src);
    if (s->matmul != NULL)
        dnnl_primitive_destroy(s->matmul);
    if (s->stream != NULL)
        dnnl_stream_destroy(s->stream);
    if (s->engine != NULL)
        dnnl_engine_destroy(s->engine);
    free(s->a);
    free(s->b);
    free(s->c);
    free(s);
}

static float *ones(size_t bytes, bool bf16)
{
    float *p = aligned_alloc(64, bytes);
    if (p != NULL && bf16)
        for (size_t i = 0; i < bytes / 2; i++)
            ((uint16_t *)(void *)p)[i] = 0x3f80;
    else if (p != NULL)
        for (size_t i = 0; i < bytes / 4; i++)
            p[i] = 1.0f;
    return p;
}

static bool make_bf16(peak_state *s)
{
    const dnnl_dims_t src = {BF16_M, BF16_K}, weights = {BF16_K, BF16_N}, dst = {BF16_M, BF16_N};
    dnnl_memory_desc_t src_md, weights_md, dst_md;
    dnnl_matmul_desc_t desc;
    dnnl_primitive_desc_t pd = NULL;
    s->a = ones((size_t)BF16_M * BF16_K * 2, true);
    s->c = ones((size_t)BF16_M * BF16_N * 2, true);
    bool good = s->a != NULL && s->c != NULL && dnnl_engine_create(&s->engine, dnnl_cpu, 0) == dnnl_success &&
                dnnl_stream_create(&s->stream, s->engine, dnnl_stream_default_flags) == dnnl_success &&
                dnnl_memory_desc_init_by_tag(&src_md, 2, src, dnnl_bf16, dnnl_ab) == dnnl_success &&
                dnnl_memory_desc_init_by_tag(&weights_md, 2, weights, dnnl_bf16, dnnl_format_tag_any) == dnnl_success &&
                dnnl_memory_desc_init_by_tag(&dst_md, 2, dst, dnnl_bf16, dnnl_ab) == dnnl_success &&
                dnnl_matmul_desc_init(&desc, &src_md, &weights_md, NULL, &dst_md) == dnnl_success &&
                dnnl_primitive_desc_create(&pd, &desc, NULL, s->engine, NULL) == dnnl_success &&
                dnnl_primitive_create(&s->matmul, pd) == dnnl_success;
    if (good) {
        const dnnl_memory_desc_t *packed = dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
        good = dnnl_memory_create(&s->src, &src_md, s->engine, s->a) == dnnl_success &&
               dnnl_memory_create(&s->dst, &dst_md, s->engine, s->c) == dnnl_success &&
               dnnl_memory_create(&s->weights, packed, s->engine, DNNL_MEMORY_ALLOCATE) == dnnl_success;
        void *data = NULL;
        if (good && dnnl_memory_get_data_handle(s->weights, &data) == dnnl_success)
            memset(data, 0, dnnl_memory_desc_get_size(packed)); /* values do not change the speed */
    }
    if (pd != NULL)
        dnnl_primitive_desc_destroy(pd);
    return good;
}

double ff_gemm_peak(ff_dtype dtype, void **state)
{
    peak_state *s = *state;
    if (s == NULL) {
        s = calloc(1, sizeof *s);
        if (s == NULL)
            return 0;
        s->dtype = dtype;
        const size_t bytes = (size_t)F32_SIZE * F32_SIZE * 4;
        bool good;
        if (dtype == FF_DTYPE_F32) {
            s->a = ones(bytes, false);
            s->b = ones(bytes, false);
            s->c = ones(bytes, false);
            good = s->a != NULL && s->b != NULL && s->c != NULL;
        } else {
            good = make_bf16(s);
        }
        if (!good) {
            ff_gemm_peak_free(s);
            return 0;
        }
        *state = s;
    }
    const double begin = ff_clock_s();
    double flop = 2.0 * BF16_M * BF16_N * BF16_K;
    if (s->dtype == FF_DTYPE_F32) {
        flop = 2.0 * F32_SIZE * F32_SIZE * F32_SIZE;
        dnnl_sgemm('N', 'N', F32_SIZE, F32_SIZE, F32_SIZE, 1.0f, s->a, F32_SIZE, s->b, F32_SIZE, 0.0f, s->c, F32_SIZE);
    } else {
        const dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, s->src}, {DNNL_ARG_WEIGHTS, s->weights}, {DNNL_ARG_DST, s->dst}};
        if (dnnl_primitive_execute(s->matmul, s->stream, 3, args) != dnnl_success || dnnl_stream_wait(s->stream) != dnnl_success)
            return 0;
    }
    return flop / (ff_clock_s() - begin) * 1e-9;
}

#else

bool ff_gemm_available(void) { return false; }
void ff_gemm_limit_isa(ff_isa isa) { (void)isa; }
bool ff_gemm_f32(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b,
                 int64_t ldb, float beta, float *c, int64_t ldc)
{
    (void)trans_a, (void)trans_b, (void)m, (void)n, (void)k, (void)a, (void)lda, (void)b, (void)ldb, (void)beta, (void)c,
        (void)ldc;
    return false;
}
double ff_gemm_peak(ff_dtype dtype, void **state)
{
    (void)dtype, (void)state;
    return 0;
}
void ff_gemm_peak_free(void *state) { (void)state; }
#endif
