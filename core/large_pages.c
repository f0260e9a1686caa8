#include "core/large_pages.h"

#include <stdint.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

void ff_use_large_pages(void *block, size_t bytes)
{
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    const uintptr_t page = (uintptr_t)2 << 20, begin = ((uintptr_t)block + page - 1) / page * page,
                    end = ((uintptr_t)block + bytes) / page * page;
    if (block != NULL && end > begin) /* whole pages inside the block */
        madvise((void *)begin, end - begin, MADV_HUGEPAGE);
#else
    (void)block, (void)bytes;
#endif
}
