#include "../stubs.h"
#define NOT_SUPPORTED_CODE 15
#include "cublas.h"
