/* parse_structures.c - mmCIF and PDB files as named arrays. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/parse.h"
#include "data/structure_file.h"
#include "io/text_file.h"

/* Name of a chain's group: its id, "_" where that is blank or no name for a group. */
static const char *group_of(char group[64], const ff_structure_chain *chain)
{
    const bool usable = chain->id[0] != '\0' && strchr(chain->id, '/') == NULL && strcmp(chain->id, ".") != 0;
    snprintf(group, 64, "%.62s", usable ? chain->id : "_");
    return group;
}

/* "2 chains, 140 residues, 89 observed, 3.0 Å" */
static void summarize(ff_parsed *parsed, const ff_structure *s)
{
    int64_t residues = 0, observed = 0;
    for (int64_t k = 0; k < s->num_chains; k++) {
        residues += s->chains[k].num_res;
        observed += s->chains[k].num_observed;
    }
    snprintf(parsed->summary, sizeof parsed->summary,
             "%lld chains, %lld residues, %lld observed, %lld models, %.4g Å, %.60s", (long long)s->num_chains,
             (long long)residues, (long long)observed, (long long)s->num_models, (double)s->resolution,
             s->method[0] == '\0' ? "no method" : s->method);
}

/* Attributes of the entry at "/", arrays of each chain below CHAIN. */
static ff_status put_structure(ff_ctx *ctx, ff_parsed *parsed, const ff_structure *s)
{
    char *chains = NULL, group[64], prefix[66];
    size_t size = 0;
    FILE *memory = open_memstream(&chains, &size);
    if (memory == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory");
    ff_status status = FF_OK;
    for (int64_t k = 0; status == FF_OK && k < s->num_chains; k++) {
        const ff_structure_chain *chain = &s->chains[k];
        fprintf(memory, "%s%s", k > 0 ? " " : "", chain->id);
        snprintf(prefix, sizeof prefix, "%s/", group_of(group, chain));
        status = ff_structure_chain_arrays(ctx, &parsed->arrays, prefix, chain);
        snprintf(prefix, sizeof prefix, "/%s", group);
        if (status == FF_OK)
            status = ff_parsed_put_number(ctx, parsed, prefix, "num_res", (double)chain->num_res);
        if (status == FF_OK && chain->problem != NULL)
            status = ff_parsed_put_text(ctx, parsed, prefix, "problem", chain->problem);
    }
    fclose(memory);
    if (status == FF_OK)
        status = ff_parsed_put_text(ctx, parsed, "/", "chains", chains);
    free(chains);
    FF_TRY(status);
    FF_TRY(ff_parsed_put_number(ctx, parsed, "/", "resolution", s->resolution));
    FF_TRY(ff_parsed_put_number(ctx, parsed, "/", "num_models", (double)s->num_models));
    FF_TRY(ff_parsed_put_text(ctx, parsed, "/", "release_date", s->release_date));
    FF_TRY(ff_parsed_put_text(ctx, parsed, "/", "structure_method", s->method));
    summarize(parsed, s);
    return FF_OK;
}

ff_status ff_parse_mmcif(ff_ctx *ctx, ff_parsed *parsed, const char *path, const ff_parse_options *options)
{
    ff_structure s;
    const ff_structure_options how = {FF_STRUCTURE_MMCIF, options->alphafold_compatible};
    ff_status status = ff_structure_read(ctx, &s, path, &how);
    if (status == FF_OK)
        status = put_structure(ctx, parsed, &s);
    ff_structure_destroy(&s);
    return status;
}

/* Arrays of from_pdb_string, and the PDB text of them where that format can hold it. */
static ff_status put_protein(ff_ctx *ctx, ff_parsed *parsed, const ff_protein *protein)
{
    char *text = NULL;
    size_t size = 0;
    FF_TRY(ff_protein_arrays(ctx, &parsed->arrays, protein));
    FF_TRY(ff_parsed_put_number(ctx, parsed, "/", "num_res", (double)protein->num_res));
    FILE *memory = open_memstream(&text, &size);
    if (memory == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory");
    ff_status status = ff_pdb_write(ctx, memory, protein, NULL);
    fclose(memory);
    if (status == FF_OK) {
        ff_array *array = ff_array_add(ctx, &parsed->arrays, "to_pdb", FF_ARRAY_TEXT, 0, NULL);
        status = array == NULL ? ctx->status : ff_array_put_text(ctx, array, 0, text, size);
    } else if (status == FF_ERR_ARG) { /* more chains than letters: the arrays are still good */
        FF_WARN(ctx, "no to_pdb: %s", ctx->message);
        ff_context_clear(ctx);
        status = FF_OK;
    }
    free(text);
    return status;
}

ff_status ff_parse_pdb(ff_ctx *ctx, ff_parsed *parsed, const char *path, const ff_parse_options *options)
{
    ff_structure s = {.num_chains = 0};
    ff_protein protein = {.num_res = 0};
    char *data = NULL;
    size_t size = 0;
    const ff_structure_options how = {FF_STRUCTURE_PDB, options->alphafold_compatible};
    FF_TRY(ff_text_read_all(ctx, path, &data, &size)); /* once: it may be a pipe */
    ff_status status = ff_structure_read_protein_bytes(ctx, &protein, data, size, path, &how);
    if (status == FF_OK)
        status = put_protein(ctx, parsed, &protein);
    if (status == FF_OK && options->alphafold_compatible)
        snprintf(parsed->summary, sizeof parsed->summary, "%lld residues, waters and ligands with them",
                 (long long)protein.num_res);
    if (status == FF_OK && !options->alphafold_compatible) {
        status = ff_structure_read_bytes(ctx, &s, data, size, path, &how);
        if (status == FF_OK)
            status = put_structure(ctx, parsed, &s);
    }
    ff_structure_destroy(&s);
    ff_protein_destroy(&protein);
    free(data);
    return status;
}
