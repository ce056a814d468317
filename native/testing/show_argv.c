/* Says exactly what a program was given, so that nothing can hide in a console's encoding.
 *
 * Prints three kinds of lines, every text as UTF-16 code units in hexadecimal:
 *     line <GetCommandLineW>
 *     arg <each argument as the C runtime split it>
 *     env <NAME> <value>      for the names in SHOW_ENV, separated by commas; unset names print nothing
 *
 * SHOW_EXIT ends it with that code, SHOW_STDIN makes it copy what it can read first.
 */
#define WIN32_LEAN_AND_MEAN
#include <stdio.h>
#include <stdlib.h>
#include <wchar.h>
#include <windows.h>

static void print_units(const wchar_t *text)
{
    for (; *text; ++text) {
        printf("%04x", (unsigned)*text);
    }
}

static void print_environment(wchar_t *names)
{
    static wchar_t value[32768];
    for (wchar_t *name = names, *end; *name; name = end) {
        end = name + wcscspn(name, L",");
        if (*end) {
            *end++ = 0;
        }
        SetLastError(ERROR_SUCCESS);
        if (GetEnvironmentVariableW(name, value, 32768) == 0 && GetLastError() != ERROR_SUCCESS) {
            continue;
        }
        printf("env ");
        print_units(name);
        printf(" ");
        print_units(value);
        printf("\n");
    }
}

int wmain(int argc, wchar_t **argv)
{
    static wchar_t names[32768];
    char byte;

    printf("line ");
    print_units(GetCommandLineW());
    printf("\n");
    for (int i = 0; i < argc; ++i) {
        printf("arg ");
        print_units(argv[i]);
        printf("\n");
    }
    if (GetEnvironmentVariableW(L"SHOW_ENV", names, 32768)) {
        print_environment(names);
    }
    if (GetEnvironmentVariableW(L"SHOW_STDIN", names, 32768)) {
        while (fread(&byte, 1, 1, stdin) == 1) {
            fputc(byte, stdout);
        }
    }
    fflush(stdout);
    if (GetEnvironmentVariableW(L"SHOW_EXIT", names, 32768)) {
        ExitProcess(wcstoul(names, NULL, 0));
    }
    return 0;
}
