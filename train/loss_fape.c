/* loss_fape.c - frame aligned point error: see losses.h.
 *
 * Contents: points in columns; one frame against all points; chunks of frames; the general loss; backbone;
 * side chain.
 *
 * Frames are cut into a fixed number of chunks, each with its own sums and its own gradient of the points,
 * which are added up in order: the result does not depend on the number of threads, and memory is linear in
 * the number of points. Points that the mask leaves out are dropped beforehand. */
#include "train/losses.h"

#include <string.h>

#include "structure/geometry.h"
#include "train/loss_common.h"

static const float CLAMP_ANG = 10.0f, LENGTH_SCALE_ANG = 10.0f; /* Suppl. Alg. 20 */
static const double EPSILON = 1e-4;                             /* of distances and of the normalisation */

enum {
    CHUNKS = 32, /* of frames: a multiple of usual numbers of threads; costs CHUNKS * 3 floats a point */
    TILE = 512,  /* points whose float sums go into the double ones: keeps columns in the first-level cache */
    PRED = 0,
    TRUTH = 3,
    NUM_COLUMNS = 6
};

/* The points that count, one array for each coordinate. */
typedef struct {
    int64_t count;
    float *column[NUM_COLUMNS]; /* [count] x, y, z predicted; x, y, z true */
    int64_t *index;             /* [count] where it came from */
} point_columns;

/* Sums over points of one frame. */
typedef struct {
    double error;
    double grad_rotation[9]; /* of the rotation in g: sum of (x - t) outer g */
    double grad_local[3];    /* sum of g, the gradient of the local position */
} frame_sums;

static void gather_points(point_columns *c, const ff_fape_inputs *in)
{
    c->count = 0;
    for (int64_t p = 0; p < in->num_points; p++) {
        if (in->point_mask[p] == 0)
            continue;
        for (int x = 0; x < 3; x++) {
            c->column[PRED + x][c->count] = in->points[3 * p + x];
            c->column[TRUTH + x][c->count] = in->true_points[3 * p + x];
        }
        c->index[c->count++] = p;
    }
}

/* ---- one frame against all points ---- */

/* Adds the errors and gradients of points begin..end-1; grad_points[x] are columns, NULL = values only. */
FF_TARGET_BODY void add_tile(frame_sums *sums, float *const *grad_points, const float *frame, const float *truth,
                       const point_columns *c, int64_t begin, int64_t end, float clamped)
{
    const float r0 = frame[0], r1 = frame[1], r2 = frame[2], r3 = frame[3], r4 = frame[4], r5 = frame[5];
    const float r6 = frame[6], r7 = frame[7], r8 = frame[8], t0 = frame[9], t1 = frame[10], t2 = frame[11];
    const float q0 = truth[0], q1 = truth[1], q2 = truth[2], q3 = truth[3], q4 = truth[4], q5 = truth[5];
    const float q6 = truth[6], q7 = truth[7], q8 = truth[8], u0 = truth[9], u1 = truth[10], u2 = truth[11];
    const float *restrict x0 = c->column[0], *restrict x1 = c->column[1], *restrict x2 = c->column[2];
    const float *restrict y0 = c->column[3], *restrict y1 = c->column[4], *restrict y2 = c->column[5];
    const float unclamped = 1.0f - clamped, epsilon = (float)EPSILON;
    float error = 0, s0 = 0, s1 = 0, s2 = 0;
    float g0 = 0, g1 = 0, g2 = 0, g3 = 0, g4 = 0, g5 = 0, g6 = 0, g7 = 0, g8 = 0;
    if (grad_points == NULL) {
#pragma omp simd reduction(+ : error)
        for (int64_t p = begin; p < end; p++) {
            const float a0 = x0[p] - t0, a1 = x1[p] - t1, a2 = x2[p] - t2;
            const float b0 = y0[p] - u0, b1 = y1[p] - u1, b2 = y2[p] - u2;
            const float e0 = r0 * a0 + r3 * a1 + r6 * a2 - (q0 * b0 + q3 * b1 + q6 * b2);
            const float e1 = r1 * a0 + r4 * a1 + r7 * a2 - (q1 * b0 + q4 * b1 + q7 * b2);
            const float e2 = r2 * a0 + r5 * a1 + r8 * a2 - (q2 * b0 + q5 * b1 + q8 * b2);
            const float d = sqrtf(e0 * e0 + e1 * e1 + e2 * e2 + epsilon);
            error += clamped * (d > CLAMP_ANG ? CLAMP_ANG : d) + unclamped * d;
        }
        sums->error += (double)error;
        return;
    }
    float *restrict w0 = grad_points[0], *restrict w1 = grad_points[1], *restrict w2 = grad_points[2];
#pragma omp simd reduction(+ : error, s0, s1, s2, g0, g1, g2, g3, g4, g5, g6, g7, g8)
    for (int64_t p = begin; p < end; p++) {
        const float a0 = x0[p] - t0, a1 = x1[p] - t1, a2 = x2[p] - t2;
        const float b0 = y0[p] - u0, b1 = y1[p] - u1, b2 = y2[p] - u2;
        float e0 = r0 * a0 + r3 * a1 + r6 * a2 - (q0 * b0 + q3 * b1 + q6 * b2);
        float e1 = r1 * a0 + r4 * a1 + r7 * a2 - (q1 * b0 + q4 * b1 + q7 * b2);
        float e2 = r2 * a0 + r5 * a1 + r8 * a2 - (q2 * b0 + q5 * b1 + q8 * b2);
        const float d = sqrtf(e0 * e0 + e1 * e1 + e2 * e2 + epsilon);
        error += clamped * (d > CLAMP_ANG ? CLAMP_ANG : d) + unclamped * d;
        const float slope = (d > CLAMP_ANG ? unclamped : 1.0f) / d;
        e0 *= slope; /* now the gradient of the local position */
        e1 *= slope;
        e2 *= slope;
        s0 += e0;
        s1 += e1;
        s2 += e2;
        g0 += a0 * e0;
        g1 += a0 * e1;
        g2 += a0 * e2;
        g3 += a1 * e0;
        g4 += a1 * e1;
        g5 += a1 * e2;
        g6 += a2 * e0;
        g7 += a2 * e1;
        g8 += a2 * e2;
        w0[p] += r0 * e0 + r1 * e1 + r2 * e2;
        w1[p] += r3 * e0 + r4 * e1 + r5 * e2;
        w2[p] += r6 * e0 + r7 * e1 + r8 * e2;
    }
    sums->error += (double)error;
    const float s[3] = {s0, s1, s2}, g[9] = {g0, g1, g2, g3, g4, g5, g6, g7, g8};
    for (int k = 0; k < 3; k++)
        sums->grad_local[k] += (double)s[k];
    for (int k = 0; k < 9; k++)
        sums->grad_rotation[k] += (double)g[k];
}

typedef void (*tile_fn)(frame_sums *sums, float *const *grad_points, const float *frame, const float *truth,
                        const point_columns *c, int64_t begin, int64_t end, float clamped);

static void tile_plain(frame_sums *sums, float *const *grad_points, const float *frame, const float *truth,
                       const point_columns *c, int64_t begin, int64_t end, float clamped)
{
    add_tile(sums, grad_points, frame, truth, c, begin, end, clamped);
}

#if FF_HAVE_TARGETS
FF_TARGET_AVX2 static void tile_avx2(frame_sums *sums, float *const *grad_points, const float *frame, const float *truth,
                                     const point_columns *c, int64_t begin, int64_t end, float clamped)
{
    add_tile(sums, grad_points, frame, truth, c, begin, end, clamped);
}

FF_TARGET_AVX512 static void tile_avx512(frame_sums *sums, float *const *grad_points, const float *frame,
                                         const float *truth, const point_columns *c, int64_t begin, int64_t end,
                                         float clamped)
{
    add_tile(sums, grad_points, frame, truth, c, begin, end, clamped);
}

static const tile_fn tiles[] = {tile_plain, tile_avx2, tile_avx512};
#else
static const tile_fn tiles[] = {tile_plain};
#endif

static void add_frame_gradient(float *grad, const frame_sums *sums, const float *frame, double factor)
{
    for (int k = 0; k < 9; k++)
        grad[k] += (float)(factor * sums->grad_rotation[k]);
    for (int x = 0; x < 3; x++) {
        double g = 0;
        for (int y = 0; y < 3; y++)
            g += (double)frame[3 * x + y] * sums->grad_local[y];
        grad[9 + x] -= (float)(factor * g);
    }
}

/* ---- chunks of frames ---- */

/* One chunk: returns the sum of its errors. */
static double run_chunk(tile_fn add, float *grad_frames, float *chunk_grad, const ff_fape_inputs *in, const point_columns *c,
                        int64_t begin, int64_t end, double factor)
{
    float *columns[3] = {chunk_grad, chunk_grad + c->count, chunk_grad + 2 * c->count};
    double error = 0;
    if (chunk_grad != NULL)
        memset(chunk_grad, 0, (size_t)(3 * c->count) * sizeof *chunk_grad);
    for (int64_t f = begin; f < end; f++) {
        if (in->frame_mask[f] == 0)
            continue;
        const float *frame = in->frames + 12 * f;
        frame_sums sums = {0};
        for (int64_t p = 0; p < c->count; p += TILE)
            add(&sums, chunk_grad == NULL ? NULL : columns, frame, in->true_frames + 12 * f, c, p,
                       p + TILE < c->count ? p + TILE : c->count, (float)in->clamped);
        if (grad_frames != NULL)
            add_frame_gradient(grad_frames + 12 * f, &sums, frame, factor);
        error += sums.error;
    }
    return error;
}

/* Add the chunks' gradients of the points. */
static void add_point_gradients(float *grad_points, const float *chunk_grads, const point_columns *c,
                                int64_t num_chunks, double factor)
{
    const int64_t n = c->count;
#pragma omp parallel for schedule(static)
    for (int64_t p = 0; p < n; p++)
        for (int x = 0; x < 3; x++) {
            double g = 0;
            for (int64_t k = 0; k < num_chunks; k++)
                g += (double)chunk_grads[(k * 3 + x) * n + p];
            grad_points[3 * c->index[p] + x] += (float)(factor * g);
        }
}

/* ---- the general loss ---- */

ff_status ff_loss_fape(ff_ctx *ctx, double *value, float *grad_frames, float *grad_points, double weight,
                       const ff_fape_inputs *in)
{
    ff_status status = FF_OK;
    point_columns c = {0};
    float *columns = NULL, *chunk_grads = NULL;
    const int64_t num_frames = in->num_frames, num_points = in->num_points;
    if (num_frames <= 0 || num_points <= 0)
        return FF_FAIL(ctx, FF_ERR_ARG, "FAPE of %lld frames and %lld points: both must be positive",
                       (long long)num_frames, (long long)num_points);
    const int64_t num_chunks = num_frames < CHUNKS ? num_frames : CHUNKS;
    const tile_fn tile = tiles[ff_loss_target_of(ctx)];
    const bool with_grads = (grad_frames != NULL || grad_points != NULL) && weight != 0;
    double errors[CHUNKS] = {0};
    FF_LOSS_SCRATCH(ctx, columns, NUM_COLUMNS * num_points);
    FF_LOSS_SCRATCH(ctx, c.index, num_points);
    for (int k = 0; k < NUM_COLUMNS; k++)
        c.column[k] = columns + k * num_points;
    gather_points(&c, in);
    if (with_grads)
        FF_LOSS_SCRATCH(ctx, chunk_grads, 3 * num_chunks * num_points);
    const double normalisation = EPSILON + ff_sum_mask(in->frame_mask, num_frames) * (double)c.count;
    const double factor = weight / ((double)LENGTH_SCALE_ANG * normalisation);
#pragma omp parallel for schedule(dynamic)
    for (int64_t k = 0; k < num_chunks; k++)
        errors[k] =
            run_chunk(tile, with_grads ? grad_frames : NULL, chunk_grads == NULL ? NULL : chunk_grads + 3 * k * c.count, in,
                      &c, k * num_frames / num_chunks, (k + 1) * num_frames / num_chunks, factor);
    *value = ff_sum_rows(errors, num_chunks) / ((double)LENGTH_SCALE_ANG * normalisation);
    if (with_grads && grad_points != NULL)
        add_point_gradients(grad_points, chunk_grads, &c, num_chunks, factor);
done:
    FF_LOSS_SCRATCH_FREE(ctx, chunk_grads, 3 * num_chunks * num_points);
    FF_LOSS_SCRATCH_FREE(ctx, c.index, num_points);
    FF_LOSS_SCRATCH_FREE(ctx, columns, NUM_COLUMNS * num_points);
    return status;
}

/* ---- backbone ---- */

static void widen(double *to, const float *from, int n)
{
    for (int k = 0; k < n; k++)
        to[k] = (double)from[k];
}

static void affines_to_frames(float *frames, float *origins, const float *affines, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double affine[7], rigid[12];
        widen(affine, affines + 7 * i, 7);
        ff_affine_to_rigid(rigid, affine, 1.0);
        for (int k = 0; k < 12; k++)
            frames[12 * i + k] = (float)rigid[k];
        memcpy(origins + 3 * i, affines + 7 * i + 4, 3 * sizeof *origins);
    }
}

/* Gradients of frames and of their origins as points, to quaternions and translations. */
static void add_affine_gradients(float *grad_affine, const float *grad_frames, const float *grad_origins,
                                 const float *affines, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double affine[7], grad_rigid[12], grad[7] = {0};
        widen(affine, affines + 7 * i, 7);
        widen(grad_rigid, grad_frames + 12 * i, 12);
        for (int x = 0; x < 3; x++)
            grad_rigid[9 + x] += (double)grad_origins[3 * i + x];
        ff_affine_to_rigid_backward(grad, grad_rigid, affine, 1.0);
        for (int k = 0; k < 7; k++)
            grad_affine[7 * i + k] += (float)grad[k];
    }
}

ff_status ff_loss_fape_backbone(ff_ctx *ctx, double *value, double *last_layer, float *const *grad_traj,
                                double weight, const ff_backbone_fape_inputs *in)
{
    enum { FRAME = 12, ORIGIN = 3, BOTH = FRAME + ORIGIN };
    ff_status status = FF_OK;
    float *block = NULL; /* predicted, true, gradient: frames and origins each */
    const int64_t n = in->num_res, num_layer = in->num_layer;
    if (n <= 0 || num_layer <= 0)
        return FF_FAIL(ctx, FF_ERR_ARG, "backbone FAPE of %lld layers of %lld residues: both must be positive",
                       (long long)num_layer, (long long)n);
    FF_LOSS_SCRATCH(ctx, block, 3 * BOTH * n);
    float *frames = block, *origins = frames + FRAME * n, *true_frames = origins + ORIGIN * n;
    float *true_origins = true_frames + FRAME * n, *grad_frames = true_origins + ORIGIN * n;
    float *grad_origins = grad_frames + FRAME * n;
    affines_to_frames(true_frames, true_origins, in->true_affine, n);
    double sum = 0, layer_value = 0;
    for (int64_t layer = 0; layer < num_layer; layer++) {
        const float *traj = in->traj[layer];
        affines_to_frames(frames, origins, traj, n);
        memset(grad_frames, 0, (size_t)(BOTH * n) * sizeof *grad_frames);
        const ff_fape_inputs fape = {
            n, n, frames, true_frames, in->mask, origins, true_origins, in->mask, in->use_clamped_fape};
        FF_TRY_DONE(ff_loss_fape(ctx, &layer_value, grad_traj == NULL ? NULL : grad_frames,
                                 grad_traj == NULL ? NULL : grad_origins, weight / (double)num_layer, &fape));
        if (grad_traj != NULL)
            add_affine_gradients(grad_traj[layer], grad_frames, grad_origins, traj, n);
        sum += layer_value;
    }
    *value = sum / (double)num_layer;
    if (last_layer != NULL)
        *last_layer = layer_value;
done:
    FF_LOSS_SCRATCH_FREE(ctx, block, 3 * BOTH * n);
    return status;
}

/* ---- side chain ---- */

ff_status ff_loss_fape_sidechain(ff_ctx *ctx, double *value, float *grad_frames, float *grad_pos, double weight,
                                 const ff_sidechain_fape_inputs *in)
{
    const ff_fape_inputs fape = {8 * in->num_res, 14 * in->num_res, in->frames,
                                 in->true_frames, in->frame_mask,   in->atom14_pos,
                                 in->true_pos,    in->atom_mask,    1.0};
    return ff_loss_fape(ctx, value, grad_frames, grad_pos, weight, &fape);
}
