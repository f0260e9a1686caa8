/* .npz files: what NumPy writes is read (tests/data/weights, made by make_weight_fixtures.py), what we write comes back
 * byte for byte the same, and every kind of damage is one line that names file and array. */
#include <CUnit/CUnit.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/npz.h"
#include "io/number_formats.h"
#include "io/zip_file.h"
#include "tests/check.h"

static ff_ctx ctx;
static char folder[64], path[128];
static ff_npz *npz;

static void set_up(void)
{
    ff_context_init(&ctx);
    ctx.log.file = NULL;
    npz = NULL;
    strcpy(folder, "/tmp/ff_npz_XXXXXX");
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/x.npz", folder);
}

static void tear_down(void)
{
    char command[96];
    ff_npz_close(npz);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    CU_ASSERT_EQUAL(system(command), 0);
}

static void expect(ff_status got, ff_status want, const char *first, const char *second)
{
    CU_ASSERT_EQUAL(got, want);
    if (strstr(ctx.message, first) == NULL || strstr(ctx.message, second) == NULL)
        printf("    message: %s\n", ctx.message);
    CU_ASSERT_PTR_NOT_NULL(strstr(ctx.message, first));
    CU_ASSERT_PTR_NOT_NULL(strstr(ctx.message, second));
    CU_ASSERT_PTR_NULL(strchr(ctx.message, '\n'));
    ff_context_clear(&ctx);
}

static void check_numpy_file(const char *file)
{
    static const char *const floats[] = {"f2", "f4", "f8", "fortran", "fortran_f8"};
    static const char *const signeds[] = {"i1", "i2", "i4", "i8"};
    static const char *const unsigneds[] = {"u1", "u2", "u4", "u8"};
    float want[3][24], got[24];
    for (int k = 0; k < 24; k++) {
        want[0][k] = (float)(k - 5) / 8;
        want[1][k] = (float)(k - 5);
        want[2][k] = (float)k;
    }
    CU_ASSERT_EQUAL_FATAL(ff_npz_open(&ctx, &npz, file), FF_OK);
    CU_ASSERT_EQUAL(ff_npz_count(npz), 17);
    for (int i = 0; i < 13; i++) {
        const char *name = i < 5 ? floats[i] : i < 9 ? signeds[i - 5] : unsigneds[i - 9];
        ff_npz_info info;
        const int64_t at = ff_npz_find(npz, name);
        CU_ASSERT_FATAL(at >= 0);
        CU_ASSERT_EQUAL(ff_npz_get_info(&ctx, npz, at, &info), FF_OK);
        CU_ASSERT_TRUE(info.ndim == 3 && info.shape[0] == 2 && info.shape[1] == 3 && info.shape[2] == 4);
        CU_ASSERT_EQUAL(info.fortran_order, strncmp(name, "fortran", 7) == 0);
        memset(got, 0xff, sizeof got);
        CU_ASSERT_EQUAL(ff_npz_read_float(&ctx, npz, at, got, 24), FF_OK);
        CU_ASSERT_EQUAL(memcmp(got, want[i < 5 ? 0 : i < 9 ? 1 : 2], sizeof got), 0);
    }
    CU_ASSERT_EQUAL(ff_npz_read_float(&ctx, npz, ff_npz_find(npz, "bool"), got, 24), FF_OK);
    for (int k = 0; k < 24; k++)
        CU_ASSERT_EQUAL(got[k], (float)(k % 2));
    CU_ASSERT_EQUAL(ff_npz_read_float(&ctx, npz, ff_npz_find(npz, "scalar"), got, 1), FF_OK);
    CU_ASSERT_EQUAL(got[0], -0.625f);
    CU_ASSERT_EQUAL(ff_npz_read_float(&ctx, npz, ff_npz_find(npz, "empty"), got, 0), FF_OK);
    CU_ASSERT_EQUAL(ff_npz_read_float(&ctx, npz, ff_npz_find(npz, "scope/layer//weights"), got, 12), FF_OK);
    CU_ASSERT_EQUAL(memcmp(got, want[0], 12 * sizeof *got), 0);
    CU_ASSERT_EQUAL(ff_npz_find(npz, "scope/layer/weights"), -1);
}

static void test_numpy_types_stored(void) { check_numpy_file("tests/data/weights/types.npz"); }

static void test_numpy_types_deflated(void) { check_numpy_file("tests/data/weights/types_deflated.npz"); }

static void test_types_that_are_not_numbers_are_refused(void)
{
    static const char *const names[][2] = {{"big", ">f4"}, {"text", "<U1"}, {"complex", "<c8"}, {"record", "record"}};
    ff_npz_info info;
    CU_ASSERT_EQUAL_FATAL(ff_npz_open(&ctx, &npz, "tests/data/weights/refused.npz"), FF_OK);
    for (int i = 0; i < 4; i++)
        expect(ff_npz_get_info(&ctx, npz, ff_npz_find(npz, names[i][0]), &info), FF_ERR_UNSUPPORTED, names[i][0],
               names[i][1]);
}

/* Two arrays of known content; returns the file's length. */
static long write_pair(const float *a, const float *b)
{
    ff_npz_writer *w;
    unlink(path);
    CU_ASSERT_EQUAL_FATAL(ff_npz_create(&ctx, &w, path), FF_OK);
    CU_ASSERT_EQUAL(ff_npz_write_float(&ctx, w, "s/first//weights", 2, (int64_t[]){3, 5}, a), FF_OK);
    CU_ASSERT_EQUAL(ff_npz_write_float(&ctx, w, "second", 1, (int64_t[]){7}, b), FF_OK);
    CU_ASSERT_NOT_EQUAL(access(path, F_OK), 0);
    CU_ASSERT_EQUAL_FATAL(ff_npz_commit(&ctx, w), FF_OK);
    FILE *file = fopen(path, "rb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    fseek(file, 0, SEEK_END);
    const long length = ftell(file);
    fclose(file);
    return length;
}

static void fill(float *x, int n, float scale)
{
    for (int k = 0; k < n; k++)
        x[k] = scale * sinf((float)k + scale);
}

static unsigned char *slurp(long length)
{
    unsigned char *bytes = malloc((size_t)length);
    FILE *file = fopen(path, "rb");
    CU_ASSERT_FATAL(bytes != NULL && file != NULL);
    CU_ASSERT_EQUAL(fread(bytes, 1, (size_t)length, file), (size_t)length);
    fclose(file);
    return bytes;
}

static void spill(const unsigned char *bytes, long length)
{
    FILE *file = fopen(path, "wb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    CU_ASSERT_EQUAL(fwrite(bytes, 1, (size_t)length, file), (size_t)length);
    fclose(file);
}

static void test_what_is_written_comes_back(void)
{
    float a[15], b[7], got[15];
    fill(a, 15, 1e-30f);
    fill(b, 7, 3.0f);
    b[2] = INFINITY;
    const long length = write_pair(a, b);
    CU_ASSERT_EQUAL_FATAL(ff_npz_open(&ctx, &npz, path), FF_OK);
    CU_ASSERT_EQUAL(ff_npz_count(npz), 2);
    CU_ASSERT_STRING_EQUAL(ff_npz_name(npz, 0), "s/first//weights");
    CU_ASSERT_EQUAL(ff_npz_read_float(&ctx, npz, 0, got, 15), FF_OK);
    CU_ASSERT_EQUAL(memcmp(got, a, sizeof a), 0);
    CU_ASSERT_EQUAL(ff_npz_read_float(&ctx, npz, 1, got, 7), FF_OK);
    CU_ASSERT_EQUAL(memcmp(got, b, sizeof b), 0);
    unsigned char *once = slurp(length);
    CU_ASSERT_EQUAL(write_pair(a, b), length); /* and the same bytes for the same arrays */
    unsigned char *twice = slurp(length);
    CU_ASSERT_EQUAL(memcmp(once, twice, (size_t)length), 0);
    free(once);
    free(twice);
}

/* Read everything; the first failure. */
static ff_status read_all(void)
{
    float got[15];
    ff_status status = ff_npz_open(&ctx, &npz, path);
    for (int64_t i = 0; status == FF_OK && i < ff_npz_count(npz); i++) {
        ff_npz_info info;
        status = ff_npz_get_info(&ctx, npz, i, &info);
        if (status == FF_OK)
            status = info.size <= 15 ? ff_npz_read_float(&ctx, npz, i, got, info.size)
                                     : FF_FAIL(&ctx, FF_ERR_FORMAT, "%s: grew", path);
    }
    ff_npz_close(npz);
    npz = NULL;
    return status;
}

static void test_a_file_cut_anywhere_is_a_format_error(void)
{
    float a[15] = {1}, b[7] = {2};
    const long length = write_pair(a, b);
    unsigned char *bytes = slurp(length);
    for (long cut = 0; cut < length; cut += cut < 70 || cut > length - 70 ? 1 : 13) {
        spill(bytes, cut);
        expect(read_all(), FF_ERR_FORMAT, path, cut < 4 ? ".npz" : "cut short");
    }
    free(bytes);
}

static void test_a_flipped_byte_of_the_data_is_noticed(void)
{
    float a[15] = {1}, b[7] = {2};
    const long length = write_pair(a, b), first_data = 30 + 20 + 128, data_bytes = 60;
    unsigned char *bytes = slurp(length);
    for (long at = first_data; at < first_data + data_bytes; at += 7) {
        bytes[at] ^= 0x10;
        spill(bytes, length);
        expect(read_all(), FF_ERR_FORMAT, "s/first//weights", "checksum");
        bytes[at] ^= 0x10;
    }
    free(bytes);
}

/* A member whose content is `header` behind magic and length, then 16 bytes. */
static void write_raw(const char *header, int version)
{
    unsigned char start[12] = "\x93NUMPY";
    char head[512];
    const float data[4] = {1, 2, 3, 4};
    const size_t length = strlen(header);
    start[6] = (unsigned char)version;
    start[8] = (unsigned char)length;
    const size_t before = version == 1 ? 10 : 12;
    memcpy(head, start, before);
    memcpy(head + before, header, length);
    ff_zip_writer *w;
    CU_ASSERT_EQUAL_FATAL(ff_zip_create(&ctx, &w, path), FF_OK);
    CU_ASSERT_EQUAL(ff_zip_add(&ctx, w, "a.npy", head, before + length, data, sizeof data), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_zip_commit(&ctx, w), FF_OK);
}

static void test_headers_of_other_versions_and_spacing_are_read(void)
{
    write_raw("{\"descr\": '<f4', 'fortran_order': False, 'shape': (4,)}", 1);
    expect(read_all(), FF_ERR_UNSUPPORTED, "array a", "plain numbers");
    write_raw("{'shape':(2,2),'descr' : '<f4','fortran_order':  False}", 2);
    CU_ASSERT_EQUAL(read_all(), FF_OK);
    write_raw("{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 2L), }", 3);
    CU_ASSERT_EQUAL(read_all(), FF_OK);
}

static void test_wrong_headers_are_named(void)
{
    static const struct {
        const char *header, *word;
        int version;
    } bad[] = {
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4,)}", "version", 4},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (5,)}", "20 bytes, it has 16", 1},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", "12 bytes, it has 16", 1},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-4,)}", "row of numbers", 1},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4", "row of numbers", 1},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, 99999999999)}", "too large", 1},
        {"{'descr': '<f4', 'fortran_order': False}", "no shape", 1},
        {"{'descr': '<f4', 'shape': (4,)}", "order", 1},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_raw(bad[i].header, bad[i].version);
        expect(read_all(), FF_ERR_FORMAT, "array a", bad[i].word);
    }
}

static void test_a_missing_file_and_another_kind_of_file_are_told_apart(void)
{
    expect(ff_npz_open(&ctx, &npz, path), FF_ERR_IO, path, "No such file");
    spill((const unsigned char *)"HDF5 or anything else, long enough for a zip", 44);
    expect(ff_npz_open(&ctx, &npz, path), FF_ERR_FORMAT, path, "is not a .npz file");
}

static void test_a_wrong_count_is_named(void)
{
    float a[15] = {1}, b[7] = {2}, got[15];
    write_pair(a, b);
    CU_ASSERT_EQUAL_FATAL(ff_npz_open(&ctx, &npz, path), FF_OK);
    expect(ff_npz_read_float(&ctx, npz, 0, got, 14), FF_ERR_FORMAT, "s/first//weights", "15 numbers, wanted 14");
}

static void test_sixteen_bit_numbers(void)
{
    /* IEEE 754: 1, -2, the largest half 65504, the smallest subnormal 2^-24, the smallest normal 2^-14 */
    static const uint16_t halves[] = {0x3c00, 0xc000, 0x7bff, 0x0001, 0x0400, 0x8001};
    static const float want[] = {1.0f, -2.0f, 65504.0f, 0x1p-24f, 0x1p-14f, -0x1p-24f};
    for (int i = 0; i < 6; i++)
        CU_ASSERT_EQUAL(ff_half_to_float(halves[i]), want[i]);
    CU_ASSERT_TRUE(isinf(ff_half_to_float(0xfc00)) && ff_half_to_float(0xfc00) < 0);
    CU_ASSERT_TRUE(isnan(ff_half_to_float(0x7e00)));
    CU_ASSERT_TRUE(signbit(ff_half_to_float(0x8000)));
    CU_ASSERT_EQUAL(ff_bfloat16_to_float(0x4049), 3.140625f);
}

static CU_TestInfo tests[] = {
    {"numpy_types_stored", test_numpy_types_stored},
    {"numpy_types_deflated", test_numpy_types_deflated},
    {"types_that_are_not_numbers_are_refused", test_types_that_are_not_numbers_are_refused},
    {"what_is_written_comes_back", test_what_is_written_comes_back},
    {"a_file_cut_anywhere_is_a_format_error", test_a_file_cut_anywhere_is_a_format_error},
    {"a_flipped_byte_of_the_data_is_noticed", test_a_flipped_byte_of_the_data_is_noticed},
    {"headers_of_other_versions_and_spacing_are_read", test_headers_of_other_versions_and_spacing_are_read},
    {"wrong_headers_are_named", test_wrong_headers_are_named},
    {"a_missing_file_and_another_kind_of_file_are_told_apart",
     test_a_missing_file_and_another_kind_of_file_are_told_apart},
    {"a_wrong_count_is_named", test_a_wrong_count_is_named},
    {"sixteen_bit_numbers", test_sixteen_bit_numbers},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_io_npz = {"io/npz", NULL, NULL, set_up, tear_down, tests};
