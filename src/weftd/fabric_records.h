/* Records of the fabric as it stands, for the seed's subnet administration: of struct sa_table, with the fabric as arg. */
#ifndef WEFT_WEFTD_FABRIC_RECORDS_H
#define WEFT_WEFTD_FABRIC_RECORDS_H

#include "fabric/fabric.h"
#include "mgmt/sa_store.h"

/* A NodeRecord (15.2.5.2) of each end port with a LID, by its place in the fabric. */
enum { NODE_RECORD_BYTES = 112 };
bool fabric_records_give_node(void *arg, const struct sa_question *q, uint32_t *at, uint8_t *record);

/* A PathRecord (15.2.5.16) from who asks to each end port that the tables lead to. */
enum { PATH_RECORD_BYTES = 64 };
bool fabric_records_give_path(void *arg, const struct sa_question *q, uint32_t *at, uint8_t *record);

/* The end port that has this LID; PORT_NONE: there is none. */
uint32_t fabric_records_find_lid(const struct fabric *f, uint32_t lid);
/* Where the seed's administration is: at the port of the subnet manager if it is a host's, else at the first host's with a LID;
 * or PORT_NONE. */
uint32_t fabric_records_port(const struct fabric *f);

#endif
