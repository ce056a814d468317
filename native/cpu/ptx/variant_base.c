/* For every processor. */
#define VARIANT OPERATIONS_BASE
#include "variant.h"
