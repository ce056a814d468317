#include "../stubs.h"
#define NOT_SUPPORTED_CODE 3
#include "nvml.h"
