/* golden_judge.c - see golden_judge.h.
 *
 * Contents: tolerances; parts of an array; the two rules; one array; sums of large gradients; a whole case. */
#include "tests/golden_judge.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Parts of an array that are judged apart. */
enum { PART_LEFT_OUT = 0, PART_COVERED, PART_UNCOVERED, PART_COUNT };

static const double GRADIENT_FLOOR = 1e-3;   /* of the largest |gradient| of the case */
static const double EXACT_ZERO_FLOOR = 1e-2; /* for gradients that vanish by an identity */
static const double FLOAT32_ERRORS = 5;      /* tol is at least this many times the reference's own float32 error */
static const double ENTRY_FACTOR = 10;       /* rule 2 */

/* Everything the judging of one case shares. */
typedef struct {
    const golden_case *c;
    golden_report_fn report;
    void *arg;
    double tol_output, tol_gradient;
    double largest_gradient;
    bool entries_of_gradients; /* rule 2 holds for gradients */
} judge;

/* ---- tolerances ---- */

golden_tolerances golden_default_tolerances(bool bf16)
{
    return bf16 ? (golden_tolerances){.forward = 2e-2, .gradient = 5e-2}
                : (golden_tolerances){.forward = 2e-5, .gradient = 1e-4};
}

static double loosened(const golden_case *c, double tolerance, const char *check, const char *rel_err)
{
    const double error = fmax(golden_number(c, check, 0), golden_number(c, rel_err, 0));
    return fmax(tolerance, FLOAT32_ERRORS * error);
}

static bool is_single_module(const char *family)
{
    static const char *const families[] = {"primitives", "msa_attention", "transition", "outer_product_mean",
                                           "triangle",   "ipa",           "heads"};
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (strcmp(family, families[i]) == 0)
            return true;
    return false;
}

static double largest(const golden_list *list)
{
    double value = 0;
    for (int64_t i = 0; i < list->count; i++)
        for (int64_t e = 0; e < list->items[i].size; e++)
            value = fmax(value, fabs((double)list->items[i].data[e]));
    return value;
}

/* Whether a word of the space-separated `text` is `name`. */
static bool has_word(const char *text, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = text; (at = strstr(at, name)) != NULL; at += length) {
        const bool begins = at == text || at[-1] == ' ' || at[-1] == ',';
        const char end = at[length];
        if (begins && (end == '\0' || end == ' ' || end == ','))
            return true;
    }
    return false;
}

/* ---- parts of an array ---- */

/* mask [num_seq, num_res]: no sequence has both residues i and j. */
static bool no_sequence_covers(const float *mask, int64_t num_seq, int64_t num_res, int64_t i, int64_t j)
{
    for (int64_t s = 0; s < num_seq; s++)
        if (mask[s * num_res + i] * mask[s * num_res + j] != 0)
            return false;
    return true;
}

/* Masks of the outer product means in front of a pair output. The torsion rows of templates are sequences of the main
 * stack, too: their mask is the psi mask, channel 52 of the 57 template features. */
typedef struct {
    const golden_array *masks[2]; /* [num_seq, num_res], NULL = none */
    const golden_array *template_features;
    int64_t num_res;
} coverage;

enum { PSI_MASK_CHANNEL = 52, FIRST_SIN_COS = 22, FIRST_ALT_SIN_COS = 36, NUM_TORSIONS = 7 };

static bool find_coverage(const golden_case *c, const golden_array *want, coverage *cover)
{
    *cover = (coverage){{NULL, NULL}, NULL, 0};
    const bool module = strcmp(c->op, "outer_product_mean") == 0;
    if (module ? strcmp(want->name, "out") != 0 : strcmp(want->name, "pair") != 0)
        return false;
    cover->masks[0] = golden_find_input(c, module ? "mask" : "msa_mask");
    if (strcmp(c->family, "embeddings_and_evoformer") == 0) {
        cover->masks[1] = golden_find_input(c, "extra_msa_mask");
        if (golden_int(c, "embed_torsion_angles", 0) != 0)
            cover->template_features = golden_list_find(&c->want_outputs, "template_features");
    } else if (!module && strcmp(c->family, "evoformer_block") != 0 && strcmp(c->family, "evoformer_stack") != 0) {
        return false;
    }
    const golden_array *mask = cover->masks[0];
    if (mask == NULL || mask->ndim != 2 || want->ndim != 3)
        return false;
    cover->num_res = mask->shape[1];
    const golden_array *extra = cover->masks[1];
    const golden_array *features = cover->template_features;
    return want->shape[0] == cover->num_res && want->shape[1] == cover->num_res &&
           (extra == NULL || (extra->ndim == 2 && extra->shape[1] == cover->num_res)) &&
           (features == NULL || (features->ndim == 3 && features->shape[1] == cover->num_res &&
                                 features->shape[2] > PSI_MASK_CHANNEL));
}

static bool template_covers(const golden_array *features, int64_t i, int64_t j)
{
    const int64_t num_res = features->shape[1], channels = features->shape[2];
    for (int64_t t = 0; t < features->shape[0]; t++) {
        const float *row = features->data + t * num_res * channels + PSI_MASK_CHANNEL;
        if (row[i * channels] * row[j * channels] != 0)
            return true;
    }
    return false;
}

static bool is_uncovered(const coverage *cover, int64_t i, int64_t j)
{
    const golden_array *main_mask = cover->masks[0], *extra = cover->masks[1];
    if (extra != NULL && no_sequence_covers(extra->data, extra->shape[0], cover->num_res, i, j))
        return true;
    return no_sequence_covers(main_mask->data, main_mask->shape[0], cover->num_res, i, j) &&
           (cover->template_features == NULL || !template_covers(cover->template_features, i, j));
}

/* Undefined torsion angles: their sine and cosine are rounding noise over rounding noise. */
static void leave_out_torsions(const golden_case *c, const golden_array *want, unsigned char *parts)
{
    const golden_array *well = golden_list_find(&c->want_outputs, "torsion_well_conditioned");
    if (well == NULL || strcmp(want->name, "template_features") != 0 || want->ndim != 3 || well->ndim != 3 ||
        well->shape[2] != NUM_TORSIONS || want->shape[2] < FIRST_ALT_SIN_COS + 2 * NUM_TORSIONS ||
        well->shape[0] != want->shape[0] || well->shape[1] != want->shape[1])
        return;
    for (int64_t e = 0; e < well->size; e++) {
        if (well->data[e] != 0)
            continue;
        unsigned char *row = parts + (e / NUM_TORSIONS) * want->shape[2] + 2 * (e % NUM_TORSIONS);
        row[FIRST_SIN_COS] = row[FIRST_SIN_COS + 1] = PART_LEFT_OUT;
        row[FIRST_ALT_SIN_COS] = row[FIRST_ALT_SIN_COS + 1] = PART_LEFT_OUT;
    }
}

/* Pair outputs of the whole model: entries of padded residues are hundreds of times larger. seq_mask [slices, num_res]. */
static void set_padded_pairs_apart(const golden_case *c, const golden_array *want, unsigned char *parts)
{
    const golden_array *mask = golden_find_input(c, "seq_mask");
    if (strstr(c->op, "whole_model") == NULL || mask == NULL || mask->ndim != 2)
        return;
    const int64_t n = mask->shape[1];
    const float *last = mask->data + (mask->shape[0] - 1) * n;
    if (want->ndim < 2 || want->shape[0] != n || want->shape[1] != n)
        return;
    const int64_t channels = want->size / (n * n);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            if (last[i] * last[j] == 0.0f)
                memset(parts + (i * n + j) * channels, PART_UNCOVERED, (size_t)channels);
}

static void set_parts_of_output(const golden_case *c, const golden_array *want, unsigned char *parts)
{
    coverage cover;
    set_padded_pairs_apart(c, want, parts);
    leave_out_torsions(c, want, parts);
    if (!find_coverage(c, want, &cover))
        return;
    const int64_t n = cover.num_res, channels = want->shape[2];
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            if (is_uncovered(&cover, i, j))
                memset(parts + (i * n + j) * channels, PART_UNCOVERED, (size_t)channels);
}

/* ---- the two rules ---- */

static int compare_floats(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Median of the non-zero |want| of a part; 0 when there is none. `buffer` holds want->size floats. */
/* Of what is not zero: the reference, computed in float64, leaves 1e-16 of the others where the true value is 0. */
static double median_of_part(const golden_array *want, const unsigned char *parts, int part, float *buffer)
{
    int64_t n = 0;
    float largest = 0;
    for (int64_t e = 0; e < want->size; e++)
        if (parts[e] == part)
            largest = fmaxf(largest, fabsf(want->data[e]));
    for (int64_t e = 0; e < want->size; e++)
        if (parts[e] == part && fabsf(want->data[e]) > 1e-12f * largest)
            buffer[n++] = fabsf(want->data[e]);
    if (n == 0)
        return 0;
    qsort(buffer, (size_t)n, sizeof *buffer, compare_floats);
    return 0.5 * ((double)buffer[(n - 1) / 2] + (double)buffer[n / 2]);
}

typedef struct {
    double tol;
    double floor;  /* least M of rule 1; 0 for outputs */
    bool entries;  /* rule 2 is asked */
} limits;

/* |difference| / scale, where anything but 0 / 0 is an error; not-a-number counts as infinite. */
static double ratio(double difference, double scale)
{
    if (isnan(difference))
        return INFINITY;
    if (difference == 0)
        return 0;
    return scale > 0 ? difference / scale : INFINITY;
}

/* "[1, 4, 7]": the index of element e. */
static void describe_index(char *text, size_t bytes, const golden_array *array, int64_t e)
{
    int64_t index[FF_MAX_DIMS] = {0};
    for (int d = array->ndim - 1; d >= 0; d--) {
        index[d] = e % array->shape[d];
        e /= array->shape[d];
    }
    size_t used = (size_t)snprintf(text, bytes, "[");
    for (int d = 0; d < array->ndim; d++)
        used += (size_t)snprintf(text + used, bytes - used, d == 0 ? "%lld" : ", %lld", (long long)index[d]);
    snprintf(text + used, bytes - used, "]");
}

static void fail(golden_verdict *v, const golden_array *want, const float *got, int64_t worst, const char *rule)
{
    char index[128];
    describe_index(index, sizeof index, want, worst);
    if (v->result == GOLDEN_PASSED)
        snprintf(v->reason, sizeof v->reason, "%s: at %s got %.9g, want %.9g", rule, index, (double)got[worst],
                 (double)want->data[worst]);
    v->result = GOLDEN_FAILED;
}

static void judge_part(golden_verdict *v, const golden_array *want, const float *got, const unsigned char *parts,
                       int part, const limits *lim, float *buffer)
{
    double max_want = 0;
    int64_t count = 0;
    for (int64_t e = 0; e < want->size; e++)
        if (parts[e] == part) {
            max_want = fmax(max_want, fabs((double)want->data[e]));
            count++;
        }
    if (count == 0)
        return;
    const bool entries = lim->entries && max_want >= lim->floor;
    const double scale = fmax(max_want, lim->floor);
    const double median = entries ? median_of_part(want, parts, part, buffer) : 0;
    double error = 0, entry_error = entries ? 0 : -1;
    int64_t worst = -1, worst_entry = -1;
    for (int64_t e = 0; e < want->size; e++) {
        if (parts[e] != part)
            continue;
        const double difference = fabs((double)got[e] - (double)want->data[e]);
        const double relative = ratio(difference, scale);
        const double of_entry = ratio(difference, ENTRY_FACTOR * (fabs((double)want->data[e]) + median));
        if (worst < 0 || relative > error) {
            error = relative;
            worst = e;
        }
        if (entries && (worst_entry < 0 || of_entry > entry_error)) {
            entry_error = of_entry;
            worst_entry = e;
        }
    }
    if (!(error <= lim->tol))
        fail(v, want, got, worst, part == PART_UNCOVERED ? "uncovered pairs" : "largest error");
    if (entries && !(entry_error <= lim->tol))
        fail(v, want, got, worst_entry, part == PART_UNCOVERED ? "an uncovered pair" : "an ordinary entry");
    if (v->error < 0 || error > v->error) {
        v->error = error;
        v->max_want = max_want;
    }
    v->entry_error = fmax(v->entry_error, entry_error);
}

/* ---- one array ---- */

static golden_verdict new_verdict(const char *variant, const char *group, const char *name, double tol)
{
    golden_verdict v = {.result = GOLDEN_PASSED, .error = -1, .tolerance = tol, .entry_error = -1};
    snprintf(v.array, sizeof v.array, "%s%s/%s", variant, group, name);
    return v;
}

static void describe_shape(char *text, size_t bytes, const golden_array *a)
{
    size_t used = (size_t)snprintf(text, bytes, "[");
    for (int d = 0; d < a->ndim; d++)
        used += (size_t)snprintf(text + used, bytes - used, d == 0 ? "%lld" : ", %lld", (long long)a->shape[d]);
    snprintf(text + used, bytes - used, "]");
}

static bool same_shape(const golden_array *a, const golden_array *b)
{
    if (a->ndim != b->ndim)
        return false;
    for (int d = 0; d < a->ndim; d++)
        if (a->shape[d] != b->shape[d])
            return false;
    return true;
}

static void judge_array(const judge *j, golden_verdict *v, const golden_array *want, const golden_array *got,
                        const limits *lim, bool output)
{
    unsigned char *parts = malloc((size_t)want->size + 1);
    float *buffer = malloc(((size_t)want->size + 1) * sizeof *buffer);
    if (parts == NULL || buffer == NULL) {
        v->result = GOLDEN_FAILED;
        snprintf(v->reason, sizeof v->reason, "out of memory");
    } else if (!same_shape(want, got)) {
        char a[128], b[128];
        describe_shape(a, sizeof a, got);
        describe_shape(b, sizeof b, want);
        v->result = GOLDEN_FAILED;
        snprintf(v->reason, sizeof v->reason, "got shape %s, want %s", a, b);
    } else {
        memset(parts, PART_COVERED, (size_t)want->size);
        if (output)
            set_parts_of_output(j->c, want, parts);
        for (int part = PART_COVERED; part < PART_COUNT; part++)
            judge_part(v, want, got->data, parts, part, lim, buffer);
        v->error = fmax(v->error, 0); /* nothing to compare */
    }
    free(parts);
    free(buffer);
    j->report(j->arg, v);
}

static void report_missing(const judge *j, golden_verdict *v)
{
    v->result = GOLDEN_FAILED;
    v->error = INFINITY;
    snprintf(v->reason, sizeof v->reason, "not produced");
    j->report(j->arg, v);
}

static limits limits_of_gradient(const judge *j, const char *name)
{
    const bool exact_zero = has_word(golden_text(j->c, "grad_exact_zero", ""), name);
    return (limits){.tol = j->tol_gradient,
                    .floor = j->largest_gradient * (exact_zero ? EXACT_ZERO_FLOOR : GRADIENT_FLOOR),
                    .entries = j->entries_of_gradients};
}

/* ---- sums of large gradients ---- */

/* `got` [n0, ..., n_last] into the array that `kind` names: "sum_axis0", "sum_axis{last}" or "l2". */
static ff_status reduce(ff_ctx *ctx, golden_list *list, const golden_array *got, const char *kind)
{
    const bool norm = strcmp(kind, "l2") == 0;
    int axis = -1;
    if (!norm && (sscanf(kind, "sum_axis%d", &axis) != 1 || axis < 0 || axis >= got->ndim))
        return FF_FAIL(ctx, FF_ERR_FORMAT, "do not know the sum %s of an array of %d dimensions", kind, got->ndim);
    int64_t outer = 1, inner = 1, length = norm ? got->size : got->shape[axis];
    int64_t shape[FF_MAX_DIMS] = {0};
    int ndim = 0;
    for (int d = 0; d < got->ndim && !norm; d++) {
        if (d == axis)
            continue;
        *(d < axis ? &outer : &inner) *= got->shape[d];
        shape[ndim++] = got->shape[d];
    }
    if (golden_list_add(list, kind, ndim, shape, NULL) != FF_OK)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory");
    float *out = list->items[list->count - 1].data;
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < inner; i++) {
            double sum = 0;
            for (int64_t l = 0; l < length; l++) {
                const double x = (double)got->data[(o * length + l) * inner + i];
                sum += norm ? x * x : x;
            }
            out[o * inner + i] = (float)(norm ? sqrt(sum) : sum);
        }
    return FF_OK;
}

static void judge_reduced(ff_ctx *ctx, const judge *j, const char *variant, const golden_array *want)
{
    golden_verdict v = new_verdict(variant, "grad_reduced", want->name, j->tol_gradient);
    const char *slash = strrchr(want->name, '/');
    char name[512], full[600];
    snprintf(name, sizeof name, "%.*s", slash == NULL ? 0 : (int)(slash - want->name), want->name);
    snprintf(full, sizeof full, "%s%s", variant, name);
    const golden_array *got = golden_list_find(&j->c->got_grads, full);
    golden_list sums = {0};
    if (got == NULL) {
        if (variant[0] == '\0')
            report_missing(j, &v);
    } else if (reduce(ctx, &sums, got, slash + 1) != FF_OK) {
        v.result = GOLDEN_FAILED;
        snprintf(v.reason, sizeof v.reason, "%.*s", (int)sizeof v.reason - 1, ctx->message);
        ff_context_clear(ctx);
        j->report(j->arg, &v);
    } else {
        const limits lim = limits_of_gradient(j, name);
        judge_array(j, &v, want, &sums.items[0], &lim, false);
    }
    golden_list_free(&sums);
}

/* ---- a whole case ---- */

/* The outputs or the gradients of one variant ("" or "inference:"); what a variant leaves out is not missed. */
static void judge_list(const judge *j, const char *variant, const golden_list *wanted, const golden_list *got,
                       bool output)
{
    char full[600];
    for (int64_t i = 0; i < wanted->count; i++) {
        const golden_array *want = &wanted->items[i];
        snprintf(full, sizeof full, "%s%s", variant, want->name);
        const golden_array *found = golden_list_find(got, full);
        if (output && strcmp(want->name, "torsion_well_conditioned") == 0)
            continue; /* says which entries of others to compare */
        const limits lim = output ? (limits){.tol = j->tol_output, .floor = 0, .entries = true}
                                  : limits_of_gradient(j, want->name);
        golden_verdict v = new_verdict(variant, output ? "output" : "grad", want->name, lim.tol);
        if (found != NULL)
            judge_array(j, &v, want, found, &lim, output);
        else if (variant[0] == '\0')
            report_missing(j, &v);
    }
}

static void judge_variant(ff_ctx *ctx, const judge *j, const char *variant)
{
    const golden_case *c = j->c;
    judge_list(j, variant, &c->want_outputs, &c->got_outputs, true);
    if (c->no_gradients != NULL) {
        if (variant[0] == '\0' && c->want_grads.count + c->want_reduced.count > 0) {
            golden_verdict v = new_verdict("", "grad", "*", j->tol_gradient);
            v.result = GOLDEN_UNKNOWN;
            snprintf(v.reason, sizeof v.reason, "%s", c->no_gradients);
            j->report(j->arg, &v);
        }
        return;
    }
    judge_list(j, variant, &c->want_grads, &c->got_grads, false);
    for (int64_t i = 0; i < c->want_reduced.count; i++)
        judge_reduced(ctx, j, variant, &c->want_reduced.items[i]);
}

/* Report each variant among the results once, in the order in which they first appear. */
static void judge_variants(ff_ctx *ctx, const judge *j)
{
    enum { MOST_VARIANTS = 16, VARIANT_BYTES = 64 };
    char seen[MOST_VARIANTS][VARIANT_BYTES];
    int count = 0;
    const golden_list *lists[2] = {&j->c->got_outputs, &j->c->got_grads};
    for (int l = 0; l < 2; l++)
        for (int64_t i = 0; i < lists[l]->count; i++) {
            const char *name = lists[l]->items[i].name, *colon = strchr(name, ':');
            if (colon == NULL || count == MOST_VARIANTS)
                continue;
            char variant[VARIANT_BYTES];
            snprintf(variant, sizeof variant, "%.*s:", (int)(colon - name), name);
            int k = 0;
            while (k < count && strcmp(seen[k], variant) != 0)
                k++;
            if (k < count)
                continue;
            strcpy(seen[count++], variant);
            judge_variant(ctx, j, variant);
        }
}

void golden_judge(ff_ctx *ctx, const golden_case *c, const golden_tolerances *t, golden_report_fn report, void *arg)
{
    const double of_output = loosened(c, t->forward, "check_f32_output", "f32_output_rel_err");
    const double of_gradient = loosened(c, t->gradient, "check_f32_grad", "f32_grad_rel_err");
    const judge j = {
        .c = c,
        .report = report,
        .arg = arg,
        .tol_output = t->forward_as_is ? t->forward : of_output,
        .tol_gradient = t->gradient_as_is ? t->gradient : of_gradient,
        .largest_gradient = fmax(largest(&c->want_grads), c->want_grads.count == 0 ? largest(&c->want_reduced) : 0),
        .entries_of_gradients = is_single_module(c->family),
    };
    if (c->out_of_memory) {
        golden_verdict v = new_verdict("", "output", "*", j.tol_output);
        v.result = GOLDEN_FAILED;
        snprintf(v.reason, sizeof v.reason, "a result could not be stored (out of memory, or no result)");
        report(arg, &v);
    }
    judge_variant(ctx, &j, "");
    judge_variants(ctx, &j);
}
