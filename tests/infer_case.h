/* infer_case.h - what the suites of infer/ share: a folder of their own, predictions to write, other programs to
 * ask. */
#ifndef FF_TESTS_INFER_CASE_H
#define FF_TESTS_INFER_CASE_H

#include <CUnit/CUnit.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/random.h"
#include "data/structure_file.h"
#include "infer/prediction.h"
#include "io/text_file.h"
#include "structure/residue_constants.h"
#include "tests/check.h"

static ff_ctx ctx;
static char folder[64];
static ff_prediction prediction;

static void set_up(void)
{
    ff_context_init(&ctx);
    ctx.log.file = NULL;
    memset(&prediction, 0, sizeof prediction);
    strcpy(folder, "/tmp/ff_infer_XXXXXX");
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
}

static void tear_down(void)
{
    char command[96];
    ff_prediction_destroy(&prediction);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    CU_ASSERT_EQUAL(system(command), 0);
}

static inline const char *in_folder(char path[256], const char *name)
{
    snprintf(path, 256, "%s/%s", folder, name);
    return path;
}

static inline bool have_program(const char *name)
{
    char command[96];
    snprintf(command, sizeof command, "command -v %s >/dev/null 2>&1", name);
    return system(command) == 0;
}

/* All a shell command prints; the caller frees it. `status` its exit status. */
static inline char *output_of(const char *command, int *status)
{
    FILE *pipe = popen(command, "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(pipe);
    size_t size = 0, room = 1 << 16;
    char *text = malloc(room);
    for (size_t got; (got = fread(text + size, 1, room - size - 1, pipe)) > 0;) {
        size += got;
        if (size + 1 == room)
            text = realloc(text, room *= 2);
    }
    text[size] = '\0';
    *status = pclose(pipe);
    return text;
}

/* The whole of a file; the caller frees it. Not inlined: GCC 12 then warns of dangling pointers where there are
 * none. */
static __attribute__((noinline, unused)) char *content_of(const char *path)
{
    char *data = NULL;
    size_t size = 0;
    CU_ASSERT_EQUAL_FATAL(ff_text_read_all(&ctx, path, &data, &size), FF_OK);
    return data;
}

/* Confidences nobody predicted: waves and distances, so that files about them have something to show. */
static inline void make_up_confidences(ff_prediction *p)
{
    const int64_t n = p->num_res;
    float *pae = malloc((size_t)(n * n) * sizeof *pae);
    p->contact_probability = malloc((size_t)(n * n) * sizeof *pae);
    for (int64_t i = 0; i < n; i++)
        p->plddt[i] = 70.0f + 29.0f * sinf(0.15f * (float)i);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++) {
            const float *a = p->atom37_positions + (i * FF_NUM_ATOM37 + FF_ATOM_CA) * 3;
            const float *b = p->atom37_positions + (j * FF_NUM_ATOM37 + FF_ATOM_CA) * 3;
            const float away =
                sqrtf((a[0] - b[0]) * (a[0] - b[0]) + (a[1] - b[1]) * (a[1] - b[1]) + (a[2] - b[2]) * (a[2] - b[2]));
            const float doubt = 2.0f - 0.01f * (p->plddt[i] + p->plddt[j]);
            pae[i * n + j] =
                i == j ? 0.2f : fminf(31.75f, 0.3f * away * (0.3f + doubt) + 0.02f * (float)((i * 7 + j * 3) % 11));
            p->contact_probability[i * n + j] = 1.0f / (1.0f + expf(away - 7.5f));
        }
    }
    CU_ASSERT_EQUAL_FATAL(ff_prediction_set_pae(&ctx, p, pae, 31.75), FF_OK);
    free(pae);
    p->ptm = 0.8125;
    p->ranking_confidence = ff_prediction_mean_plddt(p);
}

/* A sequence of all residue types on a helix: every atom of the type somewhere near its CA. */
static inline void make_prediction(ff_prediction *p, const char *name, int64_t num_res)
{
    char *sequence = malloc((size_t)num_res + 1);
    for (int64_t i = 0; i < num_res; i++)
        sequence[i] = ff_restypes[i % 20];
    sequence[num_res] = '\0';
    CU_ASSERT_EQUAL_FATAL(ff_prediction_create(&ctx, p, name, sequence, "model_1_ptm", 3), FF_OK);
    free(sequence);
    for (int64_t i = 0; i < num_res; i++) {
        p->plddt[i] = (float)(i % 101);
        for (int64_t a = 0; a < FF_NUM_ATOM37; a++) {
            const float turn = 1.745f * (float)i, out = 2.3f + 0.2f * (float)a;
            float *x = p->atom37_positions + (i * FF_NUM_ATOM37 + a) * 3;
            p->atom37_mask[i * FF_NUM_ATOM37 + a] = ff_restype_atom37_mask[p->aatype[i]][a];
            x[0] = out * cosf(turn + 0.1f * (float)a);
            x[1] = out * sinf(turn + 0.1f * (float)a);
            x[2] = 1.5f * (float)(i % 600) + 0.1f * (float)a;
        }
    }
}

/* A chain as it was solved, standing for a prediction of its observed residues. False, and the test skipped,
 * without the file. */
static inline bool real_prediction(ff_prediction *p, const char *path, const char *chain_id)
{
    ff_structure structure;
    if (ff_structure_read(&ctx, &structure, path, NULL) != FF_OK) {
        ff_test_skip(ctx.message);
        ff_context_clear(&ctx);
        return false;
    }
    const ff_structure_chain *chain = ff_structure_find_chain(&structure, chain_id);
    CU_ASSERT_PTR_NOT_NULL_FATAL(chain);
    char *sequence = calloc((size_t)chain->num_res + 1, 1);
    int64_t n = 0;
    for (int64_t i = 0; i < chain->num_res; i++)
        if (!chain->is_missing[i] && chain->aatype[i] < 20 && chain->mask[i * FF_NUM_ATOM37 + FF_ATOM_CA] > 0.5f)
            sequence[n++] = ff_restypes[chain->aatype[i]];
    CU_ASSERT_EQUAL_FATAL(ff_prediction_create(&ctx, p, path, sequence, "model_1_ptm", 0), FF_OK);
    free(sequence);
    n = 0;
    for (int64_t i = 0; i < chain->num_res; i++) {
        if (chain->is_missing[i] || chain->aatype[i] >= 20 || chain->mask[i * FF_NUM_ATOM37 + FF_ATOM_CA] <= 0.5f)
            continue;
        memcpy(p->atom37_positions + n * FF_NUM_ATOM37 * 3, chain->positions + i * FF_NUM_ATOM37 * 3,
               FF_NUM_ATOM37 * 3 * sizeof(float));
        memcpy(p->atom37_mask + n * FF_NUM_ATOM37, chain->mask + i * FF_NUM_ATOM37, FF_NUM_ATOM37 * sizeof(float));
        n++;
    }
    ff_structure_destroy(&structure);
    make_up_confidences(p);
    return true;
}

#endif
