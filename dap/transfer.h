/* transfer.h - inside dap/: what an exchange sends and receives for a collective, packed before and unpacked after.
 *
 * An array is seen as [outer, length, inner] around one axis; a shard is a range of the axis. A transfer packs what is not
 * contiguous and begins an exchange (comm.h); its end unpacks or sums. The blocking form is the two in a row. */
#ifndef FF_DAP_TRANSFER_H
#define FF_DAP_TRANSFER_H

#include "dap/comm.h"

typedef struct {
    int64_t outer, length, inner;
} ff_axis_view;

ff_axis_view ff_view_axis(const ff_tensor *x, int axis);

/** Entries [first, first + n) of the axis of `whole` to an array [outer, n, inner] of their own, and back, `add`ed or in place of
 * what is there. */
void ff_take_range(float *part, const float *whole, const ff_axis_view *v, int64_t first, int64_t n);
void ff_put_range(float *whole, const float *part, const ff_axis_view *v, int64_t first, int64_t n, bool add);

typedef enum { FF_UNPACK_NOTHING, FF_UNPACK_RANGES, FF_UNPACK_SUM } ff_unpack_kind;

typedef struct {
    ff_group group;
    ff_exchange_handle *handle;
    void *packed, *received; /* scratch; NULL where arrays are exchanged in place */
    ff_unpack_kind unpack;
    float *out;
    ff_axis_view view; /* RANGES: of out, whole along its axis */
    const float *own;  /* SUM: this rank's contribution to its own part, of `size` floats */
    int64_t size;
    bool add;    /* into out */
    bool narrow; /* bfloat16 on the wire */
} ff_transfer;

typedef struct {
    const char *name;
    bool backward;
    double bytes_moved; /* arrays read and written once */
    bool narrow;        /* may travel as bfloat16 */
} ff_transfer_record;

/** Whether floats of a forward exchange travel as bfloat16 now: asked for, on a bfloat16 table (not in the structure module), and in
 * an array of as many channels as its layers need for bfloat16 (kernels.h: FF_NARROW_CHANNELS). */
bool ff_transfer_narrow(const ff_ctx *ctx, int64_t channels);

/** out (whole along view's axis) = or += the ranks' shards. */
void ff_transfer_gather(ff_ctx *ctx, ff_transfer *t, ff_group_kind kind, float *out, const float *local, const ff_axis_view *view,
                        bool add, const ff_transfer_record *record);
/** local = or += sum over ranks of this rank's shard of their `whole`. */
void ff_transfer_reduce(ff_ctx *ctx, ff_transfer *t, ff_group_kind kind, float *local, const float *whole, const ff_axis_view *view,
                        bool add, const ff_transfer_record *record);
/** out: whole along `from`, a shard along `to`; in: a shard along `from`, whole along `to`. */
void ff_transfer_all_to_all(ff_ctx *ctx, ff_transfer *t, ff_tensor *out, const ff_tensor *in, int from, int to, bool add,
                            const ff_transfer_record *record);
/** Wait and unpack; also after a failure. A failure stays in ctx. */
void ff_transfer_end(ff_ctx *ctx, ff_transfer *t);

#endif
