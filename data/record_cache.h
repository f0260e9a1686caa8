/* record_cache.h - which records of a data set stay in memory, when it is known which will be drawn.
 *
 * Which record draw k reads is a pure function of k, so the cache looks some thousand draws ahead: of the records that are there,
 * the one whose next draw is farthest away has to go first (Belady's rule, which no other beats); among those not drawn within
 * sight, the one drawn least often. A record that would push out others needed sooner is handed to its draw and not kept.
 *
 * Nothing here locks or waits: the loader calls it under its own lock. */
#ifndef FF_DATA_RECORD_CACHE_H
#define FF_DATA_RECORD_CACHE_H

#include "io/arrays.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ff_record_cache ff_record_cache;

/** The record that draw `draw` reads; pure and cheap. */
typedef int64_t (*ff_record_of_draw_fn)(void *arg, int64_t draw);

typedef struct {
    int64_t num_records;
    int64_t first_draw, end_draw; /* draws [first, end) */
    int64_t horizon;              /* how many draws ahead it looks; at least 1 */
    size_t max_bytes;             /* of the records that are kept; those in use may come on top */
    ff_record_of_draw_fn record_of;
    void *arg;
} ff_record_cache_options;

typedef enum { FF_RECORD_ABSENT, FF_RECORD_READING, FF_RECORD_READY } ff_record_state;

typedef struct {
    int64_t hits, misses; /* draws that found their record there or under way, draws that did not */
    int64_t reads, evictions, not_kept;
    size_t bytes, most_bytes; /* kept now; the most ever kept */
} ff_record_cache_stats;

/** FF_ERR_ARG: an option out of range. record_of must give records in 0..num_records-1. */
ff_status ff_record_cache_create(ff_ctx *ctx, ff_record_cache **cache, const ff_record_cache_options *options);
void ff_record_cache_destroy(ff_record_cache *cache); /* NULL is fine; nothing may be in use */

/** The next draw in order, or -1 at the end; its record is then in use until ff_record_cache_release. */
int64_t ff_record_cache_begin_draw(ff_record_cache *cache, int64_t *record);
/** Whether a record is there. */
ff_record_state ff_record_cache_state(const ff_record_cache *cache, int64_t record);
/** The arrays of a record that is there and in use. */
const ff_array_set *ff_record_cache_get(const ff_record_cache *cache, int64_t record);
/** An absent record is about to be read. */
void ff_record_cache_begin_read(ff_record_cache *cache, int64_t record);
/** It has been read: takes over the arrays. With `arrays` NULL the reading failed, and the record is absent again. */
void ff_record_cache_end_read(ff_record_cache *cache, int64_t record, ff_array_set *arrays);
/** A draw is done with its record. */
void ff_record_cache_release(ff_record_cache *cache, int64_t record);
/** An absent record that is worth reading before its draw begins, the soonest drawn first; -1 when there is none. */
int64_t ff_record_cache_to_prefetch(ff_record_cache *cache);
/** The draw that reads a record next, of those in sight and not begun; INT64_MAX when there is none. */
int64_t ff_record_cache_next_draw(const ff_record_cache *cache, int64_t record);
ff_record_cache_stats ff_record_cache_get_stats(const ff_record_cache *cache);

#ifdef __cplusplus
}
#endif
#endif
