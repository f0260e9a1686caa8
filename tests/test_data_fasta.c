/* FASTA: records as they stand, what is taken as a query and with which words, what is refused, names of files. */
#include <CUnit/CUnit.h>
#include <stdlib.h>

#include "data/fasta.h"
#include "io/text_buffer.h"
#include "tests/check.h"
#include "tests/reader_case.h"

static reader_case r;
static ff_fasta_reader *reader;
static ff_fasta_record record;
static ff_query query;
static bool more;

static void set_up(void)
{
    reader_case_begin(&r);
    reader = NULL;
    query = (ff_query){NULL, 0, ""};
}

static void tear_down(void)
{
    ff_fasta_close(reader);
    ff_query_destroy(&query);
    reader_case_end(&r);
}

static void open_bytes(const char *text, size_t size)
{
    ff_text_file *file;
    ff_fasta_close(reader);
    reader = NULL;
    CU_ASSERT_EQUAL_FATAL(ff_text_open_memory(&r.ctx, &file, "q.fasta", text, size), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_fasta_open_text(&r.ctx, &reader, file), FF_OK);
}

static void open_text(const char *text) { open_bytes(text, strlen(text)); }

static void check_next(int64_t line, const char *description, const char *sequence)
{
    CU_ASSERT_EQUAL_FATAL(ff_fasta_next(&r.ctx, reader, &record, &more), FF_OK);
    CU_ASSERT_TRUE_FATAL(more);
    CU_ASSERT_EQUAL(record.line, line);
    CU_ASSERT_STRING_EQUAL(record.description, description);
    CU_ASSERT_STRING_EQUAL(record.sequence, sequence);
    CU_ASSERT_EQUAL(record.length, (int64_t)strlen(sequence));
}

static void check_end(void)
{
    CU_ASSERT_EQUAL(ff_fasta_next(&r.ctx, reader, &record, &more), FF_OK);
    CU_ASSERT_FALSE(more);
}

/* ---- reading ---- */

static void test_records_are_read_as_they_stand(void)
{
    open_text("\n  >A first, with | and >  \r\n\tMAAH \r\n\r\n KG AE*\n>B\n>\nmkv\n> C\nW");
    check_next(2, "A first, with | and >", "MAAHKG AE*");
    check_next(6, "B", "");
    check_next(7, "", "mkv");
    check_next(9, " C", "W");
    check_end();
    check_end();
    open_text("");
    check_end();
    open_bytes(">n\0l\nA\0C\n", 9);
    check_next(1, "n\\0l", "A\\0C");
    check_end();
}

static void test_headers_and_sequences_may_be_long(void)
{
    ff_text_buffer text = {NULL, 0, 0};
    ff_text_buffer_put(&r.ctx, &text, ">", 1);
    for (int i = 0; i < 70000; i++)
        ff_text_buffer_put(&r.ctx, &text, "h", 1);
    for (int i = 0; i < 20000; i++)
        ff_text_buffer_put(&r.ctx, &text, i % 60 == 0 ? "\nA" : "C", i % 60 == 0 ? 2 : 1);
    open_bytes(text.data, text.size);
    CU_ASSERT_EQUAL(ff_fasta_next(&r.ctx, reader, &record, &more), FF_OK);
    CU_ASSERT_EQUAL(strlen(record.description), 70000);
    CU_ASSERT_EQUAL(record.length, 20000);
    check_end();
    ff_text_buffer_destroy(&text);
}

static void test_a_sequence_before_a_header_is_refused(void)
{
    open_text("\n\nMAAHKG\n>A\nMA\n");
    reader_case_refused(&r, ff_fasta_next(&r.ctx, reader, &record, &more), FF_ERR_FORMAT,
                        "q.fasta:3: \"MAAHKG\" stands before the first '>'; a FASTA record begins with a line `>name`");
    open_text("; old-style comment\n>A\nMA\n");
    reader_case_refused(
        &r, ff_fasta_next(&r.ctx, reader, &record, &more), FF_ERR_FORMAT,
        "q.fasta:1: \"; old-style comment\" stands before the first '>'; a FASTA record begins with a line `>name`");
}

static void test_random_records_come_back(void)
{
    enum { COUNT = 400 };
    ff_text_buffer text = {NULL, 0, 0};
    ff_text_list wanted = {0};
    for (int i = 0; i < COUNT; i++) {
        char word[400];
        size_t n = reader_case_draw(&r, 300);
        ff_text_buffer_put(&r.ctx, &text, ">", 1);
        for (size_t k = 0; k < n; k++)
            word[k] = (char)('!' + reader_case_draw(&r, 94));
        ff_text_list_add(&r.ctx, &wanted, word, n);
        ff_text_buffer_put(&r.ctx, &text, word, n);
        ff_text_buffer_put(&r.ctx, &text, "\n", 1);
        const size_t width = 1 + reader_case_draw(&r, 80);
        n = reader_case_draw(&r, 300);
        for (size_t k = 0; k < n; k++) {
            word[k] = (char)('A' + reader_case_draw(&r, 26));
            ff_text_buffer_put(&r.ctx, &text, &word[k], 1);
            if (k % width == width - 1)
                ff_text_buffer_put(&r.ctx, &text, "\r\n", 1 + reader_case_draw(&r, 2));
        }
        ff_text_list_add(&r.ctx, &wanted, word, n);
        ff_text_buffer_put(&r.ctx, &text, "\n", 1);
    }
    open_bytes(text.data, text.size);
    for (int i = 0; i < COUNT; i++) {
        CU_ASSERT_EQUAL_FATAL(ff_fasta_next(&r.ctx, reader, &record, &more), FF_OK);
        CU_ASSERT_TRUE_FATAL(more);
        CU_ASSERT_STRING_EQUAL(record.description, ff_text_list_get(&wanted, 2 * i));
        CU_ASSERT_STRING_EQUAL(record.sequence, ff_text_list_get(&wanted, 2 * i + 1));
    }
    check_end();
    ff_text_buffer_destroy(&text);
    ff_text_list_destroy(&wanted);
}

/* ---- queries ---- */

static ff_status take(const char *text, bool alphafold_compatible)
{
    open_text(text);
    CU_ASSERT_EQUAL_FATAL(ff_fasta_next(&r.ctx, reader, &record, &more), FF_OK);
    ff_query_destroy(&query);
    return ff_query_from_record(&r.ctx, &query, &record, alphafold_compatible);
}

static void test_what_is_accepted_comes_with_a_note(void)
{
    static const struct {
        const char *text, *sequence, *note;
    } cases[] = {
        {">A\nMAAHKG\n", "MAAHKG", ""},
        {">A\nMXG\n", "MXG", ""},
        {">A\nmaAhkg\n", "MAAHKG", "5 lower-case letters were made upper case"},
        {">A\nMAA HKG\n", "MAAHKG", "1 blanks inside were left out"},
        {">A\nMAA\tHKG\nAA\n", "MAAHKGAA", "1 blanks inside were left out"},
        {">A\nMAAHKG*\n", "MAAHKG", "the '*' at the end was left out"},
        {">A\nMAAHKG\n*\n", "MAAHKG", "the '*' at the end was left out"},
        {">A\nMBZUOJX\n", "MXXXXXX", "5 of B Z U O J were made X"},
        {">A\nmb k*\n", "MXK",
         "3 lower-case letters were made upper case, 1 blanks inside were left out, the '*' at the end was"
         " left out, 1 of B Z U O J were made X"},
        {">A\nACGTACGTACGTACGTACGT\n", "ACGTACGTACGTACGTACGT", "it looks like nucleotides; amino acids are expected"},
        {">A\nA\n", "A", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CU_ASSERT_EQUAL_FATAL(take(cases[i].text, false), FF_OK);
        CU_ASSERT_STRING_EQUAL(query.sequence, cases[i].sequence);
        CU_ASSERT_EQUAL(query.length, (int64_t)strlen(cases[i].sequence));
        CU_ASSERT_STRING_EQUAL(query.note, cases[i].note);
    }
    CU_ASSERT_PTR_NOT_NULL(
        strstr(reader_case_logged(&r), "[warning] q.fasta:1: \"A\": 5 lower-case letters were made upper case\n"));
}

static void test_what_is_refused_names_place_and_cure(void)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {">A b\nMAA:HKG\n",
         "q.fasta:1: \":\" at position 4 of \"A b\" joins the chains of a complex; this program takes single"
         " chains: give each chain a record of its own"},
        {">A\nMAA\n:\nHKG\n",
         "q.fasta:1: \":\" at position 4 of \"A\" joins the chains of a complex; this program takes single"
         " chains: give each chain a record of its own"},
        {">A\nMA-HK\n",
         "q.fasta:1: \"-\" at position 3 of \"A\" is a gap, and a query has none; remove the gaps, or give the"
         " alignment with --msa"},
        {">A\nMA.HK\n",
         "q.fasta:1: \".\" at position 3 of \"A\" is a gap, and a query has none; remove the gaps, or give the"
         " alignment with --msa"},
        {">A\n1 MAHK\n", "q.fasta:1: \"1\" at position 1 of \"A\" is a digit; remove the numbering"},
        {">A\nMA*HK\n",
         "q.fasta:1: \"*\" at position 3 of \"A\" is a stop inside the sequence; end the sequence there or remove it"},
        {">A\nMAHK**\n",
         "q.fasta:1: \"*\" at position 5 of \"A\" is a stop inside the sequence; end the sequence there or remove it"},
        {">A\nMA?K\n", "q.fasta:1: \"?\" at position 3 of \"A\" is no amino-acid letter"},
        {">A\nMA\xc3\x89K\n", "q.fasta:1: \"\xc3\x89\" at position 3 of \"A\" is no amino-acid letter"},
        {">A\nMA>HK\n",
         "q.fasta:1: \">\" at position 3 of \"A\" stands inside a sequence line; each record begins on a line of"
         " its own"},
        {">A\nMA\\0K\n",
         "q.fasta:1: \"\\0\" at position 3 of \"A\" is no amino-acid letter; a NUL byte is shown as \\0"},
        {">A\n\n", "q.fasta:1: \"A\" has no residues"},
        {">A\n*\n", "q.fasta:1: \"A\" has no residues"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        reader_case_refused(&r, take(cases[i].text, false), FF_ERR_FORMAT, cases[i].message);
        CU_ASSERT_PTR_NULL(query.sequence);
    }
}

static void test_alphafold_compatible_takes_upper_case_letters_only(void)
{
    CU_ASSERT_EQUAL(take(">A\nMBZUOJX\n", true), FF_OK);
    CU_ASSERT_STRING_EQUAL(query.sequence, "MBZUOJX");
    CU_ASSERT_STRING_EQUAL(query.note, "");
    static const char *const texts[] = {">A\nMAa\n", ">A\nMA A\n", ">A\nMA*\n", ">A\nMA-A\n", ">A\nMA1\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        CU_ASSERT_EQUAL(take(texts[i], true), FF_ERR_FORMAT);
        CU_ASSERT_PTR_NOT_NULL(
            strstr(r.ctx.message, "at position 3 of \"A\" is no upper-case letter, and AlphaFold takes nothing else"));
        ff_context_clear(&r.ctx);
    }
}

static void test_aatype_follows_alphafolds_order(void)
{
    static const char order[] = "ARNDCQEGHILKMFPSTWYV";
    for (int i = 0; i < 20; i++)
        CU_ASSERT_EQUAL(ff_aatype_of_letter(order[i]), i);
    for (const char *c = "BJOUXZ"; *c != '\0'; c++)
        CU_ASSERT_EQUAL(ff_aatype_of_letter(*c), 20);
    for (const char *c = "a*-.1 \xc3"; *c != '\0'; c++)
        CU_ASSERT_EQUAL(ff_aatype_of_letter(*c), -1);
    CU_ASSERT_EQUAL(ff_aatype_of_letter('\0'), -1);
}

/* ---- file names ---- */

static void test_file_names_stay_in_their_folder(void)
{
    static const struct {
        const char *description, *name;
    } cases[] = {{"T1078 Tsp1, Trichoderma virens, 138 residues|", "T1078"},
                 {"../x", "_._x"},
                 {"a/b", "a_b"},
                 {"sp|P69905|HBA_HUMAN Hemoglobin", "sp_P69905_HBA_HUMAN"},
                 {"", "unnamed"},
                 {"   ", "unnamed"},
                 {" padded ", "padded"},
                 {"-o", "_o"},
                 {".hidden", "_hidden"},
                 {"1abc.A", "1abc.A"},
                 {"dots...", "dots"},
                 {"a\tb", "a"},
                 {"caf\xc3\xa9", "caf__"},
                 {"a;rm$x", "a_rm_x"}};
    char name[FF_FILE_NAME_BYTES], description[4097];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CU_ASSERT_STRING_EQUAL(ff_fasta_file_name(name, cases[i].description), cases[i].name);
    memset(description, 'h', 4096);
    description[4096] = '\0';
    CU_ASSERT_EQUAL(strlen(ff_fasta_file_name(name, description)), 80);
}

static CU_TestInfo tests[] = {
    {"records_are_read_as_they_stand", test_records_are_read_as_they_stand},
    {"headers_and_sequences_may_be_long", test_headers_and_sequences_may_be_long},
    {"a_sequence_before_a_header_is_refused", test_a_sequence_before_a_header_is_refused},
    {"random_records_come_back", test_random_records_come_back},
    {"what_is_accepted_comes_with_a_note", test_what_is_accepted_comes_with_a_note},
    {"what_is_refused_names_place_and_cure", test_what_is_refused_names_place_and_cure},
    {"alphafold_compatible_takes_upper_case_letters_only", test_alphafold_compatible_takes_upper_case_letters_only},
    {"aatype_follows_alphafolds_order", test_aatype_follows_alphafolds_order},
    {"file_names_stay_in_their_folder", test_file_names_stay_in_their_folder},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_data_fasta = {"data/fasta", NULL, NULL, set_up, tear_down, tests};
