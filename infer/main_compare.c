/* main_compare.c - fastfold-compare: how near a predicted structure is to the experimental one. */
#include <stddef.h>
#include <stdio.h>

#include "core/options.h"
#include "infer/compare.h"
#include "infer/json_writer.h"
#include "tensor/pool.h"

typedef struct {
    const char *model_chain, *chain;
    bool json;
} compare_options;

static const ff_option table[] = {
    {"model-chain", FF_OPTION_STRING, offsetof(compare_options, model_chain), NULL, NULL, "Input",
     "chain of MODEL (default: the first)"},
    {"chain", FF_OPTION_STRING, offsetof(compare_options, chain), NULL, NULL, "Input",
     "chain of EXPERIMENT (default: the one most like the model's)"},
    {"json", FF_OPTION_FLAG, offsetof(compare_options, json), NULL, NULL, "Output", "one JSON object"},
    FF_OPTION_END};

static const ff_program program = {
    "fastfold-compare", "MODEL EXPERIMENT [options]",
    "Compares the CA atoms of two PDB or mmCIF files, plain or gzip: lDDT, TM-score, GDT and RMSD over the residues that both\n"
    "have. Residues correspond by an alignment of the sequences; numbering and chain names need not agree.",
    table};

static void print_text(const ff_comparison *c)
{
    const ff_structure_metrics *m = &c->metrics;
    printf("residues     %lld of %lld resolved in chain %s compared, %.1f %% of them identical\n", (long long)c->num_compared,
           (long long)c->num_resolved, c->truth->id[0] == '\0' ? "(no id)" : c->truth->id,
           100.0 * (double)c->num_identical / (double)c->num_compared);
    printf("lDDT-CA      %.4f\nTM-score     %.4f\nGDT-TS       %.4f\nGDT-HA       %.4f\nRMSD-CA      %.3f A\ndRMSD-CA     %.3f A\n",
           m->lddt_ca, m->tm_score, m->gdt_ts, m->gdt_ha, m->rmsd_ang, m->drmsd_ang);
    printf("B column     %.2f mean of the model (its pLDDT, if it is a prediction)\n", c->mean_b);
}

static void print_json(const ff_comparison *c)
{
    const ff_structure_metrics *m = &c->metrics;
    ff_json json;
    ff_json_begin(&json, stdout, false);
    ff_json_object_begin(&json, NULL);
    ff_json_text(&json, "model_chain", c->model->id);
    ff_json_text(&json, "chain", c->truth->id);
    ff_json_integer(&json, "num_resolved", c->num_resolved);
    ff_json_integer(&json, "num_compared", c->num_compared);
    ff_json_integer(&json, "num_identical", c->num_identical);
    ff_json_number(&json, "lddt_ca", m->lddt_ca, 6);
    ff_json_number(&json, "tm_score", m->tm_score, 6);
    ff_json_number(&json, "gdt_ts", m->gdt_ts, 6);
    ff_json_number(&json, "gdt_ha", m->gdt_ha, 6);
    ff_json_number(&json, "rmsd_ang", m->rmsd_ang, 6);
    ff_json_number(&json, "drmsd_ang", m->drmsd_ang, 6);
    ff_json_number(&json, "mean_b", c->mean_b, 4);
    ff_json_object_end(&json);
    ff_json_end(&json);
}

static ff_status compare(ff_ctx *ctx, const compare_options *o, const char *model_path, const char *truth_path)
{
    ff_status status = FF_OK;
    ff_structure model = {0}, truth = {0};
    ff_comparison comparison;
    FF_TRY_DONE(ff_pool_create(ctx, 0, false));
    FF_TRY_DONE(ff_structure_read(ctx, &model, model_path, NULL));
    FF_TRY_DONE(ff_structure_read(ctx, &truth, truth_path, NULL));
    FF_TRY_DONE(ff_compare_structures(ctx, &comparison, &model, o->model_chain, &truth, o->chain));
    (o->json ? print_json : print_text)(&comparison);
done:
    ff_structure_destroy(&model);
    ff_structure_destroy(&truth);
    if (ctx->pool != NULL)
        ff_pool_destroy(ctx);
    return status;
}

int main(int argc, char **argv)
{
    compare_options o = {0};
    ff_ctx ctx;
    ff_arguments args;
    ff_context_init(&ctx);
    if (ff_options_parse(&ctx, &program, &o, argc, argv, &args) == FF_OK) {
        if (args.help || args.version) {
            (args.help ? ff_options_print_help : ff_options_print_version)(&program, stdout);
            return 0;
        }
        if (args.num_positional != 2)
            FF_FAIL(&ctx, FF_ERR_ARG, "a model and an experimental structure are needed, %d files were given; see --help",
                    args.num_positional);
        else
            compare(&ctx, &o, args.positional[0], args.positional[1]);
    }
    if (ctx.status != FF_OK)
        fprintf(stderr, "%s: %s\n", program.name, ctx.message);
    return ctx.status == FF_OK ? 0 : ctx.status == FF_ERR_ARG ? 2 : 1;
}
