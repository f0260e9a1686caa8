#include "io/number_formats.h"

#define CONVERT(TYPE, EXPRESSION)                                                                                      \
    for (int64_t k = 0; k < n; k++) {                                                                                  \
        TYPE x;                                                                                                        \
        memcpy(&x, raw + k * (int64_t)sizeof x, sizeof x);                                                             \
        data[k] = (float)(EXPRESSION);                                                                                 \
    }                                                                                                                  \
    return

void ff_numbers_to_float(ff_number_type type, const unsigned char *raw, float *data, int64_t n)
{
    switch (type) {
    case FF_NUMBER_F16: CONVERT(uint16_t, ff_half_to_float(x));
    case FF_NUMBER_BF16: CONVERT(uint16_t, ff_bfloat16_to_float(x));
    case FF_NUMBER_F32: CONVERT(float, x);
    case FF_NUMBER_F64: CONVERT(double, x);
    case FF_NUMBER_I8: CONVERT(int8_t, x);
    case FF_NUMBER_I16: CONVERT(int16_t, x);
    case FF_NUMBER_I32: CONVERT(int32_t, x);
    case FF_NUMBER_I64: CONVERT(int64_t, x);
    case FF_NUMBER_U8: CONVERT(uint8_t, x);
    case FF_NUMBER_U16: CONVERT(uint16_t, x);
    case FF_NUMBER_U32: CONVERT(uint32_t, x);
    case FF_NUMBER_U64: CONVERT(uint64_t, x);
    case FF_NUMBER_BOOL: CONVERT(uint8_t, x != 0);
    }
}

int ff_number_bytes(ff_number_type type)
{
    static const unsigned char bytes[] = {
        [FF_NUMBER_F16] = 2, [FF_NUMBER_BF16] = 2, [FF_NUMBER_F32] = 4, [FF_NUMBER_F64] = 8, [FF_NUMBER_I8] = 1,
        [FF_NUMBER_I16] = 2, [FF_NUMBER_I32] = 4,  [FF_NUMBER_I64] = 8, [FF_NUMBER_U8] = 1,  [FF_NUMBER_U16] = 2,
        [FF_NUMBER_U32] = 4, [FF_NUMBER_U64] = 8,  [FF_NUMBER_BOOL] = 1};
    return bytes[type];
}
