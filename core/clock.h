/* clock.h - monotonic time. */
#ifndef FF_CORE_CLOCK_H
#define FF_CORE_CLOCK_H

#ifdef __cplusplus
extern "C" {
#endif

/** Seconds since some fixed moment; never goes back. */
double ff_clock_s(void);

#ifdef __cplusplus
}
#endif
#endif
