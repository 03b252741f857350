/* What the checks of weft doctor share. */
#ifndef WEFT_CLI_DOCTOR_H
#define WEFT_CLI_DOCTOR_H

#include <jansson.h>

enum verdict { FINE, WARNING, FAILED };

struct finding {
	enum verdict verdict;
	char text[512];
	const char *next;	/* NULL: nothing to do */
};

struct patient;
struct cli_options;

__attribute__((format(printf, 4, 5)))
void finding_say(struct finding *f, enum verdict verdict, const char *next, const char *format, ...);

/* Printed, or one more object of `all`, unless that is NULL. */
void finding_show(const struct finding *f, const char *name, json_t *all);

/* All checks of the way to another host: an exit status. */
int doctor_peer(const struct cli_options *o);

/* The tiers of memory on the direct path; doctor_tiers.c. */
void check_mapped(struct patient *p, struct finding *f);
void check_remap(struct patient *p, struct finding *f);
void check_memory_file(struct patient *p, struct finding *f);
void check_process_vm(struct patient *p, struct finding *f);

#endif
