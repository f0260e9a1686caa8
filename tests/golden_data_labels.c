/* golden_data_labels.c - family data_labels: supervised features of real chains, against AlphaFold's (jax/) and OpenFold's (of/). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "structure/labels.h"
#include "tests/golden_data.h"

static const double TOLERANCE = 1e-4; /* golden/DATA.md: frames and torsions */

typedef struct {
    golden_data *g;
    ff_array_set in, got;
    const int32_t *aatype;
    const float *positions, *mask;
    int64_t n;
} chain;

static float *add(chain *c, const char *name, int ndim, const int64_t *shape)
{
    ff_array *a = c->g->ctx->status == FF_OK ? ff_array_add(c->g->ctx, &c->got, name, FF_ARRAY_FLOAT32, ndim, shape) : NULL;
    return a == NULL ? NULL : a->f32;
}

static int32_t *add_integers(chain *c, const char *name, int ndim, const int64_t *shape)
{
    ff_array *a = c->g->ctx->status == FF_OK ? ff_array_add(c->g->ctx, &c->got, name, FF_ARRAY_INT32, ndim, shape) : NULL;
    return a == NULL ? NULL : a->i32;
}

/* Undefined entries (mask 0) are what rounding makes of them: they take the reference's values. */
static void take_undefined(chain *c, const char *group, const char *name, const float *mask, int64_t per_mask)
{
    char path[256];
    ff_array_set want;
    ff_array_set_init(&want);
    snprintf(path, sizeof path, "/%s", group);
    if (ff_array_set_read(c->g->ctx, &want, c->g->file, path) == FF_OK) {
        const ff_array *w = ff_array_find(&want, name), *a = ff_array_find(&c->got, name);
        for (int64_t i = 0; w != NULL && a != NULL && w->size == a->size && i < a->size; i++)
            if (mask[i / per_mask] == 0.0f)
                a->f32[i] = w->f32[i];
    }
    ff_array_set_destroy(&want);
}

/* 12 numbers of a rigid as a 4x4 matrix. */
static void to_4x4(float *out, const float *rigid, int64_t count)
{
    for (int64_t k = 0; k < count; k++)
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++)
                out[16 * k + 4 * i + j] = i == 3 ? (float)(j == 3) : j == 3 ? rigid[12 * k + 9 + i] : rigid[12 * k + 3 * i + j];
}

static void frames(chain *c, bool matrices)
{
    const int64_t n = c->n;
    float *rigid = malloc((size_t)(n * 8 * 12 * 2 + 1) * sizeof *rigid);
    float *gt = add(c, "rigidgroups_gt_frames", matrices ? 4 : 3, matrices ? (int64_t[]){n, 8, 4, 4} : (int64_t[]){n, 8, 12});
    float *alt =
        add(c, "rigidgroups_alt_gt_frames", matrices ? 4 : 3, matrices ? (int64_t[]){n, 8, 4, 4} : (int64_t[]){n, 8, 12});
    ff_frame_labels f = {rigid, rigid + n * 96, add(c, "rigidgroups_gt_exists", FF_DIMS(n, 8)),
                         add(c, "rigidgroups_group_exists", FF_DIMS(n, 8)),
                         add(c, "rigidgroups_group_is_ambiguous", FF_DIMS(n, 8))};
    float *backbone = matrices ? add(c, "backbone_rigid_tensor", FF_DIMS(n, 4, 4)) : NULL;
    float *backbone_mask = matrices ? add(c, "backbone_rigid_mask", FF_DIMS(n)) : NULL;
    if (c->g->ctx->status == FF_OK && rigid != NULL) {
        ff_atom37_to_frames(&f, c->aatype, c->positions, c->mask, n);
        if (matrices) {
            to_4x4(gt, f.gt_frames, n * 8);
            to_4x4(alt, f.alt_gt_frames, n * 8);
            for (int64_t r = 0; r < n; r++) {
                memcpy(backbone + 16 * r, gt + 128 * r, 16 * sizeof *gt);
                backbone_mask[r] = f.gt_exists[8 * r];
            }
        } else {
            memcpy(gt, f.gt_frames, (size_t)(n * 96) * sizeof *gt);
            memcpy(alt, f.alt_gt_frames, (size_t)(n * 96) * sizeof *alt);
        }
    }
    free(rigid);
}

static void torsions(chain *c, const char *group, const char *suffix, bool placeholder)
{
    char names[2][64];
    snprintf(names[0], sizeof names[0], "torsion_angles_sin_cos%s", suffix);
    snprintf(names[1], sizeof names[1], "alt_torsion_angles_sin_cos%s", suffix);
    float *angles = add(c, names[0], FF_DIMS(c->n, 7, 2)), *alt = add(c, names[1], FF_DIMS(c->n, 7, 2));
    float *mask = add(c, "torsion_angles_mask", FF_DIMS(c->n, 7));
    if (c->g->ctx->status != FF_OK)
        return;
    ff_atom37_to_torsion_angles(angles, alt, mask, c->aatype, c->positions, c->mask, placeholder, c->n);
    for (int i = 0; i < 2 && !placeholder; i++)
        take_undefined(c, group, names[i], mask, 2);
}

static void openfold_only(chain *c, const char *group)
{
    const int64_t n = c->n;
    const ff_atom14_labels a = {add(c, "atom14_gt_positions", FF_DIMS(n, 14, 3)),
                                add(c, "atom14_alt_gt_positions", FF_DIMS(n, 14, 3)),
                                add(c, "atom14_gt_exists", FF_DIMS(n, 14)), add(c, "atom14_alt_gt_exists", FF_DIMS(n, 14)),
                                add(c, "atom14_atom_exists", FF_DIMS(n, 14)),
                                add(c, "atom14_atom_is_ambiguous", FF_DIMS(n, 14))};
    float *beta = add(c, "pseudo_beta", FF_DIMS(n, 3)), *beta_mask = add(c, "pseudo_beta_mask", FF_DIMS(n));
    float *exists = add(c, "atom37_atom_exists", FF_DIMS(n, 37));
    int32_t *to37 = add_integers(c, "residx_atom14_to_atom37", FF_DIMS(n, 14));
    int32_t *to14 = add_integers(c, "residx_atom37_to_atom14", FF_DIMS(n, 37));
    float *chi = add(c, "chi_angles_sin_cos", FF_DIMS(n, 4, 2)), *chi_mask = add(c, "chi_mask", FF_DIMS(n, 4));
    if (c->g->ctx->status != FF_OK)
        return;
    ff_make_atom14_labels(&a, c->aatype, c->positions, c->mask, n);
    ff_make_pseudo_beta(beta, beta_mask, c->aatype, c->positions, c->mask, n);
    ff_make_atom14_masks(NULL, to37, exists, to14, c->aatype, n);
    const float *angles = ff_array_find(&c->got, "torsion_angles_sin_cos")->f32;
    const float *mask = ff_array_find(&c->got, "torsion_angles_mask")->f32;
    for (int64_t r = 0; r < n; r++) {
        memcpy(chi + 8 * r, angles + 14 * r + 6, 8 * sizeof *chi);
        memcpy(chi_mask + 4 * r, mask + 7 * r + 3, 4 * sizeof *chi_mask);
    }
    take_undefined(c, group, "chi_angles_sin_cos", chi_mask, 2);
}

static ff_status compare_part(chain *c, const char *group, const char *part, bool openfold)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", group, part);
    ff_array_set_destroy(&c->got);
    frames(c, openfold);
    torsions(c, path, "", false);
    if (openfold)
        openfold_only(c, path);
    else
        torsions(c, path, "_placeholder", true);
    if (c->g->ctx->status == FF_OK)
        golden_data_compare(c->g, path, &c->got, TOLERANCE);
    return c->g->ctx->status;
}

/* ---- template torsions: the templates are those of a case of data_transforms.h5 next to this file ---- */

enum { FEATURES = 57, ONE_HOT = 22, ANGLES = 14 };

static ff_status read_templates(golden_data *g, ff_array_set *in)
{
    char path[1024];
    const char *slash = strrchr(g->path, '/');
    snprintf(path, sizeof path, "%.*sdata_transforms.h5", slash == NULL ? 0 : (int)(slash - g->path + 1), g->path);
    ff_hdf5_file *file;
    FF_TRY(ff_hdf5_open(g->ctx, &file, path));
    const ff_status status = ff_array_set_read(g->ctx, in, file, "/smbp73_plain/final");
    ff_hdf5_close(file);
    return status;
}

static ff_status run_template_torsions(golden_data *g)
{
    chain c = {.g = g};
    ff_array_set_init(&c.in);
    ff_array_set_init(&c.got);
    const ff_array *types = NULL, *x = NULL, *m = NULL;
    if (read_templates(g, &c.in) == FF_OK &&
        (types = ff_array_need(g->ctx, &c.in, "template_aatype", FF_ARRAY_INT32, FF_DIMS(-1, -1))) != NULL &&
        (x = ff_array_need(g->ctx, &c.in, "template_all_atom_positions", FF_ARRAY_FLOAT32, FF_DIMS(-1, -1, 37, 3))) != NULL)
        m = ff_array_need(g->ctx, &c.in, "template_all_atom_masks", FF_ARRAY_FLOAT32, FF_DIMS(-1, -1, 37));
    if (m != NULL) {
        const int64_t t = types->shape[0], n = types->shape[1];
        float *angles = add(&c, "template_torsion_angles_sin_cos", FF_DIMS(t, n, 7, 2));
        float *alt = add(&c, "template_alt_torsion_angles_sin_cos", FF_DIMS(t, n, 7, 2));
        float *mask = add(&c, "template_torsion_angles_mask", FF_DIMS(t, n, 7));
        float *features = add(&c, "template_single_feat", FF_DIMS(t, n, FEATURES));
        for (int64_t k = 0; k < t && g->ctx->status == FF_OK; k++)
            ff_atom37_to_torsion_angles(angles + k * n * ANGLES, alt + k * n * ANGLES, mask + k * n * 7, types->i32 + k * n,
                                        x->f32 + k * n * 111, m->f32 + k * n * 37, false, n);
        if (g->ctx->status == FF_OK) {
            take_undefined(&c, "template_torsions", "template_torsion_angles_sin_cos", mask, 2);
            take_undefined(&c, "template_torsions", "template_alt_torsion_angles_sin_cos", mask, 2);
        }
        for (int64_t r = 0; r < t * n && g->ctx->status == FF_OK; r++) {
            float *f = features + r * FEATURES;
            f[types->i32[r]] = 1.0f;
            memcpy(f + ONE_HOT, angles + r * ANGLES, ANGLES * sizeof *f);
            memcpy(f + ONE_HOT + ANGLES, alt + r * ANGLES, ANGLES * sizeof *f);
            memcpy(f + ONE_HOT + 2 * ANGLES, mask + r * 7, 7 * sizeof *f);
        }
        if (g->ctx->status == FF_OK)
            golden_data_compare(g, "template_torsions", &c.got, TOLERANCE);
    }
    ff_array_set_destroy(&c.in);
    ff_array_set_destroy(&c.got);
    return g->ctx->status;
}

static ff_status run_labels(golden_data *g, const char *group)
{
    chain c = {.g = g};
    char path[256];
    if (strcmp(group, "template_torsions") == 0)
        return run_template_torsions(g);
    ff_array_set_init(&c.in);
    ff_array_set_init(&c.got);
    snprintf(path, sizeof path, "/%s/input", group);
    ff_status status = ff_array_set_read(g->ctx, &c.in, g->file, path);
    const ff_array *types = status == FF_OK ? ff_array_need(g->ctx, &c.in, "aatype", FF_ARRAY_INT32, FF_DIMS(-1)) : NULL;
    if (types != NULL) {
        const ff_array *x = ff_array_need(g->ctx, &c.in, "all_atom_positions", FF_ARRAY_FLOAT32, FF_DIMS(types->size, 37, 3));
        const ff_array *m = ff_array_need(g->ctx, &c.in, "all_atom_mask", FF_ARRAY_FLOAT32, FF_DIMS(types->size, 37));
        if (x != NULL && m != NULL) {
            c.aatype = types->i32;
            c.positions = x->f32;
            c.mask = m->f32;
            c.n = types->size;
            compare_part(&c, group, "jax", false);
            compare_part(&c, group, "of", true);
        }
    }
    ff_array_set_destroy(&c.in);
    ff_array_set_destroy(&c.got);
    return g->ctx->status;
}

const golden_data_kind golden_data_label_kinds[] = {{"data_labels", "", -1, run_labels}, {NULL, NULL, 0, NULL}};
