/* The release that nvrtc.c stands for: CUDA 12. */
extern const int NVRTC_RELEASE;
const int NVRTC_RELEASE = 12;
