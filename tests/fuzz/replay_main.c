/*
** replay_main.c: runs a fuzz target over files, without a fuzzer.
**
**     fuzz_reader PATH...     each file, or each file of each folder
**
** Every file is also replayed with a number of seeded changes, so that the
** normal suite walks off the corpus a little, the same way each time.
** Prints TAP: one test for every file.
*/
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define CHANGES_PER_FILE 200

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t max_bytes,
                               unsigned seed);

/* What has been replayed. */
struct tally {
    unsigned n_files;
    unsigned n_failed;
};

static uint8_t *read_file(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    struct stat st;
    uint8_t *data = NULL;
    if (file != NULL && fstat(fileno(file), &st) == 0) {
        *bytes = (size_t)st.st_size;
        data = malloc(*bytes + 1);
        if (data != NULL && fread(data, 1, *bytes, file) != *bytes) {
            free(data);
            data = NULL;
        }
    }
    if (file != NULL)
        fclose(file);
    return data;
}

static void replay_changed(const uint8_t *data, size_t bytes)
{
    uint8_t *copy = malloc(bytes + 1);
    for (unsigned seed = 1; copy != NULL && seed <= CHANGES_PER_FILE; seed++) {
        memcpy(copy, data, bytes);
        for (unsigned n = 0; n <= seed % 4; n++)
            LLVMFuzzerCustomMutator(copy, bytes, bytes,
                                    (seed * 4 + n) * 2654435761u);
        LLVMFuzzerTestOneInput(copy, bytes);
    }
    free(copy);
}

static void replay_file(const char *path, struct tally *tally)
{
    const char *name = strrchr(path, '/');
    size_t bytes = 0;
    uint8_t *data = read_file(path, &bytes);
    tally->n_files++;
    if (data != NULL) {
        LLVMFuzzerTestOneInput(data, bytes);
        replay_changed(data, bytes);
    } else {
        tally->n_failed++;
    }
    printf("%sok %u - %s\n", data != NULL ? "" : "not ", tally->n_files,
           name != NULL ? name + 1 : path);
    fflush(stdout);
    free(data);
}

static void replay_folder(const char *path, struct tally *tally)
{
    struct dirent **entries = NULL;
    const int n = scandir(path, &entries, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        char file[4096];
        struct stat st;
        snprintf(file, sizeof file, "%s/%s", path, entries[i]->d_name);
        if (stat(file, &st) == 0 && S_ISREG(st.st_mode))
            replay_file(file, tally);
        free(entries[i]);
    }
    free(entries);
}

int main(int argc, char **argv)
{
    struct tally tally = {0, 0};
    for (int i = 1; i < argc; i++) {
        struct stat st;
        if (stat(argv[i], &st) == 0 && S_ISDIR(st.st_mode))
            replay_folder(argv[i], &tally);
        else
            replay_file(argv[i], &tally);
    }
    printf("1..%u\n", tally.n_files);
    return tally.n_files == 0 || tally.n_failed != 0;
}
