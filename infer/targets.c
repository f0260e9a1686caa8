/* targets.c - see targets.h.
 *
 * Contents: the list; records of a file; folders; names of folders; order; the map of names. */
#include "infer/targets.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/fasta.h"
#include "io/safe_file.h"
#include "io/text_buffer.h"

static const char names_file[] = "names.tsv";

/* ---- the list ---- */

static void free_target(ff_target *t)
{
    void *const owned[] = {t->name, t->sequence, t->source, t->note, t->problem, t->msa_path, t->folder};
    for (size_t k = 0; k < sizeof owned / sizeof *owned; k++)
        free(owned[k]);
}

void ff_targets_destroy(ff_targets *targets)
{
    for (int64_t k = 0; k < targets->count; k++)
        free_target(&targets->items[k]);
    free(targets->items);
    *targets = (ff_targets){0};
}

ff_status ff_targets_add(ff_ctx *ctx, ff_targets *targets, const char *name, const char *sequence, const char *source,
                         const char *note, const char *msa_path, const char *problem)
{
    FF_TRY(ff_grow(ctx, &targets->items, &targets->capacity, targets->count + 1, sizeof *targets->items));
    ff_target t = {.name = strdup(name),
                   .sequence = strdup(sequence),
                   .source = strdup(source),
                   .note = strdup(note != NULL ? note : ""),
                   .num_res = (int64_t)strlen(sequence),
                   .place = targets->count};
    t.msa_path = msa_path != NULL ? strdup(msa_path) : NULL;
    t.problem = problem != NULL ? strdup(problem) : NULL;
    if (!t.name || !t.sequence || !t.source || !t.note || (msa_path && !t.msa_path) || (problem && !t.problem)) {
        free_target(&t);
        return FF_FAIL(ctx, FF_ERR_MEM, "%s: out of memory", source);
    }
    targets->items[targets->count++] = t;
    return FF_OK;
}

/* ---- records of a file ---- */

static ff_status add_record(ff_ctx *ctx, ff_targets *targets, const ff_fasta_record *record, const char *msa_path)
{
    ff_query query;
    ff_text_buffer source = {0};
    ff_status status = ff_text_buffer_put_line(ctx, &source, record->path, strlen(record->path));
    char line[32], problem[FF_MESSAGE_BYTES];
    snprintf(line, sizeof line, ":%" PRId64, record->line);
    if (status == FF_OK)
        status = ff_text_buffer_put_line(ctx, &source, line, strlen(line));
    const char *name = record->description;
    while (ff_text_is_blank((unsigned char)*name))
        name++;
    if (status == FF_OK) {
        const ff_status readable = ff_query_from_record(ctx, &query, record, false);
        if (readable == FF_OK) {
            status = ff_targets_add(ctx, targets, name, query.sequence, source.data, query.note, msa_path, NULL);
            ff_query_destroy(&query);
        } else if (readable == FF_ERR_FORMAT) { /* this record's own fault */
            snprintf(problem, sizeof problem, "%s", ctx->message);
            ff_context_clear(ctx);
            status = ff_targets_add(ctx, targets, name, "", source.data, NULL, msa_path, problem);
        } else {
            status = readable;
        }
    }
    ff_text_buffer_destroy(&source);
    return status;
}

/* Skip to the first `>`: some A3M files begin with `#` lines. */
static ff_status skip_comments(ff_ctx *ctx, ff_text_file *text)
{
    ff_text_line line;
    do {
        FF_TRY(ff_text_next(ctx, text, &line));
        if (line.text == NULL)
            return FF_OK;
    } while (line.length == 0 || line.text[0] == '#');
    ff_text_push_back(text, &line);
    return FF_OK;
}

static ff_status add_file(ff_ctx *ctx, ff_targets *targets, const char *path, bool is_a3m)
{
    ff_status status = FF_OK;
    ff_text_file *text = NULL;
    ff_fasta_reader *reader = NULL;
    ff_fasta_record record;
    bool more = false;
    int64_t num_records = 0;
    FF_TRY(ff_text_open(ctx, &text, path));
    if (is_a3m)
        status = skip_comments(ctx, text);
    if (status != FF_OK) {
        ff_text_close(text);
        return status;
    }
    FF_TRY_DONE(ff_fasta_open_text(ctx, &reader, text));
    do {
        FF_TRY_DONE(ff_fasta_next(ctx, reader, &record, &more));
        if (more)
            FF_TRY_DONE(add_record(ctx, targets, &record, is_a3m ? path : NULL));
        num_records += more;
    } while (more && !is_a3m);
    if (num_records == 0)
        status = FF_FAIL(ctx, FF_ERR_FORMAT,
                         "%s has no sequences; a FASTA record is a line `>name` and lines of residues", record.path);
done:
    ff_fasta_close(reader);
    return status;
}

/* ---- folders ---- */

/* Whether `name` ends with `end`, or with `end` and ".gz"; case does not count. */
static bool ends_with(const char *name, const char *end)
{
    size_t length = strlen(name);
    const size_t wanted = strlen(end);
    if (length > 3 && strcasecmp(name + length - 3, ".gz") == 0)
        length -= 3;
    return length > wanted && strncasecmp(name + length - wanted, end, wanted) == 0;
}

static bool is_alignment(const char *name)
{
    return ends_with(name, ".a3m");
}

static int is_input(const struct dirent *entry)
{
    static const char *const ends[] = {".fasta", ".fa", ".faa", ".fas", ".a3m"};
    for (size_t k = 0; k < sizeof ends / sizeof *ends; k++)
        if (entry->d_name[0] != '.' && ends_with(entry->d_name, ends[k]))
            return 1;
    return 0;
}

/* A file of a folder: what is wrong with it is its own problem. */
static ff_status add_file_of_folder(ff_ctx *ctx, ff_targets *targets, const char *folder, const char *name)
{
    char problem[FF_MESSAGE_BYTES];
    const size_t bytes = strlen(folder) + strlen(name) + 2;
    char *path = malloc(bytes);
    struct stat st;
    if (path == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory reading folder %s", folder);
    snprintf(path, bytes, "%s%s%s", folder, folder[strlen(folder) - 1] == '/' ? "" : "/", name);
    ff_status status = FF_OK;
    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode))
        status = add_file(ctx, targets, path, is_alignment(name));
    if (status == FF_ERR_IO || status == FF_ERR_FORMAT) {
        snprintf(problem, sizeof problem, "%s", ctx->message);
        ff_context_clear(ctx);
        status = ff_targets_add(ctx, targets, name, "", path, NULL, NULL, problem);
    }
    free(path);
    return status;
}

static ff_status add_folder(ff_ctx *ctx, ff_targets *targets, const char *folder)
{
    struct dirent **entries = NULL;
    const int count = scandir(folder, &entries, is_input, alphasort);
    if (count < 0)
        return FF_FAIL(ctx, FF_ERR_IO, "cannot read folder %s: %s", folder, strerror(errno));
    ff_status status = FF_OK;
    for (int k = 0; k < count; k++) {
        if (status == FF_OK)
            status = add_file_of_folder(ctx, targets, folder, entries[k]->d_name);
        free(entries[k]);
    }
    free(entries);
    if (count == 0)
        status = FF_FAIL(ctx, FF_ERR_ARG, "folder %s has no files named *.fasta, *.fa, *.faa, *.fas or *.a3m", folder);
    return status;
}

ff_status ff_targets_add_path(ff_ctx *ctx, ff_targets *targets, const char *path)
{
    struct stat st;
    if (strcmp(path, "-") != 0 && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return add_folder(ctx, targets, path);
    return add_file(ctx, targets, path, is_alignment(path));
}

/* ---- names of folders ---- */

typedef struct {
    char name[FF_FILE_NAME_BYTES]; /* before a number is added */
    int64_t index;
} first_name;

static int by_name_then_index(const void *a, const void *b)
{
    const first_name *x = a, *y = b;
    const int order = strcasecmp(x->name, y->name);
    return order != 0 ? order : x->index < y->index ? -1 : x->index > y->index;
}

/* Whether some target's own first name is this one. */
static bool is_first_name(const char *name, const first_name *sorted, int64_t count)
{
    int64_t low = 0, high = count;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (strcasecmp(sorted[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && strcasecmp(sorted[low].name, name) == 0;
}

/* The first target of a name has it as it is; the others, and one that is named as our own file, get a number. Numbered
 * names differ from each other: they end in `_number`, and what stands before differs or the number does. */
static ff_status name_folders(ff_ctx *ctx, ff_targets *targets, const first_name *sorted)
{
    int64_t number = 1;
    for (int64_t k = 0; k < targets->count; k++) {
        const char *first = sorted[k].name;
        const bool again = k > 0 && strcasecmp(sorted[k - 1].name, first) == 0;
        char name[FF_FILE_NAME_BYTES + 24];
        number = again ? number : 1;
        snprintf(name, sizeof name, "%s", first);
        if (again || strcasecmp(first, names_file) == 0)
            do
                snprintf(name, sizeof name, "%s_%" PRId64, first, ++number);
            while (is_first_name(name, sorted, targets->count));
        char **folder = &targets->items[sorted[k].index].folder;
        free(*folder);
        if ((*folder = strdup(name)) == NULL)
            return FF_FAIL(ctx, FF_ERR_MEM, "out of memory naming folders");
    }
    return FF_OK;
}

ff_status ff_targets_choose_folders(ff_ctx *ctx, ff_targets *targets)
{
    first_name *sorted = malloc((size_t)(targets->count + 1) * sizeof *sorted);
    if (sorted == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory naming folders");
    for (int64_t k = 0; k < targets->count; k++) {
        ff_fasta_file_name(sorted[k].name, targets->items[k].name);
        sorted[k].index = k;
    }
    qsort(sorted, (size_t)targets->count, sizeof *sorted, by_name_then_index);
    const ff_status status = name_folders(ctx, targets, sorted);
    free(sorted);
    return status;
}

/* ---- order ---- */

static int shorter_first(const void *a, const void *b)
{
    const ff_target *x = a, *y = b;
    if (x->num_res != y->num_res)
        return x->num_res < y->num_res ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

void ff_targets_sort(ff_targets *targets)
{
    if (targets->count > 1)
        qsort(targets->items, (size_t)targets->count, sizeof *targets->items, shorter_first);
}

/* ---- the map of names ---- */

static ff_status put_field(ff_ctx *ctx, ff_text_buffer *out, const char *text, char end)
{
    for (const char *c = text; *c != '\0'; c++) {
        const char kept = (unsigned char)*c < ' ' || *c == 0x7f ? ' ' : *c;
        FF_TRY(ff_text_buffer_put(ctx, out, &kept, 1));
    }
    return ff_text_buffer_put(ctx, out, &end, 1);
}

static bool has_folder(const ff_targets *targets, const char *folder, size_t length)
{
    for (int64_t k = 0; k < targets->count; k++)
        if (strlen(targets->items[k].folder) == length && memcmp(targets->items[k].folder, folder, length) == 0)
            return true;
    return false;
}

/* Lines of an older map about folders that are not in the list. */
static ff_status keep_old_lines(ff_ctx *ctx, ff_text_buffer *out, const ff_targets *targets, const char *path)
{
    char *old = NULL;
    size_t size = 0;
    if (access(path, F_OK) != 0)
        return FF_OK;
    FF_TRY(ff_text_read_all(ctx, path, &old, &size));
    ff_status status = FF_OK;
    for (const char *line = old, *end;
         status == FF_OK && (end = memchr(line, '\n', size - (size_t)(line - old))) != NULL; line = end + 1) {
        const char *tab = memchr(line, '\t', (size_t)(end - line));
        if (tab != NULL && line[0] != '#' && !has_folder(targets, line, (size_t)(tab - line)))
            status = ff_text_buffer_put(ctx, out, line, (size_t)(end - line) + 1);
    }
    free(old);
    return status;
}

static ff_status collect_names(ff_ctx *ctx, ff_text_buffer *out, const ff_targets *targets, const char *path)
{
    static const char head[] = "#folder\tresidues\tsource\tname\n";
    char number[32];
    FF_TRY(ff_text_buffer_put(ctx, out, head, sizeof head - 1));
    FF_TRY(keep_old_lines(ctx, out, targets, path));
    for (int64_t k = 0; k < targets->count; k++) {
        const ff_target *t = &targets->items[k];
        snprintf(number, sizeof number, "%" PRId64, t->num_res);
        FF_TRY(put_field(ctx, out, t->folder, '\t'));
        FF_TRY(put_field(ctx, out, number, '\t'));
        FF_TRY(put_field(ctx, out, t->source, '\t'));
        FF_TRY(put_field(ctx, out, t->name, '\n'));
    }
    return FF_OK;
}

static ff_status put_buffer(ff_ctx *ctx, FILE *file, const void *arg)
{
    const ff_text_buffer *buffer = arg;
    (void)ctx;
    fwrite(buffer->data, 1, buffer->size, file);
    return FF_OK;
}

/* Whether a file holds these bytes already. */
static bool holds(ff_ctx *ctx, const char *path, const ff_text_buffer *text)
{
    char *old = NULL;
    size_t size = 0;
    if (access(path, F_OK) != 0)
        return false;
    if (ff_text_read_all(ctx, path, &old, &size) != FF_OK) {
        ff_context_clear(ctx);
        return false;
    }
    const bool same = size == text->size && memcmp(old, text->data, size) == 0;
    free(old);
    return same;
}

ff_status ff_targets_write_names(ff_ctx *ctx, const ff_targets *targets, const char *output_dir)
{
    ff_text_buffer out = {0}, path = {0};
    ff_status status = FF_OK;
    FF_TRY_DONE(ff_make_folders(ctx, output_dir));
    FF_TRY_DONE(ff_text_buffer_put(ctx, &path, output_dir, strlen(output_dir)));
    FF_TRY_DONE(ff_text_buffer_put(ctx, &path, "/names.tsv", 10));
    FF_TRY_DONE(collect_names(ctx, &out, targets, path.data));
    if (!holds(ctx, path.data, &out)) /* a finished run can be looked at again where nothing can be written */
        FF_TRY_DONE(ff_safe_file_write(ctx, path.data, put_buffer, &out));
done:
    ff_text_buffer_destroy(&out);
    ff_text_buffer_destroy(&path);
    return status;
}
