/* dataset.c - reading a training set, and which of its records training may draw. */
#include "data/dataset.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "data/dataset_layout.h"

const ff_dataset_column_layout ff_dataset_columns[FF_NUM_COLUMNS] = {
    {"/residues/aatype", FF_HDF5_INT8, 0, {0}, 16384},
    {"/residues/residue_index", FF_HDF5_INT32, 0, {0}, 8192},
    {"/residues/all_atom_positions", FF_HDF5_FLOAT32, 2, {FF_NUM_ATOM37, 3}, 128},
    {"/residues/all_atom_mask", FF_HDF5_INT8, 1, {FF_NUM_ATOM37}, 1024},
    {"/msa/msa", FF_HDF5_INT8, 0, {0}, 65536},
    {"/msa/deletion_matrix", FF_HDF5_INT8, 0, {0}, 65536},
};

const ff_dataset_field_layout ff_dataset_fields[FF_NUM_FIELDS] = {
    {"name", FF_ARRAY_TEXT},
    {"sequence", FF_ARRAY_TEXT},
    {"source", FF_ARRAY_TEXT},
    {"release_date", FF_ARRAY_TEXT},
    {"method", FF_ARRAY_TEXT},
    {"cluster", FF_ARRAY_TEXT},
    {"num_res", FF_ARRAY_INT32},
    {"num_observed", FF_ARRAY_INT32},
    {"num_msa", FF_ARRAY_INT32},
    {"resolution", FF_ARRAY_FLOAT32},
    {"max_aa_fraction", FF_ARRAY_FLOAT32},
    {"resolution_assumed", FF_ARRAY_INT8},
    {"is_distillation", FF_ARRAY_INT8},
};

struct ff_dataset {
    ff_hdf5_file *file;
    char *path;
    ff_array_set fields; /* owns the texts of `records` */
    ff_dataset_record *records;
    int64_t *residue_offset, *msa_offset;
    int64_t count;
    ff_hdf5_column *columns[FF_NUM_COLUMNS];
};

/* ---- opening ---- */

static ff_status take_version(ff_ctx *ctx, void *arg, const char *name, const char *text, double value)
{
    (void)ctx;
    if (strcmp(name, FF_DATASET_ATTRIBUTE) == 0 && text == NULL)
        *(double *)arg = value;
    return FF_OK;
}

ff_status ff_dataset_check_version(ff_ctx *ctx, ff_hdf5_file *file, const char *path)
{
    double version = 0;
    FF_TRY(ff_hdf5_each_attribute(ctx, file, "/", take_version, &version));
    if (version == 0)
        return FF_FAIL(ctx, FF_ERR_FORMAT,
                       "%s is an HDF5 file, but no data set of ours (no attribute " FF_DATASET_ATTRIBUTE
                       "); `fastfold-data chains` makes one",
                       path);
    if (version != FF_DATASET_VERSION)
        return FF_FAIL(ctx, FF_ERR_FORMAT, "%s is a data set of version %g; this program reads version %d", path,
                       version, FF_DATASET_VERSION);
    return FF_OK;
}

/* The arrays of /records, all of one length. */
static ff_status read_fields(ff_ctx *ctx, ff_dataset *d)
{
    const ff_array *arrays[FF_NUM_FIELDS];
    FF_TRY(ff_array_set_read(ctx, &d->fields, d->file, FF_DATASET_RECORDS));
    for (int f = 0; f < FF_NUM_FIELDS; f++) {
        const int64_t count = f == 0 ? -1 : d->count;
        arrays[f] = ff_array_need(ctx, &d->fields, ff_dataset_fields[f].name, ff_dataset_fields[f].type, 1, &count);
        if (arrays[f] == NULL)
            return ctx->status;
        d->count = arrays[f]->size;
    }
    d->records = calloc((size_t)d->count + 1, sizeof *d->records);
    d->residue_offset = calloc((size_t)d->count + 1, sizeof *d->residue_offset);
    d->msa_offset = calloc((size_t)d->count + 1, sizeof *d->msa_offset);
    if (d->records == NULL || d->residue_offset == NULL || d->msa_offset == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory for %lld records", (long long)d->count);
    FF_TRY(ff_hdf5_read_int64(ctx, d->file, FF_DATASET_RESIDUE_OFFSET, d->residue_offset, d->count));
    FF_TRY(ff_hdf5_read_int64(ctx, d->file, FF_DATASET_MSA_OFFSET, d->msa_offset, d->count));
    for (int64_t k = 0; k < d->count; k++)
        d->records[k] = (ff_dataset_record){
            .name = arrays[FF_FIELD_NAME]->text[k],
            .sequence = arrays[FF_FIELD_SEQUENCE]->text[k],
            .source = arrays[FF_FIELD_SOURCE]->text[k],
            .release_date = arrays[FF_FIELD_RELEASE_DATE]->text[k],
            .method = arrays[FF_FIELD_METHOD]->text[k],
            .cluster = arrays[FF_FIELD_CLUSTER]->text[k],
            .num_res = arrays[FF_FIELD_NUM_RES]->i32[k],
            .num_observed = arrays[FF_FIELD_NUM_OBSERVED]->i32[k],
            .num_msa = arrays[FF_FIELD_NUM_MSA]->i32[k],
            .resolution = arrays[FF_FIELD_RESOLUTION]->f32[k],
            .max_aa_fraction = arrays[FF_FIELD_MAX_AA_FRACTION]->f32[k],
            .resolution_assumed = arrays[FF_FIELD_RESOLUTION_ASSUMED]->i8[k] != 0,
            .is_distillation = arrays[FF_FIELD_IS_DISTILLATION]->i8[k] != 0,
        };
    return FF_OK;
}

static ff_status open_columns(ff_ctx *ctx, ff_dataset *d)
{
    for (int c = 0; c < FF_NUM_COLUMNS; c++) {
        const ff_dataset_column_layout *l = &ff_dataset_columns[c];
        FF_TRY(ff_hdf5_column_open(ctx, &d->columns[c], d->file, l->path, l->type, l->ndim, l->shape));
    }
    const int64_t residues = ff_hdf5_column_rows(d->columns[FF_COLUMN_AATYPE]),
                  cells = ff_hdf5_column_rows(d->columns[FF_COLUMN_MSA]);
    for (int64_t k = 0; k < d->count; k++) {
        const ff_dataset_record *r = &d->records[k];
        const int64_t at = d->residue_offset[k], msa_at = d->msa_offset[k];
        /* num_res and num_msa are 32-bit, so the product fits */
        if (r->num_res < 1 || r->num_msa < 0 || at < 0 || at > residues - r->num_res || msa_at < 0 ||
            msa_at > cells - r->num_res * r->num_msa || (int64_t)strlen(r->sequence) != r->num_res)
            return FF_FAIL(ctx, FF_ERR_FORMAT, "%s: record %s does not fit the arrays (damaged file)", d->path,
                           r->name);
    }
    for (int c = FF_COLUMN_RESIDUE_INDEX; c < FF_NUM_COLUMNS; c++)
        if (ff_hdf5_column_rows(d->columns[c]) != (c < FF_COLUMN_MSA ? residues : cells))
            return FF_FAIL(ctx, FF_ERR_FORMAT,
                           "%s: data set %s has another length than its neighbours (damaged file)", d->path,
                           ff_dataset_columns[c].path);
    return FF_OK;
}

ff_status ff_dataset_open(ff_ctx *ctx, ff_dataset **dataset, const char *path)
{
    *dataset = NULL;
    ff_dataset *d = calloc(1, sizeof *d);
    if (d == NULL || (d->path = strdup(path)) == NULL) {
        free(d);
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory opening %s", path);
    }
    ff_array_set_init(&d->fields);
    ff_status status = ff_hdf5_open(ctx, &d->file, path);
    if (status == FF_OK)
        status = ff_dataset_check_version(ctx, d->file, path);
    if (status == FF_OK)
        status = read_fields(ctx, d);
    if (status == FF_OK)
        status = open_columns(ctx, d);
    if (status != FF_OK) {
        ff_dataset_close(d);
        return status;
    }
    *dataset = d;
    return FF_OK;
}

void ff_dataset_close(ff_dataset *d)
{
    if (d == NULL)
        return;
    for (int c = 0; c < FF_NUM_COLUMNS; c++)
        ff_hdf5_column_close(d->columns[c]);
    ff_hdf5_close(d->file);
    ff_array_set_destroy(&d->fields);
    free(d->records);
    free(d->residue_offset);
    free(d->msa_offset);
    free(d->path);
    free(d);
}

int64_t ff_dataset_count(const ff_dataset *d) { return d->count; }

const ff_dataset_record *ff_dataset_get(const ff_dataset *d, int64_t k)
{
    assert(k >= 0 && k < d->count);
    return &d->records[k];
}

void ff_dataset_offsets(const ff_dataset *d, int64_t k, int64_t *residues, int64_t *cells)
{
    *residues = d->residue_offset[k];
    *cells = d->msa_offset[k];
}

int64_t ff_dataset_find(const ff_dataset *d, const char *name)
{
    int64_t any_case = -1;
    for (int64_t k = 0; k < d->count; k++) {
        if (strcmp(d->records[k].name, name) == 0)
            return k;
        if (any_case < 0 && strcasecmp(d->records[k].name, name) == 0)
            any_case = k;
    }
    return any_case;
}

/* ---- reading a record ---- */

/* Which residues of which record are being read, and where to. */
typedef struct {
    ff_ctx *ctx;
    ff_dataset *d;
    int64_t k, first, count;
    ff_array_set *features;
} reading;

static ff_status read_rows(const reading *r, ff_dataset_column column, int64_t first, int64_t count, void *data)
{
    return ff_hdf5_column_read(r->ctx, r->d->columns[column], first, count, data);
}

static ff_status read_residues(const reading *r)
{
    const int64_t n = r->count, at = r->d->residue_offset[r->k] + r->first;
    ff_array *aatype = ff_array_add(r->ctx, r->features, "aatype", FF_ARRAY_INT32, FF_DIMS(n));
    ff_array *index = ff_array_add(r->ctx, r->features, "residue_index", FF_ARRAY_INT32, FF_DIMS(n));
    ff_array *positions =
        ff_array_add(r->ctx, r->features, "all_atom_positions", FF_ARRAY_FLOAT32, FF_DIMS(n, FF_NUM_ATOM37, 3));
    ff_array *mask = ff_array_add(r->ctx, r->features, "all_atom_mask", FF_ARRAY_FLOAT32, FF_DIMS(n, FF_NUM_ATOM37));
    if (aatype == NULL || index == NULL || positions == NULL || mask == NULL)
        return r->ctx->status;
    /* bytes go to the end of the wider array and are widened from the front */
    int8_t *codes = (int8_t *)aatype->data + 3 * n, *flags = (int8_t *)mask->data + 3 * mask->size;
    FF_TRY(read_rows(r, FF_COLUMN_AATYPE, at, n, codes));
    FF_TRY(read_rows(r, FF_COLUMN_RESIDUE_INDEX, at, n, index->i32));
    FF_TRY(read_rows(r, FF_COLUMN_POSITIONS, at, n, positions->f32));
    FF_TRY(read_rows(r, FF_COLUMN_MASK, at, n, flags));
    for (int64_t i = 0; i < n; i++) {
        const int32_t code = codes[i];
        aatype->i32[i] = code;
    }
    for (int64_t i = 0; i < mask->size; i++) {
        const float flag = flags[i];
        mask->f32[i] = flag;
    }
    return FF_OK;
}

/* [num_res, num_msa] to [num_msa, num_res], in tiles that stay in the cache. */
static void transpose(int8_t *to, const int8_t *from, int64_t num_res, int64_t num_msa)
{
    enum { TILE = 64 };
    for (int64_t i0 = 0; i0 < num_res; i0 += TILE)
        for (int64_t s0 = 0; s0 < num_msa; s0 += TILE) {
            const int64_t i1 = i0 + TILE < num_res ? i0 + TILE : num_res,
                          s1 = s0 + TILE < num_msa ? s0 + TILE : num_msa;
            for (int64_t s = s0; s < s1; s++)
                for (int64_t i = i0; i < i1; i++)
                    to[s * num_res + i] = from[i * num_msa + s];
        }
}

static int8_t hhblits_of_aatype(int32_t aatype)
{
    for (int8_t code = 0; code < 22; code++)
        if (ff_hhblits_to_aatype[code] == aatype)
            return code;
    return 20;
}

static ff_status read_alignment(const reading *r)
{
    const int64_t rows = ff_dataset_get(r->d, r->k)->num_msa, n = r->count;
    const int64_t num_msa = rows > 0 ? rows : 1;
    ff_array *msa = ff_array_add(r->ctx, r->features, "msa", FF_ARRAY_INT8, FF_DIMS(num_msa, n));
    ff_array *deletions =
        ff_array_add(r->ctx, r->features, "deletion_matrix_int", FF_ARRAY_INT8, FF_DIMS(num_msa, n));
    ff_array *count = ff_array_add(r->ctx, r->features, "num_alignments", FF_ARRAY_INT32, FF_DIMS(n));
    if (msa == NULL || deletions == NULL || count == NULL)
        return r->ctx->status;
    for (int64_t i = 0; i < n; i++)
        count->i32[i] = (int32_t)num_msa;
    if (rows == 0) {
        const ff_array *aatype = ff_array_find(r->features, "aatype");
        for (int64_t i = 0; i < n; i++)
            msa->i8[i] = hhblits_of_aatype(aatype->i32[i]);
        return FF_OK;
    }
    int8_t *cells = malloc((size_t)(rows * n));
    if (cells == NULL)
        return FF_FAIL(r->ctx, FF_ERR_MEM, "out of memory for an alignment of %lld x %lld", (long long)rows,
                       (long long)n);
    const int64_t at = r->d->msa_offset[r->k] + r->first * rows;
    ff_status status = read_rows(r, FF_COLUMN_MSA, at, rows * n, cells);
    if (status == FF_OK) {
        transpose(msa->i8, cells, n, rows);
        status = read_rows(r, FF_COLUMN_DELETION, at, rows * n, cells);
    }
    if (status == FF_OK)
        transpose(deletions->i8, cells, n, rows);
    free(cells);
    return status;
}

static ff_status add_numbers(const reading *r)
{
    const ff_dataset_record *record = ff_dataset_get(r->d, r->k);
    ff_array *segment =
        ff_array_add(r->ctx, r->features, "between_segment_residues", FF_ARRAY_INT32, FF_DIMS(r->count));
    ff_array *length = ff_array_add(r->ctx, r->features, "seq_length", FF_ARRAY_INT32, FF_DIMS(r->count));
    ff_array *resolution = ff_array_add(r->ctx, r->features, "resolution", FF_ARRAY_FLOAT32, 0, NULL);
    ff_array *distillation = ff_array_add(r->ctx, r->features, "is_distillation", FF_ARRAY_FLOAT32, 0, NULL);
    if (segment == NULL || length == NULL || resolution == NULL || distillation == NULL)
        return r->ctx->status;
    for (int64_t i = 0; i < r->count; i++)
        length->i32[i] = (int32_t)r->count;
    resolution->f32[0] = record->resolution;
    distillation->f32[0] = record->is_distillation ? 1 : 0;
    return FF_OK;
}

ff_status ff_dataset_read(ff_ctx *ctx, ff_dataset *d, int64_t k, int64_t first, int64_t count, ff_array_set *features)
{
    if (k < 0 || k >= d->count)
        return FF_FAIL(ctx, FF_ERR_ARG, "%s has %lld records, number %lld was asked for", d->path,
                       (long long)d->count, (long long)k);
    const ff_dataset_record *record = &d->records[k];
    if (count < 0)
        count = record->num_res - first;
    if (first < 0 || count < 1 || count > record->num_res || first > record->num_res - count)
        return FF_FAIL(ctx, FF_ERR_ARG, "%s: record %s has %lld residues, %lld from %lld were asked for", d->path,
                       record->name, (long long)record->num_res, (long long)count, (long long)first);
    const reading r = {ctx, d, k, first, count, features};
    ff_status status = read_residues(&r);
    if (status == FF_OK)
        status = read_alignment(&r);
    if (status == FF_OK)
        status = add_numbers(&r);
    if (status == FF_OK || status == FF_ERR_MEM)
        return status;
    char message[FF_MESSAGE_BYTES]; /* which record it was */
    snprintf(message, sizeof message, "record %s: %.*s", record->name, FF_MESSAGE_BYTES - 80, ctx->message);
    ff_context_clear(ctx);
    return FF_FAIL(ctx, status, "%s", message);
}

/* ---- what training draws ---- */

float ff_dataset_max_aa_fraction(const int32_t *aatype, int64_t num_res)
{
    int64_t counts[FF_NUM_RESTYPES] = {0}, most = 0;
    for (int64_t i = 0; i < num_res; i++)
        if (aatype[i] >= 0 && aatype[i] < FF_NUM_RESTYPES)
            counts[aatype[i]]++;
    for (int t = 0; t < FF_NUM_RESTYPES; t++)
        most = counts[t] > most ? counts[t] : most;
    return num_res > 0 ? (float)((double)most / (double)num_res) : 0;
}

ff_dataset_filter ff_dataset_filter_default(void)
{
    return (ff_dataset_filter){
        .max_resolution = 9, .max_aa_fraction = 0.8, .cluster_weights = true, .length_weights = true};
}

/* The count that leaves this record out; NULL when it passes. */
static int64_t *left_out_by(const ff_dataset_record *r, const ff_dataset_filter *f, ff_dataset_filter_counts *counts)
{
    if (f->max_resolution > 0 && r->resolution > f->max_resolution)
        return &counts->by_resolution;
    if (f->max_aa_fraction > 0 && r->max_aa_fraction > f->max_aa_fraction)
        return &counts->by_composition;
    if ((f->min_res > 0 && r->num_res < f->min_res) || (f->max_res > 0 && r->num_res > f->max_res))
        return &counts->by_length;
    if (f->max_release_date != NULL &&
        (r->release_date[0] == '\0' || strcmp(r->release_date, f->max_release_date) > 0))
        return &counts->by_date;
    return NULL;
}

typedef struct {
    const char *cluster;
    int64_t record;
} member;

static int compare_members(const void *a, const void *b)
{
    const member *x = a, *y = b;
    const int by_cluster = strcmp(x->cluster, y->cluster);
    return by_cluster != 0 ? by_cluster : x->record < y->record ? -1 : x->record > y->record;
}

/* Divide the weights of those that passed by the size of their cluster. */
static ff_status weigh_clusters(ff_ctx *ctx, const ff_dataset *d, bool divide, double *weights,
                                ff_dataset_filter_counts *counts)
{
    member *members = malloc(((size_t)counts->passed + 1) * sizeof *members);
    int64_t n = 0;
    if (members == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory for %lld records", (long long)counts->passed);
    for (int64_t k = 0; k < d->count; k++)
        if (weights[k] > 0)
            members[n++] = (member){d->records[k].cluster, k};
    qsort(members, (size_t)n, sizeof *members, compare_members);
    for (int64_t i = 0, end; i < n; i = end) {
        end = i + 1;
        while (members[i].cluster[0] != '\0' && end < n && strcmp(members[end].cluster, members[i].cluster) == 0)
            end++;
        counts->clusters++;
        for (int64_t j = i; divide && j < end; j++)
            weights[members[j].record] /= (double)(end - i);
    }
    free(members);
    return FF_OK;
}

ff_status ff_dataset_weights(ff_ctx *ctx, const ff_dataset *d, const ff_dataset_filter *f, double *weights,
                             ff_dataset_filter_counts *counts)
{
    *counts = (ff_dataset_filter_counts){0};
    for (int64_t k = 0; k < d->count; k++) {
        const ff_dataset_record *r = &d->records[k];
        int64_t *why = left_out_by(r, f, counts);
        const double length = r->num_res > 512 ? 512 : r->num_res < 256 ? 256 : (double)r->num_res;
        weights[k] = why != NULL ? 0 : f->length_weights ? length / 512 : 1;
        ++*(why != NULL ? why : &counts->passed);
    }
    if (counts->passed == 0)
        return FF_FAIL(ctx, FF_ERR_ARG,
                       "%s: none of %lld records passes the filters (%lld by resolution, %lld by composition, %lld "
                       "by length, %lld by "
                       "release date)",
                       d->path, (long long)d->count, (long long)counts->by_resolution,
                       (long long)counts->by_composition, (long long)counts->by_length, (long long)counts->by_date);
    return weigh_clusters(ctx, d, f->cluster_weights, weights, counts);
}
