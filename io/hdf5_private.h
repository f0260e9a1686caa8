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

#endif
