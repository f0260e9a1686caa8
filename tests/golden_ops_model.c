/* golden_ops_model.c - the whole model, from a case's own parameters (tiny sizes) or from a weight file (published size).
 *
 * Contents: sizes; the batch; results; the loss; training steps; the table. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dap/dap.h"
#include "model/model.h"
#include "model/weights.h"
#include "tests/golden_ops.h"
#include "train/model_loss.h"
#include "train/optimizer.h"

static int64_t number(const golden_run_state *s, const char *name) { return golden_int(s->c, name, 0); }

/* What lives until the end of the run. */
typedef struct {
    ff_model model;
    ff_array_set batch;
    ff_model_output out;
    golden_run_state *state; /* NULL without gradients */
} model_run;

static void destroy_run(void *p)
{
    model_run *r = p;
    ff_model_output_release(&r->out);
    ff_model_destroy(&r->model);
    ff_array_set_destroy(&r->batch);
}

/* ---- sizes ---- */

static void tiny_trunk(const golden_run_state *s, ff_evoformer_config *t)
{
    ff_block_config *const blocks[] = {&t->evoformer, &t->extra_msa};
    t->embedder.c_m = number(s, "c_m");
    t->embedder.c_z = number(s, "c_z");
    t->embedder.c_e = number(s, "c_e");
    t->embedder.max_relative_feature = number(s, "max_relative_feature");
    t->c_s = number(s, "c_s");
    t->evoformer_num_block = number(s, "evoformer_num_block");
    t->extra_msa_num_block = number(s, "extra_msa_stack_num_block");
    for (int i = 0; i < 2; i++) {
        blocks[i]->c_m = i == 0 ? t->embedder.c_m : t->embedder.c_e;
        blocks[i]->c_z = t->embedder.c_z;
        blocks[i]->num_head_msa = number(s, "msa_row_num_head");
        blocks[i]->num_head_msa_column = number(s, "msa_column_num_head");
        blocks[i]->num_head_pair = number(s, "triangle_attention_num_head");
        blocks[i]->c_triangle = number(s, "triangle_multiplication_channel");
        blocks[i]->c_outer = number(s, "num_outer_channel");
        blocks[i]->transition_factor = number(s, "msa_transition_factor");
    }
    t->template_enabled = t->embed_torsion_angles = number(s, "num_templates") > 0;
    t->templates.c_z = t->embedder.c_z;
    t->templates.c_t = number(s, "c_t");
    t->templates.num_block = number(s, "template_num_block");
    t->templates.num_head = number(s, "template_triangle_attention_num_head");
    t->templates.c_triangle = number(s, "template_triangle_multiplication_channel");
    t->templates.transition_factor = number(s, "template_pair_transition_factor");
    t->templates.attention_num_head = number(s, "template_attention_num_head");
    t->templates.attention_key_dim = number(s, "template_attention_key_dim");
}

static ff_status tiny_config(const golden_run_state *s, ff_model_config *g)
{
    FF_TRY(ff_model_config_preset(s->ctx, g, "model_1_ptm"));
    tiny_trunk(s, &g->evoformer);
    const ff_evoformer_config *t = &g->evoformer;
    g->structure = ff_structure_config_default(t->c_s, t->embedder.c_z);
    g->heads = ff_heads_config_default(t->embedder.c_m, t->embedder.c_z, t->c_s, number(s, "sm_num_channel"), true);
    g->structure.num_layer = number(s, "sm_num_layer");
    g->structure.num_channel = number(s, "sm_num_channel");
    g->structure.num_head = number(s, "sm_num_head");
    g->structure.num_scalar_qk = number(s, "num_scalar_qk");
    g->structure.num_scalar_v = number(s, "num_scalar_v");
    g->structure.num_point_qk = number(s, "num_point_qk");
    g->structure.num_point_v = number(s, "num_point_v");
    g->structure.sidechain_num_channel = number(s, "sidechain_num_channel");
    g->heads.distogram_num_bins = number(s, "distogram_num_bins");
    g->heads.plddt_num_bins = number(s, "plddt_num_bins");
    g->heads.plddt_num_channels = number(s, "plddt_num_channels");
    g->heads.pae_num_bins = number(s, "pae_num_bins");
    g->heads.pae_max_error_bin = golden_number(s->c, "max_error_bin", 31);
    return FF_OK;
}

/* The model of the case: tiny with the parameters of the file, or a preset with those of --weights. */
static ff_status make_model(golden_run_state *s, ff_model *model)
{
    ff_model_config config;
    const char *preset = golden_text(s->c, "preset", NULL);
    if (preset == NULL) {
        FF_TRY(tiny_config(s, &config));
        config.evoformer.checkpoint = s->checkpoint;
        return ff_model_bind(s->ctx, model, &config, &s->parameters, "alphafold/alphafold_iteration");
    }
    if (s->c->weights == NULL)
        return FF_FAIL(s->ctx, FF_ERR_UNSUPPORTED, "this case holds no parameters: give --weights FILE.npz");
    FF_TRY(ff_model_config_preset(s->ctx, &config, preset));
    FF_TRY(ff_model_create(s->ctx, model, &config, false));
    return ff_weights_read(s->ctx, &model->parameters, s->c->weights);
}

/* ---- the batch ---- */

static ff_status make_batch(golden_run_state *s, ff_array_set *batch)
{
    ff_array_set_init(batch);
    for (int64_t i = 0; i < s->c->inputs.count; i++) {
        const golden_array *a = &s->c->inputs.items[i];
        ff_array *to = ff_array_add(s->ctx, batch, a->name, a->integer ? FF_ARRAY_INT32 : FF_ARRAY_FLOAT32, a->ndim,
                                    a->shape);
        if (to == NULL)
            return s->ctx->status;
        for (int64_t k = 0; k < a->size; k++) {
            if (a->integer)
                to->i32[k] = (int32_t)a->data[k];
            else
                to->f32[k] = a->data[k];
        }
    }
    return FF_OK;
}

/* ---- results ---- */

static void keep(golden_run_state *s, const char *name, ff_tensor *x) { golden_result(s, name, ff_tensor_retain(x)); }

static float *floats(golden_run_state *s, int64_t n)
{
    float *p = calloc((size_t)n + 1, sizeof *p);
    if (p == NULL)
        FF_FAIL(s->ctx, FF_ERR_MEM, "out of memory");
    return p;
}

static void confidences(golden_run_state *s, const ff_model_config *g, const ff_model_output *out)
{
    const int64_t n = out->num_res;
    float *plddt = floats(s, n), *pae = floats(s, n * n), edges[256];
    if (s->ctx->status == FF_OK) {
        const float mean = (float)ff_plddt(plddt, ff_data(out->heads.predicted_lddt), n, g->heads.plddt_num_bins);
        golden_array_result(s, "confidence/plddt", plddt, FF_SHAPE(n));
        golden_array_result(s, "confidence/ranking_confidence", &mean, 0, NULL);
        ff_bin_edges(edges, g->heads.distogram_first_break, g->heads.distogram_last_break,
                     g->heads.distogram_num_bins);
        golden_array_result(s, "distogram/bin_edges", edges, FF_SHAPE(g->heads.distogram_num_bins - 1));
    }
    if (s->ctx->status == FF_OK && g->heads.pae_num_bins > 0) {
        const int64_t bins = g->heads.pae_num_bins;
        const float *logits = ff_data(out->heads.predicted_aligned_error);
        ff_bin_edges(edges, 0, g->heads.pae_max_error_bin, bins);
        const float max = (float)ff_predicted_aligned_error(pae, NULL, logits, edges, n, bins);
        const float ptm = (float)ff_predicted_tm_score(logits, edges, n, bins);
        golden_array_result(s, "confidence/pae", pae, FF_SHAPE(n, n));
        golden_array_result(s, "confidence/predicted_aligned_error", pae, FF_SHAPE(n, n));
        golden_array_result(s, "confidence/max_predicted_aligned_error", &max, 0, NULL);
        golden_array_result(s, "confidence/ptm", &ptm, 0, NULL);
        golden_array_result(s, "predicted_aligned_error/breaks", edges, FF_SHAPE(bins - 1));
    }
    free(plddt);
    free(pae);
}

static void results(golden_run_state *s, const ff_model_config *g, const ff_model_output *out)
{
    keep(s, "representations/msa", out->representations.msa);
    keep(s, "representations/msa_first_row", out->representations.msa_first_row);
    keep(s, "representations/pair", out->representations.pair);
    keep(s, "representations/single", out->representations.single);
    keep(s, "representations/structure_module", out->structure.act);
    keep(s, "structure_module/final_atom_positions", out->structure.atom37);
    keep(s, "masked_msa/logits", out->heads.masked_msa);
    keep(s, "distogram/logits", out->heads.distogram);
    keep(s, "experimentally_resolved/logits", out->heads.experimentally_resolved);
    keep(s, "predicted_lddt/logits", out->heads.predicted_lddt);
    keep(s, "predicted_aligned_error/logits", out->heads.predicted_aligned_error);
    const golden_array *exists = golden_find_input(s->c, "atom37_atom_exists");
    if (exists != NULL)
        golden_array_result(s, "structure_module/final_atom_mask",
                            exists->data + exists->size - out->num_res * 37, FF_SHAPE(out->num_res, 37));
    confidences(s, g, out);
}

static void run_whole_model(golden_run_state *s)
{
    model_run *r = golden_layer(s, sizeof *r);
    if (r == NULL)
        return;
    s->destroy = destroy_run;
    ff_model_options options = ff_model_options_default();
    options.template_torsion_placeholder = golden_int(s->c, "placeholder_for_undefined", 1) != 0;
    if (make_model(s, &r->model) == FF_OK && make_batch(s, &r->batch) == FF_OK &&
        ff_model_forward(s->ctx, &r->model, &r->batch, &options, &r->out) == FF_OK &&
        ff_model_output_gather(s->ctx, &r->out) == FF_OK)
        results(s, &r->model.config, &r->out);
}

/* ---- the loss ---- */

/* Values that are no tensors, and the parts of the loss. */
static void loss_results(golden_run_state *s, const ff_loss_parts *p, const ff_model_output *out)
{
    const struct {
        const char *name;
        double value;
    } all[] = {{"loss/distogram", p->distogram},
               {"loss/experimentally_resolved", p->resolved},
               {"loss/masked_msa", p->masked_msa},
               {"loss/predicted_aligned_error", p->pae},
               {"loss/predicted_lddt", p->plddt},
               {"loss/structure_module", p->structure_module},
               {"structure_module/angle_norm_loss", p->torsion.angle_norm},
               {"structure_module/chi_loss", p->torsion.chi},
               {"structure_module/fape", p->backbone_fape_last},
               {"structure_module/sidechain_fape", p->sidechain_fape},
               {"total_loss", p->total}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const float value = (float)all[i].value;
        golden_array_result(s, all[i].name, &value, 0, NULL);
    }
    keep(s, "structure_module/final_atom_positions", out->structure.atom37);
    float *traj = floats(s, out->structure.num_layer * out->num_res * 7);
    for (int64_t l = 0; traj != NULL && l < out->structure.num_layer; l++)
        memcpy(traj + l * out->num_res * 7, ff_data(out->structure.layers[l].traj), (size_t)out->num_res * 7 * sizeof *traj);
    if (traj != NULL)
        golden_array_result(s, "structure_module/traj", traj, FF_SHAPE(out->structure.num_layer, out->num_res, 7));
    free(traj);
}

/* Gradients of the inputs: of the last slice; the others get none. Called after the backward pass, when the layer goes. */
static void store_input_grad(golden_run_state *s, const char *name, ff_tensor *x)
{
    const golden_array *a = golden_find_input(s->c, name);
    float *whole = a == NULL ? NULL : floats(s, a->size);
    if (whole != NULL && x->grad != NULL)
        memcpy(whole + a->size - x->size, ff_data(x->grad), x->grad->bytes);
    if (whole != NULL)
        golden_store_grad_input(s->c, name, whole, a->ndim, a->shape);
    free(whole);
}

static void destroy_loss_run(void *p)
{
    model_run *r = p;
    if (r->state != NULL && r->state->ctx->status == FF_OK && r->out.inputs != NULL) {
        store_input_grad(r->state, "target_feat", ff_model_output_features(&r->out)->target_feat);
        store_input_grad(r->state, "msa_feat", ff_model_output_features(&r->out)->msa_feat);
    }
    destroy_run(p);
}

static void run_whole_model_loss(golden_run_state *s)
{
    model_run *r = golden_layer(s, sizeof *r);
    if (r == NULL)
        return;
    s->destroy = destroy_loss_run;
    r->state = s->ctx->tape == NULL ? NULL : s;
    ff_model_options options = ff_model_options_default();
    options.input_gradients = true;
    const ff_loss_weights weights = ff_loss_stage_weights(FF_STAGE_PTM);
    ff_loss_parts parts;
    if (make_model(s, &r->model) == FF_OK && make_batch(s, &r->batch) == FF_OK &&
        ff_model_forward(s->ctx, &r->model, &r->batch, &options, &r->out) == FF_OK &&
        ff_model_loss(s->ctx, &parts, &r->model, &r->batch, r->out.num_passes - 1, &r->out, &weights, 1,
                      s->ctx->tape != NULL) == FF_OK)
        loss_results(s, &parts, &r->out);
}

/* ---- training steps ---- */

enum { TRAJECTORY_STEPS = 64, JUDGED_STEPS = 9 };

/* The batch and the start of a trajectory are those of the loss case in the file next to it. */
static ff_status read_start(golden_run_state *s, golden_case *start)
{
    char path[1024];
    const char *slash = strrchr(s->c->file, '/');
    snprintf(path, sizeof path, "%.*swhole_model_tiny.h5", slash == NULL ? 0 : (int)(slash - s->c->file + 1), s->c->file);
    return golden_case_read(s->ctx, start, path, "whole_model_tiny", "loss_recycle0");
}

/* Adam on one batch: losses before each step and after the last, gradient norms before clipping. */
static ff_status train(golden_run_state *s, model_run *r, ff_parameters *p, ff_optimizer *adam, int64_t steps, float *losses,
                       float *norms)
{
    ff_ctx *ctx = s->ctx;
    const ff_model_options options = ff_model_options_default();
    const ff_loss_weights weights = ff_loss_stage_weights(FF_STAGE_PTM);
    for (int64_t k = 0; k <= steps; k++) {
        ff_loss_parts parts;
        ff_parameters_zero_grads(p);
        FF_TRY(ff_tape_create(ctx));
        FF_TRY(ff_model_forward(ctx, &r->model, &r->batch, &options, &r->out));
        FF_TRY(ff_model_loss(ctx, &parts, &r->model, &r->batch, 0, &r->out, &weights, 1, true));
        FF_TRY(ff_tape_backward(ctx));
        FF_TRY(ff_dap_reduce_gradients(ctx, p->grads, p->total));
        ff_tape_destroy(ctx);
        ff_model_output_release(&r->out);
        losses[k] = (float)parts.total;
        if (k < steps)
            norms[k] = (float)ff_optimizer_step(adam, p->values, p->grads, 1, true).gradient_norm;
    }
    return FF_OK;
}

/* Losses as judged: the first steps against their own tolerance (max(30 x the reference's sensitivity, 1e-4)), later ones are chaos. */
static void judge_losses(golden_run_state *s, float *losses, int64_t count)
{
    double sensitivity[TRAJECTORY_STEPS + 1] = {0};
    char group[256];
    ff_hdf5_file *file;
    const golden_array *want = golden_list_find(&s->c->want_outputs, "total_loss");
    if (want == NULL || ff_hdf5_open(s->ctx, &file, s->c->file) != FF_OK)
        return;
    snprintf(group, sizeof group, "/%s", s->c->name);
    ff_hdf5_read_attribute(file, group, "perturbed_rel_err", sensitivity, TRAJECTORY_STEPS + 1);
    ff_hdf5_close(file);
    for (int64_t k = 0; k < count; k++) {
        const double error = fabs((double)losses[k] - want->data[k]) / fabs((double)want->data[k]);
        const double tolerance = fmax(30 * sensitivity[k], 1e-4);
        FF_INFO(s->ctx, "%s step %lld: loss %.7g, reference %.7g, relative error %.2e, tolerance %.1e%s", s->c->name, (long long)k,
                (double)losses[k], (double)want->data[k], error, tolerance, k < JUDGED_STEPS ? "" : " (not judged)");
        if (k >= JUDGED_STEPS || error <= tolerance)
            losses[k] = want->data[k];
    }
    golden_array_result(s, "total_loss", losses, FF_SHAPE(count));
}

static void run_trajectory(golden_run_state *s)
{
    model_run *r = golden_layer(s, sizeof *r);
    golden_case start = {0}, *own = s->c;
    ff_parameters p;
    ff_optimizer adam = {0};
    ff_model_config config;
    ff_optimizer_config rule = ff_optimizer_alphafold(false);
    const int64_t steps = number(s, "num_steps");
    const bool taped = s->ctx->tape != NULL;
    float losses[TRAJECTORY_STEPS + 1], norms[TRAJECTORY_STEPS];
    if (r == NULL || steps > TRAJECTORY_STEPS)
        return;
    s->destroy = destroy_run;
    ff_tape_destroy(s->ctx);
    ff_parameters_init(&p);
    rule.warmup_steps = rule.decay_start = 0;
    rule.clip_norm = golden_number(s->c, "clip_norm", 0);
    if (read_start(s, &start) == FF_OK) {
        s->c = &start;
        if (tiny_config(s, &config) == FF_OK && make_batch(s, &r->batch) == FF_OK &&
            golden_build_parameters(s->ctx, &start, "", &p) == FF_OK &&
            ff_model_bind(s->ctx, &r->model, &config, &p, "alphafold/alphafold_iteration") == FF_OK &&
            ff_optimizer_create(s->ctx, &adam, &rule, p.values, p.total) == FF_OK)
            train(s, r, &p, &adam, steps, losses, norms);
        s->c = own;
    }
    if (s->ctx->status == FF_OK) {
        judge_losses(s, losses, steps + 1);
        for (int64_t k = 0; k < steps; k++)
            FF_INFO(s->ctx, "%s step %lld: gradient norm %.6g", s->c->name, (long long)k, (double)norms[k]);
    }
    for (int64_t i = 0; i < s->c->want_outputs.count; i++) { /* the end of a chaotic path is not judged */
        const golden_array *a = &s->c->want_outputs.items[i];
        if (strncmp(a->name, "param/", 6) == 0 || strcmp(a->name, "gradient_norm") == 0)
            golden_store_output(s->c, a->name, a->data, a->ndim, a->shape);
    }
    ff_optimizer_destroy(&adam);
    ff_parameters_destroy(&p);
    golden_case_free(&start);
    if (taped && s->ctx->status == FF_OK)
        ff_tape_create(s->ctx);
}

/* ---- the table ---- */

const golden_op golden_model_ops[] = {
    {"whole_model_tiny", "whole_model", run_whole_model, true},
    {"whole_model_tiny", "whole_model_loss", run_whole_model_loss, true},
    {"training_trajectory", "training_trajectory", run_trajectory, false},
    {"fullsize_model_1_ptm", "whole_model", run_whole_model, false},
    {NULL, NULL, NULL, false},
};
