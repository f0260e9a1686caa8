/* The pipeline from raw features to a batch: the smallest chains, what is drawn, what is shared, what is refused. */
#include <CUnit/CUnit.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "data/process.h"
#include "tests/check.h"

static ff_ctx ctx;
static ff_array_set raw, batch, again;
static ff_process_options options;

static void set_up(void)
{
    ff_context_init(&ctx);
    ctx.log.file = NULL;
    ff_array_set_init(&raw);
    ff_array_set_init(&batch);
    ff_array_set_init(&again);
    CU_ASSERT_EQUAL_FATAL(ff_process_options_preset(&ctx, &options, "tiny"), FF_OK);
}

static void tear_down(void)
{
    ff_array_set_destroy(&raw);
    ff_array_set_destroy(&batch);
    ff_array_set_destroy(&again);
}

static ff_array *add(const char *name, ff_array_type type, int ndim, const int64_t *shape)
{
    ff_array *a = ff_array_add(&ctx, &raw, name, type, ndim, shape);
    CU_ASSERT_PTR_NOT_NULL_FATAL(a);
    return a;
}

/* Raw features of a chain, as features.h5 has them. */
static void make_raw(int64_t num_res, int64_t num_seq, int64_t num_templates)
{
    const ff_random_key key = {99, 1};
    ff_array *aatype = add("aatype", FF_ARRAY_INT32, FF_DIMS(num_res, 21));
    ff_array *index = add("residue_index", FF_ARRAY_INT32, FF_DIMS(num_res));
    ff_array *length = add("seq_length", FF_ARRAY_INT32, FF_DIMS(num_res));
    ff_array *msa = add("msa", FF_ARRAY_INT32, FF_DIMS(num_seq, num_res));
    ff_array *deletions = add("deletion_matrix_int", FF_ARRAY_INT32, FF_DIMS(num_seq, num_res));
    add("between_segment_residues", FF_ARRAY_INT32, FF_DIMS(num_res));
    for (int64_t i = 0; i < num_res; i++) {
        aatype->i32[i * 21 + i % 20] = 1;
        index->i32[i] = (int32_t)i;
        length->i32[i] = (int32_t)num_res;
    }
    for (int64_t i = 0; i < msa->size; i++) {
        msa->i32[i] = (int32_t)ff_random_below(key, (uint64_t)i, 22);
        deletions->i32[i] = ff_random_below(key, (uint64_t)i + 1, 20) == 0 ? 3 : 0;
    }
    if (num_templates < 0)
        return;
    ff_array *t = add("template_aatype", FF_ARRAY_FLOAT32, FF_DIMS(num_templates, num_res, 22));
    ff_array *mask = add("template_all_atom_masks", FF_ARRAY_FLOAT32, FF_DIMS(num_templates, num_res, 37));
    ff_array *x = add("template_all_atom_positions", FF_ARRAY_FLOAT32, FF_DIMS(num_templates, num_res, 37, 3));
    ff_array *probs = add("template_sum_probs", FF_ARRAY_FLOAT32, FF_DIMS(num_templates, 1));
    for (int64_t i = 0; i < num_templates * num_res; i++)
        t->f32[i * 22 + i % 22] = 1;
    for (int64_t i = 0; i < mask->size; i++)
        mask->f32[i] = i % 3 == 0;
    for (int64_t i = 0; i < x->size; i++)
        x->f32[i] = (float)i;
    for (int64_t i = 0; i < num_templates; i++)
        probs->f32[i] = (float)(10 - i);
}

static const ff_array *get(const ff_array_set *set, const char *name)
{
    const ff_array *a = ff_array_find(set, name);
    CU_ASSERT_PTR_NOT_NULL_FATAL(a);
    return a;
}

#define CHECK_SHAPE(name, ...)                                                                                                   \
    CU_ASSERT_PTR_NOT_NULL(ff_array_need(&ctx, &batch, name, ff_array_find(&batch, name)->type, FF_DIMS(__VA_ARGS__)))

static void process(ff_array_set *out) { CU_ASSERT_EQUAL_FATAL(ff_process_features(&ctx, out, &raw, &options), FF_OK); }

static bool same(const ff_array_set *a, const ff_array_set *b)
{
    bool equal = a->count == b->count;
    for (int64_t i = 0; equal && i < a->count; i++) {
        const ff_array *x = a->items[i], *y = ff_array_find(b, x->name);
        equal = y != NULL && x->size == y->size && x->ndim == y->ndim &&
                memcmp(x->data, y->data, (size_t)x->size * ff_array_type_bytes(x->type)) == 0;
    }
    return equal;
}

static double sum(const ff_array *a, int64_t from, int64_t n)
{
    double total = 0;
    for (int64_t i = from; i < from + n; i++)
        total += a->type == FF_ARRAY_FLOAT32 ? a->f32[i] : a->i32[i];
    return total;
}

/* ---- sizes ---- */

static void test_shapes_are_those_the_model_reads(void)
{
    make_raw(13, 50, 3);
    process(&batch);
    CU_ASSERT_EQUAL(batch.count, 26);
    CHECK_SHAPE("aatype", 2, 13);
    CHECK_SHAPE("seq_length", 2);
    CHECK_SHAPE("msa_feat", 2, 32, 13, 49);
    CHECK_SHAPE("target_feat", 2, 13, 22);
    CHECK_SHAPE("extra_msa", 2, 64, 13);
    CHECK_SHAPE("extra_msa_row_mask", 2, 64);
    CHECK_SHAPE("residx_atom37_to_atom14", 2, 13, 37);
    CHECK_SHAPE("template_aatype", 2, 2, 13);
    CHECK_SHAPE("template_all_atom_positions", 2, 2, 13, 37, 3);
    CHECK_SHAPE("template_sum_probs", 2, 2, 1);
    CU_ASSERT_EQUAL(sum(get(&batch, "extra_msa_row_mask"), 0, 64), 18);
    CU_ASSERT_EQUAL(sum(get(&batch, "msa_row_mask"), 0, 32), 32);
}

static void test_one_residue_one_row_no_templates(void)
{
    make_raw(1, 1, -1);
    process(&batch);
    CHECK_SHAPE("msa_feat", 2, 32, 1, 49);
    CHECK_SHAPE("template_mask", 2, 2);
    CU_ASSERT_EQUAL(sum(get(&batch, "msa_mask"), 0, 32), 1);
    CU_ASSERT_EQUAL(sum(get(&batch, "extra_msa_mask"), 0, 64), 0);
    CU_ASSERT_EQUAL(sum(get(&batch, "template_mask"), 0, 4), 0);
    CU_ASSERT_EQUAL(get(&batch, "seq_length")->i32[1], 1);
    options.max_templates = 0;
    ff_array_set_destroy(&batch);
    process(&batch);
    CU_ASSERT_PTR_NULL(ff_array_find(&batch, "template_mask"));
    CU_ASSERT_EQUAL(batch.count, 19);
}

static void test_no_room_for_extra_rows(void)
{
    make_raw(6, 40, 0);
    options.num_extra = 0;
    process(&batch);
    CHECK_SHAPE("extra_msa", 2, 0, 6);
    CHECK_SHAPE("template_aatype", 2, 2, 6);
}

static void test_unpadded_sizes_are_those_there_are(void)
{
    make_raw(6, 40, 1);
    options.pad = false;
    process(&batch);
    CHECK_SHAPE("msa_feat", 2, 32, 6, 49);
    CHECK_SHAPE("extra_msa", 2, 8, 6);
    CHECK_SHAPE("template_mask", 2, 1);
}

static void test_templates_take_their_rows_of_the_msa(void)
{
    make_raw(5, 40, 1);
    CU_ASSERT_EQUAL_FATAL(ff_process_options_preset(&ctx, &options, "model_1_ptm"), FF_OK);
    process(&batch);
    CHECK_SHAPE("msa_feat", 4, 508, 5, 49);
    CHECK_SHAPE("extra_msa", 4, 5120, 5);
    CU_ASSERT_EQUAL_FATAL(ff_process_options_preset(&ctx, &options, "model_5"), FF_OK);
    process(&batch); /* the arrays of the first batch are replaced */
    CHECK_SHAPE("msa_feat", 4, 512, 5, 49);
    CHECK_SHAPE("extra_msa", 4, 1024, 5);
}

/* ---- random numbers ---- */

static void test_without_random_numbers_the_first_rows_stand(void)
{
    make_raw(7, 50, 3);
    options.random = false;
    process(&batch);
    CU_ASSERT_EQUAL(sum(get(&batch, "bert_mask"), 0, 2 * 32 * 7), 0);
    const ff_array *truth = get(&batch, "true_msa");
    CU_ASSERT_EQUAL(memcmp(truth->i32, truth->i32 + 32 * 7, 32 * 7 * sizeof(int32_t)), 0);
    CU_ASSERT_EQUAL(get(&batch, "template_sum_probs")->f32[1], 9);
}

static void test_slices_differ_in_msa_and_share_the_rest(void)
{
    make_raw(11, 200, 3);
    process(&batch);
    for (int64_t i = 0; i < batch.count; i++) {
        const ff_array *a = batch.items[i];
        const size_t bytes = (size_t)(a->size / 2) * 4;
        const bool equal = memcmp(a->data, (const char *)a->data + bytes, bytes) == 0;
        const bool drawn = strstr(a->name, "msa_feat") != NULL || strcmp(a->name, "true_msa") == 0 ||
                           strcmp(a->name, "bert_mask") == 0 || strcmp(a->name, "extra_msa") == 0 ||
                           strstr(a->name, "deletion") != NULL;
        CU_ASSERT_EQUAL(equal, !drawn);
    }
    /* the query leads every slice */
    const int32_t *truth = get(&batch, "true_msa")->i32;
    CU_ASSERT_EQUAL(memcmp(truth, truth + 32 * 11, 11 * sizeof *truth), 0);
}

static void test_the_same_key_gives_the_same_batch_and_another_another(void)
{
    make_raw(9, 100, 2);
    options.key = (ff_sample_key){5, 1, 17};
    process(&batch);
    process(&again);
    CU_ASSERT(same(&batch, &again));
    const ff_sample_key others[3] = {{6, 1, 17}, {5, 2, 17}, {5, 1, 18}};
    for (int i = 0; i < 3; i++) {
        options.key = others[i];
        process(&again);
        CU_ASSERT_FALSE(same(&batch, &again));
    }
}

enum { SAMPLES = 6 };
typedef struct {
    ff_array_set batches[SAMPLES];
    int first, step;
    ff_status status;
} worker;

static void *run_worker(void *arg)
{
    worker *w = arg;
    ff_ctx own;
    ff_context_init(&own);
    own.log.file = NULL;
    ff_process_options o = options;
    for (int k = w->first; k >= 0 && k < SAMPLES; k += w->step) {
        o.key.sample = (uint64_t)k;
        const ff_status status = ff_process_features(&own, &w->batches[k], &raw, &o);
        w->status = status == FF_OK ? w->status : status;
    }
    return NULL;
}

static void test_samples_do_not_depend_on_threads_or_order(void)
{
    worker one = {.first = SAMPLES - 1, .step = -1}, two[2] = {{.first = 0, .step = 2}, {.first = 1, .step = 2}};
    pthread_t threads[2];
    make_raw(10, 120, 4);
    CU_ASSERT_EQUAL_FATAL(ff_process_options_preset(&ctx, &options, "initial"), FF_OK);
    options.num_seq = 16;
    options.num_extra = 20;
    options.crop_size = 6;
    for (int k = 0; k < SAMPLES; k++) {
        ff_array_set_init(&one.batches[k]);
        ff_array_set_init(&two[0].batches[k]);
        ff_array_set_init(&two[1].batches[k]);
    }
    for (int t = 0; t < 2; t++)
        CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[t], NULL, run_worker, &two[t]), 0);
    run_worker(&one);
    for (int t = 0; t < 2; t++)
        pthread_join(threads[t], NULL);
    CU_ASSERT(one.status == FF_OK && two[0].status == FF_OK && two[1].status == FF_OK);
    for (int k = 0; k < SAMPLES; k++) {
        CU_ASSERT(one.batches[k].count > 0 && same(&one.batches[k], &two[k % 2].batches[k]));
        ff_array_set_destroy(&one.batches[k]);
        ff_array_set_destroy(&two[0].batches[k]);
        ff_array_set_destroy(&two[1].batches[k]);
    }
}

/* One slice by the transforms, one after the other; start = first residue of the crop. */
static void transform_slice(ff_array_set *f, int64_t slice, int64_t start)
{
    const bool training = options.training;
    const ff_random_key blocks = ff_sample_random(&options.key, slice, FF_DRAW_BLOCK_DELETE),
                        rows = ff_sample_random(&options.key, slice, FF_DRAW_SAMPLE_MSA),
                        mask = ff_sample_random(&options.key, slice, FF_DRAW_MASKED_MSA);
    for (int64_t i = 0; i < raw.count; i++)
        CU_ASSERT_PTR_NOT_NULL_FATAL(ff_array_copy(&ctx, f, raw.items[i]->name, raw.items[i]));
    CU_ASSERT_EQUAL(ff_transform_type_features(&ctx, f), FF_OK);
    CU_ASSERT_EQUAL(ff_transform_correct_msa_restypes(&ctx, f), FF_OK);
    CU_ASSERT_EQUAL(ff_transform_squeeze_features(&ctx, f), FF_OK);
    CU_ASSERT_EQUAL(ff_transform_make_seq_mask(&ctx, f), FF_OK);
    CU_ASSERT_EQUAL(ff_transform_make_msa_mask(&ctx, f), FF_OK);
    CU_ASSERT_EQUAL(ff_transform_make_hhblits_profile(&ctx, f), FF_OK);
    if (training)
        CU_ASSERT_EQUAL(ff_transform_block_delete_msa(&ctx, f, f, &options.block_delete, &blocks), FF_OK);
    CU_ASSERT_EQUAL(ff_transform_sample_msa(&ctx, f, f, options.num_seq, &rows), FF_OK);
    CU_ASSERT_EQUAL(ff_transform_make_masked_msa(&ctx, f, &options.masked_msa, &mask), FF_OK);
    CU_ASSERT_EQUAL(ff_transform_nearest_neighbor_clusters(&ctx, f), FF_OK);
    CU_ASSERT_EQUAL(ff_transform_summarize_clusters(&ctx, f), FF_OK);
    CU_ASSERT_EQUAL(ff_transform_crop_extra_msa(&ctx, f, options.num_extra, NULL), FF_OK);
    CU_ASSERT_EQUAL(ff_transform_make_msa_feat(&ctx, f), FF_OK);
    CU_ASSERT_EQUAL(ff_transform_select_features(&ctx, f), FF_OK);
    if (options.crop_size > 0)
        CU_ASSERT_EQUAL(ff_transform_crop(&ctx, f, options.crop_size, start), FF_OK);
}

/* The pipeline and the transforms, for slices of a chain. */
static void compare_with_transforms(void)
{
    process(&batch);
    const int64_t num_slices = get(&batch, "seq_length")->size;
    const ff_feature_sizes sizes = {{-1, get(&batch, "aatype")->shape[1], options.num_seq, options.num_extra, -1}};
    static const char *const names[] = {"msa_feat", "true_msa", "bert_mask", "msa_mask", "msa_row_mask", "target_feat", "extra_msa",
                                        "extra_msa_mask", "extra_msa_row_mask", "extra_has_deletion", "extra_deletion_value",
                                        "seq_mask", "residue_index"};
    for (int64_t slice = 0; slice < num_slices; slice++) {
        ff_array_set one;
        ff_array_set_init(&one);
        transform_slice(&one, slice, get(&batch, "residue_index")->i32[0]);
        CU_ASSERT_EQUAL(ff_transform_stack_slice(&ctx, &again, &one, slice, num_slices, &sizes), FF_OK);
        ff_array_set_destroy(&one);
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const ff_array *a = get(&batch, names[i]), *b = get(&again, names[i]);
        CU_ASSERT_EQUAL_FATAL(a->size, b->size);
        CU_ASSERT_EQUAL(memcmp(a->data, b->data, (size_t)a->size * 4), 0);
    }
}

static void test_the_pipeline_equals_its_transforms(void)
{
    make_raw(70, 90, 1); /* more rows than 32 + 64 are not there: fewer extra rows than asked for */
    compare_with_transforms();
    options.num_extra = 20;
    options.crop_size = 33;
    compare_with_transforms();
}

static void test_the_training_pipeline_equals_its_transforms(void)
{
    make_raw(40, 90, 1);
    CU_ASSERT_EQUAL_FATAL(ff_process_options_preset(&ctx, &options, "initial"), FF_OK);
    options.num_seq = 20;
    options.num_extra = 30;
    options.crop_size = 16;
    for (uint64_t k = 0; k < 5; k++) {
        options.key.sample = k;
        compare_with_transforms();
    }
}

/* ---- training ---- */

static ff_status number_residues(ff_ctx *c, void *arg, ff_array_set *features)
{
    const ff_array *aatype = ff_array_find(features, "aatype");
    ff_array *label = ff_array_add(c, features, "chi_angles", FF_ARRAY_FLOAT32, FF_DIMS(aatype->size, 4));
    if (label == NULL)
        return c->status;
    for (int64_t i = 0; i < aatype->size; i++)
        label->f32[i * 4 + 3] = (float)i;
    ++*(int *)arg;
    return FF_OK;
}

static void test_training_crops_features_and_labels_alike(void)
{
    int calls = 0;
    make_raw(40, 60, 4);
    add("all_atom_positions", FF_ARRAY_FLOAT32, FF_DIMS(40, 37, 3));
    add("all_atom_mask", FF_ARRAY_FLOAT32, FF_DIMS(40, 37));
    add("resolution", FF_ARRAY_FLOAT32, FF_DIMS(1))->f32[0] = 1.5F;
    CU_ASSERT_EQUAL_FATAL(ff_process_options_preset(&ctx, &options, "initial"), FF_OK);
    options.crop_size = 12;
    options.labels = number_residues;
    options.labels_arg = &calls;
    bool moved = false;
    for (uint64_t k = 0; k < 8; k++) {
        options.key.sample = k;
        process(&batch);
        CHECK_SHAPE("chi_angles", 4, 12, 4);
        CHECK_SHAPE("all_atom_positions", 4, 12, 37, 3);
        CHECK_SHAPE("use_clamped_fape", 4);
        CHECK_SHAPE("resolution", 4);
        const int32_t start = get(&batch, "residue_index")->i32[0];
        moved = moved || start > 0;
        for (int slice = 0; slice < 4; slice++) {
            CU_ASSERT_EQUAL(get(&batch, "residue_index")->i32[slice * 12 + 5], start + 5);
            CU_ASSERT_EQUAL(get(&batch, "chi_angles")->f32[slice * 48 + 5 * 4 + 3], (float)(start + 5));
        }
    }
    CU_ASSERT(moved);
    CU_ASSERT_EQUAL(calls, 8);
    CU_ASSERT_EQUAL(get(&batch, "resolution")->f32[3], 1.5F);
}

static void test_fape_is_clamped_in_nine_of_ten_samples(void)
{
    int clamped = 0;
    make_raw(4, 3, -1);
    CU_ASSERT_EQUAL_FATAL(ff_process_options_preset(&ctx, &options, "initial"), FF_OK);
    options.num_seq = 2;
    options.num_extra = 1;
    options.crop_size = 4;
    for (uint64_t k = 0; k < 400; k++) {
        options.key.sample = k;
        process(&batch);
        clamped += get(&batch, "use_clamped_fape")->f32[0] != 0;
    }
    CU_ASSERT(abs(clamped - 360) <= 30); /* five standard errors */
}

static void test_a_chain_shorter_than_the_crop_is_padded(void)
{
    make_raw(5, 8, 1);
    options.crop_size = 9;
    process(&batch);
    CHECK_SHAPE("msa_feat", 2, 32, 9, 49);
    CHECK_SHAPE("template_pseudo_beta", 2, 2, 9, 3);
    CU_ASSERT_EQUAL(sum(get(&batch, "seq_mask"), 0, 9), 5);
    CU_ASSERT_EQUAL(get(&batch, "seq_length")->i32[0], 5);
}

static void test_a_given_crop_start_is_taken(void)
{
    make_raw(20, 8, 1);
    options.crop_size = 4;
    options.crop_start = 7;
    process(&batch);
    CU_ASSERT_EQUAL(get(&batch, "residue_index")->i32[0], 7);
    CU_ASSERT_EQUAL(get(&batch, "residue_index")->i32[7], 10);
}

/* ---- refusals ---- */

static void check_refused(ff_status want, const char *text)
{
    CU_ASSERT_EQUAL(ff_process_features(&ctx, &batch, &raw, &options), want);
    CU_ASSERT_PTR_NOT_NULL(strstr(ctx.message, text));
    ff_context_clear(&ctx);
}

static void test_wrong_features_are_refused_by_name(void)
{
    make_raw(6, 4, 1);
    add("template_all_atom_masks", FF_ARRAY_FLOAT32, FF_DIMS(1, 5, 37));
    check_refused(FF_ERR_FORMAT, "template_all_atom_masks");
    make_raw(6, 4, 1);
    add("deletion_matrix_int", FF_ARRAY_INT32, FF_DIMS(3, 6));
    check_refused(FF_ERR_FORMAT, "deletion_matrix is float32 [3, 6], wanted float32 [4, 6]");
    make_raw(6, 4, 1);
    add("template_sum_probs", FF_ARRAY_FLOAT32, FF_DIMS(0, 1)); /* for one template */
    check_refused(FF_ERR_FORMAT, "template_sum_probs has 0 templates, template_aatype 1");
    make_raw(6, 4, 1);
    get(&raw, "msa")->i32[7] = 30;
    check_refused(FF_ERR_FORMAT, "msa row 1, residue 1: code 30");
    ff_array_remove(&raw, "msa");
    check_refused(FF_ERR_FORMAT, "msa is missing");
    make_raw(6, 0, 1);
    check_refused(FF_ERR_FORMAT, "no rows");
    make_raw(0, 1, -1);
    ff_array_remove(&raw, "seq_length"); /* made anew anyway */
    check_refused(FF_ERR_FORMAT, "no residues");
}

static void test_wrong_options_are_refused(void)
{
    make_raw(6, 4, 1);
    options.num_seq = 0;
    check_refused(FF_ERR_ARG, "num_seq 0");
    options.num_seq = 2;
    options.reduce_msa_clusters_by_max_templates = true;
    check_refused(FF_ERR_ARG, "2 templates leave no MSA row of 2");
    CU_ASSERT_EQUAL(ff_process_options_preset(&ctx, &options, "model_6"), FF_ERR_ARG);
    CU_ASSERT_PTR_NOT_NULL(strstr(ctx.message, "model_1 model_2"));
    ff_context_clear(&ctx);
    CU_ASSERT_EQUAL_FATAL(ff_process_options_preset(&ctx, &options, "tiny"), FF_OK);
    options.masked_msa.replace_fraction = 1.5;
    check_refused(FF_ERR_ARG, "0..1");
    options.masked_msa.replace_fraction = 0;
    options.crop_size = 3;
    options.crop_start = 6;
    check_refused(FF_ERR_ARG, "chain of 6");
}

static CU_TestInfo tests[] = {
    {"shapes_are_those_the_model_reads", test_shapes_are_those_the_model_reads},
    {"one_residue_one_row_no_templates", test_one_residue_one_row_no_templates},
    {"no_room_for_extra_rows", test_no_room_for_extra_rows},
    {"unpadded_sizes_are_those_there_are", test_unpadded_sizes_are_those_there_are},
    {"templates_take_their_rows_of_the_msa", test_templates_take_their_rows_of_the_msa},
    {"without_random_numbers_the_first_rows_stand", test_without_random_numbers_the_first_rows_stand},
    {"slices_differ_in_msa_and_share_the_rest", test_slices_differ_in_msa_and_share_the_rest},
    {"the_same_key_gives_the_same_batch_and_another_another", test_the_same_key_gives_the_same_batch_and_another_another},
    {"samples_do_not_depend_on_threads_or_order", test_samples_do_not_depend_on_threads_or_order},
    {"the_pipeline_equals_its_transforms", test_the_pipeline_equals_its_transforms},
    {"the_training_pipeline_equals_its_transforms", test_the_training_pipeline_equals_its_transforms},
    {"training_crops_features_and_labels_alike", test_training_crops_features_and_labels_alike},
    {"fape_is_clamped_in_nine_of_ten_samples", test_fape_is_clamped_in_nine_of_ten_samples},
    {"a_chain_shorter_than_the_crop_is_padded", test_a_chain_shorter_than_the_crop_is_padded},
    {"a_given_crop_start_is_taken", test_a_given_crop_start_is_taken},
    {"wrong_features_are_refused_by_name", test_wrong_features_are_refused_by_name},
    {"wrong_options_are_refused", test_wrong_options_are_refused},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_data_process = {"data/process", NULL, NULL, set_up, tear_down, tests};
