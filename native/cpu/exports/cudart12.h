/* Exported, not implemented: names of CUDA 12's runtime library alone, beside those of cudart.h. */
#include "cudart.h"
STUB(cudaLaunchCooperativeKernelMultiDevice)
STUB(cudaSetDoubleForDevice)
STUB(cudaSetDoubleForHost)
STUB(cudaSignalExternalSemaphoresAsync_v2)
STUB(cudaSignalExternalSemaphoresAsync_v2_ptsz)
STUB(cudaWaitExternalSemaphoresAsync_v2)
STUB(cudaWaitExternalSemaphoresAsync_v2_ptsz)
