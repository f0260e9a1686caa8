/* loader.h - samples made ahead of their use, by worker threads, in the order of their draws.
 *
 * A draw is one sample of a run; which record it reads (`record_of`) and what is made of it (`process`, keyed by the draw) are pure
 * functions of its number, so the samples are the same whatever the number of workers, and a run that starts again at
 * `first_draw` goes on with the very samples it would have had. Samples come out in the order of draws; at most `queue_length`
 * wait. Idle workers read records that will be drawn, as far as the cache has room (data/record_cache.h).
 *
 * `read` and `process` are called by several threads at once, each with a context of its own. */
#ifndef FF_DATA_LOADER_H
#define FF_DATA_LOADER_H

#include "data/record_cache.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    int64_t number; /* of the draw */
    int64_t record;
} ff_loader_draw;

/** Read a record of the data set into an empty set. */
typedef ff_status (*ff_loader_read_fn)(ff_ctx *ctx, void *arg, int64_t record, ff_array_set *arrays);
/** Make the batch of a draw, an empty set, from its record. */
typedef ff_status (*ff_loader_process_fn)(ff_ctx *ctx, void *arg, const ff_loader_draw *draw, const ff_array_set *arrays,
                                          ff_array_set *batch);

typedef struct {
    int64_t num_records;
    int64_t first_draw, end_draw;  /* draws [first, end); INT64_MAX = endless */
    int64_t num_workers;           /* 0: samples are made when they are asked for, by the caller's thread */
    int64_t queue_length;          /* samples made ahead, at least 1 */
    int64_t horizon;               /* draws the cache looks ahead: 4096 */
    size_t cache_bytes;            /* records kept in memory; 0 keeps none */
    ff_record_of_draw_fn record_of; /* called under the loader's lock */
    ff_loader_read_fn read;
    ff_loader_process_fn process;
    void *arg; /* of all three */
} ff_loader_options;

typedef struct {
    int64_t samples, failed;       /* given out; of these, with an error */
    double wait_s;                 /* time ff_loader_next waited (with no workers: worked) */
    double longest_wait_s;
    double since_first_s;          /* from the end of the first ff_loader_next to the end of the latest */
    double first_wait_s;           /* what the first sample took; not in wait_s */
    double read_s, process_s;      /* spent by all workers together */
    ff_record_cache_stats cache;
} ff_loader_stats;

typedef struct ff_loader ff_loader;

/** Starts the workers. @return FF_ERR_ARG: an option out of range; FF_ERR_MEM. */
ff_status ff_loader_create(ff_ctx *ctx, ff_loader **loader, const ff_loader_options *options);

/**
 * The next sample, waiting for it when it is not ready.
 *
 * @param batch  out  the caller's from here on; an empty set on failure and at the end
 * @param draw   out  which one; number -1 after the last
 * @return what `read` or `process` returned for this draw, with its message; the next call goes on with the next draw.
 *
 * One thread calls it.
 */
ff_status ff_loader_next(ff_ctx *ctx, ff_loader *loader, ff_array_set *batch, ff_loader_draw *draw);

ff_loader_stats ff_loader_get_stats(ff_loader *loader);

/** Stops the workers after what they are at; NULL is fine. */
void ff_loader_destroy(ff_loader *loader);

#ifdef __cplusplus
}
#endif
#endif
