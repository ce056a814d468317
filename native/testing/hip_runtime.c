/* The HIP runtime of a stand-in SDK: nothing but a function for other libraries to import. */
__declspec(dllexport) int hip_stand_in(void)
{
    return 0;
}
