#include "infer/text.h"

#include <stdbool.h>

#include "core/utf8.h"

const char *ff_text_ascii_line(char *out, size_t size, const char *text)
{
    size_t n = 0;
    bool blank = false; /* one is due, unless the text ends */
    while (*text != '\0' && n + 1 < size) {
        const unsigned char c = (unsigned char)*text;
        if (c <= ' ' || c == 0x7f) {
            blank = n > 0;
            text++;
            continue;
        }
        if (blank && n + 2 >= size)
            break;
        if (blank)
            out[n++] = ' ';
        blank = false;
        out[n++] = c < 0x80 ? (char)c : '?';
        const int length = ff_utf8_length(text);
        text += length > 0 ? length : 1;
    }
    out[n] = '\0';
    return out;
}
