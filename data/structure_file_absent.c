/* structure_file_absent.c - structure_file.h when gemmi is not there: every reader says so. */
#include "data/structure_file.h"

#ifndef FF_HAVE_GEMMI

static ff_status not_built(ff_ctx *ctx, const char *name)
{
    return FF_FAIL(
        ctx, FF_ERR_UNSUPPORTED,
        "%s: this program was built without gemmi, which reads structures: `make deps` installs it (Debian: "
        "gemmi-dev), then build again",
        name);
}

ff_status ff_structure_read_bytes(ff_ctx *ctx, ff_structure *structure, const char *data, size_t size,
                                  const char *name, const ff_structure_options *options)
{
    (void)data, (void)size, (void)options;
    *structure = (ff_structure){.num_chains = 0};
    return not_built(ctx, name);
}

ff_status ff_structure_read_protein_bytes(ff_ctx *ctx, ff_protein *protein, const char *data, size_t size,
                                          const char *name, const ff_structure_options *options)
{
    (void)data, (void)size, (void)options;
    *protein = (ff_protein){.num_res = 0};
    return not_built(ctx, name);
}

#endif
