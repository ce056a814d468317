/* What cuSPARSE exports without code, made of cusparse.h. */
#include "../stubs.h"
#define NOT_SUPPORTED_CODE 10
#include "cusparse.h"
