/* The HIP runtime of a stand-in SDK: nothing but a function for other libraries to import, in a newer one two. */
__declspec(dllexport) int hip_stand_in(void)
{
    return 0;
}

#ifdef NEWER
__declspec(dllexport) int hip_newer_stand_in(void)
{
    return 0;
}
#endif
