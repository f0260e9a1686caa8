/* main_golden_check.c - golden_check: runs reference files through a backend and prints the largest error of each array.
 *
 * Contents: options; the report; one case; one file; paths; main.
 *
 * Under mpirun with --dap N every rank reads the same files, runs its share of each case, and judges the whole results.
 * Rank 0 prints; a wrong array on any rank is a failure, and all ranks exit alike. */
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "core/context.h"
#include "core/options.h"
#include "core/version.h"
#include "dap/dap.h"
#include "kernels/kernels.h"
#include "tensor/pool.h"
#include "tensor/tape.h"
#include "tests/golden_case.h"
#include "tests/golden_data.h"
#include "tests/golden_judge.h"

/* ---- options ---- */

typedef struct {
    int backend, dtype, isa, wire; /* positions in the choices below */
    int64_t threads, dap;
    double tolerance_forward, tolerance_gradient; /* negative: the default */
    const char *only, *data_root, *weights;
    bool json, skip_unknown;
} check_options;

static const ff_option option_table[] = {
    {"backend", FF_OPTION_ENUM, offsetof(check_options, backend), "cpu", "cpu|emulated|cuda", "Machine",
     "kernel table to check"},
    {"dtype", FF_OPTION_ENUM, offsetof(check_options, dtype), "f32", "f32|bf16", "Machine",
     "type of matrix-product operands"},
    {"isa", FF_OPTION_ENUM, offsetof(check_options, isa), "best", "best|plain|avx2|avx512|avx512_bf16|amx", "Machine",
     "instruction set of the cpu backend and of its GEMM library"},
    {"threads", FF_OPTION_INT64, offsetof(check_options, threads), "0", "0..4096", "Machine",
     "OpenMP threads, 0 = as the environment says"},
    {"dap", FF_OPTION_INT64, offsetof(check_options, dap), "1", "1..4096", "Machine",
     "ranks that share one case, as many as mpirun started"},
    {"wire", FF_OPTION_ENUM, offsetof(check_options, wire), "f32", "f32|bf16", "Machine",
     "how float arrays travel between ranks, with --dtype bf16"},
    {"tolerance-forward", FF_OPTION_DOUBLE, offsetof(check_options, tolerance_forward), "-1", NULL, "Judging",
     "of outputs; -1 = 2e-5, bf16 2e-2; less than that is taken as it is, without the case's own float32 error"},
    {"tolerance-gradient", FF_OPTION_DOUBLE, offsetof(check_options, tolerance_gradient), "-1", NULL, "Judging",
     "of gradients; -1 = 1e-4, bf16 5e-2; likewise"},
    {"only", FF_OPTION_STRING, offsetof(check_options, only), NULL, NULL, "Judging",
     "FAMILY or FAMILY/CASE, several with commas, * and ? match as in file names: '*/*tiny*'"},
    {"data-root", FF_OPTION_STRING, offsetof(check_options, data_root), "../shared/data", NULL, "Judging",
     "folder of the input files that data families name"},
    {"weights", FF_OPTION_STRING, offsetof(check_options, weights), NULL, NULL, "Judging",
     "weight file for cases of the published size, which hold no parameters"},
    {"skip-unknown", FF_OPTION_FLAG, offsetof(check_options, skip_unknown), NULL, NULL, "Judging",
     "families and operations that program or backend lack are skipped; else they fail"},
    {"json", FF_OPTION_FLAG, offsetof(check_options, json), NULL, NULL, "Output", "one JSON object for each array"},
    FF_OPTION_END};

static const ff_program program = {
    "golden_check", "[options] PATH...",
    "Runs reference files (.h5, or folders of them) through a backend and judges every output and gradient.\n"
    "The last line is `N passed, N failed, N skipped`; exit status 1 if anything failed.",
    option_table};

typedef struct {
    ff_ctx ctx;
    check_options options;
    golden_tolerances tolerances;
    int64_t passed, failed, skipped, matched;
    bool prints; /* rank 0 */
    const golden_case *current;
    int64_t failed_here; /* arrays of the current case on this rank */
    bool stopped;        /* under DAP, after a rank failed */
} checker;

/* ---- the report ---- */

static void print_json_text(const char *text)
{
    putchar('"');
    for (const unsigned char *p = (const unsigned char *)text; *p != '\0'; p++) {
        if (*p == '"' || *p == '\\')
            printf("\\%c", *p);
        else if (*p < 0x20)
            printf("\\u%04x", *p);
        else
            putchar(*p);
    }
    putchar('"');
}

static void print_json_field(const char *name, const char *text)
{
    printf("\"%s\": ", name);
    print_json_text(text);
    printf(", ");
}

/* JSON has no infinity. */
static double json_number(double x) { return isfinite(x) ? x : 1e300; }

static const char *dtype_name(ff_dtype dtype) { return dtype == FF_DTYPE_BF16 ? "bf16" : "f32"; }

static void print_verdict_json(const checker *k, const char *file, const char *family, const char *name, const char *op,
                               const golden_verdict *v, bool skipped)
{
    const ff_kernels *table = k->ctx.kernels;
    printf("{");
    print_json_field("file", file);
    print_json_field("family", family);
    print_json_field("case", name);
    print_json_field("op", op);
    print_json_field("array", v->array);
    printf("\"error\": %.6g, \"tolerance\": %.6g, \"max_want\": %.9g, ", json_number(v->error), v->tolerance,
           v->max_want);
    if (v->entry_error >= 0)
        printf("\"entry_error\": %.6g, ", json_number(v->entry_error));
    else
        printf("\"entry_error\": null, ");
    print_json_field("backend", table->name);
    print_json_field("dtype", dtype_name(table->dtype));
    print_json_field("isa", ff_isa_name(table->isa));
    print_json_field("reason", v->reason);
    if (skipped)
        printf("\"skipped\": true, ");
    printf("\"pass\": %s}\n", v->result == GOLDEN_PASSED ? "true" : "false");
}

/* One line, and one more in a count. */
static void report_line(checker *k, const char *file, const char *family, const char *name, const char *op,
                        const golden_verdict *v)
{
    const bool skipped = v->result == GOLDEN_UNKNOWN && k->options.skip_unknown;
    const bool passed = v->result == GOLDEN_PASSED;
    *(passed ? &k->passed : skipped ? &k->skipped : &k->failed) += 1;
    k->failed_here += !passed && !skipped;
    if (!k->prints)
        return;
    if (k->options.json) {
        print_verdict_json(k, file, family, name, op, v, skipped);
    } else if (passed) {
        printf("pass  %s/%s  %s  error %.2e  tolerance %.0e  max %.3g\n", family, name, v->array, v->error, v->tolerance,
               v->max_want);
    } else {
        printf("%s  %s%s%s  %s: %s\n", skipped ? "skip" : "FAIL", family, name[0] == '\0' ? "" : "/", name, v->array,
               v->reason);
        if (!skipped && isfinite(v->error) && v->error >= 0)
            printf("      error %.3e of %.3g, by entry %.3e, tolerance %.1e\n", v->error, v->max_want,
                   v->entry_error, v->tolerance);
    }
    fflush(stdout);
}

static void report_verdict(void *arg, const golden_verdict *v)
{
    checker *k = arg;
    const golden_case *c = k->current;
    report_line(k, c->file, c->family, c->name, c->op, v);
}

/* A case that gives no arrays to compare: `what` stands in place of an array. Takes the message of ctx, and clears it. */
static void report_case(checker *k, const char *file, const char *family, const char *name, const char *op,
                        const char *what, golden_result result)
{
    golden_verdict v = {.result = result, .error = -1, .entry_error = -1};
    snprintf(v.array, sizeof v.array, "%s", what);
    snprintf(v.reason, sizeof v.reason, "%.*s", (int)sizeof v.reason - 1,
             k->ctx.message[0] == '\0' ? "failed without a message" : k->ctx.message);
    report_line(k, file, family, name, op, &v);
    ff_context_clear(&k->ctx);
}

/* ---- one case ---- */

/* Under DAP: a case that is wrong on some rank is wrong on all, for the counts and the exit status. */
static void agree_on_verdicts(checker *k, const golden_case *c)
{
    float ranks_failed = k->failed_here > 0;
    if (ff_dap_size(&k->ctx) == 1 || ff_dap_all_reduce(&k->ctx, &ranks_failed, 1) != FF_OK)
        return;
    if (ranks_failed > 0 && k->failed_here == 0) {
        FF_FAIL(&k->ctx, FF_ERR_FORMAT, "right here, wrong on another rank");
        report_case(k, c->file, c->family, c->name, c->op, "ranks differ", GOLDEN_FAILED);
    }
}

/* Whether all ranks came through. A failed rank ends a run under DAP: ranks cannot go on with each other. */
static bool all_succeeded(checker *k)
{
    if (ff_dap_agree(&k->ctx) == FF_OK)
        return true;
    k->stopped = ff_dap_size(&k->ctx) > 1;
    return false;
}

/* Run and judge a case that has been read. */
static void check_case(checker *k, golden_case *c)
{
    ff_ctx *ctx = &k->ctx;
    const size_t before = ff_pool_get_stats(ctx->pool).in_use;
    ctx->op_index = 0;
    ctx->training = false;
    ctx->keep_inputs = false;
    const ff_status status = golden_run(ctx, c->family, c->op, c);
    if (status != FF_OK && ctx->status == FF_OK) /* else the sticky status says it */
        FF_FAIL(ctx, status, "%s (%s)", c->op, ff_status_name(status));
    ff_tape_destroy(ctx);
    if (ctx->status == FF_ERR_UNSUPPORTED) { /* on all ranks alike */
        report_case(k, c->file, c->family, c->name, c->op, "unknown", GOLDEN_UNKNOWN);
        return;
    }
    if (!all_succeeded(k)) {
        report_case(k, c->file, c->family, c->name, c->op, "failed", GOLDEN_FAILED);
        return;
    }
    const size_t after = ff_pool_get_stats(ctx->pool).in_use;
    k->current = c;
    golden_judge(ctx, c, &k->tolerances, report_verdict, k);
    if (after != before) {
        FF_FAIL(ctx, FF_ERR_MEM, "%zu bytes of tensors were not released", after - before);
        report_case(k, c->file, c->family, c->name, c->op, "memory", GOLDEN_FAILED);
    }
    agree_on_verdicts(k, c);
}

static void read_and_check(checker *k, const char *path, const char *family, const char *name)
{
    k->failed_here = 0;
    golden_case c = {0};
    golden_case_read(&k->ctx, &c, path, family, name); /* a failure stays in the context */
    c.weights = k->options.weights;
    if (all_succeeded(k))
        check_case(k, &c);
    else
        report_case(k, path, family, name, "", "not readable", GOLDEN_FAILED);
    golden_case_free(&c);
}

/* ---- one file ---- */

/* Whether --only has FAMILY or FAMILY/CASE, in words or as a pattern. */
static bool is_asked_for(const char *only, const char *family, const char *name)
{
    if (only == NULL)
        return true;
    char full[1024], pattern[1024];
    snprintf(full, sizeof full, "%s/%s", family, name);
    for (const char *at = only; *at != '\0';) {
        const size_t length = strcspn(at, ",");
        snprintf(pattern, sizeof pattern, "%.*s", (int)length, at);
        if (fnmatch(pattern, strchr(pattern, '/') == NULL ? family : full, 0) == 0)
            return true;
        at += length + (at[length] == ',');
    }
    return false;
}

/* A file or folder that cannot be used: one line on stderr. */
static void report_unusable(checker *k)
{
    k->failed++;
    if (k->prints)
        fprintf(stderr, "golden_check: %s\n", k->ctx.message);
    ff_context_clear(&k->ctx);
}

/* What a visit of the cases of a data file needs. */
typedef struct {
    checker *k;
    golden_data *g;
    const char *path, *family, *name;
} data_visit;

static void report_data(void *arg, const golden_verdict *v)
{
    const data_visit *d = arg;
    report_line(d->k, d->path, d->family, d->name, "data", v);
}

static ff_status check_data_case(ff_ctx *ctx, void *arg, const char *name)
{
    data_visit *d = arg;
    if (!is_asked_for(d->k->options.only, d->family, name))
        return FF_OK;
    d->k->matched++;
    d->name = name;
    const ff_status status = golden_data_run(d->g, d->family, name);
    if (status != FF_OK)
        report_case(d->k, d->path, d->family, name, "data", status == FF_ERR_UNSUPPORTED ? "unknown" : "failed",
                    status == FF_ERR_UNSUPPORTED ? GOLDEN_UNKNOWN : GOLDEN_FAILED);
    return ctx->status;
}

/* A file of the data side: parsers, features, transforms. */
static void check_data_file(checker *k, const char *path, const char *family)
{
    golden_data g = {&k->ctx, NULL, k->options.data_root, report_data, NULL, path};
    data_visit visit = {k, &g, path, family, ""};
    g.report_arg = &visit;
    if (ff_hdf5_open(&k->ctx, &g.file, path) != FF_OK ||
        golden_data_each_case(&g, family, check_data_case, &visit) != FF_OK)
        report_unusable(k);
    ff_hdf5_close(g.file);
}

static void check_file(checker *k, const char *path)
{
    golden_names names;
    if (golden_names_read(&k->ctx, &names, path) != FF_OK) {
        report_unusable(k);
        return;
    }
    const bool data = golden_data_knows(names.family);
    if (data)
        check_data_file(k, path, names.family);
    for (int64_t i = 0; i < names.count && !k->stopped && !data; i++) {
        if (!is_asked_for(k->options.only, names.family, names.names[i]))
            continue;
        k->matched++;
        read_and_check(k, path, names.family, names.names[i]);
    }
    golden_names_free(&names);
}

/* ---- paths ---- */

static int compare_names(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static bool ends_in_h5(const char *name)
{
    const size_t length = strlen(name);
    return length > 3 && strcmp(name + length - 3, ".h5") == 0;
}

/* The .h5 files of a folder, sorted. */
static ff_status list_folder(ff_ctx *ctx, const char *path, char ***files, int64_t *count)
{
    ff_status status = FF_OK;
    DIR *folder = opendir(path);
    if (folder == NULL)
        return FF_FAIL(ctx, FF_ERR_IO, "cannot open folder %s: %s", path, strerror(errno));
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        if (!ends_in_h5(entry->d_name))
            continue;
        char **grown = realloc(*files, (size_t)(*count + 1) * sizeof *grown);
        const size_t bytes = strlen(path) + strlen(entry->d_name) + 2;
        char *file = malloc(bytes);
        if (grown != NULL)
            *files = grown;
        if (grown == NULL || file == NULL) {
            free(file);
            status = FF_FAIL(ctx, FF_ERR_MEM, "out of memory listing %s", path);
            goto done;
        }
        snprintf(file, bytes, "%s%s%s", path, path[strlen(path) - 1] == '/' ? "" : "/", entry->d_name);
        grown[(*count)++] = file;
    }
    if (*count == 0)
        status = FF_FAIL(ctx, FF_ERR_IO, "folder %s has no .h5 files", path);
    else
        qsort(*files, (size_t)*count, sizeof **files, compare_names);
done:
    closedir(folder);
    return status;
}

static void check_path(checker *k, const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) {
        check_file(k, path);
        return;
    }
    char **files = NULL;
    int64_t count = 0;
    if (list_folder(&k->ctx, path, &files, &count) != FF_OK)
        report_unusable(k);
    else
        for (int64_t i = 0; i < count && !k->stopped; i++)
            check_file(k, files[i]);
    for (int64_t i = 0; i < count; i++)
        free(files[i]);
    free(files);
}

/* ---- main ---- */

static void set_tolerances(checker *k)
{
    const check_options *o = &k->options;
    const golden_tolerances given = golden_default_tolerances(o->dtype == FF_DTYPE_BF16);
    k->tolerances = given;
    if (o->tolerance_forward >= 0) {
        k->tolerances.forward = o->tolerance_forward;
        k->tolerances.forward_as_is = o->tolerance_forward < given.forward;
    }
    if (o->tolerance_gradient >= 0) {
        k->tolerances.gradient = o->tolerance_gradient;
        k->tolerances.gradient_as_is = o->tolerance_gradient < given.gradient;
    }
}

static ff_status set_up(checker *k, int *argc, char ***argv)
{
    ff_ctx *ctx = &k->ctx;
    const check_options *o = &k->options;
    FF_TRY(ff_dap_init(ctx, argc, argv, (int)o->dap));
    if (ff_dap_size(ctx) != o->dap)
        return FF_FAIL(ctx, FF_ERR_ARG, "--dap %lld needs that many ranks: mpirun -np %lld golden_check ...",
                       (long long)o->dap, (long long)o->dap);
    ff_dap_set_wire(ctx, (ff_dtype)o->wire);
    k->prints = ff_dap_rank(ctx) == 0;
#ifdef _OPENMP
    if (o->threads > 0)
        omp_set_num_threads((int)o->threads);
#endif
    FF_TRY(ff_kernels_get(ctx, &ctx->kernels, (ff_backend)o->backend, (ff_isa)(o->isa - 1), (ff_dtype)o->dtype));
    return ff_pool_create(ctx, 0, false);
}

static void print_header(const checker *k)
{
    const ff_kernels *table = k->ctx.kernels;
    int threads = 1;
#ifdef _OPENMP
    threads = omp_get_max_threads();
#endif
    if (k->prints && !k->options.json)
        printf("golden_check %s: backend %s, isa %s, dtype %s, %d threads, dap %d\n", FF_VERSION, table->name,
               ff_isa_name(table->isa), dtype_name(table->dtype), threads, ff_dap_size(&k->ctx));
}

int main(int argc, char **argv)
{
    checker k = {0};
    ff_context_init(&k.ctx);
    k.prints = true;
    ff_arguments args;
    if (ff_options_parse(&k.ctx, &program, &k.options, argc, argv, &args) != FF_OK) {
        fprintf(stderr, "%s: %s\n", program.name, k.ctx.message);
        return 2;
    }
    if (args.help || args.version) {
        (args.help ? ff_options_print_help : ff_options_print_version)(&program, stdout);
        return 0;
    }
    if (args.num_positional == 0) {
        fprintf(stderr, "%s: no file or folder given; see --help\n", program.name);
        return 2;
    }
    set_tolerances(&k);
    int exit_status = 1;
    const ff_status status = set_up(&k, &argc, &argv);
    if (status != FF_OK) {
        if (k.prints)
            fprintf(stderr, "%s: %s\n", program.name, k.ctx.message);
        exit_status = status == FF_ERR_ARG ? 2 : 1;
        goto done;
    }
    print_header(&k);
    for (int i = 0; i < args.num_positional && !k.stopped; i++)
        check_path(&k, args.positional[i]);
    if (k.matched == 0 && k.failed == 0) {
        FF_FAIL(&k.ctx, FF_ERR_ARG, "nothing to check: no case is called %s", k.options.only);
        report_unusable(&k);
    }
    if (k.prints)
        printf("%lld passed, %lld failed, %lld skipped\n", (long long)k.passed, (long long)k.failed,
               (long long)k.skipped);
    if (k.stopped && k.prints)
        fprintf(stderr, "golden_check: stopped after a rank failed\n");
    exit_status = k.failed > 0; /* the same on all ranks */
done:
    ff_context_clear(&k.ctx);
    if (k.ctx.pool != NULL && ff_pool_get_stats(k.ctx.pool).in_use == 0) /* a failed case may have left some */
        ff_pool_destroy(&k.ctx);
    ff_dap_finalize(&k.ctx);
    return exit_status;
}
