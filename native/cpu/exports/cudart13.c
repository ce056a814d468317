/* What the runtime library of CUDA 13 exports without code, made of cudart13.h. */
#include "../stubs.h"
#define NOT_SUPPORTED_CODE 801
#include "cudart13.h"
