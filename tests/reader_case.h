/* reader_case.h - what the suites of the text readers share: a context that keeps what is logged, messages, random text. */
#ifndef FF_TESTS_READER_CASE_H
#define FF_TESTS_READER_CASE_H

#include <CUnit/CUnit.h>
#include <stdio.h>
#include <string.h>

#include "core/context.h"
#include "core/random.h"

typedef struct {
    ff_ctx ctx;
    FILE *log;
    char logged[4096];
    ff_random_key key;
    uint64_t drawn;
} reader_case;

static inline void reader_case_begin(reader_case *r)
{
    memset(r, 0, sizeof *r);
    ff_context_init(&r->ctx);
    r->log = tmpfile();
    r->ctx.log.file = r->log;
    r->key = (ff_random_key){20240607, 1};
}

static inline void reader_case_end(reader_case *r)
{
    if (r->log != NULL)
        fclose(r->log);
}

/* Everything logged so far. */
static inline const char *reader_case_logged(reader_case *r)
{
    rewind(r->log);
    r->logged[fread(r->logged, 1, sizeof r->logged - 1, r->log)] = '\0';
    fseek(r->log, 0, SEEK_END);
    return r->logged;
}

static inline uint64_t reader_case_draw(reader_case *r, uint64_t n) { return ff_random_below(r->key, r->drawn++, n); }

/* `status` is `wanted` and the message is exactly this one; clears the failure. */
static inline void reader_case_refused(reader_case *r, ff_status status, ff_status wanted, const char *message)
{
    if (status != wanted || strcmp(r->ctx.message, message) != 0) {
        printf("    says     %s: %s\n    expected %s: %s\n", ff_status_name(status), r->ctx.message,
               ff_status_name(wanted), message);
        CU_FAIL("a refusal differs");
    }
    ff_context_clear(&r->ctx);
}

#endif
