/* query_features.h - features.h5 of one query: alignment files and template hits, read, checked and put together. */
#ifndef FF_DATA_QUERY_FEATURES_H
#define FF_DATA_QUERY_FEATURES_H

#include "data/templates.h"
#include "io/arrays.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An alignment file of a query. */
typedef struct {
    const char *path;
    int64_t max_seq; /* rows to read; 0 = all */
    bool searched;   /* its first row is the query, named "query" */
} ff_query_msa;

typedef struct {
    const char *description; /* of the FASTA record */
    const char *sequence;
    const ff_query_msa *msas; /* [num_msas] in the order of their rows; none: the query alone */
    int64_t num_msas;
    const char *hits;              /* .hhr or hmmsearch's Stockholm; NULL = no search for templates was done */
    ff_template_source *templates; /* where structures come from; NULL = no template features */
    bool alphafold_compatible;     /* first row as it is, no lenient reading */
    bool quiet_alone;              /* no warning about a query without an alignment */
} ff_query_input;

typedef struct {
    int64_t num_res, num_seq, num_templates;
} ff_query_counts;

/**
 * Add all features of a query. A first row that differs from the query gets the query put before it, with a warning
 * (AlphaFold takes it as it is).
 */
ff_status ff_query_features(ff_ctx *ctx, ff_array_set *set, const ff_query_input *input, ff_query_counts *counts);

/** Write features.h5: the arrays at the root, attributes fastfold_features (our version), and msa_files (one a
 * line). */
ff_status ff_query_features_write(ff_ctx *ctx, const ff_array_set *set, const ff_query_input *input,
                                  const char *path);

#ifdef __cplusplus
}
#endif
#endif
