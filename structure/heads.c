/* Contents: names; heads; confidences. */
#include "structure/heads.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dap/dap.h"
#include "evoformer/primitives.h"

/* ---- names ---- */

ff_heads_config ff_heads_config_default(int64_t c_m, int64_t c_z, int64_t c_s, int64_t num_channel, bool ptm)
{
    return (ff_heads_config){.c_m = c_m,
                             .c_z = c_z,
                             .c_s = c_s,
                             .num_channel = num_channel,
                             .masked_msa_num_output = 23,
                             .distogram_num_bins = 64,
                             .distogram_first_break = 2.3125,
                             .distogram_last_break = 21.6875,
                             .plddt_num_bins = 50,
                             .plddt_num_channels = 128,
                             .pae_num_bins = ptm ? 64 : 0,
                             .pae_max_error_bin = 31};
}

ff_status ff_plddt_head_bind(const ff_binder *b, ff_heads *w)
{
    const ff_heads_config *g = &w->config;
    w->plddt_norm = (ff_layer_norm_layer){.c = g->num_channel};
    FF_TRY(ff_bind_layer_norm(b, "input_layer_norm", &w->plddt_norm));
    FF_TRY(ff_bind_sized_linear(b, "act_0", &w->plddt_act_0, g->num_channel, g->plddt_num_channels));
    FF_TRY(ff_bind_sized_linear(b, "act_1", &w->plddt_act_1, g->plddt_num_channels, g->plddt_num_channels));
    return ff_bind_sized_linear(b, "logits", &w->plddt_logits, g->plddt_num_channels, g->plddt_num_bins);
}

ff_status ff_heads_bind(const ff_binder *b, const ff_heads_config *config, ff_heads *w)
{
    const ff_heads_config *g = config;
    *w = (ff_heads){.config = *config};
    FF_TRY(ff_bind_sized_linear(b, "masked_msa_head/logits", &w->masked_msa, g->c_m, g->masked_msa_num_output));
    FF_TRY(ff_bind_sized_linear(b, "distogram_head/half_logits", &w->distogram, g->c_z, g->distogram_num_bins));
    FF_TRY(ff_bind_sized_linear(b, "experimentally_resolved_head/logits", &w->experimentally_resolved, g->c_s, 37));
    const ff_binder lddt = ff_binder_enter(b, "predicted_lddt_head");
    FF_TRY(ff_plddt_head_bind(&lddt, w));
    if (g->pae_num_bins > 0)
        FF_TRY(ff_bind_sized_linear(b, "predicted_aligned_error_head/logits", &w->predicted_aligned_error, g->c_z,
                           g->pae_num_bins));
    return FF_OK;
}

/* ---- heads ---- */

/* out [rows, cols, c] += x [cols, rows, c] with its first two axes exchanged */
static void add_transposed(float *out, const float *x, int64_t rows, int64_t cols, int64_t c)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            for (int64_t k = 0; k < c; k++)
                out[(i * cols + j) * c + k] += x[(j * rows + i) * c + k];
}

static void symmetrise_backward(ff_ctx *ctx, ff_node *node)
{
    const ff_tensor *g = node->outputs[0]->grad;
    float *grad = ff_data(ff_tensor_grad(ctx, node->inputs[0])), *grad_columns = ff_data(ff_tensor_grad(ctx, node->inputs[1]));
    if (!ff_computing(ctx) || grad == NULL || grad_columns == NULL)
        return;
    ctx->kernels->add_scaled(grad, ff_data(g), 1.0f, g->size);
    add_transposed(grad_columns, ff_data(g), g->shape[1], g->shape[0], g->shape[2]);
}

/* x + x^T where nobody else reads x. */
static void symmetrise_in_place(float *x, int64_t n, int64_t c)
{
#pragma omp parallel for schedule(dynamic, 16)
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++)
            for (int64_t k = 0; k < c; k++) {
                float *a = x + (i * n + j) * c + k, *b = x + (j * n + i) * c + k;
                const float sum = *a + *b;
                *a = *b = sum;
            }
}

/* x + x^T, x borrowed and split by rows; in place on one rank without a tape. */
static ff_tensor *symmetrise(ff_ctx *ctx, ff_tensor *x)
{
    if (ctx->status == FF_OK && ctx->tape == NULL && x->refs == 1 && ff_dap_size(ctx) == 1) {
        if (ff_computing(ctx))
            symmetrise_in_place(ff_data(x), x->shape[0], x->shape[2]);
        return ff_tensor_retain(x);
    }
    if (ctx->status == FF_OK && ctx->kernels->backend == FF_BACKEND_CUDA)
        FF_FAIL(ctx, FF_ERR_UNSUPPORTED, "the cuda backend has no distogram head");
    ff_tensor *columns = ctx->status == FF_OK ? ff_dap_all_to_all(ctx, ff_tensor_retain(x), 0, x->shape[1], 1, x->shape[1]) : NULL;
    ff_tensor *inputs[] = {x, columns}, *out = ctx->status == FF_OK ? ff_tensor_copy(ctx, x) : NULL;
    if (ff_computing(ctx))
        add_transposed(ff_data(out), ff_data(columns), x->shape[0], x->shape[1], x->shape[2]);
    if (ctx->status == FF_OK && ff_module_recorded(ctx, false, inputs, 2))
        ff_tape_add(ctx, "symmetrise", symmetrise_backward, inputs, 2, &out, 1, NULL, 0, NULL, 0);
    return ff_module_end(ctx, columns, out);
}

ff_tensor *ff_distogram_head(ff_ctx *ctx, const ff_linear_layer *half_logits, ff_tensor *pair)
{
    const ff_kernels *outer = ff_module_enter_float32(ctx);
    ff_tensor *half = ff_linear_sharded(ctx, half_logits, pair, false), *out = symmetrise(ctx, half);
    ff_tensor_release(half);
    ctx->kernels = outer;
    return out;
}

ff_tensor *ff_plddt_head(ff_ctx *ctx, const ff_heads *w, ff_tensor *act)
{
    const ff_kernels *outer = ff_module_enter_float32(ctx);
    ff_tensor *x = ff_layer_norm(ctx, &w->plddt_norm, act);
    ff_tensor *a = ff_linear(ctx, &w->plddt_act_0, x, true), *b = ff_linear(ctx, &w->plddt_act_1, a, true);
    ff_tensor *out = ff_linear(ctx, &w->plddt_logits, b, false);
    ff_tensor_release(x);
    ff_tensor_release(a);
    ff_tensor_release(b);
    ctx->kernels = outer;
    return out;
}

ff_status ff_heads_forward(ff_ctx *ctx, const ff_heads *w, ff_tensor *msa, ff_tensor *pair, ff_tensor *single,
                           ff_tensor *structure_act, ff_heads_output *out)
{
    *out = (ff_heads_output){0};
    const ff_kernels *outer = ff_module_enter_float32(ctx);
    out->masked_msa = ff_linear_sharded(ctx, &w->masked_msa, msa, false);
    out->distogram = ff_distogram_head(ctx, &w->distogram, pair);
    out->experimentally_resolved = ff_linear(ctx, &w->experimentally_resolved, single, false);
    out->predicted_lddt = ff_plddt_head(ctx, w, structure_act);
    if (w->config.pae_num_bins > 0)
        out->predicted_aligned_error = ff_linear_sharded(ctx, &w->predicted_aligned_error, pair, false);
    ctx->kernels = outer;
    return ctx->status;
}

void ff_heads_output_release(ff_heads_output *out)
{
    ff_tensor_release(out->masked_msa);
    ff_tensor_release(out->distogram);
    ff_tensor_release(out->experimentally_resolved);
    ff_tensor_release(out->predicted_lddt);
    ff_tensor_release(out->predicted_aligned_error);
    *out = (ff_heads_output){0};
}

/* ---- confidences ---- */

enum { MAX_BINS = 256 };

void ff_bin_edges(float *edges, double first, double last, int64_t num_bins)
{
    for (int64_t k = 0; k + 1 < num_bins; k++)
        edges[k] = (float)(num_bins > 2 ? first + (last - first) * (double)k / (double)(num_bins - 2) : first);
}

/* Softmax of one row in double; num_bins <= MAX_BINS. */
static void probabilities(double *p, const float *logits, int64_t num_bins)
{
    double max = logits[0], sum = 0;
    for (int64_t k = 1; k < num_bins; k++)
        max = fmax(max, logits[k]);
    for (int64_t k = 0; k < num_bins; k++)
        sum += p[k] = exp(logits[k] - max);
    for (int64_t k = 0; k < num_bins; k++)
        p[k] /= sum;
}

double ff_plddt(float *plddt, const float *logits, int64_t num_res, int64_t num_bins)
{
    double total = 0;
    for (int64_t i = 0; i < num_res; i++) {
        double p[MAX_BINS], sum = 0;
        probabilities(p, logits + i * num_bins, num_bins);
        for (int64_t k = 0; k < num_bins; k++)
            sum += p[k] * ((double)k + 0.5);
        plddt[i] = (float)(100 * sum / (double)num_bins);
        total += 100 * sum / (double)num_bins;
    }
    return num_res > 0 ? total / (double)num_res : 0;
}

/* Centres of error bins: half a step past each edge, and one more. */
static void bin_centres(double *centres, const float *breaks, int64_t num_bins)
{
    const double step = num_bins > 2 ? (double)breaks[1] - breaks[0] : 0;
    for (int64_t k = 0; k + 1 < num_bins; k++)
        centres[k] = breaks[k] + step / 2;
    if (num_bins > 1)
        centres[num_bins - 1] = centres[num_bins - 2] + step;
}

double ff_predicted_aligned_error(float *pae, float *probs, const float *logits, const float *breaks, int64_t num_res,
                                  int64_t num_bins)
{
    double centres[MAX_BINS] = {0};
    bin_centres(centres, breaks, num_bins);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < num_res * num_res; i++) {
        double p[MAX_BINS], sum = 0;
        probabilities(p, logits + i * num_bins, num_bins);
        for (int64_t k = 0; k < num_bins; k++) {
            sum += p[k] * centres[k];
            if (probs != NULL)
                probs[i * num_bins + k] = (float)p[k];
        }
        pae[i] = (float)sum;
    }
    return centres[num_bins - 1];
}

double ff_predicted_tm_score(const float *logits, const float *breaks, int64_t num_res, int64_t num_bins)
{
    double centres[MAX_BINS] = {0}, term[MAX_BINS], best = 0;
    const double n = (double)(num_res > 19 ? num_res : 19), d0 = 1.24 * cbrt(n - 15) - 1.8;
    bin_centres(centres, breaks, num_bins);
    for (int64_t k = 0; k < num_bins; k++)
        term[k] = 1 / (1 + (centres[k] / d0) * (centres[k] / d0));
#pragma omp parallel for schedule(static) reduction(max : best)
    for (int64_t i = 0; i < num_res; i++) {
        double row = 0;
        for (int64_t j = 0; j < num_res; j++) {
            double p[MAX_BINS];
            probabilities(p, logits + (i * num_res + j) * num_bins, num_bins);
            for (int64_t k = 0; k < num_bins; k++)
                row += p[k] * term[k];
        }
        best = fmax(best, row / (double)num_res);
    }
    return best;
}

void ff_contact_probabilities(float *contacts, const float *logits, const float *edges, int64_t num_res, int64_t num_bins,
                              double cutoff)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < num_res * num_res; i++) {
        double p[MAX_BINS], sum = 0;
        probabilities(p, logits + i * num_bins, num_bins);
        for (int64_t k = 0; k + 1 < num_bins && edges[k] <= cutoff; k++)
            sum += p[k];
        contacts[i] = (float)sum;
    }
}
