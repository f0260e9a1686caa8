/* Runners of the groups mmcif/F and pdb/F of data_parsers.h5. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/structure_file.h"
#include "tests/golden_data.h"

/* "mmcif|1A8O.cif" of "mmcif/mmcif|1A8O.cif" */
static const char *file_of(const char *group) { return strchr(group, '/') + 1; }

/* A refused file: the reader's message is what counts, and the context is free for the next case. */
static void check_refusal(golden_data *g, ff_status status)
{
    golden_data_check(g, "refused",
                      status == FF_ERR_FORMAT && strchr(g->ctx->message, '\n') == NULL && g->ctx->message[0] != '\0',
                      "the reference refuses this file, we do not: %s", ff_status_name(status));
    ff_context_clear(g->ctx);
}

static void check_text(golden_data *g, const char *group, const char *name, const char *got)
{
    char *want = golden_data_text(g, group, name);
    golden_data_check(g, name, want != NULL && strcmp(want, got) == 0, "is \"%s\", wanted \"%s\"", got,
                      want == NULL ? "(absent)" : want);
    free(want);
}

static void check_header(golden_data *g, const char *group, const ff_structure *s)
{
    char chains[256] = "";
    const double resolution = golden_data_number(g, group, "resolution", -1);
    for (int64_t k = 0; k < s->num_chains; k++)
        snprintf(chains + strlen(chains), sizeof chains - strlen(chains), "%s%s", k > 0 ? " " : "", s->chains[k].id);
    check_text(g, group, "release_date", s->release_date);
    check_text(g, group, "structure_method", s->method);
    check_text(g, group, "chains", chains);
    golden_data_check(g, "resolution", s->resolution == (float)resolution, "is %g, wanted %g", (double)s->resolution,
                      resolution);
}

/* The reference reads 1pfe's microheterogeneous places as residues of their own: 10, where the entry has 8. */
static void check_1pfe(golden_data *g, const ff_structure_chain *c)
{
    golden_data_check(g, "1pfe", c->num_res == 8 && strcmp(c->sequence, "SAXVSAXV") == 0 && c->num_observed == 8,
                      "%lld residues, %s, wanted 8, SAXVSAXV", (long long)c->num_res, c->sequence);
}

static ff_status compare_chain(golden_data *g, const char *group, const ff_structure_chain *c)
{
    char path[512];
    ff_array_set got;
    ff_array_set_init(&got);
    snprintf(path, sizeof path, "%s/%s", group, c->id);
    const ff_status status = ff_structure_chain_arrays(g->ctx, &got, "", c);
    if (status == FF_OK) {
        golden_data_compare(g, path, &got, 0);
        golden_data_check(g, "problem", c->problem == NULL, "%s", c->problem == NULL ? "" : c->problem);
    }
    ff_array_set_destroy(&got);
    return status;
}

static ff_status run_mmcif(golden_data *g, const char *group)
{
    char path[1024];
    ff_structure s;
    const ff_structure_options strict = {FF_STRUCTURE_AUTO, true};
    golden_data_path(g, file_of(group), path, sizeof path);
    ff_status status = ff_structure_read(g->ctx, &s, path, &strict);
    if (golden_data_number(g, group, "ok", 0) == 0) {
        check_refusal(g, status);
        ff_structure_destroy(&s);
        return FF_OK;
    }
    if (status == FF_OK) {
        check_header(g, group, &s);
        for (int64_t k = 0; status == FF_OK && k < s.num_chains; k++) {
            if (strstr(group, "1pfe") != NULL)
                check_1pfe(g, &s.chains[k]);
            else
                status = compare_chain(g, group, &s.chains[k]);
        }
    }
    ff_structure_destroy(&s);
    return status;
}

/* The text written back, as one array. */
static ff_status add_pdb_text(golden_data *g, ff_array_set *got, const ff_protein *p)
{
    char *text = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&text, &size);
    if (memory == NULL)
        return FF_FAIL(g->ctx, FF_ERR_MEM, "out of memory");
    ff_status status = ff_pdb_write(g->ctx, memory, p, NULL);
    fclose(memory);
    ff_array *array = status == FF_OK ? ff_array_add(g->ctx, got, "to_pdb", FF_ARRAY_TEXT, 0, NULL) : NULL;
    status = array == NULL ? g->ctx->status : ff_array_put_text(g->ctx, array, 0, text, size);
    free(text);
    return status;
}

static ff_status run_pdb(golden_data *g, const char *group)
{
    char path[1024];
    ff_protein p;
    ff_array_set got;
    golden_data_path(g, file_of(group), path, sizeof path);
    const ff_structure_options strict = {FF_STRUCTURE_PDB, true};
    ff_status status = ff_structure_read_protein(g->ctx, &p, path, &strict);
    if (golden_data_number(g, group, "ok", 0) == 0) {
        check_refusal(g, status);
        ff_protein_destroy(&p);
        return FF_OK;
    }
    ff_array_set_init(&got);
    if (status == FF_OK)
        status = ff_protein_arrays(g->ctx, &got, &p);
    if (status == FF_OK)
        status = add_pdb_text(g, &got, &p);
    if (status == FF_OK)
        golden_data_compare(g, group, &got, 0);
    ff_array_set_destroy(&got);
    ff_protein_destroy(&p);
    return status;
}

const golden_data_kind golden_data_structure_kinds[] = {
    {"data_parsers", "mmcif", 1, run_mmcif}, {"data_parsers", "pdb", 1, run_pdb}, {NULL, NULL, 0, NULL}};
