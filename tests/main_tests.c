/* main_tests.c - one program for all CUnit suites.
 *
 *   tests [--list] [--only PREFIX]     last line: N passed, N failed, N skipped (test functions) */
#include <CUnit/CUnit.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"

#define SUITE(name) extern CU_SuiteInfo name;
#include "suites.inc"
#undef SUITE

static int num_passed, num_failed, num_skipped;
static bool skipping;

void ff_check_close(const float *got, const float *want, int64_t n, double rtol, double atol, const char *name,
                    const char *file, int line)
{
    int64_t worst = -1;
    double worst_excess = 0;
    for (int64_t i = 0; i < n; i++) {
        const double excess = fabs((double)got[i] - want[i]) - (atol + rtol * fabs((double)want[i]));
        if (!(excess <= 0) && (worst < 0 || !(excess <= worst_excess))) {
            worst = i;
            worst_excess = excess;
        }
    }
    if (worst >= 0) {
        char text[256];
        snprintf(text, sizeof text, "%s[%lld] = %.9g, expected %.9g (rtol %g, atol %g)", name, (long long)worst, got[worst],
                 want[worst], rtol, atol);
        CU_assertImplementation(CU_FALSE, (unsigned)line, text, file, "", CU_FALSE);
    } else {
        CU_assertImplementation(CU_TRUE, (unsigned)line, name, file, "", CU_FALSE);
    }
}

enum { GUARD = 16 }; /* floats on each side; the first holds the count */

float *ff_test_floats(int64_t n)
{
    float *block = malloc((size_t)(n + 2 * GUARD) * sizeof *block);
    if (block == NULL) {
        CU_FAIL_FATAL("out of memory in a test");
        return NULL;
    }
    memset(block, 0xa5, (size_t)(n + 2 * GUARD) * sizeof *block);
    memcpy(block, &n, sizeof n);
    for (int64_t i = 0; i < n; i++)
        block[GUARD + i] = NAN;
    return block + GUARD;
}

void ff_test_free(float *p)
{
    if (p == NULL)
        return;
    float *block = p - GUARD;
    int64_t n;
    memcpy(&n, block, sizeof n);
    const unsigned char *front = (const unsigned char *)(block + 2), *back = (const unsigned char *)(p + n);
    bool whole = true;
    for (size_t i = 0; i < (GUARD - 2) * sizeof *p; i++)
        whole = whole && front[i] == 0xa5;
    for (size_t i = 0; i < GUARD * sizeof *p; i++)
        whole = whole && back[i] == 0xa5;
    CU_ASSERT_TRUE(whole); /* something wrote outside the array */
    free(block);
}

void ff_test_skip(const char *why)
{
    printf("    skipped: %s\n", why);
    skipping = true;
}

static void test_done(const CU_pTest test, const CU_pSuite suite, const CU_pFailureRecord failures)
{
    if (failures != NULL) {
        num_failed++;
        printf("  FAILED  %s: %s\n", suite->pName, test->pName);
        int shown = 0;
        for (CU_pFailureRecord f = failures; f != NULL && shown < 5; f = f->pNext, shown++)
            printf("    %s:%u: %s\n", f->strFileName, f->uiLineNumber, f->strCondition);
    } else if (skipping) {
        num_skipped++;
    } else {
        num_passed++;
        printf("  ok      %s: %s\n", suite->pName, test->pName);
    }
    skipping = false;
    fflush(stdout);
}

static void set_up_failed(const CU_pSuite suite)
{
    num_failed++;
    printf("  FAILED  %s: its set-up\n", suite->pName);
}

int main(int argc, char **argv)
{
    const char *only = "";
    bool list = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--list") == 0) {
            list = true;
        } else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc) {
            only = argv[++i];
        } else {
            fprintf(stderr, "usage: tests [--list] [--only PREFIX]\n");
            return 2;
        }
    }
    if (CU_initialize_registry() != CUE_SUCCESS)
        return 1;
    int registered = 0;
#define SUITE(name)                                                                                                    \
    if (strncmp(name.pName, only, strlen(only)) == 0) {                                                                \
        CU_SuiteInfo one[] = {name, CU_SUITE_INFO_NULL};                                                               \
        if (list)                                                                                                      \
            puts(name.pName);                                                                                          \
        else if (CU_register_suites(one) != CUE_SUCCESS)                                                               \
            return 1;                                                                                                  \
        registered++;                                                                                                  \
    }
#include "suites.inc"
#undef SUITE
    if (registered == 0) {
        fprintf(stderr, "tests: no suite starts with %s (tests --list shows them)\n", only);
        return 1;
    }
    if (!list) {
        CU_set_test_complete_handler(test_done);
        CU_set_suite_init_failure_handler(set_up_failed);
        CU_run_all_tests();
        printf("%d passed, %d failed, %d skipped\n", num_passed, num_failed, num_skipped);
    }
    CU_cleanup_registry();
    return num_failed != 0;
}
