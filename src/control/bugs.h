/* Failed internal checks (weft_bug_on) told to who looks for them: WEFT_BUGS names a file that gets a line for each, from every
 * process of weft, weftd and the commands among them. */
#ifndef WEFT_CONTROL_BUGS_H
#define WEFT_CONTROL_BUGS_H

/* From now on this process's failed checks are appended to the file. Without WEFT_BUGS nothing happens, nor in a program that
 * runs with other rights than its caller's. Call it once, before threads. */
void bugs_to_file(void);

#endif
