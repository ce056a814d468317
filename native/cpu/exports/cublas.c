/* What cuBLAS exports without code, made of cublas.h. */
#include "../stubs.h"
#define NOT_SUPPORTED_CODE 15
#include "cublas.h"
