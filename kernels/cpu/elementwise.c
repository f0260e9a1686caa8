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

/* Two passes over logits that stay in the first-level cache (maximum; exponentials and their sum), one over the result. */
static void softmax_row(float *y, const float *x, const float *mask, const float *bias, int64_t num_key)
{
    const int64_t whole = num_key - num_key % FF_VL, rest = num_key - whole;
    const vf log2e = v_set1(1.44269504f), lowest = v_set1(-INFINITY);
    vf top[2] = {lowest, lowest}, sum[2] = {v_zero(), v_zero()};
    int64_t k = 0;
    for (; k + 2 * FF_VL <= whole; k += 2 * FF_VL) {
        top[0] = v_max(top[0], logits(x, mask, bias, k, FF_VL));
        top[1] = v_max(top[1], logits(x, mask, bias, k + FF_VL, FF_VL));
    }
    if (k < whole)
        top[0] = v_max(top[0], logits(x, mask, bias, k, FF_VL));
    vf last = lowest;
    if (rest > 0) {
        last = logits(x, mask, bias, whole, rest);
        for (int64_t i = rest; i < FF_VL; i++)
            last[i] = -INFINITY;
    }
    const vf highest = v_set1(v_hmax(v_max(v_max(top[0], top[1]), last)));
    /* the difference first: logits may be as large as FF_MASKED_LOGIT */
    for (k = 0; k + 2 * FF_VL <= whole; k += 2 * FF_VL) {
        const vf e0 = v_exp2((logits(x, mask, bias, k, FF_VL) - highest) * log2e);
        const vf e1 = v_exp2((logits(x, mask, bias, k + FF_VL, FF_VL) - highest) * log2e);
        v_store(y + k, e0);
        v_store(y + k + FF_VL, e1);
        sum[0] += e0;
        sum[1] += e1;
    }
    if (k < whole) {
        const vf e = v_exp2((logits(x, mask, bias, k, FF_VL) - highest) * log2e);
        v_store(y + k, e);
        sum[0] += e;
    }
    if (rest > 0) {
        last = v_exp2((last - highest) * log2e);
        for (int64_t i = rest; i < FF_VL; i++)
            last[i] = 0;
        sum[1] += last;
    }
    const vf scale = v_set1(1.0f / v_sum(sum[0] + sum[1]));
    for (k = 0; k < whole; k += FF_VL)
        v_store(y + k, v_load(y + k) * scale);
    if (rest > 0)
        v_store_n(y + whole, last * scale, rest);
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

/* Threads split the rows; their sums for grad_gate_bias are added in thread order. */
static void sigmoid_gate_backward(float *grad_x, float *grad_gate, float *grad_gate_bias, const float *grad_out,
                                  const float *x, const float *gate, const float *gate_bias, int64_t rows, int64_t c)
{
    enum { CHANNELS = 512 }; /* at a time: the sums are on the stack */
    for (int64_t c0 = 0; c0 < c; c0 += CHANNELS) {
        const int64_t width = c - c0 < CHANNELS ? c - c0 : CHANNELS;
#pragma omp parallel
        {
            vf sum[CHANNELS / FF_VL];
            for (int64_t i = 0; i < width; i += FF_VL)
                sum[i / FF_VL] = v_zero();
            int64_t first, last;
            tile_share(rows, &first, &last);
            for (int64_t r = first; r < last; r++)
                for (int64_t i = 0; i < width; i += FF_VL) {
                    const int64_t at = r * c + c0 + i, n = width - i;
                    const vf bias = gate_bias == NULL ? v_zero() : tile_load(gate_bias + c0 + i, n);
                    const vf s = v_sigmoid(tile_load(gate + at, n) + bias), dy = tile_load(grad_out + at, n);
                    const vf dg = dy * tile_load(x + at, n) * s * (v_set1(1.0f) - s);
                    store_part(grad_x + at, v_fma(dy, s, tile_load(grad_x + at, n)), n);
                    store_part(grad_gate + at, tile_load(grad_gate + at, n) + dg, n);
                    sum[i / FF_VL] += dg;
                }
            if (grad_gate_bias != NULL) {
#pragma omp for ordered schedule(static, 1)
                for (int t = 0; t < omp_get_num_threads(); t++) {
#pragma omp ordered
                    for (int64_t i = 0; i < width; i += FF_VL)
                        store_part(grad_gate_bias + c0 + i, tile_load(grad_gate_bias + c0 + i, width - i) + sum[i / FF_VL],
                                   width - i);
                }
            }
        }
    }
}

/* Both halves of the 64-bit products of 32-bit lanes. */
FF_INLINE void multiply_wide(vu x, uint32_t by, vu *high, vu *low)
{
#if FF_SIMD_512
    const __m512i m = _mm512_set1_epi32((int)by), even = _mm512_mul_epu32((__m512i)x, m);
    const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64((__m512i)x, 32), m);
    *high = (vu)_mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 32), odd);
    *low = (vu)_mm512_mask_blend_epi32(0xaaaa, even, _mm512_slli_epi64(odd, 32));
#elif FF_SIMD_256
    const __m256i m = _mm256_set1_epi32((int)by), even = _mm256_mul_epu32((__m256i)x, m);
    const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64((__m256i)x, 32), m);
    *high = (vu)_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
    *low = (vu)_mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
#else
    for (int i = 0; i < FF_VL; i++) {
        const uint64_t p = (uint64_t)x[i] * by;
        (*high)[i] = (uint32_t)(p >> 32);
        (*low)[i] = (uint32_t)p;
    }
#endif
}

/* Multipliers of the BLOCK_WORDS elements from block `block` on: ff_random_block of core/random.c for FF_VL counters side by
 * side. */
enum { BLOCK_WORDS = 4 * FF_VL };
static void dropout_blocks(float *mask, ff_random_key key, uint64_t block, float rate, float keep)
{
    vu c[4], k0 = (vu)vi_set1((int32_t)key.seed), k1 = (vu)vi_set1((int32_t)(key.seed >> 32));
    c[2] = (vu)vi_set1((int32_t)key.stream);
    c[3] = (vu)vi_set1((int32_t)(key.stream >> 32));
    for (int i = 0; i < FF_VL; i++) {
        c[0][i] = (uint32_t)(block + (uint64_t)i);
        c[1][i] = (uint32_t)((block + (uint64_t)i) >> 32);
    }
    for (int round = 0; round < 10; round++) {
        vu high0, low0, high1, low1;
        multiply_wide(c[0], UINT32_C(0xD2511F53), &high0, &low0);
        multiply_wide(c[2], UINT32_C(0xCD9E8D57), &high1, &low1);
        c[0] = high1 ^ c[1] ^ k0;
        c[2] = high0 ^ c[3] ^ k1;
        c[1] = low1;
        c[3] = low0;
        k0 += UINT32_C(0x9E3779B9);
        k1 += UINT32_C(0xBB67AE85);
    }
    uint32_t words[4][FF_VL];
    for (int w = 0; w < 4; w++)
        vi_store(words[w], (vi)c[w]);
    for (int i = 0; i < FF_VL; i++)
        for (int w = 0; w < 4; w++)
            mask[4 * i + w] = (float)(int32_t)(words[w][i] >> 8) * 0x1p-24f < rate ? 0.0f : keep;
}

static void dropout_mask(float *mask, ff_random_key key, float rate, int64_t first, int64_t n)
{
    const float keep = 1.0f / (1.0f - rate);
    const int64_t start = first / 4 * 4, groups = (first + n - start + BLOCK_WORDS - 1) / BLOCK_WORDS;
#pragma omp parallel for schedule(static)
    for (int64_t g = 0; g < groups; g++) {
        const int64_t at = start + g * BLOCK_WORDS; /* the group's first element */
        if (at >= first && at + BLOCK_WORDS <= first + n) {
            dropout_blocks(mask + (at - first), key, (uint64_t)at / 4, rate, keep);
            continue;
        }
        float part[BLOCK_WORDS];
        dropout_blocks(part, key, (uint64_t)at / 4, rate, keep);
        for (int64_t i = 0; i < BLOCK_WORDS; i++)
            if (at + i >= first && at + i < first + n)
                mask[at + i - first] = part[i];
    }
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

/* One position's channels; `past`: past the caches (d aligned, c whole vectors). */
FF_INLINE void copy_channels(float *d, const float *s, const float *next, int64_t c, bool accumulate, bool past)
{
    for (int64_t k = 0; k < c; k += FF_VL) {
        __builtin_prefetch(next + k, 0, 3);
        vf v = tile_load(s + k, c - k);
        if (accumulate)
            v += tile_load(d + k, c - k);
#if FF_SIMD_512
        if (past) {
            _mm512_stream_ps(d + k, (__m512)v);
            continue;
        }
#elif FF_SIMD_256
        if (past) {
            _mm256_stream_ps(d + k, (__m256)v);
            continue;
        }
#endif
        store_part(d + k, v, c - k);
    }
    (void)past;
}

static void transpose(float *dst, const float *src, int64_t num_i, int64_t num_j, int64_t c, bool accumulate)
{
    enum { BLOCK = 32, AHEAD = 8, CACHE_BYTES = 8 << 20 };
    const int64_t blocks = (num_j + BLOCK - 1) / BLOCK;
    const bool past = !accumulate && c % FF_VL == 0 && (uintptr_t)dst % 64 == 0 &&
                      num_i * num_j * c > CACHE_BYTES / (int64_t)sizeof(float);
#pragma omp parallel
    {
        int64_t first, last;
        tile_share(blocks, &first, &last);
        for (int64_t b = first; b < last; b++)
            for (int64_t i0 = 0; i0 < num_i; i0 += BLOCK)
                for (int64_t j = b * BLOCK; j < (b + 1) * BLOCK && j < num_j; j++)
                    for (int64_t i = i0; i < i0 + BLOCK && i < num_i; i++)
                        copy_channels(dst + (j * num_i + i) * c, src + (i * num_j + j) * c,
                                      src + ((i + AHEAD < num_i ? i + AHEAD : i) * num_j + j) * c, c, accumulate, past);
#if FF_SIMD_512 || FF_SIMD_256
        if (past)
            _mm_sfence();
#endif
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
