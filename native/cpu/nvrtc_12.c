extern const int NVRTC_RELEASE;
const int NVRTC_RELEASE = 12;
