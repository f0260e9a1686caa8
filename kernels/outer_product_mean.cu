/* outer_product_mean.cu - CUDA side of the table's outer_product_mean entries (Suppl. Alg. 10).
 *
 * project    left[i, c, s], right[j, s, e]: both projections of LN(msa) are one product; mask and bias as it is stored
 * product    by chunks of rows i whose outer products [positions, c_outer^2] stay in the L2 cache: one product over
 *            sequences makes them, the next multiplies them by output_w and ends in (+ bias) / norm + residual
 * backward   by the same chunks: outer products again, their gradient (grad_out / norm) output_w^T, and from it left and
 *            right; chunks follow each other, so that sums have one order */
#include "kernels/norm.cuh"

namespace
{

typedef ff_outer_product_mean_params Params;
typedef ff_outer_product_project_args ProjectArgs;
typedef ff_outer_product_args Args;

constexpr float NORM_EPSILON = 1e-3f;
constexpr int64_t CHUNK_BYTES = 24 << 20; /* of outer products: half of an L2 cache */

/* ---- 1. project ---- */

/* Row r of the product is residue r / num_seq, sequence r % num_seq. */
ff_rows msa_rows(const ProjectArgs &a) { return ff_rows::make(a.num_seq, a.stride_res, a.stride_seq); }

struct Mask {
    const float *mask;
    ff_rows rows;

    FF_DEVICE float at(int64_t r) const { return mask == nullptr ? 1.0f : mask[rows.offset(r)]; }
};

Mask make_mask(const ProjectArgs &a)
{
    return {a.mask, ff_rows::make(a.num_seq, a.mask_stride_res, a.mask_stride_seq)};
}

template <class T>
struct ProjectProblem : ff_matmul_traits {
    ff_normed msa;
    Params w;
    Mask mask;
    T *left_out, *right_out;
    int64_t num_seq, c;

    FF_DEVICE float left(int, int64_t, int64_t r, int64_t k) const { return msa.value(r, k); }
    FF_DEVICE float right(int, int64_t, int64_t k, int64_t n) const
    {
        return n < c ? w.left_projection_w[k * c + n] : w.right_projection_w[k * c + n - c];
    }
    FF_DEVICE void store(int64_t, int64_t r, int64_t n, const float (&value)[1]) const
    {
        const float bias = n < c ? w.left_projection_b[n] : w.right_projection_b[n - c];
        const T result = ff_from_float<T>(mask.at(r) * (value[0] + bias));
        if (n < c)
            left_out[(r / num_seq * c + n) * num_seq + r % num_seq] = result;
        else
            right_out[r * c + n - c] = result;
    }
};

template <class T>
void project_forward(void *left, void *right, const float *msa, const Params *w,
                     const ProjectArgs *args, void *scratch)
{
    const int64_t rows = args->num_res * args->num_seq;
    ProjectProblem<T> p;
    p.msa = ff_measure(static_cast<float2 *>(scratch), msa, msa_rows(*args), 0, rows, args->c_m,
                       w->norm_scale, w->norm_offset);
    p.w = *w;
    p.mask = make_mask(*args);
    p.left_out = static_cast<T *>(left);
    p.right_out = static_cast<T *>(right);
    p.num_seq = args->num_seq;
    p.c = args->c_outer;
    ff_matmul<T>(p, 1, rows, 2 * args->c_outer, args->c_m);
}

/* Gradients of both projections as rows [2 c_outer], from the arrays the product's backward made. */
struct ProjectedGradient {
    static constexpr int kValues = 1;
    const float *grad_left, *grad_right;
    Mask mask;
    int64_t num_seq, c, first;

    FF_DEVICE float value(int64_t r, int64_t n) const
    {
        const int64_t row = first + r;
        const float g = n < c ? grad_left[(row / num_seq * c + n) * num_seq + row % num_seq]
                              : grad_right[row * c + n - c];
        return mask.at(row) * g;
    }
    FF_DEVICE void values(int64_t r, int64_t n, float (&v)[1]) const { v[0] = value(r, n); }
};

struct ProjectNormGradient : ff_matmul_traits {
    static constexpr bool kRightDeep = true;
    ProjectedGradient from;
    Params w;
    float *grad_norm;
    int64_t c_m;

    FF_DEVICE float left(int, int64_t, int64_t r, int64_t k) const { return from.value(r, k); }
    FF_DEVICE float right(int, int64_t, int64_t k, int64_t n) const
    {
        const int64_t c = from.c;
        return k < c ? w.left_projection_w[n * c + k] : w.right_projection_w[n * c + k - c];
    }
    FF_DEVICE void store(int64_t, int64_t r, int64_t n, const float (&value)[1]) const
    {
        grad_norm[r * c_m + n] = value[0];
    }
};

struct ProjectScratch {
    float2 *stats;
    float *grad_norm, *parts;

    size_t carve(const ProjectArgs &a, bool backward, void *base)
    {
        ff_arena arena = {static_cast<char *>(base), 0};
        const int64_t all = a.num_res * a.num_seq, rows = backward ? ff_min(all, FF_ROW_CHUNK) : all;
        stats = arena.take<float2>(rows);
        if (!backward)
            return arena.used;
        grad_norm = arena.take<float>(rows * a.c_m);
        parts = arena.take<float>(ff_max(ff_parts_size(a.c_m, 2 * a.c_outer, rows),
                                         ff_sum_parts_size(rows, ff_max(2 * a.c_outer, 2 * a.c_m), 1)));
        return arena.used;
    }
};

template <class T>
void project_backward(float *grad_msa, const Params *grad_w, const float *grad_left,
                      const float *grad_right, const float *msa, const Params *w,
                      const ProjectArgs *args, void *scratch)
{
    const int64_t all = args->num_res * args->num_seq, c = args->c_outer;
    ProjectScratch s;
    s.carve(*args, true, scratch);
    for (int64_t first = 0; first < all; first += FF_ROW_CHUNK) {
        const int64_t rows = ff_min(FF_ROW_CHUNK, all - first);
        const ff_normed normed = ff_measure(s.stats, msa, msa_rows(*args), first, rows, args->c_m,
                                            w->norm_scale, w->norm_offset);
        ProjectNormGradient p;
        p.from = ProjectedGradient{grad_left, grad_right, make_mask(*args), args->num_seq, c, first};
        p.w = *w;
        p.grad_norm = s.grad_norm;
        p.c_m = args->c_m;
        ff_matmul<T>(p, 1, rows, args->c_m, 2 * c);
        if (grad_w != nullptr) {
            ff_reduce_target weights = {}, biases = {};
            weights.add(grad_w->left_projection_w, c, c);
            weights.add(grad_w->right_projection_w, c, c);
            biases.add(grad_w->left_projection_b, c, c);
            biases.add(grad_w->right_projection_b, c, c);
            ff_weight_gradient<T>(weights, normed, p.from, args->c_m, 2 * c, rows, s.parts);
            ff_column_sums(biases, p.from, rows, 2 * c, s.parts);
            ff_norm_gradients(grad_w->norm_scale, grad_w->norm_offset, s.grad_norm, normed, rows,
                              args->c_m, s.parts);
        }
        ff_norm_backward(grad_msa, s.grad_norm, nullptr, normed, rows, args->c_m);
    }
}

size_t project_scratch_bytes(const ProjectArgs *args, bool backward)
{
    ProjectScratch s;
    return s.carve(*args, backward, nullptr);
}

/* ---- 2. product ---- */

/* outer[i, j, c, e] = sum_s left[i, c, s] right[j, s, e] for rows i of a chunk: a product [i c, s] [s, j e] */
template <class T>
struct OuterProblem : ff_matmul_traits {
    const T *left_in, *right_in; /* left from the chunk's first row */
    T *outer;
    int64_t num_seq, num_res_j, c;

    FF_DEVICE float left(int, int64_t, int64_t row, int64_t s) const
    {
        return ff_to_float(left_in[row * num_seq + s]);
    }
    FF_DEVICE float right(int, int64_t, int64_t s, int64_t column) const
    {
        return ff_to_float(right_in[(column / c * num_seq + s) * c + column % c]);
    }
    FF_DEVICE void store(int64_t, int64_t row, int64_t column, const float (&value)[1]) const
    {
        const int64_t position = row / c * num_res_j + column / c;
        outer[(position * c + row % c) * c + column % c] = ff_from_float<T>(value[0]);
    }
};

/* inverse_norm[i, j] = 1 / (1e-3 + sum_s mask[i, s] mask[j, s]) */
struct NormProblem : ff_matmul_traits {
    static constexpr bool kRightDeep = true;
    const float *mask_i, *mask_j;
    float *inverse_norm;
    int64_t num_seq, num_res_j;

    FF_DEVICE float left(int, int64_t, int64_t i, int64_t s) const { return mask_i[i * num_seq + s]; }
    FF_DEVICE float right(int, int64_t, int64_t s, int64_t j) const { return mask_j[j * num_seq + s]; }
    FF_DEVICE void store(int64_t, int64_t i, int64_t j, const float (&value)[1]) const
    {
        inverse_norm[i * num_res_j + j] = 1.0f / (NORM_EPSILON + value[0]);
    }
};

/* out = residual + (outer output_w + output_b) inverse_norm */
template <class T>
struct OutProblem : ff_matmul_traits {
    const T *outer;
    Params w;
    const float *inverse_norm, *pair;
    float *out;
    ff_rows rows;
    int64_t cc, c_z;
    bool residual;

    FF_DEVICE float left(int, int64_t, int64_t r, int64_t k) const
    {
        return ff_to_float(outer[r * cc + k]);
    }
    FF_DEVICE float right(int, int64_t, int64_t k, int64_t n) const { return w.output_w[k * c_z + n]; }
    FF_DEVICE void store(int64_t, int64_t r, int64_t n, const float (&value)[1]) const
    {
        const int64_t at = rows.offset(r) + n;
        const float update = (value[0] + w.output_b[n]) * inverse_norm[r];
        out[at] = residual ? pair[at] + update : update;
    }
};

template <class T>
struct ProductScratch {
    T *outer, *grad_outer;
    float *inverse_norm, *parts;
    int64_t chunk; /* rows i */

    size_t carve(const Args &a, bool backward, void *base)
    {
        ff_arena arena = {static_cast<char *>(base), 0};
        const int64_t cc = a.c_outer * a.c_outer, row = a.num_res_j * cc;
        chunk = ff_max(1, ff_min(a.num_res_i,
                                 CHUNK_BYTES / ff_max(1, row * static_cast<int64_t>(sizeof(T)))));
        outer = arena.take<T>(chunk * row);
        inverse_norm = arena.take<float>(chunk * a.num_res_j);
        if (!backward)
            return arena.used;
        const int64_t positions = chunk * a.num_res_j;
        grad_outer = arena.take<T>(chunk * row);
        parts = arena.take<float>(
            ff_max(ff_parts_size(cc, a.c_z, positions), ff_sum_parts_size(positions, a.c_z, 1)));
        return arena.used;
    }
};

/* Outer products and norms of rows first .. first + rows - 1. */
template <class T>
void make_outer(const ProductScratch<T> &s, const T *left, const T *right, const Args *args,
                int64_t first, int64_t rows)
{
    const int64_t c = args->c_outer, num_j = args->num_res_j;
    OuterProblem<T> o;
    o.left_in = left + first * c * args->num_seq;
    o.right_in = right;
    o.outer = s.outer;
    o.num_seq = args->num_seq;
    o.num_res_j = num_j;
    o.c = c;
    ff_matmul<T>(o, 1, rows * c, num_j * c, args->num_seq);
    NormProblem n;
    n.mask_i = args->mask_i + first * args->num_seq;
    n.mask_j = args->mask_j;
    n.inverse_norm = s.inverse_norm;
    n.num_seq = args->num_seq;
    n.num_res_j = num_j;
    ff_matmul<T>(n, 1, rows, num_j, args->num_seq); /* zeros and ones: exact in any type */
}

template <class T>
void product_forward(float *out, const float *pair, const void *left, const void *right,
                     const Params *w, const Args *args, void *scratch)
{
    ProductScratch<T> s;
    s.carve(*args, false, scratch);
    for (int64_t first = 0; first < args->num_res_i; first += s.chunk) {
        const int64_t rows = ff_min(s.chunk, args->num_res_i - first), at = first * args->stride_i;
        make_outer<T>(s, static_cast<const T *>(left), static_cast<const T *>(right), args, first,
                      rows);
        OutProblem<T> p;
        p.outer = s.outer;
        p.w = *w;
        p.inverse_norm = s.inverse_norm;
        p.pair = args->residual ? pair + at : nullptr;
        p.out = out + at;
        p.rows = ff_rows::make(args->num_res_j, args->stride_i, args->stride_j);
        p.cc = args->c_outer * args->c_outer;
        p.c_z = args->c_z;
        p.residual = args->residual;
        ff_matmul<T>(p, 1, rows * args->num_res_j, args->c_z, p.cc);
    }
}

/* grad_out / norm: row r is a position of the chunk. */
struct UpdateGradient {
    static constexpr int kValues = 1;
    const float *grad_out, *inverse_norm;
    ff_rows rows;

    FF_DEVICE float value(int64_t r, int64_t c) const
    {
        return grad_out[rows.offset(r) + c] * inverse_norm[r];
    }
    FF_DEVICE void values(int64_t r, int64_t c, float (&v)[1]) const { v[0] = value(r, c); }
};

template <class T>
struct OuterGradient : ff_matmul_traits {
    static constexpr bool kRightDeep = true;
    UpdateGradient update;
    const float *output_w;
    T *grad_outer;
    int64_t cc, c_z;

    FF_DEVICE float left(int, int64_t, int64_t r, int64_t k) const { return update.value(r, k); }
    FF_DEVICE float right(int, int64_t, int64_t k, int64_t n) const { return output_w[n * c_z + k]; }
    FF_DEVICE void store(int64_t, int64_t r, int64_t n, const float (&value)[1]) const
    {
        grad_outer[r * cc + n] = ff_from_float<T>(value[0]);
    }
};

/* grad_left[(i, c), s] += sum_(j, e) grad_outer[i, j, c, e] right[j, s, e]; and with the sides exchanged
 * grad_right[j, s, e] += sum_(i, c) grad_outer[i, j, c, e] left[i, c, s], with rows s and columns (j, e). */
template <class T>
struct LeftGradient : ff_matmul_traits {
    static constexpr bool kRightDeep = true;
    const T *grad_outer, *right_in;
    float *grad_left;
    int64_t num_seq, num_res_j, c;

    FF_DEVICE float left(int, int64_t, int64_t row, int64_t k) const
    {
        const int64_t position = row / c * num_res_j + k / c;
        return ff_to_float(grad_outer[(position * c + row % c) * c + k % c]);
    }
    FF_DEVICE float right(int, int64_t, int64_t k, int64_t s) const
    {
        return ff_to_float(right_in[(k / c * num_seq + s) * c + k % c]);
    }
    FF_DEVICE void store(int64_t, int64_t row, int64_t s, const float (&value)[1]) const
    {
        grad_left[row * num_seq + s] += value[0];
    }
};

template <class T>
struct RightGradient : ff_matmul_traits {
    static constexpr bool kLeftDeep = false;
    const T *grad_outer, *left_in;
    float *grad_right;
    int64_t num_seq, num_res_j, c;

    FF_DEVICE float left(int, int64_t, int64_t s, int64_t k) const
    {
        return ff_to_float(left_in[k * num_seq + s]);
    }
    FF_DEVICE float right(int, int64_t, int64_t k, int64_t column) const
    {
        const int64_t position = k / c * num_res_j + column / c;
        return ff_to_float(grad_outer[(position * c + k % c) * c + column % c]);
    }
    FF_DEVICE void store(int64_t, int64_t s, int64_t column, const float (&value)[1]) const
    {
        grad_right[(column / c * num_seq + s) * c + column % c] += value[0];
    }
};

/* Left's and right's gradients from a chunk's grad_outer. */
template <class T>
void side_gradients(float *grad_left, float *grad_right, const ProductScratch<T> &s, const T *left,
                    const T *right, const Args *args, int64_t first, int64_t rows)
{
    const int64_t c = args->c_outer, num_j = args->num_res_j, skip = first * c * args->num_seq;
    LeftGradient<T> l;
    l.grad_outer = s.grad_outer;
    l.right_in = right;
    l.grad_left = grad_left + skip;
    l.num_seq = args->num_seq;
    l.num_res_j = num_j;
    l.c = c;
    ff_matmul<T>(l, 1, rows * c, args->num_seq, num_j * c);
    RightGradient<T> r;
    r.grad_outer = s.grad_outer;
    r.left_in = left + skip;
    r.grad_right = grad_right;
    r.num_seq = args->num_seq;
    r.num_res_j = num_j;
    r.c = c;
    ff_matmul<T>(r, 1, args->num_seq, num_j * c, rows * c);
}

template <class T>
void product_backward(float *grad_left, float *grad_right, const Params *grad_w,
                      const float *grad_out, const void *left_in, const void *right_in,
                      const Params *w, const Args *args, void *scratch)
{
    const T *left = static_cast<const T *>(left_in), *right = static_cast<const T *>(right_in);
    const int64_t cc = args->c_outer * args->c_outer;
    ProductScratch<T> s;
    s.carve(*args, true, scratch);
    for (int64_t first = 0; first < args->num_res_i; first += s.chunk) {
        const int64_t rows = ff_min(s.chunk, args->num_res_i - first);
        const int64_t positions = rows * args->num_res_j;
        make_outer<T>(s, left, right, args, first, rows);
        OuterGradient<T> p;
        p.update = UpdateGradient{grad_out + first * args->stride_i, s.inverse_norm,
                                  ff_rows::make(args->num_res_j, args->stride_i, args->stride_j)};
        p.output_w = w->output_w;
        p.grad_outer = s.grad_outer;
        p.cc = cc;
        p.c_z = args->c_z;
        ff_matmul<T>(p, 1, positions, cc, args->c_z);
        if (grad_w != nullptr) {
            ff_reduce_target weights = {}, bias = {};
            weights.add(grad_w->output_w, args->c_z, args->c_z);
            bias.add(grad_w->output_b, args->c_z, args->c_z);
            ff_weight_gradient<T>(weights, ff_matrix<T>{s.outer, cc}, p.update, cc, args->c_z,
                                  positions, s.parts);
            ff_column_sums(bias, p.update, positions, args->c_z, s.parts);
        }
        side_gradients<T>(grad_left, grad_right, s, left, right, args, first, rows);
    }
}

template <class T>
size_t product_scratch_bytes(const Args *args, bool backward)
{
    ProductScratch<T> s;
    return s.carve(*args, backward, nullptr);
}

template <class T>
void fill(ff_kernels *table)
{
    table->outer_product_mean_project_forward = project_forward<T>;
    table->outer_product_mean_project_backward = project_backward<T>;
    table->outer_product_mean_project_scratch_bytes = project_scratch_bytes;
    table->outer_product_mean_product_forward = product_forward<T>;
    table->outer_product_mean_product_backward = product_backward<T>;
    table->outer_product_mean_product_scratch_bytes = product_scratch_bytes<T>;
}

} /* namespace */

extern "C" void FF_ENTRY(fill_outer_product_mean)(ff_kernels *table)
{
    if (table->dtype == FF_DTYPE_BF16)
        fill<ff_bf16>(table);
    else
        fill<float>(table);
}
