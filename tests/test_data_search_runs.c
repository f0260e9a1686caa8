/* The search tools themselves, on the small databases of ../shared/data: alignments equal to those kept there,
 * templates of real hits and files. A tool that is not installed skips its test. */
#include <CUnit/CUnit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/fasta.h"
#include "data/msa_folder.h"
#include "data/query_features.h"
#include "data/search.h"
#include "io/subprocess.h"
#include "tests/check.h"

#define DATA "../shared/data/"

static ff_ctx ctx;
static char folder[64];
static ff_search_options options;
static ff_array_set set;
static ff_query_counts counts;
static char *sequences[4];
static ff_search_query queries[4];
static int num_queries;

static void set_up(void)
{
    ff_context_init(&ctx);
    ctx.log.file = NULL;
    strcpy(folder, "/tmp/ff_runs_XXXXXX");
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
    options = (ff_search_options){.num_cpus = 2, .time_limit_s = 300, .cache = folder};
    ff_array_set_init(&set);
    num_queries = 0;
}

static void tear_down(void)
{
    char command[96];
    ff_search_queries_clear(queries, num_queries);
    for (int i = 0; i < num_queries; i++)
        free(sequences[i]);
    num_queries = 0;
    ff_array_set_destroy(&set);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    CU_ASSERT_EQUAL(system(command), 0);
}

/* Whether the data and these tools are here; else the test is skipped. */
static bool have(const char *tool, const char *tool2)
{
    const char *const names[] = {tool, tool2};
    for (int i = 0; i < 2; i++) {
        char *path = NULL, why[96];
        if (names[i] == NULL || ff_find_program(&ctx, &path, "x", NULL, "FASTFOLD_NONE", names[i]) == FF_OK) {
            free(path);
            continue;
        }
        ff_context_clear(&ctx);
        snprintf(why, sizeof why, "%s is not installed", names[i]);
        ff_test_skip(why);
        return false;
    }
    if (access(DATA "seqdb/uniprot_mini.fasta", R_OK) == 0)
        return true;
    ff_test_skip(DATA "seqdb is not here");
    return false;
}

/* Add the record of queries.fasta with that name. */
static void add_query(const char *name)
{
    ff_fasta_reader *reader;
    bool more = true, found = false;
    CU_ASSERT_EQUAL_FATAL(ff_fasta_open(&ctx, &reader, DATA "msa/made_here/queries.fasta"), FF_OK);
    while (more && !found) {
        ff_fasta_record record;
        CU_ASSERT_EQUAL_FATAL(ff_fasta_next(&ctx, reader, &record, &more), FF_OK);
        found = more && strcmp(record.description, name) == 0;
        if (found)
            sequences[num_queries] = strdup(record.sequence);
    }
    ff_fasta_close(reader);
    CU_ASSERT_TRUE_FATAL(found);
    queries[num_queries] = (ff_search_query){.name = name, .sequence = sequences[num_queries]};
    num_queries++;
}

static ff_status run(void)
{
    ff_search *search;
    ff_search_queries_clear(queries, num_queries);
    FF_TRY(ff_search_open(&ctx, &search, &options));
    const ff_status status = ff_search_run(&ctx, search, queries, num_queries, NULL, NULL);
    ff_search_close(search);
    for (int i = 0; i < num_queries; i++)
        for (int k = 0; k < FF_NUM_SEARCHES; k++)
            if (queries[i].outputs[k].message != NULL)
                printf("\n    %s\n", queries[i].outputs[k].message);
    return status;
}

/* Letters and deletions of two alignments of one size are equal. */
static bool same_rows(const ff_msa *a, const ff_msa *b)
{
    int32_t *one = malloc((size_t)a->num_res * 2 * sizeof *one), *two = one + a->num_res;
    bool same = one != NULL && memcmp(a->codes, b->codes, (size_t)(a->num_seq * a->num_res)) == 0;
    for (int64_t s = 0; same && s < a->num_seq; s++) {
        ff_msa_put_deletions(a, s, one);
        ff_msa_put_deletions(b, s, two);
        same = memcmp(one, two, (size_t)a->num_res * sizeof *one) == 0;
    }
    free(one);
    return same;
}

/* An alignment of ours has the rows and deletions of a kept one, in its order. */
static void check_msa(const char *path, const char *kept, int64_t at_least)
{
    ff_msa a, b;
    char kept_path[256];
    snprintf(kept_path, sizeof kept_path, DATA "msa/made_here/%s", kept);
    CU_ASSERT_PTR_NOT_NULL_FATAL(path);
    CU_ASSERT_EQUAL_FATAL(ff_msa_file_read(&ctx, &a, path, NULL), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_msa_file_read(&ctx, &b, kept_path, NULL), FF_OK);
    CU_ASSERT(a.num_seq >= at_least);
    CU_ASSERT_EQUAL(a.num_seq, b.num_seq);
    CU_ASSERT_EQUAL(a.num_res, b.num_res);
    if (a.num_seq == b.num_seq && a.num_res == b.num_res) {
        CU_ASSERT(same_rows(&a, &b));
        for (int64_t s = 1; s < a.num_seq; s++)
            CU_ASSERT_STRING_EQUAL(ff_text_list_get(&a.descriptions, s), ff_text_list_get(&b.descriptions, s));
    }
    CU_ASSERT_STRING_EQUAL(ff_text_list_get(&a.descriptions, 0), "query");
    ff_msa_destroy(&a);
    ff_msa_destroy(&b);
}

static void test_jackhmmer_finds_what_it_found_before(void)
{
    if (!have("jackhmmer", NULL))
        return;
    add_query("1AE5A");
    add_query("6wg6_A");
    add_query("1as5_A"); /* nothing to be found: the query alone */
    options.databases[FF_DB_UNIREF90] = DATA "seqdb/uniprot_mini.fasta";
    CU_ASSERT_EQUAL_FATAL(run(), FF_OK);
    check_msa(queries[0].outputs[FF_SEARCH_UNIREF90].path, "1AE5A.jackhmmer.sto.gz", 40);
    check_msa(queries[1].outputs[FF_SEARCH_UNIREF90].path, "6wg6_A.jackhmmer.sto.gz", 2);
    check_msa(queries[2].outputs[FF_SEARCH_UNIREF90].path, "1as5_A.jackhmmer.sto.gz", 1);
    CU_ASSERT_EQUAL_FATAL(run(), FF_OK);
    for (int i = 0; i < 3; i++)
        CU_ASSERT(queries[i].outputs[FF_SEARCH_UNIREF90].from_cache);
}

/* The kept alignments were made by version 14; others may find a row more or less. */
static bool is_mmseqs_14(void)
{
    ff_subprocess command;
    ff_subprocess_end end = {0};
    ff_subprocess_init(&command, "mmseqs");
    ff_subprocess_add(&command, "version");
    const ff_status status = ff_subprocess_run(&ctx, &command, NULL, &end);
    ff_subprocess_destroy(&command);
    return status == FF_OK && strncmp(end.tail, "14-", 3) == 0;
}

/* Rows of an MMseqs2 alignment are named by accession and numbers; the query's is its place in the batch. */
static void check_mmseqs(int i, const char *kept, int64_t at_least)
{
    ff_msa a, b;
    char kept_path[256];
    snprintf(kept_path, sizeof kept_path, DATA "msa/made_here/%s", kept);
    CU_ASSERT_PTR_NOT_NULL_FATAL(queries[i].outputs[FF_SEARCH_MMSEQS].path);
    CU_ASSERT_EQUAL_FATAL(ff_msa_file_read(&ctx, &a, queries[i].outputs[FF_SEARCH_MMSEQS].path, NULL), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_msa_file_read(&ctx, &b, kept_path, NULL), FF_OK);
    CU_ASSERT(a.num_seq >= at_least);
    if (is_mmseqs_14()) {
        CU_ASSERT_EQUAL(a.num_seq, b.num_seq);
        CU_ASSERT(a.num_seq != b.num_seq || a.num_res != b.num_res || same_rows(&a, &b));
    }
    ff_msa_destroy(&a);
    ff_msa_destroy(&b);
}

static void test_mmseqs_searches_a_batch_in_one_call(void)
{
    if (!have("mmseqs", NULL))
        return;
    add_query("1AE5A");
    add_query("1as5_A");
    add_query("2gtl_A");
    options.databases[FF_DB_MMSEQS] = DATA "seqdb/uniprot_mini.fasta";
    CU_ASSERT_EQUAL_FATAL(run(), FF_OK);
    check_mmseqs(0, "1AE5A.mmseqs.a3m.gz", 40);
    check_mmseqs(1, "1as5_A.mmseqs.a3m.gz", 1);
    check_mmseqs(2, "2gtl_A.mmseqs.a3m.gz", 10);
    add_query("4cup_A"); /* the others are in the cache, this one alone is searched */
    CU_ASSERT_EQUAL_FATAL(run(), FF_OK);
    CU_ASSERT(queries[1].outputs[FF_SEARCH_MMSEQS].from_cache);
    CU_ASSERT(!queries[3].outputs[FF_SEARCH_MMSEQS].from_cache);
    check_mmseqs(3, "4cup_A.mmseqs.a3m.gz", 2);
}

/* A database of representatives with their clusters beside it, as ColabFold's are: members must come in by
 * expansion. */
static void test_mmseqs_expands_the_clusters_of_a_database(void)
{
    char command[1600];
    if (!have("mmseqs", NULL))
        return;
    add_query("1AE5A");
    snprintf(
        command, sizeof command,
        "cd %s && exec >log 2>&1 && "
        "gunzip -c $OLDPWD/" DATA "msa/made_here/1AE5A.mmseqs.a3m.gz | sed '/^>/!s/-//g' | tail -n +3 >all.fasta && "
        "mmseqs createdb all.fasta all && mmseqs cluster all clu tmp --min-seq-id 0.4 -c 0.8 --threads 2 && "
        "mmseqs align all all clu db_aln -a --threads 2 && mmseqs cpdb all db_seq && mmseqs cpdb all_h db_seq_h && "
        "mmseqs createsubdb clu all db && wc -l <db.index >num_clusters",
        folder);
    CU_ASSERT_EQUAL_FATAL(system(command), 0);
    snprintf(command, sizeof command, "%s/db", folder);
    options.databases[FF_DB_MMSEQS] = command;
    CU_ASSERT_EQUAL_FATAL(run(), FF_OK);
    CU_ASSERT_PTR_NOT_NULL_FATAL(queries[0].outputs[FF_SEARCH_MMSEQS].path);
    ff_msa msa;
    long num_clusters = 0;
    CU_ASSERT_EQUAL_FATAL(ff_msa_file_read(&ctx, &msa, queries[0].outputs[FF_SEARCH_MMSEQS].path, NULL), FF_OK);
    snprintf(command, sizeof command, "%s/num_clusters", folder);
    FILE *file = fopen(command, "r");
    CU_ASSERT(file != NULL && fscanf(file, "%ld", &num_clusters) == 1);
    if (file != NULL)
        fclose(file);
    CU_ASSERT(num_clusters > 5 && num_clusters < 48);
    CU_ASSERT(msa.num_seq > num_clusters + 1);
    CU_ASSERT_EQUAL(msa.num_res, 223);
    ff_msa_destroy(&msa);
}

static void test_hhblits_aligns_relatives(void)
{
    if (!have("hhblits", NULL))
        return;
    add_query("1gbt_A");
    options.databases[FF_DB_BFD] = DATA "seqdb/hh_pdbmini/pdbmini";
    CU_ASSERT_EQUAL_FATAL(run(), FF_OK);
    CU_ASSERT_PTR_NOT_NULL_FATAL(queries[0].outputs[FF_SEARCH_BFD].path);
    const ff_query_msa file = {.path = queries[0].outputs[FF_SEARCH_BFD].path, .searched = true};
    const ff_query_input input = {.description = "1gbt_A", .sequence = sequences[0], .msas = &file, .num_msas = 1};
    CU_ASSERT_EQUAL_FATAL(ff_query_features(&ctx, &set, &input, &counts), FF_OK);
    CU_ASSERT(counts.num_seq > 100); /* five more proteases are in the database, each with its alignment */
}

/* Features of query 0 with the hits of a search and the files of ../shared/data/mmcif. */
static void make_templates(ff_search_kind kind)
{
    char *kalign = NULL;
    if (ff_search_find_tool(&ctx, &kalign, FF_TOOL_KALIGN, &options) != FF_OK)
        ff_context_clear(&ctx);
    const ff_template_options from = {.folder = DATA "mmcif", .kalign = kalign};
    ff_template_source *source;
    CU_ASSERT_PTR_NOT_NULL_FATAL(queries[0].outputs[kind].path);
    CU_ASSERT_EQUAL_FATAL(ff_template_source_create(&ctx, &source, &from), FF_OK);
    const ff_query_input input = {
        .description = "q", .sequence = sequences[0], .templates = source, .hits = queries[0].outputs[kind].path};
    ff_array_set_destroy(&set);
    CU_ASSERT_EQUAL(ff_query_features(&ctx, &set, &input, &counts), FF_OK);
    ff_template_source_destroy(source);
    free(kalign);
}

/* The place of a template in the features, or -1. */
static int64_t find_template(const char *name)
{
    const ff_array *names = ff_array_find(&set, "template_domain_names");
    for (int64_t t = 0; names != NULL && t < names->shape[0]; t++)
        if (strcmp(names->text[t], name) == 0)
            return t;
    return -1;
}

static double ca_distance(int64_t t, int64_t i, int64_t j)
{
    const ff_array *positions = ff_array_find(&set, "template_all_atom_positions");
    const int64_t n = positions->shape[1];
    double sum = 0;
    for (int c = 0; c < 3; c++) {
        const double d =
            positions->f32[((t * n + i) * 37 + 1) * 3 + c] - positions->f32[((t * n + j) * 37 + 1) * 3 + c];
        sum += d * d;
    }
    return sum;
}

static void check_2crb(void)
{
    const int64_t t = find_template("2crb_A");
    CU_ASSERT_FATAL(t >= 0);
    const float *masks = ff_array_find(&set, "template_all_atom_masks")->f32 + t * 84 * 37;
    const ff_array *sequence = ff_array_find(&set, "template_sequence");
    CU_ASSERT_EQUAL(memcmp(sequence->text[t] + 20, "AAGKYEEAISCHRKATTYLSEAMKL", 25), 0);
    for (int i = 20; i < 44; i++) { /* residues beside each other stay so: 3.8 Å */
        CU_ASSERT(masks[i * 37 + 1] == 1 && masks[(i + 1) * 37 + 1] == 1);
        const double d2 = ca_distance(t, i, i + 1);
        CU_ASSERT(d2 > 3.6 * 3.6 && d2 < 4.0 * 4.0);
    }
}

static void test_hhsearch_finds_2crb_for_4zey(void)
{
    if (!have("jackhmmer", "hhsearch"))
        return;
    add_query("4zey_A");
    options.databases[FF_DB_UNIREF90] = DATA "seqdb/uniprot_mini.fasta";
    options.databases[FF_DB_PDB70] = DATA "seqdb/hh_pdbmini/pdbmini";
    CU_ASSERT_EQUAL_FATAL(run(), FF_OK);
    make_templates(FF_SEARCH_PDB70);
    CU_ASSERT(counts.num_templates >= 1);
    CU_ASSERT_EQUAL(find_template("2crb_A"), 0);  /* the first, with most of its columns sure */
    CU_ASSERT_EQUAL(find_template("4zey_A"), -1); /* itself */
    CU_ASSERT(ff_array_find(&set, "template_sum_probs")->f32[0] > 60);
    check_2crb();
}

static void test_hmmsearch_finds_2crb_for_4zey(void)
{
    if (!have("jackhmmer", "hmmsearch"))
        return;
    add_query("4zey_A");
    options.databases[FF_DB_UNIREF90] = DATA "seqdb/uniprot_mini.fasta";
    options.databases[FF_DB_PDB_SEQRES] = DATA "seqdb/pdb_seqres_mini.txt";
    CU_ASSERT_EQUAL_FATAL(run(), FF_OK);
    make_templates(FF_SEARCH_PDB_SEQRES);
    CU_ASSERT(counts.num_templates >= 1);
    check_2crb();
}

/* A database whose records hold what HMMER stops at; with an A3M as the alignment to search with. */
static void test_hmmsearch_reads_a_seqres_with_a_digit(void)
{
    char command[512], seqres[128], a3m[128];
    if (!have("hmmbuild", "hmmsearch"))
        return;
    add_query("4zey_A");
    snprintf(seqres, sizeof seqres, "%s/seqres.txt", folder);
    snprintf(a3m, sizeof a3m, "%s/4zey.a3m", folder);
    snprintf(command, sizeof command,
             "(printf '>9xyz_A mol:na length:4  DNA\\nAC0GU\\n'; cat " DATA "seqdb/pdb_seqres_mini.txt) >%s && "
             "gunzip -c " DATA "msa/made_here/4zey_A.mmseqs.a3m.gz >%s",
             seqres, a3m);
    CU_ASSERT_EQUAL_FATAL(system(command), 0);
    queries[0].template_msa = a3m;
    options.databases[FF_DB_PDB_SEQRES] = seqres;
    CU_ASSERT_EQUAL_FATAL(run(), FF_OK);
    make_templates(FF_SEARCH_PDB_SEQRES);
    check_2crb();
}

/* The file of a hit holds another version of its sequence: one residue was changed in the mmCIF file's chain. */
static void test_a_real_hit_is_realigned(void)
{
    char command[512], path[128];
    if (!have("kalign", "hhsearch"))
        return;
    add_query("4zey_A");
    options.databases[FF_DB_PDB70] = DATA "seqdb/hh_pdbmini/pdbmini";
    CU_ASSERT_EQUAL_FATAL(run(), FF_OK);
    snprintf(path, sizeof path, "%s/mmcif", folder);
    snprintf(command, sizeof command, /* cysteine 37 of the 97, in the declared sequence and in the atoms */
             "mkdir %s && gunzip -c " DATA "mmcif/2crb.cif.gz | sed 's/\\bCYS\\b/SER/g' >%s/2crb.cif", path, path);
    CU_ASSERT_EQUAL_FATAL(system(command), 0);
    char *kalign = NULL;
    CU_ASSERT_EQUAL_FATAL(ff_search_find_tool(&ctx, &kalign, FF_TOOL_KALIGN, &options), FF_OK);
    const ff_template_options from = {.folder = path, .kalign = kalign};
    ff_template_source *source;
    CU_ASSERT_EQUAL_FATAL(ff_template_source_create(&ctx, &source, &from), FF_OK);
    const ff_query_input input = {.description = "q",
                                  .sequence = sequences[0],
                                  .templates = source,
                                  .hits = queries[0].outputs[FF_SEARCH_PDB70].path};
    CU_ASSERT_EQUAL(ff_query_features(&ctx, &set, &input, &counts), FF_OK);
    CU_ASSERT_EQUAL_FATAL(find_template("2crb_A"), 0);
    CU_ASSERT_EQUAL(memcmp(ff_array_find(&set, "template_sequence")->text[0] + 20, "AAGKYEEAISSHRKATTYLSEAMKL", 25),
                    0);
    for (int i = 20; i < 44; i++) {
        const double d2 = ca_distance(0, i, i + 1);
        CU_ASSERT(d2 > 3.6 * 3.6 && d2 < 4.0 * 4.0);
    }
    ff_template_source_destroy(source);
    free(kalign);
}

static CU_TestInfo tests[] = {
    {"jackhmmer_finds_what_it_found_before", test_jackhmmer_finds_what_it_found_before},
    {"mmseqs_searches_a_batch_in_one_call", test_mmseqs_searches_a_batch_in_one_call},
    {"mmseqs_expands_the_clusters_of_a_database", test_mmseqs_expands_the_clusters_of_a_database},
    {"hhblits_aligns_relatives", test_hhblits_aligns_relatives},
    {"hhsearch_finds_2crb_for_4zey", test_hhsearch_finds_2crb_for_4zey},
    {"hmmsearch_finds_2crb_for_4zey", test_hmmsearch_finds_2crb_for_4zey},
    {"hmmsearch_reads_a_seqres_with_a_digit", test_hmmsearch_reads_a_seqres_with_a_digit},
    {"a_real_hit_is_realigned", test_a_real_hit_is_realigned},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_data_search_runs = {"data/search_runs", NULL, NULL, set_up, tear_down, tests};
