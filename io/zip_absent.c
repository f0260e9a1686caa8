/* zip_absent.c - zip_file.h when the library is not there: every call says so. */
#include "io/zip_file.h"

#if !defined(FF_HAVE_ZIP) || !defined(FF_HAVE_ZLIB)

static ff_status not_built(ff_ctx *ctx)
{
    return FF_FAIL(ctx, FF_ERR_UNSUPPORTED,
                   "this program was built without libzip: `make deps` installs it, then build again");
}

#pragma GCC diagnostic ignored "-Wunused-parameter"

ff_status ff_zip_open(ff_ctx *ctx, ff_zip **zip, const char *path, const char *kind)
{
    *zip = NULL;
    return not_built(ctx);
}
void ff_zip_close(ff_zip *zip) {}
const char *ff_zip_path(const ff_zip *zip) { return ""; }
int64_t ff_zip_count(const ff_zip *zip) { return 0; }
const char *ff_zip_name(const ff_zip *zip, int64_t i) { return ""; }
int64_t ff_zip_size(const ff_zip *zip, int64_t i) { return 0; }
int64_t ff_zip_find(const ff_zip *zip, const char *name) { return -1; }
ff_status ff_zip_begin(ff_ctx *ctx, ff_zip *zip, int64_t i, ff_zip_member **member) { return not_built(ctx); }
ff_status ff_zip_read(ff_ctx *ctx, ff_zip_member *member, void *data, size_t bytes) { return not_built(ctx); }
ff_status ff_zip_end(ff_ctx *ctx, ff_zip_member *member) { return not_built(ctx); }
void ff_zip_drop(ff_zip_member *member) {}

ff_status ff_zip_create(ff_ctx *ctx, ff_zip_writer **writer, const char *path)
{
    *writer = NULL;
    return not_built(ctx);
}
ff_status ff_zip_add(ff_ctx *ctx, ff_zip_writer *writer, const char *name, const void *head, size_t head_bytes, const void *data, size_t data_bytes) { return not_built(ctx); }
ff_status ff_zip_commit(ff_ctx *ctx, ff_zip_writer *writer) { return not_built(ctx); }
void ff_zip_abandon(ff_zip_writer *writer) {}

#endif
