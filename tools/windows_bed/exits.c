/* exits CODE: end with that code. exits raise CODE: end by that exception, as a crash does.
   exits print ARG…: print the arguments, one a line, as UTF-8.
   exits wait: say so, then wait for a line or the end of the input. */
#include <stdio.h>
#include <windows.h>

static int print_all(int count, wchar_t **arguments)
{
    for (int i = 0; i < count; i++) {
        char text[4096];
        int size = WideCharToMultiByte(CP_UTF8, 0, arguments[i], -1, text, sizeof text, NULL, NULL);
        if (size == 0)
            return 1;
        fwrite(text, 1, size - 1, stdout);
        fputc('\n', stdout);
    }
    return 0;
}

int wmain(int argc, wchar_t **argv)
{
    SetErrorMode(SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX);
    if (argc > 1 && wcscmp(argv[1], L"print") == 0)
        return print_all(argc - 2, argv + 2);
    if (argc > 1 && wcscmp(argv[1], L"wait") == 0) {
        puts("waiting");
        fflush(stdout);
        getchar();
        return 0;
    }
    if (argc > 2 && wcscmp(argv[1], L"raise") == 0)
        RaiseException(wcstoul(argv[2], NULL, 0), EXCEPTION_NONCONTINUABLE, 0, NULL);
    ExitProcess(argc > 1 ? wcstoul(argv[1], NULL, 0) : 0);
}
