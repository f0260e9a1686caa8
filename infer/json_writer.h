/* json_writer.h - JSON written as it comes, so that a matrix of any size needs no memory.
 *
 * Texts of any bytes are safe: what is no UTF-8 becomes U+FFFD, and `<` is written \u003c so that a document may stand
 * inside an HTML page. Numbers that are not finite are written null. Write errors stay in the FILE (ff_safe_file_commit
 * looks at them). */
#ifndef FF_INFER_JSON_WRITER_H
#define FF_INFER_JSON_WRITER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { FF_JSON_MAX_DEPTH = 16 };

typedef struct {
    FILE *file;
    bool lines; /* a line for each member of an object; arrays of numbers stay on one line */
    int depth;
    bool begun[FF_JSON_MAX_DEPTH]; /* something stands at this depth already: a comma is due */
    bool is_object[FF_JSON_MAX_DEPTH];
} ff_json;

void ff_json_begin(ff_json *json, FILE *file, bool lines);
/** A newline after the outermost value. */
void ff_json_end(ff_json *json);

/* `key` is NULL inside arrays and for the outermost value. */
void ff_json_object_begin(ff_json *json, const char *key);
void ff_json_object_end(ff_json *json);
void ff_json_array_begin(ff_json *json, const char *key);
void ff_json_array_end(ff_json *json);
void ff_json_text(ff_json *json, const char *key, const char *text); /* NULL is written null */
void ff_json_bool(ff_json *json, const char *key, bool value);
void ff_json_integer(ff_json *json, const char *key, int64_t value);
/** At most `decimals` (0..9) digits after the point, without trailing zeros, but at least one: 1.0, 0.25. */
void ff_json_number(ff_json *json, const char *key, double value, int decimals);

/* Arrays of numbers, rounded likewise. */
void ff_json_floats(ff_json *json, const char *key, const float *values, int64_t count, int decimals);
void ff_json_integers(ff_json *json, const char *key, const int32_t *values, int64_t count);

/** Bytes as one base64 text. */
void ff_json_base64(ff_json *json, const char *key, const uint8_t *bytes, int64_t count);

#ifdef __cplusplus
}
#endif
#endif
