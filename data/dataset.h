/* dataset.h - a training set in one HDF5 file: many chains with coordinates, and alignments where there are some.
 *
 * File (version 1; attribute fastfold_dataset = 1 of "/"). K records, named FILEID_CHAIN; R residues and M alignment
 * cells of all records, one record behind the other:
 *
 *     /records/name, sequence, source, release_date, method, cluster   text    [K]       "" where unknown
 *     /records/num_res, num_observed, num_msa                          int32   [K]       num_msa 0 = no alignment
 *     /records/residue_offset, msa_offset                              int64   [K]       first row below
 *     /records/resolution, max_aa_fraction                             float32 [K]       Å, 0 = unknown; share of the
 *                                                                                        commonest residue
 *     /records/resolution_assumed, is_distillation                     int8    [K]       0 or 1
 *     /residues/aatype                                                 int8    [R]       0..20
 *     /residues/residue_index                                          int32   [R]       from 0, gaps for lacking ones
 *     /residues/all_atom_positions                                     float32 [R,37,3]  Å, 0 where masked
 *     /residues/all_atom_mask                                          int8    [R,37]
 *     /msa/msa                                                         int8    [M]       HHblits codes 0..21
 *     /msa/deletion_matrix                                             int8    [M]       unsigned, 255 = that or more
 *
 * A record's alignment stands residue by residue (all rows of residue 0, of residue 1, ...), so that a crop is one
 * stretch. Long arrays are chunked (about 64 KB), shuffled and deflated. The file appears whole or not at all. */
#ifndef FF_DATA_DATASET_H
#define FF_DATA_DATASET_H

#include "io/arrays.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { FF_DATASET_VERSION = 1 };

/* What is known of a record without reading its arrays. Texts are never NULL. */
typedef struct {
    const char *name, *sequence, *source, *release_date, *method, *cluster;
    int64_t num_res, num_observed;
    int64_t num_msa;       /* rows; 0 = no alignment: the chain stands alone */
    float resolution;      /* Å, 0 = unknown */
    float max_aa_fraction; /* share of the commonest residue, 0..1 */
    bool resolution_assumed, is_distillation;
} ff_dataset_record;

/* The arrays of a record. */
typedef struct {
    const int32_t *aatype;           /* [num_res] */
    const int32_t *residue_index;    /* [num_res] */
    const float *all_atom_positions; /* [num_res, 37, 3] */
    const float *all_atom_mask;      /* [num_res, 37] */
    const int32_t *msa;              /* [num_msa, num_res] HHblits codes; NULL when num_msa is 0 */
    const int32_t *deletion_matrix;  /* [num_msa, num_res] */
} ff_dataset_arrays;

/* ---- reading: any number of threads ---- */

typedef struct ff_dataset ff_dataset;

/**
 * Open a data set; only what is in /records is read.
 * @return FF_ERR_IO; FF_ERR_FORMAT: not HDF5, truncated, another kind of HDF5 file, a version this program does not
 *         know, records that do not fit the arrays.
 */
ff_status ff_dataset_open(ff_ctx *ctx, ff_dataset **dataset, const char *path);
void ff_dataset_close(ff_dataset *dataset); /* NULL is fine */

int64_t ff_dataset_count(const ff_dataset *dataset);
/** Record k, lent until the data set is closed. */
const ff_dataset_record *ff_dataset_get(const ff_dataset *dataset, int64_t k);
/** The record of that name: as it is, else in any case; -1 = none. */
int64_t ff_dataset_find(const ff_dataset *dataset, const char *name);

/**
 * Read residues [first, first + count) of record k as raw features (count -1 = to its end): aatype [N], residue_index
 * [N], between_segment_residues [N], seq_length, num_alignments [N], msa [S,N] int8, deletion_matrix_int [S,N] int8
 * (unsigned), all_atom_positions [N,37,3], all_atom_mask [N,37], resolution, is_distillation. A record without
 * alignment has the sequence as its only row. Only the chunks that hold these residues are read.
 *
 * @return FF_ERR_ARG: no such record or residues; FF_ERR_FORMAT: damaged (the message names file and record).
 */
ff_status ff_dataset_read(ff_ctx *ctx, ff_dataset *dataset, int64_t k, int64_t first, int64_t count,
                          ff_array_set *features);

/* ---- what training draws ---- */

typedef struct {
    double max_resolution;    /* Å; 9. A record of unknown resolution passes */
    double max_aa_fraction;   /* 0.8 */
    int64_t min_res, max_res; /* 0 = no limit */
    const char
        *max_release_date; /* "YYYY-MM-DD", later ones are left out; records without a date too; NULL = no limit */
    bool cluster_weights;  /* 1 / records of the same cluster that pass */
    bool length_weights;   /* AlphaFold's max(min(num_res, 512), 256) / 512 */
} ff_dataset_filter;

typedef struct {
    int64_t passed;
    int64_t by_resolution, by_composition, by_length, by_date; /* left out; a record is counted once, in this order */
    int64_t clusters; /* among those that passed; one without a cluster is its own */
} ff_dataset_filter_counts;

/** AlphaFold's: 9 Å, 80 %, both weights, no limit on length or date. */
ff_dataset_filter ff_dataset_filter_default(void);

/**
 * The weight of each record for ff_sampler_create_weighted; 0 = left out.
 * @param weights  [count]  out
 * @return FF_ERR_ARG when nothing passes; the message says what left out how many.
 */
ff_status ff_dataset_weights(ff_ctx *ctx, const ff_dataset *dataset, const ff_dataset_filter *filter, double *weights,
                             ff_dataset_filter_counts *counts);

/* ---- writing ---- */

typedef struct ff_dataset_writer ff_dataset_writer;

/** Begin a new file, or (append) a copy of the one at `path` to be extended. Nothing appears at `path` before the
 * commit. */
ff_status ff_dataset_create(ff_ctx *ctx, ff_dataset_writer **writer, const char *path, bool append);
/** Add a record. FF_ERR_ARG: its name is there already, or a value is out of range (nothing is then added). */
ff_status ff_dataset_add(ff_ctx *ctx, ff_dataset_writer *writer, const ff_dataset_record *record,
                         const ff_dataset_arrays *arrays);
/** Add a record of another data set, under its name. */
ff_status ff_dataset_add_from(ff_ctx *ctx, ff_dataset_writer *writer, ff_dataset *from, int64_t k);
/** Records so far, with those that were there. */
int64_t ff_dataset_written(const ff_dataset_writer *writer);
/** Whether writing has failed (disk full, ...): nothing can be added any more. */
bool ff_dataset_failed(const ff_dataset_writer *writer);
/** Finish the file; the writer is gone afterwards, also on failure. */
ff_status ff_dataset_commit(ff_ctx *ctx, ff_dataset_writer *writer);
void ff_dataset_abandon(ff_dataset_writer *writer); /* NULL is fine */

/** Share of the commonest of aatype; X counts as one. */
float ff_dataset_max_aa_fraction(const int32_t *aatype, int64_t num_res);

#ifdef __cplusplus
}
#endif
#endif
