/* Columns: what is appended in pieces is read back in any stretch, by any thread; damage and other shapes are named. */
#include <CUnit/CUnit.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/random.h"
#include "io/hdf5_column.h"
#include "tests/check.h"

enum { ROWS = 5000, WIDTH = 6 };

static ff_ctx ctx;
static char folder[64], path[96];
static float floats[ROWS * WIDTH];
static int8_t bytes[ROWS];
static int64_t longs[ROWS];

static void set_up(void)
{
    const ff_random_key key = {11, 3};
    ff_context_init(&ctx);
    ctx.log.file = NULL;
    strcpy(folder, "/tmp/ff_column_XXXXXX");
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/x.h5", folder);
    for (int i = 0; i < ROWS * WIDTH; i++)
        floats[i] = ff_random_uniform(key, (uint64_t)i);
    for (int i = 0; i < ROWS; i++) {
        bytes[i] = (int8_t)(i % 7 == 0 ? i : 0);
        longs[i] = (int64_t)i << 33;
    }
}

static void tear_down(void)
{
    char command[96];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    CU_ASSERT_EQUAL(system(command), 0);
}

/* Append rows [from, to) in pieces of odd lengths to a new file or an existing one. */
static void write_rows(int64_t from, int64_t to, bool extend)
{
    const int64_t shape[] = {2, 3};
    ff_hdf5_writer *w;
    ff_hdf5_column_writer *f, *b, *l;
    CU_ASSERT_EQUAL_FATAL(extend ? ff_hdf5_create_from(&ctx, &w, path) : ff_hdf5_create(&ctx, &w, path), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_hdf5_column_append_open(&ctx, &f, w, "/a/floats", FF_HDF5_FLOAT32, 2, shape, 100),
                          FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_hdf5_column_append_open(&ctx, &b, w, "/a/bytes", FF_HDF5_INT8, 0, NULL, 333), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_hdf5_column_append_open(&ctx, &l, w, "/longs", FF_HDF5_INT64, 0, NULL, 64), FF_OK);
    CU_ASSERT_EQUAL(ff_hdf5_column_appended(f), from);
    for (int64_t at = from, n = 1; at < to; at += n, n = n * 3 % 257) {
        n = n < to - at ? n : to - at;
        CU_ASSERT_EQUAL(ff_hdf5_column_append(&ctx, f, n, floats + at * WIDTH), FF_OK);
        CU_ASSERT_EQUAL(ff_hdf5_column_append(&ctx, b, n, bytes + at), FF_OK);
        CU_ASSERT_EQUAL(ff_hdf5_column_append(&ctx, l, n, longs + at), FF_OK);
    }
    CU_ASSERT_EQUAL(ff_hdf5_column_append_close(&ctx, f), FF_OK);
    CU_ASSERT_EQUAL(ff_hdf5_column_append_close(&ctx, b), FF_OK);
    CU_ASSERT_EQUAL(ff_hdf5_column_append_close(&ctx, l), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_hdf5_commit(&ctx, w), FF_OK);
}

typedef struct {
    ff_hdf5_column *f, *b, *l;
    uint64_t seed;
    int wrong;
} reader;

/* 200 stretches, each against what was written. */
static void *read_stretches(void *arg)
{
    reader *r = arg;
    ff_ctx own;
    ff_context_init(&own);
    own.log.file = NULL;
    float *f = malloc(sizeof floats);
    int8_t *b = malloc(sizeof bytes);
    int64_t *l = malloc(sizeof longs);
    for (uint64_t k = 0; k < 200; k++) {
        const ff_random_key key = {r->seed, k};
        const int64_t first = (int64_t)ff_random_below(key, 0, ROWS), most = ROWS - first;
        const int64_t count = k == 0 ? 0
                                     : 1 + (int64_t)ff_random_below(key, 1,
                                                                    (uint64_t)(k % 2       ? most
                                                                               : most < 40 ? most
                                                                                           : 40));
        r->wrong += ff_hdf5_column_read(&own, r->f, first, count, f) != FF_OK ||
                    memcmp(f, floats + first * WIDTH, (size_t)count * WIDTH * sizeof *f) != 0;
        r->wrong +=
            ff_hdf5_column_read(&own, r->b, first, count, b) != FF_OK || memcmp(b, bytes + first, (size_t)count) != 0;
        r->wrong += ff_hdf5_column_read(&own, r->l, first, count, l) != FF_OK ||
                    memcmp(l, longs + first, (size_t)count * 8) != 0;
    }
    free(f);
    free(b);
    free(l);
    return NULL;
}

static void read_all(int num_threads)
{
    const int64_t shape[] = {2, 3};
    ff_hdf5_file *file;
    reader r = {NULL, NULL, NULL, 1, 0}, each[4];
    pthread_t threads[4];
    CU_ASSERT_EQUAL_FATAL(ff_hdf5_open(&ctx, &file, path), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_hdf5_column_open(&ctx, &r.f, file, "/a/floats", FF_HDF5_FLOAT32, 2, shape), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_hdf5_column_open(&ctx, &r.b, file, "/a/bytes", FF_HDF5_INT8, 0, NULL), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_hdf5_column_open(&ctx, &r.l, file, "/longs", FF_HDF5_INT64, 0, NULL), FF_OK);
    CU_ASSERT_EQUAL(ff_hdf5_column_rows(r.f), ROWS);
    for (int t = 0; t < num_threads; t++) {
        each[t] = r;
        each[t].seed = (uint64_t)t;
        CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[t], NULL, read_stretches, &each[t]), 0);
    }
    for (int t = 0; t < num_threads; t++) {
        pthread_join(threads[t], NULL);
        CU_ASSERT_EQUAL(each[t].wrong, 0);
    }
    CU_ASSERT_EQUAL(ff_hdf5_column_read(&ctx, r.b, ROWS - 1, 2, bytes), FF_ERR_FORMAT);
    ff_context_clear(&ctx);
    ff_hdf5_column_close(r.f);
    ff_hdf5_column_close(r.b);
    ff_hdf5_column_close(r.l);
    ff_hdf5_close(file);
}

static void test_stretches_come_back(void)
{
    write_rows(0, ROWS, false);
    read_all(1);
}

static void test_threads_read_at_once(void)
{
    write_rows(0, ROWS, false);
    read_all(4);
}

static void test_a_file_is_extended(void)
{
    write_rows(0, 1234, false);
    write_rows(1234, ROWS, true);
    read_all(1);
}

static void test_other_shapes_are_refused(void)
{
    const int64_t shape[] = {2, 3}, other[] = {3, 2};
    ff_hdf5_file *file;
    ff_hdf5_column *c;
    write_rows(0, 10, false);
    CU_ASSERT_EQUAL_FATAL(ff_hdf5_open(&ctx, &file, path), FF_OK);
    CU_ASSERT_EQUAL(ff_hdf5_column_open(&ctx, &c, file, "/a/floats", FF_HDF5_FLOAT32, 2, other), FF_ERR_FORMAT);
    ff_context_clear(&ctx);
    CU_ASSERT_EQUAL(ff_hdf5_column_open(&ctx, &c, file, "/a/floats", FF_HDF5_INT32, 2, shape), FF_ERR_FORMAT);
    ff_context_clear(&ctx);
    CU_ASSERT_EQUAL(ff_hdf5_column_open(&ctx, &c, file, "/a/none", FF_HDF5_INT32, 0, NULL), FF_ERR_FORMAT);
    CU_ASSERT_PTR_NOT_NULL(strstr(ctx.message, "/a/none"));
    CU_ASSERT_PTR_NULL(c);
    ff_hdf5_close(file);
}

/* Columns of a data set that is contiguous or has another filter are read by the library. */
static void test_plain_data_sets_are_read_too(void)
{
    ff_hdf5_writer *w;
    ff_hdf5_file *file;
    ff_hdf5_column *c;
    int32_t in[] = {4, 5, 6, 7}, out[2] = {0};
    CU_ASSERT_EQUAL_FATAL(ff_hdf5_create(&ctx, &w, path), FF_OK);
    CU_ASSERT_EQUAL(ff_hdf5_write_int32(&ctx, w, "/x", 1, (const int64_t[]){4}, in), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_hdf5_commit(&ctx, w), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_hdf5_open(&ctx, &file, path), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_hdf5_column_open(&ctx, &c, file, "/x", FF_HDF5_INT32, 0, NULL), FF_OK);
    CU_ASSERT_EQUAL(ff_hdf5_column_read(&ctx, c, 1, 2, out), FF_OK);
    CU_ASSERT(out[0] == 5 && out[1] == 6);
    ff_hdf5_column_close(c);
    ff_hdf5_close(file);
}

/* Every byte of the file is damaged in turn (in steps): the rows are right or refused, never wrong without a word. */
static void test_damage_is_found(void)
{
    const int64_t shape[] = {2, 3};
    write_rows(0, ROWS, false);
    struct stat st;
    CU_ASSERT_EQUAL_FATAL(stat(path, &st), 0);
    float *f = malloc(sizeof floats);
    int refused = 0, tried = 0;
    for (off_t at = st.st_size / 3; at < st.st_size; at += 997, tried++) {
        unsigned char c = 0, damaged;
        const int fd = open(path, O_RDWR);
        CU_ASSERT_EQUAL_FATAL(pread(fd, &c, 1, at), 1);
        damaged = c ^ 0x55;
        CU_ASSERT_EQUAL_FATAL(pwrite(fd, &damaged, 1, at), 1);
        ff_hdf5_file *file;
        ff_hdf5_column *column = NULL;
        ff_context_clear(&ctx);
        if (ff_hdf5_open(&ctx, &file, path) == FF_OK) {
            if (ff_hdf5_column_open(&ctx, &column, file, "/a/floats", FF_HDF5_FLOAT32, 2, shape) == FF_OK &&
                ff_hdf5_column_read(&ctx, column, 0, ROWS, f) == FF_OK)
                CU_ASSERT_EQUAL(memcmp(f, floats, sizeof floats), 0);
            refused += ctx.status != FF_OK;
            ff_hdf5_column_close(column);
            ff_hdf5_close(file);
        } else {
            refused++;
        }
        CU_ASSERT_EQUAL_FATAL(pwrite(fd, &c, 1, at), 1);
        close(fd);
    }
    CU_ASSERT(refused > tried / 4); /* the floats are most of the file */
    free(f);
}

static void test_truncated_files_are_refused(void)
{
    ff_hdf5_file *file;
    struct stat st;
    write_rows(0, ROWS, false);
    CU_ASSERT_EQUAL_FATAL(stat(path, &st), 0);
    CU_ASSERT_EQUAL_FATAL(truncate(path, st.st_size / 2), 0);
    CU_ASSERT_EQUAL(ff_hdf5_open(&ctx, &file, path), FF_ERR_FORMAT);
    CU_ASSERT_PTR_NOT_NULL(strstr(ctx.message, "truncated"));
}

static CU_TestInfo tests[] = {
    {"stretches_come_back", test_stretches_come_back},
    {"threads_read_at_once", test_threads_read_at_once},
    {"a_file_is_extended", test_a_file_is_extended},
    {"other_shapes_are_refused", test_other_shapes_are_refused},
    {"plain_data_sets_are_read_too", test_plain_data_sets_are_read_too},
    {"damage_is_found", test_damage_is_found},
    {"truncated_files_are_refused", test_truncated_files_are_refused},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_io_hdf5_column = {"io/hdf5_column", NULL, NULL, set_up, tear_down, tests};
