/* linear.c - y = x W + b by row tile.
 *
 * forward    y (=, +=) x W + b, relu                    2 rows num_input num_output FLOP
 * backward   grad_x += dy W^T; dW += x^T dy; db += dy   4 rows num_input num_output FLOP */
#include "kernels/cpu/families.h"
#include "kernels/cpu/tile.h"

enum { ROWS = 96 };

typedef struct {
    ff_operand *w; /* packed, shared: W forward, W^T backward */
    float *parts;  /* [threads][part]: gradients of W and b */
    int64_t part;
    ff_operand *a; /* per thread: operand copy of x or grad_y, bf16 only */
    void *tn;
} linear_scratch;

static size_t carve(linear_scratch *s, int64_t ni, int64_t no, void *scratch, int thread)
{
    tile_arena shared = {scratch, 0};
    const int64_t forward = mm_packed_size(ni, no), backward = mm_packed_size(no, ni);
    s->w = tile_operands(&shared, forward > backward ? forward : backward);
    s->part = mm_round_up(ni * no + no, 16);
    s->parts = tile_floats(&shared, s->part * omp_get_max_threads());
    const int64_t lda = mm_lda(ni > no ? ni : no);
    const size_t tn = FF_FN(mm_tn_scratch)(ni, no, ROWS);
    tile_arena own = tile_own(&shared, thread, (FF_BF16 ? (size_t)(ROWS * lda) * sizeof(ff_operand) : 0) + tn + 192);
    s->a = FF_BF16 ? tile_operands(&own, ROWS * lda) : NULL;
    s->tn = tile_take(&own, tn);
    return shared.used;
}

/* Rows of float32 as operands: themselves in float32. */
FF_INLINE const ff_operand *as_operands(ff_operand *copy, const float *x, int64_t rows, int64_t c)
{
    if (!FF_BF16)
        return (const ff_operand *)(const void *)x;
    FF_FN(mm_rows)(copy, mm_lda(c), x, c, rows, c);
    return copy;
}

static void linear_forward(float *y, const float *x, const ff_linear_params *w, int64_t rows, int64_t ni, int64_t no,
                           bool relu, bool accumulate, void *scratch)
{
    const int64_t tiles = (rows + ROWS - 1) / ROWS;
#pragma omp parallel
    {
        linear_scratch s;
        carve(&s, ni, no, scratch, omp_get_thread_num());
        tile_pack(s.w, w->weights, no, ni, no, 0);
#pragma omp barrier
        int64_t first, last;
        tile_share(tiles, &first, &last);
        for (int64_t t = first; t < last; t++) {
            const int64_t r0 = t * ROWS, n = rows - r0 < ROWS ? rows - r0 : ROWS;
            const ff_operand *a = as_operands(s.a, x + r0 * ni, n, ni);
            const mm_residual u = {accumulate ? y + r0 * no : NULL, no, w->bias, NULL, 0};
            FF_FN(mm_update)(n, no, ni, a, mm_lda(ni), s.w, y + r0 * no, no, &u);
            for (int64_t i = 0; relu && i < n * no; i += FF_VL) {
                const int64_t left = n * no - i;
                const vf v = v_max(tile_load(y + r0 * no + i, left), v_zero());
                if (left >= FF_VL)
                    v_store(y + r0 * no + i, v);
                else
                    v_store_n(y + r0 * no + i, v, left);
            }
        }
    }
}

static void linear_backward(float *grad_x, const ff_linear_params *grad_w, const float *grad_y, const float *x,
                            const ff_linear_params *w, int64_t rows, int64_t ni, int64_t no, void *scratch)
{
    const int64_t tiles = (rows + ROWS - 1) / ROWS;
#pragma omp parallel
    {
        linear_scratch s;
        carve(&s, ni, no, scratch, omp_get_thread_num());
        float *part = s.parts + omp_get_thread_num() * s.part;
        if (grad_x != NULL)
            tile_pack(s.w, w->weights, no, no, ni, 1);
        if (grad_w != NULL)
            memset(part, 0, (size_t)s.part * sizeof *part);
#pragma omp barrier
        int64_t first, last;
        tile_share(tiles, &first, &last);
        for (int64_t t = first; t < last; t++) {
            const int64_t r0 = t * ROWS, n = rows - r0 < ROWS ? rows - r0 : ROWS;
            const float *dy = grad_y + r0 * no;
            if (grad_x != NULL)
                FF_FN(mm)(n, ni, no, as_operands(s.a, dy, n, no), mm_lda(no), s.w, grad_x + r0 * ni, ni, MM_ADD, NULL);
            if (grad_w != NULL) {
                FF_FN(mm_tn)(ni, no, n, x + r0 * ni, ni, dy, no, part, no, s.tn);
                tile_column_sum(part + ni * no, dy, no, n, no);
            }
        }
#pragma omp barrier
        if (grad_w != NULL) {
            tile_reduce(grad_w->weights, s.parts, s.part, ni * no);
            tile_reduce(grad_w->bias, s.parts + ni * no, s.part, no);
        }
    }
}

static size_t linear_scratch_bytes(int64_t rows, int64_t ni, int64_t no)
{
    linear_scratch s;
    (void)rows;
    return carve(&s, ni, no, NULL, 0);
}

void FF_FN(ff_fill_linear)(ff_kernels *table)
{
    table->linear_forward = linear_forward;
    table->linear_backward = linear_backward;
    table->linear_scratch_bytes = linear_scratch_bytes;
}
