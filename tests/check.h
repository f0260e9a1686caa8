/* check.h - what the CUnit suites share: comparing arrays, test memory with guards, skipping. */
#ifndef FF_TESTS_CHECK_H
#define FF_TESTS_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Assert |got - want| <= atol + rtol |want| for all n; a failure names the worst element, its index and both values. */
#define FF_CHECK_CLOSE(got, want, n, rtol, atol) ff_check_close((got), (want), (n), (rtol), (atol), #got, __FILE__, __LINE__)
void ff_check_close(const float *got, const float *want, int64_t n, double rtol, double atol, const char *name,
                    const char *file, int line);

/** n floats of NaN between guard words; ff_test_free checks the guards and fails the test when one was overwritten. */
float *ff_test_floats(int64_t n);
void ff_test_free(float *p);

/** Count the running test as skipped and say why; the test returns afterwards. */
void ff_test_skip(const char *why);

#endif
