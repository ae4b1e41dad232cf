/*
** objects.c: files of machine code: the executable and shared libraries.
**
** Addresses of C code mean nothing without the file that was loaded there and
** how: both are written to the profile when an address of the file is first
** seen.  They are found by _dl_find_object, which takes no lock and allocates
** nothing: other ways ask the dynamic loader, whose lock a host may hold while
** it allocates (constructors of a plugin).
**
** A library may be unloaded and another one be loaded at its addresses: each
** question is answered anew, and a file with another build id or range is
** another record.
*/
#include <dlfcn.h>
#include <elf.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "native.h"

#define HEADERS_MAX 4096u /* program headers stand in the first page */
#define NOTE_ALIGN  4u

static bool is_inside(const struct tide_p_object *o, uint64_t at,
                      uint64_t bytes)
{
    return at >= o->start && at <= o->end && bytes <= o->end - at;
}

/* Looks for the build id among the notes of one segment. */
static void read_notes(struct tide_p_object *o, uint64_t at, uint64_t bytes)
{
    while (bytes >= sizeof(ElfW(Nhdr)) && is_inside(o, at, bytes)) {
        ElfW(Nhdr) note;
        memcpy(&note, (const void *)(uintptr_t)at, sizeof note);
        const uint64_t name = (note.n_namesz + NOTE_ALIGN - 1u) & ~3ull;
        const uint64_t desc = (note.n_descsz + NOTE_ALIGN - 1u) & ~3ull;
        const uint64_t whole = sizeof note + name + desc;
        if (whole > bytes)
            return;
        const char *text = (const char *)(uintptr_t)at + sizeof note;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
            memcmp(text, "GNU", 4) == 0 &&
            note.n_descsz <= sizeof o->build_id) {
            o->build_id_bytes = note.n_descsz;
            memcpy(o->build_id, text + name, note.n_descsz);
            return;
        }
        at += whole;
        bytes -= whole;
    }
}

/* The ELF header and the program headers are mapped at the start. */
static void read_build_id(struct tide_p_object *o)
{
    ElfW(Ehdr) elf;
    if (!is_inside(o, o->start, HEADERS_MAX))
        return;
    memcpy(&elf, (const void *)(uintptr_t)o->start, sizeof elf);
    if (memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0 ||
        elf.e_phentsize != sizeof(ElfW(Phdr)) || elf.e_phoff > HEADERS_MAX ||
        elf.e_phnum * sizeof(ElfW(Phdr)) > HEADERS_MAX - elf.e_phoff)
        return;
    const char *headers = (const char *)(uintptr_t)o->start + elf.e_phoff;
    for (unsigned i = 0; i < elf.e_phnum && o->build_id_bytes == 0; i++) {
        ElfW(Phdr) header;
        memcpy(&header, headers + i * sizeof header, sizeof header);
        if (header.p_type == PT_NOTE)
            read_notes(o, o->bias + header.p_vaddr, header.p_memsz);
    }
}

static uint32_t path_of(struct tide_heap *h, const char *name)
{
    char path[PATH_MAX];
    if (name == NULL || name[0] == '\0') /* the executable */
        return tideT_text(h, tideP_writer_header(h->writer)->program);
    if (name[0] == '/' || strchr(name, '/') == NULL ||
        getcwd(path, sizeof path) == NULL)
        return tideT_text(h, name);
    const size_t n = strlen(path);
    snprintf(path + n, sizeof path - n, "/%s", name);
    return tideT_text(h, path);
}

static bool is_same(const struct tide_p_object *a,
                    const struct tide_p_object *b)
{
    return a->start == b->start && a->end == b->end && a->bias == b->bias &&
           a->build_id_bytes == b->build_id_bytes &&
           memcmp(a->build_id, b->build_id, sizeof a->build_id) == 0;
}

/* What of it is Lua's own code.  The preload library counts as that. */
static void note_vm(const struct tide_heap *h, struct tide_p_object *o,
                    const char *name)
{
    uintptr_t start, end;
    const bool is_library = name != NULL && name[0] != '\0';
    tideT_unwind_vm(h->session->unwind, &start, &end);
    if (start == 0)
        return;
    if (is_inside(o, start, end - start)) {
        o->vm_start = start;
        o->vm_end = end;
    } else if (is_library && is_inside(o, (uintptr_t)&tideT_object_of, 1)) {
        o->vm_start = o->start;
        o->vm_end = o->end;
    }
}

/* The newest record of an object, written if there is none; 0: no memory. */
static uint32_t put_object(struct tide_heap *h, struct tide_p_object *o,
                           const char *name)
{
    read_build_id(o);
    for (uint32_t i = h->n_objects; i-- > 1;)
        if (is_same(&h->objects[i], o))
            return i;
    const uint32_t i = h->n_objects;
    struct tide_section *s = &h->sections[TIDE_P_OBJECTS];
    if (tideP_section_reserve(h->writer, s, ((size_t)i + 1) * sizeof *o) !=
        TIDE_OK)
        return 0;
    note_vm(h, o, name);
    o->path = path_of(h, name);
    h->objects[i] = *o;
    h->n_objects = i + 1;
    TIDE_PUBLISH(&h->head->n_objects, h->n_objects);
    return i;
}

#if defined(DLFO_STRUCT_HAS_EH_DBASE)

uint32_t tideT_object_of(struct tide_heap *h, uintptr_t address)
{
    struct dl_find_object found;
    if (_dl_find_object((void *)address, &found) != 0)
        return 0;
    struct tide_p_object o = {
        .bias = found.dlfo_link_map->l_addr,
        .start = (uintptr_t)found.dlfo_map_start,
        .end = (uintptr_t)found.dlfo_map_end,
    };
    return put_object(h, &o, found.dlfo_link_map->l_name);
}

static int note_object(struct dl_phdr_info *info, size_t bytes, void *h)
{
    (void)bytes;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_LOAD)
            continue;
        tideT_object_of(h, info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
        return 0;
    }
    return 0;
}

void tideT_objects_all(struct tide_heap *h)
{
    dl_iterate_phdr(note_object, h);
}

#else

uint32_t tideT_object_of(struct tide_heap *h, uintptr_t address)
{
    (void)address;
    (void)put_object;
    (void)h;
    return 0;
}

void tideT_objects_all(struct tide_heap *h)
{
    (void)h;
}

#endif
