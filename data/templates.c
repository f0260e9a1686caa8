/* templates.c - from hits to template features.
 *
 * Contents
 *   1. the source
 *   2. names and the prefilter
 *   3. the map from the query to the hit
 *   4. the hit in its structure
 *   5. one template
 *   6. all of them */
#include "data/templates.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "data/msa.h"
#include "data/structure_find.h"
#include "data/structure_file.h"
#include "data/template_realign.h"

enum { NUM_CODES = 22, NUM_ATOMS = 37, MIN_ATOMS = 5, MIN_HIT_LENGTH = 10 };

struct ff_template_source {
    ff_template_options options;
    ff_structure_finder *finder;
    ff_obsolete *obsolete;
    char *last_path; /* of `last`; NULL = none */
    ff_structure last;
};

/* ---- 1. the source ---- */

ff_status ff_template_source_create(ff_ctx *ctx, ff_template_source **source, const ff_template_options *options)
{
    *source = NULL;
    if (options->max_date != NULL && !ff_structure_is_date(options->max_date))
        return FF_FAIL(ctx, FF_ERR_ARG, "--max-template-date: \"%s\" is no date like 2021-11-01", options->max_date);
    ff_template_source *s = calloc(1, sizeof *s);
    if (s == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory");
    s->options = *options;
    if (s->options.max_templates <= 0)
        s->options.max_templates = FF_MAX_TEMPLATES;
    ff_status status = ff_structure_finder_create(ctx, &s->finder, options->folder);
    if (status == FF_OK && options->obsolete != NULL)
        status = ff_obsolete_read(ctx, &s->obsolete, options->obsolete);
    if (status == FF_OK)
        *source = s;
    else
        ff_template_source_destroy(s);
    return status;
}

void ff_template_source_destroy(ff_template_source *source)
{
    if (source == NULL)
        return;
    if (source->last_path != NULL)
        ff_structure_destroy(&source->last);
    free(source->last_path);
    ff_obsolete_destroy(source->obsolete);
    ff_structure_finder_destroy(source->finder);
    free(source);
}

/* The structure of a file; hits of one entry often stand together, so the last one is kept. `path` is taken over. */
static ff_status read_structure(ff_ctx *ctx, ff_template_source *s, char *path)
{
    if (s->last_path != NULL && strcmp(s->last_path, path) == 0) {
        free(path);
        return FF_OK;
    }
    if (s->last_path != NULL)
        ff_structure_destroy(&s->last);
    free(s->last_path);
    s->last_path = NULL;
    const ff_structure_options options = {.alphafold_compatible = s->options.alphafold_compatible};
    const ff_status status = ff_structure_read(ctx, &s->last, path, &options);
    if (status == FF_OK)
        s->last_path = path;
    else
        free(path);
    return status;
}

/* ---- 2. names and the prefilter ---- */

typedef struct {
    char id[FF_PDB_ID_BYTES]; /* lower case */
    char chain[32];
} hit_name;

/* PDBID_CHAIN at the start: four letters or digits, or pdb_ and eight. */
static bool read_name(const char *text, hit_name *name)
{
    const size_t prefix = strncasecmp(text, "pdb_", 4) == 0 ? 12 : 4;
    for (size_t i = prefix == 12 ? 4 : 0; i < prefix; i++)
        if (!isalnum((unsigned char)text[i]))
            return false;
    size_t length = 0;
    if (text[prefix] != '_')
        return false;
    const char *chain = text + prefix + 1;
    while (isalnum((unsigned char)chain[length]) || chain[length] == '.' || chain[length] == '-')
        length++;
    if (length == 0 || length >= sizeof name->chain)
        return false;
    for (size_t i = 0; i < prefix; i++)
        name->id[i] = (char)tolower((unsigned char)text[i]);
    name->id[prefix] = '\0';
    memcpy(name->chain, chain, length);
    name->chain[length] = '\0';
    return true;
}

static void judge(ff_hit_template *t, ff_hit_verdict verdict, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void judge(ff_hit_template *t, ff_hit_verdict verdict, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(t->reason, sizeof t->reason, format, args);
    va_end(args);
    t->verdict = verdict;
}

/* `text` without gaps; the caller frees it. */
static char *without_gaps(const char *text)
{
    char *out = malloc(strlen(text) + 1);
    size_t n = 0;
    for (; out != NULL && *text != '\0'; text++)
        if (*text != '-')
            out[n++] = *text;
    if (out != NULL)
        out[n] = '\0';
    return out;
}

/* AlphaFold's _assess_hhsearch_hit, its date apart. */
static bool prefilter(ff_hit_template *t, const ff_template_hit *hit, const char *residues, const char *query)
{
    const double length = (double)strlen(query), hit_length = (double)strlen(residues);
    if (hit->aligned_cols / length <= 0.1)
        judge(t, FF_HIT_FEW_ALIGNED, "%d of %.0f residues are aligned, a tenth or less", hit->aligned_cols, length);
    else if (hit_length / length > 0.95 && strstr(query, residues) != NULL)
        judge(t, FF_HIT_DUPLICATE, "it is a part of the query and covers %.2f of it", hit_length / length);
    else if (hit_length < MIN_HIT_LENGTH)
        judge(t, FF_HIT_SHORT, "it has %.0f residues, fewer than %d", hit_length, MIN_HIT_LENGTH);
    return t->verdict == FF_HIT_USED;
}

/* ---- 3. the map from the query to the hit ---- */

static int32_t smallest(const int32_t *indices, int64_t n)
{
    int32_t least = INT32_MAX;
    for (int64_t i = 0; i < n; i++)
        if (indices[i] >= 0 && indices[i] < least)
            least = indices[i];
    return least;
}

/* Query residue to residue of the hit's gap-free sequence, for all columns with both. The first query residue is
 * where its aligned part is found in the query (AlphaFold), or else what the file says. */
static ff_status make_map(ff_ctx *ctx, ff_hit_template *t, const ff_template_hit *hit, const char *residues,
                          const char *query)
{
    const int64_t n = hit->num_query < hit->num_hit ? hit->num_query : hit->num_hit;
    const int64_t num_res = (int64_t)strlen(query), length = (int64_t)strlen(residues);
    const int32_t first_query = smallest(hit->indices_query, hit->num_query);
    const int32_t first_hit = smallest(hit->indices_hit, hit->num_hit);
    char *part = without_gaps(hit->query);
    t->map = malloc((size_t)(n + 1) * sizeof *t->map);
    if (part == NULL || t->map == NULL) {
        free(part);
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory");
    }
    const char *found = *part == '\0' ? NULL : strstr(query, part);
    const int64_t offset = found != NULL ? found - query : first_query;
    free(part);
    for (int64_t k = 0; k < n; k++) {
        if (hit->indices_query[k] < 0 || hit->indices_hit[k] < 0)
            continue;
        const int64_t q = hit->indices_query[k] - first_query + offset, h = hit->indices_hit[k] - first_hit;
        if (q >= num_res || h >= length)
            continue;
        t->map[t->num_map][0] = (int32_t)q;
        t->map[t->num_map++][1] = (int32_t)h;
    }
    return FF_OK;
}

/* ---- 4. the hit in its structure ---- */

/* Where `residues` stands in `sequence`, X in either matching anything; -1 = nowhere. */
static int64_t find_with_wildcards(const char *sequence, const char *residues)
{
    const int64_t n = (int64_t)strlen(sequence), m = (int64_t)strlen(residues);
    for (int64_t at = 0; at + m <= n; at++) {
        int64_t i = 0;
        while (i < m && (sequence[at + i] == residues[i] || sequence[at + i] == 'X' || residues[i] == 'X'))
            i++;
        if (i == m)
            return at;
    }
    return -1;
}

static int64_t find_exactly(const char *sequence, const char *residues)
{
    const char *found = strstr(sequence, residues);
    return found == NULL ? -1 : found - sequence;
}

/* The chain that holds the residues, and where: the named one before the others, exactly before with wildcards. */
static const ff_structure_chain *find_chain(const ff_structure *structure, const char *id, const char *residues,
                                            int64_t *offset)
{
    const ff_structure_chain *named = ff_structure_find_chain(structure, id);
    for (int wild = 0; wild < 2; wild++) {
        int64_t (*find)(const char *, const char *) = wild ? find_with_wildcards : find_exactly;
        if (named != NULL && (*offset = find(named->sequence, residues)) >= 0)
            return named;
        for (int64_t c = 0; c < structure->num_chains; c++)
            if ((*offset = find(structure->chains[c].sequence, residues)) >= 0)
                return &structure->chains[c];
    }
    return NULL;
}

/* Read the file of an entry, or of what replaced it, and check its date. False with a verdict when it cannot be
 * used. */
static ff_status open_entry(ff_ctx *ctx, ff_template_source *s, ff_hit_template *t, const hit_name *name, char *id,
                            bool *good)
{
    char *path = NULL;
    *good = false;
    ff_status status = ff_structure_find_current(ctx, s->finder, s->obsolete, name->id, name->chain, id, &path);
    if (status == FF_OK && path == NULL) {
        judge(t, FF_HIT_NO_FILE, "no structure file of %s in %s", name->id, s->options.folder);
        return FF_OK;
    }
    if (status == FF_OK)
        status = read_structure(ctx, s, path);
    if (status == FF_ERR_MEM || status == FF_ERR_UNSUPPORTED)
        return status;
    if (status != FF_OK) {
        judge(t, FF_HIT_NO_FILE, "%s", ctx->message);
        ff_context_clear(ctx);
        return FF_OK;
    }
    const char *date = s->last.release_date, *limit = s->options.max_date;
    if (limit != NULL && date[0] == '\0' && !s->options.allow_undated)
        judge(t, FF_HIT_TOO_NEW, "%s has no release date, so it cannot pass the cut-off; --allow-undated takes it",
              s->last_path);
    else if (limit != NULL && date[0] != '\0' && strcmp(date, limit) > 0)
        judge(t, FF_HIT_TOO_NEW, "released %s, after %s", date, limit);
    *good = t->verdict == FF_HIT_USED;
    return FF_OK;
}

/* The chain of a hit whose sequence is in none: the named one, or the only one. The map is changed to residues of
 * it. */
static ff_status realign(ff_ctx *ctx, const ff_template_source *s, ff_hit_template *t, const hit_name *name,
                         const char *residues, const ff_structure_chain **chain)
{
    char reason[256];
    bool good = false;
    *chain = ff_structure_find_chain(&s->last, name->chain);
    if (*chain == NULL && s->last.num_chains == 1)
        *chain = &s->last.chains[0];
    if (*chain == NULL) {
        judge(t, FF_HIT_NOT_FOUND, "%s has no protein chain %s, nor one with its sequence", s->last_path,
              name->chain);
        return FF_OK;
    }
    if (s->options.kalign == NULL) {
        judge(t, FF_HIT_NOT_FOUND, "its sequence is not that in %s, and there is no kalign to realign it",
              s->last_path);
        return FF_OK;
    }
    FF_TRY(ff_template_realign(ctx, s->options.kalign, s->options.cancel, residues, (*chain)->sequence, t->map,
                               &t->num_map, &good, reason, sizeof reason));
    if (!good)
        judge(t, FF_HIT_NOT_FOUND, "its sequence is not that in %s: %s", s->last_path, reason);
    t->realigned = good;
    return FF_OK;
}

/* ---- 5. one template ---- */

static ff_status allocate(ff_ctx *ctx, ff_hit_template *t, int64_t num_res)
{
    const size_t n = (size_t)num_res;
    t->sequence = malloc(n + 1);
    t->aatype = calloc(n * NUM_CODES + 1, sizeof(float));
    t->positions = calloc(n * NUM_ATOMS * 3 + 1, sizeof(float));
    t->masks = calloc(n * NUM_ATOMS + 1, sizeof(float));
    if (t->sequence == NULL || t->aatype == NULL || t->positions == NULL || t->masks == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory");
    memset(t->sequence, '-', n);
    t->sequence[n] = '\0';
    return FF_OK;
}

static void free_features(ff_hit_template *t)
{
    free(t->sequence);
    free(t->aatype);
    free(t->positions);
    free(t->masks);
    t->sequence = NULL;
    t->aatype = t->positions = t->masks = NULL;
}

/* Copy what the map names. `letters` is the sequence whose residues it counts, which begins at `offset` of the
 * chain. */
static ff_status gather(ff_ctx *ctx, ff_hit_template *t, const ff_structure_chain *chain, const char *letters,
                        int64_t offset, int64_t num_res)
{
    double num_atoms = 0;
    FF_TRY(allocate(ctx, t, num_res));
    for (int64_t k = 0; k < t->num_map; k++) {
        const int64_t q = t->map[k][0], from = t->map[k][1] + offset;
        t->sequence[q] = letters[t->map[k][1]];
        memcpy(t->positions + q * NUM_ATOMS * 3, chain->positions + from * NUM_ATOMS * 3,
               NUM_ATOMS * 3 * sizeof(float));
        memcpy(t->masks + q * NUM_ATOMS, chain->mask + from * NUM_ATOMS, NUM_ATOMS * sizeof(float));
        for (int a = 0; a < NUM_ATOMS; a++)
            num_atoms += t->masks[q * NUM_ATOMS + a];
    }
    if (num_atoms < MIN_ATOMS)
        judge(t, FF_HIT_NO_ATOMS, "%.0f atoms of chain %s are aligned, fewer than %d", num_atoms, chain->id,
              MIN_ATOMS);
    for (int64_t i = 0; i < num_res; i++) {
        const int code = ff_msa_code(t->sequence[i]);
        t->aatype[i * NUM_CODES + (code == FF_MSA_NO_CODE ? 20 : code)] = 1;
    }
    return FF_OK;
}

static ff_status extract(ff_ctx *ctx, ff_template_source *s, ff_hit_template *t, const hit_name *name,
                         const char *residues, const char *query)
{
    char id[FF_PDB_ID_BYTES];
    bool good;
    int64_t offset = 0;
    FF_TRY(open_entry(ctx, s, t, name, id, &good));
    if (!good)
        return FF_OK;
    const ff_structure_chain *chain = find_chain(&s->last, name->chain, residues, &offset);
    if (chain == NULL) {
        FF_TRY(realign(ctx, s, t, name, residues, &chain));
        if (!t->realigned)
            return FF_OK;
    }
    if (chain->problem != NULL) {
        judge(t, FF_HIT_NO_ATOMS, "%s, chain %s: %s", s->last_path, chain->id, chain->problem);
        return FF_OK;
    }
    FF_TRY(gather(ctx, t, chain, t->realigned ? chain->sequence : residues, t->realigned ? 0 : offset,
                  (int64_t)strlen(query)));
    if (t->verdict == FF_HIT_USED && t->realigned)
        snprintf(t->reason, sizeof t->reason, "its sequence is not that in %s; realigned to the actual one",
                 s->last_path);
    snprintf(t->domain_name, sizeof t->domain_name, "%s_%s", id, chain->id);
    return FF_OK;
}

ff_status ff_hit_template_make(ff_ctx *ctx, ff_template_source *source, const ff_template_hit *hit, const char *query,
                               ff_hit_template *t)
{
    hit_name name;
    *t = (ff_hit_template){.sum_probs = hit->sum_probs};
    if (!read_name(hit->name, &name)) {
        judge(t, FF_HIT_BAD_NAME, "its name is not PDBID_CHAIN");
        return FF_OK;
    }
    char *residues = without_gaps(hit->hit_sequence);
    ff_status status = residues == NULL ? FF_FAIL(ctx, FF_ERR_MEM, "out of memory") : FF_OK;
    if (status == FF_OK && prefilter(t, hit, residues, query)) {
        status = make_map(ctx, t, hit, residues, query);
        if (status == FF_OK)
            status = extract(ctx, source, t, &name, residues, query);
    }
    free(residues);
    if (t->verdict != FF_HIT_USED)
        free_features(t);
    if (status != FF_OK)
        ff_hit_template_destroy(t);
    return status;
}

void ff_hit_template_destroy(ff_hit_template *t)
{
    free_features(t);
    free(t->map);
    *t = (ff_hit_template){0};
}

/* ---- 6. all of them ---- */

/* Indices of hits in falling order of sum_probs; equal ones stay as they are. */
static void sort_hits(const ff_template_hits *hits, int64_t *order)
{
    for (int64_t i = 0; i < hits->count; i++) {
        int64_t k = i;
        for (; k > 0 && hits->hits[order[k - 1]].sum_probs < hits->hits[i].sum_probs; k--)
            order[k] = order[k - 1];
        order[k] = i;
    }
}

static ff_status put_templates(ff_ctx *ctx, ff_array_set *set, const ff_hit_template *templates, int64_t t, int64_t n)
{
    ff_array *aatype = ff_array_add(ctx, set, "template_aatype", FF_ARRAY_FLOAT32, FF_DIMS(t, n, NUM_CODES));
    ff_array *positions =
        ff_array_add(ctx, set, "template_all_atom_positions", FF_ARRAY_FLOAT32, FF_DIMS(t, n, NUM_ATOMS, 3));
    ff_array *masks = ff_array_add(ctx, set, "template_all_atom_masks", FF_ARRAY_FLOAT32, FF_DIMS(t, n, NUM_ATOMS));
    ff_array *sequence = ff_array_add(ctx, set, "template_sequence", FF_ARRAY_TEXT, FF_DIMS(t));
    ff_array *names = ff_array_add(ctx, set, "template_domain_names", FF_ARRAY_TEXT, FF_DIMS(t));
    ff_array *sum_probs = ff_array_add(ctx, set, "template_sum_probs", FF_ARRAY_FLOAT32, FF_DIMS(t, 1));
    if (aatype == NULL || positions == NULL || masks == NULL || sequence == NULL || names == NULL ||
        sum_probs == NULL)
        return ctx->status;
    for (int64_t k = 0; k < t; k++) {
        const ff_hit_template *one = &templates[k];
        memcpy(aatype->f32 + k * n * NUM_CODES, one->aatype, (size_t)(n * NUM_CODES) * sizeof(float));
        memcpy(positions->f32 + k * n * NUM_ATOMS * 3, one->positions, (size_t)(n * NUM_ATOMS * 3) * sizeof(float));
        memcpy(masks->f32 + k * n * NUM_ATOMS, one->masks, (size_t)(n * NUM_ATOMS) * sizeof(float));
        FF_TRY(ff_array_put_text(ctx, sequence, k, one->sequence, (size_t)n));
        FF_TRY(ff_array_put_text(ctx, names, k, one->domain_name, strlen(one->domain_name)));
        sum_probs->f32[k] = one->sum_probs;
    }
    return FF_OK;
}

ff_status ff_features_add_no_templates(ff_ctx *ctx, ff_array_set *set, int64_t num_res)
{
    return put_templates(ctx, set, NULL, 0, num_res);
}

/* What a user should know of a hit; what the prefilter drops is as it should be, and names are counted. */
static void tell(ff_ctx *ctx, const ff_template_hits *hits, const ff_template_hit *hit, const ff_hit_template *t)
{
    static const ff_log_level levels[] = {
        [FF_HIT_USED] = FF_LOG_INFO,       [FF_HIT_BAD_NAME] = FF_LOG_DEBUG,    [FF_HIT_FEW_ALIGNED] = FF_LOG_DEBUG,
        [FF_HIT_DUPLICATE] = FF_LOG_DEBUG, [FF_HIT_SHORT] = FF_LOG_DEBUG,       [FF_HIT_TOO_NEW] = FF_LOG_DEBUG,
        [FF_HIT_NO_FILE] = FF_LOG_WARNING, [FF_HIT_NOT_FOUND] = FF_LOG_WARNING, [FF_HIT_NO_ATOMS] = FF_LOG_WARNING};
    if (t->reason[0] != '\0')
        ff_log_write(&ctx->log, levels[t->verdict], "%s:%lld: hit %.*s %s: %s", hits->path, (long long)hit->line,
                     (int)strcspn(hit->name, " \t"), hit->name, t->verdict == FF_HIT_USED ? "is used" : "is left out",
                     t->reason);
}

/* One warning for all hits whose names are no PDB ids: databases of other kinds have many. */
static void tell_names(ff_ctx *ctx, const ff_template_hits *hits, int64_t num_bad, const ff_template_hit *first)
{
    if (num_bad > 0)
        FF_WARN(ctx, "%s:%lld: %lld of %lld hits are left out, as their names are not PDBID_CHAIN; the first is %.*s",
                hits->path, (long long)first->line, (long long)num_bad, (long long)hits->count,
                (int)strcspn(first->name, " \t"), first->name);
}

static bool is_repeated(const ff_hit_template *templates, int64_t count, const char *sequence)
{
    for (int64_t i = 0; i < count; i++)
        if (strcmp(templates[i].sequence, sequence) == 0)
            return true;
    return false;
}

ff_status ff_features_add_templates(ff_ctx *ctx, ff_array_set *set, ff_template_source *source,
                                    const ff_template_hits *hits, ff_hits_kind kind, const char *query)
{
    const int64_t most = source->options.max_templates;
    int64_t *order = malloc((size_t)(hits->count + 1) * sizeof *order), count = 0, num_bad = 0;
    const ff_template_hit *first_bad = NULL;
    ff_hit_template *templates = calloc((size_t)most + 1, sizeof *templates);
    ff_status status = FF_OK;
    if (order == NULL || templates == NULL) {
        status = FF_FAIL(ctx, FF_ERR_MEM, "out of memory");
        goto done;
    }
    for (int64_t i = 0; i < hits->count; i++)
        order[i] = i;
    if (kind == FF_HITS_HHSEARCH)
        sort_hits(hits, order);
    for (int64_t i = 0; i < hits->count && count < most; i++) {
        const ff_template_hit *hit = &hits->hits[order[i]];
        ff_hit_template *t = &templates[count];
        FF_TRY_DONE(ff_hit_template_make(ctx, source, hit, query, t));
        tell(ctx, hits, hit, t);
        if (t->verdict == FF_HIT_BAD_NAME && num_bad++ == 0)
            first_bad = hit;
        if (t->verdict == FF_HIT_USED && !(kind == FF_HITS_HMMSEARCH && is_repeated(templates, count, t->sequence)))
            count++;
        else
            ff_hit_template_destroy(t);
    }
    tell_names(ctx, hits, num_bad, first_bad);
    FF_TRY_DONE(put_templates(ctx, set, templates, count, (int64_t)strlen(query)));
done:
    for (int64_t i = 0; templates != NULL && i < count; i++)
        ff_hit_template_destroy(&templates[i]);
    free(templates);
    free(order);
    return status;
}
