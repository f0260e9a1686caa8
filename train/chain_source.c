/* Contents: data sets; structure files; closing. */
#include "train/chain_source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/features.h"
#include "data/structure_file.h"

static void hash_weights(ff_chain_source *s)
{
    ff_sha256 hash;
    ff_sha256_begin(&hash);
    for (int64_t k = 0; k < s->num_records; k++) {
        const int64_t n = s->num_res(s->arg, k);
        ff_sha256_add_text(&hash, s->name(s->arg, k));
        ff_sha256_add(&hash, &n, sizeof n);
        if (s->weights != NULL)
            ff_sha256_add(&hash, &s->weights[k], sizeof *s->weights);
    }
    ff_sha256_end(&hash, s->hash);
}

/* ---- data sets ---- */

typedef struct {
    ff_dataset *dataset;
    int64_t first; /* record 0 of the source */
} dataset_source;

static ff_status read_dataset(ff_ctx *ctx, void *arg, int64_t record, ff_array_set *raw)
{
    const dataset_source *s = arg;
    return ff_dataset_read(ctx, s->dataset, s->first + record, 0, -1, raw);
}

static const char *dataset_name(void *arg, int64_t record)
{
    const dataset_source *s = arg;
    return ff_dataset_get(s->dataset, s->first + record)->name;
}

static int64_t dataset_num_res(void *arg, int64_t record)
{
    const dataset_source *s = arg;
    return ff_dataset_get(s->dataset, s->first + record)->num_res;
}

static void close_dataset(void *arg)
{
    dataset_source *s = arg;
    ff_dataset_close(s->dataset);
    free(s);
}

static ff_status find_only(ff_ctx *ctx, const ff_dataset *d, const char *path, const char *only, int64_t *found)
{
    *found = ff_dataset_find(d, only);
    if (*found >= 0)
        return FF_OK;
    const int64_t count = ff_dataset_count(d);
    return FF_FAIL(ctx, FF_ERR_ARG, "%s has no chain %s; it has %lld, as %s%s%s", path, only, (long long)count,
                   count > 0 ? ff_dataset_get(d, 0)->name : "", count > 1 ? ", " : "",
                   count > 1 ? ff_dataset_get(d, 1)->name : "");
}

ff_status ff_chain_source_open_dataset(ff_ctx *ctx, ff_chain_source *source, const char *path, const ff_dataset_filter *filter,
                                       const char *only)
{
    ff_status status = FF_OK;
    ff_dataset_filter_counts counts;
    dataset_source *s = calloc(1, sizeof *s);
    memset(source, 0, sizeof *source);
    if (s == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory");
    *source = (ff_chain_source){.arg = s,
                                .read = read_dataset,
                                .name = dataset_name,
                                .num_res = dataset_num_res,
                                .close = close_dataset};
    FF_TRY_DONE(ff_dataset_open(ctx, &s->dataset, path));
    if (only != NULL) {
        FF_TRY_DONE(find_only(ctx, s->dataset, path, only, &s->first));
        source->num_records = 1;
    } else {
        source->num_records = ff_dataset_count(s->dataset);
        source->weights = calloc((size_t)source->num_records + 1, sizeof *source->weights);
        if (source->weights == NULL)
            FF_TRY_DONE(FF_FAIL(ctx, FF_ERR_MEM, "out of memory"));
        FF_TRY_DONE(ff_dataset_weights(ctx, s->dataset, filter, source->weights, &counts));
    }
    hash_weights(source);
done:
    if (status != FF_OK)
        ff_chain_source_close(source);
    return status;
}

/* ---- structure files ---- */

typedef struct {
    char name[64];
    ff_array_set raw;
    int64_t num_res;
} structure_source;

static ff_status read_structure(ff_ctx *ctx, void *arg, int64_t record, ff_array_set *raw)
{
    const structure_source *s = arg;
    (void)record;
    for (int64_t i = 0; i < s->raw.count; i++)
        if (ff_array_copy(ctx, raw, s->raw.items[i]->name, s->raw.items[i]) == NULL)
            return ctx->status;
    return FF_OK;
}

static const char *structure_name(void *arg, int64_t record)
{
    (void)record;
    return ((const structure_source *)arg)->name;
}

static int64_t structure_num_res(void *arg, int64_t record)
{
    (void)record;
    return ((const structure_source *)arg)->num_res;
}

static void close_structure(void *arg)
{
    structure_source *s = arg;
    ff_array_set_destroy(&s->raw);
    free(s);
}

/* Features of residues first .. first + num_res of a chain. */
static ff_status take_chain(ff_ctx *ctx, structure_source *s, const ff_structure *structure, const ff_structure_chain *c)
{
    ff_status status = FF_OK;
    ff_msa msa = {0};
    int64_t first = 0, end = c->num_res;
    while (first < end && c->is_missing[first])
        first++;
    while (end > first && c->is_missing[end - 1])
        end--;
    const int64_t n = s->num_res = end - first;
    char *sequence = n > 0 ? strndup(c->sequence + first, (size_t)n) : NULL;
    if (sequence == NULL)
        FF_TRY_DONE(FF_FAIL(ctx, FF_ERR_FORMAT, "chain %s of %s has no residues with coordinates", c->id, structure->entry_id));
    FF_TRY_DONE(ff_features_add_sequence(ctx, &s->raw, sequence, s->name));
    FF_TRY_DONE(ff_msa_from_sequence(ctx, &msa, sequence, s->name));
    const ff_msa *const msas[] = {&msa};
    FF_TRY_DONE(ff_features_add_msas(ctx, &s->raw, msas, 1, n));
    ff_array *x = ff_array_add(ctx, &s->raw, "all_atom_positions", FF_ARRAY_FLOAT32, FF_DIMS(n, 37, 3));
    ff_array *mask = ff_array_add(ctx, &s->raw, "all_atom_mask", FF_ARRAY_FLOAT32, FF_DIMS(n, 37));
    ff_array *resolution = ff_array_add(ctx, &s->raw, "resolution", FF_ARRAY_FLOAT32, 0, NULL);
    FF_TRY_DONE(ctx->status);
    memcpy(x->f32, c->positions + first * 111, (size_t)n * 111 * sizeof(float));
    memcpy(mask->f32, c->mask + first * 37, (size_t)n * 37 * sizeof(float));
    resolution->f32[0] = structure->resolution;
done:
    ff_msa_destroy(&msa);
    free(sequence);
    return status;
}

ff_status ff_chain_source_open_structure(ff_ctx *ctx, ff_chain_source *source, const char *path, const char *chain)
{
    ff_status status = FF_OK;
    ff_structure structure = {0};
    structure_source *s = calloc(1, sizeof *s);
    memset(source, 0, sizeof *source);
    if (s == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory");
    ff_array_set_init(&s->raw);
    *source = (ff_chain_source){.num_records = 1,
                                .arg = s,
                                .read = read_structure,
                                .name = structure_name,
                                .num_res = structure_num_res,
                                .close = close_structure};
    FF_TRY_DONE(ff_structure_read(ctx, &structure, path, NULL));
    const ff_structure_chain *c = chain == NULL ? &structure.chains[0] : ff_structure_find_chain(&structure, chain);
    if (c == NULL)
        FF_TRY_DONE(FF_FAIL(ctx, FF_ERR_ARG, "%s has no chain %s; its first is %s", path, chain, structure.chains[0].id));
    snprintf(s->name, sizeof s->name, "%s_%s", structure.entry_id, c->id);
    FF_TRY_DONE(take_chain(ctx, s, &structure, c));
    hash_weights(source);
done:
    ff_structure_destroy(&structure);
    if (status != FF_OK)
        ff_chain_source_close(source);
    return status;
}

/* ---- closing ---- */

void ff_chain_source_close(ff_chain_source *source)
{
    if (source->close != NULL)
        source->close(source->arg);
    free(source->weights);
    memset(source, 0, sizeof *source);
}
