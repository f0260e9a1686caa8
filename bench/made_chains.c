/* made_chains.c - made-up alignments, chains and training sets: see cases.h.
 *
 * Everything is a pure function of its arguments, so that two machines measure the same work. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/cases.h"
#include "core/random.h"
#include "data/dataset.h"
#include "data/msa.h"
#include "io/safe_file.h"
#include "structure/geometry.h"
#include "structure/residue_constants.h"

enum { SEED_A3M = 101, SEED_CHAIN = 102, SEED_MSA = 103 };

/* A number of [0, n) and the next place of the stream. */
static uint64_t draw(ff_random_key key, uint64_t *at, uint64_t n) { return ff_random_below(key, (*at)++, n); }

/* ---- alignments ---- */

typedef struct {
    int64_t num_seq, num_res;
} a3m_size;

/* One aligned row: alike to the query to 30-90 %, gaps at its ends and in stretches, an insertion about every 100 columns. */
static void put_row(FILE *file, const char *query, int64_t num_res, int64_t row)
{
    static const char letters[] = "ACDEFGHIKLMNPQRSTVWY";
    const ff_random_key key = {SEED_A3M, (uint64_t)row};
    uint64_t at = 0;
    const uint64_t alike = 30 + draw(key, &at, 61), half = (uint64_t)num_res / 2 + 1;
    const int64_t first = (int64_t)(draw(key, &at, half) * draw(key, &at, 2) / 2);
    const int64_t last = num_res - (int64_t)(draw(key, &at, half) * draw(key, &at, 2) / 2);
    int64_t gap = 0; /* columns of the present stretch of gaps still to come */
    for (int64_t i = 0; i < num_res; i++) {
        const uint64_t chance = draw(key, &at, 200);
        if (i < first || i >= last || gap > 0) {
            fputc('-', file);
            gap -= gap > 0;
            continue;
        }
        for (uint64_t k = chance < 2 ? 1 + draw(key, &at, 8) : 0; k > 0; k--)
            fputc(letters[draw(key, &at, 20)] - 'A' + 'a', file);
        gap = chance == 2 || chance == 3 ? (int64_t)draw(key, &at, 12) : 0;
        fputc(draw(key, &at, 100) < alike ? query[i] : letters[draw(key, &at, 20)], file);
    }
}

static ff_status write_a3m(ff_ctx *ctx, FILE *file, const void *arg)
{
    const a3m_size *size = arg;
    const ff_random_key key = {SEED_A3M, UINT64_MAX};
    char *query = malloc((size_t)size->num_res + 1);
    if (query == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory");
    for (int64_t i = 0; i < size->num_res; i++)
        query[i] = ff_restypes[ff_random_below(key, (uint64_t)i, 20)];
    query[size->num_res] = '\0';
    fprintf(file, ">query\n%s\n", query);
    for (int64_t s = 1; s < size->num_seq; s++) {
        fprintf(file, ">UniRef100_A0A%07lld/%lld-%lld\n", (long long)s, (long long)(s % 97 + 1), (long long)size->num_res);
        put_row(file, query, size->num_res, s);
        fputc('\n', file);
    }
    free(query);
    return FF_OK;
}

ff_status bench_write_a3m(ff_ctx *ctx, const char *path, int64_t num_seq, int64_t num_res)
{
    const a3m_size size = {num_seq, num_res};
    return ff_safe_file_write(ctx, path, write_a3m, &size);
}

/* ---- chains ---- */

/* The next residue's backbone, seen from the last one's: about 110 degrees on and 3.8 Å away, as in a loose helix. */
static void step_backbone(double backbone[12], ff_random_key key, uint64_t *at)
{
    double affine[7] = {1, 0.8, 0, 0, 2.7, 2.7, 0}, rigid[12], next[12], norm = 0;
    for (int k = 0; k < 4; k++) {
        affine[k] += 0.2 * (double)ff_random_normal(key, (*at)++);
        norm += affine[k] * affine[k];
    }
    for (int k = 0; k < 4; k++)
        affine[k] /= sqrt(norm);
    ff_affine_to_rigid(rigid, affine, 1.0);
    ff_rigid_compose(next, backbone, rigid);
    memcpy(backbone, next, sizeof next);
}

static void put_residue(bench_chain *chain, int64_t i, const double backbone[12], ff_random_key key, uint64_t *at)
{
    double torsions[7][2], frames[8][12], atoms[14][3];
    const int32_t type = chain->aatype[i];
    for (int k = 0; k < 7; k++) {
        const double angle = 6.283185307179586 * (double)ff_random_uniform(key, (*at)++);
        torsions[k][0] = sin(angle);
        torsions[k][1] = cos(angle);
    }
    ff_torsions_to_frames(frames, backbone, torsions, type);
    ff_frames_to_atom14(atoms, frames, type);
    for (int a = 0; a < 14; a++) {
        const int64_t to = 37 * i + ff_restype_atom14_to_atom37[type][a];
        if (ff_restype_atom14_mask[type][a] == 0)
            continue;
        chain->mask[to] = 1;
        for (int x = 0; x < 3; x++)
            chain->positions[3 * to + x] = (float)atoms[a][x];
    }
}

ff_status bench_chain_make(ff_ctx *ctx, bench_chain *chain, int64_t num_res, uint64_t number)
{
    const ff_random_key key = {SEED_CHAIN, number};
    const size_t n = (size_t)num_res;
    double backbone[12] = {1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0};
    uint64_t at = 0;
    *chain = (bench_chain){num_res, calloc(n, sizeof(int32_t)), calloc(n, sizeof(int32_t)), calloc(n * 111, sizeof(float)),
                           calloc(n * 37, sizeof(float))};
    if (chain->aatype == NULL || chain->residue_index == NULL || chain->positions == NULL || chain->mask == NULL) {
        bench_chain_destroy(chain);
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory for a chain of %lld residues", (long long)num_res);
    }
    for (int64_t i = 0; i < num_res; i++) {
        chain->aatype[i] = (int32_t)draw(key, &at, 20);
        chain->residue_index[i] = (int32_t)i;
        step_backbone(backbone, key, &at);
        put_residue(chain, i, backbone, key, &at);
    }
    return FF_OK;
}

void bench_chain_destroy(bench_chain *chain)
{
    free(chain->aatype);
    free(chain->residue_index);
    free(chain->positions);
    free(chain->mask);
    *chain = (bench_chain){0};
}

/* ---- training sets ---- */

/* Rows half alike to the chain; a deletion in one of 64 places. */
static void make_msa(int32_t *msa, int32_t *deletions, const char *sequence, int64_t num_res, int64_t rows, uint64_t number)
{
    const ff_random_key key = {SEED_MSA, number};
    for (int64_t at = 0; at < rows * num_res; at++) {
        uint32_t bits[4];
        ff_random_block(key, (uint64_t)at, bits);
        const int32_t own = ff_msa_code(sequence[at % num_res]);
        msa[at] = at < num_res || bits[0] % 2 == 0 ? own : bits[0] % 16 == 1 ? FF_MSA_GAP : (int32_t)(bits[1] % 20);
        deletions[at] = at >= num_res && bits[2] % 64 == 0 ? 1 + (int32_t)(bits[3] % 9) : 0;
    }
}

static ff_status add_chain(ff_ctx *ctx, ff_dataset_writer *writer, int64_t num_res, int64_t rows, uint64_t number)
{
    ff_status status = FF_OK;
    bench_chain chain;
    char name[32];
    int32_t *msa = malloc((size_t)(2 * rows * num_res) * sizeof *msa);
    char *sequence = calloc((size_t)num_res + 1, 1);
    FF_TRY_DONE(bench_chain_make(ctx, &chain, num_res, number));
    if (msa == NULL || sequence == NULL)
        FF_TRY_DONE(FF_FAIL(ctx, FF_ERR_MEM, "out of memory"));
    for (int64_t i = 0; i < num_res; i++)
        sequence[i] = ff_restypes[chain.aatype[i]];
    make_msa(msa, msa + rows * num_res, sequence, num_res, rows, number);
    snprintf(name, sizeof name, "m%05llu_A", (unsigned long long)number);
    const ff_dataset_record record = {.name = name, .sequence = sequence, .source = "", .release_date = "", .method = "",
                                      .cluster = "", .num_res = num_res, .num_observed = num_res, .num_msa = rows,
                                      .resolution = 2, .max_aa_fraction = ff_dataset_max_aa_fraction(chain.aatype, num_res)};
    const ff_dataset_arrays arrays = {chain.aatype, chain.residue_index, chain.positions, chain.mask, msa, msa + rows * num_res};
    FF_TRY_DONE(ff_dataset_add(ctx, writer, &record, &arrays));
done:
    bench_chain_destroy(&chain);
    free(sequence);
    free(msa);
    return status;
}

ff_status bench_write_dataset(ff_ctx *ctx, const char *path, int64_t num_chains, int64_t min_res, int64_t max_res, int64_t rows)
{
    const ff_random_key key = {SEED_CHAIN, UINT64_MAX};
    ff_dataset_writer *writer = NULL;
    ff_status status = FF_OK;
    FF_TRY(ff_dataset_create(ctx, &writer, path, false));
    for (int64_t k = 0; k < num_chains; k++) {
        const int64_t num_res = min_res + (int64_t)ff_random_below(key, (uint64_t)k, (uint64_t)(max_res - min_res + 1));
        FF_TRY_DONE(add_chain(ctx, writer, num_res, rows, (uint64_t)k));
    }
    return ff_dataset_commit(ctx, writer);
done:
    ff_dataset_abandon(writer);
    return status;
}
