/* dataset_layout.h - names of the data sets of a data set file and their rows, for dataset.c and dataset_writer.c. */
#ifndef FF_DATA_DATASET_LAYOUT_H
#define FF_DATA_DATASET_LAYOUT_H

#include "data/dataset.h"
#include "io/hdf5_column.h"
#include "structure/residue_constants.h"

#define FF_DATASET_ATTRIBUTE "fastfold_dataset"

/* The long arrays. Chunks of about 64 KB: a short chain costs little to read, and a long one few reads. */
typedef enum {
    FF_COLUMN_AATYPE,
    FF_COLUMN_RESIDUE_INDEX,
    FF_COLUMN_POSITIONS,
    FF_COLUMN_MASK,
    FF_COLUMN_MSA,
    FF_COLUMN_DELETION,
    FF_NUM_COLUMNS
} ff_dataset_column;

typedef struct {
    const char *path;
    ff_hdf5_type type;
    int ndim;
    int64_t shape[2];
    int64_t chunk_rows;
} ff_dataset_column_layout;

extern const ff_dataset_column_layout ff_dataset_columns[FF_NUM_COLUMNS];

/* The arrays of /records but for the two offsets, in the order of ff_array_type below. */
typedef enum {
    FF_FIELD_NAME,
    FF_FIELD_SEQUENCE,
    FF_FIELD_SOURCE,
    FF_FIELD_RELEASE_DATE,
    FF_FIELD_METHOD,
    FF_FIELD_CLUSTER,
    FF_FIELD_NUM_RES,
    FF_FIELD_NUM_OBSERVED,
    FF_FIELD_NUM_MSA,
    FF_FIELD_RESOLUTION,
    FF_FIELD_MAX_AA_FRACTION,
    FF_FIELD_RESOLUTION_ASSUMED,
    FF_FIELD_IS_DISTILLATION,
    FF_NUM_FIELDS
} ff_dataset_field;

typedef struct {
    const char *name;
    ff_array_type type;
} ff_dataset_field_layout;

extern const ff_dataset_field_layout ff_dataset_fields[FF_NUM_FIELDS];

#define FF_DATASET_RECORDS        "/records"
#define FF_DATASET_RESIDUE_OFFSET "/records/residue_offset"
#define FF_DATASET_MSA_OFFSET     "/records/msa_offset"

/* Where record k lies in the long arrays. */
void ff_dataset_offsets(const ff_dataset *dataset, int64_t k, int64_t *residues, int64_t *cells);

/* FF_ERR_FORMAT unless the open file says it is a data set of a version known here. */
ff_status ff_dataset_check_version(ff_ctx *ctx, ff_hdf5_file *file, const char *path);

#endif
