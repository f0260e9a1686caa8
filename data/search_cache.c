/* search_cache.c - where the outputs of searches are kept: CACHE/ab/abcdef...EXT, named by what went in. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/search_job.h"
#include "io/safe_file.h"

/* Raised when the way from a query to an entry changes other than by flags. */
static const char key_version[] = "fastfold search 1";

#define JACKHMMER_FLAGS "-o /dev/null --noali --F1 0.0005 --F2 5e-05 --F3 5e-07 --incE 0.0001 -E 0.0001 -N 1"
#define HHBLITS_FLAGS                                                                                                \
    "-o /dev/null -n 3 -e 0.001 -maxseq 1000000 -realign_max 100000 -maxfilt 100000 -min_prefilter_hits 1000"
#define HHSEARCH_FLAGS  "-maxseq 1000000"
#define HMMSEARCH_FLAGS "--noali --F1 0.1 --F2 0.1 --F3 0.1 --incE 100 -E 100 --domE 100 --incdomE 100"
#define MMSEQS_FLAGS    "--num-iterations 3 -a -e 0.1 --max-seqs 10000 -s 8"

static const struct {
    const char *flags, *extension;
    ff_search_tool tool;
    ff_search_db databases[2]; /* FF_NUM_DBS = none */
} kinds[FF_NUM_SEARCHES] = {
    [FF_SEARCH_UNIREF90] = {JACKHMMER_FLAGS, "sto", FF_TOOL_JACKHMMER, {FF_DB_UNIREF90, FF_NUM_DBS}},
    [FF_SEARCH_BFD] = {HHBLITS_FLAGS, "a3m", FF_TOOL_HHBLITS, {FF_DB_BFD, FF_DB_UNIREF30}},
    [FF_SEARCH_MGNIFY] = {JACKHMMER_FLAGS, "sto", FF_TOOL_JACKHMMER, {FF_DB_MGNIFY, FF_NUM_DBS}},
    [FF_SEARCH_MMSEQS] = {MMSEQS_FLAGS, "a3m", FF_TOOL_MMSEQS, {FF_DB_MMSEQS, FF_NUM_DBS}},
    [FF_SEARCH_PDB70] = {HHSEARCH_FLAGS, "hhr", FF_TOOL_HHSEARCH, {FF_DB_PDB70, FF_NUM_DBS}},
    [FF_SEARCH_PDB_SEQRES] = {HMMSEARCH_FLAGS, "sto", FF_TOOL_HMMSEARCH, {FF_DB_PDB_SEQRES, FF_NUM_DBS}},
};

const char *ff_search_flags(ff_search_kind kind) { return kinds[kind].flags; }

void ff_search_key_begin(ff_sha256 *hash, const ff_search *search, ff_search_kind kind)
{
    ff_sha256_begin(hash);
    ff_sha256_add_text(hash, key_version);
    ff_sha256_add_text(hash, kinds[kind].flags);
    ff_sha256_add_text(hash, search->program_identities[kinds[kind].tool]);
    if (kind == FF_SEARCH_PDB_SEQRES)
        ff_sha256_add_text(hash, search->program_identities[FF_TOOL_HMMBUILD]);
    for (int i = 0; i < 2; i++) /* in order: the databases of one call are told apart by place */
        if (kinds[kind].databases[i] != FF_NUM_DBS)
            ff_sha256_add_text(hash, search->databases[kinds[kind].databases[i]].identity);
}

ff_status ff_search_entry_path(ff_ctx *ctx, const ff_search *search, ff_search_kind kind, ff_sha256 *hash,
                               char **path)
{
    char key[FF_SHA256_HEX_BYTES];
    ff_sha256_end(hash, key);
    if (asprintf(path, "%s/%.2s/%s.%s", search->cache, key, key, kinds[kind].extension) < 0) {
        *path = NULL;
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory");
    }
    return FF_OK;
}

ff_status ff_search_query_entry(ff_ctx *ctx, const ff_search *search, ff_search_kind kind, const char *sequence,
                                char **path)
{
    ff_sha256 hash;
    ff_search_key_begin(&hash, search, kind);
    ff_sha256_add_text(&hash, sequence);
    return ff_search_entry_path(ctx, search, kind, &hash, path);
}

/* What the file of a tool that ran to its end begins and ends with. hmmsearch leaves nothing when it found nothing.
 * */
static bool looks_whole(ff_search_kind kind, const char *path)
{
    char head[16] = "", tail[16] = "";
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return false;
    const size_t n = fread(head, 1, sizeof head - 1, file);
    if (fseek(file, -8, SEEK_END) == 0)
        tail[fread(tail, 1, 8, file)] = '\0';
    fclose(file);
    switch (kind) {
    case FF_SEARCH_UNIREF90:
    case FF_SEARCH_MGNIFY: return strncmp(head, "# STOCKHOLM", 11) == 0 && strstr(tail, "\n//\n") != NULL;
    case FF_SEARCH_PDB_SEQRES:
        return n == 0 || (strncmp(head, "# STOCKHOLM", 11) == 0 && strstr(tail, "\n//\n") != NULL);
    case FF_SEARCH_BFD:
    case FF_SEARCH_MMSEQS: return head[0] == '>' || head[0] == '#';
    case FF_SEARCH_PDB70: return strncmp(head, "Query ", 6) == 0;
    case FF_NUM_SEARCHES: break;
    }
    return false;
}

bool ff_search_entry_is_good(ff_ctx *ctx, ff_search_kind kind, const char *path)
{
    if (access(path, F_OK) != 0)
        return false;
    if (looks_whole(kind, path))
        return true;
    FF_WARN(ctx, "%s is damaged; the search is done again", path);
    unlink(path);
    return false;
}

ff_status ff_search_entry_install(ff_ctx *ctx, ff_search_kind kind, const char *made, const char *entry)
{
    if (!looks_whole(kind, made))
        return FF_FAIL(ctx, FF_ERR_FORMAT, "%s ended well, but its output %s is not whole",
                       ff_search_tool_name(kinds[kind].tool), made);
    char *folder = strdup(entry);
    if (folder == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory");
    *strrchr(folder, '/') = '\0';
    ff_status status = ff_make_folders(ctx, folder);
    free(folder);
    if (status != FF_OK)
        return status;
    const int fd = open(made, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) != 0 || rename(made, entry) != 0)
        status = FF_FAIL(ctx, FF_ERR_IO, "cannot write %s: %s", entry, strerror(errno));
    if (fd >= 0)
        close(fd);
    return status;
}

ff_status ff_search_program_identity(ff_ctx *ctx, const char *path, char hex[FF_SHA256_HEX_BYTES])
{
    ff_sha256 hash;
    char block[16384];
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return FF_FAIL(ctx, FF_ERR_IO, "cannot read %s: %s", path, strerror(errno));
    ff_sha256_begin(&hash);
    for (size_t n; (n = fread(block, 1, sizeof block, file)) > 0;)
        ff_sha256_add(&hash, block, n);
    const bool bad = ferror(file);
    fclose(file);
    ff_sha256_end(&hash, hex);
    return bad ? FF_FAIL(ctx, FF_ERR_IO, "cannot read %s", path) : FF_OK;
}
