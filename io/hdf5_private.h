/* hdf5_private.h - what the sources over the HDF5 library share; for io/hdf5_*.c only. */
#ifndef FF_IO_HDF5_PRIVATE_H
#define FF_IO_HDF5_PRIVATE_H

#define H5_USE_110_API /* newer libraries offer the same calls */
#include <hdf5.h>

#include "io/hdf5_file.h"
#include "io/safe_file.h"

struct ff_hdf5_file {
    hid_t id;
    char *path;
};

struct ff_hdf5_writer {
    hid_t id;
    ff_safe_file safe;
};

/* Before anything else is asked of the library: no error printing of its own (a setting by thread), and no clean-up
 * at exit, which crashes over a file that could not be closed because the disk was full. */
static inline void ff_hdf5_prepare(void)
{
    H5dont_atexit();
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
}

#endif
