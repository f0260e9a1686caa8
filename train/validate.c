#include "train/validate.h"

#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "structure/residue_constants.h"

/* CA atoms of an array [num_res, 37, width]. */
static void take_ca(float *out, const float *atoms, int64_t num_res, int width)
{
    for (int64_t i = 0; i < num_res; i++)
        memcpy(out + i * width, atoms + (i * 37 + FF_ATOM_CA) * width, (size_t)width * sizeof *out);
}

/* Metrics of the CA trace of `out` against the labels of slice `slice`. */
static ff_status compare(ff_ctx *ctx, ff_structure_metrics *metrics, const ff_model_output *out, const ff_array_set *batch,
                         int64_t slice)
{
    const int64_t n = out->num_res;
    const ff_array *truth = ff_array_need(ctx, batch, "all_atom_positions", FF_ARRAY_FLOAT32, FF_DIMS(-1, n, 37, 3));
    const ff_array *mask = truth == NULL ? NULL : ff_array_need(ctx, batch, "all_atom_mask", FF_ARRAY_FLOAT32, FF_DIMS(-1, n, 37));
    if (mask == NULL)
        return ctx->status;
    float *ca = malloc((size_t)(n * 7 + 1) * sizeof *ca);
    if (ca == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory for a chain of %lld residues", (long long)n);
    take_ca(ca, ff_data(out->structure.atom37), n, 3);
    take_ca(ca + 3 * n, truth->f32 + slice * n * 111, n, 3);
    take_ca(ca + 6 * n, mask->f32 + slice * n * 37, n, 1);
    const ff_status status = ff_structure_metrics_compute(ctx, metrics, ca, ca + 3 * n, ca + 6 * n, n);
    free(ca);
    return status;
}

static ff_status predict(ff_ctx *ctx, ff_validation_chain *chain, ff_trainer *t, const ff_array_set *batch)
{
    ff_status status = FF_OK;
    ff_model_output out = {0};
    const ff_model_options options = ff_model_options_default();
    FF_TRY(ff_model_forward(ctx, &t->model, batch, &options, &out));
    chain->num_res = out.num_res;
    FF_TRY_DONE(ff_model_loss(ctx, &chain->parts, &t->model, batch, out.num_passes - 1, &out, &t->config.weights, 1, false));
    FF_TRY_DONE(compare(ctx, &chain->metrics, &out, batch, out.num_passes - 1));
done:
    ff_model_output_release(&out);
    return status;
}

static ff_status validate_chain(ff_ctx *ctx, ff_validation_chain *chain, ff_trainer *t, const ff_chain_source *source,
                                const ff_process_options *process, int64_t record)
{
    ff_status status = FF_OK;
    ff_array_set raw, batch;
    ff_array_set_init(&raw);
    ff_array_set_init(&batch);
    chain->name = source->name(source->arg, record);
    FF_TRY_DONE(source->read(ctx, source->arg, record, &raw));
    FF_TRY_DONE(ff_samples_make_batch(ctx, &batch, &raw, process));
    FF_TRY_DONE(predict(ctx, chain, t, &batch));
done:
    ff_array_set_destroy(&raw);
    ff_array_set_destroy(&batch);
    return status;
}

static void add_metrics(ff_structure_metrics *sum, const ff_structure_metrics *x, double factor)
{
    sum->num_resolved += x->num_resolved;
    sum->lddt_ca += factor * x->lddt_ca;
    sum->drmsd_ang += factor * x->drmsd_ang;
    sum->rmsd_ang += factor * x->rmsd_ang;
    sum->gdt_ts += factor * x->gdt_ts;
    sum->gdt_ha += factor * x->gdt_ha;
    sum->tm_score += factor * x->tm_score;
}

static void average(ff_validation *v)
{
    const int64_t good = v->num_chains - v->num_failed;
    for (int64_t i = 0; i < v->num_chains && good > 0; i++) {
        const ff_validation_chain *c = &v->chains[i];
        const double share = c->failed ? 0 : 1.0 / (double)good;
        add_metrics(&v->mean, &c->metrics, share);
        v->loss += share * c->parts.total;
        v->fraction_violating += share * c->parts.violation.fraction_any;
    }
}

ff_status ff_validate(ff_ctx *ctx, ff_validation *v, ff_trainer *t, const ff_chain_source *source,
                      const ff_process_options *process)
{
    ff_status status = FF_OK;
    const double begin = ff_clock_s();
    memset(v, 0, sizeof *v);
    v->chains = calloc((size_t)source->num_records + 1, sizeof *v->chains);
    if (v->chains == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory for %lld chains", (long long)source->num_records);
    ff_trainer_swap_average(t);
    ctx->training = false;
    for (int64_t k = 0; k < source->num_records && status == FF_OK; k++) {
        ff_validation_chain *chain = &v->chains[v->num_chains];
        if (source->weights != NULL && source->weights[k] == 0)
            continue; /* the filter left it out */
        v->num_chains++;
        status = validate_chain(ctx, chain, t, source, process, k);
        if (status == FF_ERR_FORMAT || status == FF_ERR_IO) {
            FF_WARN(ctx, "validation without chain %s: %s", chain->name, ctx->message);
            ff_context_clear(ctx);
            *chain = (ff_validation_chain){.name = chain->name, .failed = true};
            v->num_failed++;
            status = FF_OK;
        }
    }
    ff_trainer_swap_average(t);
    average(v);
    v->seconds = ff_clock_s() - begin;
    return status;
}

void ff_validation_destroy(ff_validation *v)
{
    free(v->chains);
    memset(v, 0, sizeof *v);
}
