/* Planned memory against measured memory, the choice of blocks under a limit, and options with their presets. */
#include <CUnit/CUnit.h>
#include <stdlib.h>

#include "model/initialise.h"
#include "tensor/pool.h"
#include "tests/check.h"
#include "tests/train_case.h"
#include "train/plan.h"

static ff_ctx ctx;

static void set_up(void)
{
    ff_context_init(&ctx);
    ctx.log.file = NULL;
    CU_ASSERT_EQUAL_FATAL(ff_kernels_get(&ctx, &ctx.kernels, FF_BACKEND_CPU, FF_ISA_NONE, FF_DTYPE_F32), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_pool_create(&ctx, 0, false), FF_OK);
}

static void tear_down(void) { ff_pool_destroy(&ctx); }

/* The peak of a real step whose sample has the planned sizes. */
static size_t measure(const ff_train_settings *settings, const ff_train_cost *cost)
{
    ff_train_settings s = *settings;
    train_chains chains;
    ff_chain_source source = train_source(&chains, 1);
    ff_trainer t;
    ff_trainer_report r;
    ff_samples *samples;
    ff_train_apply(cost, &s.trainer.model.evoformer);
    CU_ASSERT_EQUAL_FATAL(ff_trainer_create(&ctx, &t, &s.trainer), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_model_initialise(&ctx, &t.model.parameters, 3), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_trainer_start(&ctx, &t), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_samples_create(&ctx, &samples, &s.samples, &source, NULL, 0), FF_OK);
    ff_pool_reset_peak(ctx.pool);
    CU_ASSERT_EQUAL(ff_trainer_step(&ctx, &t, samples, &s.samples, &r), FF_OK);
    const size_t peak = ff_pool_get_stats(ctx.pool).peak;
    ff_samples_destroy(samples);
    ff_trainer_destroy(&t);
    return peak;
}

static ff_train_settings plan_settings(void)
{
    ff_train_settings s = train_settings(&ctx);
    s.samples.process.crop_size = 9; /* the length of the chain */
    s.samples.draw_recycles = false;
    s.samples.process.num_recycle = 1;
    return s;
}

static void test_planned_memory_is_what_a_step_takes(void)
{
    const ff_train_settings s = plan_settings();
    for (int64_t plain = -1; plain <= 2; plain++) {
        ff_train_cost cost;
        CU_ASSERT_EQUAL(ff_train_plan(&ctx, &s, plain, &cost), FF_OK);
        CU_ASSERT_EQUAL(cost.num_res, 9);
        CU_ASSERT_EQUAL(cost.num_seq, 2);
        CU_ASSERT_EQUAL(cost.num_extra, 1);
        const double measured = (double)measure(&s, &cost);
        /* scratch of the losses is not planned: some kilobytes */
        CU_ASSERT(cost.activation_bytes <= measured && measured < 1.02 * cost.activation_bytes + 50e3);
    }
}

static void test_blocks_are_recomputed_until_a_step_fits(void)
{
    const ff_train_settings s = plan_settings();
    ff_train_cost all, none, cost;
    CU_ASSERT_EQUAL(ff_train_plan(&ctx, &s, -1, &all), FF_OK);
    CU_ASSERT_EQUAL(ff_train_plan(&ctx, &s, 0, &none), FF_OK);
    CU_ASSERT(none.total_bytes < all.total_bytes && none.flop > all.flop);
    CU_ASSERT_EQUAL(ff_train_plan(&ctx, &s, 2, &cost), FF_OK);
    CU_ASSERT(none.total_bytes < cost.total_bytes && cost.total_bytes < all.total_bytes && cost.flop < none.flop);
    CU_ASSERT_EQUAL(ff_train_choose(&ctx, &s, 0, &cost), FF_OK);
    CU_ASSERT_FALSE(cost.checkpoint);
    CU_ASSERT_EQUAL(ff_train_choose(&ctx, &s, (int64_t)all.total_bytes, &cost), FF_OK);
    CU_ASSERT_FALSE(cost.checkpoint);
    for (int64_t plain = 0; plain < 3; plain++) { /* room for exactly that many, and one byte less */
        ff_train_cost wanted;
        CU_ASSERT_EQUAL(ff_train_plan(&ctx, &s, plain, &wanted), FF_OK);
        CU_ASSERT_EQUAL(ff_train_choose(&ctx, &s, (int64_t)wanted.total_bytes, &cost), FF_OK);
        CU_ASSERT(cost.checkpoint && cost.num_plain_block >= plain && cost.total_bytes <= wanted.total_bytes);
        if (wanted.total_bytes <= none.total_bytes)
            continue;
        CU_ASSERT_EQUAL(ff_train_choose(&ctx, &s, (int64_t)wanted.total_bytes - 1, &cost), FF_OK);
        CU_ASSERT(cost.num_plain_block < plain);
    }
    CU_ASSERT_EQUAL(ff_train_choose(&ctx, &s, (int64_t)none.total_bytes - 1, &cost), FF_ERR_MEM);
    CU_ASSERT_PTR_NOT_NULL(strstr(ctx.message, "--max-memory allows"));
}

/* ---- options ---- */

static ff_status read(ff_train_options *o, ff_train_settings *s, int argc, char **argv)
{
    ff_train_texts texts = {{NULL}};
    ff_arguments args;
    ff_status status = ff_train_options_read(&ctx, o, &texts, argc, argv, &args);
    if (status == FF_OK)
        status = ff_train_resolve(&ctx, o, s);
    ff_train_texts_free(&texts);
    return status;
}

static void test_presets_have_the_published_sizes(void)
{
    ff_train_options o;
    ff_train_settings s;
    char *initial[] = {"t", "--preset", "initial"}, *finetune[] = {"t", "--preset", "finetune", "--stage", "ptm"};
    CU_ASSERT_EQUAL(read(&o, &s, 3, initial), FF_OK);
    CU_ASSERT(s.samples.process.crop_size == 256 && s.samples.process.num_seq == 128 && s.samples.process.num_extra == 1024);
    CU_ASSERT_EQUAL(s.trainer.weights.violation, 0);
    CU_ASSERT_EQUAL(s.trainer.optimizer.learning_rate, 1e-3);
    CU_ASSERT_EQUAL(s.trainer.optimizer.warmup_steps, 1000);
    CU_ASSERT_TRUE(s.trainer.dropout);
    CU_ASSERT_STRING_EQUAL(s.trainer.model.name, "model_1_ptm");
    CU_ASSERT_EQUAL(read(&o, &s, 5, finetune), FF_OK);
    CU_ASSERT(s.samples.process.crop_size == 384 && s.samples.process.num_seq == 512 && s.samples.process.num_extra == 5120);
    CU_ASSERT_EQUAL(s.trainer.weights.violation, 1);
    CU_ASSERT_EQUAL(s.trainer.weights.pae, 0.1);
    CU_ASSERT_EQUAL(s.trainer.optimizer.learning_rate, 5e-4);
    CU_ASSERT_EQUAL(s.trainer.optimizer.warmup_steps, 0);
}

static void test_learning_by_heart_has_violations_in_the_last_third(void)
{
    ff_train_options o;
    ff_train_settings s;
    char *argv[] = {"t", "--overfit", "x.cif:A", "--steps", "900"};
    CU_ASSERT_EQUAL(read(&o, &s, 5, argv), FF_OK);
    CU_ASSERT_EQUAL(s.trainer.violation_from, 600);
    CU_ASSERT_EQUAL(s.trainer.weights.violation, 5);
    CU_ASSERT_EQUAL(s.trainer.weights.pae, 0.1);
    CU_ASSERT_EQUAL(s.trainer.optimizer.learning_rate, 4e-3);
    CU_ASSERT_FALSE(s.trainer.dropout);
    CU_ASSERT_EQUAL(s.samples.process.masked_msa.replace_fraction, 0.15);
}

static void test_contradictions_are_named(void)
{
    ff_train_options o;
    ff_train_settings s;
    char *preset[] = {"t", "--preset", "large"}, *ptm[] = {"t", "--model", "model_1", "--stage", "ptm"};
    CU_ASSERT_EQUAL(read(&o, &s, 3, preset), FF_ERR_ARG);
    CU_ASSERT_STRING_EQUAL(ctx.message, "there is no preset large; there are tiny, small, initial, finetune");
    ff_context_clear(&ctx);
    CU_ASSERT_EQUAL(read(&o, &s, 5, ptm), FF_ERR_ARG);
    CU_ASSERT_PTR_NOT_NULL(strstr(ctx.message, "take a _ptm model"));
}

static CU_TestInfo tests[] = {
    {"planned_memory_is_what_a_step_takes", test_planned_memory_is_what_a_step_takes},
    {"blocks_are_recomputed_until_a_step_fits", test_blocks_are_recomputed_until_a_step_fits},
    {"presets_have_the_published_sizes", test_presets_have_the_published_sizes},
    {"learning_by_heart_has_violations_in_the_last_third", test_learning_by_heart_has_violations_in_the_last_third},
    {"contradictions_are_named", test_contradictions_are_named},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_train_plan = {"train/plan", NULL, NULL, set_up, tear_down, tests};
