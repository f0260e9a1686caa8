/* Alignment of sequences: what stands opposite of what. (Scores of structures: tests/infer_smoke.sh, suite train/metrics.) */
#include <CUnit/CUnit.h>

#include <stdlib.h>
#include <string.h>

#include "infer/compare.h"

static ff_ctx ctx;

static int set_up(void)
{
    ff_context_init(&ctx);
    return 0;
}

/* Partners as letters: what stands opposite of each letter of a, '-' for nothing. */
static const char *align(char text[64], const char *a, const char *b)
{
    int64_t partner[64];
    memset(text, 0, 64);
    CU_ASSERT_EQUAL_FATAL(ff_sequence_align(&ctx, partner, a, b), FF_OK);
    for (size_t i = 0; i < strlen(a); i++)
        text[i] = partner[i] < 0 ? '-' : b[partner[i]];
    return text;
}

static void test_equal_sequences_stand_side_by_side(void)
{
    char text[64];
    CU_ASSERT_STRING_EQUAL(align(text, "MKVLAAGIVG", "MKVLAAGIVG"), "MKVLAAGIVG");
    CU_ASSERT_STRING_EQUAL(align(text, "M", "M"), "M");
}

static void test_ends_are_free(void)
{
    char text[64];
    CU_ASSERT_STRING_EQUAL(align(text, "MKVLAAGIVG", "VLAAG"), "--VLAAG---");
    CU_ASSERT_STRING_EQUAL(align(text, "VLAAG", "MKVLAAGIVG"), "VLAAG");
}

static void test_a_missing_loop_is_skipped(void)
{
    char text[64];
    CU_ASSERT_STRING_EQUAL(align(text, "MKVLWWYYAAGIVG", "MKVLAAGIVG"), "MKVL----AAGIVG");
    CU_ASSERT_STRING_EQUAL(align(text, "MKVLAAGIVG", "MKVLWWYYAAGIVG"), "MKVLAAGIVG");
}

static void test_a_mutation_is_a_pair(void)
{
    char text[64];
    CU_ASSERT_STRING_EQUAL(align(text, "MKVLAAGIVG", "MKVLCAGIVG"), "MKVLCAGIVG");
}

static void test_nothing_has_no_partner(void)
{
    char text[64];
    CU_ASSERT_STRING_EQUAL(align(text, "MKV", ""), "---");
    CU_ASSERT_STRING_EQUAL(align(text, "", "MKV"), "");
}

/* Partners rise, whatever the sequences. */
static void test_partners_rise(void)
{
    for (unsigned seed = 1; seed < 200; seed++) {
        char a[40] = "", b[40] = "";
        int64_t partner[40], last = -1;
        unsigned x = seed;
        for (int i = 0; i < 39; i++) {
            x = x * 1103515245u + 12345u;
            a[i] = i < (int)(seed % 39) ? "ACDE"[x >> 16 & 3] : '\0';
            b[i] = i < (int)(seed * 7 % 39) ? "ACDE"[x >> 18 & 3] : '\0';
        }
        CU_ASSERT_EQUAL_FATAL(ff_sequence_align(&ctx, partner, a, b), FF_OK);
        for (size_t i = 0; i < strlen(a); i++) {
            if (partner[i] < 0)
                continue;
            CU_ASSERT_TRUE(partner[i] > last && partner[i] < (int64_t)strlen(b));
            last = partner[i];
        }
    }
}

static CU_TestInfo tests[] = {
    {"equal_sequences_stand_side_by_side", test_equal_sequences_stand_side_by_side},
    {"ends_are_free", test_ends_are_free},
    {"a_missing_loop_is_skipped", test_a_missing_loop_is_skipped},
    {"a_mutation_is_a_pair", test_a_mutation_is_a_pair},
    {"nothing_has_no_partner", test_nothing_has_no_partner},
    {"partners_rise", test_partners_rise},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_infer_compare = {"infer/compare", set_up, NULL, NULL, NULL, tests};
