// structure_gemmi.cpp - the C interface of structure_file.h over the readers: no exception leaves this file.
#include "data/structure_build.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <new>
#include <set>
#include <stdexcept>

#include <gemmi/resinfo.hpp>

#include "data/structure_file.h"
#include "structure/residue_constants.h"

namespace ff
{

void fail(const char *format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    std::vsnprintf(text, sizeof text, format, args);
    va_end(args);
    throw std::runtime_error(text);
}

int atom37_index(const char *name, std::size_t length)
{
    if (length < 1 || length > 3)
        return -1;
    for (int a = 0; a < FF_NUM_ATOM37; a++)
        if (std::strncmp(ff_atom_types[a], name, length) == 0 && ff_atom_types[a][length] == '\0')
            return a;
    return -1;
}

char one_letter(const std::string &name)
{
    const char letter = gemmi::find_tabulated_residue(name).one_letter_code;
    return std::isalpha((unsigned char)letter) ? (char)std::toupper((unsigned char)letter) : 'X';
}

char hetero_flag(bool hetatm, const std::string &name)
{
    return !hetatm ? ' ' : name == "HOH" || name == "WAT" ? 'W' : 'H';
}

void Variant::put(const char *atom_name, std::size_t length, Atom atom)
{
    atom.index = atom37_index(atom_name, length);
    if (atom.index < 0 && name == "MSE" && length == 2 && std::toupper(atom_name[0]) == 'S' &&
        std::toupper(atom_name[1]) == 'E')
        atom.index = atom37_index("SD", 2);
    if (atom.index < 0)
        return;
    for (Atom &there : atoms)
        if (there.index == atom.index) {
            // Biopython puts a first location without a letter behind the next one that has one
            const bool tie_wins = there.altloc == ' ' && atom.occupancy == there.occupancy;
            if (!(atom.altloc == ' ' && there.altloc == ' ') && (atom.occupancy > there.occupancy || tie_wins))
                there = atom;
            return;
        }
    atoms.push_back(atom);
}

Variant &Place::variant(const std::string &name, int number, char insertion_code, char hetflag)
{
    const auto same = [&](const Variant &v) {
        return v.number == number && v.insertion_code == insertion_code && v.hetflag == hetflag && v.name == name;
    };
    if (last < variants.size() && same(variants[last]))
        return variants[last];
    for (last = 0; last < variants.size() && !same(variants[last]); last++)
        ;
    if (last == variants.size())
        variants.push_back({name, number, insertion_code, hetflag, {}});
    return variants[last];
}

namespace
{

// ---- from C++ to C ----

char *copy_text(const std::string &text)
{
    char *copy = strdup(text.c_str());
    if (copy == nullptr)
        throw std::bad_alloc();
    return copy;
}

template <typename T>
T *zeros(std::size_t n)
{
    T *data = (T *)std::calloc(n > 0 ? n : 1, sizeof(T));
    if (data == nullptr)
        throw std::bad_alloc();
    return data;
}

float distance(const float *a, const float *b)
{
    const float x = a[0] - b[0], y = a[1] - b[1], z = a[2] - b[2];
    return std::sqrt(x * x + y * y + z * z);
}

// Arginines whose NH2 is nearer to CD than NH1 have the two named the wrong way round.
void fix_arginine(float *positions, float *mask)
{
    const int cd = atom37_index("CD", 2), nh1 = atom37_index("NH1", 3), nh2 = atom37_index("NH2", 3);
    if (mask[cd] == 0 || mask[nh1] == 0 || mask[nh2] == 0 ||
        !(distance(positions + 3 * nh1, positions + 3 * cd) > distance(positions + 3 * nh2, positions + 3 * cd)))
        return;
    for (int k = 0; k < 3; k++)
        std::swap(positions[3 * nh1 + k], positions[3 * nh2 + k]);
}

int aatype_of(char letter)
{
    const char *found = (const char *)std::memchr(ff_restypes, letter, FF_AATYPE_X);
    return found == nullptr ? FF_AATYPE_X : (int)(found - ff_restypes);
}

void fill_place(ff_structure_chain *c, std::size_t i, const Place &place)
{
    const Variant *v = place.variants.empty() ? nullptr : &place.variants[place.last];
    // the declared name gives the letter, unless another residue is what was seen there
    const std::string &name = v != nullptr ? v->name : place.monomer;
    const std::string &monomer =
        place.monomer.empty() || (v != nullptr && place.variants.size() > 1) ? name : place.monomer;
    c->sequence[i] = one_letter(monomer);
    c->aatype[i] = aatype_of(c->sequence[i]);
    std::snprintf(c->residue_name[i], FF_RESIDUE_NAME_BYTES, "%s", name.c_str());
    c->is_missing[i] = v == nullptr;
    c->insertion_code[i] = v == nullptr ? ' ' : v->insertion_code;
    c->hetflag[i] = v == nullptr ? ' ' : v->hetflag;
    if (v == nullptr)
        return;
    c->num_observed++;
    c->author_number[i] = v->number;
    float *positions = c->positions + i * FF_NUM_ATOM37 * 3, *mask = c->mask + i * FF_NUM_ATOM37;
    for (const Atom &atom : v->atoms) {
        std::memcpy(positions + 3 * atom.index, atom.xyz, sizeof atom.xyz);
        mask[atom.index] = 1;
        c->b_factors[i * FF_NUM_ATOM37 + (std::size_t)atom.index] = atom.b_factor;
    }
    if (name == "ARG")
        fix_arginine(positions, mask);
}

// AlphaFold's limit on the distance of CA atoms of neighbours.
void check_distances(ff_structure_chain *c)
{
    const float limit = 150;
    for (int64_t i = 1; i < c->num_res; i++) {
        const float *mask = c->mask + i * FF_NUM_ATOM37 + FF_ATOM_CA,
                    *ca = c->positions + (i * FF_NUM_ATOM37 + FF_ATOM_CA) * 3;
        if (mask[0] == 0 || mask[-FF_NUM_ATOM37] == 0)
            continue;
        const float d = distance(ca, ca - 3 * FF_NUM_ATOM37);
        if (d > limit) {
            char text[120];
            std::snprintf(text, sizeof text, "CA atoms of residues %lld and %lld are %.1f Å apart, more than %.0f",
                          (long long)i, (long long)i + 1, (double)d, (double)limit);
            c->problem = copy_text(text);
            return;
        }
    }
}

void fill_chain(ff_structure_chain *c, const Chain &chain)
{
    const std::size_t n = chain.places.size();
    c->id = copy_text(chain.id);
    c->label_id = copy_text(chain.label_id);
    c->declared = chain.declared;
    c->num_res = (int64_t)n;
    c->sequence = zeros<char>(n + 1);
    c->aatype = zeros<int32_t>(n);
    c->is_missing = zeros<int8_t>(n);
    c->residue_name = (char(*)[FF_RESIDUE_NAME_BYTES])zeros<char>(n * FF_RESIDUE_NAME_BYTES);
    c->author_number = zeros<int32_t>(n);
    c->insertion_code = zeros<char>(n);
    c->hetflag = zeros<char>(n);
    c->positions = zeros<float>(n * FF_NUM_ATOM37 * 3);
    c->mask = zeros<float>(n * FF_NUM_ATOM37);
    c->b_factors = zeros<float>(n * FF_NUM_ATOM37);
    for (std::size_t i = 0; i < n; i++)
        fill_place(c, i, chain.places[i]);
    check_distances(c);
}

void fill_structure(ff_structure *s, const Entry &entry)
{
    s->entry_id = copy_text(entry.id);
    s->release_date = copy_text(entry.release_date);
    s->method = copy_text(entry.method);
    s->resolution = (float)entry.resolution;
    s->num_models = entry.num_models;
    s->chains = zeros<ff_structure_chain>(entry.chains.size());
    for (const Chain &chain : entry.chains)
        fill_chain(&s->chains[s->num_chains++], chain);
}

// ---- AlphaFold's from_pdb_string ----

// Residues of a chain under AlphaFold's (Biopython's) identity: hetero field, number, insertion code. A second
// residue of one identity adds its atoms where it has the same name, replaces the first where all atoms of that are
// alternates (a point mutation), and is dropped otherwise.
struct Identified {
    char chain_id;
    bool alternates_only;
    Place place;
};

bool alternates_only(const gemmi::Residue &residue)
{
    for (const gemmi::Atom &atom : residue.atoms)
        if (atom.altloc == '\0')
            return false;
    return true;
}

void put_atoms(Variant &variant, const gemmi::Residue &residue)
{
    for (const gemmi::Atom &atom : residue.atoms) {
        const std::string &name = atom.name;
        if (atom37_index(name.c_str(), name.size()) >= 0) // selenium stays out here
            variant.put(name.c_str(), name.size(),
                        {-1,
                         atom.altloc == '\0' ? ' ' : atom.altloc,
                         atom.occ,
                         atom.b_iso,
                         {(float)atom.pos.x, (float)atom.pos.y, (float)atom.pos.z}});
    }
}

void add_residue(std::vector<Identified> &residues, std::map<std::string, std::size_t> &by_identity,
                 const std::string &chain, const gemmi::Residue &residue)
{
    const char het = hetero_flag(residue.het_flag == 'H', residue.name);
    const std::string identity = chain + '|' + het + (het == 'H' ? residue.name : "") + '|' + residue.seqid.str();
    const auto found = by_identity.find(identity);
    if (found != by_identity.end()) {
        Identified &there = residues[found->second];
        const bool same = there.place.variants[there.place.last].name == residue.name;
        if (het != ' ' || (!same && !there.alternates_only))
            return;
        there.alternates_only = there.alternates_only && alternates_only(residue);
        put_atoms(there.place.variant(residue.name, *residue.seqid.num, ' ', het), residue);
        return;
    }
    by_identity.emplace(identity, residues.size());
    residues.push_back({chain.empty() ? ' ' : chain[0], alternates_only(residue), Place()});
    put_atoms(residues.back().place.variant(residue.name, *residue.seqid.num, ' ', het), residue);
}

// AlphaFold's type of a PDB residue name: the 20 only.
int standard_aatype(const std::string &name)
{
    for (int t = 0; t < FF_AATYPE_X; t++)
        if (name == ff_resnames[t])
            return t;
    return FF_AATYPE_X;
}

std::vector<Identified> read_identified(const char *data, std::size_t size, bool alphafold_compatible)
{
    gemmi::Structure structure = read_pdb_structure(data, size, nullptr, false);
    if (alphafold_compatible && structure.models.size() != 1)
        fail("%zu models; AlphaFold takes PDB files of one model only", structure.models.size());
    structure.models.resize(1, gemmi::Model("1"));
    std::vector<Identified> residues, kept;
    std::map<std::string, std::size_t> by_identity;
    for (const gemmi::Chain &chain : structure.models[0].chains)
        for (const gemmi::Residue &residue : chain.residues) {
            if (alphafold_compatible && residue.seqid.icode != ' ')
                fail("insertion code at residue %s of chain %s; AlphaFold does not take PDB files with them",
                     residue.seqid.str().c_str(), chain.name.c_str());
            add_residue(residues, by_identity, chain.name, residue);
        }
    for (Identified &residue : residues)
        if (!residue.place.variants[residue.place.last].atoms.empty())
            kept.push_back(std::move(residue));
    return kept;
}

void fill_protein(ff_protein *p, const std::vector<Identified> &residues)
{
    std::set<char> ids;
    for (const Identified &residue : residues)
        ids.insert(residue.chain_id);
    for (std::size_t i = 0; i < residues.size(); i++) {
        const Variant &v = residues[i].place.variants[residues[i].place.last];
        p->aatype[i] = standard_aatype(v.name);
        p->residue_index[i] = v.number;
        p->chain_index[i] = (int32_t)std::distance(ids.begin(), ids.find(residues[i].chain_id));
        for (const Atom &atom : v.atoms) {
            const std::size_t at = i * FF_NUM_ATOM37 + (std::size_t)atom.index;
            std::memcpy(p->atom_positions + 3 * at, atom.xyz, sizeof atom.xyz);
            p->atom_mask[at] = 1;
            p->b_factors[at] = atom.b_factor;
        }
    }
}

// ---- no exception goes further ----

// One line that begins with the file's name.
ff_status report(ff_ctx *ctx, const char *name, const char *what)
{
    char line[600];
    std::snprintf(line, sizeof line, "%s", what);
    for (char *c = line; *c != '\0'; c++)
        if ((unsigned char)*c < ' ' || *c == 127)
            *c = ' ';
    return FF_FAIL(ctx, FF_ERR_FORMAT, "%s: %s", name, line);
}

template <typename F>
ff_status guarded(ff_ctx *ctx, const char *name, F &&work)
{
    try {
        return work();
    } catch (const std::bad_alloc &) {
        return FF_FAIL(ctx, FF_ERR_MEM, "%s: out of memory", name);
    } catch (const std::exception &e) {
        return report(ctx, name, e.what());
    } catch (...) {
        return report(ctx, name, "it cannot be read");
    }
}

bool looks_like_mmcif(const char *data, std::size_t size)
{
    std::size_t i = 0;
    while (i < size && (std::isspace((unsigned char)data[i]) || data[i] == '#')) {
        if (data[i] == '#')
            while (i < size && data[i] != '\n')
                i++;
        else
            i++;
    }
    return size - i >= 5 && strncasecmp(data + i, "data_", 5) == 0;
}

// gemmi's residue table is for ASCII names: other bytes (of authors' names, mostly) become '?', in a copy.
struct Ascii {
    std::string copy;
    const char *data;

    Ascii(const char *bytes, std::size_t size) : data(bytes)
    {
        const auto high = [](char c) { return (unsigned char)c >= 0x80; };
        if (std::any_of(bytes, bytes + size, high)) {
            copy.assign(bytes, size);
            std::replace_if(copy.begin(), copy.end(), high, '?');
            data = copy.data();
        }
    }
};

bool is_blank(const char *data, std::size_t size)
{
    for (std::size_t i = 0; i < size; i++)
        if (!std::isspace((unsigned char)data[i]))
            return false;
    return true;
}

} // namespace
} // namespace ff

extern "C" ff_status ff_structure_read_bytes(ff_ctx *ctx, ff_structure *structure, const char *data, size_t size,
                                             const char *name, const ff_structure_options *options)
{
    const ff_structure_options plain = {FF_STRUCTURE_AUTO, false};
    const ff_structure_options *o = options != nullptr ? options : &plain;
    std::memset(structure, 0, sizeof *structure);
    const ff_status status = ff::guarded(ctx, name, [&]() {
        if (ff::is_blank(data, size))
            ff::fail("the file is empty");
        const ff::Ascii text(data, size);
        const bool mmcif =
            o->format == FF_STRUCTURE_MMCIF || (o->format == FF_STRUCTURE_AUTO && ff::looks_like_mmcif(data, size));
        const ff::Entry entry =
            mmcif ? ff::read_mmcif(text.data, size, o->alphafold_compatible) : ff::read_pdb(text.data, size);
        if (entry.chains.empty())
            ff::fail("no protein chain in it");
        ff::fill_structure(structure, entry);
        return FF_OK;
    });
    if (status != FF_OK)
        ff_structure_destroy(structure);
    return status;
}

extern "C" ff_status ff_structure_read_protein_bytes(ff_ctx *ctx, ff_protein *protein, const char *data, size_t size,
                                                     const char *name, const ff_structure_options *options)
{
    std::memset(protein, 0, sizeof *protein);
    return ff::guarded(ctx, name, [&]() {
        if (ff::is_blank(data, size))
            ff::fail("the file is empty");
        const ff::Ascii text(data, size);
        const std::vector<ff::Identified> residues =
            ff::read_identified(text.data, size, options != nullptr && options->alphafold_compatible);
        if (residues.empty())
            ff::fail("no residue with a known atom in it");
        const ff_status status = ff_protein_create(ctx, protein, (int64_t)residues.size());
        if (status == FF_OK)
            ff::fill_protein(protein, residues);
        return status;
    });
}
