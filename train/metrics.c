/* metrics.c - scores of a predicted CA trace: see metrics.h.
 *
 * Contents: resolved residues; lDDT; dRMSD; superposition; the search of TM-score and GDT; all metrics. */
#include "train/metrics.h"

#include <math.h>
#include <string.h>

#include "train/loss_common.h"

/* ---- resolved residues ---- */

/* Predicted and true positions of the resolved residues, [count, 3] each, one behind the other in `block`. */
typedef struct {
    int64_t count;
    double *predicted, *truth, *block;
    int64_t num_res;
    bool finite;
} resolved_points;

static ff_status gather_resolved(ff_ctx *ctx, resolved_points *r, const float *predicted, const float *truth,
                                 const float *mask, int64_t num_res)
{
    *r = (resolved_points){.num_res = num_res, .finite = true};
    if (num_res < 0)
        return FF_FAIL(ctx, FF_ERR_ARG, "metrics of %lld residues", (long long)num_res);
    r->block = ff_pool_alloc(ctx, (size_t)(6 * num_res) * sizeof(double));
    if (r->block == NULL)
        return ctx->status;
    r->predicted = r->block;
    r->truth = r->block + 3 * num_res;
    for (int64_t i = 0; i < num_res; i++) {
        if (mask[i] == 0)
            continue;
        for (int x = 0; x < 3; x++) {
            r->predicted[3 * r->count + x] = (double)predicted[3 * i + x];
            r->truth[3 * r->count + x] = (double)truth[3 * i + x];
            if (!isfinite(predicted[3 * i + x]) || !isfinite(truth[3 * i + x]))
                r->finite = false;
        }
        r->count++;
    }
    return FF_OK;
}

static void release_resolved(ff_ctx *ctx, resolved_points *r) { FF_LOSS_SCRATCH_FREE(ctx, r->block, 6 * r->num_res); }

static double distance(const float *p, int64_t i, int64_t j)
{
    double d2 = 1e-10; /* as in AlphaFold's lddt */
    for (int x = 0; x < 3; x++) {
        const double d = (double)p[3 * i + x] - (double)p[3 * j + x];
        d2 += d * d;
    }
    return sqrt(d2);
}

/* ---- lDDT ---- */

/* Partners of residue i, and the sum of their scores. */
static double lddt_row(double *partners, const float *predicted, const float *truth, const float *mask,
                       int64_t num_res, int64_t i, double cutoff)
{
    double score = 0, count = 0;
    for (int64_t j = 0; j < num_res; j++) {
        if (j == i || mask[i] == 0 || mask[j] == 0)
            continue;
        const double d_true = distance(truth, i, j);
        if (!(d_true < cutoff))
            continue;
        const double error = fabs(distance(predicted, i, j) - d_true);
        score += 0.25 * ((error < 0.5) + (error < 1) + (error < 2) + (error < 4));
        count += 1;
    }
    *partners = count;
    return score;
}

void ff_lddt_per_residue(double *lddt, const float *predicted, const float *truth, const float *mask, int64_t num_res,
                         double cutoff_ang)
{
    const double epsilon = 1e-10;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < num_res; i++) {
        double partners;
        const double score = lddt_row(&partners, predicted, truth, mask, num_res, i, cutoff_ang);
        lddt[i] = (epsilon + score) / (epsilon + partners);
    }
}

double ff_lddt_ca(const float *predicted, const float *truth, const float *mask, int64_t num_res)
{
    double score = 0, count = 0; /* multiples of 1/4: the order does not matter */
#pragma omp parallel for schedule(static) reduction(+ : score, count)
    for (int64_t i = 0; i < num_res; i++) {
        double partners;
        score += lddt_row(&partners, predicted, truth, mask, num_res, i, FF_LDDT_CUTOFF_ANG);
        count += partners;
    }
    return count > 0 ? score / count : 0;
}

/* ---- dRMSD ---- */

double ff_drmsd(const float *predicted, const float *truth, const float *mask, int64_t num_res)
{
    double sum = 0, count = 0;
    for (int64_t i = 0; i < num_res; i++)
        for (int64_t j = i + 1; j < num_res; j++) {
            if (mask[i] == 0 || mask[j] == 0)
                continue;
            const double d = distance(predicted, i, j) - distance(truth, i, j);
            sum += d * d;
            count += 1;
        }
    return count == 0 ? 0 : isfinite(sum) ? sqrt(sum / count) : INFINITY;
}

/* ---- superposition ---- */

/* Eigenvector of the largest eigenvalue of a symmetric 4 x 4 matrix, by Jacobi rotations; `a` is destroyed. */
static void largest_eigenvector(double vector[4], double a[4][4])
{
    enum { MAX_SWEEPS = 40 }; /* five or six are usual */
    double v[4][4] = {{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}};
    for (int sweep = 0; sweep < MAX_SWEEPS; sweep++) {
        double off = 0, diagonal = 0;
        for (int p = 0; p < 4; p++)
            for (int q = 0; q < 4; q++)
                *(p == q ? &diagonal : &off) += a[p][q] * a[p][q];
        if (!(off > 1e-30 * diagonal))
            break;
        for (int p = 0; p < 3; p++)
            for (int q = p + 1; q < 4; q++) {
                if (a[p][q] == 0)
                    continue;
                const double theta = (a[q][q] - a[p][p]) / (2 * a[p][q]);
                const double t = (theta >= 0 ? 1 : -1) / (fabs(theta) + sqrt(theta * theta + 1));
                const double c = 1 / sqrt(t * t + 1), s = t * c;
                for (int k = 0; k < 4; k++) {
                    const double x = a[k][p], y = a[k][q];
                    a[k][p] = c * x - s * y;
                    a[k][q] = s * x + c * y;
                }
                for (int k = 0; k < 4; k++) {
                    const double x = a[p][k], y = a[q][k];
                    a[p][k] = c * x - s * y;
                    a[q][k] = s * x + c * y;
                }
                for (int k = 0; k < 4; k++) {
                    const double x = v[k][p], y = v[k][q];
                    v[k][p] = c * x - s * y;
                    v[k][q] = s * x + c * y;
                }
            }
    }
    int best = 0;
    for (int k = 1; k < 4; k++)
        if (a[k][k] > a[best][best])
            best = k;
    for (int k = 0; k < 4; k++)
        vector[k] = v[k][best];
}

/* Sums that a superposition needs. */
typedef struct {
    double weight, moving[3], fixed[3], product[3][3]; /* product[x][y] = sum of moving_x fixed_y */
} moments;

/* Relative to the origin o[0..2] of moving and o[3..5] of fixed, near the points: no cancellation. */
static void add_point(moments *m, const double *moving, const double *fixed, const double *origin, double weight)
{
    double a[3], b[3];
    for (int x = 0; x < 3; x++) {
        a[x] = moving[x] - origin[x];
        b[x] = fixed[x] - origin[3 + x];
        m->moving[x] += weight * a[x];
        m->fixed[x] += weight * b[x];
    }
    for (int x = 0; x < 3; x++)
        for (int y = 0; y < 3; y++)
            m->product[x][y] += weight * a[x] * b[y];
    m->weight += weight;
}

static void superpose_moments(ff_superposition *s, const moments *m, const double *origin)
{
    double c[3][3], q[4];
    *s = (ff_superposition){.rotation = {1, 0, 0, 0, 1, 0, 0, 0, 1}};
    if (!(m->weight > 0))
        return;
    for (int x = 0; x < 3; x++)
        for (int y = 0; y < 3; y++)
            c[x][y] = m->product[x][y] - m->moving[x] * m->fixed[y] / m->weight;
    double n[4][4] = {
        {c[0][0] + c[1][1] + c[2][2], c[1][2] - c[2][1], c[2][0] - c[0][2], c[0][1] - c[1][0]},
        {c[1][2] - c[2][1], c[0][0] - c[1][1] - c[2][2], c[0][1] + c[1][0], c[2][0] + c[0][2]},
        {c[2][0] - c[0][2], c[0][1] + c[1][0], c[1][1] - c[0][0] - c[2][2], c[1][2] + c[2][1]},
        {c[0][1] - c[1][0], c[2][0] + c[0][2], c[1][2] + c[2][1], c[2][2] - c[0][0] - c[1][1]},
    };
    largest_eigenvector(q, n);
    const double w = q[0], i = q[1], j = q[2], k = q[3];
    const double r[9] = {w * w + i * i - j * j - k * k, 2 * (i * j - w * k),           2 * (i * k + w * j),
                         2 * (i * j + w * k),           w * w - i * i + j * j - k * k, 2 * (j * k - w * i),
                         2 * (i * k - w * j),           2 * (j * k + w * i),           w * w - i * i - j * j + k * k};
    memcpy(s->rotation, r, sizeof r);
    for (int x = 0; x < 3; x++) {
        s->translation[x] = origin[3 + x] + m->fixed[x] / m->weight;
        for (int y = 0; y < 3; y++)
            s->translation[x] -= r[3 * x + y] * (origin[y] + m->moving[y] / m->weight);
    }
}

static double moved_distance2(const ff_superposition *s, const double *moving, const double *fixed)
{
    double d2 = 0;
    for (int x = 0; x < 3; x++) {
        const double *r = s->rotation + 3 * x;
        const double d = r[0] * moving[0] + r[1] * moving[1] + r[2] * moving[2] + s->translation[x] - fixed[x];
        d2 += d * d;
    }
    return d2;
}

/* Middle of moving and of fixed. */
static void middles(double origin[6], const double *moving, const double *fixed, int64_t n)
{
    memset(origin, 0, 6 * sizeof *origin);
    for (int64_t i = 0; i < n; i++)
        for (int x = 0; x < 3; x++) {
            origin[x] += moving[3 * i + x] / (double)n;
            origin[3 + x] += fixed[3 * i + x] / (double)n;
        }
}

double ff_superpose(ff_superposition *s, const double *moving, const double *fixed, const double *weight, int64_t n)
{
    double origin[6], sum = 0;
    moments m = {0};
    middles(origin, moving, fixed, n);
    for (int64_t i = 0; i < n; i++)
        add_point(&m, moving + 3 * i, fixed + 3 * i, origin, weight == NULL ? 1 : weight[i]);
    superpose_moments(s, &m, origin);
    for (int64_t i = 0; i < n; i++)
        sum += (weight == NULL ? 1 : weight[i]) * moved_distance2(s, moving + 3 * i, fixed + 3 * i);
    return m.weight > 0 ? sqrt(sum / m.weight) : 0;
}

static double rmsd_of(const resolved_points *r)
{
    ff_superposition s;
    return !r->finite ? INFINITY : ff_superpose(&s, r->predicted, r->truth, NULL, r->count);
}

ff_status ff_rmsd(ff_ctx *ctx, double *rmsd_ang, const float *predicted, const float *truth, const float *mask,
                  int64_t num_res)
{
    resolved_points r;
    FF_TRY(gather_resolved(ctx, &r, predicted, truth, mask, num_res));
    *rmsd_ang = rmsd_of(&r);
    release_resolved(ctx, &r);
    return FF_OK;
}

/* ---- the search of TM-score and GDT ---- */

enum { GDT_CUTOFFS = 5, LANES = 32, MIN_FRAGMENT = 4, MAX_LEVELS = 6, MAX_REFINEMENTS = 20 };

static const double gdt_cutoffs_ang[GDT_CUTOFFS] = {0.5, 1, 2, 4, 8};

/* What one lane of the search has found. */
typedef struct {
    double tm;
    int64_t within[GDT_CUTOFFS];
} found_scores;

typedef struct {
    const resolved_points *points;
    double origin[6];
    double d0, cutoff_ang; /* of the residues that a superposition is refined on */
    int num_levels;
    int64_t fragment[MAX_LEVELS];
} score_search;

double ff_tm_d0(int64_t length)
{
    const double d0 = length > 21 ? 1.24 * cbrt((double)(length - 15)) - 1.8 : 0.5;
    return d0 < 0.5 ? 0.5 : d0;
}

static void prepare_search(score_search *t, const resolved_points *r)
{
    t->points = r;
    t->d0 = ff_tm_d0(r->count);
    t->cutoff_ang = t->d0 > 8 ? 8 : t->d0 < 4.5 ? 4.5 : t->d0;
    middles(t->origin, r->predicted, r->truth, r->count);
    const int64_t shortest = r->count < MIN_FRAGMENT ? r->count : MIN_FRAGMENT;
    t->num_levels = 0;
    for (int64_t length = r->count; length > shortest && t->num_levels < MAX_LEVELS - 1; length /= 2)
        t->fragment[t->num_levels++] = length;
    t->fragment[t->num_levels++] = shortest;
}

/* Score a superposition; `chosen` gets the residues within the cutoff (widened until three are). Returns how many. */
static int64_t score_superposition(const score_search *t, found_scores *found, double *distance2, int64_t *chosen,
                                   const ff_superposition *s, double cutoff)
{
    const int64_t n = t->points->count;
    int64_t within[GDT_CUTOFFS] = {0}, num_chosen = 0;
    double tm = 0;
    for (int64_t i = 0; i < n; i++) {
        const double d2 = moved_distance2(s, t->points->predicted + 3 * i, t->points->truth + 3 * i);
        distance2[i] = d2;
        tm += 1 / (1 + d2 / (t->d0 * t->d0));
        for (int k = 0; k < GDT_CUTOFFS; k++)
            within[k] += d2 <= gdt_cutoffs_ang[k] * gdt_cutoffs_ang[k];
    }
    tm /= (double)n;
    found->tm = tm > found->tm ? tm : found->tm;
    for (int k = 0; k < GDT_CUTOFFS; k++)
        found->within[k] = within[k] > found->within[k] ? within[k] : found->within[k];
    for (; n > 0; cutoff += 0.5) {
        num_chosen = 0;
        for (int64_t i = 0; i < n; i++)
            if (distance2[i] < cutoff * cutoff)
                chosen[num_chosen++] = i;
        if (num_chosen >= 3 || num_chosen == n || n <= 3)
            break;
    }
    return num_chosen;
}

static void superpose_chosen(const score_search *t, ff_superposition *s, const int64_t *chosen, int64_t num_chosen)
{
    moments m = {0};
    for (int64_t k = 0; k < num_chosen; k++)
        add_point(&m, t->points->predicted + 3 * chosen[k], t->points->truth + 3 * chosen[k], t->origin, 1);
    superpose_moments(s, &m, t->origin);
}

/* Superpose a fragment, then refine. chosen and before are [count] each. */
static void search_from(const score_search *t, found_scores *found, double *distance2, int64_t *chosen,
                        int64_t *before, int64_t start, int64_t length)
{
    ff_superposition s;
    for (int64_t k = 0; k < length; k++)
        chosen[k] = start + k;
    superpose_chosen(t, &s, chosen, length);
    int64_t count = score_superposition(t, found, distance2, chosen, &s, t->cutoff_ang - 1);
    for (int k = 0; k < MAX_REFINEMENTS; k++) {
        const int64_t count_before = count;
        memcpy(before, chosen, (size_t)count * sizeof *before);
        superpose_chosen(t, &s, chosen, count);
        count = score_superposition(t, found, distance2, chosen, &s, t->cutoff_ang + 1);
        if (count == count_before && memcmp(before, chosen, (size_t)count * sizeof *before) == 0)
            break;
    }
}

/* Every LANES-th fragment. */
static found_scores search_lane(const score_search *t, int lane, double *distance2, int64_t *chosen, int64_t *before)
{
    found_scores found = {0};
    int64_t turn = 0;
    for (int level = 0; level < t->num_levels; level++)
        for (int64_t start = 0; start + t->fragment[level] <= t->points->count; start++, turn++)
            if (turn % LANES == lane)
                search_from(t, &found, distance2, chosen, before, start, t->fragment[level]);
    return found;
}

static ff_status global_scores(ff_ctx *ctx, ff_global_scores *scores, const resolved_points *r)
{
    ff_status status = FF_OK;
    double *distance2 = NULL;
    int64_t *lists = NULL;
    const int64_t n = r->count;
    *scores = (ff_global_scores){0};
    if (n == 0 || !r->finite)
        return FF_OK;
    score_search t;
    found_scores found[LANES];
    prepare_search(&t, r);
    FF_LOSS_SCRATCH(ctx, distance2, LANES * n);
    FF_LOSS_SCRATCH(ctx, lists, 2 * LANES * n);
#pragma omp parallel for schedule(dynamic)
    for (int lane = 0; lane < LANES; lane++)
        found[lane] = search_lane(&t, lane, distance2 + lane * n, lists + 2 * lane * n, lists + (2 * lane + 1) * n);
    found_scores best = found[0];
    for (int lane = 1; lane < LANES; lane++) {
        best.tm = fmax(best.tm, found[lane].tm);
        for (int k = 0; k < GDT_CUTOFFS; k++)
            best.within[k] = found[lane].within[k] > best.within[k] ? found[lane].within[k] : best.within[k];
    }
    scores->tm_score = best.tm;
    for (int k = 0; k < 4; k++) {
        scores->gdt_ha += (double)best.within[k] / (4 * (double)n);
        scores->gdt_ts += (double)best.within[k + 1] / (4 * (double)n);
    }
done:
    FF_LOSS_SCRATCH_FREE(ctx, lists, 2 * LANES * n);
    FF_LOSS_SCRATCH_FREE(ctx, distance2, LANES * n);
    return status;
}

ff_status ff_global_scores_compute(ff_ctx *ctx, ff_global_scores *scores, const float *predicted, const float *truth,
                                   const float *mask, int64_t num_res)
{
    resolved_points r;
    FF_TRY(gather_resolved(ctx, &r, predicted, truth, mask, num_res));
    const ff_status status = global_scores(ctx, scores, &r);
    release_resolved(ctx, &r);
    return status;
}

/* ---- all metrics ---- */

ff_status ff_structure_metrics_compute(ff_ctx *ctx, ff_structure_metrics *metrics, const float *predicted,
                                       const float *truth, const float *mask, int64_t num_res)
{
    resolved_points r;
    ff_global_scores scores;
    FF_TRY(gather_resolved(ctx, &r, predicted, truth, mask, num_res));
    const ff_status status = global_scores(ctx, &scores, &r);
    if (status == FF_OK)
        *metrics = (ff_structure_metrics){.num_resolved = r.count,
                                          .lddt_ca = ff_lddt_ca(predicted, truth, mask, num_res),
                                          .drmsd_ang = ff_drmsd(predicted, truth, mask, num_res),
                                          .rmsd_ang = rmsd_of(&r),
                                          .gdt_ts = scores.gdt_ts,
                                          .gdt_ha = scores.gdt_ha,
                                          .tm_score = scores.tm_score};
    release_resolved(ctx, &r);
    return status;
}
