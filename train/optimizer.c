/* optimizer.c - see optimizer.h.
 *
 * Contents: configuration; learning rate; norms and clipping; the blocks; a step. */
#include "train/optimizer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    PARTS = 256,          /* of a norm: added up in order, whatever the number of threads */
    FLOATS_PER_LINE = 16, /* alignment of blocks */
    GRAIN = 4096 /* floats a thread takes at a time: four or five such pieces stay in its first-level cache */
};

/* ---- configuration ---- */

ff_optimizer_config ff_optimizer_alphafold(bool finetune)
{
    ff_optimizer_config c = {.learning_rate = 1e-3,
                             .beta1 = 0.9,
                             .beta2 = 0.999,
                             .epsilon = 1e-6,
                             .warmup_steps = 1000,
                             .decay_start = 50000,
                             .decay_factor = 0.95,
                             .clip_norm = 0.1,
                             .ema_decay = 0.999};
    if (finetune) {
        c.learning_rate = 5e-4;
        c.warmup_steps = c.decay_start = 0;
    }
    return c;
}

ff_status ff_optimizer_check_config(ff_ctx *ctx, const ff_optimizer_config *c)
{
    const struct {
        const char *name, *wanted;
        double value;
        bool right;
    } checks[] = {
        {"learning rate", "a number that is not negative", c->learning_rate,
         isfinite(c->learning_rate) && c->learning_rate >= 0},
        {"beta1", "0 <= beta1 < 1", c->beta1, c->beta1 >= 0 && c->beta1 < 1},
        {"beta2", "0 <= beta2 < 1", c->beta2, c->beta2 >= 0 && c->beta2 < 1},
        {"epsilon", "a positive number", c->epsilon, isfinite(c->epsilon) && c->epsilon > 0},
        {"warm-up steps", "0 or more", (double)c->warmup_steps, c->warmup_steps >= 0},
        {"decay start", "0 or more", (double)c->decay_start, c->decay_start >= 0},
        {"decay steps", "0 or more", (double)c->decay_every, c->decay_every >= 0},
        {"decay factor", "0 < factor <= 1", c->decay_factor,
         c->decay_start == 0 || (c->decay_factor > 0 && c->decay_factor <= 1)},
        {"clipping norm", "0 or more", c->clip_norm, isfinite(c->clip_norm) && c->clip_norm >= 0},
        {"EMA decay", "0 <= decay < 1", c->ema_decay, c->ema_decay >= 0 && c->ema_decay < 1},
    };
    for (size_t k = 0; k < sizeof checks / sizeof *checks; k++)
        if (!checks[k].right)
            return FF_FAIL(ctx, FF_ERR_ARG, "optimiser: %s is %g, wanted %s", checks[k].name, checks[k].value,
                           checks[k].wanted);
    return FF_OK;
}

/* ---- learning rate ---- */

double ff_learning_rate(const ff_optimizer_config *c, int64_t step)
{
    double rate = c->learning_rate;
    if (step < c->warmup_steps)
        rate *= (double)step / (double)c->warmup_steps;
    if (c->decay_start > 0 && step > c->decay_start) {
        const int64_t further = c->decay_every > 0 ? (step - c->decay_start - 1) / c->decay_every : 0;
        rate *= pow(c->decay_factor, (double)(1 + further));
    }
    return rate;
}

/* ---- norms and clipping ---- */

double ff_gradient_norm(const float *grads, int64_t total)
{
    double parts[PARTS], sum = 0;
#pragma omp parallel for schedule(static)
    for (int64_t k = 0; k < PARTS; k++) {
        const int64_t begin = k * total / PARTS, end = (k + 1) * total / PARTS;
        double part = 0;
#pragma omp simd reduction(+ : part)
        for (int64_t i = begin; i < end; i++)
            part += (double)grads[i] * (double)grads[i];
        parts[k] = part;
    }
    for (int64_t k = 0; k < PARTS; k++)
        sum += parts[k];
    return sqrt(sum);
}

double ff_clip_factor(double norm, double clip_norm)
{
    return clip_norm > 0 && norm > clip_norm ? clip_norm / norm : 1;
}

bool ff_gradient_accumulate(float *sum, float *sample, int64_t total, double clip_norm, double *norm)
{
    const double length = ff_gradient_norm(sample, total);
    if (norm != NULL)
        *norm = length;
    if (!isfinite(length)) {
        memset(sample, 0, (size_t)total * sizeof *sample);
        return false;
    }
    const float factor = (float)ff_clip_factor(length, clip_norm);
#pragma omp parallel for simd schedule(static)
    for (int64_t i = 0; i < total; i++) {
        sum[i] += factor * sample[i];
        sample[i] = 0;
    }
    return true;
}

/* ---- the blocks ---- */

ff_status ff_optimizer_create(ff_ctx *ctx, ff_optimizer *o, const ff_optimizer_config *config, const float *values,
                              int64_t total)
{
    memset(o, 0, sizeof *o);
    FF_TRY(ff_optimizer_check_config(ctx, config));
    if (total <= 0)
        return FF_FAIL(ctx, FF_ERR_ARG, "optimiser of %lld parameters: the number must be positive",
                       (long long)total);
    const int64_t stride = (total + FLOATS_PER_LINE - 1) / FLOATS_PER_LINE * FLOATS_PER_LINE;
    const size_t bytes = (size_t)(3 * stride) * sizeof(float);
    float *block = aligned_alloc(FLOATS_PER_LINE * sizeof(float), bytes);
    if (block == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory for the moments of %lld parameters", (long long)total);
    o->config = *config;
    o->total = total;
    o->first = block;
    o->second = block + stride;
    o->ema = block + 2 * stride;
    /* touched by the threads that will update it */
#pragma omp parallel for schedule(static)
    for (int64_t begin = 0; begin < total; begin += GRAIN) {
        const size_t n = (size_t)(begin + GRAIN < total ? GRAIN : total - begin);
        memset(o->first + begin, 0, n * sizeof *block);
        memset(o->second + begin, 0, n * sizeof *block);
        memcpy(o->ema + begin, values + begin, n * sizeof *block);
    }
    return FF_OK;
}

void ff_optimizer_destroy(ff_optimizer *o)
{
    free(o->first); /* the whole block */
    memset(o, 0, sizeof *o);
}

/* ---- a step ---- */

/* The numbers of one step, in float32 as the update uses them. */
typedef struct {
    float grad_factor, beta1, beta2, new1, new2, rate, correction2, epsilon, ema_new;
} step_numbers;

static void update(const ff_optimizer *o, float *restrict values, float *restrict grads, const step_numbers *k,
                   int64_t begin, int64_t end)
{
    float *restrict first = o->first, *restrict second = o->second, *restrict ema = o->ema;
    const step_numbers c = *k;
#pragma omp simd
    for (int64_t i = begin; i < end; i++) {
        const float g = c.grad_factor * grads[i];
        const float m = c.beta1 * first[i] + c.new1 * g;
        const float v = c.beta2 * second[i] + c.new2 * (g * g);
        const float value = values[i] - c.rate * m / (sqrtf(v * c.correction2) + c.epsilon);
        first[i] = m;
        second[i] = v;
        values[i] = value;
        ema[i] += c.ema_new * (value - ema[i]);
        grads[i] = 0;
    }
}

ff_step_report ff_optimizer_step(ff_optimizer *o, float *values, float *grads, double factor, bool clip)
{
    const ff_optimizer_config *c = &o->config;
    const double t = (double)(o->step + 1);
    ff_step_report report = {.gradient_norm = fabs(factor) * ff_gradient_norm(grads, o->total),
                             .learning_rate = ff_learning_rate(c, o->step + 1)};
    if (!isfinite(report.gradient_norm)) {
        memset(grads, 0, (size_t)o->total * sizeof *grads);
        return report;
    }
    if (clip)
        factor *= ff_clip_factor(report.gradient_norm, c->clip_norm);
    const step_numbers numbers = {.grad_factor = (float)factor,
                                  .beta1 = (float)c->beta1,
                                  .beta2 = (float)c->beta2,
                                  .new1 = (float)(1 - c->beta1),
                                  .new2 = (float)(1 - c->beta2),
                                  .rate = (float)(report.learning_rate / (1 - pow(c->beta1, t))),
                                  .correction2 = (float)(1 / (1 - pow(c->beta2, t))),
                                  .epsilon = (float)c->epsilon,
                                  .ema_new = (float)(1 - c->ema_decay)};
#pragma omp parallel for schedule(static)
    for (int64_t begin = 0; begin < o->total; begin += GRAIN)
        update(o, values, grads, &numbers, begin, begin + GRAIN < o->total ? begin + GRAIN : o->total);
    o->step++;
    report.applied = true;
    return report;
}
