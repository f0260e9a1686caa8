/* test_model_model.c - the whole model on made-up features: passes, early stop, ensembles, what it refuses, one residue, plan mode. */
#include <CUnit/CUnit.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "model/initialise.h"
#include "model/model.h"
#include "tensor/pool.h"
#include "tensor/tape.h"
#include "tests/check.h"

enum { SEQ = 3, EXTRA = 2 };

static ff_ctx ctx;
static ff_model model;
static ff_array_set batch;

static void set_up(void)
{
    ff_model_config config;
    ff_context_init(&ctx);
    ctx.log.file = NULL;
    CU_ASSERT_EQUAL_FATAL(ff_kernels_get(&ctx, &ctx.kernels, FF_BACKEND_CPU, FF_ISA_NONE, FF_DTYPE_F32), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_pool_create(&ctx, 0, false), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_model_config_preset(&ctx, &config, "tiny"), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_model_create(&ctx, &model, &config, true), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_model_initialise(&ctx, &model.parameters, 5), FF_OK);
    const ff_random_key key = {9, 1}; /* the zeros AlphaFold starts with would hide what a pass does */
    for (int64_t i = 0; i < model.parameters.total; i++)
        model.parameters.values[i] += 0.05f * ff_random_normal(key, (uint64_t)i);
    ff_array_set_init(&batch);
}

static void tear_down(void)
{
    ff_array_set_destroy(&batch);
    ff_model_destroy(&model);
    ff_tape_destroy(&ctx);
    CU_ASSERT_EQUAL(ff_pool_get_stats(ctx.pool).in_use, 0);
    ff_pool_destroy(&ctx);
}

static void add_floats(const char *name, float value, float noise, int ndim, const int64_t *shape)
{
    ff_array *a = ff_array_add(&ctx, &batch, name, FF_ARRAY_FLOAT32, ndim, shape);
    CU_ASSERT_PTR_NOT_NULL_FATAL(a);
    const int64_t slice = a->size / shape[0];
    const ff_random_key key = {3, (uint64_t)ndim};
    for (int64_t i = 0; i < a->size; i++) /* every slice alike */
        a->f32[i] = value + noise * ff_random_normal(key, (uint64_t)(i % slice));
}

static void add_codes(const char *name, int32_t below, int ndim, const int64_t *shape)
{
    ff_array *a = ff_array_add(&ctx, &batch, name, FF_ARRAY_INT32, ndim, shape);
    CU_ASSERT_PTR_NOT_NULL_FATAL(a);
    const int64_t slice = a->size / shape[0];
    for (int64_t i = 0; i < a->size; i++)
        a->i32[i] = below == 0 ? (int32_t)(i % slice) : (int32_t)(i % slice * 7 % below);
}

static void make_batch(int64_t slices, int64_t n)
{
    add_codes("aatype", 20, FF_DIMS(slices, n));
    add_codes("residue_index", 0, FF_DIMS(slices, n));
    add_codes("extra_msa", 22, FF_DIMS(slices, EXTRA, n));
    add_floats("seq_mask", 1, 0, FF_DIMS(slices, n));
    add_floats("msa_mask", 1, 0, FF_DIMS(slices, SEQ, n));
    add_floats("extra_msa_mask", 1, 0, FF_DIMS(slices, EXTRA, n));
    add_floats("extra_has_deletion", 0, 0, FF_DIMS(slices, EXTRA, n));
    add_floats("extra_deletion_value", 0, 0, FF_DIMS(slices, EXTRA, n));
    add_floats("atom37_atom_exists", 1, 0, FF_DIMS(slices, n, 37));
    add_floats("target_feat", 0, 1, FF_DIMS(slices, n, 22));
    add_floats("msa_feat", 0, 1, FF_DIMS(slices, SEQ, n, 49));
}

static ff_status run(const ff_model_options *options, ff_model_output *out)
{
    return ff_model_forward(&ctx, &model, &batch, options, out);
}

static void count_pass(ff_ctx *c, void *arg, const ff_model_output *out)
{
    (void)c;
    int64_t *passes = arg;
    CU_ASSERT_EQUAL(out->num_passes, *passes + 1);
    CU_ASSERT_EQUAL(isnan(out->change_ang), *passes == 0); /* nothing to compare with before the second pass */
    (*passes)++;
}

static void test_all_slices_are_passes(void)
{
    ff_model_output out;
    ff_model_options options = ff_model_options_default();
    int64_t passes = 0;
    options.on_pass = count_pass;
    options.on_pass_arg = &passes;
    make_batch(3, 9);
    CU_ASSERT_EQUAL_FATAL(run(&options, &out), FF_OK);
    CU_ASSERT_EQUAL(passes, 3);
    CU_ASSERT_EQUAL(out.num_passes, 3);
    CU_ASSERT(out.change_ang > 0);
    CU_ASSERT_EQUAL(out.structure.atom37->shape[0], 9);
    for (int64_t i = 0; i < out.structure.atom37->size; i++)
        CU_ASSERT(isfinite(ff_data(out.structure.atom37)[i]));
    ff_model_output_release(&out);
}

static void test_a_tolerance_stops_recycling(void)
{
    ff_model_output out;
    ff_model_options options = ff_model_options_default();
    options.recycle_tolerance = 1e6; /* Å: any change is smaller */
    make_batch(4, 6);
    CU_ASSERT_EQUAL_FATAL(run(&options, &out), FF_OK);
    CU_ASSERT_EQUAL(out.num_passes, 2);
    CU_ASSERT_PTR_NOT_NULL(out.heads.distogram); /* of the pass it stopped at */
    ff_model_output_release(&out);
}

static void test_an_ensemble_of_equal_slices_is_one_slice(void)
{
    ff_model_output one, three;
    ff_model_options options = ff_model_options_default();
    options.num_recycle = 1;
    make_batch(6, 7);
    CU_ASSERT_EQUAL_FATAL(run(&options, &one), FF_OK);
    options.num_ensemble = 3;
    CU_ASSERT_EQUAL_FATAL(run(&options, &three), FF_OK);
    /* sums of three equal numbers over three, twice: a few roundings */
    FF_CHECK_CLOSE(ff_data(three.structure.atom37), ff_data(one.structure.atom37), one.structure.atom37->size, 1e-4, 1e-4);
    FF_CHECK_CLOSE(ff_data(three.representations.pair), ff_data(one.representations.pair), one.representations.pair->size,
                   1e-4, 1e-4);
    ff_model_output_release(&one);
    ff_model_output_release(&three);
}

static void test_too_few_slices_are_refused(void)
{
    ff_model_output out;
    ff_model_options options = ff_model_options_default();
    options.num_recycle = 3;
    make_batch(2, 5);
    CU_ASSERT_EQUAL(run(&options, &out), FF_ERR_ARG);
    CU_ASSERT_STRING_EQUAL(ctx.message, "3 recycles of 1 ensemble slices need 4 slices; the batch has 2");
    ff_context_clear(&ctx);
}

static void test_missing_and_wrong_arrays_are_named(void)
{
    ff_model_output out;
    const ff_model_options options = ff_model_options_default();
    make_batch(1, 5);
    ff_array_remove(&batch, "extra_msa_mask");
    CU_ASSERT_EQUAL(run(&options, &out), FF_ERR_FORMAT);
    CU_ASSERT_STRING_EQUAL(ctx.message, "array extra_msa_mask is missing");
    ff_context_clear(&ctx);
    add_floats("extra_msa_mask", 1, 0, FF_DIMS(1, EXTRA, 6));
    CU_ASSERT_EQUAL(run(&options, &out), FF_ERR_FORMAT);
    CU_ASSERT_STRING_EQUAL(ctx.message, "array extra_msa_mask is float32 [1, 2, 6], wanted float32 [1, 2, 5]");
    ff_context_clear(&ctx);
    add_floats("extra_msa_mask", 1, 0, FF_DIMS(1, EXTRA, 5));
    ff_array_find(&batch, "aatype")->i32[2] = 21;
    CU_ASSERT_EQUAL(run(&options, &out), FF_ERR_FORMAT);
    CU_ASSERT_STRING_EQUAL(ctx.message, "array aatype has the code 21; 0 .. 20 are known");
    ff_context_clear(&ctx);
}

static void test_one_residue_and_no_extra_rows(void)
{
    ff_model_output out;
    const ff_model_options options = ff_model_options_default();
    make_batch(2, 1);
    add_codes("extra_msa", 22, FF_DIMS(2, 0, 1));
    add_floats("extra_msa_mask", 1, 0, FF_DIMS(2, 0, 1));
    add_floats("extra_has_deletion", 0, 0, FF_DIMS(2, 0, 1));
    add_floats("extra_deletion_value", 0, 0, FF_DIMS(2, 0, 1));
    CU_ASSERT_EQUAL_FATAL(run(&options, &out), FF_OK);
    for (int64_t i = 0; i < out.structure.atom37->size; i++)
        CU_ASSERT(isfinite(ff_data(out.structure.atom37)[i]));
    ff_model_output_release(&out);
}

static bool stop_at_once(void *arg, const char *phase, int64_t step, int64_t total)
{
    (void)phase, (void)step, (void)total;
    (*(int *)arg)++;
    return true;
}

static void test_a_listener_can_stop_it(void)
{
    ff_model_output out;
    const ff_model_options options = ff_model_options_default();
    int calls = 0;
    make_batch(1, 4);
    ctx.on_step = stop_at_once;
    ctx.on_step_arg = &calls;
    CU_ASSERT_EQUAL(run(&options, &out), FF_ERR_CANCELLED);
    CU_ASSERT_EQUAL(calls, 1);
    ff_context_clear(&ctx);
    ctx.on_step = NULL;
}

/* The same code on a dry pool gives the peak of a real run. */
static void test_plan_mode_knows_the_peak(void)
{
    ff_model_output out;
    const ff_model_options options = ff_model_options_default();
    make_batch(2, 24);
    ff_pool_reset_peak(ctx.pool);
    CU_ASSERT_EQUAL_FATAL(run(&options, &out), FF_OK);
    ff_model_output_release(&out);
    const size_t real = ff_pool_get_stats(ctx.pool).peak;
    ff_ctx dry = ctx;
    CU_ASSERT_EQUAL_FATAL(ff_pool_create(&dry, 0, true), FF_OK);
    CU_ASSERT_EQUAL(ff_model_forward(&dry, &model, &batch, &options, &out), FF_OK);
    ff_model_output_release(&out);
    const size_t planned = ff_pool_get_stats(dry.pool).peak;
    ff_pool_destroy(&dry);
    CU_ASSERT((double)planned > 0.95 * (double)real && (double)planned < 1.05 * (double)real);
}

static CU_TestInfo tests[] = {
    {"all_slices_are_passes", test_all_slices_are_passes},
    {"a_tolerance_stops_recycling", test_a_tolerance_stops_recycling},
    {"an_ensemble_of_equal_slices_is_one_slice", test_an_ensemble_of_equal_slices_is_one_slice},
    {"too_few_slices_are_refused", test_too_few_slices_are_refused},
    {"missing_and_wrong_arrays_are_named", test_missing_and_wrong_arrays_are_named},
    {"one_residue_and_no_extra_rows", test_one_residue_and_no_extra_rows},
    {"a_listener_can_stop_it", test_a_listener_can_stop_it},
    {"plan_mode_knows_the_peak", test_plan_mode_knows_the_peak},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_model_model = {"model/model", NULL, NULL, set_up, tear_down, tests};
