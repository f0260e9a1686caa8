/* text_file.c - see text_file.h.
 *
 * Contents
 *   1. bytes from a file descriptor or from memory
 *   2. gzip
 *   3. opening
 *   4. lines
 *   5. whole files
 *   6. quoting, blanks and words
 */
#include "io/text_file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef FF_HAVE_ZLIB
#include <zlib.h>
#endif

enum { IN_BYTES = 1 << 16, LINE_BYTES = 1 << 18, MAGIC_BYTES = 6 };

struct ff_text_file {
    char *path;
    int fd;             /* -1 = memory */
    const char *memory; /* what is left of it */
    size_t memory_left;

    /* bytes as stored */
    char *in;
    size_t in_begin, in_end;
    bool in_eof;

    bool gzip;
    bool member_open; /* inside a gzip member: the stream may not end here */
#ifdef FF_HAVE_ZLIB
    z_stream stream;
#endif

    /* text: [begin, end) is not yet given out; the next LF is at `newline` or not yet looked for */
    char *buffer;
    size_t begin, end, capacity;
    size_t newline; /* SIZE_MAX = not known */
    bool eof;
    int64_t number;
    ff_text_line last;
    bool again; /* give `last` once more */
};

/* ---- 1. bytes ---- */

/* Up to `size` bytes as stored; 0 = the end. */
static ff_status read_stored(ff_ctx *ctx, ff_text_file *f, char *out, size_t size, size_t *got)
{
    *got = 0;
    if (f->fd < 0) {
        *got = size < f->memory_left ? size : f->memory_left;
        if (*got > 0)
            memcpy(out, f->memory, *got);
        f->memory += *got;
        f->memory_left -= *got;
        return FF_OK;
    }
    for (;;) {
        const ssize_t n = read(f->fd, out, size);
        if (n >= 0) {
            *got = (size_t)n;
            return FF_OK;
        }
        if (errno != EINTR)
            return FF_FAIL(ctx, FF_ERR_IO, "cannot read %s: %s", f->path,
                           errno == EISDIR ? "it is a folder, a file is needed" : strerror(errno));
    }
}

/* More bytes behind those in `in`. */
static ff_status fill_in(ff_ctx *ctx, ff_text_file *f)
{
    if (f->in_begin > 0) {
        memmove(f->in, f->in + f->in_begin, f->in_end - f->in_begin);
        f->in_end -= f->in_begin;
        f->in_begin = 0;
    }
    size_t got;
    FF_TRY(read_stored(ctx, f, f->in + f->in_end, IN_BYTES - f->in_end, &got));
    f->in_end += got;
    f->in_eof = got == 0;
    return FF_OK;
}

/* At least `wanted` bytes in `in`, or all there are. */
static ff_status need_in(ff_ctx *ctx, ff_text_file *f, size_t wanted)
{
    while (f->in_end - f->in_begin < wanted && !f->in_eof)
        FF_TRY(fill_in(ctx, f));
    return FF_OK;
}

static ff_status read_plain(ff_ctx *ctx, ff_text_file *f, char *out, size_t size, size_t *got)
{
    const size_t ahead = f->in_end - f->in_begin;
    if (ahead == 0)
        return read_stored(ctx, f, out, size, got);
    *got = size < ahead ? size : ahead;
    memcpy(out, f->in + f->in_begin, *got);
    f->in_begin += *got;
    return FF_OK;
}

/* ---- 2. gzip ---- */

#ifdef FF_HAVE_ZLIB

/* Between members: another one, zeros to the end (padding), or rubbish. */
static ff_status next_member(ff_ctx *ctx, ff_text_file *f, bool *more)
{
    *more = false;
    FF_TRY(need_in(ctx, f, 2));
    const unsigned char *p = (const unsigned char *)f->in + f->in_begin;
    const size_t n = f->in_end - f->in_begin;
    if (n >= 2 && p[0] == 0x1f && p[1] == 0x8b) {
        *more = true;
        f->member_open = true;
        if (inflateReset(&f->stream) != Z_OK)
            return FF_FAIL(ctx, FF_ERR_FORMAT, "%s: zlib cannot start anew", f->path);
        return FF_OK;
    }
    while (f->in_begin < f->in_end || !f->in_eof) {
        for (; f->in_begin < f->in_end; f->in_begin++)
            if (f->in[f->in_begin] != 0)
                return FF_FAIL(
                    ctx, FF_ERR_FORMAT,
                    "%s:%lld: something else follows the gzip data; unpack the file by hand and look at its end",
                    f->path, (long long)f->number + 1);
        FF_TRY(fill_in(ctx, f));
    }
    return FF_OK;
}

static ff_status read_gzip(ff_ctx *ctx, ff_text_file *f, char *out, size_t size, size_t *got)
{
    *got = 0;
    while (*got == 0) {
        if (!f->member_open) {
            bool more;
            FF_TRY(next_member(ctx, f, &more));
            if (!more)
                return FF_OK;
        }
        FF_TRY(need_in(ctx, f, 1));
        if (f->in_begin == f->in_end)
            return FF_FAIL(ctx, FF_ERR_FORMAT, "%s:%lld: the gzip data ends too early (a truncated file); copy it anew",
                           f->path, (long long)f->number + 1);
        f->stream.next_in = (Bytef *)f->in + f->in_begin;
        f->stream.avail_in = (uInt)(f->in_end - f->in_begin);
        f->stream.next_out = (Bytef *)out;
        f->stream.avail_out = (uInt)(size < (1u << 30) ? size : (1u << 30));
        const uInt room = f->stream.avail_out;
        const int code = inflate(&f->stream, Z_NO_FLUSH);
        f->in_begin = f->in_end - f->stream.avail_in;
        *got = room - f->stream.avail_out;
        if (code == Z_STREAM_END)
            f->member_open = false;
        else if (code != Z_OK && code != Z_BUF_ERROR)
            return FF_FAIL(ctx, FF_ERR_FORMAT, "%s:%lld: the gzip data is damaged (%s); copy it anew", f->path,
                           (long long)f->number + 1, f->stream.msg == NULL ? "no reason given" : f->stream.msg);
    }
    return FF_OK;
}

static ff_status start_gzip(ff_ctx *ctx, ff_text_file *f)
{
    if (inflateInit2(&f->stream, 15 + 16) != Z_OK) /* 32 KB window, gzip header */
        return FF_FAIL(ctx, FF_ERR_MEM, "%s: zlib cannot start", f->path);
    f->gzip = f->member_open = true;
    return FF_OK;
}

#else

static ff_status read_gzip(ff_ctx *ctx, ff_text_file *f, char *out, size_t size, size_t *got)
{
    (void)ctx, (void)f, (void)out, (void)size;
    *got = 0;
    return FF_OK;
}

static ff_status start_gzip(ff_ctx *ctx, ff_text_file *f)
{
    return FF_FAIL(ctx, FF_ERR_UNSUPPORTED,
                   "%s is packed by gzip and this program was built without zlib; gunzip it, or"
                   " install zlib's headers (make deps) and build again",
                   f->path);
}

#endif

/* ---- 3. opening ---- */

/* What the first bytes say about the file. */
static ff_status look_at_magic(ff_ctx *ctx, ff_text_file *f)
{
    static const struct {
        const char *bytes;
        size_t length;
        const char *what;
    } others[] = {{"BZh", 3, "is packed by bzip2; bunzip2 it"},
                  {"\xfd" "7zXZ", 5, "is packed by xz; unxz it"},
                  {"\x28\xb5\x2f\xfd", 4, "is packed by zstd; unzstd it"},
                  {"PK\x03\x04", 4, "is a zip archive; unzip it"},
                  {"\xff\xfe", 2, "is UTF-16 text; save it as UTF-8 or plain ASCII"},
                  {"\xfe\xff", 2, "is UTF-16 text; save it as UTF-8 or plain ASCII"},
                  {"\x89HDF", 4, "is an HDF5 file, not text"}};
    FF_TRY(need_in(ctx, f, MAGIC_BYTES));
    const char *p = f->in + f->in_begin;
    const size_t n = f->in_end - f->in_begin;
    if (n >= 2 && memcmp(p, "\x1f\x8b", 2) == 0)
        return start_gzip(ctx, f);
    if (n >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0)
        f->in_begin += 3;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (n >= others[i].length && memcmp(p, others[i].bytes, others[i].length) == 0)
            return FF_FAIL(ctx, FF_ERR_FORMAT, "%s %s", f->path, others[i].what);
    return FF_OK;
}

static ff_status create(ff_ctx *ctx, ff_text_file **file, const char *path)
{
    ff_text_file *f = calloc(1, sizeof *f);
    *file = NULL;
    if (f != NULL) {
        f->fd = -1;
        f->newline = SIZE_MAX;
        f->path = strdup(path);
        f->in = malloc(IN_BYTES);
        f->buffer = malloc(LINE_BYTES + 1);
        f->capacity = LINE_BYTES;
    }
    if (f == NULL || f->path == NULL || f->in == NULL || f->buffer == NULL) {
        ff_text_close(f);
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory opening %s", path);
    }
    *file = f;
    return FF_OK;
}

static ff_status open_path(ff_ctx *ctx, ff_text_file *f, const char *path)
{
    struct stat st;
    const bool standard = strcmp(path, "-") == 0;
    f->fd = standard ? dup(0) : open(path, O_RDONLY | O_CLOEXEC);
    if (f->fd < 0)
        return FF_FAIL(ctx, FF_ERR_IO, "cannot open %s: %s", f->path, strerror(errno));
    if (fstat(f->fd, &st) == 0 && S_ISDIR(st.st_mode))
        return FF_FAIL(ctx, FF_ERR_IO, "cannot read %s: it is a folder, a file is needed", f->path);
    return look_at_magic(ctx, f);
}

ff_status ff_text_open(ff_ctx *ctx, ff_text_file **file, const char *path)
{
    FF_TRY(create(ctx, file, strcmp(path, "-") == 0 ? "standard input" : path));
    const ff_status status = open_path(ctx, *file, path);
    if (status != FF_OK) {
        ff_text_close(*file);
        *file = NULL;
    }
    return status;
}

ff_status ff_text_open_memory(ff_ctx *ctx, ff_text_file **file, const char *name, const char *data, size_t size)
{
    FF_TRY(create(ctx, file, name));
    (*file)->memory = data;
    (*file)->memory_left = size;
    const ff_status status = look_at_magic(ctx, *file);
    if (status != FF_OK) {
        ff_text_close(*file);
        *file = NULL;
    }
    return status;
}

void ff_text_close(ff_text_file *file)
{
    if (file == NULL)
        return;
#ifdef FF_HAVE_ZLIB
    if (file->gzip)
        inflateEnd(&file->stream);
#endif
    if (file->fd >= 0)
        close(file->fd);
    free(file->path);
    free(file->in);
    free(file->buffer);
    free(file);
}

const char *ff_text_path(const ff_text_file *file) { return file->path; }

/* ---- 4. lines ---- */

/* More text behind what is in the buffer; sets eof at the end. */
static ff_status fill_buffer(ff_ctx *ctx, ff_text_file *f)
{
    if (f->begin > 0) {
        memmove(f->buffer, f->buffer + f->begin, f->end - f->begin);
        f->end -= f->begin;
        f->begin = 0;
    }
    if (f->end == f->capacity) {
        char *grown = realloc(f->buffer, 2 * f->capacity + 1);
        if (grown == NULL)
            return FF_FAIL(ctx, FF_ERR_MEM, "%s:%lld: out of memory for a line of more than %zu bytes", f->path,
                           (long long)f->number + 1, f->capacity);
        f->buffer = grown;
        f->capacity *= 2;
    }
    size_t got;
    FF_TRY((f->gzip ? read_gzip : read_plain)(ctx, f, f->buffer + f->end, f->capacity - f->end, &got));
    f->end += got;
    f->eof = got == 0;
    return FF_OK;
}

/* Find the LF that ends the text at `begin`, or the end of the file. */
static ff_status find_newline(ff_ctx *ctx, ff_text_file *f)
{
    size_t looked = f->begin;
    while (f->newline == SIZE_MAX) {
        const char *p = memchr(f->buffer + looked, '\n', f->end - looked);
        if (p != NULL || f->eof) {
            f->newline = p != NULL ? (size_t)(p - f->buffer) : f->end;
            return FF_OK;
        }
        const size_t seen = f->end - f->begin;
        FF_TRY(fill_buffer(ctx, f));
        looked = f->begin + seen;
    }
    return FF_OK;
}

ff_status ff_text_next(ff_ctx *ctx, ff_text_file *file, ff_text_line *line)
{
    ff_text_file *f = file;
    if (f->again) {
        f->again = false;
        *line = f->last;
        return FF_OK;
    }
    *line = (ff_text_line){NULL, 0, f->number};
    FF_TRY(find_newline(ctx, f));
    if (f->begin < f->end) {
        char *text = f->buffer + f->begin;
        size_t length = f->newline - f->begin;
        const char *cr = memchr(text, '\r', length);
        size_t next = f->newline + 1;
        if (cr != NULL) { /* CRLF, or a CR that ends a line by itself */
            length = (size_t)(cr - text);
            next = f->begin + length + 1;
            if (next == f->newline && f->newline < f->end)
                next = f->newline + 1;
        }
        if (next > f->newline)
            f->newline = SIZE_MAX;
        f->begin = next < f->end ? next : f->end;
        text[length] = '\0';
        *line = (ff_text_line){text, (int64_t)length, ++f->number};
    }
    return FF_OK;
}

void ff_text_push_back(ff_text_file *file, const ff_text_line *line)
{
    assert(!file->again && line->number == file->number);
    file->again = true;
    file->last = *line;
}

/* ---- 5. whole files ---- */

ff_status ff_text_read_all(ff_ctx *ctx, const char *path, char **data, size_t *size)
{
    ff_status status = FF_OK;
    ff_text_file *f;
    *data = NULL;
    *size = 0;
    FF_TRY(ff_text_open(ctx, &f, path));
    struct stat st; /* room for a plain file at once, and one byte to see its end */
    if (f->fd >= 0 && !f->gzip && fstat(f->fd, &st) == 0 && S_ISREG(st.st_mode) && (size_t)st.st_size >= f->capacity) {
        char *grown = realloc(f->buffer, (size_t)st.st_size + 2);
        if (grown != NULL) {
            f->buffer = grown;
            f->capacity = (size_t)st.st_size + 1;
        }
    }
    while (!f->eof)
        FF_TRY_DONE(fill_buffer(ctx, f));
    f->buffer[f->end] = '\0';
    *data = f->buffer;
    *size = f->end;
    f->buffer = NULL;
done:
    ff_text_close(f);
    return status;
}

/* ---- 6. quoting, blanks and words ---- */

const char *ff_text_quote(char out[FF_TEXT_QUOTE_BYTES], const char *text, int64_t length)
{
    const int64_t shown = length > 40 ? 37 : length;
    size_t n = 0;
    out[n++] = '"';
    for (int64_t i = 0; i < shown && n < FF_TEXT_QUOTE_BYTES - 12; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (c >= ' ' && c != 0x7f)
            out[n++] = (char)c;
        else
            n += (size_t)snprintf(out + n, 5, "\\x%02x", c);
    }
    snprintf(out + n, FF_TEXT_QUOTE_BYTES - n, "%s\"", length > 40 ? "..." : "");
    return out;
}

void ff_text_strip(char **text, int64_t *length)
{
    while (*length > 0 && ff_text_is_blank((unsigned char)(*text)[*length - 1]))
        --*length;
    while (*length > 0 && ff_text_is_blank((unsigned char)**text)) {
        ++*text;
        --*length;
    }
    if (*text != NULL)
        (*text)[*length] = '\0';
}

bool ff_text_next_word(const char **at, const char *end, const char **word, int64_t *length)
{
    const char *p = *at;
    while (p < end && ff_text_is_blank((unsigned char)*p))
        p++;
    *word = p;
    while (p < end && !ff_text_is_blank((unsigned char)*p))
        p++;
    *length = p - *word;
    *at = p;
    return *length > 0;
}
