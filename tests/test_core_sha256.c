/* SHA-256: the examples of FIPS 180-4, every length around a block, and pieces of any size. */
#include <CUnit/CUnit.h>
#include <string.h>

#include "core/sha256.h"

static void hash_in_pieces(const char *text, size_t length, size_t piece, char hex[FF_SHA256_HEX_BYTES])
{
    ff_sha256 hash;
    ff_sha256_begin(&hash);
    for (size_t i = 0; i < length; i += piece)
        ff_sha256_add(&hash, text + i, length - i < piece ? length - i : piece);
    ff_sha256_end(&hash, hex);
}

static void test_the_examples_of_the_standard(void)
{
    char hex[FF_SHA256_HEX_BYTES];
    hash_in_pieces("", 0, 1, hex);
    CU_ASSERT_STRING_EQUAL(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    hash_in_pieces("abc", 3, 3, hex);
    CU_ASSERT_STRING_EQUAL(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    const char *two_blocks = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    hash_in_pieces(two_blocks, strlen(two_blocks), 5, hex);
    CU_ASSERT_STRING_EQUAL(hex, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

/* A million times "a" is in the standard; sums over all lengths 0..130 were made with sha256sum. */
static void test_long_input_and_every_length_around_a_block(void)
{
    char hex[FF_SHA256_HEX_BYTES], text[1000];
    memset(text, 'a', sizeof text);
    ff_sha256 hash;
    ff_sha256_begin(&hash);
    for (int i = 0; i < 1000; i++)
        ff_sha256_add(&hash, text, sizeof text);
    ff_sha256_end(&hash, hex);
    CU_ASSERT_STRING_EQUAL(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    ff_sha256_begin(&hash);
    for (size_t n = 0; n <= 130; n++) {
        char whole[FF_SHA256_HEX_BYTES];
        hash_in_pieces(text, n, 1000, whole);
        for (size_t piece = 1; piece < 130; piece += 31) {
            hash_in_pieces(text, n, piece, hex);
            CU_ASSERT_STRING_EQUAL(hex, whole);
        }
        ff_sha256_add(&hash, whole, 64);
    }
    ff_sha256_end(&hash, hex);
    CU_ASSERT_STRING_EQUAL(hex, "5eee4c50e1b5ec4f1a47f34c25ca988850b49da7904f5ab1b3abc5cc0ae66ef9");
}

static void test_texts_do_not_run_into_each_other(void)
{
    char one[FF_SHA256_HEX_BYTES], two[FF_SHA256_HEX_BYTES];
    ff_sha256 hash;
    ff_sha256_begin(&hash);
    ff_sha256_add_text(&hash, "ab");
    ff_sha256_add_text(&hash, "c");
    ff_sha256_end(&hash, one);
    ff_sha256_begin(&hash);
    ff_sha256_add_text(&hash, "a");
    ff_sha256_add_text(&hash, "bc");
    ff_sha256_end(&hash, two);
    CU_ASSERT_STRING_NOT_EQUAL(one, two);
}

static CU_TestInfo tests[] = {
    {"the_examples_of_the_standard", test_the_examples_of_the_standard},
    {"long_input_and_every_length_around_a_block", test_long_input_and_every_length_around_a_block},
    {"texts_do_not_run_into_each_other", test_texts_do_not_run_into_each_other},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_core_sha256 = {"core/sha256", NULL, NULL, NULL, NULL, tests};
