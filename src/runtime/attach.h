/* Attaching this process to weftd. */
#ifndef WEFT_RUNTIME_ATTACH_H
#define WEFT_RUNTIME_ATTACH_H

struct config;
struct host;
/* NULL with *err = -errno. Blocks. config: borrowed. */
struct host *host_attach(const struct config *config, int *err);
/* As host_close, when it is in no list any more. */
void host_detach(struct host *h);

#endif
