#include "data/loader.h"
#include "core/clock.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* A place of the queue: draw k has slot k % queue_length. */
typedef struct {
    bool ready;
    ff_loader_draw draw;
    ff_array_set batch;
    ff_status status;
    char message[FF_MESSAGE_BYTES];
} slot;

struct ff_loader {
    ff_loader_options o;
    ff_log log;
    uint64_t seed;
    pthread_mutex_t lock; /* of everything below */
    pthread_cond_t work;  /* for workers: a sample was taken, a record was read, the end */
    pthread_cond_t ready; /* for the consumer: a sample is ready */
    ff_record_cache *cache;
    slot *slots;
    int64_t begun, taken; /* draws before `begun` are being made or made, draws before `taken` were given out */
    bool stop;
    ff_loader_stats stats;
    double first_s; /* when the first sample was given out */
    pthread_t *threads;
    int64_t num_threads;
};

static void begin_context(ff_ctx *ctx, const ff_loader *l)
{
    ff_context_init(ctx);
    ctx->log = l->log;
    ctx->seed = l->seed;
}

/* Read an absent record; the lock is held at the call and the return, not during the reading. */
static ff_status read_record(ff_loader *l, ff_ctx *ctx, int64_t record)
{
    ff_array_set arrays;
    ff_array_set_init(&arrays);
    ff_record_cache_begin_read(l->cache, record);
    pthread_mutex_unlock(&l->lock);
    const double begin = ff_clock_s();
    const ff_status status = l->o.read(ctx, l->o.arg, record, &arrays);
    const double seconds = ff_clock_s() - begin;
    pthread_mutex_lock(&l->lock);
    l->stats.read_s += seconds;
    ff_record_cache_end_read(l->cache, record, status == FF_OK ? &arrays : NULL);
    pthread_cond_broadcast(&l->work); /* others may wait for this record */
    ff_array_set_destroy(&arrays);
    return status;
}

/* The record of a draw, read by this worker or by another one that is at it. */
static ff_status need_record(ff_loader *l, ff_ctx *ctx, int64_t record)
{
    for (;;) {
        const ff_record_state state = ff_record_cache_state(l->cache, record);
        if (state == FF_RECORD_READY)
            return FF_OK;
        if (state == FF_RECORD_ABSENT)
            return read_record(l, ctx, record);
        pthread_cond_wait(&l->work, &l->lock);
    }
}

/* Make the next sample. The lock is held at the call and the return. */
static void make_sample(ff_loader *l, ff_ctx *ctx)
{
    ff_loader_draw draw = {0, 0};
    ff_array_set batch;
    ff_array_set_init(&batch);
    draw.number = ff_record_cache_begin_draw(l->cache, &draw.record);
    l->begun++;
    ff_context_clear(ctx);
    ff_status status = need_record(l, ctx, draw.record);
    if (status == FF_OK) {
        const ff_array_set *arrays = ff_record_cache_get(l->cache, draw.record);
        pthread_mutex_unlock(&l->lock);
        const double begin = ff_clock_s();
        status = l->o.process(ctx, l->o.arg, &draw, arrays, &batch);
        const double seconds = ff_clock_s() - begin;
        pthread_mutex_lock(&l->lock);
        l->stats.process_s += seconds;
    }
    if (status != FF_OK)
        ff_array_set_destroy(&batch);
    ff_record_cache_release(l->cache, draw.record);
    slot *s = &l->slots[draw.number % l->o.queue_length];
    s->draw = draw;
    s->batch = batch;
    s->status = status;
    memcpy(s->message, ctx->message, sizeof s->message);
    s->ready = true;
    pthread_cond_signal(&l->ready);
}

/* A sample when there is room for one, else a record that will be drawn, else nothing (false). */
static bool work_once(ff_loader *l, ff_ctx *ctx)
{
    if (l->begun < l->o.end_draw && l->begun - l->taken < l->o.queue_length) {
        make_sample(l, ctx);
        return true;
    }
    const int64_t record = ff_record_cache_to_prefetch(l->cache);
    if (record < 0)
        return false;
    ff_context_clear(ctx);
    read_record(l, ctx, record); /* on failure its draw says so */
    return true;
}

static void *run_worker(void *arg)
{
    ff_loader *l = arg;
    ff_ctx ctx;
    begin_context(&ctx, l);
    pthread_mutex_lock(&l->lock);
    while (!l->stop)
        if (!work_once(l, &ctx))
            pthread_cond_wait(&l->work, &l->lock);
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* ---- the consumer ---- */

static void count_wait(ff_loader *l, double begin)
{
    const double end = ff_clock_s(), waited = end - begin;
    if (l->stats.samples++ == 0) {
        l->stats.first_wait_s = waited;
        l->first_s = end;
        return;
    }
    l->stats.wait_s += waited;
    l->stats.longest_wait_s = waited > l->stats.longest_wait_s ? waited : l->stats.longest_wait_s;
    l->stats.since_first_s = end - l->first_s;
}

ff_status ff_loader_next(ff_ctx *ctx, ff_loader *l, ff_array_set *batch, ff_loader_draw *draw)
{
    const double begin = ff_clock_s();
    ff_array_set_init(batch);
    *draw = (ff_loader_draw){-1, -1};
    pthread_mutex_lock(&l->lock);
    if (l->taken >= l->o.end_draw) {
        pthread_mutex_unlock(&l->lock);
        return FF_OK;
    }
    slot *s = &l->slots[l->taken % l->o.queue_length];
    if (l->num_threads == 0) {
        ff_ctx own;
        begin_context(&own, l);
        make_sample(l, &own);
    }
    while (!s->ready)
        pthread_cond_wait(&l->ready, &l->lock);
    count_wait(l, begin);
    s->ready = false;
    *batch = s->batch;
    *draw = s->draw;
    ff_array_set_init(&s->batch);
    l->taken++;
    l->stats.failed += s->status != FF_OK;
    const ff_status status = s->status == FF_OK ? FF_OK : FF_FAIL(ctx, s->status, "%s", s->message);
    pthread_cond_broadcast(&l->work);
    pthread_mutex_unlock(&l->lock);
    return status;
}

ff_loader_stats ff_loader_get_stats(ff_loader *l)
{
    pthread_mutex_lock(&l->lock);
    ff_loader_stats stats = l->stats;
    stats.cache = ff_record_cache_get_stats(l->cache);
    pthread_mutex_unlock(&l->lock);
    return stats;
}

/* ---- the loader ---- */

ff_status ff_loader_create(ff_ctx *ctx, ff_loader **loader, const ff_loader_options *options)
{
    const ff_record_cache_options cache = {options->num_records, options->first_draw, options->end_draw, options->horizon,
                                           options->cache_bytes, options->record_of,  options->arg};
    ff_status status = FF_OK;
    if (options->num_workers < 0 || options->queue_length < 1 || options->read == NULL || options->process == NULL)
        return FF_FAIL(ctx, FF_ERR_ARG, "a loader of %lld workers and %lld samples ahead: wanted at least 0 and 1",
                       (long long)options->num_workers, (long long)options->queue_length);
    ff_loader *l = calloc(1, sizeof *l);
    if (l == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory for a loader");
    l->o = *options;
    l->log = ctx->log;
    l->seed = ctx->seed;
    l->begun = l->taken = options->first_draw;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->work, NULL);
    pthread_cond_init(&l->ready, NULL);
    l->slots = calloc((size_t)options->queue_length, sizeof *l->slots);
    l->threads = calloc((size_t)options->num_workers + 1, sizeof *l->threads);
    if (l->slots == NULL || l->threads == NULL)
        FF_TRY_DONE(FF_FAIL(ctx, FF_ERR_MEM, "out of memory for a loader of %lld samples", (long long)options->queue_length));
    FF_TRY_DONE(ff_record_cache_create(ctx, &l->cache, &cache));
    for (int64_t i = 0; i < options->num_workers; i++) {
        const int failed = pthread_create(&l->threads[i], NULL, run_worker, l);
        if (failed != 0)
            FF_TRY_DONE(FF_FAIL(ctx, FF_ERR_MEM, "cannot start loader thread %lld: %s", (long long)i, strerror(failed)));
        l->num_threads++;
    }
    *loader = l;
    return FF_OK;
done:
    ff_loader_destroy(l);
    return status;
}

void ff_loader_destroy(ff_loader *l)
{
    if (l == NULL)
        return;
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_cond_broadcast(&l->work);
    pthread_mutex_unlock(&l->lock);
    for (int64_t i = 0; i < l->num_threads; i++)
        pthread_join(l->threads[i], NULL);
    for (int64_t i = 0; l->slots != NULL && i < l->o.queue_length; i++)
        ff_array_set_destroy(&l->slots[i].batch);
    ff_record_cache_destroy(l->cache);
    free(l->slots);
    free(l->threads);
    pthread_cond_destroy(&l->ready);
    pthread_cond_destroy(&l->work);
    pthread_mutex_destroy(&l->lock);
    free(l);
}
