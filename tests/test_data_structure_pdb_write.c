/* PDB text: columns by hand, what the format cannot hold, and a round trip through the reader. */
#include <CUnit/CUnit.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/random.h"
#include "data/structure_file.h"
#include "structure/residue_constants.h"
#include "tests/check.h"

static ff_ctx ctx;
static ff_protein p, back;

static void set_up(void)
{
    ff_context_init(&ctx);
    ctx.log.file = NULL;
    back = (ff_protein){.num_res = 0};
    CU_ASSERT_EQUAL_FATAL(ff_protein_create(&ctx, &p, 40), FF_OK);
}

static void tear_down(void)
{
    ff_protein_destroy(&p);
    ff_protein_destroy(&back);
}

/* The text, or NULL when it is refused. The caller frees it. */
static char *text_of(const char *const *remarks)
{
    char *text = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&text, &size);
    CU_ASSERT_PTR_NOT_NULL_FATAL(memory);
    ff_context_clear(&ctx);
    const ff_status status = ff_pdb_write(&ctx, memory, &p, remarks);
    fclose(memory);
    if (status == FF_OK)
        return text;
    free(text);
    return NULL;
}

static void put(int64_t i, int atom, float x, float y, float z, float b)
{
    p.atom_mask[i * 37 + atom] = 1;
    p.b_factors[i * 37 + atom] = b;
    float *to = p.atom_positions + (i * 37 + atom) * 3;
    to[0] = x, to[1] = y, to[2] = z;
}

static void test_columns_are_as_by_hand(void)
{
    const char *const remarks[] = {"REMARK   1 B factors are pLDDT", NULL};
    p.num_res = 2;
    p.aatype[0] = 1;
    p.aatype[1] = 20;
    p.residue_index[0] = -5;
    p.residue_index[1] = 1204;
    p.chain_index[1] = 1;
    put(0, 29, -1.5f, 22.25f, 0.0004f, 99.125f);
    put(1, 1, 1, 2, 3, 4);
    char *text = text_of(remarks);
    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    CU_ASSERT_STRING_EQUAL(text,
                           "REMARK   1 B factors are pLDDT                                                  \n"
                           "MODEL     1                                                                     \n"
                           "ATOM      1  NH1 ARG A  -5      -1.500  22.250   0.000  1.00 99.12           N  \n"
                           "TER       2      ARG A  -5                                                      \n"
                           "ATOM      3  CA  UNK B1204       1.000   2.000   3.000  1.00  4.00           C  \n"
                           "TER       4      UNK B1204                                                      \n"
                           "ENDMDL                                                                          \n"
                           "END                                                                             \n");
    free(text);
}

static void test_what_does_not_fit_is_refused(void)
{
    p.num_res = 1;
    put(0, 1, 1, 2, 3, 4);
    p.residue_index[0] = 10000;
    CU_ASSERT_PTR_NULL(text_of(NULL));
    p.residue_index[0] = 1;
    p.chain_index[0] = 62;
    CU_ASSERT_PTR_NULL(text_of(NULL));
    CU_ASSERT_PTR_NOT_NULL(strstr(ctx.message, "62 chains"));
    p.chain_index[0] = 0;
    p.aatype[0] = 21;
    CU_ASSERT_PTR_NULL(text_of(NULL));
    p.aatype[0] = 0;
    put(0, 1, 12345.5f, 0, 0, 0);
    CU_ASSERT_PTR_NULL(text_of(NULL));
    put(0, 1, NAN, 0, 0, 0);
    CU_ASSERT_PTR_NULL(text_of(NULL));
    put(0, 1, 0, 0, 0, 1000);
    CU_ASSERT_PTR_NULL(text_of(NULL));
    p.num_res = 0;
    CU_ASSERT_PTR_NULL(text_of(NULL));
    CU_ASSERT_EQUAL(ctx.status, FF_ERR_ARG);
    p.num_res = 1;
    put(0, 1, 1, 2, 3, 4);
    char *text = text_of(NULL);
    CU_ASSERT_PTR_NOT_NULL(text);
    free(text);
}

static void test_random_proteins_come_back(void)
{
    const ff_random_key key = {7, 1};
    for (int64_t i = 0; i < p.num_res; i++) {
        p.aatype[i] = (int32_t)ff_random_below(key, (uint64_t)i, 20);
        p.residue_index[i] = (int32_t)i - 3;
        p.chain_index[i] = i < 15 ? 0 : i < 16 ? 1 : 2;
        for (int a = 0; a < 37; a++)
            if (ff_restype_atom37_mask[p.aatype[i]][a] > 0) {
                const uint64_t n = (uint64_t)(1000 + (i * 37 + a) * 4);
                /* thousandths, so that three decimals lose nothing */
                put(i, a, roundf((ff_random_uniform(key, n) - 0.5f) * 2e5f) / 1000,
                    roundf(ff_random_uniform(key, n + 1) * 1e5f) / 1000,
                    roundf(ff_random_uniform(key, n + 2) * 1e5f) / 1000,
                    roundf(ff_random_uniform(key, n + 3) * 1e4f) / 100);
            }
    }
    char path[] = "/tmp/ff_pdb_XXXXXX";
    const int fd = mkstemp(path);
    CU_ASSERT_FATAL(fd >= 0);
    close(fd);
    CU_ASSERT_EQUAL_FATAL(ff_pdb_write_file(&ctx, path, &p, NULL), FF_OK);
    const ff_status status = ff_structure_read_protein(&ctx, &back, path, NULL);
    unlink(path);
    if (status == FF_ERR_UNSUPPORTED) {
        ff_test_skip("built without gemmi");
        return;
    }
    CU_ASSERT_EQUAL_FATAL(status, FF_OK);
    CU_ASSERT_EQUAL_FATAL(back.num_res, p.num_res);
    const size_t n = (size_t)p.num_res;
    CU_ASSERT_EQUAL(memcmp(back.aatype, p.aatype, n * 4), 0);
    CU_ASSERT_EQUAL(memcmp(back.residue_index, p.residue_index, n * 4), 0);
    CU_ASSERT_EQUAL(memcmp(back.chain_index, p.chain_index, n * 4), 0);
    CU_ASSERT_EQUAL(memcmp(back.atom_mask, p.atom_mask, n * 37 * 4), 0);
    FF_CHECK_CLOSE(back.atom_positions, p.atom_positions, p.num_res * 111, 1e-7, 1e-6); /* rounding of x/1000 only */
    FF_CHECK_CLOSE(back.b_factors, p.b_factors, p.num_res * 37, 1e-7, 1e-6);
}

static CU_TestInfo tests[] = {
    {"columns_are_as_by_hand", test_columns_are_as_by_hand},
    {"what_does_not_fit_is_refused", test_what_does_not_fit_is_refused},
    {"random_proteins_come_back", test_random_proteins_come_back},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_data_structure_pdb_write = {"data/structure_pdb_write", NULL, NULL, set_up, tear_down, tests};
