/* golden_data_parsers.c - reference outputs of the text readers: FASTA, alignments, template hits, tables. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/msa.h"
#include "data/parse.h"
#include "data/stockholm.h"
#include "io/text_file.h"
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

/* Parse and compare: all arrays, and the attributes named (up to a NULL). */
static ff_status run_parse(golden_data *g, const char *group,
                           ff_status (*parse)(ff_ctx *, ff_parsed *, const char *, const ff_parse_options *),
                           const ff_parse_options *options, const char *const *attributes)
{
    ff_parsed parsed;
    ff_status status;
    if (parse_like_reference(g, group, &parsed, parse, options, &status)) {
        golden_data_compare(g, group, &parsed.arrays, 0);
        for (; *attributes != NULL; attributes++)
            check_attribute(g, group, &parsed, *attributes);
    }
    ff_parsed_destroy(&parsed);
    return status;
}

static ff_status run_fasta(golden_data *g, const char *group)
{
    static const ff_parse_options options = {true, NULL};
    static const char *const attributes[] = {"num",           "aatype_0_error", "aatype_1_error", "aatype_2_error",
                                             "aatype_3_error", "aatype_4_error", NULL};
    return run_parse(g, group, ff_parse_fasta, &options, attributes);
}

/* ---- alignments ---- */

static ff_status run_alignment(golden_data *g, const char *group)
{
    static const ff_parse_options options = {true, NULL};
    static const char *const attributes[] = {"num_seq", "aligned", "msa_ok", "msa_error", NULL}, *const none[] = {NULL};
    char *note = golden_data_text(g, group, "note"); /* a copy of another file, unpacked: nothing but `ok` is stored */
    const ff_status status = run_parse(g, group, strncmp(group, "a3m/", 4) == 0 ? ff_parse_a3m : ff_parse_stockholm,
                                       &options, note != NULL ? none : attributes);
    free(note);
    return status;
}

typedef struct {
    char *text;
    size_t size;
    const char *path;
} sto_source;

typedef struct {
    const char *name; /* the array, or with `_error` the attribute that says the reference refused */
    ff_status (*make)(ff_ctx *ctx, ff_text_buffer *out, const sto_source *source);
} sto_tool;

static ff_status tool_a3m(ff_ctx *ctx, ff_text_buffer *out, const sto_source *s)
{
    return ff_stockholm_to_a3m(ctx, out, s->path, s->text, s->size, 0, false);
}

static ff_status tool_a3m_max3(ff_ctx *ctx, ff_text_buffer *out, const sto_source *s)
{
    return ff_stockholm_to_a3m(ctx, out, s->path, s->text, s->size, 3, false);
}

static ff_status tool_a3m_keep_query_gaps(ff_ctx *ctx, ff_text_buffer *out, const sto_source *s)
{
    return ff_stockholm_to_a3m(ctx, out, s->path, s->text, s->size, 0, true);
}

static ff_status tool_dedup(ff_ctx *ctx, ff_text_buffer *out, const sto_source *s)
{
    return ff_stockholm_remove_duplicates(ctx, out, s->path, s->text, s->size);
}

static ff_status tool_no_empty_columns(ff_ctx *ctx, ff_text_buffer *out, const sto_source *s)
{
    return ff_stockholm_remove_empty_columns(ctx, out, s->path, s->text, s->size);
}

static ff_status tool_dedup_then_no_empty_columns(ff_ctx *ctx, ff_text_buffer *out, const sto_source *s)
{
    ff_text_buffer between = {NULL, 0, 0};
    ff_status status = tool_dedup(ctx, &between, s);
    if (status == FF_OK)
        status = ff_stockholm_remove_empty_columns(ctx, out, s->path, between.data, between.size);
    ff_text_buffer_destroy(&between);
    return status;
}

static ff_status tool_truncate_3(ff_ctx *ctx, ff_text_buffer *out, const sto_source *s)
{
    return ff_stockholm_truncate(ctx, out, s->path, s->text, s->size, 3);
}

static const sto_tool sto_tools[] = {
    {"a3m", tool_a3m},
    {"a3m_max3", tool_a3m_max3},
    {"a3m_keep_query_gaps", tool_a3m_keep_query_gaps},
    {"dedup", tool_dedup},
    {"no_empty_columns", tool_no_empty_columns},
    {"dedup_then_no_empty_columns", tool_dedup_then_no_empty_columns},
    {"truncate_3", tool_truncate_3},
};

/* One tool: its text, or that it refuses where the reference does. */
static ff_status run_sto_tool(golden_data *g, const char *group, const sto_tool *tool, const sto_source *source)
{
    char path[512], error_name[64];
    ff_text_buffer out = {NULL, 0, 0};
    ff_array_set got;
    snprintf(path, sizeof path, "/%s/%s", group, tool->name);
    snprintf(error_name, sizeof error_name, "%s_error", tool->name);
    char *error = golden_data_text(g, group, error_name);
    const bool is_there = ff_hdf5_exists(g->file, path);
    ff_status status = tool->make(g->ctx, &out, source);
    if (error != NULL) {
        golden_data_check(g, error_name, status == FF_ERR_FORMAT, "the reference refuses, we do not");
        ff_context_clear(g->ctx);
        status = FF_OK;
    } else if (status == FF_OK && is_there) {
        ff_array_set_init(&got);
        ff_array *array = ff_array_add(g->ctx, &got, tool->name, FF_ARRAY_TEXT, 0, NULL);
        if (array != NULL && ff_array_put_text(g->ctx, array, 0, out.data, out.size) == FF_OK)
            golden_data_compare_array(g, group, tool->name, array, 0);
        status = g->ctx->status;
        ff_array_set_destroy(&got);
    }
    free(error);
    ff_text_buffer_destroy(&out);
    return status;
}

static ff_status run_sto_tools(golden_data *g, const char *group)
{
    char path[1024];
    sto_source source = {.path = path};
    input_path(g, group, path);
    ff_status status = ff_text_read_all(g->ctx, path, &source.text, &source.size);
    for (size_t i = 0; status == FF_OK && i < sizeof sto_tools / sizeof *sto_tools; i++)
        status = run_sto_tool(g, group, &sto_tools[i], &source);
    free(source.text);
    return status;
}

static ff_status run_msa_identifiers(golden_data *g, const char *group)
{
    ff_array_set got;
    char path[512];
    ff_array_set_init(&got);
    snprintf(path, sizeof path, "/%s", group);
    ff_status status = ff_array_set_read(g->ctx, &got, g->file, path);
    const ff_array *description = ff_array_find(&got, "description");
    ff_array *species = ff_array_find(&got, "species_id"); /* replaced by ours */
    for (int64_t i = 0; status == FF_OK && description != NULL && species != NULL && i < species->size; i++) {
        char text[8];
        ff_msa_species(text, description->text[i]);
        status = ff_array_put_text(g->ctx, species, i, text, strlen(text));
    }
    if (status == FF_OK)
        golden_data_compare_array(g, group, "species_id", species, 0);
    ff_array_set_destroy(&got);
    return status;
}

/* ---- template hits and tables ---- */

static ff_status run_hhr(golden_data *g, const char *group)
{
    static const ff_parse_options options = {true, NULL};
    static const char *const attributes[] = {"num_hits", NULL};
    return run_parse(g, group, ff_parse_hhr, &options, attributes);
}

static ff_status run_hmmsearch(golden_data *g, const char *group)
{
    static const char *const attributes[] = {"num_hits", NULL};
    char query[1024]; /* the reference searched with this protein */
    golden_data_path(g, "fasta|smbp73.fasta", query, sizeof query);
    const ff_parse_options options = {true, query};
    return run_parse(g, group, ff_parse_hmmsearch, &options, attributes);
}

static ff_status run_tblout(golden_data *g, const char *group)
{
    char path[1024];
    char *source = golden_data_text(g, group, "source");
    ff_parsed parsed;
    ff_parsed_init(&parsed);
    golden_data_path(g, source == NULL ? "" : source, path, sizeof path);
    const ff_status status = ff_parse_tblout(g->ctx, &parsed, path, NULL);
    if (status == FF_OK)
        golden_data_compare(g, group, &parsed.arrays, 0);
    ff_parsed_destroy(&parsed);
    free(source);
    return status;
}

const golden_data_kind golden_data_parser_kinds[] = {
    {"data_parsers", "fasta", 1, run_fasta},
    {"data_parsers", "a3m", 1, run_alignment},
    {"data_parsers", "sto", 1, run_alignment},
    {"data_parsers", "sto_tools", 1, run_sto_tools},
    {"data_parsers", "hhr", 1, run_hhr},
    {"data_parsers", "hmmsearch", 1, run_hmmsearch},
    {"data_parsers", "tblout", 0, run_tblout},
    {"data_parsers", "msa_identifiers", 0, run_msa_identifiers},
    {NULL, NULL, 0, NULL}};
