/* Named arrays and HDF5 files: what is written is read back, and nothing half-written appears. */
#include <CUnit/CUnit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/arrays.h"
#include "io/safe_file.h"
#include "tests/check.h"

static ff_ctx ctx;
static char folder[64];
static ff_array_set set, back;

static void set_up(void)
{
    ff_context_init(&ctx);
    ctx.log.file = NULL;
    strcpy(folder, "/tmp/ff_io_XXXXXX");
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
    ff_array_set_init(&set);
    ff_array_set_init(&back);
}

static void tear_down(void)
{
    char command[96];
    ff_array_set_destroy(&set);
    ff_array_set_destroy(&back);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    CU_ASSERT_EQUAL(system(command), 0);
}

static const char *in_folder(char path[128], const char *name)
{
    snprintf(path, 128, "%s/%s", folder, name);
    return path;
}

static void test_arrays_come_back_from_a_file(void)
{
    char path[128];
    ff_array *f = ff_array_add(&ctx, &set, "a/float", FF_ARRAY_FLOAT32, FF_DIMS(700, 3));
    ff_array *i = ff_array_add(&ctx, &set, "int", FF_ARRAY_INT32, FF_DIMS(5));
    ff_array *b = ff_array_add(&ctx, &set, "byte", FF_ARRAY_INT8, FF_DIMS(3));
    ff_array *t = ff_array_add(&ctx, &set, "text", FF_ARRAY_TEXT, FF_DIMS(2));
    ff_array *empty = ff_array_add(&ctx, &set, "empty", FF_ARRAY_FLOAT32, FF_DIMS(0, 37, 3));
    ff_array *one = ff_array_add(&ctx, &set, "one", FF_ARRAY_INT32, 0, NULL);
    CU_ASSERT_FATAL(f && i && b && t && empty && one);
    for (int k = 0; k < 2100; k++)
        f->f32[k] = (float)k / 7;
    for (int k = 0; k < 5; k++)
        i->i32[k] = -k;
    b->i8[1] = 1;
    one->i32[0] = 42;
    CU_ASSERT_EQUAL(ff_array_put_text(&ctx, t, 1, "MKV sp|P1", 9), FF_OK);
    ff_hdf5_writer *w;
    CU_ASSERT_EQUAL_FATAL(ff_hdf5_create(&ctx, &w, in_folder(path, "x.h5")), FF_OK);
    CU_ASSERT_EQUAL(ff_array_set_write(&ctx, &set, w, "/g"), FF_OK);
    CU_ASSERT_EQUAL(ff_hdf5_write_text_attribute(&ctx, w, "/g", "name", "x"), FF_OK);
    CU_ASSERT_NOT_EQUAL(access(path, F_OK), 0); /* nothing there before the commit */
    CU_ASSERT_EQUAL_FATAL(ff_hdf5_commit(&ctx, w), FF_OK);
    ff_hdf5_file *file;
    CU_ASSERT_EQUAL_FATAL(ff_hdf5_open(&ctx, &file, path), FF_OK);
    CU_ASSERT_EQUAL(ff_array_set_read(&ctx, &back, file, "/g"), FF_OK);
    ff_hdf5_close(file);
    CU_ASSERT_EQUAL(back.count, 6);
    for (int64_t k = 0; k < set.count; k++) {
        const ff_array *want = set.items[k];
        const ff_array *got = ff_array_need(&ctx, &back, want->name, want->type, want->ndim, want->shape);
        CU_ASSERT_PTR_NOT_NULL_FATAL(got);
        if (want->type != FF_ARRAY_TEXT)
            CU_ASSERT_EQUAL(memcmp(got->data, want->data, (size_t)want->size * ff_array_type_bytes(want->type)), 0);
    }
    const ff_array *text = ff_array_find(&back, "text");
    CU_ASSERT_STRING_EQUAL(text->text[0], "");
    CU_ASSERT_STRING_EQUAL(text->text[1], "MKV sp|P1");
}

static void test_a_wrong_array_is_named_with_both_shapes(void)
{
    ff_array_add(&ctx, &set, "msa", FF_ARRAY_INT32, FF_DIMS(4, 9));
    CU_ASSERT_PTR_NULL(ff_array_need(&ctx, &set, "msa", FF_ARRAY_INT32, FF_DIMS(-1, 8)));
    CU_ASSERT_STRING_EQUAL(ctx.message, "array msa is int32 [4, 9], wanted int32 [?, 8]");
    ff_context_clear(&ctx);
    CU_ASSERT_PTR_NULL(ff_array_need(&ctx, &set, "pair", FF_ARRAY_FLOAT32, -1, NULL));
    CU_ASSERT_STRING_EQUAL(ctx.message, "array pair is missing");
}

static void test_a_replaced_array_keeps_its_place(void)
{
    ff_array_add(&ctx, &set, "a", FF_ARRAY_INT32, FF_DIMS(1));
    ff_array_add(&ctx, &set, "b", FF_ARRAY_INT32, FF_DIMS(1));
    ff_array_add(&ctx, &set, "a", FF_ARRAY_TEXT, FF_DIMS(2));
    CU_ASSERT_EQUAL(set.count, 2);
    CU_ASSERT_EQUAL(set.items[0]->type, FF_ARRAY_TEXT);
    ff_array_remove(&set, "a");
    CU_ASSERT_EQUAL(set.count, 1);
    CU_ASSERT_STRING_EQUAL(set.items[0]->name, "b");
}

static void test_an_abandoned_file_leaves_nothing(void)
{
    char path[128];
    ff_safe_file safe;
    CU_ASSERT_EQUAL_FATAL(ff_safe_file_begin(&ctx, &safe, in_folder(path, "y")), FF_OK);
    fputs("half", safe.file);
    ff_safe_file_abandon(&safe);
    CU_ASSERT_EQUAL(rmdir(folder), 0); /* only an empty folder goes */
    CU_ASSERT_EQUAL(mkdir(folder, 0700), 0);
}

static void test_a_commit_replaces_the_old_file(void)
{
    char path[128], line[16] = "";
    for (int k = 0; k < 2; k++) {
        ff_safe_file safe;
        CU_ASSERT_EQUAL_FATAL(ff_safe_file_begin(&ctx, &safe, in_folder(path, "z")), FF_OK);
        fprintf(safe.file, "content %d\n", k);
        CU_ASSERT_EQUAL(ff_safe_file_commit(&ctx, &safe), FF_OK);
    }
    FILE *file = fopen(path, "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    CU_ASSERT_PTR_NOT_NULL(fgets(line, sizeof line, file));
    fclose(file);
    CU_ASSERT_STRING_EQUAL(line, "content 1\n");
}

static void test_a_missing_folder_is_named(void)
{
    char path[128];
    ff_hdf5_writer *w;
    CU_ASSERT_EQUAL(ff_hdf5_create(&ctx, &w, in_folder(path, "no/x.h5")), FF_ERR_IO);
    CU_ASSERT_PTR_NULL(w);
    CU_ASSERT_PTR_NOT_NULL(strstr(ctx.message, path));
    ff_context_clear(&ctx);
    CU_ASSERT_EQUAL(ff_make_folders(&ctx, in_folder(path, "no/deep/er")), FF_OK);
    CU_ASSERT_EQUAL(access(path, W_OK), 0);
}

static CU_TestInfo tests[] = {
    {"arrays_come_back_from_a_file", test_arrays_come_back_from_a_file},
    {"a_wrong_array_is_named_with_both_shapes", test_a_wrong_array_is_named_with_both_shapes},
    {"a_replaced_array_keeps_its_place", test_a_replaced_array_keeps_its_place},
    {"an_abandoned_file_leaves_nothing", test_an_abandoned_file_leaves_nothing},
    {"a_commit_replaces_the_old_file", test_a_commit_replaces_the_old_file},
    {"a_missing_folder_is_named", test_a_missing_folder_is_named},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_io_arrays = {"io/arrays", NULL, NULL, set_up, tear_down, tests};
