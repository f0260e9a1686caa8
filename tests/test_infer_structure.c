/* Predicted structures as PDB and mmCIF: read back by our reader, by gemmi's program and by TM-align. */
#include <unistd.h>

#include "infer/write_structure.h"
#include "tests/infer_case.h"

#ifdef FF_HAVE_GEMMI
static const char real_file[] = "../shared/data/mmcif/1A8O.cif";

/* Every atom of the prediction stands in the read chain with its position and B, and no other does. */
static void check_same_atoms(const char *path, const ff_prediction *p, ff_b_column b_column)
{
    ff_structure back;
    CU_ASSERT_EQUAL_FATAL(ff_structure_read(&ctx, &back, path, NULL), FF_OK);
    CU_ASSERT_EQUAL(back.num_models, 1);
    CU_ASSERT_EQUAL_FATAL(back.num_chains, 1);
    const ff_structure_chain *c = &back.chains[0];
    CU_ASSERT_STRING_EQUAL(c->id, "A");
    CU_ASSERT_EQUAL_FATAL(c->num_res, p->num_res);
    double worst = 0, worst_b = 0;
    int64_t wrong_mask = 0, wrong_name = 0, wrong_number = 0;
    for (int64_t i = 0; i < p->num_res; i++) {
        wrong_name += c->aatype[i] != p->aatype[i];
        wrong_number += c->author_number[i] != p->residue_index[i] + 1;
        for (int64_t a = 0; a < FF_NUM_ATOM37; a++) {
            const int64_t k = i * FF_NUM_ATOM37 + a;
            wrong_mask += (c->mask[k] > 0.5f) != (p->atom37_mask[k] > 0.5f);
            if (p->atom37_mask[k] < 0.5f)
                continue;
            for (int x = 0; x < 3; x++)
                worst = fmax(worst, fabs((double)c->positions[k * 3 + x] - p->atom37_positions[k * 3 + x]));
            worst_b = fmax(worst_b, fabs(c->b_factors[k] - ff_prediction_b(p, i, b_column)));
        }
    }
    ff_structure_destroy(&back);
    CU_ASSERT_EQUAL(wrong_mask, 0);
    CU_ASSERT_EQUAL(wrong_name, 0);
    CU_ASSERT_EQUAL(wrong_number, 0);
    CU_ASSERT(worst <= 5.1e-4);   /* three decimals, and float32 of up to 1,000 */
    CU_ASSERT(worst_b <= 5.1e-3); /* two decimals */
}

static void test_both_files_read_back(void)
{
    char path[256];
    make_prediction(&prediction, "all kinds of residues", 47);
    CU_ASSERT_EQUAL_FATAL(ff_prediction_write_pdb(&ctx, &prediction, in_folder(path, "a.pdb"), FF_B_PLDDT), FF_OK);
    check_same_atoms(path, &prediction, FF_B_PLDDT);
    CU_ASSERT_EQUAL_FATAL(ff_prediction_write_pdb(&ctx, &prediction, in_folder(path, "b.pdb"), FF_B_100_MINUS_PLDDT),
                          FF_OK);
    check_same_atoms(path, &prediction, FF_B_100_MINUS_PLDDT);
    CU_ASSERT_EQUAL_FATAL(ff_prediction_write_mmcif(&ctx, &prediction, in_folder(path, "a.cif"), FF_B_PLDDT), FF_OK);
    check_same_atoms(path, &prediction, FF_B_PLDDT);
    CU_ASSERT_EQUAL_FATAL(ff_prediction_write_mmcif(&ctx, &prediction, in_folder(path, "b.cif"), FF_B_100_MINUS_PLDDT),
                          FF_OK);
    check_same_atoms(path, &prediction, FF_B_100_MINUS_PLDDT);
}

static void test_the_header_says_what_the_b_column_is(void)
{
    char path[256];
    make_prediction(&prediction,
                    "T1078 Tsp1, Trichoderma virens, 138 residues| and a name that needs a second line of title", 3);
    CU_ASSERT_EQUAL(ff_prediction_add_note(&ctx, &prediction, "No MSA was given: confidence will be low."), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_prediction_write_pdb(&ctx, &prediction, in_folder(path, "a.pdb"), FF_B_PLDDT), FF_OK);
    char *text = content_of(path);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "TITLE     T1078 Tsp1, Trichoderma virens, 138 residues| and a name that"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\nTITLE    2 "));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\nREMARK   6 The B-factor column holds pLDDT"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\nREMARK   6 No MSA was given: confidence will be low."));
    int64_t wrong = 0;
    for (char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1)
        wrong += end - line != 80;
    CU_ASSERT_EQUAL(wrong, 0);
    free(text);
    CU_ASSERT_EQUAL_FATAL(ff_prediction_write_pdb(&ctx, &prediction, path, FF_B_100_MINUS_PLDDT), FF_OK);
    text = content_of(path);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\nREMARK   6 The B-factor column holds 100 - pLDDT"));
    free(text);
}

static void test_names_of_any_kind_leave_both_files_readable(void)
{
    static const char *const names[] = {"",
                                        "../x",
                                        "a/b",
                                        "'\"; data_x\nloop_ _a.b \t\x01",
                                        "caf\xc3\xa9 \xff\xfe",
                                        "_underscore",
                                        "#hash",
                                        "?",
                                        "data_x",
                                        "LOOP_",
                                        "global_",
                                        "save_me now",
                                        "stop_'",
                                        "[x",
                                        "$y",
                                        ";semi",
                                        "'a b\" c"};
    char path[256], longest[4097];
    memset(longest, 'n', 4096);
    longest[4096] = '\0';
    for (size_t k = 0; k <= sizeof names / sizeof *names; k++) {
        make_prediction(&prediction, k < sizeof names / sizeof *names ? names[k] : longest, 5);
        CU_ASSERT_EQUAL_FATAL(ff_prediction_write_pdb(&ctx, &prediction, in_folder(path, "a.pdb"), FF_B_PLDDT), FF_OK);
        check_same_atoms(path, &prediction, FF_B_PLDDT);
        snprintf(path, sizeof path, "%s/%d.cif", folder, (int)k);
        CU_ASSERT_EQUAL_FATAL(ff_prediction_write_mmcif(&ctx, &prediction, path, FF_B_PLDDT), FF_OK);
        check_same_atoms(path, &prediction, FF_B_PLDDT);
        ff_prediction_destroy(&prediction);
    }
    if (have_program("gemmi")) {
        int status;
        char command[128];
        snprintf(command, sizeof command, "gemmi validate -f %s/*.cif 2>&1", folder);
        char *text = output_of(command, &status);
        CU_ASSERT_EQUAL(status, 0);
        if (status != 0)
            printf("%s\n", text);
        free(text);
    }
}

static void test_unknown_residues_stay_in_the_sequence(void)
{
    char path[256];
    CU_ASSERT_EQUAL_FATAL(ff_prediction_create(&ctx, &prediction, "x", "MXA", "model_1", 0), FF_OK);
    CU_ASSERT_EQUAL(prediction.aatype[1], FF_AATYPE_X);
    for (int64_t i = 0; i < 3; i += 2) /* atoms of M and A only, as the model gives them */
        prediction.atom37_mask[i * FF_NUM_ATOM37 + FF_ATOM_CA] = 1;
    CU_ASSERT_EQUAL_FATAL(ff_prediction_write_mmcif(&ctx, &prediction, in_folder(path, "x.cif"), FF_B_PLDDT), FF_OK);
    ff_structure back;
    CU_ASSERT_EQUAL_FATAL(ff_structure_read(&ctx, &back, path, NULL), FF_OK);
    CU_ASSERT_STRING_EQUAL(back.chains[0].sequence, "MXA");
    CU_ASSERT_EQUAL(back.chains[0].is_missing[1], 1);
    ff_structure_destroy(&back);
    CU_ASSERT_EQUAL(ff_prediction_write_pdb(&ctx, &prediction, in_folder(path, "x.pdb"), FF_B_PLDDT), FF_OK);
}

static void test_more_than_a_pdb_file_holds_goes_to_mmcif(void)
{
    char path[256];
    make_prediction(&prediction, "long", 13007);
    int64_t num_atoms = 0;
    for (int64_t k = 0; k < prediction.num_res * FF_NUM_ATOM37; k++)
        num_atoms += prediction.atom37_mask[k] > 0.5f;
    CU_ASSERT(num_atoms > 99999);
    CU_ASSERT_FALSE(ff_prediction_fits_pdb(&prediction));
    CU_ASSERT_EQUAL(ff_prediction_write_pdb(&ctx, &prediction, in_folder(path, "a.pdb"), FF_B_PLDDT), FF_ERR_ARG);
    CU_ASSERT_PTR_NOT_NULL(strstr(ctx.message, "use mmCIF"));
    CU_ASSERT_NOT_EQUAL(access(path, F_OK), 0);
    ff_context_clear(&ctx);
    CU_ASSERT_EQUAL_FATAL(ff_prediction_write_mmcif(&ctx, &prediction, in_folder(path, "a.cif"), FF_B_PLDDT), FF_OK);
    check_same_atoms(path, &prediction, FF_B_PLDDT);
    char *text = content_of(path), last[64];
    snprintf(last, sizeof last, "\nATOM %lld ", (long long)num_atoms);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, last));
    free(text);
}

static void test_numbers_that_are_none_are_refused(void)
{
    char path[256];
    make_prediction(&prediction, "nan", 5);
    prediction.atom37_positions[(2 * FF_NUM_ATOM37 + FF_ATOM_C) * 3 + 1] = NAN;
    CU_ASSERT_EQUAL(ff_prediction_write_pdb(&ctx, &prediction, in_folder(path, "a.pdb"), FF_B_PLDDT), FF_ERR_ARG);
    CU_ASSERT_PTR_NOT_NULL(strstr(ctx.message, "residue 3 (ASN) atom C"));
    ff_context_clear(&ctx);
    CU_ASSERT_EQUAL(ff_prediction_write_mmcif(&ctx, &prediction, in_folder(path, "a.cif"), FF_B_PLDDT), FF_ERR_ARG);
    ff_context_clear(&ctx);
    prediction.atom37_positions[(2 * FF_NUM_ATOM37 + FF_ATOM_C) * 3 + 1] = 10000.0f;
    CU_ASSERT_EQUAL(ff_prediction_write_pdb(&ctx, &prediction, path, FF_B_PLDDT), FF_ERR_ARG);
    ff_context_clear(&ctx);
    prediction.plddt[4] = NAN;
    CU_ASSERT_EQUAL(ff_prediction_write_mmcif(&ctx, &prediction, path, FF_B_PLDDT), FF_ERR_ARG);
    CU_ASSERT_PTR_NOT_NULL(strstr(ctx.message, "residue 5: pLDDT"));
    ff_context_clear(&ctx);
    CU_ASSERT_EQUAL(rmdir(folder), 0); /* no file was left */
    CU_ASSERT_PTR_NOT_NULL(mkdtemp(strcpy(folder, "/tmp/ff_infer_XXXXXX")));
}

static void test_a_folder_that_is_not_there_is_named(void)
{
    make_prediction(&prediction, "x", 2);
    CU_ASSERT_EQUAL(ff_prediction_write_mmcif(&ctx, &prediction, "/nonexistent/a.cif", FF_B_PLDDT), FF_ERR_IO);
    CU_ASSERT_PTR_NOT_NULL(strstr(ctx.message, "/nonexistent/a.cif"));
    ff_context_clear(&ctx);
    CU_ASSERT_EQUAL(ff_prediction_write_pdb(&ctx, &prediction, "/nonexistent/a.pdb", FF_B_PLDDT), FF_ERR_IO);
}

/* ---- other programs ---- */

/* gemmi makes the other format of each file: its atom lines must be those of our PDB file. */
static void test_gemmi_reads_the_same_atoms_from_both(void)
{
    char pdb[256], cif[256], command[1024];
    int status;
    if (!have_program("gemmi")) {
        ff_test_skip("no program gemmi (Debian: gemmi)");
        return;
    }
    if (!real_prediction(&prediction, real_file, "A"))
        return;
    CU_ASSERT_EQUAL_FATAL(ff_prediction_write_pdb(&ctx, &prediction, in_folder(pdb, "a.pdb"), FF_B_PLDDT), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_prediction_write_mmcif(&ctx, &prediction, in_folder(cif, "a.cif"), FF_B_PLDDT), FF_OK);
    snprintf(command, sizeof command,
             "cd %s && gemmi convert a.cif back.pdb && gemmi convert a.pdb via.cif && gemmi convert via.cif via.pdb && "
             "for f in a back via; do grep '^ATOM' $f.pdb >$f.atoms || exit 1; done; cmp a.atoms back.atoms && "
             "cmp a.atoms via.atoms && wc -l <a.atoms && grep -c '^SEQRES' back.pdb", folder);
    char *text = output_of(command, &status);
    CU_ASSERT_EQUAL(status, 0);
    CU_ASSERT(atoi(text) > 300);
    free(text);
}

static void test_tm_align_finds_no_difference_to_the_solved_chain(void)
{
    char path[256], command[1024];
    int status;
    if (!have_program("TMalign")) {
        ff_test_skip("no program TMalign (Debian: tm-align)");
        return;
    }
    if (!real_prediction(&prediction, real_file, "A"))
        return;
    CU_ASSERT_EQUAL_FATAL(ff_prediction_write_pdb(&ctx, &prediction, in_folder(path, "a.pdb"), FF_B_PLDDT), FF_OK);
    CU_ASSERT_EQUAL_FATAL(ff_prediction_write_mmcif(&ctx, &prediction, in_folder(path, "a.cif"), FF_B_PLDDT), FF_OK);
    for (int k = 0; k < 2; k++) {
        snprintf(command, sizeof command, "TMalign %s/a.%s %s 2>&1", folder, k == 0 ? "pdb" : "cif", real_file);
        char *text = output_of(command, &status);
        const char *rmsd = strstr(text, "RMSD="), *score = strstr(text, "TM-score=");
        CU_ASSERT_EQUAL(status, 0);
        CU_ASSERT_FATAL(rmsd != NULL && score != NULL);
        CU_ASSERT_EQUAL(atof(rmsd + 5), 0.0); /* prints two decimals */
        CU_ASSERT(atof(score + 9) > 0.99);
        free(text);
    }
}

static void test_the_dictionary_accepts_the_mmcif_file(void)
{
    static const char dictionary[] = "/usr/share/libcifpp/mmcif_ma.dic";
    char path[256], command[1024];
    int status;
    if (!have_program("gemmi") || access(dictionary, R_OK) != 0) {
        ff_test_skip("no program gemmi, or no dictionary of ModelCIF (Debian: gemmi, libcifpp-data)");
        return;
    }
    make_prediction(&prediction, "x", 40);
    make_up_confidences(&prediction);
    CU_ASSERT_EQUAL_FATAL(ff_prediction_write_mmcif(&ctx, &prediction, in_folder(path, "a.cif"), FF_B_PLDDT), FF_OK);
    snprintf(command, sizeof command, "gemmi validate -d %s %s 2>&1", dictionary, path);
    char *text = output_of(command, &status);
    CU_ASSERT_EQUAL(status, 0);
    if (status != 0)
        printf("%s\n", text);
    free(text);
    snprintf(command, sizeof command, "sed 's/ designed/ invented/' %s >%s.bad && gemmi validate -d %s %s.bad 2>&1",
             path, path, dictionary, path);
    text = output_of(command, &status);
    CU_ASSERT_NOT_EQUAL(status, 0); /* the check can fail */
    free(text);
}

static void test_quality_metrics_are_those_of_modelcif(void)
{
    char path[256];
    make_prediction(&prediction, "x", 12);
    prediction.ptm = 0.5;
    CU_ASSERT_EQUAL_FATAL(ff_prediction_write_mmcif(&ctx, &prediction, in_folder(path, "a.cif"), FF_B_100_MINUS_PLDDT),
                          FF_OK);
    char *text = content_of(path);
    static const char *const parts[] = {"_ma_qa_metric.mode",
                                        "_ma_target_entity.",
                                        "_ma_model_list.",
                                        "_entity_poly_seq.",
                                        "_software.name",
                                        "_pdbx_poly_seq_scheme.",
                                        "\n1 1 1 5.50\n2 1 3 0.500\n" /* global: mean of 0..11; pTM */,
                                        "\n12 1 A 12 LYS 2 11.00\n" /* pLDDT, not 100 - pLDDT */};
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
        CU_ASSERT_PTR_NOT_NULL(strstr(text, parts[k]));
        if (strstr(text, parts[k]) == NULL)
            printf("    missing: %s\n", parts[k]);
    }
    free(text);
}

#else
static void test_without_gemmi_mmcif_is_refused_and_pdb_is_not(void)
{
    char path[256];
    make_prediction(&prediction, "x", 3);
    CU_ASSERT_EQUAL(ff_prediction_write_mmcif(&ctx, &prediction, in_folder(path, "a.cif"), FF_B_PLDDT),
                    FF_ERR_UNSUPPORTED);
    ff_context_clear(&ctx);
    CU_ASSERT_EQUAL(ff_prediction_write_pdb(&ctx, &prediction, in_folder(path, "a.pdb"), FF_B_PLDDT), FF_OK);
    CU_ASSERT_EQUAL(access(path, R_OK), 0);
}
#endif

static CU_TestInfo tests[] = {
#ifdef FF_HAVE_GEMMI
    {"both_files_read_back", test_both_files_read_back},
    {"the_header_says_what_the_b_column_is", test_the_header_says_what_the_b_column_is},
    {"names_of_any_kind_leave_both_files_readable", test_names_of_any_kind_leave_both_files_readable},
    {"unknown_residues_stay_in_the_sequence", test_unknown_residues_stay_in_the_sequence},
    {"more_than_a_pdb_file_holds_goes_to_mmcif", test_more_than_a_pdb_file_holds_goes_to_mmcif},
    {"numbers_that_are_none_are_refused", test_numbers_that_are_none_are_refused},
    {"a_folder_that_is_not_there_is_named", test_a_folder_that_is_not_there_is_named},
    {"gemmi_reads_the_same_atoms_from_both", test_gemmi_reads_the_same_atoms_from_both},
    {"tm_align_finds_no_difference_to_the_solved_chain", test_tm_align_finds_no_difference_to_the_solved_chain},
    {"the_dictionary_accepts_the_mmcif_file", test_the_dictionary_accepts_the_mmcif_file},
    {"quality_metrics_are_those_of_modelcif", test_quality_metrics_are_those_of_modelcif},
#else
    {"without_gemmi_mmcif_is_refused_and_pdb_is_not", test_without_gemmi_mmcif_is_refused_and_pdb_is_not},
#endif
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_infer_structure = {"infer/structure", NULL, NULL, set_up, tear_down, tests};
