/* utf8.h - telling text that is UTF-8 from bytes that are not. */
#ifndef FF_CORE_UTF8_H
#define FF_CORE_UTF8_H

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Length of the valid UTF-8 character that begins at `text`, 1..4; 0 where none does (overlong forms, surrogates,
 * stray and missing continuation bytes) and at the end of the text.
 */
int ff_utf8_length(const char *text);

#ifdef __cplusplus
}
#endif
#endif
