/* Text by line: line ends, long lines, NULs, gzip of every make and damage; texts, lists and name tables that grow. */
#include <CUnit/CUnit.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef FF_HAVE_ZLIB
#include <zlib.h>
#endif

#include "io/name_table.h"
#include "io/text_file.h"
#include "tests/check.h"
#include "tests/reader_case.h"

static reader_case r;
static char folder[64], path[128];
static ff_text_file *file;
static ff_text_line line;
static ff_text_buffer buffer;
static char *whole;

static void set_up(void)
{
    reader_case_begin(&r);
    strcpy(folder, "/tmp/ff_text_XXXXXX");
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/x", folder);
    file = NULL;
    whole = NULL;
    buffer = (ff_text_buffer){NULL, 0, 0};
}

static void tear_down(void)
{
    ff_text_close(file);
    free(whole);
    ff_text_buffer_destroy(&buffer);
    unlink(path);
    rmdir(folder);
    reader_case_end(&r);
}

static void write_file(const void *data, size_t size)
{
    FILE *f = fopen(path, "wb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    CU_ASSERT_EQUAL(fwrite(data, 1, size, f), size);
    fclose(f);
}

static void open_memory(const char *data, size_t size)
{
    ff_text_close(file);
    CU_ASSERT_EQUAL_FATAL(ff_text_open_memory(&r.ctx, &file, "memory", data, size), FF_OK);
}

/* All lines joined by `|`, with their numbers checked. */
static const char *join(void)
{
    ff_text_buffer_clear(&buffer);
    CU_ASSERT_EQUAL_FATAL(ff_text_buffer_reserve(&r.ctx, &buffer, 0), FF_OK);
    for (int64_t n = 1;; n++) {
        CU_ASSERT_EQUAL_FATAL(ff_text_next(&r.ctx, file, &line), FF_OK);
        if (line.text == NULL)
            return buffer.data;
        CU_ASSERT_EQUAL(line.number, n);
        CU_ASSERT_EQUAL(line.text[line.length], '\0');
        ff_text_buffer_put_line(&r.ctx, &buffer, line.text, (size_t)line.length);
        ff_text_buffer_put(&r.ctx, &buffer, "|", 1);
    }
}

static void check_lines(const char *data, size_t size, const char *joined)
{
    open_memory(data, size);
    CU_ASSERT_STRING_EQUAL(join(), joined);
    CU_ASSERT_EQUAL(ff_text_next(&r.ctx, file, &line), FF_OK); /* the end stays the end */
    CU_ASSERT_PTR_NULL(line.text);
}

static void test_lines_end_with_lf_crlf_or_cr(void)
{
    check_lines("", 0, "");
    check_lines("\n", 1, "|");
    check_lines("a", 1, "a|");
    check_lines("a\nb\n", 4, "a|b|");
    check_lines("a\r\nb\r\n", 6, "a|b|");
    check_lines("a\rb\r", 4, "a|b|");
    check_lines("a\n\r\n\rb\r\r\nc", 10, "a|||b||c|");
    check_lines("\r", 1, "|");
    check_lines("a\r\n", 3, "a|");
}

static void test_nul_bytes_and_a_byte_order_mark_are_no_obstacle(void)
{
    check_lines("a\0b\n\0\nc", 7, "a\\0b|\\0|c|");
    check_lines("\xef\xbb\xbf>a\nb", 7, ">a|b|");
    open_memory("ab\0cd\n", 6);
    CU_ASSERT_EQUAL(ff_text_next(&r.ctx, file, &line), FF_OK);
    CU_ASSERT_EQUAL(line.length, 5);
}

static void test_a_line_can_be_given_back(void)
{
    open_memory(" a \nb\n", 6);
    CU_ASSERT_EQUAL(ff_text_next(&r.ctx, file, &line), FF_OK);
    ff_text_strip(&line.text, &line.length);
    ff_text_push_back(file, &line);
    CU_ASSERT_STRING_EQUAL(join(), "a|b|");
}

static void test_lines_of_many_megabytes_are_whole(void)
{
    const size_t size = 5000003;
    whole = malloc(size + 4);
    CU_ASSERT_PTR_NOT_NULL_FATAL(whole);
    memset(whole, 'A', size);
    memcpy(whole + size, "\nBC", 3);
    write_file(whole, size + 3);
    CU_ASSERT_EQUAL_FATAL(ff_text_open(&r.ctx, &file, path), FF_OK);
    CU_ASSERT_EQUAL(ff_text_next(&r.ctx, file, &line), FF_OK);
    CU_ASSERT_EQUAL(line.length, (int64_t)size);
    CU_ASSERT_EQUAL(ff_text_next(&r.ctx, file, &line), FF_OK);
    CU_ASSERT_STRING_EQUAL(line.text, "BC");
}

/* A million lines that end with CR only must not be searched for LF again and again. */
static void test_many_lines_without_lf_take_no_quadratic_time(void)
{
    const size_t size = 2000000;
    whole = malloc(size);
    CU_ASSERT_PTR_NOT_NULL_FATAL(whole);
    for (size_t i = 0; i < size; i += 2)
        memcpy(whole + i, "a\r", 2);
    open_memory(whole, size);
    int64_t count = 0;
    do {
        CU_ASSERT_EQUAL_FATAL(ff_text_next(&r.ctx, file, &line), FF_OK);
        count += line.text != NULL;
    } while (line.text != NULL);
    CU_ASSERT_EQUAL(count, 1000000);
}

static void test_what_is_no_text_is_named(void)
{
    static const struct {
        const char *data;
        size_t size;
        const char *message;
    } cases[] = {{"BZh91AY", 7, "memory is packed by bzip2; bunzip2 it"},
                 {"\xfd" "7zXZ\0", 6, "memory is packed by xz; unxz it"},
                 {"\x28\xb5\x2f\xfd....", 8, "memory is packed by zstd; unzstd it"},
                 {"PK\3\4....", 8, "memory is a zip archive; unzip it"},
                 {"\xff\xfe>\0a\0", 6, "memory is UTF-16 text; save it as UTF-8 or plain ASCII"},
                 {"\xfe\xff\0>\0a", 6, "memory is UTF-16 text; save it as UTF-8 or plain ASCII"},
                 {"\x89HDF\r\n", 6, "memory is an HDF5 file, not text"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        reader_case_refused(&r, ff_text_open_memory(&r.ctx, &file, "memory", cases[i].data, cases[i].size),
                            FF_ERR_FORMAT, cases[i].message);
        CU_ASSERT_PTR_NULL(file);
    }
}

static void test_files_that_cannot_be_read_are_named(void)
{
    char message[256];
    snprintf(message, sizeof message, "cannot open %s: No such file or directory", path);
    reader_case_refused(&r, ff_text_open(&r.ctx, &file, path), FF_ERR_IO, message);
    CU_ASSERT_PTR_NULL(file);
    snprintf(message, sizeof message, "cannot read %s: it is a folder, a file is needed", folder);
    reader_case_refused(&r, ff_text_open(&r.ctx, &file, folder), FF_ERR_IO, message);
    CU_ASSERT_PTR_NULL(file);
}

static void test_standard_input_is_a_dash(void)
{
    int ends[2];
    const int saved = dup(0);
    CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
    CU_ASSERT_EQUAL(write(ends[1], "one\ntwo", 7), 7);
    close(ends[1]);
    dup2(ends[0], 0);
    close(ends[0]);
    const ff_status status = ff_text_open(&r.ctx, &file, "-");
    CU_ASSERT_EQUAL(status, FF_OK);
    if (status == FF_OK) {
        CU_ASSERT_STRING_EQUAL(ff_text_path(file), "standard input");
        CU_ASSERT_STRING_EQUAL(join(), "one|two|");
    }
    dup2(saved, 0);
    close(saved);
}

#ifdef FF_HAVE_ZLIB

/* `size` bytes as one gzip member at the end of `out`. */
static void pack(ff_text_buffer *out, const char *data, size_t size)
{
    z_stream z = {0};
    CU_ASSERT_EQUAL_FATAL(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    const size_t bound = deflateBound(&z, size) + 64;
    CU_ASSERT_EQUAL_FATAL(ff_text_buffer_reserve(&r.ctx, out, bound), FF_OK);
    z.next_in = (Bytef *)(size == 0 ? "" : data);
    z.avail_in = (uInt)size;
    z.next_out = (Bytef *)out->data + out->size;
    z.avail_out = (uInt)bound;
    CU_ASSERT_EQUAL(deflate(&z, Z_FINISH), Z_STREAM_END);
    out->size += bound - z.avail_out;
    deflateEnd(&z);
}

static void test_gzip_is_unpacked_member_by_member(void)
{
    ff_text_buffer packed = {NULL, 0, 0};
    pack(&packed, "a\nb", 3);
    pack(&packed, "", 0);
    pack(&packed, "c\nd", 3);
    check_lines(packed.data, packed.size, "a|bc|d|");
    CU_ASSERT_EQUAL(ff_text_buffer_put(&r.ctx, &packed, "\0\0\0\0\0\0", 6), FF_OK); /* padding, as tapes have */
    check_lines(packed.data, packed.size, "a|bc|d|");
    write_file(packed.data, packed.size);
    size_t size;
    CU_ASSERT_EQUAL(ff_text_read_all(&r.ctx, path, &whole, &size), FF_OK);
    CU_ASSERT_EQUAL_FATAL(size, 6);
    CU_ASSERT_STRING_EQUAL(whole, "a\nbc\nd");
    ff_text_buffer_destroy(&packed);
}

/* Read to the failure; the number of lines before it. */
static int64_t lines_before_failure(ff_status *status)
{
    int64_t count = 0;
    for (;; count++) {
        *status = ff_text_next(&r.ctx, file, &line);
        if (*status != FF_OK || line.text == NULL)
            return count;
    }
}

static void test_damaged_gzip_is_told_with_its_line(void)
{
    ff_text_buffer packed = {NULL, 0, 0}, text = {NULL, 0, 0};
    for (int i = 0; i < 100000; i++) {
        char row[32];
        const int n = snprintf(row, sizeof row, "%u\n", (unsigned)reader_case_draw(&r, 1000000000));
        ff_text_buffer_put(&r.ctx, &text, row, (size_t)n);
    }
    pack(&packed, text.data, text.size);
    ff_status status;
    char message[256];

    open_memory(packed.data, packed.size - 1);
    lines_before_failure(&status);
    reader_case_refused(&r, status, FF_ERR_FORMAT,
                        "memory:100001: the gzip data ends too early (a truncated file); copy it anew");
    open_memory(packed.data, packed.size / 2);
    const int64_t count = lines_before_failure(&status);
    CU_ASSERT_TRUE(count > 30000 && count < 70000);
    snprintf(message, sizeof message, "memory:%lld: the gzip data ends too early (a truncated file); copy it anew",
             (long long)count + 1);
    reader_case_refused(&r, status, FF_ERR_FORMAT, message);

    packed.data[packed.size - 5] ^= 1; /* the checksum */
    open_memory(packed.data, packed.size);
    lines_before_failure(&status);
    CU_ASSERT_EQUAL(status, FF_ERR_FORMAT);
    CU_ASSERT_PTR_NOT_NULL(strstr(r.ctx.message, "the gzip data is damaged (incorrect data check); copy it anew"));
    ff_context_clear(&r.ctx);
    packed.data[packed.size - 5] ^= 1;

    ff_text_buffer_put(&r.ctx, &packed, "rubbish", 7);
    open_memory(packed.data, packed.size);
    lines_before_failure(&status);
    reader_case_refused(&r, status, FF_ERR_FORMAT,
                        "memory:100001: something else follows the gzip data; unpack the file by"
                        " hand and look at its end");
    ff_text_buffer_destroy(&packed);
    ff_text_buffer_destroy(&text);
}

/* Random lines of random bytes, plain and packed, by line and as a whole. */
static void test_random_lines_come_back(void)
{
    static const char *const ends[] = {"\n", "\r\n", "\r"};
    ff_text_buffer text = {NULL, 0, 0}, packed = {NULL, 0, 0}, wanted = {NULL, 0, 0};
    for (int i = 0; i < 3000; i++) {
        const uint64_t length = reader_case_draw(&r, i % 100 == 0 ? 30000 : 50);
        for (uint64_t k = 0; k < length; k++) {
            char c = (char)reader_case_draw(&r, 256);
            c = c == '\n' || c == '\r' || (i == 0 && k == 0) ? 'x'
                                                             : c; /* the first byte may look like a packed file's */
            ff_text_buffer_put(&r.ctx, &text, &c, 1);
            ff_text_buffer_put_line(&r.ctx, &wanted, &c, 1);
        }
        const char *end = ends[reader_case_draw(&r, 2) + (length > 0 && i % 7 == 0)];
        if (*end == '\n' && text.size > 0 && text.data[text.size - 1] == '\r')
            end = "\r"; /* or an empty line would be part of a CRLF */
        ff_text_buffer_put(&r.ctx, &text, end, strlen(end));
        ff_text_buffer_put(&r.ctx, &wanted, "|", 1);
    }
    check_lines(text.data, text.size, wanted.data);
    pack(&packed, text.data, text.size);
    check_lines(packed.data, packed.size, wanted.data);
    write_file(packed.data, packed.size);
    size_t size;
    CU_ASSERT_EQUAL(ff_text_read_all(&r.ctx, path, &whole, &size), FF_OK);
    CU_ASSERT_EQUAL_FATAL(size, text.size);
    CU_ASSERT_EQUAL(memcmp(whole, text.data, size), 0);
    ff_text_buffer_destroy(&packed);
    ff_text_buffer_destroy(&text);
    ff_text_buffer_destroy(&wanted);
}

#endif

static void test_quotes_are_short_and_printable(void)
{
    char quoted[FF_TEXT_QUOTE_BYTES];
    CU_ASSERT_STRING_EQUAL(ff_text_quote(quoted, "a\tb\0\x7f", 5), "\"a\\x09b\\x00\\x7f\"");
    CU_ASSERT_STRING_EQUAL(ff_text_quote(quoted, "", 0), "\"\"");
    char text[100];
    memset(text, 'y', sizeof text);
    CU_ASSERT_STRING_EQUAL(ff_text_quote(quoted, text, 41), "\"yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy...\"");
    memset(text, 1, sizeof text);
    CU_ASSERT_TRUE(strlen(ff_text_quote(quoted, text, 100)) < FF_TEXT_QUOTE_BYTES);
}

static void test_names_keep_their_numbers(void)
{
    enum { COUNT = 5000 };
    ff_name_table table = {.hashes = NULL};
    char name[32];
    int64_t index;
    bool added;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < COUNT; i++) {
            const size_t length = (size_t)snprintf(name, sizeof name, "%.*s-%d", i % 13, "UniRef90_Q9H5", i);
            CU_ASSERT_EQUAL_FATAL(ff_name_table_add(&r.ctx, &table, name, length, &index, &added), FF_OK);
            if (index != i || added != (pass == 0) || strcmp(ff_name_table_get(&table, i), name) != 0)
                CU_FAIL_FATAL("a name has another number");
        }
    CU_ASSERT_EQUAL(ff_name_table_find(&table, "absent", 6), -1);
    CU_ASSERT_EQUAL(ff_name_table_add(&r.ctx, &table, "a\0b", 3, &index, &added), FF_OK);
    CU_ASSERT_TRUE(added);
    CU_ASSERT_EQUAL(ff_name_table_find(&table, "a\0b", 3), index);
    CU_ASSERT_EQUAL(ff_name_table_find(&table, "a\0c", 3), -1);
    CU_ASSERT_EQUAL(ff_name_table_find(&table, "", 0), -1);
    ff_name_table_destroy(&table);
    CU_ASSERT_EQUAL(ff_name_table_find(&table, "U-1", 3), -1);
}

static CU_TestInfo tests[] = {
    {"lines_end_with_lf_crlf_or_cr", test_lines_end_with_lf_crlf_or_cr},
    {"nul_bytes_and_a_byte_order_mark_are_no_obstacle", test_nul_bytes_and_a_byte_order_mark_are_no_obstacle},
    {"a_line_can_be_given_back", test_a_line_can_be_given_back},
    {"lines_of_many_megabytes_are_whole", test_lines_of_many_megabytes_are_whole},
    {"many_lines_without_lf_take_no_quadratic_time", test_many_lines_without_lf_take_no_quadratic_time},
    {"what_is_no_text_is_named", test_what_is_no_text_is_named},
    {"files_that_cannot_be_read_are_named", test_files_that_cannot_be_read_are_named},
    {"standard_input_is_a_dash", test_standard_input_is_a_dash},
#ifdef FF_HAVE_ZLIB
    {"gzip_is_unpacked_member_by_member", test_gzip_is_unpacked_member_by_member},
    {"damaged_gzip_is_told_with_its_line", test_damaged_gzip_is_told_with_its_line},
    {"random_lines_come_back", test_random_lines_come_back},
#endif
    {"quotes_are_short_and_printable", test_quotes_are_short_and_printable},
    {"names_keep_their_numbers", test_names_keep_their_numbers},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_io_text_file = {"io/text_file", NULL, NULL, set_up, tear_down, tests};
