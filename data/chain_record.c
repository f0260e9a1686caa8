#include "data/chain_record.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "data/msa_folder.h"
#include "data/query_features.h"
#include "structure/residue_constants.h"

/* ---- names ---- */

/* Cut `ending` off the end of a text, in any case. */
static bool cut(char *text, const char *ending)
{
    const size_t length = strlen(text), n = strlen(ending);
    if (length <= n || strcasecmp(text + length - n, ending) != 0)
        return false;
    text[length - n] = '\0';
    return true;
}

const char *ff_chain_file_id(char id[FF_RECORD_NAME_BYTES], const char *path)
{
    const char *slash = strrchr(path, '/');
    snprintf(id, FF_RECORD_NAME_BYTES, "%.*s", FF_RECORD_NAME_BYTES - 16, slash != NULL ? slash + 1 : path);
    cut(id, ".gz");
    const bool ent = cut(id, ".ent");
    if (!ent && !cut(id, ".cif") && !cut(id, ".mmcif"))
        cut(id, ".pdb");
    if (ent && strlen(id) == 7 && strncasecmp(id, "pdb", 3) == 0)
        memmove(id, id + 3, 5);
    return id;
}

const char *ff_chain_record_name(char name[FF_RECORD_NAME_BYTES], const char *file_id, const char *chain_id)
{
    snprintf(name, FF_RECORD_NAME_BYTES, chain_id[0] == '\0' ? "%.*s" : "%.*s_%.14s", FF_RECORD_NAME_BYTES - 16,
             file_id, chain_id);
    return name;
}

/* ---- numbering ---- */

/* Whether the C of residue i - 1 and the N of residue i are bonded; unknown counts as bonded. */
static bool bonded(const ff_structure_chain *c, int64_t i)
{
    const double limit = 2.5; /* Å; a peptide bond has 1.33, the next nearest C-N pair 2.4 and more */
    const int64_t a = (i - 1) * FF_NUM_ATOM37 + FF_ATOM_C, b = i * FF_NUM_ATOM37 + FF_ATOM_N;
    if (c->mask[a] == 0 || c->mask[b] == 0)
        return true;
    const float *x = c->positions + 3 * a, *y = c->positions + 3 * b;
    return sqrt(pow((double)x[0] - y[0], 2) + pow((double)x[1] - y[1], 2) + pow((double)x[2] - y[2], 2)) <= limit;
}

void ff_chain_residue_index(const ff_structure_chain *c, int32_t *index)
{
    for (int64_t i = 0; i < c->num_res; i++) {
        int64_t step = i == 0 ? 0 : 1;
        if (!c->declared && i > 0 && !bonded(c, i)) {
            const int64_t gap = (int64_t)c->author_number[i] - c->author_number[i - 1];
            step = gap > 1 && gap < 10000 ? gap : 1;
        }
        index[i] = i == 0 ? 0 : index[i - 1] + (int32_t)step;
    }
}

/* ---- alignments ---- */

static void lower(char *text)
{
    for (; *text != '\0'; text++)
        *text = (char)tolower((unsigned char)*text);
}

/* What a file or folder is called, up to each dot and as a whole. */
static ff_status add_names(ff_ctx *ctx, ff_chain_alignments *a, const char *name)
{
    for (size_t n = 1; n <= strlen(name) && n < FF_RECORD_NAME_BYTES; n++) {
        char key[FF_RECORD_NAME_BYTES];
        int64_t index;
        bool added;
        if (name[n] != '.' && name[n] != '\0')
            continue;
        snprintf(key, sizeof key, "%.*s", (int)n, name);
        lower(key);
        FF_TRY(ff_name_table_add(ctx, &a->names, key, n, &index, &added));
        if (added)
            FF_TRY(ff_text_list_add(ctx, &a->spelled, name, n));
    }
    return FF_OK;
}

ff_status ff_chain_alignments_open(ff_ctx *ctx, ff_chain_alignments *a, const char *folder, int64_t max_rows)
{
    *a = (ff_chain_alignments){.folder = folder, .max_rows = max_rows};
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return FF_FAIL(ctx, FF_ERR_IO, "cannot list folder %s: %s", folder, strerror(errno));
    ff_status status = FF_OK;
    for (const struct dirent *d = readdir(dir); status == FF_OK && d != NULL; d = readdir(dir))
        if (d->d_name[0] != '.')
            status = add_names(ctx, a, d->d_name);
    closedir(dir);
    return status;
}

void ff_chain_alignments_destroy(ff_chain_alignments *a)
{
    ff_name_table_destroy(&a->names);
    ff_text_list_destroy(&a->spelled);
    ff_name_table_destroy(&a->sequences);
    ff_text_list_destroy(&a->of_sequence);
    *a = (ff_chain_alignments){.folder = NULL};
}

/* Alignment files of a name in any case; none when the folder has none. */
static ff_status find_files(ff_ctx *ctx, const ff_chain_alignments *a, const char *name, ff_msa_files *files)
{
    char key[FF_RECORD_NAME_BYTES];
    snprintf(key, sizeof key, "%.*s", FF_RECORD_NAME_BYTES - 1, name);
    lower(key);
    const int64_t index = a->names.names.count == 0 ? -1 : ff_name_table_find(&a->names, key, strlen(key));
    *files = (ff_msa_files){.hits = NULL};
    return index < 0 ? FF_OK : ff_msa_files_find(ctx, files, a->folder, ff_text_list_get(&a->spelled, index));
}

/* Keep the first rows, and take msa and deletion_matrix_int over. */
static ff_status take_rows(ff_ctx *ctx, ff_array_set *from, int64_t max_rows, ff_array_set *features)
{
    static const char *const names[] = {"msa", "deletion_matrix_int"};
    for (int i = 0; i < 2; i++) {
        ff_array *array = ff_array_need(ctx, from, names[i], FF_ARRAY_INT32, FF_DIMS(-1, -1));
        if (array == NULL)
            return ctx->status;
        if (max_rows > 0 && array->shape[0] > max_rows) {
            array->shape[0] = max_rows;
            array->size = max_rows * array->shape[1];
        }
        FF_TRY(ff_array_move(ctx, features, names[i], from, names[i]));
    }
    return FF_OK;
}

static ff_status read_files(ff_ctx *ctx, const ff_chain_alignments *a, const ff_msa_files *files, const char *name,
                            const char *sequence, ff_array_set *features)
{
    ff_array_set all;
    ff_query_counts counts;
    ff_query_msa *msas = calloc((size_t)files->msas.count, sizeof *msas);
    if (msas == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory");
    for (int64_t i = 0; i < files->msas.count; i++) {
        const char *path = ff_text_list_get(&files->msas, i);
        msas[i] = (ff_query_msa){.path = path, .max_seq = ff_msa_file_max_seq(path)};
    }
    const ff_query_input input = {
        .description = name, .sequence = sequence, .msas = msas, .num_msas = files->msas.count};
    ff_array_set_init(&all);
    ff_status status = ff_query_features(ctx, &all, &input, &counts);
    if (status == FF_OK)
        status = take_rows(ctx, &all, a->max_rows, features);
    ff_array_set_destroy(&all);
    free(msas);
    return status;
}

/* Remember which alignment a sequence had. */
static ff_status remember(ff_ctx *ctx, ff_chain_alignments *a, const ff_structure_chain *chain, const char *name)
{
    int64_t index;
    bool added;
    FF_TRY(ff_name_table_add(ctx, &a->sequences, chain->sequence, (size_t)chain->num_res, &index, &added));
    return added ? ff_text_list_add(ctx, &a->of_sequence, name, strlen(name)) : FF_OK;
}

ff_status ff_chain_alignment_read(ff_ctx *ctx, ff_chain_alignments *a, const char *name, const char *file_id,
                                  const char *entry_id, const ff_structure_chain *chain, ff_array_set *features,
                                  bool *found)
{
    enum { NUM_FORMS = 5 };
    char forms[NUM_FORMS][FF_RECORD_NAME_BYTES] = {{0}};
    *found = false;
    ff_chain_record_name(forms[0], name, "");
    ff_chain_record_name(forms[1], file_id, "");
    if (entry_id[0] != '\0')
        ff_chain_record_name(forms[2], entry_id, chain->id);
    snprintf(forms[3], sizeof forms[3], "%.*s%.14s", FF_RECORD_NAME_BYTES - 16, file_id, chain->id);
    const int64_t same = a->sequences.names.count == 0
                             ? -1
                             : ff_name_table_find(&a->sequences, chain->sequence, (size_t)chain->num_res);
    if (same >= 0)
        snprintf(forms[4], sizeof forms[4], "%s", ff_text_list_get(&a->of_sequence, same));
    for (int form = 0; form < NUM_FORMS && !*found; form++) {
        ff_msa_files files;
        if (forms[form][0] == '\0')
            continue;
        FF_TRY(find_files(ctx, a, forms[form], &files));
        ff_status status = files.msas.count > 0 ? read_files(ctx, a, &files, name, chain->sequence, features) : FF_OK;
        *found = status == FF_OK && files.msas.count > 0;
        ff_msa_files_destroy(&files);
        if (status == FF_ERR_FORMAT && form > 0) { /* found by another name: of another chain, perhaps */
            FF_WARN(ctx, "%s: alignment %s is not of this chain: %s", name, forms[form], ctx->message);
            ff_context_clear(ctx);
            status = FF_OK;
        }
        FF_TRY(status);
        if (*found)
            FF_TRY(remember(ctx, a, chain, forms[form]));
    }
    return FF_OK;
}
