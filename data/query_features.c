#include "data/query_features.h"

#include <stdlib.h>
#include <string.h>

#include "core/version.h"
#include "data/features.h"
#include "data/hhr.h"
#include "data/hmmsearch.h"
#include "data/msa_folder.h"
#include "io/hdf5_file.h"

/* ---- alignments ---- */

/* Read all files; `own` gets the query alone where it must stand first. all[] is filled with what counts, in order.
 * */
static ff_status read_msas(ff_ctx *ctx, const ff_query_input *in, ff_msa *read, ff_msa *own, const ff_msa **all,
                           int64_t *num_all)
{
    const int64_t num_res = (int64_t)strlen(in->sequence);
    *num_all = 0;
    for (int64_t m = 0; m < in->num_msas; m++) {
        const ff_msa_options options = {.max_seq = in->msas[m].max_seq, .lenient = !in->alphafold_compatible};
        FF_TRY(ff_msa_file_read(ctx, &read[m], in->msas[m].path, &options));
        FF_TRY(ff_msa_check(ctx, &read[m], num_res));
        const int64_t differences = m > 0 ? 0 : ff_msa_differences(&read[m], in->sequence);
        if (differences > 0)
            FF_WARN(ctx, "%s: its first row differs from the query in %lld of %lld residues%s", in->msas[m].path,
                    (long long)differences, (long long)num_res,
                    in->alphafold_compatible ? "" : "; the query is put before it");
        if (differences > 0 && !in->alphafold_compatible) {
            FF_TRY(ff_msa_from_sequence(ctx, own, in->sequence, in->description));
            all[(*num_all)++] = own;
        }
        all[(*num_all)++] = &read[m];
    }
    if (in->num_msas > 0)
        return FF_OK;
    if (!in->quiet_alone)
        FF_WARN(ctx, "\"%.80s\" has no alignment; its features are those of the sequence alone", in->description);
    FF_TRY(ff_msa_from_sequence(ctx, own, in->sequence, in->description));
    all[(*num_all)++] = own;
    return FF_OK;
}

/* Search tools know the query as "query"; its species is told by its own name, as AlphaFold has it. */
static ff_status name_query(ff_ctx *ctx, ff_array_set *set, const ff_query_input *in)
{
    char species[8];
    if (in->num_msas == 0 || !in->msas[0].searched)
        return FF_OK;
    ff_msa_species(species, in->description);
    return ff_array_put_text(ctx, ff_array_find(set, "msa_species_identifiers"), 0, species, strlen(species));
}

static ff_status add_msas(ff_ctx *ctx, ff_array_set *set, const ff_query_input *in, ff_query_counts *counts)
{
    ff_status status = FF_OK;
    ff_msa own = {0}, *read = calloc((size_t)in->num_msas + 1, sizeof *read);
    const ff_msa **all = calloc((size_t)in->num_msas + 2, sizeof *all);
    int64_t num_all = 0;
    if (read == NULL || all == NULL) {
        status = FF_FAIL(ctx, FF_ERR_MEM, "out of memory");
        goto done;
    }
    FF_TRY_DONE(read_msas(ctx, in, read, &own, all, &num_all));
    FF_TRY_DONE(ff_features_add_msas(ctx, set, all, num_all, counts->num_res));
    FF_TRY_DONE(name_query(ctx, set, in));
    counts->num_seq = ff_array_find(set, "msa")->shape[0];
done:
    for (int64_t m = 0; read != NULL && m < in->num_msas; m++)
        ff_msa_destroy(&read[m]);
    ff_msa_destroy(&own);
    free(read);
    free(all);
    return status;
}

/* ---- templates ---- */

static ff_status add_templates(ff_ctx *ctx, ff_array_set *set, const ff_query_input *in, ff_query_counts *counts)
{
    ff_template_hits hits = {0};
    ff_file_kind kind;
    if (in->templates == NULL)
        return FF_OK;
    if (in->hits == NULL)
        return ff_features_add_no_templates(ctx, set, counts->num_res);
    FF_TRY(ff_msa_file_kind(ctx, in->hits, &kind));
    if (kind == FF_FILE_A3M)
        return FF_FAIL(ctx, FF_ERR_FORMAT,
                       "%s is an alignment; template hits are .hhr files or Stockholm of hmmsearch", in->hits);
    const bool hhr = kind == FF_FILE_HHR;
    if (hhr)
        FF_TRY(ff_hhr_read(ctx, &hits, in->hits));
    else
        FF_TRY(ff_hmmsearch_read(ctx, &hits, in->hits, in->sequence, in->alphafold_compatible));
    const ff_status status = ff_features_add_templates(ctx, set, in->templates, &hits,
                                                       hhr ? FF_HITS_HHSEARCH : FF_HITS_HMMSEARCH, in->sequence);
    ff_template_hits_destroy(&hits);
    FF_TRY(status);
    counts->num_templates = ff_array_find(set, "template_aatype")->shape[0];
    return FF_OK;
}

ff_status ff_query_features(ff_ctx *ctx, ff_array_set *set, const ff_query_input *input, ff_query_counts *counts)
{
    *counts = (ff_query_counts){.num_res = (int64_t)strlen(input->sequence)};
    FF_TRY(ff_features_add_sequence(ctx, set, input->sequence, input->description));
    FF_TRY(add_msas(ctx, set, input, counts));
    return add_templates(ctx, set, input, counts);
}

/* ---- the file ---- */

ff_status ff_query_features_write(ff_ctx *ctx, const ff_array_set *set, const ff_query_input *input, const char *path)
{
    ff_hdf5_writer *writer = NULL;
    ff_text_buffer files = {0};
    ff_status status = FF_OK;
    for (int64_t m = 0; m < input->num_msas; m++) {
        FF_TRY_DONE(ff_text_buffer_put(ctx, &files, "\n", m > 0));
        FF_TRY_DONE(ff_text_buffer_put(ctx, &files, input->msas[m].path, strlen(input->msas[m].path)));
    }
    FF_TRY_DONE(ff_hdf5_create(ctx, &writer, path));
    FF_TRY_DONE(ff_array_set_write(ctx, set, writer, "/"));
    FF_TRY_DONE(ff_hdf5_write_text_attribute(ctx, writer, "/", "fastfold_features", FF_VERSION));
    FF_TRY_DONE(ff_hdf5_write_text_attribute(ctx, writer, "/", "msa_files", files.data == NULL ? "" : files.data));
    if (input->hits != NULL)
        FF_TRY_DONE(ff_hdf5_write_text_attribute(ctx, writer, "/", "template_hits", input->hits));
    status = ff_hdf5_commit(ctx, writer);
    writer = NULL;
done:
    ff_hdf5_abandon(writer);
    ff_text_buffer_destroy(&files);
    return status;
}
