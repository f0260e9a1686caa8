/* text_file.h - text read line by line, from plain or gzip files, pipes or memory.
 *
 *     ff_text_file *file;
 *     FF_TRY(ff_text_open(ctx, &file, path));
 *     for (ff_text_line line;;) {
 *         FF_TRY_DONE(ff_text_next(ctx, file, &line));
 *         if (line.text == NULL)
 *             break;                                    // the end
 *         ... line.text, line.length, line.number ...
 *     }
 *
 * Lines end with LF, CRLF or CR (as Python's universal newlines); the last one may lack it. Memory: the longest line
 * and two buffers, whatever the size of the file. A UTF-8 byte order mark is skipped; UTF-16, and files packed by
 * anything but gzip, are refused by name. */
#ifndef FF_IO_TEXT_FILE_H
#define FF_IO_TEXT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ff_text_file ff_text_file;

typedef struct {
    char *text;     /* without its end; text[length] is '\0', other NULs may stand inside; NULL after the last line. The
                       caller may write into it; good until the next call */
    int64_t length; /* bytes */
    int64_t number; /* from 1 */
} ff_text_line;

/**
 * Open a plain or gzip file (told apart by its first bytes, not by its name); "-" is standard input.
 * @return FF_ERR_IO: absent, not readable, a folder; FF_ERR_FORMAT: packed another way, UTF-16; FF_ERR_UNSUPPORTED:
 *         gzip, and the program was built without zlib.
 */
ff_status ff_text_open(ff_ctx *ctx, ff_text_file **file, const char *path);
/** The same over `size` bytes in memory, which must stay; `name` stands for the path in messages. */
ff_status ff_text_open_memory(ff_ctx *ctx, ff_text_file **file, const char *name, const char *data, size_t size);
void ff_text_close(ff_text_file *file); /* NULL is fine */

/** The next line. FF_ERR_FORMAT (file and line): a gzip stream that ends early or is damaged; FF_ERR_IO; FF_ERR_MEM. */
ff_status ff_text_next(ff_ctx *ctx, ff_text_file *file, ff_text_line *line);
/** Let the next call give `line`, the last one returned (perhaps trimmed since), once more. */
void ff_text_push_back(ff_text_file *file, const ff_text_line *line);

/** The path or name given to open ("standard input" for "-"). */
const char *ff_text_path(const ff_text_file *file);

/**
 * The whole content, unpacked, with a '\0' behind it that `size` does not count.
 * @param data  out  the caller frees it; NULL after a failure
 */
ff_status ff_text_read_all(ff_ctx *ctx, const char *path, char **data, size_t *size);

/* ---- for messages and parsing ---- */

enum { FF_TEXT_QUOTE_BYTES = 96 };

/** `text` shortened and made printable for a message: "MKV\x00..."; the quotes are part of it. @return `out` */
const char *ff_text_quote(char out[FF_TEXT_QUOTE_BYTES], const char *text, int64_t length);

/** Move `text` past blanks at its start and cut those at its end; blanks as in Python's strip() for ASCII. */
void ff_text_strip(char **text, int64_t *length);

/** Space, tab, CR, LF, VT, FF and the four separators 0x1c..0x1f. */
static inline bool ff_text_is_blank(unsigned char c)
{
    return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x1f);
}

/** The next run of characters that are not blank, from *at on, which moves behind it. False when there is none. */
bool ff_text_next_word(const char **at, const char *end, const char **word, int64_t *length);

#ifdef __cplusplus
}
#endif
#endif
