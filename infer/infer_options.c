/* Contents: the table; options of other programs; the command line. */
#include "infer/infer_options.h"

#include <stdlib.h>
#include <string.h>

/* Templates found for a target, as AlphaFold; a model uses the first four of them. */
enum { FF_INFER_MAX_TEMPLATES = 20 };

#define AT(member) offsetof(ff_infer_options, member)
static const ff_option table[] = {
    {"weights", FF_OPTION_LIST, AT(weights), NULL, NULL, "Model",
     "AlphaFold .npz, checkpoint .h5 or OpenFold .pt; given again = several models, ranked"},
    {"preset", FF_OPTION_LIST, AT(presets), NULL, NULL, "Model",
     "model_1 .. model_5, model_1_ptm .. model_5_ptm, small, tiny; one for each --weights (default: what the file fits)"},
    {"random-weights", FF_OPTION_FLAG, AT(random_weights), NULL, NULL, "Model",
     "numbers of no meaning instead of a weight file: to try the machinery"},
    {"num-recycle", FF_OPTION_INT64, AT(num_recycle), "-1", "-1..100", "Model",
     "passes after the first; -1 = as the preset (or the batch) has it"},
    {"recycle-tolerance", FF_OPTION_DOUBLE, AT(recycle_tolerance), "0", "0..", "Model",
     "stop recycling when CA distances change less than this, Å root mean square; 0 = never"},
    {"num-ensemble", FF_OPTION_INT64, AT(num_ensemble), "1", "1..64", "Model", "samples of the MSA averaged in a pass"},
    {"num-seq", FF_OPTION_INT64, AT(num_seq), "-1", "-1..", "Model", "most MSA rows; -1 = as the preset has it"},
    {"num-extra", FF_OPTION_INT64, AT(num_extra), "-1", "-1..", "Model", "most extra MSA rows"},
    {"max-templates", FF_OPTION_INT64, AT(max_templates), "-1", "-1..8", "Model", "most templates"},
    {"template-torsion-placeholder", FF_OPTION_INT64, AT(placeholder), "1", "0..1", "Model",
     "1: undefined template torsions are sin 1, cos 0 (repeatable); 0: what released AlphaFold makes of them"},
    {"seed", FF_OPTION_INT64, AT(seed), "0", "0..", "Model", "key of the rows drawn from the MSA"},
    {"num-seeds", FF_OPTION_INT64, AT(num_seeds), "1", "1..1000", "Model", "predictions by seed, seed + 1, ..., ranked"},
    {"blocks", FF_OPTION_INT64, AT(blocks), "0", "0..48", "Model", "run only so many Evoformer blocks (for benchmarks); 0 = all"},
    FF_FEATURE_INPUT_OPTIONS(ff_infer_options, make),
    FF_FEATURE_SEARCH_OPTIONS(ff_infer_options, make),
    {"alphafold-compatible", FF_OPTION_FLAG, AT(make.alphafold_compatible), NULL, NULL, "Input", "refuse what AlphaFold refuses"},
    {"features", FF_OPTION_STRING, AT(features), NULL, NULL, "Input", "features.h5 of fastfold-data instead of a sequence"},
    {"batch", FF_OPTION_STRING, AT(batch), NULL, NULL, "Input", "FILE.h5 or FILE.h5:/GROUP, arrays as the model reads them"},
    {"dtype", FF_OPTION_ENUM, AT(dtype), "f32", "f32|bf16", "Machine", "type of matrix-product operands"},
    {"backend", FF_OPTION_ENUM, AT(backend), "cpu", "cpu|emulated|cuda", "Machine", "where kernels run"},
    {"isa", FF_OPTION_ENUM, AT(isa), "best", "best|plain|avx2|avx512|avx512_bf16|amx", "Machine", "instruction set"},
    {"threads", FF_OPTION_INT64, AT(threads), "0", "0..4096", "Machine", "OpenMP threads, 0 = as the environment says"},
    {"max-memory", FF_OPTION_BYTES, AT(max_memory), NULL, "64M..", "Machine", "memory budget, like 20G; default: no limit"},
    {"plan", FF_OPTION_FLAG, AT(plan), NULL, NULL, "Machine", "only say what it takes"},
    {"output-dir", FF_OPTION_STRING, AT(output_dir), "predictions", NULL, "Output", "folder for a folder of each target"},
    {"o", FF_OPTION_STRING, AT(output_dir), "predictions", NULL, "Output", "the same in short"},
    {"overwrite", FF_OPTION_FLAG, AT(overwrite), NULL, NULL, "Output", "replace results that are there"},
    {"save-raw", FF_OPTION_FLAG, AT(save_raw), NULL, NULL, "Output", "result.h5 with all outputs of the model"},
    {"mmcif", FF_OPTION_FLAG, AT(mmcif), "on", NULL, "Output", "write ranked_N.cif (ModelCIF)"},
    {"report", FF_OPTION_FLAG, AT(report), "on", NULL, "Output", "write report.html"},
    {"b-factor", FF_OPTION_ENUM, AT(b_column), "plddt", "plddt|100-plddt", "Output", "what the B-factor column holds"},
    {"json-log", FF_OPTION_FLAG, AT(json_log), NULL, NULL, "Output", "log records as JSON lines"},
    FF_OPTION_END};

const ff_program ff_infer_program = {
    "fastfold-infer", "[options] INPUT...",
    "Predicts the structures of proteins. INPUT: FASTA file (every record is a target), A3M file (its first row), a folder of\n"
    "such files, or - for FASTA on standard input.",
    table};

/* What users of other programs ask for, and what to say to them. */
static const struct {
    const char *option, *answer;
} absent[] = {
    {"--relax", "relaxation is not in this version: ranked_N.pdb is the model's own structure; OpenMM or AMBER can relax it"},
    {"--relax-time", "relaxation is not in this version; OpenMM or AMBER can relax ranked_N.pdb"},
    {"--num-relax", "relaxation is not in this version; OpenMM or AMBER can relax ranked_N.pdb"},
    {"--models-to-relax", "relaxation is not in this version; OpenMM or AMBER can relax ranked_N.pdb"},
    {"--use-gpu-relax", "relaxation is not in this version; OpenMM or AMBER can relax ranked_N.pdb"},
    {"--amber", "relaxation is not in this version; OpenMM or AMBER can relax ranked_N.pdb"},
    {"--model", "the model is named by --preset, as in --preset model_1_ptm, or found from --weights FILE"},
    {"--model-preset", "the model is named by --preset, as in --preset model_1_ptm, or found from --weights FILE"},
    {"--model-type", "the model is named by --preset, as in --preset model_1_ptm, or found from --weights FILE"},
    {"--data-dir", "weights are given by --weights FILE, databases each by its option (--uniref90 FILE ...) or --databases FILE"},
    {"--fasta-paths", "FASTA files are given without an option: fastfold-infer [options] FILE..."},
    {"--num-multimer-predictions-per-model", "complexes are not in this version: it predicts single chains"},
};

/* "--use_gpu_relax=true" is --use-gpu-relax. */
static bool same_option(const char *argument, const char *option)
{
    for (; *argument != '\0' && *argument != '='; argument++, option++)
        if ((*argument == '_' ? '-' : *argument) != *option)
            return false;
    return *option == '\0';
}

/* A command line that did not parse: say more, where we know more. */
static void explain(ff_ctx *ctx, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const bool is_dtype = strncmp(argv[i], "--dtype=", 8) == 0 || strcmp(argv[i - 1], "--dtype") == 0;
        const char *type = strncmp(argv[i], "--dtype=", 8) == 0 ? argv[i] + 8 : argv[i];
        if (is_dtype && (strcmp(type, "fp16") == 0 || strcmp(type, "f16") == 0 || strcmp(type, "float16") == 0)) {
            ff_context_clear(ctx);
            FF_FAIL(ctx, FF_ERR_ARG, "--dtype %s is not in this version, for its range is too small for the model: use bf16 or f32",
                    type);
            return;
        }
        for (size_t k = 0; k < sizeof absent / sizeof *absent; k++)
            if (same_option(argv[i], absent[k].option) && strstr(ctx->message, "unknown option") != NULL) {
                ff_context_clear(ctx);
                FF_FAIL(ctx, FF_ERR_ARG, "%s: %s", absent[k].option, absent[k].answer);
                return;
            }
    }
}

/* What options say together. */
static ff_status check(ff_ctx *ctx, const ff_infer_options *o, const ff_arguments *args)
{
    const bool file_input = o->features != NULL || o->batch != NULL;
    const char *wrong = NULL;
    if (o->features != NULL && o->batch != NULL)
        wrong = "--features and --batch are both inputs; give one of them";
    else if (file_input && args->num_positional > 0)
        wrong = "--features and --batch stand in place of INPUT";
    else if (file_input && (o->make.msas.count > 0 || o->make.msa_dir != NULL || o->make.hhr != NULL))
        wrong = "--features and --batch hold alignments and templates already; leave out --msa, --msa-dir and --hhr";
    else if (!file_input && args->num_positional == 0)
        wrong = "nothing to predict: give a FASTA file";
    else if (o->presets.count > 0 && o->weights.count > 0 && o->presets.count != o->weights.count)
        wrong = "one --preset for each --weights, or none";
    else if (o->weights.count == 0 && o->random_weights && o->presets.count == 0)
        wrong = "--random-weights needs a --preset";
    else if (o->weights.count > 0 && o->random_weights)
        wrong = "--random-weights and --weights exclude each other";
    return wrong == NULL ? FF_OK : FF_FAIL(ctx, FF_ERR_ARG, "%s; --help lists the options", wrong);
}

ff_status ff_infer_options_read(ff_ctx *ctx, ff_infer_options *o, int argc, char **argv, ff_arguments *args)
{
    char **given = malloc((size_t)(argc + 1) * sizeof *given); /* parsing moves arguments */
    if (given == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory");
    memcpy(given, argv, (size_t)argc * sizeof *given);
    ff_status status = ff_options_parse(ctx, &ff_infer_program, o, argc, argv, args);
    if (status != FF_OK)
        explain(ctx, argc, given);
    else if (!args->help && !args->version)
        status = check(ctx, o, args);
    free(given);
    o->make.max_templates = FF_INFER_MAX_TEMPLATES;
    o->make.quiet_alone = true;
    return status;
}
