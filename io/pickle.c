#include "io/pickle.h"

#include <stdlib.h>
#include <string.h>

/* The opcodes that are taken. */
enum {
    MARK = '(',
    STOP = '.',
    NONE = 'N',
    BININT = 'J',
    BININT1 = 'K',
    BININT2 = 'M',
    BINFLOAT = 'G',
    BINUNICODE = 'X',
    GLOBAL = 'c',
    REDUCE = 'R',
    BUILD = 'b',
    BINPERSID = 'Q',
    EMPTY_TUPLE = ')',
    TUPLE = 't',
    EMPTY_LIST = ']',
    APPEND = 'a',
    APPENDS = 'e',
    EMPTY_DICT = '}',
    SETITEM = 's',
    SETITEMS = 'u',
    BINPUT = 'q',
    LONG_BINPUT = 'r',
    BINGET = 'h',
    LONG_BINGET = 'j',
    PROTO = 0x80,
    TUPLE1 = 0x85,
    TUPLE2 = 0x86,
    TUPLE3 = 0x87,
    NEWTRUE = 0x88,
    NEWFALSE = 0x89,
    LONG1 = 0x8a,
    SHORT_BINUNICODE = 0x8c,
    BINUNICODE8 = 0x8d,
    STACK_GLOBAL = 0x93,
    MEMOIZE = 0x94,
    FRAME = 0x95
};

static const char ORDERED_DICT[] = "collections OrderedDict";

/* A growing row of pointers. */
typedef struct {
    ff_pickle_value **items;
    size_t count, capacity;
} row;

struct ff_pickle {
    row all; /* owns every value */
    ff_pickle_value *root;
};

typedef struct {
    ff_ctx *ctx;
    ff_pickle *pickle;
    const unsigned char *bytes;
    size_t size, at;
    const char *const *allowed;
    const char *what;
    row stack, memo; /* a NULL in the stack is a mark; in the memo, an empty place */
} machine;

/* ---- values ---- */

static ff_status out_of_memory(machine *m) { return FF_FAIL(m->ctx, FF_ERR_MEM, "out of memory reading %s", m->what); }

static ff_status damaged(machine *m, const char *why)
{
    return FF_FAIL(m->ctx, FF_ERR_FORMAT, "%s: its pickle is damaged at byte %zu: %s", m->what, m->at, why);
}

static ff_status push(machine *m, row *r, ff_pickle_value *value)
{
    if (r->count == r->capacity) {
        const size_t capacity = r->capacity == 0 ? 64 : 2 * r->capacity;
        ff_pickle_value **grown = realloc(r->items, capacity * sizeof *grown);
        if (grown == NULL)
            return out_of_memory(m);
        r->items = grown;
        r->capacity = capacity;
    }
    r->items[r->count++] = value;
    return FF_OK;
}

/* A new value, on top of the stack. */
static ff_status make(machine *m, ff_pickle_type type, ff_pickle_value **value)
{
    ff_pickle_value *v = calloc(1, sizeof *v);
    if (v == NULL)
        return out_of_memory(m);
    v->type = type;
    if (push(m, &m->pickle->all, v) != FF_OK) {
        free(v);
        return m->ctx->status;
    }
    if (value != NULL)
        *value = v;
    return push(m, &m->stack, v);
}

static ff_status make_integer(machine *m, ff_pickle_type type, int64_t integer)
{
    ff_pickle_value *v;
    FF_TRY(make(m, type, &v));
    v->integer = integer;
    return FF_OK;
}

static ff_status add(machine *m, ff_pickle_value *v, ff_pickle_value *item)
{
    if (v->count == v->capacity) {
        const int64_t capacity = v->capacity == 0 ? 4 : 2 * v->capacity;
        ff_pickle_value **grown = realloc(v->items, (size_t)capacity * sizeof *grown);
        if (grown == NULL)
            return out_of_memory(m);
        v->items = grown;
        v->capacity = capacity;
    }
    v->items[v->count++] = item;
    return FF_OK;
}

/* ---- operands ---- */

static ff_status take(machine *m, size_t n, const unsigned char **bytes)
{
    if (m->size - m->at < n)
        return damaged(m, "it is cut short");
    *bytes = m->bytes + m->at;
    m->at += n;
    return FF_OK;
}

/* An unsigned number of n bytes. */
static ff_status take_number(machine *m, size_t n, uint64_t *number)
{
    const unsigned char *p = NULL;
    FF_TRY(take(m, n, &p));
    *number = 0;
    for (size_t i = n; i > 0; i--)
        *number = *number << 8 | p[i - 1];
    return FF_OK;
}

/* A number of n bytes in two's complement. */
static int64_t signed_of(uint64_t number, size_t n)
{
    const int shift = 64 - 8 * (int)n;
    return n == 0 ? 0 : (int64_t)(number << shift) >> shift;
}

/* The line of text up to a newline, which is passed. */
static ff_status take_line(machine *m, const unsigned char **text, size_t *length)
{
    *text = m->bytes + m->at;
    const unsigned char *end = memchr(*text, '\n', m->size - m->at);
    if (end == NULL)
        return damaged(m, "it is cut short");
    *length = (size_t)(end - *text);
    m->at += *length + 1;
    return FF_OK;
}

static ff_status make_text(machine *m, size_t length_bytes)
{
    uint64_t length;
    const unsigned char *p = NULL;
    ff_pickle_value *v;
    FF_TRY(take_number(m, length_bytes, &length));
    if (length > m->size)
        return damaged(m, "it is cut short");
    FF_TRY(take(m, (size_t)length, &p));
    FF_TRY(make(m, FF_PICKLE_TEXT, &v));
    v->text = strndup((const char *)p, (size_t)length);
    return v->text == NULL ? out_of_memory(m) : FF_OK;
}

static ff_status make_real(machine *m)
{
    const unsigned char *p = NULL; /* big endian, alone among all operands */
    ff_pickle_value *v;
    uint64_t bits = 0;
    FF_TRY(take(m, 8, &p));
    for (int i = 0; i < 8; i++)
        bits = bits << 8 | p[i];
    FF_TRY(make(m, FF_PICKLE_REAL, &v));
    memcpy(&v->real, &bits, sizeof bits);
    return FF_OK;
}

/* ---- the stack ---- */

static ff_status pop(machine *m, ff_pickle_value **value)
{
    if (m->stack.count == 0 || m->stack.items[m->stack.count - 1] == NULL)
        return damaged(m, "its stack is empty");
    *value = m->stack.items[--m->stack.count];
    return FF_OK;
}

/* The value on top, which stays. */
static ff_status top(machine *m, ff_pickle_value **value)
{
    FF_TRY(pop(m, value));
    m->stack.count++;
    return FF_OK;
}

/* Position of the topmost mark. */
static ff_status find_mark(machine *m, size_t *mark)
{
    for (size_t i = m->stack.count; i > 0; i--) {
        if (m->stack.items[i - 1] == NULL) {
            *mark = i - 1;
            return FF_OK;
        }
    }
    return damaged(m, "a mark is missing");
}

/* The values from `first` on become a tuple in their place. */
static ff_status make_tuple(machine *m, size_t first, size_t below)
{
    ff_pickle_value *v;
    FF_TRY(make(m, FF_PICKLE_TUPLE, &v));
    const size_t end = m->stack.count - 1;
    for (size_t i = first; i < end; i++) {
        if (m->stack.items[i] == NULL)
            return damaged(m, "a mark is in a tuple");
        FF_TRY(add(m, v, m->stack.items[i]));
    }
    m->stack.count = below;
    return push(m, &m->stack, v);
}

static ff_status make_short_tuple(machine *m, size_t n)
{
    if (m->stack.count < n)
        return damaged(m, "its stack is empty");
    return make_tuple(m, m->stack.count - n, m->stack.count - n);
}

static ff_status make_marked_tuple(machine *m)
{
    size_t mark = 0;
    FF_TRY(find_mark(m, &mark));
    return make_tuple(m, mark + 1, mark);
}

/* Move the values above `first` into the list or dictionary just below `below`. */
static ff_status move_into(machine *m, ff_pickle_type type, size_t first, size_t below)
{
    ff_pickle_value *owner = below == 0 ? NULL : m->stack.items[below - 1];
    const size_t n = m->stack.count - first;
    if (owner == NULL || owner->type != type || (type == FF_PICKLE_DICT && n % 2 != 0))
        return damaged(m, "items go into something that takes none");
    for (size_t i = first; i < m->stack.count; i++) {
        if (m->stack.items[i] == NULL)
            return damaged(m, "a mark is among items");
        FF_TRY(add(m, owner, m->stack.items[i]));
    }
    m->stack.count = below;
    return FF_OK;
}

static ff_status move_last(machine *m, ff_pickle_type type, size_t n)
{
    if (m->stack.count < n)
        return damaged(m, "its stack is empty");
    return move_into(m, type, m->stack.count - n, m->stack.count - n);
}

static ff_status move_marked(machine *m, ff_pickle_type type)
{
    size_t mark = 0;
    FF_TRY(find_mark(m, &mark));
    return move_into(m, type, mark + 1, mark);
}

/* ---- memo ---- */

static ff_status remember(machine *m, uint64_t place)
{
    ff_pickle_value *v = NULL;
    FF_TRY(top(m, &v));
    if (place > m->size)
        return damaged(m, "a memo number is out of range");
    while (m->memo.count <= place)
        FF_TRY(push(m, &m->memo, NULL));
    m->memo.items[place] = v;
    return FF_OK;
}

static ff_status recall(machine *m, uint64_t place)
{
    if (place >= m->memo.count || m->memo.items[place] == NULL)
        return damaged(m, "it asks for a memo that was not made");
    return push(m, &m->stack, m->memo.items[place]);
}

/* ---- what Python would run ---- */

static ff_status make_global(machine *m, const char *module, size_t module_length, const char *name, size_t name_length)
{
    ff_pickle_value *v;
    FF_TRY(make(m, FF_PICKLE_GLOBAL, &v));
    v->text = malloc(module_length + name_length + 2);
    if (v->text == NULL)
        return out_of_memory(m);
    memcpy(v->text, module, module_length);
    v->text[module_length] = ' ';
    memcpy(v->text + module_length + 1, name, name_length);
    v->text[module_length + 1 + name_length] = '\0';
    if (strcmp(v->text, ORDERED_DICT) == 0)
        return FF_OK;
    for (const char *const *a = m->allowed; *a != NULL; a++)
        if (strcmp(v->text, *a) == 0)
            return FF_OK;
    v->text[module_length] = '.';
    for (char *c = v->text; *c != '\0'; c++)
        if ((unsigned char)*c < ' ') /* the message is one line whatever the file says */
            *c = '?';
    return FF_FAIL(m->ctx, FF_ERR_UNSUPPORTED,
                   "%s: its pickle wants Python's %.400s, which weights do not need; nothing was run. Save a plain "
                   "dictionary of tensors (a state_dict)",
                   m->what, v->text);
}

static ff_status named_global(machine *m)
{
    const unsigned char *module = NULL, *name = NULL;
    size_t module_length = 0, name_length = 0;
    FF_TRY(take_line(m, &module, &module_length));
    FF_TRY(take_line(m, &name, &name_length));
    return make_global(m, (const char *)module, module_length, (const char *)name, name_length);
}

static ff_status stack_global(machine *m)
{
    ff_pickle_value *module = NULL, *name = NULL;
    FF_TRY(pop(m, &name));
    FF_TRY(pop(m, &module));
    if (module->type != FF_PICKLE_TEXT || name->type != FF_PICKLE_TEXT)
        return damaged(m, "a global's name is no text");
    return make_global(m, module->text, strlen(module->text), name->text, strlen(name->text));
}

static ff_status make_call(machine *m)
{
    ff_pickle_value *function = NULL, *arguments = NULL, *v;
    FF_TRY(pop(m, &arguments));
    FF_TRY(pop(m, &function));
    if (function->type != FF_PICKLE_GLOBAL || arguments->type != FF_PICKLE_TUPLE)
        return damaged(m, "it calls something that is no function");
    if (strcmp(function->text, ORDERED_DICT) == 0) {
        if (arguments->count != 0)
            return damaged(m, "an OrderedDict begins with items");
        return make(m, FF_PICKLE_DICT, NULL);
    }
    FF_TRY(make(m, FF_PICKLE_CALL, &v));
    FF_TRY(add(m, v, function));
    return add(m, v, arguments);
}

/* Attributes of a dictionary (torch's _metadata) are dropped; nothing else has any. */
static ff_status drop_attributes(machine *m)
{
    ff_pickle_value *attributes, *owner = NULL;
    FF_TRY(pop(m, &attributes));
    FF_TRY(top(m, &owner));
    return owner->type == FF_PICKLE_DICT ? FF_OK : damaged(m, "it sets attributes of something that has none");
}

static ff_status make_persistent(machine *m)
{
    ff_pickle_value *id = NULL, *v;
    FF_TRY(pop(m, &id));
    FF_TRY(make(m, FF_PICKLE_PERSISTENT, &v));
    return add(m, v, id);
}

/* ---- the machine ---- */

static ff_status number_operation(machine *m, int opcode, size_t n)
{
    uint64_t number;
    FF_TRY(take_number(m, n, &number));
    switch (opcode) {
    case BININT: return make_integer(m, FF_PICKLE_INTEGER, signed_of(number, n));
    case BININT1:
    case BININT2: return make_integer(m, FF_PICKLE_INTEGER, (int64_t)number);
    case BINPUT:
    case LONG_BINPUT: return remember(m, number);
    case BINGET:
    case LONG_BINGET: return recall(m, number);
    case LONG1: { /* its own length in bytes comes first */
        const size_t length = (size_t)number;
        if (length > 8)
            return damaged(m, "a number has more than 64 bits");
        FF_TRY(take_number(m, length, &number));
        return make_integer(m, FF_PICKLE_INTEGER, signed_of(number, length));
    }
    default: /* PROTO, FRAME: lengths and versions that a reader of whole files need not know */ return FF_OK;
    }
}

static ff_status step(machine *m, int opcode)
{
    switch (opcode) {
    case PROTO:
    case BININT1:
    case BINPUT:
    case BINGET:
    case LONG1: return number_operation(m, opcode, 1);
    case BININT2: return number_operation(m, opcode, 2);
    case BININT:
    case LONG_BINPUT:
    case LONG_BINGET: return number_operation(m, opcode, 4);
    case FRAME: return number_operation(m, opcode, 8);
    case MARK: return push(m, &m->stack, NULL);
    case NONE: return make(m, FF_PICKLE_NONE, NULL);
    case NEWTRUE:
    case NEWFALSE: return make_integer(m, FF_PICKLE_BOOL, opcode == NEWTRUE);
    case BINFLOAT: return make_real(m);
    case SHORT_BINUNICODE: return make_text(m, 1);
    case BINUNICODE: return make_text(m, 4);
    case BINUNICODE8: return make_text(m, 8);
    case EMPTY_TUPLE: return make(m, FF_PICKLE_TUPLE, NULL);
    case TUPLE1:
    case TUPLE2:
    case TUPLE3: return make_short_tuple(m, (size_t)(opcode - TUPLE1 + 1));
    case TUPLE: return make_marked_tuple(m);
    case EMPTY_LIST: return make(m, FF_PICKLE_LIST, NULL);
    case APPEND: return move_last(m, FF_PICKLE_LIST, 1);
    case APPENDS: return move_marked(m, FF_PICKLE_LIST);
    case EMPTY_DICT: return make(m, FF_PICKLE_DICT, NULL);
    case SETITEM: return move_last(m, FF_PICKLE_DICT, 2);
    case SETITEMS: return move_marked(m, FF_PICKLE_DICT);
    case MEMOIZE: return remember(m, m->memo.count);
    case GLOBAL: return named_global(m);
    case STACK_GLOBAL: return stack_global(m);
    case REDUCE: return make_call(m);
    case BUILD: return drop_attributes(m);
    case BINPERSID: return make_persistent(m);
    default:
        return FF_FAIL(
            m->ctx, FF_ERR_UNSUPPORTED,
            "%s: its pickle has opcode 0x%02x at byte %zu, which weights do not need; nothing was run. Save a "
            "plain dictionary of tensors (a state_dict)",
            m->what, (unsigned)opcode, m->at - 1);
    }
}

static ff_status run(machine *m)
{
    if (m->size < 2 || m->bytes[0] != PROTO)
        return damaged(m, "it does not begin as one");
    for (;;) {
        const unsigned char *opcode = NULL;
        FF_TRY(take(m, 1, &opcode));
        if (*opcode == STOP)
            break;
        FF_TRY(step(m, *opcode));
    }
    FF_TRY(pop(m, &m->pickle->root));
    return m->stack.count == 0 ? FF_OK : damaged(m, "values are left over");
}

ff_status ff_pickle_read(ff_ctx *ctx, ff_pickle **pickle, const unsigned char *bytes, size_t size,
                         const char *const *allowed, const char *what)
{
    machine m = {.ctx = ctx, .bytes = bytes, .size = size, .allowed = allowed, .what = what};
    *pickle = NULL;
    m.pickle = calloc(1, sizeof *m.pickle);
    if (m.pickle == NULL)
        return out_of_memory(&m);
    const ff_status status = run(&m);
    free(m.stack.items);
    free(m.memo.items);
    if (status == FF_OK)
        *pickle = m.pickle;
    else
        ff_pickle_destroy(m.pickle);
    return status;
}

const ff_pickle_value *ff_pickle_root(const ff_pickle *pickle) { return pickle->root; }

void ff_pickle_destroy(ff_pickle *pickle)
{
    if (pickle == NULL)
        return;
    for (size_t i = 0; i < pickle->all.count; i++) {
        free(pickle->all.items[i]->text);
        free(pickle->all.items[i]->items);
        free(pickle->all.items[i]);
    }
    free(pickle->all.items);
    free(pickle);
}

const ff_pickle_value *ff_pickle_find(const ff_pickle_value *dict, const char *key)
{
    if (dict == NULL || dict->type != FF_PICKLE_DICT)
        return NULL;
    for (int64_t i = dict->count; i > 1; i -= 2) /* the last one set counts */
        if (dict->items[i - 2]->type == FF_PICKLE_TEXT && strcmp(dict->items[i - 2]->text, key) == 0)
            return dict->items[i - 1];
    return NULL;
}
