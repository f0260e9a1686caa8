/* elementwise.c - layer norm, softmax, gates, dropout and copies as table entries: all bound by memory.
 *
 * layer_norm   forward reads and writes each element once; backward reads x and grad_y, adds into grad_x
 * softmax      one pass over a row that stays in the first-level cache */
#include "kernels/cpu/families.h"
#include "kernels/cpu/tile.h"

FF_INLINE void store_part(float *p, vf v, int64_t n)
{
    if (n >= FF_VL)
        v_store(p, v);
    else
        v_store_n(p, v, n);
}

static void layer_norm_forward(float *y, const float *x, const ff_layer_norm_params *w, int64_t rows, int64_t c)
{
#pragma omp parallel
    {
        int64_t first, last;
        tile_share(rows, &first, &last);
        tile_layer_norm_float(y + first * c, c, x + first * c, c, last - first, c, w->scale, w->offset);
    }
}

static size_t layer_norm_backward_scratch_bytes(int64_t rows, int64_t c)
{
    (void)rows;
    return (size_t)mm_round_up(2 * c, 16) * sizeof(float) * (size_t)omp_get_max_threads();
}

static void layer_norm_backward(float *grad_x, const ff_layer_norm_params *grad_w, const float *grad_y, const float *x,
                                const ff_layer_norm_params *w, int64_t rows, int64_t c, void *scratch)
{
    const int64_t part = mm_round_up(2 * c, 16);
#pragma omp parallel
    {
        float *own = (float *)scratch + part * omp_get_thread_num();
        memset(own, 0, (size_t)part * sizeof *own);
        int64_t first, last;
        tile_share(rows, &first, &last);
        tile_layer_norm_backward(grad_x + first * c, NULL, grad_y + first * c, c, x + first * c, c, last - first, c, w->scale,
                                 own, own + c);
#pragma omp barrier
        if (grad_w != NULL) {
            tile_reduce(grad_w->scale, scratch, part, c);
            tile_reduce(grad_w->offset, (const float *)scratch + c, part, c);
        }
    }
}

/* One row of logits: bias added, masked keys replaced. */
FF_INLINE vf logits(const float *x, const float *mask, const float *bias, int64_t k, int64_t n)
{
    vf v = tile_load(x + k, n);
    if (bias != NULL)
        v += tile_load(bias + k, n);
    if (mask != NULL)
        v = v_select((vi)(tile_load(mask + k, n) == v_zero()), v_set1(FF_MASKED_LOGIT), v);
    return v;
}

static void softmax_row(float *y, const float *x, const float *mask, const float *bias, int64_t num_key)
{
    vf top = v_set1(-INFINITY);
    float highest = -INFINITY;
    for (int64_t k = 0; k < num_key; k += FF_VL) {
        const int64_t n = num_key - k;
        const vf v = logits(x, mask, bias, k, n);
        store_part(y + k, v, n);
        if (n >= FF_VL) {
            top = v_max(top, v);
        } else {
            for (int64_t i = 0; i < n; i++)
                highest = v[i] > highest ? v[i] : highest;
        }
    }
    const float in_vectors = v_hmax(top);
    const vf log2e = v_set1(1.44269504f), m = v_set1((in_vectors > highest ? in_vectors : highest) * -1.44269504f);
    vf sum = v_zero();
    float rest = 0;
    for (int64_t k = 0; k < num_key; k += FF_VL) {
        const int64_t n = num_key - k;
        const vf e = v_exp2(v_fma(tile_load(y + k, n), log2e, m));
        store_part(y + k, e, n);
        if (n >= FF_VL) {
            sum += e;
        } else {
            for (int64_t i = 0; i < n; i++)
                rest += e[i];
        }
    }
    const vf scale = v_set1(1.0f / (v_sum(sum) + rest));
    for (int64_t k = 0; k < num_key; k += FF_VL)
        store_part(y + k, tile_load(y + k, num_key - k) * scale, num_key - k);
}

static void softmax_forward(float *y, const float *x, const float *mask, const float *bias, int64_t batch, int64_t num_head,
                            int64_t num_query, int64_t num_key)
{
    const int64_t rows = batch * num_head * num_query, per_batch = num_head * num_query;
#pragma omp parallel
    {
        int64_t first, last;
        tile_share(rows, &first, &last);
        for (int64_t r = first; r < last; r++)
            softmax_row(y + r * num_key, x + r * num_key, mask == NULL ? NULL : mask + r / per_batch * num_key,
                        bias == NULL ? NULL : bias + r % per_batch * num_key, num_key);
    }
}

/* Threads split (head, query), so that each owns its rows of grad_bias for every batch. */
static void softmax_backward(float *grad_x, float *grad_bias, const float *grad_y, const float *y, const float *mask,
                             int64_t batch, int64_t num_head, int64_t num_query, int64_t num_key)
{
    const int64_t rows = num_head * num_query;
#pragma omp parallel
    {
        int64_t first, last;
        tile_share(rows, &first, &last);
        for (int64_t b = 0; b < batch; b++)
            for (int64_t r = first; r < last; r++) {
                const int64_t at = (b * rows + r) * num_key;
                vf dot = v_zero();
                for (int64_t k = 0; k < num_key; k += FF_VL)
                    dot = v_fma(tile_load(y + at + k, num_key - k), tile_load(grad_y + at + k, num_key - k), dot);
                const vf d = v_set1(v_sum(dot));
                for (int64_t k = 0; k < num_key; k += FF_VL) {
                    const int64_t n = num_key - k;
                    vf g = tile_load(y + at + k, n) * (tile_load(grad_y + at + k, n) - d);
                    if (mask != NULL)
                        g = v_select((vi)(tile_load(mask + b * num_key + k, n) == v_zero()), v_zero(), g);
                    store_part(grad_x + at + k, tile_load(grad_x + at + k, n) + g, n);
                    if (grad_bias != NULL)
                        store_part(grad_bias + r * num_key + k, tile_load(grad_bias + r * num_key + k, n) + g, n);
                }
            }
    }
}

static void bias_dropout_residual(float *out, const float *x, const float *bias, const float *dropout, const float *residual,
                                  int64_t rows, int64_t period, int64_t c)
{
#pragma omp parallel
    {
        int64_t first, last;
        tile_share(rows, &first, &last);
        for (int64_t r = first; r < last; r++) {
            const float *keep = dropout == NULL ? NULL : dropout + r % period * c;
            for (int64_t i = 0; i < c; i += FF_VL) {
                const int64_t n = c - i;
                vf v = tile_load(x + r * c + i, n);
                if (bias != NULL)
                    v += tile_load(bias + i, n);
                if (keep != NULL)
                    v *= tile_load(keep + i, n);
                if (residual != NULL)
                    v += tile_load(residual + r * c + i, n);
                store_part(out + r * c + i, v, n);
            }
        }
    }
}

static void sigmoid_gate_forward(float *out, const float *x, const float *gate, const float *gate_bias, int64_t rows,
                                 int64_t c)
{
#pragma omp parallel
    {
        int64_t first, last;
        tile_share(rows, &first, &last);
        for (int64_t r = first; r < last; r++)
            for (int64_t i = 0; i < c; i += FF_VL) {
                const int64_t n = c - i;
                vf g = tile_load(gate + r * c + i, n);
                if (gate_bias != NULL)
                    g += tile_load(gate_bias + i, n);
                store_part(out + r * c + i, tile_load(x + r * c + i, n) * v_sigmoid(g), n);
            }
    }
}

/* Threads split the channels (whole vectors), so that each owns its part of grad_gate_bias. */
static void sigmoid_gate_backward(float *grad_x, float *grad_gate, float *grad_gate_bias, const float *grad_out,
                                  const float *x, const float *gate, const float *gate_bias, int64_t rows, int64_t c)
{
    const int64_t vectors = (c + FF_VL - 1) / FF_VL;
#pragma omp parallel
    {
        int64_t first, last;
        tile_share(vectors, &first, &last);
        for (int64_t v = first; v < last; v++) {
            const int64_t i = v * FF_VL, n = c - i;
            const vf bias = gate_bias == NULL ? v_zero() : tile_load(gate_bias + i, n);
            vf sum = v_zero();
            for (int64_t r = 0; r < rows; r++) {
                const int64_t at = r * c + i;
                const vf s = v_sigmoid(tile_load(gate + at, n) + bias), dy = tile_load(grad_out + at, n);
                const vf dg = dy * tile_load(x + at, n) * s * (v_set1(1.0f) - s);
                store_part(grad_x + at, v_fma(dy, s, tile_load(grad_x + at, n)), n);
                store_part(grad_gate + at, tile_load(grad_gate + at, n) + dg, n);
                sum += dg;
            }
            if (grad_gate_bias != NULL)
                store_part(grad_gate_bias + i, tile_load(grad_gate_bias + i, n) + sum, n);
        }
    }
}

static void dropout_mask(float *mask, ff_random_key key, float rate, int64_t first, int64_t n)
{
    const float keep = 1.0f / (1.0f - rate);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++)
        mask[i] = ff_random_uniform(key, (uint64_t)(first + i)) < rate ? 0.0f : keep;
}

static void add_scaled(float *y, const float *x, float alpha, int64_t n)
{
    const int64_t vectors = (n + FF_VL - 1) / FF_VL;
#pragma omp parallel
    {
        int64_t first, last;
        tile_share(vectors, &first, &last);
        for (int64_t v = first; v < last; v++) {
            const int64_t i = v * FF_VL;
            store_part(y + i, v_fma(tile_load(x + i, n - i), v_set1(alpha), tile_load(y + i, n - i)), n - i);
        }
    }
}

static void transpose(float *dst, const float *src, int64_t num_i, int64_t num_j, int64_t c, bool accumulate)
{
    enum { BLOCK = 16 };
    const int64_t blocks = (num_j + BLOCK - 1) / BLOCK;
#pragma omp parallel
    {
        int64_t first, last;
        tile_share(blocks, &first, &last);
        for (int64_t b = first; b < last; b++)
            for (int64_t i0 = 0; i0 < num_i; i0 += BLOCK)
                for (int64_t j = b * BLOCK; j < (b + 1) * BLOCK && j < num_j; j++)
                    for (int64_t i = i0; i < i0 + BLOCK && i < num_i; i++) {
                        float *d = dst + (j * num_i + i) * c;
                        const float *s = src + (i * num_j + j) * c;
                        for (int64_t k = 0; k < c; k += FF_VL) {
                            vf v = tile_load(s + k, c - k);
                            if (accumulate)
                                v += tile_load(d + k, c - k);
                            store_part(d + k, v, c - k);
                        }
                    }
    }
}

void FF_FN(ff_fill_elementwise)(ff_kernels *table)
{
    table->layer_norm_forward = layer_norm_forward;
    table->layer_norm_backward = layer_norm_backward;
    table->layer_norm_backward_scratch_bytes = layer_norm_backward_scratch_bytes;
    table->softmax_forward = softmax_forward;
    table->softmax_backward = softmax_backward;
    table->bias_dropout_residual = bias_dropout_residual;
    table->sigmoid_gate_forward = sigmoid_gate_forward;
    table->sigmoid_gate_backward = sigmoid_gate_backward;
    table->dropout_mask = dropout_mask;
    table->add_scaled = add_scaled;
    table->transpose = transpose;
}
