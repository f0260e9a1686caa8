/* pool.h - activation memory: blocks are reused, so that a warm training step calls malloc nowhere.
 *
 * Blocks are 64-byte aligned, large ones on huge pages. In dry mode (plan) nothing is allocated: the same requests are
 * counted, so that predicted and measured peaks come from the same code. */
#ifndef FF_TENSOR_POOL_H
#define FF_TENSOR_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ff_pool ff_pool;

typedef struct {
    size_t in_use;       /* bytes handed out now */
    size_t peak;         /* high-water mark of in_use since the last ff_pool_reset_peak */
    size_t reserved;     /* bytes obtained from the system, in use or cached: at most 5/4 of the most ever in use */
    uint64_t num_system; /* requests that had to go to the system */
} ff_pool_stats;

/** A pool that fails with FF_ERR_MEM above `limit` bytes in use (0 = none). Installs itself as ctx->pool. */
ff_status ff_pool_create(ff_ctx *ctx, size_t limit, bool dry);
/** Free everything and clear ctx->pool; blocks still in use are an error of ours (assert). */
void ff_pool_destroy(ff_ctx *ctx);
/** NULL and FF_ERR_MEM in ctx when over the limit or the system refuses; 0 bytes gives a valid pointer. */
void *ff_pool_alloc(ff_ctx *ctx, size_t bytes);
void ff_pool_free(struct ff_pool *pool, void *block, size_t bytes);
ff_pool_stats ff_pool_get_stats(const ff_pool *pool);
void ff_pool_reset_peak(ff_pool *pool);
bool ff_pool_is_dry(const ff_pool *pool);
/** Give cached blocks back to the system. */
void ff_pool_trim(ff_pool *pool);

#ifdef __cplusplus
}
#endif
#endif
