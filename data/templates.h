/* templates.h - template features from hits and structure files, as AlphaFold makes them. T templates, N residues:
 *
 *   template_aatype [T,N,22]               one-hot, HHblits order; gap (21) where nothing is aligned
 *   template_all_atom_positions [T,N,37,3] Å; 0 where not aligned
 *   template_all_atom_masks [T,N,37]
 *   template_sequence, template_domain_names [T]  letters with `-`; pdbid_CHAIN
 *   template_sum_probs [T,1]               0 for hmmsearch
 *
 * A hit passes when more than a tenth of the query is aligned to it, it is not a copy of (nearly) the whole query,
 * and has ten residues at least. Its file is found by id, past obsolete entries; its date must not be after the
 * cut-off. The hit's sequence is looked for in the named chain, then exactly in the others, then with X standing for
 * any residue; a hit whose sequence is not there (another version of the entry) is realigned by kalign. Templates of
 * fewer than five atoms are dropped. Departures from AlphaFold: a file that is missing or damaged costs that hit
 * only; a residue that the realignment leaves without partner gets none (AlphaFold: the chain's last residue). */
#ifndef FF_DATA_TEMPLATES_H
#define FF_DATA_TEMPLATES_H

#include <signal.h>

#include "data/hits.h"
#include "data/obsolete.h"
#include "io/arrays.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { FF_MAX_TEMPLATES = 20 };

typedef struct {
    const char *folder;                  /* of structure files */
    const char *obsolete;                /* obsolete.dat; NULL = none */
    const char *max_date;                /* "YYYY-MM-DD": the latest release date allowed; NULL = no cut-off */
    bool allow_undated;                  /* a file without a release date passes the cut-off */
    bool alphafold_compatible;           /* refuse structure files AlphaFold refuses */
    int64_t max_templates;               /* 0 = FF_MAX_TEMPLATES */
    const char *kalign;                  /* path of the program; NULL: hits that need it are left out */
    const volatile sig_atomic_t *cancel; /* NULL = none */
} ff_template_options;

/** Where templates come from: a folder listed once, and the structure read last. Not for two threads at a time. */
typedef struct ff_template_source ff_template_source;

/** FF_ERR_IO, FF_ERR_FORMAT: the folder or obsolete.dat; FF_ERR_ARG: no date. The texts of `options` must stay. */
ff_status ff_template_source_create(ff_ctx *ctx, ff_template_source **source, const ff_template_options *options);
void ff_template_source_destroy(ff_template_source *source); /* NULL is fine */

typedef enum {
    FF_HIT_USED,        /* features came out */
    FF_HIT_BAD_NAME,    /* not PDBID_CHAIN */
    FF_HIT_FEW_ALIGNED, /* a tenth of the query or less */
    FF_HIT_DUPLICATE,   /* a part of the query itself that covers more than 0.95 of it */
    FF_HIT_SHORT,       /* fewer than ten residues */
    FF_HIT_NO_FILE,     /* no structure file, or one that cannot be read */
    FF_HIT_TOO_NEW,     /* released after the cut-off, or undated */
    FF_HIT_NOT_FOUND,   /* its sequence is not in the file, nor near enough for kalign */
    FF_HIT_NO_ATOMS     /* fewer than five atoms, or coordinates that cannot be right */
} ff_hit_verdict;

/* What became of a hit. */
typedef struct {
    ff_hit_verdict verdict;
    char reason[512];  /* one line; empty when it was used as it is */
    bool realigned;    /* by kalign */
    int32_t (*map)[2]; /* [num_map] query residue, residue of the hit's gap-free sequence */
    int64_t num_map;
    char domain_name[64];
    char *sequence;   /* [N] letters with '-' */
    float *aatype;    /* [N, 22] */
    float *positions; /* [N, 37, 3] */
    float *masks;     /* [N, 37] */
    float sum_probs;
} ff_hit_template;

/**
 * Turn one hit into a template.
 * @param result  out  ff_hit_template_destroy; `map` is filled once the name and the prefilter passed
 * @return FF_OK also for hits that cannot be used (see verdict); FF_ERR_MEM; FF_ERR_UNSUPPORTED: built without gemmi.
 */
ff_status ff_hit_template_make(ff_ctx *ctx, ff_template_source *source, const ff_template_hit *hit, const char *query,
                               ff_hit_template *result);
void ff_hit_template_destroy(ff_hit_template *result); /* empty afterwards */

typedef enum { FF_HITS_HHSEARCH, FF_HITS_HMMSEARCH } ff_hits_kind;

/**
 * Add the template features: of hhsearch the hits in falling order of sum_probs, of hmmsearch in the order of the
 * file and none with a template_sequence that was there before. Hits that cannot be used are warned about, if for
 * another reason than the prefilter's. With no hit left the arrays are there with T = 0.
 */
ff_status ff_features_add_templates(ff_ctx *ctx, ff_array_set *set, ff_template_source *source,
                                    const ff_template_hits *hits, ff_hits_kind kind, const char *query);
/** The same with no templates. */
ff_status ff_features_add_no_templates(ff_ctx *ctx, ff_array_set *set, int64_t num_res);

#ifdef __cplusplus
}
#endif
#endif
