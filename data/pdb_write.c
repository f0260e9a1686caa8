#include "data/pdb_write.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io/safe_file.h"
#include "structure/residue_constants.h"

enum { MAX_CHAINS = 62, MAX_SERIAL = 99999, COLUMNS = 80 };
static const char chain_ids[MAX_CHAINS + 1] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

ff_status ff_protein_create(ff_ctx *ctx, ff_protein *protein, int64_t num_res)
{
    const size_t n = (size_t)(num_res > 0 ? num_res : 1), atoms = n * FF_NUM_ATOM37;
    float *block = calloc(atoms * 5 + n * 3, sizeof *block);
    *protein = (ff_protein){.num_res = 0};
    if (block == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory for %lld residues", (long long)num_res);
    protein->num_res = num_res;
    protein->atom_positions = block;
    protein->atom_mask = block + 3 * atoms;
    protein->b_factors = block + 4 * atoms;
    protein->aatype = (int32_t *)(void *)(block + 5 * atoms);
    protein->residue_index = protein->aatype + n;
    protein->chain_index = protein->aatype + 2 * n;
    return FF_OK;
}

void ff_protein_destroy(ff_protein *protein)
{
    free(protein->atom_positions);
    *protein = (ff_protein){.num_res = 0};
}

static ff_status add(ff_ctx *ctx, ff_array_set *set, const char *name, ff_array_type type, int ndim,
                     const int64_t *shape, const void *data)
{
    ff_array *array = ff_array_add(ctx, set, name, type, ndim, shape);
    if (array == NULL)
        return ctx->status;
    if (array->size > 0)
        memcpy(array->data, data, (size_t)array->size * ff_array_type_bytes(type));
    return FF_OK;
}

ff_status ff_protein_arrays(ff_ctx *ctx, ff_array_set *set, const ff_protein *p)
{
    const int64_t n = p->num_res;
    FF_TRY(add(ctx, set, "aatype", FF_ARRAY_INT32, FF_DIMS(n), p->aatype));
    FF_TRY(add(ctx, set, "atom_positions", FF_ARRAY_FLOAT32, FF_DIMS(n, FF_NUM_ATOM37, 3), p->atom_positions));
    FF_TRY(add(ctx, set, "atom_mask", FF_ARRAY_FLOAT32, FF_DIMS(n, FF_NUM_ATOM37), p->atom_mask));
    FF_TRY(add(ctx, set, "residue_index", FF_ARRAY_INT32, FF_DIMS(n), p->residue_index));
    FF_TRY(add(ctx, set, "chain_index", FF_ARRAY_INT32, FF_DIMS(n), p->chain_index));
    return add(ctx, set, "b_factors", FF_ARRAY_FLOAT32, FF_DIMS(n, FF_NUM_ATOM37), p->b_factors);
}

/* ---- PDB text ---- */

static void print_padded(FILE *file, const char *line) { fprintf(file, "%-*s\n", COLUMNS, line); }

static void print_chain_end(FILE *file, const ff_protein *p, int64_t i, int serial)
{
    char line[COLUMNS + 1];
    snprintf(line, sizeof line, "%-6s%5d      %3s %c%4d", "TER", serial, ff_resnames[p->aatype[i]],
             chain_ids[p->chain_index[i]], p->residue_index[i]);
    print_padded(file, line);
}

static ff_status check_residue(ff_ctx *ctx, const ff_protein *p, int64_t i)
{
    if (p->aatype[i] < 0 || p->aatype[i] > FF_AATYPE_X)
        return FF_FAIL(ctx, FF_ERR_ARG, "PDB: residue %lld has aatype %d, not 0..20", (long long)i, p->aatype[i]);
    if (p->chain_index[i] < 0 || p->chain_index[i] >= MAX_CHAINS)
        return FF_FAIL(ctx, FF_ERR_ARG, "PDB: residue %lld is in chain %d; the format holds %d chains", (long long)i,
                       p->chain_index[i], MAX_CHAINS);
    if (p->residue_index[i] < -999 || p->residue_index[i] > 9999)
        return FF_FAIL(ctx, FF_ERR_ARG, "PDB: residue number %d does not fit in four columns", p->residue_index[i]);
    return FF_OK;
}

static ff_status print_atom(ff_ctx *ctx, FILE *file, const ff_protein *p, int64_t i, int a, int serial)
{
    const char *name = ff_atom_types[a];
    const float *at = p->atom_positions + (i * FF_NUM_ATOM37 + a) * 3;
    const float b = p->b_factors[i * FF_NUM_ATOM37 + a];
    char spaced[8], line[160];
    snprintf(spaced, sizeof spaced, strlen(name) == 4 ? "%s" : " %s", name);
    const int n = snprintf(line, sizeof line, "%-6s%5d %-4s %3s %c%4d    %8.3f%8.3f%8.3f%6.2f%6.2f          %2.1s  ",
                           "ATOM", serial, spaced, ff_resnames[p->aatype[i]], chain_ids[p->chain_index[i]],
                           p->residue_index[i], (double)at[0], (double)at[1], (double)at[2], 1.0, (double)b, name);
    if (!isfinite(at[0]) || !isfinite(at[1]) || !isfinite(at[2]) || !isfinite(b) || n != COLUMNS)
        return FF_FAIL(ctx, FF_ERR_ARG,
                       "PDB: atom %s of residue %lld at (%g, %g, %g), B factor %g, does not fit in its columns", name,
                       (long long)i, (double)at[0], (double)at[1], (double)at[2], (double)b);
    fprintf(file, "%s\n", line);
    return FF_OK;
}

static ff_status print_residues(ff_ctx *ctx, FILE *file, const ff_protein *p)
{
    int serial = 1;
    for (int64_t i = 0; i < p->num_res; i++) {
        FF_TRY(check_residue(ctx, p, i));
        if (i > 0 && p->chain_index[i] != p->chain_index[i - 1])
            print_chain_end(file, p, i - 1, serial++);
        for (int a = 0; a < FF_NUM_ATOM37; a++) {
            if (p->atom_mask[i * FF_NUM_ATOM37 + a] < 0.5f)
                continue;
            if (serial >= MAX_SERIAL)
                return FF_FAIL(ctx, FF_ERR_ARG, "PDB: more than %d atoms; the format cannot number them",
                               MAX_SERIAL - 1);
            FF_TRY(print_atom(ctx, file, p, i, a, serial++));
        }
    }
    print_chain_end(file, p, p->num_res - 1, serial);
    return FF_OK;
}

static ff_status print_protein(ff_ctx *ctx, FILE *file, const ff_protein *protein, const char *const *remarks)
{
    if (protein->num_res < 1)
        return FF_FAIL(ctx, FF_ERR_ARG, "PDB: there is no residue to write");
    for (int i = 0; remarks != NULL && remarks[i] != NULL; i++)
        print_padded(file, remarks[i]);
    print_padded(file, "MODEL     1");
    FF_TRY(print_residues(ctx, file, protein));
    print_padded(file, "ENDMDL");
    print_padded(file, "END");
    return FF_OK;
}

ff_status ff_pdb_write(ff_ctx *ctx, FILE *file, const ff_protein *protein, const char *const *remarks)
{
    FF_TRY(print_protein(ctx, file, protein, remarks));
    return ferror(file) ? FF_FAIL(ctx, FF_ERR_IO, "PDB: cannot write: %s", strerror(errno)) : FF_OK;
}

ff_status ff_pdb_write_file(ff_ctx *ctx, const char *path, const ff_protein *protein, const char *const *remarks)
{
    ff_safe_file safe;
    FF_TRY(ff_safe_file_begin(ctx, &safe, path));
    ff_status status =
        print_protein(ctx, safe.file, protein, remarks); /* write errors: the commit, which knows the path */
    if (status == FF_OK)
        status = ff_safe_file_commit(ctx, &safe);
    ff_safe_file_abandon(&safe);
    return status;
}
