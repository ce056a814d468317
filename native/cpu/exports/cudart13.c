#include "../stubs.h"
#define NOT_SUPPORTED_CODE 801
#include "cudart13.h"
