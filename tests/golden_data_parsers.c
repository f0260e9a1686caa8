/* golden_data_parsers.c - reference outputs of the text readers: FASTA, alignments, template hits, tables. */
#include <stdlib.h>
#include <string.h>

#include "data/parse.h"
#include "tests/golden_data.h"

/* The input file of "fasta/fasta|one.fasta". */
static void input_path(const golden_data *g, const char *group, char path[1024])
{
    const char *slash = strchr(group, '/');
    golden_data_path(g, slash == NULL ? group : slash + 1, path, 1024);
}

/* Parse the group's file; where the reference refused it (ok = 0), so must we. True when there is a result to compare. */
static bool parse_like_reference(golden_data *g, const char *group, ff_parsed *parsed,
                                 ff_status (*parse)(ff_ctx *, ff_parsed *, const char *, const ff_parse_options *),
                                 const ff_parse_options *options, ff_status *status)
{
    char path[1024];
    input_path(g, group, path);
    ff_parsed_init(parsed);
    *status = parse(g->ctx, parsed, path, options);
    if (golden_data_number(g, group, "ok", 1) != 0)
        return *status == FF_OK;
    golden_data_check(g, "refused", *status == FF_ERR_FORMAT, "the reference refuses this file, we do not");
    if (*status == FF_ERR_FORMAT) {
        *status = FF_OK;
        ff_context_clear(g->ctx);
    }
    return false;
}

/* Attribute `name` of the reference is there with us, and equal where it is a number; without one, none of ours. */
static void check_attribute(golden_data *g, const char *group, const ff_parsed *parsed, const char *name)
{
    char *text = golden_data_text(g, group, name);
    const double number = golden_data_number(g, group, name, -12345);
    const ff_attribute *own = ff_parsed_find(parsed, "/", name);
    const bool wanted = text != NULL || number != -12345;
    if (wanted || own != NULL)
        golden_data_check(g, name, wanted && own != NULL && (text != NULL || own->number == number),
                          "%s here, %s in the reference", own == NULL ? "absent" : "present",
                          wanted ? "present or another number" : "absent");
    free(text);
}

static ff_status run_fasta(golden_data *g, const char *group)
{
    const ff_parse_options options = {true, NULL};
    ff_parsed parsed;
    ff_status status;
    if (parse_like_reference(g, group, &parsed, ff_parse_fasta, &options, &status)) {
        golden_data_compare(g, group, &parsed.arrays, 0);
        static const char *const names[] = {"num",           "aatype_0_error", "aatype_1_error",
                                            "aatype_2_error", "aatype_3_error", "aatype_4_error"};
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            check_attribute(g, group, &parsed, names[i]);
    }
    ff_parsed_destroy(&parsed);
    return status;
}

const golden_data_kind golden_data_parser_kinds[] = {{"data_parsers", "fasta", 1, run_fasta}, {NULL, NULL, 0, NULL}};
