/* bench_data.c - the command `data`: how fast alignments become features, structure files are read, features become batches, and
 * the loader gives samples.
 *
 * Contents: alignments; structure files; batches; the loader; a consumer that trains. */
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "bench/bench.h"
#include "core/clock.h"
#include "bench/cases.h"
#include "bench/training.h"
#include "data/a3m.h"
#include "data/features.h"
#include "data/process.h"
#include "data/structure_file.h"
#include "io/safe_file.h"
#include "train/samples.h"

enum {
    A3M_SEQ = 10000, /* as the peer reads */
    A3M_RES = 500,
    BATCH_SEQ = 512,
    BATCH_EXTRA = 5120,
    CHAIN_MIN_RES = 128, /* of the made training set: crops of the preset tiny are whole */
    CHAIN_MAX_RES = 384,
    CHAIN_ROWS = 256,
    PATH_BYTES = 4096
};

static const double MEGA = 1e-6;

/* ---- alignments ---- */

typedef struct {
    const char *path;
    ff_array_set features; /* of the last run */
} a3m_case;

/* Everything from the file to the arrays; aatype too, which later cases need. */
static ff_status read_a3m(ff_ctx *ctx, void *arg)
{
    a3m_case *c = arg;
    ff_msa msa;
    ff_status status = FF_OK;
    ff_array_set_destroy(&c->features);
    FF_TRY(ff_a3m_read(ctx, &msa, c->path, NULL));
    const ff_msa *const msas[] = {&msa};
    char *sequence = strndup(msa.rows, (size_t)msa.num_res);
    if (sequence == NULL)
        FF_TRY_DONE(FF_FAIL(ctx, FF_ERR_MEM, "out of memory"));
    FF_TRY_DONE(ff_features_add_sequence(ctx, &c->features, sequence, "query"));
    FF_TRY_DONE(ff_features_add_msas(ctx, &c->features, msas, 1, msa.num_res));
done:
    free(sequence);
    ff_msa_destroy(&msa);
    return status;
}

static ff_status time_a3m(const bench_cases *cases, a3m_case *c)
{
    struct stat file;
    bench_seconds seconds;
    if (stat(c->path, &file) != 0)
        return FF_FAIL(cases->ctx, FF_ERR_IO, "cannot read %s: %s", c->path, strerror(errno));
    bench_reset_resident_peak();
    FF_TRY(bench_time(cases, read_a3m, c, &seconds));
    const ff_array *msa = ff_array_find(&c->features, "msa");
    bench_print_case(cases, "a3m_to_features", seconds,
                     BENCH_FIGURES({"mbytes_per_second", "MB/s", (double)file.st_size * MEGA / seconds.median},
                                   {"rows", "rows", (double)msa->shape[0]}, {"columns", "columns", (double)msa->shape[1]},
                                   {"peak_mbytes", "MB resident", (double)bench_resident_peak() * MEGA}));
    return FF_OK;
}

/* ---- structure files ---- */

typedef struct {
    char **paths;
    int64_t count, capacity;
    int64_t read, refused; /* in the last run */
    double bytes;          /* of all files, as they lie on the disk */
    double residues;
} structure_case;

static bool ends_with(const char *name, const char *end)
{
    const size_t length = strlen(name), tail = strlen(end);
    return length >= tail && strcmp(name + length - tail, end) == 0;
}

static ff_status list_structures(ff_ctx *ctx, structure_case *c, const char *folder)
{
    ff_status status = FF_OK;
    char path[PATH_BYTES];
    struct stat file;
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return FF_FAIL(ctx, FF_ERR_IO, "--data-dir: cannot read the folder %s: %s", folder, strerror(errno));
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (!ends_with(entry->d_name, ".cif") && !ends_with(entry->d_name, ".cif.gz"))
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        FF_TRY_DONE(ff_grow(ctx, &c->paths, &c->capacity, c->count + 1, sizeof *c->paths));
        if ((c->paths[c->count] = strdup(path)) == NULL)
            FF_TRY_DONE(FF_FAIL(ctx, FF_ERR_MEM, "out of memory"));
        c->count++;
        c->bytes += stat(path, &file) == 0 ? (double)file.st_size : 0;
    }
    if (c->count == 0)
        status = FF_FAIL(ctx, FF_ERR_ARG, "--data-dir: no .cif and no .cif.gz in %s", folder);
done:
    closedir(dir);
    return status;
}

static ff_status read_structures(ff_ctx *ctx, void *arg)
{
    structure_case *c = arg;
    c->read = c->refused = 0;
    c->residues = 0;
    for (int64_t k = 0; k < c->count; k++) {
        ff_structure structure;
        const ff_status status = ff_structure_read(ctx, &structure, c->paths[k], NULL);
        if (status == FF_ERR_MEM || status == FF_ERR_UNSUPPORTED)
            return status;
        c->read += status == FF_OK;
        c->refused += status != FF_OK; /* damaged ones on purpose lie among them */
        if (status != FF_OK)
            ff_context_clear(ctx);
        for (int64_t i = 0; i < structure.num_chains; i++)
            c->residues += (double)structure.chains[i].num_res;
        ff_structure_destroy(&structure);
    }
    return FF_OK;
}

static ff_status time_structures(const bench_cases *cases)
{
    structure_case c = {0};
    bench_seconds seconds;
    ff_status status = FF_OK;
    FF_TRY_DONE(list_structures(cases->ctx, &c, cases->data_dir));
    bench_reset_resident_peak();
    FF_TRY_DONE(bench_time(cases, read_structures, &c, &seconds));
    bench_print_case(cases, "mmcif_read", seconds,
                     BENCH_FIGURES({"files_per_second", "files/s", (double)c.count / seconds.median},
                                   {"mbytes_per_second", "MB/s on disk", c.bytes * MEGA / seconds.median},
                                   {"residues_per_second", "residues/s", c.residues / seconds.median},
                                   {"files", "files read", (double)c.read}, {"refused", "refused", (double)c.refused},
                                   {"peak_mbytes", "MB resident", (double)bench_resident_peak() * MEGA}));
done:
    for (int64_t k = 0; k < c.count; k++)
        free(c.paths[k]);
    free(c.paths);
    return status;
}

/* ---- batches ---- */

typedef struct {
    const ff_array_set *raw;
    ff_process_options options;
    double bytes; /* of the batch */
} batch_case;

static ff_status make_batch(ff_ctx *ctx, void *arg)
{
    batch_case *c = arg;
    ff_array_set batch;
    ff_array_set_init(&batch);
    const ff_status status = ff_process_features(ctx, &batch, c->raw, &c->options);
    c->bytes = 0;
    for (int64_t i = 0; i < batch.count; i++)
        c->bytes += (double)batch.items[i]->size * (double)ff_array_type_bytes(batch.items[i]->type);
    ff_array_set_destroy(&batch);
    return status;
}

/* One slice, as each recycle draws its own: the whole chain, then a crop as fine-tuning takes it. */
static ff_status time_batches(const bench_cases *cases, const ff_array_set *raw)
{
    const struct {
        const char *name;
        int64_t crop;
    } forms[] = {{"features_to_batch", 0}, {"features_to_batch_crop_256", 256}};
    for (size_t k = 0; k < sizeof forms / sizeof *forms; k++) {
        batch_case c = {.raw = raw};
        bench_seconds seconds;
        FF_TRY(ff_process_options_preset(cases->ctx, &c.options, "model_3"));
        c.options.num_seq = BATCH_SEQ;
        c.options.num_extra = BATCH_EXTRA;
        c.options.num_recycle = 0;
        c.options.crop_size = forms[k].crop;
        bench_reset_resident_peak();
        FF_TRY(bench_time(cases, make_batch, &c, &seconds));
        bench_print_case(cases, forms[k].name, seconds,
                         BENCH_FIGURES({"batches_per_second", "slices/s", 1 / seconds.median},
                                       {"mbytes_per_second", "MB/s made", c.bytes * MEGA / seconds.median},
                                       {"batch_mbytes", "MB a slice", c.bytes * MEGA},
                                       {"peak_mbytes", "MB resident", (double)bench_resident_peak() * MEGA}));
    }
    return FF_OK;
}

/* ---- the loader ---- */

/* Samples of the preset tiny as fast as the workers make them, none kept in memory. */
static ff_status time_loader(const bench_cases *cases, const ff_chain_source *source, int64_t num_workers)
{
    ff_ctx *ctx = cases->ctx;
    ff_status status = FF_OK;
    ff_train_settings settings;
    ff_samples *samples = NULL;
    char name[64];
    FF_TRY(bench_training_settings(ctx, &settings, "tiny", num_workers));
    settings.samples.cache_bytes = 0;
    const int64_t count = cases->num_samples > 0 ? cases->num_samples : source->num_records;
    double *seconds = calloc((size_t)count, sizeof *seconds);
    if (seconds == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory");
    bench_reset_resident_peak();
    const double begin = ff_clock_s();
    FF_TRY_DONE(ff_samples_create(ctx, &samples, &settings.samples, source, NULL, 0));
    for (int64_t k = 0; k < count; k++) {
        const double before = ff_clock_s();
        FF_TRY_DONE(bench_take_sample(ctx, samples));
        seconds[k] = ff_clock_s() - before;
    }
    const double whole = ff_clock_s() - begin;
    const ff_loader_stats stats = ff_samples_stats(samples);
    snprintf(name, sizeof name, "loader_%lld_worker%s", (long long)num_workers, num_workers == 1 ? "" : "s");
    bench_print_case(cases, name, bench_summary(seconds, count),
                     BENCH_FIGURES({"samples_per_second", "samples/s", (double)count / whole},
                                   {"read_seconds", "s of reading a sample", stats.read_s / (double)stats.samples},
                                   {"process_seconds", "s of processing", stats.process_s / (double)stats.samples},
                                   {"peak_mbytes", "MB resident", (double)bench_resident_peak() * MEGA}));
done:
    ff_samples_destroy(samples);
    free(seconds);
    return status;
}

/* ---- a consumer that trains ---- */

static ff_status time_consumer(const bench_cases *cases, const ff_chain_source *source, int64_t num_workers)
{
    bench_training t;
    char name[64];
    bench_reset_resident_peak();
    ff_status status = bench_training_open(cases->ctx, &t, "tiny", source, num_workers);
    if (status == FF_OK)
        status = bench_training_run(cases->ctx, &t, cases->num_steps);
    if (status == FF_OK) {
        snprintf(name, sizeof name, "training_tiny_%lld_worker%s", (long long)num_workers, num_workers == 1 ? "" : "s");
        bench_print_case(cases, name, t.step,
                         BENCH_FIGURES({"samples_per_second", "samples/s", 1 / t.step.median},
                                       {"wait_percent", "% of the time waiting", 100 * t.wait_s / t.whole_s},
                                       {"longest_wait_ms", "ms longest wait", 1e3 * t.longest_wait_s},
                                       {"peak_mbytes", "MB resident", (double)bench_resident_peak() * MEGA}));
    }
    bench_training_close(cases->ctx, &t);
    return status;
}

static ff_status time_dataset(const bench_cases *cases, const char *path)
{
    const ff_dataset_filter filter = ff_dataset_filter_default();
    ff_chain_source source = {0};
    ff_status status = FF_OK;
    FF_TRY_DONE(ff_chain_source_open_dataset(cases->ctx, &source, path, &filter, NULL));
    for (int64_t workers = 1; workers <= 2; workers++)
        FF_TRY_DONE(time_loader(cases, &source, workers));
    for (int64_t workers = 1; workers <= 2; workers++)
        FF_TRY_DONE(time_consumer(cases, &source, workers));
done:
    ff_chain_source_close(&source);
    return status;
}

static ff_status make_dataset(const bench_cases *cases, const char *path)
{
    const double begin = ff_clock_s();
    struct stat file = {0};
    FF_TRY(bench_write_dataset(cases->ctx, path, cases->num_chains, CHAIN_MIN_RES, CHAIN_MAX_RES, CHAIN_ROWS));
    const double seconds = ff_clock_s() - begin;
    if (stat(path, &file) != 0)
        return FF_FAIL(cases->ctx, FF_ERR_IO, "cannot read %s: %s", path, strerror(errno));
    bench_print_case(cases, "dataset_write", (bench_seconds){seconds, seconds},
                     BENCH_FIGURES({"chains_per_second", "chains/s", (double)cases->num_chains / seconds},
                                   {"file_mbytes", "MB file", (double)file.st_size * MEGA}));
    return FF_OK;
}

ff_status bench_data(const bench_cases *cases)
{
    ff_status status = FF_OK;
    char *folder = NULL, path[PATH_BYTES];
    a3m_case a3m = {.path = cases->a3m};
    bench_print_heads(cases);
    FF_TRY(ff_make_temporary_folder(cases->ctx, &folder));
    snprintf(path, sizeof path, "%s/made.a3m", folder);
    if (a3m.path == NULL) {
        FF_TRY_DONE(bench_write_a3m(cases->ctx, path, A3M_SEQ, A3M_RES));
        a3m.path = path;
    }
    FF_TRY_DONE(time_a3m(cases, &a3m));
    FF_TRY_DONE(time_batches(cases, &a3m.features));
    ff_array_set_destroy(&a3m.features);
    if (cases->data_dir != NULL)
        FF_TRY_DONE(time_structures(cases));
    snprintf(path, sizeof path, "%s/made.h5", folder);
    if (cases->dataset == NULL)
        FF_TRY_DONE(make_dataset(cases, path));
    FF_TRY_DONE(time_dataset(cases, cases->dataset == NULL ? path : cases->dataset));
done:
    ff_array_set_destroy(&a3m.features);
    ff_remove_folder(folder);
    free(folder);
    return status;
}
