/* command_process.c - fastfold-data process: raw features to a batch the model reads. */
#include <stddef.h>
#include <stdio.h>

#include "core/version.h"
#include "data/command.h"
#include "data/process.h"

typedef struct {
    const char *preset, *group, *output;
    int64_t num_seq, num_extra, num_recycle, num_ensemble, max_templates, crop, crop_start, seed, epoch, sample;
    bool random, pad;
} process_options;

#define AT(member) offsetof(process_options, member)
static const ff_option table[] = {
    {"group", FF_OPTION_STRING, AT(group), "/", NULL, "Input", "group of the file that holds the features"},
    {"preset", FF_OPTION_STRING, AT(preset), "model_1", NULL, "Sizes",
     "model_1 .. model_5, model_1_ptm .. model_5_ptm, small, tiny; for training initial, finetune"},
    {"num-seq", FF_OPTION_INT64, AT(num_seq), "-1", "-1..", "Sizes",
     "MSA rows, templates that become rows included (-1 here and below: as the preset has it)"},
    {"num-extra", FF_OPTION_INT64, AT(num_extra), "-1", "-1..", "Sizes", "extra MSA rows"},
    {"max-templates", FF_OPTION_INT64, AT(max_templates), "-1", "-1..", "Sizes", "templates; 0 = no template arrays"},
    {"num-recycle", FF_OPTION_INT64, AT(num_recycle), "-1", "-1..", "Sizes", "passes after the first"},
    {"num-ensemble", FF_OPTION_INT64, AT(num_ensemble), "-1", "-1..", "Sizes", "MSA samples of each pass"},
    {"crop", FF_OPTION_INT64, AT(crop), "-1", "-1..", "Sizes", "residues of a crop; 0 = the whole chain"},
    {"crop-start", FF_OPTION_INT64, AT(crop_start), "-1", "-1..", "Sizes", "first residue of the crop, from 0; -1 = drawn"},
    {"pad", FF_OPTION_FLAG, AT(pad), "on", NULL, "Sizes", "pad rows and templates to the sizes"},
    {"random", FF_OPTION_FLAG, AT(random), "on", NULL, "Random numbers",
     "draw rows, masks and crop; --no-random takes the first rows and masks nothing"},
    {"seed", FF_OPTION_INT64, AT(seed), "0", NULL, "Random numbers", "key of everything drawn"},
    {"epoch", FF_OPTION_INT64, AT(epoch), "0", "0..", "Random numbers", "epoch of the sample, part of the key"},
    {"sample", FF_OPTION_INT64, AT(sample), "0", "0..", "Random numbers", "number of the sample, part of the key"},
    {"o", FF_OPTION_STRING, AT(output), NULL, NULL, "Output", "HDF5 file of the batch"},
    FF_OPTION_END};

static void take(int64_t *value, int64_t given)
{
    if (given >= 0)
        *value = given;
}

static ff_status fill_options(ff_ctx *ctx, ff_process_options *to, const process_options *o)
{
    FF_TRY(ff_process_options_preset(ctx, to, o->preset));
    take(&to->num_seq, o->num_seq);
    take(&to->num_extra, o->num_extra);
    take(&to->max_templates, o->max_templates);
    take(&to->num_recycle, o->num_recycle);
    take(&to->num_ensemble, o->num_ensemble);
    take(&to->crop_size, o->crop);
    take(&to->crop_start, o->crop_start);
    to->random = o->random;
    to->pad = o->pad;
    to->key = (ff_sample_key){(uint64_t)o->seed, (uint64_t)o->epoch, (uint64_t)o->sample};
    return FF_OK;
}

static ff_status write_batch(ff_ctx *ctx, const ff_array_set *batch, const process_options *o)
{
    ff_hdf5_writer *writer = NULL;
    ff_status status = FF_OK;
    FF_TRY(ff_hdf5_create(ctx, &writer, o->output));
    FF_TRY_DONE(ff_array_set_write(ctx, batch, writer, "/"));
    FF_TRY_DONE(ff_hdf5_write_text_attribute(ctx, writer, "/", "fastfold_batch", FF_VERSION));
    FF_TRY_DONE(ff_hdf5_write_text_attribute(ctx, writer, "/", "preset", o->preset));
    FF_TRY_DONE(ff_hdf5_write_number_attribute(ctx, writer, "/", "seed", (double)o->seed));
    status = ff_hdf5_commit(ctx, writer);
    writer = NULL;
done:
    ff_hdf5_abandon(writer);
    return status;
}

static void print_batch(const ff_array_set *batch, const process_options *o)
{
    const ff_array *msa = ff_array_find(batch, "msa_feat"), *extra = ff_array_find(batch, "extra_msa"),
                   *templates = ff_array_find(batch, "template_mask");
    printf("%s: %lld slices of %lld residues, %lld MSA rows, %lld extra rows, %lld templates\n", o->output,
           (long long)msa->shape[0], (long long)msa->shape[2], (long long)msa->shape[1], (long long)extra->shape[1],
           (long long)(templates == NULL ? 0 : templates->shape[1]));
}

static int run(ff_ctx *ctx, const void *options, const ff_arguments *args)
{
    const process_options *o = options;
    ff_process_options process;
    ff_hdf5_file *file = NULL;
    ff_array_set raw, batch;
    ff_status status = FF_OK;
    if (args->num_positional != 1)
        return ff_command_usage(ctx, "one file of features is needed, %d were given; see --help", args->num_positional);
    if (o->output == NULL)
        return ff_command_usage(ctx, "-o FILE is missing: where the batch goes");
    if (fill_options(ctx, &process, o) != FF_OK)
        return FF_EXIT_USAGE;
    ff_array_set_init(&raw);
    ff_array_set_init(&batch);
    FF_TRY_DONE(ff_hdf5_open(ctx, &file, args->positional[0]));
    if (!ff_hdf5_exists(file, o->group))
        FF_TRY_DONE(FF_FAIL(ctx, FF_ERR_FORMAT, "%s: there is no group %s", args->positional[0], o->group));
    FF_TRY_DONE(ff_array_set_read(ctx, &raw, file, o->group));
    status = ff_process_features(ctx, &batch, &raw, &process);
    if (status != FF_OK) { /* the message names an array; say of which file */
        char text[FF_MESSAGE_BYTES];
        snprintf(text, sizeof text, "%s", ctx->message);
        ff_context_clear(ctx);
        FF_FAIL(ctx, status, "%s: %s", args->positional[0], text);
        goto done;
    }
    FF_TRY_DONE(write_batch(ctx, &batch, o));
    print_batch(&batch, o);
done:
    ff_hdf5_close(file);
    ff_array_set_destroy(&raw);
    ff_array_set_destroy(&batch);
    return status == FF_OK ? FF_EXIT_DONE : status == FF_ERR_ARG ? FF_EXIT_USAGE : FF_EXIT_FAILED;
}

const ff_command ff_command_process = {
    "process", "raw features of a chain to a batch the model reads",
    {"fastfold-data process", "FEATURES.h5 -o BATCH.h5 [options]",
     "Samples, masks, clusters, crops and pads the features of one chain as AlphaFold does, one slice for each recycle and\n"
     "ensemble. The same seed gives the same batch.",
     table},
    sizeof(process_options), run};
