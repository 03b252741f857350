/* Attaching this process to weftd. */
#ifndef WEFT_RUNTIME_ATTACH_H
#define WEFT_RUNTIME_ATTACH_H

struct config;
struct runtime;
/* NULL with *err = -errno. Blocks. config: borrowed. */
struct runtime *runtime_attach(const struct config *config, int *err);
/* As runtime_close, when it is in no list any more. */
void runtime_detach(struct runtime *rt);

#endif
