/* Structures: what AlphaFold's reader takes from mmCIF, what PDB files add, and one clear line for damaged files. The
 * entries are small and made here; whole PDB entries are checked by golden_check against AlphaFold's arrays. */
#include <CUnit/CUnit.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/random.h"
#include "data/structure_file.h"
#include "structure/residue_constants.h"
#include "tests/check.h"

enum { SD = 18, CD = 11, NH1 = 29, NH2 = 30 };

static ff_ctx ctx;
static ff_structure s;
static ff_protein protein;

static void set_up(void)
{
    ff_context_init(&ctx);
    ctx.log.file = NULL;
    s = (ff_structure){.num_chains = 0};
    protein = (ff_protein){.num_res = 0};
}

static void tear_down(void)
{
    ff_structure_destroy(&s);
    ff_protein_destroy(&protein);
}

#ifdef FF_HAVE_GEMMI

/* An entry of one peptide entity with label chains A and B (author's X and Y): everything before the atom rows. */
static const char header[] =
    "data_1ABC\n_entry.id 1ABC\n_exptl.method 'X-RAY DIFFRACTION'\n_refine.ls_d_res_high ?\n"
    "_reflns.d_resolution_high 2.25\n"
    "loop_\n_pdbx_audit_revision_history.ordinal\n_pdbx_audit_revision_history.revision_date\n2 2011-07-13\n1 "
    "1999-04-27\n"
    "loop_\n_chem_comp.id\n_chem_comp.type\nMET 'L-peptide linking'\nMSE 'L-peptide linking'\nARG 'L-peptide "
    "linking'\n"
    "GLY 'peptide linking'\nSER 'L-peptide linking'\nXYZ non-polymer\nDG 'DNA linking'\n"
    "loop_\n_struct_asym.id\n_struct_asym.entity_id\nA 1\nB 1\nC 2\n"
    "loop_\n_entity_poly_seq.entity_id\n_entity_poly_seq.num\n_entity_poly_seq.mon_id\n1 1 MSE\n1 2 ARG\n1 3 GLY\n1 "
    "4 XYZ\n2 1 DG\n"
    "loop_\n_atom_site.group_PDB\n_atom_site.label_atom_id\n_atom_site.label_alt_id\n_atom_site.label_comp_id\n"
    "_atom_site.label_asym_id\n_atom_site.label_seq_id\n_atom_site.Cartn_x\n_atom_site.Cartn_y\n_atom_site.Cartn_z\n"
    "_atom_site.occupancy\n_atom_site.B_iso_or_equiv\n_atom_site.auth_seq_id\n_atom_site.auth_asym_id\n"
    "_atom_site.pdbx_PDB_ins_code\n_atom_site.pdbx_PDB_model_num\n";

static ff_status read_options(const char *text, bool alphafold_compatible)
{
    const ff_structure_options options = {FF_STRUCTURE_AUTO, alphafold_compatible};
    ff_structure_destroy(&s);
    ff_context_clear(&ctx);
    return ff_structure_read_bytes(&ctx, &s, text, strlen(text), "x.cif", &options);
}

/* The entry with these atom rows. */
static ff_status read_rows(const char *rows, bool alphafold_compatible)
{
    char text[8192];
    snprintf(text, sizeof text, "%s%s", header, rows);
    return read_options(text, alphafold_compatible);
}

static const float *at(const ff_structure_chain *c, int64_t i, int atom)
{
    return c->positions + (i * FF_NUM_ATOM37 + atom) * 3;
}
static float there(const ff_structure_chain *c, int64_t i, int atom) { return c->mask[i * FF_NUM_ATOM37 + atom]; }

static void test_header_and_order_are_alphafolds(void)
{
    CU_ASSERT_EQUAL_FATAL(
        read_rows("ATOM CA . ARG B 2 1 2 3 1 10 7 Y ? 1\nATOM CA . ARG A 2 4 5 6 1 10 7 X ? 1\n", true), FF_OK);
    CU_ASSERT_STRING_EQUAL(s.entry_id, "1ABC");
    CU_ASSERT_STRING_EQUAL(s.release_date, "1999-04-27"); /* the oldest, not the first */
    CU_ASSERT_STRING_EQUAL(s.method, "x-ray diffraction");
    CU_ASSERT_EQUAL(s.resolution, 2.25f);   /* `?` is passed over */
    CU_ASSERT_EQUAL_FATAL(s.num_chains, 2); /* DNA is none */
    CU_ASSERT_STRING_EQUAL(s.chains[0].id, "X");
    CU_ASSERT_STRING_EQUAL(s.chains[0].label_id, "A");
    CU_ASSERT_STRING_EQUAL(s.chains[1].id, "Y");
    CU_ASSERT_STRING_EQUAL(s.chains[0].sequence, "MRGX");
    CU_ASSERT_EQUAL(s.chains[0].aatype[3], FF_AATYPE_X);
    CU_ASSERT_EQUAL(s.chains[0].num_observed, 1);
    CU_ASSERT_EQUAL(s.chains[0].is_missing[0], 1);
    CU_ASSERT_STRING_EQUAL(s.chains[0].residue_name[0], "MSE");
    CU_ASSERT_EQUAL(at(&s.chains[0], 1, FF_ATOM_CA)[0], 4); /* equal sequences keep their own coordinates */
    CU_ASSERT_EQUAL(at(&s.chains[1], 1, FF_ATOM_CA)[0], 1);
    CU_ASSERT_PTR_EQUAL(ff_structure_find_chain(&s, "Y"), &s.chains[1]);
    CU_ASSERT_PTR_NULL(ff_structure_find_chain(&s, "A"));
}

static void test_highest_occupancy_is_taken_and_ties_go_to_the_first(void)
{
    CU_ASSERT_EQUAL_FATAL(read_rows("ATOM CA A GLY A 3 1 0 0 0.3 1 3 X ? 1\nATOM CA B GLY A 3 2 0 0 0.7 2 3 X ? 1\n"
                                    "ATOM C A GLY A 3 3 0 0 0.5 3 3 X ? 1\nATOM C B GLY A 3 4 0 0 0.5 4 3 X ? 1\n"
                                    "ATOM H . GLY A 3 9 9 9 1 3 3 X ? 1\nATOM OXT . GLY A 3 5 0 0 . 5 3 X ? 1\n",
                                    false),
                          FF_OK);
    CU_ASSERT_EQUAL(at(&s.chains[0], 2, FF_ATOM_CA)[0], 2);
    CU_ASSERT_EQUAL(s.chains[0].b_factors[2 * 37 + FF_ATOM_CA], 2);
    CU_ASSERT_EQUAL(at(&s.chains[0], 2, FF_ATOM_C)[0], 3);
    CU_ASSERT_EQUAL(at(&s.chains[0], 2, 36)[0], 5); /* OXT; an unknown occupancy does no harm */
    float sum = 0;
    for (int a = 0; a < 37; a++)
        sum += there(&s.chains[0], 2, a);
    CU_ASSERT_EQUAL(sum, 3); /* no hydrogen */
}

static void test_selenium_is_sulphur_and_arginine_is_put_right(void)
{
    CU_ASSERT_EQUAL_FATAL(read_rows("HETATM SE . MSE A 1 7 0 0 1 1 1 X ? 1\nATOM CD . ARG A 2 0 0 0 1 1 2 X ? 1\n"
                                    "ATOM NH1 . ARG A 2 3 0 0 1 1 2 X ? 1\nATOM NH2 . ARG A 2 2 0 0 1 1 2 X ? 1\n",
                                    false),
                          FF_OK);
    const ff_structure_chain *c = &s.chains[0];
    CU_ASSERT_EQUAL(there(c, 0, SD), 1);
    CU_ASSERT_EQUAL(at(c, 0, SD)[0], 7);
    CU_ASSERT_EQUAL(c->hetflag[0], 'H');
    CU_ASSERT_EQUAL(at(c, 1, NH1)[0], 2);
    CU_ASSERT_EQUAL(at(c, 1, NH2)[0], 3);
}

static void test_far_neighbours_are_a_problem_of_the_chain(void)
{
    CU_ASSERT_EQUAL_FATAL(read_rows("ATOM CA . ARG A 2 0 0 0 1 1 2 X ? 1\nATOM CA . GLY A 3 150.5 0 0 1 1 3 X ? 1\n"
                                    "ATOM CA . ARG B 2 0 0 0 1 1 2 Y ? 1\nATOM CA . XYZ B 4 900 0 0 1 1 4 Y ? 1\n",
                                    false),
                          FF_OK);
    CU_ASSERT_PTR_NOT_NULL_FATAL(s.chains[0].problem);
    CU_ASSERT_PTR_NOT_NULL(strstr(s.chains[0].problem, "residues 2 and 3 are 150.5"));
    CU_ASSERT_PTR_NULL(s.chains[1].problem); /* a missing residue between them */
}

static void test_numbers_below_one_insertions_and_models(void)
{
    CU_ASSERT_EQUAL_FATAL(read_rows("ATOM CA . MSE A 1 1 0 0 1 1 -3 X ? 1\nATOM CA . ARG A 2 2 0 0 1 1 -3 X A 1\n"
                                    "ATOM CA . GLY A 3 3 0 0 1 1 ? X ? 1\nATOM CA . MSE A 1 8 0 0 1 1 -3 X ? 2\n",
                                    false),
                          FF_OK);
    const ff_structure_chain *c = &s.chains[0];
    CU_ASSERT_EQUAL(s.num_models, 2);
    CU_ASSERT_EQUAL(at(c, 0, FF_ATOM_CA)[0], 1); /* model 1 */
    CU_ASSERT_EQUAL(c->author_number[0], -3);
    CU_ASSERT_EQUAL(c->insertion_code[1], 'A');
    CU_ASSERT_EQUAL(c->author_number[2], 3); /* unknown: the number in the sequence */
    CU_ASSERT_EQUAL(s.num_chains, 1);        /* B has no atoms */
    CU_ASSERT_EQUAL(read_rows("ATOM CA . GLY A 3 3 0 0 1 1 ? X ? 1\n", true),
                    FF_ERR_FORMAT); /* AlphaFold fails on it */
    CU_ASSERT_EQUAL(read_rows("ATOM CA . GLY A 3 3 0 0 1 1 3 X ? 1\n", true), FF_ERR_FORMAT); /* and on B */
}

static void test_microheterogeneity_is_one_residue(void)
{
    char text[8192];
    snprintf(text, sizeof text, "%s", header);
    char *two = strstr(text, "1 3 GLY\n"), rest[4096];
    snprintf(rest, sizeof rest, "%s", two + 8);
    sprintf(two, "1 3 GLY\n1 3 SER\n%s%s", rest,
            "ATOM CA A GLY A 3 1 0 0 .6 1 3 X ? 1\nATOM N A GLY A 3 6 0 0 .6 1 3 X ? 1\n"
            "ATOM CA B SER A 3 2 0 0 .4 1 3 X ? 1\n");
    CU_ASSERT_EQUAL_FATAL(read_options(text, false), FF_OK);
    CU_ASSERT_STRING_EQUAL(s.chains[0].sequence, "MRSX");
    CU_ASSERT_STRING_EQUAL(s.chains[0].residue_name[2], "SER"); /* the last in the file, with its own atoms only */
    CU_ASSERT_EQUAL(at(&s.chains[0], 2, FF_ATOM_CA)[0], 2);
    CU_ASSERT_EQUAL(there(&s.chains[0], 2, FF_ATOM_N), 0);
}

/* ---- damaged and foreign files ---- */

static void expect_fault(const char *text, const char *message)
{
    CU_ASSERT_EQUAL(read_options(text, false), FF_ERR_FORMAT);
    if (strstr(ctx.message, message) == NULL || strncmp(ctx.message, "x.cif: ", 7) != 0 ||
        strchr(ctx.message, '\n') != NULL) {
        printf("\n      message \"%s\", wanted \"x.cif: ... %s\"\n", ctx.message, message);
        CU_FAIL("another message");
    }
    CU_ASSERT_EQUAL(s.num_chains, 0);
}

static void test_damage_is_named_with_its_line(void)
{
    char text[8192];
    expect_fault("", "empty");
    expect_fault(" \r\n\n", "empty");
    expect_fault("data_x\n_entry.id\n", "line 2: _entry.id has no value");
    expect_fault("data_x\nloop_\n_entry.id\n_entry.y\n1 2 3\n",
                 "line 2: the loop of _entry.id... has 2 columns and 3 values");
    expect_fault("data_x\n_entry.id 'abc\n", "line 2: a quoted value does not end");
    expect_fault("data_x\n\n_entry.id\n;abc\ndef\n", "line 4: a text that begins with ';'");
    expect_fault("data_x\n_entry.id 1\n2\n", "line 3: \"2\" belongs to no tag");
    expect_fault("data_x\nloop_\ndata_y\n", "line 2: a loop without column names");
    expect_fault("data_x\n_entry.id 1\n", "no _atom_site.label_atom_id");
    expect_fault("<html>\n<body>404</body>\n", "no ATOM record");
    snprintf(text, sizeof text, "%s%s", header, "ATOM CA . ARG A 2 1 2 ? 1 10 7 X ? 1\n");
    expect_fault(text, "row 1 of _atom_site: Cartn_z is \"?\"");
    snprintf(text, sizeof text, "%s%s", header, "ATOM CA . ARG A 2 1 2 nan 1 10 7 X ? 1\n");
    expect_fault(text, "Cartn_z is \"nan\"");
    snprintf(text, sizeof text, "%s%s", header, "ATOM P . DG C 1 1 2 3 1 10 7 Z ? 1\n");
    expect_fault(text, "no protein chain");
    CU_ASSERT_EQUAL(ff_structure_read(&ctx, &s, "/nonexistent/x.cif", NULL), FF_ERR_IO);
    ff_context_clear(&ctx);
    CU_ASSERT_EQUAL(ff_structure_read(&ctx, &s, "/tmp", NULL), FF_ERR_IO);
}

static void test_every_prefix_of_a_file_is_read_or_refused(void)
{
    char text[8192];
    snprintf(text, sizeof text, "%s%s", header,
             "ATOM CA A ARG A 2 1 2 3 1 10 7 X ? 1\nATOM CA . ARG B 2 1 2 3 1 10 7 Y ? 1\n");
    const size_t length = strlen(text);
    for (size_t n = 0; n < length; n++) {
        char *cut = malloc(n + 1); /* no byte more: a reader that runs over the end is seen by ASan */
        memcpy(cut, text, n);
        ff_structure_destroy(&s);
        ff_context_clear(&ctx);
        const ff_status status = ff_structure_read_bytes(&ctx, &s, cut, n, "x.cif", NULL);
        CU_ASSERT((status == FF_OK) == (s.num_chains > 0));
        CU_ASSERT(status == FF_OK || (status == FF_ERR_FORMAT && ctx.message[0] != '\0'));
        free(cut);
    }
}

static void test_line_ends_and_quotes_make_no_difference(void)
{
    char text[8192], crlf[16384], *to = crlf;
    snprintf(text, sizeof text, "%s%s", header, "ATOM 'CA' . \"ARG\" A 2 1 2 3 1 10 7 X ? 1 # comment\n");
    for (const char *from = text; *from != '\0'; from++) {
        if (*from == '\n')
            *to++ = '\r';
        *to++ = *from;
    }
    *to = '\0';
    CU_ASSERT_EQUAL_FATAL(read_options(crlf, false), FF_OK);
    CU_ASSERT_STRING_EQUAL(s.method, "x-ray diffraction");
    CU_ASSERT_STRING_EQUAL(s.chains[0].sequence, "MRGX");
    CU_ASSERT_EQUAL(there(&s.chains[0], 1, FF_ATOM_CA), 1);
}

/* ---- PDB ---- */

static const char pdb_head[] = "HEADER    HYDROLASE                               27-APR-99   1ABC              \n"
                               "EXPDTA    X-RAY DIFFRACTION\nREVDAT   2   13-JUL-11 1ABC    1       VERSN\n"
                               "REVDAT   1   28-OCT-99 1ABC    0\nREMARK   2 RESOLUTION.    1.70 ANGSTROMS.\n";
static const char pdb_atoms[] = "ATOM      1  N   ALA A  -1      11.000   2.000   3.000  1.00 10.00           N\n"
                                "ATOM      2  CA  ALA A  -1      12.000   2.000   3.000  1.00 10.00           C\n"
                                "ATOM      3  C   ALA A  -1      13.000   2.000   3.000  1.00 10.00           C\n"
                                "ATOM      4  N   TRP A   2A     14.300   2.000   3.000  1.00 10.00           N\n"
                                "ATOM      5  CA AGLY A   3      16.000   2.000   3.000  0.40 10.00           C\n"
                                "ATOM      6  CA BGLY A   3      16.500   2.000   3.000  0.60 11.00           C\n"
                                "HETATM    7 SE   MSE A   4      17.000   2.000   3.000  1.00 10.00          SE\n"
                                "HETATM    8  O   HOH A 101      50.000   2.000   3.000  1.00 10.00           O\n";

static const ff_structure_options strict = {FF_STRUCTURE_PDB, true};

static ff_status read_pdb(const char *a, const char *b)
{
    char text[8192];
    snprintf(text, sizeof text, "%s%s", a, b);
    return read_options(text, false);
}

static void test_pdb_chains_without_sequence(void)
{
    CU_ASSERT_EQUAL_FATAL(read_pdb(pdb_head, pdb_atoms), FF_OK);
    CU_ASSERT_STRING_EQUAL(s.entry_id, "1ABC");
    CU_ASSERT_STRING_EQUAL(s.release_date, "1999-10-28");
    CU_ASSERT_STRING_EQUAL(s.method, "x-ray diffraction");
    CU_ASSERT_EQUAL(s.resolution, 1.7f);
    CU_ASSERT_EQUAL_FATAL(s.num_chains, 1);
    const ff_structure_chain *c = &s.chains[0];
    CU_ASSERT_STRING_EQUAL(c->sequence, "AWGM"); /* no water */
    CU_ASSERT_FALSE(c->declared);
    CU_ASSERT_EQUAL(c->author_number[0], -1);
    CU_ASSERT_EQUAL(c->insertion_code[1], 'A');
    CU_ASSERT_EQUAL(at(c, 2, FF_ATOM_CA)[0], 16.5f);
    CU_ASSERT_EQUAL(at(c, 3, SD)[0], 17);
}

static void test_pdb_sequence_shows_what_is_missing(void)
{
    CU_ASSERT_EQUAL_FATAL(read_pdb("SEQRES   1 A    7  LYS LYS ALA TRP GLY MSE LEU\n", pdb_atoms), FF_OK);
    const ff_structure_chain *c = &s.chains[0];
    CU_ASSERT_STRING_EQUAL(c->sequence, "KKAWGML");
    CU_ASSERT_TRUE(c->declared);
    CU_ASSERT_EQUAL(c->num_observed, 4);
    CU_ASSERT_EQUAL(c->is_missing[1], 1);
    CU_ASSERT_EQUAL(c->is_missing[2], 0);
    CU_ASSERT_EQUAL(at(c, 2, FF_ATOM_N)[0], 11);
}

/* Without a chain id and without TER; numbers that C reads but PDB does not have. */
static void test_pdb_blank_chain_and_odd_numbers(void)
{
    char text[4096];
    snprintf(text, sizeof text, "SEQRES   1      5  LYS ALA TRP GLY MSE\n%s", pdb_atoms);
    for (char *c = strstr(text, "ATOM"); c != NULL; c = strchr(c, '\n'), c = c == NULL || c[1] == '\0' ? NULL : c + 1)
        c[21] = ' ';
    CU_ASSERT_EQUAL_FATAL(read_options(text, false), FF_OK);
    CU_ASSERT_STRING_EQUAL(s.chains[0].id, "");
    CU_ASSERT_STRING_EQUAL(s.chains[0].sequence, "KAWGM");
    CU_ASSERT_EQUAL(s.chains[0].num_observed, 4);
    CU_ASSERT_EQUAL_FATAL(read_pdb("ATOM      1  N   ALA AA000      11.000   2.000   3.000  1.00 10.00\n", ""),
                          FF_OK);
    CU_ASSERT_EQUAL(s.chains[0].author_number[0], 10000); /* hybrid-36 */
    CU_ASSERT_EQUAL_FATAL(read_pdb("ATOM      1  N   ALA A-999      11.000   2.000   3.000\n", ""), FF_OK);
    CU_ASSERT_EQUAL(s.chains[0].author_number[0], -999);
    expect_fault("ATOM      1  N   ALA A   1      0x1p3    2.000   3.000\n", "line 1: x is");
    expect_fault("ATOM      1  N   A\xc3\x85"
                 "A A   1     11.000   2.000   3.000\n",
                 "line 1: ");
}

static void test_protein_behind_ter_is_another_chain(void)
{
    char text[4096];
    snprintf(text, sizeof text,
             "%sTER\n%sTER\nHETATM    8  O   HOH A 102      50.000   2.000   3.000  1.00 10.00           O\n",
             pdb_atoms, pdb_atoms);
    CU_ASSERT_EQUAL_FATAL(read_options(text, false), FF_OK);
    CU_ASSERT_EQUAL_FATAL(s.num_chains, 2);
    CU_ASSERT_STRING_EQUAL(s.chains[0].id, "A");
    CU_ASSERT_STRING_EQUAL(s.chains[1].id, "A");
    CU_ASSERT_STRING_EQUAL(s.chains[0].sequence, "AWGM"); /* the water before the TER is none of it */
    CU_ASSERT_STRING_EQUAL(s.chains[1].sequence, "AWGM");
}

static void test_first_block_with_coordinates_counts(void)
{
    char text[8192];
    snprintf(text, sizeof text, "data_comp\n_chem_comp.id X\n%s%s", header, "ATOM CA . ARG A 2 1 2 3 1 10 7 X ? 1\n");
    CU_ASSERT_EQUAL_FATAL(read_options(text, false), FF_OK);
    CU_ASSERT_STRING_EQUAL(s.entry_id, "1ABC");
}

static void test_pdb_first_model_counts(void)
{
    char text[8192];
    snprintf(text, sizeof text, "MODEL        1\n%sENDMDL\nMODEL        2\n%sENDMDL\nEND\n", pdb_atoms, pdb_atoms);
    CU_ASSERT_EQUAL_FATAL(read_options(text, false), FF_OK);
    CU_ASSERT_EQUAL(s.num_models, 2);
    CU_ASSERT_EQUAL(s.chains[0].num_res, 4);
    CU_ASSERT_EQUAL(ff_structure_read_protein_bytes(&ctx, &protein, text, strlen(text), "x.pdb", &strict),
                    FF_ERR_FORMAT);
    CU_ASSERT_PTR_NOT_NULL(strstr(ctx.message, "2 models"));
}

static void test_pdb_damage_is_named_with_its_line(void)
{
    expect_fault("ATOM      1  N   ALA A   1      11.000   2.000\n", "line 1: the atom record ends at column");
    expect_fault("REMARK\nATOM      1  N   ALA A   1      11.000   2.x00   3.000  1.00 10.00\n",
                 "line 2: y is \"   2.x00\"");
    expect_fault("ATOM      1  N   ALA A   1      11.000     nan   3.000  1.00 10.00\n", "line 1: y is");
    expect_fault("ATOM      1  N   ALA A          11.000   2.000   3.000  1.00 10.00\n",
                 "line 1: the residue number");
    expect_fault("HETATM    8  O   HOH A 101      50.000   2.000   3.000  1.00 10.00           O\n",
                 "no protein chain");
    expect_fault("HEADER    HYDROLASE\nEND\n", "no ATOM record");
}

static void test_from_pdb_string_keeps_waters_and_refuses_insertions(void)
{
    CU_ASSERT_EQUAL(ff_structure_read_protein_bytes(&ctx, &protein, pdb_atoms, strlen(pdb_atoms), "x.pdb", &strict),
                    FF_ERR_FORMAT);
    CU_ASSERT_PTR_NOT_NULL(strstr(ctx.message, "insertion code at residue 2A of chain A"));
    ff_context_clear(&ctx);
    CU_ASSERT_EQUAL_FATAL(
        ff_structure_read_protein_bytes(&ctx, &protein, pdb_atoms, strlen(pdb_atoms), "x.pdb", NULL), FF_OK);
    CU_ASSERT_EQUAL(protein.num_res, 4);
    CU_ASSERT_EQUAL(protein.residue_index[1], 2);
    ff_protein_destroy(&protein);
    char text[2048];
    snprintf(text, sizeof text, "%s", pdb_atoms);
    *strstr(text, "2A") = '2', strstr(text, "2A")[1] = ' ';
    CU_ASSERT_EQUAL_FATAL(ff_structure_read_protein_bytes(&ctx, &protein, text, strlen(text), "x.pdb", &strict),
                          FF_OK);
    CU_ASSERT_EQUAL_FATAL(protein.num_res, 4); /* the MSE has no atom of the 37 */
    CU_ASSERT_EQUAL(protein.aatype[3], FF_AATYPE_X);
    CU_ASSERT_EQUAL(protein.residue_index[3], 101);
    CU_ASSERT_EQUAL(protein.atom_mask[3 * 37 + FF_ATOM_O], 1);
    CU_ASSERT_EQUAL(protein.b_factors[2 * 37 + FF_ATOM_CA], 11);
}

/* One to three random changes: a byte, a stretch left out or written over another, an early end. */
static size_t mutate(char *text, size_t length, uint64_t seed)
{
    static const char special[] = " \n\r\t'\";#_?.-0\xff";
    const ff_random_key key = {seed, 77};
    uint64_t n = 0;
    for (uint64_t changes = 1 + ff_random_below(key, n++, 3); changes > 0 && length > 1; changes--) {
        const size_t a = ff_random_below(key, n++, length), b = ff_random_below(key, n++, length);
        const uint64_t kind = ff_random_below(key, n++, 5), amount = ff_random_below(key, n++, 60);
        const size_t room = length - (a > b ? a : b), stretch = amount < room ? (size_t)amount : room;
        if (kind == 0)
            text[a] = (char)ff_random_below(key, n++, 256);
        else if (kind == 1)
            text[a] = special[ff_random_below(key, n++, sizeof special)];
        else if (kind == 2)
            memmove(text + a, text + b, stretch);
        else if (kind == 3) {
            memmove(text + a, text + a + stretch, length - a - stretch);
            length -= stretch;
        } else if (amount < 6)
            length = a + 1;
    }
    return length;
}

static void test_mutated_files_are_read_or_refused(void)
{
    enum { NUM_INPUTS = 6000 };
    char seeds[3][8192];
    int64_t good = 0;
    snprintf(seeds[0], sizeof seeds[0], "%s%s", header,
             "ATOM CA A ARG A 2 1 2 3 1 10 7 X ? 1\nHETATM SE . MSE A 1 1 2 3 1 10 -7 X B 1\n"
             "ATOM CA . ARG B 2 1 2 3 .5 10 7 Y ? 1\n");
    snprintf(seeds[1], sizeof seeds[1], "%sSEQRES   1 A    7  LYS LYS ALA TRP GLY MSE LEU\n%sTER\nEND\n", pdb_head,
             pdb_atoms);
    snprintf(seeds[2], sizeof seeds[2], "data_x\nloop_\n%s%s", strstr(header, "_atom_site.group_PDB"),
             "ATOM CA A ARG A 2 1 2 3 1 10 7 X ? 1\nATOM N . ARG A 3 1 2 3 1 10 7 X ? 1\n");
    for (uint64_t k = 0; k < NUM_INPUTS; k++) {
        char text[8192];
        memcpy(text, seeds[k % 3], sizeof text);
        const size_t length = mutate(text, strlen(text), k);
        char *exact = malloc(length + 1); /* ASan sees a step beyond the end */
        memcpy(exact, text, length);
        const ff_structure_options options = {k % 5 == 0 ? FF_STRUCTURE_PDB : FF_STRUCTURE_AUTO, k % 2 == 0};
        ff_context_clear(&ctx);
        ff_structure_destroy(&s);
        ff_status status = ff_structure_read_bytes(&ctx, &s, exact, length, "x", &options);
        good += status == FF_OK;
        CU_ASSERT(status == FF_OK || (status == FF_ERR_FORMAT && strchr(ctx.message, '\n') == NULL));
        ff_context_clear(&ctx);
        ff_protein_destroy(&protein);
        status = ff_structure_read_protein_bytes(&ctx, &protein, exact, length, "x", &options);
        CU_ASSERT(status == FF_OK || status == FF_ERR_FORMAT);
        free(exact);
    }
    CU_ASSERT(good > NUM_INPUTS / 20); /* or the readers' later parts were never reached */
}

static CU_TestInfo tests[] = {
    {"header_and_order_are_alphafolds", test_header_and_order_are_alphafolds},
    {"highest_occupancy_is_taken_and_ties_go_to_the_first", test_highest_occupancy_is_taken_and_ties_go_to_the_first},
    {"selenium_is_sulphur_and_arginine_is_put_right", test_selenium_is_sulphur_and_arginine_is_put_right},
    {"far_neighbours_are_a_problem_of_the_chain", test_far_neighbours_are_a_problem_of_the_chain},
    {"numbers_below_one_insertions_and_models", test_numbers_below_one_insertions_and_models},
    {"microheterogeneity_is_one_residue", test_microheterogeneity_is_one_residue},
    {"damage_is_named_with_its_line", test_damage_is_named_with_its_line},
    {"every_prefix_of_a_file_is_read_or_refused", test_every_prefix_of_a_file_is_read_or_refused},
    {"line_ends_and_quotes_make_no_difference", test_line_ends_and_quotes_make_no_difference},
    {"pdb_chains_without_sequence", test_pdb_chains_without_sequence},
    {"pdb_sequence_shows_what_is_missing", test_pdb_sequence_shows_what_is_missing},
    {"pdb_blank_chain_and_odd_numbers", test_pdb_blank_chain_and_odd_numbers},
    {"protein_behind_ter_is_another_chain", test_protein_behind_ter_is_another_chain},
    {"first_block_with_coordinates_counts", test_first_block_with_coordinates_counts},
    {"pdb_first_model_counts", test_pdb_first_model_counts},
    {"pdb_damage_is_named_with_its_line", test_pdb_damage_is_named_with_its_line},
    {"mutated_files_are_read_or_refused", test_mutated_files_are_read_or_refused},
    {"from_pdb_string_keeps_waters_and_refuses_insertions", test_from_pdb_string_keeps_waters_and_refuses_insertions},
    CU_TEST_INFO_NULL,
};

#else

static void test_absence_is_said(void)
{
    CU_ASSERT_EQUAL(ff_structure_read_bytes(&ctx, &s, "data_x\n", 7, "x.cif", NULL), FF_ERR_UNSUPPORTED);
    CU_ASSERT_PTR_NOT_NULL(strstr(ctx.message, "make deps"));
    CU_ASSERT_EQUAL(ff_structure_read_protein_bytes(&ctx, &protein, "", 0, "x.pdb", NULL), FF_ERR_UNSUPPORTED);
}

static CU_TestInfo tests[] = {{"absence_is_said", test_absence_is_said}, CU_TEST_INFO_NULL};

#endif

CU_SuiteInfo suite_data_structure_file = {"data/structure_file", NULL, NULL, set_up, tear_down, tests};
