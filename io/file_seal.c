#include "io/file_seal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The seal: mark, length of what comes before it, two sums, all little endian. */
enum { MARK_BYTES = 8, SEAL_BYTES = MARK_BYTES + 3 * 8, BUFFER_BYTES = 1 << 20 };
static const char MARK[MARK_BYTES] = {'F', 'F', 's', 'e', 'a', 'l', '1', '\n'};

/* Fletcher's two sums over 32-bit words, modulo 2^64; a last word is filled up with zeros. */
typedef struct {
    uint64_t first, second, length;
} sums;

static void add(sums *s, const unsigned char *p, size_t bytes)
{
    uint64_t first = s->first, second = s->second;
    for (size_t i = 0; i < bytes; i += 4) {
        unsigned char word[4] = {0};
        memcpy(word, p + i, bytes - i < 4 ? bytes - i : 4);
        first += (uint64_t)word[0] | (uint64_t)word[1] << 8 | (uint64_t)word[2] << 16 | (uint64_t)word[3] << 24;
        second += first;
    }
    *s = (sums){first, second, s->length + bytes};
}

static void put(unsigned char *p, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        p[i] = (unsigned char)(value >> (8 * i));
}

static void make_seal(unsigned char seal[SEAL_BYTES], const sums *s)
{
    memcpy(seal, MARK, MARK_BYTES);
    put(seal + MARK_BYTES, s->length);
    put(seal + MARK_BYTES + 8, s->first);
    put(seal + MARK_BYTES + 16, s->second);
}

/* Sums of the file's first `bytes` bytes; false on a read error. */
static bool sum_up(FILE *file, uint64_t bytes, unsigned char *buffer, sums *s)
{
    while (s->length < bytes) {
        const uint64_t left = bytes - s->length;
        const size_t want = left < BUFFER_BYTES ? (size_t)left : BUFFER_BYTES;
        if (fread(buffer, 1, want, file) != want)
            return false;
        add(s, buffer, want);
    }
    return true;
}

static ff_status read_failure(ff_ctx *ctx, const char *path, int error)
{
    return FF_FAIL(ctx, FF_ERR_IO, "cannot read %s: %s", path, error != 0 ? strerror(error) : "it changed meanwhile");
}

/* Length of an open file, which then stands at its beginning; -1 on failure. */
static int64_t length_of(FILE *file)
{
    if (fseeko(file, 0, SEEK_END) != 0)
        return -1;
    const int64_t length = ftello(file);
    return fseeko(file, 0, SEEK_SET) == 0 ? length : -1;
}

ff_status ff_file_seal(ff_ctx *ctx, const char *path)
{
    ff_status status = FF_OK;
    unsigned char seal[SEAL_BYTES];
    sums s = {0, 0, 0};
    FILE *file = fopen(path, "r+b");
    if (file == NULL)
        return FF_FAIL(ctx, FF_ERR_IO, "cannot write %s: %s", path, strerror(errno));
    unsigned char *buffer = malloc(BUFFER_BYTES);
    const int64_t length = length_of(file);
    if (buffer == NULL) {
        status = FF_FAIL(ctx, FF_ERR_MEM, "out of memory writing %s", path);
    } else if (length < 0 || !sum_up(file, (uint64_t)length, buffer, &s)) {
        status = read_failure(ctx, path, errno);
    } else {
        make_seal(seal, &s);
        if (fseeko(file, 0, SEEK_END) != 0 || fwrite(seal, 1, SEAL_BYTES, file) != SEAL_BYTES)
            status = FF_FAIL(ctx, FF_ERR_IO, "cannot write %s: %s", path, strerror(errno));
    }
    if (fclose(file) != 0 && status == FF_OK)
        status = FF_FAIL(ctx, FF_ERR_IO, "cannot write %s: %s", path, strerror(errno));
    free(buffer);
    return status;
}

ff_status ff_file_check_seal(ff_ctx *ctx, const char *path)
{
    ff_status status = FF_OK;
    unsigned char want[SEAL_BYTES], have[SEAL_BYTES] = {0};
    sums s = {0, 0, 0};
    errno = 0;
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return read_failure(ctx, path, errno);
    unsigned char *buffer = malloc(BUFFER_BYTES);
    const int64_t length = length_of(file) - SEAL_BYTES;
    if (buffer == NULL) {
        status = FF_FAIL(ctx, FF_ERR_MEM, "out of memory reading %s", path);
    } else if (length >= 0 &&
               (!sum_up(file, (uint64_t)length, buffer, &s) || fread(have, 1, SEAL_BYTES, file) != SEAL_BYTES)) {
        status = read_failure(ctx, path, errno);
    } else {
        make_seal(want, &s);
        if (memcmp(have, MARK, MARK_BYTES) != 0)
            status =
                FF_FAIL(ctx, FF_ERR_FORMAT,
                        "%s has no seal at its end: it was cut short, or another program changed or made it", path);
        else if (memcmp(have, want, SEAL_BYTES) != 0)
            status = FF_FAIL(ctx, FF_ERR_FORMAT, "%s is damaged: its checksum is wrong", path);
    }
    fclose(file);
    free(buffer);
    return status;
}
