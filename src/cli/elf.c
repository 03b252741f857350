#include "cli/elf.h"

#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__x86_64__)
#define OUR_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define OUR_MACHINE EM_AARCH64
#else
#define OUR_MACHINE EM_NONE
#endif

enum {
	/* our choices, all beyond what linkers make */
	MOST_SEGMENTS = 128,
	MOST_ENTRIES = 4096,		/* of the dynamic section */
	CHUNK = 1 << 16,
	MOST_CHUNKS = 1 << 10,		/* 64 MiB of the file are searched for texts */
};

/* What is known of the file's loading. */
struct image {
	int fd;
	Elf64_Phdr segment[MOST_SEGMENTS];
	unsigned segments;
};

static bool read_at(int fd, uint64_t at, void *to, size_t bytes)
{
	return at <= INT64_MAX && pread(fd, to, bytes, (off_t)at) == (ssize_t)bytes;
}

/* Where in the file an address is loaded from, or -1. */
static int64_t offset_of(const struct image *m, uint64_t address)
{
	for (unsigned i = 0; i < m->segments; i++) {
		const Elf64_Phdr *s = &m->segment[i];

		if (s->p_type == PT_LOAD && address >= s->p_vaddr && address - s->p_vaddr < s->p_filesz &&
		    s->p_offset <= INT64_MAX && address - s->p_vaddr <= INT64_MAX - s->p_offset)
			return (int64_t)(s->p_offset + (address - s->p_vaddr));
	}
	return -1;
}

/* A library's name: begins with "libasan.so" for DT_NEEDED of GCC's AddressSanitizer. */
static void look_at_needed(struct elf *e, const struct image *m, uint64_t at)
{
	char name[32] = "";

	if (at > INT64_MAX || pread(m->fd, name, sizeof(name) - 1, (off_t)at) <= 0)
		return;
	e->needs_verbs |= strcmp(name, "libibverbs.so.1") == 0;
	e->needs_asan |= strncmp(name, "libasan.so", 10) == 0;
}

/* System V ABI, chapter 5: names are offsets in the string table, whose address another entry has. */
static void look_at_dynamic(struct elf *e, const struct image *m, const Elf64_Phdr *dynamic)
{
	int64_t strings = -1;
	Elf64_Dyn d;

	for (int pass = 0; pass < 2; pass++) {
		for (uint64_t i = 0; i < MOST_ENTRIES && i < dynamic->p_filesz / sizeof(d); i++) {
			if (dynamic->p_offset > INT64_MAX || !read_at(m->fd, dynamic->p_offset + i * sizeof(d), &d, sizeof(d)) ||
			    d.d_tag == DT_NULL)
				break;
			if (pass == 0 && d.d_tag == DT_STRTAB)
				strings = offset_of(m, d.d_un.d_ptr);
			else if (pass == 1 && d.d_tag == DT_NEEDED && strings >= 0 && d.d_un.d_val <= UINT32_MAX)
				look_at_needed(e, m, (uint64_t)strings + d.d_un.d_val);
			else if (pass == 1 && d.d_tag == DT_RPATH)
				e->has_rpath = true;
		}
	}
}

/* A message of libibverbs' init.c, in all releases; and what Go writes into each program (debug/buildinfo). The first byte stands
 * apart, lest weft itself has the texts. */
static const struct text {
	char rest[48], first;
} verbs_text = { "o userspace device-specific driver found for", 'n' }, go_text = { " Go buildinf:", '\xff' };

static bool has_text(const char *chunk, size_t bytes, const struct text *t)
{
	size_t length = strlen(t->rest);
	const char *at = chunk, *end = chunk + bytes;

	while ((at = memmem(at, (size_t)(end - at), t->rest, length))) {
		if (at > chunk && at[-1] == t->first)
			return true;
		at += length;
	}
	return false;
}

static void look_for_texts(struct elf *e, int fd)
{
	enum { OVERLAP = sizeof(struct text) };
	char *chunk = malloc(CHUNK);

	for (off_t i = 0; chunk && i < MOST_CHUNKS; i++) {
		ssize_t n = pread(fd, chunk, CHUNK, i * (CHUNK - OVERLAP));

		if (n <= 0)
			break;
		e->has_own_verbs |= has_text(chunk, (size_t)n, &verbs_text);
		e->is_go |= has_text(chunk, (size_t)n, &go_text);
	}
	free(chunk);
}

void elf_read(int fd, struct elf *e)
{
	struct image m = { .fd = fd };
	struct stat st;
	Elf64_Ehdr head;
	unsigned char ident[EI_NIDENT];

	*e = (struct elf){ 0 };
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || !read_at(fd, 0, ident, sizeof(ident)) ||
	    memcmp(ident, ELFMAG, SELFMAG) != 0)
		return;
	e->is_elf = true;
	e->is_other_machine = ident[EI_CLASS] != ELFCLASS64 || !read_at(fd, 0, &head, sizeof(head)) ||
			      (OUR_MACHINE != EM_NONE && head.e_machine != OUR_MACHINE);
	if (e->is_other_machine)
		return;
	for (unsigned i = 0; i < head.e_phnum && i < MOST_SEGMENTS && head.e_phoff <= INT64_MAX; i++) {
		if (!read_at(fd, head.e_phoff + (uint64_t)i * head.e_phentsize, &m.segment[i], sizeof(m.segment[i])))
			break;
		e->has_interpreter |= m.segment[i].p_type == PT_INTERP;
		m.segments++;
	}
	for (unsigned i = 0; i < m.segments; i++)
		if (m.segment[i].p_type == PT_DYNAMIC)
			look_at_dynamic(e, &m, &m.segment[i]);
	look_for_texts(e, fd);
}
