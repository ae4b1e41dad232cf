/*
** doctor_file.c: what can be read from an executable or a library.
**
** A small reader of ELF: identification, the name of the dynamic linker, and
** whether lua_newstate is among the symbols that are defined for others.  The
** file may be damaged on purpose: every offset is checked against its length.
** Which Lua is inside is known from the text that every copy of it carries.
*/
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "doctor.h"

#if defined(__x86_64__)
# define NATIVE_MACHINE EM_X86_64
#elif defined(__aarch64__)
# define NATIVE_MACHINE EM_AARCH64
#else
# define NATIVE_MACHINE EM_NONE
#endif

/* A file in memory. */
struct image {
    const unsigned char *bytes;
    size_t n;
};

/* n_items records of item_bytes at an offset, or NULL when they do not fit. */
static const void *at(const struct image *image, uint64_t offset,
                      uint64_t n_items, uint64_t item_bytes)
{
    if (offset > image->n ||
        (item_bytes != 0 && n_items > (image->n - offset) / item_bytes))
        return NULL;
    return image->bytes + offset;
}

/* Copies a text that ends with a NUL inside the file. */
static bool copy_text(const struct image *image, uint64_t offset, char *out,
                      size_t out_bytes)
{
    const char *text = at(image, offset, 1, 1);
    if (text == NULL)
        return false;
    const size_t left = image->n - offset;
    const size_t n = strnlen(text, left);
    if (n == left || n >= out_bytes)
        return false;
    memcpy(out, text, n + 1);
    return true;
}

static void read_program_headers(const struct image *image,
                                 const Elf64_Ehdr *header,
                                 struct doctor_file *out)
{
    if (header->e_phentsize != sizeof(Elf64_Phdr))
        return;
    const unsigned char *table =
        at(image, header->e_phoff, header->e_phnum, sizeof(Elf64_Phdr));
    for (unsigned i = 0; table != NULL && i < header->e_phnum; i++) {
        Elf64_Phdr phdr;
        memcpy(&phdr, table + i * sizeof phdr, sizeof phdr);
        if (phdr.p_type == PT_INTERP)
            out->is_dynamic = copy_text(image, phdr.p_offset, out->interpreter,
                                        sizeof out->interpreter);
    }
}

static bool has_newstate(const struct image *image, const Elf64_Shdr *symbols,
                         const Elf64_Shdr *strings)
{
    const uint64_t n = symbols->sh_size / sizeof(Elf64_Sym);
    const unsigned char *table =
        at(image, symbols->sh_offset, n, sizeof(Elf64_Sym));
    for (uint64_t i = 0; table != NULL && i < n; i++) {
        Elf64_Sym symbol;
        char name[sizeof "lua_newstate"];
        memcpy(&symbol, table + i * sizeof symbol, sizeof symbol);
        if (symbol.st_shndx != SHN_UNDEF && symbol.st_name < strings->sh_size &&
            copy_text(image, strings->sh_offset + symbol.st_name, name,
                      sizeof name) &&
            strcmp(name, "lua_newstate") == 0)
            return true;
    }
    return false;
}

static void read_symbols(const struct image *image, const Elf64_Ehdr *header,
                         struct doctor_file *out)
{
    if (header->e_shentsize != sizeof(Elf64_Shdr))
        return;
    const unsigned char *table =
        at(image, header->e_shoff, header->e_shnum, sizeof(Elf64_Shdr));
    for (unsigned i = 0; table != NULL && i < header->e_shnum; i++) {
        Elf64_Shdr symbols;
        Elf64_Shdr strings;
        memcpy(&symbols, table + i * sizeof symbols, sizeof symbols);
        if (symbols.sh_type != SHT_DYNSYM || symbols.sh_link >= header->e_shnum)
            continue;
        memcpy(&strings, table + symbols.sh_link * sizeof strings,
               sizeof strings);
        out->exports_newstate |= has_newstate(image, &symbols, &strings);
    }
}

static bool is_version_char(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '.' ||
           c == '-';
}

/* "Lua 5.4.4" behind a mark; false: it is not there. */
static bool find_version(const struct image *image, const char *mark,
                         const char *name, char out[DOCTOR_LUA_MAX])
{
    const size_t mark_bytes = strlen(mark);
    const unsigned char *end = image->bytes + image->n;
    const unsigned char *found =
        memmem(image->bytes, image->n, mark, mark_bytes);
    if (found == NULL)
        return false;
    const unsigned char *p = found + mark_bytes;
    size_t n = (size_t)snprintf(out, DOCTOR_LUA_MAX, "%s ", name);
    while (p < end && is_version_char((char)*p) && n + 1 < DOCTOR_LUA_MAX)
        out[n++] = (char)*p++;
    out[n] = '\0';
    return true;
}

/*
** lua_ident, in every Lua since 5.1 but LuaJIT, which prints its own name.
*/
static void read_lua(const struct image *image, char out[DOCTOR_LUA_MAX])
{
    if (!find_version(image, "$LuaVersion: Lua ", "Lua", out) &&
        !find_version(image, "$Lua: Lua ", "Lua", out) &&
        find_version(image, "LuaJIT 2", "LuaJIT", out)) {
        /* The mark has the first digit, so that a mere mention is none. */
        char rest[DOCTOR_LUA_MAX];
        snprintf(rest, sizeof rest, "%s", out + strlen("LuaJIT "));
        snprintf(out, DOCTOR_LUA_MAX, "LuaJIT 2%.20s", rest);
    }
}

static void read_image(const struct image *image, struct doctor_file *out)
{
    Elf64_Ehdr header;
    if (image->n < sizeof header || memcmp(image->bytes, ELFMAG, SELFMAG) != 0)
        return;
    memcpy(&header, image->bytes, sizeof header);
    out->is_elf = true;
    out->is_64 = header.e_ident[EI_CLASS] == ELFCLASS64;
    out->is_native = out->is_64 && header.e_ident[EI_DATA] == ELFDATA2LSB &&
                     header.e_machine == NATIVE_MACHINE;
    read_lua(image, out->lua);
    if (!out->is_64)
        return;
    read_program_headers(image, &header, out);
    read_symbols(image, &header, out);
}

enum tide_err doctor_file_read(const char *path, struct doctor_file *out)
{
    struct stat status;
    enum tide_err err = TIDE_ERR_IO;
    memset(out, 0, sizeof *out);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    TIDE_FAIL_IF(fd < 0, TIDE_ERR_IO);
    if (fstat(fd, &status) == 0) {
        const size_t n = (size_t)status.st_size;
        void *bytes = mmap(NULL, n > 0 ? n : 1, PROT_READ, MAP_PRIVATE, fd, 0);
        if (bytes != MAP_FAILED) {
            read_image(&(struct image){bytes, n}, out);
            munmap(bytes, n > 0 ? n : 1);
            err = TIDE_OK;
        }
    }
    const int saved = errno;
    close(fd);
    errno = saved;
    return err;
}

bool doctor_lua_is_54(const char *lua)
{
    return strncmp(lua, "Lua 5.4", 7) == 0 && (lua[7] == '.' || lua[7] == '\0');
}
