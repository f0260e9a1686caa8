/* train_case.h - chains in memory, a very small model and its settings, for the suites of the trainer. */
#ifndef FF_TESTS_TRAIN_CASE_H
#define FF_TESTS_TRAIN_CASE_H

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/random.h"
#include "structure/residue_constants.h"
#include "train/train_options.h"

enum { TRAIN_CHAINS = 4, TRAIN_BROKEN = -1 };

/* Chains of 9, 10, 11, ... residues; fault[k]: 0 none, 1 a coordinate is NaN, 2 cannot be read. */
typedef struct {
    int fault[TRAIN_CHAINS];
    int64_t reads; /* not exact with several threads */
} train_chains;

static inline int64_t train_num_res(void *arg, int64_t record)
{
    (void)arg;
    return 9 + record;
}

static inline const char *train_name(void *arg, int64_t record)
{
    static const char *const names[TRAIN_CHAINS] = {"1abc_A", "2abc_A", "3abc_A", "4abc_A"};
    (void)arg;
    return names[record];
}

/* A helix of random residues with N, CA, C, O, CB, and three alignment rows. */
static inline ff_status train_read(ff_ctx *ctx, void *arg, int64_t record, ff_array_set *raw)
{
    train_chains *chains = arg;
    const int64_t n = train_num_res(arg, record), rows = 3;
    const ff_random_key key = {11, (uint64_t)record};
    chains->reads++;
    if (chains->fault[record] == 2)
        return FF_FAIL(ctx, FF_ERR_FORMAT, "record %s is damaged", train_name(arg, record));
    ff_array *aatype = ff_array_add(ctx, raw, "aatype", FF_ARRAY_INT32, FF_DIMS(n));
    ff_array *index = ff_array_add(ctx, raw, "residue_index", FF_ARRAY_INT32, FF_DIMS(n));
    ff_array_add(ctx, raw, "between_segment_residues", FF_ARRAY_INT32, FF_DIMS(n));
    ff_array *msa = ff_array_add(ctx, raw, "msa", FF_ARRAY_INT32, FF_DIMS(rows, n));
    ff_array_add(ctx, raw, "deletion_matrix_int", FF_ARRAY_INT32, FF_DIMS(rows, n));
    ff_array *x = ff_array_add(ctx, raw, "all_atom_positions", FF_ARRAY_FLOAT32, FF_DIMS(n, 37, 3));
    ff_array *mask = ff_array_add(ctx, raw, "all_atom_mask", FF_ARRAY_FLOAT32, FF_DIMS(n, 37));
    ff_array *resolution = ff_array_add(ctx, raw, "resolution", FF_ARRAY_FLOAT32, 0, NULL);
    FF_TRY(ctx->status);
    resolution->f32[0] = 2;
    for (int64_t i = 0; i < n; i++) {
        aatype->i32[i] = (int32_t)ff_random_below(key, (uint64_t)i, 20);
        index->i32[i] = (int32_t)i;
        for (int64_t s = 0; s < rows; s++)
            msa->i32[s * n + i] = s == 0 ? 0 : (int32_t)ff_random_below(key, (uint64_t)(1000 * s + i), 21);
        for (int a = 0; a < 5; a++) { /* N, CA, C, CB, O of atom37 */
            const double turn = 1.745 * (double)i + 0.6 * a, radius = a == 1 ? 2.3 : 1.6 + 0.4 * a;
            float *p = x->f32 + (i * 37 + a) * 3;
            p[0] = (float)(radius * cos(turn));
            p[1] = (float)(radius * sin(turn));
            p[2] = (float)(1.5 * (double)i + 0.5 * a);
            mask->f32[i * 37 + a] = a == 3 && aatype->i32[i] == 7 ? 0 : 1; /* glycine has no CB */
        }
    }
    if (chains->fault[record] == 1)
        x->f32[(2 * 37 + 1) * 3] = NAN;
    return FF_OK;
}

static inline ff_chain_source train_source(train_chains *chains, int64_t count)
{
    memset(chains, 0, sizeof *chains);
    return (ff_chain_source){.num_records = count, .arg = chains, .read = train_read, .name = train_name, .num_res = train_num_res};
}

/* Settings of a model that takes milliseconds. */
static inline ff_train_settings train_settings(ff_ctx *ctx)
{
    ff_train_options o;
    ff_train_settings s;
    ff_options_set_defaults(&ff_train_program, &o);
    o.seed = 5;
    o.num_recycle = 2;
    o.num_seq = 2;
    o.num_extra = 1;
    o.max_templates = 0;
    o.loader_workers = 0;
    o.warmup = 2;
    ff_train_resolve(ctx, &o, &s);
    ff_evoformer_config *e = &s.trainer.model.evoformer;
    e->evoformer_num_block = 3;
    s.trainer.model.structure.num_layer = 2;
    return s;
}

#endif
