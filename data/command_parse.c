/* command_parse.c - fastfold-data parse: read files of one kind, and write what was read or say it in a line. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "data/command.h"
#include "data/parse.h"

#define KINDS "fasta, query, a3m, sto, hhr, hmmsearch, tblout, mmcif, pdb"
static const ff_parse_kind kinds[] = { /* in the order of KINDS, which is for people */
    {"fasta", ff_parse_fasta},
    {"query", ff_parse_queries},
    {"a3m", ff_parse_a3m},
    {"sto", ff_parse_stockholm},
    {"hhr", ff_parse_hhr},
    {"hmmsearch", ff_parse_hmmsearch},
    {"tblout", ff_parse_tblout},
    {"mmcif", ff_parse_mmcif},
    {"pdb", ff_parse_pdb},
};
enum { NUM_KINDS = sizeof kinds / sizeof *kinds };

typedef struct {
    const char *as, *output, *query;
    bool alphafold_compatible;
} parse_options;

static const ff_option table[] = {
    {"as", FF_OPTION_STRING, offsetof(parse_options, as), NULL, NULL, "Input", "kind of the files: " KINDS},
    {"query", FF_OPTION_STRING, offsetof(parse_options, query), NULL, NULL, "Input",
     "FASTA file whose first sequence hmmsearch hits are numbered along"},
    {"alphafold-compatible", FF_OPTION_FLAG, offsetof(parse_options, alphafold_compatible), NULL, NULL, "Input",
     "refuse what AlphaFold refuses"},
    {"o", FF_OPTION_STRING, offsetof(parse_options, output), NULL, NULL, "Output",
     "HDF5 file for all that was read (one FILE); without it each FILE gives one line"},
    FF_OPTION_END};

static const ff_parse_kind *find_kind(const char *name)
{
    for (int i = 0; i < NUM_KINDS; i++)
        if (name != NULL && strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    return NULL;
}

static ff_status parse_one(ff_ctx *ctx, const parse_options *o, const ff_parse_kind *kind, const char *path)
{
    const ff_parse_options options = {o->alphafold_compatible, o->query};
    ff_parsed parsed;
    ff_parsed_init(&parsed);
    ff_status status = kind->parse(ctx, &parsed, path, &options);
    if (status == FF_OK && o->output != NULL)
        status = ff_parsed_write(ctx, &parsed, o->output, kind->name, path);
    if (status == FF_OK)
        printf("read     %s  %s: %s\n", path, kind->name, parsed.summary);
    ff_parsed_destroy(&parsed);
    return status;
}

static int run(ff_ctx *ctx, const void *options, const ff_arguments *args)
{
    const parse_options *o = options;
    const ff_parse_kind *kind = find_kind(o->as);
    if (kind == NULL)
        return ff_command_usage(ctx, "--as needs one of " KINDS "%s%s", o->as == NULL ? "" : ", not ",
                                o->as == NULL ? "" : o->as);
    if (args->num_positional == 0)
        return ff_command_usage(ctx, "no file given; see --help");
    if (o->output != NULL && args->num_positional > 1)
        return ff_command_usage(ctx, "-o takes one FILE, %d were given", args->num_positional);
    if (o->output != NULL)
        return parse_one(ctx, o, kind, args->positional[0]) == FF_OK ? FF_EXIT_DONE : FF_EXIT_FAILED;
    int refused = 0; /* each is a line of the table, so no list at the end */
    for (int i = 0; i < args->num_positional; i++) {
        if (parse_one(ctx, o, kind, args->positional[i]) == FF_OK)
            continue;
        printf("refused  %s  %s: %s\n", args->positional[i], kind->name, ctx->message);
        ff_context_clear(ctx);
        refused++;
    }
    if (refused > 0)
        FF_FAIL(ctx, FF_ERR_FORMAT, "%d of %d files refused", refused, args->num_positional);
    return refused > 0 ? FF_EXIT_FAILED : FF_EXIT_DONE;
}

const ff_command ff_command_parse = {"parse",
                                     "read files of one kind, and write what is in them as HDF5",
                                     {"fastfold-data parse", "FILE... --as KIND [-o OUT.h5] [options]",
                                      "Reads each FILE (plain or gzip, - is standard input) as the kind given. Lines "
                                      "with file and line number say what is\n"
                                      "wrong with those that are refused; the exit status is then 1. `query` is FASTA "
                                      "as it is taken for a prediction: with\n"
                                      "notes about what was changed, and refusing what cannot be predicted.",
                                      table},
                                     sizeof(parse_options),
                                     run};
