/* Contents: labels of a chain; one batch; draws; the samples. */
#include "train/samples.h"

#include <stdlib.h>
#include <string.h>

#include "data/sampler.h"
#include "train/model_loss.h"

/* Streams of random numbers of the draws; operations of the model count from 0 on. */
enum { STREAM_RECYCLE = 0x52000000, STREAM_DISTILLATION = 0x53000000 };

/* ---- labels of a chain ---- */

/* Labels are made of stacks of chains; this one has one chain, without the axis. */
static ff_status add_labels(ff_ctx *ctx, void *arg, ff_array_set *features)
{
    static const char *const from[] = {"aatype", "all_atom_positions", "all_atom_mask"};
    ff_status status = FF_OK;
    ff_array_set stack;
    (void)arg;
    ff_array_set_init(&stack);
    for (size_t i = 0; i < sizeof from / sizeof *from; i++) {
        const ff_array *a = ff_array_find(features, from[i]);
        if (a == NULL || a->ndim >= FF_HDF5_MAX_DIMS)
            FF_TRY_DONE(FF_FAIL(ctx, FF_ERR_FORMAT, "the chain has no %s, which training needs", from[i]));
        ff_array *copy = ff_array_copy(ctx, &stack, a->name, a);
        if (copy == NULL)
            FF_TRY_DONE(ctx->status);
        memmove(copy->shape + 1, copy->shape, (size_t)copy->ndim++ * sizeof *copy->shape);
        copy->shape[0] = 1;
    }
    FF_TRY_DONE(ff_model_make_labels(ctx, &stack));
    while (stack.count > (int64_t)(sizeof from / sizeof *from)) {
        ff_array *made = stack.items[stack.count - 1];
        memmove(made->shape, made->shape + 1, (size_t)--made->ndim * sizeof *made->shape);
        FF_TRY_DONE(ff_array_move(ctx, features, made->name, &stack, made->name));
    }
done:
    ff_array_set_destroy(&stack);
    return status;
}

/* ---- one batch ---- */

ff_status ff_samples_make_batch(ff_ctx *ctx, ff_array_set *batch, const ff_array_set *raw, const ff_process_options *process)
{
    ff_process_options o = *process;
    const ff_array *msa = ff_array_find(raw, "msa"), *templates = ff_array_find(raw, "template_aatype");
    o.labels = add_labels;
    if (msa != NULL && msa->ndim == 2) {
        const int64_t rows = msa->shape[0], num_res = msa->shape[1];
        o.crop_size = o.crop_size > num_res ? num_res : o.crop_size;
        o.num_seq = rows < o.num_seq ? rows : o.num_seq;
        o.num_extra = rows - o.num_seq < o.num_extra ? rows - o.num_seq : o.num_extra;
    }
    if (templates == NULL || templates->ndim < 1 || templates->shape[0] == 0)
        o.max_templates = 0;
    o.reduce_msa_clusters_by_max_templates = o.reduce_msa_clusters_by_max_templates && o.max_templates > 0;
    return ff_process_features(ctx, batch, raw, &o);
}

/* ---- draws ---- */

struct ff_samples {
    ff_samples_options o;
    const ff_chain_source *sources[2]; /* the second may be NULL */
    ff_sampler *samplers[2];
    ff_loader *loader;
};

int64_t ff_samples_num_recycle(const ff_samples_options *o, int64_t step)
{
    const ff_random_key key = {o->seed, ff_random_stream((uint64_t)step, STREAM_RECYCLE)};
    return !o->draw_recycles ? o->process.num_recycle
                             : (int64_t)ff_random_below(key, 0, (uint64_t)o->process.num_recycle + 1);
}

/* Records of the second source come after those of the first. */
static int64_t record_of(void *arg, int64_t draw)
{
    const ff_samples *s = arg;
    const ff_random_key key = {s->o.seed, ff_random_stream((uint64_t)draw, STREAM_DISTILLATION)};
    const bool second = s->sources[1] != NULL && (double)ff_random_uniform(key, 0) < s->o.distillation_fraction;
    return second ? s->sources[0]->num_records + ff_sampler_record(s->samplers[1], draw) : ff_sampler_record(s->samplers[0], draw);
}

static const ff_chain_source *source_of(const ff_samples *s, int64_t *record)
{
    const bool second = *record >= s->sources[0]->num_records;
    if (second)
        *record -= s->sources[0]->num_records;
    return s->sources[second];
}

static ff_status read_record(ff_ctx *ctx, void *arg, int64_t record, ff_array_set *arrays)
{
    const ff_chain_source *source = source_of(arg, &record);
    return source->read(ctx, source->arg, record, arrays);
}

static ff_status make_sample(ff_ctx *ctx, void *arg, const ff_loader_draw *draw, const ff_array_set *arrays, ff_array_set *batch)
{
    const ff_samples *s = arg;
    ff_process_options process = s->o.process;
    process.key = (ff_sample_key){s->o.seed, 0, (uint64_t)draw->number};
    process.num_recycle = ff_samples_num_recycle(&s->o, draw->number / s->o.batch_size);
    return ff_samples_make_batch(ctx, batch, arrays, &process);
}

/* ---- the samples ---- */

static ff_status create_sampler(ff_ctx *ctx, ff_sampler **sampler, const ff_chain_source *source, uint64_t seed)
{
    return source->weights == NULL ? ff_sampler_create_shuffled(ctx, sampler, source->num_records, seed)
                                   : ff_sampler_create_weighted(ctx, sampler, source->weights, source->num_records, seed);
}

ff_status ff_samples_create(ff_ctx *ctx, ff_samples **samples, const ff_samples_options *options,
                            const ff_chain_source *source, const ff_chain_source *distillation, int64_t first_step)
{
    ff_status status = FF_OK;
    ff_samples *s = calloc(1, sizeof *s);
    if (s == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory");
    s->o = *options;
    s->sources[0] = source;
    s->sources[1] = distillation;
    FF_TRY_DONE(create_sampler(ctx, &s->samplers[0], source, options->seed));
    if (distillation != NULL)
        FF_TRY_DONE(create_sampler(ctx, &s->samplers[1], distillation, options->seed + 1));
    const ff_loader_options loader = {.num_records = source->num_records + (distillation == NULL ? 0 : distillation->num_records),
                                      .first_draw = first_step * options->batch_size,
                                      .end_draw = INT64_MAX,
                                      .num_workers = options->num_workers,
                                      .queue_length = options->queue_length,
                                      .horizon = 4096,
                                      .cache_bytes = options->cache_bytes,
                                      .record_of = record_of,
                                      .read = read_record,
                                      .process = make_sample,
                                      .arg = s};
    FF_TRY_DONE(ff_loader_create(ctx, &s->loader, &loader));
    *samples = s;
    return FF_OK;
done:
    ff_samples_destroy(s);
    return status;
}

void ff_samples_destroy(ff_samples *s)
{
    if (s == NULL)
        return;
    ff_loader_destroy(s->loader);
    ff_sampler_destroy(s->samplers[0]);
    ff_sampler_destroy(s->samplers[1]);
    free(s);
}

ff_status ff_samples_next(ff_ctx *ctx, ff_samples *s, ff_array_set *batch, ff_loader_draw *draw, const char **name)
{
    const ff_status status = ff_loader_next(ctx, s->loader, batch, draw);
    int64_t record = draw->record;
    const ff_chain_source *source = source_of(s, &record);
    *name = source->name(source->arg, record);
    return status;
}

ff_loader_stats ff_samples_stats(ff_samples *s) { return ff_loader_get_stats(s->loader); }
