/* write_mmcif.cpp - mmCIF with ModelCIF's categories, over gemmi's CIF documents.
 *
 * Items follow the dictionaries mmcif_pdbx.dic and mmcif_ma.dic 1.4; the choice of categories is that of AlphaFold
 * DB, so that viewers that colour those by pLDDT colour ours. */
#include "infer/write_structure.h"

#include <cctype>
#include <cinttypes>
#include <cmath>
#include <cstring>
#include <exception>
#include <sstream>
#include <string>

#include <strings.h>

#include <gemmi/cifdoc.hpp>
#include <gemmi/to_cif.hpp>

#include "core/version.h"
#include "infer/text.h"
#include "io/safe_file.h"
#include "structure/residue_constants.h"

namespace cif = gemmi::cif;

namespace {

const char *const component_names[21] = {
    "ALANINE", "ARGININE", "ASPARAGINE", "ASPARTIC ACID", "CYSTEINE", "GLUTAMINE", "GLUTAMIC ACID",
    "GLYCINE", "HISTIDINE", "ISOLEUCINE", "LEUCINE", "LYSINE", "METHIONINE", "PHENYLALANINE",
    "PROLINE", "SERINE", "THREONINE", "TRYPTOPHAN", "TYROSINE", "VALINE", "UNKNOWN"};
enum { GLYCINE = 7, LONGEST_TEXT = 1024 };

std::string number(int64_t value)
{
    return std::to_string(value);
}

std::string fixed(double value, int decimals)
{
    char text[64];
    snprintf(text, sizeof text, "%.*f", decimals, value);
    return text;
}

/* Text as one CIF value; gemmi's quote() lets words through that CIF reserves. */
std::string value(const std::string &text)
{
    for (const char *reserved : {"data_", "save_", "loop_", "stop_", "global_"})
        if (strncasecmp(text.c_str(), reserved, strlen(reserved)) == 0 &&
            text.find_first_of(" '\"") == std::string::npos)
            return "'" + text + "'";
    return cif::quote(text);
}

/* User's text as one CIF value. */
std::string words(const char *text)
{
    char line[LONGEST_TEXT];
    ff_text_ascii_line(line, sizeof line, text);
    return line[0] == '\0' ? "?" : value(line);
}

/* The block's name: letters, digits and underscores of the name's first word. */
std::string block_name(const char *name)
{
    char line[81];
    std::string made;
    ff_text_ascii_line(line, sizeof line, name);
    for (const char *c = line; *c != '\0' && *c != ' '; c++)
        if (isalnum(static_cast<unsigned char>(*c)) || !made.empty()) /* a value that begins with _ would be a tag */
            made += isalnum(static_cast<unsigned char>(*c)) ? *c : '_';
    return made.empty() ? "model" : made;
}

bool has_atoms(const ff_prediction *p, int64_t i)
{
    for (int64_t a = 0; a < FF_NUM_ATOM37; a++)
        if (p->atom37_mask[i * FF_NUM_ATOM37 + a] >= 0.5f)
            return true;
    return false;
}

void add_entry(cif::Block &block, const ff_prediction *p)
{
    block.set_pair("_entry.id", value(block.name));
    block.init_loop("_audit_conform.", {"dict_name", "dict_version", "dict_location"})
        .add_row(
            {"mmcif_ma.dic", "1.4.2", "https://raw.githubusercontent.com/ihmwg/ModelCIF/master/dist/mmcif_ma.dic"});
    block.set_pair("_struct.entry_id", value(block.name));
    block.set_pair("_struct.title", words(p->name));
    block.set_pair("_struct.pdbx_model_details", words(p->model_name));
    std::string notes;
    for (int64_t k = 0; k < p->num_notes; k++)
        notes += std::string(k > 0 ? " " : "") + p->notes[k];
    if (!notes.empty())
        block.set_pair("_struct.pdbx_details", words(notes.c_str()));
    block.init_loop("_citation.", {"id", "title", "journal_abbrev", "journal_volume", "page_first", "year",
                                   "pdbx_database_id_DOI"})
        .add_row({"primary", "'Highly accurate protein structure prediction with AlphaFold'", "Nature", "596", "583",
                  "2021", "10.1038/s41586-021-03819-2"});
}

/* What made the file, and how. */
void add_software(cif::Block &block, const ff_prediction *p)
{
    block.init_loop("_software.", {"pdbx_ordinal", "name", "version", "type", "classification", "description"})
        .add_row({"1", "'FastFold in C'", FF_VERSION, "program", "'model building'",
                  "'AlphaFold 2 structure prediction'"});
    block.init_loop("_ma_software_group.", {"ordinal_id", "group_id", "software_id"}).add_row({"1", "1", "1"});
    cif::Loop &data = block.init_loop("_ma_data.", {"id", "name", "content_type"});
    data.add_row({"1", "'Target sequence'", "target"});
    data.add_row({"2", "Model", "'model coordinates'"});
    cif::Loop &steps = block.init_loop("_ma_protocol_step.", {"ordinal_id", "protocol_id", "step_id", "method_type",
                                                              "step_name", "software_group_id", "details"});
    const bool with_msa = p->num_msa > 1;
    if (with_msa)
        steps.add_row({"1", "1", "1", "'coevolution MSA'", "?", "?",
                       cif::quote(number(p->num_msa) + " rows, with the query")});
    const std::string last = with_msa ? "2" : "1";
    steps.add_row({last, "1", last, "modeling", "prediction", "1",
                   words((std::string(p->model_name) + ", seed " + std::to_string(p->seed) + ", " +
                          number(p->num_history > 0 ? p->num_history : 1) + " passes").c_str())});
    block.init_loop("_ma_model_list.", {"ordinal_id", "model_id", "model_group_id", "model_name", "model_group_name",
                                        "data_id", "model_type"})
        .add_row({"1", "1", "1", words(p->model_name), "'All models'", "2", "'Ab initio model'"});
}

/* The sequence: entity, polymer, components. */
void add_polymer(cif::Block &block, const ff_prediction *p, const std::string &chain)
{
    block.init_loop("_entity.", {"id", "type", "src_method", "pdbx_description", "pdbx_number_of_molecules"})
        .add_row({"1", "polymer", "syn", words(p->name), "1"});
    std::string letters = ";", canonical = ";";
    bool used[21] = {false}, unknown = false;
    for (int64_t i = 0; i < p->num_res; i++) {
        const int code = p->aatype[i];
        used[code] = true;
        unknown = unknown || code == FF_AATYPE_X;
        letters += code == FF_AATYPE_X ? "(UNK)" : std::string(1, ff_restypes[code]);
        canonical += ff_restypes[code];
        if (i % 80 == 79 && i + 1 < p->num_res) {
            letters += "\n"; /* up to 400 columns if all were UNK */
            canonical += "\n";
        }
    }
    block.init_loop("_entity_poly.", {"entity_id", "type", "nstd_linkage", "nstd_monomer", "pdbx_strand_id",
                                      "pdbx_seq_one_letter_code", "pdbx_seq_one_letter_code_can"})
        .add_row({"1", "polypeptide(L)", "no", unknown ? "yes" : "no", chain, letters + "\n;", canonical + "\n;"});
    cif::Loop &sequence = block.init_loop("_entity_poly_seq.", {"entity_id", "num", "mon_id", "hetero"});
    for (int64_t i = 0; i < p->num_res; i++)
        sequence.add_row({"1", number(i + 1), ff_resnames[p->aatype[i]], "n"});
    cif::Loop &components = block.init_loop("_chem_comp.", {"id", "type", "mon_nstd_flag", "name"});
    for (int code = 0; code < 21; code++)
        if (used[code])
            components.add_row({ff_resnames[code], code == GLYCINE ? "'peptide linking'" : "'L-peptide linking'",
                                code == FF_AATYPE_X ? "n" : "y", cif::quote(component_names[code])});
    block.init_loop("_struct_asym.", {"id", "entity_id", "details"}).add_row({chain, "1", "?"});
    block.init_loop("_ma_target_entity.", {"entity_id", "data_id", "origin"}).add_row({"1", "1", "designed"});
    block.init_loop("_ma_target_entity_instance.", {"asym_id", "entity_id", "details"}).add_row({chain, "1", "?"});
}

/* How places in the sequence and residue numbers go together. */
void add_numbering(cif::Block &block, const ff_prediction *p, const std::string &chain)
{
    cif::Loop &scheme = block.init_loop("_pdbx_poly_seq_scheme.",
                                        {"asym_id", "entity_id", "seq_id", "mon_id", "ndb_seq_num", "pdb_seq_num",
                                         "auth_seq_num", "pdb_mon_id", "auth_mon_id", "pdb_strand_id", "pdb_ins_code",
                                         "hetero"});
    for (int64_t i = 0; i < p->num_res; i++) {
        const std::string place = number(i + 1), residue = number(static_cast<int64_t>(p->residue_index[i]) + 1);
        const std::string name = ff_resnames[p->aatype[i]];
        const bool there = has_atoms(p, i);
        scheme.add_row({chain, "1", place, name, place, residue, there ? residue : "?", there ? name : "?",
                        there ? name : "?", chain, ".", "n"});
    }
}

void add_quality(cif::Block &block, const ff_prediction *p, const std::string &chain)
{
    const bool with_ptm = std::isfinite(p->ptm);
    cif::Loop &metrics =
        block.init_loop("_ma_qa_metric.", {"id", "name", "type", "mode", "description", "software_group_id"});
    metrics.add_row(
        {"1", "pLDDT", "pLDDT", "global", "'mean of the predicted lDDT-CA of the residues, 0 to 100'", "1"});
    metrics.add_row({"2", "pLDDT", "pLDDT", "local", "'predicted lDDT-CA, 0 to 100'", "1"});
    if (with_ptm)
        metrics.add_row({"3", "pTM", "pTM", "global", "'predicted TM-score, 0 to 1'", "1"});
    cif::Loop &global =
        block.init_loop("_ma_qa_metric_global.", {"ordinal_id", "model_id", "metric_id", "metric_value"});
    global.add_row({"1", "1", "1", fixed(ff_prediction_mean_plddt(p), 2)});
    if (with_ptm)
        global.add_row({"2", "1", "3", fixed(p->ptm, 3)});
    cif::Loop &local =
        block.init_loop("_ma_qa_metric_local.", {"ordinal_id", "model_id", "label_asym_id", "label_seq_id",
                                                 "label_comp_id", "metric_id", "metric_value"});
    for (int64_t i = 0; i < p->num_res; i++)
        local.add_row(
            {number(i + 1), "1", chain, number(i + 1), ff_resnames[p->aatype[i]], "2", fixed(p->plddt[i], 2)});
}

void add_atoms(cif::Block &block, const ff_prediction *p, ff_b_column b_column, const std::string &chain)
{
    bool elements[26] = {false};
    int64_t serial = 0;
    for (int64_t k = 0; k < p->num_res * FF_NUM_ATOM37; k++)
        if (p->atom37_mask[k] >= 0.5f)
            elements[ff_atom_types[k % FF_NUM_ATOM37][0] - 'A'] = true;
    cif::Loop &types = block.init_loop("_atom_type.", {"symbol"});
    for (int k = 0; k < 26; k++)
        if (elements[k])
            types.add_row({std::string(1, static_cast<char>('A' + k))});
    cif::Loop &atoms = block.init_loop("_atom_site.", {"group_PDB",         "id",
                                                       "type_symbol",       "label_atom_id",
                                                       "label_alt_id",      "label_comp_id",
                                                       "label_asym_id",     "label_entity_id",
                                                       "label_seq_id",      "pdbx_PDB_ins_code",
                                                       "Cartn_x",           "Cartn_y",
                                                       "Cartn_z",           "occupancy",
                                                       "B_iso_or_equiv",    "pdbx_formal_charge",
                                                       "auth_seq_id",       "auth_comp_id",
                                                       "auth_asym_id",      "auth_atom_id",
                                                       "pdbx_PDB_model_num"});
    for (int64_t i = 0; i < p->num_res; i++) {
        const std::string residue = ff_resnames[p->aatype[i]], place = number(i + 1);
        const std::string author = number(static_cast<int64_t>(p->residue_index[i]) + 1);
        const std::string b = fixed(ff_prediction_b(p, i, b_column), 2);
        for (int64_t a = 0; a < FF_NUM_ATOM37; a++) {
            if (p->atom37_mask[i * FF_NUM_ATOM37 + a] < 0.5f)
                continue;
            const float *x = p->atom37_positions + (i * FF_NUM_ATOM37 + a) * 3;
            const std::string name = ff_atom_types[a];
            atoms.add_row({"ATOM", number(++serial), name.substr(0, 1), name, ".", residue, chain, "1", place, "?",
                           fixed(x[0], 3), fixed(x[1], 3), fixed(x[2], 3), "1.00", b, "?", author, residue, chain, name,
                           "1"});
        }
    }
}

struct mmcif_writer {
    const ff_prediction *prediction;
    ff_b_column b_column;
};

ff_status write_mmcif(ff_ctx *ctx, FILE *file, const void *arg)
{
    const mmcif_writer *w = static_cast<const mmcif_writer *>(arg);
    const ff_prediction *p = w->prediction;
    try {
        cif::Document document;
        cif::Block &block = document.add_new_block(block_name(p->name));
        const std::string chain = "A";
        add_entry(block, p);
        add_software(block, p);
        add_polymer(block, p, chain);
        add_quality(block, p, chain);
        add_numbering(block, p, chain);
        add_atoms(block, p, w->b_column, chain);
        std::ostringstream text;
        cif::write_cif_to_stream(text, document, cif::Style::Pdbx);
        const std::string bytes = text.str();
        fwrite(bytes.data(), 1, bytes.size(), file); /* the commit looks at the file's error flag */
        return FF_OK;
    } catch (const std::exception &e) {
        return FF_FAIL(ctx, FF_ERR_MEM, "mmCIF of %" PRId64 " residues: %s", p->num_res, e.what());
    }
}

} // namespace

ff_status ff_prediction_write_mmcif(ff_ctx *ctx, const ff_prediction *p, const char *path, ff_b_column b_column)
{
    FF_TRY(ff_prediction_check(ctx, p));
    const mmcif_writer writer = {p, b_column};
    return ff_safe_file_write(ctx, path, write_mmcif, &writer);
}
