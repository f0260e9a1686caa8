/* hits.h - template hits, as the hhsearch and hmmsearch readers leave them. */
#ifndef FF_DATA_HITS_H
#define FF_DATA_HITS_H

#include "io/text_buffer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    int64_t line;  /* where it begins in the file */
    int32_t index; /* its number in the file, from 1 */
    const char *name;         /* "2crb_A", perhaps with text behind it (hhsearch: all after `>`) */
    int32_t aligned_cols;     /* columns in which both have a residue */
    float sum_probs;          /* 0 for hmmsearch */
    const char *query;        /* hhsearch: aligned part with `-`; hmmsearch: the whole query */
    const char *hit_sequence; /* aligned part with `-`, upper case */
    const int32_t *indices_query, *indices_hit; /* 0-based residue numbers by column, -1 = gap */
    int64_t num_query, num_hit;                 /* of those; equal for hhsearch */
} ff_template_hit;

typedef struct {
    char *path;
    ff_template_hit *hits; /* [count], in the order of the file */
    int64_t count;
    /* what the members of hits point into */
    ff_text_buffer text;
    int32_t *indices;
    int64_t num_indices, index_capacity, hit_capacity;
} ff_template_hits;

void ff_template_hits_destroy(ff_template_hits *hits); /* empty afterwards, as {0} */

/* ---- for readers: while they read, members that point hold offsets ---- */

/** One hit as offsets: texts into `text`, indices into `indices`. */
typedef struct {
    int64_t name, query, hit_sequence, indices_query, indices_hit;
} ff_hit_offsets;

typedef struct {
    ff_template_hits hits;
    ff_hit_offsets *offsets; /* [hits.count] */
    int64_t offset_capacity;
} ff_hits_builder;

/** Append a hit whose texts and indices are in place; pointers in `hit` are ignored. */
ff_status ff_hits_builder_add(ff_ctx *ctx, ff_hits_builder *builder, const ff_template_hit *hit,
                              const ff_hit_offsets *offsets);
/** Append a text and its '\0'. @param at  out  its offset */
ff_status ff_hits_builder_text(ff_ctx *ctx, ff_hits_builder *builder, const char *text, int64_t length, int64_t *at);
/** Append the numbers of the residues of an aligned sequence: `-` gives -1, upper case the number, lower case none,
 * though it counts. */
ff_status ff_hits_builder_indices(ff_ctx *ctx, ff_hits_builder *builder, const char *sequence, int64_t length,
                                  int32_t start);
/** Move the result to `hits`; the builder is empty afterwards, also on failure. */
ff_status ff_hits_builder_finish(ff_ctx *ctx, ff_hits_builder *builder, const char *path, ff_template_hits *hits);
void ff_hits_builder_destroy(ff_hits_builder *builder);

#ifdef __cplusplus
}
#endif
#endif
