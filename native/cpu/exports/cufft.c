/* What cuFFT exports without code, made of cufft.h. */
#include "../stubs.h"
#define NOT_SUPPORTED_CODE 16
#include "cufft.h"
