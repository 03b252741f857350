/* A network of a command's own: a runtime directory that nobody else uses, below a directory that is made for it and removed
 * with it. Its maker holds a lock on that directory, so that what a killed maker left can be told from what is in use. */
#ifndef WEFT_CLI_OWN_NETWORK_H
#define WEFT_CLI_OWN_NETWORK_H

struct own_network {
	char path[64];
	int lock;	/* owned; children of fork hold it too */
};

/* Makes the directory and names the network in WEFT_DIR. EXIT_OK, or EXIT_FAILED with a message. */
int own_network_make(struct own_network *n);

/* Ends the weftd that serves it and removes both directories, unless somebody put something else there, which is told. May be
 * called again by another process that has the lock. */
void own_network_remove(struct own_network *n);

/* Removes what was left by makers that were killed, and tells of what cannot be removed as programs still use it. Changes
 * WEFT_DIR. */
void own_network_sweep(void);

#endif
