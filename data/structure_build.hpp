// structure_build.hpp - what the gemmi side builds before it becomes an ff_structure (structure_gemmi.cpp).
//
// Readers throw std::runtime_error with what is wrong; the C interface adds the file's name.
#ifndef FF_DATA_STRUCTURE_BUILD_HPP
#define FF_DATA_STRUCTURE_BUILD_HPP

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <gemmi/cifdoc.hpp>
#include <gemmi/model.hpp>

namespace ff
{

// The chosen location of one of the 37 atoms.
struct Atom {
    int index; // atom37
    char altloc;
    float occupancy, b_factor;
    float xyz[3];
};

// One residue name at a place of the chain; with microheterogeneity a place has several.
struct Variant {
    std::string name;
    int number; // author's
    char insertion_code, hetflag;
    std::vector<Atom> atoms;

    // Keep an atom by name; of alternate locations the highest occupancy, of equal ones the first. Other names are
    // ignored.
    void put(const char *atom_name, std::size_t length, Atom atom);
};

// A place of the chain; without variants it is missing. The variant that came last in the file counts.
struct Place {
    std::string monomer; // name the sequence gives it; empty = that of the variant
    std::vector<Variant> variants;
    std::size_t last = 0;

    Variant &variant(const std::string &name, int number, char insertion_code, char hetflag);
};

struct Chain {
    std::string id, label_id;
    bool declared = true;
    std::vector<Place> places;
};

struct Entry {
    std::string id, release_date, method;
    double resolution = 0;
    std::int64_t num_models = 1;
    std::vector<Chain> chains;
};

[[noreturn]] void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Of the 37, by name; -1 = none.
int atom37_index(const char *name, std::size_t length);
// AlphaFold's letter for a residue name, X = unknown.
char one_letter(const std::string &name);
// 'W' water, 'H' other HETATM, ' ' ATOM.
char hetero_flag(bool hetatm, const std::string &name);

// structure_cif.cpp
gemmi::cif::Document read_cif(const char *data, std::size_t size);
// structure_mmcif.cpp
Entry read_mmcif(const char *data, std::size_t size, bool alphafold_compatible);
// structure_pdb.cpp: the first model's protein chains
Entry read_pdb(const char *data, std::size_t size);
// The atoms of the first model (later ones stand empty), sequences, header. first_date may be NULL. split_at_ter:
// protein behind a TER is a chain of its own; else chains are told by their id alone.
gemmi::Structure read_pdb_structure(const char *data, std::size_t size, std::string *first_date, bool split_at_ter);
// Chains of the first model from what is observed, aligned to the sequence where one was declared.
void add_observed_chains(Entry &entry, gemmi::Structure &structure);

} // namespace ff

#endif
