/* structure_file.c - the part of structure_file.h that needs no gemmi. */
#include "data/structure_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/text_file.h"
#include "structure/residue_constants.h"

void ff_structure_destroy(ff_structure *structure)
{
    for (int64_t k = 0; k < structure->num_chains; k++) {
        ff_structure_chain *c = &structure->chains[k];
        free(c->id);
        free(c->label_id);
        free(c->problem);
        free(c->sequence);
        free(c->aatype);
        free(c->is_missing);
        free(c->residue_name);
        free(c->author_number);
        free(c->insertion_code);
        free(c->hetflag);
        free(c->positions);
        free(c->mask);
        free(c->b_factors);
    }
    free(structure->chains);
    free(structure->entry_id);
    free(structure->release_date);
    free(structure->method);
    *structure = (ff_structure){.num_chains = 0};
}

ff_status ff_structure_read(ff_ctx *ctx, ff_structure *structure, const char *path,
                            const ff_structure_options *options)
{
    *structure = (ff_structure){.num_chains = 0};
    char *data = NULL;
    size_t size = 0;
    FF_TRY(ff_text_read_all(ctx, path, &data, &size));
    const ff_status status = ff_structure_read_bytes(ctx, structure, data, size, path, options);
    free(data);
    return status;
}

ff_status ff_structure_read_protein(ff_ctx *ctx, ff_protein *protein, const char *path,
                                    const ff_structure_options *options)
{
    *protein = (ff_protein){.num_res = 0};
    char *data = NULL;
    size_t size = 0;
    FF_TRY(ff_text_read_all(ctx, path, &data, &size));
    const ff_status status = ff_structure_read_protein_bytes(ctx, protein, data, size, path, options);
    free(data);
    return status;
}

const ff_structure_chain *ff_structure_find_chain(const ff_structure *structure, const char *id)
{
    for (int64_t k = 0; k < structure->num_chains; k++)
        if (strcmp(structure->chains[k].id, id) == 0)
            return &structure->chains[k];
    return NULL;
}

bool ff_structure_is_date(const char *text)
{
    static const char pattern[] = "dddd-dd-dd";
    int i = 0;
    for (; pattern[i] != '\0' && text[i] != '\0'; i++)
        if (pattern[i] == 'd' ? text[i] < '0' || text[i] > '9' : text[i] != '-')
            return false;
    return pattern[i] == text[i];
}

/* ---- arrays ---- */

typedef struct {
    ff_ctx *ctx;
    ff_array_set *set;
    const char *prefix;
    int64_t num_res;
} target;

static ff_array *add(const target *t, const char *name, ff_array_type type, int ndim, const int64_t *shape)
{
    char path[256];
    snprintf(path, sizeof path, "%s%s", t->prefix, name);
    return ff_array_add(t->ctx, t->set, path, type, ndim, shape);
}

static ff_status add_numbers(const target *t, const char *name, ff_array_type type, int ndim, const int64_t *shape,
                             const void *data)
{
    ff_array *array = add(t, name, type, ndim, shape);
    if (array == NULL)
        return t->ctx->status;
    memcpy(array->data, data, (size_t)array->size * ff_array_type_bytes(type));
    return FF_OK;
}

/* Texts of each residue: its name, insertion code or hetero flag. */
static ff_status add_texts(const target *t, const ff_structure_chain *chain)
{
    ff_array *name = add(t, "residue_name", FF_ARRAY_TEXT, FF_DIMS(t->num_res));
    ff_array *code = add(t, "insertion_code", FF_ARRAY_TEXT, FF_DIMS(t->num_res));
    ff_array *flag = add(t, "hetflag", FF_ARRAY_TEXT, FF_DIMS(t->num_res));
    if (name == NULL || code == NULL || flag == NULL)
        return t->ctx->status;
    for (int64_t i = 0; i < t->num_res; i++) {
        char text[FF_RESIDUE_NAME_BYTES + 2];
        const char het = chain->hetflag[i];
        if (het == 'H')
            snprintf(text, sizeof text, "H_%s", chain->residue_name[i]);
        else
            snprintf(text, sizeof text, "%c", het);
        FF_TRY(ff_array_put_text(t->ctx, name, i, chain->residue_name[i], strlen(chain->residue_name[i])));
        FF_TRY(ff_array_put_text(t->ctx, code, i, &chain->insertion_code[i], 1));
        FF_TRY(ff_array_put_text(t->ctx, flag, i, text, strlen(text)));
    }
    return FF_OK;
}

ff_status ff_structure_chain_arrays(ff_ctx *ctx, ff_array_set *set, const char *prefix,
                                    const ff_structure_chain *chain)
{
    const int64_t n = chain->num_res;
    const target t = {ctx, set, prefix, n};
    ff_array *sequence = add(&t, "sequence", FF_ARRAY_TEXT, 0, NULL);
    if (sequence == NULL)
        return ctx->status;
    FF_TRY(ff_array_put_text(ctx, sequence, 0, chain->sequence, (size_t)n));
    FF_TRY(add_numbers(&t, "aatype", FF_ARRAY_INT32, FF_DIMS(n), chain->aatype));
    FF_TRY(add_numbers(&t, "is_missing", FF_ARRAY_INT8, FF_DIMS(n), chain->is_missing));
    FF_TRY(add_numbers(&t, "author_residue_number", FF_ARRAY_INT32, FF_DIMS(n), chain->author_number));
    FF_TRY(add_numbers(&t, "all_atom_positions", FF_ARRAY_FLOAT32, FF_DIMS(n, FF_NUM_ATOM37, 3), chain->positions));
    FF_TRY(add_numbers(&t, "all_atom_mask", FF_ARRAY_FLOAT32, FF_DIMS(n, FF_NUM_ATOM37), chain->mask));
    return add_texts(&t, chain);
}
