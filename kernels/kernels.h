/* kernels.h - the kernel table: every fused operation, forward and backward, as one struct of function pointers.
 *
 * Contents
 *   1. conventions, dtypes, instruction sets, the table's selection
 *   2. primitives: layer_norm, linear, softmax, attention_core, elementwise
 *   3. gated_attention (MSA row and column, triangle start and end, plain), global_attention, pointwise_attention
 *   4. pair_bias
 *   5. transition
 *   6. triangle_multiplication: project, product, output
 *   7. outer_product_mean: project, product
 *   8. invariant_point_attention
 *   9. the table
 *
 * Conventions. Arrays are float32 and contiguous in C order unless a stride is given (strides and leading dimensions
 * count elements). "operand" arrays hold matrix-product operands in the table's dtype: table->operand_bytes each (4 in a
 * float32 table, 2 in a bf16 table). Masks are float32 (0 or 1). Any size may be 0, and then the call does what an empty
 * sum does. Kernels never allocate: `scratch` must have the bytes the matching _scratch_bytes entry returns, 64-byte
 * aligned. Backward entries ADD into their grad_ outputs (callers clear), except where "=" is said. grad pointers of
 * parameters may be NULL as a whole struct (no parameter gradients wanted). Residual updates may run in place
 * (out == residual). Sums are float32 or wider whatever the operands. Results repeat bit for bit for the same number of
 * threads. Errors: these functions cannot fail; sizes are checked by the tensor layer above.
 *
 * Where AlphaFold replaces masked logits: FF_MASKED_LOGIT; a fully masked row gives uniform weights over all keys, v gets
 * gradient, q, k and bias get none (alphafold/model/modules.py, Attention). */
#ifndef FF_KERNELS_KERNELS_H
#define FF_KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/random.h"
#include "core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ff_ctx;

/* ---- 1. selection ---- */

typedef enum { FF_DTYPE_F32 = 0, FF_DTYPE_BF16 = 1 } ff_dtype; /* of matrix-product operands; storage is float32 */

typedef enum {
    FF_ISA_NONE = -1,
    FF_ISA_PLAIN_ = 0,
    FF_ISA_AVX2_,
    FF_ISA_AVX512_,
    FF_ISA_AVX512_BF16_,
    FF_ISA_AMX_,
    FF_ISA_COUNT
} ff_isa;

typedef enum { FF_BACKEND_CPU = 0, FF_BACKEND_EMULATED, FF_BACKEND_CUDA } ff_backend;

#define FF_MASKED_LOGIT (-1e9f) /* alphafold/model/modules.py Attention: jnp.where(mask, logits, -1e9) */
#define FF_LAYER_NORM_EPSILON 1e-5f
#define FF_NARROW_CHANNELS 128

struct ff_kernels;

/** Best instruction set of this machine (CPUID and operating-system support), as built. */
ff_isa ff_isa_best(void);
const char *ff_isa_name(ff_isa isa);      /* "plain", "avx2", "avx512", "avx512_bf16", "amx" */
ff_isa ff_isa_from_name(const char *name); /* FF_ISA_NONE when unknown */

/**
 * The table of a backend. `isa` FF_ISA_NONE = the best; an instruction set the machine lacks gives FF_ERR_UNSUPPORTED with
 * a message in ctx. A float32 table asked for avx512_bf16 or amx is the avx512 one. Also limits the GEMM library.
 */
ff_status ff_kernels_get(struct ff_ctx *ctx, const struct ff_kernels **table, ff_backend backend, ff_isa isa,
                         ff_dtype dtype);

/* ---- 2. primitives ---- */

typedef struct {
    float *scale, *offset; /* [c] each */
} ff_layer_norm_params;

typedef struct {
    float *weights; /* [num_input, num_output] */
    float *bias;    /* [num_output], may be NULL */
} ff_linear_params;

/* attention on projected operands: q [batch, num_query, num_head, c], k, v [batch, num_key, num_head, c] */
typedef struct {
    int64_t batch, num_query, num_key, num_head, c_hidden;
    float scale;       /* multiplies q.k */
    const float *mask; /* [batch, num_key] or NULL */
    const float *bias; /* [num_head, num_query, num_key] or NULL */
} ff_attention_core_args;

/* ---- 3. attention ---- */

/* Parameters of AlphaFold's Attention with the layer norm before it, by AlphaFold's names. A second instance of the same
 * struct holds the gradients. */
typedef struct {
    float *query_norm_scale, *query_norm_offset; /* [c_in]; NULL = no layer norm */
    float *query_w, *key_w, *value_w;            /* [c_in, num_head, c_hidden] */
    float *gating_w, *gating_b;                  /* [c_in, num_head, c_hidden], [num_head, c_hidden]; NULL = no gate */
    float *output_w, *output_b;                  /* [num_head, c_hidden, c_out], [c_out] */
} ff_attention_params;

/* One self-attention module over `batch` independent rows of `length` positions, c_in channels in and out.
 * Element (b, l, c) of x, residual, out and their gradients lies at b * stride_batch + l * stride_length + c, so that rows
 * and columns of one array need no transposition:
 *   MSA row      batch = sequences, length = residues    MSA column   batch = residues, length = sequences
 *   triangle starting: batch = i, length = j             triangle ending: batch = j, length = i
 * mask (b, l) lies at b * mask_stride_batch + l * mask_stride_length. */
typedef struct {
    int64_t batch, length, c_in, num_head, c_hidden;
    int64_t stride_batch, stride_length;
    const float *mask; /* keys; NULL = all ones */
    int64_t mask_stride_batch, mask_stride_length;
    const float *bias;    /* [num_head, length, length] (query, key), already in natural units; NULL = none */
    const float *dropout; /* [length, c_in] multipliers (0 or 1/keep), shared over batch; NULL = none */
    bool residual;        /* out = x + dropout * update, else out = update */
} ff_gated_attention_args;

/* What a forward pass may keep for its backward; any pointer may be NULL, then backward recomputes it. */
typedef struct {
    float *lse;   /* [batch, num_head, length] log of the softmax sum, with the maximum added */
    float *output; /* [batch, length, num_head * c_hidden]: attention result before the gate; float32 in every table, as its
                      rounding would not cancel in the logits' gradients, whose rows sum to zero */
    void *query;  /* operand [batch, num_head, length, c_hidden] scaled by c_hidden^-0.5; query, key, value are kept */
    void *key;    /* operand [batch, num_head, length, c_hidden]                          together or not at all */
    void *value;  /* operand [batch, num_head, length, c_hidden] */
} ff_gated_attention_kept;

/* Extra-MSA column attention with one global query per residue column (Alg. 19): key_w, value_w are [c_in, c_hidden].
 * q = (masked mean over sequences of LN(x), divisor sum(mask) + 1e-10) query_w c_hidden^-0.5. Layout as above with
 * batch = residues, length = sequences. */
typedef ff_gated_attention_args ff_global_attention_args; /* bias unused */

/* Template pointwise attention (Alg. 17): for each of num_pair positions one query over num_templ keys.
 * query input: pair [num_pair, c_z] as is; keys and values from templates [num_templ, num_pair, c_t] as is; no gate.
 *   out (=) residual + (sum(template_mask) > 0) * (attention output_w + output_b) */
typedef struct {
    int64_t num_pair, num_templ, c_z, c_t, num_head, c_hidden;
    const float *template_mask; /* [num_templ] */
    bool residual;
} ff_pointwise_attention_args;

/* ---- 4. pair bias ---- */

/* bias[h, i, j] = sum_c LN(pair)[i, j, c] weights[c, h]; pair element (i, j, c) at i * stride_i + j * stride_j + c */
typedef struct {
    float *norm_scale, *norm_offset; /* [c_z] (feat_2d_norm or query_norm) */
    float *weights;                  /* [c_z, num_head] feat_2d_weights */
} ff_pair_bias_params;

typedef struct {
    int64_t num_i, num_j, c_z, num_head;
    int64_t stride_i, stride_j;
    int64_t bias_stride_head, bias_stride_i; /* bias (h, i, j) at h * bias_stride_head + i * bias_stride_i + j */
} ff_pair_bias_args;

/* ---- 5. transition ---- */

typedef struct {
    float *norm_scale, *norm_offset; /* [c] input_layer_norm */
    float *weights1, *bias1;         /* [c, c_hidden], [c_hidden] transition1 */
    float *weights2, *bias2;         /* [c_hidden, c], [c] transition2 */
} ff_transition_params;

typedef struct {
    int64_t rows, c, c_hidden;
    bool residual; /* out = x + update, else out = update */
} ff_transition_args;

/* ---- 6. triangle multiplication ---- */

typedef struct {
    float *norm_scale, *norm_offset;                 /* [c_z] layer_norm_input */
    float *left_projection_w, *left_projection_b;    /* [c_z, c_hidden], [c_hidden] */
    float *right_projection_w, *right_projection_b;
    float *left_gate_w, *left_gate_b;
    float *right_gate_w, *right_gate_b;
    float *center_norm_scale, *center_norm_offset;   /* [c_hidden] center_layer_norm */
    float *output_projection_w, *output_projection_b; /* [c_hidden, c_z], [c_z] */
    float *gating_linear_w, *gating_linear_b;        /* [c_z, c_z], [c_z] */
    int64_t projection_stride; /* row stride of the four c_hidden-wide weights above: c_hidden, or 2 c_hidden when left
                                  and right are column halves of one fused array (multimer v3) */
} ff_triangle_multiplication_params;

/* pair element (i, j, c) at i * stride_i + j * stride_j + c; mask (i, j) at i * mask_stride_i + j * mask_stride_j.
 * project:  left[c, i, k] = mask LN(pair)[i, k] left_projection * sigmoid(left_gate); right likewise.
 *           Both operand arrays are [c_hidden, num_i, num_j] with channel stride num_i * num_j.
 *           The incoming update is the outgoing one on the transposed pair with left and right exchanged
 *           (t[i, j] = sum_k right'[i, k] left'[j, k] with right'[i, k] = right[k, i]), so callers pass exchanged strides
 *           and use (right, left) as the product's (a, b).
 * product:  t[c, i, j] = sum_k a[c, i, k] b[c, j, k]: rows i of one a buffer, rows j from num_blocks b buffers (a gathered
 *           shard each). t may be a itself (in place) when num_blocks rows add up to num_k (square) and nothing is kept.
 * output:   pair[i, j] += dropout[j] * (LN(t)[i, j] output_projection * sigmoid(LN(pair)[i, j] gating_linear)) */
typedef struct {
    int64_t num_i, num_j, c_z, c_hidden;
    int64_t stride_i, stride_j;
    const float *mask; /* NULL = ones */
    int64_t mask_stride_i, mask_stride_j;
    const float *dropout; /* output: [num_j, c_z] multipliers by inner position j, or NULL; for the incoming update too
                             (there the caller's strides are not exchanged in `output`) */
    bool residual;        /* output: out = pair + update, else out = update */
} ff_triangle_multiplication_args;

typedef struct {
    const void *data; /* operand [c_hidden, rows, num_k] */
    int64_t rows;
} ff_operand_block;

typedef struct {
    int64_t c_hidden, num_i, num_k;
    int64_t num_blocks;
    const ff_operand_block *blocks; /* rows j; num_j = sum of rows */
} ff_triangle_product_args;

/* ---- 7. outer product mean ---- */

typedef struct {
    float *norm_scale, *norm_offset;                /* [c_m] layer_norm_input */
    float *left_projection_w, *left_projection_b;   /* [c_m, c_outer], [c_outer] */
    float *right_projection_w, *right_projection_b;
    float *output_w, *output_b;                     /* [c_outer, c_outer, c_z], [c_z] */
} ff_outer_product_mean_params;

/* project:  left[i, c, s], right[j, s, e] (operand): mask * (LN(msa) w + b), for num_res residues and num_seq sequences;
 *           msa element (s, i, c) at s * stride_seq + i * stride_res + c, mask (s, i) likewise.
 * product:  out[i, j, f] = residual + (sum_ce (sum_s left[i, c, s] right[j, s, e]) output_w[c, e, f] + output_b[f])
 *                          / (1e-3 + sum_s mask[s, i] mask[s, j])
 *           rows i local, columns j from all num_res_j residues (right gathered: contiguous along j). */
typedef struct {
    int64_t num_seq, num_res, c_m, c_outer;
    int64_t stride_seq, stride_res;
    const float *mask;
    int64_t mask_stride_seq, mask_stride_res;
} ff_outer_product_project_args;

typedef struct {
    int64_t num_seq, num_res_i, num_res_j, c_outer, c_z;
    const float *mask_i; /* [num_res_i, num_seq]: mask[s, i] transposed, contiguous */
    const float *mask_j; /* [num_res_j, num_seq] */
    int64_t stride_i, stride_j; /* of pair / out: element (i, j, f) at i * stride_i + j * stride_j + f */
    bool residual;
} ff_outer_product_args;

/* ---- 8. invariant point attention ---- */

/* The attention of Jumper et al. 2021, Suppl. Alg. 22 lines 4-10 on projected inputs, for num_query of num_res residues. Points
 * and frames are in the units of the translation (10 Å in the structure module); a frame is a row-major rotation and a translation.
 *   logits = (3 c_scalar_qk)^-1/2 q.k - 1/2 (3 num_point_qk 9/2)^-1/2 softplus(gamma) sum |T q - T k|^2 + 3^-1/2 bias
 *            - 1e5 (1 - mask_i mask_j), softmax over residues
 *   out    = by query: scalars [num_head, c_scalar_v], points in the query's frame as all x, all y, all z [num_head, num_point_v],
 *            their lengths sqrt(1e-8 + x^2 + y^2 + z^2), sums over pair [num_head, c_z]                                          */
typedef struct {
    int64_t num_query, num_res, num_head, c_scalar_qk, c_scalar_v, num_point_qk, num_point_v, c_z;
    const float *mask_query, *mask; /* [num_query], [num_res] */
} ff_ipa_args;

/* Inputs, and in a second instance their gradients. */
typedef struct {
    float *q_scalar;     /* [num_query, num_head, c_scalar_qk] */
    float *kv_scalar;    /* [num_res, num_head, c_scalar_qk + c_scalar_v] */
    float *q_point;      /* [num_query, 3, num_head, num_point_qk] local */
    float *kv_point;     /* [num_res, 3, num_head, num_point_qk + num_point_v] local, keys first */
    float *bias;         /* [num_query, num_res, num_head] */
    float *pair;         /* [num_query, num_res, c_z] */
    float *frames_query; /* [num_query, 12] */
    float *frames;       /* [num_res, 12] */
    float *gamma;        /* [num_head] trainable_point_weights; the gradient may be NULL */
} ff_ipa_arrays;

/* ---- 9. the table ---- */

typedef struct ff_kernels {
    const char *name; /* "cpu", "emulated", "cuda" */
    ff_backend backend;
    ff_isa isa;
    ff_dtype dtype;
    size_t operand_bytes;
    const struct ff_kernels *narrow; /* the table for layers of fewer than FF_NARROW_CHANNELS channels: the float32 one of a bf16
                                        table, as bf16 there costs gradients (5-15 % on 64 channels) and saves little time;
                                        NULL = this one */

    /* y = (x - mean) / sqrt(var + 1e-5) * scale + offset over the last axis, biased variance. In place allowed. */
    void (*layer_norm_forward)(float *y, const float *x, const ff_layer_norm_params *w, int64_t rows, int64_t c);
    /* grad_x += ; grad_w may be NULL. x is the input. */
    void (*layer_norm_backward)(float *grad_x, const ff_layer_norm_params *grad_w, const float *grad_y, const float *x,
                                const ff_layer_norm_params *w, int64_t rows, int64_t c, void *scratch);
    size_t (*layer_norm_backward_scratch_bytes)(int64_t rows, int64_t c);

    /* y (=, += when accumulate) x weights + bias, through relu when asked (relu with accumulate is not offered) */
    void (*linear_forward)(float *y, const float *x, const ff_linear_params *w, int64_t rows, int64_t num_input,
                           int64_t num_output, bool relu, bool accumulate, void *scratch);
    /* grad_x may be NULL. For relu the caller passes grad_y already masked. */
    void (*linear_backward)(float *grad_x, const ff_linear_params *grad_w, const float *grad_y, const float *x,
                            const ff_linear_params *w, int64_t rows, int64_t num_input, int64_t num_output,
                            void *scratch);
    size_t (*linear_scratch_bytes)(int64_t rows, int64_t num_input, int64_t num_output);

    /* y[b, h, q, :] = softmax over keys of x[b, h, q, :] + bias[h, q, :], masked by mask[b, :]; bias, mask may be NULL.
     * In place allowed. */
    void (*softmax_forward)(float *y, const float *x, const float *mask, const float *bias, int64_t batch,
                            int64_t num_head, int64_t num_query, int64_t num_key);
    /* grad_x += y (grad_y - sum grad_y y), zero at masked keys; grad_bias[h, q, k] += sum over batch; may be NULL */
    void (*softmax_backward)(float *grad_x, float *grad_bias, const float *grad_y, const float *y, const float *mask,
                             int64_t batch, int64_t num_head, int64_t num_query, int64_t num_key);

    void (*attention_core_forward)(float *out, const float *q, const float *k, const float *v,
                                   const ff_attention_core_args *args, void *scratch);
    void (*attention_core_backward)(float *grad_q, float *grad_k, float *grad_v, float *grad_bias,
                                    const float *grad_out, const float *q, const float *k, const float *v,
                                    const ff_attention_core_args *args, void *scratch);
    size_t (*attention_core_scratch_bytes)(const ff_attention_core_args *args, bool backward);

    /* out[r, :] = residual[r, :] + dropout[r % period, :] * (x[r, :] + bias) in one pass; bias, dropout, residual may be
     * NULL. x, residual, out [rows, c]; dropout [period, c]. */
    void (*bias_dropout_residual)(float *out, const float *x, const float *bias, const float *dropout,
                                  const float *residual, int64_t rows, int64_t period, int64_t c);
    /* out = x * sigmoid(gate + gate_bias[c]) */
    void (*sigmoid_gate_forward)(float *out, const float *x, const float *gate, const float *gate_bias, int64_t rows,
                                 int64_t c);
    void (*sigmoid_gate_backward)(float *grad_x, float *grad_gate, float *grad_gate_bias, const float *grad_out,
                                  const float *x, const float *gate, const float *gate_bias, int64_t rows, int64_t c);
    /* mask[e] = 0 with probability rate, else 1 / (1 - rate), for elements first .. first + n - 1 of key */
    void (*dropout_mask)(float *mask, ff_random_key key, float rate, int64_t first, int64_t n);
    /* y += alpha * x */
    void (*add_scaled)(float *y, const float *x, float alpha, int64_t n);
    /* dst[j, i, c] = src[i, j, c] (or += when accumulate) */
    void (*transpose)(float *dst, const float *src, int64_t num_i, int64_t num_j, int64_t c, bool accumulate);

    /* layer norm, q k v gate projections, attention with bias, gate, output projection, dropout, residual: one pass.
     * 2 batch length c_in num_head c_hidden * 5 + 4 batch num_head length^2 c_hidden FLOP. keep may be NULL. */
    void (*gated_attention_forward)(float *out, const float *x, const ff_attention_params *w,
                                    const ff_gated_attention_args *args, const ff_gated_attention_kept *keep,
                                    void *scratch);
    /* grad_x += (with residual: also grad_out itself, so grad_x may start at zero; when grad_x == grad_out, in place: the
     * residual part is there already). grad_bias [num_head, length, length] += , may be NULL. */
    void (*gated_attention_backward)(float *grad_x, float *grad_bias, const ff_attention_params *grad_w,
                                     const float *grad_out, const float *x, const ff_attention_params *w,
                                     const ff_gated_attention_args *args, const ff_gated_attention_kept *kept,
                                     void *scratch);
    size_t (*gated_attention_scratch_bytes)(const ff_gated_attention_args *args, bool backward);

    void (*global_attention_forward)(float *out, const float *x, const ff_attention_params *w,
                                     const ff_global_attention_args *args, void *scratch);
    void (*global_attention_backward)(float *grad_x, const ff_attention_params *grad_w, const float *grad_out,
                                      const float *x, const ff_attention_params *w,
                                      const ff_global_attention_args *args, void *scratch);
    size_t (*global_attention_scratch_bytes)(const ff_global_attention_args *args, bool backward);

    void (*pointwise_attention_forward)(float *out, const float *pair, const float *templates,
                                        const ff_attention_params *w, const ff_pointwise_attention_args *args,
                                        void *scratch);
    void (*pointwise_attention_backward)(float *grad_pair, float *grad_templates, const ff_attention_params *grad_w,
                                         const float *grad_out, const float *pair, const float *templates,
                                         const ff_attention_params *w, const ff_pointwise_attention_args *args,
                                         void *scratch);
    size_t (*pointwise_attention_scratch_bytes)(const ff_pointwise_attention_args *args, bool backward);

    void (*pair_bias_forward)(float *bias, const float *pair, const ff_pair_bias_params *w,
                              const ff_pair_bias_args *args, void *scratch);
    void (*pair_bias_backward)(float *grad_pair, const ff_pair_bias_params *grad_w, const float *grad_bias,
                               const float *pair, const ff_pair_bias_params *w, const ff_pair_bias_args *args,
                               void *scratch);
    size_t (*pair_bias_scratch_bytes)(const ff_pair_bias_args *args, bool backward);

    /* LN, linear, relu, linear, residual by row tile. 4 rows c c_hidden FLOP. */
    void (*transition_forward)(float *out, const float *x, const ff_transition_params *w,
                               const ff_transition_args *args, void *scratch);
    /* as gated_attention_backward for grad_x; recomputes the hidden layer */
    void (*transition_backward)(float *grad_x, const ff_transition_params *grad_w, const float *grad_out,
                                const float *x, const ff_transition_params *w, const ff_transition_args *args,
                                void *scratch);
    size_t (*transition_scratch_bytes)(const ff_transition_args *args, bool backward);

    void (*triangle_multiplication_project_forward)(void *left, void *right, const float *pair,
                                                    const ff_triangle_multiplication_params *w,
                                                    const ff_triangle_multiplication_args *args, void *scratch);
    /* grad_left, grad_right: operand arrays as left, right, which are what project_forward gave (kept, or made again: the
     * product's backward needs them anyway, and with them only the gates are recomputed here); grad_pair += */
    void (*triangle_multiplication_project_backward)(float *grad_pair, const ff_triangle_multiplication_params *grad_w,
                                                     const void *grad_left, const void *grad_right, const void *left,
                                                     const void *right, const float *pair,
                                                     const ff_triangle_multiplication_params *w,
                                                     const ff_triangle_multiplication_args *args, void *scratch);
    /* t operand [c_hidden, num_i, num_j] */
    void (*triangle_multiplication_product_forward)(void *t, const void *a, const ff_triangle_product_args *args,
                                                    void *scratch);
    /* grad_a[c, i, k] = sum_j grad_t[c, i, j] b[c, j, k] ("=", operand);
     * grad_b[c, j, k] = sum_i grad_t[c, i, j] a[c, i, k] ("=", operand, one contiguous array per block, rows as blocks).
     * grad_a may be grad_t itself when num_j == num_k: each channel is done with its grad_t before it is overwritten. */
    void (*triangle_multiplication_product_backward)(void *grad_a, void *const *grad_b, const void *grad_t,
                                                     const void *a, const ff_triangle_product_args *args,
                                                     void *scratch);
    void (*triangle_multiplication_output_forward)(float *out, const float *pair, const void *t,
                                                   const ff_triangle_multiplication_params *w,
                                                   const ff_triangle_multiplication_args *args, void *scratch);
    /* grad_t "=" operand (may be t itself, in place); grad_pair += the gate's part, and the residual part as in
     * gated_attention_backward */
    void (*triangle_multiplication_output_backward)(void *grad_t, float *grad_pair,
                                                    const ff_triangle_multiplication_params *grad_w,
                                                    const float *grad_out, const float *pair, const void *t,
                                                    const ff_triangle_multiplication_params *w,
                                                    const ff_triangle_multiplication_args *args, void *scratch);
    size_t (*triangle_multiplication_scratch_bytes)(const ff_triangle_multiplication_args *args, bool backward);
    size_t (*triangle_product_scratch_bytes)(const ff_triangle_product_args *args, bool backward);

    void (*outer_product_mean_project_forward)(void *left, void *right, const float *msa,
                                               const ff_outer_product_mean_params *w,
                                               const ff_outer_product_project_args *args, void *scratch);
    /* grad_left, grad_right: float32 arrays of left's and right's shapes; grad_msa += */
    void (*outer_product_mean_project_backward)(float *grad_msa, const ff_outer_product_mean_params *grad_w,
                                                const float *grad_left, const float *grad_right, const float *msa,
                                                const ff_outer_product_mean_params *w,
                                                const ff_outer_product_project_args *args, void *scratch);
    size_t (*outer_product_mean_project_scratch_bytes)(const ff_outer_product_project_args *args, bool backward);
    void (*outer_product_mean_product_forward)(float *out, const float *pair, const void *left, const void *right,
                                               const ff_outer_product_mean_params *w,
                                               const ff_outer_product_args *args, void *scratch);
    /* grad_left, grad_right float32 +=; the residual part of grad_pair is the caller's (grad_out passes through) */
    void (*outer_product_mean_product_backward)(float *grad_left, float *grad_right,
                                                const ff_outer_product_mean_params *grad_w, const float *grad_out,
                                                const void *left, const void *right,
                                                const ff_outer_product_mean_params *w,
                                                const ff_outer_product_args *args, void *scratch);
    size_t (*outer_product_mean_product_scratch_bytes)(const ff_outer_product_args *args, bool backward);

    /* out [num_query, num_head (c_scalar_v + 4 num_point_v + c_z)]; always float32 */
    void (*invariant_point_attention_forward)(float *out, const ff_ipa_arrays *x, const ff_ipa_args *args, void *scratch);
    /* every gradient += ; grad->frames and grad->frames_query may be one array, pair's may be NULL */
    void (*invariant_point_attention_backward)(const ff_ipa_arrays *grad, const float *grad_out, const ff_ipa_arrays *x,
                                               const ff_ipa_args *args, void *scratch);
    size_t (*invariant_point_attention_scratch_bytes)(const ff_ipa_args *args, bool backward);
} ff_kernels;

#ifdef __cplusplus
}
#endif
#endif
