/* A program that gets no answer: it shows a message box and ends with 7 when the box is closed. */
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

int WINAPI wWinMain(HINSTANCE self, HINSTANCE before, PWSTR line, int show)
{
    (void)self, (void)before, (void)line, (void)show;
    MessageBoxW(NULL, L"rocblas.dll could not be found", L"Missing library", MB_OK | MB_ICONERROR);
    return 7;
}
