/* status.c - names of the result codes. */
#include "core/status.h"

const char *ff_status_name(ff_status status)
{
    switch (status) {
    case FF_OK: return "OK";
    case FF_ERR_ARG: return "ARG";
    case FF_ERR_SHAPE: return "SHAPE";
    case FF_ERR_MEM: return "MEM";
    case FF_ERR_IO: return "IO";
    case FF_ERR_FORMAT: return "FORMAT";
    case FF_ERR_UNSUPPORTED: return "UNSUPPORTED";
    case FF_ERR_DEVICE: return "DEVICE";
    case FF_ERR_COMM: return "COMM";
    case FF_ERR_CANCELLED: return "CANCELLED";
    }
    return "UNKNOWN";
}
