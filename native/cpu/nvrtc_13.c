/* The release that nvrtc.c stands for: CUDA 13. */
extern const int NVRTC_RELEASE;
const int NVRTC_RELEASE = 13;
