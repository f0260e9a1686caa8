/* parse.h - what a reader made of one file, as named arrays and attributes: the groups and names of the reference file
 * data_parsers.h5. `fastfold-data parse` writes it; golden_check compares it. */
#ifndef FF_DATA_PARSE_H
#define FF_DATA_PARSE_H

#include "io/arrays.h"
#include "io/text_buffer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    char *object; /* group or array the attribute belongs to, "/" = the file */
    char *name;
    char *text; /* NULL = `number` */
    double number;
} ff_attribute;

typedef struct {
    ff_array_set arrays;
    ff_attribute *attributes; /* in the order they were put */
    int64_t num_attributes;
    char summary[400]; /* one phrase: "3 sequences, 168 residues" */
} ff_parsed;

void ff_parsed_init(ff_parsed *parsed);
void ff_parsed_destroy(ff_parsed *parsed);
ff_status ff_parsed_put_number(ff_ctx *ctx, ff_parsed *parsed, const char *object, const char *name, double number);
ff_status ff_parsed_put_text(ff_ctx *ctx, ff_parsed *parsed, const char *object, const char *name, const char *text);
/** NULL when it was not put. */
const ff_attribute *ff_parsed_find(const ff_parsed *parsed, const char *object, const char *name);
/** A text array of every entry of a list. */
ff_status ff_parsed_put_texts(ff_ctx *ctx, ff_parsed *parsed, const char *name, const ff_text_list *list);
/** Write arrays and attributes to a new file, with attributes `format` and `source` (the path that was read). */
ff_status ff_parsed_write(ff_ctx *ctx, const ff_parsed *parsed, const char *path, const char *format,
                          const char *source);

typedef struct {
    bool alphafold_compatible; /* refuse what AlphaFold refuses */
    const char *query;         /* FASTA file; hmmsearch hits are numbered along its first sequence */
} ff_parse_options;

/** A kind of file: `parse` fills `parsed`; FF_ERR_FORMAT, FF_ERR_IO with file and line in the message. */
typedef struct {
    const char *name;
    ff_status (*parse)(ff_ctx *ctx, ff_parsed *parsed, const char *path, const ff_parse_options *options);
} ff_parse_kind;

/* parse_sequences.c */
ff_status ff_parse_fasta(ff_ctx *ctx, ff_parsed *parsed, const char *path, const ff_parse_options *options);
/** FASTA records as they would be taken for a query (data/fasta.h): sequences, descriptions, notes. */
ff_status ff_parse_queries(ff_ctx *ctx, ff_parsed *parsed, const char *path, const ff_parse_options *options);
ff_status ff_parse_a3m(ff_ctx *ctx, ff_parsed *parsed, const char *path, const ff_parse_options *options);
ff_status ff_parse_stockholm(ff_ctx *ctx, ff_parsed *parsed, const char *path, const ff_parse_options *options);
/* parse_hits.c */
ff_status ff_parse_hhr(ff_ctx *ctx, ff_parsed *parsed, const char *path, const ff_parse_options *options);
ff_status ff_parse_hmmsearch(ff_ctx *ctx, ff_parsed *parsed, const char *path, const ff_parse_options *options);
ff_status ff_parse_tblout(ff_ctx *ctx, ff_parsed *parsed, const char *path, const ff_parse_options *options);
/* parse_structures.c */
ff_status ff_parse_mmcif(ff_ctx *ctx, ff_parsed *parsed, const char *path, const ff_parse_options *options);
ff_status ff_parse_pdb(ff_ctx *ctx, ff_parsed *parsed, const char *path, const ff_parse_options *options);

#ifdef __cplusplus
}
#endif
#endif
