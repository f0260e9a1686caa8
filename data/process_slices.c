#include "data/process_slices.h"

#include <stdlib.h>
#include <string.h>

#include "data/msa_cluster.h"
#include "data/msa_rows.h"

/* What the two sides of the comparison hold where nothing may agree. */
enum { OTHER_OF_ROWS = 254, OTHER_OF_CENTERS = 255 };

const ff_random_key *ff_process_draw(ff_random_key *key, const ff_process_options *options, int64_t slice, ff_draw which)
{
    *key = ff_sample_random(&options->key, slice, which);
    return options->random ? key : NULL;
}

/* ---- working memory, used by one slice after the other ---- */

typedef struct {
    const ff_slice_plan *plan;
    ff_msa_view rows; /* the whole MSA */
    int64_t start, length; /* residues of the crop that are there */
    uint8_t *packed_rows;  /* [rows, stride] */
    uint8_t *packed_centers; /* [num_seq, stride] */
    int64_t *order;          /* [rows] the MSA rows of the slice, then the extra ones */
    int32_t *nearest;        /* [rows] */
    float *profile, *mean;   /* [num_seq, num_res, 23], [num_seq, num_res] */
    ff_array_set centers;    /* the MSA rows of the slice, masked */
    /* arrays of the batch */
    ff_array *msa_feat, *msa_mask, *msa_row_mask, *bert_mask, *true_msa;
    ff_array *extra_msa, *extra_msa_mask, *extra_msa_row_mask, *extra_has_deletion, *extra_deletion_value;
} slices;

static void *bytes_for_rows(int64_t num_rows, int64_t bytes)
{
    const int64_t size = (num_rows > 0 ? num_rows : 1) * bytes;
    return aligned_alloc(FF_MSA_ROW_BYTES, (size_t)((size + FF_MSA_ROW_BYTES - 1) / FF_MSA_ROW_BYTES * FF_MSA_ROW_BYTES));
}

static ff_status allocate(ff_ctx *ctx, slices *w)
{
    const int64_t n = w->rows.num_res, stride = ff_msa_packed_stride(n), s = w->rows.num_seq,
                  centers = s < w->plan->num_seq ? s : w->plan->num_seq;
    w->packed_rows = bytes_for_rows(s, stride);
    w->packed_centers = bytes_for_rows(centers, stride);
    w->nearest = bytes_for_rows(s, sizeof *w->nearest);
    w->profile = bytes_for_rows(centers, n * FF_MSA_CODES * (int64_t)sizeof *w->profile);
    w->mean = bytes_for_rows(centers, n * (int64_t)sizeof *w->mean);
    w->order = bytes_for_rows(s, sizeof *w->order);
    if (w->packed_rows == NULL || w->packed_centers == NULL || w->nearest == NULL || w->profile == NULL || w->mean == NULL ||
        w->order == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory for an MSA of %lld rows", (long long)s);
    ff_msa_pack(w->packed_rows, w->rows.codes, NULL, s, n, OTHER_OF_ROWS);
    return FF_OK;
}

static void release(slices *w)
{
    free(w->packed_rows);
    free(w->packed_centers);
    free(w->order);
    free(w->nearest);
    free(w->profile);
    free(w->mean);
    ff_array_set_destroy(&w->centers);
}

static ff_status add_to_batch(ff_ctx *ctx, slices *w, ff_array_set *batch)
{
    const int64_t l = w->plan->num_slices, *length = w->plan->sizes.length, s = length[FF_AXIS_MSA], e = length[FF_AXIS_EXTRA],
                  n = length[FF_AXIS_RES];
    const struct {
        ff_array **array;
        const char *name;
        ff_array_type type;
        int ndim;
        int64_t shape[4];
    } made[] = {{&w->msa_feat, "msa_feat", FF_ARRAY_FLOAT32, 4, {l, s, n, FF_MSA_FEAT_WIDTH}},
                {&w->msa_mask, "msa_mask", FF_ARRAY_FLOAT32, 3, {l, s, n}},
                {&w->msa_row_mask, "msa_row_mask", FF_ARRAY_FLOAT32, 2, {l, s}},
                {&w->bert_mask, "bert_mask", FF_ARRAY_FLOAT32, 3, {l, s, n}},
                {&w->true_msa, "true_msa", FF_ARRAY_INT32, 3, {l, s, n}},
                {&w->extra_msa, "extra_msa", FF_ARRAY_INT32, 3, {l, e, n}},
                {&w->extra_msa_mask, "extra_msa_mask", FF_ARRAY_FLOAT32, 3, {l, e, n}},
                {&w->extra_msa_row_mask, "extra_msa_row_mask", FF_ARRAY_FLOAT32, 2, {l, e}},
                {&w->extra_has_deletion, "extra_has_deletion", FF_ARRAY_FLOAT32, 3, {l, e, n}},
                {&w->extra_deletion_value, "extra_deletion_value", FF_ARRAY_FLOAT32, 3, {l, e, n}}};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        if ((*made[i].array = ff_array_add(ctx, batch, made[i].name, made[i].type, made[i].ndim, made[i].shape)) == NULL)
            return ctx->status;
    return FF_OK;
}

/* ---- one slice ---- */

/* The rows of the slice, in w->order. @return how many there are */
static int64_t draw_rows(slices *w, int64_t index)
{
    const ff_process_options *o = w->plan->options;
    int64_t num_rows = w->rows.num_seq;
    ff_random_key key;
    for (int64_t s = 0; s < num_rows; s++)
        w->order[s] = s;
    if (o->training)
        num_rows = ff_msa_rows_delete_blocks(w->order, num_rows, &o->block_delete,
                                             ff_process_draw(&key, o, index, FF_DRAW_BLOCK_DELETE));
    ff_msa_rows_shuffle(w->order, num_rows, 1, ff_process_draw(&key, o, index, FF_DRAW_SAMPLE_MSA));
    return num_rows;
}

/* w->centers: msa (masked), true_msa, bert_mask and deletion_matrix of the first rows in order. */
static ff_status make_centers(ff_ctx *ctx, slices *w, int64_t index, int64_t num_centers)
{
    static const char *const gathered[] = {"msa", "deletion_matrix"};
    const ff_process_options *o = w->plan->options;
    ff_random_key key;
    for (int i = 0; i < 2; i++)
        if (ff_array_gather_rows(ctx, &w->centers, gathered[i], ff_array_find(w->plan->chain, gathered[i]), w->order,
                                 num_centers) == NULL)
            return ctx->status;
    return ff_transform_make_masked_msa(ctx, &w->centers, &o->masked_msa, ff_process_draw(&key, o, index, FF_DRAW_MASKED_MSA));
}

/* Profiles and mean deletions of the centres, of themselves and the rows in order after them. */
static ff_status cluster(ff_ctx *ctx, slices *w, int64_t num_rows, int64_t num_centers)
{
    const int64_t n = w->rows.num_res, stride = ff_msa_packed_stride(n), s = w->rows.num_seq;
    const ff_msa_view centers = {num_centers, n, ff_array_find(&w->centers, "msa")->i32, NULL,
                                 ff_array_find(&w->centers, "deletion_matrix")->f32};
    ff_msa_pack(w->packed_centers, centers.codes, NULL, num_centers, n, OTHER_OF_CENTERS);
    memset(w->nearest, -1, (size_t)s * sizeof *w->nearest); /* no extra row */
    for (int64_t k = num_centers; k < num_rows; k++)
        w->nearest[w->order[k]] = 0;
    for (int64_t from = 0; from < s;) { /* stretches of extra rows: centres and deleted rows lie between them */
        int64_t to = from;
        while (to < s && w->nearest[to] == 0)
            to++;
        if (to > from)
            ff_msa_nearest(w->nearest + from, w->packed_rows + from * stride, to - from, w->packed_centers, num_centers, stride);
        from = to + 1;
    }
    return ff_msa_summarize(ctx, w->profile, w->mean, &centers, &w->rows, w->nearest);
}

static void fill_ones(float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = 1;
}

static void write_centers(slices *w, int64_t index, int64_t num_centers)
{
    const int64_t n = w->rows.num_res, width = w->msa_mask->shape[2], num_seq = w->msa_mask->shape[1];
    const int32_t *msa = ff_array_find(&w->centers, "msa")->i32, *truth = ff_array_find(&w->centers, "true_msa")->i32;
    const float *masked = ff_array_find(&w->centers, "bert_mask")->f32;
    const float *deletions = ff_array_find(&w->centers, "deletion_matrix")->f32;
    for (int64_t s = 0; s < num_centers; s++) {
        const int64_t from = s * n + w->start, row = index * num_seq + s, to = row * width;
        ff_msa_feat_row(w->msa_feat->f32 + to * FF_MSA_FEAT_WIDTH, msa + from, deletions + from,
                        w->profile + from * FF_MSA_CODES, w->mean + from, w->length);
        memcpy(w->true_msa->i32 + to, truth + from, (size_t)w->length * sizeof *truth);
        memcpy(w->bert_mask->f32 + to, masked + from, (size_t)w->length * sizeof *masked);
        fill_ones(w->msa_mask->f32 + to, w->length);
        w->msa_row_mask->f32[row] = 1;
    }
}

static void write_extra(slices *w, int64_t index, int64_t num_rows, int64_t num_centers)
{
    const int64_t n = w->rows.num_res, width = w->extra_msa->shape[2], num_extra = w->extra_msa->shape[1];
    for (int64_t e = 0; e < num_extra && num_centers + e < num_rows; e++) {
        const int64_t from = w->order[num_centers + e] * n + w->start, row = index * num_extra + e, to = row * width;
        memcpy(w->extra_msa->i32 + to, w->rows.codes + from, (size_t)w->length * sizeof *w->rows.codes);
        ff_deletion_row(w->extra_has_deletion->f32 + to, w->extra_deletion_value->f32 + to, w->rows.deletions + from, w->length);
        fill_ones(w->extra_msa_mask->f32 + to, w->length);
        w->extra_msa_row_mask->f32[row] = 1;
    }
}

static ff_status make_slice(ff_ctx *ctx, slices *w, int64_t index)
{
    const int64_t num_rows = draw_rows(w, index),
                  num_centers = num_rows < w->plan->num_seq ? num_rows : w->plan->num_seq;
    FF_TRY(make_centers(ctx, w, index, num_centers));
    FF_TRY(cluster(ctx, w, num_rows, num_centers));
    write_centers(w, index, num_centers);
    write_extra(w, index, num_rows, num_centers);
    return FF_OK;
}

ff_status ff_process_slices(ff_ctx *ctx, ff_array_set *batch, const ff_slice_plan *plan)
{
    const ff_array *msa = ff_array_find(plan->chain, "msa");
    const int64_t num_res = msa->shape[1], crop = plan->sizes.length[FF_AXIS_RES];
    slices w = {.plan = plan, .start = plan->crop_start};
    ff_status status = FF_OK;
    w.rows = (ff_msa_view){msa->shape[0], num_res, msa->i32, NULL, ff_array_find(plan->chain, "deletion_matrix")->f32};
    ff_array_set_init(&w.centers);
    if (w.start >= num_res)
        return FF_FAIL(ctx, FF_ERR_ARG, "a crop of %lld residues from %lld does not lie in a chain of %lld", (long long)crop,
                       (long long)w.start, (long long)num_res);
    w.length = num_res - w.start < crop ? num_res - w.start : crop;
    FF_TRY_DONE(allocate(ctx, &w));
    FF_TRY_DONE(add_to_batch(ctx, &w, batch));
    if (ff_array_copy(ctx, &w.centers, "hhblits_profile", ff_array_find(plan->chain, "hhblits_profile")) == NULL)
        FF_TRY_DONE(ctx->status);
    for (int64_t i = 0; i < plan->num_slices; i++)
        FF_TRY_DONE(make_slice(ctx, &w, i));
done:
    release(&w);
    return status;
}
