/* What the checks of weft doctor share. */
#ifndef WEFT_CLI_DOCTOR_H
#define WEFT_CLI_DOCTOR_H

enum verdict { FINE, WARNING, FAILED };

struct finding {
	enum verdict verdict;
	char text[512];
	const char *next;	/* NULL: nothing to do */
};

struct patient;

__attribute__((format(printf, 4, 5)))
void finding_say(struct finding *f, enum verdict verdict, const char *next, const char *format, ...);

/* The tiers of memory on the direct path; doctor_tiers.c. */
void check_mapped(struct patient *p, struct finding *f);
void check_remap(struct patient *p, struct finding *f);
void check_memory_file(struct patient *p, struct finding *f);
void check_process_vm(struct patient *p, struct finding *f);

#endif
