/* What the measurements of scale share. */
#ifndef WEFT_BENCH_SCALE_H
#define WEFT_BENCH_SCALE_H

#include <infiniband/verbs.h>
#include <stdbool.h>

double seconds(void);
/* Ends the program with the reason of errno when it is not so. */
void must(bool ok, const char *what);
/* This process's proportional share of memory. */
uint64_t memory_kb(void);
/* NULL: the first. */
struct ibv_context *open_device(const char *name);
struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_cq *cq, uint32_t send, uint32_t receive, uint32_t sge);

int measure_memory(int argc, char **argv);
int measure_regions(int argc, char **argv);
int measure_messages(int argc, char **argv);
int measure_limits(int argc, char **argv);

#endif
