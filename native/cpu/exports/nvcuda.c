/* What the driver library exports without code, made of nvcuda.h. */
#include "../stubs.h"
#define NOT_SUPPORTED_CODE 801
#include "nvcuda.h"
