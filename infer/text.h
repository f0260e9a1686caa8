/* text.h - names given by users, made fit for files of fixed form. */
#ifndef FF_INFER_TEXT_H
#define FF_INFER_TEXT_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Printable ASCII on one line: runs of blanks and control characters become one space, every other byte outside
 * ASCII (of a UTF-8 character: all its bytes together) one `?`; cut to fit.
 * @return `out`, of at most size - 1 characters
 */
const char *ff_text_ascii_line(char *out, size_t size, const char *text);

#ifdef __cplusplus
}
#endif
#endif
