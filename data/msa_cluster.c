#include "data/msa_cluster.h"

#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { NUM_RESIDUE_CODES = 21, NUM_CODES = 23 };

int64_t ff_msa_packed_stride(int64_t num_res)
{
    return (num_res + FF_MSA_ROW_BYTES - 1) / FF_MSA_ROW_BYTES * FF_MSA_ROW_BYTES;
}

void ff_msa_pack(uint8_t *packed, const int32_t *msa, const float *mask, int64_t num_seq, int64_t num_res, uint8_t other)
{
    const int64_t stride = ff_msa_packed_stride(num_res);
    for (int64_t s = 0; s < num_seq; s++) {
        uint8_t *row = packed + s * stride;
        const int32_t *codes = msa + s * num_res;
        const float *m = mask == NULL ? NULL : mask + s * num_res;
        for (int64_t i = 0; i < num_res; i++)
            row[i] = (uint32_t)codes[i] < NUM_RESIDUE_CODES && (m == NULL || m[i] != 0) ? (uint8_t)codes[i] : other;
        memset(row + num_res, other, (size_t)(stride - num_res));
    }
}

void ff_msa_nearest_plain(int32_t *nearest, const uint8_t *rows, int64_t num_rows, const uint8_t *centers,
                          int64_t num_centers, int64_t stride)
{
    for (int64_t e = 0; e < num_rows; e++) {
        int32_t most = -1;
        nearest[e] = 0;
        for (int64_t k = 0; k < num_centers; k++) {
            int32_t count = 0;
            for (int64_t i = 0; i < stride; i++)
                count += rows[e * stride + i] == centers[k * stride + i];
            if (count > most) {
                most = count;
                nearest[e] = (int32_t)k;
            }
        }
    }
}

#if defined(__x86_64__)

/* Rows handled at once: a piece of a centre is loaded once for all of them. */
enum { ROWS = 4, PIECE = 32, BYTE_PIECES = 255 /* a byte counts so far */ };

/* Equal bytes of ROWS rows and one centre. */
static inline __attribute__((always_inline, target("avx2"))) void count_equal(int32_t count[ROWS], const uint8_t *const row[ROWS],
                                                                              const uint8_t *center, int64_t stride)
{
    __m256i sum[ROWS];
    for (int r = 0; r < ROWS; r++)
        sum[r] = _mm256_setzero_si256();
    for (int64_t from = 0; from < stride; from += (int64_t)BYTE_PIECES * PIECE) {
        const int64_t rest = stride - from, to = from + (rest < BYTE_PIECES * PIECE ? rest : BYTE_PIECES * PIECE);
        __m256i bytes[ROWS];
        for (int r = 0; r < ROWS; r++)
            bytes[r] = _mm256_setzero_si256();
        for (int64_t i = from; i < to; i += PIECE) {
            const __m256i c = _mm256_loadu_si256((const __m256i *)(center + i));
            for (int r = 0; r < ROWS; r++) /* equal bytes are -1 */
                bytes[r] = _mm256_sub_epi8(bytes[r], _mm256_cmpeq_epi8(c, _mm256_loadu_si256((const __m256i *)(row[r] + i))));
        }
        for (int r = 0; r < ROWS; r++)
            sum[r] = _mm256_add_epi64(sum[r], _mm256_sad_epu8(bytes[r], _mm256_setzero_si256()));
    }
    for (int r = 0; r < ROWS; r++) {
        const __m128i half = _mm_add_epi64(_mm256_castsi256_si128(sum[r]), _mm256_extracti128_si256(sum[r], 1));
        count[r] = (int32_t)(_mm_cvtsi128_si64(half) + _mm_extract_epi64(half, 1));
    }
}

static __attribute__((target("avx2"))) void nearest_avx2(int32_t *nearest, const uint8_t *rows, int64_t num_rows,
                                                         const uint8_t *centers, int64_t num_centers, int64_t stride)
{
    for (int64_t e = 0; e < num_rows; e += ROWS) {
        const uint8_t *row[ROWS];
        int32_t most[ROWS], best[ROWS] = {0};
        for (int r = 0; r < ROWS; r++) { /* the last row stands in for those past the end */
            row[r] = rows + (e + r < num_rows ? e + r : num_rows - 1) * stride;
            most[r] = -1;
        }
        for (int64_t k = 0; k < num_centers; k++) {
            int32_t count[ROWS];
            count_equal(count, row, centers + k * stride, stride);
            for (int r = 0; r < ROWS; r++) {
                best[r] = count[r] > most[r] ? (int32_t)k : best[r];
                most[r] = count[r] > most[r] ? count[r] : most[r];
            }
        }
        for (int r = 0; r < ROWS && e + r < num_rows; r++)
            nearest[e + r] = best[r];
    }
}
#endif

void ff_msa_nearest(int32_t *nearest, const uint8_t *rows, int64_t num_rows, const uint8_t *centers, int64_t num_centers,
                    int64_t stride)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
        nearest_avx2(nearest, rows, num_rows, centers, num_centers, stride);
        return;
    }
#endif
    ff_msa_nearest_plain(nearest, rows, num_rows, centers, num_centers, stride);
}

/* ---- summaries ---- */

/* Rows by centre: those of centre s are members[first[s] .. first[s+1]). Both freed by the caller. */
static ff_status group(ff_ctx *ctx, int64_t **first, int64_t **members, const int32_t *assignment, int64_t num_rows,
                       int64_t num_centers)
{
    *first = calloc((size_t)num_centers + 2, sizeof **first);
    *members = malloc((size_t)(num_rows + 1) * sizeof **members);
    if (*first == NULL || *members == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory for %lld MSA rows", (long long)num_rows);
    for (int64_t e = 0; e < num_rows; e++) {
        if (assignment[e] < -1 || assignment[e] >= num_centers)
            return FF_FAIL(ctx, FF_ERR_FORMAT, "extra_cluster_assignment of row %lld is %d, and there are %lld clusters",
                           (long long)e, assignment[e], (long long)num_centers);
        if (assignment[e] >= 0)
            (*first)[assignment[e] + 2]++;
    }
    for (int64_t s = 0; s < num_centers; s++)
        (*first)[s + 2] += (*first)[s + 1];
    for (int64_t e = 0; e < num_rows; e++)
        if (assignment[e] >= 0)
            (*members)[(*first)[assignment[e] + 1]++] = e;
    return FF_OK;
}

/* Add one row to the sums of its cluster; the centre comes without its mask, as AlphaFold does not ask for it there. */
static void add_row(float *profile, float *deletions, const int32_t *codes, const float *mask, const float *d,
                    int64_t num_res)
{
    for (int64_t i = 0; i < num_res; i++) {
        const float m = mask == NULL ? 1 : mask[i];
        if ((uint32_t)codes[i] < NUM_CODES)
            profile[i * NUM_CODES + codes[i]] += m;
        deletions[i] += m * d[i];
    }
}

static void summarize(float *profile, float *mean, float *count, const ff_msa_view *msa, const ff_msa_view *extra, int64_t s,
                      const int64_t *members, int64_t num_members)
{
    const int64_t n = msa->num_res;
    memset(profile, 0, (size_t)(n * NUM_CODES) * sizeof *profile);
    memset(mean, 0, (size_t)n * sizeof *mean);
    for (int64_t i = 0; i < n; i++)
        count[i] = 1e-6F + (msa->mask == NULL ? 1 : msa->mask[s * n + i]);
    for (int64_t k = 0; k < num_members; k++) {
        const int64_t e = members[k] * n;
        const float *mask = extra->mask == NULL ? NULL : extra->mask + e;
        add_row(profile, mean, extra->codes + e, mask, extra->deletions + e, n);
        for (int64_t i = 0; i < n; i++)
            count[i] += mask == NULL ? 1 : mask[i];
    }
    add_row(profile, mean, msa->codes + s * n, NULL, msa->deletions + s * n, n);
    for (int64_t i = 0; i < n; i++) {
        const float scale = 1 / count[i];
        for (int c = 0; c < NUM_CODES; c++)
            profile[i * NUM_CODES + c] *= scale;
        mean[i] *= scale;
    }
}

ff_status ff_msa_summarize(ff_ctx *ctx, float *profile, float *mean, const ff_msa_view *centers, const ff_msa_view *rows,
                           const int32_t *assignment)
{
    const int64_t n = centers->num_res;
    ff_status status = FF_OK;
    int64_t *first = NULL, *members = NULL;
    float *count = malloc((size_t)(n > 0 ? n : 1) * sizeof *count);
    if (count == NULL)
        FF_TRY_DONE(FF_FAIL(ctx, FF_ERR_MEM, "out of memory for %lld residues", (long long)n));
    FF_TRY_DONE(group(ctx, &first, &members, assignment, rows->num_seq, centers->num_seq));
    for (int64_t s = 0; s < centers->num_seq; s++)
        summarize(profile + s * n * NUM_CODES, mean + s * n, count, centers, rows, s, members + first[s],
                  first[s + 1] - first[s]);
done:
    free(count);
    free(first);
    free(members);
    return status;
}
