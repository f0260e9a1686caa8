#include "io/file_bytes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#ifdef FF_HAVE_ZLIB
#include <zlib.h>
#endif

enum { FIRST_BYTES = 1 << 16 };
static const size_t DEFAULT_MAX = (size_t)4 << 30;

/* Where bytes come from: returns how many, 0 at the end, -1 with `reason` on failure. */
typedef struct {
    FILE *file;
#ifdef FF_HAVE_ZLIB
    gzFile gz;
#endif
    char reason[160];
} source;

static long take(source *s, char *to, size_t room)
{
    const unsigned ask = room > (1u << 30) ? 1u << 30 : (unsigned)room;
#ifdef FF_HAVE_ZLIB
    if (s->gz != NULL) {
        const int n = gzread(s->gz, to, ask);
        if (n > 0)
            return n;
        int code = Z_OK;
        const char *text = gzerror(s->gz, &code);
        if (n == 0 && code == Z_OK)
            return 0;
        snprintf(s->reason, sizeof s->reason, code == Z_BUF_ERROR ? "the gzip data end too early (cut file?)" : "damaged gzip data: %s",
                 text);
        return -1;
    }
#endif
    const size_t n = fread(to, 1, ask, s->file);
    if (n == 0 && ferror(s->file)) {
        snprintf(s->reason, sizeof s->reason, "%s", strerror(errno));
        return -1;
    }
    return (long)n;
}

/* Everything, into a buffer that doubles. */
static ff_status take_all(ff_ctx *ctx, source *s, char **data, size_t *size, const char *path, size_t max_bytes,
                          size_t first)
{
    size_t room = first;
    char *buffer = malloc(room + 1);
    *size = 0;
    for (long n = 0; buffer != NULL; *size += (size_t)n) {
        if (*size > max_bytes) {
            free(buffer);
            return FF_FAIL(ctx, FF_ERR_FORMAT, "%s: more than %zu MB of data; not read", path, max_bytes >> 20);
        }
        if (*size == room) {
            char *more = realloc(buffer, 2 * room + 1);
            if (more == NULL)
                break;
            buffer = more;
            room *= 2;
        }
        n = take(s, buffer + *size, room - *size);
        if (n < 0) {
            free(buffer);
            return FF_FAIL(ctx, FF_ERR_FORMAT, "%s: %s", path, s->reason);
        }
        if (n == 0) {
            buffer[*size] = '\0';
            *data = buffer;
            return FF_OK;
        }
    }
    free(buffer);
    return FF_FAIL(ctx, FF_ERR_MEM, "%s: out of memory after %zu MB", path, *size >> 20);
}

ff_status ff_file_bytes_read(ff_ctx *ctx, char **data, size_t *size, const char *path, size_t max_bytes)
{
    *data = NULL;
    *size = 0;
    source s = {.file = fopen(path, "rb")};
    struct stat st;
    if (s.file == NULL)
        return FF_FAIL(ctx, FF_ERR_IO, "cannot open %s: %s", path, strerror(errno));
    if (fstat(fileno(s.file), &st) != 0 || S_ISDIR(st.st_mode)) {
        fclose(s.file);
        return FF_FAIL(ctx, FF_ERR_IO, "cannot read %s: it is a folder", path);
    }
    const int b0 = getc(s.file), b1 = b0 == EOF ? EOF : getc(s.file);
    rewind(s.file);
    size_t first = st.st_size > FIRST_BYTES ? (size_t)st.st_size : FIRST_BYTES;
    if (max_bytes == 0)
        max_bytes = DEFAULT_MAX;
    first = first > max_bytes ? max_bytes + 1 : first + 1; /* one more than the file: its end is seen without growing */
    if (b0 == 0x1f && b1 == 0x8b) {
#ifdef FF_HAVE_ZLIB
        fclose(s.file);
        s.file = NULL;
        s.gz = gzopen(path, "rb");
        if (s.gz == NULL)
            return FF_FAIL(ctx, FF_ERR_IO, "cannot open %s: %s", path, strerror(errno));
        gzbuffer(s.gz, 1 << 17);
        first *= 4;
#else
        fclose(s.file);
        return FF_FAIL(ctx, FF_ERR_UNSUPPORTED,
                       "%s: gzip, and this program was built without zlib: `make deps` installs it, then build again",
                       path);
#endif
    }
    const ff_status status = take_all(ctx, &s, data, size, path, max_bytes, first);
#ifdef FF_HAVE_ZLIB
    if (s.gz != NULL)
        gzclose_r(s.gz);
#endif
    if (s.file != NULL)
        fclose(s.file);
    return status;
}
