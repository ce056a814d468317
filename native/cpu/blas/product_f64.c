/* The double-precision product. */
#define REAL double
#define PRODUCT product_f64
#include "product.h"
