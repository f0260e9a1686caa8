/* The trainer: draws, steps, what is skipped, the average, state on disk and going on from it. */
#include <CUnit/CUnit.h>
#include <stdlib.h>
#include <unistd.h>

#include "io/safe_file.h"
#include "model/initialise.h"
#include "tensor/pool.h"
#include "tests/check.h"
#include "tests/train_case.h"
#include "train/run_folder.h"
#include "train/validate.h"

static ff_ctx ctx;
static FILE *log_file;
static train_chains chains;
static ff_chain_source source;

static void set_up(void)
{
    ff_context_init(&ctx);
    ctx.log.file = log_file = tmpfile();
    CU_ASSERT_EQUAL_FATAL(ff_kernels_get(&ctx, &ctx.kernels, FF_BACKEND_CPU, FF_ISA_NONE, FF_DTYPE_F32), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_pool_create(&ctx, 0, false), FF_OK);
    source = train_source(&chains, TRAIN_CHAINS);
}

static void tear_down(void)
{
    ff_pool_destroy(&ctx);
    if (log_file != NULL)
        fclose(log_file);
}

static bool log_says(const char *text)
{
    char buffer[8192];
    fflush(log_file);
    rewind(log_file);
    const size_t length = fread(buffer, 1, sizeof buffer - 1, log_file);
    buffer[length] = '\0';
    return strstr(buffer, text) != NULL;
}

/* A trainer with weights of the seed, at step 0. */
static void make_trainer(ff_trainer *t, const ff_train_settings *s)
{
    CU_ASSERT_EQUAL_FATAL(ff_trainer_create(&ctx, t, &s->trainer), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_model_initialise(&ctx, &t->model.parameters, 3), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_trainer_start(&ctx, t), FF_OK);
}

/* Steps from where the trainer stands; their losses. */
static ff_status run_steps(ff_trainer *t, const ff_train_settings *s, int64_t count, double *losses, ff_trainer_report *last)
{
    ff_samples *samples = NULL;
    ff_status status = FF_OK;
    FF_TRY_DONE(ff_samples_create(&ctx, &samples, &s->samples, &source, NULL, t->step));
    for (int64_t k = 0; k < count; k++) {
        FF_TRY_DONE(ff_trainer_step(&ctx, t, samples, &s->samples, last));
        if (losses != NULL)
            losses[k] = last->parts.total;
    }
done:
    ff_samples_destroy(samples);
    return status;
}

static bool same_state(const ff_trainer *a, const ff_trainer *b)
{
    const size_t bytes = (size_t)a->optimizer.total * sizeof(float);
    return a->step == b->step && a->optimizer.step == b->optimizer.step && a->skipped == b->skipped &&
           memcmp(a->model.parameters.values, b->model.parameters.values, bytes) == 0 &&
           memcmp(a->optimizer.first, b->optimizer.first, bytes) == 0 &&
           memcmp(a->optimizer.second, b->optimizer.second, bytes) == 0 &&
           memcmp(a->optimizer.ema, b->optimizer.ema, bytes) == 0;
}

/* ---- draws ---- */

static void test_recycles_are_uniform_and_shared_by_a_step(void)
{
    enum { STEPS = 3000 };
    const ff_train_settings s = train_settings(&ctx);
    int64_t count[3] = {0};
    for (int64_t k = 0; k < STEPS; k++) {
        const int64_t r = ff_samples_num_recycle(&s.samples, k);
        CU_ASSERT_FATAL(r >= 0 && r <= 2);
        count[r]++;
    }
    for (int r = 0; r < 3; r++) /* 1000 +- five standard deviations of sqrt(3000 * 1/3 * 2/3) = 26 */
        CU_ASSERT(labs((long)count[r] - STEPS / 3) < 130);
    ff_samples_options o = s.samples;
    o.batch_size = 3;
    ff_samples *samples;
    CU_ASSERT_EQUAL_FATAL(ff_samples_create(&ctx, &samples, &o, &source, NULL, 1), FF_OK);
    for (int64_t draw = 3; draw < 12; draw++) {
        ff_array_set batch;
        ff_loader_draw got;
        const char *name;
        CU_ASSERT_EQUAL(ff_samples_next(&ctx, samples, &batch, &got, &name), FF_OK);
        CU_ASSERT_EQUAL(got.number, draw);
        CU_ASSERT_EQUAL(ff_array_find(&batch, "msa_feat")->shape[0], ff_samples_num_recycle(&o, draw / 3) + 1);
        CU_ASSERT_PTR_NOT_NULL(ff_array_find(&batch, "rigidgroups_gt_frames"));
        ff_array_set_destroy(&batch);
    }
    ff_samples_destroy(samples);
}

static void test_three_quarters_of_the_draws_are_distillation(void)
{
    enum { DRAWS = 400 };
    ff_train_settings s = train_settings(&ctx);
    train_chains others;
    ff_chain_source one = train_source(&chains, 1), second = train_source(&others, TRAIN_CHAINS);
    ff_samples *samples;
    int64_t distilled = 0;
    s.samples.process.num_recycle = 0;
    CU_ASSERT_EQUAL_FATAL(ff_samples_create(&ctx, &samples, &s.samples, &one, &second, 0), FF_OK);
    for (int64_t k = 0; k < DRAWS; k++) {
        ff_array_set batch;
        ff_loader_draw draw;
        const char *name;
        CU_ASSERT_EQUAL(ff_samples_next(&ctx, samples, &batch, &draw, &name), FF_OK);
        CU_ASSERT_EQUAL(ff_array_find(&batch, "seq_mask")->shape[1], 9 + (draw.record < 1 ? 0 : draw.record - 1));
        distilled += draw.record >= 1;
        ff_array_set_destroy(&batch);
    }
    ff_samples_destroy(samples);
    CU_ASSERT(labs((long)distilled - 300) < 45); /* five standard deviations of sqrt(400 * 3/16) = 8.7 */
}

/* ---- steps ---- */

static void test_the_loss_of_a_chain_falls(void)
{
    ff_train_settings s = train_settings(&ctx);
    ff_trainer t;
    ff_trainer_report r;
    double losses[40];
    source.num_records = 1;
    s.samples.process.num_recycle = 0;
    s.samples.process.clamp_prob = 0;
    s.trainer.dropout = false;
    make_trainer(&t, &s);
    CU_ASSERT_EQUAL(run_steps(&t, &s, 40, losses, &r), FF_OK);
    CU_ASSERT(losses[39] < 0.8 * losses[0]);
    CU_ASSERT_EQUAL(t.step, 40);
    CU_ASSERT_EQUAL(t.optimizer.step, 40);
    CU_ASSERT_STRING_EQUAL(r.name, "1abc_A");
    ff_trainer_destroy(&t);
}

/* Each sample is clipped, then they are averaged: by hand from the gradients of the samples alone. */
static void test_a_batch_averages_clipped_samples(void)
{
    ff_train_settings s = train_settings(&ctx);
    ff_trainer one, t;
    ff_trainer_report r;
    s.trainer.optimizer.beta1 = 0; /* the first moment is then the gradient of the step */
    make_trainer(&one, &s);
    const int64_t n = one.optimizer.total;
    float *mean = calloc((size_t)n, sizeof *mean);
    ff_samples_options pair = s.samples;
    pair.batch_size = 2;
    ff_samples *samples;
    CU_ASSERT_EQUAL_FATAL(ff_samples_create(&ctx, &samples, &pair, &source, NULL, 0), FF_OK);
    for (int64_t k = 0; k < 2; k++) {
        ff_array_set batch;
        ff_loader_draw draw;
        const char *name;
        ff_trainer_report unused = {0};
        CU_ASSERT_EQUAL(ff_samples_next(&ctx, samples, &batch, &draw, &name), FF_OK);
        CU_ASSERT_EQUAL(ff_trainer_gradient(&ctx, &one, &batch, draw.number, &unused), FF_OK);
        const double norm = ff_gradient_norm(one.model.parameters.grads, n);
        CU_ASSERT(norm > 0.1);
        for (int64_t i = 0; i < n; i++)
            mean[i] += (float)(0.5 * 0.1 / norm) * one.model.parameters.grads[i];
        ff_parameters_zero_grads(&one.model.parameters);
        ff_array_set_destroy(&batch);
    }
    ff_samples_destroy(samples);
    ff_trainer_destroy(&one);
    s.samples.batch_size = s.trainer.batch_size = 2;
    make_trainer(&t, &s);
    CU_ASSERT_EQUAL(run_steps(&t, &s, 1, NULL, &r), FF_OK);
    CU_ASSERT_EQUAL(r.num_samples, 2);
    FF_CHECK_CLOSE(t.optimizer.first, mean, n, 1e-5, 1e-9);
    ff_trainer_destroy(&t);
    free(mean);
}

static void test_recomputed_blocks_give_the_same_gradients(void)
{
    const ff_train_settings s = train_settings(&ctx);
    float *first = NULL;
    size_t peaks[3];
    for (int way = 0; way < 3; way++) { /* nothing, all but one block, all blocks recomputed */
        ff_train_settings changed = s;
        ff_trainer t;
        ff_trainer_report r;
        changed.trainer.optimizer.beta1 = 0;
        changed.trainer.model.evoformer.checkpoint = way > 0;
        changed.trainer.model.evoformer.num_plain_block = way == 1;
        make_trainer(&t, &changed);
        ff_pool_reset_peak(ctx.pool);
        CU_ASSERT_EQUAL(run_steps(&t, &changed, 1, NULL, &r), FF_OK);
        peaks[way] = ff_pool_get_stats(ctx.pool).peak;
        if (first == NULL) {
            first = malloc((size_t)t.optimizer.total * sizeof *first);
            memcpy(first, t.optimizer.first, (size_t)t.optimizer.total * sizeof *first);
        }
        CU_ASSERT_EQUAL(memcmp(first, t.optimizer.first, (size_t)t.optimizer.total * sizeof *first), 0);
        ff_trainer_destroy(&t);
    }
    CU_ASSERT(peaks[2] <= peaks[1] && peaks[1] < peaks[0]); /* a block that is recomputed takes as much as one that is kept */
    free(first);
}

static void test_a_step_holds_little_more_than_it_uses(void)
{
    const ff_train_settings s = train_settings(&ctx);
    ff_trainer t;
    ff_trainer_report r;
    make_trainer(&t, &s);
    for (int k = 0; k < 3; k++) { /* chains of different lengths, different numbers of passes */
        CU_ASSERT_EQUAL(run_steps(&t, &s, 4, NULL, &r), FF_OK);
        const ff_pool_stats stats = ff_pool_get_stats(ctx.pool);
        CU_ASSERT(stats.reserved <= stats.peak / 4 * 5 + 4096);
    }
    ff_trainer_destroy(&t);
}

/* ---- what is skipped ---- */

static void test_a_gradient_that_is_not_finite_skips_its_step(void)
{
    const ff_train_settings s = train_settings(&ctx);
    ff_trainer t, before;
    ff_trainer_report r;
    source.num_records = 1;
    chains.fault[0] = 1;
    make_trainer(&t, &s);
    make_trainer(&before, &s);
    CU_ASSERT_EQUAL(run_steps(&t, &s, 1, NULL, &r), FF_OK);
    CU_ASSERT_TRUE(r.skipped);
    CU_ASSERT_EQUAL(t.skipped, 1);
    CU_ASSERT_EQUAL(t.optimizer.step, 0);
    CU_ASSERT_TRUE(log_says("step 1 is skipped: the loss or gradient of chain 1abc_A is not finite"));
    before.step = before.skipped = 1;
    CU_ASSERT_TRUE(same_state(&t, &before));
    chains.fault[0] = 0;
    CU_ASSERT_EQUAL(run_steps(&t, &s, 1, NULL, &r), FF_OK);
    CU_ASSERT_FALSE(r.skipped);
    CU_ASSERT_EQUAL(t.skipped_in_row, 0);
    CU_ASSERT_EQUAL(t.optimizer.step, 1);
    ff_trainer_destroy(&t);
    ff_trainer_destroy(&before);
}

static void test_too_many_skipped_steps_end_the_run(void)
{
    ff_train_settings s = train_settings(&ctx);
    ff_trainer t;
    ff_trainer_report r;
    source.num_records = 1;
    chains.fault[0] = 1;
    s.trainer.max_bad_steps = 3;
    make_trainer(&t, &s);
    CU_ASSERT_EQUAL(run_steps(&t, &s, 10, NULL, &r), FF_ERR_FORMAT);
    CU_ASSERT_EQUAL(t.step, 3);
    CU_ASSERT_PTR_NOT_NULL(strstr(ctx.message, "3 steps in a row gave no finite gradient, the last with chain 1abc_A"));
    ff_context_clear(&ctx);
    ff_trainer_destroy(&t);
}

/* Draws of a damaged record are left out of their batches; a step without any sample is skipped. */
static void test_a_damaged_record_is_left_out(void)
{
    ff_train_settings s = train_settings(&ctx);
    ff_trainer t;
    ff_trainer_report r;
    s.samples.batch_size = s.trainer.batch_size = TRAIN_CHAINS; /* an epoch: each chain once */
    chains.fault[2] = 2;
    make_trainer(&t, &s);
    CU_ASSERT_EQUAL(run_steps(&t, &s, 2, NULL, &r), FF_OK);
    CU_ASSERT_EQUAL(r.num_samples, TRAIN_CHAINS - 1);
    CU_ASSERT_EQUAL(t.bad_samples, 2);
    CU_ASSERT_EQUAL(t.skipped, 0);
    CU_ASSERT_TRUE(log_says("chain 3abc_A is left out: record 3abc_A is damaged"));
    for (int k = 0; k < TRAIN_CHAINS; k++)
        chains.fault[k] = 2;
    CU_ASSERT_EQUAL(run_steps(&t, &s, 1, NULL, &r), FF_OK);
    CU_ASSERT_TRUE(r.skipped);
    CU_ASSERT_EQUAL(t.optimizer.step, 2);
    ff_trainer_destroy(&t);
}

/* ---- the average ---- */

static void test_validation_reads_the_average_and_changes_nothing(void)
{
    const ff_train_settings s = train_settings(&ctx);
    ff_trainer t, kept;
    ff_trainer_report r;
    ff_validation of_average, of_weights;
    chains.fault[1] = 2;
    make_trainer(&t, &s);
    make_trainer(&kept, &s);
    CU_ASSERT_EQUAL(run_steps(&t, &s, 3, NULL, &r), FF_OK);
    CU_ASSERT_EQUAL(run_steps(&kept, &s, 3, NULL, &r), FF_OK);
    CU_ASSERT_EQUAL(ff_validate(&ctx, &of_average, &t, &source, &s.validation), FF_OK);
    CU_ASSERT_TRUE(same_state(&t, &kept));
    CU_ASSERT_EQUAL(of_average.num_chains, TRAIN_CHAINS);
    CU_ASSERT_EQUAL(of_average.num_failed, 1);
    CU_ASSERT_TRUE(of_average.chains[1].failed);
    CU_ASSERT_EQUAL(of_average.chains[0].num_res, 9);
    CU_ASSERT(of_average.mean.rmsd_ang > 0 && of_average.mean.lddt_ca > 0);
    ff_trainer_swap_average(&t);
    CU_ASSERT_EQUAL(ff_validate(&ctx, &of_weights, &t, &source, &s.validation), FF_OK);
    CU_ASSERT_NOT_EQUAL(of_average.loss, of_weights.loss);
    ff_validation_destroy(&of_average);
    ff_validation_destroy(&of_weights);
    ff_trainer_destroy(&t);
    ff_trainer_destroy(&kept);
}

/* ---- state on disk ---- */

static void test_a_run_goes_on_bit_for_bit(void)
{
    ff_train_settings s = train_settings(&ctx);
    ff_checkpoint_header header = {.step = 0}, read;
    ff_trainer whole, first, second;
    ff_trainer_report r;
    char *folder, path[512];
    double losses[8], again[8];
    s.samples.batch_size = s.trainer.batch_size = 2;
    s.samples.num_workers = 2;
    CU_ASSERT_EQUAL_FATAL(ff_make_temporary_folder(&ctx, &folder), FF_OK);
    snprintf(path, sizeof path, "%s/state.h5", folder);
    make_trainer(&whole, &s);
    CU_ASSERT_EQUAL(run_steps(&whole, &s, 8, losses, &r), FF_OK);
    make_trainer(&first, &s);
    CU_ASSERT_EQUAL(run_steps(&first, &s, 3, again, &r), FF_OK);
    CU_ASSERT_EQUAL(ff_checkpoint_set_number(&ctx, &header, "mine", 7), FF_OK);
    CU_ASSERT_EQUAL(ff_trainer_save(&ctx, &first, &header, path), FF_OK);
    make_trainer(&second, &s);
    CU_ASSERT_EQUAL(ff_trainer_load(&ctx, &second, &read, path), FF_OK);
    CU_ASSERT_TRUE(same_state(&first, &second));
    CU_ASSERT_EQUAL(ff_checkpoint_get_number(&read, "mine", 0), 7);
    CU_ASSERT_STRING_EQUAL(read.preset, "tiny");
    CU_ASSERT_EQUAL(run_steps(&second, &s, 5, again + 3, &r), FF_OK);
    CU_ASSERT_EQUAL(memcmp(losses, again, sizeof losses), 0);
    CU_ASSERT_TRUE(same_state(&whole, &second));
    CU_ASSERT_FALSE(same_state(&first, &second));
    ff_trainer_destroy(&whole);
    ff_trainer_destroy(&first);
    ff_trainer_destroy(&second);
    ff_remove_folder(folder);
    free(folder);
}

/* ---- the run folder ---- */

static void save_steps(const ff_run_folder *run, ff_trainer *t, int64_t first, int64_t last)
{
    const ff_checkpoint_header header = {.step = 0};
    for (t->step = first; t->step <= last; t->step++)
        CU_ASSERT_EQUAL(ff_run_folder_save(&ctx, run, t, &header), FF_OK);
}

/* Change a byte in the middle. */
static void damage(const ff_run_folder *run, const char *name)
{
    char path[FF_RUN_PATH_BYTES];
    FILE *file = fopen(ff_run_folder_path(run, name, path), "r+b");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    fseek(file, 20000, SEEK_SET);
    const int byte = fgetc(file);
    fseek(file, 20000, SEEK_SET);
    fputc(byte ^ 1, file);
    fclose(file);
}

static void test_damaged_checkpoints_fall_back_to_the_one_before(void)
{
    const ff_train_settings s = train_settings(&ctx);
    ff_run_folder run;
    ff_trainer t;
    ff_checkpoint_header header;
    char *folder;
    int64_t *steps, count;
    bool found;
    CU_ASSERT_EQUAL_FATAL(ff_make_temporary_folder(&ctx, &folder), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_run_folder_open(&ctx, &run, folder, NULL, 2, false), FF_OK);
    make_trainer(&t, &s);
    CU_ASSERT_EQUAL(ff_run_folder_load(&ctx, &run, &t, &header, &found), FF_OK);
    CU_ASSERT_FALSE(found);
    save_steps(&run, &t, 8, 11);
    CU_ASSERT_EQUAL(ff_run_folder_list(&ctx, &run, &steps, &count), FF_OK);
    CU_ASSERT_EQUAL_FATAL(count, 2);
    CU_ASSERT(steps[0] == 11 && steps[1] == 10);
    free(steps);
    CU_ASSERT_EQUAL(ff_run_folder_load(&ctx, &run, &t, &header, &found), FF_OK);
    CU_ASSERT(found && t.step == 11);
    damage(&run, "checkpoint_0000000011.h5");
    CU_ASSERT_EQUAL(ff_run_folder_load(&ctx, &run, &t, &header, &found), FF_OK);
    CU_ASSERT(found && t.step == 10);
    CU_ASSERT_TRUE(log_says("the checkpoint before it is taken"));
    damage(&run, "checkpoint_0000000010.h5");
    CU_ASSERT_EQUAL(ff_run_folder_load(&ctx, &run, &t, &header, &found), FF_ERR_FORMAT);
    ff_context_clear(&ctx);
    ff_run_folder_close(&run);
    CU_ASSERT_EQUAL(ff_run_folder_open(&ctx, &run, folder, NULL, 2, false), FF_ERR_ARG);
    CU_ASSERT_PTR_NOT_NULL(strstr(ctx.message, "holds a run already"));
    ff_context_clear(&ctx);
    ff_trainer_destroy(&t);
    ff_remove_folder(folder);
    free(folder);
}

static void test_one_process_trains_in_a_folder_and_cleans_up(void)
{
    ff_run_folder run, second;
    char *folder, unfinished[512], other[512];
    CU_ASSERT_EQUAL_FATAL(ff_make_temporary_folder(&ctx, &folder), FF_OK);
    snprintf(unfinished, sizeof unfinished, "%s/checkpoint_0000000003.h5.tmp123", folder);
    snprintf(other, sizeof other, "%s/notes.tmp12", folder);
    fclose(fopen(unfinished, "w"));
    fclose(fopen(other, "w"));
    CU_ASSERT_EQUAL(ff_run_folder_open(&ctx, &run, folder, NULL, 2, false), FF_OK);
    CU_ASSERT_NOT_EQUAL(access(unfinished, F_OK), 0);
    CU_ASSERT_EQUAL(access(other, F_OK), 0);
    CU_ASSERT_EQUAL(ff_run_folder_open(&ctx, &second, folder, NULL, 2, false), FF_ERR_IO);
    CU_ASSERT_PTR_NOT_NULL(strstr(ctx.message, "another process trains in"));
    ff_context_clear(&ctx);
    ff_run_folder_close(&second);
    ff_run_folder_close(&run);
    CU_ASSERT_EQUAL(ff_run_folder_open(&ctx, &run, folder, NULL, 2, false), FF_OK);
    ff_run_folder_close(&run);
    ff_remove_folder(folder);
    free(folder);
}

static void test_metrics_of_lost_steps_go(void)
{
    ff_run_folder run;
    char *folder, text[256];
    CU_ASSERT_EQUAL_FATAL(ff_make_temporary_folder(&ctx, &folder), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_run_folder_open(&ctx, &run, folder, NULL, 2, true), FF_OK);
    CU_ASSERT_EQUAL(ff_run_folder_begin_metrics(&ctx, &run, 0), FF_OK);
    fputs("{\"kind\": \"train\", \"step\": 10, \"a\": 1}\n{\"kind\": \"train\", \"step\": 20}\n{\"step\": 5, \"cut", run.lines);
    char path[FF_RUN_PATH_BYTES];
    snprintf(path, sizeof path, "%s", run.metrics);
    ff_run_folder_close(&run);
    CU_ASSERT_EQUAL_FATAL(ff_run_folder_open(&ctx, &run, folder, NULL, 2, true), FF_OK);
    CU_ASSERT_EQUAL(ff_run_folder_begin_metrics(&ctx, &run, 10), FF_OK);
    fputs("{\"step\": 11}\n", run.lines);
    ff_run_folder_close(&run);
    FILE *file = fopen(path, "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    CU_ASSERT_STRING_EQUAL(text, "{\"kind\": \"train\", \"step\": 10, \"a\": 1}\n{\"step\": 11}\n");
    ff_remove_folder(folder);
    free(folder);
}

static CU_TestInfo tests[] = {
    {"recycles_are_uniform_and_shared_by_a_step", test_recycles_are_uniform_and_shared_by_a_step},
    {"three_quarters_of_the_draws_are_distillation", test_three_quarters_of_the_draws_are_distillation},
    {"the_loss_of_a_chain_falls", test_the_loss_of_a_chain_falls},
    {"a_batch_averages_clipped_samples", test_a_batch_averages_clipped_samples},
    {"recomputed_blocks_give_the_same_gradients", test_recomputed_blocks_give_the_same_gradients},
    {"a_step_holds_little_more_than_it_uses", test_a_step_holds_little_more_than_it_uses},
    {"a_gradient_that_is_not_finite_skips_its_step", test_a_gradient_that_is_not_finite_skips_its_step},
    {"too_many_skipped_steps_end_the_run", test_too_many_skipped_steps_end_the_run},
    {"a_damaged_record_is_left_out", test_a_damaged_record_is_left_out},
    {"validation_reads_the_average_and_changes_nothing", test_validation_reads_the_average_and_changes_nothing},
    {"a_run_goes_on_bit_for_bit", test_a_run_goes_on_bit_for_bit},
    {"damaged_checkpoints_fall_back_to_the_one_before", test_damaged_checkpoints_fall_back_to_the_one_before},
    {"one_process_trains_in_a_folder_and_cleans_up", test_one_process_trains_in_a_folder_and_cleans_up},
    {"metrics_of_lost_steps_go", test_metrics_of_lost_steps_go},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_train_trainer = {"train/trainer", NULL, NULL, set_up, tear_down, tests};
