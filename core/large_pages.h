/* large_pages.h - fewer page faults on blocks of many megabytes: with 4 KB pages, first touching 40 MB costs more than
 * filling it. */
#ifndef FF_CORE_LARGE_PAGES_H
#define FF_CORE_LARGE_PAGES_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Ask the system to back what is not yet touched of a block (from malloc, calloc, realloc) with 2 MB pages. Only advice:
 * small blocks, other systems and refusals are all fine.
 */
void ff_use_large_pages(void *block, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
