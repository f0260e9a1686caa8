/* emulate.h - CUDA's device language for g++: kernel sources include it (through kernels/device.cuh) and run on the CPU.
 *
 * Contents
 *   1. keywords, index variables, vector types
 *   2. barriers and warp collectives
 *   3. shared memory and asynchronous copies
 *   4. matrix instructions
 *   5. launching
 *
 * Each CUDA thread is a fiber, blocks run one after another on the calling OS thread, and a fiber runs until it waits: in
 * __syncthreads, in a warp collective, or at its end (machine.cpp). Shared memory holds NaN when a block starts, and a
 * copy_async destination holds NaN until it was waited for, so what a missing barrier lets through becomes a wrong
 * number. Misuse ends the process (abort) with a message that names kernel, block, thread and source line; this is the
 * one place in the project that does so, since a kernel that misbehaves has no caller to tell.
 *
 * Trapped: lanes of a warp in different collectives, or in the same one at different lines; a mask without the calling
 * lane, or with a lane that has returned or does not exist; threads of a block in different __syncthreads; deadlock;
 * misaligned vector, copy_async and ldmatrix addresses; ldmatrix and copy_async outside shared memory; shared memory
 * written or read out of bounds; overflow of a thread's stack; launches that no GPU accepts.
 * Also: built with -fsanitize=thread every CUDA thread is a TSan fiber ordered by barriers only, so a race on shared
 * memory is reported whatever the order was; with -fsanitize=address overruns of global memory are.
 *
 * Not emulated: `__shared__` variables (FF_SHARED in device.cuh is the one block of shared memory), races between blocks,
 * wgmma and TMA, ex2.approx and the order of sums inside an mma (compare with tolerances), -ftz. */
#ifndef FF_KERNELS_EMULATE_EMULATE_H
#define FF_KERNELS_EMULATE_EMULATE_H

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

/* ---- 1. keywords, index variables, vector types ---- */

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__    __attribute__((noinline))
#define __launch_bounds__(...)

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

struct alignas(8) float2 {
    float x, y;
};

struct alignas(16) float4 {
    float x, y, z, w;
};

namespace ff_emulate
{

/* Where in the sources an operation was called. */
struct Site {
    const char *file;
    int line;
    static constexpr Site here(const char *file = __builtin_FILE(), int line = __builtin_LINE())
    {
        return {file, line};
    }
};

/* What a running CUDA thread knows about itself. */
struct Thread {
    dim3 thread_index;
    dim3 block_index, block_dim, grid_dim;
    int lane;     /* within its warp, 0 .. 31 */
    char *shared; /* the block's shared memory, 128-byte aligned */
    size_t shared_bytes;
};

extern __thread Thread *self; /* the running CUDA thread of this OS thread */

[[noreturn]] void trap(Site site, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- 2. barriers and warp collectives ---- */

enum Operation {
    SYNC_WARP,
    SHUFFLE,
    SHUFFLE_XOR,
    SHUFFLE_UP,
    SHUFFLE_DOWN,
    LOAD_MATRIX,
    LOAD_MATRIX_TRANSPOSED,
    MMA
};

enum { EXCHANGE_WORDS = 8, FULL_MASK = -1 };

/* One lane's contribution to a collective, as seen by the other lanes. */
struct Words {
    uint32_t word[EXCHANGE_WORDS];
};

void sync_threads(Site site);
void sync_warp(uint32_t mask, Site site);

/* Wait until all lanes of `mask` are here with the same operation; returns all contributions by lane (32), which stay
 * valid until this lane's next collective. */
const Words *exchange(uint32_t mask, Operation operation, Site site, const uint32_t *words,
                      int num_words);

template <class T>
T shuffle(uint32_t mask, T value, int argument, int width, Operation operation, Site site)
{
    static_assert(sizeof(T) == 4, "shuffles move 32-bit values");
    uint32_t word;
    memcpy(&word, &value, 4);
    const int lane = self->lane, first = lane & ~(width - 1);
    if (width < 1 || width > 32 || (width & (width - 1)))
        trap(site, "shuffle width %d is not a power of two up to 32", width);
    const Words *all = exchange(mask, operation, site, &word, 1);
    const int from = operation == SHUFFLE       ? first + (argument & (width - 1))
                     : operation == SHUFFLE_XOR ? lane ^ argument
                     : operation == SHUFFLE_UP  ? lane - argument
                                                : lane + argument;
    if (from < first || from >= first + width)
        return value;
    if (!(mask >> from & 1))
        trap(site, "shuffle reads lane %d, which is not in the mask %08x", from, mask);
    memcpy(&value, &all[from].word[0], 4);
    return value;
}

} /* namespace ff_emulate */

#define threadIdx (ff_emulate::self->thread_index)
#define blockIdx  (ff_emulate::self->block_index)
#define blockDim  (ff_emulate::self->block_dim)
#define gridDim   (ff_emulate::self->grid_dim)

inline void __syncthreads(ff_emulate::Site site = ff_emulate::Site::here())
{
    ff_emulate::sync_threads(site);
}

inline void __syncwarp(uint32_t mask = 0xffffffffu,
                       ff_emulate::Site site = ff_emulate::Site::here())
{
    ff_emulate::sync_warp(mask, site);
}

template <class T>
T __shfl_sync(uint32_t mask, T value, int lane, int width = 32,
              ff_emulate::Site site = ff_emulate::Site::here())
{
    return ff_emulate::shuffle(mask, value, lane, width, ff_emulate::SHUFFLE, site);
}

template <class T>
T __shfl_xor_sync(uint32_t mask, T value, int lanes, int width = 32,
                  ff_emulate::Site site = ff_emulate::Site::here())
{
    return ff_emulate::shuffle(mask, value, lanes, width, ff_emulate::SHUFFLE_XOR, site);
}

template <class T>
T __shfl_up_sync(uint32_t mask, T value, int lanes, int width = 32,
                 ff_emulate::Site site = ff_emulate::Site::here())
{
    return ff_emulate::shuffle(mask, value, lanes, width, ff_emulate::SHUFFLE_UP, site);
}

template <class T>
T __shfl_down_sync(uint32_t mask, T value, int lanes, int width = 32,
                   ff_emulate::Site site = ff_emulate::Site::here())
{
    return ff_emulate::shuffle(mask, value, lanes, width, ff_emulate::SHUFFLE_DOWN, site);
}

namespace ff_emulate
{

/* ---- 3. shared memory and asynchronous copies ---- */

inline void check_aligned(const void *address, size_t bytes, const char *what, Site site)
{
    if (reinterpret_cast<uintptr_t>(address) & (bytes - 1))
        trap(site, "%s at %p is not aligned to %zu bytes", what, address, bytes);
}

inline void check_shared(const void *address, size_t bytes, const char *what, Site site)
{
    const char *first = static_cast<const char *>(address);
    if (first < self->shared || first + bytes > self->shared + self->shared_bytes)
        trap(site, "%s at byte %td of the block's %zu bytes of shared memory", what,
             first - self->shared, self->shared_bytes);
}

/* cp.async: 16 bytes that arrive when their group has been waited for; zeros when not valid. */
void copy_async_16(void *shared, const void *global, bool valid, Site site);
void copy_async_commit();
void copy_async_wait(
    int num_pending); /* returns when at most the latest `num_pending` groups are on their way */

/* ---- 4. matrix instructions: fragment layouts of the PTX manual ---- */

/* ldmatrix.x4: matrix i (8 x 8, 16-bit) has its rows at the addresses of lanes 8 i .. 8 i + 7; lane l receives elements
 * (l / 4, 2 (l % 4)) and the next one of each matrix, or of its transpose. */
inline void load_matrix(uint32_t (&fragment)[4], const void *row, bool transposed, Site site)
{
    check_aligned(row, 16, "ldmatrix row", site);
    check_shared(row, 16, "ldmatrix row", site);
    uint32_t address[2];
    memcpy(address, &row, sizeof(row));
    const Words *all = exchange(FULL_MASK, transposed ? LOAD_MATRIX_TRANSPOSED : LOAD_MATRIX, site,
                                address, sizeof(row) / 4);
    const int r = self->lane / 4, c = self->lane % 4 * 2;
    for (int i = 0; i < 4; i++) {
        uint32_t pair = 0;
        for (int e = 0; e < 2; e++) {
            const uint16_t *source;
            memcpy(&source, all[8 * i + (transposed ? c + e : r)].word, sizeof(source));
            pair |= static_cast<uint32_t>(source[transposed ? r : c + e]) << (16 * e);
        }
        fragment[i] = pair;
    }
}

inline float bf16_bits_to_float(uint32_t bits)
{
    float value;
    bits <<= 16;
    memcpy(&value, &bits, 4);
    return value;
}

/* mma.m16n8k16, bf16 operands, float32 sums: d[16, 8] += a[16, 16] b[16, 8]. With g = lane / 4, t = lane % 4:
 *   a[0..3]  (g, 2t) (g+8, 2t) (g, 2t+8) (g+8, 2t+8), each with its right neighbour
 *   b[0..1]  (2t, g) (2t+8, g), each with the element below
 *   d[0..3]  (g, 2t) (g, 2t+1) (g+8, 2t) (g+8, 2t+1) */
inline void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, Site site)
{
    const uint32_t mine[6] = {a[0], a[1], a[2], a[3], b0, b1};
    const Words *all = exchange(FULL_MASK, MMA, site, mine, 6);
    const int g = self->lane / 4, t = self->lane % 4;
    for (int pair = 0; pair < 8; pair++) { /* k = 2 pair, 2 pair + 1 */
        const int lane = pair % 4, half = pair / 4;
        const uint32_t left[2] = {all[4 * g + lane].word[2 * half],
                                  all[4 * g + lane].word[2 * half + 1]};
        const uint32_t right[2] = {all[4 * (2 * t) + lane].word[4 + half],
                                   all[4 * (2 * t + 1) + lane].word[4 + half]};
        for (int i = 0; i < 4; i++)
            d[i] += bf16_bits_to_float(left[i / 2] & 0xffff) *
                        bf16_bits_to_float(right[i % 2] & 0xffff) +
                    bf16_bits_to_float(left[i / 2] >> 16) * bf16_bits_to_float(right[i % 2] >> 16);
    }
}

/* ---- 5. launching ---- */

struct Launch {
    const char *kernel;
    dim3 grid, block;
    size_t shared_bytes;
    Site site;
};

void launch(const Launch &launch, void (*body)(void *), void *argument);

/* `call` runs the kernel once; it is invoked by every thread of every block. */
template <class Call>
void launch_call(const Launch &what, Call call)
{
    launch(
        what, [](void *argument) { (*static_cast<Call *>(argument))(); }, &call);
}

} /* namespace ff_emulate */

#endif
