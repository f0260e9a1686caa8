/* test_core_options.c - reading the command line, what is refused and with which words, help, and changed options. */
#include <CUnit/CUnit.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core/options.h"
#include "core/version.h"
#include "tests/check.h"

typedef struct {
    bool json, templates;
    int64_t num_recycle, memory;
    double dropout;
    const char *output, *weights;
    int dtype;
    ff_option_list inputs;
    const char *o;
} options;

static const ff_option table[] = {
    {"num-recycle", FF_OPTION_INT64, offsetof(options, num_recycle), "3", "0..20", "Model", "recycling passes"},
    {"dropout", FF_OPTION_DOUBLE, offsetof(options, dropout), "0.25", "0..1", "Model", "dropout rate"},
    {"dtype", FF_OPTION_ENUM, offsetof(options, dtype), "bf16", "f32|bf16|f3", "Model", "type of operands"},
    {"templates", FF_OPTION_FLAG, offsetof(options, templates), "true", NULL, "Model", "use templates"},
    {"memory", FF_OPTION_BYTES, offsetof(options, memory), "20G", "1M..", "Machine", "memory budget"},
    {"json", FF_OPTION_FLAG, offsetof(options, json), NULL, NULL, "Output", "one JSON object a line"},
    {"output", FF_OPTION_STRING, offsetof(options, output), "out.pdb", NULL, "Output", "file to write"},
    {"weights", FF_OPTION_STRING, offsetof(options, weights), NULL, NULL, "Output", "file to read"},
    {"input", FF_OPTION_LIST, offsetof(options, inputs), NULL, NULL, "Output", "file to read; may be given again"},
    {"o", FF_OPTION_STRING, offsetof(options, o), NULL, NULL, "Output", "file to write"},
    FF_OPTION_END,
};
static const ff_program program = {"fastfold-demo", "[options] FILE...", "Shows options.", table};

enum { MAX_ARGUMENTS = 16 };
static ff_ctx ctx;
static options values;
static ff_arguments args;
static char *argv[MAX_ARGUMENTS];
static char line[512]; /* the command line, cut at its blanks; argv points into it */

/* Parse a command line written as one text, its words parted by single blanks. */
static ff_status parse(const char *command_line)
{
    ff_context_init(&ctx);
    memset(&values, 0x5a, sizeof values);
    snprintf(line, sizeof line, "fastfold-demo %s", command_line);
    int argc = 0;
    for (char *word = strtok(line, " "); word != NULL && argc < MAX_ARGUMENTS; word = strtok(NULL, " "))
        argv[argc++] = word;
    return ff_options_parse(&ctx, &program, &values, argc, argv, &args);
}

static void check_refused(const char *command_line, const char *message)
{
    CU_ASSERT_EQUAL(parse(command_line), FF_ERR_ARG);
    if (strcmp(ctx.message, message) != 0) {
        printf("    %s\n      says    %s\n      expected %s\n", command_line, ctx.message, message);
        CU_FAIL("a message differs");
    }
}

static void test_a_list_keeps_every_value_and_one_letter_takes_one_dash(void)
{
    CU_ASSERT_EQUAL(parse("--input a x --input=b -o out.h5 --input c"), FF_OK);
    CU_ASSERT_EQUAL_FATAL(values.inputs.count, 3);
    CU_ASSERT_STRING_EQUAL(values.inputs.items[0], "a");
    CU_ASSERT_STRING_EQUAL(values.inputs.items[2], "c");
    CU_ASSERT_STRING_EQUAL(values.o, "out.h5");
    CU_ASSERT_EQUAL(args.num_positional, 1);
    char text[64];
    ff_options_format_changed(&program, &values, text, sizeof text);
    CU_ASSERT_STRING_EQUAL(text, "input=a,b,c o=out.h5");
    CU_ASSERT_EQUAL(parse(""), FF_OK);
    CU_ASSERT_EQUAL(values.inputs.count, 0);
    check_refused("-o", "-o needs a value");
    check_refused("-p", "unknown option -p; --help lists all options");
    check_refused("-oout", "unknown option -oout; --help lists all options");
}

static void test_defaults_are_set(void)
{
    CU_ASSERT_EQUAL(parse(""), FF_OK);
    CU_ASSERT_EQUAL(values.num_recycle, 3);
    CU_ASSERT_EQUAL(values.dropout, 0.25);
    CU_ASSERT_EQUAL(values.dtype, 1);
    CU_ASSERT_TRUE(values.templates);
    CU_ASSERT_FALSE(values.json);
    CU_ASSERT_EQUAL(values.memory, INT64_C(20) << 30);
    CU_ASSERT_STRING_EQUAL(values.output, "out.pdb");
    CU_ASSERT_PTR_NULL(values.weights);
    CU_ASSERT_EQUAL(args.num_positional, 0);
    CU_ASSERT_FALSE(args.help || args.version);
}

static void test_every_type_is_read_both_ways(void)
{
    CU_ASSERT_EQUAL(parse("--num-recycle 5 --dropout 1e-1 --dtype f32 --memory 1.5M --json --weights w.npz"), FF_OK);
    CU_ASSERT_EQUAL(values.num_recycle, 5);
    CU_ASSERT_EQUAL(values.dropout, 0.1);
    CU_ASSERT_EQUAL(values.dtype, 0);
    CU_ASSERT_EQUAL(values.memory, 3 << 19);
    CU_ASSERT_TRUE(values.json);
    CU_ASSERT_STRING_EQUAL(values.weights, "w.npz");
    CU_ASSERT_EQUAL(parse("--num-recycle=6 --dropout=.5 --dtype=f3 --memory=1MiB --json=on --weights=--a=b"), FF_OK);
    CU_ASSERT_EQUAL(values.num_recycle, 6);
    CU_ASSERT_EQUAL(values.dropout, 0.5);
    CU_ASSERT_EQUAL(values.dtype, 2);
    CU_ASSERT_EQUAL(values.memory, 1 << 20);
    CU_ASSERT_TRUE(values.json);
    CU_ASSERT_STRING_EQUAL(values.weights, "--a=b");
    CU_ASSERT_EQUAL(parse("--output="), FF_OK);
    CU_ASSERT_STRING_EQUAL(values.output, "");
}

static void test_flags_can_be_switched_off(void)
{
    CU_ASSERT_EQUAL(parse("--no-templates --json --json=false"), FF_OK);
    CU_ASSERT_FALSE(values.templates);
    CU_ASSERT_FALSE(values.json);
    check_refused("--json=maybe", "--json: \"maybe\" is not true or false");
    check_refused("--no-dtype", "--dtype takes a value, so there is no --no-dtype");
}

static void test_last_one_given_wins(void)
{
    CU_ASSERT_EQUAL(parse("--num-recycle 5 --num-recycle 7"), FF_OK);
    CU_ASSERT_EQUAL(values.num_recycle, 7);
}

static void test_range_ends_are_included(void)
{
    CU_ASSERT_EQUAL(parse("--num-recycle 0 --dropout 0"), FF_OK);
    CU_ASSERT_EQUAL(parse("--num-recycle 20 --dropout 1 --memory 1M"), FF_OK);
    check_refused("--num-recycle 21", "--num-recycle: 21 is outside the range 0..20");
    check_refused("--num-recycle -1", "--num-recycle: -1 is outside the range 0..20");
    check_refused("--dropout 1.001", "--dropout: 1.001 is outside the range 0..1");
    check_refused("--dropout=inf", "--dropout: inf is outside the range 0..1");
    check_refused("--memory 1023K", "--memory: 1023K is outside the range 1M..");
}

static void test_values_that_are_none_are_refused(void)
{
    check_refused("--num-recycle 3x", "--num-recycle: \"3x\" is not a whole number");
    check_refused("--num-recycle=", "--num-recycle: \"\" is not a whole number");
    check_refused("--num-recycle 2.0", "--num-recycle: \"2.0\" is not a whole number");
    check_refused("--num-recycle 9223372036854775808",
                  "--num-recycle: \"9223372036854775808\" is not a whole number");
    check_refused("--dropout nan", "--dropout: \"nan\" is not a number");
    check_refused("--memory 20Q", "--memory: \"20Q\" is not a size such as 512M or 20G");
    check_refused("--dtype f", "--dtype: \"f\" is not one of f32|bf16|f3");
    check_refused("--dtype f32|bf16", "--dtype: \"f32|bf16\" is not one of f32|bf16|f3");
    check_refused("--dtype=", "--dtype: \"\" is not one of f32|bf16|f3");
    check_refused("--num-recycle", "--num-recycle needs a value");
    check_refused("--num-recycle --json", "--num-recycle needs a value");
}

static void test_unknown_names_come_with_the_nearest(void)
{
    check_refused("--num-recyle 3", "unknown option --num-recyle; did you mean --num-recycle?");
    check_refused("--num_recycle=3", "unknown option --num_recycle; did you mean --num-recycle?");
    check_refused("--jsno", "unknown option --jsno; did you mean --json?");
    check_refused("--weigths w", "unknown option --weigths; did you mean --weights?");
    check_refused("--templ", "unknown option --templ; did you mean --templates?");
    check_refused("--hepl", "unknown option --hepl; did you mean --help?");
    check_refused("-h", "unknown option -h; did you mean --help?");
    check_refused("-json", "unknown option -json; did you mean --json?");
    check_refused("--quaternion", "unknown option --quaternion; --help lists all options");
    check_refused("--=3", "unknown option --; --help lists all options");
    check_refused("--a-name-that-is-longer-than-any-name-a-table-of-options-may-hold-by-far=1",
                  "unknown option --a-name-that-is-longer-than-any-name-a-table-of-options-may-hold-by-far; "
                  "--help lists all options");
}

static void test_positional_arguments_are_collected_in_order(void)
{
    CU_ASSERT_EQUAL(parse("one --json two --num-recycle 4 - -- --three --"), FF_OK);
    const char *const expected[] = {"one", "two", "-", "--three", "--"};
    CU_ASSERT_EQUAL_FATAL(args.num_positional, 5);
    for (int i = 0; i < 5; i++)
        CU_ASSERT_STRING_EQUAL(args.positional[i], expected[i]);
    CU_ASSERT_TRUE(values.json);
    CU_ASSERT_EQUAL(values.num_recycle, 4);
}

static void test_no_arguments_at_all(void)
{
    ff_context_init(&ctx);
    char *none[] = {NULL};
    CU_ASSERT_EQUAL(ff_options_parse(&ctx, &program, &values, 0, none, &args), FF_OK);
    CU_ASSERT_EQUAL(args.num_positional, 0);
}

static void test_sizes_are_powers_of_1024(void)
{
    static const struct {
        const char *text;
        int64_t bytes; /* -1 = refused */
    } sizes[] = {
        {"0", 0},         {"17", 17},       {"17B", 17},  {"1k", 1024},      {"1K", 1024},
        {"1KB", 1024},    {"1KiB", 1024},   {"0.5K", 512}, {"3M", 3 << 20},   {"2G", INT64_C(2) << 30},
        {"1T", INT64_C(1) << 40}, {"", -1}, {"G", -1},    {"-1", -1},        {"1KK", -1},
        {"1Ki", -1},      {"1 G", -1},      {"inf", -1},  {"nan", -1},       {"9e30", -1},
        {"8388608T", -1}, {"8388607T", INT64_C(8388607) << 40},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int64_t bytes = -1;
        const bool ok = ff_options_read_bytes(sizes[i].text, &bytes);
        CU_ASSERT_EQUAL(ok, sizes[i].bytes >= 0);
        CU_ASSERT_EQUAL(bytes, sizes[i].bytes);
    }
}

static void test_changed_options_are_listed(void)
{
    char text[256];
    CU_ASSERT_EQUAL(parse("--num-recycle 3 --output out.pdb file"), FF_OK);
    CU_ASSERT_EQUAL(ff_options_format_changed(&program, &values, text, sizeof text), 0);
    CU_ASSERT_STRING_EQUAL(text, "");
    CU_ASSERT_EQUAL(parse("--dropout 0.1 --dtype f32 --no-templates --memory 1G --json --weights w.npz"), FF_OK);
    const char *expected = "dropout=0.1 dtype=f32 templates=false memory=1073741824 json=true weights=w.npz";
    const size_t length = ff_options_format_changed(&program, &values, text, sizeof text);
    CU_ASSERT_EQUAL(length, strlen(expected));
    CU_ASSERT_STRING_EQUAL(text, expected);
    for (size_t size = 0; size <= length; size++) { /* a short buffer gets the beginning, and nothing behind it */
        memset(text, '#', sizeof text);
        CU_ASSERT_EQUAL(ff_options_format_changed(&program, &values, text, size), length);
        CU_ASSERT_EQUAL(text[size], '#');
        if (size > 0) {
            CU_ASSERT_EQUAL(strlen(text), size - 1);
            CU_ASSERT_EQUAL(strncmp(text, expected, size - 1), 0);
        }
    }
}

static void test_help_names_every_option_once(void)
{
    CU_ASSERT_EQUAL(parse("--help"), FF_OK);
    CU_ASSERT_TRUE(args.help);
    FILE *file = tmpfile();
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    ff_options_print_help(&program, file);
    char text[4096];
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "Usage: fastfold-demo [options] FILE...\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\nModel:\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "recycling passes (0..20; default 3)\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "file to write (default out.pdb)\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "--version"));
    for (const ff_option *option = table; option->name != NULL; option++) {
        char dashed[64];
        snprintf(dashed, sizeof dashed, "  %s%s ", option->name[1] == '\0' ? "-" : "--", option->name);
        const char *found = strstr(text, dashed);
        CU_ASSERT_PTR_NOT_NULL_FATAL(found);
        CU_ASSERT_PTR_NULL(strstr(found + 1, dashed));
    }
}

static void test_version_is_one_line(void)
{
    CU_ASSERT_EQUAL(parse("--version"), FF_OK);
    CU_ASSERT_TRUE(args.version);
    FILE *file = tmpfile();
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    ff_options_print_version(&program, file);
    char text[128];
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    CU_ASSERT_STRING_EQUAL(text, "fastfold-demo " FF_VERSION "\n");
}

/* Read an INI text over the defaults. */
static ff_status read_ini(const char *given)
{
    static char text[512];
    ff_context_init(&ctx);
    ff_options_set_defaults(&program, &values);
    snprintf(text, sizeof text, "%s", given);
    return ff_options_read_ini(&ctx, &program, &values, text, "run.ini");
}

static void test_ini_files_are_read(void)
{
    CU_ASSERT_EQUAL(read_ini("# all\r\n[Model]\n num-recycle = 5\r\ndtype=f32\n; more\n\njson = on\n"
                             "output = a b = c\ninput = x\ninput = y\ndropout ="), FF_OK);
    CU_ASSERT_EQUAL(values.num_recycle, 5);
    CU_ASSERT_EQUAL(values.dtype, 0);
    CU_ASSERT_TRUE(values.json);
    CU_ASSERT_EQUAL(values.dropout, 0.25);
    CU_ASSERT_STRING_EQUAL(values.output, "a b = c");
    CU_ASSERT_EQUAL(values.inputs.count, 2);
    char *over[] = {"fastfold-demo", "--num-recycle", "6"};
    CU_ASSERT_EQUAL(ff_options_parse_over(&ctx, &program, &values, 3, over, &args), FF_OK);
    CU_ASSERT_EQUAL(values.num_recycle, 6);
    CU_ASSERT_EQUAL(values.dtype, 0);
}

static void check_ini_refused(const char *text, const char *message)
{
    CU_ASSERT_EQUAL(read_ini(text), FF_ERR_ARG);
    CU_ASSERT_STRING_EQUAL(ctx.message, message);
}

static void test_faults_of_ini_files_come_with_their_line(void)
{
    check_ini_refused("\njson\n", "run.ini:2: \"json\" is not `name = value`");
    check_ini_refused("num-recycle = 21", "run.ini:1: --num-recycle: 21 is outside the range 0..20");
    check_ini_refused("a = 1", "run.ini:1: unknown option a; --help lists all options");
    check_ini_refused("json = on\n[x]\nnum-recycl = 1", "run.ini:3: unknown option num-recycl; did you mean --num-recycle?");
}

static void test_written_ini_files_read_back(void)
{
    char text[2048] = "";
    options before;
    CU_ASSERT_EQUAL(parse("--dropout 0.1234567890123456789 --memory 3M --json --input a --input b --dtype f3 --no-templates"), FF_OK);
    before = values;
    FILE *file = fmemopen(text, sizeof text, "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    ff_options_write_ini(&program, &values, file);
    fclose(file);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\n[Machine]\nmemory = 3145728\n"));
    CU_ASSERT_EQUAL(read_ini(text), FF_OK);
    CU_ASSERT_EQUAL(values.dropout, before.dropout);
    CU_ASSERT_EQUAL(values.memory, before.memory);
    CU_ASSERT_EQUAL(values.dtype, 2);
    CU_ASSERT_FALSE(values.templates);
    CU_ASSERT_EQUAL(values.inputs.count, 2);
    CU_ASSERT_PTR_NULL(values.weights);
}

static CU_TestInfo tests[] = {
    {"ini_files_are_read", test_ini_files_are_read},
    {"faults_of_ini_files_come_with_their_line", test_faults_of_ini_files_come_with_their_line},
    {"written_ini_files_read_back", test_written_ini_files_read_back},
    {"a_list_keeps_every_value_and_one_letter_takes_one_dash", test_a_list_keeps_every_value_and_one_letter_takes_one_dash},
    {"defaults_are_set", test_defaults_are_set},
    {"every_type_is_read_both_ways", test_every_type_is_read_both_ways},
    {"flags_can_be_switched_off", test_flags_can_be_switched_off},
    {"last_one_given_wins", test_last_one_given_wins},
    {"range_ends_are_included", test_range_ends_are_included},
    {"values_that_are_none_are_refused", test_values_that_are_none_are_refused},
    {"unknown_names_come_with_the_nearest", test_unknown_names_come_with_the_nearest},
    {"positional_arguments_are_collected_in_order", test_positional_arguments_are_collected_in_order},
    {"no_arguments_at_all", test_no_arguments_at_all},
    {"sizes_are_powers_of_1024", test_sizes_are_powers_of_1024},
    {"changed_options_are_listed", test_changed_options_are_listed},
    {"help_names_every_option_once", test_help_names_every_option_once},
    {"version_is_one_line", test_version_is_one_line},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_core_options = {"core/options", NULL, NULL, NULL, NULL, tests};
