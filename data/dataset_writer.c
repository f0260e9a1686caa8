/* dataset_writer.c - making a training set, and extending one. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/version.h"
#include "data/dataset.h"
#include "data/dataset_layout.h"
#include "io/name_table.h"

/* What /records will hold of a record; texts are owned. */
typedef struct {
    ff_dataset_record record;
    int64_t residue_offset, msa_offset;
} entry;

struct ff_dataset_writer {
    ff_hdf5_writer *file;
    char *path;
    ff_hdf5_column_writer *columns[FF_NUM_COLUMNS];
    entry *entries;
    int64_t count, capacity;
    ff_name_table names;
    bool failed;
};

/* ---- records ---- */

static ff_status grow(ff_ctx *ctx, ff_dataset_writer *w)
{
    if (w->count < w->capacity)
        return FF_OK;
    const int64_t capacity = w->capacity > 0 ? 2 * w->capacity : 256;
    entry *entries = realloc(w->entries, (size_t)capacity * sizeof *entries);
    if (entries == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory for %lld records", (long long)capacity);
    w->entries = entries;
    w->capacity = capacity;
    return FF_OK;
}

static void free_texts(ff_dataset_record *r)
{
    free((char *)(uintptr_t)r->name); /* owned here, const for readers */
    free((char *)(uintptr_t)r->sequence);
    free((char *)(uintptr_t)r->source);
    free((char *)(uintptr_t)r->release_date);
    free((char *)(uintptr_t)r->method);
    free((char *)(uintptr_t)r->cluster);
}

/* Note a record with copies of its texts. */
static ff_status note(ff_ctx *ctx, ff_dataset_writer *w, const ff_dataset_record *record, int64_t residue_offset,
                      int64_t msa_offset)
{
    FF_TRY(grow(ctx, w));
    entry e = {*record, residue_offset, msa_offset};
    e.record.name = strdup(record->name);
    e.record.sequence = strdup(record->sequence);
    e.record.source = strdup(record->source);
    e.record.release_date = strdup(record->release_date);
    e.record.method = strdup(record->method);
    e.record.cluster = strdup(record->cluster);
    if (e.record.name == NULL || e.record.sequence == NULL || e.record.source == NULL ||
        e.record.release_date == NULL || e.record.method == NULL || e.record.cluster == NULL) {
        free_texts(&e.record);
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory for record %s", record->name);
    }
    w->entries[w->count++] = e;
    int64_t index;
    return ff_name_table_add(ctx, &w->names, record->name, strlen(record->name), &index, NULL);
}

/* ---- beginning ---- */

static ff_status open_columns(ff_ctx *ctx, ff_dataset_writer *w)
{
    for (int c = 0; c < FF_NUM_COLUMNS; c++) {
        const ff_dataset_column_layout *l = &ff_dataset_columns[c];
        FF_TRY(ff_hdf5_column_append_open(ctx, &w->columns[c], w->file, l->path, l->type, l->ndim, l->shape,
                                          l->chunk_rows));
    }
    return FF_OK;
}

/* The records of the file that is extended. */
static ff_status note_existing(ff_ctx *ctx, ff_dataset_writer *w)
{
    ff_dataset *d;
    int64_t residues, cells;
    FF_TRY(ff_dataset_open(ctx, &d, w->path));
    ff_status status = FF_OK;
    for (int64_t k = 0; status == FF_OK && k < ff_dataset_count(d); k++) {
        ff_dataset_offsets(d, k, &residues, &cells);
        status = note(ctx, w, ff_dataset_get(d, k), residues, cells);
    }
    ff_dataset_close(d);
    return status;
}

ff_status ff_dataset_create(ff_ctx *ctx, ff_dataset_writer **writer, const char *path, bool append)
{
    *writer = NULL;
    ff_dataset_writer *w = calloc(1, sizeof *w);
    if (w == NULL || (w->path = strdup(path)) == NULL) {
        free(w);
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory writing %s", path);
    }
    ff_status status = append ? note_existing(ctx, w) : FF_OK;
    if (status == FF_OK)
        status = append ? ff_hdf5_create_from(ctx, &w->file, path) : ff_hdf5_create(ctx, &w->file, path);
    if (status == FF_OK)
        status = open_columns(ctx, w);
    if (status != FF_OK) {
        ff_dataset_abandon(w);
        return status;
    }
    *writer = w;
    return FF_OK;
}

/* ---- adding ---- */

static ff_status check_record(ff_ctx *ctx, const ff_dataset_writer *w, const ff_dataset_record *r,
                              const ff_dataset_arrays *a)
{
    if (r->name[0] == '\0')
        return FF_FAIL(ctx, FF_ERR_ARG, "a record needs a name");
    if (ff_name_table_find(&w->names, r->name, strlen(r->name)) >= 0)
        return FF_FAIL(ctx, FF_ERR_ARG, "record %s is in %s already", r->name, w->path);
    if (r->num_res < 1 || r->num_res > INT32_MAX || r->num_msa < 0 || r->num_msa > INT32_MAX ||
        (int64_t)strlen(r->sequence) != r->num_res)
        return FF_FAIL(ctx, FF_ERR_ARG, "record %s: %lld residues, a sequence of %zu, %lld alignment rows", r->name,
                       (long long)r->num_res, strlen(r->sequence), (long long)r->num_msa);
    if (!isfinite(r->resolution) || r->resolution < 0)
        return FF_FAIL(ctx, FF_ERR_ARG, "record %s: resolution %g", r->name, (double)r->resolution);
    for (int64_t i = 0; i < r->num_res; i++)
        if (a->aatype[i] < 0 || a->aatype[i] >= FF_NUM_RESTYPES)
            return FF_FAIL(ctx, FF_ERR_ARG, "record %s: aatype %d of residue %lld is not 0..20", r->name,
                           a->aatype[i], (long long)i);
    for (int64_t i = 0; i < r->num_res * FF_NUM_ATOM37; i++)
        if ((a->all_atom_mask[i] != 0 && a->all_atom_mask[i] != 1) || !isfinite(a->all_atom_positions[3 * i]) ||
            !isfinite(a->all_atom_positions[3 * i + 1]) || !isfinite(a->all_atom_positions[3 * i + 2]))
            return FF_FAIL(ctx, FF_ERR_ARG, "record %s: atom %lld of residue %lld is not finite or half masked",
                           r->name, (long long)(i % FF_NUM_ATOM37), (long long)(i / FF_NUM_ATOM37));
    for (int64_t i = 0; i < r->num_msa * r->num_res; i++)
        if (a->msa[i] < 0 || a->msa[i] > 21 || a->deletion_matrix[i] < 0)
            return FF_FAIL(ctx, FF_ERR_ARG, "record %s: code %d or deletions %d in alignment row %lld", r->name,
                           a->msa[i], a->deletion_matrix[i], (long long)(i / r->num_res));
    return FF_OK;
}

/* [num_msa, num_res] of int32 to [num_res, num_msa] of bytes, larger numbers cut to `most`. */
static void to_bytes(int8_t *to, const int32_t *from, int64_t num_msa, int64_t num_res, int32_t most)
{
    for (int64_t i = 0; i < num_res; i++)
        for (int64_t s = 0; s < num_msa; s++) {
            const int32_t x = from[s * num_res + i];
            to[i * num_msa + s] = (int8_t)(uint8_t)(x < most ? x : most);
        }
}

static ff_status append_arrays(ff_ctx *ctx, ff_dataset_writer *w, const ff_dataset_record *r,
                               const ff_dataset_arrays *a)
{
    const int64_t n = r->num_res, atoms = n * FF_NUM_ATOM37, cells = n * r->num_msa,
                  most = cells > atoms ? cells : atoms;
    int8_t *bytes = malloc((size_t)most);
    float *positions = malloc((size_t)(3 * atoms) * sizeof *positions);
    ff_status status = FF_OK;
    if (bytes == NULL || positions == NULL) {
        status = FF_FAIL(ctx, FF_ERR_MEM, "out of memory for record %s", r->name);
        goto done;
    }
    for (int64_t i = 0; i < n; i++)
        bytes[i] = (int8_t)a->aatype[i];
    FF_TRY_DONE(ff_hdf5_column_append(ctx, w->columns[FF_COLUMN_AATYPE], n, bytes));
    FF_TRY_DONE(ff_hdf5_column_append(ctx, w->columns[FF_COLUMN_RESIDUE_INDEX], n, a->residue_index));
    for (int64_t i = 0; i < 3 * atoms; i++)
        positions[i] = a->all_atom_mask[i / 3] != 0 ? a->all_atom_positions[i] : 0;
    FF_TRY_DONE(ff_hdf5_column_append(ctx, w->columns[FF_COLUMN_POSITIONS], n, positions));
    for (int64_t i = 0; i < atoms; i++)
        bytes[i] = a->all_atom_mask[i] != 0;
    FF_TRY_DONE(ff_hdf5_column_append(ctx, w->columns[FF_COLUMN_MASK], n, bytes));
    if (cells > 0) {
        to_bytes(bytes, a->msa, r->num_msa, n, 21);
        FF_TRY_DONE(ff_hdf5_column_append(ctx, w->columns[FF_COLUMN_MSA], cells, bytes));
        to_bytes(bytes, a->deletion_matrix, r->num_msa, n, 255);
        FF_TRY_DONE(ff_hdf5_column_append(ctx, w->columns[FF_COLUMN_DELETION], cells, bytes));
    }
done:
    free(positions);
    free(bytes);
    return status;
}

ff_status ff_dataset_add(ff_ctx *ctx, ff_dataset_writer *w, const ff_dataset_record *record,
                         const ff_dataset_arrays *arrays)
{
    if (w->failed)
        return FF_FAIL(ctx, FF_ERR_IO, "%s: writing has failed before", w->path);
    FF_TRY(check_record(ctx, w, record, arrays));
    const int64_t residues = ff_hdf5_column_appended(w->columns[FF_COLUMN_AATYPE]);
    const int64_t cells = ff_hdf5_column_appended(w->columns[FF_COLUMN_MSA]);
    w->failed = true; /* until all of it is there: half a record would shift those after it */
    FF_TRY(append_arrays(ctx, w, record, arrays));
    w->failed = false;
    return note(ctx, w, record, residues, cells);
}

/* The numbers of an array as int32; bytes are taken as unsigned. The caller frees them; NULL when memory is short. */
static int32_t *widened(const ff_array *array)
{
    int32_t *wide = malloc(((size_t)array->size + 1) * sizeof *wide);
    for (int64_t i = 0; wide != NULL && i < array->size; i++)
        wide[i] = (uint8_t)array->i8[i];
    return wide;
}

ff_status ff_dataset_add_from(ff_ctx *ctx, ff_dataset_writer *w, ff_dataset *from, int64_t k)
{
    ff_array_set features;
    ff_array_set_init(&features);
    int32_t *msa = NULL, *deletions = NULL;
    ff_status status = ff_dataset_read(ctx, from, k, 0, -1, &features);
    if (status == FF_OK) {
        const ff_dataset_record *record = ff_dataset_get(from, k);
        msa = widened(ff_array_find(&features, "msa"));
        deletions = widened(ff_array_find(&features, "deletion_matrix_int"));
        const ff_dataset_arrays arrays = {ff_array_find(&features, "aatype")->i32,
                                          ff_array_find(&features, "residue_index")->i32,
                                          ff_array_find(&features, "all_atom_positions")->f32,
                                          ff_array_find(&features, "all_atom_mask")->f32,
                                          msa,
                                          deletions};
        status = msa == NULL || deletions == NULL
                     ? FF_FAIL(ctx, FF_ERR_MEM, "out of memory for record %s", record->name)
                     : ff_dataset_add(ctx, w, record, &arrays);
    }
    free(msa);
    free(deletions);
    ff_array_set_destroy(&features);
    return status;
}

bool ff_dataset_failed(const ff_dataset_writer *w) { return w->failed; }

int64_t ff_dataset_written(const ff_dataset_writer *w) { return w->count; }

/* ---- the end ---- */

static const char *text_of(const ff_dataset_record *r, ff_dataset_field field)
{
    const char *const texts[] = {r->name, r->sequence, r->source, r->release_date, r->method, r->cluster};
    return texts[field];
}

static double number_of(const ff_dataset_record *r, ff_dataset_field field)
{
    switch (field) {
    case FF_FIELD_NUM_RES: return (double)r->num_res;
    case FF_FIELD_NUM_OBSERVED: return (double)r->num_observed;
    case FF_FIELD_NUM_MSA: return (double)r->num_msa;
    case FF_FIELD_RESOLUTION: return r->resolution;
    case FF_FIELD_MAX_AA_FRACTION: return r->max_aa_fraction;
    case FF_FIELD_RESOLUTION_ASSUMED: return r->resolution_assumed;
    default: return r->is_distillation;
    }
}

static ff_status fill_field(ff_ctx *ctx, const ff_dataset_writer *w, ff_array *array, ff_dataset_field field)
{
    for (int64_t k = 0; k < w->count; k++) {
        const ff_dataset_record *r = &w->entries[k].record;
        switch (array->type) {
        case FF_ARRAY_TEXT:
            FF_TRY(ff_array_put_text(ctx, array, k, text_of(r, field), strlen(text_of(r, field))));
            break;
        case FF_ARRAY_FLOAT32: array->f32[k] = (float)number_of(r, field); break;
        case FF_ARRAY_INT32: array->i32[k] = (int32_t)number_of(r, field); break;
        case FF_ARRAY_INT8: array->i8[k] = (int8_t)number_of(r, field); break;
        }
    }
    return FF_OK;
}

static ff_status write_offsets(ff_ctx *ctx, ff_dataset_writer *w)
{
    int64_t *offsets = malloc(((size_t)w->count + 1) * sizeof *offsets);
    if (offsets == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory for %lld records", (long long)w->count);
    for (int64_t k = 0; k < w->count; k++)
        offsets[k] = w->entries[k].residue_offset;
    ff_status status = ff_hdf5_write_int64(ctx, w->file, FF_DATASET_RESIDUE_OFFSET, FF_DIMS(w->count), offsets);
    for (int64_t k = 0; k < w->count; k++)
        offsets[k] = w->entries[k].msa_offset;
    if (status == FF_OK)
        status = ff_hdf5_write_int64(ctx, w->file, FF_DATASET_MSA_OFFSET, FF_DIMS(w->count), offsets);
    free(offsets);
    return status;
}

static ff_status write_records(ff_ctx *ctx, ff_dataset_writer *w)
{
    ff_array_set fields;
    ff_array_set_init(&fields);
    ff_status status = ff_hdf5_remove(ctx, w->file, FF_DATASET_RECORDS);
    for (int f = 0; status == FF_OK && f < FF_NUM_FIELDS; f++) {
        ff_array *array =
            ff_array_add(ctx, &fields, ff_dataset_fields[f].name, ff_dataset_fields[f].type, FF_DIMS(w->count));
        status = array == NULL ? ctx->status : fill_field(ctx, w, array, (ff_dataset_field)f);
    }
    if (status == FF_OK)
        status = ff_array_set_write(ctx, &fields, w->file, FF_DATASET_RECORDS);
    ff_array_set_destroy(&fields);
    if (status == FF_OK)
        status = write_offsets(ctx, w);
    return status;
}

static void forget(ff_dataset_writer *w)
{
    for (int64_t k = 0; k < w->count; k++)
        free_texts(&w->entries[k].record);
    free(w->entries);
    ff_name_table_destroy(&w->names);
    free(w->path);
    free(w);
}

ff_status ff_dataset_commit(ff_ctx *ctx, ff_dataset_writer *w)
{
    ff_status status = w->failed ? FF_FAIL(ctx, FF_ERR_IO, "%s: writing has failed before", w->path) : ctx->status;
    for (int c = 0; c < FF_NUM_COLUMNS; c++) {
        const ff_status closed = ff_hdf5_column_append_close(ctx, w->columns[c]);
        w->columns[c] = NULL;
        status = status != FF_OK ? status : closed;
    }
    if (status == FF_OK)
        status = write_records(ctx, w);
    if (status == FF_OK)
        status = ff_hdf5_write_number_attribute(ctx, w->file, "/", FF_DATASET_ATTRIBUTE, FF_DATASET_VERSION);
    if (status == FF_OK)
        status = ff_hdf5_write_number_attribute(ctx, w->file, "/", "num_records", (double)w->count);
    if (status == FF_OK)
        status = ff_hdf5_write_text_attribute(ctx, w->file, "/", "program", "fastfold-data " FF_VERSION);
    if (status == FF_OK)
        status = ff_hdf5_commit(ctx, w->file);
    else
        ff_hdf5_abandon(w->file);
    forget(w);
    return status;
}

void ff_dataset_abandon(ff_dataset_writer *w)
{
    if (w == NULL)
        return;
    ff_ctx quiet; /* what went wrong has been said */
    ff_context_init(&quiet);
    quiet.log.file = NULL;
    for (int c = 0; c < FF_NUM_COLUMNS; c++)
        ff_hdf5_column_append_close(&quiet, w->columns[c]);
    ff_hdf5_abandon(w->file);
    forget(w);
}
