/* Template features: every way a hit is used or left out, on small structures made here. */
#include <CUnit/CUnit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/msa.h"
#include "data/templates.h"
#include "io/subprocess.h"
#include "tests/check.h"

static ff_ctx ctx;
static char folder[64], obsolete[96];
static ff_template_options options;
static ff_template_source *source;
static ff_hit_template result;
static ff_array_set set;

static const char query[] = "MKVLAAGIVGLCAKAYLEHLADTFRSWQNPEGIKYMHTDV"; /* 40 */
/* chain A: ten other residues, then the query with two changes, then five more */
static const char chain_a[] = "GSHMENLYFQMKVLAAGIVGLCAKAYLEHLADTWRSWQNPEGIKYMHTEVGGSGG";
static const char chain_b[] = "AAPLIVTGRRNKDWWYHEFCCSTQ";

static const char *three_letters(char letter)
{
    static const char letters[] = "ARNDCQEGHILKMFPSTWYV";
    static const char names[][4] = {"ALA", "ARG", "ASN", "ASP", "CYS", "GLN", "GLU", "GLY", "HIS", "ILE",
                                    "LEU", "LYS", "MET", "PHE", "PRO", "SER", "THR", "TRP", "TYR", "VAL"};
    const char *at = strchr(letters, letter);
    return at == NULL ? "UNK" : names[at - letters];
}

static void put_seqres(FILE *file, char chain, const char *sequence)
{
    const int n = (int)strlen(sequence);
    for (int i = 0; i < n; i++) {
        if (i % 13 == 0)
            fprintf(file, "SEQRES %3d %c %4d  ", i / 13 + 1, chain, n);
        fprintf(file, "%s%s", three_letters(sequence[i]), i % 13 == 12 || i == n - 1 ? "\n" : " ");
    }
}

/* N, CA, C, O (and CB) of residue i at x = i, y = the atom's number, z = 10 for chain B. */
static void put_atoms(FILE *file, char chain, const char *sequence, int num_atoms, int *serial)
{
    static const char atoms[][5] = {" N  ", " CA ", " C  ", " O  ", " CB "};
    for (int i = 0; sequence[i] != '\0'; i++)
        for (int a = 0; a < num_atoms - (sequence[i] == 'G'); a++)
            fprintf(file, "ATOM  %5d %s %s %c%4d    %8.3f%8.3f%8.3f  1.00 10.00           %c\n", ++*serial, atoms[a],
                    three_letters(sequence[i]), chain, i + 1, (double)i, (double)a, chain == 'B' ? 10.0 : 0.0,
                    atoms[a][1]);
}

/* A PDB file of one or two chains. `date` as in REVDAT, or NULL. */
static void put_pdb(const char *name, const char *a, const char *b, const char *date, int num_atoms)
{
    char path[128];
    int serial = 0;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    if (date != NULL)
        fprintf(file, "REVDAT   1   %s 1ABC    0\n", date);
    put_seqres(file, 'A', a);
    if (b != NULL)
        put_seqres(file, 'B', b);
    put_atoms(file, 'A', a, num_atoms, &serial);
    fputs("TER\n", file);
    if (b != NULL)
        put_atoms(file, 'B', b, num_atoms, &serial);
    fputs("END\n", file);
    fclose(file);
}

static void set_up(void)
{
    ff_context_init(&ctx);
    ctx.log.file = NULL;
    strcpy(folder, "/tmp/ff_templates_XXXXXX");
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
    put_pdb("1abc.pdb", chain_a, chain_b, "15-MAR-10", 5);
    options = (ff_template_options){.folder = folder};
    source = NULL;
    result = (ff_hit_template){0};
    ff_array_set_init(&set);
}

static void tear_down(void)
{
    char command[96];
    ff_hit_template_destroy(&result);
    ff_template_source_destroy(source);
    ff_array_set_destroy(&set);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    CU_ASSERT_EQUAL(system(command), 0);
}

/* Residues [from, from + strlen(letters without gaps)) by column. */
static int64_t number_columns(const char *letters, int32_t from, int32_t *indices)
{
    int64_t n = 0;
    for (; letters[n] != '\0'; n++)
        indices[n] = letters[n] == '-' ? -1 : from++;
    return n;
}

/* Align `part` of the query, which begins at its residue `q`, with `letters`, which begin at residue `h` of the hit.
 * */
static ff_hit_verdict try_hit(const char *name, const char *part, int32_t q, const char *letters, int32_t h)
{
    static int32_t columns[2][128];
    ff_template_hit hit = {.name = name,
                           .query = part,
                           .hit_sequence = letters,
                           .sum_probs = 7.5f,
                           .indices_query = columns[0],
                           .indices_hit = columns[1]};
    hit.num_query = number_columns(part, q, columns[0]);
    hit.num_hit = number_columns(letters, h, columns[1]);
    for (int64_t i = 0; i < hit.num_query; i++)
        hit.aligned_cols += part[i] != '-' && letters[i] != '-';
    if (source == NULL)
        CU_ASSERT_EQUAL_FATAL(ff_template_source_create(&ctx, &source, &options), FF_OK);
    ff_hit_template_destroy(&result);
    CU_ASSERT_EQUAL_FATAL(ff_hit_template_make(&ctx, source, &hit, query, &result), FF_OK);
    return result.verdict;
}

static void reopen(void)
{
    ff_template_source_destroy(source);
    source = NULL;
}

static bool has(const char *text, const char *part)
{
    if (strstr(text, part) != NULL)
        return true;
    printf("\n    \"%s\" is not in \"%s\"\n", part, text);
    return false;
}

/* Query residue q holds residue `from` of the chain (0-based), on z. */
static void check_residue(int q, int from, float z, char letter)
{
    CU_ASSERT_EQUAL(result.sequence[q], letter);
    CU_ASSERT_EQUAL(result.masks[q * 37 + 1], 1);
    CU_ASSERT_EQUAL(result.positions[(q * 37 + 1) * 3], (float)from);
    CU_ASSERT_EQUAL(result.positions[(q * 37 + 1) * 3 + 1], 1);
    CU_ASSERT_EQUAL(result.positions[(q * 37 + 1) * 3 + 2], z);
    CU_ASSERT_EQUAL(result.aatype[q * 22 + ff_msa_code(letter)], 1);
}

static void check_empty(int q)
{
    CU_ASSERT_EQUAL(result.sequence[q], '-');
    CU_ASSERT_EQUAL(result.aatype[q * 22 + 21], 1);
    for (int a = 0; a < 37; a++)
        CU_ASSERT(result.masks[q * 37 + a] == 0 && result.positions[(q * 37 + a) * 3] == 0);
}

/* ---- where the hit is found ---- */

static void test_residues_follow_the_alignment_with_its_gaps(void)
{
    /* query 2..13 and a residue of the hit with none of the query, a residue of the query with none of the hit */
    CU_ASSERT_EQUAL(try_hit("1ABC_A first words", "VLAAGI-VGLCAKA", 2, "VLAAGIVGL-CAKA", 50), FF_HIT_USED);
    CU_ASSERT_EQUAL(result.num_map, 12);
    CU_ASSERT_STRING_EQUAL(result.domain_name, "1abc_A");
    CU_ASSERT_EQUAL(result.sum_probs, 7.5f);
    CU_ASSERT_STRING_EQUAL(result.reason, "");
    check_residue(2, 12, 0, 'V');
    check_residue(7, 17, 0, 'I');
    check_residue(8, 19, 0, 'G'); /* column 7: query V against hit G, the residue after the hit's own V */
    check_residue(9, 20, 0, 'L');
    check_empty(10);
    check_residue(11, 21, 0, 'C');
    check_residue(14, 24, 0, 'A');
    check_empty(1);
    check_empty(15);
    CU_ASSERT_EQUAL(result.masks[8 * 37 + 3], 0); /* glycine has no CB */
    CU_ASSERT_EQUAL(result.masks[7 * 37 + 3], 1);
}

static void test_the_sequence_is_looked_for_in_other_chains(void)
{
    CU_ASSERT_EQUAL(try_hit("1abc_A", "MKVLAAGIVGLC", 0, "TGRRNKDWWYHE", 7), FF_HIT_USED);
    CU_ASSERT_STRING_EQUAL(result.domain_name, "1abc_B");
    check_residue(0, 6, 10, 'T');
    CU_ASSERT_EQUAL(try_hit("1abc_Q", "MKVLAAGIVGLC", 0, "TGRRNKDWWYHE", 7), FF_HIT_USED);
    CU_ASSERT_STRING_EQUAL(result.domain_name, "1abc_B");
}

static void test_equal_chains_keep_their_own_coordinates(void)
{
    put_pdb("1dim.pdb", chain_b, chain_b, NULL, 5);
    CU_ASSERT_EQUAL(try_hit("1dim_A", "MKVLAAGIVGLC", 0, "TGRRNKDWWYHE", 7), FF_HIT_USED);
    check_residue(0, 6, 0, 'T');
    CU_ASSERT_EQUAL(try_hit("1dim_B", "MKVLAAGIVGLC", 0, "TGRRNKDWWYHE", 7), FF_HIT_USED);
    check_residue(0, 6, 10, 'T');
    CU_ASSERT_STRING_EQUAL(result.domain_name, "1dim_B");
}

static void test_x_stands_for_any_residue(void)
{
    CU_ASSERT_EQUAL(try_hit("1abc_B", "MKVLAAGIVGLC", 0, "TGXRNXDWWYHE", 7), FF_HIT_USED);
    check_residue(0, 6, 10, 'T');
    check_residue(2, 8, 10, 'X');
}

static void test_a_part_not_found_in_the_query_goes_where_the_file_says(void)
{
    CU_ASSERT_EQUAL(try_hit("1abc_B", "MKVLXAGIVGLC", 3, "TGRRNKDWWYHE", 7), FF_HIT_USED);
    check_residue(3, 6, 10, 'T');
    check_empty(0);
}

/* ---- realignment ---- */

static bool find_kalign(void)
{
    static char path[256];
    char *found = NULL;
    if (ff_find_program(&ctx, &found, "kalign", NULL, "FASTFOLD_KALIGN", "kalign") != FF_OK) {
        ff_context_clear(&ctx);
        ff_test_skip("kalign is not installed");
        return false;
    }
    snprintf(path, sizeof path, "%s", found);
    free(found);
    options.kalign = path;
    return true;
}

static void test_another_version_of_the_sequence_is_realigned(void)
{
    if (!find_kalign())
        return;
    /* the file has W and E where the hit has F and D, and the hit has two residues more in the middle: 26 of 28
     * agree */
    const char *part = "VLAAGIVGLCAKAYLEHLADTFRSWQNPEGIK";
    const char *hit = "VLAAGIVGLCAKAYLEHLKKADTFRSWQNPEG";
    CU_ASSERT_EQUAL(try_hit("1abc_A", part, 2, hit, 90), FF_HIT_USED);
    CU_ASSERT(result.realigned);
    CU_ASSERT(has(result.reason, "/1abc.pdb; realigned to the actual one"));
    CU_ASSERT_STRING_EQUAL(result.domain_name, "1abc_A");
    check_residue(2, 12, 0, 'V');
    check_residue(19, 29, 0, 'L');
    check_empty(20); /* the hit's two K have no partner in the file */
    check_empty(21);
    check_residue(22, 30, 0, 'A');
    check_residue(25, 33, 0, 'W'); /* the file's letter, not the hit's F */
    check_residue(33, 41, 0, 'G');
    CU_ASSERT_EQUAL(result.num_map, 30);
}

static void test_too_different_sequences_are_left_out(void)
{
    CU_ASSERT_EQUAL(try_hit("1abc_A", "VLAAGIVGLCAK", 2, "VLAWGIVGLCAK", 1), FF_HIT_NOT_FOUND);
    CU_ASSERT(has(result.reason, "there is no kalign to realign it"));
    CU_ASSERT_PTR_NULL(result.positions);
    if (!find_kalign())
        return;
    reopen();
    CU_ASSERT_EQUAL(try_hit("1abc_A", "VLAAGIVGLCAKAY", 2, "VLAWGIWGLCWKAY", 1), FF_HIT_NOT_FOUND);
    CU_ASSERT(has(result.reason, "of 14 residues agree, fewer than nine tenths"));
    CU_ASSERT_EQUAL(try_hit("1abc_Q", "VLAAGIVGLCAKAY", 2, "VLAWGIWGLCWKAY", 1), FF_HIT_NOT_FOUND);
    CU_ASSERT(has(result.reason, "/1abc.pdb has no protein chain Q, nor one with its sequence"));
    put_pdb("1xyz.pdb", "MKVLA", NULL, NULL, 5); /* one chain: it is the one, but kalign takes six residues */
    reopen();
    CU_ASSERT_EQUAL(try_hit("1xyz_Z", "VLAAGIVGLCAKAY", 2, "VLAWGIWGLCWKAY", 1), FF_HIT_NOT_FOUND);
    CU_ASSERT(has(result.reason, "one of the sequences has 5 residues, too few for kalign"));
    options.kalign = "/bin/false";
    reopen();
    CU_ASSERT_EQUAL(try_hit("1abc_A", "VLAAGIVGLCAK", 2, "VLAWGIVGLCAK", 1), FF_HIT_NOT_FOUND);
    CU_ASSERT(has(result.reason, "/bin/false: exit status 1"));
}

/* ---- what is left out ---- */

static void test_names_must_be_pdb_id_and_chain(void)
{
    static const char *const bad[] = {"d1cih__", "1AE5A", "1abc_", "1ab_A", "", "1abc", "pdb_1abc_A", "1a-c_A"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CU_ASSERT_EQUAL(try_hit(bad[i], "MKVLAAGIVGLC", 0, "TGRRNKDWWYHE", 7), FF_HIT_BAD_NAME);
    CU_ASSERT_EQUAL(try_hit("PDB_00001ABC_B x", "MKVLAAGIVGLC", 0, "TGRRNKDWWYHE", 7), FF_HIT_NO_FILE);
    CU_ASSERT(has(result.reason, "no structure file of pdb_00001abc in /tmp/ff_templates_"));
}

static void test_the_prefilter(void)
{
    CU_ASSERT_EQUAL(try_hit("1abc_B", "MKVL--------", 0, "TGRRNKDWWYHE", 7), FF_HIT_FEW_ALIGNED); /* 4 of 40 */
    CU_ASSERT_EQUAL(try_hit("1abc_B", "MKVLA-------", 0, "TGRRNKDWWYHE", 7), FF_HIT_USED);
    CU_ASSERT_EQUAL(try_hit("1abc_B", "MKVLAAGIV", 0, "TGRRNKDWW", 7), FF_HIT_SHORT);
    CU_ASSERT_EQUAL(try_hit("1abc_B", "MKVLAAGIVG", 0, "TGRRNKDWWY", 7), FF_HIT_USED);
    CU_ASSERT_EQUAL(try_hit("1abc_A", query, 0, query, 0), FF_HIT_DUPLICATE);
    char part[64];
    snprintf(part, sizeof part, "%.39s", query); /* 0.975 */
    CU_ASSERT_EQUAL(try_hit("1abc_A", part, 0, part, 0), FF_HIT_DUPLICATE);
    snprintf(part, sizeof part, "%.38s", query); /* 0.95 is not more than 0.95: goes on, and is not in the file */
    CU_ASSERT_EQUAL(try_hit("1abc_A", part, 0, part, 0), FF_HIT_NOT_FOUND);
    CU_ASSERT_PTR_NOT_NULL(result.map);
}

static void test_the_release_date_must_not_be_after_the_cut_off(void)
{
    options.max_date = "2010-03-14";
    CU_ASSERT_EQUAL(try_hit("1abc_B", "MKVLAAGIVGLC", 0, "TGRRNKDWWYHE", 7), FF_HIT_TOO_NEW);
    CU_ASSERT_STRING_EQUAL(result.reason, "released 2010-03-15, after 2010-03-14");
    options.max_date = "2010-03-15";
    reopen();
    CU_ASSERT_EQUAL(try_hit("1abc_B", "MKVLAAGIVGLC", 0, "TGRRNKDWWYHE", 7), FF_HIT_USED);
    put_pdb("1und.pdb", chain_a, chain_b, NULL, 5);
    reopen();
    CU_ASSERT_EQUAL(try_hit("1und_B", "MKVLAAGIVGLC", 0, "TGRRNKDWWYHE", 7), FF_HIT_TOO_NEW);
    CU_ASSERT(
        has(result.reason, "/1und.pdb has no release date, so it cannot pass the cut-off; --allow-undated takes it"));
    options.allow_undated = true;
    reopen();
    CU_ASSERT_EQUAL(try_hit("1und_B", "MKVLAAGIVGLC", 0, "TGRRNKDWWYHE", 7), FF_HIT_USED);
    options.max_date = "March 2010";
    reopen();
    CU_ASSERT_EQUAL(ff_template_source_create(&ctx, &source, &options), FF_ERR_ARG);
    CU_ASSERT_STRING_EQUAL(ctx.message, "--max-template-date: \"March 2010\" is no date like 2021-11-01");
}

static void test_obsolete_entries_are_followed(void)
{
    snprintf(obsolete, sizeof obsolete, "%s/obsolete.dat", folder);
    FILE *file = fopen(obsolete, "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    fputs(" LIST OF OBSOLETE COORDINATE ENTRIES AND SUCCESSORS\n"
          "OBSLTE    31-JUL-94 9AAA     9BBB\nOBSLTE    31-JUL-95 9BBB     1ABC\n"
          "OBSLTE    31-JUL-94 9CCC     9DDD\nOBSLTE    31-JUL-94 9DDD     9CCC\nOBSLTE    31-JUL-94 9EEE\n",
          file);
    fclose(file);
    options.obsolete = obsolete;
    CU_ASSERT_EQUAL(try_hit("9AAA_B", "MKVLAAGIVGLC", 0, "TGRRNKDWWYHE", 7), FF_HIT_USED);
    CU_ASSERT_STRING_EQUAL(result.domain_name, "1abc_B");
    CU_ASSERT_EQUAL(try_hit("9CCC_B", "MKVLAAGIVGLC", 0, "TGRRNKDWWYHE", 7), FF_HIT_NO_FILE);
    CU_ASSERT(has(result.reason, "9ccc"));
    CU_ASSERT_EQUAL(try_hit("9EEE_B", "MKVLAAGIVGLC", 0, "TGRRNKDWWYHE", 7), FF_HIT_NO_FILE);
    CU_ASSERT_EQUAL(ctx.status, FF_OK);
}

static void test_files_without_use_cost_their_hit_only(void)
{
    char path[128];
    snprintf(path, sizeof path, "%s/1bad.cif", folder);
    FILE *file = fopen(path, "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    fputs("data_1bad\nloop_\n_atom_site.id\n", file);
    fclose(file);
    put_pdb("1caa.pdb", chain_b, NULL, NULL, 5);
    snprintf(path, sizeof path, "%s/1few.pdb", folder);
    file = fopen(path, "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    put_seqres(file, 'A', chain_b);
    int serial = 0;
    put_atoms(file, 'A', "A", 4, &serial); /* four atoms in all, at residue 1 */
    fputs("END\n", file);
    fclose(file);
    CU_ASSERT_EQUAL(try_hit("1bad_A", "MKVLAAGIVGLC", 0, "TGRRNKDWWYHE", 7), FF_HIT_NO_FILE);
    CU_ASSERT(has(result.reason, "1bad.cif"));
    CU_ASSERT_EQUAL(try_hit("1few_A", "MKVLAAGIVGLC", 0, "AAPLIVTGRRNK", 1), FF_HIT_NO_ATOMS);
    CU_ASSERT_STRING_EQUAL(result.reason, "4 atoms of chain A are aligned, fewer than 5");
    CU_ASSERT_PTR_NULL(result.positions);
    CU_ASSERT_EQUAL(try_hit("1caa_A", "MKVLAAGIVGLC", 0, "AAPLIVTGRRNK", 1), FF_HIT_USED);
}

/* ---- all hits of a file ---- */

enum { NUM_HITS = 5 };

static void make_hits(ff_template_hits *hits, ff_template_hit *list)
{
    static const char *const names[NUM_HITS] = {"1abc_A", "1abc_B", "nothing", "1abc_B", "1abc_A"};
    static const char *const letters[NUM_HITS] = {"MKVLAAGIVGLC", "AAPLIVTGRRNK", "AAPLIVTGRRNK", "AAPLIVTGRRNK",
                                                  "CAKAYLEHLADT"};
    static const float sum_probs[NUM_HITS] = {3, 9, 20, 9, 11};
    static int32_t columns[2][12];
    number_columns("MKVLAAGIVGLC", 0, columns[0]);
    number_columns("MKVLAAGIVGLC", 5, columns[1]);
    for (int i = 0; i < NUM_HITS; i++)
        list[i] = (ff_template_hit){.line = 10 * i,
                                    .index = i + 1,
                                    .name = names[i],
                                    .aligned_cols = 12,
                                    .sum_probs = sum_probs[i],
                                    .query = "MKVLAAGIVGLC",
                                    .hit_sequence = letters[i],
                                    .indices_query = columns[0],
                                    .indices_hit = columns[1],
                                    .num_query = 12,
                                    .num_hit = 12};
    *hits = (ff_template_hits){.path = "hits.hhr", .hits = list, .count = NUM_HITS};
}

static void check_names(const char *name0, const char *name1, const char *name2, const char *name3)
{
    const char *const names[] = {name0, name1, name2, name3};
    const ff_array *got = ff_array_find(&set, "template_domain_names");
    int64_t n = 0;
    while (n < 4 && names[n] != NULL)
        n++;
    CU_ASSERT_PTR_NOT_NULL_FATAL(got);
    CU_ASSERT_EQUAL_FATAL(got->shape[0], n);
    for (int64_t i = 0; i < n; i++)
        CU_ASSERT_STRING_EQUAL(got->text[i], names[i]);
    CU_ASSERT_PTR_NOT_NULL(ff_array_need(&ctx, &set, "template_aatype", FF_ARRAY_FLOAT32, FF_DIMS(n, 40, 22)));
    CU_ASSERT_PTR_NOT_NULL(
        ff_array_need(&ctx, &set, "template_all_atom_positions", FF_ARRAY_FLOAT32, FF_DIMS(n, 40, 37, 3)));
    CU_ASSERT_PTR_NOT_NULL(
        ff_array_need(&ctx, &set, "template_all_atom_masks", FF_ARRAY_FLOAT32, FF_DIMS(n, 40, 37)));
    CU_ASSERT_PTR_NOT_NULL(ff_array_need(&ctx, &set, "template_sum_probs", FF_ARRAY_FLOAT32, FF_DIMS(n, 1)));
    CU_ASSERT_PTR_NOT_NULL(ff_array_need(&ctx, &set, "template_sequence", FF_ARRAY_TEXT, FF_DIMS(n)));
}

static void test_hits_come_in_the_order_of_their_program(void)
{
    ff_template_hit list[NUM_HITS];
    ff_template_hits hits;
    make_hits(&hits, list);
    CU_ASSERT_EQUAL_FATAL(ff_template_source_create(&ctx, &source, &options), FF_OK);
    CU_ASSERT_EQUAL(ff_features_add_templates(&ctx, &set, source, &hits, FF_HITS_HHSEARCH, query), FF_OK);
    check_names("1abc_A", "1abc_B", "1abc_B", "1abc_A");
    const float *sum_probs = ff_array_find(&set, "template_sum_probs")->f32;
    CU_ASSERT(sum_probs[0] == 11 && sum_probs[1] == 9 && sum_probs[2] == 9 && sum_probs[3] == 3);
    CU_ASSERT_EQUAL(ff_features_add_templates(&ctx, &set, source, &hits, FF_HITS_HMMSEARCH, query), FF_OK);
    check_names("1abc_A", "1abc_B", "1abc_A", NULL); /* no sequence twice */
    ff_template_source_destroy(source);
    source = NULL;
    options.max_templates = 2;
    CU_ASSERT_EQUAL_FATAL(ff_template_source_create(&ctx, &source, &options), FF_OK);
    CU_ASSERT_EQUAL(ff_features_add_templates(&ctx, &set, source, &hits, FF_HITS_HHSEARCH, query), FF_OK);
    check_names("1abc_A", "1abc_B", NULL, NULL);
    hits.count = 0;
    CU_ASSERT_EQUAL(ff_features_add_templates(&ctx, &set, source, &hits, FF_HITS_HHSEARCH, query), FF_OK);
    check_names(NULL, NULL, NULL, NULL);
}

static CU_TestInfo tests[] = {
    {"residues_follow_the_alignment_with_its_gaps", test_residues_follow_the_alignment_with_its_gaps},
    {"the_sequence_is_looked_for_in_other_chains", test_the_sequence_is_looked_for_in_other_chains},
    {"equal_chains_keep_their_own_coordinates", test_equal_chains_keep_their_own_coordinates},
    {"x_stands_for_any_residue", test_x_stands_for_any_residue},
    {"a_part_not_found_in_the_query_goes_where_the_file_says",
     test_a_part_not_found_in_the_query_goes_where_the_file_says},
    {"another_version_of_the_sequence_is_realigned", test_another_version_of_the_sequence_is_realigned},
    {"too_different_sequences_are_left_out", test_too_different_sequences_are_left_out},
    {"names_must_be_pdb_id_and_chain", test_names_must_be_pdb_id_and_chain},
    {"the_prefilter", test_the_prefilter},
    {"the_release_date_must_not_be_after_the_cut_off", test_the_release_date_must_not_be_after_the_cut_off},
    {"obsolete_entries_are_followed", test_obsolete_entries_are_followed},
    {"files_without_use_cost_their_hit_only", test_files_without_use_cost_their_hit_only},
    {"hits_come_in_the_order_of_their_program", test_hits_come_in_the_order_of_their_program},
    CU_TEST_INFO_NULL,
};
CU_SuiteInfo suite_data_templates = {"data/templates", NULL, NULL, set_up, tear_down, tests};
