#include "data/search_database.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "io/safe_file.h"
#include "io/text_file.h"

enum { SAMPLE_BYTES = 65536 };

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static bool is_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static bool has_file(const char *prefix, const char *suffix)
{
    char *path = NULL;
    const bool found = asprintf(&path, "%s%s", prefix, suffix) >= 0 && is_file(path);
    free(path);
    return found;
}

/* ---- the files of a database ---- */

typedef struct {
    const char *suffix;
    bool may_be_empty; /* HH-suite writes an empty data file when no entry has one */
    bool may_be_split; /* MMseqs2: FILE.0, FILE.1, ... in its place, one for each thread that wrote it */
} database_file;

static const database_file hhsuite_files[] = {{.suffix = "_cs219.ffdata"},
                                              {.suffix = "_cs219.ffindex"},
                                              {.suffix = "_a3m.ffdata"},
                                              {.suffix = "_a3m.ffindex"},
                                              {.suffix = "_hhm.ffdata", .may_be_empty = true},
                                              {.suffix = "_hhm.ffindex", .may_be_empty = true},
                                              {.suffix = NULL}};
static const database_file mmseqs_files[] = {{.suffix = "", .may_be_split = true},
                                             {.suffix = ".index"},
                                             {.suffix = ".dbtype"},
                                             {.suffix = "_h", .may_be_split = true},
                                             {.suffix = "_h.index"},
                                             {.suffix = "_h.dbtype"},
                                             {.suffix = NULL}};
static const database_file clustered_files[] = {{.suffix = "_seq", .may_be_split = true},
                                                {.suffix = "_seq.index"},
                                                {.suffix = "_seq.dbtype"},
                                                {.suffix = "_seq_h", .may_be_split = true},
                                                {.suffix = "_seq_h.index"},
                                                {.suffix = "_seq_h.dbtype"},
                                                {.suffix = "_aln", .may_be_split = true},
                                                {.suffix = "_aln.index"},
                                                {.suffix = "_aln.dbtype"},
                                                {.suffix = NULL}};
static const database_file one_file[] = {{.suffix = ""}, {.suffix = NULL}};

/* Name, size, time and the ends of one file. errno says why when it cannot be read. */
static bool add_file(ff_sha256 *hash, const char *path, const char *suffix, bool may_be_empty)
{
    struct stat st;
    FILE *file = fopen(path, "rb");
    char *sample = malloc(SAMPLE_BYTES);
    bool good = file != NULL && sample != NULL && fstat(fileno(file), &st) == 0;
    if (good && !S_ISREG(st.st_mode)) {
        errno = S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
        good = false;
    }
    if (good && st.st_size == 0 && !may_be_empty) {
        errno = ENODATA;
        good = false;
    }
    if (good) {
        char numbers[96];
        snprintf(numbers, sizeof numbers, "%" PRId64 " %" PRId64 ".%09ld", (int64_t)st.st_size,
                 (int64_t)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
        ff_sha256_add_text(hash, suffix);
        ff_sha256_add_text(hash, numbers);
        ff_sha256_add(hash, sample, fread(sample, 1, SAMPLE_BYTES, file));
        if (st.st_size > SAMPLE_BYTES && fseek(file, -(long)SAMPLE_BYTES, SEEK_END) == 0)
            ff_sha256_add(hash, sample, fread(sample, 1, SAMPLE_BYTES, file));
        good = !ferror(file);
    }
    const int error = errno;
    if (file != NULL)
        fclose(file);
    free(sample);
    errno = error;
    return good;
}

typedef struct {
    int64_t missing;
    int error; /* errno of the first */
    char first[512];
} missing_files;

static void note_missing(missing_files *m, const char *path)
{
    if (m->missing++ > 0)
        return;
    m->error = errno;
    snprintf(m->first, sizeof m->first, "%.500s", path);
}

/* FILE.0, FILE.1, ... as long as they are there; false when there is none. */
static bool add_parts(ff_sha256 *hash, const char *path, missing_files *m)
{
    for (int k = 0;; k++) {
        char part[4096], suffix[32];
        snprintf(suffix, sizeof suffix, ".%d", k);
        snprintf(part, sizeof part, "%.4000s%s", path, suffix);
        if (!is_file(part))
            return k > 0;
        if (!add_file(hash, part, suffix, true))
            note_missing(m, part);
    }
}

static void add_files(ff_sha256 *hash, const char *prefix, const database_file *files, missing_files *m)
{
    for (const database_file *f = files; f->suffix != NULL; f++) {
        char path[4096];
        snprintf(path, sizeof path, "%.4000s%s", prefix, f->suffix);
        if (f->may_be_split && !is_file(path) && add_parts(hash, path, m))
            continue;
        if (!add_file(hash, path, f->suffix, f->may_be_empty))
            note_missing(m, path);
    }
}

static ff_status fail_missing(ff_ctx *ctx, const ff_database *d, const missing_files *m, const char *shape)
{
    char more[48] = "";
    if (m->missing > 1)
        snprintf(more, sizeof more, " (and %lld more)", (long long)(m->missing - 1));
    return FF_FAIL(ctx, FF_ERR_IO, "%s: %s: %s%s%s", d->option, m->first,
                   m->error == ENODATA ? "the file is empty" : strerror(m->error), more, shape);
}

/* ---- from what a user gives to what a tool takes ---- */

/* The prefix when a folder holds exactly one database whose files end so. */
static char *find_in_folder(const char *folder, const char *suffix)
{
    char *found = NULL;
    int count = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        if (!ends_with(entry->d_name, suffix))
            continue;
        free(found);
        const int length = (int)(strlen(entry->d_name) - strlen(suffix));
        if (asprintf(&found, "%s/%.*s", folder, length, entry->d_name) < 0)
            found = NULL;
        count++;
    }
    if (dir != NULL)
        closedir(dir);
    if (count == 1)
        return found;
    free(found);
    return NULL;
}

/* The prefix an HH-suite tool takes: also from one of the files, or from their folder. */
static char *hhsuite_prefix(const char *path)
{
    for (const database_file *f = hhsuite_files; f->suffix != NULL; f++)
        if (ends_with(path, f->suffix) && is_file(path))
            return strndup(path, strlen(path) - strlen(f->suffix));
    char *found = NULL;
    if (is_folder(path)) {
        found = find_in_folder(path, "_cs219.ffindex");
        if (found == NULL)
            found = find_in_folder(path, "_a3m.ffindex");
    }
    return found != NULL ? found : strdup(path);
}

static char *mmseqs_prefix(const char *path)
{
    static const char *const suffixes[] = {"_h.dbtype", "_h.index", "_h", ".idx.dbtype", ".idx", ".dbtype", ".index"};
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        if (!ends_with(path, suffixes[i]))
            continue;
        char *prefix = strndup(path, strlen(path) - strlen(suffixes[i]));
        if (prefix != NULL && has_file(prefix, ".dbtype"))
            return prefix;
        free(prefix);
    }
    char *found = is_folder(path) ? find_in_folder(path, "_h.dbtype") : NULL;
    return found != NULL ? found : strdup(path);
}

/* The first character of a FASTA file is `>`; a packed one is told apart. */
static ff_status check_fasta(ff_ctx *ctx, const ff_database *d)
{
    unsigned char head[4] = {0};
    FILE *file = fopen(d->path, "rb");
    const size_t n = file == NULL ? 0 : fread(head, 1, sizeof head, file);
    if (file != NULL)
        fclose(file);
    if (n >= 2 && head[0] == 0x1f && head[1] == 0x8b)
        return FF_FAIL(ctx, FF_ERR_FORMAT,
                       "%s: %s is packed by gzip, which the search tool cannot read; gunzip it first", d->option,
                       d->path);
    if (n == 0 || head[0] != '>')
        return FF_FAIL(ctx, FF_ERR_FORMAT, "%s: %s is no FASTA file: it does not begin with \">\"", d->option,
                       d->path);
    return FF_OK;
}

static ff_status open_files(ff_ctx *ctx, ff_database *d)
{
    ff_sha256 hash;
    missing_files m = {0};
    ff_sha256_begin(&hash);
    if (d->is_fasta) {
        add_files(&hash, d->path, one_file, &m);
        if (m.missing > 0)
            return fail_missing(ctx, d, &m, "");
        FF_TRY(check_fasta(ctx, d));
    } else if (d->kind == FF_DATABASE_HHSUITE) {
        add_files(&hash, d->path, hhsuite_files, &m);
        if (m.missing > 0)
            return fail_missing(ctx, d, &m,
                                "; the option takes what stands before _cs219.ffdata in the names of its files");
    } else {
        add_files(&hash, d->path, mmseqs_files, &m);
        if (d->is_clustered)
            add_files(&hash, d->path, clustered_files, &m);
        if (m.missing > 0)
            return fail_missing(ctx, d, &m, "; the option takes an MMseqs2 database or a FASTA file");
    }
    ff_sha256_end(&hash, d->identity);
    return FF_OK;
}

ff_status ff_database_open(ff_ctx *ctx, ff_database *database, ff_database_kind kind, const char *option,
                           const char *path)
{
    *database = (ff_database){.kind = kind, .option = option};
    database->path = kind == FF_DATABASE_HHSUITE  ? hhsuite_prefix(path)
                     : kind == FF_DATABASE_MMSEQS ? mmseqs_prefix(path)
                                                  : strdup(path);
    if (database->path == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory");
    database->is_fasta =
        kind == FF_DATABASE_FASTA || (kind == FF_DATABASE_MMSEQS && is_file(database->path) &&
                                      !has_file(database->path, ".dbtype") && !has_file(database->path, ".index"));
    if (kind == FF_DATABASE_MMSEQS && !database->is_fasta) {
        database->has_index = has_file(database->path, ".idx.index");
        database->is_clustered = has_file(database->path, "_seq.dbtype") || has_file(database->path, "_aln.dbtype");
    }
    const ff_status status = open_files(ctx, database);
    if (status != FF_OK)
        ff_database_close(database);
    return status;
}

void ff_database_close(ff_database *database)
{
    free(database->path);
    *database = (ff_database){0};
}

/* ---- what HMMER stops at ---- */

/* Easel's amino-acid alphabet takes letters and the marks below in a sequence; everything else ends a search. */
static bool is_readable(unsigned char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '*' || ff_text_is_blank(c);
}

/* Write a copy; or, with `out` NULL, only count. */
static ff_status pass_over(ff_ctx *ctx, const char *path, FILE *out, int64_t *num_bad, int64_t *first_bad)
{
    ff_text_file *text = NULL;
    ff_status status = FF_OK;
    *num_bad = *first_bad = 0;
    FF_TRY(ff_text_open(ctx, &text, path));
    for (ff_text_line line;;) {
        FF_TRY_DONE(ff_text_next(ctx, text, &line));
        if (line.text == NULL)
            break;
        for (int64_t i = 0; line.text[0] != '>' && i < line.length; i++) {
            if (is_readable((unsigned char)line.text[i]))
                continue;
            if (*num_bad == 0)
                *first_bad = line.number;
            line.text[i] = 'X';
            ++*num_bad;
        }
        if (out != NULL) {
            fwrite(line.text, 1, (size_t)line.length, out);
            putc('\n', out);
        }
    }
done:
    ff_text_close(text);
    return status;
}

ff_status ff_database_clean_fasta(ff_ctx *ctx, const char *path, const char *clean, int64_t *num_bad,
                                  int64_t *first_bad)
{
    ff_safe_file safe;
    FF_TRY(pass_over(ctx, path, NULL, num_bad, first_bad));
    if (*num_bad == 0)
        return FF_OK;
    FF_TRY(ff_safe_file_begin(ctx, &safe, clean));
    const ff_status status = pass_over(ctx, path, safe.file, num_bad, first_bad);
    if (status != FF_OK) {
        ff_safe_file_abandon(&safe);
        return status;
    }
    return ff_safe_file_commit(ctx, &safe);
}
