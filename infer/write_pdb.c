/* write_pdb.c - the header of a predicted PDB file; data/pdb_write.c writes the atoms. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/version.h"
#include "data/pdb_write.h"
#include "infer/text.h"
#include "infer/write_structure.h"
#include "structure/residue_constants.h"

enum {
    LINE_BYTES = 81,
    MAX_LINES = 64,
    TITLE_WIDTH = 69,
    REMARK_WIDTH = 69,
    LONGEST_TEXT = 1024,
    MAX_ATOMS = 99998,
    MAX_NUMBER = 9999
};

typedef struct {
    char lines[MAX_LINES][LINE_BYTES];
    const char *pointers[MAX_LINES + 1]; /* to those in use, then NULL */
    int count;
} header;

static void add_line(header *h, const char *lead, const char *text, size_t length)
{
    if (h->count == MAX_LINES)
        return;
    snprintf(h->lines[h->count], LINE_BYTES, "%s%.*s", lead, (int)length, text);
    h->pointers[h->count] = h->lines[h->count];
    h->count++;
}

/* How much of `text` goes on a line of `width`: all, or up to a blank in its second half, or the whole width. */
static size_t line_length(const char *text, size_t width)
{
    const size_t length = strlen(text);
    if (length <= width)
        return length;
    for (size_t at = width; at > width / 2; at--)
        if (text[at] == ' ')
            return at;
    return width;
}

/* TITLE, continued on as many lines as it takes. */
static void add_title(header *h, const char *name)
{
    char clean[LONGEST_TEXT], lead[16];
    const char *text = ff_text_ascii_line(clean, sizeof clean, name);
    for (int number = 1; *text != '\0'; number++) {
        const size_t length = line_length(text, TITLE_WIDTH);
        snprintf(lead, sizeof lead, number == 1 ? "TITLE     " : "TITLE   %2d ", number);
        add_line(h, lead, text, length);
        text += length + (text[length] == ' ');
    }
}

/* Remark 6: wwPDB keeps 6 to 99 for free text. */
static void add_remark(header *h, const char *remark)
{
    char clean[LONGEST_TEXT];
    const char *text = ff_text_ascii_line(clean, sizeof clean, remark);
    do {
        const size_t length = line_length(text, REMARK_WIDTH);
        add_line(h, "REMARK   6 ", text, length);
        text += length + (text[length] == ' ');
    } while (*text != '\0');
}

static void make_header(header *h, const ff_prediction *p, ff_b_column b_column)
{
    char text[LONGEST_TEXT];
    memset(h, 0, sizeof *h);
    add_title(h, p->name);
    add_line(h, "EXPDTA    ", "THEORETICAL MODEL", 17);
    add_remark(h, "");
    snprintf(text, sizeof text, "Predicted by FastFold in C %s, model %s, seed %" PRIu64 ".", FF_VERSION, p->model_name,
             p->seed);
    add_remark(h, text);
    if (b_column == FF_B_PLDDT)
        add_remark(h, "The B-factor column holds pLDDT, the predicted lDDT-CA, 0 to 100: higher is more confident.");
    else
        add_remark(h, "The B-factor column holds 100 - pLDDT (predicted lDDT-CA), 0 to 100: lower is more confident.");
    const int used = snprintf(text, sizeof text, "Mean pLDDT %.2f", ff_prediction_mean_plddt(p));
    if (isfinite(p->ptm))
        snprintf(text + used, sizeof text - (size_t)used, ", pTM %.3f", p->ptm);
    add_remark(h, text);
    for (int64_t k = 0; k < p->num_notes; k++)
        add_remark(h, p->notes[k]);
}

double ff_prediction_b(const ff_prediction *p, int64_t i, ff_b_column b_column)
{
    const double plddt = fmin(fmax((double)p->plddt[i], 0.0), 100.0);
    return b_column == FF_B_PLDDT ? plddt : 100.0 - plddt;
}

bool ff_prediction_fits_pdb(const ff_prediction *p)
{
    int64_t num_atoms = 0;
    for (int64_t k = 0; k < p->num_res * FF_NUM_ATOM37; k++)
        num_atoms += p->atom37_mask[k] >= 0.5f;
    return num_atoms <= MAX_ATOMS && p->residue_index[p->num_res - 1] + 1 <= MAX_NUMBER;
}

ff_status ff_prediction_write_pdb(ff_ctx *ctx, const ff_prediction *p, const char *path, ff_b_column b_column)
{
    header h;
    ff_protein protein;
    FF_TRY(ff_prediction_check(ctx, p));
    if (!ff_prediction_fits_pdb(p))
        return FF_FAIL(ctx, FF_ERR_ARG, "%s: a PDB file holds %d atoms and residue numbers to %d; use mmCIF", path,
                       (int)MAX_ATOMS, (int)MAX_NUMBER);
    FF_TRY(ff_protein_create(ctx, &protein, p->num_res));
    memcpy(protein.aatype, p->aatype, (size_t)p->num_res * sizeof *p->aatype);
    memcpy(protein.atom_positions, p->atom37_positions, (size_t)p->num_res * FF_NUM_ATOM37 * 3 * sizeof(float));
    memcpy(protein.atom_mask, p->atom37_mask, (size_t)p->num_res * FF_NUM_ATOM37 * sizeof(float));
    for (int64_t i = 0; i < p->num_res; i++) {
        protein.residue_index[i] = p->residue_index[i] + 1;
        for (int64_t a = 0; a < FF_NUM_ATOM37; a++)
            protein.b_factors[i * FF_NUM_ATOM37 + a] = (float)ff_prediction_b(p, i, b_column);
    }
    make_header(&h, p, b_column);
    const ff_status status = ff_pdb_write_file(ctx, path, &protein, h.pointers);
    ff_protein_destroy(&protein);
    return status;
}
