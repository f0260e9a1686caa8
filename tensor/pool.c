#include "tensor/pool.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* A freed block waits in a list sorted by size, and a request takes a waiting block of exactly its rounded size: a step
 * asks for the same few sizes each time. What waits is bounded, since the sizes of one moment are not those of another and chains
 * differ in length: before the pool holds more than 1 + 1 / SLACK_PART times the most that was ever in use at once, a large
 * request takes over the pages of a waiting large block of about its size (only the difference is new to the system), and blocks
 * that have waited longest are given back. */

enum { ALIGNMENT = 64, PAGE = 4096, HUGE_FROM = 4 << 20, SLACK_PART = 4 };

typedef struct {
    void *memory;
    size_t bytes;
    uint64_t freed; /* count of frees when it was freed */
} cached_block;

struct ff_pool {
    bool dry;
    size_t limit;
    ff_pool_stats stats;
    cached_block *cached; /* ascending by bytes */
    int64_t num_cached, capacity;
    uint64_t num_freed;
    size_t most; /* in use at once, ever */
    char dry_memory[ALIGNMENT]; /* what dry requests point at; never read or written */
};

static size_t rounded(size_t bytes)
{
    const size_t unit = bytes >= HUGE_FROM ? PAGE : ALIGNMENT;
    return bytes == 0 ? ALIGNMENT : (bytes + unit - 1) / unit * unit;
}

static void *system_alloc(size_t bytes)
{
    if (bytes < HUGE_FROM) {
        void *p = NULL;
        return posix_memalign(&p, ALIGNMENT, bytes) == 0 ? p : NULL;
    }
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
#ifdef MADV_HUGEPAGE
    madvise(p, bytes, MADV_HUGEPAGE); /* advice only: failing is fine */
#endif
    return p;
}

static void system_free(void *p, size_t bytes)
{
    if (bytes < HUGE_FROM)
        free(p);
    else
        munmap(p, bytes);
}

ff_status ff_pool_create(ff_ctx *ctx, size_t limit, bool dry)
{
    ff_pool *pool = calloc(1, sizeof *pool);
    if (pool == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory for the activation pool");
    pool->dry = dry;
    pool->limit = limit;
    ctx->pool = pool;
    return FF_OK;
}

void ff_pool_trim(ff_pool *pool)
{
    for (int64_t i = 0; i < pool->num_cached; i++) {
        system_free(pool->cached[i].memory, pool->cached[i].bytes);
        pool->stats.reserved -= pool->cached[i].bytes;
    }
    pool->num_cached = 0;
}

void ff_pool_destroy(ff_ctx *ctx)
{
    ff_pool *pool = ctx->pool;
    if (pool == NULL)
        return;
    assert(pool->stats.in_use == 0);
    ff_pool_trim(pool);
    free(pool->cached);
    free(pool);
    ctx->pool = NULL;
}

/* Index of the first cached block of at least `bytes`. */
static int64_t lower_bound(const ff_pool *pool, size_t bytes)
{
    int64_t lo = 0, hi = pool->num_cached;
    while (lo < hi) {
        const int64_t mid = (lo + hi) / 2;
        if (pool->cached[mid].bytes < bytes)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void remove_cached(ff_pool *pool, int64_t i)
{
    memmove(pool->cached + i, pool->cached + i + 1, (size_t)(pool->num_cached - i - 1) * sizeof *pool->cached);
    pool->num_cached--;
}

static void *take_cached(ff_pool *pool, size_t bytes)
{
    const int64_t i = lower_bound(pool, bytes);
    if (i == pool->num_cached || pool->cached[i].bytes != bytes)
        return NULL;
    void *memory = pool->cached[i].memory;
    remove_cached(pool, i);
    return memory;
}

/* Most that may be held once `bytes` more are in use. */
static size_t most_held(const ff_pool *pool, size_t bytes)
{
    const size_t in_use = pool->stats.in_use + bytes, most = in_use > pool->most ? in_use : pool->most;
    return most + most / SLACK_PART;
}

/* A waiting large block made as long as `bytes`: the one nearest in size; NULL when there is none. */
static void *resize_cached(ff_pool *pool, size_t bytes)
{
    int64_t i = lower_bound(pool, bytes);
    const bool below = i > 0 && pool->cached[i - 1].bytes >= HUGE_FROM;
    if (i == pool->num_cached || (below && bytes - pool->cached[i - 1].bytes < pool->cached[i].bytes - bytes))
        i--;
    if (i < 0 || pool->cached[i].bytes < HUGE_FROM)
        return NULL;
    void *memory = mremap(pool->cached[i].memory, pool->cached[i].bytes, bytes, MREMAP_MAYMOVE);
    if (memory == MAP_FAILED)
        return NULL;
    pool->stats.reserved += bytes - pool->cached[i].bytes;
    remove_cached(pool, i);
    return memory;
}

/* Give back what has waited longest until the pool, with `bytes` more, holds no more than it may. */
static void give_back(ff_pool *pool, size_t bytes, size_t most)
{
    while (pool->num_cached > 0 && pool->stats.reserved + bytes > most) {
        int64_t oldest = 0;
        for (int64_t i = 1; i < pool->num_cached; i++)
            if (pool->cached[i].freed < pool->cached[oldest].freed)
                oldest = i;
        system_free(pool->cached[oldest].memory, pool->cached[oldest].bytes);
        pool->stats.reserved -= pool->cached[oldest].bytes;
        remove_cached(pool, oldest);
    }
}

/* A block that no waiting one is the size of; NULL when the system refuses. */
static void *obtain(ff_pool *pool, size_t bytes)
{
    const size_t most = most_held(pool, bytes);
    void *memory = NULL;
    pool->stats.num_system++;
    if (pool->stats.reserved + bytes > most && bytes >= HUGE_FROM)
        memory = resize_cached(pool, bytes);
    give_back(pool, memory == NULL ? bytes : 0, most);
    if (memory != NULL)
        return memory;
    memory = system_alloc(bytes);
    if (memory == NULL && pool->num_cached > 0) {
        ff_pool_trim(pool);
        memory = system_alloc(bytes);
    }
    pool->stats.reserved += memory == NULL ? 0 : bytes;
    return memory;
}

void *ff_pool_alloc(ff_ctx *ctx, size_t bytes)
{
    ff_pool *pool = ctx->pool;
    bytes = rounded(bytes);
    if (pool->limit != 0 && pool->stats.in_use + bytes > pool->limit) {
        FF_FAIL(ctx, FF_ERR_MEM,
                "needs %.2f GB of activations, over the limit of %.2f GB: raise --max-memory or use a smaller input",
                (double)(pool->stats.in_use + bytes) * 1e-9, (double)pool->limit * 1e-9);
        return NULL;
    }
    void *memory = pool->dry ? pool->dry_memory : take_cached(pool, bytes);
    if (memory == NULL)
        memory = obtain(pool, bytes);
    if (memory == NULL) {
        FF_FAIL(ctx, FF_ERR_MEM, "the system refused %.2f GB (%.2f GB in use): %s", (double)bytes * 1e-9,
                (double)pool->stats.in_use * 1e-9, strerror(errno));
        return NULL;
    }
    pool->stats.in_use += bytes;
    if (pool->stats.in_use > pool->stats.peak)
        pool->stats.peak = pool->stats.in_use;
    if (pool->stats.in_use > pool->most)
        pool->most = pool->stats.in_use;
    return memory;
}

void ff_pool_free(ff_pool *pool, void *block, size_t bytes)
{
    if (block == NULL)
        return;
    bytes = rounded(bytes);
    assert(pool->stats.in_use >= bytes);
    pool->stats.in_use -= bytes;
    if (pool->dry)
        return;
    if (pool->num_cached == pool->capacity) {
        const int64_t capacity = pool->capacity == 0 ? 64 : pool->capacity * 2;
        cached_block *grown = realloc(pool->cached, (size_t)capacity * sizeof *grown);
        if (grown == NULL) { /* cannot remember it: give it back */
            system_free(block, bytes);
            pool->stats.reserved -= bytes;
            return;
        }
        pool->cached = grown;
        pool->capacity = capacity;
    }
    const int64_t i = lower_bound(pool, bytes);
    memmove(pool->cached + i + 1, pool->cached + i, (size_t)(pool->num_cached - i) * sizeof *pool->cached);
    pool->cached[i] = (cached_block){block, bytes, pool->num_freed++};
    pool->num_cached++;
}

ff_pool_stats ff_pool_get_stats(const ff_pool *pool) { return pool->stats; }
void ff_pool_reset_peak(ff_pool *pool) { pool->stats.peak = pool->stats.in_use; }
bool ff_pool_is_dry(const ff_pool *pool) { return pool->dry; }
