// structure_pdb.cpp - PDB files. Lines are checked and brought to 80 columns here, so that a message has its line, and gemmi
// reads those records that matter.
#include "data/structure_build.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include <gemmi/align.hpp>
#include <gemmi/pdb.hpp>
#include <gemmi/polyheur.hpp>

namespace ff {

namespace {

enum { COLUMNS = 80, COORDINATE_COLUMN = 30, COORDINATE_END = 54 };

bool is_record(const char *line, std::size_t length, const char *name)
{
    const std::size_t n = std::strlen(name);
    return length >= n && std::memcmp(line, name, n) == 0 && (n == 6 || length == n || line[n] == ' ');
}

// A number that fills `width` columns but for blanks.
bool is_number(const char *columns, int width, double *value)
{
    char text[16], *end = nullptr;
    std::memcpy(text, columns, (std::size_t)width);
    text[width] = '\0';
    *value = std::strtod(text, &end);
    if (end == text || !std::isfinite(*value))
        return false;
    while (*end == ' ')
        end++;
    return *end == '\0';
}

void check_atom(const char *line, std::size_t length, std::size_t number)
{
    double value;
    if (length < COORDINATE_END)
        fail("line %zu: the atom record ends at column %zu, before its coordinates do (cut file?)", number, length);
    for (int k = 0; k < 3; k++)
        if (!is_number(line + COORDINATE_COLUMN + 8 * k, 8, &value))
            fail("line %zu: %c is \"%.8s\", not a coordinate", number, 'x' + k, line + COORDINATE_COLUMN + 8 * k);
    if (!is_number(line + 22, 4, &value) && !(line[22] >= 'A' && std::isalnum((unsigned char)line[22])))
        fail("line %zu: the residue number is \"%.4s\"", number, line + 22);
}

bool is_wanted(const char *line, std::size_t length)
{
    if (is_record(line, length, "REMARK"))
        return length > 10 && (std::memcmp(line + 7, "  2", 3) == 0 || std::memcmp(line + 7, "  3", 3) == 0);
    for (const char *name : {"HEADER", "EXPDTA", "SEQRES", "MODEL", "ATOM", "HETATM", "TER", "ENDMDL", "END"})
        if (is_record(line, length, name))
            return true;
    return false;
}

// "REVDAT   1   28-MAR-07 1ABC    0" is the release.
void read_revision(const char *line, std::size_t length, std::string *date)
{
    if (date != nullptr && length >= 22 && std::atoi(std::string(line + 7, 3).c_str()) == 1)
        *date = gemmi::pdb_impl::pdb_date_format_to_iso(std::string(line + 13, 9));
}

// The records gemmi is to see, each 80 columns wide without carriage return.
std::string normalize(const char *data, std::size_t size, std::string *date)
{
    std::string out;
    std::size_t number = 0, atoms = 0;
    out.reserve(size + size / 8);
    for (const char *line = data, *end = data + size; line < end;) {
        const char *stop = (const char *)std::memchr(line, '\n', (std::size_t)(end - line));
        const char *next = stop == nullptr ? end : stop + 1;
        std::size_t length = (std::size_t)((stop == nullptr ? end : stop) - line);
        number++;
        if (std::memchr(line, '\0', length) != nullptr)
            fail("line %zu: a NUL byte; this is not a PDB file", number);
        while (length > 0 && (line[length - 1] == '\r' || line[length - 1] == ' '))
            length--;
        if (number == 1 && length > 5 && std::memcmp(line, "data_", 5) == 0)
            fail("line 1: \"data_\" begins an mmCIF file, not a PDB file");
        if (is_record(line, length, "REVDAT"))
            read_revision(line, length, date);
        if (is_wanted(line, length)) {
            if (is_record(line, length, "ATOM") || is_record(line, length, "HETATM")) {
                check_atom(line, length, number);
                atoms++;
                length = std::min<std::size_t>(length, 78); // the charge is not used, and often malformed
            }
            length = std::min<std::size_t>(length, COLUMNS);
            out.append(line, length);
            out.append(COLUMNS - length, ' ');
            out += '\n';
            if (is_record(line, length, "END"))
                break;
        }
        line = next;
    }
    if (atoms == 0)
        fail("no ATOM record in it: not a PDB file, or a cut one");
    return out;
}

Variant &variant_of(Place &place, const gemmi::Residue &residue)
{
    return place.variant(residue.name, *residue.seqid.num, residue.seqid.icode, hetero_flag(residue.het_flag == 'H', residue.name));
}

// Residues one after the other; those of one number (microheterogeneity) share a place.
void add_in_order(Chain &chain, gemmi::ResidueSpan &polymer)
{
    const gemmi::Residue *before = nullptr;
    for (const gemmi::Residue &residue : polymer) {
        if (before == nullptr || before->seqid != residue.seqid)
            chain.places.emplace_back();
        before = &residue;
        Variant &variant = variant_of(chain.places.back(), residue);
        for (const gemmi::Atom &atom : residue.atoms)
            variant.put(atom.name.c_str(), atom.name.size(),
                        {-1, atom.altloc == '\0' ? ' ' : atom.altloc, atom.occ, atom.b_iso,
                         {(float)atom.pos.x, (float)atom.pos.y, (float)atom.pos.z}});
    }
}

// Put the observed places where the alignment to the declared sequence has them; false when one has no place there.
bool spread(Chain &chain, gemmi::ResidueSpan &polymer, const std::vector<std::string> &declared)
{
    std::vector<std::size_t> at;
    const gemmi::Residue *before = nullptr;
    for (const gemmi::Residue &residue : polymer) {
        if (before == nullptr || before->seqid != residue.seqid) {
            if (!residue.label_seq || *residue.label_seq < 1 || (std::size_t)*residue.label_seq > declared.size() ||
                (!at.empty() && (std::size_t)*residue.label_seq - 1 <= at.back()))
                return false;
            at.push_back((std::size_t)*residue.label_seq - 1);
        }
        before = &residue;
    }
    std::vector<Place> places(declared.size());
    for (std::size_t i = 0; i < declared.size(); i++)
        places[i].monomer = gemmi::Entity::first_mon(declared[i]);
    for (std::size_t k = 0; k < at.size(); k++) {
        places[at[k]].variants = std::move(chain.places[k].variants);
        places[at[k]].last = chain.places[k].last;
    }
    chain.places = std::move(places);
    return true;
}

// ---- what of a chain is the protein ----

bool is_cap(const gemmi::Residue &residue)
{
    return residue.name == "ACE" || residue.name == "FOR" || residue.name == "NH2" || residue.name == "NME";
}

// Amino acids, named or with a CA; a standard one in HETATM records is a ligand.
bool is_amino_acid(const gemmi::Residue &residue)
{
    const gemmi::ResidueInfo info = gemmi::find_tabulated_residue(residue.name);
    if (!info.found())
        return residue.get_ca() != nullptr && residue.find_atom("N", '*') != nullptr;
    return info.is_amino_acid() && !(info.is_standard() && residue.het_flag == 'H');
}

// Where nothing says what the polymer is (no TER, no entity): its amino acids and the caps at them, moved to the front.
void find_polymer(gemmi::Chain &chain)
{
    std::vector<gemmi::Residue> &residues = chain.residues;
    for (const gemmi::Residue &residue : residues)
        if (residue.entity_type == gemmi::EntityType::Polymer)
            return;
    for (gemmi::Residue &residue : residues)
        residue.entity_type = is_amino_acid(residue)   ? gemmi::EntityType::Polymer
                              : residue.is_water() ? gemmi::EntityType::Water
                                                   : gemmi::EntityType::NonPolymer;
    std::vector<std::size_t> caps;
    for (std::size_t i = 0; i < residues.size(); i++)
        if (is_cap(residues[i]) && ((i > 0 && residues[i - 1].entity_type == gemmi::EntityType::Polymer) ||
                                    (i + 1 < residues.size() && residues[i + 1].entity_type == gemmi::EntityType::Polymer)))
            caps.push_back(i);
    for (const std::size_t i : caps)
        residues[i].entity_type = gemmi::EntityType::Polymer;
    std::stable_partition(residues.begin(), residues.end(),
                          [](const gemmi::Residue &r) { return r.entity_type == gemmi::EntityType::Polymer; });
    for (gemmi::Residue &residue : residues)
        residue.subchain.clear();
}

} // namespace

void add_observed_chains(Entry &entry, gemmi::Structure &structure)
{
    if (structure.models.empty())
        return;
    entry.num_models = (std::int64_t)structure.models.size();
    structure.models.resize(1, gemmi::Model("1"));
    structure.merge_chain_parts();
    for (gemmi::Chain &chain : structure.models[0].chains)
        find_polymer(chain);
    gemmi::setup_entities(structure);
    gemmi::assign_label_seq_id(structure, false);
    for (gemmi::Chain &gemmi_chain : structure.models[0].chains) {
        gemmi::ResidueSpan polymer = gemmi_chain.get_polymer();
        if (polymer.size() == 0)
            continue;
        const gemmi::Entity *entity = structure.get_entity_of(polymer);
        const gemmi::PolymerType type =
            entity != nullptr && entity->polymer_type != gemmi::PolymerType::Unknown ? entity->polymer_type
                                                                                     : gemmi::check_polymer_type(polymer);
        if (!gemmi::is_polypeptide(type))
            continue;
        Chain chain;
        chain.id = gemmi_chain.name;
        chain.label_id = gemmi_chain.name;
        add_in_order(chain, polymer);
        chain.declared = entity != nullptr && !entity->full_sequence.empty() && spread(chain, polymer, entity->full_sequence);
        entry.chains.push_back(std::move(chain));
    }
}

gemmi::Structure read_pdb_structure(const char *data, std::size_t size, const char *name, std::string *first_date)
{
    const std::string text = normalize(data, size, first_date);
    return gemmi::read_pdb_from_memory(text.data(), text.size(), name);
}

Entry read_pdb(const char *data, std::size_t size, const char *name)
{
    Entry entry;
    gemmi::Structure structure = read_pdb_structure(data, size, name, &entry.release_date);
    const auto id = structure.info.find("_entry.id"), method = structure.info.find("_exptl.method");
    entry.id = id == structure.info.end() ? "" : id->second;
    entry.method = method == structure.info.end() ? "" : method->second;
    std::transform(entry.method.begin(), entry.method.end(), entry.method.begin(),
                   [](unsigned char c) { return (char)std::tolower(c); });
    std::replace(entry.method.begin(), entry.method.end(), ';', ',');
    entry.resolution = structure.resolution;
    add_observed_chains(entry, structure);
    return entry;
}

} // namespace ff
