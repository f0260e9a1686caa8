/* Template hits of hhsearch and hmmsearch, and tables of jackhmmer: by hand, and what is refused with which words. */
#include <CUnit/CUnit.h>
#include <stdlib.h>

#include "data/hhr.h"
#include "data/hmmsearch.h"
#include "tests/check.h"
#include "tests/reader_case.h"

static reader_case r;
static ff_template_hits hits;
static ff_tblout table;

static void set_up(void)
{
    reader_case_begin(&r);
    hits = (ff_template_hits){.path = NULL};
    table = (ff_tblout){.e_values = NULL};
}

static void tear_down(void)
{
    ff_template_hits_destroy(&hits);
    ff_tblout_destroy(&table);
    reader_case_end(&r);
}

static void check_indices(const int32_t *got, int64_t num_got, const int32_t *want, int64_t num_want)
{
    CU_ASSERT_EQUAL_FATAL(num_got, num_want);
    CU_ASSERT_EQUAL(memcmp(got, want, (size_t)num_want * sizeof *want), 0);
}

/* ---- hhsearch ---- */

#define SUMMARY                                                                                                        \
    "Probab=99.5  E-value=1e-20  Score=8.92  Aligned_cols=6  Identities=31%  Similarity=0.307  Sum_probs=5.3"

static const char hhr[] = "Query         q\nMatch_columns 20\n\n No Hit\n  1 2crb_A\n\n"
                          "No 1  \n>2crb_A some text\n" SUMMARY "  Template_Neff=1.000\n\n"
                          "Q ss_pred            ccc\n"
                          "Q q                3 MK-V    5 (20)\n"
                          "Q Consensus        3 ~k-v    5 (20)\n"
                          "                     |.  \n"
                          "T Consensus       11 mkav   14 (40)\n"
                          "T 2crb_A          11 MKAV   14 (40)\n"
                          "T ss_dssp            HHHH\n"
                          "Confidence           3344\n\n"
                          "Q q                6 LAW    8 (20)\n"
                          "T 2crb_A          15 L-W   16 (40)\n\n\n"
                          "No 2\n>1abc_B\n" SUMMARY "  Template_Neff=2\n\n";

static ff_status read_hhr(const char *text)
{
    ff_text_file *file;
    ff_template_hits_destroy(&hits);
    CU_ASSERT_EQUAL_FATAL(ff_text_open_memory(&r.ctx, &file, "x.hhr", text, strlen(text)), FF_OK);
    const ff_status status = ff_hhr_read_text(&r.ctx, &hits, file);
    ff_text_close(file);
    return status;
}

static void test_blocks_of_a_hit_are_joined(void)
{
    CU_ASSERT_EQUAL_FATAL(read_hhr(hhr), FF_OK);
    CU_ASSERT_EQUAL_FATAL(hits.count, 2);
    const ff_template_hit *hit = &hits.hits[0];
    CU_ASSERT_EQUAL(hit->line, 7);
    CU_ASSERT_EQUAL(hit->index, 1);
    CU_ASSERT_STRING_EQUAL(hit->name, "2crb_A some text");
    CU_ASSERT_EQUAL(hit->aligned_cols, 6);
    CU_ASSERT_EQUAL(hit->sum_probs, 5.3f);
    CU_ASSERT_STRING_EQUAL(hit->query, "MK-VLAW");
    CU_ASSERT_STRING_EQUAL(hit->hit_sequence, "MKAVL-W");
    check_indices(hit->indices_query, hit->num_query, (int32_t[]){2, 3, -1, 4, 5, 6, 7}, 7);
    check_indices(hit->indices_hit, hit->num_hit, (int32_t[]){10, 11, 12, 13, 14, -1, 15}, 7);
    CU_ASSERT_STRING_EQUAL(hits.hits[1].name, "1abc_B");
    CU_ASSERT_EQUAL(hits.hits[1].num_query, 0);
    CU_ASSERT_STRING_EQUAL(hits.hits[1].query, "");
}

static void test_no_hits_are_fine(void)
{
    CU_ASSERT_EQUAL(read_hhr("Query         q\nMatch_columns 20\n\n No Hit\n\n"), FF_OK);
    CU_ASSERT_EQUAL(hits.count, 0);
}

/* The good file with one text replaced. */
static ff_status read_changed(const char *old, const char *fresh)
{
    char text[2048];
    const char *at = strstr(hhr, old);
    CU_ASSERT_PTR_NOT_NULL_FATAL(at);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - hhr), hhr, fresh, at + strlen(old));
    return read_hhr(text);
}

static void test_hhr_damage_is_told_with_line(void)
{
    static const struct {
        const char *old, *fresh, *message;
    } cases[] = {
        {"Query ", "Kwery ", "x.hhr:1: \"Kwery         q\": the output of hhsearch begins with `Query`"},
        {"No 1  ", "No one", "x.hhr:7: \"No one\" should give the number of a hit"},
        {">2crb_A some", "2crb_A some", "x.hhr:7: hit 1 needs a line `>name` next; the file may have been cut"},
        {"  Template_Neff=1.000", "",
         "x.hhr:9: the summary of hit 1 has no Template_Neff: made by HH-suite 1 or 2; search again with"
         " HH-suite 3"},
        {"Aligned_cols=6", "Aligned_cols=?",
         "x.hhr:9: hit 1 needs a summary line with Aligned_cols= and a number, not \"Probab=99.5 "
         " E-value=1e-20  Score=8.9...\""},
        {"Aligned_cols=6", "Aligned_cols=-6", "x.hhr:9: Aligned_cols of hit 1 is out of range"},
        {"Aligned_cols=6", "Aligned_cols=nan", "x.hhr:9: Aligned_cols of hit 1 is out of range"},
        {"MK-V    5", "Mk-V    5",
         "x.hhr:12: \"Q q                3 Mk-V    5 (20)\" is no row `Q name  first RESIDUES last (total)`"},
        {"MK-V    5 (20)", "MK-V    5",
         "x.hhr:12: \"Q q                3 MK-V    5\" is no row `Q name  first RESIDUES last (total)`"},
        {"  3 MK-V ", "1234567890 MK-V ",
         "x.hhr:12: \"Q q              1234567890 MK-V    5...\" is no row `Q name  first RESIDUES last"
         " (total)`"},
        {"MK-V    5", "MK-V    6", "x.hhr:12: the row has 3 residues, its numbers say 3 to 6"},
        {"MKAV   14", "MKA   14", "x.hhr:16: the row of the template has 3 columns, that of the query 4"},
        {"T 2crb_A          15 L-W   16 (40)\n", "",
         "x.hhr:7: hit 1 has 7 columns of the query and 4 of the template; the file may have"
         " been cut"},
        {"Q q                6 LAW    8 (20)\n", "",
         "x.hhr:20: a row of the template without one of the query before it"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        reader_case_refused(&r, read_changed(cases[i].old, cases[i].fresh), FF_ERR_FORMAT, cases[i].message);
        CU_ASSERT_EQUAL(hits.count, 0);
    }
    reader_case_refused(&r, read_hhr(""), FF_ERR_FORMAT,
                        "x.hhr is empty; hhsearch and hhblits write a header at least");
    reader_case_refused(&r, read_hhr("Query q\nNo 3\n>a"), FF_ERR_FORMAT,
                        "x.hhr:2: hit 3 ends before its summary line; the file may have been cut");
    reader_case_refused(&r, read_hhr("Query q\nNo 3"), FF_ERR_FORMAT,
                        "x.hhr:2: hit 3 needs a line `>name` next; the file may have been cut");
}

/* Random alignments written as hhsearch does, and read again. */
static void test_random_hits_come_back(void)
{
    ff_text_buffer text = {NULL, 0, 0}, rows[2] = {{NULL, 0, 0}, {NULL, 0, 0}};
    for (int round = 0; round < 50; round++) {
        char line[200];
        int64_t first[2], next[2];
        ff_text_buffer_clear(&text);
        ff_text_buffer_put(&r.ctx, &text, "Query q\n\nNo 7\n>x_Y\n" SUMMARY " Template_Neff=1\n",
                           strlen("Query q\n\nNo 7\n>x_Y\n" SUMMARY " Template_Neff=1\n"));
        for (int k = 0; k < 2; k++) {
            ff_text_buffer_clear(&rows[k]);
            first[k] = next[k] = 1 + (int64_t)reader_case_draw(&r, 900);
        }
        const int blocks = 1 + (int)reader_case_draw(&r, 5);
        for (int b = 0; b < blocks; b++) {
            const int width = 2 + (int)reader_case_draw(&r, 79);
            for (int k = 0; k < 2; k++) {
                char row[100];
                int64_t residues = 0;
                for (int i = 0; i < width; i++) {
                    row[i] = i > 0 && reader_case_draw(&r, 4) == 0 ? '-' : (char)('A' + reader_case_draw(&r, 26));
                    residues += row[i] != '-';
                }
                row[width] = '\0';
                const int n = snprintf(line, sizeof line, "%c name           %4lld %s %4lld (2000)\n", "QT"[k],
                                       (long long)next[k], row, (long long)(next[k] + residues - 1));
                next[k] += residues;
                ff_text_buffer_put(&r.ctx, &rows[k], row, (size_t)width);
                ff_text_buffer_put(&r.ctx, &text, line, (size_t)n);
            }
        }
        CU_ASSERT_EQUAL_FATAL(read_hhr(text.data), FF_OK);
        CU_ASSERT_EQUAL_FATAL(hits.count, 1);
        const ff_template_hit *hit = &hits.hits[0];
        CU_ASSERT_STRING_EQUAL(hit->query, rows[0].data);
        CU_ASSERT_STRING_EQUAL(hit->hit_sequence, rows[1].data);
        CU_ASSERT_EQUAL_FATAL(hit->num_query, (int64_t)rows[0].size);
        for (int k = 0; k < 2; k++)
            for (int64_t i = 0, number = first[k] - 1; i < hit->num_query; i++)
                CU_ASSERT_EQUAL((k == 0 ? hit->indices_query : hit->indices_hit)[i],
                                rows[k].data[i] == '-' ? -1 : number++);
    }
    ff_text_buffer_destroy(&text);
    ff_text_buffer_destroy(&rows[0]);
    ff_text_buffer_destroy(&rows[1]);
}

/* ---- hmmsearch ---- */

static ff_status read_hmmsearch(const char *text, bool strict)
{
    ff_template_hits_destroy(&hits);
    return ff_hmmsearch_parse(&r.ctx, &hits, "x.sto", text, strlen(text), "MKVLA", strict);
}

static void test_hmmsearch_hits_are_numbered_along_the_query(void)
{
    static const char sto[] = "# STOCKHOLM 1.0\n"
                              "#=GS 4pqx_A/12-15   DE [subseq from] mol:protein length:217  Free text\n"
                              "#=GS 1dna_B/1-2     DE [subseq from] mol:na length:12\n"
                              "#=GS 5g3r_AB_1/3-5  DE [subseq from] mol:protein length:352\n\n"
                              "4pqx_A/12-15   -KvLA\n1dna_B/1-2     AC---\n5g3r_AB_1/3-5  MKV..\n//\n";
    CU_ASSERT_EQUAL_FATAL(read_hmmsearch(sto, true), FF_OK);
    CU_ASSERT_EQUAL_FATAL(hits.count, 2);
    const ff_template_hit *hit = &hits.hits[0];
    CU_ASSERT_STRING_EQUAL(hit->name, "4pqx_A");
    CU_ASSERT_EQUAL(hit->index, 1);
    CU_ASSERT_EQUAL(hit->aligned_cols, 3);
    CU_ASSERT_EQUAL(hit->sum_probs, 0);
    CU_ASSERT_STRING_EQUAL(hit->query, "MKVLA");
    CU_ASSERT_STRING_EQUAL(hit->hit_sequence, "-KVLA");
    check_indices(hit->indices_query, hit->num_query, (int32_t[]){0, 1, 2, 3, 4}, 5);
    check_indices(hit->indices_hit, hit->num_hit, (int32_t[]){-1, 11, 13, 14}, 4); /* v is counted, without an entry */
    CU_ASSERT_STRING_EQUAL(hits.hits[1].name, "5g3r_AB_1");
    CU_ASSERT_EQUAL(hits.hits[1].index, 3);
    check_indices(hits.hits[1].indices_hit, hits.hits[1].num_hit, (int32_t[]){2, 3, 4}, 3);
    CU_ASSERT_EQUAL(read_hmmsearch(">4pqx_A/2-3 mol:protein length:9\nMK---\n", true), FF_OK);
    CU_ASSERT_EQUAL(hits.count, 1);
}

static void test_hmmsearch_without_rows_has_no_hits(void)
{
    static const char *const texts[] = {"", "\n", "# STOCKHOLM 1.0\n//\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        CU_ASSERT_EQUAL(read_hmmsearch(texts[i], true), FF_OK);
        CU_ASSERT_EQUAL(hits.count, 0);
    }
}

static void test_names_that_are_no_pdb_chain_are_left_out(void)
{
    static const char *const names[] = {"4PQX_A/1-2",          "4pqx/1-2", "4pqx_/1-2", "4pqx_A",
                                        "4pqx_A/x-2",          "4pqx_A/1", "_A/1-2",    "4pqx_A/1-2x mol:protein",
                                        "4pqx_A/99999999999-2"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char text[200], message[300];
        snprintf(text, sizeof text, ">%s mol:protein%s\nMKVLA\n", names[i], i == 7 ? "" : " length:9");
        CU_ASSERT_EQUAL(read_hmmsearch(text, false), FF_OK);
        CU_ASSERT_EQUAL(hits.count, 0);
        char quoted[FF_TEXT_QUOTE_BYTES];
        text[strcspn(text, "\n")] = '\0';
        ff_text_quote(quoted, text + 1, (int64_t)strlen(text) - 1);
        text[strlen(text)] = '\n';
        snprintf(message, sizeof message, "x.sto:1: %s is not `pdbid_CHAIN/first-last ... mol:protein length:N`",
                 quoted);
        reader_case_refused(&r, read_hmmsearch(text, true), FF_ERR_FORMAT, message);
    }
    CU_ASSERT_PTR_NOT_NULL(
        strstr(reader_case_logged(&r), "[warning] x.sto:1: left out: \"4PQX_A/1-2 mol:protein length:9\" is not"));
}

static void test_messages_of_converted_files_say_so(void)
{
    reader_case_refused(
        &r, read_hmmsearch("# STOCKHOLM 1.0\n#=GS x/1-2 DE mol:protein length:3\nx/1-2 MKVLA\n//\n", true),
        FF_ERR_FORMAT,
        "x.sto (as A3M):1: \"x/1-2 mol:protein length:3\" is not `pdbid_CHAIN/first-last ... mol:protein length:N`");
    reader_case_refused(&r, read_hmmsearch("MKVLA\n", true), FF_ERR_FORMAT,
                        "x.sto:1: \"MKVLA\" stands before the first '>'; a FASTA record begins with a line `>name`");
}

/* ---- tables ---- */

static ff_status read_table(const char *text)
{
    ff_text_file *file;
    ff_tblout_destroy(&table);
    CU_ASSERT_EQUAL_FATAL(ff_text_open_memory(&r.ctx, &file, "x.tbl", text, strlen(text)), FF_OK);
    const ff_status status = ff_tblout_read_text(&r.ctx, &table, file);
    ff_text_close(file);
    return status;
}

static void test_tables_give_names_and_e_values(void)
{
    CU_ASSERT_EQUAL_FATAL(
        read_table("# target name\n#---\na  -  one  -  3.5e-16   57.3\n\nb - one - 0.5 1\na - one - 7\n# end\n"),
        FF_OK);
    CU_ASSERT_EQUAL_FATAL(table.names.names.count, 3);
    CU_ASSERT_STRING_EQUAL(ff_name_table_get(&table.names, 0), "query");
    CU_ASSERT_EQUAL(table.e_values[0], 0);
    CU_ASSERT_STRING_EQUAL(ff_name_table_get(&table.names, 1), "a");
    CU_ASSERT_EQUAL(table.e_values[1], 7); /* the last one of a name */
    CU_ASSERT_EQUAL(table.e_values[2], 0.5f);
}

static void test_table_damage_is_told_with_line(void)
{
    reader_case_refused(&r, read_table("# x\na - one -\n"), FF_ERR_FORMAT,
                        "x.tbl:2: \"a - one -\" has 4 columns, a line of a --tblout table has more");
    reader_case_refused(&r, read_table("a - one - 1e-5x 3\n"), FF_ERR_FORMAT,
                        "x.tbl:1: \"1e-5x\" in the fifth column is no E-value");
    CU_ASSERT_EQUAL(table.names.names.count, 0);
}

static CU_TestInfo tests[] = {
    {"blocks_of_a_hit_are_joined", test_blocks_of_a_hit_are_joined},
    {"no_hits_are_fine", test_no_hits_are_fine},
    {"hhr_damage_is_told_with_line", test_hhr_damage_is_told_with_line},
    {"random_hits_come_back", test_random_hits_come_back},
    {"hmmsearch_hits_are_numbered_along_the_query", test_hmmsearch_hits_are_numbered_along_the_query},
    {"hmmsearch_without_rows_has_no_hits", test_hmmsearch_without_rows_has_no_hits},
    {"names_that_are_no_pdb_chain_are_left_out", test_names_that_are_no_pdb_chain_are_left_out},
    {"messages_of_converted_files_say_so", test_messages_of_converted_files_say_so},
    {"tables_give_names_and_e_values", test_tables_give_names_and_e_values},
    {"table_damage_is_told_with_line", test_table_damage_is_told_with_line},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_data_hits = {"data/hits", NULL, NULL, set_up, tear_down, tests};
