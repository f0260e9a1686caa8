/* Chains on their way into a training set: names, numbering, alignments by name, lists and clusters. */
#include <CUnit/CUnit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "data/chain_lists.h"
#include "data/chain_record.h"
#include "structure/residue_constants.h"
#include "tests/check.h"

static ff_ctx ctx;
static char folder[64], path[256];
static ff_chain_list list;
static ff_chain_alignments alignments;
static ff_array_set features;

static void set_up(void)
{
    ff_context_init(&ctx);
    ctx.log.file = NULL;
    strcpy(folder, "/tmp/ff_chains_XXXXXX");
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
    list = (ff_chain_list){.numbers = NULL};
    alignments = (ff_chain_alignments){.folder = NULL};
    ff_array_set_init(&features);
}

static void tear_down(void)
{
    char command[96];
    ff_chain_list_destroy(&list);
    ff_chain_alignments_destroy(&alignments);
    ff_array_set_destroy(&features);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    CU_ASSERT_EQUAL(system(command), 0);
}

static const char *write_file(const char *name, const char *text)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    fputs(text, file);
    fclose(file);
    return path;
}

static void test_names_of_records(void)
{
    char id[FF_RECORD_NAME_BYTES], name[FF_RECORD_NAME_BYTES];
    CU_ASSERT_STRING_EQUAL(ff_chain_file_id(id, "x/y/1A8O.cif"), "1A8O");
    CU_ASSERT_STRING_EQUAL(ff_chain_file_id(id, "1a5z_A.pdb.gz"), "1a5z_A");
    CU_ASSERT_STRING_EQUAL(ff_chain_file_id(id, "pdb1abc.ent.gz"), "1abc");
    CU_ASSERT_STRING_EQUAL(ff_chain_file_id(id, "pdb1gdr.pdb"), "pdb1gdr"); /* .ent only */
    CU_ASSERT_STRING_EQUAL(ff_chain_file_id(id, "a.b.CIF"), "a.b");
    CU_ASSERT_STRING_EQUAL(ff_chain_record_name(name, "1A8O", "A"), "1A8O_A");
    CU_ASSERT_STRING_EQUAL(ff_chain_record_name(name, "1cms", ""), "1cms");
}

static void test_numbers_follow_the_bonds(void)
{
    enum { N = 5 };
    float positions[N * 37 * 3] = {0}, mask[N * 37] = {0};
    int32_t numbers[N] = {36, 36, 40, 45, 44}, index[N]; /* 36, 36A, 40, 45, 44 */
    ff_structure_chain c = {
        .num_res = N, .positions = positions, .mask = mask, .author_number = numbers, .declared = false};
    for (int i = 0; i < N; i++)
        for (int a = 0; a < 3; a += 2) { /* N at 0, C at 2 */
            mask[i * 37 + a] = 1;
            positions[(i * 37 + a) * 3] = 4.0f * (float)i + (float)a * 1.3f;
        }
    for (int i = 3; i < N; i++) /* a chain break before residues 3 and 4 */
        for (int a = 0; a < 3; a += 2)
            positions[(i * 37 + a) * 3] += i == 3 ? 10 : 30;
    ff_chain_residue_index(&c, index);
    const int32_t want[N] = {0, 1, 2, 7, 8}; /* 36A and 40 are bonded; 40 to 45 is a gap; 45 to 44 counts as one */
    CU_ASSERT_EQUAL(memcmp(index, want, sizeof want), 0);
    c.declared = true;
    ff_chain_residue_index(&c, index);
    CU_ASSERT_EQUAL(index[4], 4);
}

static void test_chain_lists(void)
{
    CU_ASSERT_EQUAL_FATAL(
        ff_chain_list_read(&ctx, &list, write_file("l", "# taken\n1A8O_A 2gtl_B\n\n5KC1_c # the third\n")), FF_OK);
    CU_ASSERT_EQUAL(list.names.names.count, 3);
    CU_ASSERT(ff_chain_list_find(&list, "1a8o_a") >= 0 && ff_chain_list_find(&list, "5kc1_C") >= 0);
    CU_ASSERT_EQUAL(list.numbers[ff_chain_list_find(&list, "5kc1_C")], 4);
    CU_ASSERT_EQUAL(ff_chain_list_find(&list, "taken"), -1);
    ff_chain_list_destroy(&list);
    CU_ASSERT_EQUAL(ff_chain_list_find(&list, "x"), -1);
    CU_ASSERT_EQUAL(ff_chain_list_read(&ctx, &list, write_file("e", "# none\n")), FF_ERR_FORMAT);
}

static void test_clusters(void)
{
    CU_ASSERT_EQUAL_FATAL(ff_cluster_list_read(&ctx, &list, write_file("c", "1A8O_A 2gtl_B\n\n5KC1_C\n")), FF_OK);
    CU_ASSERT_STRING_EQUAL(ff_chain_list_cluster(&list, "2GTL_B"), "1A8O_A");
    CU_ASSERT_STRING_EQUAL(ff_chain_list_cluster(&list, "5kc1_c"), "5KC1_C");
    CU_ASSERT_STRING_EQUAL(ff_chain_list_cluster(&list, "none"), "");
    ff_chain_list_destroy(&list);
    CU_ASSERT_EQUAL(ff_cluster_list_read(&ctx, &list, write_file("d", "a b\nc d\ne b\n")), FF_ERR_FORMAT);
    CU_ASSERT_PTR_NOT_NULL(strstr(ctx.message, "d:3: b is in the cluster of a already"));
}

/* Rows of the alignment found for a chain; 0 = none, -1 = an error. */
static int64_t rows_of(const char *name, const char *file_id, const char *entry_id, const char *chain_id,
                       const char *sequence)
{
    bool found;
    ff_structure_chain c = {.id = (char *)(uintptr_t)chain_id,
                            .sequence = (char *)(uintptr_t)sequence,
                            .num_res = (int64_t)strlen(sequence)};
    ff_array_set_destroy(&features);
    ff_context_clear(&ctx);
    if (ff_chain_alignment_read(&ctx, &alignments, name, file_id, entry_id, &c, &features, &found) != FF_OK)
        return -1;
    const ff_array *msa = ff_array_find(&features, "msa");
    CU_ASSERT_EQUAL(found, msa != NULL);
    return msa == NULL ? 0 : msa->shape[0];
}

static void test_alignments_are_found_by_name(void)
{
    write_file("1a8o_A.a3m", ">q\nMKV\n>x\nMRV\n>y\nM-V\n>x again\nMRV\n");
    write_file("1abc.jackhmmer.sto", "# STOCKHOLM 1.0\nq MKVL\nx MRVL\n//\n");
    snprintf(path, sizeof path, "%s/2def_B", folder);
    CU_ASSERT_EQUAL_FATAL(mkdir(path, 0777), 0);
    write_file("2def_B/bfd_uniclust_hits.a3m", ">q\nMKVAA\n");
    CU_ASSERT_EQUAL_FATAL(ff_chain_alignments_open(&ctx, &alignments, folder, 0), FF_OK);
    CU_ASSERT_EQUAL(rows_of("1A8O_A", "1A8O", "", "A", "MKV"), 3);     /* any case; equal rows once */
    CU_ASSERT_EQUAL(rows_of("file_A", "file", "1A8O", "A", "MKV"), 3); /* by the id of the entry */
    CU_ASSERT_EQUAL(rows_of("1abc_X", "1abc", "", "X", "MKVL"), 2);
    CU_ASSERT_EQUAL(rows_of("1abc_Y", "1abc", "", "Y", "MKVLL"), 0); /* of another length: not of this chain */
    CU_ASSERT_EQUAL(rows_of("2def_B", "2def", "", "B", "MKVAA"), 1);
    CU_ASSERT_EQUAL(rows_of("2def_B", "2def", "", "B", "MKVA"), -1); /* of its own name, and wrong */
    CU_ASSERT_EQUAL(rows_of("3ghi_C", "3ghi", "", "C", "MKVAA"), 1); /* the sequence had one before */
    CU_ASSERT_EQUAL(rows_of("3ghi_D", "3ghi", "", "D", "MKVAAA"), 0);
    ff_chain_alignments_destroy(&alignments);
    CU_ASSERT_EQUAL_FATAL(ff_chain_alignments_open(&ctx, &alignments, folder, 2), FF_OK);
    CU_ASSERT_EQUAL(rows_of("1A8O_A", "1A8O", "", "A", "MKV"), 2);
    CU_ASSERT_EQUAL(ff_array_find(&features, "deletion_matrix_int")->shape[0], 2);
    ff_chain_alignments_destroy(&alignments);
    CU_ASSERT_EQUAL(ff_chain_alignments_open(&ctx, &alignments, "/nonexistent", 0), FF_ERR_IO);
}

static CU_TestInfo tests[] = {
    {"names_of_records", test_names_of_records},
    {"numbers_follow_the_bonds", test_numbers_follow_the_bonds},
    {"chain_lists", test_chain_lists},
    {"clusters", test_clusters},
    {"alignments_are_found_by_name", test_alignments_are_found_by_name},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_data_chain_record = {"data/chain_record", NULL, NULL, set_up, tear_down, tests};
