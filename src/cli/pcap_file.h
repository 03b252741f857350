/* A file in the pcapng format, made from the records of a trace (impair/trace.h), for weft replay --pcap and weft capture. Each
 * device of each process is an interface of it, weft1/ib_write_bw-4711. Of the records, the frames that passed count. Nothing is
 * kept of processes beyond the 4096th. */
#ifndef WEFT_CLI_PCAP_FILE_H
#define WEFT_CLI_PCAP_FILE_H

#include "impair/trace.h"

struct pcap_file;

/* Where nothing is yet, or a regular file is, which is replaced; "-" is the standard output. With a limit other than 0 it gets no
 * longer than so many bytes. An exit status, with everything told. */
int pcap_file_create(const char *path, uint64_t limit, struct pcap_file **f);

/* Once this descriptor is readable, nobody is waited for who does not read a pipe. The file duplicates it. */
void pcap_file_stop_on(struct pcap_file *f, int fd);

/* What is added to the time of records, so that it counts from 1970. */
void pcap_file_set_epoch(struct pcap_file *f, wtime epoch);

/* False: the file takes no more, as it is full or failed; nothing of the record was written. */
bool pcap_file_add(struct pcap_file *f, const struct trace_record *r);

/* Makes visible what was added. */
void pcap_file_flush(struct pcap_file *f);

/* So far. */
uint64_t pcap_file_frames(const struct pcap_file *f);
uint32_t pcap_file_processes(const struct pcap_file *f);
uint64_t pcap_file_bytes(const struct pcap_file *f);
/* It has reached its limit. */
bool pcap_file_is_full(const struct pcap_file *f);

/* An exit status: EXIT_FAILED, told, when something of it could not be written. */
int pcap_file_close(struct pcap_file *f);

#endif
