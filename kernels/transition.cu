/* transition.cu - CUDA side of the table's transition entries.
 *
 * forward    out = x + relu(LN(x) W1 + b1) W2 + b2                                4 rows c c_hidden FLOP
 *            One launch for up to 256 channels: a block keeps 64 normalised rows in shared memory, makes 64 hidden channels
 *            at a time, and multiplies them into its rows of the result, which stay in registers; the hidden layer never
 *            reaches memory. More channels take two products with the hidden layer in scratch, by chunks of rows.
 * backward   by chunks of rows: h again, dh = (dy W2^T) [h > 0], dLN = dh W1^T; weight gradients by parts of the rows.
 *            With bf16 operands h is made again from three products of high and low halves (float32 but for 2^-16): the
 *            sign of a hidden value near 0 decides about a whole gradient entry. */
#include "kernels/norm.cuh"

namespace
{

enum { MAX_FUSED = 256, STEP = 32, HIDDEN = 64 };
constexpr int64_t CHUNK = FF_ROW_CHUNK / 2;

struct Transition {
    float *out;
    const float *x;
    ff_transition_params w;
    ff_transition_args a;
};

template <class T, int kColumns>
struct FusedTiles {
    static constexpr int kPad = ff_pad<T>::value;
    static constexpr int kStepPitch = kColumns + kPad, kHiddenPitch = HIDDEN + kPad;

    static __host__ __device__ int row_pitch(int64_t c)
    {
        return static_cast<int>((c + STEP - 1) / STEP * STEP) + kPad;
    }
    static size_t shared_bytes(int64_t c)
    {
        return sizeof(T) * (FF_TILE_ROWS * (row_pitch(c) + kHiddenPitch) + STEP * kStepPitch) +
               sizeof(ff_norm_rows);
    }
};

/* step[k][n] = weights[(first_k + k) * stride + first_n + n] for k < STEP, n < kWidth, 0 outside. */
template <class T, int kWidth>
FF_DEVICE void load_step(T *step, int pitch, const float *weights, int64_t stride, int64_t first_k,
                         int64_t num_k, int64_t first_n, int64_t num_n)
{
    for (int i = threadIdx.x; i < STEP * kWidth; i += FF_TILE_THREADS) {
        const int k = i / kWidth, n = i % kWidth;
        const bool inside = first_k + k < num_k && first_n + n < num_n;
        step[k * pitch + n] = ff_from_float<T>(
            inside ? weights[(first_k + k) * stride + first_n + n] : 0.0f);
    }
}

/* One block: 64 rows. kColumns >= c. out may be x. */
template <class T, int kColumns>
__global__ void __launch_bounds__(FF_TILE_THREADS) fused(Transition p)
{
    typedef FusedTiles<T, kColumns> Tiles;
    FF_SHARED(T, rows);
    const int64_t c = p.a.c, c_hidden = p.a.c_hidden;
    const int pitch = Tiles::row_pitch(c), warp = threadIdx.x / FF_WARP, lane = threadIdx.x % FF_WARP;
    T *hidden = rows + FF_TILE_ROWS * pitch, *step = hidden + FF_TILE_ROWS * Tiles::kHiddenPitch;
    ff_norm_rows &norm = *reinterpret_cast<ff_norm_rows *>(step + STEP * Tiles::kStepPitch);
    norm.locate(static_cast<int64_t>(blockIdx.x) * FF_TILE_ROWS, p.a.rows, 1, c, 0);
    __syncthreads();
    norm.measure(p.x, c);
    __syncthreads();
    for (int r = warp; r < FF_TILE_ROWS; r += FF_TILE_WARPS)
        for (int k = lane; k < pitch - Tiles::kPad; k += FF_WARP)
            rows[r * pitch + k] = ff_from_float<T>(
                k < c ? norm.load(p.x, p.w.norm_scale, p.w.norm_offset, r, k) : 0.0f);

    ff_warp_tile<kColumns> result;
    result.clear();
    for (int64_t h0 = 0; h0 < c_hidden; h0 += HIDDEN) {
        ff_warp_tile<HIDDEN> h;
        h.clear();
        for (int k0 = 0; k0 < c; k0 += STEP) {
            __syncthreads(); /* the step before has been used; the rows are there */
            load_step<T, HIDDEN>(step, Tiles::kStepPitch, p.w.weights1, c_hidden, k0, c, h0,
                                 c_hidden);
            __syncthreads();
            ff_multiply(h, rows + warp * 16 * pitch + k0, pitch, step, Tiles::kStepPitch, STEP);
        }
        T *own = hidden + warp * 16 * Tiles::kHiddenPitch;
#pragma unroll
        for (int n = 0; n < HIDDEN / 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int64_t column = h0 + h.column(n, e);
                const float value =
                    column < c_hidden ? fmaxf(h.value[n][e] + p.w.bias1[column], 0.0f) : 0.0f;
                own[h.row(e) * Tiles::kHiddenPitch + h.column(n, e)] = ff_from_float<T>(value);
            }
        for (int k0 = 0; k0 < HIDDEN; k0 += STEP) {
            __syncthreads();
            load_step<T, kColumns>(step, Tiles::kStepPitch, p.w.weights2, c, h0 + k0, c_hidden, 0,
                                   c);
            __syncthreads();
            ff_multiply(result, own + k0, Tiles::kHiddenPitch, step, Tiles::kStepPitch, STEP);
        }
    }
#pragma unroll
    for (int e = 0; e < 4; e++) {
        const int64_t at = norm.offset[warp * 16 + result.row(e)];
        if (at < 0)
            continue;
#pragma unroll
        for (int n = 0; n < kColumns / 8; n++) {
            const int64_t column = result.column(n, e);
            if (column >= c)
                continue;
            const float value = result.value[n][e] + p.w.bias2[column];
            p.out[at + column] = p.a.residual ? p.x[at + column] + value : value;
        }
    }
}

/* hidden = relu(LN(x) W1 + b1), of the chunk's rows. kPrecise: depth 3 c, high high + high low + low high. */
template <class T, bool kPrecise>
struct HiddenProblem : ff_matmul_traits {
    ff_normed x;
    ff_transition_params w;
    T *hidden;
    int64_t c, c_hidden;

    static FF_DEVICE float half(float value, bool low)
    {
        const float high = ff_to_float(ff_from_float<T>(value));
        return low ? value - high : high;
    }
    FF_DEVICE float left(int, int64_t, int64_t r, int64_t k) const
    {
        if (!kPrecise)
            return x.value(r, k);
        return half(x.value(r, k % c), k >= 2 * c);
    }
    FF_DEVICE float right(int, int64_t, int64_t k, int64_t n) const
    {
        if (!kPrecise)
            return w.weights1[k * c_hidden + n];
        return half(w.weights1[k % c * c_hidden + n], k >= c && k < 2 * c);
    }
    FF_DEVICE void store(int64_t, int64_t r, int64_t n, const float (&value)[1]) const
    {
        hidden[r * c_hidden + n] = ff_from_float<T>(fmaxf(value[0] + w.bias1[n], 0.0f));
    }
};

/* out = x + hidden W2 + b2 */
template <class T>
struct OutProblem : ff_matmul_traits {
    const T *hidden;
    const float *x;
    float *out;
    ff_transition_params w;
    int64_t c, c_hidden;
    bool residual;

    FF_DEVICE float left(int, int64_t, int64_t r, int64_t k) const
    {
        return ff_to_float(hidden[r * c_hidden + k]);
    }
    FF_DEVICE float right(int, int64_t, int64_t k, int64_t n) const { return w.weights2[k * c + n]; }
    FF_DEVICE void store(int64_t, int64_t r, int64_t n, const float (&value)[1]) const
    {
        const float update = value[0] + w.bias2[n];
        out[r * c + n] = residual ? x[r * c + n] + update : update;
    }
};

/* dh = (dy W2^T) [h > 0] */
template <class T>
struct HiddenGradient : ff_matmul_traits {
    static constexpr bool kRightDeep = true;
    const float *grad_out, *weights2;
    const T *hidden;
    T *grad_hidden;
    int64_t c, c_hidden;

    FF_DEVICE float left(int, int64_t, int64_t r, int64_t k) const { return grad_out[r * c + k]; }
    FF_DEVICE float right(int, int64_t, int64_t k, int64_t n) const { return weights2[n * c + k]; }
    FF_DEVICE void store(int64_t, int64_t r, int64_t n, const float (&value)[1]) const
    {
        const int64_t at = r * c_hidden + n;
        grad_hidden[at] = ff_from_float<T>(ff_to_float(hidden[at]) > 0.0f ? value[0] : 0.0f);
    }
};

/* dLN = dh W1^T */
template <class T>
struct InputGradient : ff_matmul_traits {
    static constexpr bool kRightDeep = true;
    const T *grad_hidden;
    const float *weights1;
    float *grad_norm;
    int64_t c, c_hidden;

    FF_DEVICE float left(int, int64_t, int64_t r, int64_t k) const
    {
        return ff_to_float(grad_hidden[r * c_hidden + k]);
    }
    FF_DEVICE float right(int, int64_t, int64_t k, int64_t n) const
    {
        return weights1[n * c_hidden + k];
    }
    FF_DEVICE void store(int64_t, int64_t r, int64_t n, const float (&value)[1]) const
    {
        grad_norm[r * c + n] = value[0];
    }
};

template <class T>
struct Scratch {
    float2 *stats;
    T *hidden, *grad_hidden;
    float *grad_norm, *parts;

    size_t carve(const ff_transition_args &a, bool backward, void *base)
    {
        ff_arena arena = {static_cast<char *>(base), 0};
        const int64_t rows = ff_min(a.rows, CHUNK);
        if (!backward && a.c <= MAX_FUSED)
            return 0;
        stats = arena.take<float2>(rows);
        hidden = arena.take<T>(rows * a.c_hidden);
        if (!backward)
            return arena.used;
        grad_hidden = arena.take<T>(rows * a.c_hidden);
        grad_norm = arena.take<float>(rows * a.c);
        parts = arena.take<float>(
            ff_max(ff_max(ff_parts_size(a.c, a.c_hidden, rows), ff_parts_size(a.c_hidden, a.c, rows)),
                   ff_max(ff_sum_parts_size(rows, a.c_hidden, 1), ff_sum_parts_size(rows, a.c, 2))));
        return arena.used;
    }
};

template <class T, bool kPrecise>
ff_normed make_hidden(const Scratch<T> &s, const float *x, const ff_transition_params *w,
                      const ff_transition_args *a, int64_t first, int64_t rows)
{
    HiddenProblem<T, kPrecise> p;
    p.x = ff_measure(s.stats, x, ff_rows::contiguous(a->c), first, rows, a->c, w->norm_scale,
                     w->norm_offset);
    p.w = *w;
    p.hidden = s.hidden;
    p.c = a->c;
    p.c_hidden = a->c_hidden;
    ff_matmul<T>(p, 1, rows, a->c_hidden, (kPrecise ? 3 : 1) * a->c);
    return p.x;
}

template <class T, int kColumns>
void launch_fused(const Transition &p)
{
    FF_LAUNCH((fused<T, kColumns>), static_cast<unsigned>(ff_divide_up(p.a.rows, FF_TILE_ROWS)),
              FF_TILE_THREADS, (FusedTiles<T, kColumns>::shared_bytes(p.a.c)), p);
}

template <class T>
void transition_forward(float *out, const float *x, const ff_transition_params *w,
                        const ff_transition_args *args, void *scratch)
{
    const Transition p = {out, x, *w, *args};
    const int64_t c = args->c;
    if (args->rows == 0 || c == 0)
        return;
    if (c <= 64)
        launch_fused<T, 64>(p);
    else if (c <= 128)
        launch_fused<T, 128>(p);
    else if (c <= MAX_FUSED)
        launch_fused<T, MAX_FUSED>(p);
    if (c <= MAX_FUSED)
        return;
    Scratch<T> s;
    s.carve(*args, false, scratch);
    for (int64_t first = 0; first < args->rows; first += CHUNK) {
        const int64_t rows = ff_min(CHUNK, args->rows - first);
        make_hidden<T, false>(s, x, w, args, first, rows);
        OutProblem<T> o;
        o.hidden = s.hidden;
        o.x = x + first * c;
        o.out = out + first * c;
        o.w = *w;
        o.c = c;
        o.c_hidden = args->c_hidden;
        o.residual = args->residual;
        ff_matmul<T>(o, 1, rows, c, args->c_hidden);
    }
}

template <class T>
void parameter_gradients(const ff_transition_params *g, const Scratch<T> &s, const ff_normed &x,
                         const float *grad_out, const ff_transition_args *a, int64_t rows)
{
    const int64_t c = a->c, c_hidden = a->c_hidden;
    const ff_matrix<float> dy = {grad_out, c};
    const ff_matrix<T> h = {s.hidden, c_hidden}, dh = {s.grad_hidden, c_hidden};
    ff_reduce_target w1 = {}, w2 = {}, b1 = {}, b2 = {};
    w1.add(g->weights1, c_hidden, c_hidden);
    w2.add(g->weights2, c, c);
    b1.add(g->bias1, c_hidden, c_hidden);
    b2.add(g->bias2, c, c);
    ff_weight_gradient<T>(w2, h, dy, c_hidden, c, rows, s.parts);
    ff_weight_gradient<T>(w1, x, dh, c, c_hidden, rows, s.parts);
    ff_column_sums(b1, dh, rows, c_hidden, s.parts);
    ff_column_sums(b2, dy, rows, c, s.parts);
    ff_norm_gradients(g->norm_scale, g->norm_offset, s.grad_norm, x, rows, c, s.parts);
}

template <class T>
void transition_backward(float *grad_x, const ff_transition_params *grad_w, const float *grad_out,
                         const float *x, const ff_transition_params *w,
                         const ff_transition_args *args, void *scratch)
{
    const int64_t c = args->c, c_hidden = args->c_hidden;
    Scratch<T> s;
    s.carve(*args, true, scratch);
    for (int64_t first = 0; first < args->rows && c > 0; first += CHUNK) {
        const int64_t rows = ff_min(CHUNK, args->rows - first);
        const float *dy = grad_out + first * c;
        const ff_normed normed = make_hidden<T, sizeof(T) == 2>(s, x, w, args, first, rows);
        HiddenGradient<T> h;
        h.grad_out = dy;
        h.weights2 = w->weights2;
        h.hidden = s.hidden;
        h.grad_hidden = s.grad_hidden;
        h.c = c;
        h.c_hidden = c_hidden;
        ff_matmul<T>(h, 1, rows, c_hidden, c);
        InputGradient<T> i;
        i.grad_hidden = s.grad_hidden;
        i.weights1 = w->weights1;
        i.grad_norm = s.grad_norm;
        i.c = c;
        i.c_hidden = c_hidden;
        ff_matmul<T>(i, 1, rows, c, c_hidden);
        if (grad_w != nullptr)
            parameter_gradients<T>(grad_w, s, normed, dy, args, rows);
        ff_norm_backward(grad_x, s.grad_norm,
                         args->residual && grad_x != grad_out ? grad_out : nullptr, normed, rows, c);
    }
}

template <class T>
size_t transition_scratch_bytes(const ff_transition_args *args, bool backward)
{
    Scratch<T> s;
    return s.carve(*args, backward, nullptr);
}

template <class T>
void fill(ff_kernels *table)
{
    table->transition_forward = transition_forward<T>;
    table->transition_backward = transition_backward<T>;
    table->transition_scratch_bytes = transition_scratch_bytes<T>;
}

} /* namespace */

extern "C" void FF_ENTRY(fill_transition)(ff_kernels *table)
{
    if (table->dtype == FF_DTYPE_BF16)
        fill<ff_bf16>(table);
    else
        fill<float>(table);
}
