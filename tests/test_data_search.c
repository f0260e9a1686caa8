/* Searches, with shell scripts in the place of the tools: what they are called with, when they are called at all,
 * and what is left when they fail. */
#include <CUnit/CUnit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/search_config.h"
#include "data/search_database.h"

static ff_ctx ctx;
static char folder[64];
static ff_search_options options;
static char paths[256][160]; /* texts that options point to */
static int num_paths;

static const char *in_folder(const char *name)
{
    char *path = paths[num_paths++ % 256];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static void put(const char *name, const char *text)
{
    FILE *file = fopen(in_folder(name), "wb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    fputs(text, file);
    fclose(file);
}

/* A tool that notes its arguments, does what `mode` says, and writes `output` where option `flag` says. */
static const char *put_tool(const char *name, const char *flag, const char *output)
{
    char script[2048];
    snprintf(script, sizeof script,
             "#!/bin/sh\n"
             "echo \"%s $*\" >>%s/calls\n"
             "while [ $# -gt 0 ]; do [ \"$1\" = %s ] && out=$2; shift; done\n"
             "case $(cat %s/mode 2>/dev/null) in\n"
             "crash) echo 'fatal: bad thing' >&2; kill -SEGV $$;;\n"
             "hang) echo still waiting >&2; sleep 60;;\n"
             "status) echo 'no memory' >&2; exit 4;;\n"
             "cut) printf '# STOCKHOLM 1.0\\nquery MK' >$out; exit 0;;\n"
             "esac\n"
             "[ -n \"$out\" ] && printf '%s' >$out\nexit 0\n",
             name, folder, flag, folder, output);
    put(name, script);
    const char *path = in_folder(name);
    CU_ASSERT_EQUAL(chmod(path, 0755), 0);
    return path;
}

#define STO "# STOCKHOLM 1.0\\nquery MKVLAAGIVG\\n#=GC RF xxxxxxxxxx\\n//\\n"

static void put_hhsuite(const char *prefix)
{
    static const char *const ends[] = {"_a3m.ffdata",  "_a3m.ffindex",  "_hhm.ffdata",
                                       "_hhm.ffindex", "_cs219.ffdata", "_cs219.ffindex"};
    for (int i = 0; i < 6; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s%s", prefix, ends[i]);
        put(name, ends[i]);
    }
}

static void set_up(void)
{
    ff_context_init(&ctx);
    ctx.log.file = NULL;
    num_paths = 0;
    strcpy(folder, "/tmp/ff_search_XXXXXX");
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
    put("uniref90.fasta", ">a\nMKVLAAGIVGLCAKAYLEHL\n");
    put_hhsuite("pdb70");
    options = (ff_search_options){.num_cpus = 2, .time_limit_s = 20};
    options.programs[FF_TOOL_JACKHMMER] = put_tool("jackhmmer", "-A", STO);
    options.programs[FF_TOOL_HHBLITS] = put_tool("hhblits", "-oa3m", ">query\\nMKVLAAGIVG\\n>b\\nMKVLAAGIVa-\\n");
    options.programs[FF_TOOL_HHSEARCH] = put_tool("hhsearch", "-o", "Query query\\n");
    options.programs[FF_TOOL_HMMBUILD] = put_tool("hmmbuild", "-none", "");
    options.programs[FF_TOOL_HMMSEARCH] = put_tool("hmmsearch", "-none", "");
}

static void tear_down(void)
{
    char command[96];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    CU_ASSERT_EQUAL(system(command), 0);
}

/* The calls so far, with our folder written as `@` and temporary names as `*`; empties the list. */
static const char *take_calls(void)
{
    static char text[8192];
    char *out = text, *line = NULL;
    size_t size = 0;
    FILE *file = fopen(in_folder("calls"), "r");
    *text = '\0';
    while (file != NULL && getline(&line, &size, file) > 0)
        for (const char *p = line; *p != '\0' && out - text < (long)sizeof text - 2;) {
            if (strncmp(p, folder, strlen(folder)) == 0) {
                p += strlen(folder);
                *out++ = '@';
            } else if (strncmp(p, "/work-", 6) == 0) {
                *out++ = '/';
                *out++ = '*';
                p = strchr(strchr(p + 1, '/') + 1, '/');
            } else {
                *out++ = *p++;
            }
        }
    *out = '\0';
    free(line);
    if (file != NULL)
        fclose(file);
    unlink(in_folder("calls"));
    return text;
}

static bool has(const char *text, const char *part)
{
    if (strstr(text, part) != NULL)
        return true;
    printf("\n    \"%s\" is not in \"%s\"\n", part, text);
    return false;
}

static int num_done;

static ff_status count_done(ff_ctx *c, void *arg, int64_t query)
{
    (void)c, (void)arg, (void)query;
    num_done++;
    return FF_OK;
}

/* Run for queries that the caller clears. */
static ff_status run(ff_search_query *queries, int64_t n)
{
    ff_search *search;
    num_done = 0;
    FF_TRY(ff_search_open(&ctx, &search, &options));
    const ff_status status = ff_search_run(&ctx, search, queries, n, count_done, NULL);
    ff_search_close(search);
    return status;
}

static ff_search_query one = {.name = "one", .sequence = "MKVLAAGIVG"};

static ff_status run_one(void)
{
    ff_search_queries_clear(&one, 1);
    return run(&one, 1);
}

/* ---- databases ---- */

static void test_a_missing_database_file_is_named_before_anything_starts(void)
{
    options.databases[FF_DB_UNIREF90] = in_folder("uniref90.fasta");
    options.databases[FF_DB_PDB70] = in_folder("pdb70");
    unlink(in_folder("pdb70_cs219.ffdata"));
    CU_ASSERT_EQUAL(run_one(), FF_ERR_IO);
    CU_ASSERT(has(ctx.message, "--pdb70: "));
    CU_ASSERT(has(ctx.message, "/pdb70_cs219.ffdata: No such file or directory; the option takes what stands before "
                               "_cs219.ffdata in the names of its files"));
    CU_ASSERT_STRING_EQUAL(take_calls(), "");
    ff_context_clear(&ctx);
    unlink(in_folder("pdb70_a3m.ffindex"));
    CU_ASSERT_EQUAL(run_one(), FF_ERR_IO);
    CU_ASSERT(has(ctx.message, "(and 1 more)"));
    ff_context_clear(&ctx);
    put_hhsuite("pdb70");
    put("pdb70_cs219.ffindex", "");
    CU_ASSERT_EQUAL(run_one(), FF_ERR_IO);
    CU_ASSERT(has(ctx.message, "/pdb70_cs219.ffindex: the file is empty"));
}

static void test_a_database_is_known_by_prefix_file_or_folder(void)
{
    char prefix[160], first[FF_SHA256_HEX_BYTES] = "";
    ff_database database;
    snprintf(prefix, sizeof prefix, "%s", in_folder("pdb70"));
    const char *const given[] = {prefix, in_folder("pdb70_hhm.ffdata"), folder};
    for (int i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL_FATAL(ff_database_open(&ctx, &database, FF_DATABASE_HHSUITE, "--pdb70", given[i]), FF_OK);
        CU_ASSERT_STRING_EQUAL(database.path, prefix);
        if (i == 0)
            strcpy(first, database.identity);
        CU_ASSERT_STRING_EQUAL(database.identity, first);
        ff_database_close(&database);
    }
    put("pdb70_a3m.ffdata", "other content");
    CU_ASSERT_EQUAL_FATAL(ff_database_open(&ctx, &database, FF_DATABASE_HHSUITE, "--pdb70", prefix), FF_OK);
    CU_ASSERT_STRING_NOT_EQUAL(database.identity, first);
    ff_database_close(&database);
    put_hhsuite("bfd"); /* two in the folder: it says no longer which */
    CU_ASSERT_EQUAL(ff_database_open(&ctx, &database, FF_DATABASE_HHSUITE, "--pdb70", folder), FF_ERR_IO);
}

static void test_fasta_databases_are_looked_into(void)
{
    ff_database d;
    put("packed", "\x1f\x8b\x08 something");
    CU_ASSERT_EQUAL(ff_database_open(&ctx, &d, FF_DATABASE_FASTA, "--uniref90", in_folder("packed")), FF_ERR_FORMAT);
    CU_ASSERT(has(ctx.message, "is packed by gzip, which the search tool cannot read; gunzip it first"));
    ff_context_clear(&ctx);
    put("text", "hello\n");
    CU_ASSERT_EQUAL(ff_database_open(&ctx, &d, FF_DATABASE_FASTA, "--uniref90", in_folder("text")), FF_ERR_FORMAT);
    CU_ASSERT(has(ctx.message, "is no FASTA file"));
    ff_context_clear(&ctx);
    CU_ASSERT_EQUAL(ff_database_open(&ctx, &d, FF_DATABASE_FASTA, "--uniref90", folder), FF_ERR_IO);
    CU_ASSERT(has(ctx.message, "Is a directory"));
    ff_context_clear(&ctx);
    CU_ASSERT_EQUAL(ff_database_open(&ctx, &d, FF_DATABASE_MMSEQS, "--mmseqs", in_folder("none")), FF_ERR_IO);
    CU_ASSERT(has(ctx.message,
                  "/none: No such file or directory (and 5 more); the option takes an MMseqs2 database or a "
                  "FASTA file"));
}

static void test_characters_hmmer_cannot_read_are_replaced(void)
{
    int64_t num_bad, first_bad;
    put("good.txt", ">1abc_A mol:protein length:4  X\nMKVX\nacgu*\n");
    CU_ASSERT_EQUAL(ff_database_clean_fasta(&ctx, in_folder("good.txt"), in_folder("clean"), &num_bad, &first_bad),
                    FF_OK);
    CU_ASSERT_EQUAL(num_bad, 0);
    CU_ASSERT_NOT_EQUAL(access(in_folder("clean"), F_OK), 0);
    put("bad.txt", ">1abc_A mol:protein length:4  0-9\nMKVX\n>2abc_B mol:na length:4\nAC0GT\n>3abc_C\nM-K\n");
    CU_ASSERT_EQUAL(ff_database_clean_fasta(&ctx, in_folder("bad.txt"), in_folder("clean"), &num_bad, &first_bad),
                    FF_OK);
    CU_ASSERT_EQUAL(num_bad, 2);
    CU_ASSERT_EQUAL(first_bad, 4);
    char text[256] = "";
    FILE *file = fopen(in_folder("clean"), "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    CU_ASSERT(fread(text, 1, sizeof text - 1, file) > 0);
    fclose(file);
    CU_ASSERT_STRING_EQUAL(text,
                           ">1abc_A mol:protein length:4  0-9\nMKVX\n>2abc_B mol:na length:4\nACXGT\n>3abc_C\nMXK\n");
}

/* ---- programs ---- */

static void test_only_one_database_is_enough_and_a_missing_program_is_named(void)
{
    options.databases[FF_DB_UNIREF90] = in_folder("uniref90.fasta");
    options.programs[FF_TOOL_HHBLITS] = "/no/hhblits"; /* not needed */
    CU_ASSERT_EQUAL(run_one(), FF_OK);
    CU_ASSERT_EQUAL(num_done, 1);
    for (int k = 0; k < FF_NUM_SEARCHES; k++)
        CU_ASSERT_EQUAL(one.outputs[k].wanted, k == FF_SEARCH_UNIREF90);
    CU_ASSERT_PTR_NOT_NULL(one.outputs[FF_SEARCH_UNIREF90].path);
    take_calls();
    options.databases[FF_DB_BFD] = in_folder("pdb70");
    CU_ASSERT_EQUAL(run_one(), FF_ERR_IO);
    CU_ASSERT_STRING_EQUAL(ctx.message, "hhblits: no program at /no/hhblits, where --hhblits says it is");
    CU_ASSERT_STRING_EQUAL(take_calls(), "");
}

static void test_tools_get_the_flags_of_alphafold(void)
{
    options.databases[FF_DB_UNIREF90] = in_folder("uniref90.fasta");
    options.databases[FF_DB_BFD] = in_folder("pdb70");
    options.databases[FF_DB_UNIREF30] = in_folder("pdb70");
    options.databases[FF_DB_PDB70] = in_folder("pdb70");
    options.num_cpus = 1; /* one after the other, in a fixed order */
    options.cache = in_folder("cache");
    CU_ASSERT_EQUAL(run_one(), FF_OK);
    CU_ASSERT_STRING_EQUAL(
        take_calls(),
        "jackhmmer -o /dev/null --noali --F1 0.0005 --F2 5e-05 --F3 5e-07 --incE 0.0001 -E 0.0001 -N 1 -A "
        "@/cache/*/out.sto "
        "--cpu 1 @/cache/*/query.fasta @/uniref90.fasta\n"
        "hhsearch -i @/cache/*/in.a3m -o @/cache/*/out.hhr -maxseq 1000000 -cpu 1 -d @/pdb70\n"
        "hhblits -i @/cache/*/query.fasta -cpu 1 -oa3m @/cache/*/out.a3m -o /dev/null -n 3 -e 0.001 -maxseq 1000000 "
        "-realign_max 100000 -maxfilt 100000 -min_prefilter_hits 1000 -d @/pdb70 -d @/pdb70\n");
    options.databases[FF_DB_UNIREF30] = options.databases[FF_DB_BFD] = options.databases[FF_DB_PDB70] = NULL;
    options.databases[FF_DB_PDB_SEQRES] = in_folder("uniref90.fasta");
    CU_ASSERT_EQUAL(run_one(), FF_OK);
    CU_ASSERT(one.outputs[FF_SEARCH_UNIREF90].from_cache);
    CU_ASSERT_STRING_EQUAL(
        take_calls(),
        "hmmbuild --hand --amino @/cache/*/query.hmm @/cache/*/in.sto\n"
        "hmmsearch --noali --F1 0.1 --F2 0.1 --F3 0.1 --incE 100 -E 100 --domE 100 --incdomE 100 --cpu 1 "
        "-A @/cache/*/out.sto @/cache/*/query.hmm @/uniref90.fasta\n");
    struct stat st; /* nothing found: an empty file */
    CU_ASSERT_PTR_NOT_NULL_FATAL(one.outputs[FF_SEARCH_PDB_SEQRES].path);
    CU_ASSERT(stat(one.outputs[FF_SEARCH_PDB_SEQRES].path, &st) == 0 && st.st_size == 0);
    options.databases[FF_DB_PDB70] = in_folder("pdb70");
    CU_ASSERT_EQUAL(run_one(), FF_ERR_ARG);
}

static void test_a_file_names_databases_and_programs(void)
{
    ff_search_config config;
    ff_search_options o = {.databases = {[FF_DB_MGNIFY] = "given"}};
    put("site.conf", "# a site\n\nuniref90 = /data/u.fasta  # comment\n mgnify=/data/m.fasta\nmmseqs =db/mm\r\n"
                     "mmseqs-program = mmseqs\nkalign = bin/kalign\n");
    CU_ASSERT_EQUAL_FATAL(ff_search_config_read(&ctx, &config, in_folder("site.conf")), FF_OK);
    ff_search_config_apply(&config, &o);
    CU_ASSERT_STRING_EQUAL(o.databases[FF_DB_UNIREF90], "/data/u.fasta");
    CU_ASSERT_STRING_EQUAL(o.databases[FF_DB_MGNIFY], "given");
    CU_ASSERT_STRING_EQUAL(o.databases[FF_DB_MMSEQS], in_folder("db/mm"));
    CU_ASSERT_STRING_EQUAL(o.programs[FF_TOOL_MMSEQS], "mmseqs");
    CU_ASSERT_STRING_EQUAL(o.programs[FF_TOOL_KALIGN], in_folder("bin/kalign"));
    CU_ASSERT_PTR_NULL(o.databases[FF_DB_BFD]);
    ff_search_config_destroy(&config);
    static const char *const bad[][2] = {
        {"uniref90 /data\n", "site.conf:1: \"uniref90 /data\" is not `name = path`"},
        {"\nuniref99 = /data\n", "site.conf:2: \"uniref99\" is no database or program"},
        {"bfd = a\nbfd = b\n", "site.conf:2: bfd was given before"},
        {"bfd = # none\n", "site.conf:1: bfd has no path"},
        {"= x\n", "is not `name = path`"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        put("site.conf", bad[i][0]);
        CU_ASSERT_EQUAL(ff_search_config_read(&ctx, &config, in_folder("site.conf")), FF_ERR_FORMAT);
        CU_ASSERT(has(ctx.message, bad[i][1]));
        ff_context_clear(&ctx);
    }
}

/* ---- the cache ---- */

static void test_a_rerun_starts_where_it_stopped(void)
{
    options.databases[FF_DB_UNIREF90] = in_folder("uniref90.fasta");
    options.databases[FF_DB_PDB70] = in_folder("pdb70");
    options.cache = in_folder("cache");
    CU_ASSERT_EQUAL(run_one(), FF_OK);
    CU_ASSERT(has(take_calls(), "hhsearch"));
    CU_ASSERT_EQUAL(run_one(), FF_OK);
    CU_ASSERT_STRING_EQUAL(take_calls(), "");
    CU_ASSERT(one.outputs[FF_SEARCH_PDB70].from_cache);
    options.num_cpus = 1; /* does not change results */
    CU_ASSERT_EQUAL(run_one(), FF_OK);
    CU_ASSERT_STRING_EQUAL(take_calls(), "");
    put("pdb70_hhm.ffdata", "a new version"); /* hhsearch only */
    CU_ASSERT_EQUAL(run_one(), FF_OK);
    const char *calls = take_calls();
    CU_ASSERT(has(calls, "hhsearch"));
    CU_ASSERT_PTR_NULL(strstr(calls, "jackhmmer"));
    put_tool("jackhmmer", "-A", STO "\\n"); /* another program; its output, another alignment */
    CU_ASSERT_EQUAL(run_one(), FF_OK);
    CU_ASSERT(has(take_calls(), "jackhmmer"));
    CU_ASSERT_EQUAL(truncate(one.outputs[FF_SEARCH_UNIREF90].path, 20), 0);
    CU_ASSERT_EQUAL(run_one(), FF_OK);
    CU_ASSERT(has(take_calls(), "jackhmmer"));
    ff_search_query other = {.name = "one", .sequence = "MKVLAAGIVA"};
    CU_ASSERT_EQUAL(run(&other, 1), FF_OK);
    CU_ASSERT(has(take_calls(), "jackhmmer"));
    ff_search_queries_clear(&other, 1);
}

static void test_equal_sequences_are_searched_once(void)
{
    ff_search_query queries[] = {{.name = "a", .sequence = "MKVLAAGIVG"},
                                 {.name = "b", .sequence = "MKVLAAGIVA"},
                                 {.name = "c", .sequence = "MKVLAAGIVG"}};
    options.databases[FF_DB_UNIREF90] = in_folder("uniref90.fasta");
    options.cache = in_folder("cache");
    CU_ASSERT_EQUAL(run(queries, 3), FF_OK);
    CU_ASSERT_EQUAL(num_done, 3);
    const char *calls = take_calls();
    int count = 0;
    for (const char *p = calls; (p = strstr(p, "jackhmmer -o")) != NULL; p++)
        count++;
    CU_ASSERT_EQUAL(count, 2);
    CU_ASSERT_STRING_EQUAL(queries[0].outputs[0].path, queries[2].outputs[0].path);
    CU_ASSERT_STRING_NOT_EQUAL(queries[0].outputs[0].path, queries[1].outputs[0].path);
    ff_search_queries_clear(queries, 3);
}

static void test_nothing_temporary_is_left(void)
{
    char command[256];
    options.databases[FF_DB_UNIREF90] = in_folder("uniref90.fasta");
    options.cache = in_folder("cache");
    put("mode", "crash");
    CU_ASSERT_EQUAL(run_one(), FF_OK);
    CU_ASSERT_PTR_NULL(one.outputs[0].path);
    snprintf(command, sizeof command, "test -z \"$(ls -A %s/cache)\"", folder);
    CU_ASSERT_EQUAL(system(command), 0);
    put("mode", "");
    CU_ASSERT_EQUAL(run_one(), FF_OK);
    snprintf(command, sizeof command,
             "test $(find %s/cache -type f | wc -l) = 1 && ! ls -d %s/cache/work* 2>/dev/null", folder, folder);
    CU_ASSERT_EQUAL(system(command), 0);
}

/* ---- failures ---- */

static void check_failure(const char *mode, const char *message)
{
    put("mode", mode);
    CU_ASSERT_EQUAL(run_one(), FF_OK);
    CU_ASSERT_PTR_NULL(one.outputs[FF_SEARCH_UNIREF90].path);
    CU_ASSERT_PTR_NOT_NULL_FATAL(one.outputs[FF_SEARCH_UNIREF90].message);
    CU_ASSERT(has(one.outputs[FF_SEARCH_UNIREF90].message, message));
}

static void test_every_way_to_fail_is_told(void)
{
    options.databases[FF_DB_UNIREF90] = in_folder("uniref90.fasta");
    check_failure("crash", "jackhmmer uniref90 of one: ended by signal 11 (Segmentation fault) after 0.");
    check_failure("crash", "s: fatal: bad thing");
    check_failure("status", "exit status 4 after 0.");
    check_failure("cut", "jackhmmer ended well, but its output ");
    options.time_limit_s = 0.3;
    check_failure("hang", "ended by us at its time limit after 0.");
    check_failure("hang", "s: still waiting");
}

static void test_one_failed_search_leaves_the_others(void)
{
    options.databases[FF_DB_UNIREF90] = in_folder("uniref90.fasta");
    options.databases[FF_DB_BFD] = in_folder("pdb70");
    options.databases[FF_DB_PDB70] = in_folder("pdb70");
    put("crashing", "#!/bin/sh\necho out of luck >&2\nkill -KILL $$\n");
    CU_ASSERT_EQUAL(chmod(in_folder("crashing"), 0755), 0);
    options.programs[FF_TOOL_JACKHMMER] = in_folder("crashing");
    options.cache = in_folder("cache");
    CU_ASSERT_EQUAL(run_one(), FF_OK);
    CU_ASSERT(has(one.outputs[FF_SEARCH_UNIREF90].message, "out of memory is a common cause: out of luck"));
    CU_ASSERT_PTR_NOT_NULL(one.outputs[FF_SEARCH_BFD].path);
    CU_ASSERT(has(one.outputs[FF_SEARCH_PDB70].message, "not started, as the UniRef90 search it needs failed"));
    take_calls();
    options.programs[FF_TOOL_JACKHMMER] = in_folder("jackhmmer");
    CU_ASSERT_EQUAL(run_one(), FF_OK);
    CU_ASSERT(one.outputs[FF_SEARCH_BFD].from_cache);
    CU_ASSERT_PTR_NOT_NULL(one.outputs[FF_SEARCH_PDB70].path);
    ff_search_queries_clear(&one, 1);
}

static void test_a_cancel_ends_the_run(void)
{
    volatile sig_atomic_t cancel = 15;
    options.databases[FF_DB_UNIREF90] = in_folder("uniref90.fasta");
    options.cancel = &cancel;
    put("mode", "hang");
    CU_ASSERT_EQUAL(run_one(), FF_ERR_IO);
    CU_ASSERT(has(ctx.message, "stopped, as we were told to end"));
    ff_search_queries_clear(&one, 1);
}

static CU_TestInfo tests[] = {
    {"a_missing_database_file_is_named_before_anything_starts",
     test_a_missing_database_file_is_named_before_anything_starts},
    {"a_database_is_known_by_prefix_file_or_folder", test_a_database_is_known_by_prefix_file_or_folder},
    {"fasta_databases_are_looked_into", test_fasta_databases_are_looked_into},
    {"characters_hmmer_cannot_read_are_replaced", test_characters_hmmer_cannot_read_are_replaced},
    {"only_one_database_is_enough_and_a_missing_program_is_named",
     test_only_one_database_is_enough_and_a_missing_program_is_named},
    {"tools_get_the_flags_of_alphafold", test_tools_get_the_flags_of_alphafold},
    {"a_file_names_databases_and_programs", test_a_file_names_databases_and_programs},
    {"a_rerun_starts_where_it_stopped", test_a_rerun_starts_where_it_stopped},
    {"equal_sequences_are_searched_once", test_equal_sequences_are_searched_once},
    {"nothing_temporary_is_left", test_nothing_temporary_is_left},
    {"every_way_to_fail_is_told", test_every_way_to_fail_is_told},
    {"one_failed_search_leaves_the_others", test_one_failed_search_leaves_the_others},
    {"a_cancel_ends_the_run", test_a_cancel_ends_the_run},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_data_search = {"data/search", NULL, NULL, set_up, tear_down, tests};
