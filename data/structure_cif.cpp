// structure_cif.cpp - CIF syntax (Hall, Allen & Brown 1991; CIF 1.1) into gemmi's document, with the line of every
// fault.
//
// gemmi's own parser needs PEGTL, which its Debian package does not bring; this one knows lines, and keeps only the
// categories that are used here, which halves the time.
#include "data/structure_build.hpp"

#include <cstring>
#include <strings.h>

namespace ff
{

namespace cif = gemmi::cif;

namespace
{

enum class Kind { End, Data, Loop, Frame, Tag, Value };

struct Token {
    Kind kind;
    const char *begin;
    std::size_t length;
    std::size_t line;
};

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

bool begins(const Token &token, const char *word)
{
    const std::size_t n = std::strlen(word);
    return token.length >= n && strncasecmp(token.begin, word, n) == 0;
}

class Tokenizer
{
  public:
    Tokenizer(const char *data, std::size_t size) : at_(data), begin_(data), end_(data + size) {}

    Token next()
    {
        skip_blanks();
        Token token = {Kind::End, at_, 0, line_};
        if (at_ == end_)
            return token;
        if (*at_ == ';' && (at_ == begin_ || at_[-1] == '\n'))
            return text_field(token);
        if (*at_ == '\'' || *at_ == '"')
            return quoted(token);
        while (at_ < end_ && !is_blank(*at_)) {
            if (*at_ == '\0')
                fail("line %zu: a NUL byte; this is not an mmCIF file", line_);
            at_++;
        }
        token.length = (std::size_t)(at_ - token.begin);
        token.kind = *token.begin == '_'                           ? Kind::Tag
                     : begins(token, "data_")                      ? Kind::Data
                     : begins(token, "save_")                      ? Kind::Frame
                     : begins(token, "loop_") && token.length == 5 ? Kind::Loop
                                                                   : Kind::Value;
        return token;
    }

  private:
    void skip_blanks()
    {
        while (at_ < end_ && (is_blank(*at_) || *at_ == '#')) {
            if (*at_ == '#')
                while (at_ < end_ && *at_ != '\n')
                    at_++;
            else
                line_ += *at_++ == '\n';
        }
    }

    // From a ';' that begins a line to the next one that does.
    Token text_field(Token token)
    {
        at_++;
        while (at_ < end_ && !(*at_ == ';' && at_[-1] == '\n'))
            line_ += *at_++ == '\n';
        if (at_ == end_)
            fail("line %zu: a text that begins with ';' does not end (cut file?)", token.line);
        at_++;
        token.kind = Kind::Value;
        token.length = (std::size_t)(at_ - token.begin);
        return token;
    }

    // A quote ends with the quote that a blank follows.
    Token quoted(Token token)
    {
        const char quote = *at_++;
        while (at_ < end_ && *at_ != '\n' && !(*at_ == quote && (at_ + 1 == end_ || is_blank(at_[1]))))
            at_++;
        if (at_ == end_ || *at_ == '\n')
            fail("line %zu: a quoted value does not end", token.line);
        at_++;
        token.kind = Kind::Value;
        token.length = (std::size_t)(at_ - token.begin);
        return token;
    }

    const char *at_, *begin_, *end_;
    std::size_t line_ = 1;
};

// Whether a tag's category is read by anyone here.
bool is_wanted(const Token &tag)
{
    for (const char *category : {"_atom_site.", "_entry.", "_exptl.", "_refine.", "_reflns.",
                                 "_em_3d_reconstruction.", "_pdbx_audit_revision_history.", "_chem_comp.", "_entity.",
                                 "_entity_poly.", "_entity_poly_seq.", "_struct_asym."})
        if (begins(tag, category))
            return true;
    return false;
}

// The tags and values of a loop; returns the token after it.
Token read_loop(Tokenizer &tokens, cif::Block *block, std::size_t line)
{
    cif::Loop loop;
    Token token = tokens.next();
    bool wanted = false;
    std::size_t count = 0, width = 0;
    for (; token.kind == Kind::Tag; token = tokens.next(), width++) {
        wanted = wanted || is_wanted(token);
        loop.tags.emplace_back(token.begin, token.length);
    }
    if (width == 0)
        fail("line %zu: a loop without column names", line);
    wanted = wanted && block != nullptr;
    for (; token.kind == Kind::Value; token = tokens.next(), count++)
        if (wanted)
            loop.values.emplace_back(token.begin, token.length);
    if (count % width != 0)
        fail("line %zu: the loop of %s... has %zu columns and %zu values, not whole rows (cut file?)", line,
             loop.tags[0].c_str(), width, count);
    if (wanted) {
        block->items.emplace_back(cif::LoopArg{});
        block->items.back().line_number = (int)line;
        block->items.back().loop = std::move(loop);
    }
    return token;
}

} // namespace

cif::Document read_cif(const char *data, std::size_t size)
{
    cif::Document document;
    Tokenizer tokens(data, size);
    cif::Block *block = nullptr;
    bool in_frame = false;
    for (Token token = tokens.next(); token.kind != Kind::End;) {
        if (token.kind == Kind::Data) {
            document.blocks.emplace_back(std::string(token.begin + 5, token.length - 5));
            block = &document.blocks.back();
            in_frame = false;
            token = tokens.next();
            continue;
        }
        if (block == nullptr)
            fail("line %zu: \"%.*s\" where data_NAME is expected: not an mmCIF file", token.line,
                 (int)(token.length < 40 ? token.length : 40), token.begin);
        cif::Block *const into = in_frame ? nullptr : block;
        if (token.kind == Kind::Frame) {
            in_frame = token.length > 5; // "save_" alone ends one
            token = tokens.next();
        } else if (token.kind == Kind::Loop) {
            token = read_loop(tokens, into, token.line);
        } else if (token.kind == Kind::Tag) {
            const Token value = tokens.next();
            if (value.kind != Kind::Value)
                fail("line %zu: %.*s has no value (cut file?)", token.line,
                     (int)(token.length < 80 ? token.length : 80), token.begin);
            if (into != nullptr && is_wanted(token)) {
                into->items.emplace_back(std::string(token.begin, token.length),
                                         std::string(value.begin, value.length));
                into->items.back().line_number = (int)token.line;
            }
            token = tokens.next();
        } else {
            fail("line %zu: \"%.*s\" belongs to no tag", token.line, (int)(token.length < 40 ? token.length : 40),
                 token.begin);
        }
    }
    return document;
}

} // namespace ff
