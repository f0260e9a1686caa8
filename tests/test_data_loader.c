/* The cache that knows its future, and the loader's threads: order, repeats, bounds, failures. */
#include <CUnit/CUnit.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/random.h"
#include "data/loader.h"
#include "tests/check.h"

static ff_ctx ctx;

static void set_up(void)
{
    ff_context_init(&ctx);
    ctx.log.file = NULL;
}

/* ---- the cache ---- */

typedef struct {
    const int64_t *records;
} given_draws;

static int64_t given_record(void *arg, int64_t draw) { return ((given_draws *)arg)->records[draw]; }

/* An array of about that many bytes, numbered. */
static void make_arrays(ff_array_set *set, int64_t record, int64_t numbers)
{
    ff_array_set_init(set);
    ff_array *a = ff_array_add(&ctx, set, "number", FF_ARRAY_INT32, FF_DIMS(numbers));
    CU_ASSERT_PTR_NOT_NULL_FATAL(a);
    for (int64_t i = 0; i < numbers; i++)
        a->i32[i] = (int32_t)record;
}

/* Run all draws one after the other; the records read, in order, go to `reads`. */
static int64_t run_draws(ff_record_cache *cache, int64_t *reads)
{
    int64_t num_reads = 0, record;
    while (ff_record_cache_begin_draw(cache, &record) >= 0) {
        if (ff_record_cache_state(cache, record) == FF_RECORD_ABSENT) {
            ff_array_set arrays;
            make_arrays(&arrays, record, 1000);
            ff_record_cache_begin_read(cache, record);
            ff_record_cache_end_read(cache, record, &arrays);
            reads[num_reads++] = record;
        }
        CU_ASSERT_EQUAL(ff_record_cache_get(cache, record)->items[0]->i32[7], record);
        ff_record_cache_release(cache, record);
    }
    return num_reads;
}

static ff_record_cache *make_cache(given_draws *draws, int64_t num_draws, int64_t num_records, int64_t horizon, size_t bytes)
{
    const ff_record_cache_options o = {num_records, 0, num_draws, horizon, bytes, given_record, draws};
    ff_record_cache *cache = NULL;
    CU_ASSERT_EQUAL_FATAL(ff_record_cache_create(&ctx, &cache, &o), FF_OK);
    return cache;
}

enum { TWO_RECORDS = 9000 }; /* bytes: room for two of 1,000 numbers, not for three */

static void test_the_record_drawn_last_goes_first(void)
{
    static const int64_t order[] = {0, 1, 2, 0, 1, 2, 0, 1, 2};
    given_draws draws = {order};
    int64_t reads[9];
    ff_record_cache *cache = make_cache(&draws, 9, 3, 9, TWO_RECORDS);
    /* The least recently used would be read nine times. Here 2 is not kept at draw 2 (0 and 1 come sooner), nor at 5; at 8 nothing
     * comes any more. */
    const int64_t n = run_draws(cache, reads);
    CU_ASSERT_EQUAL(n, 5);
    const ff_record_cache_stats s = ff_record_cache_get_stats(cache);
    CU_ASSERT_EQUAL(s.misses, n);
    CU_ASSERT_EQUAL(s.hits, 9 - n);
    CU_ASSERT(s.most_bytes <= TWO_RECORDS);
    ff_record_cache_destroy(cache);
}

/* The fewest reads any cache of `room` equal records can do when it may pass records by: tried out over all choices. */
static int fewest_reads(const int64_t *order, int at, int num, unsigned there, int room)
{
    if (at == num)
        return 0;
    const unsigned bit = 1U << order[at];
    if (there & bit)
        return fewest_reads(order, at + 1, num, there, room);
    int best = fewest_reads(order, at + 1, num, there, room); /* not kept */
    if (__builtin_popcount(there) < room)
        best = fewest_reads(order, at + 1, num, there | bit, room);
    else
        for (unsigned rest = there; rest != 0; rest &= rest - 1) {
            const int with = fewest_reads(order, at + 1, num, (there & ~(rest & -rest)) | bit, room);
            best = with < best ? with : best;
        }
    return best + 1;
}

static void test_no_cache_reads_less(void)
{
    enum { DRAWS = 14, RECORDS = 5 };
    for (uint64_t k = 0; k < 60; k++) {
        int64_t order[DRAWS], reads[DRAWS];
        for (uint64_t i = 0; i < DRAWS; i++)
            order[i] = (int64_t)ff_random_below((ff_random_key){k, 8}, i, RECORDS);
        given_draws draws = {order};
        ff_record_cache *cache = make_cache(&draws, DRAWS, RECORDS, DRAWS, TWO_RECORDS);
        CU_ASSERT_EQUAL(run_draws(cache, reads), fewest_reads(order, 0, DRAWS, 0, 2));
        ff_record_cache_destroy(cache);
    }
}

static void test_out_of_sight_the_often_drawn_stays(void)
{
    static const int64_t order[] = {0, 0, 0, 1, 2, 3, 0, 4, 0};
    given_draws draws = {order};
    int64_t reads[9];
    ff_record_cache *cache = make_cache(&draws, 9, 5, 1, TWO_RECORDS);
    const int64_t n = run_draws(cache, reads);
    CU_ASSERT_EQUAL(n, 5); /* each once: record 0 never went */
    ff_record_cache_destroy(cache);
}

static void test_draws_in_sight_are_linked(void)
{
    static const int64_t order[] = {2, 1, 2, 0, 1};
    given_draws draws = {order};
    int64_t record;
    ff_record_cache *cache = make_cache(&draws, 5, 3, 4, 0);
    CU_ASSERT_EQUAL(ff_record_cache_next_draw(cache, 2), 0);
    CU_ASSERT_EQUAL(ff_record_cache_next_draw(cache, 0), 3);
    CU_ASSERT_EQUAL(ff_record_cache_begin_draw(cache, &record), 0);
    CU_ASSERT_EQUAL(record, 2);
    CU_ASSERT_EQUAL(ff_record_cache_next_draw(cache, 2), 2);
    CU_ASSERT_EQUAL(ff_record_cache_begin_draw(cache, &record), 1);
    CU_ASSERT_EQUAL(ff_record_cache_next_draw(cache, 1), 4);
    CU_ASSERT_EQUAL(ff_record_cache_begin_draw(cache, &record), 2);
    CU_ASSERT_EQUAL(ff_record_cache_next_draw(cache, 2), INT64_MAX);
    CU_ASSERT_EQUAL(ff_record_cache_begin_draw(cache, &record), 3);
    CU_ASSERT_EQUAL(ff_record_cache_begin_draw(cache, &record), 4);
    CU_ASSERT_EQUAL(ff_record_cache_begin_draw(cache, &record), -1);
    ff_record_cache_destroy(cache);
}

static void test_reading_ahead_stops_where_the_cache_is_full(void)
{
    static const int64_t order[] = {0, 1, 2, 3, 4};
    given_draws draws = {order};
    ff_record_cache *cache = make_cache(&draws, 5, 5, 5, TWO_RECORDS);
    int64_t read = 0;
    for (int64_t r = ff_record_cache_to_prefetch(cache); r >= 0; r = ff_record_cache_to_prefetch(cache)) {
        ff_array_set arrays;
        CU_ASSERT_EQUAL(r, read);
        make_arrays(&arrays, r, 1000);
        ff_record_cache_begin_read(cache, r);
        ff_record_cache_end_read(cache, r, &arrays);
        read++;
        CU_ASSERT_FATAL(read <= 5);
    }
    CU_ASSERT_EQUAL(read, 2);
    int64_t record;
    CU_ASSERT_EQUAL(ff_record_cache_begin_draw(cache, &record), 0);
    CU_ASSERT_EQUAL(ff_record_cache_to_prefetch(cache), -1); /* record 0 is in use */
    ff_record_cache_release(cache, 0);
    CU_ASSERT_EQUAL(ff_record_cache_to_prefetch(cache), 2); /* now it may go */
    ff_record_cache_begin_read(cache, 2);
    ff_record_cache_end_read(cache, 2, NULL); /* cannot be read */
    CU_ASSERT_EQUAL(ff_record_cache_to_prefetch(cache), 3);
    ff_record_cache_destroy(cache);
}

static void test_a_record_larger_than_the_cache_passes_through(void)
{
    static const int64_t order[] = {0, 0};
    given_draws draws = {order};
    int64_t reads[2];
    ff_record_cache *cache = make_cache(&draws, 2, 1, 2, 100);
    CU_ASSERT_EQUAL(run_draws(cache, reads), 2);
    CU_ASSERT_EQUAL(ff_record_cache_get_stats(cache).most_bytes, 0);
    CU_ASSERT_EQUAL(ff_record_cache_get_stats(cache).not_kept, 2);
    ff_record_cache_destroy(cache);
}

/* ---- the loader ---- */

/* A data set of numbers, whose reading and processing take some time and can fail. */
typedef struct {
    int64_t num_records, bad_record, bad_draw;
    int read_us, process_us;
    pthread_mutex_t lock;
    int64_t reads, reading, most_reading;
} numbers;

static int64_t drawn_record(void *arg, int64_t draw)
{
    return (int64_t)ff_random_below((ff_random_key){77, 3}, (uint64_t)draw, (uint64_t)((numbers *)arg)->num_records);
}

static void pause_us(int us)
{
    const struct timespec t = {0, us * 1000L};
    if (us > 0)
        nanosleep(&t, NULL);
}

static ff_status read_number(ff_ctx *c, void *arg, int64_t record, ff_array_set *arrays)
{
    numbers *n = arg;
    pthread_mutex_lock(&n->lock);
    n->reads++;
    n->reading++;
    n->most_reading = n->reading > n->most_reading ? n->reading : n->most_reading;
    pthread_mutex_unlock(&n->lock);
    pause_us(n->read_us);
    pthread_mutex_lock(&n->lock);
    n->reading--;
    pthread_mutex_unlock(&n->lock);
    if (record == n->bad_record)
        return FF_FAIL(c, FF_ERR_IO, "record %lld cannot be read", (long long)record);
    ff_array *a = ff_array_add(c, arrays, "number", FF_ARRAY_INT32, FF_DIMS(100));
    if (a == NULL)
        return c->status;
    a->i32[99] = (int32_t)record;
    return FF_OK;
}

/* draw * 1000 + record */
static ff_status process_number(ff_ctx *c, void *arg, const ff_loader_draw *draw, const ff_array_set *arrays, ff_array_set *batch)
{
    const numbers *n = arg;
    ff_array *a = ff_array_add(c, batch, "sample", FF_ARRAY_INT32, 0, NULL);
    pause_us(n->process_us + (int)(draw->number % 3) * n->process_us);
    if (draw->number == n->bad_draw)
        return FF_FAIL(c, FF_ERR_FORMAT, "draw %lld is bad", (long long)draw->number);
    if (a == NULL)
        return c->status;
    a->i32[0] = (int32_t)(draw->number * 1000) + ff_array_find(arrays, "number")->i32[99];
    return FF_OK;
}

static ff_loader_options loader_options(numbers *n, int64_t num_records, int64_t end_draw, int64_t num_workers)
{
    *n = (numbers){.num_records = num_records, .bad_record = -1, .bad_draw = -1};
    pthread_mutex_init(&n->lock, NULL);
    return (ff_loader_options){.num_records = num_records, .end_draw = end_draw, .num_workers = num_workers, .queue_length = 4,
                               .horizon = 64, .cache_bytes = 4000, .record_of = drawn_record, .read = read_number,
                               .process = process_number, .arg = n};
}

static ff_loader *start(const ff_loader_options *o)
{
    ff_loader *loader = NULL;
    CU_ASSERT_EQUAL_FATAL(ff_loader_create(&ctx, &loader, o), FF_OK);
    return loader;
}

/* The next sample is that of `draw`. */
static void check_next(ff_loader *loader, numbers *n, int64_t number)
{
    ff_array_set batch;
    ff_loader_draw draw;
    CU_ASSERT_EQUAL(ff_loader_next(&ctx, loader, &batch, &draw), FF_OK);
    CU_ASSERT_EQUAL(draw.number, number);
    CU_ASSERT_EQUAL(draw.record, drawn_record(n, number));
    const ff_array *a = ff_array_find(&batch, "sample");
    CU_ASSERT(a != NULL && a->i32[0] == number * 1000 + drawn_record(n, number));
    ff_array_set_destroy(&batch);
}

static void check_end(ff_loader *loader)
{
    ff_array_set batch;
    ff_loader_draw draw;
    for (int i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL(ff_loader_next(&ctx, loader, &batch, &draw), FF_OK);
        CU_ASSERT_EQUAL(draw.number, -1);
        CU_ASSERT_EQUAL(batch.count, 0);
    }
}

static void test_samples_come_in_order_for_any_number_of_workers(void)
{
    enum { DRAWS = 120 };
    for (int64_t workers = 0; workers <= 5; workers++) {
        numbers n;
        ff_loader_options o = loader_options(&n, 20, DRAWS, workers);
        n.process_us = 30;
        n.read_us = 50;
        ff_loader *loader = start(&o);
        for (int64_t k = 0; k < DRAWS; k++)
            check_next(loader, &n, k);
        check_end(loader);
        const ff_loader_stats s = ff_loader_get_stats(loader);
        CU_ASSERT_EQUAL(s.samples, DRAWS);
        CU_ASSERT_EQUAL(s.cache.hits + s.cache.misses, DRAWS);
        CU_ASSERT_EQUAL(s.cache.reads, n.reads);
        CU_ASSERT(s.cache.most_bytes <= 4000);
        CU_ASSERT(s.cache.hits > 0 && s.process_s > 0);
        ff_loader_destroy(loader);
    }
}

static void test_a_restart_goes_on_with_the_same_samples(void)
{
    numbers n;
    ff_loader_options o = loader_options(&n, 20, 60, 3);
    o.first_draw = 37;
    ff_loader *loader = start(&o);
    for (int64_t k = 37; k < 60; k++)
        check_next(loader, &n, k);
    check_end(loader);
    ff_loader_destroy(loader);
}

static void test_a_failed_sample_is_reported_in_its_turn(void)
{
    for (int64_t workers = 0; workers <= 3; workers += 3) {
        numbers n;
        int64_t failed = 0;
        ff_loader_options o = loader_options(&n, 10, 40, workers);
        n.bad_record = drawn_record(&n, 5);
        n.bad_draw = 11;
        ff_loader *loader = start(&o);
        for (int64_t k = 0; k < 40; k++) {
            const bool bad_record = drawn_record(&n, k) == n.bad_record;
            if (!bad_record && k != 11) {
                check_next(loader, &n, k);
                continue;
            }
            ff_array_set batch;
            ff_loader_draw draw;
            CU_ASSERT_EQUAL(ff_loader_next(&ctx, loader, &batch, &draw), bad_record ? FF_ERR_IO : FF_ERR_FORMAT);
            CU_ASSERT_EQUAL(draw.number, k);
            CU_ASSERT_EQUAL(batch.count, 0);
            CU_ASSERT_PTR_NOT_NULL(strstr(ctx.message, bad_record ? "cannot be read" : "draw 11 is bad"));
            ff_context_clear(&ctx);
            failed++;
        }
        CU_ASSERT_EQUAL(ff_loader_get_stats(loader).failed, failed);
        check_end(loader);
        ff_loader_destroy(loader);
    }
}

/* Until that many were begun, at most ten seconds. */
static void wait_for_reads(numbers *n, int64_t reads)
{
    for (int i = 0; i < 1000; i++) {
        pthread_mutex_lock(&n->lock);
        const bool all = n->reads >= reads;
        pthread_mutex_unlock(&n->lock);
        if (all)
            return;
        pause_us(10000);
    }
}

static void test_no_more_than_the_queue_is_made_ahead(void)
{
    numbers n;
    ff_loader_options o = loader_options(&n, 1000, INT64_MAX, 3);
    o.queue_length = 2;
    o.cache_bytes = 0; /* so that every sample is a read */
    ff_loader *loader = start(&o);
    check_next(loader, &n, 0);
    wait_for_reads(&n, 3);
    pause_us(20000);
    pthread_mutex_lock(&n.lock);
    CU_ASSERT_EQUAL(n.reads, 3);
    pthread_mutex_unlock(&n.lock);
    ff_loader_destroy(loader); /* with samples nobody took */
}

static void test_a_record_that_is_not_kept_goes_with_its_draw(void)
{
    numbers n;
    ff_loader_options o = loader_options(&n, 4, 30, 0);
    o.cache_bytes = 0;
    ff_loader *loader = start(&o);
    for (int64_t k = 0; k < 30; k++)
        check_next(loader, &n, k);
    CU_ASSERT_EQUAL(n.reads, 30);
    CU_ASSERT_EQUAL(ff_loader_get_stats(loader).cache.bytes, 0);
    ff_loader_destroy(loader);
}

static void test_idle_workers_read_what_comes(void)
{
    numbers n;
    ff_loader_options o = loader_options(&n, 8, 500, 2);
    o.queue_length = 1;
    o.cache_bytes = 1 << 20; /* all of it */
    ff_loader *loader = start(&o);
    check_next(loader, &n, 0);
    wait_for_reads(&n, 8);
    for (int64_t k = 1; k < 500; k++)
        check_next(loader, &n, k);
    const ff_loader_stats s = ff_loader_get_stats(loader);
    CU_ASSERT_EQUAL(s.cache.reads, 8); /* each record once */
    CU_ASSERT(s.cache.misses <= 2);
    ff_loader_destroy(loader);
}

static void test_a_slow_consumer_does_not_wait(void)
{
    numbers n;
    ff_loader_options o = loader_options(&n, 8, 60, 3);
    n.process_us = 1000; /* 2 ms on average: half the time, were nothing made ahead */
    ff_loader *loader = start(&o);
    for (int64_t k = 0; k < 60; k++) {
        check_next(loader, &n, k);
        pause_us(2000);
    }
    const ff_loader_stats s = ff_loader_get_stats(loader);
    CU_ASSERT(s.since_first_s >= 59 * 0.002);
    CU_ASSERT(s.wait_s < 0.3 * s.since_first_s); /* room for a machine that others use too */
    ff_loader_destroy(loader);
}

static void test_waiting_is_counted(void)
{
    numbers n;
    ff_loader_options o = loader_options(&n, 8, 5, 1);
    n.process_us = 3000;
    ff_loader *loader = start(&o);
    for (int64_t k = 0; k < 5; k++)
        check_next(loader, &n, k);
    const ff_loader_stats s = ff_loader_get_stats(loader);
    CU_ASSERT(s.wait_s >= 4 * 0.003 * 0.9);
    CU_ASSERT(s.longest_wait_s >= 0.003 * 0.9 && s.longest_wait_s <= s.wait_s);
    CU_ASSERT(s.first_wait_s >= 0.003 * 0.9);
    ff_loader_destroy(loader);
}

static void test_wrong_options_are_refused(void)
{
    numbers n;
    ff_loader *loader = NULL;
    ff_loader_options o = loader_options(&n, 0, 5, 1);
    CU_ASSERT_EQUAL(ff_loader_create(&ctx, &loader, &o), FF_ERR_ARG);
    ff_context_clear(&ctx);
    o = loader_options(&n, 4, 5, 1);
    o.queue_length = 0;
    CU_ASSERT_EQUAL(ff_loader_create(&ctx, &loader, &o), FF_ERR_ARG);
    CU_ASSERT_PTR_NOT_NULL(strstr(ctx.message, "0 samples ahead"));
    ff_context_clear(&ctx);
    CU_ASSERT_PTR_NULL(loader);
    o = loader_options(&n, 4, 0, 2); /* nothing to do is fine */
    loader = start(&o);
    check_end(loader);
    ff_loader_destroy(loader);
}

static CU_TestInfo tests[] = {
    {"the_record_drawn_last_goes_first", test_the_record_drawn_last_goes_first},
    {"no_cache_reads_less", test_no_cache_reads_less},
    {"out_of_sight_the_often_drawn_stays", test_out_of_sight_the_often_drawn_stays},
    {"draws_in_sight_are_linked", test_draws_in_sight_are_linked},
    {"reading_ahead_stops_where_the_cache_is_full", test_reading_ahead_stops_where_the_cache_is_full},
    {"a_record_larger_than_the_cache_passes_through", test_a_record_larger_than_the_cache_passes_through},
    {"samples_come_in_order_for_any_number_of_workers", test_samples_come_in_order_for_any_number_of_workers},
    {"a_restart_goes_on_with_the_same_samples", test_a_restart_goes_on_with_the_same_samples},
    {"a_failed_sample_is_reported_in_its_turn", test_a_failed_sample_is_reported_in_its_turn},
    {"no_more_than_the_queue_is_made_ahead", test_no_more_than_the_queue_is_made_ahead},
    {"a_record_that_is_not_kept_goes_with_its_draw", test_a_record_that_is_not_kept_goes_with_its_draw},
    {"idle_workers_read_what_comes", test_idle_workers_read_what_comes},
    {"a_slow_consumer_does_not_wait", test_a_slow_consumer_does_not_wait},
    {"waiting_is_counted", test_waiting_is_counted},
    {"wrong_options_are_refused", test_wrong_options_are_refused},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_data_loader = {"data/loader", NULL, NULL, set_up, NULL, tests};
