/* zip_file.c - reading through libzip; writing by hand, because libzip keeps what it is given until the end. */
#include "io/zip_file.h"

#if defined(FF_HAVE_ZIP) && defined(FF_HAVE_ZLIB)

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zip.h>
#include <zlib.h>

#include "io/safe_file.h"

/* ---- reading ---- */

struct ff_zip {
    zip_t *archive;
    char *path;
};

struct ff_zip_member {
    ff_zip *zip;
    zip_file_t *file;
    int64_t index;
};

/* Is it a zip archive that lost its end, or something else? */
static bool begins_like_zip(const char *path)
{
    unsigned char magic[4] = {0};
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return false;
    const size_t got = fread(magic, 1, sizeof magic, file);
    fclose(file);
    return got == sizeof magic && memcmp(magic, "PK\3\4", sizeof magic) == 0;
}

static ff_status open_failure(ff_ctx *ctx, const char *path, const char *kind, int code, int system_error)
{
    zip_error_t error;
    if (code == ZIP_ER_NOENT || code == ZIP_ER_OPEN || code == ZIP_ER_READ)
        return FF_FAIL(ctx, FF_ERR_IO, "cannot read %s: %s", path, strerror(system_error));
    if (code == ZIP_ER_MEMORY)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory reading %s", path);
    if (begins_like_zip(path))
        return FF_FAIL(ctx, FF_ERR_FORMAT,
                       "%s is cut short or damaged: the zip directory at its end is missing; "
                       "copy or download it again",
                       path);
    zip_error_init_with_code(&error, code);
    FF_FAIL(ctx, FF_ERR_FORMAT, "%s is not %s (%s)", path, kind, zip_error_strerror(&error));
    zip_error_fini(&error);
    return FF_ERR_FORMAT;
}

ff_status ff_zip_open(ff_ctx *ctx, ff_zip **zip, const char *path, const char *kind)
{
    int code = 0;
    *zip = NULL;
    errno = 0;
    zip_t *archive = zip_open(path, ZIP_RDONLY, &code);
    if (archive == NULL)
        return open_failure(ctx, path, kind, code, errno);
    ff_zip *z = calloc(1, sizeof *z);
    char *copy = strdup(path);
    if (z == NULL || copy == NULL) {
        free(z);
        free(copy);
        zip_discard(archive);
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory reading %s", path);
    }
    *z = (ff_zip){archive, copy};
    *zip = z;
    return FF_OK;
}

void ff_zip_close(ff_zip *zip)
{
    if (zip == NULL)
        return;
    zip_discard(zip->archive);
    free(zip->path);
    free(zip);
}

const char *ff_zip_path(const ff_zip *zip) { return zip->path; }

int64_t ff_zip_count(const ff_zip *zip) { return zip_get_num_entries(zip->archive, 0); }

const char *ff_zip_name(const ff_zip *zip, int64_t i)
{
    const char *name = zip_get_name(zip->archive, (zip_uint64_t)i, ZIP_FL_ENC_RAW);
    return name == NULL ? "" : name;
}

int64_t ff_zip_size(const ff_zip *zip, int64_t i)
{
    zip_stat_t st;
    zip_stat_init(&st);
    if (zip_stat_index(zip->archive, (zip_uint64_t)i, 0, &st) != 0 || (st.valid & ZIP_STAT_SIZE) == 0)
        return 0;
    return st.size > INT64_MAX ? INT64_MAX : (int64_t)st.size;
}

int64_t ff_zip_find(const ff_zip *zip, const char *name) { return zip_name_locate(zip->archive, name, ZIP_FL_ENC_RAW); }

ff_status ff_zip_begin(ff_ctx *ctx, ff_zip *zip, int64_t i, ff_zip_member **member)
{
    *member = NULL;
    ff_zip_member *m = calloc(1, sizeof *m);
    if (m == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory reading %s", zip->path);
    *m = (ff_zip_member){zip, zip_fopen_index(zip->archive, (zip_uint64_t)i, 0), i};
    if (m->file == NULL) {
        free(m);
        return FF_FAIL(ctx, FF_ERR_FORMAT, "%s: cannot read %s: %s", zip->path, ff_zip_name(zip, i),
                       zip_strerror(zip->archive));
    }
    *member = m;
    return FF_OK;
}

static ff_status damaged(ff_ctx *ctx, const ff_zip_member *m, const char *what)
{
    return FF_FAIL(ctx, FF_ERR_FORMAT, "%s: %s is damaged: %s; copy or download the file again", m->zip->path,
                   ff_zip_name(m->zip, m->index), what);
}

static ff_status read_failure(ff_ctx *ctx, const ff_zip_member *m)
{
    const zip_error_t *error = zip_file_get_error(m->file);
    switch (zip_error_code_zip(error)) {
    case ZIP_ER_CRC: return damaged(ctx, m, "its checksum is wrong");
    case ZIP_ER_EOF: return damaged(ctx, m, "it is cut short");
    default: return damaged(ctx, m, "it cannot be unpacked");
    }
}

ff_status ff_zip_read(ff_ctx *ctx, ff_zip_member *m, void *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        const zip_int64_t got = zip_fread(m->file, (char *)data + done, bytes - done);
        if (got < 0)
            return read_failure(ctx, m);
        if (got == 0)
            return damaged(ctx, m, "it is cut short");
        done += (size_t)got;
    }
    return FF_OK;
}

ff_status ff_zip_end(ff_ctx *ctx, ff_zip_member *m)
{
    ff_status status = FF_OK;
    char more;
    const zip_int64_t got = zip_fread(m->file, &more, 1); /* at the end libzip compares the checksum */
    if (got < 0)
        status = read_failure(ctx, m);
    else if (got > 0)
        status = damaged(ctx, m, "it is longer than its header says");
    ff_zip_drop(m);
    return status;
}

void ff_zip_drop(ff_zip_member *m)
{
    if (m == NULL)
        return;
    zip_fclose(m->file);
    free(m);
}

/* ---- writing ---- */

typedef struct {
    char *name;
    uint32_t crc;
    uint64_t size, offset;
} written_member;

struct ff_zip_writer {
    ff_safe_file safe;
    written_member *members;
    size_t count, capacity;
    uint64_t offset; /* bytes written so far */
};

enum {
    LOCAL_BYTES = 30,
    CENTRAL_BYTES = 46,
    END64_BYTES = 56,
    LOCATOR_BYTES = 20,
    END_BYTES = 22,
    EXTRA_BYTES = 32, /* at most: tag, length, two sizes, offset */
    VERSION = 45,     /* zip64 */
    DATE_1980 = 0x21  /* 1 January 1980, so that the same arrays give the same bytes */
};
static const uint64_t LIMIT32 = 0xffffffffu;

static unsigned char *put(unsigned char *p, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        *p++ = (unsigned char)(value >> (8 * i));
    return p;
}

static ff_status write_bytes(ff_ctx *ctx, ff_zip_writer *w, const void *data, size_t bytes)
{
    if (bytes > 0 && fwrite(data, 1, bytes, w->safe.file) != bytes)
        return FF_FAIL(ctx, FF_ERR_IO, "cannot write %s: %s", w->safe.path, strerror(errno));
    w->offset += bytes;
    return FF_OK;
}

ff_status ff_zip_create(ff_ctx *ctx, ff_zip_writer **writer, const char *path)
{
    *writer = NULL;
    ff_zip_writer *w = calloc(1, sizeof *w);
    if (w == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory writing %s", path);
    const ff_status status = ff_safe_file_begin(ctx, &w->safe, path);
    if (status != FF_OK) {
        free(w);
        return status;
    }
    *writer = w;
    return FF_OK;
}

static void destroy(ff_zip_writer *w)
{
    for (size_t i = 0; i < w->count; i++)
        free(w->members[i].name);
    free(w->members);
    free(w);
}

void ff_zip_abandon(ff_zip_writer *w)
{
    if (w == NULL)
        return;
    ff_safe_file_abandon(&w->safe);
    destroy(w);
}

static ff_status remember(ff_ctx *ctx, ff_zip_writer *w, const char *name, uint32_t crc, uint64_t size)
{
    if (w->count == w->capacity) {
        const size_t capacity = w->capacity == 0 ? 64 : 2 * w->capacity;
        written_member *grown = realloc(w->members, capacity * sizeof *grown);
        if (grown == NULL)
            return FF_FAIL(ctx, FF_ERR_MEM, "out of memory writing %s", w->safe.path);
        w->members = grown;
        w->capacity = capacity;
    }
    char *copy = strdup(name);
    if (copy == NULL)
        return FF_FAIL(ctx, FF_ERR_MEM, "out of memory writing %s", w->safe.path);
    w->members[w->count++] = (written_member){copy, crc, size, w->offset};
    return FF_OK;
}

static uint32_t checksum(uint32_t crc, const void *data, size_t bytes) { return (uint32_t)crc32_z(crc, data, bytes); }

/* The zip64 part of a header: whatever of sizes and offset does not fit into 32 bits. */
static size_t zip64_extra(unsigned char *extra, uint64_t size, uint64_t offset)
{
    unsigned char *p = extra + 4;
    if (size >= LIMIT32)
        p = put(put(p, size, 8), size, 8);
    if (offset >= LIMIT32)
        p = put(p, offset, 8);
    const size_t bytes = (size_t)(p - extra);
    if (bytes == 4)
        return 0;
    put(put(extra, 1, 2), bytes - 4, 2);
    return bytes;
}

static uint64_t clipped(uint64_t value) { return value < LIMIT32 ? value : LIMIT32; }

/* What local and central header share, from "version needed" to "length of extra". */
static unsigned char *put_common(unsigned char *p, const written_member *m, size_t extra_bytes)
{
    p = put(put(put(p, VERSION, 2), 0, 2), 0, 2); /* flags, method: stored */
    p = put(put(p, 0, 2), DATE_1980, 2);
    p = put(put(put(p, m->crc, 4), clipped(m->size), 4), clipped(m->size), 4);
    return put(put(p, strlen(m->name), 2), extra_bytes, 2);
}

ff_status ff_zip_add(ff_ctx *ctx, ff_zip_writer *w, const char *name, const void *head, size_t head_bytes,
                     const void *data, size_t data_bytes)
{
    unsigned char header[LOCAL_BYTES], extra[EXTRA_BYTES];
    const uint32_t crc = checksum(checksum(0, head, head_bytes), data, data_bytes);
    FF_TRY(remember(ctx, w, name, crc, (uint64_t)head_bytes + data_bytes));
    const written_member *m = &w->members[w->count - 1];
    const size_t extra_bytes = zip64_extra(extra, m->size, 0);
    put_common(put(header, 0x04034b50, 4), m, extra_bytes);
    FF_TRY(write_bytes(ctx, w, header, sizeof header));
    FF_TRY(write_bytes(ctx, w, name, strlen(name)));
    FF_TRY(write_bytes(ctx, w, extra, extra_bytes));
    FF_TRY(write_bytes(ctx, w, head, head_bytes));
    return write_bytes(ctx, w, data, data_bytes);
}

static ff_status write_central(ff_ctx *ctx, ff_zip_writer *w, const written_member *m)
{
    unsigned char header[CENTRAL_BYTES], extra[EXTRA_BYTES];
    const size_t extra_bytes = zip64_extra(extra, m->size, m->offset);
    unsigned char *p = put(put(header, 0x02014b50, 4), VERSION, 2);
    p = put_common(p, m, extra_bytes);
    p = put(put(put(put(p, 0, 2), 0, 2), 0, 2), 0, 4); /* comment, disk, attributes */
    put(p, clipped(m->offset), 4);
    FF_TRY(write_bytes(ctx, w, header, sizeof header));
    FF_TRY(write_bytes(ctx, w, m->name, strlen(m->name)));
    return write_bytes(ctx, w, extra, extra_bytes);
}

static ff_status write_end(ff_ctx *ctx, ff_zip_writer *w, uint64_t start)
{
    unsigned char end[END64_BYTES + LOCATOR_BYTES + END_BYTES], *p = end;
    const uint64_t size = w->offset - start, end64 = w->offset;
    const bool zip64 = start >= LIMIT32 || size >= LIMIT32 || w->count >= 0xffff;
    if (zip64) {
        p = put(put(put(put(p, 0x06064b50, 4), END64_BYTES - 12, 8), VERSION, 2), VERSION, 2);
        p = put(put(put(put(p, 0, 4), 0, 4), w->count, 8), w->count, 8);
        p = put(put(p, size, 8), start, 8);
        p = put(put(put(put(p, 0x07064b50, 4), 0, 4), end64, 8), 1, 4);
    }
    const uint64_t count = w->count < 0xffff ? w->count : 0xffff;
    p = put(put(put(p, 0x06054b50, 4), 0, 2), 0, 2);
    p = put(put(p, count, 2), count, 2);
    p = put(put(put(p, clipped(size), 4), clipped(start), 4), 0, 2);
    return write_bytes(ctx, w, end, (size_t)(p - end));
}

ff_status ff_zip_commit(ff_ctx *ctx, ff_zip_writer *w)
{
    ff_status status = ctx->status;
    const uint64_t start = w->offset;
    for (size_t i = 0; status == FF_OK && i < w->count; i++)
        status = write_central(ctx, w, &w->members[i]);
    if (status == FF_OK)
        status = write_end(ctx, w, start);
    if (status == FF_OK)
        status = ff_safe_file_commit(ctx, &w->safe);
    else
        ff_safe_file_abandon(&w->safe);
    destroy(w);
    return status;
}

#endif
