/* loss_renaming.c - the better of two names of symmetric side-chain atoms: see losses.h. */
#include <string.h>

#include "structure/residue_constants.h"
#include "train/loss_common.h"
#include "train/losses.h"

static const double EPSILON = 1e-10; /* of distances and of absolute differences */

/* Squared distance of two points, in double: differences of distances decide. */
static inline double squared_distance(const float *a, const float *b)
{
    const double x = (double)a[0] - (double)b[0], y = (double)a[1] - (double)b[1], z = (double)a[2] - (double)b[2];
    return x * x + y * y + z * z;
}

/* Sum of |d_pred - d_true| under the given name and under the alternative, from atom `a` to all fixed atoms. */
static void add_differences(double sums[2], const ff_renaming_inputs *in, const int32_t *fixed, int64_t num_fixed,
                            int64_t a)
{
    const float *pred = in->atom14_pos + 3 * a, *truth = in->true_pos + 3 * a, *alt = in->alt_pos + 3 * a;
    double sum = 0, alt_sum = 0;
    for (int64_t k = 0; k < num_fixed; k++) {
        const int64_t b = fixed[k];
        const double d_pred = sqrt(EPSILON + squared_distance(pred, in->atom14_pos + 3 * b));
        const double diff = d_pred - sqrt(EPSILON + squared_distance(truth, in->true_pos + 3 * b));
        const double alt_diff = d_pred - sqrt(EPSILON + squared_distance(alt, in->alt_pos + 3 * b));
        sum += sqrt(EPSILON + diff * diff);
        alt_sum += sqrt(EPSILON + alt_diff * alt_diff);
    }
    sums[0] += sum;
    sums[1] += alt_sum;
}

static void copy_chosen(float *pos, float *exists, float *frames, const ff_renaming_inputs *in, int64_t i, bool alt)
{
    memcpy(pos + 42 * i, (alt ? in->alt_pos : in->true_pos) + 42 * i, 42 * sizeof *pos);
    memcpy(exists + 14 * i, (alt ? in->alt_exists : in->exists) + 14 * i, 14 * sizeof *exists);
    if (frames != NULL)
        memcpy(frames + 96 * i, (alt ? in->alt_frames : in->true_frames) + 96 * i, 96 * sizeof *frames);
}

ff_status ff_loss_rename_truth(ff_ctx *ctx, float *alt_is_better, float *pos, float *exists, float *frames,
                               const ff_renaming_inputs *in)
{
    ff_status status = FF_OK;
    int32_t *fixed = NULL; /* atoms that are resolved and not ambiguous */
    const int64_t n = in->num_res, num_atoms = n * FF_NUM_ATOM14;
    if (n <= 0)
        return FF_FAIL(ctx, FF_ERR_ARG, "renaming of %lld residues: the number must be positive", (long long)n);
    FF_LOSS_SCRATCH(ctx, fixed, num_atoms);
    int64_t num_fixed = 0;
    for (int64_t a = 0; a < num_atoms; a++)
        if (in->exists[a] != 0 && in->is_ambiguous[a] == 0)
            fixed[num_fixed++] = (int32_t)a;
#pragma omp parallel for schedule(dynamic, 8)
    for (int64_t i = 0; i < n; i++) {
        double sums[2] = {0, 0};
        for (int64_t a = i * FF_NUM_ATOM14; a < (i + 1) * FF_NUM_ATOM14; a++)
            if (in->exists[a] != 0 && in->is_ambiguous[a] != 0)
                add_differences(sums, in, fixed, num_fixed, a);
        const bool alt = sums[1] < sums[0];
        alt_is_better[i] = alt ? 1.0f : 0.0f;
        copy_chosen(pos, exists, frames, in, i, alt);
    }
done:
    FF_LOSS_SCRATCH_FREE(ctx, fixed, num_atoms);
    return status;
}
