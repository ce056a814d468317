/* What NVML exports without code, made of nvml.h. */
#include "../stubs.h"
#define NOT_SUPPORTED_CODE 3
#include "nvml.h"
