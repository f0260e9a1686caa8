/* Contents: a feature file; a batch file. */
#include "infer/inputs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "structure/residue_constants.h"

const char *ff_input_single_sequence_note(void)
{
    return "no alignment: predicted from the single sequence, so confidence will be low; give an A3M file with --msa "
           "(ColabFold's MMseqs2 server makes one), or databases to search in, as --uniref90 FILE or --mmseqs DB";
}

/* ---- a feature file ---- */

static const char *first_text(const ff_array_set *set, const char *name)
{
    const ff_array *a = ff_array_find(set, name);
    return a == NULL || a->type != FF_ARRAY_TEXT || a->size < 1 || a->text[0] == NULL ? "" : a->text[0];
}

ff_status ff_input_read_features(ff_ctx *ctx, ff_array_set *features, ff_targets *targets, const char *path)
{
    ff_hdf5_file *file;
    FF_TRY(ff_hdf5_open(ctx, &file, path));
    const ff_status status = ff_array_set_read(ctx, features, file, "/");
    ff_hdf5_close(file);
    FF_TRY(status);
    const char *sequence = first_text(features, "sequence"), *name = first_text(features, "domain_name");
    if (ff_array_find(features, "msa") == NULL || sequence[0] == '\0')
        return FF_FAIL(ctx, FF_ERR_FORMAT, "%s holds no raw features (msa and sequence are looked for): "
                       "`fastfold-data features` makes such files; a model-ready batch is given with --batch", path);
    return ff_targets_add(ctx, targets, name, sequence, path, NULL, NULL, NULL);
}

/* ---- a batch file ---- */

/* The letters of the first slice's residues that are no padding. */
static char *batch_sequence(ff_ctx *ctx, const ff_array_set *batch)
{
    const ff_array *types = ff_array_need(ctx, batch, "aatype", FF_ARRAY_INT32, FF_DIMS(-1, -1));
    const ff_array *mask = types == NULL ? NULL
                                         : ff_array_need(ctx, batch, "seq_mask", FF_ARRAY_FLOAT32,
                                                         FF_DIMS(types->shape[0], types->shape[1]));
    if (mask == NULL || types->shape[0] < 1)
        return NULL;
    char *text = calloc((size_t)types->shape[1] + 1, 1);
    int64_t n = 0;
    for (int64_t i = 0; text != NULL && i < types->shape[1]; i++)
        if (mask->f32[i] > 0.0f && types->i32[i] >= 0 && types->i32[i] <= FF_AATYPE_X)
            text[n++] = ff_restypes[types->i32[i]];
    if (text == NULL)
        FF_FAIL(ctx, FF_ERR_MEM, "out of memory for a batch");
    return text;
}

/* "FILE.h5:/GROUP" in two. */
static void split_path(const char *path, char *file, char *group, size_t size)
{
    const char *colon = strstr(path, ".h5:");
    snprintf(file, size, "%.*s", colon == NULL ? (int)strlen(path) : (int)(colon - path + 3), path);
    snprintf(group, size, "%s%s", colon == NULL || colon[4] != '/' ? "/" : "", colon == NULL ? "" : colon + 4);
}

ff_status ff_input_read_batch(ff_ctx *ctx, ff_array_set *batch, ff_targets *targets, const char *path, bool *placeholder)
{
    enum { BYTES = 2048 };
    char file_path[BYTES], group[BYTES], inner[BYTES + 8], name[2 * BYTES + 16];
    ff_hdf5_file *file;
    double value;
    if (strlen(path) >= BYTES)
        return FF_FAIL(ctx, FF_ERR_ARG, "the path of the batch is longer than %d bytes", BYTES);
    split_path(path, file_path, group, BYTES);
    FF_TRY(ff_hdf5_open(ctx, &file, file_path));
    snprintf(inner, sizeof inner, "%s%sinput", group, strcmp(group, "/") == 0 ? "" : "/");
    ff_status status = FF_OK;
    if (!ff_hdf5_exists(file, group))
        status = FF_FAIL(ctx, FF_ERR_FORMAT, "%s has no group %s", file_path, group);
    else
        status = ff_array_set_read(ctx, batch, file, ff_hdf5_exists(file, inner) ? inner : group);
    if (status == FF_OK && ff_hdf5_read_attribute(file, group, "placeholder_for_undefined", &value, 1) > 0)
        *placeholder = value != 0;
    ff_hdf5_close(file);
    FF_TRY(status);
    if (ff_array_find(batch, "msa_feat") == NULL)
        return FF_FAIL(ctx, FF_ERR_FORMAT, "%s: group %s holds no batch (msa_feat is looked for); `fastfold-data process` makes one",
                       file_path, group);
    char *sequence = batch_sequence(ctx, batch);
    if (sequence == NULL)
        return ctx->status;
    const char *slash = strrchr(file_path, '/');
    snprintf(name, sizeof name, "%s%s", slash == NULL ? file_path : slash + 1, strcmp(group, "/") == 0 ? "" : group);
    char *dot = strstr(name, ".h5");
    if (dot != NULL)
        memmove(dot, dot + 3, strlen(dot + 3) + 1);
    for (char *p = name; *p != '\0'; p++)
        if (*p == '/')
            *p = '_';
    status = ff_targets_add(ctx, targets, name, sequence, path, NULL, NULL, NULL);
    free(sequence);
    return status;
}
