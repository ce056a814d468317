/* A library of a stand-in SDK (rocBLAS and its like): it cannot be loaded without the runtime it was linked to. */
__declspec(dllimport) int hip_stand_in(void);

__declspec(dllexport) int hip_library_stand_in(void)
{
    return hip_stand_in();
}
