/* Training sets: records come back whole and in crops, files are extended and joined, other files refused; the
 * weights of AlphaFold's filters by hand. */
#include <CUnit/CUnit.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/random.h"
#include "data/dataset.h"
#include "data/process.h"
#include "structure/residue_constants.h"
#include "tests/check.h"

enum { MOST_RES = 400, MOST_MSA = 90 };

/* A chain of random numbers, all of it a function of its seed. */
typedef struct {
    char name[32], sequence[MOST_RES + 1];
    ff_dataset_record record;
    int32_t aatype[MOST_RES], residue_index[MOST_RES], msa[MOST_MSA * MOST_RES], deletions[MOST_MSA * MOST_RES];
    float positions[MOST_RES * 37 * 3], mask[MOST_RES * 37];
} chain;

static ff_ctx ctx;
static char folder[64], path[96], other[96];
static ff_dataset *dataset;
static ff_array_set features;
static chain one;

static void set_up(void)
{
    ff_context_init(&ctx);
    ctx.log.file = NULL;
    strcpy(folder, "/tmp/ff_dataset_XXXXXX");
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/a.h5", folder);
    snprintf(other, sizeof other, "%s/b.h5", folder);
    dataset = NULL;
    ff_array_set_init(&features);
}

static void tear_down(void)
{
    char command[96];
    ff_dataset_close(dataset);
    ff_array_set_destroy(&features);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    CU_ASSERT_EQUAL(system(command), 0);
}

static void make_chain(chain *c, uint64_t seed)
{
    const ff_random_key key = {seed, 5};
    const int64_t n = 1 + (int64_t)ff_random_below(key, 0, MOST_RES),
                  rows = seed % 4 == 0 ? 0 : 1 + (int64_t)ff_random_below(key, 1, MOST_MSA);
    snprintf(c->name, sizeof c->name, "%lluABC_%c", (unsigned long long)seed, (char)('A' + seed % 26));
    for (int64_t i = 0; i < n; i++) {
        c->aatype[i] = (int32_t)ff_random_below(key, (uint64_t)(100 + i), 21);
        c->residue_index[i] = (int32_t)(i + (i > n / 2 ? 5 : 0));
        c->sequence[i] = ff_restypes[c->aatype[i]];
        for (int64_t a = i * 37; a < (i + 1) * 37; a++) {
            c->mask[a] = ff_random_uniform(key, (uint64_t)(10000 + a)) < 0.3f ? 1 : 0;
            for (int64_t x = 3 * a; x < 3 * a + 3; x++)
                c->positions[x] = c->mask[a] > 0 ? 100 * ff_random_normal(key, (uint64_t)(100000 + x)) : 0;
        }
    }
    c->sequence[n] = '\0';
    for (int64_t i = 0; i < rows * n; i++) {
        c->msa[i] = (int32_t)ff_random_below(key, (uint64_t)(1000000 + i), 22);
        c->deletions[i] = i % 50 == 0 ? (int32_t)i % 300 : 0;
    }
    c->record = (ff_dataset_record){c->name,
                                    c->sequence,
                                    "x.cif",
                                    "2001-02-03",
                                    "x-ray diffraction",
                                    "c1",
                                    n,
                                    n,
                                    rows,
                                    1.5f,
                                    ff_dataset_max_aa_fraction(c->aatype, n),
                                    seed % 2 == 1,
                                    seed % 3 == 0};
}

static ff_status add_chain(ff_dataset_writer *w, const chain *c)
{
    const ff_dataset_arrays arrays = {c->aatype, c->residue_index, c->positions, c->mask, c->msa, c->deletions};
    return ff_dataset_add(&ctx, w, &c->record, &arrays);
}

static void write_chains(const char *file, uint64_t from, uint64_t to, bool append)
{
    ff_dataset_writer *w;
    CU_ASSERT_EQUAL_FATAL(ff_dataset_create(&ctx, &w, file, append), FF_OK);
    for (uint64_t seed = from; seed < to; seed++) {
        make_chain(&one, seed);
        CU_ASSERT_EQUAL_FATAL(add_chain(w, &one), FF_OK);
    }
    CU_ASSERT_EQUAL_FATAL(ff_dataset_commit(&ctx, w), FF_OK);
}

/* Residues [first, first + n) of record k against the chain it was made from. */
static void check_crop(int64_t k, const chain *c, int64_t first, int64_t n)
{
    ff_array_set_destroy(&features);
    CU_ASSERT_EQUAL_FATAL(ff_dataset_read(&ctx, dataset, k, first, n, &features), FF_OK);
    const int64_t rows = c->record.num_msa, num_res = c->record.num_res;
    const ff_array *aatype = ff_array_need(&ctx, &features, "aatype", FF_ARRAY_INT32, FF_DIMS(n));
    const ff_array *index = ff_array_need(&ctx, &features, "residue_index", FF_ARRAY_INT32, FF_DIMS(n));
    const ff_array *positions =
        ff_array_need(&ctx, &features, "all_atom_positions", FF_ARRAY_FLOAT32, FF_DIMS(n, 37, 3));
    const ff_array *mask = ff_array_need(&ctx, &features, "all_atom_mask", FF_ARRAY_FLOAT32, FF_DIMS(n, 37));
    const ff_array *msa = ff_array_need(&ctx, &features, "msa", FF_ARRAY_INT8, FF_DIMS(rows > 0 ? rows : 1, n));
    const ff_array *deletions =
        ff_array_need(&ctx, &features, "deletion_matrix_int", FF_ARRAY_INT8, FF_DIMS(rows > 0 ? rows : 1, n));
    CU_ASSERT_FATAL(aatype && index && positions && mask && msa && deletions);
    CU_ASSERT_EQUAL(memcmp(aatype->data, c->aatype + first, (size_t)n * 4), 0);
    CU_ASSERT_EQUAL(memcmp(index->data, c->residue_index + first, (size_t)n * 4), 0);
    CU_ASSERT_EQUAL(memcmp(positions->data, c->positions + first * 111, (size_t)n * 444), 0);
    CU_ASSERT_EQUAL(memcmp(mask->data, c->mask + first * 37, (size_t)n * 148), 0);
    int64_t wrong = 0;
    for (int64_t s = 0; s < rows; s++)
        for (int64_t i = 0; i < n; i++) {
            const int32_t d = c->deletions[s * num_res + first + i];
            wrong += msa->i8[s * n + i] != c->msa[s * num_res + first + i] ||
                     (uint8_t)deletions->i8[s * n + i] != (d < 255 ? d : 255);
        }
    for (int64_t i = 0; rows == 0 && i < n; i++)
        wrong += ff_hhblits_to_aatype[msa->i8[i]] != c->aatype[first + i] || deletions->i8[i] != 0;
    CU_ASSERT_EQUAL(wrong, 0);
    CU_ASSERT_EQUAL(ff_array_find(&features, "resolution")->f32[0], 1.5f);
    CU_ASSERT_EQUAL(ff_array_find(&features, "is_distillation")->f32[0], c->record.is_distillation);
}

static void check_records(uint64_t from, uint64_t to)
{
    CU_ASSERT_EQUAL_FATAL(ff_dataset_open(&ctx, &dataset, path), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_dataset_count(dataset), (int64_t)(to - from));
    for (uint64_t seed = from; seed < to; seed++) {
        const int64_t k = (int64_t)(seed - from);
        make_chain(&one, seed);
        const ff_dataset_record *r = ff_dataset_get(dataset, k);
        CU_ASSERT_STRING_EQUAL(r->name, one.name);
        CU_ASSERT_STRING_EQUAL(r->sequence, one.sequence);
        CU_ASSERT_STRING_EQUAL(r->release_date, "2001-02-03");
        CU_ASSERT_EQUAL(r->resolution_assumed, one.record.resolution_assumed);
        CU_ASSERT_EQUAL(r->max_aa_fraction, one.record.max_aa_fraction);
        CU_ASSERT_EQUAL(ff_dataset_find(dataset, one.name), k);
        check_crop(k, &one, 0, r->num_res);
        check_crop(k, &one, r->num_res / 3, r->num_res - r->num_res / 2);
        check_crop(k, &one, r->num_res - 1, 1);
    }
}

static void test_records_come_back_whole_and_in_crops(void)
{
    write_chains(path, 0, 30, false);
    check_records(0, 30);
    CU_ASSERT_EQUAL(ff_dataset_find(dataset, "3abc_d"), 3); /* 3ABC_D, in any case */
    CU_ASSERT_EQUAL(ff_dataset_find(dataset, "none"), -1);
    ff_array_set_destroy(&features);
    CU_ASSERT_EQUAL(ff_dataset_read(&ctx, dataset, 30, 0, -1, &features), FF_ERR_ARG);
    ff_context_clear(&ctx);
    CU_ASSERT_EQUAL(ff_dataset_read(&ctx, dataset, 0, 0, 5000, &features), FF_ERR_ARG);
}

static void test_a_file_is_extended(void)
{
    write_chains(path, 0, 9, false);
    write_chains(path, 9, 20, true);
    check_records(0, 20);
}

static void test_files_are_joined(void)
{
    ff_dataset_writer *w;
    write_chains(path, 0, 7, false);
    write_chains(other, 7, 12, false);
    CU_ASSERT_EQUAL_FATAL(ff_dataset_create(&ctx, &w, path, true), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_dataset_open(&ctx, &dataset, other), FF_OK);
    for (int64_t k = 0; k < 5; k++)
        CU_ASSERT_EQUAL(ff_dataset_add_from(&ctx, w, dataset, k), FF_OK);
    CU_ASSERT_EQUAL(ff_dataset_add_from(&ctx, w, dataset, 0), FF_ERR_ARG); /* it is there now */
    CU_ASSERT_PTR_NOT_NULL(strstr(ctx.message, "7ABC_H"));
    ff_context_clear(&ctx);
    ff_dataset_close(dataset);
    CU_ASSERT_EQUAL_FATAL(ff_dataset_commit(&ctx, w), FF_OK);
    check_records(0, 12);
}

static void test_bad_records_are_refused_and_leave_no_trace(void)
{
    ff_dataset_writer *w;
    CU_ASSERT_EQUAL_FATAL(ff_dataset_create(&ctx, &w, path, false), FF_OK);
    make_chain(&one, 1);
    CU_ASSERT_EQUAL_FATAL(add_chain(w, &one), FF_OK);
    CU_ASSERT_EQUAL(add_chain(w, &one), FF_ERR_ARG);
    ff_context_clear(&ctx);
    make_chain(&one, 2);
    one.aatype[0] = 21;
    CU_ASSERT_EQUAL(add_chain(w, &one), FF_ERR_ARG);
    ff_context_clear(&ctx);
    make_chain(&one, 2);
    one.positions[5] = NAN;
    CU_ASSERT_EQUAL(add_chain(w, &one), FF_ERR_ARG);
    ff_context_clear(&ctx);
    make_chain(&one, 2);
    one.msa[3] = 22;
    CU_ASSERT_EQUAL(add_chain(w, &one), FF_ERR_ARG);
    ff_context_clear(&ctx);
    make_chain(&one, 2);
    CU_ASSERT_EQUAL(add_chain(w, &one), FF_OK);
    CU_ASSERT_EQUAL(ff_dataset_written(w), 2);
    CU_ASSERT_EQUAL_FATAL(ff_dataset_commit(&ctx, w), FF_OK);
    check_records(1, 3);
}

static void test_nothing_appears_before_the_commit(void)
{
    ff_dataset_writer *w;
    write_chains(path, 0, 3, false);
    CU_ASSERT_EQUAL_FATAL(ff_dataset_create(&ctx, &w, path, true), FF_OK);
    make_chain(&one, 3);
    CU_ASSERT_EQUAL(add_chain(w, &one), FF_OK);
    check_records(0, 3); /* the old file is still there, whole */
    ff_dataset_abandon(w);
    CU_ASSERT_EQUAL_FATAL(ff_dataset_create(&ctx, &w, other, false), FF_OK);
    CU_ASSERT_NOT_EQUAL(access(other, F_OK), 0);
    ff_dataset_abandon(w);
    char command[128];
    snprintf(command, sizeof command, "test $(ls %s | wc -l) -eq 1", folder);
    CU_ASSERT_EQUAL(system(command), 0); /* no temporary file is left */
    CU_ASSERT_EQUAL(ff_dataset_create(&ctx, &w, "/nonexistent/a.h5", false), FF_ERR_IO);
}

static void expect_refusal(const char *file, ff_status status, const char *message)
{
    ff_context_clear(&ctx);
    CU_ASSERT_EQUAL(ff_dataset_open(&ctx, &dataset, file), status);
    CU_ASSERT_PTR_NULL(dataset);
    CU_ASSERT_PTR_NOT_NULL(strstr(ctx.message, message));
}

static void test_other_files_are_refused(void)
{
    char command[256];
    ff_hdf5_writer *w;
    write_chains(path, 0, 3, false);
    snprintf(command, sizeof command, "head -c 9000 %s >%s", path, other);
    CU_ASSERT_EQUAL_FATAL(system(command), 0);
    expect_refusal(other, FF_ERR_FORMAT, "truncated");
    snprintf(command, sizeof command, "echo hello >%s", other);
    CU_ASSERT_EQUAL_FATAL(system(command), 0);
    expect_refusal(other, FF_ERR_FORMAT, "not an HDF5 file");
    expect_refusal("/nonexistent/a.h5", FF_ERR_IO, "/nonexistent/a.h5");
    ff_context_clear(&ctx);
    CU_ASSERT_EQUAL_FATAL(ff_hdf5_create(&ctx, &w, other), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_hdf5_commit(&ctx, w), FF_OK);
    expect_refusal(other, FF_ERR_FORMAT, "no data set of ours");
    ff_context_clear(&ctx);
    CU_ASSERT_EQUAL_FATAL(ff_hdf5_create_from(&ctx, &w, path), FF_OK);
    CU_ASSERT_EQUAL(ff_hdf5_write_number_attribute(&ctx, w, "/", "fastfold_dataset", 2), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_hdf5_commit(&ctx, w), FF_OK);
    expect_refusal(path, FF_ERR_FORMAT, "version 2");
}

/* What is read goes into the pipeline as it is, with and without an alignment, whole and as a crop. */
static void test_records_become_batches(void)
{
    ff_process_options options;
    CU_ASSERT_EQUAL_FATAL(ff_process_options_preset(&ctx, &options, "tiny"), FF_OK);
    options.crop_size = 48;
    write_chains(path, 0, 6, false);
    CU_ASSERT_EQUAL_FATAL(ff_dataset_open(&ctx, &dataset, path), FF_OK);
    for (int64_t k = 0; k < 6; k++)
        for (int crop = 0; crop < 2; crop++) {
            const ff_dataset_record *r = ff_dataset_get(dataset, k);
            ff_array_set batch;
            ff_array_set_init(&batch);
            ff_array_set_destroy(&features);
            CU_ASSERT_EQUAL_FATAL(ff_dataset_read(&ctx, dataset, k, crop ? r->num_res / 2 : 0, -1, &features), FF_OK);
            CU_ASSERT_EQUAL(ff_process_features(&ctx, &batch, &features, &options), FF_OK);
            const ff_array *positions = ff_array_find(&batch, "all_atom_positions"),
                           *msa = ff_array_find(&batch, "msa_feat");
            CU_ASSERT(positions != NULL && positions->shape[1] == 48);
            CU_ASSERT(msa != NULL && msa->shape[2] == 48);
            ff_array_set_destroy(&batch);
        }
}

/* ---- weights ---- */

static void write_record(ff_dataset_writer *w, const char *name, int64_t n, float resolution, const char *date,
                         const char *cluster, bool same)
{
    make_chain(&one, 1);
    for (int64_t i = 0; i < n; i++) {
        one.aatype[i] = same ? 3 : (int32_t)(i % 20);
        one.sequence[i] = ff_restypes[one.aatype[i]];
    }
    one.sequence[n] = '\0';
    one.record = (ff_dataset_record){
        name,  one.sequence, "", date, "", cluster, n, n, 0, resolution, ff_dataset_max_aa_fraction(one.aatype, n),
        false, false};
    CU_ASSERT_EQUAL_FATAL(add_chain(w, &one), FF_OK);
}

static void test_filters_and_weights_by_hand(void)
{
    ff_dataset_writer *w;
    double weights[6];
    ff_dataset_filter_counts counts;
    CU_ASSERT_EQUAL_FATAL(ff_dataset_create(&ctx, &w, path, false), FF_OK);
    write_record(w, "a", 100, 9.0f, "2000-01-01", "x", false); /* 9 Å passes */
    write_record(w, "b", 384, 9.5f, "2000-01-01", "x", false);
    write_record(w, "c", 384, 0.0f, "2010-01-01", "x", false); /* unknown resolution passes */
    write_record(w, "d", 50, 1.0f, "2000-01-01", "x", true);   /* one amino acid only */
    write_record(w, "e", 384, 2.0f, "", "", false);            /* no cluster: one of its own */
    write_record(w, "f", 384, 2.0f, "2000-01-01", "", false);
    CU_ASSERT_EQUAL_FATAL(ff_dataset_commit(&ctx, w), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_dataset_open(&ctx, &dataset, path), FF_OK);
    ff_dataset_filter filter = ff_dataset_filter_default();
    CU_ASSERT_EQUAL_FATAL(ff_dataset_weights(&ctx, dataset, &filter, weights, &counts), FF_OK);
    const double want[] = {0.25, 0, 0.375, 0, 0.75, 0.75}; /* max(min(N, 512), 256) / 512, over two in cluster x */
    for (int k = 0; k < 6; k++)
        CU_ASSERT_DOUBLE_EQUAL(weights[k], want[k], 1e-12);
    CU_ASSERT(counts.passed == 4 && counts.by_resolution == 1 && counts.by_composition == 1 && counts.clusters == 3);
    filter = (ff_dataset_filter){.max_release_date = "2005-01-01", .min_res = 60, .max_res = 380};
    CU_ASSERT_EQUAL_FATAL(ff_dataset_weights(&ctx, dataset, &filter, weights, &counts), FF_OK);
    CU_ASSERT(weights[0] == 1 && counts.passed == 1 && counts.by_length == 5);
    filter = (ff_dataset_filter){.max_release_date = "2005-01-01"};
    CU_ASSERT_EQUAL_FATAL(ff_dataset_weights(&ctx, dataset, &filter, weights, &counts), FF_OK);
    CU_ASSERT(counts.passed == 4 && counts.by_date == 2 && weights[4] == 0); /* undated is too late */
    filter = (ff_dataset_filter){.max_res = 10};
    CU_ASSERT_EQUAL(ff_dataset_weights(&ctx, dataset, &filter, weights, &counts), FF_ERR_ARG);
    CU_ASSERT_PTR_NOT_NULL(strstr(ctx.message, "6 by length"));
}

static CU_TestInfo tests[] = {
    {"records_come_back_whole_and_in_crops", test_records_come_back_whole_and_in_crops},
    {"a_file_is_extended", test_a_file_is_extended},
    {"files_are_joined", test_files_are_joined},
    {"bad_records_are_refused_and_leave_no_trace", test_bad_records_are_refused_and_leave_no_trace},
    {"nothing_appears_before_the_commit", test_nothing_appears_before_the_commit},
    {"other_files_are_refused", test_other_files_are_refused},
    {"records_become_batches", test_records_become_batches},
    {"filters_and_weights_by_hand", test_filters_and_weights_by_hand},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_data_dataset = {"data/dataset", NULL, NULL, set_up, tear_down, tests};
