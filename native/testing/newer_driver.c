/* The driver library of a layer that was made for a newer HIP runtime than the one that is installed. */
__declspec(dllimport) int hip_stand_in(void);
__declspec(dllimport) int hip_newer_stand_in(void);

__declspec(dllexport) int cuInit(unsigned flags)
{
    return (int)flags + hip_stand_in() + hip_newer_stand_in();
}
