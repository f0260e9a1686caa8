#include "data/msa_cluster.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { NUM_RESIDUE_CODES = 21 };

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
