/* obsolete.dat and structure files found by id. */
#include <CUnit/CUnit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "data/structure_find.h"
#include "tests/check.h"

static ff_ctx ctx;
static char folder[64], path[256];
static ff_obsolete *obsolete;
static ff_structure_finder *finder;

static void set_up(void)
{
    ff_context_init(&ctx);
    ctx.log.file = NULL;
    strcpy(folder, "/tmp/ff_find_XXXXXX");
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
    obsolete = NULL;
    finder = NULL;
}

static void tear_down(void)
{
    char command[96];
    ff_obsolete_destroy(obsolete);
    ff_structure_finder_destroy(finder);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    CU_ASSERT_EQUAL(system(command), 0);
}

static void write_file(const char *name, const char *text)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    fputs(text, file);
    fclose(file);
}

static void make_folder(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    CU_ASSERT_EQUAL_FATAL(mkdir(path, 0777), 0);
}

static const char list[] = " LIST OF OBSOLETE COORDINATE ENTRIES AND SUCCESSORS\n"
                           "OBSLTE    31-JUL-94 116L     216L\n"
                           "OBSLTE    29-JAN-96 125D\n"
                           "OBSLTE    01-JAN-00 1AAA     1BBB 1ZZZ\n"
                           "OBSLTE    01-JAN-01 1BBB     1CCC     \r\n"
                           "OBSLTE    01-JAN-02 2AAA     2BBB\n"
                           "OBSLTE    01-JAN-03 2BBB     2AAA\n"
                           "OBSLTE    01-JAN-02 3AAA     2AAA\n"
                           "OBSLTE    01-JAN-02 4AAA     4AAA\n";

static void read_list(void)
{
    write_file("obsolete.dat", list);
    CU_ASSERT_EQUAL_FATAL(ff_obsolete_read(&ctx, &obsolete, path), FF_OK);
}

static const char *follow(const char *id)
{
    static char current[FF_PDB_ID_BYTES];
    ff_context_clear(&ctx);
    return ff_obsolete_follow(&ctx, obsolete, id, current) == FF_OK ? current : ctx.message;
}

static void test_successors_are_followed_to_the_end(void)
{
    read_list();
    CU_ASSERT_STRING_EQUAL(follow("116L"), "216l");
    CU_ASSERT_STRING_EQUAL(follow("1aaa"), "1ccc");
    CU_ASSERT_STRING_EQUAL(follow("1CCC"), "1ccc");
    CU_ASSERT_STRING_EQUAL(follow("125d"), "125d"); /* obsolete without a successor */
    CU_ASSERT_STRING_EQUAL(ff_obsolete_next(obsolete, "1aAa"), "1bbb");
    CU_ASSERT_PTR_NULL(ff_obsolete_next(obsolete, "125D"));
    CU_ASSERT_PTR_NULL(ff_obsolete_next(NULL, "1aaa"));
}

static void test_circles_are_an_error(void)
{
    read_list();
    CU_ASSERT_PTR_NOT_NULL(strstr(follow("2aaa"), "circle"));
    CU_ASSERT_PTR_NOT_NULL(strstr(follow("2BBB"), "circle"));
    CU_ASSERT_PTR_NOT_NULL(strstr(follow("3aaa"), "circle")); /* leads into one */
    CU_ASSERT_PTR_NOT_NULL(strstr(follow("4aaa"), "circle"));
    CU_ASSERT_EQUAL(ctx.status, FF_ERR_FORMAT);
}

static void test_other_files_are_refused(void)
{
    write_file("x", "OBSLTE    31-JUL-94 116L     216L\nOBSLTE    31-JUL-94\n");
    CU_ASSERT_EQUAL(ff_obsolete_read(&ctx, &obsolete, path), FF_ERR_FORMAT);
    CU_ASSERT_PTR_NOT_NULL(strstr(ctx.message, "x:2: "));
    ff_context_clear(&ctx);
    write_file("y", ">seq\nMKV\n");
    CU_ASSERT_EQUAL(ff_obsolete_read(&ctx, &obsolete, path), FF_ERR_FORMAT);
    CU_ASSERT_PTR_NOT_NULL(strstr(ctx.message, "not the PDB's obsolete.dat"));
    ff_context_clear(&ctx);
    CU_ASSERT_EQUAL(ff_obsolete_read(&ctx, &obsolete, "/nonexistent"), FF_ERR_IO);
    ff_context_clear(&ctx);
    write_file("empty", "");
    CU_ASSERT_EQUAL(ff_obsolete_read(&ctx, &obsolete, path), FF_OK);
    CU_ASSERT_PTR_NULL(ff_obsolete_next(obsolete, "1abc"));
}

/* What is found, relative to the folder; "" = nothing. */
static const char *find(const char *id, const char *chain)
{
    static char result[256];
    char *found = ff_structure_find(finder, id, chain);
    snprintf(result, sizeof result, "%s", found == NULL ? "" : found + strlen(folder) + 1);
    free(found);
    return result;
}

static void test_files_are_found_in_any_case_form_and_folder(void)
{
    write_file("1abc.cif", "");
    write_file("1ABC.pdb", "");
    write_file("2DEF.CIF.GZ", "");
    write_file("pdb3ghi.ent.gz", "");
    write_file("4jkl.ent", "");
    write_file("5mno_A.pdb.gz", "");
    write_file("6PQRB.pdb", "");
    write_file("7stu.txt", "");
    make_folder("vw");
    write_file("vw/8VWX.cif.gz", "");
    make_folder("YZ");
    write_file("YZ/pdb9yza.ent", "");
    make_folder("1xyz");
    write_file("1xyz/1xyz.mmcif", "");
    CU_ASSERT_EQUAL_FATAL(ff_structure_finder_create(&ctx, &finder, folder), FF_OK);
    CU_ASSERT_STRING_EQUAL(find("1ABC", NULL), "1abc.cif");
    CU_ASSERT_STRING_EQUAL(find("1aBc", "A"), "1abc.cif");
    CU_ASSERT_STRING_EQUAL(find("2def", NULL), "2DEF.CIF.GZ");
    CU_ASSERT_STRING_EQUAL(find("3GHI", NULL), "pdb3ghi.ent.gz");
    CU_ASSERT_STRING_EQUAL(find("4jkl", NULL), "4jkl.ent");
    CU_ASSERT_STRING_EQUAL(find("5mno", NULL), "");
    CU_ASSERT_STRING_EQUAL(find("5mno", "A"), "5mno_A.pdb.gz");
    CU_ASSERT_STRING_EQUAL(find("6pqr", "B"), "6PQRB.pdb");
    CU_ASSERT_STRING_EQUAL(find("7stu", NULL), "");
    CU_ASSERT_STRING_EQUAL(find("8vwx", NULL), "vw/8VWX.cif.gz");
    CU_ASSERT_STRING_EQUAL(find("9YZA", NULL), "YZ/pdb9yza.ent");
    CU_ASSERT_STRING_EQUAL(find("1xyz", NULL), "1xyz/1xyz.mmcif");
    CU_ASSERT_STRING_EQUAL(find("../x", NULL), "");
    CU_ASSERT_STRING_EQUAL(find("", NULL), "");
    CU_ASSERT_TRUE(ff_structure_is_file_name("a.Cif.gz"));
    CU_ASSERT_FALSE(ff_structure_is_file_name(".cif"));
    CU_ASSERT_FALSE(ff_structure_is_file_name("a.h5"));
}

static void test_missing_folder_is_named(void)
{
    CU_ASSERT_EQUAL(ff_structure_finder_create(&ctx, &finder, "/nonexistent/mmcif"), FF_ERR_IO);
    CU_ASSERT_PTR_NOT_NULL(strstr(ctx.message, "/nonexistent/mmcif"));
}

static void test_successor_of_a_successor_is_found(void)
{
    char found[FF_PDB_ID_BYTES], *file;
    read_list();
    write_file("1ccc.cif", "");
    write_file("2bbb.cif", "");
    CU_ASSERT_EQUAL_FATAL(ff_structure_finder_create(&ctx, &finder, folder), FF_OK);
    CU_ASSERT_EQUAL(ff_structure_find_current(&ctx, finder, obsolete, "1AAA", NULL, found, &file), FF_OK);
    CU_ASSERT_STRING_EQUAL(found, "1ccc"); /* 1AAA -> 1BBB -> 1CCC, and only the last is there */
    free(file);
    CU_ASSERT_EQUAL(ff_structure_find_current(&ctx, finder, obsolete, "2AAA", NULL, found, &file), FF_OK);
    CU_ASSERT_STRING_EQUAL(found, "2bbb"); /* a circle, but a file on it */
    free(file);
    CU_ASSERT_EQUAL(ff_structure_find_current(&ctx, finder, NULL, "9xxx", NULL, found, &file), FF_OK);
    CU_ASSERT_PTR_NULL(file);
    CU_ASSERT_EQUAL(ff_structure_find_current(&ctx, finder, obsolete, "4AAA", NULL, found, &file), FF_ERR_FORMAT);
    CU_ASSERT_PTR_NULL(file);
}

static CU_TestInfo tests[] = {
    {"successors_are_followed_to_the_end", test_successors_are_followed_to_the_end},
    {"circles_are_an_error", test_circles_are_an_error},
    {"other_files_are_refused", test_other_files_are_refused},
    {"files_are_found_in_any_case_form_and_folder", test_files_are_found_in_any_case_form_and_folder},
    {"missing_folder_is_named", test_missing_folder_is_named},
    {"successor_of_a_successor_is_found", test_successor_of_a_successor_is_found},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_data_structure_find = {"data/structure_find", NULL, NULL, set_up, tear_down, tests};
