/* The C ABI of plugins: what a shared object exports to run a handler's jobs, and what it is given for it.
 * C99. C++ plugins include core/plugin_cxx.h, which is written over this.
 *
 * A plugin exports one function, locksley_plugin_entry, which returns its description: a locksley_plugin that
 * stays valid and unchanged as long as the process lives. It links against nothing of Locksley: all that it
 * may ask of its host comes as pointers to functions, by way of each locksley_context.
 *
 * Versions. `abi` and `size` are the first members of each table for ever. The number changes when an old
 * plugin could not run any more; then it is refused at the start, with both numbers. Tables grow at their
 * ends only, and `size` says how far a table reaches: use a member that version 1 of the ABI did not have
 * from its beginning only where LOCKSLEY_HAS(table, member).
 *
 * Memory. Texts are bytes with a length, not ended by a zero. Who passes one keeps it, and it must last for
 * the call only; one that is returned by the host lasts as long as the context that it was asked of. Nobody
 * frees what the other has allocated.
 *
 * Threads. The host calls `run` from any of its threads, from many at once, and `init` and `teardown` from
 * one, before the first job and after the last. A context belongs to the thread that it was handed to, until
 * the function that it was handed to returns; so does a group. Where more is allowed, the function says so.
 *
 * Processes. A handler with `isolate` in its configuration has processes for its jobs, each with an `init`
 * and a `teardown` of its own and a thread that runs one job at a time; that the host can start is found out
 * by a process which does nothing else. There sub-jobs and loops run on that thread too; jobs are stopped by
 * ending the process, so `stop_reason` says LOCKSLEY_GO_ON and `time_left` -1; `attempt` is 1, `tenant` and
 * `trace` are nothing; standard input is empty, and what is printed to standard output goes to the host's
 * log.
 *
 * Errors. No exception may leave a function, in either direction, nor a longjmp. Functions return
 * LOCKSLEY_OK, or something else after telling the text to `fail`.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LOCKSLEY_PLUGIN_ABI 1u

/* Whether a table has a member, given that it was written by somebody with an older header perhaps. */
#define LOCKSLEY_HAS(table, member) \
  ((table)->size >= (size_t)((const char*)(&(table)->member + 1) - (const char*)(table)))

typedef struct locksley_text {
  const char* data; /* may be null if size is 0 */
  size_t size;
} locksley_text;

/* What functions return. */
enum {
  LOCKSLEY_OK = 0,
  LOCKSLEY_FAILED = 1, /* and any number that is not listed here */
  LOCKSLEY_GAVE_UP = 2 /* of `run`: it ended early because it was asked to stop */
};

/* Why a job should stop. */
enum { LOCKSLEY_GO_ON = 0, LOCKSLEY_CANCELLED = 1, LOCKSLEY_TIMED_OUT = 2 };

/* Bytes of a sub-job's argument. */
enum { LOCKSLEY_MOST_ARGUMENT = 64 };

typedef struct locksley_host locksley_host;

/* The place of some code on a thread of the host: for which job it runs, and where. More of the host's own
 * follows. */
typedef struct locksley_context {
  const locksley_host* host;
} locksley_context;

/* Sub-jobs that are waited for together. The plugin provides the memory, usually on its stack, and looks at
 * nothing in it. */
typedef struct locksley_group {
  void* of_the_host[16];
} locksley_group;

/* A sub-job. `argument`: a copy of the bytes given to `spawn`, aligned to 16; the sub-job's own. */
typedef int32_t (*locksley_task)(locksley_context* context, void* argument);
/* A piece of a loop: the indexes from low to high - 1. `argument` as given to `parallel_for`, the same for
 * all. */
typedef int32_t (*locksley_body)(locksley_context* context, void* argument, uint64_t low, uint64_t high);

/* What the host does for a plugin. Contexts are those of jobs, sub-jobs and pieces of loops. */
struct locksley_host {
  uint32_t abi;
  uint32_t size;

  /* The job's place in its batch; 1, or more if it may have been run before, in whole or in part; the ids of
   * its batch and tenant; the W3C trace context that its submitter gave, or nothing. */
  uint64_t (*index)(const locksley_context* context);
  uint32_t (*attempt)(const locksley_context* context);
  locksley_text (*batch_id)(const locksley_context* context);
  locksley_text (*tenant)(const locksley_context* context);
  locksley_text (*trace)(const locksley_context* context);

  /* Whether the job should stop, and why. Some nanoseconds; with a time limit, some tens. Long jobs look now
   * and then, return from everything, and `run` returns LOCKSLEY_GAVE_UP. Any thread may ask while `run` has
   * not returned. */
  int32_t (*stop_reason)(const locksley_context* context);
  /* Nanoseconds until the job's time is up, not below 0; -1: it has no limit. */
  int64_t (*time_left)(const locksley_context* context);
  /* Holds the thread so many nanoseconds, or until the job should stop. */
  void (*sleep)(const locksley_context* context, uint64_t nanoseconds);

  /* Appends to the job's output. In the context of `run` only. */
  int32_t (*write)(locksley_context* context, locksley_text bytes);
  /* Says why the function that the context was handed to is about to return LOCKSLEY_FAILED, which is also
   * what it returns. The last call counts. From `run` it is the text of the job's error. From a sub-job or a
   * piece of a loop it passes to the context that waits for it, where it counts as if it had been said there.
   */
  int32_t (*fail)(locksley_context* context, locksley_text why);
  /* What `fail` was last told here, by the plugin or by a function of this table that failed. Valid until the
   * next failure. */
  locksley_text (*failure)(const locksley_context* context);

  /* A group begins, lets sub-jobs be spawned and waited for as often as one likes, and ends, which waits once
   * more. A function must have ended its groups when it returns. */
  void (*group_begin)(locksley_context* context, locksley_group* group);
  void (*group_end)(locksley_group* group);
  /* Queues a sub-job of this job for this thread: run by `wait`, last in first out, unless another thread
   * takes it before, oldest first. The `size` bytes of the argument, at most LOCKSLEY_MOST_ARGUMENT, are
   * copied. If it fails, nothing was queued; else the sub-job will run, also when the job should stop. */
  int32_t (*spawn)(locksley_group* group, locksley_task task, const void* argument, size_t size);
  /* Runs sub-jobs until all of the group have ended. Fails if one of them did, with the text of the first. */
  int32_t (*wait)(locksley_group* group);

  /* Runs body for pieces that together are the indexes from low to high - 1, here and on whatever threads
   * have nothing better to do, and returns when all are done. A piece is at most `grain` long; 0 lets the
   * host choose. If a piece fails, or the job should stop, the rest is dropped; in the first case the loop
   * fails, with that piece's text. */
  int32_t (*parallel_for)(locksley_context* context, uint64_t low, uint64_t high, uint64_t grain,
                          locksley_body body, void* argument);
};

/* What `init` is given; valid until it returns. */
typedef struct locksley_setup locksley_setup;
struct locksley_setup {
  uint32_t abi;
  uint32_t size;
  locksley_text handler; /* the name in the configuration: one plugin may serve several handlers */
  /* Says why `init` is about to return LOCKSLEY_FAILED, which is also what it returns. */
  int32_t (*fail)(locksley_setup* setup, locksley_text why);
};

/* What a plugin is. Constant. */
typedef struct locksley_plugin {
  uint32_t abi;  /* LOCKSLEY_PLUGIN_ABI */
  uint32_t size; /* sizeof(locksley_plugin) */
  locksley_text name;
  locksley_text description; /* a line, for people */
  /* Once for each handler that names this plugin. What it leaves in *state is passed to the others. Null:
   * nothing to prepare. If it fails, the host does not start, and `teardown` is not called. */
  int32_t (*init)(locksley_setup* setup, void** state);
  /* When no job will come any more. The plugin's own threads must have ended when it returns. It is not
   * called when the process has to end before its jobs have. A process of a handler with `isolate` has the
   * handler's `grace` for it, and 2 s at most when the host ends. May be null. */
  void (*teardown)(void* state);
  /* Runs one job. The payload is valid until it returns. */
  int32_t (*run)(void* state, locksley_context* context, locksley_text payload);
} locksley_plugin;

#if defined(_WIN32)
#define LOCKSLEY_PLUGIN_EXPORT __declspec(dllexport)
#else
#define LOCKSLEY_PLUGIN_EXPORT __attribute__((visibility("default")))
#endif

/* What a plugin defines. A host finds it by name. */
LOCKSLEY_PLUGIN_EXPORT const locksley_plugin* locksley_plugin_entry(void);

#ifdef __cplusplus
}
#endif
