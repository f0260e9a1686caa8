/* number_formats.h - numbers as files hold them, little endian, to float32. */
#ifndef FF_IO_NUMBER_FORMATS_H
#define FF_IO_NUMBER_FORMATS_H

#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    FF_NUMBER_F16,
    FF_NUMBER_BF16,
    FF_NUMBER_F32,
    FF_NUMBER_F64,
    FF_NUMBER_I8,
    FF_NUMBER_I16,
    FF_NUMBER_I32,
    FF_NUMBER_I64,
    FF_NUMBER_U8,
    FF_NUMBER_U16,
    FF_NUMBER_U32,
    FF_NUMBER_U64,
    FF_NUMBER_BOOL
} ff_number_type;

/** Bytes of one number. */
int ff_number_bytes(ff_number_type type);
/** Convert n numbers; `raw` need not be aligned. */
void ff_numbers_to_float(ff_number_type type, const unsigned char *raw, float *data, int64_t n);

/** IEEE 754 binary16, exactly; subnormals, infinities and NaN too. */
static inline float ff_half_to_float(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000u) << 16, exponent = (half >> 10) & 0x1fu, fraction = half & 0x3ffu;
    uint32_t bits;
    float value;
    if (exponent == 0) { /* zero or subnormal: fraction * 2^-24 is exact */
        value = (float)fraction * 0x1p-24f;
        return sign != 0 ? -value : value;
    }
    bits = sign | (exponent == 31 ? 0x7f800000u : (exponent + 112) << 23) | fraction << 13;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/** The upper half of a float32. */
static inline float ff_bfloat16_to_float(uint16_t bfloat16)
{
    const uint32_t bits = (uint32_t)bfloat16 << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

#ifdef __cplusplus
}
#endif
#endif
