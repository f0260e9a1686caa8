/* main_train.c - fastfold-train. */
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "model/initialise.h"
#include "model/weights.h"
#include "tensor/pool.h"
#include "train/train_options.h"

static ff_status open_source(ff_ctx *ctx, ff_chain_source *source, const ff_train_options *o, const ff_train_settings *s)
{
    if (o->overfit != NULL && o->data != NULL)
        return ff_chain_source_open_dataset(ctx, source, o->data, &s->filter, o->overfit);
    if (o->overfit == NULL)
        return ff_chain_source_open_dataset(ctx, source, o->data, &s->filter, NULL);
    char path[4096];
    snprintf(path, sizeof path, "%s", o->overfit);
    char *colon = strrchr(path, ':');
    if (colon != NULL)
        *colon++ = '\0';
    return ff_chain_source_open_structure(ctx, source, path, colon);
}

static ff_status run(ff_ctx *ctx, ff_train_options *o)
{
    ff_status status = FF_OK;
    ff_train_settings s;
    ff_chain_source source = {0};
    ff_samples *samples = NULL;
    ff_trainer t = {0};
    FF_TRY_DONE(ff_train_resolve(ctx, o, &s));
    FF_TRY_DONE(ff_kernels_get(ctx, &ctx->kernels, FF_BACKEND_CPU, FF_ISA_NONE, (ff_dtype)o->dtype));
    FF_TRY_DONE(ff_pool_create(ctx, 0, false));
    FF_TRY_DONE(open_source(ctx, &source, o, &s));
    FF_TRY_DONE(ff_trainer_create(ctx, &t, &s.trainer));
    FF_TRY_DONE(ff_model_initialise(ctx, &t.model.parameters, (uint64_t)o->seed));
    FF_TRY_DONE(ff_trainer_start(ctx, &t));
    FF_TRY_DONE(ff_samples_create(ctx, &samples, &s.samples, &source, NULL, 0));
    double wait = 0, forward = 0, backward = 0, update = 0, total = 0;
    while (t.step < s.steps) {
        ff_trainer_report r;
        FF_TRY_DONE(ff_trainer_step(ctx, &t, samples, &s.samples, &r));
        wait += r.wait_s, forward += r.forward_s, backward += r.backward_s, update += r.update_s, total += r.total_s;
        if (t.step % o->log_every == 0) {
            FF_INFO(ctx,
                    "step %lld loss %.4f fape %.4f last %.4f side %.4f chi %.4f dist %.4f plddt %.4f viol %.4f anyviol %.3f lddt "
                    "%.4f norm %.4f lr %.2e | ms wait %.2f fwd %.2f bwd %.2f upd %.2f total %.2f",
                    (long long)t.step, r.parts.total, r.parts.backbone_fape, r.parts.backbone_fape_last, r.parts.sidechain_fape,
                    r.parts.torsion.chi, r.parts.distogram, r.parts.plddt, r.parts.violation.loss, r.parts.violation.fraction_any,
                    r.parts.lddt_ca, r.gradient_norm, r.learning_rate, wait * 1e3 / o->log_every, forward * 1e3 / o->log_every,
                    backward * 1e3 / o->log_every, update * 1e3 / o->log_every, total * 1e3 / o->log_every);
            wait = forward = backward = update = total = 0;
        }
    }
done:
    ff_samples_destroy(samples);
    ff_trainer_destroy(&t);
    ff_chain_source_close(&source);
    if (ctx->pool != NULL)
        ff_pool_destroy(ctx);
    return status;
}

int main(int argc, char **argv)
{
    ff_ctx ctx;
    ff_train_options o;
    ff_train_texts texts = {{NULL}};
    ff_arguments args;
    ff_context_init(&ctx);
    ff_status status = ff_train_options_read(&ctx, &o, &texts, argc, argv, &args);
    if (status == FF_OK && (args.help || args.version)) {
        (args.help ? ff_options_print_help : ff_options_print_version)(&ff_train_program, stdout);
        return 0;
    }
    if (status == FF_OK && o.threads > 0)
        omp_set_num_threads((int)o.threads);
    if (status == FF_OK)
        status = run(&ctx, &o);
    if (status != FF_OK)
        fprintf(stderr, "fastfold-train: %s\n", ctx.message);
    ff_train_texts_free(&texts);
    return status == FF_OK ? 0 : status == FF_ERR_ARG ? 2 : 1;
}
