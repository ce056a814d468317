/* What the runtime library of CUDA 12 exports without code, made of cudart12.h. */
#include "../stubs.h"
#define NOT_SUPPORTED_CODE 801
#include "cudart12.h"
