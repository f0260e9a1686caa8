/* pair_bias.c - bias[h, i, j] = LN(pair)[i, j] . weights[:, h]: bound by reading the pair once.
 *
 * forward    panels of FF_NR positions: LN rows transposed into a right operand, the left operand is weights^T [heads, c_z],
 *            so results land in the planes of the heads directly
 * backward   by tiles of ROWS positions */
#include "kernels/cpu/families.h"
#include "kernels/cpu/tile.h"

enum { ROWS = 96 };

typedef struct {
    ff_operand *w; /* shared: forward weights^T rows; backward packed weights^T [num_head, c_z] */
    float *parts;
    int64_t part;
    float *x; /* per thread: LN rows */
    ff_operand *panel;
    float *d, *dx; /* backward: [ROWS, num_head], [ROWS, c_z] */
    ff_operand *d_operand;
    void *tn;
} bias_scratch;

static void carve_own(bias_scratch *s, const ff_pair_bias_args *a, bool backward, tile_arena *own)
{
    s->x = tile_floats(own, ROWS * a->c_z);
    s->panel = backward ? NULL : tile_operands(own, mm_packed_size(a->c_z, FF_NR));
    if (!backward)
        return;
    s->d = tile_floats(own, ROWS * a->num_head);
    s->dx = tile_floats(own, ROWS * a->c_z);
    s->d_operand = tile_operands(own, ROWS * mm_lda(a->num_head));
    s->tn = tile_take(own, FF_FN(mm_tn_scratch)(a->c_z, a->num_head, ROWS));
}

static size_t carve(bias_scratch *s, const ff_pair_bias_args *a, bool backward, void *scratch, int thread)
{
    tile_arena shared = {scratch, 0}, count = {NULL, 0};
    s->w = tile_operands(&shared, backward ? mm_packed_size(a->num_head, a->c_z) : a->num_head * mm_lda(a->c_z));
    s->part = mm_round_up(a->c_z * (a->num_head + 2), 16);
    s->parts = tile_floats(&shared, backward ? s->part * omp_get_max_threads() : 0);
    carve_own(s, a, backward, &count);
    tile_arena own = tile_own(&shared, thread, count.used);
    carve_own(s, a, backward, &own);
    return shared.used;
}

static void pair_bias_forward(float *bias, const float *pair, const ff_pair_bias_params *w, const ff_pair_bias_args *a,
                              void *scratch)
{
    const int64_t per_row = (a->num_j + FF_NR - 1) / FF_NR, lda = mm_lda(a->c_z);
#pragma omp parallel
    {
        bias_scratch s;
        carve(&s, a, false, scratch, omp_get_thread_num());
#pragma omp for
        for (int64_t h = 0; h < a->num_head; h++)
            for (int64_t k = 0; k < lda; k++)
                s.w[h * lda + k] = operand_from_float(k < a->c_z ? w->weights[k * a->num_head + h] : 0.0f);
        int64_t first, last;
        tile_share(a->num_i * per_row, &first, &last);
        for (int64_t unit = first; unit < last; unit++) {
            const int64_t i = unit / per_row, j0 = unit % per_row * FF_NR, n = a->num_j - j0 < FF_NR ? a->num_j - j0 : FF_NR;
            tile_layer_norm_float(s.x, a->c_z, pair + i * a->stride_i + j0 * a->stride_j, a->stride_j, n, a->c_z,
                                  w->norm_scale, w->norm_offset);
            FF_FN(mm_pack_t)(s.panel, s.x, a->c_z, a->c_z, n);
            FF_FN(mm)(a->num_head, n, a->c_z, s.w, lda, s.panel, bias + i * a->bias_stride_i + j0, a->bias_stride_head,
                      MM_STORE, NULL);
        }
    }
}

static void pair_bias_backward(float *grad_pair, const ff_pair_bias_params *grad_w, const float *grad_bias, const float *pair,
                               const ff_pair_bias_params *w, const ff_pair_bias_args *a, void *scratch)
{
    const int64_t per_row = (a->num_j + ROWS - 1) / ROWS, H = a->num_head, c = a->c_z;
#pragma omp parallel
    {
        bias_scratch s;
        carve(&s, a, true, scratch, omp_get_thread_num());
        float *part = s.parts + omp_get_thread_num() * s.part;
        memset(part, 0, (size_t)s.part * sizeof *part);
        tile_pack(s.w, w->weights, H, H, c, 1);
#pragma omp barrier
        int64_t first, last;
        tile_share(a->num_i * per_row, &first, &last);
        for (int64_t unit = first; unit < last; unit++) {
            const int64_t i = unit / per_row, j0 = unit % per_row * ROWS, n = a->num_j - j0 < ROWS ? a->num_j - j0 : ROWS;
            const int64_t at = i * a->stride_i + j0 * a->stride_j;
            for (int64_t h = 0; h < H; h++)
                for (int64_t r = 0; r < n; r++)
                    s.d[r * H + h] = grad_bias[h * a->bias_stride_head + i * a->bias_stride_i + j0 + r];
            FF_FN(mm_rows)(s.d_operand, mm_lda(H), s.d, H, n, H);
            FF_FN(mm)(n, c, H, s.d_operand, mm_lda(H), s.w, s.dx, c, MM_STORE, NULL);
            if (grad_w != NULL) {
                tile_layer_norm_float(s.x, c, pair + at, a->stride_j, n, c, w->norm_scale, w->norm_offset);
                FF_FN(mm_tn)(c, H, n, s.x, c, s.d, H, part, H, s.tn);
            }
            tile_layer_norm_backward(grad_pair + at, NULL, s.dx, c, pair + at, a->stride_j, n, c, w->norm_scale, part + c * H,
                                     part + c * H + c);
        }
#pragma omp barrier
        if (grad_w != NULL) {
            tile_reduce(grad_w->weights, s.parts, s.part, c * H);
            tile_reduce(grad_w->norm_scale, s.parts + c * H, s.part, c);
            tile_reduce(grad_w->norm_offset, s.parts + c * H + c, s.part, c);
        }
    }
}

static size_t pair_bias_scratch_bytes(const ff_pair_bias_args *a, bool backward)
{
    bias_scratch s;
    return carve(&s, a, backward, NULL, 0);
}

void FF_FN(ff_fill_pair_bias)(ff_kernels *table)
{
    table->pair_bias_forward = pair_bias_forward;
    table->pair_bias_backward = pair_bias_backward;
    table->pair_bias_scratch_bytes = pair_bias_scratch_bytes;
}
