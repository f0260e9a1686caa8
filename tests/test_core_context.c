/* test_core_context.c - the sticky error, its text, the log records, and the progress line. */
#include <CUnit/CUnit.h>
#include <stdio.h>
#include <string.h>

#include "core/context.h"
#include "core/progress.h"
#include "tests/check.h"

static ff_ctx ctx;
static FILE *file;       /* where log records of a test go */
static char text[16384]; /* what was read back */

static void set_up(void)
{
    ff_context_init(&ctx);
    file = tmpfile();
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    ctx.log.file = file;
}

static void tear_down(void)
{
    if (file != NULL)
        fclose(file);
}

static const char *written(void)
{
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    return text;
}

static void test_starts_clean(void)
{
    ff_ctx fresh;
    memset(&fresh, 0xff, sizeof fresh);
    ff_context_init(&fresh);
    CU_ASSERT_EQUAL(fresh.status, FF_OK);
    CU_ASSERT_STRING_EQUAL(fresh.message, "");
    CU_ASSERT_PTR_EQUAL(fresh.log.file, stderr);
    CU_ASSERT_PTR_NULL(fresh.kernels);
    CU_ASSERT_PTR_NULL(fresh.pool);
    CU_ASSERT_PTR_NULL(fresh.tape);
    CU_ASSERT_PTR_NULL(fresh.plan);
    CU_ASSERT_PTR_NULL(fresh.comm);
    CU_ASSERT_EQUAL(fresh.seed, 0);
    CU_ASSERT_FALSE(fresh.training);
}

static void test_first_failure_wins(void)
{
    CU_ASSERT_EQUAL(FF_FAIL(&ctx, FF_ERR_SHAPE, "pair is %d by %d", 3, 4), FF_ERR_SHAPE);
    CU_ASSERT_EQUAL(FF_FAIL(&ctx, FF_ERR_MEM, "a consequence"), FF_ERR_MEM);
    CU_ASSERT_EQUAL(ctx.status, FF_ERR_SHAPE);
    CU_ASSERT_STRING_EQUAL(ctx.message, "pair is 3 by 4");
}

static void test_clear_makes_room_for_the_next_failure(void)
{
    FF_FAIL(&ctx, FF_ERR_IO, "first");
    ff_context_clear(&ctx);
    CU_ASSERT_EQUAL(ctx.status, FF_OK);
    CU_ASSERT_STRING_EQUAL(ctx.message, "");
    FF_FAIL(&ctx, FF_ERR_FORMAT, "second");
    CU_ASSERT_EQUAL(ctx.status, FF_ERR_FORMAT);
    CU_ASSERT_STRING_EQUAL(ctx.message, "second");
}

static void test_long_message_is_cut_with_dots(void)
{
    char path[3 * FF_MESSAGE_BYTES];
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    FF_FAIL(&ctx, FF_ERR_IO, "cannot open %s", path);
    CU_ASSERT_EQUAL(strlen(ctx.message), FF_MESSAGE_BYTES - 1);
    CU_ASSERT_STRING_EQUAL(ctx.message + FF_MESSAGE_BYTES - 5, "x...");
}

static ff_status fails_inside(ff_ctx *c, int *cleaned)
{
    ff_status status = FF_OK;
    FF_TRY_DONE(FF_FAIL(c, FF_ERR_COMM, "inside"));
    *cleaned = -1;
done:
    (*cleaned)++;
    return status;
}

static ff_status passes_up(ff_ctx *c, int *cleaned)
{
    FF_TRY(FF_OK);
    FF_TRY(fails_inside(c, cleaned));
    return FF_OK;
}

static void test_try_passes_the_status_up(void)
{
    int cleaned = 0;
    CU_ASSERT_EQUAL(passes_up(&ctx, &cleaned), FF_ERR_COMM);
    CU_ASSERT_EQUAL(cleaned, 1);
    CU_ASSERT_STRING_EQUAL(ctx.message, "inside");
}

static void test_every_status_has_a_name(void)
{
    for (int s = FF_OK; s <= FF_ERR_COMM; s++)
        CU_ASSERT_STRING_NOT_EQUAL(ff_status_name((ff_status)s), "UNKNOWN");
    CU_ASSERT_STRING_EQUAL(ff_status_name(FF_ERR_SHAPE), "SHAPE");
    CU_ASSERT_STRING_EQUAL(ff_status_name((ff_status)99), "UNKNOWN");
}

static void test_log_is_one_line_a_record(void)
{
    FF_WARN(&ctx, "two\nlines, step=%d", 5);
    ctx.log.rank = 2;
    FF_INFO(&ctx, "loss=%g", 0.5);
    CU_ASSERT_STRING_EQUAL(written(), "[warning] two lines, step=5\n[info] rank 2: loss=0.5\n");
}

static void test_log_drops_what_is_above_its_level(void)
{
    ctx.log.level = FF_LOG_WARNING;
    FF_INFO(&ctx, "dropped");
    FF_WARN(&ctx, "kept");
    ff_log_write(&ctx.log, FF_LOG_ERROR, "kept too");
    CU_ASSERT_STRING_EQUAL(written(), "[warning] kept\n[error] kept too\n");
    ctx.log.file = NULL;
    FF_WARN(&ctx, "to nobody");
}

static void test_log_json_is_escaped(void)
{
    ctx.log.json = true;
    ctx.log.rank = 0;
    FF_WARN(&ctx, "a \"b\" c:\\d\n\t%s", "e");
    CU_ASSERT_STRING_EQUAL(written(), "{\"level\": \"warning\", \"rank\": 0, "
                                      "\"message\": \"a \\\"b\\\" c:\\\\d\\n\\u0009e\"}\n");
}

static void test_log_json_is_utf8_whatever_the_text(void)
{
    ctx.log.json = true;
    FF_WARN(&ctx, "\xc3\xa9 \xe9 \xf0\x9f\x98\x80 \xe2\x82"); /* e acute, the same in Latin-1, a smiley, a cut euro sign */
    CU_ASSERT_STRING_EQUAL(written(), "{\"level\": \"warning\", "
                                      "\"message\": \"\xc3\xa9 \\ufffd \xf0\x9f\x98\x80 \\ufffd\\ufffd\"}\n");
}

/* The worst text for the buffers: longer than any record, and six bytes for each of its bytes. */
static void test_log_cuts_records_that_are_too_long(void)
{
    char bells[9000];
    memset(bells, '\a', sizeof bells - 1);
    bells[sizeof bells - 1] = '\0';
    ctx.log.json = true;
    FF_WARN(&ctx, "%s", bells);
    const size_t length = strlen(written());
    CU_ASSERT_TRUE(length > 1000 && length <= 8192);
    CU_ASSERT_STRING_EQUAL(text + length - 3, "\"}\n");
    CU_ASSERT_EQUAL(strncmp(text, "{\"level\": \"warning\", \"message\": \"\\u0007", 39), 0);
}

static void test_progress_says_how_long_it_takes(void)
{
    ff_progress_format(text, sizeof text, "evoformer", 12, 48, 12.0); /* 1 s a step, 36 left */
    CU_ASSERT_STRING_EQUAL(text, "evoformer 12/48 (25 %), 0:36 left");
    ff_progress_format(text, sizeof text, "train", 1, 101, 40.0); /* 40 s a step, 100 left */
    CU_ASSERT_STRING_EQUAL(text, "train 1/101 (1 %), 1:06:40 left");
    ff_progress_format(text, sizeof text, "evoformer", 0, 48, 1.0);
    CU_ASSERT_STRING_EQUAL(text, "evoformer 0/48 (0 %)");
    ff_progress_format(text, sizeof text, "reading", 7, 0, 1.0);
    CU_ASSERT_STRING_EQUAL(text, "reading 7");
}

static void test_progress_is_silent_off_a_terminal(void)
{
    ff_progress progress;
    ff_progress_begin(&progress, file, "evoformer", 2);
    ff_progress_step(&progress, 1);
    ff_progress_step(&progress, 2);
    ff_progress_end(&progress);
    ff_progress_begin(&progress, NULL, "evoformer", 2);
    ff_progress_step(&progress, 2);
    ff_progress_end(&progress);
    CU_ASSERT_STRING_EQUAL(written(), "");
}

static CU_TestInfo tests[] = {
    {"starts_clean", test_starts_clean},
    {"first_failure_wins", test_first_failure_wins},
    {"clear_makes_room_for_the_next_failure", test_clear_makes_room_for_the_next_failure},
    {"long_message_is_cut_with_dots", test_long_message_is_cut_with_dots},
    {"try_passes_the_status_up", test_try_passes_the_status_up},
    {"every_status_has_a_name", test_every_status_has_a_name},
    {"log_is_one_line_a_record", test_log_is_one_line_a_record},
    {"log_drops_what_is_above_its_level", test_log_drops_what_is_above_its_level},
    {"log_json_is_escaped", test_log_json_is_escaped},
    {"log_json_is_utf8_whatever_the_text", test_log_json_is_utf8_whatever_the_text},
    {"log_cuts_records_that_are_too_long", test_log_cuts_records_that_are_too_long},
    {"progress_says_how_long_it_takes", test_progress_says_how_long_it_takes},
    {"progress_is_silent_off_a_terminal", test_progress_is_silent_off_a_terminal},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_core_context = {"core/context", NULL, NULL, set_up, tear_down, tests};
