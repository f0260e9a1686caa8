#include "infer/json_writer.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/utf8.h"

void ff_json_begin(ff_json *json, FILE *file, bool lines)
{
    *json = (ff_json){.file = file, .lines = lines};
}

void ff_json_end(ff_json *json)
{
    assert(json->depth == 0);
    fputc('\n', json->file);
}

static void put_text(FILE *file, const char *text)
{
    fputc('"', file);
    while (*text != '\0') {
        const unsigned char c = (unsigned char)*text;
        const int length = ff_utf8_length(text);
        if (c == '"' || c == '\\')
            fprintf(file, "\\%c", c);
        else if (c < 0x20 || c == '<' || c == 0x7f)
            fprintf(file, "\\u%04x", c);
        else if (length > 0)
            fwrite(text, 1, (size_t)length, file);
        else
            fputs("\\ufffd", file);
        text += length > 0 ? length : 1;
    }
    fputc('"', file);
}

/* What stands between two values, and the key. */
static void lead_in(ff_json *json, const char *key)
{
    FILE *file = json->file;
    bool *begun = &json->begun[json->depth];
    const bool in_object = json->depth > 0 && json->is_object[json->depth];
    assert(json->depth == 0 || in_object == (key != NULL));
    if (*begun)
        fputs(in_object && json->lines ? "," : ", ", file);
    if (in_object && json->lines)
        fprintf(file, "\n%*s", 2 * json->depth, "");
    *begun = json->depth > 0;
    if (key != NULL) {
        put_text(file, key);
        fputs(": ", file);
    }
}

static void open_level(ff_json *json, const char *key, bool is_object)
{
    lead_in(json, key);
    assert(json->depth + 1 < FF_JSON_MAX_DEPTH);
    json->depth++;
    json->begun[json->depth] = false;
    json->is_object[json->depth] = is_object;
    fputc(is_object ? '{' : '[', json->file);
}

static void close_level(ff_json *json, bool is_object)
{
    assert(json->depth > 0 && json->is_object[json->depth] == is_object);
    const bool filled = json->begun[json->depth];
    json->depth--;
    if (is_object && json->lines && filled)
        fprintf(json->file, "\n%*s", 2 * json->depth, "");
    fputc(is_object ? '}' : ']', json->file);
}

void ff_json_object_begin(ff_json *json, const char *key)
{
    open_level(json, key, true);
}

void ff_json_object_end(ff_json *json)
{
    close_level(json, true);
}

void ff_json_array_begin(ff_json *json, const char *key)
{
    open_level(json, key, false);
}

void ff_json_array_end(ff_json *json)
{
    close_level(json, false);
}

void ff_json_text(ff_json *json, const char *key, const char *text)
{
    lead_in(json, key);
    if (text == NULL)
        fputs("null", json->file);
    else
        put_text(json->file, text);
}

void ff_json_bool(ff_json *json, const char *key, bool value)
{
    lead_in(json, key);
    fputs(value ? "true" : "false", json->file);
}

void ff_json_integer(ff_json *json, const char *key, int64_t value)
{
    lead_in(json, key);
    fprintf(json->file, "%" PRId64, value);
}

enum { NUMBER_BYTES = 400 }; /* %.9f of the largest double */

/* @return the length. Common sizes go without printf: a matrix has millions of numbers. */
static int format_number(char text[NUMBER_BYTES], double value, int decimals)
{
    static const double power[] = {1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9};
    if (!isfinite(value))
        return (int)strlen(strcpy(text, "null"));
    if (!(fabs(value) * power[decimals] < 9e15)) { /* too large for the exact integer below */
        snprintf(text, NUMBER_BYTES, "%.17g", value);
        return (int)strlen(text);
    }
    int64_t scaled = llrint(value * power[decimals]);
    char digits[32], *out = text;
    int count = 0, drop = 0;
    if (scaled < 0)
        *out++ = '-';
    for (uint64_t rest = scaled < 0 ? (uint64_t)-scaled : (uint64_t)scaled; rest > 0 || count <= decimals; rest /= 10)
        digits[count++] = (char)('0' + rest % 10);
    while (drop < decimals - 1 && digits[drop] == '0') /* trailing zeros, but one decimal stays */
        drop++;
    for (int k = count - 1; k >= drop; k--) {
        *out++ = digits[k];
        if (k == decimals && decimals > 0)
            *out++ = '.';
    }
    return (int)(out - text);
}

void ff_json_number(ff_json *json, const char *key, double value, int decimals)
{
    char text[NUMBER_BYTES];
    assert(decimals >= 0 && decimals <= 9);
    lead_in(json, key);
    fwrite(text, 1, (size_t)format_number(text, value, decimals), json->file);
}

void ff_json_floats(ff_json *json, const char *key, const float *values, int64_t count, int decimals)
{
    char text[NUMBER_BYTES];
    assert(decimals >= 0 && decimals <= 9);
    ff_json_array_begin(json, key);
    for (int64_t k = 0; k < count; k++) {
        if (k > 0)
            fputs(", ", json->file);
        fwrite(text, 1, (size_t)format_number(text, values[k], decimals), json->file);
    }
    ff_json_array_end(json);
}

void ff_json_integers(ff_json *json, const char *key, const int32_t *values, int64_t count)
{
    ff_json_array_begin(json, key);
    for (int64_t k = 0; k < count; k++)
        fprintf(json->file, "%s%" PRId32, k > 0 ? ", " : "", values[k]);
    ff_json_array_end(json);
}

void ff_json_base64(ff_json *json, const char *key, const uint8_t *bytes, int64_t count)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char block[4096];
    size_t filled = 0;
    lead_in(json, key);
    fputc('"', json->file);
    for (int64_t k = 0; k < count; k += 3) {
        const int64_t left = count - k;
        const uint32_t second = left > 1 ? bytes[k + 1] : 0, third = left > 2 ? bytes[k + 2] : 0;
        const uint32_t b = (uint32_t)bytes[k] << 16 | second << 8 | third;
        block[filled++] = digits[b >> 18];
        block[filled++] = digits[b >> 12 & 63];
        block[filled++] = left > 1 ? digits[b >> 6 & 63] : '=';
        block[filled++] = left > 2 ? digits[b & 63] : '=';
        if (filled == sizeof block || left <= 3) {
            fwrite(block, 1, filled, json->file);
            filled = 0;
        }
    }
    fputc('"', json->file);
}
