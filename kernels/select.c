/* select.c - which kernel table a program gets: instruction sets by CPUID, backends as built. */
#include "kernels/kernels.h"

#include <pthread.h>
#include <string.h>

#include "core/context.h"
#include "kernels/gemm.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#define FF_X86 1
#endif

#define FF_VARIANTS(X)                                                                                                 \
    X(plain, f32)                                                                                                      \
    X(plain, bf16)
#if FF_X86
#define FF_VARIANTS_X86(X)                                                                                             \
    X(avx2, f32)                                                                                                       \
    X(avx2, bf16)                                                                                                      \
    X(avx512, f32)                                                                                                     \
    X(avx512, bf16)                                                                                                    \
    X(avx512_bf16, bf16)                                                                                               \
    X(amx, bf16)
#else
#define FF_VARIANTS_X86(X)
#endif

#define FF_DECLARE(isa, type) void ff_fill_cpu_##isa##_##type(ff_kernels *table);
FF_VARIANTS(FF_DECLARE)
FF_VARIANTS_X86(FF_DECLARE)

#ifdef FF_HAVE_EMULATED
const ff_kernels *ff_kernels_emulated(ff_dtype dtype);
#endif

static ff_kernels tables[FF_ISA_COUNT][2]; /* written once, read-only afterwards */
static pthread_once_t tables_once = PTHREAD_ONCE_INIT;

/* Tables this machine can run: those that fill the others are made of instructions it does not have. */
static void fill_tables(void)
{
    const ff_isa best = ff_isa_best();
    ff_kernels *t;
#define FF_FILL(isa_, type)                                                                                            \
    t = &tables[ff_isa_from_name(#isa_)][strcmp(#type, "bf16") == 0];                                                  \
    t->name = "cpu";                                                                                                   \
    t->backend = FF_BACKEND_CPU;                                                                                       \
    t->isa = ff_isa_from_name(#isa_);                                                                                  \
    t->dtype = strcmp(#type, "bf16") == 0 ? FF_DTYPE_BF16 : FF_DTYPE_F32;                                              \
    t->operand_bytes = t->dtype == FF_DTYPE_BF16 ? 2 : 4;                                                              \
    if (t->isa <= best)                                                                                                \
        ff_fill_cpu_##isa_##_##type(t);
    FF_VARIANTS(FF_FILL)
    FF_VARIANTS_X86(FF_FILL)
    for (int isa = 0; isa < FF_ISA_COUNT; isa++)
        tables[isa][1].narrow = &tables[isa > FF_ISA_AVX512_ ? FF_ISA_AVX512_ : isa][0];
}

static const char *const isa_names[FF_ISA_COUNT] = {"plain", "avx2", "avx512", "avx512_bf16", "amx"};

const char *ff_isa_name(ff_isa isa) { return isa < 0 || isa >= FF_ISA_COUNT ? "none" : isa_names[isa]; }

ff_isa ff_isa_from_name(const char *name)
{
    for (int i = 0; i < FF_ISA_COUNT; i++)
        if (strcmp(name, isa_names[i]) == 0)
            return (ff_isa)i;
    return FF_ISA_NONE;
}

#if FF_X86
static uint64_t xcr0(void)
{
    uint32_t lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
}

/* Linux gives a process the AMX tile registers on request only. */
static bool request_amx(void)
{
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

static ff_isa detect(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) || !(c & bit_FMA) || !(c & bit_AVX))
        return FF_ISA_PLAIN_;
    const uint64_t os = xcr0();
    if ((os & 0x6) != 0x6 || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & bit_AVX2))
        return FF_ISA_PLAIN_;
    const unsigned avx512 = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
    if ((os & 0xe6) != 0xe6 || (b & avx512) != avx512)
        return FF_ISA_AVX2_;
    const bool amx = (d >> 24 & 1) && (d >> 22 & 1) && (os & 0x60000) == 0x60000; /* AMX-TILE, AMX-BF16 */
    unsigned a1, b1, c1, d1;
    if (!__get_cpuid_count(7, 1, &a1, &b1, &c1, &d1) || !(a1 >> 5 & 1)) /* AVX512-BF16 */
        return FF_ISA_AVX512_;
    return amx && request_amx() ? FF_ISA_AMX_ : FF_ISA_AVX512_BF16_;
}
#else
static ff_isa detect(void) { return FF_ISA_PLAIN_; }
#endif

ff_isa ff_isa_best(void) { return detect(); }

ff_status ff_kernels_get(ff_ctx *ctx, const ff_kernels **table, ff_backend backend, ff_isa isa, ff_dtype dtype)
{
    *table = NULL;
    if (backend == FF_BACKEND_CUDA)
        return FF_FAIL(ctx, FF_ERR_UNSUPPORTED, "the cuda backend is not built in this version; use --backend cpu");
    if (backend == FF_BACKEND_EMULATED) {
#ifdef FF_HAVE_EMULATED
        *table = ff_kernels_emulated(dtype);
#endif
        if (*table == NULL)
            return FF_FAIL(ctx, FF_ERR_UNSUPPORTED,
                           "the emulated backend is not built: install g++ and build again (make EMULATE=1)");
        return FF_OK;
    }
    const ff_isa best = ff_isa_best();
    if (isa == FF_ISA_NONE)
        isa = best;
    if (isa > best)
        return FF_FAIL(ctx, FF_ERR_UNSUPPORTED, "this machine has no %s; its best instruction set is %s",
                       ff_isa_name(isa), ff_isa_name(best));
    ff_gemm_limit_isa(isa);
    if (dtype == FF_DTYPE_F32 && isa > FF_ISA_AVX512_)
        isa = FF_ISA_AVX512_;
    pthread_once(&tables_once, fill_tables);
    *table = &tables[isa][dtype == FF_DTYPE_BF16];
    return FF_OK;
}
