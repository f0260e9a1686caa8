/* Alignments: A3M and Stockholm by hand, the two against each other on random alignments, and what is refused with which
 * words. Whole files are checked by golden_check against AlphaFold's parsers. */
#include <CUnit/CUnit.h>
#include <stdlib.h>
#include <unistd.h>

#include "data/a3m.h"
#include "data/stockholm.h"
#include "tests/check.h"
#include "tests/reader_case.h"

static reader_case r;
static ff_msa msa, other;
static ff_text_buffer text;

static void set_up(void)
{
    reader_case_begin(&r);
    msa = other = (ff_msa){.path = NULL};
    text = (ff_text_buffer){NULL, 0, 0};
}

static void tear_down(void)
{
    ff_msa_destroy(&msa);
    ff_msa_destroy(&other);
    ff_text_buffer_destroy(&text);
    reader_case_end(&r);
}

typedef ff_status (*read_function)(ff_ctx *ctx, ff_msa *msa, ff_text_file *text, const ff_msa_options *options);

static ff_status read_bytes(read_function read, ff_msa *to, const char *bytes, size_t size,
                            const ff_msa_options *options)
{
    ff_text_file *file;
    ff_msa_destroy(to);
    CU_ASSERT_EQUAL_FATAL(ff_text_open_memory(&r.ctx, &file, "x.msa", bytes, size), FF_OK);
    const ff_status status = read(&r.ctx, to, file, options);
    ff_text_close(file);
    return status;
}

static ff_status read_a3m(const char *a3m, const ff_msa_options *options)
{
    return read_bytes(ff_a3m_read_text, &msa, a3m, strlen(a3m), options);
}

static ff_status read_sto(const char *sto, const ff_msa_options *options)
{
    return read_bytes(ff_stockholm_read_text, &msa, sto, strlen(sto), options);
}

/* Row s: description, letters, and deletions as digits. */
static void check_row(int64_t s, int64_t line, const char *description, const char *letters, const char *deletions)
{
    int32_t counts[64];
    CU_ASSERT_TRUE_FATAL(s < msa.num_seq);
    const int64_t length = msa.offsets[s + 1] - msa.offsets[s];
    CU_ASSERT_EQUAL_FATAL(length, (int64_t)strlen(letters));
    CU_ASSERT_EQUAL(memcmp(msa.rows + msa.offsets[s], letters, (size_t)length), 0);
    CU_ASSERT_STRING_EQUAL(ff_text_list_get(&msa.descriptions, s), description);
    CU_ASSERT_EQUAL(msa.lines[s], line);
    ff_msa_put_deletions(&msa, s, counts);
    for (int64_t i = 0; i < length; i++) {
        CU_ASSERT_EQUAL(counts[i], deletions[i] - '0');
        CU_ASSERT_EQUAL(msa.codes[msa.offsets[s] + i], ff_msa_code(letters[i]));
    }
}

/* ---- codes and species ---- */

static void test_codes_are_hhblits(void)
{
    static const char order[] = "ACDEFGHIKLMNPQRSTVWYX-";
    for (int i = 0; i < 22; i++)
        CU_ASSERT_EQUAL(ff_msa_code(order[i]), i);
    CU_ASSERT_EQUAL(ff_msa_code('B'), 2);
    CU_ASSERT_EQUAL(ff_msa_code('Z'), 3);
    CU_ASSERT_EQUAL(ff_msa_code('U'), 1);
    CU_ASSERT_EQUAL(ff_msa_code('J'), 20);
    CU_ASSERT_EQUAL(ff_msa_code('O'), 20);
    int without = 0;
    for (int c = 0; c < 256; c++)
        without += ff_msa_code((char)c) == FF_MSA_NO_CODE;
    CU_ASSERT_EQUAL(without, 256 - 27);
}

static void test_species_come_from_uniprot_names(void)
{
    static const char *const cases[][2] = {
        {"sp|P69905|HBA_HUMAN", "HUMAN"},
        {"tr|A0A146SKV9|A0A146SKV9_FUNHE/29-107", "FUNHE"},
        {"tr|A7TBS3|A7TBS3_NEMVE Predicted protein", "NEMVE"},
        {"sp|P69905_1|HBA_HUMAN", "HUMAN"},
        {"tr|A0A146SKV9|A0A146SKV9_FUNHE_12", "FUNHE"},
        {"  sp|P69905|HBA_9STAP", "9STAP"},
        {"tr|A0A146SKV9|A0A146SKV9_FUNHE_", ""},
        {"tr|A0A146SKV9|A0A146SKV9_FUNHEX", ""},
        {"tr|A0A146SKV9|A0A146SKV9_FUNHE-1", ""},
        {"tr|A0A146SKV9|A0A146SKV9", ""},
        {"tr|A0A146SKV9|_FUNHE", ""},
        {"tr|A0A14|A0A146SKV9_FUNHE", ""},
        {"tr|A0A146SKV9XX|A0A146SKV9_FUNHE", ""},
        {"X|P69905|HBA_HUMAN", ""},
        {"UniRef90_Q9H5Z4/4-78", ""},
        {"tr|", ""},
        {"tr|A7TBS3|", ""},
        {"tr|A7TBS3|A_", ""},
        {"", ""},
    };
    char species[8];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CU_ASSERT_STRING_EQUAL(ff_msa_species(species, cases[i][0]), cases[i][1]);
}

/* ---- A3M ---- */

static void test_lower_case_of_a3m_is_deletions(void)
{
    CU_ASSERT_EQUAL_FATAL(read_a3m("#5\t1\n>query\nMKVLA\n\n>b text\r\nmM-Vxy\r\nLAgg\n> c\n-----", NULL), FF_OK);
    CU_ASSERT_EQUAL(msa.num_seq, 3);
    CU_ASSERT_EQUAL(msa.num_res, 5);
    CU_ASSERT_TRUE(msa.aligned);
    check_row(0, 2, "query", "MKVLA", "00000");
    check_row(1, 5, "b text", "M-VLA", "10020"); /* the run before L goes over a line end; gg at the end is dropped */
    check_row(2, 8, " c", "-----", "00000");
    CU_ASSERT_EQUAL(ff_msa_check(&r.ctx, &msa, 5), FF_OK);
    CU_ASSERT_EQUAL(ff_msa_check(&r.ctx, &msa, 0), FF_OK);
}

static void test_nul_bytes_of_colabfold_are_skipped(void)
{
    static const char bytes[] = "\0>query\nMKV\0LA\n\0>b\nMKVLA\0\n\0";
    CU_ASSERT_EQUAL_FATAL(read_bytes(ff_a3m_read_text, &msa, bytes, sizeof bytes - 1, NULL), FF_OK);
    check_row(0, 1, "query", "MKVLA", "00000");
    check_row(1, 3, "b", "MKVLA", "00000");
}

static void test_rows_longer_than_a_block_keep_their_insertions(void)
{
    /* 40 columns, an insertion after 32, one at 35, and one that spans a block end */
    CU_ASSERT_EQUAL_FATAL(read_a3m(">q\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAACCCCCCCC\n"
                                   ">b\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAxCCCyyCCCCC\n"
                                   ">c\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAzzzzAACCCCCCCC\n", NULL), FF_OK);
    check_row(1, 3, "b", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAACCCCCCCC", "0000000000000000000000000000000010020000");
    check_row(2, 5, "c", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAACCCCCCCC", "0000000000000000000000000000004000000000");
}

static void test_max_seq_ends_reading(void)
{
    const ff_msa_options two = {2, false, false};
    CU_ASSERT_EQUAL_FATAL(read_a3m(">q\nMKV\n>b\nM-V\n>c\nMKVTOO LONG AND NEVER LOOKED AT\n", &two), FF_OK);
    CU_ASSERT_EQUAL(msa.num_seq, 2);
    CU_ASSERT_EQUAL_FATAL(read_sto("q MKV\nb M-V\nc MKV\n\nq AA\nc AA\nb CC\n//\n", &two), FF_OK);
    CU_ASSERT_EQUAL(msa.num_seq, 2);
    check_row(0, 1, "q", "MKVAA", "00000");
    check_row(1, 2, "b", "M-VCC", "00000");
}

static void test_a3m_damage_is_told_with_line_and_cure(void)
{
    reader_case_refused(
        &r, read_a3m("\nMKV\n>q\nMKV\n", NULL), FF_ERR_FORMAT,
        "x.msa:2: \"MKV\" stands before the first '>'; a row of an A3M file begins with a line `>name`");
    reader_case_refused(&r, read_a3m(">q\nMKV\n>b\nM-V\n>short one\nMK\n", NULL), FF_ERR_FORMAT,
                        "x.msa:5: row 3 (\"short\") has 2 columns, the query has 3");
    reader_case_refused(&r, read_a3m(">q\nMKV\n>cut\n", NULL), FF_ERR_FORMAT,
                        "x.msa:3: row 2 (\"cut\") has 0 columns, the query has 3");
    reader_case_refused(&r, read_a3m(">q\n>b\nMKV\n", NULL), FF_ERR_FORMAT,
                        "x.msa:1: the first row (\"q\") is empty; it should be the query");
    reader_case_refused(&r, read_a3m("#3,4\t1,1\n>101\t102\nMKVAAAA\n", NULL), FF_ERR_FORMAT,
                        "x.msa:1: \"#3,4\\x091,1\": an alignment of a complex; this program takes single chains");
    CU_ASSERT_PTR_NULL(msa.rows);
}

static void test_unequal_rows_are_kept_where_asked_for(void)
{
    const ff_msa_options unequal = {0, false, true};
    CU_ASSERT_EQUAL_FATAL(read_a3m(">q\nMKV\n>b\nMaK\n>c\nMKVL\n", &unequal), FF_OK);
    CU_ASSERT_FALSE(msa.aligned);
    check_row(0, 1, "q", "MKV", "000");
    check_row(1, 3, "b", "MK", "01");
    check_row(2, 5, "c", "MKVL", "0000");
    reader_case_refused(&r, ff_msa_check(&r.ctx, &msa, 3), FF_ERR_FORMAT,
                        "x.msa:3: row 2 (\"b\") has 2 columns, the query has 3");
}

static void test_checks_name_the_row(void)
{
    CU_ASSERT_EQUAL_FATAL(read_a3m("", NULL), FF_OK);
    CU_ASSERT_EQUAL(msa.num_seq, 0);
    reader_case_refused(&r, ff_msa_check(&r.ctx, &msa, 0), FF_ERR_FORMAT,
                        "x.msa holds no sequences; an alignment has the query as its first row");
    CU_ASSERT_EQUAL_FATAL(read_a3m(">q\nMKV\n>b c\nM.V\n", NULL), FF_OK);
    reader_case_refused(&r, ff_msa_check(&r.ctx, &msa, 3), FF_ERR_FORMAT,
                        "x.msa:3: row 2 (\"b\") has \".\" in column 2, which stands for no residue");
    reader_case_refused(&r, ff_msa_check(&r.ctx, &msa, 4), FF_ERR_FORMAT,
                        "x.msa:1: row 1 (\"q\") has 3 columns, the query has 4");
}

static void test_lenient_reading_takes_dots_and_blanks(void)
{
    const ff_msa_options lenient = {0, true, false};
    CU_ASSERT_EQUAL_FATAL(read_a3m(">q\nMK..VL\n>b\nM Kaa V-\n", &lenient), FF_OK);
    check_row(0, 1, "q", "MKVL", "0000");
    check_row(1, 3, "b", "MKV-", "0020");
    CU_ASSERT_EQUAL(ff_msa_check(&r.ctx, &msa, 4), FF_OK);
    CU_ASSERT_EQUAL_FATAL(read_sto("q MK..VL\nb MkaaV~\n//\n", &lenient), FF_OK);
    check_row(0, 1, "q", "MKVL", "0000");
    check_row(1, 2, "b", "MKV-", "0020");
}

/* ---- Stockholm ---- */

static const char blocks[] = "# STOCKHOLM 1.0\n\n#=GS b/1-5 DE some text\n\n"
                             "query  MK--V\n"
                             "b/1-5  -KAAV\n"
                             "#=GR b/1-5 PP 99999\n"
                             "c      M-C--\n"
                             "#=GC RF xx..x\n\n"
                             "query  L-A\n"
                             "b/1-5  LG-\n"
                             "c      -DA\n"
                             "#=GC RF x.x\n//\n";

static void test_blocks_of_stockholm_are_joined(void)
{
    CU_ASSERT_EQUAL_FATAL(read_sto(blocks, NULL), FF_OK);
    CU_ASSERT_EQUAL(msa.num_seq, 3);
    check_row(0, 5, "query", "MKVLA", "00000");
    check_row(1, 6, "b/1-5", "-KVL-", "00201");
    check_row(2, 8, "c", "M---A", "00101");
    CU_ASSERT_STRING_EQUAL(reader_case_logged(&r), "");
}

static void test_insertions_of_stockholm_count_to_the_next_column(void)
{
    CU_ASSERT_EQUAL_FATAL(read_sto("q ---MK--V--\nb ABCM-DE-FG\n//\n", NULL), FF_OK);
    check_row(0, 1, "q", "MKV", "000");
    check_row(1, 2, "b", "M--", "302");
}

static void test_an_end_without_mark_is_warned_of(void)
{
    CU_ASSERT_EQUAL(read_sto("q MKV\n", NULL), FF_OK);
    CU_ASSERT_STRING_EQUAL(reader_case_logged(&r), "[warning] x.msa: no `//` at the end; the file may have been cut\n");
    CU_ASSERT_EQUAL(read_sto("", NULL), FF_OK);
    CU_ASSERT_EQUAL(msa.num_seq, 0);
}

static void test_stockholm_damage_is_told_with_line_and_cure(void)
{
    reader_case_refused(&r, read_sto("# STOCKHOLM 1.0\nq MKV\nb MK\n//\n", NULL), FF_ERR_FORMAT,
                        "x.msa:3: row 2 (\"b\") has 2 columns, the first row has 3; the file may have been cut");
    reader_case_refused(&r, read_sto("q MKV\nb\n//\n", NULL), FF_ERR_FORMAT,
                        "x.msa:2: \"b\" is not `name sequence`, two words; is this Stockholm format?");
    reader_case_refused(&r, read_sto("q MKV\n>b MK V\n//\n", NULL), FF_ERR_FORMAT,
                        "x.msa:2: \">b MK V\" is not `name sequence`, two words; is this Stockholm format?");
    reader_case_refused(&r, read_sto("q MKV\n//\n# STOCKHOLM 1.0\nz MKV\n//\n", NULL), FF_ERR_FORMAT,
                        "x.msa:4: a second alignment follows `//`; give each a file of its own");
    CU_ASSERT_PTR_NULL(msa.rows);
}

/* ---- tools on text ---- */

static void test_tools_make_the_texts_alphafold_makes(void)
{
    const size_t size = strlen(blocks);
    CU_ASSERT_EQUAL(ff_stockholm_to_a3m(&r.ctx, &text, "x", blocks, size, 0, false), FF_OK);
    CU_ASSERT_STRING_EQUAL(text.data, ">query \nMKVLA\n>b/1-5 some text\n-KaaVLg-\n>c \nM-c--dA\n");
    ff_text_buffer_clear(&text);
    CU_ASSERT_EQUAL(ff_stockholm_to_a3m(&r.ctx, &text, "x", blocks, size, 2, true), FF_OK);
    CU_ASSERT_STRING_EQUAL(text.data, ">query \nMK--VL-A\n>b/1-5 some text\n-KAAVLG-\n");
    ff_text_buffer_clear(&text);
    CU_ASSERT_EQUAL(ff_stockholm_truncate(&r.ctx, &text, "x", blocks, size, 1), FF_OK);
    CU_ASSERT_STRING_EQUAL(text.data,
                           "# STOCKHOLM 1.0\n\n\nquery  MK--V\n#=GC RF xx..x\n\nquery  L-A\n#=GC RF x.x\n//\n");
    ff_text_buffer_clear(&text);
    static const char twins[] =
        "q  MK-V\na  M-AV\nb  M-CV\n#=GR b PP 9-99\n//\n"; /* a and b differ in an insertion only */
    CU_ASSERT_EQUAL(ff_stockholm_remove_duplicates(&r.ctx, &text, "x", twins, strlen(twins)), FF_OK);
    CU_ASSERT_STRING_EQUAL(text.data, "q  MK-V\na  M-AV\n//\n");
    ff_text_buffer_clear(&text);
    static const char empty[] = "q  MK-V\na  M--V\n#=GC RF xx.x\n\nq  --\na  --\n#=GC RF ..\n//";
    CU_ASSERT_EQUAL(ff_stockholm_remove_empty_columns(&r.ctx, &text, "x", empty, strlen(empty)), FF_OK);
    CU_ASSERT_STRING_EQUAL(text.data, "q  MKV\na  M-V\n#=GC RF xxx\n\n\n\n\n//");
}

static void test_tools_refuse_what_they_cannot_do(void)
{
    reader_case_refused(&r, ff_stockholm_remove_empty_columns(&r.ctx, &text, "x", "q MKV\n//\n", 9), FF_ERR_FORMAT,
                        "x:1: a block of rows without a `#=GC RF` line, which tells its columns");
    reader_case_refused(&r, ff_stockholm_remove_empty_columns(&r.ctx, &text, "x", "q MKV\nb MK\n#=GC RF xxx\n//\n", 27),
                        FF_ERR_FORMAT, "x:2: the row has 2 columns, the `#=GC RF` line of its block 3");
    reader_case_refused(&r, ff_stockholm_to_a3m(&r.ctx, &text, "x", "# nothing\n", 10, 0, false), FF_ERR_FORMAT,
                        "x holds no rows; is it Stockholm format?");
    reader_case_refused(&r, ff_stockholm_remove_duplicates(&r.ctx, &text, "x", "q MKV 3\n", 8), FF_ERR_FORMAT,
                        "x:1: \"q MKV 3\" is not `name sequence`, two words");
}

/* ---- random alignments ---- */

static bool same_alignment(const ff_msa *a, const ff_msa *b)
{
    if (a->num_seq != b->num_seq || a->num_res != b->num_res)
        return false;
    const size_t size = (size_t)(a->num_seq * a->num_res);
    bool same = memcmp(a->rows, b->rows, size) == 0 && memcmp(a->codes, b->codes, size) == 0;
    for (int64_t s = 0; s <= a->num_seq; s++)
        same &= a->deletion_offsets[s] == b->deletion_offsets[s];
    for (int64_t k = 0; same && k < a->deletion_offsets[a->num_seq]; k++)
        same =
            a->deletion_list[k].at == b->deletion_list[k].at && a->deletion_list[k].count == b->deletion_list[k].count;
    return same;
}

/* A random Stockholm alignment in blocks; the first row has gaps, where the others have insertions. */
static void write_random_stockholm(ff_text_buffer *out, int num_seq, int columns, int width)
{
    char *letters = malloc((size_t)num_seq * (size_t)columns);
    CU_ASSERT_PTR_NOT_NULL_FATAL(letters);
    for (int s = 0; s < num_seq; s++)
        for (int i = 0; i < columns; i++)
            letters[s * columns + i] = "ACDEFGHIKLMNPQRSTVWYXBZUJO-------"[reader_case_draw(&r, s == 0 ? 29 : 33)];
    letters[0] = 'M';
    ff_text_buffer_put(&r.ctx, out, "# STOCKHOLM 1.0\n", 16);
    for (int begin = 0; begin < columns; begin += width) {
        for (int s = 0; s < num_seq; s++) {
            char name[32];
            const int n = snprintf(name, sizeof name, "row%d/1-9  ", s);
            ff_text_buffer_put(&r.ctx, out, name, (size_t)n);
            ff_text_buffer_put(&r.ctx, out, letters + s * columns + begin,
                               (size_t)(columns - begin < width ? columns - begin : width));
            ff_text_buffer_put(&r.ctx, out, "\n", 1);
        }
        ff_text_buffer_put(&r.ctx, out, "\n", 1);
    }
    ff_text_buffer_put(&r.ctx, out, "//\n", 3);
    free(letters);
}

/* The same alignment by three ways: Stockholm; its A3M text; that A3M written by us and read again. */
static void test_random_alignments_are_the_same_in_both_formats(void)
{
    char path[] = "/tmp/ff_msa_XXXXXX";
    const int fd = mkstemp(path);
    CU_ASSERT_TRUE_FATAL(fd >= 0);
    close(fd);
    for (int round = 0; round < 20; round++) {
        ff_text_buffer a3m = {NULL, 0, 0};
        ff_text_buffer_clear(&text);
        const int columns = 1 + (int)reader_case_draw(&r, 300);
        write_random_stockholm(&text, 1 + (int)reader_case_draw(&r, 40), columns, 1 + (int)reader_case_draw(&r, 200));
        CU_ASSERT_EQUAL_FATAL(read_bytes(ff_stockholm_read_text, &msa, text.data, text.size, NULL), FF_OK);
        CU_ASSERT_EQUAL_FATAL(ff_stockholm_to_a3m(&r.ctx, &a3m, "x", text.data, text.size, 0, false), FF_OK);
        CU_ASSERT_EQUAL_FATAL(read_bytes(ff_a3m_read_text, &other, a3m.data, a3m.size, NULL), FF_OK);
        CU_ASSERT_TRUE(same_alignment(&msa, &other));
        CU_ASSERT_EQUAL_FATAL(ff_a3m_write(&r.ctx, &msa, path), FF_OK);
        ff_msa_destroy(&other);
        CU_ASSERT_EQUAL_FATAL(ff_a3m_read(&r.ctx, &other, path, NULL), FF_OK);
        CU_ASSERT_TRUE(same_alignment(&msa, &other));
        CU_ASSERT_STRING_EQUAL(other.path, path);
        ff_text_buffer_destroy(&a3m);
    }
    unlink(path);
}

static CU_TestInfo tests[] = {
    {"codes_are_hhblits", test_codes_are_hhblits},
    {"species_come_from_uniprot_names", test_species_come_from_uniprot_names},
    {"lower_case_of_a3m_is_deletions", test_lower_case_of_a3m_is_deletions},
    {"nul_bytes_of_colabfold_are_skipped", test_nul_bytes_of_colabfold_are_skipped},
    {"rows_longer_than_a_block_keep_their_insertions", test_rows_longer_than_a_block_keep_their_insertions},
    {"max_seq_ends_reading", test_max_seq_ends_reading},
    {"a3m_damage_is_told_with_line_and_cure", test_a3m_damage_is_told_with_line_and_cure},
    {"unequal_rows_are_kept_where_asked_for", test_unequal_rows_are_kept_where_asked_for},
    {"checks_name_the_row", test_checks_name_the_row},
    {"lenient_reading_takes_dots_and_blanks", test_lenient_reading_takes_dots_and_blanks},
    {"blocks_of_stockholm_are_joined", test_blocks_of_stockholm_are_joined},
    {"insertions_of_stockholm_count_to_the_next_column", test_insertions_of_stockholm_count_to_the_next_column},
    {"an_end_without_mark_is_warned_of", test_an_end_without_mark_is_warned_of},
    {"stockholm_damage_is_told_with_line_and_cure", test_stockholm_damage_is_told_with_line_and_cure},
    {"tools_make_the_texts_alphafold_makes", test_tools_make_the_texts_alphafold_makes},
    {"tools_refuse_what_they_cannot_do", test_tools_refuse_what_they_cannot_do},
    {"random_alignments_are_the_same_in_both_formats", test_random_alignments_are_the_same_in_both_formats},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_data_msa = {"data/msa", NULL, NULL, set_up, tear_down, tests};
