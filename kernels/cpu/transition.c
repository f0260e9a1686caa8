/* transition.c - layer norm, linear, relu, linear, residual by row tile: the 4x hidden layer never leaves the core's cache.
 *
 * forward    h = relu(LN(x) W1 + b1), out = x + h W2 + b2                          4 rows c c_hidden FLOP
 *            In bf16 the sign of a hidden value near 0 is not known; where it decides about a gradient it is computed again in
 *            float32 (less than one value in a hundred), as one wrong sign changes a whole gradient entry.
 * backward   recomputes LN(x) and h by chunks of hidden channels: dh = (dy W2^T) [h > 0]; dW2 += h^T dy;
 *            dW1 += LN^T dh; dLN = dh W1^T; then the layer norm's backward          10 rows c c_hidden FLOP */
#include "kernels/cpu/families.h"
#include "kernels/cpu/tile.h"

enum {
    ROWS = 96,           /* forward tile: 96 x 1024 hidden floats are 384 KB of a 1 MB cache */
    BACKWARD_ROWS = 128, /* weight gradients are read and written once per tile */
    HIDDEN_CHUNK = 256
};

typedef struct {
    ff_operand *w1, *w2; /* packed, shared */
    ff_operand *x, *h;   /* per thread */
} forward_scratch;

static size_t carve_forward(forward_scratch *s, const ff_transition_args *a, void *scratch, int thread)
{
    tile_arena shared = {scratch, 0};
    s->w1 = tile_operands(&shared, mm_packed_size(a->c, a->c_hidden));
    s->w2 = tile_operands(&shared, mm_packed_size(a->c_hidden, a->c));
    tile_arena own = tile_own(&shared, thread, (size_t)(ROWS * (mm_lda(a->c) + mm_lda(a->c_hidden))) * sizeof(ff_operand) + 128);
    s->x = tile_operands(&own, ROWS * mm_lda(a->c));
    s->h = tile_operands(&own, ROWS * mm_lda(a->c_hidden));
    return shared.used;
}

static void transition_forward(float *out, const float *x, const ff_transition_params *w, const ff_transition_args *a,
                               void *scratch)
{
    const int64_t c = a->c, ch = a->c_hidden, tiles = (a->rows + ROWS - 1) / ROWS;
#pragma omp parallel
    {
        forward_scratch s;
        carve_forward(&s, a, scratch, omp_get_thread_num());
        tile_pack(s.w1, w->weights1, ch, c, ch, 0);
        tile_pack(s.w2, w->weights2, c, ch, c, 0);
        if (mm_lda(ch) != ch)
            memset(s.h, 0, (size_t)(ROWS * mm_lda(ch)) * sizeof *s.h);
#pragma omp barrier
        int64_t first, last;
        tile_share(tiles, &first, &last);
        for (int64_t t = first; t < last; t++) {
            const int64_t r0 = t * ROWS, rows = a->rows - r0 < ROWS ? a->rows - r0 : ROWS;
            tile_layer_norm(s.x, mm_lda(c), x + r0 * c, c, rows, c, w->norm_scale, w->norm_offset);
            FF_FN(mm_operand)(rows, ch, c, s.x, mm_lda(c), s.w1, s.h, mm_lda(ch), w->bias1, 1);
            const mm_residual u = {a->residual ? x + r0 * c : NULL, c, w->bias2, NULL, 0};
            FF_FN(mm_update)(rows, c, ch, s.h, mm_lda(ch), s.w2, out + r0 * c, c, &u);
        }
    }
}

typedef struct {
    ff_operand *w1, *w1_t, *w2_t; /* packed, shared; w1_t and w2_t chunk by chunk of hidden channels */
    float *parts;                 /* [threads][part]: gradients of w1, w2, b1, b2, scale, offset */
    int64_t part;
    float *x, *h, *dh, *dx;       /* per thread */
    ff_operand *xo, *yo, *dho;    /* operand copies (the float arrays themselves in float32) */
    float *w1_rows, *w1_norm;     /* bf16, shared: W1 transposed, and the length of its rows */
    void *tn;
} backward_scratch;

static void carve_backward_own(backward_scratch *s, const ff_transition_args *a, tile_arena *own)
{
    const int64_t c = a->c, chunk = a->c_hidden < HIDDEN_CHUNK ? a->c_hidden : HIDDEN_CHUNK;
    s->x = tile_floats(own, BACKWARD_ROWS * c);
    s->h = tile_floats(own, BACKWARD_ROWS * chunk);
    s->dh = tile_floats(own, BACKWARD_ROWS * chunk);
    s->dx = tile_floats(own, BACKWARD_ROWS * c);
    s->xo = FF_BF16 ? tile_operands(own, BACKWARD_ROWS * mm_lda(c)) : (ff_operand *)(void *)s->x;
    s->yo = FF_BF16 ? tile_operands(own, BACKWARD_ROWS * mm_lda(c)) : NULL;
    s->dho = FF_BF16 ? tile_operands(own, BACKWARD_ROWS * mm_lda(chunk)) : (ff_operand *)(void *)s->dh;
    const size_t tn1 = FF_FN(mm_tn_scratch)(c, chunk, BACKWARD_ROWS), tn2 = FF_FN(mm_tn_scratch)(chunk, c, BACKWARD_ROWS);
    s->tn = tile_take(own, tn1 > tn2 ? tn1 : tn2);
}

static size_t carve_backward(backward_scratch *s, const ff_transition_args *a, void *scratch, int thread)
{
    const int64_t c = a->c, ch = a->c_hidden, chunk = ch < HIDDEN_CHUNK ? ch : HIDDEN_CHUNK;
    tile_arena shared = {scratch, 0}, count = {NULL, 0};
    const int64_t chunks = ch == 0 ? 0 : (ch + chunk - 1) / chunk;
    s->w1 = tile_operands(&shared, mm_packed_size(c, ch));
    s->w1_t = tile_operands(&shared, chunks * mm_packed_size(chunk, c));
    s->w2_t = tile_operands(&shared, mm_packed_size(c, ch));
    s->w1_rows = FF_BF16 ? tile_floats(&shared, c * ch) : NULL;
    s->w1_norm = FF_BF16 ? tile_floats(&shared, mm_round_up(ch, FF_VL)) : NULL;
    s->part = mm_round_up(2 * c * ch + ch + 3 * c, 16);
    s->parts = tile_floats(&shared, s->part * omp_get_max_threads());
    carve_backward_own(s, a, &count);
    tile_arena own = tile_own(&shared, thread, count.used);
    carve_backward_own(s, a, &own);
    return shared.used;
}

/* dh[r, i] = h[r, i] > 0 ? dh[r, i] : 0 */
static void relu_backward(float *dh, const float *h, int64_t n)
{
    int64_t i = 0;
    for (; i + FF_VL <= n; i += FF_VL) {
        const vf v = v_load(h + i);
        v_store(dh + i, v_select((vi)(v > v_zero()), v_load(dh + i), v_zero()));
    }
    for (; i < n; i++)
        dh[i] = h[i] > 0 ? dh[i] : 0;
}

static void relu(float *h, int64_t n)
{
    for (int64_t i = 0; i < n; i += FF_VL) {
        const vf v = v_max(tile_load(h + i, n - i), v_zero());
        if (n - i >= FF_VL)
            v_store(h + i, v);
        else
            v_store_n(h + i, v, n - i);
    }
}

/* Signs of hidden values [rows, n] (channels h0 ..) too close to 0 for bf16: the value again, in float32. */
static void settle_signs(const backward_scratch *s, const float *bias, int64_t rows, int64_t n, int64_t c, int64_t h0)
{
    const float margin = 0.01f; /* 6 standard deviations of the error of bf16 products */
    for (int64_t r = 0; r < rows; r++) {
        const float *x = s->x + r * c;
        float *h = s->h + r * n, square = 0;
        for (int64_t i = 0; i < c; i++)
            square += x[i] * x[i];
        const vf length = v_set1(margin * sqrtf(square / (float)(c > 0 ? c : 1)));
        for (int64_t i = 0; i < n; i += FF_VL) {
            const vf v = tile_load(h + i, n - i), limit = length * tile_load(s->w1_norm + h0 + i, n - i);
            const vi near = (vi)(v < limit) & (vi)(v > -limit);
            if (v_sum((vf)(near & (vi)v_set1(1.0f))) == 0.0f)
                continue;
            for (int64_t k = i; k < n && k < i + FF_VL; k++) {
                if (!near[k - i])
                    continue;
                const float *w = s->w1_rows + (h0 + k) * c;
                vf sum = v_zero();
                for (int64_t j = 0; j < c; j += FF_VL)
                    sum = v_fma(tile_load(x + j, c - j), tile_load(w + j, c - j), sum);
                h[k] = v_sum(sum) + bias[h0 + k];
            }
        }
    }
}

static void transition_backward(float *grad_x, const ff_transition_params *grad_w, const float *grad_out, const float *x,
                                const ff_transition_params *w, const ff_transition_args *a, void *scratch)
{
    const int64_t c = a->c, ch = a->c_hidden, chunk = ch < HIDDEN_CHUNK ? ch : HIDDEN_CHUNK;
    const int64_t tiles = (a->rows + BACKWARD_ROWS - 1) / BACKWARD_ROWS, size_t1 = mm_packed_size(chunk, c);
    const bool add_residual = a->residual && grad_x != grad_out;
#pragma omp parallel
    {
        backward_scratch s;
        carve_backward(&s, a, scratch, omp_get_thread_num());
        float *part = s.parts + omp_get_thread_num() * s.part;
        float *dw1 = part, *dw2 = dw1 + c * ch, *db1 = dw2 + c * ch, *db2 = db1 + ch, *d_scale = db2 + c, *d_offset = d_scale + c;
        memset(part, 0, (size_t)s.part * sizeof *part);
        tile_pack(s.w1, w->weights1, ch, c, ch, 0);
        tile_pack(s.w2_t, w->weights2, c, c, ch, 1);
        for (int64_t h0 = 0, k = 0; h0 < ch; h0 += chunk, k++) {
            const int64_t n = ch - h0 < chunk ? ch - h0 : chunk;
            tile_pack(s.w1_t + k * size_t1, w->weights1 + h0, ch, n, c, 1);
        }
        if (FF_BF16) {
#pragma omp for
            for (int64_t i = 0; i < ch; i++) {
                float square = 0;
                for (int64_t k = 0; k < c; k++) {
                    s.w1_rows[i * c + k] = w->weights1[k * ch + i];
                    square += w->weights1[k * ch + i] * w->weights1[k * ch + i];
                }
                s.w1_norm[i] = sqrtf(square);
            }
        }
#pragma omp barrier
        int64_t first, last;
        tile_share(tiles, &first, &last);
        for (int64_t t = first; t < last; t++) {
            const int64_t r0 = t * BACKWARD_ROWS, rows = a->rows - r0 < BACKWARD_ROWS ? a->rows - r0 : BACKWARD_ROWS;
            const float *dy = grad_out + r0 * c;
            tile_layer_norm_float(s.x, c, x + r0 * c, c, rows, c, w->norm_scale, w->norm_offset);
            const ff_operand *yo = (const ff_operand *)(const void *)dy;
            if (FF_BF16) {
                FF_FN(mm_rows)(s.xo, mm_lda(c), s.x, c, rows, c);
                FF_FN(mm_rows)(s.yo, mm_lda(c), dy, c, rows, c);
                yo = s.yo;
            }
            for (int64_t h0 = 0, k = 0; h0 < ch; h0 += chunk, k++) {
                const int64_t n = ch - h0 < chunk ? ch - h0 : chunk, panels = h0 * mm_round_up(c, FF_KP);
                FF_FN(mm)(rows, n, c, s.xo, mm_lda(c), s.w1 + panels, s.h, n, MM_STORE, w->bias1 + h0);
                if (FF_BF16)
                    settle_signs(&s, w->bias1, rows, n, c, h0);
                relu(s.h, rows * n);
                FF_FN(mm)(rows, n, c, yo, mm_lda(c), s.w2_t + panels, s.dh, n, MM_STORE, NULL);
                relu_backward(s.dh, s.h, rows * n);
                if (FF_BF16)
                    FF_FN(mm_rows)(s.dho, mm_lda(n), s.dh, n, rows, n);
                FF_FN(mm)(rows, c, n, s.dho, mm_lda(n), s.w1_t + k * size_t1, s.dx, c, k == 0 ? MM_STORE : MM_ADD, NULL);
                if (grad_w != NULL) {
                    FF_FN(mm_tn)(n, c, rows, s.h, n, dy, c, dw2 + h0 * c, c, s.tn);
                    FF_FN(mm_tn)(c, n, rows, s.x, c, s.dh, n, dw1 + h0, ch, s.tn);
                    tile_column_sum(db1 + h0, s.dh, n, rows, n);
                }
            }
            if (grad_w != NULL)
                tile_column_sum(db2, dy, c, rows, c);
            if (add_residual)
                for (int64_t i = 0; i < rows * c; i++)
                    grad_x[r0 * c + i] += dy[i];
            tile_layer_norm_backward(grad_x + r0 * c, NULL, s.dx, c, x + r0 * c, c, rows, c, w->norm_scale, d_scale, d_offset);
        }
#pragma omp barrier
        if (grad_w != NULL) {
            tile_reduce(grad_w->weights1, s.parts, s.part, c * ch);
            tile_reduce(grad_w->weights2, s.parts + c * ch, s.part, c * ch);
            tile_reduce(grad_w->bias1, s.parts + 2 * c * ch, s.part, ch);
            tile_reduce(grad_w->bias2, s.parts + 2 * c * ch + ch, s.part, c);
            tile_reduce(grad_w->norm_scale, s.parts + 2 * c * ch + ch + c, s.part, c);
            tile_reduce(grad_w->norm_offset, s.parts + 2 * c * ch + ch + 2 * c, s.part, c);
        }
    }
}

static size_t transition_scratch_bytes(const ff_transition_args *a, bool backward)
{
    forward_scratch f;
    backward_scratch b;
    return backward ? carve_backward(&b, a, NULL, 0) : carve_forward(&f, a, NULL, 0);
}

void FF_FN(ff_fill_transition)(ff_kernels *table)
{
    table->transition_forward = transition_forward;
    table->transition_backward = transition_backward;
    table->transition_scratch_bytes = transition_scratch_bytes;
}
