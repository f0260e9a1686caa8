/* Feature transforms: hand-made cases, the smallest chains, and what random ones promise. */
#include <CUnit/CUnit.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/msa_cluster.h"
#include "data/transforms.h"
#include "structure/residue_constants.h"
#include "tests/check.h"

static ff_ctx ctx;
static ff_array_set set, other;

static void set_up(void)
{
    ff_context_init(&ctx);
    ctx.log.file = NULL;
    ff_array_set_init(&set);
    ff_array_set_init(&other);
}

static void tear_down(void)
{
    ff_array_set_destroy(&set);
    ff_array_set_destroy(&other);
}

static ff_array *add_ints(const char *name, int ndim, const int64_t *shape, const int32_t *values)
{
    ff_array *a = ff_array_add(&ctx, &set, name, FF_ARRAY_INT32, ndim, shape);
    CU_ASSERT_PTR_NOT_NULL_FATAL(a);
    if (values != NULL)
        memcpy(a->i32, values, (size_t)a->size * sizeof *values);
    return a;
}

static ff_array *add_floats(const char *name, int ndim, const int64_t *shape, const float *values)
{
    ff_array *a = ff_array_add(&ctx, &set, name, FF_ARRAY_FLOAT32, ndim, shape);
    CU_ASSERT_PTR_NOT_NULL_FATAL(a);
    for (int64_t i = 0; values != NULL && i < a->size; i++)
        a->f32[i] = values[i];
    return a;
}

static ff_array *ones(const char *name, int ndim, const int64_t *shape)
{
    ff_array *a = add_floats(name, ndim, shape, NULL);
    for (int64_t i = 0; i < a->size; i++)
        a->f32[i] = 1;
    return a;
}

static ff_array *get(const char *name)
{
    ff_array *a = ff_array_find(&set, name);
    CU_ASSERT_PTR_NOT_NULL_FATAL(a);
    return a;
}

static void check_ints(const char *name, const int32_t *want, int64_t n)
{
    const ff_array *a = get(name);
    CU_ASSERT_EQUAL_FATAL(a->size, n);
    for (int64_t i = 0; i < n; i++)
        CU_ASSERT_EQUAL(a->i32[i], want[i]);
}

#define OK(call) CU_ASSERT_EQUAL_FATAL((call), FF_OK)

/* A failure of that kind whose message has the text. */
static void check_refused(ff_status got, ff_status want, const char *text)
{
    CU_ASSERT_EQUAL(got, want);
    CU_ASSERT_PTR_NOT_NULL(strstr(ctx.message, text));
    ff_context_clear(&ctx);
}

/* ---- basic ---- */

static void test_hhblits_codes_become_alphafold_codes(void)
{
    /* A C D E ... of HHblits by their letters in AlphaFold's order */
    static const char hhblits[] = "ACDEFGHIKLMNPQRSTVWYX-", alphafold[] = "ARNDCQEGHILKMFPSTWYVX-";
    int32_t codes[22], want[22];
    for (int i = 0; i < 22; i++) {
        codes[i] = i;
        want[i] = (int32_t)(strchr(alphafold, hhblits[i]) - alphafold);
    }
    add_ints("msa", FF_DIMS(2, 11), codes);
    ff_array *profile = add_floats("some_profile", FF_DIMS(1, 22), NULL);
    profile->f32[1] = 0.5F;   /* C */
    profile->f32[21] = 0.25F; /* gap */
    OK(ff_transform_correct_msa_restypes(&ctx, &set));
    check_ints("msa", want, 22);
    CU_ASSERT_EQUAL(profile->f32[4], 0.5F);
    CU_ASSERT_EQUAL(profile->f32[21], 0.25F);
    CU_ASSERT_EQUAL(profile->f32[1], 0);
}

static void test_a_wrong_msa_code_is_named_with_its_place(void)
{
    const int32_t codes[6] = {0, 1, 2, 3, 22, 5}, negative[6] = {0, 1, 2, 3, 4, -1};
    add_ints("msa", FF_DIMS(2, 3), codes);
    check_refused(ff_transform_correct_msa_restypes(&ctx, &set), FF_ERR_FORMAT, "row 1, residue 1: code 22");
    add_ints("msa", FF_DIMS(2, 3), negative);
    check_refused(ff_transform_correct_msa_restypes(&ctx, &set), FF_ERR_FORMAT, "row 1, residue 2: code -1");
}

static void test_squeezing_leaves_a_chain_of_one_residue_whole(void)
{
    int32_t hot[21] = {0};
    const int32_t length[1] = {1};
    hot[19] = 1;
    add_ints("aatype", FF_DIMS(1, 21), hot);
    add_ints("msa", FF_DIMS(3, 1), NULL);
    add_ints("seq_length", FF_DIMS(1), length);
    add_floats("resolution", FF_DIMS(1), (const float[]){2.5F});
    OK(ff_transform_squeeze_features(&ctx, &set));
    check_ints("aatype", (const int32_t[]){19}, 1);
    CU_ASSERT_EQUAL(get("msa")->ndim, 2);
    CU_ASSERT_EQUAL(get("seq_length")->ndim, 0);
    CU_ASSERT_EQUAL(get("seq_length")->i32[0], 1);
    CU_ASSERT_EQUAL(get("resolution")->ndim, 0);
}

static void test_typing_takes_eight_bit_arrays(void)
{
    ff_array *msa = ff_array_add(&ctx, &set, "msa", FF_ARRAY_INT8, FF_DIMS(1, 2));
    ff_array *deletions = ff_array_add(&ctx, &set, "deletion_matrix_int", FF_ARRAY_INT8, FF_DIMS(1, 2));
    CU_ASSERT_FATAL(msa != NULL && deletions != NULL);
    msa->i8[1] = 21;
    deletions->i8[0] = (int8_t)200; /* a count of 200 in a byte */
    OK(ff_transform_type_features(&ctx, &set));
    check_ints("msa", (const int32_t[]){0, 21}, 2);
    CU_ASSERT_EQUAL(get("deletion_matrix")->type, FF_ARRAY_FLOAT32);
    CU_ASSERT_EQUAL(get("deletion_matrix")->f32[0], 200);
    CU_ASSERT_PTR_NULL(ff_array_find(&set, "deletion_matrix_int"));
}

static void test_profile_is_the_mean_of_all_rows(void)
{
    add_ints("msa", FF_DIMS(4, 2), (const int32_t[]){0, 21, 0, 21, 1, 21, 20, 5});
    OK(ff_transform_make_hhblits_profile(&ctx, &set));
    const float *p = get("hhblits_profile")->f32;
    CU_ASSERT_EQUAL(p[0], 0.5F);
    CU_ASSERT_EQUAL(p[1], 0.25F);
    CU_ASSERT_EQUAL(p[20], 0.25F);
    CU_ASSERT_EQUAL(p[22 + 21], 0.75F);
    CU_ASSERT_EQUAL(p[22 + 5], 0.25F);
}

static void test_pseudo_beta_is_cb_and_for_glycine_ca(void)
{
    const int32_t aatype[3] = {0, 7, 20}; /* A, G, X */
    add_ints("template_aatype", FF_DIMS(1, 3), aatype);
    ff_array *x = add_floats("template_all_atom_positions", FF_DIMS(1, 3, 37, 3), NULL);
    ff_array *mask = add_floats("template_all_atom_masks", FF_DIMS(1, 3, 37), NULL);
    for (int64_t i = 0; i < x->size; i++)
        x->f32[i] = (float)i;
    mask->f32[37 + FF_ATOM_CA] = 1;
    OK(ff_transform_make_pseudo_beta(&ctx, &set, "template_"));
    CU_ASSERT_EQUAL(get("template_pseudo_beta")->f32[0], 3.0F * FF_ATOM_CB);
    CU_ASSERT_EQUAL(get("template_pseudo_beta")->f32[3 + 2], 3.0F * (37 + FF_ATOM_CA) + 2);
    CU_ASSERT_EQUAL(get("template_pseudo_beta")->f32[6], 3.0F * (74 + FF_ATOM_CB));
    FF_CHECK_CLOSE(get("template_pseudo_beta_mask")->f32, ((const float[]){0, 1, 0}), 3, 0, 0);
}

static void test_atoms_of_glycine_tryptophan_and_x(void)
{
    add_ints("aatype", FF_DIMS(3), (const int32_t[]){7, 17, 20});
    OK(ff_transform_make_atom14_masks(&ctx, &set));
    float sum[3] = {0}, sum37[3] = {0};
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 14; k++)
            sum[i] += get("atom14_atom_exists")->f32[i * 14 + k];
        for (int k = 0; k < 37; k++)
            sum37[i] += get("atom37_atom_exists")->f32[i * 37 + k];
    }
    FF_CHECK_CLOSE(sum, ((const float[]){4, 14, 0}), 3, 0, 0);
    FF_CHECK_CLOSE(sum37, ((const float[]){4, 14, 0}), 3, 0, 0);
    add_ints("aatype", FF_DIMS(1), (const int32_t[]){21});
    check_refused(ff_transform_make_atom14_masks(&ctx, &set), FF_ERR_FORMAT, "residue 0 is 21");
}

/* ---- rows ---- */

/* num_seq rows of two residues; deletions of a row hold its number. */
static void numbered_rows(int64_t num_seq)
{
    add_ints("msa", FF_DIMS(num_seq, 2), NULL);
    ff_array *d = add_floats("deletion_matrix", FF_DIMS(num_seq, 2), NULL);
    for (int64_t i = 0; i < d->size; i++)
        d->f32[i] = (float)(i / 2);
    ones("msa_mask", FF_DIMS(num_seq, 2));
    ones("msa_row_mask", FF_DIMS(num_seq));
}

static void test_sampling_without_a_key_takes_the_first_rows(void)
{
    numbered_rows(5);
    OK(ff_transform_sample_msa(&ctx, &set, &set, 3, NULL));
    FF_CHECK_CLOSE(get("deletion_matrix")->f32, ((const float[]){0, 0, 1, 1, 2, 2}), 6, 0, 0);
    FF_CHECK_CLOSE(get("extra_deletion_matrix")->f32, ((const float[]){3, 3, 4, 4}), 4, 0, 0);
    CU_ASSERT_EQUAL(get("extra_msa_row_mask")->shape[0], 2);
}

static void test_sampling_one_row_leaves_no_extra_rows(void)
{
    const ff_random_key key = {1, 2};
    numbered_rows(1);
    OK(ff_transform_sample_msa(&ctx, &set, &set, 8, &key));
    CU_ASSERT_EQUAL(get("msa")->shape[0], 1);
    CU_ASSERT_EQUAL(get("extra_msa")->shape[0], 0);
    CU_ASSERT_EQUAL(get("extra_msa")->shape[1], 2);
    OK(ff_transform_nearest_neighbor_clusters(&ctx, &set));
    OK(ff_transform_summarize_clusters(&ctx, &set));
    OK(ff_transform_crop_extra_msa(&ctx, &set, 4, &key));
    CU_ASSERT_EQUAL(get("extra_msa_mask")->shape[0], 0);
}

static void test_sampling_into_another_set_equals_sampling_in_place(void)
{
    const ff_random_key key = {7, 9};
    numbered_rows(20);
    OK(ff_transform_sample_msa(&ctx, &other, &set, 6, &key));
    CU_ASSERT_EQUAL(get("msa")->shape[0], 20); /* untouched */
    OK(ff_transform_sample_msa(&ctx, &set, &set, 6, &key));
    CU_ASSERT_EQUAL(other.count, 8);
    for (int64_t i = 0; i < other.count; i++) {
        const ff_array *a = get(other.items[i]->name);
        CU_ASSERT_EQUAL_FATAL(a->size, other.items[i]->size);
        CU_ASSERT_EQUAL(memcmp(a->data, other.items[i]->data, (size_t)a->size * 4), 0);
    }
}

static void test_arrays_of_other_lengths_are_refused(void)
{
    numbered_rows(5);
    add_floats("bert_mask", FF_DIMS(4, 2), NULL);
    check_refused(ff_transform_sample_msa(&ctx, &other, &set, 3, NULL), FF_ERR_FORMAT, "bert_mask has 4 rows of numbers, msa 5");
    ff_array_remove(&set, "bert_mask");
    OK(ff_transform_sample_msa(&ctx, &set, &set, 3, NULL));
    ones("extra_msa_row_mask", FF_DIMS(7));
    check_refused(ff_transform_crop_extra_msa(&ctx, &set, 1, NULL), FF_ERR_FORMAT, "extra_msa_row_mask has 7");
    ones("extra_msa_mask", FF_DIMS(2, 3));
    check_refused(ff_transform_nearest_neighbor_clusters(&ctx, &set), FF_ERR_FORMAT, "extra_msa_mask");
}

static void test_block_deletion_keeps_the_query_and_the_order(void)
{
    const ff_block_delete_options o = {0.3, 5, false};
    int64_t deleted = 0;
    numbered_rows(40);
    for (uint64_t k = 0; k < 50; k++) {
        const ff_random_key key = {k, 0};
        OK(ff_transform_block_delete_msa(&ctx, &other, &set, &o, &key));
        const ff_array *d = ff_array_find(&other, "deletion_matrix");
        CU_ASSERT_EQUAL(d->f32[0], 0);
        for (int64_t s = 1; s < d->shape[0]; s++)
            CU_ASSERT(d->f32[2 * s] > d->f32[2 * s - 2]);
        CU_ASSERT(d->shape[0] < 40);
        deleted += 40 - d->shape[0];
    }
    CU_ASSERT(deleted > 50 * 12);
    const ff_block_delete_options one = {0.3, 1, false};
    int64_t fewest = 40;
    for (uint64_t k = 0; k < 50; k++) { /* a block is of 12 rows, or ends with the MSA */
        const ff_random_key key = {k, 0};
        OK(ff_transform_block_delete_msa(&ctx, &other, &set, &one, &key));
        const int64_t left = ff_array_find(&other, "msa")->shape[0];
        fewest = left < fewest ? left : fewest;
    }
    CU_ASSERT_EQUAL(fewest, 28);
    OK(ff_transform_block_delete_msa(&ctx, &other, &set, &o, NULL));
    CU_ASSERT_EQUAL(ff_array_find(&other, "msa")->shape[0], 40);
    ff_array_set_destroy(&other);
    numbered_rows(1); /* nothing but the query */
    const ff_random_key key = {3, 0};
    OK(ff_transform_block_delete_msa(&ctx, &other, &set, &o, &key));
    CU_ASSERT_EQUAL(ff_array_find(&other, "msa")->shape[0], 1);
}

static void test_a_random_extra_crop_is_a_choice_of_the_rows(void)
{
    const ff_random_key key = {5, 5};
    numbered_rows(30);
    OK(ff_transform_sample_msa(&ctx, &set, &set, 10, NULL));
    OK(ff_transform_crop_extra_msa(&ctx, &set, 8, &key));
    const ff_array *d = get("extra_deletion_matrix");
    CU_ASSERT_EQUAL_FATAL(d->shape[0], 8);
    bool seen[30] = {false}, first = true;
    for (int i = 0; i < 8; i++) {
        const int row = (int)d->f32[2 * i];
        CU_ASSERT(row >= 10 && row < 30 && !seen[row]);
        seen[row] = true;
        first = first && row == 10 + i;
    }
    CU_ASSERT_FALSE(first);
    CU_ASSERT_EQUAL(get("extra_msa")->shape[0], 8);
    CU_ASSERT_EQUAL(get("extra_msa_row_mask")->size, 8);
}

/* ---- masking ---- */

static void test_masking_everything_and_nothing(void)
{
    const int32_t codes[6] = {3, 21, 20, 0, 5, 21};
    const ff_random_key key = {11, 0};
    const ff_masked_msa_options all = {1, 0, 0, 0}, same = {1, 0, 0, 1}, none = {0, 0.1, 0.1, 0.1};
    ones("hhblits_profile", FF_DIMS(3, 22));
    add_ints("msa", FF_DIMS(2, 3), codes);
    OK(ff_transform_make_masked_msa(&ctx, &set, &all, &key));
    check_ints("msa", (const int32_t[]){22, 22, 22, 22, 22, 22}, 6);
    check_ints("true_msa", codes, 6);
    FF_CHECK_CLOSE(get("bert_mask")->f32, ((const float[]){1, 1, 1, 1, 1, 1}), 6, 0, 0);
    add_ints("msa", FF_DIMS(2, 3), codes);
    OK(ff_transform_make_masked_msa(&ctx, &set, &same, &key));
    check_ints("msa", codes, 6);
    FF_CHECK_CLOSE(get("bert_mask")->f32, ((const float[]){1, 1, 1, 1, 1, 1}), 6, 0, 0);
    OK(ff_transform_make_masked_msa(&ctx, &set, &none, &key));
    check_ints("msa", codes, 6);
    FF_CHECK_CLOSE(get("bert_mask")->f32, ((const float[]){0, 0, 0, 0, 0, 0}), 6, 0, 0);
}

static void test_replacement_by_profile_gives_codes_of_the_column(void)
{
    enum { SEQ = 400 };
    const ff_random_key key = {2, 0};
    const ff_masked_msa_options profile = {1, 0, 1, 0};
    ff_array *p = add_floats("hhblits_profile", FF_DIMS(2, 22), NULL);
    p->f32[4] = 1;
    p->f32[22 + 7] = 0.25F;
    p->f32[22 + 21] = 0.75F;
    add_ints("msa", FF_DIMS(SEQ, 2), NULL);
    OK(ff_transform_make_masked_msa(&ctx, &set, &profile, &key));
    int gaps = 0;
    for (int s = 0; s < SEQ; s++) {
        const int32_t *row = get("msa")->i32 + 2 * s;
        CU_ASSERT_EQUAL(row[0], 4);
        CU_ASSERT(row[1] == 7 || row[1] == 21);
        gaps += row[1] == 21;
    }
    CU_ASSERT(abs(gaps - 300) < 45); /* five standard errors */
}

/* ---- clusters ---- */

static void test_nearest_ignores_gaps_masks_and_takes_the_lowest_of_equals(void)
{
    const int32_t msa[12] = {21, 21, 21, 22,  /* agrees with nothing */
                             0,  1,  2,  3,   /* */
                             0,  1,  2,  20}; /* */
    const int32_t extra[20] = {21, 21, 21, 21, /* no agreement at all: row 0 */
                               0,  1,  21, 21, /* a tie of rows 1 and 2 */
                               9,  9,  9,  20, /* X counts: row 2 */
                               22, 22, 22, 3,  /* row 1 */
                               0,  1,  2,  3}; /* masked below at the last place: a tie */
    add_ints("msa", FF_DIMS(3, 4), msa);
    add_ints("extra_msa", FF_DIMS(5, 4), extra);
    ones("msa_mask", FF_DIMS(3, 4));
    ones("extra_msa_mask", FF_DIMS(5, 4))->f32[19] = 0;
    OK(ff_transform_nearest_neighbor_clusters(&ctx, &set));
    check_ints("extra_cluster_assignment", (const int32_t[]){0, 1, 2, 1, 1}, 5);
    get("msa_mask")->f32[4] = 0; /* row 1 loses its first place */
    OK(ff_transform_nearest_neighbor_clusters(&ctx, &set));
    check_ints("extra_cluster_assignment", (const int32_t[]){0, 2, 2, 1, 2}, 5);
}

static void test_fast_counting_equals_plain_counting(void)
{
    static const int64_t lengths[] = {1, 31, 63, 64, 65, 500, 8160, 8161, 20000};
    const ff_random_key key = {4, 4};
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
        enum { ROWS = 11, CENTERS = 7 };
        const int64_t n = lengths[k], stride = ff_msa_packed_stride(n);
        int32_t *codes = malloc((size_t)((ROWS + CENTERS) * n) * sizeof *codes);
        uint8_t *packed = malloc((size_t)((ROWS + CENTERS) * stride));
        int32_t fast[ROWS], plain[ROWS];
        for (int64_t i = 0; i < (ROWS + CENTERS) * n; i++) /* nearly all equal, so that byte counters fill */
            codes[i] = ff_random_below(key, (uint64_t)i, 50) == 0 ? (int32_t)ff_random_below(key, (uint64_t)i + 1, 23) : 4;
        ff_msa_pack(packed, codes, NULL, ROWS, n, 254);
        ff_msa_pack(packed + ROWS * stride, codes + ROWS * n, NULL, CENTERS, n, 255);
        ff_msa_nearest(fast, packed, ROWS, packed + ROWS * stride, CENTERS, stride);
        ff_msa_nearest_plain(plain, packed, ROWS, packed + ROWS * stride, CENTERS, stride);
        CU_ASSERT_EQUAL(memcmp(fast, plain, sizeof fast), 0);
        free(codes);
        free(packed);
    }
}

static void test_summary_is_the_mean_of_a_row_and_its_members(void)
{
    add_ints("msa", FF_DIMS(2, 1), (const int32_t[]){0, 22});
    add_ints("extra_msa", FF_DIMS(3, 1), (const int32_t[]){0, 1, 5});
    add_floats("deletion_matrix", FF_DIMS(2, 1), (const float[]){4, 0});
    add_floats("extra_deletion_matrix", FF_DIMS(3, 1), (const float[]){2, 3, 100});
    ones("msa_mask", FF_DIMS(2, 1));
    add_floats("extra_msa_mask", FF_DIMS(3, 1), (const float[]){1, 1, 0});
    add_ints("extra_cluster_assignment", FF_DIMS(3), (const int32_t[]){0, 0, 1});
    OK(ff_transform_summarize_clusters(&ctx, &set));
    const float *p = get("cluster_profile")->f32;
    CU_ASSERT_DOUBLE_EQUAL(p[0], 2 / 3.0, 1e-6);
    CU_ASSERT_DOUBLE_EQUAL(p[1], 1 / 3.0, 1e-6);
    CU_ASSERT_DOUBLE_EQUAL(p[23 + 22], 1, 2e-6); /* the masked member counts nothing */
    CU_ASSERT_EQUAL(p[23 + 5], 0);
    FF_CHECK_CLOSE(get("cluster_deletion_mean")->f32, ((const float[]){3, 0}), 2, 1e-6, 0);
    get("extra_cluster_assignment")->i32[2] = 2;
    check_refused(ff_transform_summarize_clusters(&ctx, &set), FF_ERR_FORMAT, "row 2 is 2");
}

/* ---- features ---- */

static void test_msa_features_by_hand(void)
{
    add_ints("aatype", FF_DIMS(1), (const int32_t[]){20});
    add_ints("between_segment_residues", FF_DIMS(1), (const int32_t[]){5});
    add_ints("msa", FF_DIMS(1, 1), (const int32_t[]){22});
    add_floats("deletion_matrix", FF_DIMS(1, 1), (const float[]){3});
    add_floats("cluster_profile", FF_DIMS(1, 1, 23), NULL)->f32[6] = 0.5F;
    add_floats("cluster_deletion_mean", FF_DIMS(1, 1), (const float[]){0.5F});
    add_floats("extra_deletion_matrix", FF_DIMS(2, 1), (const float[]){0, 6});
    add_ints("extra_msa", FF_DIMS(2, 1), (const int32_t[]){21, 3});
    OK(ff_transform_make_msa_feat(&ctx, &set));
    OK(ff_transform_make_extra_msa_feat(&ctx, &set));
    float want[49] = {0}, target[22] = {0}, extra[50] = {0};
    want[22] = want[23] = 1;
    want[24] = 0.5F; /* atan(1) 2 / pi */
    want[25 + 6] = 0.5F;
    want[48] = (float)(atan(0.5 / 3) * 2 / 3.14159265358979323846);
    target[0] = target[21] = 1;
    extra[21] = 1;
    extra[25 + 3] = extra[25 + 23] = 1;
    extra[25 + 24] = (float)(atan(2) * 2 / 3.14159265358979323846);
    FF_CHECK_CLOSE(get("msa_feat")->f32, want, 49, 1e-6, 0);
    FF_CHECK_CLOSE(get("target_feat")->f32, target, 22, 0, 0);
    FF_CHECK_CLOSE(get("extra_msa_feat")->f32, extra, 50, 1e-6, 0);
}

/* ---- sizes ---- */

static void test_crop_pad_and_stack(void)
{
    const ff_feature_sizes sizes = {{-1, 4, 3, 2, 2}};
    add_floats("seq_mask", FF_DIMS(5), (const float[]){1, 1, 1, 1, 1});
    add_ints("seq_length", 0, NULL, (const int32_t[]){5});
    add_ints("true_msa", FF_DIMS(2, 5), (const int32_t[]){0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
    add_floats("extra_msa_row_mask", FF_DIMS(0), NULL);
    add_ints("extra_msa", FF_DIMS(0, 5), NULL);
    add_floats("template_mask", FF_DIMS(1), (const float[]){1});
    OK(ff_transform_crop(&ctx, &set, 3, 1));
    CU_ASSERT_EQUAL(get("seq_length")->i32[0], 3);
    check_ints("true_msa", (const int32_t[]){1, 2, 3, 6, 7, 8}, 6);
    OK(ff_transform_stack_slice(&ctx, &other, &set, 0, 2, &sizes));
    get("true_msa")->i32[0] = 21;
    OK(ff_transform_stack_slice(&ctx, &other, &set, 1, 2, &sizes));
    OK(ff_transform_make_fixed_size(&ctx, &set, &sizes));
    check_ints("true_msa", (const int32_t[]){21, 2, 3, 0, 6, 7, 8, 0, 0, 0, 0, 0}, 12);
    FF_CHECK_CLOSE(get("seq_mask")->f32, ((const float[]){1, 1, 1, 0}), 4, 0, 0);
    FF_CHECK_CLOSE(get("template_mask")->f32, ((const float[]){1, 0}), 2, 0, 0);
    CU_ASSERT_EQUAL(get("extra_msa")->shape[0], 2);
    const ff_array *stacked = ff_array_find(&other, "true_msa");
    CU_ASSERT_EQUAL_FATAL(stacked->size, 24);
    CU_ASSERT_EQUAL(stacked->i32[0], 1);
    CU_ASSERT_EQUAL(memcmp(stacked->i32 + 12, get("true_msa")->i32, 12 * sizeof(int32_t)), 0);
    CU_ASSERT_EQUAL(ff_array_find(&other, "seq_length")->i32[1], 3);
}

static void test_more_than_the_fixed_size_is_refused(void)
{
    const ff_feature_sizes sizes = {{-1, 4, 1, 2, 2}};
    add_ints("true_msa", FF_DIMS(2, 3), NULL);
    check_refused(ff_transform_make_fixed_size(&ctx, &set, &sizes), FF_ERR_SHAPE, "true_msa has length 2, more than the fixed size 1");
}

static void test_a_crop_outside_the_chain_is_refused(void)
{
    ones("seq_mask", FF_DIMS(5));
    check_refused(ff_transform_crop(&ctx, &set, 3, 5), FF_ERR_ARG, "chain of 5");
    ones("target_feat", FF_DIMS(4, 22));
    check_refused(ff_transform_crop(&ctx, &set, 3, 1), FF_ERR_SHAPE, "target_feat has 4 residues");
}

static void test_crop_starts_lie_in_the_chain(void)
{
    int64_t starts[3] = {0};
    for (uint64_t k = 0; k < 2000; k++) {
        const ff_random_key key = {k, 1};
        CU_ASSERT_EQUAL(ff_transform_draw_crop_start(10, 10, FF_CROP_ALPHAFOLD, true, &key), 0);
        CU_ASSERT_EQUAL(ff_transform_draw_crop_start(1, 10, FF_CROP_OPENFOLD, false, &key), 0);
        const int64_t start = ff_transform_draw_crop_start(12, 10, FF_CROP_OPENFOLD, false, &key);
        CU_ASSERT_FATAL(start >= 0 && start <= 2);
        starts[start]++;
    }
    /* 11/18, 5/18, 2/18, within five standard errors */
    CU_ASSERT(llabs(starts[0] - 1222) < 110 && llabs(starts[1] - 556) < 101 && llabs(starts[2] - 222) < 71);
}

static void test_templates_are_sampled_without_repeats(void)
{
    int64_t counts[5] = {0};
    for (uint64_t k = 0; k < 20000; k++) {
        const ff_random_key key = {k, 3};
        add_ints("template_aatype", FF_DIMS(6, 1), (const int32_t[]){0, 1, 2, 3, 4, 5});
        ones("template_mask", FF_DIMS(6));
        OK(ff_transform_sample_templates(&ctx, &set, 4, &key));
        const ff_array *a = get("template_aatype");
        CU_ASSERT_FATAL(a->shape[0] <= 4);
        CU_ASSERT_EQUAL(get("template_mask")->size, a->shape[0]);
        counts[a->shape[0]]++;
        for (int64_t i = 0; i < a->size; i++)
            for (int64_t j = 0; j < i; j++)
                CU_ASSERT_NOT_EQUAL(a->i32[i], a->i32[j]);
    }
    for (int i = 0; i < 4; i++) /* u = 0..6 uniformly; 4, 5 and 6 give four */
        CU_ASSERT(llabs(counts[i] - 2857) < 248); /* five standard errors */
    CU_ASSERT(llabs(counts[4] - 8571) < 350);
}

static void test_selection_keeps_what_the_model_reads(void)
{
    add_ints("aatype", FF_DIMS(1), NULL);
    add_ints("msa", FF_DIMS(1, 1), NULL);
    add_ints("num_alignments", 0, NULL, NULL);
    add_floats("use_clamped_fape", 0, NULL, NULL);
    OK(ff_transform_select_features(&ctx, &set));
    CU_ASSERT_EQUAL(set.count, 2);
    CU_ASSERT_PTR_NOT_NULL(ff_array_find(&set, "aatype"));
    CU_ASSERT_PTR_NOT_NULL(ff_array_find(&set, "use_clamped_fape"));
}

static void test_every_feature_is_found_by_name(void)
{
    static const char *const names[] = {"aatype", "use_clamped_fape", "msa_feat", "extra_msa", "all_atom_positions", "true_msa",
                                        "atom14_gt_positions", "rigidgroups_gt_frames", "template_sum_probs", "seq_length"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        CU_ASSERT_PTR_NOT_NULL(ff_feature_find(names[i]));
    CU_ASSERT_PTR_NULL(ff_feature_find("msa"));
    CU_ASSERT_EQUAL(ff_feature_find("msa_feat")->axes[1], FF_AXIS_RES);
}

static void test_keys_differ_by_sample_epoch_slice_and_operation(void)
{
    uint64_t streams[4 * 4 * 4 * FF_DRAW_COUNT];
    int n = 0;
    for (uint64_t epoch = 0; epoch < 4; epoch++)
        for (uint64_t sample = 0; sample < 4; sample++)
            for (int64_t slice = 0; slice < 4; slice++)
                for (int d = 0; d < FF_DRAW_COUNT; d++)
                    streams[n++] = ff_sample_random(&(ff_sample_key){1, epoch, sample}, slice, (ff_draw)d).stream;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++)
            CU_ASSERT_NOT_EQUAL(streams[i], streams[j]);
}

static CU_TestInfo tests[] = {
    {"hhblits_codes_become_alphafold_codes", test_hhblits_codes_become_alphafold_codes},
    {"a_wrong_msa_code_is_named_with_its_place", test_a_wrong_msa_code_is_named_with_its_place},
    {"squeezing_leaves_a_chain_of_one_residue_whole", test_squeezing_leaves_a_chain_of_one_residue_whole},
    {"typing_takes_eight_bit_arrays", test_typing_takes_eight_bit_arrays},
    {"profile_is_the_mean_of_all_rows", test_profile_is_the_mean_of_all_rows},
    {"pseudo_beta_is_cb_and_for_glycine_ca", test_pseudo_beta_is_cb_and_for_glycine_ca},
    {"atoms_of_glycine_tryptophan_and_x", test_atoms_of_glycine_tryptophan_and_x},
    {"sampling_without_a_key_takes_the_first_rows", test_sampling_without_a_key_takes_the_first_rows},
    {"sampling_one_row_leaves_no_extra_rows", test_sampling_one_row_leaves_no_extra_rows},
    {"sampling_into_another_set_equals_sampling_in_place", test_sampling_into_another_set_equals_sampling_in_place},
    {"arrays_of_other_lengths_are_refused", test_arrays_of_other_lengths_are_refused},
    {"block_deletion_keeps_the_query_and_the_order", test_block_deletion_keeps_the_query_and_the_order},
    {"a_random_extra_crop_is_a_choice_of_the_rows", test_a_random_extra_crop_is_a_choice_of_the_rows},
    {"masking_everything_and_nothing", test_masking_everything_and_nothing},
    {"replacement_by_profile_gives_codes_of_the_column", test_replacement_by_profile_gives_codes_of_the_column},
    {"nearest_ignores_gaps_masks_and_takes_the_lowest_of_equals",
     test_nearest_ignores_gaps_masks_and_takes_the_lowest_of_equals},
    {"fast_counting_equals_plain_counting", test_fast_counting_equals_plain_counting},
    {"summary_is_the_mean_of_a_row_and_its_members", test_summary_is_the_mean_of_a_row_and_its_members},
    {"msa_features_by_hand", test_msa_features_by_hand},
    {"crop_pad_and_stack", test_crop_pad_and_stack},
    {"more_than_the_fixed_size_is_refused", test_more_than_the_fixed_size_is_refused},
    {"a_crop_outside_the_chain_is_refused", test_a_crop_outside_the_chain_is_refused},
    {"crop_starts_lie_in_the_chain", test_crop_starts_lie_in_the_chain},
    {"templates_are_sampled_without_repeats", test_templates_are_sampled_without_repeats},
    {"selection_keeps_what_the_model_reads", test_selection_keeps_what_the_model_reads},
    {"every_feature_is_found_by_name", test_every_feature_is_found_by_name},
    {"keys_differ_by_sample_epoch_slice_and_operation", test_keys_differ_by_sample_epoch_slice_and_operation},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_data_transforms = {"data/transforms", NULL, NULL, set_up, tear_down, tests};
