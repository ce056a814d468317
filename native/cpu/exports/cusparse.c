#include "../stubs.h"
#define NOT_SUPPORTED_CODE 10
#include "cusparse.h"
