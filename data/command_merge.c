/* command_merge.c - fastfold-data merge and check: training sets joined, and looked through. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "data/command.h"
#include "data/dataset.h"

/* ---- merge ---- */

typedef struct {
    const char *output;
} merge_options;

static const ff_option merge_table[] = {
    {"o", FF_OPTION_STRING, offsetof(merge_options, output), NULL, NULL, "Output", "the data set of all records"},
    FF_OPTION_END};

static ff_status add_all(ff_ctx *ctx, ff_dataset_writer *writer, const char *path)
{
    ff_dataset *d;
    FF_TRY(ff_dataset_open(ctx, &d, path));
    ff_status status = FF_OK;
    for (int64_t k = 0; status == FF_OK && k < ff_dataset_count(d); k++)
        status = ff_dataset_add_from(ctx, writer, d, k);
    ff_dataset_close(d);
    return status;
}

static int run_merge(ff_ctx *ctx, const void *options, const ff_arguments *args)
{
    const merge_options *o = options;
    ff_dataset_writer *writer;
    if (args->num_positional == 0)
        return ff_command_usage(ctx, "no data set given; see --help");
    if (o->output == NULL)
        return ff_command_usage(ctx, "-o needs the name of the new data set");
    if (ff_dataset_create(ctx, &writer, o->output, false) != FF_OK)
        return FF_EXIT_FAILED;
    ff_status status = FF_OK;
    for (int i = 0; status == FF_OK && i < args->num_positional; i++)
        status = add_all(ctx, writer, args->positional[i]);
    if (status != FF_OK) {
        ff_dataset_abandon(writer);
        return FF_EXIT_FAILED;
    }
    const int64_t count = ff_dataset_written(writer);
    if (ff_dataset_commit(ctx, writer) != FF_OK)
        return FF_EXIT_FAILED;
    printf("%s: %lld records of %d files\n", o->output, (long long)count, args->num_positional);
    return FF_EXIT_DONE;
}

const ff_command ff_command_merge = {"merge",
                                     "join training sets",
                                     {"fastfold-data merge", "A.h5 B.h5... -o C.h5",
                                      "Writes the records of all files to a new one, in their order. A name that two "
                                      "of them have is an error, and nothing is\n"
                                      "written.",
                                      merge_table},
                                     sizeof(merge_options),
                                     run_merge};

/* ---- check ---- */

typedef struct {
    bool list;
} check_options;

static const ff_option check_table[] = {
    {"list", FF_OPTION_FLAG, offsetof(check_options, list), NULL, NULL, "Output", "one line a record"},
    FF_OPTION_END};

/* Values of a record that was read. */
static ff_status check_values(ff_ctx *ctx, const char *path, const ff_dataset_record *r, const ff_array_set *features)
{
    const ff_array *positions = ff_array_find(features, "all_atom_positions"),
                   *mask = ff_array_find(features, "all_atom_mask");
    const ff_array *aatype = ff_array_find(features, "aatype"), *index = ff_array_find(features, "residue_index");
    const ff_array *msa = ff_array_find(features, "msa");
    int64_t not_finite = 0, bad_mask = 0, bad_code = 0, bad_index = 0, observed = 0;
    for (int64_t i = 0; i < positions->size; i++)
        not_finite += !isfinite(positions->f32[i]);
    for (int64_t i = 0; i < mask->size; i++)
        bad_mask += mask->f32[i] != 0 && mask->f32[i] != 1;
    for (int64_t i = 0; i < aatype->size; i++) {
        bool any = false;
        for (int64_t a = 0; a < 37; a++)
            any = any || mask->f32[i * 37 + a] != 0;
        observed += any;
        bad_code += aatype->i32[i] < 0 || aatype->i32[i] > 20;
        bad_index += i > 0 && index->i32[i] <= index->i32[i - 1];
    }
    for (int64_t i = 0; i < msa->size; i++)
        bad_code += msa->i8[i] < 0 || msa->i8[i] > 21;
    if (not_finite > 0 || bad_mask > 0 || bad_code > 0 || bad_index > 0 || observed > r->num_observed)
        return FF_FAIL(ctx, FF_ERR_FORMAT,
                       "%s: record %s: %lld coordinates not finite, %lld mask values not 0 or 1, %lld codes out of "
                       "range, %lld residue "
                       "numbers not increasing, %lld residues with atoms of %lld observed",
                       path, r->name, (long long)not_finite, (long long)bad_mask, (long long)bad_code,
                       (long long)bad_index, (long long)observed, (long long)r->num_observed);
    return FF_OK;
}

static void check_record(ff_ctx *ctx, ff_dataset *d, int64_t k, const char *path, bool list, ff_batch *batch)
{
    const ff_dataset_record *r = ff_dataset_get(d, k);
    ff_array_set features;
    ff_array_set_init(&features);
    ff_status status = ff_dataset_read(ctx, d, k, 0, -1, &features);
    if (status == FF_OK)
        status = check_values(ctx, path, r, &features);
    ff_array_set_destroy(&features);
    if (list)
        printf("%-24s %5lld residues %5lld observed %6lld rows  %5.2f Å%s  %-10s  %s%s\n", r->name,
               (long long)r->num_res, (long long)r->num_observed, (long long)r->num_msa, (double)r->resolution,
               r->resolution_assumed ? " assumed" : "", r->release_date, r->is_distillation ? "distillation  " : "",
               status == FF_OK ? "good" : "BAD");
    if (status == FF_OK)
        ff_batch_good(batch);
    else
        ff_batch_bad(batch, ctx);
}

/* What training will draw from. */
static void print_summary(ff_ctx *ctx, const ff_dataset *d, const char *path)
{
    const ff_dataset_filter filter = ff_dataset_filter_default();
    ff_dataset_filter_counts counts = {0};
    int64_t residues = 0, aligned = 0, unknown = 0, assumed = 0, predicted = 0;
    for (int64_t k = 0; k < ff_dataset_count(d); k++) {
        const ff_dataset_record *r = ff_dataset_get(d, k);
        residues += r->num_res;
        aligned += r->num_msa > 0;
        unknown += r->resolution == 0;
        assumed += r->resolution_assumed;
        predicted += r->is_distillation;
    }
    double *weights = malloc(((size_t)ff_dataset_count(d) + 1) * sizeof *weights);
    if (weights != NULL && ff_dataset_weights(ctx, d, &filter, weights, &counts) != FF_OK)
        ff_context_clear(ctx); /* nothing passes: the counts say so */
    free(weights);
    printf("%s: %lld records, %lld residues, %lld with an alignment, %lld of unknown and %lld of assumed resolution, "
           "%lld predicted; "
           "AlphaFold's filters pass %lld in %lld clusters (out: %lld by resolution, %lld by composition)\n",
           path, (long long)ff_dataset_count(d), (long long)residues, (long long)aligned, (long long)unknown,
           (long long)assumed, (long long)predicted, (long long)counts.passed, (long long)counts.clusters,
           (long long)counts.by_resolution, (long long)counts.by_composition);
}

static int run_check(ff_ctx *ctx, const void *options, const ff_arguments *args)
{
    const check_options *o = options;
    ff_batch batch = {0, 0, NULL};
    if (args->num_positional == 0)
        return ff_command_usage(ctx, "no data set given; see --help");
    for (int i = 0; i < args->num_positional; i++) {
        ff_dataset *d;
        if (ff_dataset_open(ctx, &d, args->positional[i]) != FF_OK) {
            ff_batch_bad(&batch, ctx);
            continue;
        }
        for (int64_t k = 0; k < ff_dataset_count(d); k++)
            check_record(ctx, d, k, args->positional[i], o->list, &batch);
        print_summary(ctx, d, args->positional[i]);
        ff_dataset_close(d);
    }
    return ff_batch_finish(&batch, ctx);
}

const ff_command ff_command_check = {
    "check",
    "look through a training set: every record readable, shapes, values",
    {"fastfold-data check", "DATASET.h5... [--list]",
     "Reads every record whole. Bad ones are listed at the end; the exit status is then 1.", check_table},
    sizeof(check_options),
    run_check};
