/* wire.h - bfloat16 as it travels and as operands lie: the upper half of a float32. */
#ifndef FF_DAP_WIRE_H
#define FF_DAP_WIRE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline float ff_from_bf16(uint16_t half)
{
    const uint32_t bits = (uint32_t)half << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/** To nearest, ties to even; a NaN stays one. */
static inline uint16_t ff_to_bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
    return (uint16_t)(nan ? bits >> 16 | 0x40u : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

#endif
