/* device.cuh - what kernel sources stand on: the same names are PTX under nvcc and emulated under g++.
 *
 * Contents
 *   1. backends: FF_ENTRY, FF_LAUNCH, FF_SHARED
 *   2. bf16, vector loads
 *   3. warp reductions
 *   4. asynchronous copies, ldmatrix, mma
 *
 * A kernel source is compiled by nvcc for the GPU, and by `g++ -x c++ -DFF_EMULATE -Wno-unknown-pragmas` for the
 * emulated backend (kernels/emulate/). Rules that keep one source right for both: kernels live in an anonymous
 * namespace; all shared memory is one FF_SHARED block that the kernel divides; launches go through FF_LAUNCH and never
 * have an empty grid; float4 and float2 accesses go through ff_load and ff_store, which the emulator checks for
 * alignment. Each source fills its entries of the table in one function, FF_ENTRY(fill_NAME). */
#ifndef FF_KERNELS_DEVICE_CUH
#define FF_KERNELS_DEVICE_CUH

#include <cmath>
#include <cstdint>

#include "kernels/kernels.h"

/* ---- 1. backends ---- */

#ifdef FF_EMULATE

#include "kernels/emulate/emulate.h"

#define FF_ENTRY(name) ff_emulated_##name
/* the block of shared memory as an array, 128-byte aligned */
#define FF_SHARED(type, name) type *name = reinterpret_cast<type *>(ff_emulate::self->shared)
#define FF_LAUNCH(kernel, grid, block, shared_bytes, ...)                                          \
    ff_emulate::launch_call(                                                                       \
        {#kernel, grid, block, static_cast<size_t>(shared_bytes), ff_emulate::Site::here()},       \
        [&] { kernel(__VA_ARGS__); })
/* The line an operation is called from, for the emulator's messages. */
#define FF_SITE_PARAMETER , ff_emulate::Site site = ff_emulate::Site::here()

#else

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#define FF_ENTRY(name) ff_cuda_##name
#define FF_SHARED(type, name)                                                                      \
    extern __shared__ __align__(128) unsigned char ff_shared_bytes[];                              \
    type *name = reinterpret_cast<type *>(ff_shared_bytes)
#define FF_LAUNCH(kernel, grid, block, shared_bytes, ...)                                          \
    do {                                                                                           \
        if ((shared_bytes) > FF_STATIC_SHARED_LIMIT)                                               \
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,              \
                                 static_cast<int>(shared_bytes));                                  \
        kernel<<<grid, block, shared_bytes>>>(__VA_ARGS__);                                        \
    } while (0)
#define FF_SITE_PARAMETER

#endif

#define FF_DEVICE __device__ __forceinline__

enum { FF_WARP = 32 };
constexpr size_t FF_STATIC_SHARED_LIMIT = 48 * 1024; /* more has to be asked for */
constexpr int64_t FF_MAX_GRID = 1 << 20; /* blocks of a launch whose kernel loops over the rest */

/* Blocks for `tasks` tasks of a kernel that strides over them. */
static inline unsigned ff_grid_size(int64_t tasks)
{
    return static_cast<unsigned>(tasks < FF_MAX_GRID ? tasks : FF_MAX_GRID);
}

static inline int64_t ff_divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* ---- 2. bf16, vector loads ---- */

struct ff_bf16 {
    uint16_t bits;
};

template <class T>
struct ff_type {
    typedef T type;
};

FF_DEVICE float ff_to_float(float value) { return value; }

/* Round to nearest, ties to even; NaN stays NaN. */
#ifdef FF_EMULATE
FF_DEVICE float ff_to_float(ff_bf16 value) { return ff_emulate::bf16_bits_to_float(value.bits); }

FF_DEVICE ff_bf16 ff_from_float(float value, ff_type<ff_bf16>)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return {0x7fff};
    return {static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}
#else
FF_DEVICE float ff_to_float(ff_bf16 value)
{
    return __uint_as_float(static_cast<uint32_t>(value.bits) << 16);
}

FF_DEVICE ff_bf16 ff_from_float(float value, ff_type<ff_bf16>)
{
    return {__bfloat16_as_ushort(__float2bfloat16_rn(value))};
}
#endif

FF_DEVICE float ff_from_float(float value, ff_type<float>) { return value; }

template <class T>
FF_DEVICE T ff_from_float(float value)
{
    return ff_from_float(value, ff_type<T>());
}

/* Two values in one register, the first in the low half, as mma fragments have them. */
FF_DEVICE uint32_t ff_pack_bf16(float low, float high)
{
    return ff_from_float<ff_bf16>(low).bits |
           static_cast<uint32_t>(ff_from_float<ff_bf16>(high).bits) << 16;
}

/* Vector accesses: the address must be aligned to the vector. */
template <class Vector>
FF_DEVICE Vector ff_load(const float *address FF_SITE_PARAMETER)
{
#ifdef FF_EMULATE
    ff_emulate::check_aligned(address, sizeof(Vector), "vector load", site);
#endif
    return *reinterpret_cast<const Vector *>(address);
}

template <class Vector>
FF_DEVICE void ff_store(float *address, Vector value FF_SITE_PARAMETER)
{
#ifdef FF_EMULATE
    ff_emulate::check_aligned(address, sizeof(Vector), "vector store", site);
#endif
    *reinterpret_cast<Vector *>(address) = value;
}

/* Whether `address` and steps of `stride_bytes` from it are aligned to 16 bytes (host side). */
static inline bool ff_is_aligned_16(const void *address, int64_t stride_bytes)
{
    return reinterpret_cast<uintptr_t>(address) % 16 == 0 && stride_bytes % 16 == 0;
}

/* ---- 3. warp reductions: over groups of kLanes neighbouring lanes, each lane gets the result ---- */

template <int kLanes = FF_WARP>
FF_DEVICE float ff_warp_sum(float value)
{
#pragma unroll
    for (int step = kLanes / 2; step > 0; step /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, step);
    return value;
}

template <int kLanes = FF_WARP>
FF_DEVICE float ff_warp_max(float value)
{
#pragma unroll
    for (int step = kLanes / 2; step > 0; step /= 2)
        value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, step));
    return value;
}

/* ---- 4. asynchronous copies, ldmatrix, mma (sm_80 and newer; layouts in emulate.h and the PTX manual) ---- */

#ifdef FF_EMULATE

/* 16 bytes from global to shared memory, zeros when not valid; there after commit, wait and a barrier. */
FF_DEVICE void ff_copy_async_16(void *shared, const void *global, bool valid FF_SITE_PARAMETER)
{
    ff_emulate::copy_async_16(shared, global, valid, site);
}

FF_DEVICE void ff_copy_async_commit() { ff_emulate::copy_async_commit(); }

/* Wait for all groups but the latest kPending of this thread. */
template <int kPending>
FF_DEVICE void ff_copy_async_wait()
{
    ff_emulate::copy_async_wait(kPending);
}

/* Four 8 x 8 matrices of 16-bit elements; lane l gives the address of row l % 8 of matrix l / 8. */
FF_DEVICE void ff_load_matrix_x4(uint32_t (&fragment)[4], const void *row FF_SITE_PARAMETER)
{
    ff_emulate::load_matrix(fragment, row, false, site);
}

FF_DEVICE void ff_load_matrix_x4_transposed(uint32_t (&fragment)[4],
                                            const void *row FF_SITE_PARAMETER)
{
    ff_emulate::load_matrix(fragment, row, true, site);
}

/* d[16, 8] += a[16, 16] b[16, 8] */
FF_DEVICE void ff_mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                               uint32_t b1 FF_SITE_PARAMETER)
{
    ff_emulate::mma_m16n8k16(d, a, b0, b1, site);
}

#else

FF_DEVICE uint32_t ff_shared_address(const void *pointer)
{
    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

FF_DEVICE void ff_copy_async_16(void *shared, const void *global, bool valid)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(ff_shared_address(shared)),
                 "l"(global), "r"(valid ? 16 : 0)
                 : "memory");
}

FF_DEVICE void ff_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int kPending>
FF_DEVICE void ff_copy_async_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

FF_DEVICE void ff_load_matrix_x4(uint32_t (&fragment)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
                 : "r"(ff_shared_address(row))
                 : "memory");
}

FF_DEVICE void ff_load_matrix_x4_transposed(uint32_t (&fragment)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
                 : "r"(ff_shared_address(row))
                 : "memory");
}

FF_DEVICE void ff_mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, "
                 "%6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

#endif

#endif
