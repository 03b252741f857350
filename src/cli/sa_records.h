/* Records of subnet administration as text: what weft sa shows, and what a file says that a Config is to do. */
#ifndef WEFT_CLI_SA_RECORDS_H
#define WEFT_CLI_SA_RECORDS_H

#include "control/sa_client.h"

#include <stdbool.h>

/* nodes, paths, kept, or the number of an attribute. */
bool sa_records_find(const char *name, uint16_t *attribute);

/* The edits of a file's lines: add ID TEXT, edit ID TEXT, delete ID, of records with this key. 0, and *edits is the caller's to
 * free; -EINVAL: *line is none of these; another -errno. */
int sa_records_read(const char *path, uint64_t key, uint8_t **edits, uint32_t *bytes, uint32_t *line);

/* The answer, as a table or as JSON. An exit status: 1 when it is a status, or not everything of a Config was done. */
int sa_records_show(const struct sa_client_question *q, const struct sa_client_answer *a, bool as_json);

#endif
