#include "data/msa_rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int64_t *ff_msa_rows_all(ff_ctx *ctx, int64_t n)
{
    int64_t *rows = malloc((size_t)(n > 0 ? n : 1) * sizeof *rows);
    if (rows == NULL)
        FF_FAIL(ctx, FF_ERR_MEM, "out of memory for a list of %lld rows", (long long)n);
    for (int64_t i = 0; rows != NULL && i < n; i++)
        rows[i] = i;
    return rows;
}

void ff_msa_rows_shuffle(int64_t *rows, int64_t num_rows, int64_t from, const ff_random_key *key)
{
    for (int64_t i = num_rows - 1; key != NULL && i > from; i--) {
        const int64_t j = from + (int64_t)ff_random_below(*key, (uint64_t)i, (uint64_t)(i - from + 1)), swap = rows[i];
        rows[i] = rows[j];
        rows[j] = swap;
    }
}

int64_t ff_msa_rows_delete_blocks(int64_t *rows, int64_t num_rows, const ff_block_delete_options *options,
                                  const ff_random_key *key)
{
    /* in float32, as OpenFold rounds it */
    const int64_t block = (int64_t)floorf((float)num_rows * (float)options->fraction_per_block);
    int64_t num_blocks = options->num_blocks, num_kept = 0;
    if (key == NULL || block < 1 || num_rows < 2)
        return num_rows;
    if (options->randomize_num_blocks)
        num_blocks = (int64_t)ff_random_below(*key, 0, (uint64_t)num_blocks + 1);
    for (int64_t b = 0; b < num_blocks; b++) {
        const int64_t start = 1 + (int64_t)ff_random_below(*key, (uint64_t)b + 1, (uint64_t)num_rows - 1);
        for (int64_t s = start; s < num_rows && s < start + block; s++)
            rows[s] = -1;
    }
    for (int64_t s = 0; s < num_rows; s++)
        if (rows[s] >= 0)
            rows[num_kept++] = rows[s];
    return num_kept;
}

static float deletion_value(float d)
{
    return d == 0 ? 0 : atanf(d / 3) * (float)(2 / 3.14159265358979323846);
}

static float has_deletion(float d) { return d < 0 ? 0 : d > 1 ? 1 : d; }

void ff_deletion_row(float *has, float *value, const float *deletions, int64_t num_res)
{
    for (int64_t i = 0; i < num_res; i++)
        if (deletions[i] != 0) { /* few are */
            has[i] = has_deletion(deletions[i]);
            value[i] = deletion_value(deletions[i]);
        }
}

void ff_msa_feat_row(float *feat, const int32_t *codes, const float *deletions, const float *profile, const float *mean,
                     int64_t num_res)
{
    for (int64_t i = 0; i < num_res; i++) {
        float *f = feat + i * FF_MSA_FEAT_WIDTH;
        if ((uint32_t)codes[i] < FF_MSA_CODES)
            f[codes[i]] = 1;
        f[FF_MSA_CODES] = has_deletion(deletions[i]);
        f[FF_MSA_CODES + 1] = deletion_value(deletions[i]);
        memcpy(f + FF_MSA_CODES + 2, profile + i * FF_MSA_CODES, FF_MSA_CODES * sizeof *f);
        f[FF_MSA_FEAT_WIDTH - 1] = deletion_value(mean[i]);
    }
}
