// structure_mmcif.cpp - an mmCIF entry as AlphaFold's mmcif_parsing.py takes it: chains from _entity_poly_seq,
// _chem_comp and _struct_asym, coordinates of the first model from _atom_site.
#include "data/structure_build.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <unordered_map>

#include <gemmi/mmcif.hpp>
#include <gemmi/numb.hpp>
#include <gemmi/resinfo.hpp>

namespace ff
{

namespace cif = gemmi::cif;

namespace
{

std::string lower(std::string text)
{
    std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return (char)std::tolower(c); });
    return text;
}

// A whole integer, or false.
bool read_int(const std::string &value, int &number)
{
    char *end = nullptr;
    const long n = std::strtol(value.c_str(), &end, 10);
    if (value.empty() || *end != '\0' || n < -1000000000 || n > 1000000000)
        return false;
    number = (int)n;
    return true;
}

// ---- header ----

double read_resolution(cif::Block &block)
{
    for (const char *tag :
         {"_refine.ls_d_res_high", "_em_3d_reconstruction.resolution", "_reflns.d_resolution_high"}) {
        cif::Column column = block.find_values(tag);
        if (column.length() == 0)
            continue;
        const double value = cif::as_number(column[0]);
        if (std::isfinite(value))
            return value;
    }
    return 0;
}

void read_header(cif::Block &block, Entry &entry, bool alphafold_compatible)
{
    const std::string *id = block.find_value("_entry.id");
    entry.id = id == nullptr ? "" : cif::as_string(*id);
    for (const std::string &value : block.find_values("_exptl.method"))
        entry.method += (entry.method.empty() ? "" : ",") + lower(cif::as_string(value));
    for (const std::string &value : block.find_values("_pdbx_audit_revision_history.revision_date")) {
        const std::string date = cif::as_string(value);
        if (!date.empty() && (entry.release_date.empty() || date < entry.release_date))
            entry.release_date = date;
    }
    if (alphafold_compatible && id == nullptr && entry.release_date.empty())
        fail("neither _entry.id nor a revision date; AlphaFold does not take it");
    entry.resolution = read_resolution(block);
}

// ---- declared sequences ----

struct Polymer {
    std::string entity;
    std::vector<std::string> monomers;          // the first named for each number
    std::unordered_map<int, std::size_t> place; // by number
    bool peptide = false;
};

std::vector<Polymer> read_polymers(cif::Block &block, bool alphafold_compatible)
{
    std::vector<Polymer> polymers;
    std::unordered_map<std::string, std::string> types;
    for (auto row : block.find("_chem_comp.", {"id", "type"}))
        types.emplace(cif::as_string(row[0]), lower(cif::as_string(row[1])));
    for (auto row : block.find("_entity_poly_seq.", {"entity_id", "num", "mon_id"})) {
        const std::string entity = cif::as_string(row[0]), monomer = cif::as_string(row[2]);
        int number;
        if (!read_int(row[1], number))
            fail("_entity_poly_seq.num is \"%s\", not a number", row[1].c_str());
        auto polymer =
            std::find_if(polymers.begin(), polymers.end(), [&](const Polymer &p) { return p.entity == entity; });
        if (polymer == polymers.end()) {
            polymers.emplace_back();
            polymer = polymers.end() - 1;
            polymer->entity = entity;
        }
        if (polymer->place.emplace(number, polymer->monomers.size()).second)
            polymer->monomers.push_back(monomer);
        auto type = types.find(monomer);
        if (type == types.end() && alphafold_compatible)
            fail("monomer %s is not in _chem_comp; AlphaFold does not take it", monomer.c_str());
        if (type != types.end() ? type->second.find("peptide") != std::string::npos
                                : gemmi::find_tabulated_residue(monomer).is_amino_acid())
            polymer->peptide = true;
    }
    return polymers;
}

// A chain being filled: its polymer, and its author's name once an atom told it.
struct Filling {
    const Polymer *polymer;
    Chain chain;
    bool seen = false;
};

// Label chains in AlphaFold's order: by entity as _entity_poly_seq names them, then as _struct_asym does.
std::vector<Filling> make_chains(cif::Block &block, const std::vector<Polymer> &polymers, bool alphafold_compatible)
{
    std::vector<std::pair<std::string, std::string>> asyms; // entity, chain
    for (auto row : block.find("_struct_asym.", {"id", "entity_id"}))
        asyms.emplace_back(cif::as_string(row[1]), cif::as_string(row[0]));
    if (asyms.empty() && !alphafold_compatible)
        for (auto row : block.find("_atom_site.", {"label_entity_id", "label_asym_id"})) {
            const std::pair<std::string, std::string> asym(cif::as_string(row[0]), cif::as_string(row[1]));
            if (asyms.empty() || (asyms.back() != asym && std::find(asyms.begin(), asyms.end(), asym) == asyms.end()))
                asyms.push_back(asym);
        }
    std::vector<Filling> chains;
    for (const Polymer &polymer : polymers) {
        if (!polymer.peptide)
            continue;
        for (const auto &asym : asyms) {
            if (asym.first != polymer.entity)
                continue;
            chains.emplace_back();
            chains.back().polymer = &polymer;
            chains.back().chain.label_id = asym.second;
            chains.back().chain.places.resize(polymer.monomers.size());
            for (std::size_t i = 0; i < polymer.monomers.size(); i++)
                chains.back().chain.places[i].monomer = polymer.monomers[i];
        }
    }
    return chains;
}

// ---- coordinates ----

enum Tag { ATOM, GROUP, ALT, COMP, ASYM, SEQ, X, Y, Z, AUTH_SEQ, AUTH_ASYM, INS, OCC, B, MODEL, NUM_TAGS };

cif::Table find_atoms(cif::Block &block)
{
    for (const char *tag :
         {"_atom_site.label_atom_id", "_atom_site.label_comp_id", "_atom_site.label_asym_id",
          "_atom_site.label_seq_id", "_atom_site.Cartn_x", "_atom_site.Cartn_y", "_atom_site.Cartn_z"})
        if (block.find_values(tag).length() == 0)
            fail("no %s: an mmCIF file of a structure has it", tag);
    return block.find("_atom_site.",
                      {"label_atom_id", "?group_PDB", "?label_alt_id", "label_comp_id", "label_asym_id",
                       "label_seq_id", "Cartn_x", "Cartn_y", "Cartn_z", "?auth_seq_id", "?auth_asym_id",
                       "?pdbx_PDB_ins_code", "?occupancy", "?B_iso_or_equiv", "?pdbx_PDB_model_num"});
}

// The value of a column, NULL when it is unknown or not there.
const std::string *value_of(cif::Table::Row &row, int tag)
{
    return row.has2(tag) && !cif::is_null(row[tag]) ? &row[tag] : nullptr;
}

std::string text_of(cif::Table::Row &row, int tag)
{
    const std::string *value = value_of(row, tag);
    return value == nullptr ? std::string() : cif::as_string(*value);
}

float number_of(cif::Table::Row &row, int tag, double otherwise)
{
    const double value = row.has2(tag) ? cif::as_number(row[tag]) : otherwise;
    return (float)(std::isfinite(value) ? value : otherwise);
}

Atom read_atom(cif::Table::Row &row, std::size_t number)
{
    Atom atom = {-1, ' ', number_of(row, OCC, 1), number_of(row, B, 0), {0, 0, 0}};
    const std::string *alt = value_of(row, ALT);
    if (alt != nullptr)
        atom.altloc = cif::as_string(*alt)[0];
    for (int k = 0; k < 3; k++) {
        const double value = cif::as_number(row[X + k]);
        if (!std::isfinite(value) || std::fabs(value) > 1e6)
            fail("row %zu of _atom_site: Cartn_%c is \"%s\", not a coordinate", number, 'x' + k, row[X + k].c_str());
        atom.xyz[k] = (float)value;
    }
    return atom;
}

void put_atom(cif::Table::Row &row, std::size_t number, Filling &filling, bool alphafold_compatible)
{
    int sequence_number, author_number;
    if (!read_int(row[SEQ], sequence_number)) {
        if (alphafold_compatible)
            fail("row %zu of _atom_site: label_seq_id is \"%s\"; AlphaFold does not take it", number,
                 row[SEQ].c_str());
        return; // not a residue of the polymer
    }
    const auto place = filling.polymer->place.find(sequence_number);
    if (place == filling.polymer->place.end())
        return;
    if (!filling.seen)
        filling.chain.id = row.has2(AUTH_ASYM) ? text_of(row, AUTH_ASYM) : filling.chain.label_id;
    filling.seen = true;
    const std::string *author = value_of(row, AUTH_SEQ);
    if (author == nullptr || !read_int(*author, author_number)) {
        if (alphafold_compatible)
            fail("row %zu of _atom_site: auth_seq_id is \"%s\"; AlphaFold does not take it", number,
                 author == nullptr ? "?" : author->c_str());
        author_number = sequence_number;
    }
    const std::string name = text_of(row, COMP), insertion = text_of(row, INS), atom_name = text_of(row, ATOM);
    const bool hetatm = row.has2(GROUP) && row[GROUP] == "HETATM";
    filling.chain.places[place->second]
        .variant(name, author_number, insertion.empty() ? ' ' : insertion[0], hetero_flag(hetatm, name))
        .put(atom_name.c_str(), atom_name.size(), read_atom(row, number));
}

void read_atoms(cif::Block &block, Entry &entry, std::vector<Filling> &chains, bool alphafold_compatible)
{
    std::unordered_map<std::string, Filling *> by_label;
    for (Filling &filling : chains)
        by_label.emplace(filling.chain.label_id, &filling);
    std::string model = "1", last_label, last_model;
    Filling *filling = nullptr;
    std::size_t number = 0;
    entry.num_models = 0;
    for (auto row : find_atoms(block)) {
        const std::string current = row.has2(MODEL) ? row[MODEL] : "1";
        if (number++ == 0 && !alphafold_compatible)
            model = current;
        if (number == 1 || current != last_model)
            entry.num_models++;
        last_model = current;
        if (current != model)
            continue;
        if (number == 1 || row[ASYM] != last_label) {
            last_label = row[ASYM];
            const auto found = by_label.find(cif::as_string(last_label));
            filling = found == by_label.end() ? nullptr : found->second;
        }
        if (filling != nullptr)
            put_atom(row, number, *filling, alphafold_compatible);
    }
}

} // namespace

Entry read_mmcif(const char *data, std::size_t size, bool alphafold_compatible)
{
    cif::Document document = read_cif(data, size);
    if (document.blocks.empty())
        fail("no data block in it");
    std::size_t first = 0; // with coordinates; a file may begin with other blocks
    while (first + 1 < document.blocks.size() &&
           document.blocks[first].find_values("_atom_site.Cartn_x").length() == 0)
        first++;
    cif::Block &block =
        document.blocks[document.blocks[first].find_values("_atom_site.Cartn_x").length() > 0 ? first : 0];
    Entry entry;
    read_header(block, entry, alphafold_compatible);
    find_atoms(block);
    const std::vector<Polymer> polymers = read_polymers(block, alphafold_compatible);
    if (polymers.empty()) {
        if (alphafold_compatible)
            fail("no _entity_poly_seq; AlphaFold does not take it");
        gemmi::Structure structure = gemmi::make_structure_from_block(block);
        structure.merge_chain_parts();
        add_observed_chains(entry, structure);
        return entry;
    }
    std::vector<Filling> chains = make_chains(block, polymers, alphafold_compatible);
    read_atoms(block, entry, chains, alphafold_compatible);
    for (Filling &filling : chains) {
        if (filling.seen)
            entry.chains.push_back(std::move(filling.chain));
        else if (alphafold_compatible)
            fail("chain %s has no atom in model 1; AlphaFold does not take it", filling.chain.label_id.c_str());
    }
    return entry;
}

} // namespace ff
