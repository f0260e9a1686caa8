/* Contents: operations row by row; their table; the public ones; invariant point attention. */
#include "structure/operations.h"

#include <math.h>
#include <string.h>

#include "dap/dap.h"
#include "evoformer/module.h"
#include "structure/geometry.h"
#include "structure/residue_constants.h"

/* ---- operations row by row: small double-precision functions of the numbers of one residue ---- */

enum { ROW_INPUTS = 2, ROW_OUTPUTS = 2, ROW_NUMBERS = FF_NUM_GROUPS * 12 + FF_NUM_ATOM14 * 3 };

typedef struct {
    double scale;
    const int32_t *aatype;
    const float *exists; /* NULL = as the residue type has it */
} row_values;

typedef void (*row_forward_fn)(double *const *out, double *const *in, const row_values *v, int64_t row);
typedef void (*row_backward_fn)(double *const *grad_in, double *const *grad_out, double *const *in, const row_values *v,
                                int64_t row);

typedef struct {
    const char *name;
    int num_inputs, num_outputs;
    int in[ROW_INPUTS], out[ROW_OUTPUTS]; /* numbers of a row */
    row_forward_fn forward;
    row_backward_fn backward;
} row_op;

typedef struct {
    const row_op *op;
    row_values values;
} row_node;

static void load(double *to, const float *from, int n)
{
    for (int i = 0; i < n; i++)
        to[i] = from[i];
}

/* Places of a row's numbers: inputs (or their gradients) one after the other. */
static void split(double **parts, double *numbers, const int *sizes, int n)
{
    for (int i = 0; i < n; i++) {
        parts[i] = numbers;
        numbers += sizes[i];
    }
}

static void run_forward(const row_op *op, const row_values *v, ff_tensor *const *in, ff_tensor *const *out)
{
    const int64_t rows = in[0]->size / op->in[0];
#pragma omp parallel for schedule(static) if (rows > 64)
    for (int64_t r = 0; r < rows; r++) {
        double x[ROW_NUMBERS], y[2 * ROW_NUMBERS], *xs[ROW_INPUTS], *ys[ROW_OUTPUTS];
        split(xs, x, op->in, op->num_inputs);
        split(ys, y, op->out, op->num_outputs);
        for (int i = 0; i < op->num_inputs; i++)
            load(xs[i], ff_data(in[i]) + r * op->in[i], op->in[i]);
        op->forward(ys, xs, v, r);
        for (int i = 0; i < op->num_outputs; i++)
            for (int k = 0; k < op->out[i]; k++)
                ff_data(out[i])[r * op->out[i] + k] = (float)ys[i][k];
    }
}

static void run_backward(const row_node *n, ff_node *node, float *const *grad_in)
{
    const row_op *op = n->op;
    const int64_t rows = node->inputs[0]->size / op->in[0];
#pragma omp parallel for schedule(static) if (rows > 64)
    for (int64_t r = 0; r < rows; r++) {
        double x[ROW_NUMBERS], gx[ROW_NUMBERS] = {0}, gy[2 * ROW_NUMBERS] = {0};
        double *xs[ROW_INPUTS], *gxs[ROW_INPUTS], *gys[ROW_OUTPUTS];
        split(xs, x, op->in, op->num_inputs);
        split(gxs, gx, op->in, op->num_inputs);
        split(gys, gy, op->out, op->num_outputs);
        for (int i = 0; i < op->num_inputs; i++)
            load(xs[i], ff_data(node->inputs[i]) + r * op->in[i], op->in[i]);
        for (int i = 0; i < op->num_outputs; i++)
            if (node->outputs[i]->grad != NULL)
                load(gys[i], ff_data(node->outputs[i]->grad) + r * op->out[i], op->out[i]);
        op->backward(gxs, gys, xs, &n->values, r);
        for (int i = 0; i < op->num_inputs; i++)
            for (int k = 0; k < op->in[i] && grad_in[i] != NULL; k++)
                grad_in[i][r * op->in[i] + k] += (float)gxs[i][k];
    }
}

static void row_backward(ff_ctx *ctx, ff_node *node)
{
    row_node n;
    memcpy(&n, node->args, sizeof n);
    float *grad_in[ROW_INPUTS] = {NULL};
    for (int i = 0; i < n.op->num_inputs; i++)
        grad_in[i] = ff_data(ff_tensor_grad(ctx, node->inputs[i]));
    if (ff_computing(ctx))
        run_backward(&n, node, grad_in);
    ff_module_record(ctx, n.op->name, true, 0, (double)node->inputs[0]->bytes, 0, 0);
}

/* Results in out, each NULL after a failure. Their shapes are the caller's. */
static void row_operation(ff_ctx *ctx, const row_op *op, const row_values *values, ff_tensor *const *in, ff_tensor **out)
{
    const row_node n = {op, *values};
    bool whole = ctx->status == FF_OK;
    for (int i = 0; i < op->num_outputs; i++)
        whole = whole && out[i] != NULL;
    for (int i = 0; i < op->num_inputs; i++)
        whole = whole && in[i] != NULL;
    if (whole && ctx->kernels->backend == FF_BACKEND_CUDA)
        FF_FAIL(ctx, FF_ERR_UNSUPPORTED, "the cuda backend has no %s", op->name);
    if (whole && ff_computing(ctx))
        run_forward(op, values, in, out);
    if (whole)
        ff_module_record(ctx, op->name, false, 0, (double)in[0]->bytes + (double)out[0]->bytes, 0, 0);
    if (whole && ff_module_recorded(ctx, false, in, op->num_inputs))
        ff_tape_add(ctx, op->name, row_backward, in, op->num_inputs, out, op->num_outputs, NULL, 0, &n, sizeof n);
    for (int i = 0; i < op->num_outputs; i++)
        out[i] = ff_module_end(ctx, NULL, out[i]);
}

/* ---- their table ---- */

static void to_rigids(double *const *out, double *const *in, const row_values *v, int64_t row)
{
    (void)row;
    ff_affine_to_rigid(out[0], in[0], v->scale);
}

static void to_rigids_backward(double *const *grad_in, double *const *grad_out, double *const *in, const row_values *v,
                               int64_t row)
{
    (void)row;
    ff_affine_to_rigid_backward(grad_in[0], grad_out[0], in[0], v->scale);
}

static void scale_translation(double *const *out, double *const *in, const row_values *v, int64_t row)
{
    (void)row;
    for (int i = 0; i < 7; i++)
        out[0][i] = in[0][i] * (i < 4 ? 1 : v->scale);
}

static void scale_translation_backward(double *const *grad_in, double *const *grad_out, double *const *in,
                                       const row_values *v, int64_t row)
{
    (void)in, (void)row;
    for (int i = 0; i < 7; i++)
        grad_in[0][i] += grad_out[0][i] * (i < 4 ? 1 : v->scale);
}

static void update_backbone(double *const *out, double *const *in, const row_values *v, int64_t row)
{
    (void)v, (void)row;
    ff_affine_update(out[0], in[0], in[1]);
}

static void update_backbone_backward(double *const *grad_in, double *const *grad_out, double *const *in,
                                     const row_values *v, int64_t row)
{
    (void)v, (void)row;
    ff_affine_update_backward(grad_in[0], grad_in[1], grad_out[0], in[0], in[1]);
}

static void copy_affine(double *const *out, double *const *in, const row_values *v, int64_t row)
{
    (void)v, (void)row;
    memcpy(out[0], in[0], 7 * sizeof(double));
}

static void translation_backward(double *const *grad_in, double *const *grad_out, double *const *in, const row_values *v,
                                 int64_t row)
{
    (void)in, (void)v, (void)row;
    for (int i = 4; i < 7; i++)
        grad_in[0][i] += grad_out[0][i];
}

static void normalise_torsions(double *const *out, double *const *in, const row_values *v, int64_t row)
{
    (void)v, (void)row;
    for (int t = 0; t < FF_NUM_TORSIONS; t++) {
        const double s = in[0][2 * t], c = in[0][2 * t + 1], n = sqrt(fmax(s * s + c * c, 1e-12));
        out[0][2 * t] = s / n;
        out[0][2 * t + 1] = c / n;
    }
}

static void normalise_torsions_backward(double *const *grad_in, double *const *grad_out, double *const *in,
                                        const row_values *v, int64_t row)
{
    (void)v, (void)row;
    for (int t = 0; t < FF_NUM_TORSIONS; t++) {
        const double s = in[0][2 * t], c = in[0][2 * t + 1], square = s * s + c * c, n = sqrt(fmax(square, 1e-12));
        const double gs = grad_out[0][2 * t], gc = grad_out[0][2 * t + 1];
        const double along = square > 1e-12 ? (s * gs + c * gc) / (n * n * n) : 0; /* below the floor n is a constant */
        grad_in[0][2 * t] += gs / n - s * along;
        grad_in[0][2 * t + 1] += gc / n - c * along;
    }
}

static void place_atoms(double *const *out, double *const *in, const row_values *v, int64_t row)
{
    double(*frames)[12] = (void *)out[0], (*atoms)[3] = (void *)out[1], (*torsions)[2] = (void *)in[1];
    ff_torsions_to_frames(frames, in[0], torsions, v->aatype[row]);
    ff_frames_to_atom14(atoms, frames, v->aatype[row]);
}

static void place_atoms_backward(double *const *grad_in, double *const *grad_out, double *const *in, const row_values *v,
                                 int64_t row)
{
    double(*grad_frames)[12] = (void *)grad_out[0], (*grad_atoms)[3] = (void *)grad_out[1];
    double(*torsions)[2] = (void *)in[1], (*grad_torsions)[2] = (void *)grad_in[1];
    ff_frames_to_atom14_backward(grad_frames, grad_atoms, v->aatype[row]);
    ff_torsions_to_frames_backward(grad_in[0], grad_torsions, grad_frames, in[0], torsions, v->aatype[row]);
}

static double atom37_exists(const row_values *v, int64_t row, int atom)
{
    return v->exists != NULL ? v->exists[row * FF_NUM_ATOM37 + atom] : ff_restype_atom37_mask[v->aatype[row]][atom];
}

static void to_atom37(double *const *out, double *const *in, const row_values *v, int64_t row)
{
    const int32_t type = v->aatype[row];
    for (int a = 0; a < FF_NUM_ATOM37; a++)
        for (int i = 0; i < 3; i++)
            out[0][3 * a + i] = atom37_exists(v, row, a) * in[0][3 * ff_restype_atom37_to_atom14[type][a] + i];
}

static void to_atom37_backward(double *const *grad_in, double *const *grad_out, double *const *in, const row_values *v,
                               int64_t row)
{
    (void)in;
    const int32_t type = v->aatype[row];
    for (int a = 0; a < FF_NUM_ATOM37; a++)
        for (int i = 0; i < 3; i++)
            grad_in[0][3 * ff_restype_atom37_to_atom14[type][a] + i] +=
                atom37_exists(v, row, a) * grad_out[0][3 * a + i];
}

static const row_op to_rigids_op = {"affine_to_rigids", 1, 1, {7}, {12}, to_rigids, to_rigids_backward};
static const row_op scale_op = {"scale_translation", 1, 1, {7}, {7}, scale_translation, scale_translation_backward};
static const row_op update_op = {"backbone_update", 2, 1, {7, 6}, {7}, update_backbone, update_backbone_backward};
static const row_op stop_op = {"stop_rotation_gradient", 1, 1, {7}, {7}, copy_affine, translation_backward};
static const row_op normalise_op = {"normalise_torsions", 1, 1, {14}, {14}, normalise_torsions, normalise_torsions_backward};
static const row_op atoms_op = {"frames_and_atoms", 2, 2, {12, 14}, {8 * 12, 14 * 3}, place_atoms, place_atoms_backward};
static const row_op atom37_op = {"atom14_to_atom37", 1, 1, {14 * 3}, {37 * 3}, to_atom37, to_atom37_backward};

/* ---- the public ones ---- */

static int64_t rows_of(ff_ctx *ctx, const ff_tensor *x) { return ctx->status != FF_OK || x == NULL ? 0 : x->shape[0]; }

static ff_tensor *one_result(ff_ctx *ctx, const row_op *op, double scale, const int32_t *aatype, ff_tensor *a,
                             ff_tensor *b, int ndim, const int64_t *shape)
{
    const row_values v = {scale, aatype, NULL};
    ff_tensor *in[] = {a, b}, *out[] = {ctx->status == FF_OK ? ff_tensor_create(ctx, ndim, shape) : NULL};
    row_operation(ctx, op, &v, in, out);
    return out[0];
}

ff_tensor *ff_affine_to_rigids(ff_ctx *ctx, ff_tensor *affine, double scale)
{
    return one_result(ctx, &to_rigids_op, scale, NULL, affine, NULL, FF_SHAPE(rows_of(ctx, affine), 12));
}

ff_tensor *ff_scale_translation(ff_ctx *ctx, ff_tensor *affine, double scale)
{
    return one_result(ctx, &scale_op, scale, NULL, affine, NULL, FF_SHAPE(rows_of(ctx, affine), 7));
}

ff_tensor *ff_backbone_update(ff_ctx *ctx, ff_tensor *affine, ff_tensor *update)
{
    return one_result(ctx, &update_op, 1, NULL, affine, update, FF_SHAPE(rows_of(ctx, affine), 7));
}

ff_tensor *ff_stop_rotation_gradient(ff_ctx *ctx, ff_tensor *affine)
{
    return one_result(ctx, &stop_op, 1, NULL, affine, NULL, FF_SHAPE(rows_of(ctx, affine), 7));
}

ff_tensor *ff_normalise_torsions(ff_ctx *ctx, ff_tensor *x)
{
    return one_result(ctx, &normalise_op, 1, NULL, x, NULL, FF_SHAPE(rows_of(ctx, x), 7, 2));
}

void ff_frames_and_atoms(ff_ctx *ctx, ff_tensor *rigids, ff_tensor *torsions, const int32_t *aatype, ff_tensor **frames,
                         ff_tensor **atom14)
{
    const int64_t n = rows_of(ctx, rigids);
    const row_values v = {1, aatype, NULL};
    ff_tensor *in[] = {rigids, torsions}, *out[2] = {NULL, NULL};
    if (ctx->status == FF_OK) {
        out[0] = ff_tensor_create(ctx, FF_SHAPE(n, 8, 12));
        out[1] = ff_tensor_create(ctx, FF_SHAPE(n, 14, 3));
    }
    row_operation(ctx, &atoms_op, &v, in, out);
    *frames = out[0];
    *atom14 = out[1];
}

ff_tensor *ff_atom14_to_atom37(ff_ctx *ctx, ff_tensor *atom14, const int32_t *aatype, const float *atom37_atom_exists)
{
    const row_values v = {1, aatype, atom37_atom_exists};
    ff_tensor *in[] = {atom14, NULL}, *out[] = {NULL};
    if (ctx->status == FF_OK)
        out[0] = ff_tensor_create(ctx, FF_SHAPE(rows_of(ctx, atom14), 37, 3));
    row_operation(ctx, &atom37_op, &v, in, out);
    return out[0];
}

/* ---- invariant point attention ---- */

typedef struct {
    ff_ipa_args args;
    float *gamma, *grad_gamma;
    bool trained;
} ipa_node;

enum { Q_SCALAR, KV_SCALAR, Q_POINT, KV_POINT, BIAS, PAIR, RIGIDS_QUERY, RIGIDS, IPA_INPUTS };

static ff_ipa_arrays ipa_arrays(ff_tensor *const *t, float *gamma)
{
    return (ff_ipa_arrays){.q_scalar = ff_data(t[Q_SCALAR]),
                           .kv_scalar = ff_data(t[KV_SCALAR]),
                           .q_point = ff_data(t[Q_POINT]),
                           .kv_point = ff_data(t[KV_POINT]),
                           .bias = ff_data(t[BIAS]),
                           .pair = ff_data(t[PAIR]),
                           .frames_query = ff_data(t[RIGIDS_QUERY]),
                           .frames = ff_data(t[RIGIDS]),
                           .gamma = gamma};
}

static double ipa_flop(const ff_ipa_args *a)
{
    const double channels = (double)(a->c_scalar_qk + a->c_scalar_v + 3 * (a->num_point_qk + a->num_point_v) + a->c_z);
    return 2.0 * (double)a->num_query * (double)a->num_res * (double)a->num_head * channels;
}

static void ipa_backward(ff_ctx *ctx, ff_node *node)
{
    ipa_node n;
    memcpy(&n, node->args, sizeof n);
    if (!ff_module_offered(ctx, ctx->kernels->invariant_point_attention_backward != NULL,
                           "invariant point attention backward"))
        return;
    ff_tensor *grads[IPA_INPUTS], *held[IPA_INPUTS] = {NULL};
    for (int i = 0; i < IPA_INPUTS; i++) {
        ff_tensor *x = node->inputs[i];
        held[i] = x->requires_grad || i == PAIR ? NULL : ff_tensor_zeros(ctx, x->ndim, x->shape);
        grads[i] = x->requires_grad ? ff_tensor_grad(ctx, x) : held[i];
    }
    void *scratch = ff_scratch_begin(ctx, ctx->kernels->invariant_point_attention_scratch_bytes(&n.args, true));
    if (ff_computing(ctx)) {
        const ff_ipa_arrays x = ipa_arrays(node->inputs, n.gamma);
        const ff_ipa_arrays g = ipa_arrays(grads, n.trained ? n.grad_gamma : NULL);
        ctx->kernels->invariant_point_attention_backward(&g, ff_data(node->outputs[0]->grad), &x, &n.args, scratch);
    }
    ff_scratch_end(ctx, scratch);
    ff_module_record(ctx, "invariant_point_attention", true, ipa_flop(&n.args), (double)node->inputs[PAIR]->bytes, 0, 0);
    for (int i = 0; i < IPA_INPUTS; i++)
        ff_tensor_release(held[i]);
}

ff_tensor *ff_ipa_attention(ff_ctx *ctx, const ff_ipa_core *w, ff_tensor *q_scalar, ff_tensor *kv_scalar,
                            ff_tensor *q_point, ff_tensor *kv_point, ff_tensor *bias, ff_tensor *pair,
                            ff_tensor *rigids_query, ff_tensor *rigids, ff_tensor *mask)
{
    if (!ff_module_offered(ctx, ctx->kernels->invariant_point_attention_forward != NULL, "invariant point attention") ||
        !ff_check_shape(ctx, rigids, "rigids", FF_SHAPE(-1, 12)) ||
        !ff_check_shape(ctx, rigids_query, "rigids of the queries", FF_SHAPE(-1, 12)))
        return NULL;
    const int64_t n = rigids->shape[0], rows = rigids_query->shape[0];
    if (!ff_check_shape(ctx, pair, "pair", FF_SHAPE(rows, n, w->c_z)) ||
        !ff_check_shape(ctx, bias, "bias", FF_SHAPE(rows, n, w->num_head)))
        return NULL;
    const float *mask_query = ff_data(mask) + ff_shard_first(n, ff_dap_rank(ctx), ff_dap_size(ctx));
    const ipa_node node = {.args = {.num_query = rows,
                                    .num_res = n,
                                    .num_head = w->num_head,
                                    .c_scalar_qk = w->c_scalar_qk,
                                    .c_scalar_v = w->c_scalar_v,
                                    .num_point_qk = w->num_point_qk,
                                    .num_point_v = w->num_point_v,
                                    .c_z = w->c_z,
                                    .mask_query = mask_query,
                                    .mask = ff_data(mask)},
                           .gamma = w->gamma,
                           .grad_gamma = w->grad_gamma,
                           .trained = w->trained};
    ff_tensor *inputs[] = {q_scalar, kv_scalar, q_point, kv_point, bias, pair, rigids_query, rigids, mask};
    ff_tensor *out = ff_tensor_create(ctx, FF_SHAPE(rows, w->num_head * (w->c_scalar_v + 4 * w->num_point_v + w->c_z)));
    void *scratch = ff_scratch_begin(ctx, ctx->kernels->invariant_point_attention_scratch_bytes(&node.args, false));
    if (ff_computing(ctx)) {
        const ff_ipa_arrays x = ipa_arrays(inputs, w->gamma);
        ctx->kernels->invariant_point_attention_forward(ff_data(out), &x, &node.args, scratch);
    }
    ff_scratch_end(ctx, scratch);
    ff_module_record(ctx, "invariant_point_attention", false, ipa_flop(&node.args), (double)pair->bytes, 0, 0);
    if (ff_module_recorded(ctx, w->trained, inputs, IPA_INPUTS))
        ff_tape_add(ctx, "invariant_point_attention", ipa_backward, inputs, IPA_INPUTS + 1, &out, 1, NULL, 0, &node,
                    sizeof node);
    return ff_module_end(ctx, NULL, out);
}
