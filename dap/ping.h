/* ping.h - how fast the links between processes are, measured with the exchange that all collectives are made of. */
#ifndef FF_DAP_PING_H
#define FF_DAP_PING_H

#include "dap/dap.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Every process sends `bytes` to each other one and receives as much, `repeat` times.
 *
 * @param seconds  out  the least of one exchange, as this process saw it (others' work only adds); 0 with one process
 */
ff_status ff_dap_ping(ff_ctx *ctx, size_t bytes, int repeat, double *seconds);

#ifdef __cplusplus
}
#endif
#endif
