/* What cuBLASLt exports without code, made of cublaslt.h. */
#include "../stubs.h"
#define NOT_SUPPORTED_CODE 15
#include "cublaslt.h"
