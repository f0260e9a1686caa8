/* write_mmcif_absent.c - stands for write_mmcif.cpp where gemmi's headers were not found. */
#include "infer/write_structure.h"

#ifndef FF_HAVE_GEMMI
ff_status ff_prediction_write_mmcif(ff_ctx *ctx, const ff_prediction *prediction, const char *path,
                                    ff_b_column b_column)
{
    (void)prediction;
    (void)b_column;
    return FF_FAIL(
        ctx, FF_ERR_UNSUPPORTED,
        "%s: this program was built without gemmi: `make deps` installs it, then build again; or ask for PDB only",
        path);
}
#endif
