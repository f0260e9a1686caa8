/* Raw features: sequence, alignments without repeated rows, and which files belong to a chain. */
#include <CUnit/CUnit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/a3m.h"
#include "data/features.h"
#include "data/msa_folder.h"
#include "data/query_features.h"

static ff_ctx ctx;
static char folder[64];
static ff_array_set set;
static ff_msa msas[3];

static void set_up(void)
{
    ff_context_init(&ctx);
    ctx.log.file = NULL;
    strcpy(folder, "/tmp/ff_features_XXXXXX");
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
    ff_array_set_init(&set);
    memset(msas, 0, sizeof msas);
}

static void tear_down(void)
{
    char command[96];
    for (int i = 0; i < 3; i++)
        ff_msa_destroy(&msas[i]);
    ff_array_set_destroy(&set);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    CU_ASSERT_EQUAL(system(command), 0);
}

static void put(const char *name, const char *text)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    fputs(text, file);
    fclose(file);
}

static void make_folder(const char *name)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    CU_ASSERT_EQUAL_FATAL(mkdir(path, 0755), 0);
}

static void read_a3m(ff_msa *msa, const char *text)
{
    ff_text_file *file;
    CU_ASSERT_EQUAL_FATAL(ff_text_open_memory(&ctx, &file, "x.a3m", text, strlen(text)), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_a3m_read_text(&ctx, msa, file, NULL), FF_OK);
    ff_text_close(file);
}

static bool has(const char *text, const char *part)
{
    if (strstr(text, part) != NULL)
        return true;
    printf("\n    \"%s\" is not in \"%s\"\n", part, text);
    return false;
}

static void test_sequence_features(void)
{
    CU_ASSERT_EQUAL_FATAL(ff_features_add_sequence(&ctx, &set, "MXUA", "a name, with blanks"), FF_OK);
    const int32_t *aatype = ff_array_need(&ctx, &set, "aatype", FF_ARRAY_INT32, FF_DIMS(4, 21))->i32;
    static const int codes[] = {12, 20, 20, 0};
    for (int i = 0; i < 4; i++)
        for (int c = 0; c < 21; c++)
            CU_ASSERT_EQUAL(aatype[21 * i + c], c == codes[i]);
    CU_ASSERT_EQUAL(ff_array_find(&set, "residue_index")->i32[3], 3);
    CU_ASSERT_EQUAL(ff_array_find(&set, "seq_length")->i32[2], 4);
    CU_ASSERT_EQUAL(ff_array_find(&set, "between_segment_residues")->i32[0], 0);
    CU_ASSERT_STRING_EQUAL(ff_array_find(&set, "domain_name")->text[0], "a name, with blanks");
    CU_ASSERT_STRING_EQUAL(ff_array_find(&set, "sequence")->text[0], "MXUA");
    CU_ASSERT_EQUAL(ff_features_add_sequence(&ctx, &set, "MK*A", "n"), FF_ERR_FORMAT);
    CU_ASSERT_STRING_EQUAL(ctx.message, "the sequence of n has \"*\" at residue 3, which is no residue");
}

static void test_rows_are_kept_once_over_all_alignments(void)
{
    read_a3m(&msas[0], ">query\nMKVL\n>sp|P12345|A_HUMAN/1-4\nMK-L\n>b\nMKaaVL\n"); /* b: the query with an insertion */
    read_a3m(&msas[1], ">query\nMKVL\n>c\n-KVL\n>d\nMK-L\n>e\nM--L\n>c\n-KVL\n");
    const ff_msa *const all[] = {&msas[0], &msas[1]};
    CU_ASSERT_EQUAL_FATAL(ff_features_add_msas(&ctx, &set, all, 2, 4), FF_OK);
    const ff_array *msa = ff_array_need(&ctx, &set, "msa", FF_ARRAY_INT32, FF_DIMS(4, 4));
    const ff_array *deletions = ff_array_need(&ctx, &set, "deletion_matrix_int", FF_ARRAY_INT32, FF_DIMS(4, 4));
    CU_ASSERT_FATAL(msa != NULL && deletions != NULL);
    static const int32_t rows[4][4] = {{10, 8, 17, 9}, {10, 8, 21, 9}, {21, 8, 17, 9}, {10, 21, 21, 9}};
    CU_ASSERT_EQUAL(memcmp(msa->i32, rows, sizeof rows), 0);
    for (int i = 0; i < 16; i++) /* the first of equal rows counts, with its deletions: none here */
        CU_ASSERT_EQUAL(deletions->i32[i], 0);
    CU_ASSERT_EQUAL(ff_array_find(&set, "num_alignments")->i32[3], 4);
    const ff_array *species = ff_array_need(&ctx, &set, "msa_species_identifiers", FF_ARRAY_TEXT, FF_DIMS(4));
    CU_ASSERT_STRING_EQUAL(species->text[1], "HUMAN");
    CU_ASSERT_EQUAL(species->text[0] == NULL || species->text[0][0] == '\0', true);
}

static void test_deletions_go_with_their_row(void)
{
    read_a3m(&msas[0], ">query\nMKVL\n>b\naaM-VaL\n>c\n-KVaaaL\n>d\n-KVL\n");
    const ff_msa *const all[] = {&msas[0]};
    CU_ASSERT_EQUAL_FATAL(ff_features_add_msas(&ctx, &set, all, 1, 4), FF_OK);
    static const int32_t want[3][4] = {{0, 0, 0, 0}, {2, 0, 0, 1}, {0, 0, 0, 3}}; /* d is c without its insertion */
    const ff_array *got = ff_array_need(&ctx, &set, "deletion_matrix_int", FF_ARRAY_INT32, FF_DIMS(3, 4));
    CU_ASSERT_PTR_NOT_NULL_FATAL(got);
    CU_ASSERT_EQUAL(memcmp(got->i32, want, sizeof want), 0);
}

static void test_bad_alignments_are_named(void)
{
    read_a3m(&msas[0], ">query\nMKVL\n");
    const ff_msa *const all[] = {&msas[0], &msas[1]};
    CU_ASSERT_EQUAL(ff_features_add_msas(&ctx, &set, all, 1, 5), FF_ERR_FORMAT);
    CU_ASSERT(has(ctx.message, "x.a3m"));
    ff_context_clear(&ctx);
    read_a3m(&msas[1], ">query\nMK.L\n");
    CU_ASSERT_EQUAL(ff_features_add_msas(&ctx, &set, all, 2, 4), FF_ERR_FORMAT);
}

/* Many rows, and every one of them twice: the table of rows grows and finds them all. */
static void test_many_rows(void)
{
    enum { N = 3000, L = 12 };
    static const char letters[] = "ACDEFGHIKLMNPQRSTVWY-";
    char *text = malloc(2 * N * (L + 8) + 64), *at = text;
    for (int k = 0; k < 2 * N; k++) {
        uint32_t x = (uint32_t)(k % N);
        at += sprintf(at, ">r%d\n", k);
        for (int i = 0; i < L; i++, x /= 21)
            *at++ = letters[i < 4 ? x % 21 : (uint32_t)(k % N) % 19];
        *at++ = '\n';
    }
    *at = '\0';
    read_a3m(&msas[0], text);
    const ff_msa *const all[] = {&msas[0], &msas[0]};
    CU_ASSERT_EQUAL_FATAL(ff_features_add_msas(&ctx, &set, all, 2, L), FF_OK);
    const ff_array *msa = ff_array_need(&ctx, &set, "msa", FF_ARRAY_INT32, FF_DIMS(N, L));
    CU_ASSERT_PTR_NOT_NULL_FATAL(msa);
    for (int64_t i = 0; i < N * L; i++)
        if (msa->i32[i] != msas[0].codes[i]) {
            CU_FAIL("a row is out of order");
            break;
        }
    free(text);
}

/* ---- one query ---- */

static ff_query_counts counts;

static ff_status make(const char *sequence, const ff_query_msa *files, int64_t n, bool alphafold_compatible)
{
    const ff_query_input input = {.description = "sp|Q98765|Q_MOUSE x",
                                  .sequence = sequence,
                                  .msas = files,
                                  .num_msas = n,
                                  .alphafold_compatible = alphafold_compatible};
    ff_array_set_destroy(&set);
    ff_context_clear(&ctx);
    return ff_query_features(&ctx, &set, &input, &counts);
}

static void test_a_query_without_alignments_is_its_own(void)
{
    CU_ASSERT_EQUAL(make("MKVL", NULL, 0, false), FF_OK);
    CU_ASSERT_EQUAL(counts.num_seq, 1);
    CU_ASSERT_STRING_EQUAL(ff_array_find(&set, "msa_species_identifiers")->text[0], "MOUSE");
    CU_ASSERT_PTR_NULL(ff_array_find(&set, "template_aatype"));
}

static void test_the_query_comes_first(void)
{
    char path[160];
    put("other.a3m", ">first\nMKAL\n>query\nMKVL\n");
    snprintf(path, sizeof path, "%s/other.a3m", folder);
    ff_query_msa file = {.path = path};
    CU_ASSERT_EQUAL(make("MKVL", &file, 1, false), FF_OK); /* MKVL, MKAL; the file's own MKVL is a repetition */
    CU_ASSERT_EQUAL(counts.num_seq, 2);
    CU_ASSERT_EQUAL(ff_array_find(&set, "msa")->i32[2], 17);
    CU_ASSERT_EQUAL(make("MKVL", &file, 1, true), FF_OK); /* as AlphaFold does */
    CU_ASSERT_EQUAL(ff_array_find(&set, "msa")->i32[2], 0);
    CU_ASSERT_EQUAL(make("MXAL", &file, 1, false), FF_OK); /* X is no difference */
    CU_ASSERT_EQUAL(ff_array_find(&set, "msa")->i32[1], 8);
    CU_ASSERT_EQUAL(make("MKVLA", &file, 1, false), FF_ERR_FORMAT);
    CU_ASSERT(has(ctx.message, "other.a3m"));
    file.max_seq = 1;
    CU_ASSERT_EQUAL(make("MKAL", &file, 1, false), FF_OK);
    CU_ASSERT_EQUAL(counts.num_seq, 1);
    put("other.a3m", ">query\nMKVL\n>b\nMKAL\n");
    file = (ff_query_msa){.path = path, .searched = true};
    CU_ASSERT_EQUAL(make("MKVL", &file, 1, false), FF_OK);
    CU_ASSERT_STRING_EQUAL(ff_array_find(&set, "msa_species_identifiers")->text[0], "MOUSE");
}

static void test_files_that_are_no_alignments_are_refused(void)
{
    char path[160];
    put("x.txt", "hello\n");
    snprintf(path, sizeof path, "%s/x.txt", folder);
    const ff_query_msa file = {.path = path};
    CU_ASSERT_EQUAL(make("MKVL", &file, 1, false), FF_ERR_FORMAT);
    CU_ASSERT(has(ctx.message, "x.txt is no alignment"));
    put("x.txt", "");
    CU_ASSERT_EQUAL(make("MKVL", &file, 1, false), FF_ERR_FORMAT);
}

/* ---- folders of alignments ---- */

static const char *name_of(const ff_msa_files *files, int64_t i)
{
    return ff_text_list_get(&files->msas, i) + strlen(folder) + 1;
}

static void test_files_of_a_chain_are_found_in_both_layouts(void)
{
    ff_msa_files files;
    make_folder("1abc_A");
    put("1abc_A/mgnify_hits.sto", "");
    put("1abc_A/uniref90_hits.sto", "");
    put("1abc_A/bfd_uniclust_hits.a3m.gz", "");
    put("1abc_A/another.a3m", "");
    put("1abc_A/uniprot_hits.sto", "");
    put("1abc_A/pdb70_hits.hhr", "");
    put("1abc_A/readme.txt", "");
    put("1abc_A.jackhmmer.sto.gz", "");
    put("1abc_AB.a3m", "");
    put("2abc_A.a3m", "");
    CU_ASSERT_EQUAL(ff_msa_files_find(&ctx, &files, folder, "1abc_A"), FF_OK);
    CU_ASSERT_EQUAL_FATAL(files.msas.count, 5);
    CU_ASSERT_STRING_EQUAL(name_of(&files, 0), "1abc_A/uniref90_hits.sto");
    CU_ASSERT_STRING_EQUAL(name_of(&files, 1), "1abc_A/bfd_uniclust_hits.a3m.gz");
    CU_ASSERT_STRING_EQUAL(name_of(&files, 2), "1abc_A/mgnify_hits.sto");
    CU_ASSERT_STRING_EQUAL(name_of(&files, 3), "1abc_A.jackhmmer.sto.gz");
    CU_ASSERT_STRING_EQUAL(name_of(&files, 4), "1abc_A/another.a3m");
    CU_ASSERT_PTR_NOT_NULL(files.hits);
    CU_ASSERT_EQUAL(ff_msa_file_max_seq(ff_text_list_get(&files.msas, 0)), 10000);
    CU_ASSERT_EQUAL(ff_msa_file_max_seq(ff_text_list_get(&files.msas, 1)), 0);
    CU_ASSERT_EQUAL(ff_msa_file_max_seq(ff_text_list_get(&files.msas, 2)), 501);
    ff_msa_files_destroy(&files);
    CU_ASSERT_EQUAL(ff_msa_files_find(&ctx, &files, "/no/such/folder", "x"), FF_ERR_IO);
}

static void test_a_wrong_layout_is_explained(void)
{
    char text[512];
    ff_msa_files files;
    make_folder("alignments");
    make_folder("alignments/1abc_A");
    put("alignments/1abc_A/uniref90_hits.sto", "");
    CU_ASSERT_EQUAL(ff_msa_files_find(&ctx, &files, folder, "1abc_A"), FF_OK);
    CU_ASSERT_EQUAL(files.msas.count, 0);
    CU_ASSERT(
        has(ff_msa_folder_explain(folder, "1abc_A", text, sizeof text), "no alignments of 1abc_A: expected /tmp/"));
    CU_ASSERT(has(text, "/1abc_A/*.a3m (or .sto), or "));
    CU_ASSERT(has(text, "; they lie one level deeper, in "));
    CU_ASSERT(has(text, "/alignments"));
    put("uniref90_hits.sto", "");
    CU_ASSERT(
        has(ff_msa_folder_explain(folder, "1xyz_A", text, sizeof text), "itself holds alignments of other names"));
    CU_ASSERT(has(ff_msa_folder_explain("/no/such", "1xyz_A", text, sizeof text), "no alignments of 1xyz_A"));
}

static CU_TestInfo tests[] = {
    {"sequence_features", test_sequence_features},
    {"rows_are_kept_once_over_all_alignments", test_rows_are_kept_once_over_all_alignments},
    {"deletions_go_with_their_row", test_deletions_go_with_their_row},
    {"bad_alignments_are_named", test_bad_alignments_are_named},
    {"many_rows", test_many_rows},
    {"a_query_without_alignments_is_its_own", test_a_query_without_alignments_is_its_own},
    {"the_query_comes_first", test_the_query_comes_first},
    {"files_that_are_no_alignments_are_refused", test_files_that_are_no_alignments_are_refused},
    {"files_of_a_chain_are_found_in_both_layouts", test_files_of_a_chain_are_found_in_both_layouts},
    {"a_wrong_layout_is_explained", test_a_wrong_layout_is_explained},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_data_features = {"data/features", NULL, NULL, set_up, tear_down, tests};
