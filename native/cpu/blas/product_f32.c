/* The single-precision product. */
#define REAL float
#define PRODUCT product_f32
#include "product.h"
