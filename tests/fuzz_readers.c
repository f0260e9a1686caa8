/* fuzz_readers.c - every text reader on damaged copies of the files in tests/fuzz: it must return, within seconds,
 * with a result whose parts fit together or with a message, and give back all memory. Built with AddressSanitizer by
 * `make fuzz`.
 *
 * Seed files are called KIND.anything. Input i of a seed depends on (seed number, kind, i) only; a failure prints the
 * options that run it alone.
 *
 * Contents: kinds; mutations; one input; main. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef FF_HAVE_ZLIB
#include <zlib.h>
#endif

#include "core/options.h"
#include "core/random.h"
#include "data/a3m.h"
#include "data/fasta.h"
#include "data/hhr.h"
#include "data/hmmsearch.h"
#include "data/obsolete.h"
#include "data/stockholm.h"
#include "data/structure_file.h"

const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=1:allocator_may_return_null=1:max_allocation_size_mb=2048:handle_abort=1";
}

/* Values a reader gave are all looked at, so that the sanitizer sees whether they are there. */
typedef struct {
    uint64_t sum;
    bool wrong; /* a result whose parts do not fit together */
} looked;

static void look(looked *l, const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        l->sum = l->sum * 31 + ((const unsigned char *)bytes)[i];
}

static void look_text(looked *l, const char *text) { look(l, text, strlen(text)); }

static void need(looked *l, bool good) { l->wrong |= !good; }

/* ---- kinds ---- */

typedef struct {
    const char *bytes;
    size_t size;
    int variant; /* of options: 0..3 */
    const char *path; /* a file to write it to, for readers of paths only */
} input;

static ff_status open_input(ff_ctx *ctx, const input *in, ff_text_file **file)
{
    return ff_text_open_memory(ctx, file, "input", in->bytes, in->size);
}

static ff_status fuzz_lines(ff_ctx *ctx, const input *in, looked *l)
{
    ff_text_file *file;
    FF_TRY(open_input(ctx, in, &file));
    ff_status status;
    int64_t number = 0;
    for (ff_text_line line;;) {
        status = ff_text_next(ctx, file, &line);
        if (status != FF_OK || line.text == NULL)
            break;
        need(l, line.number == ++number && line.length >= 0 && line.text[line.length] == '\0' &&
                    memchr(line.text, '\n', (size_t)line.length) == NULL &&
                    memchr(line.text, '\r', (size_t)line.length) == NULL);
        look(l, line.text, (size_t)line.length);
    }
    ff_text_close(file);
    return status;
}

static ff_status fuzz_fasta(ff_ctx *ctx, const input *in, looked *l)
{
    ff_text_file *file;
    ff_fasta_reader *reader;
    ff_fasta_record record;
    bool more = false;
    ff_status status;
    FF_TRY(open_input(ctx, in, &file));
    FF_TRY(ff_fasta_open_text(ctx, &reader, file));
    while ((status = ff_fasta_next(ctx, reader, &record, &more)) == FF_OK && more) {
        ff_query query;
        char name[FF_FILE_NAME_BYTES];
        need(l, (int64_t)strlen(record.sequence) == record.length);
        look_text(l, record.description);
        ff_fasta_file_name(name, record.description);
        need(l, name[0] != '\0' && name[0] != '.' && name[0] != '-' && strchr(name, '/') == NULL);
        if (ff_query_from_record(ctx, &query, &record, in->variant % 2 == 1) != FF_OK) {
            need(l, ctx->message[0] != '\0');
            ff_context_clear(ctx);
            continue;
        }
        need(l, query.length > 0 && (int64_t)strlen(query.sequence) == query.length &&
                    strspn(query.sequence, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == (size_t)query.length);
        ff_query_destroy(&query);
    }
    ff_fasta_close(reader);
    return status;
}

static void look_at_msa(ff_ctx *ctx, const ff_msa *msa, looked *l)
{
    int64_t longest = 0;
    for (int64_t s = 0; s < msa->num_seq; s++) {
        const int64_t length = msa->offsets[s + 1] - msa->offsets[s];
        need(l, length >= 0 && msa->lines[s] > 0 && (!msa->aligned || length == msa->num_res));
        longest = length > longest ? length : longest;
        char species[8];
        look_text(l, ff_msa_species(species, ff_text_list_get(&msa->descriptions, s)));
    }
    int32_t *deletions = malloc((size_t)(longest + 1) * sizeof *deletions);
    for (int64_t s = 0; s < msa->num_seq && deletions != NULL; s++) {
        ff_msa_put_deletions(msa, s, deletions);
        for (int64_t i = msa->offsets[s]; i < msa->offsets[s + 1]; i++)
            need(l, msa->codes[i] == ff_msa_code(msa->rows[i]) && deletions[i - msa->offsets[s]] >= 0);
    }
    free(deletions);
    const bool fine = msa->num_seq > 0 && msa->num_res > 0 && msa->aligned && msa->first_no_code < 0;
    need(l, (ff_msa_check(ctx, msa, 0) == FF_OK) == fine && fine == (ctx->message[0] == '\0'));
    ff_context_clear(ctx);
}

static ff_status fuzz_msa(ff_ctx *ctx, const input *in, looked *l,
                          ff_status (*read)(ff_ctx *, ff_msa *, ff_text_file *, const ff_msa_options *))
{
    const ff_msa_options options = {in->variant == 3 ? 2 : 0, in->variant == 1, in->variant == 2};
    ff_msa msa;
    ff_text_file *file;
    FF_TRY(open_input(ctx, in, &file));
    const ff_status status = read(ctx, &msa, file, &options);
    ff_text_close(file);
    if (status == FF_OK)
        look_at_msa(ctx, &msa, l);
    need(l, status == FF_OK || msa.rows == NULL);
    ff_msa_destroy(&msa);
    return status;
}

static ff_status fuzz_a3m(ff_ctx *ctx, const input *in, looked *l) { return fuzz_msa(ctx, in, l, ff_a3m_read_text); }
static ff_status fuzz_sto(ff_ctx *ctx, const input *in, looked *l)
{
    return fuzz_msa(ctx, in, l, ff_stockholm_read_text);
}

static ff_status fuzz_sto_tools(ff_ctx *ctx, const input *in, looked *l)
{
    ff_text_buffer out = {NULL, 0, 0};
    ff_status status = FF_OK;
    switch (in->variant) {
    case 0: status = ff_stockholm_to_a3m(ctx, &out, "input", in->bytes, in->size, 0, false); break;
    case 1: status = ff_stockholm_to_a3m(ctx, &out, "input", in->bytes, in->size, 2, true); break;
    case 2: status = ff_stockholm_remove_duplicates(ctx, &out, "input", in->bytes, in->size); break;
    default:
        status = ff_stockholm_truncate(ctx, &out, "input", in->bytes, in->size, 2);
        if (status == FF_OK) {
            ff_text_buffer again = {NULL, 0, 0};
            status =
                ff_stockholm_remove_empty_columns(ctx, &again, "input", out.data == NULL ? "" : out.data, out.size);
            look(l, again.data, again.size);
            ff_text_buffer_destroy(&again);
        }
    }
    look(l, out.data, out.size);
    ff_text_buffer_destroy(&out);
    return status;
}

static void look_at_hits(const ff_template_hits *hits, looked *l)
{
    for (int64_t k = 0; k < hits->count; k++) {
        const ff_template_hit *hit = &hits->hits[k];
        look_text(l, hit->name);
        look_text(l, hit->query);
        look_text(l, hit->hit_sequence);
        need(l, hit->line > 0 && hit->aligned_cols >= 0);
        look(l, hit->indices_query, (size_t)hit->num_query * sizeof *hit->indices_query);
        look(l, hit->indices_hit, (size_t)hit->num_hit * sizeof *hit->indices_hit);
    }
}

static ff_status fuzz_hhr(ff_ctx *ctx, const input *in, looked *l)
{
    ff_template_hits hits;
    ff_text_file *file;
    FF_TRY(open_input(ctx, in, &file));
    const ff_status status = ff_hhr_read_text(ctx, &hits, file);
    ff_text_close(file);
    for (int64_t k = 0; k < hits.count; k++)
        need(l, hits.hits[k].num_query == hits.hits[k].num_hit &&
                    strlen(hits.hits[k].query) == (size_t)hits.hits[k].num_query);
    look_at_hits(&hits, l);
    ff_template_hits_destroy(&hits);
    return status;
}

static ff_status fuzz_hmmsearch(ff_ctx *ctx, const input *in, looked *l)
{
    ff_template_hits hits;
    const ff_status status =
        ff_hmmsearch_parse(ctx, &hits, "input", in->bytes, in->size, "MAAHKGAEHHHK", in->variant % 2 == 1);
    look_at_hits(&hits, l);
    ff_template_hits_destroy(&hits);
    return status;
}

static ff_status fuzz_tblout(ff_ctx *ctx, const input *in, looked *l)
{
    ff_tblout table;
    ff_text_file *file;
    FF_TRY(open_input(ctx, in, &file));
    const ff_status status = ff_tblout_read_text(ctx, &table, file);
    ff_text_close(file);
    for (int64_t i = 0; i < table.names.names.count; i++)
        look_text(l, ff_name_table_get(&table.names, i));
    look(l, table.e_values, (size_t)table.names.names.count * sizeof *table.e_values);
    ff_tblout_destroy(&table);
    return status;
}

static ff_status fuzz_obsolete(ff_ctx *ctx, const input *in, looked *l)
{
    ff_obsolete *obsolete = NULL;
    char current[FF_PDB_ID_BYTES];
    FILE *file = fopen(in->path, "wb");
    if (file == NULL)
        return FF_FAIL(ctx, FF_ERR_IO, "cannot write %s", in->path);
    fwrite(in->bytes, 1, in->size, file);
    fclose(file);
    const ff_status status = ff_obsolete_read(ctx, &obsolete, in->path);
    if (status == FF_OK) {
        if (ff_obsolete_follow(ctx, obsolete, "1abc", current) == FF_OK)
            look_text(l, current);
        ff_context_clear(ctx);
    }
    ff_obsolete_destroy(obsolete);
    return status;
}

#ifdef FF_HAVE_GEMMI
static ff_status fuzz_structure(ff_ctx *ctx, const input *in, looked *l)
{
    const ff_structure_options options = {in->variant / 2 == 1 ? FF_STRUCTURE_AUTO : FF_STRUCTURE_MMCIF,
                                          in->variant % 2 == 1};
    ff_structure s;
    const ff_status status = ff_structure_read_bytes(ctx, &s, in->bytes, in->size, "input", &options);
    for (int64_t k = 0; k < s.num_chains; k++) {
        const ff_structure_chain *c = &s.chains[k];
        need(l, (int64_t)strlen(c->sequence) == c->num_res && c->num_observed <= c->num_res);
        for (int64_t i = 0; i < c->num_res; i++)
            need(l, c->aatype[i] >= 0 && c->aatype[i] <= 20);
        look(l, c->positions, (size_t)c->num_res * 37 * 3 * sizeof *c->positions);
        look(l, c->mask, (size_t)c->num_res * 37 * sizeof *c->mask);
    }
    ff_structure_destroy(&s);
    return status;
}

static ff_status fuzz_pdb(ff_ctx *ctx, const input *in, looked *l)
{
    const ff_structure_options options = {FF_STRUCTURE_PDB, in->variant % 2 == 1};
    ff_structure s;
    ff_protein protein;
    if (in->variant < 2) {
        const ff_status status = ff_structure_read_bytes(ctx, &s, in->bytes, in->size, "input", &options);
        for (int64_t k = 0; k < s.num_chains; k++)
            look(l, s.chains[k].positions, (size_t)s.chains[k].num_res * 37 * 3 * sizeof(float));
        ff_structure_destroy(&s);
        return status;
    }
    const ff_status status = ff_structure_read_protein_bytes(ctx, &protein, in->bytes, in->size, "input", &options);
    ff_protein_destroy(&protein);
    return status;
}
#endif

typedef struct {
    const char *name;
    ff_status (*run)(ff_ctx *ctx, const input *in, looked *l);
    bool pack; /* damage the gzip file, not the text in it */
    int cost;  /* inputs are fewer by this factor */
} fuzz_kind;

/* A seed KIND.anything is given to every reader of that kind. */
static const struct {
    const char *seed;
    fuzz_kind kind;
} kinds[] = {
    {"fasta", {"lines", fuzz_lines, false, 1}},
    {"fasta", {"fasta", fuzz_fasta, false, 1}},
    {"fasta", {"fasta.gz", fuzz_fasta, true, 1}},
    {"a3m", {"a3m", fuzz_a3m, false, 1}},
    {"a3m", {"a3m.gz", fuzz_a3m, true, 1}},
    {"sto", {"sto", fuzz_sto, false, 1}},
    {"sto", {"sto_tools", fuzz_sto_tools, false, 1}},
    {"hhr", {"hhr", fuzz_hhr, false, 1}},
    {"hmmsearch", {"hmmsearch", fuzz_hmmsearch, false, 1}},
    {"tblout", {"tblout", fuzz_tblout, false, 1}},
    {"obsolete", {"obsolete", fuzz_obsolete, false, 4}},
#ifdef FF_HAVE_GEMMI
    {"mmcif", {"mmcif", fuzz_structure, false, 4}},
    {"pdb", {"pdb", fuzz_pdb, false, 4}},
#endif
};
enum { NUM_KINDS = sizeof kinds / sizeof *kinds };

/* ---- mutations ---- */

enum { MAX_BYTES = 1 << 16 };

typedef struct {
    ff_random_key key;
    uint64_t drawn;
} dice;

static size_t draw(dice *d, size_t n) { return n == 0 ? 0 : (size_t)ff_random_below(d->key, d->drawn++, n); }

/* What parsers stumble over. */
static const struct {
    const char *bytes;
    size_t size;
} tokens[] = {
#define TOKEN(text) {text, sizeof text - 1}
    TOKEN("\0"), TOKEN("\n"), TOKEN("\r\n"), TOKEN("\r"), TOKEN(" "), TOKEN("\t"), TOKEN(">"), TOKEN("\n>"),
    TOKEN("#"), TOKEN("//"), TOKEN("\n//\n"), TOKEN("-"), TOKEN("."), TOKEN("*"), TOKEN("\xff"), TOKEN("\xc3\x89"),
    TOKEN("-1"), TOKEN("0"), TOKEN("4294967296"), TOKEN("9223372036854775808"), TOKEN("1e999"), TOKEN("nan"),
    TOKEN("%s%n"), TOKEN("No 1"), TOKEN("\nNo 2\n>x\n"), TOKEN("Q x"), TOKEN("\nT x   "), TOKEN("#=GC RF"),
    TOKEN("#=GS"), TOKEN("loop_\n"), TOKEN("\n;"), TOKEN("'"), TOKEN("?"), TOKEN("data_"), TOKEN("ATOM  "),
    TOKEN("HETATM"), TOKEN("MODEL        2\n"), TOKEN("ENDMDL\n"), TOKEN("OBSLTE"), TOKEN("\x1f\x8b\x08"),
    TOKEN("_atom_site.id "), TOKEN("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")
#undef TOKEN
};

/* Replace `gone` bytes at `at` by `size` others. */
static size_t splice(char *data, size_t total, size_t at, size_t gone, const char *bytes, size_t size)
{
    if (total - gone + size > MAX_BYTES)
        return total;
    memmove(data + at + size, data + at + gone, total - at - gone);
    memcpy(data + at, bytes, size);
    return total - gone + size;
}

/* One change. `other` is the unchanged seed. */
static size_t mutate(dice *d, char *data, size_t size, const char *other, size_t other_size)
{
    char piece[512];
    const size_t at = draw(d, size + 1), left = size - at;
    const size_t some = draw(d, (left < sizeof piece ? left : sizeof piece) + 1);
    switch (draw(d, 9)) {
    case 0: /* a bit */
        if (left > 0)
            data[at] = (char)(data[at] ^ (1 << draw(d, 8)));
        return size;
    case 1: /* a byte */
        if (left > 0)
            data[at] = (char)draw(d, 256);
        return size;
    case 2: return splice(data, size, at, some, "", 0);      /* a hole */
    case 3: return draw(d, 4) == 0 ? at : size;               /* cut off */
    case 4:                                                   /* a stretch twice, elsewhere */
        memcpy(piece, data + at, some);
        return splice(data, size, draw(d, size + 1), 0, piece, some);
    case 5:
    case 6: { /* a token, in place of nothing or of some bytes */
        const size_t t = draw(d, sizeof tokens / sizeof *tokens);
        return splice(data, size, at, draw(d, 2) == 0 ? 0 : some < 8 ? some : 8, tokens[t].bytes, tokens[t].size);
    }
    case 7: { /* a stretch of the unchanged file */
        const size_t from = draw(d, other_size + 1);
        const size_t length = draw(d, (other_size - from < sizeof piece ? other_size - from : sizeof piece) + 1);
        return splice(data, size, at, some, other + from, length);
    }
    default: { /* one character many times */
        const size_t length = draw(d, sizeof piece);
        memset(piece, left > 0 ? data[at] : 'A', length);
        return splice(data, size, at, 0, piece, length);
    }
    }
}

/* ---- one input ---- */

typedef struct {
    int64_t count, seed, only;
    double seconds;
    const char *kind;
} fuzz_options;

typedef struct {
    ff_ctx ctx;
    const fuzz_options *options;
    char path[64];                         /* for readers of paths */
    char *data, *packed;                   /* [MAX_BYTES], [2 MAX_BYTES] */
    int64_t runs, accepted, failed;
} fuzzer;

/* What runs now, for the handlers: the only state outside main. */
static char now_running[256];

static void say(const char *why)
{
    const char *const parts[] = {"\nfuzz_readers: ", why, "; to run it alone: fuzz_readers ", now_running, "\n"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (write(2, parts[i], strlen(parts[i])) < 0)
            return;
}

static void on_alarm(int signal_number)
{
    (void)signal_number;
    say("a reader hangs");
    _exit(1);
}

void __asan_on_error(void);
void __asan_on_error(void) { say("the sanitizer stopped it"); }

static size_t pack(const char *data, size_t size, char *packed)
{
#ifdef FF_HAVE_ZLIB
    z_stream z = {0};
    if (deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return 0;
    z.next_in = (Bytef *)data;
    z.avail_in = (uInt)size;
    z.next_out = (Bytef *)packed;
    z.avail_out = MAX_BYTES;
    deflate(&z, Z_FINISH);
    const size_t got = MAX_BYTES - z.avail_out;
    deflateEnd(&z);
    return got;
#else
    (void)data, (void)size, (void)packed;
    return 0;
#endif
}

static void run_input(fuzzer *f, const fuzz_kind *kind, int kind_number, const char *seed, const char *bytes,
                      size_t size, int64_t index)
{
    dice d = {{(uint64_t)f->options->seed, ff_random_stream((uint64_t)kind_number, (uint64_t)index)}, 0};
    looked l = {0, false};
    const size_t original = size;
    memcpy(f->data, bytes, size);
    for (size_t n = index == 0 ? 0 : 1 + draw(&d, 8); n > 0; n--)
        size = mutate(&d, f->data, size, bytes, original);
    input in = {NULL, size, (int)draw(&d, 4), f->path};
    char *copy = malloc(size + 1); /* of its exact size, so that reading over its end is seen */
    if (copy == NULL)
        return;
    memcpy(copy, f->data, size);
    copy[size] = '\0';
    in.bytes = copy;
    snprintf(now_running, sizeof now_running, "--kind %s --seed %lld --only %lld (seed file %s)", kind->name,
             (long long)f->options->seed, (long long)index, seed);
    alarm((unsigned)f->options->seconds);
    const ff_status status = kind->run(&f->ctx, &in, &l);
    alarm(0);
    free(copy);
    const bool told = status == FF_OK || (f->ctx.status == status && strlen(f->ctx.message) > 5);
    if (!told)
        say("a failure without a message");
    if (l.wrong)
        say("parts of a result do not fit together");
    if (f->options->only >= 0)
        printf("%s: %s %s\n", seed, ff_status_name(status), f->ctx.message);
    f->failed += !told || l.wrong;
    f->accepted += status == FF_OK;
    f->runs++;
    ff_context_clear(&f->ctx);
}

static void run_kind(fuzzer *f, int k, const char *seed, const char *bytes, size_t size)
{
    const fuzz_kind *kind = &kinds[k].kind;
    const int64_t before = f->runs, accepted = f->accepted;
    if (f->options->kind != NULL && strcmp(f->options->kind, kind->name) != 0)
        return;
    if (kind->pack) {
        size = pack(bytes, size, f->packed);
        bytes = f->packed;
        if (size == 0)
            return;
    }
    if (f->options->only >= 0)
        run_input(f, kind, k, seed, bytes, size, f->options->only);
    for (int64_t i = 0; i < f->options->count / kind->cost && f->options->only < 0; i++)
        run_input(f, kind, k, seed, bytes, size, i);
    printf("%-10s %-28s %8lld inputs, %lld accepted\n", kind->name, seed, (long long)(f->runs - before),
           (long long)(f->accepted - accepted));
    fflush(stdout);
}

static ff_status run_seed(fuzzer *f, const char *folder, const char *name)
{
    char path[1024], *bytes;
    size_t size;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FF_TRY(ff_text_read_all(&f->ctx, path, &bytes, &size));
    size = size < MAX_BYTES / 2 ? size : MAX_BYTES / 2;
    for (int k = 0; k < NUM_KINDS; k++)
        if (strncmp(name, kinds[k].seed, strlen(kinds[k].seed)) == 0 && name[strlen(kinds[k].seed)] == '.')
            run_kind(f, k, name, bytes, size);
    free(bytes);
    return FF_OK;
}

/* ---- main ---- */

static const ff_option option_table[] = {
    {"count", FF_OPTION_INT64, offsetof(fuzz_options, count), "20000", "1..", "Inputs",
     "inputs for each seed file and reader"},
    {"seed", FF_OPTION_INT64, offsetof(fuzz_options, seed), "1", "0..", "Inputs", "of the random changes"},
    {"kind", FF_OPTION_STRING, offsetof(fuzz_options, kind), NULL, NULL, "Inputs", "one reader only"},
    {"only", FF_OPTION_INT64, offsetof(fuzz_options, only), "-1", "-1..", "Inputs", "this input only, -1 = all"},
    {"seconds", FF_OPTION_DOUBLE, offsetof(fuzz_options, seconds), "20", "1..600", "Inputs",
     "a reader that takes longer hangs"},
    FF_OPTION_END};
static const ff_program program = {
    "fuzz_readers", "[options] FOLDER",
    "Runs every text reader on damaged copies of the files in FOLDER. Last line: N passed, N failed", option_table};

static int by_name(const void *a, const void *b)
{
    return strcmp((*(struct dirent *const *)a)->d_name, (*(struct dirent *const *)b)->d_name);
}

static int run_folder(fuzzer *f, const char *folder)
{
    struct dirent **names;
    const int count = scandir(folder, &names, NULL, NULL);
    if (count < 0) {
        fprintf(stderr, "fuzz_readers: cannot read folder %s\n", folder);
        return 1;
    }
    qsort(names, (size_t)count, sizeof *names, by_name);
    for (int i = 0; i < count; i++) {
        if (names[i]->d_name[0] != '.' && run_seed(f, folder, names[i]->d_name) != FF_OK) {
            fprintf(stderr, "fuzz_readers: %s\n", f->ctx.message);
            ff_context_clear(&f->ctx);
            f->failed++;
        }
        free(names[i]);
    }
    free(names);
    printf("%lld passed, %lld failed\n", (long long)(f->runs - f->failed), (long long)f->failed);
    return f->failed > 0 || f->runs == 0;
}

int main(int argc, char **argv)
{
    fuzz_options options;
    ff_arguments args;
    fuzzer f = {.options = &options};
    ff_context_init(&f.ctx);
    f.ctx.log.file = NULL;
    if (ff_options_parse(&f.ctx, &program, &options, argc, argv, &args) != FF_OK ||
        (args.num_positional != 1 && !args.help)) {
        fprintf(stderr, "fuzz_readers: %s\n", f.ctx.message[0] == '\0' ? "one folder is needed" : f.ctx.message);
        return 2;
    }
    if (args.help) {
        ff_options_print_help(&program, stdout);
        return 0;
    }
    strcpy(f.path, "/tmp/ff_fuzz_XXXXXX");
    const int fd = mkstemp(f.path);
    f.data = malloc(2 * MAX_BYTES);
    f.packed = malloc(2 * MAX_BYTES);
    signal(SIGALRM, on_alarm);
    int status = 1;
    if (fd >= 0 && f.data != NULL && f.packed != NULL)
        status = run_folder(&f, args.positional[0]);
    if (fd >= 0)
        close(fd);
    unlink(f.path);
    free(f.data);
    free(f.packed);
    return status;
}
