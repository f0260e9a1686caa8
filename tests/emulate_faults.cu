/* emulate_faults.cu - two kernels as one writes them, and one deliberate mistake at a time (emulate_faults.h). */
#include "tests/emulate_faults.h"

#include "kernels/device.cuh"

#ifdef FF_EMULATE /* what these do on a GPU is nobody's business */

namespace
{

enum { THREADS = 128, WARPS = THREADS / FF_WARP };

/* Deeper than any stack the emulator gives; `volatile` keeps the compiler from removing it. */
__device__ __noinline__ float overflow_stack()
{
    volatile float large[1 << 17];
    for (int i = (1 << 17) - 1; i >= 0; i -= 1024)
        large[i] = 0.0f;
    return large[1023];
}

/* One block per row: warps sum their elements by shuffles, and the block sums the warps through shared memory. */
__global__ void row_moments(float *y, const float *x, int num_channels, int fault)
{
    FF_SHARED(float, partial); /* [WARPS] */
    const int lane = threadIdx.x % FF_WARP, warp = threadIdx.x / FF_WARP;
    const float *row = x + blockIdx.x * num_channels;
    const int end = fault == FF_FAULT_TILE_EDGE ? num_channels - 1 : num_channels;
    float sum = fault == FF_FAULT_STACK_OVERFLOW ? overflow_stack() : 0.0f, squares = 0.0f;

    for (int c = threadIdx.x; c < end; c += THREADS)
        sum += row[c];
    if (fault == FF_FAULT_MISALIGNED_VECTOR)
        sum += ff_load<float4>(row + 1).x;
    if (fault == FF_FAULT_RETURNED_LANE && threadIdx.x == 40)
        return;
    if (fault == FF_FAULT_DIVERGENT_SHUFFLE && lane >= 16)
        sum += __shfl_down_sync(0xffffffffu, sum, 1);
    if (fault == FF_FAULT_FOREIGN_MASK)
        sum += __shfl_xor_sync(0x0000ffffu, sum, 1);
    for (int step = 16; step > 0; step /= 2)
        sum +=
            __shfl_xor_sync(0xffffffffu, sum, fault == FF_FAULT_WRONG_LANE && step == 4 ? 8 : step);
    const int slot = fault == FF_FAULT_SHARED_OVERRUN       ? warp + 1
                     : fault == FF_FAULT_SHARED_FAR_OVERRUN ? warp + 4096
                                                            : warp;
    if (lane == 0)
        partial[slot] = sum;
    if (fault == FF_FAULT_DEADLOCK && threadIdx.x < 16)
        __syncwarp();
    if (fault == FF_FAULT_DIVERGENT_BARRIER && warp == 1)
        __syncthreads();
    else if (fault != FF_FAULT_NO_BARRIER_BEFORE_READ)
        __syncthreads();
    sum = 0.0f;
    for (int w = 0; w < WARPS; w++)
        sum += partial[w];

    const float mean = sum / static_cast<float>(num_channels);
    for (int c = threadIdx.x; c < num_channels; c += THREADS)
        squares += (row[c] - mean) * (row[c] - mean);
    squares = ff_warp_sum(squares);
    if (fault != FF_FAULT_NO_BARRIER_BEFORE_REUSE)
        __syncthreads();
    if (fault == FF_FAULT_RACE_ON_SUM) {
        if (threadIdx.x == 0)
            partial[0] = 0.0f;
        __syncthreads();
        const float before = partial[0];
        __syncwarp();
        if (lane == 0)
            partial[0] = before + squares;
    } else if (lane == 0 && !(fault == FF_FAULT_UNSET_SHARED && warp == WARPS - 1)) {
        partial[warp + (fault == FF_FAULT_UNSET_SHARED ? WARPS : 0)] = squares;
    }
    __syncthreads();
    squares = 0.0f;
    for (int w = 0; w < WARPS; w++)
        squares += partial[w + (fault == FF_FAULT_UNSET_SHARED ? WARPS : 0)];
    if (fault == FF_FAULT_RACE_ON_SUM)
        squares = partial[0];
    if (threadIdx.x == 0) {
        y[blockIdx.x * 2] = sum;
        y[blockIdx.x * 2 + 1] = squares;
    }
}

/* One block of two warps: both copy, the first multiplies, in two steps of depth 16 with a buffer each. */
__global__ void product(float *y, const ff_bf16 *a, const ff_bf16 *b, int fault)
{
    enum { DEPTH = 16, COPY_THREADS = 64 };
    FF_SHARED(ff_bf16, shared);
    const int pitch = fault == FF_FAULT_MISALIGNED_MATRIX ? 20 : 24; /* elements */
    ff_bf16 *left[2] = {shared, shared + 16 * pitch};
    ff_bf16 *right[2] = {shared + 32 * pitch, shared + 48 * pitch};
    const int lane = threadIdx.x % FF_WARP;
    float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};

    for (int step = 0; step < 2; step++) {
        for (int i = threadIdx.x; i < 32; i += COPY_THREADS) { /* 16 rows of two vectors */
            const int r = i / 2, c = i % 2 * 8;
            const ff_bf16 *from = a + r * 2 * DEPTH + step * DEPTH + c;
            if (fault == FF_FAULT_MISALIGNED_MATRIX) {
                for (int e = 0; e < 8; e++)
                    left[step][r * pitch + c + e] = from[e];
            } else {
                ff_copy_async_16(left[step] + r * pitch + c,
                                 from + (fault == FF_FAULT_MISALIGNED_COPY), true);
            }
        }
        if (threadIdx.x >= FF_WARP)
            for (int i = lane; i < 16; i += FF_WARP) {
                ff_bf16 *to = right[step] + i * (fault == FF_FAULT_MISALIGNED_MATRIX ? 24 : pitch);
                ff_copy_async_16(to, b + (step * DEPTH + i) * 8, true);
                ff_copy_async_16(to + 8, b, false);
            }
        ff_copy_async_commit();
    }
    for (int step = 0; step < 2; step++) {
        if (step == 0 && fault != FF_FAULT_WEAK_WAIT)
            ff_copy_async_wait<1>();
        if (step == 1 && fault != FF_FAULT_WEAK_WAIT)
            ff_copy_async_wait<0>();
        if (step == 1 && fault == FF_FAULT_WEAK_WAIT)
            ff_copy_async_wait<1>();
        if (fault != FF_FAULT_NO_BARRIER_AFTER_COPY)
            __syncthreads();
        if (threadIdx.x >= FF_WARP)
            continue;
        uint32_t l[4], r[4];
        ff_load_matrix_x4(l, left[step] + lane % 16 * pitch + lane / 16 * 8);
        const ff_bf16 *row = right[step] + lane % 16 * pitch + lane / 16 * 8;
        if (fault == FF_FAULT_MATRIX_NOT_SHARED)
            row = b + lane % 16 * 8;
        if (fault == FF_FAULT_NOT_TRANSPOSED)
            ff_load_matrix_x4(r, row);
        else
            ff_load_matrix_x4_transposed(r, row);
        if (fault == FF_FAULT_SWAPPED_FRAGMENT)
            ff_mma_m16n8k16(d, l, r[1], r[0]);
        else if (fault != FF_FAULT_HALF_A_WARP || lane < 16)
            ff_mma_m16n8k16(d, l, r[0], r[1]);
    }
    if (threadIdx.x < FF_WARP)
        for (int e = 0; e < 4; e++)
            y[(lane / 4 + e / 2 * 8) * 8 + lane % 4 * 2 + e % 2] = d[e];
}

} /* namespace */

void ff_fault_row_moments(ff_fault fault, float *y, const float *x)
{
    const size_t shared_bytes = (fault == FF_FAULT_UNSET_SHARED ? 2 : 1) * WARPS * sizeof(float);
    const unsigned grid = fault == FF_FAULT_EMPTY_GRID ? 0 : FF_FAULT_ROWS;
    FF_LAUNCH(row_moments, grid, THREADS, shared_bytes, y, x, FF_FAULT_CHANNELS, fault);
}

void ff_fault_product(ff_fault fault, float *y, const float *a, const float *b)
{
    alignas(16) ff_bf16 left[16 * 32 + 8], right[32 * 8];
    for (int i = 0; i < 16 * 32 + 8; i++)
        left[i] = ff_from_float<ff_bf16>(i < 16 * 32 ? a[i] : 0.0f);
    for (int i = 0; i < 32 * 8; i++)
        right[i] = ff_from_float<ff_bf16>(b[i]);
    FF_LAUNCH(product, 1, 64, 64 * 24 * sizeof(ff_bf16), y, left, right, fault);
}

#endif
