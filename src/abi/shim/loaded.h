/* Which libibverbs the process has beside weft's. The distribution's finds no device in weft's tree, for it has no provider for
 * them; a program that opens it by a path would see nothing and be told nothing. */
#ifndef WEFT_ABI_SHIM_LOADED_H
#define WEFT_ABI_SHIM_LOADED_H

/* To be called when the process looks for verbs devices: says on the standard error, once, that another libibverbs is loaded.
 * Keeps errno. */
void loaded_check(void);

#endif
