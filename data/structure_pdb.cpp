// structure_pdb.cpp - PDB files, line by line into gemmi's structure: messages have their line, and numbers are
// numbers.
//
// (gemmi's own reader takes what is no number as 0, and shifts negative residue numbers, which C++17 leaves
// undefined.)
#include "data/structure_build.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <unordered_map>

#include <gemmi/align.hpp>
#include <gemmi/polyheur.hpp>

namespace ff
{

namespace
{

enum { COORDINATE_COLUMN = 30, COORDINATE_END = 54 };

// One line without its end. Columns count from 0 here.
struct Line {
    const char *begin;
    std::size_t length, number;

    bool is(const char *record) const
    {
        const std::size_t n = std::strlen(record);
        return length >= n && std::memcmp(begin, record, n) == 0 && (n == 6 || length == n || begin[n] == ' ');
    }

    // Columns without the blanks around; as many as there are.
    std::string text(std::size_t from, std::size_t width) const
    {
        std::size_t to = std::min(length, from + width);
        while (from < to && begin[from] == ' ')
            from++;
        while (to > from && begin[to - 1] == ' ')
            to--;
        return from < to ? std::string(begin + from, to - from) : std::string();
    }

    // A number that fills the columns but for blanks.
    bool real(std::size_t from, std::size_t width, double *value) const
    {
        const std::string columns = text(from, width);
        char *end = nullptr;
        *value = std::strtod(columns.c_str(), &end);
        return !columns.empty() && *end == '\0' && std::isfinite(*value) &&
               columns.find_first_of("xXpP") == std::string::npos;
    }

    char at(std::size_t column) const { return column < length ? begin[column] : ' '; }
};

float real_or(const Line &line, std::size_t from, std::size_t width, double otherwise)
{
    double value;
    return (float)(line.real(from, width, &value) ? value : otherwise);
}

// Residue number: decimal, or hybrid-36 beyond 9999 ("A000" = 10000).
int residue_number(const Line &line)
{
    const std::string columns = line.text(22, 4);
    char *end = nullptr;
    const bool hybrid = columns.size() == 4 && std::isupper((unsigned char)columns[0]);
    const long value = std::strtol(columns.c_str(), &end, hybrid ? 36 : 10);
    if (columns.empty() || *end != '\0')
        fail("line %zu: the residue number is \"%.4s\"", line.number, line.begin + 22);
    return (int)(hybrid ? value - 466560 + 10000 : value);
}

class PdbReader
{
  public:
    PdbReader(std::string *first_date, bool split_at_ter) : first_date_(first_date), split_at_ter_(split_at_ter) {}

    gemmi::Structure read(const char *data, std::size_t size)
    {
        Line line = {data, 0, 0};
        for (const char *end = data + size; line.begin < end;) {
            const char *stop = (const char *)std::memchr(line.begin, '\n', (std::size_t)(end - line.begin));
            line.length = (std::size_t)((stop == nullptr ? end : stop) - line.begin);
            line.number++;
            if (std::memchr(line.begin, '\0', line.length) != nullptr)
                fail("line %zu: a NUL byte; this is not a PDB file", line.number);
            while (line.length > 0 && (line.begin[line.length - 1] == '\r' || line.begin[line.length - 1] == ' '))
                line.length--;
            if (line.is("END"))
                break;
            read_line(line);
            line.begin = stop == nullptr ? end : stop + 1;
        }
        if (num_atoms_ == 0)
            fail("no ATOM record in it: not a PDB file, or a cut one");
        return std::move(structure_);
    }

  private:
    void read_line(const Line &line)
    {
        if (line.is("ATOM") || line.is("HETATM"))
            read_atom(line);
        else if (line.is("TER"))
            end_polymer();
        else if (line.is("MODEL"))
            begin_model();
        else if (line.is("ENDMDL"))
            model_open_ = false;
        else if (line.is("SEQRES"))
            read_sequence(line);
        else if (line.is("REMARK"))
            read_resolution(line);
        else if (line.is("HEADER"))
            structure_.info["_entry.id"] = line.text(62, 4);
        else if (line.is("EXPDTA"))
            structure_.info["_exptl.method"] += line.text(10, 70);
        else if (line.is("REVDAT"))
            read_revision(line);
        else if (line.number == 1 && line.length >= 5 && std::memcmp(line.begin, "data_", 5) == 0)
            fail("line 1: \"data_\" begins an mmCIF file, not a PDB file");
    }

    void begin_model()
    {
        structure_.models.emplace_back(std::to_string(structure_.models.size() + 1));
        model_open_ = true;
        chain_ = SIZE_MAX;
    }

    // The chain of that name: found again where its residues go on behind other chains.
    gemmi::Chain &open_chain(const std::string &name)
    {
        std::vector<gemmi::Chain> &chains = structure_.models.back().chains;
        if (chain_ < chains.size() && chains[chain_].name == name)
            return chains[chain_];
        residue_ = SIZE_MAX;
        for (chain_ = chains.size(); chain_ > 0; chain_--)
            if (chains[chain_ - 1].name == name)
                return chains[--chain_];
        return new_chain(name);
    }

    gemmi::Chain &new_chain(const std::string &name)
    {
        std::vector<gemmi::Chain> &chains = structure_.models.back().chains;
        chain_ = chains.size();
        residue_ = SIZE_MAX;
        chains.emplace_back(name);
        ended_.push_back(false);
        return chains.back();
    }

    // Protein that goes on behind a TER under the same chain id (often a blank one) is another chain of that id.
    bool begins_anew(const Line &line) const
    {
        const gemmi::ResidueInfo info = gemmi::find_tabulated_residue(line.text(17, 3));
        return split_at_ter_ && ended_[chain_] && line.at(0) == 'A' && info.is_amino_acid() && info.is_standard();
    }

    gemmi::Residue &open_residue(gemmi::Chain &chain, const Line &line)
    {
        gemmi::ResidueId id;
        id.seqid = gemmi::SeqId(residue_number(line), line.at(26));
        id.name = line.text(17, 3);
        if (residue_ < chain.residues.size() && chain.residues[residue_].matches(id))
            return chain.residues[residue_];
        const auto known =
            residues_.emplace(std::to_string(chain_) + '|' + std::string(line.begin + 17, 10), chain.residues.size());
        residue_ = known.first->second;
        if (known.second) {
            chain.residues.emplace_back(id);
            gemmi::Residue &residue = chain.residues.back();
            residue.het_flag = line.at(0);
            if (ended_[chain_])
                residue.entity_type = residue.is_water() ? gemmi::EntityType::Water : gemmi::EntityType::NonPolymer;
        }
        return chain.residues[residue_];
    }

    void read_atom(const Line &line)
    {
        double xyz[3];
        if (line.length < COORDINATE_END)
            fail("line %zu: the atom record ends at column %zu, before its coordinates do (cut file?)", line.number,
                 line.length);
        for (int k = 0; k < 3; k++)
            if (!line.real(COORDINATE_COLUMN + 8 * (std::size_t)k, 8, &xyz[k]))
                fail("line %zu: %c is \"%.8s\", not a coordinate", line.number, 'x' + k,
                     line.begin + COORDINATE_COLUMN + 8 * k);
        if (!model_open_)
            begin_model();
        num_atoms_++;
        if (structure_.models.size() > 1) {
            residue_number(line); /* checked like the others; only the first model is kept */
            return;
        }
        gemmi::Chain *chain = &open_chain(line.text(20, 2));
        if (begins_anew(line))
            chain = &new_chain(chain->name);
        gemmi::Residue &residue = open_residue(*chain, line);
        gemmi::Atom atom;
        atom.name = line.text(12, 4);
        atom.altloc = line.at(16) == ' ' ? '\0' : line.at(16);
        atom.pos = gemmi::Position(xyz[0], xyz[1], xyz[2]);
        atom.occ = real_or(line, 54, 6, 1);
        atom.b_iso = real_or(line, 60, 6, 0);
        residue.atoms.push_back(atom);
    }

    // TER: what came before it in this chain is the polymer, what comes later is not.
    void end_polymer()
    {
        if (structure_.models.size() != 1 || chain_ >= structure_.models[0].chains.size() || ended_[chain_])
            return;
        for (gemmi::Residue &residue : structure_.models[0].chains[chain_].residues)
            residue.entity_type = residue.is_water() ? gemmi::EntityType::Water : gemmi::EntityType::Polymer;
        ended_[chain_] = true;
    }

    void read_sequence(const Line &line)
    {
        gemmi::Entity &entity = gemmi::impl::find_or_add(structure_.entities, line.text(10, 2));
        entity.entity_type = gemmi::EntityType::Polymer;
        for (std::size_t column = 19; column < 68; column += 4) {
            const std::string name = line.text(column, 3);
            if (!name.empty())
                entity.full_sequence.push_back(name);
        }
    }

    void read_resolution(const Line &line)
    {
        const std::string number = line.text(7, 3), words = line.text(11, 59);
        if (structure_.resolution > 0)
            return;
        if (number == "2" && words.find("RESOLUTION.") == 0 && words.find("ANGSTROM") != std::string::npos)
            structure_.resolution = std::max(0.0, std::atof(words.c_str() + std::strlen("RESOLUTION.")));
        const std::size_t colon = words.find(':');
        if (number == "3" && words.find("RESOLUTION RANGE HIGH (ANGSTROMS)") == 0 && colon != std::string::npos)
            structure_.resolution = std::max(0.0, std::atof(words.c_str() + colon + 1));
    }

    // "REVDAT   1   28-MAR-07 1ABC    0": the release
    void read_revision(const Line &line)
    {
        static const char months[] = "JANFEBMARAPRMAYJUNJULAUGSEPOCTNOVDEC";
        const std::string date = line.text(13, 9);
        if (first_date_ == nullptr || line.text(7, 3) != "1" || date.size() != 9)
            return;
        const char *month = std::strstr(months, date.substr(3, 3).c_str());
        const int day = std::atoi(date.c_str()), year = std::atoi(date.c_str() + 7);
        if (month == nullptr || (month - months) % 3 != 0 || day < 1 || day > 31)
            return;
        char text[40];
        std::snprintf(text, sizeof text, "%04d-%02d-%02d", (year < 70 ? 2000 : 1900) + year % 100,
                      (int)(month - months) / 3 + 1, day);
        *first_date_ = text;
    }

    gemmi::Structure structure_;
    std::string *first_date_;
    bool split_at_ter_;
    bool model_open_ = false;
    std::size_t chain_ = SIZE_MAX, residue_ = SIZE_MAX; // where the last atom went, in the first model
    std::vector<bool> ended_;                           // by chain: TER was seen
    std::unordered_map<std::string, std::size_t>
        residues_; // places in their chain by chain, name, number, insertion code
    std::size_t num_atoms_ = 0;
};

Variant &variant_of(Place &place, const gemmi::Residue &residue)
{
    return place.variant(residue.name, *residue.seqid.num, residue.seqid.icode,
                         hetero_flag(residue.het_flag == 'H', residue.name));
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
                        {-1,
                         atom.altloc == '\0' ? ' ' : atom.altloc,
                         atom.occ,
                         atom.b_iso,
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

bool is_polymer(const gemmi::Residue &residue) { return residue.entity_type == gemmi::EntityType::Polymer; }

// Where nothing says what the polymer is (no TER, no entity): its amino acids and the caps at them.
void classify(std::vector<gemmi::Residue> &residues)
{
    for (gemmi::Residue &residue : residues)
        residue.entity_type = is_amino_acid(residue) ? gemmi::EntityType::Polymer
                              : residue.is_water()   ? gemmi::EntityType::Water
                                                     : gemmi::EntityType::NonPolymer;
    std::vector<std::size_t> caps;
    for (std::size_t i = 0; i < residues.size(); i++)
        if (is_cap(residues[i]) &&
            ((i > 0 && is_polymer(residues[i - 1])) || (i + 1 < residues.size() && is_polymer(residues[i + 1]))))
            caps.push_back(i);
    for (const std::size_t i : caps)
        residues[i].entity_type = gemmi::EntityType::Polymer;
    for (gemmi::Residue &residue : residues)
        residue.subchain.clear();
}

// The polymer of a chain, in one piece at its front, as gemmi wants it.
void find_polymer(gemmi::Chain &chain)
{
    std::vector<gemmi::Residue> &residues = chain.residues;
    if (std::none_of(residues.begin(), residues.end(), is_polymer))
        classify(residues);
    std::stable_partition(residues.begin(), residues.end(), is_polymer);
}

} // namespace

void add_observed_chains(Entry &entry, gemmi::Structure &structure)
{
    if (structure.models.empty())
        return;
    entry.num_models = (std::int64_t)structure.models.size();
    structure.models.resize(1, gemmi::Model("1"));
    for (gemmi::Chain &chain : structure.models[0].chains) {
        find_polymer(chain);
        if (gemmi::has_subchains_assigned(chain))
            continue;
        gemmi::assign_subchain_names(chain);
        gemmi::Entity *entity = structure.get_entity(chain.name); // SEQRES; gemmi itself passes over blank chain ids
        if (entity != nullptr && chain.get_polymer().size() > 0)
            entity->subchains.push_back(chain.get_polymer().subchain_id());
    }
    gemmi::setup_entities(structure);
    gemmi::assign_label_seq_id(structure, false);
    for (gemmi::Chain &gemmi_chain : structure.models[0].chains) {
        gemmi::ResidueSpan polymer = gemmi_chain.get_polymer();
        if (polymer.size() == 0)
            continue;
        const gemmi::Entity *entity = structure.get_entity_of(polymer);
        const gemmi::PolymerType type = entity != nullptr && entity->polymer_type != gemmi::PolymerType::Unknown
                                            ? entity->polymer_type
                                            : gemmi::check_polymer_type(polymer);
        if (!gemmi::is_polypeptide(type))
            continue;
        Chain chain;
        chain.id = gemmi_chain.name;
        chain.label_id = gemmi_chain.name;
        add_in_order(chain, polymer);
        chain.declared =
            entity != nullptr && !entity->full_sequence.empty() && spread(chain, polymer, entity->full_sequence);
        entry.chains.push_back(std::move(chain));
    }
}

gemmi::Structure read_pdb_structure(const char *data, std::size_t size, std::string *first_date, bool split_at_ter)
{
    return PdbReader(first_date, split_at_ter).read(data, size);
}

Entry read_pdb(const char *data, std::size_t size)
{
    Entry entry;
    gemmi::Structure structure = read_pdb_structure(data, size, &entry.release_date, true);
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
