/* Files of torch.save: what torch writes is read (tests/data/weights/types.pt, made by make_weight_fixtures.py), and a
 * pickle that wants more than to describe tensors is refused by the name of what it wants. */
#include <CUnit/CUnit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/pickle.h"
#include "io/torch_file.h"
#include "io/zip_file.h"
#include "tests/check.h"

#define TYPES "tests/data/weights/types.pt"

static ff_ctx ctx;
static char folder[64], path[128];
static ff_torch_file *file;

static void set_up(void)
{
    ff_context_init(&ctx);
    ctx.log.file = NULL;
    file = NULL;
    strcpy(folder, "/tmp/ff_torch_XXXXXX");
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/x.pt", folder);
}

static void tear_down(void)
{
    char command[96];
    ff_torch_close(file);
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

static int64_t find(const char *name)
{
    for (int64_t i = 0; i < ff_torch_count(file); i++)
        if (strcmp(ff_torch_get(file, i)->path, name) == 0)
            return i;
    return -1;
}

static void check_tensor(const char *name, int64_t size, const float *want)
{
    float got[24];
    char full[64];
    snprintf(full, sizeof full, "ema/params/%s", name);
    const int64_t i = find(full);
    CU_ASSERT_FATAL(i >= 0);
    CU_ASSERT_EQUAL(ff_torch_get(file, i)->size, size);
    memset(got, 0xff, sizeof got);
    CU_ASSERT_EQUAL(ff_torch_read_float(&ctx, file, i, got, size), FF_OK);
    if (memcmp(got, want, (size_t)size * sizeof *got) != 0)
        printf("    tensor %s is wrong\n", name);
    CU_ASSERT_EQUAL(memcmp(got, want, (size_t)size * sizeof *got), 0);
}

static void test_tensors_of_every_type_and_layout(void)
{
    static const char *const eighths[] = {"f2", "bf2", "f4", "f8", "transposed", "view", "parameter"};
    static const char *const wholes[] = {"i1", "i2", "i4", "i8"};
    static const float expanded[] = {1.5f, 1.5f, 1.5f, 2.5f, 2.5f, 2.5f}, scalar = -0.625f;
    float eighth[24], whole[24], count[24], odd[24];
    for (int k = 0; k < 24; k++) {
        eighth[k] = (float)(k - 5) / 8;
        whole[k] = (float)(k - 5);
        count[k] = (float)k;
        odd[k] = (float)(k % 2);
    }
    CU_ASSERT_EQUAL_FATAL(ff_torch_open(&ctx, &file, TYPES), FF_OK);
    CU_ASSERT_EQUAL(ff_torch_count(file), 17);
    for (size_t i = 0; i < sizeof eighths / sizeof *eighths; i++)
        check_tensor(eighths[i], 24, eighth);
    for (size_t i = 0; i < sizeof wholes / sizeof *wholes; i++)
        check_tensor(wholes[i], 24, whole);
    check_tensor("u1", 24, count);
    check_tensor("bool", 24, odd);
    check_tensor("expanded", 6, expanded);
    check_tensor("scalar", 1, &scalar);
    check_tensor("empty", 0, &scalar);
    CU_ASSERT_TRUE(find("3/x") >= 0);
    expect(ff_torch_read_float(&ctx, file, find("3/x"), eighth, 23), FF_ERR_FORMAT, "tensor 3/x",
           "24 numbers, wanted 23");
}

/* ---- archives with another pickle ---- */

static unsigned char *read_whole(ff_zip *zip, int64_t i)
{
    ff_zip_member *member;
    const size_t size = (size_t)ff_zip_size(zip, i);
    unsigned char *bytes = malloc(size + 1);
    CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
    CU_ASSERT_EQUAL_FATAL(ff_zip_begin(&ctx, zip, i, &member), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_zip_read(&ctx, member, bytes, size), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_zip_end(&ctx, member), FF_OK);
    return bytes;
}

/* types.pt with another pickle, and without member `without`. */
static void repack(const void *pickle, size_t size, const char *without)
{
    ff_zip *zip;
    ff_zip_writer *w;
    CU_ASSERT_EQUAL_FATAL(ff_zip_open(&ctx, &zip, TYPES, "a .pt file"), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_zip_create(&ctx, &w, path), FF_OK);
    for (int64_t i = 0; i < ff_zip_count(zip); i++) {
        const char *name = ff_zip_name(zip, i), *base = strrchr(name, '/') + 1;
        if (strcmp(base, without) == 0)
            continue;
        unsigned char *bytes = read_whole(zip, i);
        const bool changed = strcmp(base, "data.pkl") == 0;
        CU_ASSERT_EQUAL(
            ff_zip_add(&ctx, w, name, "", 0, changed ? pickle : bytes, changed ? size : (size_t)ff_zip_size(zip, i)),
            FF_OK);
        free(bytes);
    }
    ff_zip_close(zip);
    CU_ASSERT_EQUAL_FATAL(ff_zip_commit(&ctx, w), FF_OK);
}

static unsigned char *good_pickle(size_t *size)
{
    ff_zip *zip;
    unsigned char *bytes = NULL;
    CU_ASSERT_EQUAL_FATAL(ff_zip_open(&ctx, &zip, TYPES, "a .pt file"), FF_OK);
    for (int64_t i = 0; i < ff_zip_count(zip); i++) {
        if (strcmp(strrchr(ff_zip_name(zip, i), '/') + 1, "data.pkl") == 0) {
            bytes = read_whole(zip, i);
            *size = (size_t)ff_zip_size(zip, i);
        }
    }
    ff_zip_close(zip);
    CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
    return bytes;
}

static void test_a_pickle_that_wants_to_run_something_is_refused(void)
{
    static const struct {
        const char *pickle;
        size_t size;
        const char *word;
    } evil[] = {
#define CASE(text, word) {text, sizeof text - 1, word}
        CASE("\x80\x02"
             "cposix\nsystem\nX\x0c\0\0\0touch /tmp/a\x85R.",
             "Python's posix.system"),
        CASE("\x80\x02"
             "c__builtin__\neval\nX\x01\0\0\0"
             "1\x85R.",
             "Python's __builtin__.eval"),
        CASE("\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x02id\x85R.", "Python's os.system"),
        CASE("\x80\x04\x8c\x03o\ns\x8c\x02\x1b[\x93.", "Python's o?s.?["),
        CASE("\x80\x02"
             "cnumpy.core.multiarray\n_reconstruct\n.",
             "Python's numpy.core.multiarray._reconstruct"),
        CASE("\x80\x02"
             "ctorch\nload\n.",
             "Python's torch.load"),
        CASE("\x80\x02"
             "ctorch._utils\n_rebuild_tensor\n.",
             "Python's torch._utils._rebuild_tensor"),
        CASE("\x80\x02(X\x02\0\0\0idios\nsystem\n.", "opcode 0x69"), /* INST */
        CASE("\x80\x02(}o.", "opcode 0x6f"),                         /* OBJ */
        CASE("\x80\x02})\x81.", "opcode 0x81"),                      /* NEWOBJ */
        CASE("\x80\x04})}\x92.", "opcode 0x92"),                     /* NEWOBJ_EX */
        CASE("\x80\x02\x82\x01.", "opcode 0x82"),                    /* EXT1 */
        CASE("\x80\x02I1\n.", "opcode 0x49"),                        /* INT as text */
        CASE("\x80\x05\x97.", "opcode 0x97"),                        /* NEXT_BUFFER */
#undef CASE
    };
    for (size_t i = 0; i < sizeof evil / sizeof *evil; i++) {
        repack(evil[i].pickle, evil[i].size, "");
        expect(ff_torch_open(&ctx, &file, path), FF_ERR_UNSUPPORTED, path, evil[i].word);
        CU_ASSERT_PTR_NULL(file);
    }
}

static void test_a_broken_pickle_is_refused(void)
{
    static const struct {
        const char *pickle;
        size_t size;
        const char *word;
    } broken[] = {
#define CASE(text, word) {text, sizeof text - 1, word}
        CASE("", "does not begin"),
        CASE("hello", "does not begin"),
        CASE("\x80\x02", "cut short"),
        CASE("\x80\x02X\xff\xff\xff\x7f"
             "abc.",
             "cut short"),
        CASE("\x80\x02\x8d\xff\xff\xff\xff\xff\xff\xff\xff"
             "abc.",
             "cut short"),
        CASE("\x80\x02"
             "cposix",
             "cut short"),
        CASE("\x80\x02.", "stack is empty"),
        CASE("\x80\x02(.", "stack is empty"),
        CASE("\x80\x02NN.", "left over"),
        CASE("\x80\x02Nt.", "mark is missing"),
        CASE("\x80\x02N(Nu.", "takes none"),
        CASE("\x80\x02}(Nu.", "takes none"), /* a key without value */
        CASE("\x80\x02h\x07.", "memo"),
        CASE("\x80\x02Nr\xff\xff\xff\xff.", "memo"),
        CASE("\x80\x02N)R.", "no function"),
        CASE("\x80\x02N}"
             "b.",
             "attributes"),
        CASE("\x80\x02\x8a\x09"
             "123456789.",
             "64 bits"),
        CASE("\x80\x02"
             "ccollections\nOrderedDict\nN\x85R.",
             "begins with items"),
#undef CASE
    };
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        repack(broken[i].pickle, broken[i].size, "");
        expect(ff_torch_open(&ctx, &file, path), FF_ERR_FORMAT, path, broken[i].word);
    }
}

static void test_a_pickle_cut_or_changed_anywhere_does_no_harm(void)
{
    static const char *const allowed[] = {"torch._utils _rebuild_tensor_v2", "torch FloatStorage", NULL};
    size_t size;
    unsigned char *good = good_pickle(&size);
    for (size_t cut = 0; cut < size; cut++) {
        unsigned char *part = malloc(cut + 1); /* its own block, so that a checker of memory sees a step too far */
        CU_ASSERT_PTR_NOT_NULL_FATAL(part);
        memcpy(part, good, cut);
        ff_pickle *pickle;
        CU_ASSERT_NOT_EQUAL(ff_pickle_read(&ctx, &pickle, part, cut, allowed, "x"), FF_OK);
        CU_ASSERT_PTR_NULL(pickle);
        ff_context_clear(&ctx);
        free(part);
    }
    for (size_t at = 2; at < size; at += 3) {
        const unsigned char was = good[at];
        good[at] = (unsigned char)(was * 7 + 13 * at + 1);
        repack(good, size, "");
        if (ff_torch_open(&ctx, &file, path) == FF_OK) {
            float got[256];
            for (int64_t i = 0; i < ff_torch_count(file); i++)
                if (ff_torch_get(file, i)->size <= 256)
                    (void)ff_torch_read_float(&ctx, file, i, got, ff_torch_get(file, i)->size);
        }
        ff_torch_close(file);
        file = NULL;
        ff_context_clear(&ctx);
        good[at] = was;
    }
    free(good);
}

/* Replace the first `from` in the good pickle by `to`, of the same length. */
static void replace(const char *from, const char *to, size_t length)
{
    size_t size;
    unsigned char *bytes = good_pickle(&size), *found = memmem(bytes, size, from, length);
    CU_ASSERT_PTR_NOT_NULL_FATAL(found);
    memcpy(found, to, length);
    repack(bytes, size, "");
    free(bytes);
}

static void test_tensors_that_do_not_fit_their_storage_are_refused(void)
{
    /* storage of "f2": ('storage', HalfStorage, '0', 'cpu', 24); then offset 0, size (2, 3, 4), stride (12, 4, 1) */
    replace("K\x18tq", "K\x17tq", 4);
    expect(ff_torch_open(&ctx, &file, path), FF_ERR_FORMAT, "tensor ema/params/f2", "another length");
    replace("K\x00K\x02K\x03K\x04\x87", "K\x01K\x02K\x03K\x04\x87", 9);
    expect(ff_torch_open(&ctx, &file, path), FF_ERR_FORMAT, "tensor ema/params/f2", "beyond its storage");
    replace("K\x0cK\x04K\x01\x87", "K\x0dK\x04K\x01\x87", 7);
    expect(ff_torch_open(&ctx, &file, path), FF_ERR_FORMAT, "tensor ema/params/f2", "beyond its storage");
    size_t size;
    unsigned char *bytes = good_pickle(&size);
    repack(bytes, size, "0");
    free(bytes);
    expect(ff_torch_open(&ctx, &file, path), FF_ERR_FORMAT, "tensor ema/params/f2", "missing");
}

static void test_a_dictionary_in_itself_ends(void)
{
    static const char pickle[] = "\x80\x02}q\x00X\x01\0\0\0ah\x00s."; /* d = {}; d["a"] = d */
    repack(pickle, sizeof pickle - 1, "");
    expect(ff_torch_open(&ctx, &file, path), FF_ERR_UNSUPPORTED, path, "too deeply");
}

static void test_numbers_texts_and_attributes_are_data(void)
{
    static const char bytes[] = "\x80\x04\x95\x10\0\0\0\0\0\0\0"
                                "}(X\x01\0\0\0"
                                "aJ\xfe\xff\xff\xffX\x01\0\0\0bG\x3f\xf8\0\0\0\0\0\0"
                                "\x8c\x01"
                                "c]\x94(\x88\x89N\x8a\x02\x18\xfc"
                                "e\x8c\x01"
                                "dccollections\nOrderedDict\n)R"
                                "}X\x09\0\0\0_metadata}sb\x8c\x01"
                                "a"
                                "M\x00\x01u.";
    static const char *const none[] = {NULL};
    ff_pickle *pickle;
    CU_ASSERT_EQUAL_FATAL(ff_pickle_read(&ctx, &pickle, (const unsigned char *)bytes, sizeof bytes - 1, none, "x"),
                          FF_OK);
    const ff_pickle_value *root = ff_pickle_root(pickle), *list = ff_pickle_find(root, "c");
    CU_ASSERT_EQUAL(ff_pickle_find(root, "a")->integer, 256); /* the later of two */
    CU_ASSERT_EQUAL(root->items[1]->integer, -2);
    CU_ASSERT_EQUAL(ff_pickle_find(root, "b")->real, 1.5);
    CU_ASSERT_FATAL(list != NULL && list->type == FF_PICKLE_LIST && list->count == 4);
    CU_ASSERT_EQUAL(list->items[0]->integer, 1);
    CU_ASSERT_EQUAL(list->items[2]->type, FF_PICKLE_NONE);
    CU_ASSERT_EQUAL(list->items[3]->integer, -1000);
    CU_ASSERT_EQUAL(ff_pickle_find(root, "d")->type, FF_PICKLE_DICT);
    CU_ASSERT_EQUAL(ff_pickle_find(root, "d")->count, 0);
    CU_ASSERT_PTR_NULL(ff_pickle_find(root, "e"));
    ff_pickle_destroy(pickle);
}

static void test_other_archives_are_told_apart(void)
{
    expect(ff_torch_open(&ctx, &file, "tests/data/weights/types.npz"), FF_ERR_FORMAT, "types.npz",
           "not written by torch");
    expect(ff_torch_open(&ctx, &file, path), FF_ERR_IO, path, "No such file");
}

static CU_TestInfo tests[] = {
    {"tensors_of_every_type_and_layout", test_tensors_of_every_type_and_layout},
    {"a_pickle_that_wants_to_run_something_is_refused", test_a_pickle_that_wants_to_run_something_is_refused},
    {"a_broken_pickle_is_refused", test_a_broken_pickle_is_refused},
    {"a_pickle_cut_or_changed_anywhere_does_no_harm", test_a_pickle_cut_or_changed_anywhere_does_no_harm},
    {"tensors_that_do_not_fit_their_storage_are_refused", test_tensors_that_do_not_fit_their_storage_are_refused},
    {"a_dictionary_in_itself_ends", test_a_dictionary_in_itself_ends},
    {"numbers_texts_and_attributes_are_data", test_numbers_texts_and_attributes_are_data},
    {"other_archives_are_told_apart", test_other_archives_are_told_apart},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_io_torch = {"io/torch", NULL, NULL, set_up, tear_down, tests};
