/* sampler.c
 *
 * Weighted draws: Walker's alias method (Vose 1991). Shuffled epochs: a permutation of 0..2^b-1 by a Feistel network whose rounds are
 * random numbers keyed by (seed, epoch), walked until it lands below num_records (cycle walking), so that no order is stored. */
#include "data/sampler.h"

#include <math.h>
#include <stdlib.h>

#include "core/random.h"

enum { FEISTEL_ROUNDS = 8, OPERATION_WEIGHTED = 1, OPERATION_SHUFFLED = 2 };

struct ff_sampler {
    int64_t num_records;
    uint64_t seed;
    bool shuffled;
    int half_bits;   /* of the Feistel network, of 2 half_bits bits */
    double *keep;    /* [num_records] chance that a bin is its own record */
    int64_t *alias;  /* [num_records] the record it is else */
};

static ff_status create(ff_ctx *ctx, ff_sampler **sampler, int64_t num_records, uint64_t seed)
{
    if (num_records < 1)
        return FF_FAIL(ctx, FF_ERR_ARG, "there is nothing to draw from %lld records", (long long)num_records);
    ff_sampler *s = calloc(1, sizeof *s);
    if (s == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory for a sampler");
    s->num_records = num_records;
    s->seed = seed;
    *sampler = s;
    return FF_OK;
}

void ff_sampler_destroy(ff_sampler *s)
{
    if (s == NULL)
        return;
    free(s->keep);
    free(s->alias);
    free(s);
}

/* ---- weighted ---- */

/* The sum, or NaN after a failure. */
static double sum_weights(ff_ctx *ctx, const double *weights, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; weights != NULL && i < n; i++) {
        if (!(weights[i] >= 0 && isfinite(weights[i]))) {
            FF_FAIL(ctx, FF_ERR_ARG, "weight of record %lld is %g, wanted a number from 0 on", (long long)i, weights[i]);
            return NAN;
        }
        sum += weights[i];
    }
    if (weights != NULL && !(sum > 0 && isfinite(sum))) {
        FF_FAIL(ctx, FF_ERR_ARG, "the weights of %lld records sum up to %g", (long long)n, sum);
        return NAN;
    }
    return weights == NULL ? (double)n : sum;
}

/* Fill up bins of less than the mean from those of more. `work` has room for n. */
static void make_bins(ff_sampler *s, int64_t *work)
{
    int64_t num_small = 0, n = s->num_records, large = n;
    for (int64_t i = 0; i < n; i++) /* the small ones from the front of work, the large ones from its end */
        work[s->keep[i] < 1 ? num_small++ : --large] = i;
    while (num_small > 0 && large < n) {
        const int64_t small = work[--num_small], from = work[large];
        s->alias[small] = from;
        s->keep[from] -= 1 - s->keep[small];
        if (s->keep[from] < 1) {
            large++;
            work[num_small++] = from;
        }
    }
    while (num_small > 0) /* 1 but for rounding */
        s->keep[work[--num_small]] = 1;
    while (large < n)
        s->keep[work[large++]] = 1;
}

ff_status ff_sampler_create_weighted(ff_ctx *ctx, ff_sampler **sampler, const double *weights, int64_t num_records,
                                     uint64_t seed)
{
    ff_sampler *s = NULL;
    ff_status status = FF_OK;
    int64_t *work = NULL;
    FF_TRY(create(ctx, &s, num_records, seed));
    const double sum = sum_weights(ctx, weights, num_records);
    if (isnan(sum))
        FF_TRY_DONE(ctx->status);
    s->keep = malloc((size_t)num_records * sizeof *s->keep);
    s->alias = malloc((size_t)num_records * sizeof *s->alias);
    work = malloc((size_t)num_records * sizeof *work);
    if (s->keep == NULL || s->alias == NULL || work == NULL)
        FF_TRY_DONE(FF_FAIL(ctx, FF_ERR_MEM, "out of memory for a sampler of %lld records", (long long)num_records));
    for (int64_t i = 0; i < num_records; i++) {
        s->keep[i] = (weights == NULL ? 1 : weights[i]) / sum * (double)num_records;
        s->alias[i] = i;
    }
    make_bins(s, work);
    *sampler = s;
    s = NULL;
done:
    free(work);
    ff_sampler_destroy(s);
    return status;
}

static int64_t weighted(const ff_sampler *s, int64_t draw)
{
    const ff_random_key key = {s->seed, ff_random_stream(0, OPERATION_WEIGHTED)};
    uint32_t word[4];
    ff_random_block(key, (uint64_t)draw, word);
    const uint64_t r = (uint64_t)word[0] << 32 | word[1];
    const int64_t bin = (int64_t)((unsigned __int128)r * (uint64_t)s->num_records >> 64);
    const double u = (double)((uint64_t)word[2] << 21 ^ word[3] >> 11) * 0x1p-53;
    return u < s->keep[bin] ? bin : s->alias[bin];
}

/* ---- shuffled ---- */

ff_status ff_sampler_create_shuffled(ff_ctx *ctx, ff_sampler **sampler, int64_t num_records, uint64_t seed)
{
    FF_TRY(create(ctx, sampler, num_records, seed));
    (*sampler)->shuffled = true;
    (*sampler)->half_bits = 1;
    while ((UINT64_C(1) << 2 * (*sampler)->half_bits) < (uint64_t)num_records)
        (*sampler)->half_bits++;
    return FF_OK;
}

static uint64_t permute(ff_random_key key, uint64_t x, int half_bits)
{
    const uint64_t mask = (UINT64_C(1) << half_bits) - 1;
    uint64_t left = x >> half_bits, right = x & mask;
    for (uint64_t round = 0; round < FEISTEL_ROUNDS; round++) {
        uint32_t word[4];
        ff_random_block(key, round << 32 | right, word);
        const uint64_t next = left ^ (word[0] & mask);
        left = right;
        right = next;
    }
    return left << half_bits | right;
}

static int64_t shuffled(const ff_sampler *s, int64_t draw)
{
    const ff_random_key key = {s->seed, ff_random_stream((uint64_t)(draw / s->num_records), OPERATION_SHUFFLED)};
    uint64_t x = (uint64_t)(draw % s->num_records);
    do /* at most four times as many places as records */
        x = permute(key, x, s->half_bits);
    while (x >= (uint64_t)s->num_records);
    return (int64_t)x;
}

int64_t ff_sampler_record(const ff_sampler *s, int64_t draw)
{
    return s->shuffled ? shuffled(s, draw) : weighted(s, draw);
}
