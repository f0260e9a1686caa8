/* amx_software.h - the AMX tile instructions in plain C, so that the amx kernels are tested on machines without them.
 *
 * The Makefile compiles kernels/cpu/mm.c once more with this header before it and without -mamx-*: mm_amx_software_bf16 and
 * its neighbours, which suite kernels/mm runs wherever there is AVX-512. Semantics: Intel SDM, TDPBF16PS. A tile that was
 * not configured, or after its release, holds NaN: what the instructions would fault on gives wrong numbers here. */
#ifndef FF_TESTS_AMX_SOFTWARE_H
#define FF_TESTS_AMX_SOFTWARE_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

static _Thread_local uint8_t amx_tile[8][16][64];
static _Thread_local int amx_configured;

/* config: the 64 bytes of LDTILECFG; only the full 16 x 64 bytes for all tiles is known here. NULL: TILERELEASE. */
static inline void amx_configure(const void *config)
{
    const uint8_t *c = config;
    amx_configured = c != NULL && c[0] == 1;
    for (int t = 0; t < 8 && amx_configured; t++)
        amx_configured = c[16 + 2 * t] == 64 && c[17 + 2 * t] == 0 && c[48 + t] == 16;
    memset(amx_tile, amx_configured ? 0 : 0xff, sizeof amx_tile);
}
static inline void amx_zero(int t)
{
    if (amx_configured)
        memset(amx_tile[t], 0, sizeof amx_tile[t]);
}

static inline float amx_bf16(uint16_t b)
{
    const uint32_t u = (uint32_t)b << 16;
    float f;
    memcpy(&f, &u, 4);
    return f;
}
static inline void amx_load(int t, const void *base, size_t stride)
{
    for (int r = 0; r < 16 && amx_configured; r++)
        memcpy(amx_tile[t][r], (const char *)base + (size_t)r * stride, 64);
}
static inline void amx_store(int t, void *base, size_t stride)
{
    for (int r = 0; r < 16; r++)
        memcpy((char *)base + (size_t)r * stride, amx_tile[t][r], 64);
}
static inline void amx_dot(int c, int a, int b)
{
    for (int m = 0; m < 16; m++)
        for (int n = 0; n < 16; n++) {
            float sum;
            memcpy(&sum, amx_tile[c][m] + 4 * n, 4);
            for (int k = 0; k < 16; k++) {
                uint16_t x[2], y[2];
                memcpy(x, amx_tile[a][m] + 4 * k, 4);
                memcpy(y, amx_tile[b][k] + 4 * n, 4);
                sum += amx_bf16(x[0]) * amx_bf16(y[0]);
                sum += amx_bf16(x[1]) * amx_bf16(y[1]);
            }
            memcpy(amx_tile[c][m] + 4 * n, &sum, 4);
        }
}
#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#define _tile_loadconfig(p) amx_configure(p)
#define _tile_release() amx_configure(NULL)
#define _tile_zero(t) amx_zero(t)
#define _tile_loadd(t, p, stride) amx_load(t, p, (size_t)(stride))
#define _tile_stored(t, p, stride) amx_store(t, p, (size_t)(stride))
#define _tile_dpbf16ps(c, a, b) amx_dot(c, a, b)

#endif
