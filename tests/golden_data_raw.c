#include "tests/golden_data.h"

const golden_data_kind golden_data_raw_kinds[] = {{NULL, NULL, 0, NULL}};
