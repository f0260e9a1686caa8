/* torch_file.h - tensors in files that torch.save writes (version 1.6 and newer): a zip archive with a pickle that
 * names and lays out tensors, and one member of raw numbers for each storage.
 *
 * The pickle is read as data (io/pickle.h): nothing is run, and any global besides the few that make tensors is
 * refused. Dictionaries inside dictionaries are walked; a tensor's path is its keys joined by "/", so that of a plain
 * state_dict it is the parameter's name. Lists, numbers and texts are passed over. */
#ifndef FF_IO_TORCH_FILE_H
#define FF_IO_TORCH_FILE_H

#include "core/context.h"
#include "io/number_formats.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { FF_TORCH_MAX_DIMS = 8 };

typedef struct {
    char *path;
    ff_number_type type;
    int ndim;
    int64_t shape[FF_TORCH_MAX_DIMS], stride[FF_TORCH_MAX_DIMS]; /* in elements */
    int64_t size;                                                /* elements */
    int64_t offset;                                              /* of the first element in its storage, in elements */
    int64_t storage_size;                                        /* elements */
    int64_t member;                                              /* of the archive, with the storage's numbers */
} ff_torch_tensor;

typedef struct ff_torch_file ff_torch_file;

/**
 * Read the pickle; every tensor is checked to lie inside its storage, and the storage to be there.
 * @return FF_ERR_IO: not readable; FF_ERR_FORMAT: no archive of torch, cut short, damaged; FF_ERR_UNSUPPORTED: an
 *         opcode, a global or a type of number that is not taken, named; big-endian files.
 */
ff_status ff_torch_open(ff_ctx *ctx, ff_torch_file **file, const char *path);
void ff_torch_close(ff_torch_file *file); /* NULL is fine */

int64_t ff_torch_count(const ff_torch_file *file);
const ff_torch_tensor *ff_torch_get(const ff_torch_file *file, int64_t i);
/** The tensor's numbers in C order, converted to float32. `size` must be the tensor's. FF_ERR_FORMAT when damaged. */
ff_status ff_torch_read_float(ff_ctx *ctx, ff_torch_file *file, int64_t i, float *data, int64_t size);

#ifdef __cplusplus
}
#endif
#endif
