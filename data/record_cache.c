#include "data/record_cache.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    ff_record_state state;
    bool kept;     /* counts in the bytes; else it goes when nothing uses it */
    bool unusable; /* reading ahead failed: left to the draw, which reports it */
    int32_t users; /* draws begun and not released */
    int64_t drawn; /* draws seen of it, begun or in sight */
    int64_t first, last; /* of its draws in sight, not begun; -1 = none */
    int64_t index; /* among those there, or -1 */
    size_t bytes;  /* known once it was read, else 0 */
    ff_array_set arrays;
} record;

struct ff_record_cache {
    ff_record_cache_options o;
    record *records;    /* [num_records] */
    int64_t *drawn;     /* [horizon] the record of draw k at k % horizon */
    int64_t *same;      /* [horizon] the next draw of the same record in sight, or -1 */
    int64_t begun, seen; /* draws before `begun` have begun, draws before `seen` are in sight */
    int64_t *there;     /* [num_there] records that are kept */
    int64_t num_there, num_read;
    size_t bytes_read; /* of num_read different records, for a guess at the size of others */
    ff_record_cache_stats stats;
};

/* ---- draws in sight ---- */

static void look_ahead(ff_record_cache *c)
{
    while (c->seen < c->o.end_draw && c->seen < c->begun + c->o.horizon) {
        const int64_t draw = c->seen++, r = c->o.record_of(c->o.arg, draw);
        assert(r >= 0 && r < c->o.num_records);
        record *rec = &c->records[r];
        c->drawn[draw % c->o.horizon] = r;
        c->same[draw % c->o.horizon] = -1;
        if (rec->first < 0)
            rec->first = draw;
        else
            c->same[rec->last % c->o.horizon] = draw;
        rec->last = draw;
        rec->drawn++;
    }
}

int64_t ff_record_cache_next_draw(const ff_record_cache *c, int64_t r)
{
    return c->records[r].first < 0 ? INT64_MAX : c->records[r].first;
}

int64_t ff_record_cache_begin_draw(ff_record_cache *c, int64_t *r)
{
    if (c->begun >= c->o.end_draw)
        return -1;
    const int64_t draw = c->begun;
    *r = c->drawn[draw % c->o.horizon];
    record *rec = &c->records[*r];
    assert(rec->first == draw);
    rec->first = c->same[draw % c->o.horizon];
    rec->users++;
    if (rec->state == FF_RECORD_ABSENT)
        c->stats.misses++;
    else
        c->stats.hits++;
    c->begun++;
    look_ahead(c);
    return draw;
}

/* ---- records ---- */

ff_record_state ff_record_cache_state(const ff_record_cache *c, int64_t r) { return c->records[r].state; }

const ff_array_set *ff_record_cache_get(const ff_record_cache *c, int64_t r)
{
    assert(c->records[r].state == FF_RECORD_READY && c->records[r].users > 0);
    return &c->records[r].arrays;
}

static size_t array_bytes(const ff_array *a)
{
    size_t bytes = (size_t)a->size * ff_array_type_bytes(a->type) + sizeof *a;
    for (int64_t i = 0; a->type == FF_ARRAY_TEXT && i < a->size; i++)
        bytes += a->text[i] == NULL ? 0 : strlen(a->text[i]) + 1;
    return bytes;
}

static void forget(ff_record_cache *c, int64_t r)
{
    record *rec = &c->records[r];
    ff_array_set_destroy(&rec->arrays);
    rec->state = FF_RECORD_ABSENT;
    if (!rec->kept)
        return;
    rec->kept = false;
    c->stats.bytes -= rec->bytes;
    c->there[rec->index] = c->there[--c->num_there];
    c->records[c->there[rec->index]].index = rec->index;
    rec->index = -1;
}

/* Whether a should stay rather than b. */
static bool worth_more(const ff_record_cache *c, int64_t a, int64_t b)
{
    const int64_t next_a = ff_record_cache_next_draw(c, a), next_b = ff_record_cache_next_draw(c, b);
    if (next_a != next_b)
        return next_a < next_b;
    return c->records[a].drawn != c->records[b].drawn ? c->records[a].drawn > c->records[b].drawn : a < b;
}

/* The kept record that is worth least and not in use, or -1. */
static int64_t least_worth(const ff_record_cache *c)
{
    int64_t least = -1;
    for (int64_t i = 0; i < c->num_there; i++) {
        const int64_t r = c->there[i];
        if (c->records[r].users == 0 && (least < 0 || worth_more(c, least, r)))
            least = r;
    }
    return least;
}

/* Bytes that keeping record r could push out: of records not in use and worth less, summed up to `enough`. */
static bool room_for(const ff_record_cache *c, int64_t r, size_t bytes)
{
    size_t room = c->o.max_bytes - c->stats.bytes;
    for (int64_t i = 0; i < c->num_there && room < bytes; i++)
        if (c->records[c->there[i]].users == 0 && worth_more(c, r, c->there[i]))
            room += c->records[c->there[i]].bytes;
    return room >= bytes;
}

/* Keep a record that was read, if that pushes out none that is worth more. */
static void keep(ff_record_cache *c, int64_t r)
{
    record *rec = &c->records[r];
    if (!room_for(c, r, rec->bytes)) {
        c->stats.not_kept++;
        return;
    }
    while (c->stats.bytes + rec->bytes > c->o.max_bytes) {
        forget(c, least_worth(c));
        c->stats.evictions++;
    }
    rec->kept = true;
    rec->index = c->num_there;
    c->there[c->num_there++] = r;
    c->stats.bytes += rec->bytes;
    if (c->stats.bytes > c->stats.most_bytes)
        c->stats.most_bytes = c->stats.bytes;
}

void ff_record_cache_begin_read(ff_record_cache *c, int64_t r)
{
    assert(c->records[r].state == FF_RECORD_ABSENT);
    c->records[r].state = FF_RECORD_READING;
}

void ff_record_cache_end_read(ff_record_cache *c, int64_t r, ff_array_set *arrays)
{
    record *rec = &c->records[r];
    assert(rec->state == FF_RECORD_READING);
    if (arrays == NULL) {
        rec->state = FF_RECORD_ABSENT;
        rec->unusable = true;
        return;
    }
    rec->arrays = *arrays;
    ff_array_set_init(arrays);
    size_t bytes = 0;
    for (int64_t i = 0; i < rec->arrays.count; i++)
        bytes += array_bytes(rec->arrays.items[i]);
    if (rec->bytes == 0) {
        c->num_read++;
        c->bytes_read += bytes;
    }
    rec->bytes = bytes;
    rec->state = FF_RECORD_READY;
    c->stats.reads++;
    keep(c, r);
    if (!rec->kept && rec->users == 0)
        forget(c, r);
}

void ff_record_cache_release(ff_record_cache *c, int64_t r)
{
    record *rec = &c->records[r];
    assert(rec->users > 0);
    rec->users--;
    if (rec->users == 0 && rec->state == FF_RECORD_READY && !rec->kept)
        forget(c, r);
}

int64_t ff_record_cache_to_prefetch(ff_record_cache *c)
{
    for (int64_t draw = c->begun; draw < c->seen; draw++) {
        const int64_t r = c->drawn[draw % c->o.horizon];
        const record *rec = &c->records[r];
        if (rec->state != FF_RECORD_ABSENT || rec->unusable)
            continue;
        const size_t guess = rec->bytes > 0 ? rec->bytes : c->num_read > 0 ? c->bytes_read / (size_t)c->num_read : 1;
        return room_for(c, r, guess) ? r : -1; /* what comes later is worth less */
    }
    return -1;
}

ff_record_cache_stats ff_record_cache_get_stats(const ff_record_cache *c) { return c->stats; }

/* ---- the cache ---- */

static ff_status check_options(ff_ctx *ctx, const ff_record_cache_options *o)
{
    if (o->num_records < 1 || o->first_draw < 0 || o->horizon < 1 || o->record_of == NULL)
        return FF_FAIL(ctx, FF_ERR_ARG, "a cache of %lld records from draw %lld, looking %lld ahead: wanted at least 1, 0, 1",
                       (long long)o->num_records, (long long)o->first_draw, (long long)o->horizon);
    return FF_OK;
}

ff_status ff_record_cache_create(ff_ctx *ctx, ff_record_cache **cache, const ff_record_cache_options *options)
{
    FF_TRY(check_options(ctx, options));
    ff_record_cache *c = calloc(1, sizeof *c);
    if (c == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory for a cache of records");
    c->o = *options;
    const int64_t draws = options->end_draw - options->first_draw;
    if (c->o.horizon > draws)
        c->o.horizon = draws > 0 ? draws : 1;
    c->records = calloc((size_t)c->o.num_records, sizeof *c->records);
    c->there = calloc((size_t)c->o.num_records, sizeof *c->there);
    c->drawn = calloc((size_t)c->o.horizon, sizeof *c->drawn);
    c->same = calloc((size_t)c->o.horizon, sizeof *c->same);
    if (c->records == NULL || c->there == NULL || c->drawn == NULL || c->same == NULL) {
        ff_record_cache_destroy(c);
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory for a cache of %lld records", (long long)options->num_records);
    }
    for (int64_t r = 0; r < c->o.num_records; r++) {
        c->records[r].first = c->records[r].last = c->records[r].index = -1;
        ff_array_set_init(&c->records[r].arrays);
    }
    c->begun = c->seen = c->o.first_draw;
    look_ahead(c);
    *cache = c;
    return FF_OK;
}

void ff_record_cache_destroy(ff_record_cache *c)
{
    if (c == NULL)
        return;
    for (int64_t r = 0; c->records != NULL && r < c->o.num_records; r++)
        ff_array_set_destroy(&c->records[r].arrays);
    free(c->records);
    free(c->there);
    free(c->drawn);
    free(c->same);
    free(c);
}
