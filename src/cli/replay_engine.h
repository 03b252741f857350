/* One process's transport engine, run again from its trace: an adapter without a program. What it says must be what was
 * recorded, but for the payload, which a trace does not know before it leaves. */
#ifndef WEFT_CLI_REPLAY_ENGINE_H
#define WEFT_CLI_REPLAY_ENGINE_H

#include "impair/trace.h"

struct replay_engine;

/* With the devices that the process had. NULL: -ENOMEM, or -EPROTONOSUPPORT of a protocol that this weft does not know. */
struct replay_engine *replay_engine_new(const struct trace_process *process, int *err);
void replay_engine_delete(struct replay_engine *e);

enum replay_end { REPLAY_NOT_OURS, REPLAY_SAME, REPLAY_DIFFERS };

/* An entry into the engine: records of its own kinds. DIFFERS with a reason of at most `room` bytes. */
enum replay_end replay_engine_enter(struct replay_engine *e, const struct trace_record *r, char *why, size_t room);
/* A frame that arrived. */
enum replay_end replay_engine_input(struct replay_engine *e, const struct trace_record *r, char *why, size_t room);
/* A frame that was sent: the engine must make it now. */
enum replay_end replay_engine_output(struct replay_engine *e, const struct trace_record *r, char *why, size_t room);

#endif
