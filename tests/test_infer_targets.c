/* What is to be predicted, where it goes, what is done already, and all files of a target. */
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "infer/output.h"
#include "infer/target_folder.h"
#include "infer/targets.h"
#include "tests/infer_case.h"

static ff_targets targets;

static void set_up_targets(void)
{
    set_up();
    memset(&targets, 0, sizeof targets);
}

static void tear_down_targets(void)
{
    ff_targets_destroy(&targets);
    tear_down();
}

static const char *put_file(char path[256], const char *name, const char *text)
{
    FILE *file = fopen(in_folder(path, name), "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    fputs(text, file);
    fclose(file);
    return path;
}

static bool is_there(const char *name)
{
    char path[256];
    struct stat st;
    return lstat(in_folder(path, name), &st) == 0;
}

/* ---- reading ---- */

static void test_records_of_a_file_are_targets(void)
{
    char path[256], source[300];
    put_file(path, "a.fasta", ">T1078 Tsp1, Trichoderma virens, 138 residues|\r\nMAAH\r\nKGA\r\n\r\n>b\nacd*\n");
    CU_ASSERT_EQUAL_FATAL(ff_targets_add_path(&ctx, &targets, path), FF_OK);
    CU_ASSERT_EQUAL_FATAL(targets.count, 2);
    CU_ASSERT_STRING_EQUAL(targets.items[0].name, "T1078 Tsp1, Trichoderma virens, 138 residues|");
    CU_ASSERT_STRING_EQUAL(targets.items[0].sequence, "MAAHKGA");
    CU_ASSERT_EQUAL(targets.items[0].num_res, 7);
    CU_ASSERT_STRING_EQUAL(targets.items[1].sequence, "ACD");
    CU_ASSERT_PTR_NOT_NULL(strstr(targets.items[1].note, "upper case"));
    snprintf(source, sizeof source, "%s:5", path);
    CU_ASSERT_STRING_EQUAL(targets.items[1].source, source);
    CU_ASSERT_PTR_NULL(targets.items[0].msa_path);
}

static void test_a_bad_record_does_not_stop_the_rest(void)
{
    char path[256];
    put_file(path, "a.fasta", ">good\nMKV\n>complex\nMK:\nVA\n>digits\nM1K\n>empty\n>gaps\nM-K\n>last\nMA\n");
    CU_ASSERT_EQUAL_FATAL(ff_targets_add_path(&ctx, &targets, path), FF_OK);
    CU_ASSERT_EQUAL(ctx.status, FF_OK);
    CU_ASSERT_EQUAL_FATAL(targets.count, 6);
    static const char *const problems[] = {NULL, "chains of a complex", "digit", "no residues", "gap", NULL};
    for (int k = 0; k < 6; k++) {
        const ff_target *t = &targets.items[k];
        CU_ASSERT_EQUAL(t->problem == NULL, problems[k] == NULL);
        if (problems[k] != NULL && t->problem != NULL)
            CU_ASSERT_PTR_NOT_NULL(strstr(t->problem, problems[k]));
        CU_ASSERT_EQUAL(t->num_res, problems[k] == NULL ? (int64_t)strlen(t->sequence) : 0);
    }
    CU_ASSERT_STRING_EQUAL(targets.items[5].sequence, "MA");
}

static void test_an_alignment_gives_its_first_row(void)
{
    char path[256];
    put_file(path, "x.a3m", "#7\t1\n>query\nMKVLAAG\n>hit\nMK-laAAG\n>hit2\nMKVLAAG\n");
    CU_ASSERT_EQUAL_FATAL(ff_targets_add_path(&ctx, &targets, path), FF_OK);
    CU_ASSERT_EQUAL_FATAL(targets.count, 1);
    CU_ASSERT_STRING_EQUAL(targets.items[0].sequence, "MKVLAAG");
    CU_ASSERT_STRING_EQUAL(targets.items[0].msa_path, path);
}

static void test_a_folder_is_read_in_order_of_name(void)
{
    char path[256];
    put_file(path, "b.fa", ">second\nMA\n");
    put_file(path, "a.fasta", ">first\nMK\n");
    put_file(path, "c.a3m", ">third\nMV\n>hit\nMA\n");
    put_file(path, "d.fasta", "no header\n");
    put_file(path, ".hidden.fasta", ">hidden\nMK\n");
    put_file(path, "readme.txt", "nothing\n");
    CU_ASSERT_EQUAL(mkdir(in_folder(path, "e.fasta"), 0700), 0);
    CU_ASSERT_EQUAL_FATAL(ff_targets_add_path(&ctx, &targets, folder), FF_OK);
    CU_ASSERT_EQUAL_FATAL(targets.count, 4);
    CU_ASSERT_STRING_EQUAL(targets.items[0].name, "first");
    CU_ASSERT_STRING_EQUAL(targets.items[1].name, "second");
    CU_ASSERT_STRING_EQUAL(targets.items[2].name, "third");
    CU_ASSERT_PTR_NOT_NULL(strstr(targets.items[3].problem, "d.fasta:1: \"no header\" stands before the first"));
}

static void test_what_cannot_be_read_is_named(void)
{
    char path[256];
    CU_ASSERT_EQUAL(ff_targets_add_path(&ctx, &targets, in_folder(path, "missing.fasta")), FF_ERR_IO);
    CU_ASSERT_PTR_NOT_NULL(strstr(ctx.message, "missing.fasta"));
    ff_context_clear(&ctx);
    CU_ASSERT_EQUAL(ff_targets_add_path(&ctx, &targets, folder), FF_ERR_ARG);
    ff_context_clear(&ctx);
    CU_ASSERT_EQUAL(ff_targets_add_path(&ctx, &targets, put_file(path, "empty.fasta", "\n")), FF_ERR_FORMAT);
    CU_ASSERT_PTR_NOT_NULL(strstr(ctx.message, "has no sequences"));
    CU_ASSERT_EQUAL(targets.count, 0);
}

/* ---- names ---- */

static void add(const char *name, const char *sequence)
{
    CU_ASSERT_EQUAL_FATAL(ff_targets_add(&ctx, &targets, name, sequence, "test", NULL, NULL, NULL), FF_OK);
}

static void test_folders_are_safe_and_differ(void)
{
    char longest[4097];
    memset(longest, 'n', 4096);
    longest[4096] = '\0';
    static const char *const names[][2] = {{"T1078 Tsp1, Trichoderma virens, 138 residues|", "T1078"},
                                           {"../x", "._x"},
                                           {"a/b", "a_b"},
                                           {"", "unnamed"},
                                           {"", "unnamed_2"},
                                           {"A", "A"},
                                           {"a", "a_3"},
                                           {"A_2", "A_2"},
                                           {"A", "A_4"},
                                           {"a_2", "a_2_2"},
                                           {"names.tsv", "names.tsv_2"},
                                           {"-o", "_o"},
                                           {"..", NULL},
                                           {".", NULL},
                                           {"/", NULL},
                                           {"/etc/passwd", "_etc_passwd"},
                                           {"caf\xc3\xa9", NULL},
                                           {"\xff\xfe", NULL},
                                           {"con:aux*?", NULL}};
    const int count = (int)(sizeof names / sizeof *names);
    for (int k = 0; k < count; k++)
        add(names[k][0], "MK");
    add(longest, "MK");
    add(longest, "MK");
    CU_ASSERT_EQUAL_FATAL(ff_targets_choose_folders(&ctx, &targets), FF_OK);
    for (int64_t k = 0; k < targets.count; k++) {
        const char *chosen = targets.items[k].folder;
        CU_ASSERT_FATAL(chosen != NULL);
        if (k < count && names[k][1] != NULL && k != 1) {
            CU_ASSERT_STRING_EQUAL(chosen, names[k][1]);
            if (strcmp(chosen, names[k][1]) != 0)
                printf("    %s became %s, expected %s\n", names[k][0], chosen, names[k][1]);
        }
        CU_ASSERT(strlen(chosen) > 0 && strlen(chosen) < 128);
        CU_ASSERT_PTR_NULL(strchr(chosen, '/'));
        CU_ASSERT(chosen[0] != '.' && chosen[0] != '-');
        CU_ASSERT_EQUAL(strspn(chosen, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+."),
                        strlen(chosen));
        for (int64_t j = 0; j < k; j++)
            CU_ASSERT_NOT_EQUAL(strcasecmp(chosen, targets.items[j].folder), 0);
    }
}

static void test_the_largest_come_last(void)
{
    add("long", "MKVMKV");
    add("one", "MK");
    add("two", "MA");
    add("short", "M");
    ff_targets_sort(&targets);
    static const char *const order[] = {"short", "one", "two", "long"};
    for (int k = 0; k < 4; k++)
        CU_ASSERT_STRING_EQUAL(targets.items[k].name, order[k]);
}

static void test_the_map_of_names_keeps_what_earlier_runs_wrote(void)
{
    char path[256], out[256];
    in_folder(out, "new/out");
    add("a\tb\nc", "MK");
    CU_ASSERT_EQUAL_FATAL(ff_targets_choose_folders(&ctx, &targets), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_targets_write_names(&ctx, &targets, out), FF_OK);
    ff_targets_destroy(&targets);
    add("other", "MKV");
    add("a again", "MKVA");
    CU_ASSERT_EQUAL_FATAL(ff_targets_choose_folders(&ctx, &targets), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_targets_write_names(&ctx, &targets, out), FF_OK);
    char *text = content_of(in_folder(path, "new/out/names.tsv"));
    CU_ASSERT_STRING_EQUAL(text, "#folder\tresidues\tsource\tname\nother\t3\ttest\tother\na\t4\ttest\ta again\n");
    free(text);
    ff_targets_destroy(&targets);
    add("third\x01", "M");
    CU_ASSERT_EQUAL_FATAL(ff_targets_choose_folders(&ctx, &targets), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_targets_write_names(&ctx, &targets, out), FF_OK);
    text = content_of(path);
    CU_ASSERT_STRING_EQUAL(
        text, "#folder\tresidues\tsource\tname\nother\t3\ttest\tother\na\t4\ttest\ta again\nthird_\t1\ttest\tthird \n");
    free(text);
}

/* ---- the folder of a target ---- */

#ifdef FF_HAVE_CJSON
static ff_status begin(ff_target_folder *f, const char *hash, bool overwrite)
{
    const ff_status status = ff_target_folder_begin(&ctx, f, folder, &targets.items[0], hash, overwrite);
    return status;
}

static void prepare_target(void)
{
    add("T1", "MKV");
    CU_ASSERT_EQUAL_FATAL(ff_targets_choose_folders(&ctx, &targets), FF_OK);
}

static void test_a_finished_target_is_not_done_again(void)
{
    char path[256];
    ff_target_folder f;
    prepare_target();
    CU_ASSERT_EQUAL_FATAL(begin(&f, "aa11", false), FF_OK);
    CU_ASSERT_FALSE(f.finished);
    char *text = content_of(in_folder(path, "T1/status.json"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\"state\": \"running\""));
    free(text);
    put_file(path, "T1/ranked_0.pdb", "x");
    CU_ASSERT_EQUAL(ff_target_folder_end(&ctx, &f, &targets.items[0], FF_TARGET_FINISHED, NULL), FF_OK);
    ff_target_folder_destroy(&f);
    CU_ASSERT_EQUAL_FATAL(begin(&f, "aa11", false), FF_OK);
    CU_ASSERT_TRUE(f.finished);
    CU_ASSERT_TRUE(is_there("T1/ranked_0.pdb"));
    ff_target_folder_destroy(&f);
    CU_ASSERT_EQUAL(begin(&f, "bb22", false), FF_ERR_ARG); /* another input */
    CU_ASSERT_PTR_NOT_NULL(strstr(ctx.message, "--overwrite"));
    CU_ASSERT_TRUE(is_there("T1/ranked_0.pdb"));
    ff_target_folder_destroy(&f);
    ff_context_clear(&ctx);
    CU_ASSERT_EQUAL_FATAL(begin(&f, "aa11", true), FF_OK);
    CU_ASSERT_FALSE(f.finished);
    CU_ASSERT_FALSE(is_there("T1/ranked_0.pdb")); /* files of two runs never mix */
    ff_target_folder_destroy(&f);
}

static void test_a_failed_or_killed_target_is_done_again(void)
{
    char path[256];
    ff_target_folder f;
    prepare_target();
    CU_ASSERT_EQUAL_FATAL(begin(&f, "aa11", false), FF_OK);
    CU_ASSERT_EQUAL(ff_target_folder_end(&ctx, &f, &targets.items[0], FF_TARGET_FAILED, "needs \"more\" memory"),
                    FF_OK);
    ff_target_folder_destroy(&f);
    char *text = content_of(in_folder(path, "T1/status.json"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\"state\": \"failed\""));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\"message\": \"needs \\\"more\\\" memory\""));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\"num_res\": 3"));
    free(text);
    put_file(path, "T1/ranked_0.pdb.tmp123", "half");
    put_file(path, "T1/confidence_1.json", "old");
    put_file(path, "T1/mine.txt", "mine");
    CU_ASSERT_EQUAL_FATAL(begin(&f, "bb22", false), FF_OK); /* failed before: any input may go on */
    CU_ASSERT_FALSE(f.finished);
    CU_ASSERT_FALSE(is_there("T1/ranked_0.pdb.tmp123"));
    CU_ASSERT_FALSE(is_there("T1/confidence_1.json"));
    CU_ASSERT_TRUE(is_there("T1/mine.txt"));
    ff_target_folder_destroy(&f);
    CU_ASSERT_EQUAL_FATAL(begin(&f, "bb22", false), FF_OK); /* was running: killed */
    ff_target_folder_destroy(&f);
    put_file(path, "T1/status.json", "{\"state\": \"fini"); /* damaged */
    CU_ASSERT_EQUAL_FATAL(begin(&f, "bb22", false), FF_OK);
    CU_ASSERT_FALSE(f.finished);
    ff_target_folder_destroy(&f);
}

static void test_folders_and_links_of_others_are_left_alone(void)
{
    char path[256], other[256];
    ff_target_folder f;
    prepare_target();
    CU_ASSERT_EQUAL(mkdir(in_folder(path, "T1"), 0700), 0);
    put_file(path, "T1/thesis.txt", "years of work");
    CU_ASSERT_EQUAL(begin(&f, "aa", false), FF_ERR_ARG);
    CU_ASSERT_PTR_NOT_NULL(strstr(ctx.message, "files that are not ours"));
    CU_ASSERT_FALSE(is_there("T1/status.json"));
    ff_target_folder_destroy(&f);
    ff_context_clear(&ctx);
    CU_ASSERT_EQUAL(rename(in_folder(path, "T1"), in_folder(other, "moved")), 0);
    CU_ASSERT_EQUAL(symlink("moved", in_folder(path, "T1")), 0);
    CU_ASSERT_EQUAL(begin(&f, "aa", true), FF_ERR_IO);
    CU_ASSERT_PTR_NOT_NULL(strstr(ctx.message, "is a link"));
    CU_ASSERT_FALSE(is_there("moved/status.json"));
    ff_target_folder_destroy(&f);
    ff_context_clear(&ctx);
    CU_ASSERT_EQUAL(unlink(path), 0);
    put_file(path, "T1", "a file");
    CU_ASSERT_EQUAL(begin(&f, "aa", true), FF_ERR_IO);
    CU_ASSERT_PTR_NOT_NULL(strstr(ctx.message, "is a file"));
    ff_target_folder_destroy(&f);
}
#endif

/* ---- all files ---- */

static void test_all_files_of_a_target_are_written_best_first(void)
{
    static const double confidences[] = {NAN, 40, 80, 80};
    int64_t order[4];
    ff_prediction four[4];
    for (int k = 0; k < 4; k++) {
        make_prediction(&four[k], "x", 10);
        make_up_confidences(&four[k]);
        for (int64_t i = 0; i < 10; i++)
            four[k].plddt[i] = (float)(10 * k);
        four[k].seed = (uint64_t)k;
        four[k].ranking_confidence = confidences[k];
    }
    CU_ASSERT_EQUAL(ff_output_rank(&ctx, order, four, 4), FF_OK);
    CU_ASSERT_EQUAL(memcmp(order, ((int64_t[]){2, 3, 1, 0}), sizeof order), 0);
    const ff_output_options options = {
        .mmcif = true, .report = true, .raw = (const ff_array_set *const[]){NULL, NULL, NULL, NULL}};
    CU_ASSERT_EQUAL_FATAL(ff_output_write(&ctx, folder, four, 4, &options), FF_OK);
    static const char *const files[] = {"ranked_0.pdb",
                                        "ranked_3.pdb",
                                        "ranked_0.cif",
                                        "ranked_3.cif",
                                        "confidence.json",
                                        "confidence_3.json",
                                        "predicted_aligned_error.json",
                                        "predicted_aligned_error_3.json",
                                        "ranking.json",
                                        "timings.json",
                                        "report.html",
                                        "result.h5",
                                        "result_3.h5"};
    for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
        CU_ASSERT_TRUE(is_there(files[k]));
        if (!is_there(files[k]))
            printf("    missing: %s\n", files[k]);
    }
    char path[256];
    char *text = content_of(in_folder(path, "ranked_0.pdb"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "seed 2."));
    free(text);
    text = content_of(in_folder(path, "report.html"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\"seed\": \"2\""));
    free(text);
    for (int k = 0; k < 4; k++)
        ff_prediction_destroy(&four[k]);
}

#ifdef FF_HAVE_HDF5
static void test_raw_outputs_come_back_from_result_h5(void)
{
    char path[256];
    ff_array_set raw, back;
    ff_hdf5_file *file;
    ff_array_set_init(&raw);
    ff_array_set_init(&back);
    make_prediction(&prediction, "x", 7);
    make_up_confidences(&prediction);
    ff_array *logits = ff_array_add(&ctx, &raw, "distogram/logits", FF_ARRAY_FLOAT32, FF_DIMS(7, 7, 64));
    CU_ASSERT_PTR_NOT_NULL_FATAL(logits);
    logits->f32[100] = 2.5f;
    CU_ASSERT_EQUAL_FATAL(ff_result_h5_write(&ctx, &prediction, &raw, in_folder(path, "result.h5")), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_hdf5_open(&ctx, &file, path), FF_OK);
    CU_ASSERT_EQUAL(ff_array_set_read(&ctx, &back, file, "/"), FF_OK);
    ff_hdf5_close(file);
    const ff_array *plddt = ff_array_need(&ctx, &back, "plddt", FF_ARRAY_FLOAT32, FF_DIMS(7));
    const ff_array *x = ff_array_need(&ctx, &back, "final_atom_positions", FF_ARRAY_FLOAT32, FF_DIMS(7, 37, 3));
    const ff_array *read = ff_array_need(&ctx, &back, "raw/distogram/logits", FF_ARRAY_FLOAT32, FF_DIMS(7, 7, 64));
    CU_ASSERT_FATAL(plddt && x && read);
    CU_ASSERT_EQUAL(memcmp(plddt->f32, prediction.plddt, 7 * sizeof(float)), 0);
    CU_ASSERT_EQUAL(memcmp(x->f32, prediction.atom37_positions, 7 * 37 * 3 * sizeof(float)), 0);
    CU_ASSERT_EQUAL(read->f32[100], 2.5f);
    ff_array_set_destroy(&raw);
    ff_array_set_destroy(&back);
}
#endif

static void test_a_full_disk_is_told_and_leaves_no_part(void)
{
    make_prediction(&prediction, "x", 500);
    make_up_confidences(&prediction);
    char command[256], path[256];
    snprintf(command, sizeof command, "mount -t tmpfs -o size=64k none %s 2>/dev/null", folder);
    if (geteuid() != 0 || system(command) != 0) {
        ff_test_skip("cannot mount a small file system");
        return;
    }
    const ff_output_options options = {.mmcif = true, .report = true};
    const ff_status status = ff_output_write(&ctx, folder, &prediction, 1, &options);
    const bool left = is_there("ranked_0.pdb");
    snprintf(command, sizeof command, "ls -A %s | wc -l", folder);
    int code;
    char *count = output_of(command, &code);
    snprintf(command, sizeof command, "umount %s", folder);
    CU_ASSERT_EQUAL(system(command), 0);
    CU_ASSERT_EQUAL(status, FF_ERR_IO);
    CU_ASSERT_PTR_NOT_NULL(strstr(ctx.message, "No space left"));
    CU_ASSERT_PTR_NOT_NULL(strstr(ctx.message, in_folder(path, "ranked_0.pdb")));
    CU_ASSERT_FALSE(left);
    CU_ASSERT_EQUAL(atoi(count), 0);
    free(count);
}

static CU_TestInfo tests[] = {
    {"records_of_a_file_are_targets", test_records_of_a_file_are_targets},
    {"a_bad_record_does_not_stop_the_rest", test_a_bad_record_does_not_stop_the_rest},
    {"an_alignment_gives_its_first_row", test_an_alignment_gives_its_first_row},
    {"a_folder_is_read_in_order_of_name", test_a_folder_is_read_in_order_of_name},
    {"what_cannot_be_read_is_named", test_what_cannot_be_read_is_named},
    {"folders_are_safe_and_differ", test_folders_are_safe_and_differ},
    {"the_largest_come_last", test_the_largest_come_last},
    {"the_map_of_names_keeps_what_earlier_runs_wrote", test_the_map_of_names_keeps_what_earlier_runs_wrote},
#ifdef FF_HAVE_CJSON
    {"a_finished_target_is_not_done_again", test_a_finished_target_is_not_done_again},
    {"a_failed_or_killed_target_is_done_again", test_a_failed_or_killed_target_is_done_again},
    {"folders_and_links_of_others_are_left_alone", test_folders_and_links_of_others_are_left_alone},
#endif
    {"all_files_of_a_target_are_written_best_first", test_all_files_of_a_target_are_written_best_first},
#ifdef FF_HAVE_HDF5
    {"raw_outputs_come_back_from_result_h5", test_raw_outputs_come_back_from_result_h5},
#endif
    {"a_full_disk_is_told_and_leaves_no_part", test_a_full_disk_is_told_and_leaves_no_part},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_infer_targets = {"infer/targets", NULL, NULL, set_up_targets, tear_down_targets, tests};
